//! Taking staged intents out of the agent's reach (jobs.md 4.12; decision 76): two files, copied byte for byte or refused.
//! Nothing is parsed, repaired or published.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, open, statat, unlink};
use rustix::io::Errno;

use super::file::{Refused, read_bounded};
use super::intent::{MAX_INTENT_BYTES, MAX_INTENT_LINES};
use crate::protocol::json::Writer;

/// The files, in their order. Whatever else is there is left alone.
pub const COLLECTED: [&str; 2] = ["work-queue.intents.jsonl", "work-queue.finish.jsonl"];

/// What became of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collected {
    /// Its name.
    pub name: &'static str,
    /// Why it was rejected; none if it was collected.
    pub rejected: Option<&'static str>,
}

/// Copies both files from one folder to another. A missing one yields no entry; one that is rejected stops not the other,
/// and nothing is left at its destination.
#[must_use]
pub fn collect(source: &Path, destination: &Path) -> Vec<Collected> {
    let each = |name: &'static str| match copy(&source.join(name), destination, name) {
        Ok(false) => None,
        Ok(true) => Some(Collected { name, rejected: None }),
        Err(reason) => Some(Collected { name, rejected: Some(reason) }),
    };
    COLLECTED.into_iter().filter_map(each).collect()
}

/// One object that says what became of the files.
#[must_use]
pub fn describe(files: &[Collected]) -> String {
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("files", |w| {
            w.array(files, |w, file| {
                w.object(|members| {
                    members.name("name", |w| w.string(file.name));
                    if let Some(reason) = file.rejected {
                        members.name("reason", |w| w.string(reason));
                    }
                    members
                        .name("status", |w| w.string(if file.rejected.is_some() { "rejected" } else { "collected" }));
                });
            });
        });
    });
    writer.finish()
}

/// Copies one file. False if there is none; otherwise why it was not copied.
fn copy(source: &Path, folder: &Path, name: &str) -> Result<bool, &'static str> {
    let destination = folder.join(name);
    clear(&destination)?;
    let bytes = match read_bounded(source, MAX_INTENT_BYTES) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(false),
        Err(Refused::NotPlain) => return Err("source_not_plain"),
        Err(Refused::TooLong) => return Err("source_too_long"),
        Err(Refused::Unreadable) => return Err("source_unreadable"),
    };
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
    if lines > MAX_INTENT_LINES {
        return Err("source_too_many_lines");
    }
    let failed = |_| "destination_unwritable";
    std::fs::create_dir_all(folder).map_err(|_| "destination_unwritable")?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let descriptor = open(&destination, flags, Mode::from_raw_mode(0o644)).map_err(failed)?;
    if File::from(descriptor).write_all(&bytes).is_err() {
        // Half a file must not pass for a collected one.
        let _ = unlink(&destination);
        return Err("destination_unwritable");
    }
    Ok(true)
}

/// Removes what stands at a destination, but for a folder; what was no plain file with one name is refused all the same.
fn clear(destination: &Path) -> Result<(), &'static str> {
    let status = match statat(rustix::fs::CWD, destination, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(status) => status,
        Err(Errno::NOENT) => return Ok(()),
        Err(_) => return Err("destination_unwritable"),
    };
    let kind = FileType::from_raw_mode(status.st_mode);
    if kind == FileType::Directory {
        return Err("destination_not_plain");
    }
    unlink(destination).map_err(|_| "destination_unwritable")?;
    // What stood there was somebody's trick. It is gone, so that no later step takes it for what was collected.
    if kind != FileType::RegularFile || status.st_nlink > 1 { Err("destination_not_plain") } else { Ok(()) }
}
