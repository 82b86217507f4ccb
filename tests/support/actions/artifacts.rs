//! What `actions/upload-artifact` and `actions/download-artifact` do with files, between the jobs of one run.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Copies everything below a folder, links left out.
fn copy_all(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy_all(&path, &target);
        } else if kind.is_file() {
            fs::create_dir_all(to).unwrap();
            // A read-only file of an earlier download is replaced.
            let _ = fs::remove_file(&target);
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// The deepest folder that all paths share.
fn common(paths: &[PathBuf]) -> PathBuf {
    let mut shared: Vec<Component<'_>> = paths[0].components().collect();
    for path in paths {
        let same = shared.iter().zip(path.components()).take_while(|(one, other)| **one == *other).count();
        shared.truncate(same);
    }
    shared.iter().collect()
}

/// Uploads; false if there is nothing and that is an error.
pub(super) fn upload(store: &Path, name: &str, paths: &[PathBuf], missing: &str) -> bool {
    let present: Vec<&PathBuf> = paths.iter().filter(|path| path.exists()).collect();
    if present.is_empty() {
        return missing != "error";
    }
    let root = match paths {
        [single] if single.is_file() => single.parent().unwrap().to_owned(),
        [single] => single.clone(),
        several => common(several),
    };
    let target = store.join(name);
    // A later attempt replaces what an earlier one uploaded.
    let _ = fs::remove_dir_all(&target);
    for path in present {
        let inside = target.join(path.strip_prefix(&root).unwrap());
        if path.is_dir() {
            copy_all(path, &inside);
        } else {
            fs::create_dir_all(inside.parent().unwrap()).unwrap();
            fs::copy(path, &inside).unwrap();
        }
    }
    true
}

/// Downloads one artifact by name; false if there is none.
pub(super) fn download(store: &Path, name: &str, to: &Path) -> bool {
    let found = store.join(name).is_dir();
    fs::create_dir_all(to).unwrap();
    copy_all(&store.join(name), to);
    found
}

/// Downloads every artifact that a pattern such as `{agent,agent-output-fallback}` names, merged.
pub(super) fn download_matching(store: &Path, pattern: &str, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let inside = pattern.trim_start_matches('{').trim_end_matches('}');
    for name in inside.split(',') {
        copy_all(&store.join(name), to);
    }
}
