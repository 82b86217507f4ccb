//! Result and DeliveryFailure: the delivery barrier settles once.

use crate::engine::mutation::mutated;
use crate::engine::state::{Context, Delivery, Ownership, Projection, WorkIx};
use crate::protocol::evidence::{Effects, EvidenceKind};
use crate::protocol::fault::ensure;
use crate::protocol::operation::{DeliveryFailure, ResultOperation};
use crate::protocol::policy::Reconciliation;
use crate::protocol::{At, ClaimId, Code, CommitId, Fault, WorkId};

/// A Completion whose delivery is pending.
struct Open {
    work: WorkIx,
    completion_at: At,
}

impl Projection {
    fn settled(&self, work_id: &WorkId) -> Option<&Delivery> {
        match &self.work(work_id.as_str())?.ownership {
            Ownership::Completed { delivery, .. } if !matches!(delivery, Delivery::Pending) => Some(delivery),
            _ => None,
        }
    }

    fn pending_completion(&self, work_id: &WorkId, claim_id: &ClaimId, completion: &CommitId) -> Result<Open, Fault> {
        let conflict = || Fault::new(Code::DeliveryConflict, "no such pending Completion");
        let claim = self.claim_ids.get(claim_id).copied().ok_or_else(conflict)?;
        let work = self.work_ids.get(work_id).copied().ok_or_else(conflict)?;
        let Ownership::Completed { claim: owner, completion_id, completion_at, delivery } =
            &self.work_at(work).ownership
        else {
            return Err(conflict());
        };
        let pending = matches!(delivery, Delivery::Pending) || mutated!(SettleTwice);
        let named = (*owner == claim && completion_id == completion) || mutated!(SettleOtherCompletion);
        if pending && named { Ok(Open { work, completion_at: *completion_at }) } else { Err(conflict()) }
    }

    pub(super) fn apply_result(&mut self, result: Box<ResultOperation>, context: &Context<'_>) -> Result<(), Fault> {
        self.check_evidence_size(&result.evidence)?;
        if let Some(settled) = self.settled(&result.work_id).filter(|_| !mutated!(SettleTwice)) {
            let same = matches!(settled, Delivery::Verified { operation, .. } if **operation == *result);
            ensure!(same, DeliveryConflict, "the delivery was settled otherwise");
            return Ok(());
        }
        let open = self.pending_completion(&result.work_id, &result.claim_id, &result.completion_id)?;
        let claim = self.claim(result.claim_id.as_str()).ok_or_else(|| Fault::from(Code::DeliveryConflict))?;
        self.match_evidence(self.dispatch_of(claim), &result.evidence, context.at, EvidenceKind::Delivery)?;
        let installed = self.rules()?;
        let size = result.descriptor.0.len() as u64;
        ensure!(size <= installed.policy.limits.result_bytes, ResourceLimit, "the descriptor exceeds its limit");
        let commit_id = context.commit_id.clone();
        self.deliver(open.work, Delivery::Verified { operation: result, commit_id });
        self.release_successors(open.work);
        Ok(())
    }

    pub(super) fn apply_failure(&mut self, failure: Box<DeliveryFailure>, context: &Context<'_>) -> Result<(), Fault> {
        self.check_evidence_size(&failure.evidence)?;
        if let Some(settled) = self.settled(&failure.work_id).filter(|_| !mutated!(SettleTwice)) {
            let same = matches!(settled, Delivery::Failed(operation) if **operation == *failure);
            ensure!(same, DeliveryConflict, "the delivery was settled otherwise");
            return Ok(());
        }
        let open = self.pending_completion(&failure.work_id, &failure.claim_id, &failure.completion_id)?;
        let claim = self.claim(failure.claim_id.as_str()).ok_or_else(|| Fault::from(Code::DeliveryConflict))?;
        self.match_evidence(self.dispatch_of(claim), &failure.evidence, context.at, EvidenceKind::TerminalRun)?;
        let installed = self.rules()?;
        let pool = installed.policy.pools.get(&self.work_at(open.work).work.pool);
        let bounds = &pool.ok_or_else(|| Fault::from(Code::PolicyInvalid))?.reconciliation;
        check_exhaustion(&failure, open.completion_at, context.at, bounds)?;
        self.deliver(open.work, Delivery::Failed(failure));
        Ok(())
    }

    fn deliver(&mut self, work: WorkIx, settled: Delivery) {
        self.change_work(work, |state| {
            if let Ownership::Completed { delivery, .. } = &mut state.ownership {
                *delivery = settled;
            }
        });
    }

    /// One predecessor less to wait for.
    fn release_successors(&mut self, work: WorkIx) {
        for successor in self.work_at(work).successors.clone() {
            self.change_work(successor, |state| state.unverified -= 1);
        }
    }
}

/// Attempts or deadline must be used up, and the disposition must say what the evidence says.
fn check_exhaustion(
    failure: &DeliveryFailure,
    completion_at: At,
    at: At,
    bounds: &Reconciliation,
) -> Result<(), Fault> {
    let evidence = &failure.evidence;
    let attempts = evidence.attempts.map_or(0, |attempts| attempts.get());
    let exhausted = attempts >= bounds.max_attempts.get() || at.get() - completion_at.get() >= bounds.deadline_ms.get();
    ensure!(exhausted || mutated!(FailEarly), ReconciliationPending, "neither attempts nor deadline are used up");
    let agrees = failure.disposition == evidence.effects.unwrap_or(Effects::Unknown)
        && (failure.disposition != Effects::None || evidence.receipt.is_some());
    ensure!(agrees, EvidenceInvalid, "the disposition is not what the evidence shows");
    Ok(())
}
