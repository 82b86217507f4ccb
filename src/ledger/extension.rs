//! Incremental replay: a known chain and what a longer ledger adds to it (engine.md 3.14).

use std::thread;

use crate::engine::Projection;
use crate::protocol::commit::Commit;
use crate::protocol::json::Scanner;
use crate::protocol::limits::{MAX_COMMIT_BYTES, MAX_LEDGER_BYTES};
use crate::protocol::{Opaque, Text};

/// Most threads that compare a ledger with what is known of it: two read as fast as memory gives.
const MOST_THREADS: usize = 4;
/// Bytes below which another thread begins later than one is done.
const BYTES_A_THREAD: usize = 4 << 20;

/// Applies what `ledger` adds to the chain of a projection, if it begins with that chain, byte for byte, and goes on
/// with its next commits in causal order. Each new line is copied, so that a few of them do not keep a whole second
/// ledger in memory.
///
/// # Errors
/// The chain that was known, for any other ledger: a full replay tells what that is.
pub fn extend(projection: Projection, ledger: &[u8], scanner: &mut Scanner) -> Result<Projection, Vec<Opaque>> {
    let known: Vec<&Opaque> = projection.active().collect();
    let Some((head, rest)) = split_behind(&known, ledger) else {
        return Err(known.into_iter().cloned().collect());
    };
    drop(known);
    let rest = Some(rest).filter(|_| ledger.len() <= MAX_LEDGER_BYTES);
    rest.and_then(|rest| append(projection, rest, scanner)).ok_or_else(|| lines(head))
}

fn append(mut projection: Projection, rest: &[u8], scanner: &mut Scanner) -> Option<Projection> {
    for line in std::str::from_utf8(rest).ok()?.split_inclusive('\n') {
        let line = Text::from(line.strip_suffix('\n').filter(|line| line.len() <= MAX_COMMIT_BYTES)?);
        let commit = Commit::read(scanner, &line).ok()?;
        if commit.previous.as_ref() != projection.tip() || projection.knows_commit(&commit.id) {
            return None;
        }
        projection = projection.apply(commit).ok()?;
    }
    Some(projection)
}

/// The known lines again, from bytes that were proved to be these; the projection that held them is used up.
fn lines(head: &[u8]) -> Vec<Opaque> {
    let whole = Text::from(String::from_utf8_lossy(head).into_owned());
    let mut start = 0;
    let line = |line: &str| {
        let end = start + line.len();
        let text = whole.part(start as u32, end as u32);
        start = end + 1;
        Opaque::checked(text)
    };
    whole.as_str().split_terminator('\n').map(line).collect()
}

/// Splits a ledger that begins with the known lines behind them; none for another.
fn split_behind<'a>(known: &[&Opaque], ledger: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (head, rest) = ledger.split_at_checked(extent(known))?;
    let cores = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let threads = cores.min(head.len() / BYTES_A_THREAD).max(1);
    let part = known.len().div_ceil(threads).max(1);
    let same = thread::scope(|scope| {
        let mut parts = known.chunks(part);
        let first = parts.next().unwrap_or_default();
        let (own, mut behind) = head.split_at(extent(first));
        let mut others = Vec::with_capacity(threads);
        for part in parts {
            let bytes;
            (bytes, behind) = behind.split_at(extent(part));
            // Where no thread is to be had, the lines are compared here.
            others
                .push(thread::Builder::new().spawn_scoped(scope, move || is(part, bytes)).map_err(|_| is(part, bytes)));
        }
        let own = is(first, own);
        others.into_iter().all(|other| other.map_or_else(|same| same, |thread| thread.join().unwrap_or(false))) && own
    });
    same.then_some((head, rest))
}

/// Bytes that lines take in a file.
fn extent(lines: &[&Opaque]) -> usize {
    lines.iter().map(|line| line.len() + 1).sum()
}

/// True if `bytes` are these lines and nothing else.
fn is(lines: &[&Opaque], mut bytes: &[u8]) -> bool {
    for line in lines {
        match bytes.strip_prefix(line.as_str().as_bytes()).and_then(|rest| rest.strip_prefix(b"\n")) {
            Some(rest) => bytes = rest,
            None => return false,
        }
    }
    bytes.is_empty()
}
