//! Contract stamps again, after a source was edited (publication.md 4.4; decision 32).

use std::path::Path;

use super::files::Written;
use crate::cli::Failure;
use crate::cli::doctor::local;
use crate::launch::route::{CONTRACT_VARIABLE, LockFile, WORKFLOWS};
use crate::protocol::{Code, Digest};

/// Corrects the stamps of the workers that `wq init` wrote under a root, and returns the files that it changed.
pub(super) fn run(root: &Path) -> Result<Vec<Written>, Failure> {
    let mut written = Vec::new();
    for (name, source, lock) in local::pairs(root)? {
        if !source.is_worker() || !lock.starts_with(local::OURS) {
            continue;
        }
        let Some(stamp) = local::computed(root, &source) else {
            return Err(Failure::usage(
                "a worker imports a file that is not in this repository, so its stamp cannot be computed",
                "Import files of this repository alone, or let a compiler write the stamp.",
            ));
        };
        let Some(text) = stamped(&lock, &stamp) else { continue };
        let path = format!("{WORKFLOWS}/{name}.lock.yml");
        std::fs::write(root.join(&path), &text).map_err(|_| {
            Failure::new(Code::IoFailed, "a file could not be written", "Make it writable and run the command again.")
        })?;
        written.push(Written { path, text });
    }
    Ok(written)
}

/// The compiled file with this stamp wherever it had one; none if it has it already.
fn stamped(lock: &str, stamp: &Digest) -> Option<String> {
    if LockFile::read(lock.as_bytes()).and_then(|lock| lock.contract()).as_ref() == Ok(stamp) {
        return None;
    }
    let mut out = String::new();
    for line in lock.split_inclusive('\n') {
        match line.split_once(':') {
            Some((name, _)) if name.trim() == CONTRACT_VARIABLE => {
                out.push_str(&format!("{name}: \"{}\"\n", stamp.as_str()));
            }
            _ => out.push_str(line),
        }
    }
    Some(out)
}
