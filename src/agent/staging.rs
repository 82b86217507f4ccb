//! A file of staged intents, opened for one more line (jobs.md 4.10). What is judged is what is written to: type, names,
//! size and content come from one descriptor, which is locked meanwhile.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, fchmod, flock, fstat, ftruncate, open};

use super::intent::{Intent, IntentKind, MAX_INTENT_BYTES, MAX_INTENT_LINES, lines, parse_batch};
use crate::protocol::fault::ensure;
use crate::protocol::json::Scanner;
use crate::protocol::{Code, Fault};

/// A plain file that was read whole and may take another line.
pub(super) struct StagedFile {
    file: File,
    bytes: Vec<u8>,
}

fn unwritable() -> Fault {
    Fault::new(Code::IoFailed, "the file of staged intents could not be opened or written")
}

impl StagedFile {
    /// Opens or creates the file, and its folders.
    ///
    /// # Errors
    /// `work_queue_intent_limit` for what is no plain file with one name, or has more than 4 MiB; `io_failed` where the system
    /// refuses, and while another process stages.
    pub(super) fn open(path: &Path) -> Result<Self, Fault> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|_| unwritable())?;
        }
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::APPEND
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::NOCTTY
            | OFlags::CLOEXEC;
        let not_plain =
            || Fault::new(Code::WorkQueueIntentLimit, "the file of staged intents is no plain file with one name");
        let file = match open(path, flags, Mode::from_raw_mode(0o644)) {
            Ok(descriptor) => File::from(descriptor),
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::ISDIR | rustix::io::Errno::NXIO) => {
                return Err(not_plain());
            }
            Err(_) => return Err(unwritable()),
        };
        // A file system without locks has none to offer; what it holds is checked all the same.
        let busy = flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK);
        ensure!(!busy, IoFailed, "another process stages an intent at this moment; call again");
        let status = fstat(&file).map_err(|_| unwritable())?;
        let plain = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile && status.st_nlink == 1;
        ensure!(plain, WorkQueueIntentLimit, "the file of staged intents is no plain file with one name");
        if status.st_size == 0 {
            // The collector may be another user, whatever this process's mask is. An owner of a foreign file cannot tell
            // us so, and then the file is theirs to open.
            let _ = fchmod(&file, Mode::from_raw_mode(0o644));
        }
        let mut bytes = Vec::new();
        (&file).take(MAX_INTENT_BYTES + 1).read_to_end(&mut bytes).map_err(|_| unwritable())?;
        ensure!(
            bytes.len() as u64 <= MAX_INTENT_BYTES,
            WorkQueueIntentLimit,
            "the file of staged intents has more than 4 MiB"
        );
        Ok(Self { file, bytes })
    }

    /// What the file holds.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The intents that it holds, which must be whole, unambiguous and of its kind.
    ///
    /// # Errors
    /// `work_queue_intent_limit`, `work_queue_intent_transport_invalid`, `work_queue_intent_invalid` or
    /// `work_queue_intent_conflict`.
    pub(super) fn check(&self, finishes: bool, scanner: &mut Scanner) -> Result<Vec<Intent>, Fault> {
        let batch = parse_batch(&self.bytes, scanner)?;
        if let Some(error) = batch.errors.first() {
            return Err(Fault::new(error.code, "the file of staged intents holds a line that is not ours"));
        }
        let own = batch.intents.iter().all(|intent| (intent.kind == IntentKind::Finish) == finishes);
        ensure!(
            own,
            WorkQueueIntentInvalid,
            "the file of staged intents holds an intent that belongs into the other one"
        );
        Ok(batch.intents)
    }

    /// Adds one line.
    ///
    /// # Errors
    /// `work_queue_intent_limit` for the 257th line and beyond 4 MiB; `io_failed`, with the file as it was.
    pub(super) fn append(&mut self, line: &str) -> Result<(), Fault> {
        let whole = self.bytes.is_empty() || self.bytes.ends_with(b"\n");
        let text = format!("{}{line}\n", if whole { "" } else { "\n" });
        let size = self.bytes.len() + text.len();
        ensure!(size as u64 <= MAX_INTENT_BYTES, WorkQueueIntentLimit, "the staged intents would have more than 4 MiB");
        let count = lines(&self.bytes)?.len() + 1;
        ensure!(count <= MAX_INTENT_LINES, WorkQueueIntentLimit, "256 intents are staged already");
        self.file.write_all(text.as_bytes()).map_err(|_| {
            // Half a line would spoil the whole file.
            let _ = ftruncate(&self.file, self.bytes.len() as u64);
            unwritable()
        })
    }
}
