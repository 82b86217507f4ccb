//! Who may act on a Claim (engine.md 3.4).

use super::state::{Barrier, ClaimIx, ClaimState, ClaimStatus, DispatchPhase, Ownership, Projection};
use crate::engine::mutation::mutated;
use crate::protocol::actor::{Actor, Role};
use crate::protocol::commit::Commit;
use crate::protocol::fault::ensure;
use crate::protocol::operation::{DispatchStep, Operation};
use crate::protocol::request::{Parameters, RequestKind};
use crate::protocol::{Code, Fault};

impl Projection {
    /// The worker behind a Claim: bound run, current epoch, unreleased, same identity throughout.
    pub(crate) fn binding(&self, claim: ClaimIx, actor: &Actor) -> Result<(), Fault> {
        ensure!(actor.role == Role::Worker, ActorUnauthorized, "only the Claim's worker may do this");
        let state = self.claim_at(claim);
        let dispatch = self.dispatch_of(state);
        let ineffective = |message: &'static str| Fault::new(Code::ClaimIneffective, message);
        let run = dispatch.run.as_ref().filter(|_| dispatch.phase == DispatchPhase::Moved(DispatchStep::Bound));
        let run = run.ok_or_else(|| ineffective("the Claim's dispatch is not bound to a run"))?;
        let current =
            self.installed.as_ref().is_some_and(|installed| installed.epoch == dispatch.assignment.policy_epoch);
        ensure!(current, ClaimIneffective, "the Claim belongs to a retired epoch");
        ensure!(
            !dispatch.released || mutated!(FinishAfterRelease),
            ClaimIneffective,
            "the Claim's dispatch is released"
        );
        let same = actor.repository.as_str() == run.repository.as_str()
            && actor.workflow.as_ref() == Some(&run.workflow)
            && (actor.run_id.as_ref() == Some(&run.run_id) || mutated!(AnyRunMayFinish))
            && actor.principal == run.principal
            && actor.run_attempt.is_some_and(|attempt| attempt.get() == 1)
            && actor.dispatch_id.as_ref() == Some(&state.claim.dispatch_id)
            && actor.claim_handle.as_ref() == Some(&state.claim.handle);
        ensure!(same, RunBindingConflict, "the actor is not the run that the dispatch is bound to");
        Ok(())
    }

    /// The binding of a Claim that owns its Work, open, or completed if `completed` allows.
    pub(crate) fn claim_authority(&self, claim: ClaimIx, actor: &Actor, completed: bool) -> Result<(), Fault> {
        self.binding(claim, actor)?;
        let state = self.claim_at(claim);
        let work = self.work_of(state);
        let owns = work.owner() == Some(claim)
            && match (&state.status, &work.ownership) {
                (ClaimStatus::Open, Ownership::Claimed(_)) => true,
                (ClaimStatus::Completed { .. }, Ownership::Completed { .. }) => completed,
                _ => false,
            };
        ensure!(owns || mutated!(FinishWithoutOwnership), ClaimIneffective, "the Claim does not own its Work");
        ensure!(
            !completed || work.barrier() != Barrier::Failed || mutated!(EffectsAfterFailure),
            ClaimEffectsUnauthorized,
            "the Claim's delivery has failed"
        );
        Ok(())
    }

    /// A Claim by its dispatch and handle.
    pub(crate) fn member_claim(&self, dispatch_id: &str, handle: &str) -> Option<ClaimIx> {
        let dispatch = self.dispatch(dispatch_id)?;
        dispatch.members.iter().copied().find(|ix| self.claim_at(*ix).claim.handle.as_str() == handle)
    }

    /// The Claim whose worker may still submit, grant or observe: completed, delivery pending.
    pub(crate) fn continuation(&self, actor: &Actor) -> Result<&ClaimState, Fault> {
        let handle = actor.claim_handle.as_ref();
        let handle =
            handle.ok_or_else(|| Fault::new(Code::ClaimScopeRequired, "a worker's control names its Claim"))?;
        let dispatch = actor.dispatch_id.as_ref().map_or("", |id| id.as_str());
        let claim = self.member_claim(dispatch, handle.as_str());
        let claim = claim.ok_or_else(|| Fault::new(Code::ClaimScopeInvalid, "the handle is not a member's"))?;
        self.binding(claim, actor)?;
        let state = self.claim_at(claim);
        let work = self.work_of(state);
        let pending = work.owner() == Some(claim)
            && ((matches!(state.status, ClaimStatus::Completed { .. }) && work.barrier() == Barrier::Pending)
                || mutated!(ControlsBeforeCompletion));
        ensure!(pending, ClaimEffectsUnauthorized, "the Claim's delivery is not pending");
        Ok(state)
    }

    /// Worker control scope (pipeline step 9).
    pub(crate) fn check_control_scope(&self, commit: &Commit, actor: &Actor) -> Result<(), Fault> {
        let kind = commit.request.kind;
        let control = matches!(kind, RequestKind::Submit | RequestKind::DispatchNext | RequestKind::Observe);
        if actor.role != Role::Worker || !control {
            return Ok(());
        }
        self.worker_control(kind, &commit.request.parameters, &commit.operations, actor)
    }

    pub(crate) fn worker_control(
        &self,
        kind: RequestKind,
        parameters: &Parameters,
        operations: &[Operation],
        actor: &Actor,
    ) -> Result<(), Fault> {
        let parent = self.work_of(self.continuation(actor)?);
        match (kind, parameters) {
            (RequestKind::DispatchNext, Parameters::Dispatch(parameters)) => {
                ensure!(
                    parameters.pool == parent.work.pool,
                    ClaimScopeInvalid,
                    "a worker grants in its own Work's pool alone"
                );
            }
            (RequestKind::Submit, _) => {
                for operation in operations {
                    if let Operation::Work(node) = operation {
                        self.check_entitlement(node, actor)?;
                    }
                }
            }
            _ => {
                let installed = self.rules()?;
                let pool = installed.policy.pools.get(&parent.work.pool);
                for operation in operations {
                    if let Operation::Observation(observation) = operation {
                        ensure!(
                            pool.is_some_and(|pool| pool.allows(observation.resource.repository.as_str())),
                            DependencyUnauthorized,
                            "a worker observes only what its own pool allows"
                        );
                    }
                }
            }
        }
        Ok(())
    }
}
