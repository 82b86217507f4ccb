//! Replacing the history on the branch by its state (publication.md 7): an ordinary fast-forward commit, whose only
//! parent holds what it replaces. Nothing is deleted from Git.

use std::sync::Arc;

use gix::ObjectId;

use super::current::{Current, nonextending};
use super::error::LedgerError;
use super::git::PushOutcome;
use super::head::snapshot;
use super::publisher::{Attempt, Publisher, doubtful, stuck, unresolved};
use super::tree::read_ledger;
use crate::engine::checkpoint::{BuiltCheckpoint, CheckpointInputs};
use crate::protocol::actor::{Actor, Role};
use crate::protocol::json::{Node, Scanner, Writer};
use crate::protocol::wire::{Wire as _, closed};
use crate::protocol::{At, Code, CommitId, Digest, Fault, Opaque, Revision, Text};

/// What a compaction would replace, for a later step to check and apply (publication.md 7.3). It binds the base and
/// both digests; sizes are for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionPlan {
    /// Repository of the queue.
    pub repository: Text,
    /// Queue branch.
    pub branch: Text,
    /// Git commit that holds the ledger.
    pub base_git_sha: Revision,
    /// Last ledger commit.
    pub base_tip: CommitId,
    /// Digest of the ledger's canonical lines.
    pub history_sha256: Digest,
    /// Digest of the logical snapshot.
    pub state_sha256: Digest,
    /// Accepted requests.
    pub transactions: u64,
    /// Bytes of the ledger file.
    pub bytes_before: u64,
    /// Bytes of the checkpoint and its line feed.
    pub bytes_after: u64,
}

/// How a compaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compaction {
    /// The history was replaced, by this call or by another compaction of the same version.
    Done(Compacted),
    /// The ledger is one checkpoint already; nothing was written.
    AlreadyCompact,
    /// Other publishers were faster in every attempt; nothing was written.
    Deferred,
}

/// A compaction that is on the branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// True if the remote acknowledged this call's write.
    pub changed: bool,
    /// True if this call's write was found after an unclear answer.
    pub recovered: bool,
    /// Lines before that repeated others exactly.
    pub duplicates_removed: u64,
    /// Bytes of the ledger file before.
    pub bytes_before: u64,
    /// Bytes of it after.
    pub bytes_after: u64,
}

/// A checkpoint that was offered, and what it was to replace.
struct Tried {
    base: ObjectId,
    line: Opaque,
    size: Size,
}

/// The ledger file as it lies on the branch.
#[derive(Clone, Copy)]
struct Size {
    bytes: u64,
    repeated: u64,
}

impl Publisher<'_> {
    /// Plans a compaction of the current version. Writes nothing. None if the ledger is one checkpoint already.
    ///
    /// # Errors
    /// As [`Publisher::read_present`], and as building a checkpoint refuses.
    pub fn plan_compaction(&mut self, actor: &Actor) -> Result<Option<CompactionPlan>, LedgerError> {
        let current = self.read_present()?;
        if is_compact(&current) {
            return Ok(None);
        }
        let built = self.build_checkpoint(&current, actor)?;
        let size = self.size(&current)?;
        let tip = current.projection.tip().ok_or_else(|| Fault::from(Code::PolicyMissing))?;
        Ok(Some(CompactionPlan {
            repository: actor.repository.text().clone(),
            branch: Text::from(self.setup.branch.as_str()),
            base_git_sha: revision(current.commit)?,
            base_tip: tip.clone(),
            history_sha256: current.projection.history_sha256(),
            state_sha256: built.state_sha256,
            transactions: current.projection.stats().transactions,
            bytes_before: size.bytes,
            bytes_after: built.commit.len() as u64 + 1,
        }))
    }

    /// Compacts the ledger by compare-and-swap. Every attempt builds its checkpoint on what it has just read, so a
    /// commit that lands in between is never lost; after bounded contention the compaction is deferred.
    ///
    /// # Errors
    /// `actor_unauthorized` for anyone but an administrator of this repository; `checkpoint_invalid` for a plan of
    /// another branch, or whose base is current and gives other digests, `ledger_nonextending` for one whose base the
    /// branch does not extend; otherwise as [`Publisher::publish`].
    pub fn compact(
        &mut self,
        actor: &Actor,
        plan: Option<&CompactionPlan>,
    ) -> Result<(Compaction, Arc<Current>, At), LedgerError> {
        if actor.role != Role::Administrator || !self.setup.repository.is(&actor.repository) {
            let message = "a checkpoint is made by an administrator of the queue's repository";
            return Err(Fault::new(Code::ActorUnauthorized, message).into());
        }
        let mut lost: Vec<Attempt> = Vec::new();
        let mut tried: Vec<Tried> = Vec::new();
        for number in 0..=self.setup.retries.attempts() {
            let current = self.read_again(&lost)?;
            let at = self.setup.clock.now();
            let of_current = match plan {
                Some(plan) if number == 0 => self.check_base(plan, &current)?,
                // Later reads extend the first one, which extended the plan's base.
                Some(plan) => names(plan.base_git_sha.as_str(), current.commit),
                None => false,
            };
            if let Some(compacted) = landed(&current, &tried) {
                return Ok((Compaction::Done(compacted), current, at));
            }
            if is_compact(&current) {
                return Ok((Compaction::AlreadyCompact, current, at));
            }
            if let Some(denial) = denial(&lost) {
                return Err(denial.clone());
            }
            if number == self.setup.retries.attempts() {
                // A branch that nobody moved and that could not be moved either is no contention.
                let contended = !doubtful(&lost) && !stuck(&lost);
                return if contended { Ok((Compaction::Deferred, current, at)) } else { Err(unresolved(&lost, None)) };
            }
            let built = self.build_checkpoint(&current, actor)?;
            if let Some(plan) = plan.filter(|_| of_current) {
                check_digests(plan, &current, &built)?;
            }
            let size = self.size(&current)?;
            let line = built.commit.clone();
            let (result, next) = self.offer(Some(&current), built.projection)?;
            let observed = current.commit;
            if result == PushOutcome::Acknowledged {
                let next = Arc::new(next);
                self.last = Some(Arc::clone(&next));
                let compacted = done(&line, size, true, false);
                return Ok((Compaction::Done(compacted), next, at));
            }
            drop(current);
            tried.push(Tried { base: observed, line, size });
            lost.push(Attempt { number: number + 1, observed: Some(observed), result });
            self.setup.retries.pause(number, self.setup.clock, self.setup.entropy)?;
        }
        Err(LedgerError::internal("a compaction ran out of its attempts"))
    }

    fn build_checkpoint(&mut self, current: &Current, actor: &Actor) -> Result<BuiltCheckpoint, LedgerError> {
        // A runner's clock may be slow; the checkpoint is never older than what it replaces.
        let last = current.projection.requests().last().map(|last| last.at);
        let now = self.setup.clock.now();
        let at = last.map_or(now, |last| last.max(now));
        let inputs = CheckpointInputs { prior_git_sha: &revision(current.commit)?, actor, at };
        Ok(current.projection.checkpoint(&inputs, &mut self.scanner)?)
    }

    /// Reads the queue; after an attempt whose effect is not known, a failure to read leaves that unknown.
    fn read_again(&mut self, lost: &[Attempt]) -> Result<Arc<Current>, LedgerError> {
        self.read_present().map_err(|error| match denial(lost) {
            Some(denial) => denial.clone(),
            None if doubtful(lost) => unresolved(lost, Some(&error)),
            None => error,
        })
    }

    /// A plan must be of this branch and of a version that the branch extends. True if that version is current; an
    /// earlier one's digests and sizes are overtaken.
    fn check_base(&mut self, plan: &CompactionPlan, current: &Current) -> Result<bool, LedgerError> {
        let here = plan.branch.as_str() == self.setup.branch.as_str()
            && current.projection.repository().is_some_and(|repository| *repository.text() == plan.repository);
        if !here {
            return Err(Fault::new(Code::CheckpointInvalid, "the plan is of another repository or branch").into());
        }
        let base = ObjectId::from_hex(plan.base_git_sha.as_str().as_bytes()).map_err(|_| nonextending())?;
        if base == current.commit {
            return Ok(true);
        }
        if !self.store.descends(current.commit, base)? {
            return Err(nonextending());
        }
        let repository = &self.setup.repository;
        let base = Current::replay(snapshot(&self.store, base)?, &self.store, repository, &mut self.scanner)?;
        base.extend(snapshot(&self.store, current.commit)?, &self.store, repository, &mut self.scanner)?;
        Ok(false)
    }

    fn size(&self, current: &Current) -> Result<Size, LedgerError> {
        let ledger = read_ledger(&self.store, current.tree.ledger())?;
        let lines = ledger.iter().filter(|byte| **byte == b'\n').count();
        let distinct = current.projection.active().count();
        Ok(Size { bytes: ledger.len() as u64, repeated: lines.saturating_sub(distinct) as u64 })
    }
}

/// A plan of the current version gives the digests that it names.
fn check_digests(plan: &CompactionPlan, current: &Current, built: &BuiltCheckpoint) -> Result<(), Fault> {
    let same = Some(&plan.base_tip) == current.projection.tip()
        && plan.history_sha256 == current.projection.history_sha256()
        && plan.state_sha256 == built.state_sha256;
    if same {
        Ok(())
    } else {
        Err(Fault::new(Code::CheckpointInvalid, "the plan's digests are not the current ledger's"))
    }
}

/// The refusal of the last attempt, if it was refused.
fn denial(lost: &[Attempt]) -> Option<&LedgerError> {
    match lost.last() {
        Some(Attempt { result: PushOutcome::Denied(denial), .. }) => Some(denial),
        _ => None,
    }
}

/// True if a revision names this commit.
fn names(revision: &str, commit: ObjectId) -> bool {
    ObjectId::from_hex(revision.as_bytes()).is_ok_and(|named| named == commit)
}

fn revision(commit: ObjectId) -> Result<Revision, Fault> {
    Revision::new(commit.to_string())
}

fn is_compact(current: &Current) -> bool {
    current.projection.replaced() > 0 && current.projection.active().nth(1).is_none()
}

fn done(line: &Opaque, size: Size, changed: bool, recovered: bool) -> Compacted {
    Compacted {
        changed,
        recovered,
        duplicates_removed: size.repeated,
        bytes_before: size.bytes,
        bytes_after: line.len() as u64 + 1,
    }
}

/// The compaction that replaced a version at which this call tried the same, be it this call's own or another's.
fn landed(current: &Current, tried: &[Tried]) -> Option<Compacted> {
    let root = current.projection.active().next().filter(|_| current.projection.replaced() > 0)?;
    let mut scanner = Scanner::new("");
    let document = scanner.read(root.text()).ok()?;
    let operation = document.root().object()?.get("operations")?.array()?.next()?;
    let base = operation.object()?.get("prior_git_sha").and_then(Node::plain)?;
    let tried = tried.iter().find(|tried| names(base, tried.base))?;
    Some(done(root, tried.size, false, tried.line == *root))
}

impl CompactionPlan {
    /// Most bytes of a plan's text.
    pub const MAX_BYTES: usize = 4096;

    /// Reads a plan.
    ///
    /// # Errors
    /// `checkpoint_invalid` for anything but a plan of version 3; `resource_limit` over [`Self::MAX_BYTES`].
    pub fn read(text: &str) -> Result<Self, Fault> {
        const NAMES: &[(&str, bool); 11] = &[
            ("version", true),
            ("kind", true),
            ("repository", true),
            ("branch", true),
            ("base_git_sha", true),
            ("base_tip", true),
            ("history_sha256", true),
            ("state_sha256", true),
            ("transactions", true),
            ("bytes_before", true),
            ("bytes_after", true),
        ];
        const CODE: Code = Code::CheckpointInvalid;
        if text.len() > Self::MAX_BYTES {
            return Err(Fault::new(Code::ResourceLimit, "a compaction plan is longer than 4096 bytes"));
        }
        let mut scanner = Scanner::new("");
        let text = Text::from(text);
        let document = scanner.read(&text)?;
        let slots = closed(document.root(), NAMES, CODE)?;
        let slot = |index: usize| slots[index].ok_or_else(|| Fault::from(CODE));
        let number = |index: usize| {
            let number = slot(index)?.integer().and_then(|number| u64::try_from(number).ok());
            number.ok_or_else(|| Fault::new(CODE, "a count of the plan is not one"))
        };
        if slot(0)?.integer() != Some(3) || slot(1)?.plain() != Some("compaction_plan") {
            return Err(Fault::new(CODE, "the text is not a compaction plan of version 3"));
        }
        let name =
            |index: usize| slot(index)?.string().ok_or_else(|| Fault::new(CODE, "a name of the plan is not one"));
        Ok(Self {
            repository: name(2)?,
            branch: name(3)?,
            base_git_sha: Revision::read(slot(4)?, CODE)?,
            base_tip: CommitId::read(slot(5)?, CODE)?,
            history_sha256: Digest::read(slot(6)?, CODE)?,
            state_sha256: Digest::read(slot(7)?, CODE)?,
            transactions: number(8)?,
            bytes_before: number(9)?,
            bytes_after: number(10)?,
        })
    }

    /// The plan's canonical text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut writer = Writer::new();
        writer.object(|members| {
            members.name("base_git_sha", |w| self.base_git_sha.write(w));
            members.name("base_tip", |w| self.base_tip.write(w));
            members.name("branch", |w| w.string(self.branch.as_str()));
            members.name("bytes_after", |w| w.integer(self.bytes_after as i64));
            members.name("bytes_before", |w| w.integer(self.bytes_before as i64));
            members.name("history_sha256", |w| self.history_sha256.write(w));
            members.name("kind", |w| w.string("compaction_plan"));
            members.name("repository", |w| w.string(self.repository.as_str()));
            members.name("state_sha256", |w| self.state_sha256.write(w));
            members.name("transactions", |w| w.integer(self.transactions as i64));
            members.name("version", |w| w.integer(3));
        });
        writer.finish()
    }
}
