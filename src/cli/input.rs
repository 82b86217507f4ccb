//! Reading local files within bounds: never more bytes than allowed, never a wait without an end.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use super::Failure;
use crate::protocol::Code;

/// Longest submission or Policy file, in bytes.
pub(crate) const MAX_INPUT_BYTES: usize = 4 * 1024 * 1024;

/// How long a pipe or device that was named as a file may take to give everything.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a file was not read.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It holds more than the bound.
    TooLong,
    /// It could not be opened or read.
    Unreadable(Failure),
}

/// Reads a file, or standard input for `-`, of at most `bound` bytes.
pub(crate) fn read(path: &Path, bound: usize) -> Result<Vec<u8>, Refused> {
    if path == Path::new("-") {
        return take(std::io::stdin().lock(), bound);
    }
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(&error))?;
    if metadata.is_dir() {
        return Err(unreadable(&ErrorKind::IsADirectory.into()));
    }
    if metadata.is_file() {
        return regular(path, &metadata, bound);
    }
    // Opening a pipe waits for its writer and reading one for its words, so both happen where waiting can be ended.
    let (sender, receiver) = mpsc::channel();
    let named: PathBuf = path.to_owned();
    std::thread::spawn(move || {
        let read = File::open(named).map_err(|error| unreadable(&error)).and_then(|file| take(file, bound));
        // The receiver is gone once patience has ended.
        let _ = sender.send(read);
    });
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(unreadable(&ErrorKind::TimedOut.into())))
}

fn regular(path: &Path, metadata: &Metadata, bound: usize) -> Result<Vec<u8>, Refused> {
    if metadata.len() > bound as u64 {
        return Err(Refused::TooLong);
    }
    take(File::open(path).map_err(|error| unreadable(&error))?, bound)
}

fn take(source: impl Read, bound: usize) -> Result<Vec<u8>, Refused> {
    let mut bytes = Vec::new();
    source.take(bound as u64 + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    if bytes.len() > bound { Err(Refused::TooLong) } else { Ok(bytes) }
}

fn unreadable(error: &std::io::Error) -> Refused {
    Refused::Unreadable(Failure::new(
        Code::IoFailed,
        format!("the input file could not be read ({})", error.kind()),
        "Name an existing, readable file, or - for standard input.",
    ))
}

/// Reads a submission or Policy file as text.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    let refused = |code: Code, message: &'static str| {
        Failure::input(&crate::protocol::Fault::new(code, message), "the input file")
    };
    let bytes = match read(path, MAX_INPUT_BYTES) {
        Ok(bytes) => bytes,
        Err(Refused::TooLong) => return Err(refused(Code::ResourceLimit, "longer than 4 MiB")),
        Err(Refused::Unreadable(failure)) => return Err(failure),
    };
    String::from_utf8(bytes).map_err(|_| refused(Code::InvalidUtf8, "not UTF-8"))
}
