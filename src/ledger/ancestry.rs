//! What a checkpoint is worth: the Git history that it replaced (publication.md 1.9), and the one known defect that
//! readers mend (1.10).

use std::collections::HashSet;

use gix::ObjectId;

use super::cold::replay;
use super::error::LedgerError;
use super::head::snapshot;
use super::store::Store;
use crate::engine::Projection;
use crate::engine::checkpoint::CheckpointInputs;
use crate::protocol::commit::Commit;
use crate::protocol::json::{Node, Scanner};
use crate::protocol::ledger_text::{LedgerFault, LedgerText};
use crate::protocol::limits::MAX_RECEIPT_BYTES;
use crate::protocol::operation::{Checkpoint, Operation};
use crate::protocol::{Code, Fault, Opaque, Text, compressed};

/// A ledger of some version of the branch, replayed on its own.
#[derive(Debug)]
pub(super) struct Replayed {
    pub(super) projection: Projection,
    /// True if its checkpoint was taken from the version before, because it was damaged as 1.10 says.
    pub(super) recovered: bool,
}

/// Walks the history behind a chain whose root is a checkpoint, down to a chain that begins with a Policy.
pub(super) struct Ancestry<'a> {
    store: &'a Store,
    scanner: &'a mut Scanner,
    /// A version whose own history was walked before, and whose chain the walk's own begins with.
    trusted: Option<ObjectId>,
    visited: HashSet<ObjectId>,
}

/// What the walk is to find on its way: a chain that some replaced chain begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Some chain on the way begins with it.
    Extends,
    /// None does.
    Elsewhere,
}

fn broken(message: &'static str) -> LedgerError {
    LedgerError::from(LedgerFault { fault: Fault::new(Code::CheckpointInvalid, message), line: Some(1), offset: None })
}

impl<'a> Ancestry<'a> {
    pub(super) fn new(store: &'a Store, scanner: &'a mut Scanner, trusted: Option<ObjectId>) -> Self {
        Self { store, scanner, trusted, visited: HashSet::new() }
    }

    /// Replays the ledger of a version on its own. A checkpoint at its root that was damaged in the known way is taken
    /// from the version before.
    ///
    /// # Errors
    /// The first fault of framing or replay.
    pub(super) fn replay(&mut self, commit: ObjectId, ledger: Vec<u8>) -> Result<Replayed, LedgerFault> {
        let text = LedgerText::new(ledger)?;
        let fault = match replay(&text, self.scanner) {
            Ok(projection) => return Ok(Replayed { projection, recovered: false }),
            Err(fault) => fault,
        };
        let mended = if fault.fault.code() == Code::CheckpointInvalid { self.recover(commit, &text) } else { None };
        mended.map(|projection| Replayed { projection, recovered: true }).ok_or(fault)
    }

    /// Verifies that every checkpoint behind this version stands for the chain that it replaced, and says whether one
    /// of these chains begins with `sought`.
    ///
    /// # Errors
    /// `checkpoint_invalid`; or, where ancestry is missing, what reading it gives: nothing is taken on trust.
    pub(super) fn verify(
        &mut self,
        head: ObjectId,
        projection: &Projection,
        sought: &[Opaque],
    ) -> Result<Found, LedgerError> {
        let mut found = begins_with(projection, sought);
        if projection.replaced() == 0 {
            return Ok(found);
        }
        let mut chain: Vec<Opaque> = projection.active().cloned().collect();
        let (mut at, mut root) = (head, self.checkpoint_of(&chain)?);
        while let Some((commit, checkpoint)) = root {
            let Some(base) = self.descend(&mut at, &mut chain)? else { return Ok(found) };
            let sha = at.to_string();
            let agrees = sha == checkpoint.prior_git_sha.as_str()
                && base.history_sha256() == checkpoint.history_sha256
                && base.tip() == Some(&checkpoint.prior_tip);
            if !agrees {
                return Err(broken("a checkpoint does not stand for the ledger before it"));
            }
            let inputs =
                CheckpointInputs { prior_git_sha: &checkpoint.prior_git_sha, actor: &commit.actor, at: commit.at };
            // Also where the ledger before it can have no checkpoint at all.
            let rebuilt = base.checkpoint(&inputs, self.scanner);
            let rebuilt = rebuilt.map_err(|_| broken("the ledger before a checkpoint gives none"))?;
            if rebuilt.state_sha256 != checkpoint.state_sha256 {
                return Err(broken("a checkpoint's state is not the one that the ledger before it gives"));
            }
            if begins_with(&base, sought) == Found::Extends {
                found = Found::Extends;
            }
            chain = base.active().cloned().collect();
            root = self.checkpoint_of(&chain)?;
        }
        Ok(found)
    }

    /// Goes back from a version to the last one whose chain has another root, which `at` then names. `chain` is the
    /// canonical chain of the version that is stood on. None where the walk comes to a version that is trusted.
    fn descend(&mut self, at: &mut ObjectId, chain: &mut Vec<Opaque>) -> Result<Option<Projection>, LedgerError> {
        loop {
            if self.trusted == Some(*at) {
                return Ok(None);
            }
            if !self.visited.insert(*at) {
                return Err(broken("the history behind a checkpoint is a ring"));
            }
            let raw = self.store.commit(*at)?;
            let [parent] = raw.parents[..] else {
                return Err(broken("a version of a compacted ledger has not exactly one parent"));
            };
            *at = parent;
            if self.trusted == Some(parent) {
                return Ok(None);
            }
            if self.store.commit(parent)?.tree == raw.tree {
                continue;
            }
            let ledger = snapshot(self.store, parent)?.ledger;
            // A literal prefix of a valid chain is valid itself.
            if let Some(lines) = prefix_lines(chain, &ledger) {
                chain.truncate(lines);
                continue;
            }
            let before = self.replay(parent, ledger);
            // Its line numbers are of another ledger than the one that was asked for.
            let before = before.map_err(|_| broken("a version behind a checkpoint does not replay"))?.projection;
            let same_root = before.active().next().zip(chain.first());
            match same_root {
                Some((own, root)) if own == root => *chain = before.active().cloned().collect(),
                Some((own, root)) if root_id(self.scanner, own)? == root_id(self.scanner, root)? => {
                    return Err(broken("a checkpoint was changed after it was made"));
                }
                _ => return Ok(Some(before)),
            }
        }
    }

    /// The checkpoint at the root of a chain, if there is one.
    fn checkpoint_of(&mut self, chain: &[Opaque]) -> Result<Option<(Commit, Checkpoint)>, LedgerError> {
        let Some(root) = chain.first() else { return Ok(None) };
        let commit = Commit::read(self.scanner, root.text())?;
        let checkpoint = match commit.operations.first() {
            Some(Operation::Checkpoint(checkpoint)) => Some(Checkpoint::clone(checkpoint)),
            _ => None,
        };
        Ok(checkpoint.map(|checkpoint| (commit, checkpoint)))
    }

    /// The chain without the defect of publication.md 1.10, if it has exactly that one: a Deployment accepted after
    /// the checkpoint was written into the checkpoint as well, under the old digest. The direct Git parent holds the
    /// checkpoint as it was made. Reading changes nothing; the next publication writes the good record. None for
    /// everything else, an unreadable parent included: the checkpoint's own fault is then the one to report.
    fn recover(&mut self, commit: ObjectId, text: &LedgerText) -> Option<Projection> {
        let raw = self.store.commit(commit).ok()?;
        let [parent] = raw.parents[..] else { return None };
        let before = LedgerText::new(snapshot(self.store, parent).ok()?.ledger).ok()?;
        let good = replay(&before, self.scanner).ok()?;
        let good: Vec<Opaque> = good.active().cloned().collect();
        let ordered = crate::engine::chain::order(text.commits(self.scanner).ok()?).ok()?;
        let damaged: Vec<Opaque> = ordered.iter().map(|commit| commit.source.clone()).collect();
        let (good_root, good_rest) = good.split_first()?;
        let (bad_root, bad_rest) = damaged.split_first()?;
        let mut retained = ordered.iter().skip(1).flat_map(|commit| &commit.operations);
        let deployed = retained.any(|operation| matches!(operation, Operation::Deployment(_)));
        let stored = Root::read(self.scanner.host(), bad_root)?;
        let sound = Root::read(self.scanner.host(), good_root)?;
        if !deployed || stored.rest != sound.rest || !bad_rest.starts_with(good_rest) {
            return None;
        }
        let mut candidate = Projection::empty();
        for line in std::iter::once(good_root).chain(bad_rest) {
            let commit = Commit::read(self.scanner, line.text()).ok()?;
            candidate = candidate.follow(commit, self.scanner).ok()?;
        }
        (candidate.deployments() == stored.deployments).then_some(candidate)
    }
}

/// The id of a chain's first commit.
fn root_id(scanner: &mut Scanner, line: &Opaque) -> Result<Text, LedgerError> {
    Ok(Commit::read(scanner, line.text())?.id.text().clone())
}

fn begins_with(projection: &Projection, sought: &[Opaque]) -> Found {
    let mut active = projection.active();
    if sought.iter().all(|line| active.next() == Some(line)) { Found::Extends } else { Found::Elsewhere }
}

/// How many lines of a chain a ledger is, if it is nothing but its first lines as a writer leaves them.
fn prefix_lines(chain: &[Opaque], ledger: &[u8]) -> Option<usize> {
    let mut rest = ledger;
    for (index, line) in chain.iter().enumerate() {
        if rest.is_empty() {
            return (index > 0).then_some(index);
        }
        rest = rest.strip_prefix(line.as_str().as_bytes())?.strip_prefix(b"\n")?;
    }
    rest.is_empty().then_some(chain.len())
}

/// A checkpoint record apart from its deployments.
struct Root {
    /// Everything else, piece by piece, with the receipts inflated.
    rest: Vec<String>,
    /// Canonical text of `state.deployments`.
    deployments: String,
}

impl Root {
    fn read(host: &str, line: &Opaque) -> Option<Self> {
        let mut scanner = Scanner::new(host);
        let document = scanner.read(line.text()).ok()?;
        let mut root = Self { rest: Vec::new(), deployments: "{}".to_owned() };
        for (key, value) in document.root().object()?.members() {
            if key.plain() == Some("operations") { root.add_operations(value)? } else { root.add(key, value) }
        }
        Some(root)
    }

    fn add(&mut self, key: Node<'_>, value: Node<'_>) {
        self.rest.extend([key.raw().to_owned(), value.raw().to_owned()]);
    }

    fn add_operations(&mut self, operations: Node<'_>) -> Option<()> {
        let mut operations = operations.array()?;
        let checkpoint = operations.next()?.object()?;
        for (key, value) in checkpoint.members() {
            if key.plain() == Some("state") { self.add_state(value)? } else { self.add(key, value) }
        }
        operations.next().is_none().then_some(())
    }

    fn add_state(&mut self, state: Node<'_>) -> Option<()> {
        for (key, value) in state.object()?.members() {
            match key.plain()? {
                "deployments" => value.raw().clone_into(&mut self.deployments),
                "requests_compressed" => {
                    let requests = compressed::inflate(value.plain()?, MAX_RECEIPT_BYTES).ok()?;
                    self.rest.extend([key.raw().to_owned(), requests]);
                }
                _ => self.add(key, value),
            }
        }
        Some(())
    }
}
