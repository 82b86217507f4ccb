//! The dispatch lifecycle (engine.md 3.7).

use crate::engine::mutation::mutated;
use crate::engine::state::{Context, DispatchPhase, DispatchState, Projection};
use crate::protocol::actor::Role;
use crate::protocol::evidence::{EvidenceKind, EvidenceSource};
use crate::protocol::fault::ensure;
use crate::protocol::operation::{Dispatch, DispatchStep};
use crate::protocol::{Code, Fault};

impl Projection {
    pub(super) fn apply_dispatch(&mut self, step: Dispatch, context: &Context<'_>) -> Result<(), Fault> {
        if let Some(evidence) = &step.evidence {
            self.check_evidence_size(evidence)?;
        }
        let missing = || Fault::new(Code::DispatchInvalid, "the dispatch is missing or released");
        let ix = self.dispatch_ids.get(&step.dispatch_id).copied().ok_or_else(missing)?;
        let dispatch = self.dispatch_at(ix);
        if dispatch.released {
            return Err(missing());
        }
        let installed = self.rules()?;
        let pool = installed.policy.pools.get(&dispatch.assignment.pool);
        let attempts = pool.map_or(0, |pool| pool.reconciliation.max_attempts.get());
        ensure!(
            i64::from(dispatch.lifecycle_writes) < attempts + 4,
            ResourceLimit,
            "the dispatch's lifecycle budget is used up"
        );
        match step.state {
            DispatchStep::Started => self.check_start(dispatch, &step, context, installed.policy.aw)?,
            DispatchStep::Bound => self.check_bind(dispatch, &step, context)?,
            DispatchStep::Rejected => self.check_reject(dispatch, &step, context)?,
            DispatchStep::Uncertain | DispatchStep::Unresolved => {
                self.check_doubt(dispatch, &step, context, attempts)?
            }
        }
        if let (DispatchStep::Bound, Some(run)) = (step.state, &step.run) {
            self.runs.insert(run.run_id.clone(), ix);
        }
        self.change_dispatch(ix, |dispatch| {
            dispatch.phase = DispatchPhase::Moved(step.state);
            dispatch.lifecycle_writes += u32::from(!mutated!(UncountedLifecycle));
            match step.state {
                DispatchStep::Started => {
                    dispatch.sender = step.sender;
                    dispatch.credential_principal = step.credential_principal;
                }
                DispatchStep::Bound => dispatch.run = step.run,
                DispatchStep::Rejected | DispatchStep::Uncertain | DispatchStep::Unresolved => {}
            }
            if step.reason.is_some() {
                dispatch.reason = step.reason;
            }
        });
        Ok(())
    }

    fn check_start(
        &self,
        dispatch: &DispatchState,
        step: &Dispatch,
        context: &Context<'_>,
        aw: bool,
    ) -> Result<(), Fault> {
        ensure!(
            dispatch.phase == DispatchPhase::Reserved || mutated!(StartTwice),
            DispatchInvalid,
            "only a reserved dispatch can start"
        );
        ensure!(
            !self.grants_paused || mutated!(StartWhilePaused),
            GrantsPaused,
            "a launch cannot start while grants are paused"
        );
        let actor = context.actor;
        let sends = actor.role == Role::Dispatcher
            && actor.workflow.is_some()
            && actor.run_id.is_some()
            && step.sender.as_ref() == Some(&**actor)
            && step.run.is_none()
            && step.evidence.is_none();
        ensure!(sends, DispatchInvalid, "a start marker is sent by the dispatcher run that signs it");
        let principal = match &dispatch.profile.principal {
            None => aw && step.credential_principal.is_some(),
            Some(principal) => step.credential_principal.as_ref().is_none_or(|credential| credential == principal),
        };
        ensure!(principal, RunBindingConflict, "the launching principal is not the profile's");
        Ok(())
    }

    fn check_bind(&self, dispatch: &DispatchState, step: &Dispatch, context: &Context<'_>) -> Result<(), Fault> {
        let movable = matches!(
            dispatch.phase,
            DispatchPhase::Moved(
                DispatchStep::Started | DispatchStep::Uncertain | DispatchStep::Unresolved | DispatchStep::Bound
            )
        ) || mutated!(BindWithoutStart);
        let (Some(run), Some(evidence), None, true) = (&step.run, &step.evidence, &step.sender, movable) else {
            return Err(Fault::new(Code::DispatchInvalid, "a binding needs a started dispatch, a run and evidence"));
        };
        let repository = self.repository.as_ref().map_or("", |repository| repository.as_str());
        let profile = &dispatch.profile;
        let expected = run.repository.as_str() == repository
            && run.workflow == profile.workflow
            && run.revision == profile.revision
            && dispatch.principal() == Some(&run.principal);
        ensure!(expected, RunBindingConflict, "the run is not the dispatch's route");
        self.match_evidence(dispatch, evidence, context.at, evidence.kind)?;
        let proven = matches!(evidence.source, EvidenceSource::GithubApi | EvidenceSource::TrustedActivation)
            && evidence.run_id.as_ref() == Some(&run.run_id)
            && evidence.run_attempt.is_some();
        ensure!(proven, EvidenceInvalid, "the evidence does not show the run");
        let actor = context.actor;
        if actor.role == Role::Worker {
            let same = actor.run_id.as_ref() == Some(&run.run_id)
                && actor.run_attempt.is_some_and(|attempt| attempt.get() == 1)
                && actor.repository.as_str() == run.repository.as_str()
                && actor.workflow.as_ref() == Some(&run.workflow)
                && actor.principal == run.principal
                && actor.dispatch_id.as_ref() == Some(&step.dispatch_id);
            ensure!(same, RunBindingConflict, "a worker binds only its own run");
        }
        ensure!(
            dispatch.run.as_ref().is_none_or(|known| known == run) || mutated!(RebindAnyRun),
            RunBindingConflict,
            "the dispatch is bound to another run"
        );
        let owner = self.runs.get(&run.run_id).map(|ix| &self.dispatch_at(*ix).assignment.dispatch_id);
        ensure!(
            owner.is_none_or(|owner| *owner == step.dispatch_id) || mutated!(ShareRun),
            RunBindingConflict,
            "the run is bound to another dispatch"
        );
        Ok(())
    }

    fn check_reject(&self, dispatch: &DispatchState, step: &Dispatch, context: &Context<'_>) -> Result<(), Fault> {
        // Evidence of no launch never fits a dispatch that has a run, so a bound one is refused below.
        let (Some(evidence), None, None) = (&step.evidence, &step.run, &step.sender) else {
            return Err(Fault::new(Code::EvidenceInvalid, "a rejection carries evidence alone"));
        };
        self.match_evidence(dispatch, evidence, context.at, EvidenceKind::Nonlaunch)
    }

    fn check_doubt(
        &self,
        dispatch: &DispatchState,
        step: &Dispatch,
        context: &Context<'_>,
        attempts: i64,
    ) -> Result<(), Fault> {
        let movable = matches!(
            dispatch.phase,
            DispatchPhase::Moved(DispatchStep::Started | DispatchStep::Uncertain | DispatchStep::Unresolved)
        ) || mutated!(DoubtAfterBinding);
        let bare = step.run.is_none() && step.sender.is_none() && step.reason.is_some();
        ensure!(movable && bare, DispatchInvalid, "doubt needs a started dispatch without a run, and a reason");
        if step.state == DispatchStep::Unresolved {
            let evidence = step.evidence.as_ref().filter(|evidence| {
                evidence.kind == EvidenceKind::Reconciliation
                    && evidence.attempts.is_some_and(|made| made.get() >= attempts)
            });
            let evidence = evidence.ok_or_else(|| Fault::from(Code::ReconciliationPending))?;
            self.match_evidence(dispatch, evidence, context.at, EvidenceKind::Reconciliation)?;
        }
        Ok(())
    }
}
