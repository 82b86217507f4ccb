//! A private bare object store, alive for one command (publication.md 1.5). Nothing persists in it: the remote branch
//! is the only authority, and the store is a copy of its objects and of what is about to be pushed.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once};

use gix::ObjectId;
use gix::objs::{Kind, Write as _};
use tempfile::TempDir;

use super::commit_object::RawCommit;
use super::error::{Class, LedgerError};
use crate::protocol::Code;
use crate::protocol::limits::MAX_COMMITS;

/// The reference that a fetch writes.
pub(super) const FETCHED: &str = "refs/work-queue/head";
/// How the directories of stores are named in the temporary directory.
const PREFIX: &str = "wq-store-";
/// The file whose lock says that a store's process is alive.
const LOCK: &str = "alive";
/// Its name until it is locked.
const PENDING: &str = "pending";
/// The repository's directory inside a store's.
const OBJECTS: &str = "objects.git";
/// How often a store's directory is made anew when another process removes it meanwhile.
const CREATIONS: usize = 16;
/// Largest commit object, in bytes.
const MAX_COMMIT_OBJECT: u64 = 1024 * 1024;

/// An isolated object store. Dropping it removes its directory.
pub struct Store {
    repository: gix::Repository,
    /// Commits whose complete history is known to be here.
    complete: RefCell<HashSet<ObjectId>>,
    /// How many objects were read.
    reads: Cell<u64>,
    // Declared last: the directory goes when nothing looks into it any more.
    directory: Registered,
}

impl Store {
    /// Makes an empty store in a new directory (mode 0700) of the temporary directory, and removes those that killed
    /// processes left behind.
    ///
    /// # Errors
    /// `io_failed`.
    pub fn new() -> Result<Self, LedgerError> {
        Self::in_directory(&std::env::temp_dir())
    }

    /// As [`Store::new`], in another directory.
    ///
    /// # Errors
    /// `io_failed`.
    pub fn in_directory(parent: &Path) -> Result<Self, LedgerError> {
        sweep(parent);
        let directory = Registered::new(parent)?;
        let path = directory.path().join(OBJECTS);
        fs::create_dir(&path).map_err(|cause| LedgerError::io("the object store could not be made", &cause))?;
        let options = gix::open::Options::isolated();
        let repository = gix::ThreadSafeRepository::init_opts(
            &path,
            gix::create::Kind::Bare,
            gix::create::Options::default(),
            options,
        )
        .map_err(|_| failed("the object store could not be made"))?
        .to_thread_local();
        Ok(Self { repository, complete: RefCell::default(), reads: Cell::new(0), directory })
    }

    /// The store's bare repository, for a transport.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.repository.git_dir()
    }

    /// The private directory that holds the repository.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// True when the complete history of a commit is here, so that it need not be fetched again.
    #[must_use]
    pub fn holds(&self, commit: ObjectId) -> bool {
        self.complete.borrow().contains(&commit)
    }

    /// How many objects were read so far, each time counted: the measure of what verification costs.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.reads.get()
    }

    /// Takes note of what a fetch brought: the commit that it wrote to its reference, whose history must be whole.
    ///
    /// # Errors
    /// `ledger_invalid` when the history is cut or is not one of commits.
    pub(super) fn fetched(&self) -> Result<ObjectId, LedgerError> {
        if self.repository.is_shallow().unwrap_or(true) {
            return Err(incomplete());
        }
        // From a repository with a cut history git fetches nothing, and calls that success.
        let id = self
            .repository
            .try_find_reference(FETCHED)
            .ok()
            .flatten()
            .and_then(|reference| reference.try_id().map(gix::Id::detach))
            .ok_or_else(incomplete)?;
        self.complete.borrow_mut().insert(id);
        Ok(id)
    }

    /// Takes note of a commit that was built here on a complete history (or on none).
    pub(super) fn built(&self, commit: ObjectId, parent: Option<ObjectId>) {
        if parent.is_none_or(|parent| self.holds(parent)) {
            self.complete.borrow_mut().insert(commit);
        }
    }

    /// Reads one object of an expected kind and at most `bound` bytes. Kind and size are checked before its content is
    /// read. Returns none when the size is over the bound.
    ///
    /// # Errors
    /// `ledger_invalid` when the object is missing or of another kind.
    pub(super) fn read(&self, id: ObjectId, kind: Kind, bound: u64) -> Result<Option<Vec<u8>>, LedgerError> {
        self.reads.set(self.reads.get() + 1);
        let header = self.repository.find_header(id).map_err(|_| incomplete())?;
        if header.kind() != kind {
            return Err(LedgerError::new(
                Code::LedgerInvalid,
                Class::Invalid,
                "an object of the queue branch is of the wrong kind",
                "Inspect the branch with `git fsck`; nothing was changed.",
            ));
        }
        if header.size() > bound {
            return Ok(None);
        }
        let object = self.repository.find_object(id).map_err(|_| incomplete())?;
        Ok(Some(object.detach().data))
    }

    /// Writes one object.
    ///
    /// # Errors
    /// `io_failed`.
    pub(super) fn write(&self, kind: Kind, bytes: &[u8]) -> Result<ObjectId, LedgerError> {
        self.repository.objects.write_buf(kind, bytes).map_err(|_| failed("an object could not be written"))
    }

    /// The id that a blob of these bytes has.
    ///
    /// # Errors
    /// `internal`: hashing in memory does not fail.
    pub(super) fn blob_id(bytes: &[u8]) -> Result<ObjectId, LedgerError> {
        gix::objs::compute_hash(gix::hash::Kind::Sha1, Kind::Blob, bytes)
            .map_err(|_| LedgerError::internal("a blob could not be hashed"))
    }

    /// Reads a commit's tree and parents from its header lines. Authors, dates and messages prove nothing and are not
    /// looked at.
    ///
    /// # Errors
    /// `ledger_invalid` when the commit is missing, too large or malformed.
    pub fn commit(&self, id: ObjectId) -> Result<RawCommit, LedgerError> {
        let bytes = self.read(id, Kind::Commit, MAX_COMMIT_OBJECT)?;
        bytes.as_deref().and_then(RawCommit::parse).ok_or_else(|| {
            LedgerError::new(
                Code::LedgerInvalid,
                Class::Invalid,
                "a commit of the queue branch is malformed",
                "Inspect the branch with `git fsck`; nothing was changed.",
            )
        })
    }

    /// True when `descendant` is `ancestor` or has it in its history. Looks at parents alone, nearest first.
    ///
    /// # Errors
    /// As [`Store::commit`]; `resource_limit` beyond a million commits.
    pub fn descends(&self, descendant: ObjectId, ancestor: ObjectId) -> Result<bool, LedgerError> {
        let mut seen = HashSet::from([descendant]);
        let mut queue = std::collections::VecDeque::from([descendant]);
        while let Some(id) = queue.pop_front() {
            if id == ancestor {
                return Ok(true);
            }
            if seen.len() > MAX_COMMITS {
                return Err(LedgerError::new(
                    Code::ResourceLimit,
                    Class::Invalid,
                    "the queue branch has more than a million commits",
                    "Continue on a fresh branch.",
                ));
            }
            for parent in self.commit(id)?.parents {
                if seen.insert(parent) {
                    queue.push_back(parent);
                }
            }
        }
        Ok(false)
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

fn failed(message: &'static str) -> LedgerError {
    LedgerError::new(
        Code::IoFailed,
        Class::Unavailable,
        message,
        "Check the temporary directory's space and permissions.",
    )
}

fn incomplete() -> LedgerError {
    LedgerError::new(
        Code::LedgerInvalid,
        Class::Invalid,
        "the queue branch's history is not complete",
        "Restore the missing objects, or name the complete repository; nothing was changed.",
    )
}

/// Directories of live stores, for the one exit on which nothing is dropped.
static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A directory of a store, its lock, and its entry in [`LIVE`].
struct Registered {
    directory: TempDir,
    _lock: File,
}

impl Registered {
    fn new(parent: &Path) -> Result<Self, LedgerError> {
        remove_on_abort();
        let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
        for _ in 0..CREATIONS {
            match Self::create(parent) {
                Ok(store) => return Ok(store),
                // Another process took the directory, which it saw without its lock, for a dead one's.
                Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => last = cause,
                Err(cause) => return Err(LedgerError::io("the object store could not be made", &cause)),
            }
        }
        Err(LedgerError::io("the object store could not be made", &last))
    }

    fn create(parent: &Path) -> std::io::Result<Self> {
        let private = fs::Permissions::from_mode(0o700);
        let directory = tempfile::Builder::new().prefix(PREFIX).permissions(private).tempdir_in(parent)?;
        // Locked before it gets its name: whoever sees the name sees the lock.
        let pending = directory.path().join(PENDING);
        let lock = File::create(&pending)?;
        lock.lock()?;
        fs::rename(&pending, directory.path().join(LOCK))?;
        if let Ok(mut live) = LIVE.lock() {
            live.push(directory.path().to_owned());
        }
        Ok(Self { directory, _lock: lock })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        discard(self.directory.path());
        if let Ok(mut live) = LIVE.lock() {
            live.retain(|path| path != self.directory.path());
        }
    }
}

/// Removes a store's directory, its lock last: wherever a kill or a git that still writes cuts this short, the next
/// sweep can tell what it finds.
fn discard(directory: &Path) {
    let objects = directory.join(OBJECTS);
    if !objects.exists() || fs::remove_dir_all(&objects).is_ok() {
        let _ = fs::remove_dir_all(directory);
    }
}

/// Where a panic ends the process without unwinding, the stores are removed from the panic hook instead.
fn remove_on_abort() {
    static HOOK: Once = Once::new();
    if cfg!(panic = "abort") {
        HOOK.call_once(|| {
            let previous = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                for path in LIVE.try_lock().map(|live| live.clone()).unwrap_or_default() {
                    discard(&path);
                }
                previous(info);
            }));
        });
    }
}

/// Removes the stores of processes that were killed. Their lock is free, under its last name or under its first, or
/// they never came to make one; or a git that outlived them made the directories of a removed store again, without a
/// lock. Failures do not matter; another user's directory cannot be opened, and a live one is locked. A process whose
/// directory is taken while it is being made makes another.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if !ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        // Asked first: a live process has its lock before it has this.
        let built = path.join(OBJECTS).exists();
        match File::open(path.join(LOCK)).or_else(|_| File::open(path.join(PENDING))) {
            Ok(lock) if lock.try_lock().is_ok() => discard(&path),
            Ok(_) => {}
            Err(cause) if built && cause.kind() == std::io::ErrorKind::NotFound => discard(&path),
            // Only an empty directory goes.
            Err(_) => drop(fs::remove_dir(&path)),
        }
    }
}
