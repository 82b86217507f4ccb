//! Claim: legal only if it is the planner's own (engine.md 3.6, 4.6).

use super::Pending;
use crate::engine::mutation::mutated;
use crate::engine::schedule::explain::ClaimExplanation;
use crate::engine::schedule::{Plan, PlanInputs, PlannedClaim, plan};
use crate::engine::state::{
    ClaimIx, ClaimState, ClaimStatus, Context, DispatchIx, DispatchPhase, DispatchState, Ownership, Position,
    Projection,
};
use crate::protocol::assignment::Assignment;
use crate::protocol::fault::ensure;
use crate::protocol::operation::Claim;
use crate::protocol::request::Parameters;
use crate::protocol::{Code, Fault};

impl Projection {
    pub(super) fn apply_claim(
        &mut self,
        claim: Claim,
        index: u32,
        context: &Context<'_>,
        pending: &mut Pending,
    ) -> Result<(), Fault> {
        if pending.plan.is_none() {
            let Parameters::Dispatch(parameters) = context.parameters else {
                return Err(Fault::new(Code::RequestInvalid, "a Claim belongs to a dispatch request"));
            };
            let inputs = PlanInputs {
                parameters,
                request_id: context.request_id,
                commit_id: context.commit_id,
                at: context.at,
                preceding_operations: index as usize,
            };
            pending.plan = Some(plan(self, &inputs)?);
        }
        let Some(plan) = &pending.plan else { return Err(Fault::from(Code::Internal)) };
        let planned = plan.claims.get(pending.consumed);
        let planned =
            planned.ok_or_else(|| Fault::new(Code::SelectionInvalid, "a Claim goes beyond the fair prefix"))?;
        ensure!(planned.claim == claim, SelectionInvalid, "the Claim is not the one that the scheduler computes");
        ensure!(!self.claim_ids.contains_key(&claim.claim_id), ClaimConflict, "the Claim id exists already");
        let dispatch = match pending.opened.get(planned.group) {
            Some(dispatch) => *dispatch,
            None => {
                let free = !self.dispatch_ids.contains_key(&claim.dispatch_id);
                ensure!(free, PackingInvalid, "the dispatch was opened by another commit");
                let dispatch = self.open_planned(&claim, plan, planned, context)?;
                pending.opened.push(dispatch);
                dispatch
            }
        };
        self.grant(claim, planned, dispatch, index, context)?;
        pending.consumed += 1;
        pending.claimed = true;
        Ok(())
    }

    fn open_planned(
        &mut self,
        claim: &Claim,
        plan: &Plan,
        planned: &PlannedClaim,
        context: &Context<'_>,
    ) -> Result<DispatchIx, Fault> {
        let group = &plan.groups[planned.group];
        let installed = self.rules()?;
        Ok(self.open_dispatch(DispatchState {
            assignment: Assignment {
                dispatch_id: claim.dispatch_id.clone(),
                request_id: context.request_id.clone(),
                commit_id: context.commit_id.clone(),
                policy_epoch: installed.epoch.clone(),
                pool: self.pools[plan.pool as usize].name.clone(),
                worker_profile: group.worker_profile.clone(),
                claims: Vec::new(),
            },
            profile: std::sync::Arc::clone(&group.profile),
            phase: DispatchPhase::Reserved,
            released: false,
            lifecycle_writes: 0,
            sender: None,
            credential_principal: None,
            run: None,
            reason: None,
            pool: plan.pool,
            members: Vec::new(),
        }))
    }

    fn grant(
        &mut self,
        claim: Claim,
        planned: &PlannedClaim,
        dispatch: DispatchIx,
        index: u32,
        context: &Context<'_>,
    ) -> Result<(), Fault> {
        let ix = ClaimIx(self.claims.len() as u32);
        let member = self.member(&claim, planned.work)?;
        let pool = self.work_at(planned.work).pool;
        self.claim_ids.insert(claim.claim_id.clone(), ix);
        self.claims.push(ClaimState {
            claim,
            commit_id: context.commit_id.clone(),
            request_id: context.request_id.clone(),
            status: ClaimStatus::Open,
            explanation: Box::new(ClaimExplanation {
                before_tip: self.tip.clone(),
                position: Position { commit: context.ordinal, operation: index },
                at: context.at,
                priority: planned.priority,
                label: Some(planned.label),
                class_pass: planned.class_pass.clone(),
                key_pass: planned.key_pass.clone(),
                class_pass_prior: planned.class_pass_prior.clone(),
                key_pass_prior: planned.key_pass_prior.clone(),
                capacity_before: planned.before,
                capacity_after: planned.after,
            }),
            issue_comment: None,
            work: planned.work,
            dispatch,
        });
        // Membership does not change what a reservation counts.
        let state = &mut self.dispatches[dispatch.0 as usize];
        state.assignment.claims.push(member);
        state.members.push(ix);
        self.count_open(pool, planned.account);
        self.change_work(planned.work, |state| {
            state.ownership =
                if mutated!(ClaimLeavesWorkAvailable) { Ownership::Available } else { Ownership::Claimed(ix) };
            state.attempts += u32::from(!mutated!(ForgetAttempt));
        });
        Ok(())
    }
}
