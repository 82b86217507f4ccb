//! The whole question of who may write to a target: profiles, the bound run, the Work and every ancestor whose worker
//! submitted it (engine.md 8, lifecycle.md 5.8). A child can only narrow what its parents may reach.

use super::state::{ClaimIx, Projection, WorkIx};
use crate::protocol::actor::Role;
use crate::protocol::fault::ensure;
use crate::protocol::json::Scanner;
use crate::protocol::resource_scope::{ResourceScope, Target, TargetOrigin, check_target};
use crate::protocol::{Code, Fault, Opaque};

/// One write that a member of a dispatch asks for.
#[derive(Clone, Copy, Debug)]
pub struct EffectQuestion<'a> {
    /// Dispatch.
    pub dispatch_id: &'a str,
    /// The member's handle in it.
    pub handle: &'a str,
    /// The payload that the assignment in hand gives the member.
    pub work: &'a Opaque,
    /// What is to be written.
    pub target: &'a Target,
    /// Who named it.
    pub origin: TargetOrigin,
}

impl Projection {
    /// Checks that a member of a dispatch may write to a target. Whether its Claim may write at all now (binding,
    /// Completion, delivery) is asked elsewhere.
    ///
    /// The scanner's host must be the queue's.
    ///
    /// # Errors
    /// `claim_scope_invalid`.
    pub fn check_effect(&self, scanner: &mut Scanner, question: &EffectQuestion<'_>) -> Result<(), Fault> {
        let claim = self.member_claim(question.dispatch_id, question.handle);
        let claim = claim.ok_or_else(|| refusal("the handle is not a member of the dispatch"))?;
        let state = self.claim_at(claim);
        let same = self.work_at(state.work).work.payload == *question.work;
        ensure!(same, ClaimScopeInvalid, "the assignment's payload is not the Work's");
        if let Some(run) = &question.target.run_id {
            let bound = self.dispatch_at(state.dispatch).run.as_ref();
            ensure!(
                bound.is_some_and(|bound| bound.run_id == *run),
                ClaimScopeInvalid,
                "the target's run is not the one that the dispatch is bound to"
            );
        }
        let mut seen: Vec<WorkIx> = Vec::new();
        let mut next = Some(claim);
        while let Some(claim) = next {
            let work = self.claim_at(claim).work;
            ensure!(!seen.contains(&work), ClaimScopeInvalid, "a Work is its own ancestor");
            seen.push(work);
            self.check_member(scanner, claim, question)?;
            next = self.parent(work)?;
        }
        Ok(())
    }

    /// One Work of the walk: the repository of its routes, its scope and its subject.
    fn check_member(&self, scanner: &mut Scanner, claim: ClaimIx, question: &EffectQuestion<'_>) -> Result<(), Fault> {
        let state = self.claim_at(claim);
        let dispatch = self.dispatch_at(state.dispatch);
        let repository = question.target.repository.as_str();
        let frozen = dispatch.profile.effect_scope.as_str() == repository;
        ensure!(frozen, ClaimScopeInvalid, "the target's repository is not the frozen profile's");
        let installed = self.rules()?;
        if installed.epoch == dispatch.assignment.policy_epoch {
            let pool = installed.policy.pools.get(&dispatch.assignment.pool);
            let profile = pool.and_then(|pool| pool.profiles.get(&dispatch.assignment.worker_profile));
            ensure!(
                profile.is_some_and(|profile| profile.effect_scope.as_str() == repository),
                ClaimScopeInvalid,
                "the target's repository is not the installed profile's"
            );
        }
        let work = &self.work_at(state.work).work;
        let scope = ResourceScope::of_payload(scanner, &work.payload)?;
        check_target(scope.as_ref(), work.subject.as_deref(), question.target, question.origin)
    }

    /// The Claim whose worker submitted a Work; none for Work of another actor.
    fn parent(&self, work: WorkIx) -> Result<Option<ClaimIx>, Fault> {
        let creator = &self.work_at(work).creator;
        if creator.role != Role::Worker {
            return Ok(None);
        }
        let claim = match (&creator.dispatch_id, &creator.claim_handle) {
            (Some(dispatch), Some(handle)) => self.member_claim(dispatch.as_str(), handle.as_str()),
            _ => None,
        };
        claim.map(Some).ok_or_else(|| refusal("the Work's parent is not known"))
    }
}

fn refusal(message: &'static str) -> Fault {
    Fault::new(Code::ClaimScopeInvalid, message)
}
