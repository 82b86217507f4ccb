//! Reconciliation of one group and of a pool (lifecycle.md 3). It looks, binds what proves itself, and frees capacity on
//! evidence alone: an empty search, a passed deadline, a cancelled dispatcher and a missing answer are evidence of
//! nothing.

use std::time::Duration;

use crate::engine::Projection;
use crate::engine::state::{DispatchPhase, DispatchState};
use crate::forge::Client;
use crate::ledger::Ledger;
use crate::ports::Clock;
use crate::protocol::actor::{Actor, Role};
use crate::protocol::evidence::{Evidence, EvidenceKind, EvidenceSource};
use crate::protocol::identity::{Within, sha256_hex};
use crate::protocol::json::Scanner;
use crate::protocol::operation::{Dispatch, DispatchStep, Operation};
use crate::protocol::request::RequestKind;
use crate::protocol::{
    Code, Decimal, Digest, DispatchId, Fault, Identity, Measured, Reason, RepositoryName, Wire as _,
};

use super::bind::bind;
use super::discover::{Found, candidates};
use super::error::LaunchError;
use super::native::{Expected, WorkerRun, check_run, ended, evidence, read_repository, with_run, workflow_path};
use super::release::{cancel_before_launch, find, never_started, release};
use super::report::{GroupReport, GroupState};
use super::step::{in_role, publish_step};

/// Most groups of one sweep.
pub const MAX_SWEEP: usize = 16;

/// What a reconciliation works with. It never sends a dispatch.
pub struct Reconciler<'a, 'l> {
    /// The queue.
    pub ledger: &'l mut (dyn Ledger + 'a),
    /// Reads of runs.
    pub client: Client<'a>,
    /// Time.
    pub clock: &'a dyn Clock,
    /// The repository of queue and runs.
    pub repository: &'a RepositoryName,
    /// The host of external resources, for reading records.
    pub host: &'a str,
    /// Who publishes: an authenticated run or operator; its role is set for each write.
    pub actor: &'a Actor,
    /// True if a bound run that is still active is to be asked to cancel.
    pub request_cancellation: bool,
}

/// Reads the run of a bound dispatch, for whoever asks: the evidence of its end, or of its being active. Writes nothing.
/// None for a dispatch without a run.
///
/// # Errors
/// `dispatch_missing`, a failed read, or a run that is not the bound one.
pub fn run_evidence(
    ledger: &mut dyn Ledger,
    client: Client<'_>,
    clock: &dyn Clock,
    repository: &RepositoryName,
    dispatch_id: &DispatchId,
) -> Result<Option<Measured<Evidence>>, LaunchError> {
    let current = ledger.read_present()?;
    let dispatch = find(&current.projection, dispatch_id)?;
    if dispatch.run.is_none() {
        return Ok(None);
    }
    read_bound(client, clock, repository, &current.projection, dispatch).map(Some)
}

/// The evidence of a bound run: `terminal_run` once it has ended, `reconciliation` while it is active.
fn read_bound(
    client: Client<'_>,
    clock: &dyn Clock,
    repository: &RepositoryName,
    projection: &Projection,
    dispatch: &DispatchState,
) -> Result<Measured<Evidence>, LaunchError> {
    let native = read_repository(client, repository)?;
    let expected = Expected::of(dispatch, &native)?;
    let run_id = expected.run_id.ok_or_else(|| Fault::from(Code::Internal))?;
    // Attempt 1 stays readable after somebody pressed "re-run".
    let run = check_run(&client.run_attempt(repository, run_id, 1)?, &expected)?;
    let spelling = projection.repository().ok_or_else(|| Fault::from(Code::PolicyMissing))?;
    let kind = if run.conclusion.is_some() { EvidenceKind::TerminalRun } else { EvidenceKind::Reconciliation };
    let proof = evidence(dispatch, spelling, kind, EvidenceSource::GithubApi, None, clock.now())?;
    Ok(with_run(proof, &run))
}

impl Reconciler<'_, '_> {
    /// Reconciles one group. `returned` is the run that this process's own POST answered with, if it did.
    ///
    /// # Errors
    /// `dispatch_missing`, and failures of the first read. Everything after that is a report.
    pub fn group(&mut self, dispatch_id: &DispatchId, returned: Option<&Decimal>) -> Result<GroupReport, LaunchError> {
        let current = self.ledger.read_present()?;
        let dispatch = find(&current.projection, dispatch_id)?;
        let (released, reserved) = (dispatch.released, dispatch.phase == DispatchPhase::Reserved);
        let (bound, rejected) =
            (dispatch.run.is_some(), dispatch.phase == DispatchPhase::Moved(DispatchStep::Rejected));
        drop(current);
        if released {
            return Ok(GroupReport::new(dispatch_id, GroupState::Released));
        }
        if reserved {
            return self.reserved(dispatch_id);
        }
        let done = match (bound, rejected) {
            (true, _) => self.bound(dispatch_id),
            (false, true) => self.rejected(dispatch_id),
            (false, false) => self.unbound(dispatch_id, returned),
        };
        Ok(done.unwrap_or_else(|error| {
            let state = if error.code() == Code::RunBindingConflict {
                GroupState::RunBindingConflict
            } else {
                GroupState::LaunchUnresolved
            };
            GroupReport::new(dispatch_id, state).blocked(error.code())
        }))
    }

    fn bound(&mut self, dispatch_id: &DispatchId) -> Result<GroupReport, LaunchError> {
        let current = self.ledger.read_present()?;
        let dispatch = find(&current.projection, dispatch_id)?;
        let run_id = dispatch.run.as_ref().map(|run| run.run_id.clone());
        let read = read_bound(self.client, self.clock, self.repository, &current.projection, dispatch);
        drop(current);
        let report = |state| GroupReport { run_id: run_id.clone(), ..GroupReport::new(dispatch_id, state) };
        match read {
            Ok(proof) if proof.kind != EvidenceKind::TerminalRun => {
                let mut state = GroupState::Bound;
                if let (true, Some(run_id)) = (self.request_cancellation, &run_id) {
                    // Asking proves nothing; what the run does next is read the next time.
                    match self.client.cancel_run(self.repository, run_id) {
                        Ok(()) => state = GroupState::CancellationRequested,
                        Err(error) => return Ok(report(state).blocked(error.code())),
                    }
                }
                Ok(GroupReport { evidence: Some(proof), ..report(state) })
            }
            Ok(proof) => {
                let actor = in_role(self.actor, Role::Reconciler);
                match release(&mut *self.ledger, &actor, dispatch_id, &proof) {
                    Ok(()) => Ok(GroupReport { evidence: Some(proof), ..report(GroupState::Released) }),
                    Err(error) => {
                        Ok(GroupReport { evidence: Some(proof), ..report(GroupState::Bound).blocked(error.code()) })
                    }
                }
            }
            // The binding stands; only the run's state is unknown.
            Err(error) => Ok(report(GroupState::Bound).blocked(error.code())),
        }
    }

    /// A rejection that was written down while its release was not: the recorded proof frees the reservation.
    fn rejected(&mut self, dispatch_id: &DispatchId) -> Result<GroupReport, LaunchError> {
        let current = self.ledger.read_present()?;
        let mut scanner = Scanner::new(self.host);
        let recorded = current.projection.rejection(dispatch_id, &mut scanner);
        let (mut proof, accepted) = recorded.ok_or_else(|| Fault::from(Code::NonlaunchEvidenceRequired))?;
        if proof.receipt.is_none() {
            // A checkpoint leaves the receipt out; the rejecting request is where the host's answer was recorded.
            let request = sha256_hex(&[accepted.request_id.as_str()]);
            proof.receipt = Some(Identity::new(format!("github_rejection_recorded:{request}"))?);
        }
        drop(current);
        let (proof, actor) = (Measured::new(proof), in_role(self.actor, Role::Reconciler));
        release(&mut *self.ledger, &actor, dispatch_id, &proof)?;
        let report = GroupReport::new(dispatch_id, GroupState::Released);
        Ok(GroupReport { evidence: Some(proof), rejected: true, ..report })
    }

    /// A reservation without a start marker is freed only when the attempt that granted it has ended and a later read
    /// still shows that nothing was begun (lifecycle.md 3.7).
    fn reserved(&mut self, dispatch_id: &DispatchId) -> Result<GroupReport, LaunchError> {
        let kept = GroupReport::new(dispatch_id, GroupState::Reserved);
        match self.origin_ended(dispatch_id) {
            Ok(true) => {}
            Ok(false) => return Ok(kept),
            Err(error) => return Ok(kept.blocked(error.code())),
        }
        let actor = in_role(self.actor, Role::Reconciler);
        match cancel_before_launch(&mut *self.ledger, &actor, dispatch_id, self.clock.now()) {
            Ok(proof) => {
                Ok(GroupReport { evidence: Some(proof), ..GroupReport::new(dispatch_id, GroupState::Released) })
            }
            Err(error) if error.code() == Code::WorkQueueLaunchMayHaveStarted => {
                Ok(GroupReport::new(dispatch_id, GroupState::LaunchUnresolved).blocked(error.code()))
            }
            Err(error) => Ok(kept.blocked(error.code())),
        }
    }

    /// True if the exact attempt that granted a dispatch is authenticated and has ended.
    fn origin_ended(&mut self, dispatch_id: &DispatchId) -> Result<bool, LaunchError> {
        let current = self.ledger.read_present()?;
        let dispatch = find(&current.projection, dispatch_id)?;
        let accepted = current.projection.request(dispatch.assignment.request_id.as_str());
        let Some(actor) = accepted.map(|accepted| accepted.actor.clone()) else { return Ok(false) };
        drop(current);
        let (Some(run_id), Some(attempt), Some(workflow)) = (&actor.run_id, &actor.run_attempt, &actor.workflow) else {
            return Ok(false);
        };
        let repository = read_repository(self.client, self.repository)?;
        let run = self.client.run_attempt(self.repository, run_id, attempt.get())?;
        let same = run.id == *run_id
            && run.run_attempt.and_then(|n| i64::try_from(n).ok()) == Some(attempt.get())
            && run.repository.id == repository.id
            && run.repository.full_name.eq_ignore_ascii_case(repository.name.as_str())
            && workflow_path(&run.path) == workflow.as_str()
            && run.actor.as_ref().is_some_and(|account| account.id == actor.principal);
        if !same {
            return Err(Fault::from(Code::PublisherNativeContextMismatch).into());
        }
        Ok(ended(&run).is_some())
    }

    /// Cancels a reservation on an operator's word, with exactly the evidence that a sweep needs (decision 23).
    ///
    /// # Errors
    /// `work_queue_launch_may_have_started`; `nonlaunch_evidence_required` while the origin has not ended or cannot be
    /// read; otherwise as a publication.
    pub fn cancel_reserved(&mut self, dispatch_id: &DispatchId) -> Result<Measured<Evidence>, LaunchError> {
        if !never_started(find(&self.ledger.read_present()?.projection, dispatch_id)?) {
            return Err(Fault::from(Code::WorkQueueLaunchMayHaveStarted).into());
        }
        if !self.origin_ended(dispatch_id)? {
            return Err(Fault::from(Code::NonlaunchEvidenceRequired).into());
        }
        let actor = in_role(self.actor, Role::Reconciler);
        cancel_before_launch(&mut *self.ledger, &actor, dispatch_id, self.clock.now())
    }

    /// The bounded discovery of an unbound launch (lifecycle.md 3.2).
    fn unbound(&mut self, dispatch_id: &DispatchId, returned: Option<&Decimal>) -> Result<GroupReport, LaunchError> {
        let begun = self.clock.now();
        let (most, deadline) = self.bounds(dispatch_id)?;
        let mut blocked = None;
        let mut attempts = 0;
        for n in 0..most {
            let current = self.ledger.read_present()?;
            let dispatch = find(&current.projection, dispatch_id)?;
            if dispatch.released {
                return Ok(GroupReport::new(dispatch_id, GroupState::Released));
            }
            if dispatch.run.is_some() {
                drop(current);
                return self.bound(dispatch_id);
            }
            attempts = n + 1;
            tracing::debug!(target: "work-queue:reconciler", attempt = attempts, "discovery.attempt");
            let hint = if n == 0 {
                let mut scanner = Scanner::new(self.host);
                returned.cloned().or_else(|| current.projection.run_hint(dispatch_id, &mut scanner))
            } else {
                None
            };
            let found = candidates(self.client, self.repository, dispatch, hint.as_ref());
            drop(current);
            match found {
                Ok(Found::One(run)) => match self.bind_found(dispatch_id, &run) {
                    Ok(()) => return self.bound(dispatch_id),
                    Err(error) if error.code() == Code::RunBindingConflict => return Err(error),
                    Err(error) => blocked = Some(error.code()),
                },
                Ok(Found::Inconclusive) => return Err(Fault::from(Code::RunBindingConflict).into()),
                Ok(Found::None) => blocked = None,
                Err(error) => blocked = Some(error.code()),
            }
            if self.clock.now().get() - begun.get() >= deadline {
                break;
            }
            if attempts < most {
                self.clock.sleep(Duration::from_millis((50_u64 << n.min(10)).min(1000)));
            }
        }
        let report = GroupReport::new(dispatch_id, GroupState::LaunchUnresolved);
        let mut report = GroupReport { attempts: Some(attempts), blocked, ..report };
        // A deadline that ends the search earlier writes nothing.
        if attempts >= most
            && let Err(error) = self.record_unresolved(dispatch_id, attempts, &mut report)
        {
            // The old marker is as safe as the new one.
            report.blocked = report.blocked.or(Some(error.code()));
        }
        Ok(report)
    }

    pub(super) fn bounds(&mut self, dispatch_id: &DispatchId) -> Result<(u32, i64), LaunchError> {
        let current = self.ledger.read_present()?;
        let pool = &find(&current.projection, dispatch_id)?.assignment.pool;
        let installed = current.projection.installed().ok_or_else(|| Fault::from(Code::PolicyMissing))?;
        let bounds = installed.policy.pools.get(pool).map(|pool| &pool.reconciliation);
        let bounds = bounds.ok_or_else(|| Fault::from(Code::PoolInvalid))?;
        Ok((u32::try_from(bounds.max_attempts.get()).unwrap_or(1), bounds.deadline_ms.get()))
    }

    fn bind_found(&mut self, dispatch_id: &DispatchId, run: &WorkerRun) -> Result<(), LaunchError> {
        let role = if self.actor.role == Role::Dispatcher { Role::Dispatcher } else { Role::Reconciler };
        let (actor, at) = (in_role(self.actor, role), self.clock.now());
        bind(&mut *self.ledger, &actor, dispatch_id, run, EvidenceSource::GithubApi, at).map(|_| ())
    }

    /// Writes down that discovery used its attempts up (lifecycle.md 3.4). It frees nothing.
    fn record_unresolved(
        &mut self,
        dispatch_id: &DispatchId,
        attempts: u32,
        report: &mut GroupReport,
    ) -> Result<(), LaunchError> {
        let current = self.ledger.read_present()?;
        let dispatch = find(&current.projection, dispatch_id)?;
        if dispatch.phase == DispatchPhase::Moved(DispatchStep::Unresolved) {
            return Ok(());
        }
        let spelling = current.projection.repository().ok_or_else(|| Fault::from(Code::PolicyMissing))?;
        let (kind, source) = (EvidenceKind::Reconciliation, EvidenceSource::GithubApi);
        let mut proof = evidence(dispatch, spelling, kind, source, None, self.clock.now())?;
        proof.attempts = Within::new(i64::from(attempts)).ok();
        let proof = Measured::new(proof);
        drop(current);
        let digest = Digest::of(&[&proof.canonical()]);
        let actor = in_role(self.actor, Role::Reconciler);
        let parts = ["unresolved", dispatch_id.as_str(), digest.as_str()];
        publish_step(&mut *self.ledger, &actor, RequestKind::Dispatch, &parts, &|projection| {
            let dispatch = find(projection, dispatch_id)?;
            let open = matches!(dispatch.phase, DispatchPhase::Moved(DispatchStep::Started | DispatchStep::Uncertain));
            if !open || dispatch.run.is_some() || dispatch.released {
                return Err(Fault::from(Code::WorkQueueResolutionAlreadyRecorded));
            }
            Ok(vec![Operation::Dispatch(Box::new(Dispatch {
                dispatch_id: dispatch_id.clone(),
                reason: Some(Reason::new("launch_unresolved")?),
                evidence: Some(proof.clone()),
                run: None,
                sender: None,
                state: DispatchStep::Unresolved,
                credential_principal: None,
            }))])
        })?;
        report.evidence = Some(proof);
        Ok(())
    }

    /// Reconciles up to `most` groups of a pool, or of all pools: those with a bound run first, then by id; where there
    /// are more, another part of them each run (lifecycle.md 3.9). A failure of one group stops none of the others.
    ///
    /// # Errors
    /// A failed first read of the queue.
    pub fn sweep(&mut self, pool: Option<&str>, most: usize, run_number: u64) -> Result<Vec<GroupReport>, LaunchError> {
        let ids = outstanding(&self.ledger.read_present()?.projection, pool);
        let taken = rotate(ids, most.min(MAX_SWEEP), run_number);
        Ok(taken
            .into_iter()
            .map(|id| {
                self.group(&id, None)
                    .unwrap_or_else(|error| GroupReport::new(&id, GroupState::LaunchUnresolved).blocked(error.code()))
            })
            .collect())
    }
}

/// The groups whose reservation is held, those with a bound run first, then by id.
fn outstanding(projection: &Projection, pool: Option<&str>) -> Vec<DispatchId> {
    let mut held: Vec<(bool, &DispatchId)> = projection
        .dispatches()
        .filter(|dispatch| !dispatch.released)
        .filter(|dispatch| pool.is_none_or(|pool| dispatch.assignment.pool.as_str() == pool))
        .map(|dispatch| (dispatch.run.is_none(), &dispatch.assignment.dispatch_id))
        .collect();
    held.sort_unstable();
    held.into_iter().map(|(_, id)| id.clone()).collect()
}

/// At most `most` of these, beginning at another one each run, so that repeated runs cover all of them.
fn rotate(mut ids: Vec<DispatchId>, most: usize, run_number: u64) -> Vec<DispatchId> {
    let count = ids.len();
    if count > most {
        let offset = run_number.saturating_sub(1) % count as u64;
        ids.rotate_left(usize::try_from(offset).unwrap_or(0));
        ids.truncate(most);
    }
    ids
}
