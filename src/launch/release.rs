//! Releases (lifecycle.md 3.6) and prelaunch cancellation (3.7): capacity is freed by evidence, once, together with the
//! Claims that are still open.

use crate::engine::Projection;
use crate::engine::state::{DispatchPhase, DispatchState};
use crate::ledger::Ledger;
use crate::protocol::actor::Actor;
use crate::protocol::evidence::{Evidence, EvidenceKind, EvidenceSource};
use crate::protocol::fault::ensure;
use crate::protocol::operation::{ClaimCancellation, Operation, Release, WorkCancellation};
use crate::protocol::policy::later;
use crate::protocol::request::RequestKind;
use crate::protocol::{At, Code, Digest, DispatchId, Fault, Measured, Reason, Wire as _};

use super::error::LaunchError;
use super::native::evidence;
use super::step::publish_step;

/// The dispatch of this id.
///
/// # Errors
/// `dispatch_missing`.
pub fn find<'p>(projection: &'p Projection, dispatch_id: &DispatchId) -> Result<&'p DispatchState, Fault> {
    projection.dispatch(dispatch_id.as_str()).ok_or_else(|| Fault::from(Code::DispatchMissing))
}

/// The release transaction on this state: every member Claim that is still open is cancelled, with its Work where the
/// attempts are used up, and then the reservation is freed.
fn transaction(
    projection: &Projection,
    dispatch_id: &DispatchId,
    evidence: &Measured<Evidence>,
) -> Result<Vec<Operation>, Fault> {
    let dispatch = find(projection, dispatch_id)?;
    ensure!(!dispatch.released, ReleaseInvalid, "the dispatch is released");
    let installed = projection.installed().ok_or_else(|| Fault::from(Code::PolicyMissing))?;
    let pool = installed.policy.pools.get(&dispatch.assignment.pool);
    let retry = pool.map(|pool| &pool.retry).ok_or_else(|| Fault::from(Code::PoolInvalid))?;
    let boundary = later(evidence.checked_at, retry.backoff_ms.get()).ok_or_else(|| Fault::from(Code::RetryInvalid))?;
    let terminal = evidence.kind == EvidenceKind::TerminalRun;
    let reason = Reason::new(if terminal { "native_run_terminal" } else { "definitive_nonlaunch" })?;
    let mut operations = Vec::new();
    for member in &dispatch.assignment.claims {
        let Some(claim) = projection.claim(member.claim_id.as_str()).filter(|claim| claim.status.is_open()) else {
            continue;
        };
        operations.push(Operation::ClaimCancellation(ClaimCancellation {
            work_id: member.work_id.clone(),
            claim_id: member.claim_id.clone(),
            reason: reason.clone(),
            retry_not_before: boundary,
        }));
        if i64::from(projection.work_of(claim).attempts) >= retry.max_attempts.get() {
            operations.push(Operation::WorkCancellation(WorkCancellation {
                work_id: member.work_id.clone(),
                claim_id: None,
                reason: Reason::new("attempts_exhausted")?,
            }));
        }
    }
    operations
        .push(Operation::Release(Box::new(Release { dispatch_id: dispatch_id.clone(), evidence: evidence.clone() })));
    Ok(operations)
}

/// Publishes the release of a dispatch on this evidence. Released already is done.
///
/// # Errors
/// `release_invalid` where the state does not allow it; `work_queue_release_not_durable` when it is not in the ledger
/// after all; otherwise as a publication.
pub fn release(
    ledger: &mut dyn Ledger,
    actor: &Actor,
    dispatch_id: &DispatchId,
    evidence: &Measured<Evidence>,
) -> Result<(), LaunchError> {
    let released = |ledger: &mut dyn Ledger| -> Result<bool, LaunchError> {
        Ok(find(&ledger.read_present()?.projection, dispatch_id)?.released)
    };
    if released(ledger)? {
        return Ok(());
    }
    let digest = Digest::of(&[&evidence.canonical()]);
    let parts = ["release", dispatch_id.as_str(), digest.as_str()];
    let published = publish_step(ledger, actor, RequestKind::Release, &parts, &|projection| {
        transaction(projection, dispatch_id, evidence)
    });
    match published {
        Ok(stepped) if find(&stepped.current.projection, dispatch_id)?.released => Ok(()),
        Ok(_) => Err(Fault::from(Code::WorkQueueReleaseNotDurable).into()),
        // Another publisher may have been faster, which is as good.
        Err(error) => match released(ledger) {
            Ok(true) => Ok(()),
            _ => Err(error),
        },
    }
}

/// True while nothing was begun: no start marker, no sender, no run.
#[must_use]
pub fn never_started(dispatch: &DispatchState) -> bool {
    !dispatch.released
        && dispatch.phase == DispatchPhase::Reserved
        && dispatch.sender.is_none()
        && dispatch.run.is_none()
}

/// Cancels a reservation before its launch. It races the start marker through compare-and-swap: whichever commits first
/// makes the other invalid.
///
/// # Errors
/// `work_queue_launch_may_have_started` once there is a start marker; otherwise as a publication.
pub fn cancel_before_launch(
    ledger: &mut dyn Ledger,
    actor: &Actor,
    dispatch_id: &DispatchId,
    checked_at: At,
) -> Result<Measured<Evidence>, LaunchError> {
    let started = || Fault::from(Code::WorkQueueLaunchMayHaveStarted);
    let current = ledger.read_present()?;
    let dispatch = find(&current.projection, dispatch_id)?;
    if !never_started(dispatch) {
        return Err(started().into());
    }
    let repository = current.projection.repository().ok_or_else(|| Fault::from(Code::PolicyMissing))?;
    let (kind, source) = (EvidenceKind::Prelaunch, EvidenceSource::TrustedPublisher);
    let proof = evidence(dispatch, repository, kind, source, Some(&actor.principal), checked_at)?;
    let proof = Measured::new(proof);
    drop(current);
    let digest = Digest::of(&[&proof.canonical()]);
    let parts = ["release", dispatch_id.as_str(), digest.as_str()];
    let stepped = publish_step(ledger, actor, RequestKind::Release, &parts, &|projection| {
        if never_started(find(projection, dispatch_id)?) {
            transaction(projection, dispatch_id, &proof)
        } else {
            Err(started())
        }
    })?;
    if find(&stepped.current.projection, dispatch_id)?.released {
        Ok(proof)
    } else {
        Err(Fault::from(Code::WorkQueueReleaseNotDurable).into())
    }
}
