//! Cold replay of a whole ledger on several cores.
//!
//! Reading a line to a typed record needs nothing of any other line, and takes more than two thirds of a replay. So
//! helpers read runs of lines ahead, and one thread applies the records in order. The result is that of the pure
//! [`crate::engine::replay()`], which also reads every ledger that is not canonical, valid and in causal order, and names its fault.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::engine::Projection;
use crate::engine::replay::OnePass;
use crate::protocol::commit::Commit;
use crate::protocol::json::Scanner;
use crate::protocol::ledger_text::{LedgerFault, LedgerText};

/// Most threads, the applying one included: it keeps no more than three readers busy.
const MOST_THREADS: usize = 4;
/// Ledgers of fewer bytes are replayed before helpers have begun.
const LEAST_BYTES: usize = 1 << 20;
/// Bytes of ledger in one run.
const RUN_BYTES: usize = 128 << 10;
/// A run of more bytes is one long line, whose index can take several times as much: no more than one is read at once.
const LONG_BYTES: usize = 1 << 20;

/// Replays a whole ledger from genesis, as [`crate::engine::replay()`] does, with as many threads as the machine has
/// cores, four at most. A small ledger is replayed by the calling thread alone.
///
/// # Errors
/// As [`crate::engine::replay()`].
pub fn replay(text: &LedgerText, scanner: &mut Scanner) -> Result<Projection, LedgerFault> {
    let cores = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    if text.as_str().len() < LEAST_BYTES {
        crate::engine::replay(text, scanner)
    } else {
        replay_with(text, scanner, cores)
    }
}

/// As [`replay`], with a given number of threads, whatever the ledger's size.
///
/// # Errors
/// As [`crate::engine::replay()`].
pub fn replay_with(text: &LedgerText, scanner: &mut Scanner, threads: usize) -> Result<Projection, LedgerFault> {
    if threads < 2 {
        return crate::engine::replay(text, scanner);
    }
    match on_threads(text, scanner, threads) {
        Some(projection) => Ok(projection),
        None => crate::engine::replay(text, scanner),
    }
}

fn on_threads(text: &LedgerText, scanner: &mut Scanner, threads: usize) -> Option<Projection> {
    let readers = Readers::new(text, threads);
    let host = scanner.host().to_owned();
    thread::scope(|scope| {
        let _end = StopOnDrop(&readers);
        for _ in 1..threads {
            let help = || {
                let _end = StopOnPanic(&readers);
                readers.help(&mut Scanner::strict(&host));
            };
            // Without a helper the calling thread reads what the helper would have.
            let _ = thread::Builder::new().name("reader".to_owned()).spawn_scoped(scope, help);
        }
        readers.apply(&mut Scanner::strict(&host), scanner)
    })
}

/// What the threads share: the runs of the ledger, and how far each has come.
struct Readers<'a> {
    text: &'a LedgerText,
    runs: Vec<Range<usize>>,
    /// How many runs may be read before they are applied, which bounds what lies in memory.
    ahead: usize,
    progress: Mutex<Progress>,
    /// The run that the applying thread waits for was read.
    ready: Condvar,
    /// Runs were applied, so more may be read.
    room: Condvar,
}

struct Progress {
    /// First run that nobody reads or has read.
    next: usize,
    /// Runs taken for applying.
    applied: usize,
    /// What was read and not applied, by run; none inside for a run with a line that is refused.
    read: Vec<Option<Option<Vec<Commit>>>>,
    /// The run that the applying thread waits for.
    awaited: Option<usize>,
    /// Helpers that wait for room.
    idle: usize,
    stopped: bool,
}

fn wait<'p>(moved: &Condvar, progress: MutexGuard<'p, Progress>) -> MutexGuard<'p, Progress> {
    moved.wait(progress).unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Readers<'a> {
    fn new(text: &'a LedgerText, threads: usize) -> Self {
        let runs = text.runs(RUN_BYTES);
        let read = runs.iter().map(|_| None).collect();
        let progress = Mutex::new(Progress { next: 0, applied: 0, read, awaited: None, idle: 0, stopped: false });
        Self { text, runs, ahead: 2 * threads + 2, progress, ready: Condvar::new(), room: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        // Nothing is left half done under the lock.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.lock().stopped = true;
        self.ready.notify_all();
        self.room.notify_all();
    }

    /// Takes the next run that may be read now. Long ones are left to the applying thread.
    fn claim(&self, progress: &mut Progress, helper: bool) -> Option<usize> {
        let run = progress.next;
        let long = self.runs.get(run).is_some_and(|lines| self.text.extent(lines) > LONG_BYTES);
        let free = run < self.runs.len() && run < progress.applied + self.ahead && !(helper && long);
        if free && long {
            self.room.notify_all();
        }
        free.then(|| {
            progress.next += 1;
            run
        })
    }

    fn commits(&self, lines: Range<usize>, scanner: &mut Scanner) -> Option<Vec<Commit>> {
        let mut reader = self.text.reader_apart();
        let mut commits = Vec::with_capacity(lines.len());
        for line in lines {
            commits.push(reader.commit(scanner, line).ok()?);
        }
        Some(commits)
    }

    fn read(&self, run: usize, scanner: &mut Scanner) {
        let commits = self.commits(self.runs[run].clone(), scanner);
        let mut progress = self.lock();
        progress.read[run] = Some(commits);
        if progress.awaited == Some(run) {
            self.ready.notify_one();
        }
    }

    /// Reads runs until there are no more.
    fn help(&self, scanner: &mut Scanner) {
        loop {
            let mut progress = self.lock();
            let run = loop {
                if progress.stopped || progress.next == self.runs.len() {
                    return;
                }
                match self.claim(&mut progress, true) {
                    Some(run) => break run,
                    None => {
                        progress.idle += 1;
                        progress = wait(&self.room, progress);
                        progress.idle -= 1;
                    }
                }
            };
            drop(progress);
            self.read(run, scanner);
        }
    }

    /// Applies every run in order, and reads one whenever the next is not there yet.
    fn apply(&self, ahead: &mut Scanner, scanner: &mut Scanner) -> Option<Projection> {
        let mut pass = OnePass::over(self.text);
        for run in 0..self.runs.len() {
            for commit in self.take(run, ahead)? {
                pass.take(commit, scanner)?;
            }
        }
        Some(pass.end())
    }

    fn take(&self, run: usize, scanner: &mut Scanner) -> Option<Vec<Commit>> {
        let mut progress = self.lock();
        loop {
            if let Some(read) = progress.read[run].take() {
                progress.applied = run + 1;
                // Woken when half of what may lie ahead is used up, not for every single run.
                if progress.idle > 0 && progress.next <= progress.applied + self.ahead / 2 {
                    self.room.notify_all();
                }
                return read;
            }
            if progress.stopped {
                return None;
            }
            progress = match self.claim(&mut progress, false) {
                Some(other) => {
                    drop(progress);
                    self.read(other, scanner);
                    self.lock()
                }
                None => {
                    progress.awaited = Some(run);
                    progress = wait(&self.ready, progress);
                    progress.awaited = None;
                    progress
                }
            };
        }
    }
}

/// Sends the helpers home, however the applying thread ends.
struct StopOnDrop<'r, 'a>(&'r Readers<'a>);

impl Drop for StopOnDrop<'_, '_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Lets nobody wait for what a panicking helper would have read.
struct StopOnPanic<'r, 'a>(&'r Readers<'a>);

impl Drop for StopOnPanic<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}
