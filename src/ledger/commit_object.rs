//! Git commits of the queue branch: what is read from them, and how ours are written (publication.md 1.4).

use gix::ObjectId;
use gix::objs::Kind;

use super::error::LedgerError;
use super::store::Store;
use crate::ports::{Clock, Entropy};

/// Who writes the branch. Nothing ever reads it back: authority comes from the ledger's records alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// The operator's command line.
    Operator,
    /// A job of the Action.
    Runtime,
}

impl Author {
    fn line(self) -> &'static str {
        match self {
            Self::Operator => "gh-aw-work-queue <gh-aw-work-queue@users.noreply.github.com>",
            Self::Runtime => "github-actions[bot] <41898282+github-actions[bot]@users.noreply.github.com>",
        }
    }
}

/// Message of a commit that publishes a request.
const MESSAGE: &str = "Publish checked fair work queue request";
/// Message of the commit that makes an empty repository's default branch.
const PREPARATION: &str = "Initialize repository for work queue";

/// Writes a commit with at most one parent. Its message carries a random 128-bit nonce, so two processes that publish
/// the same content in the same second do not make the same commit (decision 12).
///
/// # Errors
/// `io_failed`.
pub fn write_commit(
    store: &Store,
    tree: ObjectId,
    parent: Option<ObjectId>,
    author: Author,
    clock: &dyn Clock,
    entropy: &dyn Entropy,
) -> Result<ObjectId, LedgerError> {
    let nonce = entropy.nonce()?;
    write(store, tree, parent, author, clock, &format!("{MESSAGE}\n\nPublisher-Nonce: {nonce}\n"))
}

/// Writes the commit that makes an empty repository's default branch: no parent, and no nonce, because nobody claims it.
///
/// # Errors
/// `io_failed`.
pub fn write_preparation(
    store: &Store,
    tree: ObjectId,
    author: Author,
    clock: &dyn Clock,
) -> Result<ObjectId, LedgerError> {
    write(store, tree, None, author, clock, &format!("{PREPARATION}\n"))
}

fn write(
    store: &Store,
    tree: ObjectId,
    parent: Option<ObjectId>,
    author: Author,
    clock: &dyn Clock,
    message: &str,
) -> Result<ObjectId, LedgerError> {
    let seconds = clock.now().get() / 1000;
    let parent_line = parent.map(|parent| format!("parent {parent}\n")).unwrap_or_default();
    let who = author.line();
    let text =
        format!("tree {tree}\n{parent_line}author {who} {seconds} +0000\ncommitter {who} {seconds} +0000\n\n{message}");
    let id = store.write(Kind::Commit, text.as_bytes())?;
    store.built(id, parent);
    Ok(id)
}

/// The parts of a commit that are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawCommit {
    /// The root tree.
    pub tree: ObjectId,
    /// The parents, in order.
    pub parents: Vec<ObjectId>,
}

impl RawCommit {
    /// Reads the leading `tree` and `parent` lines of a raw commit; an `author` line must follow them.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        fn id<'a>(rest: &'a [u8], key: &[u8]) -> Option<(ObjectId, &'a [u8])> {
            let rest = rest.strip_prefix(key)?;
            let (hex, rest) = rest.split_at_checked(40)?;
            Some((ObjectId::from_hex(hex).ok()?, rest.strip_prefix(b"\n")?))
        }
        let (tree, mut rest) = id(bytes, b"tree ")?;
        let mut parents = Vec::new();
        while rest.starts_with(b"parent ") {
            let (parent, after) = id(rest, b"parent ")?;
            parents.push(parent);
            rest = after;
        }
        rest.starts_with(b"author ").then_some(Self { tree, parents })
    }
}

#[cfg(test)]
mod tests {
    use super::RawCommit;

    /// Only the tree and parent lines of a commit count, wherever else such words may stand.
    #[test]
    fn parents_come_from_header_lines_alone() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let text = format!("tree {a}\nparent {b}\nauthor x <x> 1 +0000\ncommitter x <x> 1 +0000\n\nparent {a}\n");
        let commit = RawCommit::parse(text.as_bytes()).expect("well formed");
        assert_eq!(commit.parents.len(), 1);
        assert_eq!(commit.parents[0].to_string(), b);
        assert_eq!(RawCommit::parse(format!("tree {a}\n").as_bytes()), None);
        assert_eq!(RawCommit::parse(b"tree abc\nauthor"), None);
        assert_eq!(RawCommit::parse(format!("parent {a}\ntree {a}\nauthor ").as_bytes()), None);
    }
}
