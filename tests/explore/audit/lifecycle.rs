//! Settlement, the dispatch lifecycle, and evidence.

use std::sync::Arc;

use serde_json::Value;

use super::{
    AUTHORITY, Dispatch, EVIDENCE, LIFECYCLE, Model, PAUSE, SETTLEMENT, State, Step, Verdict, count, missing, rule,
    text,
};

impl Model {
    pub(super) fn settle(&mut self, operation: &Value, step: &Step<'_>) -> Verdict {
        let claim = self.claims.get(text(operation, "claim_id")).ok_or_else(|| missing(SETTLEMENT, "Claim"))?;
        let work = self.works.get(text(operation, "work_id")).ok_or_else(|| missing(SETTLEMENT, "Work"))?;
        if let Some(before) = claim.settled.as_ref().or(work.settled.as_ref()) {
            rule!(**before == *operation, SETTLEMENT, "a delivery is settled a second time");
            return Ok(());
        }
        let own = work.state == State::Completed
            && work.barrier == "pending"
            && work.owner.as_deref() == Some(text(operation, "claim_id"))
            && work.completion.as_deref() == Some(text(operation, "completion_id"));
        rule!(own, SETTLEMENT, "a settlement names another Claim or Completion than the Work's own");
        let (result, evidence) = (text(operation, "kind") == "Result", &operation["evidence"]);
        let kind = if result { "delivery" } else { "terminal_run" };
        let fits = self.fits(&self.dispatches[&claim.dispatch], evidence, step.at, kind);
        rule!(fits, EVIDENCE, "a delivery is settled on evidence that does not fit");
        if !result {
            let bounds = &self.pool_of(work)["reconciliation"];
            let spent = count(evidence, "attempts") >= count(bounds, "max_attempts")
                || step.at - work.completed_at >= count(bounds, "deadline_ms");
            rule!(spent, SETTLEMENT, "a delivery fails with attempts and time left");
        }
        let (claim, settled) = (text(operation, "claim_id"), Arc::new(operation.clone()));
        let Some(work) = self.works.get_mut(text(operation, "work_id")) else { return Ok(()) };
        if result && work.keep {
            work.state = State::Available;
            (work.barrier, work.attempts, work.retry, work.keep) = ("none", 0, 0, false);
            (work.owner, work.completion) = (None, None);
            if let Some(claim) = self.claims.get_mut(claim) {
                claim.settled = Some(settled);
            }
        } else {
            work.barrier = if result { "verified" } else { "failed" };
            work.settled = Some(settled);
        }
        Ok(())
    }

    /// Whether evidence of this kind speaks of the dispatch and proves what it is for.
    fn fits(&self, dispatch: &Dispatch, evidence: &Value, at: i64, kind: &str) -> bool {
        let principal = dispatch.profile["principal"].as_str().or(dispatch.principal.as_deref());
        let unknown = principal.is_none() && dispatch.phase == "reserved" && kind == "prelaunch";
        let scoped = text(evidence, "kind") == kind
            && count(evidence, "checked_at") <= at
            && evidence["workflow"] == dispatch.profile["workflow"]
            && evidence["ref"] == dispatch.profile["ref"]
            && (unknown || evidence["principal"].as_str() == principal);
        let run = dispatch.run.as_ref().map(|run| text(run, "run_id"));
        let of_run = run.is_some() && run == evidence["run_id"].as_str();
        let source = text(evidence, "source");
        scoped
            && match kind {
                "terminal_run" => of_run && source == "github_api" && evidence["status"] == "completed",
                "delivery" => of_run && source == "verified_receipts" && evidence["receipt"].is_string(),
                "prelaunch" => dispatch.phase == "reserved" && run.is_none() && source == "trusted_publisher",
                "nonlaunch" => run.is_none() && source == "github_api" && evidence["receipt"].is_string(),
                _ => true,
            }
    }

    pub(super) fn advance(&mut self, operation: &Value, step: &Step<'_>) -> Verdict {
        let id = text(operation, "dispatch_id");
        let dispatch = self.dispatches.get(id).ok_or_else(|| missing(LIFECYCLE, "dispatch"))?;
        rule!(!dispatch.released, LIFECYCLE, "a released dispatch moves on");
        let most = count(&self.pool(&dispatch.pool)["reconciliation"], "max_attempts") as u64 + 4;
        rule!(dispatch.writes < most, LIFECYCLE, "a dispatch takes more than {most} steps");
        let (state, evidence) = (text(operation, "state"), &operation["evidence"]);
        let from = |states: &[&str]| states.contains(&dispatch.phase.as_str());
        match state {
            "started" => {
                rule!(from(&["reserved"]), LIFECYCLE, "a {} dispatch starts", dispatch.phase);
                rule!(!self.grants_paused, PAUSE, "a launch starts while grants are paused");
                rule!(operation["sender"] == *step.actor, LIFECYCLE, "a start marker is somebody else's");
            }
            "bound" => {
                let movable = from(&["started", "uncertain", "unresolved", "bound"]);
                rule!(movable, LIFECYCLE, "a {} dispatch is bound", dispatch.phase);
                let run = &operation["run"];
                let same = dispatch.run.as_deref().is_none_or(|known| known == run);
                rule!(same, LIFECYCLE, "a dispatch is bound to a second run");
                let other = self.dispatches.iter().any(|(other, dispatch)| {
                    other != id && dispatch.run.as_ref().is_some_and(|known| known["run_id"] == run["run_id"])
                });
                rule!(!other, LIFECYCLE, "a run serves two dispatches");
                let fits = evidence["run_id"] == run["run_id"]
                    && self.fits(dispatch, evidence, step.at, text(evidence, "kind"));
                rule!(fits, EVIDENCE, "a run is bound on evidence that does not fit");
                let own = text(step.actor, "role") != "worker" || step.actor["run_id"] == run["run_id"];
                rule!(own, AUTHORITY, "a worker binds another run than its own");
            }
            "rejected" => {
                let fits = dispatch.run.is_none() && self.fits(dispatch, evidence, step.at, "nonlaunch");
                rule!(fits, EVIDENCE, "a launch is called rejected on evidence that does not fit");
            }
            _ => {
                let movable = from(&["started", "uncertain", "unresolved"]);
                rule!(movable, LIFECYCLE, "a {} dispatch becomes {state}", dispatch.phase);
            }
        }
        if let Some(dispatch) = self.dispatches.get_mut(id) {
            dispatch.phase = state.to_owned();
            dispatch.writes += 1;
            if state == "started" {
                dispatch.principal = operation["credential_principal"].as_str().map(str::to_owned);
            }
            if state == "bound" {
                dispatch.run = Some(Arc::new(operation["run"].clone()));
            }
        }
        Ok(())
    }

    pub(super) fn release(&mut self, operation: &Value, step: &Step<'_>) -> Verdict {
        let (id, evidence) = (text(operation, "dispatch_id"), &operation["evidence"]);
        let dispatch = self.dispatches.get(id).ok_or_else(|| missing(EVIDENCE, "dispatch"))?;
        rule!(!dispatch.released, EVIDENCE, "a reservation is freed twice");
        let kind = text(evidence, "kind");
        let frees = ["prelaunch", "nonlaunch", "terminal_run"].contains(&kind);
        rule!(
            frees && self.fits(dispatch, evidence, step.at, kind),
            EVIDENCE,
            "{kind} evidence that does not fit frees"
        );
        let open = self.claims.values().any(|claim| claim.dispatch == id && claim.state == "open");
        rule!(!open, EVIDENCE, "a reservation is freed while a Claim is open");
        if let Some(dispatch) = self.dispatches.get_mut(id) {
            dispatch.released = true;
        }
        Ok(())
    }
}
