//! Result and DeliveryFailure: the delivery barrier settles once.

use crate::engine::mutation::mutated;
use crate::engine::state::{ClaimIx, ClaimStatus, Context, Delivery, Ownership, Projection, WorkIx};
use crate::protocol::evidence::{Effects, EvidenceKind};
use crate::protocol::fault::ensure;
use crate::protocol::operation::{DeliveryFailure, ResultOperation};
use crate::protocol::policy::Reconciliation;
use crate::protocol::{At, ClaimId, Code, CommitId, Fault, WorkId};

/// A Completion whose delivery is pending.
struct Open {
    work: WorkIx,
    claim: ClaimIx,
    completion_at: At,
    keep_open: bool,
}

/// How a Claim or Work was settled before.
enum Settled<'a> {
    Result(&'a ResultOperation),
    Failure(&'a DeliveryFailure),
}

impl Projection {
    /// The settlement of a round of this Claim, or else of the Work.
    fn settled(&self, claim_id: &ClaimId, work_id: &WorkId) -> Option<Settled<'_>> {
        let round = self.claim(claim_id.as_str()).and_then(|claim| claim.status.round());
        if let Some((operation, _)) = round.and_then(|round| round.settled.as_ref()) {
            return Some(Settled::Result(operation));
        }
        match &self.work(work_id.as_str())?.ownership {
            Ownership::Completed { delivery: Delivery::Verified { operation, .. }, .. } => {
                Some(Settled::Result(operation))
            }
            Ownership::Completed { delivery: Delivery::Failed(operation), .. } => Some(Settled::Failure(operation)),
            _ => None,
        }
    }

    fn pending_completion(&self, work_id: &WorkId, claim_id: &ClaimId, completion: &CommitId) -> Result<Open, Fault> {
        let conflict = || Fault::new(Code::DeliveryConflict, "no such pending Completion");
        let claim = self.claim_ids.get(claim_id).copied().ok_or_else(conflict)?;
        let work = self.work_ids.get(work_id).copied().ok_or_else(conflict)?;
        let Ownership::Completed { claim: owner, completion_id, completion_at, delivery, keep_open } =
            &self.work_at(work).ownership
        else {
            return Err(conflict());
        };
        let pending = matches!(delivery, Delivery::Pending) || mutated!(SettleTwice);
        let named = (*owner == claim && completion_id == completion) || mutated!(SettleOtherCompletion);
        ensure!(pending && named, DeliveryConflict, "no such pending Completion");
        Ok(Open { work, claim, completion_at: *completion_at, keep_open: *keep_open })
    }

    pub(super) fn apply_result(&mut self, result: Box<ResultOperation>, context: &Context<'_>) -> Result<(), Fault> {
        self.check_evidence_size(&result.evidence)?;
        if let Some(settled) = self.settled(&result.claim_id, &result.work_id).filter(|_| !mutated!(SettleTwice)) {
            let same = matches!(settled, Settled::Result(known) if *known == *result);
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
        if open.keep_open && !mutated!(KeepOpenEnds) {
            self.reopen(&open, result, commit_id);
        } else {
            self.deliver(open.work, Delivery::Verified { operation: result, commit_id });
            self.release_successors(open.work);
        }
        Ok(())
    }

    /// Ends a round of kept-open Work: its Claim keeps the settlement, and the Work waits for a grant as if it had
    /// never been granted, in its old place and with the clocks as they are. Successors go on waiting.
    fn reopen(&mut self, open: &Open, result: Box<ResultOperation>, commit_id: CommitId) {
        if let ClaimStatus::Completed { round: Some(round), .. } = &mut self.claims[open.claim.0 as usize].status {
            round.settled = Some((result, commit_id));
        }
        self.change_work(open.work, |state| {
            state.ownership = Ownership::Available;
            state.attempts = if mutated!(KeepOpenKeepsAttempts) { state.attempts } else { 0 };
            state.retry_not_before = At::default();
        });
    }

    pub(super) fn apply_failure(&mut self, failure: Box<DeliveryFailure>, context: &Context<'_>) -> Result<(), Fault> {
        self.check_evidence_size(&failure.evidence)?;
        if let Some(settled) = self.settled(&failure.claim_id, &failure.work_id).filter(|_| !mutated!(SettleTwice)) {
            let same = matches!(settled, Settled::Failure(known) if *known == *failure);
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
