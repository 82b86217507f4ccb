//! Replay: the per-commit pipeline (engine.md 3.3), and a whole ledger through it.

use std::sync::Arc;

use super::apply::Pending;
use super::chain;
use super::generate;
use super::schedule::pool::{PoolState, Scales};
use super::state::{Accepted, Context, Installed, Projection, Source};
use crate::engine::mutation::mutated;
use crate::protocol::actor::Role;
use crate::protocol::commit::Commit;
use crate::protocol::fault::ensure;
use crate::protocol::json::Scanner;
use crate::protocol::ledger_text::{LedgerFault, LedgerText};
use crate::protocol::operation::{Operation, PolicyOperation};
use crate::protocol::policy::Policy;
use crate::protocol::request::{Parameters, RequestKind};
use crate::protocol::{Code, Epoch, Fault};

/// Replays a whole ledger from genesis.
///
/// A ledger in causal order, as every writer leaves it, is applied line by line as it is read. Any other goes
/// through the steps of engine.md 1.6 one after another, so that the first refusing step supplies the code.
///
/// # Errors
/// The first fault of the first step that refuses, with line and offset where a single line is at fault.
pub fn replay(text: &LedgerText, scanner: &mut Scanner) -> Result<Projection, LedgerFault> {
    replay_prefix(text, scanner, usize::MAX)
}

/// Replays the first `commits` commits of the causal chain, at most all of them.
///
/// # Errors
/// As [`replay`]; later lines are still read and chained, but not applied.
pub fn replay_prefix(text: &LedgerText, scanner: &mut Scanner, commits: usize) -> Result<Projection, LedgerFault> {
    if commits >= text.len()
        && let Some(projection) = stream(text, scanner)
    {
        return Ok(projection);
    }
    in_steps(text, scanner, commits)
}

/// As [`replay_prefix`] for a ledger that one pass refuses: step after step, so that the first refusing one names
/// the fault.
///
/// # Errors
/// As [`replay`].
fn in_steps(text: &LedgerText, scanner: &mut Scanner, commits: usize) -> Result<Projection, LedgerFault> {
    let ordered = chain::order(text.commits(scanner)?)?;
    let mut projection = Projection::empty();
    for commit in ordered.into_iter().take(commits) {
        let id = commit.id.clone();
        projection = projection.follow(commit, scanner).map_err(|fault| locate(text, scanner, id.as_str(), fault))?;
    }
    if projection.installed.is_none() {
        return Err(Fault::from(Code::PolicyMissing).into());
    }
    Ok(projection)
}

/// One pass over a ledger that is valid and in causal order; none for any other.
fn stream(text: &LedgerText, scanner: &mut Scanner) -> Option<Projection> {
    let mut pass = OnePass::over(text);
    let mut reader = text.reader();
    for index in 0..text.len() {
        let commit = reader.commit(scanner, index).ok()?;
        pass.take(commit, scanner)?;
    }
    Some(pass.end())
}

/// A replay that takes commits as they come. It ends at anything unusual: [`in_steps`] then tells what it was.
pub(crate) struct OnePass {
    projection: Projection,
}

impl OnePass {
    /// Nothing taken yet, with room for every commit of a ledger.
    pub(crate) fn over(text: &LedgerText) -> Self {
        let mut projection = Projection::empty();
        // No commit is shorter than this, so a file of short lines does not reserve more than it could fill.
        projection.reserve(text.len().min(text.as_str().len() / 256));
        Self { projection }
    }

    /// Takes the next commit in file order; none if it is not the next of the chain, or is refused. What was taken
    /// before is of no use then.
    pub(crate) fn take(&mut self, commit: Commit, scanner: &mut Scanner) -> Option<()> {
        if commit.previous != self.projection.tip {
            return None;
        }
        if self.projection.requests.is_empty() && commit.request.kind == RequestKind::Checkpoint {
            self.projection = Projection::restore(commit, scanner).ok()?;
            return Some(());
        }
        self.projection.extend(commit, true).ok()
    }

    /// The state after everything that was taken.
    pub(crate) fn end(self) -> Projection {
        self.projection
    }
}

/// Finds the line of a commit that was refused.
fn locate(text: &LedgerText, scanner: &mut Scanner, id: &str, fault: Fault) -> LedgerFault {
    let line = (0..text.len()).find(|index| text.commit(scanner, *index).is_ok_and(|commit| commit.id.as_str() == id));
    let offset = line.map(|index| (0..index).filter_map(|before| text.line(before)).map(|line| line.len() + 1).sum());
    LedgerFault { fault, line: line.map(|index| index + 1), offset }
}

impl Projection {
    /// Takes the next commit of a chain, which is a checkpoint only at its root.
    ///
    /// # Errors
    /// As [`Projection::restore`] for a checkpoint, as [`Projection::apply`] otherwise.
    pub fn follow(self, commit: Commit, scanner: &mut Scanner) -> Result<Self, Fault> {
        if self.requests.is_empty() && commit.request.kind == RequestKind::Checkpoint {
            return Self::restore(commit, scanner);
        }
        self.apply(commit)
    }

    /// Extends the state by the next commit of the chain, which is no checkpoint.
    ///
    /// Takes the state and gives the next one back, so that a refused commit leaves none that it half changed.
    ///
    /// # Errors
    /// The first failing rule of engine.md 3.3.
    pub fn apply(mut self, commit: Commit) -> Result<Self, Fault> {
        self.extend(commit, true)?;
        Ok(self)
    }

    /// As [`Projection::apply`], without the byte budget: for measuring states that the budget rules out.
    ///
    /// # Errors
    /// As [`Projection::apply`].
    #[cfg(feature = "measure")]
    #[doc(hidden)]
    pub fn apply_unbudgeted(mut self, commit: Commit) -> Result<Self, Fault> {
        self.extend(commit, false)?;
        Ok(self)
    }

    /// In place, for callers that drop the state if its next commit is refused.
    fn extend(&mut self, commit: Commit, budgeted: bool) -> Result<(), Fault> {
        self.admit_commit(&commit)?;
        let Commit { source, id, previous: _, request, actor, policy_epoch, at, operations } = commit;
        let first_claim = self.claims.len() as u32;
        let candidate = source.len() as u64 + 1;
        let context = Context {
            commit_id: &id,
            request_id: &request.id,
            kind: request.kind,
            parameters: &request.parameters,
            actor: &actor,
            at,
            ordinal: self.requests.len() as u32,
        };
        let carries = Carries::of(&operations);
        if carries.work {
            self.admit_nodes(&operations, &context)?;
        }
        let mut pending = Pending::new(&operations);
        for (index, operation) in operations.into_iter().enumerate() {
            self.apply_operation(operation, index as u32, &context, &mut pending)?;
        }
        pending.settle(self, &context)?;
        let accepted = Accepted {
            source: Source::Commit(source),
            commit_id: id.clone(),
            request_id: request.id.clone(),
            kind: request.kind,
            fingerprint: request.fingerprint.clone(),
            actor: Arc::clone(&actor),
            at,
            policy_epoch,
            claims: (first_claim, self.claims.len() as u32),
        };
        self.request_ids.insert(request.id, self.requests.len() as u32);
        self.requests.push(accepted);
        ensure!(self.commit_ids.insert(id.clone(), ()), LedgerInvalid, "two commits have one id");
        self.tip = Some(id);
        if budgeted {
            self.check_budget(candidate, carries.admission, carries.optional)?;
        }
        self.ledger_bytes += candidate;
        Ok(())
    }

    /// Steps 1 to 10 of the pipeline: everything that is decided before an operation is looked at.
    fn admit_commit(&mut self, commit: &Commit) -> Result<(), Fault> {
        let actor = &commit.actor;
        if self.requests.is_empty() && self.repository.is_none() {
            self.repository = Some(actor.repository.clone());
        }
        let request = &commit.request;
        ensure!(
            !self.request_ids.contains_key(&request.id) || mutated!(RequestTwice),
            RequestReused,
            "the request id is committed already"
        );
        let checkpoint = commit.request.kind == RequestKind::Checkpoint;
        ensure!(!checkpoint, CheckpointInvalid, "a checkpoint stands only at the root of a chain");
        if self.requests.is_empty() {
            ensure!(is_genesis(commit), PolicyMissing, "a ledger begins with a Policy");
        }
        ensure!(
            self.installed.is_none() || self.repository.as_ref() == Some(&actor.repository),
            ActorUnauthorized,
            "the actor belongs to another repository"
        );
        let policy = commit.operations.iter().find_map(|operation| match operation {
            Operation::Policy(policy) => Some(policy),
            _ => None,
        });
        match policy {
            Some(operation) => self.admit_policy(commit, operation)?,
            None => {
                let current = self.installed.as_ref().is_some_and(|installed| installed.epoch == commit.policy_epoch);
                ensure!(current, PolicyInvalid, "the commit names an epoch that is not installed");
            }
        }
        let installed = self.rules()?;
        ensure!(
            commit.operations.len() as u64 <= installed.policy.limits.operations,
            ResourceLimit,
            "a commit carries more operations than the Policy allows"
        );
        self.check_control_scope(commit, actor)?;
        if let Parameters::Finish(finish) = &request.parameters {
            let expected = self.finish_operations(finish, actor, commit.at)?;
            let same = generate::same_operations(&expected, &commit.operations);
            ensure!(same, RequestInvalid, "the operations are not the computed ones");
        }
        Ok(())
    }

    fn admit_policy(&mut self, commit: &Commit, operation: &PolicyOperation) -> Result<(), Fault> {
        let policies = commit.operations.iter().filter(|operation| matches!(operation, Operation::Policy(_))).count();
        let bootstrap = self.requests.is_empty() && commit.request.kind == RequestKind::Submit;
        let administrator = commit.actor.role == Role::Administrator;
        let placed = if bootstrap {
            matches!(commit.operations.first(), Some(Operation::Policy(_))) && !administrator
        } else {
            commit.operations.len() == 1 && (self.installed.is_none() || administrator)
        };
        let quiescent = self.installed.is_none() || self.is_quiescent() || mutated!(PolicyWhileActive);
        let fresh = commit.policy_epoch == operation.epoch && !self.seen_epochs.contains(&operation.epoch);
        ensure!(policies == 1 && placed, PolicyNotQuiescent, "a Policy changes alone, and by an administrator");
        ensure!(fresh, PolicyNotQuiescent, "the epoch is not a new one");
        ensure!(
            quiescent,
            PolicyNotQuiescent,
            "Work is unfinished, a delivery is pending, or a native reservation is held"
        );
        let policy = &operation.policy;
        let scoped = !policy.aw
            || policy
                .pools
                .values()
                .flat_map(|pool| pool.profiles.values())
                .all(|profile| profile.effect_scope.as_str() == commit.actor.repository.as_str());
        ensure!(scoped, PolicyInvalid, "an AW profile's effects reach beyond the queue repository");
        self.install(operation.epoch.clone(), policy.clone());
        Ok(())
    }

    /// True if a Policy may change: no active Work, no unreleased dispatch (engine.md 3.8).
    #[must_use]
    pub fn is_quiescent(&self) -> bool {
        self.active_works == 0 && self.unreleased == 0
    }

    /// Installs a Policy: clocks and observation counters start anew.
    pub(crate) fn install(&mut self, epoch: Epoch, policy: Policy) {
        let scales = Arc::new(Scales::new(&policy));
        self.pools = policy.pools.keys().map(|name| PoolState::new(name.clone(), &scales)).collect();
        self.registry = super::registry::Registry::initial(&policy);
        self.observation_writes.clear();
        self.seen_epochs.insert(epoch.clone());
        self.installed = Some(Arc::new(Installed { epoch, policy }));
    }
}

/// The two forms of a genesis commit.
fn is_genesis(commit: &Commit) -> bool {
    match (commit.request.kind, commit.operations.as_slice()) {
        (RequestKind::Submit, [Operation::Policy(_), nodes @ ..]) => {
            commit.request.parameters == Parameters::Nodes
                && matches!(commit.actor.role, Role::Producer | Role::Dispatcher)
                && !nodes.is_empty()
                && nodes.iter().all(|node| matches!(node, Operation::Work(_)))
        }
        (RequestKind::Policy, [Operation::Policy(_)]) => commit.actor.role == Role::Administrator,
        _ => false,
    }
}

/// What a commit carries, for admission and the budget.
#[derive(Clone, Copy)]
struct Carries {
    work: bool,
    /// Work or Claim.
    admission: bool,
    /// Observation, IssueLink or IssueComment.
    optional: bool,
}

impl Carries {
    fn of(operations: &[Operation]) -> Self {
        let any = |test: fn(&Operation) -> bool| operations.iter().any(test);
        let work = any(|operation| matches!(operation, Operation::Work(_)));
        Self {
            work,
            admission: work || any(|operation| matches!(operation, Operation::Claim(_))),
            optional: any(|operation| {
                matches!(operation, Operation::Observation(_) | Operation::IssueLink(_) | Operation::IssueComment(_))
            }),
        }
    }
}
