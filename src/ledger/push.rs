//! Offering one new version of the ledger to the remote (publication.md 2.4). The lease says which version it
//! replaces; the single parent makes it append-only. Both are needed, and both are checked here.

use gix::ObjectId;
use gix::objs::Kind;

use super::commit_object::{Author, write_commit, write_preparation};
use super::error::LedgerError;
use super::git::{PushOutcome, Transport};
use super::head::Snapshot;
use super::names::Branch;
use super::store::Store;
use super::tree::RootTree;
use crate::ports::{Clock, Entropy};

/// A commit that is ready to be offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The new commit.
    pub commit: ObjectId,
    /// The version that it replaces; none for the first.
    pub expected: Option<ObjectId>,
    tree: RootTree,
    ledger: ObjectId,
}

impl Candidate {
    /// Writes the blob, tree and commit of a new ledger on top of a version (or as the branch's first commit).
    ///
    /// # Errors
    /// `io_failed`.
    pub fn build(
        store: &Store,
        base: Option<&Snapshot>,
        ledger: &[u8],
        author: Author,
        clock: &dyn Clock,
        entropy: &dyn Entropy,
    ) -> Result<Self, LedgerError> {
        let blob = store.write(Kind::Blob, ledger)?;
        let tree = match base {
            Some(base) => base.tree.with_ledger(blob),
            None => RootTree::genesis(blob),
        };
        let expected = base.map(|base| base.commit);
        let commit = write_commit(store, tree.write(store)?, expected, author, clock, entropy)?;
        Ok(Self { commit, expected, tree, ledger: blob })
    }

    /// The root tree, once it is the branch's.
    pub(super) fn into_tree(self) -> RootTree {
        self.tree
    }

    /// Reads the candidate back and checks what a push relies on: its parents are exactly the expected version, its
    /// tree differs from that version's in the ledger alone, and the ledger is the one that was validated.
    fn check(&self, store: &Store, base: Option<&Snapshot>, validated: &[u8]) -> Result<(), LedgerError> {
        let raw = store.commit(self.commit)?;
        let tree = RootTree::read(store, raw.tree)?;
        let sound = raw.parents == Vec::from_iter(self.expected)
            && self.expected == base.map(|base| base.commit)
            && tree == self.tree
            && tree.ledger() == self.ledger
            && self.ledger == Store::blob_id(validated)?
            && match base {
                Some(base) => base.tree.differs_only_in_ledger(&tree),
                None => tree == RootTree::genesis(self.ledger),
            };
        if sound { Ok(()) } else { Err(LedgerError::internal("a candidate commit is not what was validated")) }
    }

    /// Offers the candidate, under the exact lease, after checking it against its base and the validated bytes.
    ///
    /// # Errors
    /// `internal` when a check fails, `git_unavailable`, or `ledger_invalid` for a reported forced update.
    pub fn push(
        &self,
        transport: &dyn Transport,
        store: &Store,
        branch: &Branch,
        base: Option<&Snapshot>,
        validated: &[u8],
    ) -> Result<PushOutcome, LedgerError> {
        self.check(store, base, validated)?;
        transport.push(store.path(), self.commit, &branch.reference(), self.expected)
    }
}

/// Directory and name of the one file on a default branch that is made here.
const PREPARED: (&str, &str) = (".gh-aw", "work-queue-bootstrap");
/// Its content.
const PREPARED_TEXT: &str = "The queue branch of this repository holds the authoritative queue ledger.\n";

/// The first commit of an empty repository's default branch (publication.md 3.5): one file that says what the queue
/// branch is, neither Policy nor Work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preparation(ObjectId);

impl Preparation {
    /// Writes its blob, trees and commit.
    ///
    /// # Errors
    /// `io_failed`.
    pub fn build(store: &Store, author: Author, clock: &dyn Clock) -> Result<Self, LedgerError> {
        let entry = |mode: &str, name: &str, id: ObjectId| {
            store.write(Kind::Tree, &[mode.as_bytes(), b" ", name.as_bytes(), b"\0", id.as_slice()].concat())
        };
        let blob = store.write(Kind::Blob, PREPARED_TEXT.as_bytes())?;
        let directory = entry("100644", PREPARED.1, blob)?;
        let root = entry("40000", PREPARED.0, directory)?;
        write_preparation(store, root, author, clock).map(Self)
    }

    /// Offers it for a branch that must not exist yet.
    ///
    /// # Errors
    /// `git_unavailable`, or `ledger_invalid` for a reported forced update.
    pub fn push(&self, transport: &dyn Transport, store: &Store, branch: &Branch) -> Result<PushOutcome, LedgerError> {
        transport.push(store.path(), self.0, &branch.reference(), None)
    }
}
