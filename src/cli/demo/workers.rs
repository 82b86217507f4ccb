//! Simulated native runs: each publishes what a real dispatcher, worker and reconciler would, in their roles.

use super::super::Failure;
use super::super::publish::freeze;
use super::stage::PRINCIPAL;
use super::story::lost;
use crate::engine::Projection;
use crate::engine::state::{ClaimState, ClaimStatus, DispatchState};
use crate::ledger::Publisher;
use crate::ports::{Clock as _, SystemClock};
use crate::protocol::actor::{Actor, Role};
use crate::protocol::evidence::{Evidence, EvidenceKind, EvidenceSource, RunBinding, RunStatus};
use crate::protocol::identity::FirstAttempt;
use crate::protocol::json::Writer;
use crate::protocol::operation::{
    ClaimCancellation, Descriptor, Dispatch, DispatchStep, Operation, Release, ResultOperation,
};
use crate::protocol::policy::later;
use crate::protocol::request::{FinishParameters, Outcome, RequestKind};
use crate::protocol::wire::Measured;
use crate::protocol::{At, Code, Decimal, DispatchId, Handle, Identity, Opaque, Reason, RequestId, Wire as _};

/// Publishes for simulated runs, one request after another.
pub(super) struct Simulation<'a> {
    publisher: Publisher<'a>,
    repository: crate::protocol::Repository,
    requests: u32,
    runs: u32,
}

/// What a simulated worker does with one member of its assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Complete,
    Cancel,
    Omit,
}

impl<'a> Simulation<'a> {
    pub(super) fn new(publisher: Publisher<'a>, repository: crate::protocol::Repository) -> Self {
        Self { publisher, repository, requests: 0, runs: 1000 }
    }

    /// The queue as it stands.
    pub(super) fn read(&mut self) -> Result<Projection, Failure> {
        // Dropped at once, so that the next read extends the publisher's copy.
        let current = self.publisher.read_present()?;
        Ok(current.projection.clone())
    }

    fn actor(&self, role: Role) -> Result<Actor, Failure> {
        let mut actor = Actor::new(Role::Reconciler, Decimal::new(PRINCIPAL)?, self.repository.clone())?;
        if role == Role::Dispatcher {
            actor.role = role;
            actor.workflow = Some(Identity::new(".github/workflows/dispatcher.lock.yml")?);
            actor.run_id = Some(Decimal::new("100")?);
            actor.run_attempt = Some(crate::protocol::identity::Within::new(1)?);
        }
        Ok(actor)
    }

    fn worker(&self, run: &RunBinding, dispatch: &DispatchId, handle: Option<&Handle>) -> Result<Actor, Failure> {
        let mut actor = self.actor(Role::Dispatcher)?;
        actor.role = Role::Worker;
        actor.workflow = Some(run.workflow.clone());
        actor.run_id = Some(run.run_id.clone());
        actor.dispatch_id = Some(dispatch.clone());
        actor.claim_handle = handle.cloned();
        Ok(actor)
    }

    fn publish(&mut self, kind: RequestKind, actor: &Actor, parameters: &str) -> Result<(), Failure> {
        self.requests += 1;
        let id = RequestId::new(format!("demo-simulated-{}", self.requests))?;
        let request = freeze(&id, kind, actor, parameters)?;
        match self.publisher.publish_request(&request, None)?.outcome.commit_id() {
            Some(_) => Ok(()),
            None => Err(lost("a simulated run published nothing")),
        }
    }

    fn operations(&mut self, kind: RequestKind, actor: &Actor, operations: &[Operation]) -> Result<(), Failure> {
        let mut writer = Writer::new();
        writer.object(|members| members.name("operations", |w| w.array(operations, |w, one| one.write(w))));
        self.publish(kind, actor, &writer.finish())
    }

    /// The start marker: the dispatcher says that it is about to launch.
    pub(super) fn start(&mut self, dispatch: &DispatchState) -> Result<(), Failure> {
        let sender = self.actor(Role::Dispatcher)?;
        let mut step = step(dispatch, DispatchStep::Started);
        step.credential_principal = Some(Decimal::new(PRINCIPAL)?);
        step.sender = Some(sender.clone());
        self.operations(RequestKind::Dispatch, &sender, &[Operation::Dispatch(Box::new(step))])
    }

    /// A run comes up and binds itself to its dispatch.
    pub(super) fn bind(&mut self, dispatch: &DispatchState) -> Result<RunBinding, Failure> {
        self.runs += 1;
        let run = RunBinding {
            run_id: Decimal::new(self.runs.to_string())?,
            run_attempt: FirstAttempt,
            repository: Identity::new(self.repository.as_str().to_owned())?,
            workflow: dispatch.profile.workflow.clone(),
            revision: dispatch.profile.revision.clone(),
            principal: Decimal::new(PRINCIPAL)?,
            event: Identity::new("workflow_dispatch")?,
        };
        let actor = self.worker(&run, &dispatch.assignment.dispatch_id, None)?;
        let mut step = step(dispatch, DispatchStep::Bound);
        let mut evidence = self.evidence(dispatch, EvidenceKind::Reconciliation, EvidenceSource::TrustedActivation)?;
        (evidence.run_id, evidence.run_attempt) = (Some(run.run_id.clone()), Some(FirstAttempt));
        (step.run, step.evidence) = (Some(run.clone()), Some(Measured::new(evidence)));
        self.operations(RequestKind::Dispatch, &actor, &[Operation::Dispatch(Box::new(step))])?;
        Ok(run)
    }

    /// The worker ends one member of its assignment, or leaves it.
    pub(super) fn finish(
        &mut self,
        run: &RunBinding,
        dispatch: &DispatchState,
        handle: &Handle,
        act: Act,
    ) -> Result<(), Failure> {
        let outcome = match act {
            Act::Complete => Outcome::Completed,
            Act::Cancel => Outcome::Cancelled,
            Act::Omit => return Ok(()),
        };
        let dispatch_id = dispatch.assignment.dispatch_id.clone();
        let actor = self.worker(run, &dispatch_id, Some(handle))?;
        let parameters = FinishParameters { dispatch_id, claim_handle: handle.clone(), outcome, keep_open: None };
        self.publish(RequestKind::Finish, &actor, &parameters.canonical())
    }

    /// The reconciler saw the run end: Results of what it completed, then the reservation is freed and what the run
    /// left open is cancelled for another attempt.
    pub(super) fn settle(&mut self, run: &RunBinding, dispatch_id: &DispatchId) -> Result<(), Failure> {
        let projection = self.read()?;
        let missing = || lost("a dispatch vanished");
        let dispatch = projection.dispatch(dispatch_id.as_str()).ok_or_else(missing)?;
        let mut results = Vec::new();
        for claim in members(&projection, dispatch) {
            if let ClaimStatus::Completed { commit_id, .. } = &claim.status {
                let mut evidence = self.evidence(dispatch, EvidenceKind::Delivery, EvidenceSource::VerifiedReceipts)?;
                (evidence.run_id, evidence.run_attempt) = (Some(run.run_id.clone()), Some(FirstAttempt));
                evidence.receipt = Some(Identity::new(format!("simulated-receipt-{}", run.run_id))?);
                let descriptor = crate::protocol::json::Value::Object(vec![(
                    "delivered".to_owned(),
                    crate::protocol::json::Value::String("simulated".to_owned()),
                )]);
                results.push(Operation::Result(Box::new(ResultOperation {
                    work_id: claim.claim.work_id.clone(),
                    claim_id: claim.claim.claim_id.clone(),
                    completion_id: commit_id.clone(),
                    evidence: Measured::new(evidence),
                    descriptor: Descriptor(Opaque::checked(descriptor.encode()?.into())),
                })));
            }
        }
        let reconciler = self.actor(Role::Reconciler)?;
        if !results.is_empty() {
            self.operations(RequestKind::Result, &reconciler, &results)?;
        }
        let mut evidence = self.evidence(dispatch, EvidenceKind::TerminalRun, EvidenceSource::GithubApi)?;
        (evidence.run_id, evidence.run_attempt) = (Some(run.run_id.clone()), Some(FirstAttempt));
        evidence.status = Some(RunStatus::Completed);
        evidence.conclusion = Some(Identity::new("success")?);
        self.release(&projection, dispatch, evidence, "native_run_terminal")
    }

    /// A launch whose answer never came: marked uncertain, then proven never to have started, then freed.
    pub(super) fn lose(&mut self, dispatch: &DispatchState) -> Result<(), Failure> {
        let reconciler = self.actor(Role::Reconciler)?;
        let mut doubt = step(dispatch, DispatchStep::Uncertain);
        doubt.reason = Some(Reason::new("launch_response_lost")?);
        self.operations(RequestKind::Dispatch, &reconciler, &[Operation::Dispatch(Box::new(doubt))])?;
        let mut evidence = self.evidence(dispatch, EvidenceKind::Nonlaunch, EvidenceSource::GithubApi)?;
        evidence.receipt = Some(Identity::new("simulated-nonlaunch")?);
        let mut rejected = step(dispatch, DispatchStep::Rejected);
        rejected.evidence = Some(Measured::new(evidence.clone()));
        self.operations(RequestKind::Dispatch, &reconciler, &[Operation::Dispatch(Box::new(rejected))])?;
        let projection = self.read()?;
        self.release(&projection, dispatch, evidence, "native_launch_rejected")
    }

    fn release(
        &mut self,
        projection: &Projection,
        dispatch: &DispatchState,
        evidence: Evidence,
        reason: &str,
    ) -> Result<(), Failure> {
        let backoff = projection
            .installed()
            .and_then(|installed| installed.policy.pools.get(&dispatch.assignment.pool))
            .map_or(1, |pool| pool.retry.backoff_ms.get());
        let boundary = later(evidence.checked_at, backoff);
        let boundary = boundary.ok_or_else(|| Failure::from(crate::protocol::Fault::from(Code::RetryInvalid)))?;
        let mut operations = Vec::new();
        for claim in members(projection, dispatch).filter(|claim| claim.status.is_open()) {
            operations.push(Operation::ClaimCancellation(ClaimCancellation {
                work_id: claim.claim.work_id.clone(),
                claim_id: claim.claim.claim_id.clone(),
                reason: Reason::new(reason.to_owned())?,
                retry_not_before: boundary,
            }));
        }
        let dispatch_id = dispatch.assignment.dispatch_id.clone();
        operations.push(Operation::Release(Box::new(Release { dispatch_id, evidence: Measured::new(evidence) })));
        let reconciler = self.actor(Role::Reconciler)?;
        self.operations(RequestKind::Release, &reconciler, &operations)
    }

    fn evidence(
        &self,
        dispatch: &DispatchState,
        kind: EvidenceKind,
        source: EvidenceSource,
    ) -> Result<Evidence, Failure> {
        Ok(Evidence {
            kind,
            source,
            repository: Identity::new(self.repository.as_str().to_owned())?,
            workflow: dispatch.profile.workflow.clone(),
            revision: dispatch.profile.revision.clone(),
            principal: Decimal::new(PRINCIPAL)?,
            checked_at: now(),
            conclusion: None,
            receipt: None,
            run_id: None,
            run_attempt: None,
            attempts: None,
            effects: None,
            status: None,
        })
    }
}

/// The current time.
pub(super) fn now() -> At {
    SystemClock.now()
}

fn members<'p>(projection: &'p Projection, dispatch: &'p DispatchState) -> impl Iterator<Item = &'p ClaimState> {
    dispatch.assignment.claims.iter().filter_map(|member| projection.claim(member.claim_id.as_str()))
}

fn step(dispatch: &DispatchState, state: DispatchStep) -> Dispatch {
    Dispatch {
        dispatch_id: dispatch.assignment.dispatch_id.clone(),
        state,
        reason: None,
        evidence: None,
        run: None,
        sender: None,
        credential_principal: None,
    }
}
