//! Reading the queue branch from its remote (publication.md 1.7, 3.1). A read always asks the remote, never writes to
//! it, and never takes a failure for an absent queue.

use gix::ObjectId;

use super::error::{Class, LedgerError};
use super::git::Transport;
use super::names::{Branch, RETIRED_BRANCHES};
use super::store::{FETCHED, Store};
use super::tree::{RootTree, read_ledger};
use crate::protocol::Code;

/// What the remote has for the queue branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// The branch exists and its commit, tree and ledger were read.
    Present(Snapshot),
    /// The repository could be read, and has no such branch.
    Absent,
    /// The server shows a repository without a default branch. Whether it really is empty, only the service's own
    /// answer can confirm; until then it is not an absent queue.
    EmptyRepository,
}

/// One version of the queue branch, with its shape checked and its ledger not yet parsed.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The branch's commit.
    pub commit: ObjectId,
    /// Its parents.
    pub parents: Vec<ObjectId>,
    /// Its root tree.
    pub tree: RootTree,
    /// The ledger's bytes, as they are. Whoever parses them may take them out.
    pub ledger: Vec<u8>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({}, {} bytes)", self.commit, self.ledger.len())
    }
}

/// Reads the branch: one query, and one fetch of its complete history unless this store has it already.
///
/// # Errors
/// `unsupported_protocol` when the default branch is asked for and a retired one exists; `repository_unavailable`,
/// `git_unavailable`, `ledger_invalid`, `resource_limit` and `ledger_nonextending` as their sentences say.
pub fn read_head(transport: &dyn Transport, store: &Store, branch: &Branch) -> Result<Head, LedgerError> {
    let reference = branch.reference();
    let retired = RETIRED_BRANCHES.map(|name| format!("refs/heads/{name}"));
    let mut names = vec!["HEAD", reference.as_str()];
    if branch.is_default() {
        names.extend(retired.iter().map(String::as_str));
    }
    let advertised = transport.advertise(store.path(), &names)?;
    if let Some(found) = advertised.get(&reference) {
        if found.symbolic.is_some() {
            return Err(LedgerError::new(
                Code::LedgerInvalid,
                Class::Invalid,
                "the queue branch is a symbolic reference to another branch",
                "Name the other branch, or make the queue branch an ordinary one.",
            ));
        }
        return present(transport, store, &reference, found.id).map(Head::Present);
    }
    if branch.is_default() && retired.iter().any(|name| advertised.get(name).is_some()) {
        return Err(LedgerError::new(
            Code::UnsupportedProtocol,
            Class::Invalid,
            "the repository holds a branch of a retired protocol",
            "Remove the retired branch, or name a queue branch of your own.",
        ));
    }
    // A local directory was opened by git itself, so it exists and holds a repository (decision 55).
    if transport.is_local() || advertised.get("HEAD").is_some() { Ok(Head::Absent) } else { Ok(Head::EmptyRepository) }
}

fn present(
    transport: &dyn Transport,
    store: &Store,
    reference: &str,
    advertised: ObjectId,
) -> Result<Snapshot, LedgerError> {
    let commit = if store.holds(advertised) {
        advertised
    } else {
        transport.fetch(store.path(), reference, FETCHED)?;
        let fetched = store.fetched()?;
        if fetched != advertised && !store.descends(fetched, advertised)? {
            return Err(LedgerError::new(
                Code::LedgerNonextending,
                Class::Invalid,
                "the queue branch was rewritten while it was read",
                "Find out who rewrote the branch before doing anything else.",
            ));
        }
        fetched
    };
    snapshot(store, commit)
}

/// Reads a commit of the store: its parents, its tree and its ledger.
///
/// # Errors
/// `ledger_invalid`, `unsupported_protocol` or `resource_limit`, as its tree or ledger gives cause.
pub fn snapshot(store: &Store, commit: ObjectId) -> Result<Snapshot, LedgerError> {
    let raw = store.commit(commit)?;
    let tree = RootTree::read(store, raw.tree)?;
    let ledger = read_ledger(store, tree.ledger())?;
    Ok(Snapshot { commit, parents: raw.parents, tree, ledger })
}
