//! One file per group of operations: preconditions and effects (engine.md 3.6, 3.7).

mod cancel;
mod claim;
mod complete;
mod control;
pub(super) mod deploy;
mod dispatch;
mod issue;
mod observe;
mod release;
mod settle;

use super::schedule::Plan;
use super::state::{Context, Projection};
use crate::engine::mutation::mutated;
use crate::protocol::evidence::Evidence;
use crate::protocol::fault::ensure;
use crate::protocol::operation::Operation;
use crate::protocol::request::RequestKind;
use crate::protocol::{Code, DispatchId, Fault, Measured, WorkId};

/// What one commit's operations leave to be checked together.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// The plan, from the first Claim on.
    plan: Option<Plan>,
    /// Dispatches opened by this commit, by group.
    opened: Vec<super::state::DispatchIx>,
    consumed: usize,
    /// Releases of this commit, for the origin of backoff.
    releases: Vec<(DispatchId, Measured<Evidence>)>,
    /// Work whose Claim this commit cancels.
    cancelled: Vec<WorkId>,
    /// A Claim was processed.
    claimed: bool,
}

impl Pending {
    pub(crate) fn new(operations: &[Operation]) -> Self {
        let mut pending = Self::default();
        let cancels = operations.iter().any(|operation| matches!(operation, Operation::ClaimCancellation(_)));
        for operation in operations {
            match operation {
                Operation::Release(release) if cancels => {
                    pending.releases.push((release.dispatch_id.clone(), release.evidence.clone()));
                }
                Operation::ClaimCancellation(cancellation) => pending.cancelled.push(cancellation.work_id.clone()),
                _ => {}
            }
        }
        pending
    }

    /// Steps 13 and 14 of the pipeline.
    pub(crate) fn settle(self, projection: &mut Projection, context: &Context<'_>) -> Result<(), Fault> {
        if let Some(plan) = self.plan {
            ensure!(self.consumed == plan.claims.len(), PackingInvalid, "fewer Claims were granted than planned");
            if !mutated!(ForgetCharge) {
                projection.pools[plan.pool as usize].clocks = Some(plan.clocks);
            }
        }
        ensure!(
            context.kind != RequestKind::DispatchNext || self.claimed,
            RequestInvalid,
            "a grant carries at least one Claim"
        );
        let installed = projection.policy()?;
        for id in &self.cancelled {
            let Some(state) = projection.work(id.as_str()) else { continue };
            let pool = installed.policy.pools.get(&state.work.pool);
            let exhausted = pool.is_some_and(|pool| i64::from(state.attempts) >= pool.retry.max_attempts.get());
            ensure!(
                !exhausted || state.state() == "cancelled" || mutated!(KeepExhaustedWork),
                RetryExhausted,
                "the last permitted Claim was cancelled without its Work"
            );
        }
        Ok(())
    }
}

impl Projection {
    pub(crate) fn apply_operation(
        &mut self,
        operation: Operation,
        index: u32,
        context: &Context<'_>,
        pending: &mut Pending,
    ) -> Result<(), Fault> {
        match operation {
            // Installed by step 5, admitted by step 11.
            Operation::Policy(_) | Operation::Work(_) => Ok(()),
            Operation::Control(control) => self.apply_control(control),
            Operation::WorkPriority(change) => self.apply_priority(&change),
            Operation::Observation(observation) => {
                ensure!(!pending.claimed, PackingInvalid, "an Observation follows a Claim");
                self.apply_observation(*observation, context)
            }
            Operation::Claim(claim) => self.apply_claim(claim, index, context, pending),
            Operation::Completion(completion) => self.apply_completion(&completion, context),
            Operation::ClaimCancellation(cancellation) => self.cancel_claim(cancellation, context, pending),
            Operation::WorkCancellation(cancellation) => self.cancel_work(cancellation, context),
            Operation::Result(result) => self.apply_result(result, context),
            Operation::DeliveryFailure(failure) => self.apply_failure(failure, context),
            Operation::Dispatch(step) => self.apply_dispatch(*step, context),
            Operation::Release(release) => self.apply_release(&release, context),
            Operation::Deployment(deployment) => self.apply_deployment(*deployment),
            Operation::IssueLink(link) => self.apply_issue_link(*link, context),
            Operation::IssueComment(comment) => self.apply_issue_comment(*comment, context),
            // Restored where it may stand, and refused before it comes here.
            Operation::Checkpoint(_) => Err(Fault::from(Code::CheckpointInvalid)),
        }
    }
}
