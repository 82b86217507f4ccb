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
    let known = pieces(projection.active());
    let Some((head, rest)) = split_behind(&known, ledger) else {
        return Err(projection.active().cloned().collect());
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

/// Most bytes of one piece, so that a run of lines divides among threads.
const PIECE: usize = 1 << 20;

/// The known lines as the bytes that they are in a file. Lines that lie one behind the other in the buffer that they
/// were read from are compared as one run, line feeds included.
fn pieces<'a>(known: impl Iterator<Item = &'a Opaque>) -> Vec<&'a [u8]> {
    let mut pieces: Vec<&[u8]> = Vec::new();
    let mut add = |first: &'a Text, end: u32| {
        let (buffer, start, _) = first.parts();
        pieces.extend(buffer.as_bytes()[start as usize..end as usize].chunks(PIECE));
        pieces.push(b"\n");
    };
    let mut run: Option<(&Text, u32)> = None;
    for line in known.map(Opaque::text) {
        let (buffer, start, end) = line.parts();
        run = match run {
            Some((first, last)) => {
                let same = std::ptr::eq(first.parts().0.as_ptr(), buffer.as_ptr());
                if same && start == last + 1 && buffer.as_bytes()[last as usize] == b'\n' {
                    Some((first, end))
                } else {
                    add(first, last);
                    Some((line, end))
                }
            }
            None => Some((line, end)),
        };
    }
    if let Some((first, last)) = run {
        add(first, last);
    }
    pieces
}

/// Splits a ledger that begins with the known bytes behind them; none for another.
fn split_behind<'a>(known: &[&[u8]], ledger: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (head, rest) = ledger.split_at_checked(extent(known))?;
    let cores = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let threads = cores.min(head.len() / BYTES_A_THREAD).max(1);
    let same = thread::scope(|scope| {
        let (first, mut others) = split_off(known, head.len() / threads);
        let (own, mut behind) = head.split_at(extent(first));
        let mut compared = Vec::with_capacity(threads);
        while !others.is_empty() {
            let part;
            (part, others) = split_off(others, head.len() / threads);
            let bytes;
            (bytes, behind) = behind.split_at(extent(part));
            // Where no thread is to be had, the bytes are compared here.
            compared
                .push(thread::Builder::new().spawn_scoped(scope, move || is(part, bytes)).map_err(|_| is(part, bytes)));
        }
        let own = is(first, own);
        compared.into_iter().all(|other| other.map_or_else(|same| same, |thread| thread.join().unwrap_or(false))) && own
    });
    same.then_some((head, rest))
}

/// The first pieces, of at least this many bytes if there are as many, and the others.
fn split_off<'p, 'a>(pieces: &'p [&'a [u8]], bytes: usize) -> (&'p [&'a [u8]], &'p [&'a [u8]]) {
    let mut taken = 0;
    let enough = pieces.iter().position(|piece| {
        taken += piece.len();
        taken >= bytes
    });
    pieces.split_at(enough.map_or(pieces.len(), |last| last + 1))
}

/// Bytes of all pieces together.
fn extent(pieces: &[&[u8]]) -> usize {
    pieces.iter().map(|piece| piece.len()).sum()
}

/// True if `bytes` are these pieces and nothing else.
fn is(pieces: &[&[u8]], mut bytes: &[u8]) -> bool {
    for piece in pieces {
        match bytes.strip_prefix(*piece) {
            Some(rest) => bytes = rest,
            None => return false,
        }
    }
    bytes.is_empty()
}
