//! Binding a dispatch to its one run (lifecycle.md 1.6, 2.4, 2.6).

use std::sync::Arc;

use crate::engine::Projection;
use crate::engine::state::{DispatchPhase, DispatchState};
use crate::ledger::{Current, Ledger};
use crate::protocol::actor::Actor;
use crate::protocol::assignment::Assignment;
use crate::protocol::evidence::{EvidenceKind, EvidenceSource, RunBinding};
use crate::protocol::fault::ensure;
use crate::protocol::operation::{Dispatch, DispatchStep, Operation};
use crate::protocol::request::RequestKind;
use crate::protocol::{At, Code, Digest, DispatchId, Fault};

use super::error::LaunchError;
use super::native::{Expected, NativeRepository, WorkerRun, binding, check_run, evidence, with_run};
use super::release::find;
use super::step::publish_step;

/// Publishes the binding of a dispatch to a run that passed every check, and reads it back. An identical binding, by
/// whomever, is done.
///
/// # Errors
/// `run_binding_conflict` for a dispatch that is bound to another run, or a run that another dispatch is bound to;
/// otherwise as a publication.
pub fn bind(
    ledger: &mut dyn Ledger,
    actor: &Actor,
    dispatch_id: &DispatchId,
    run: &WorkerRun,
    source: EvidenceSource,
    checked_at: At,
) -> Result<RunBinding, LaunchError> {
    let current = ledger.read_present()?;
    let wanted = wanted(&current, dispatch_id, run)?;
    let bound = |current: &Current| -> Result<bool, Fault> {
        match &find(&current.projection, dispatch_id)?.run {
            Some(known) if *known == wanted => Ok(true),
            Some(_) => Err(Fault::new(Code::RunBindingConflict, "the dispatch is bound to another run")),
            None => Ok(false),
        }
    };
    if bound(&current)? {
        return Ok(wanted);
    }
    drop(current);
    let parts = ["bind", dispatch_id.as_str(), run.run_id.as_str()];
    let published = publish_step(ledger, actor, RequestKind::Dispatch, &parts, &|projection| {
        let dispatch = find(projection, dispatch_id)?;
        // Somebody was faster: the same binding is not written twice, and another one is a conflict.
        ensure!(dispatch.run.is_none(), RunBindingConflict, "the dispatch was bound meanwhile");
        let repository = projection.repository().ok_or_else(|| Fault::from(Code::PolicyMissing))?;
        let proof = evidence(dispatch, repository, EvidenceKind::Reconciliation, source, None, checked_at)?;
        Ok(vec![Operation::Dispatch(Box::new(Dispatch {
            dispatch_id: dispatch_id.clone(),
            reason: None,
            evidence: Some(with_run(proof, run)),
            run: Some(wanted.clone()),
            sender: None,
            state: DispatchStep::Bound,
            credential_principal: None,
        }))])
    });
    let current = match published {
        Ok(stepped) => stepped.current,
        // An identical binding may have come first.
        Err(error) => match ledger.read_present() {
            Ok(current) if bound(&current)? => current,
            _ => return Err(error),
        },
    };
    if bound(&current)? { Ok(wanted) } else { Err(Fault::from(Code::WorkQueueBindingNotDurable).into()) }
}

fn wanted(current: &Current, dispatch_id: &DispatchId, run: &WorkerRun) -> Result<RunBinding, Fault> {
    let repository = current.projection.repository().ok_or_else(|| Fault::from(Code::PolicyMissing))?;
    binding(find(&current.projection, dispatch_id)?, repository, run)
}

/// The stored dispatch of an assignment, canonically the same, and whether it is of the active epoch (lifecycle.md 1.2
/// steps 3 and 4).
///
/// # Errors
/// `work_queue_assignment_mismatch`.
pub(super) fn stored<'p>(
    projection: &'p Projection,
    assignment: &Assignment,
) -> Result<(&'p DispatchState, bool), Fault> {
    let dispatch = projection.dispatch(assignment.dispatch_id.as_str());
    let dispatch = dispatch.filter(|dispatch| dispatch.assignment.canonical() == assignment.canonical());
    let dispatch = dispatch.ok_or_else(|| Fault::from(Code::WorkQueueAssignmentMismatch))?;
    Ok((dispatch, projection.installed().is_some_and(|installed| installed.epoch == assignment.policy_epoch)))
}

/// The stored dispatch of an assignment that a worker was given: canonically the same, of the active epoch, unreleased,
/// with its frozen contract (lifecycle.md 1.2 steps 3 to 5, 2.6 steps 3 to 5).
///
/// # Errors
/// `work_queue_assignment_mismatch`, `work_queue_assignment_policy_mismatch`, `work_queue_dispatch_not_active`,
/// `work_queue_worker_contract_mismatch`, `work_queue_launch_marker_required`.
pub fn assigned<'c>(
    current: &'c Current,
    assignment: &Assignment,
    contract: Option<&Digest>,
) -> Result<&'c DispatchState, Fault> {
    let (dispatch, active) = stored(&current.projection, assignment)?;
    ensure!(active, WorkQueueAssignmentPolicyMismatch, "the assignment belongs to a retired epoch");
    ensure!(!dispatch.released, WorkQueueDispatchNotActive, "the dispatch is released");
    let frozen = dispatch.profile.logical_contract.as_ref();
    ensure!(
        frozen.is_none_or(|frozen| contract == Some(frozen)),
        WorkQueueWorkerContractMismatch,
        "the compiled worker has another contract than the dispatch's frozen profile"
    );
    ensure!(
        dispatch.phase != DispatchPhase::Reserved && dispatch.phase != DispatchPhase::Moved(DispatchStep::Rejected),
        WorkQueueLaunchMarkerRequired,
        "the dispatch has no start marker, so no run of it can be bound"
    );
    Ok(dispatch)
}

/// What a worker's activation knows of itself.
#[derive(Clone, Copy)]
pub struct Activation<'a> {
    /// The assignment that the run was given.
    pub assignment: &'a Assignment,
    /// The contract stamp of the compiled worker.
    pub contract: Option<&'a Digest>,
    /// The authenticated worker, with its dispatch.
    pub actor: &'a Actor,
    /// Its run, as the API shows it.
    pub run: &'a crate::forge::Run,
    /// The repository.
    pub repository: &'a NativeRepository,
    /// When the run was read.
    pub checked_at: At,
}

/// Binds a worker's own run, or verifies that it is bound (lifecycle.md 2.6): the recovery of a launch whose answer was
/// lost. Returns the queue with the durable binding.
///
/// # Errors
/// As [`assigned`], `check_run` and [`bind`]; the worker ends with any of them.
pub fn bind_own(
    ledger: &mut dyn Ledger,
    activation: &Activation<'_>,
) -> Result<(Arc<Current>, RunBinding), LaunchError> {
    let dispatch_id = &activation.assignment.dispatch_id;
    let current = ledger.read_present()?;
    let dispatch = assigned(&current, activation.assignment, activation.contract)?;
    let expected = Expected::of(dispatch, activation.repository)?;
    let run = check_run(activation.run, &expected)?;
    drop(current);
    let source = EvidenceSource::TrustedActivation;
    let bound = bind(ledger, activation.actor, dispatch_id, &run, source, activation.checked_at)?;
    let current = ledger.read_present()?;
    let dispatch = assigned(&current, activation.assignment, activation.contract)?;
    if dispatch.run.as_ref() != Some(&bound) {
        return Err(Fault::from(Code::WorkQueueBindingNotDurable).into());
    }
    Ok((current, bound))
}
