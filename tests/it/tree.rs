//! Reads the repository's own files, for tests about the code and its documents.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The conformance data and the requirement tables beside the repository, where they were checked out.
pub(crate) fn shared() -> Option<PathBuf> {
    let folder = root().parent()?.join("shared");
    folder.is_dir().then_some(folder)
}

/// Every file under `folder` with this extension: its path relative to the root, with `/`, and its text; in order
/// of paths. A folder that does not exist has none.
pub(crate) fn files(folder: &str, extension: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(&root().join(folder), extension, &mut found);
    found.sort();
    found
}

fn collect(folder: &Path, extension: &str, found: &mut Vec<(String, String)>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, extension, found);
        } else if path.extension().is_some_and(|found| found == extension) {
            let relative = path.strip_prefix(root()).unwrap();
            let name =
                relative.components().map(|part| part.as_os_str().to_str().unwrap()).collect::<Vec<_>>().join("/");
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Fails unless the file `name` holds exactly `text`. With `WQ_UPDATE_DOCS=1` in the environment it is written
/// instead.
pub(crate) fn keep_in_step(name: &str, text: &str) {
    let path = root().join(name);
    if std::env::var_os("WQ_UPDATE_DOCS").is_some_and(|value| value == "1") {
        fs::write(&path, text).unwrap();
        return;
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    if committed == text {
        return;
    }
    let (old, new) = (committed.lines(), text.lines());
    let line = old.clone().zip(new.clone()).take_while(|(old, new)| old == new).count();
    let show = |text: Option<&str>| text.unwrap_or("(end of file)").to_owned();
    panic!(
        "{name} is out of date from line {}:\n  committed: {}\n  generated: {}\nRun `WQ_UPDATE_DOCS=1 cargo test --test it in_step` and commit the result.",
        line + 1,
        show(old.clone().nth(line)),
        show(new.clone().nth(line)),
    );
}
