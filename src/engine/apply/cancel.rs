//! ClaimCancellation and WorkCancellation.

use super::Pending;
use crate::engine::mutation::mutated;
use crate::engine::state::{ClaimIx, ClaimStatus, Context, Ownership, Projection, WorkIx};
use crate::protocol::actor::Role;
use crate::protocol::evidence::EvidenceKind;
use crate::protocol::fault::ensure;
use crate::protocol::operation::{ClaimCancellation, WorkCancellation};
use crate::protocol::policy::later;
use crate::protocol::request::RequestKind;
use crate::protocol::{At, Code, CommitId, Fault};

impl Projection {
    /// Ends an open Claim and frees its logical slot. The native reservation stays.
    pub(super) fn close_claim(&mut self, ix: ClaimIx, status: ClaimStatus) {
        let state = &mut self.claims[ix.0 as usize];
        state.status = status;
        let work = state.work;
        let (pool, account) = (self.work_at(work).pool, self.work_at(work).account);
        if !mutated!(LeakLogicalSlot) {
            self.count_closed(pool, account);
        }
    }

    pub(super) fn cancel_claim(
        &mut self,
        cancellation: ClaimCancellation,
        context: &Context<'_>,
        pending: &Pending,
    ) -> Result<(), Fault> {
        let ineffective = || Fault::new(Code::ClaimIneffective, "the Claim is not the open owner of the Work");
        let ix = self.claim_ids.get(&cancellation.claim_id).copied().ok_or_else(ineffective)?;
        let claim = self.claim_at(ix);
        match &claim.status {
            ClaimStatus::Cancelled { operation, .. } if *operation == cancellation => return Ok(()),
            ClaimStatus::Cancelled { .. } | ClaimStatus::WorkCancelled { .. } => {
                return Err(Fault::new(Code::CancellationConflict, "the Claim was cancelled otherwise"));
            }
            ClaimStatus::Open | ClaimStatus::Completed { .. } => {}
        }
        let work = self.work_of(claim);
        let owns = claim.claim.work_id == cancellation.work_id && claim.status.is_open() && work.owner() == Some(ix);
        if !owns {
            return Err(ineffective());
        }
        if context.actor.role == Role::Worker {
            self.claim_authority(ix, context.actor, false)?;
        }
        let origin = self.backoff_origin(ix, context, pending)?;
        let installed = self.rules()?;
        let pool = installed.policy.pools.get(&work.work.pool);
        let backoff = pool.map_or(0, |pool| pool.retry.backoff_ms.get());
        let least = later(origin, backoff);
        ensure!(
            least.is_some_and(|least| cancellation.retry_not_before >= least) || mutated!(IgnoreBackoff),
            RetryInvalid,
            "the retry boundary is below the required backoff"
        );
        let (work, boundary) = (claim.work, cancellation.retry_not_before);
        if mutated!(CancelResetsDebt) {
            self.pools.iter_mut().for_each(|pool| pool.clocks = None);
        }
        let commit_id = context.commit_id.clone();
        self.close_claim(ix, ClaimStatus::Cancelled { operation: cancellation, commit_id });
        self.change_work(work, |state| {
            state.ownership = Ownership::Available;
            state.retry_not_before = boundary;
        });
        Ok(())
    }

    /// Backoff counts from the release's evidence where this commit releases the Claim's own dispatch.
    fn backoff_origin(&self, ix: ClaimIx, context: &Context<'_>, pending: &Pending) -> Result<At, Fault> {
        let claim = self.claim_at(ix);
        if context.kind != RequestKind::Release {
            return Ok(context.at);
        }
        let release = pending.releases.iter().find(|(dispatch, evidence)| {
            *dispatch == claim.claim.dispatch_id
                && matches!(
                    evidence.kind,
                    EvidenceKind::Prelaunch | EvidenceKind::Nonlaunch | EvidenceKind::TerminalRun
                )
        });
        match release {
            Some((_, evidence)) => {
                self.match_evidence(self.dispatch_of(claim), evidence, context.at, evidence.kind)?;
                Ok(evidence.checked_at)
            }
            None => Ok(context.at),
        }
    }

    pub(super) fn cancel_work(&mut self, cancellation: WorkCancellation, context: &Context<'_>) -> Result<(), Fault> {
        let terminal = || Fault::from(Code::WorkTerminal);
        let ix = self.work_ids.get(&cancellation.work_id).copied().ok_or_else(terminal)?;
        let state = self.work_at(ix);
        ensure!(
            !matches!(state.ownership, Ownership::Completed { .. }) || mutated!(CancelCompletedWork),
            WorkTerminal,
            format!("completed Work cannot be cancelled: {}", cancellation.work_id)
        );
        self.check_fence(&cancellation, ix)?;
        self.check_canceller(&cancellation, ix, context)?;
        if let Ownership::Cancelled { operation, .. } = &state.ownership {
            ensure!(
                *operation == cancellation,
                CancellationConflict,
                format!("{} was cancelled otherwise", cancellation.work_id)
            );
            return Ok(());
        }
        let owner = state.owner();
        let commit_id = context.commit_id.clone();
        if let Some(claim) =
            owner.filter(|claim| self.claim_at(*claim).status.is_open() && !mutated!(CancelKeepsClaimOpen))
        {
            let reason = cancellation.reason.clone();
            self.close_claim(claim, ClaimStatus::WorkCancelled { reason, commit_id: commit_id.clone() });
        }
        self.change_work(ix, |state| {
            state.ownership = Ownership::Cancelled { operation: cancellation, commit_id, owner };
        });
        Ok(())
    }

    /// The commit that cancelled Work in exactly these words; a repetition would have no effect.
    #[must_use]
    pub fn cancelled_by(&self, cancellation: &WorkCancellation) -> Option<&CommitId> {
        match &self.work(cancellation.work_id.as_str())?.ownership {
            Ownership::Cancelled { operation, commit_id, .. } if operation == cancellation => Some(commit_id),
            _ => None,
        }
    }

    /// The ownership fence: the named Claim owns the Work, or owned it when the Work was cancelled.
    fn check_fence(&self, cancellation: &WorkCancellation, ix: WorkIx) -> Result<(), Fault> {
        let Some(fence) = &cancellation.claim_id else { return Ok(()) };
        let state = self.work_at(ix);
        let claim = self.claim_ids.get(fence).copied().filter(|claim| state.owner() == Some(*claim));
        let holds = claim.is_some_and(|claim| match (&state.ownership, &self.claim_at(claim).status) {
            (Ownership::Claimed(_), ClaimStatus::Open) => true,
            (Ownership::Cancelled { commit_id, .. }, ClaimStatus::WorkCancelled { commit_id: ended, .. }) => {
                commit_id == ended
            }
            _ => false,
        });
        ensure!(
            holds || mutated!(IgnoreFence),
            ClaimScopeInvalid,
            format!("the fenced Claim does not own its Work, {}", cancellation.work_id)
        );
        Ok(())
    }

    fn check_canceller(&self, cancellation: &WorkCancellation, ix: WorkIx, context: &Context<'_>) -> Result<(), Fault> {
        let actor = context.actor;
        let installed = self.rules()?;
        let policy = &installed.policy;
        let state = self.work_at(ix);
        if actor.role == Role::Producer && !policy.aw {
            let covered = policy.producers.get(&actor.principal).is_some_and(|producer| {
                producer.pools.contains(&state.work.pool)
                    && producer.priorities.contains(&state.work.priority)
                    && producer.fairness_keys.contains(&state.work.fairness_key)
            });
            ensure!(covered, AdmissionUnauthorized, "the producer is not entitled to this Work");
        }
        if actor.role == Role::Worker {
            let unauthorized = || Fault::from(Code::WorkUnauthorized);
            let dispatch = actor.dispatch_id.as_ref().map_or("", |id| id.as_str());
            let handle = actor.claim_handle.as_ref().map_or("", |handle| handle.as_str());
            let claim = self.member_claim(dispatch, handle).ok_or_else(unauthorized)?;
            self.binding(claim, actor)?;
            let member = self.claim_at(claim);
            let pool = policy.pools.get(&state.work.pool);
            let own = member.work == ix
                && member.status.as_str() == "cancelled"
                && matches!(state.ownership, Ownership::Available | Ownership::Cancelled { .. })
                && pool.is_some_and(|pool| i64::from(state.attempts) >= pool.retry.max_attempts.get())
                && context.kind == RequestKind::Finish
                && cancellation.reason.as_str() == "attempts_exhausted";
            if !own {
                return Err(unauthorized());
            }
        }
        Ok(())
    }
}
