//! The rules, after every step: those of the explorer and the second planner over each commit, and those that only
//! somebody can judge who knows what really ran.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use wq_action::engine::replay;
use wq_action::engine::state::{ClaimStatus, Projection};
use wq_action::ledger::Current;
use wq_action::protocol::identity::sha256_hex;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::LedgerText;
use wq_action::protocol::request::RequestKind;

use crate::audit::{Model, State};
use crate::naive::{Ask, Naive};
use crate::stage::{Stage, WEB};

/// Commits between two comparisons of the whole projection with the recount.
const COUNT_EVERY: u64 = 32;
/// Commits between two cold replays.
const REPLAY_EVERY: u64 = 192;

/// What is known to be true, and what the queue said last.
pub(crate) struct Watch {
    stage: Arc<Stage>,
    pub(crate) model: Model,
    last: Option<Arc<Current>>,
    commits: u64,
    /// Dispatches whose reservation was freed because nothing was ever sent.
    prelaunch: BTreeSet<String>,
    /// Dispatches whose reservation was freed because the host refused.
    refused: BTreeSet<String>,
    completed: BTreeSet<String>,
    posts: u64,
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or("")
}

impl Watch {
    pub(crate) fn new(stage: &Arc<Stage>) -> Self {
        Self {
            stage: Arc::clone(stage),
            model: Model::default(),
            last: None,
            commits: 0,
            prelaunch: BTreeSet::new(),
            refused: BTreeSet::new(),
            completed: BTreeSet::new(),
            posts: 0,
        }
    }

    /// Looks at what the last step did.
    pub(crate) fn look(&mut self) -> Result<(), String> {
        let objections = self.stage.objections();
        if !objections.is_empty() {
            return Err(objections.join("\n"));
        }
        self.check_posts()?;
        let Some(current) = self.stage.branch.current() else { return Ok(()) };
        if self.last.as_ref().is_some_and(|last| last.commit == current.commit) {
            return Ok(());
        }
        let seen = self.last.as_ref().map_or(0, |last| last.projection.requests().len());
        let fresh: Vec<_> = current.projection.requests().skip(seen).collect();
        if current.projection.replaced() > self.last.as_ref().map_or(0, |last| last.projection.replaced()) {
            self.compacted(&current)?;
            self.last = Some(current);
            return Ok(());
        }
        if fresh.len() > 1 {
            return Err(format!("{} commits appear in one step", fresh.len()));
        }
        let Some(accepted) = fresh.first() else { return Err("the queue moved back".to_owned()) };
        let Some(line) = accepted.source.commit() else { return Err("a commit has no text".to_owned()) };
        let commit: Value = serde_json::from_str(line.as_str()).map_err(|error| error.to_string())?;
        self.model.step(&commit).map_err(|broken| format!("{}: {}", broken.rule, broken.detail))?;
        if accepted.kind == RequestKind::DispatchNext {
            self.check_plan(&commit, &current.projection)?;
        }
        self.commits += 1;
        self.stage.tally(|tally| tally.commits += 1);
        self.stage.log("queue", &summary(&commit));
        for operation in commit["operations"].as_array().into_iter().flatten() {
            self.check_operation(operation, &commit)?;
        }
        let whole = self.commits.is_multiple_of(COUNT_EVERY);
        let cold = self.commits.is_multiple_of(REPLAY_EVERY);
        self.last = Some(current);
        if whole || cold { self.check_whole(cold) } else { Ok(()) }
    }

    /// Compares everything with the recount; `cold` also replays the text of the queue.
    pub(crate) fn check_whole(&self, cold: bool) -> Result<(), String> {
        let Some(current) = &self.last else { return Ok(()) };
        let projection = &current.projection;
        let serialised = projection.serialise();
        let document: Value = serde_json::from_str(&serialised).map_err(|error| error.to_string())?;
        self.model.agrees(&document).map_err(|broken| format!("{}: {}", broken.rule, broken.detail))?;
        if Naive::new(&document).headroom() != projection.headroom() {
            return Err("the reserve is miscounted".to_owned());
        }
        for (request, commit) in &self.model.requests {
            if projection.request(request).is_none_or(|accepted| accepted.commit_id.as_str() != commit) {
                return Err(format!("{request} is not found under its id"));
            }
        }
        for (request, commit) in self.stage.answers() {
            if projection.request(&request).is_none_or(|accepted| accepted.commit_id.as_str() != commit) {
                return Err(format!("{request} was answered and is not found under its id"));
            }
        }
        for claim in &self.completed {
            let status = projection.claim(claim).map(|claim| &claim.status);
            if !matches!(status, Some(ClaimStatus::Completed { .. })) {
                return Err(format!("the completed Claim {claim} is not completed any more"));
            }
        }
        if cold { self.check_replay(projection, &serialised) } else { Ok(()) }
    }

    fn check_replay(&self, projection: &Projection, serialised: &str) -> Result<(), String> {
        let mut text = String::new();
        for line in projection.active() {
            text.push_str(line.as_str());
            text.push('\n');
        }
        let text = LedgerText::new(text.into_bytes()).map_err(|fault| fault.to_string())?;
        let cold = replay(&text, &mut Scanner::new(WEB)).map_err(|fault| format!("cold replay: {fault}"))?;
        self.stage.tally(|tally| tally.replays += 1);
        if cold.serialise() == serialised { Ok(()) } else { Err("cold replay gives another projection".to_owned()) }
    }

    /// A compaction changes nothing that a decision looks at.
    fn compacted(&mut self, current: &Arc<Current>) -> Result<(), String> {
        let essence = |projection: &Projection| -> Result<Value, String> {
            let mut state: Value = serde_json::from_str(&projection.serialise()).map_err(|error| error.to_string())?;
            for member in ["requests", "tip", "policy", "ledger_bytes"] {
                state.as_object_mut().map(|members| members.remove(member));
            }
            state["stats"].as_object_mut().map(|members| members.remove("transactions"));
            for work in state["works"].as_object_mut().into_iter().flat_map(|works| works.values_mut()) {
                work.as_object_mut().map(|members| members.remove("position"));
            }
            Ok(state)
        };
        let before = self.last.as_ref().map(|last| essence(&last.projection)).transpose()?;
        if before != Some(essence(&current.projection)?) {
            return Err("a compaction changes the projection".to_owned());
        }
        self.last = Some(Arc::clone(current));
        self.check_whole(true)
    }

    /// One launch of a dispatch at most, and none of one that was freed as never launched.
    fn check_posts(&mut self) -> Result<(), String> {
        let sent = self.stage.counted().posts;
        if sent == self.posts {
            return Ok(());
        }
        self.posts = sent;
        for (dispatch, posts) in self.stage.github.posts() {
            if posts > 1 {
                return Err(format!("{posts} POSTs for {dispatch}"));
            }
            if self.prelaunch.contains(&dispatch) {
                return Err(format!("{dispatch} was freed as never launched and is launched"));
            }
        }
        Ok(())
    }

    /// A grant is what the second planner computes, and is charged once.
    fn check_plan(&self, commit: &Value, next: &Projection) -> Result<(), String> {
        let Some(last) = &self.last else { return Err("a grant without a queue".to_owned()) };
        let asked = &commit["request"]["parameters"];
        let number = |name: &str| asked[name].as_u64().unwrap_or(0) as usize;
        let names = |list: &Vec<Value>| list.iter().map(|one| one.as_str().unwrap_or("").to_owned()).collect();
        let document: Value = serde_json::from_str(&last.projection.serialise()).map_err(|error| error.to_string())?;
        let ask = Ask {
            pool: text(asked, "pool").to_owned(),
            max_claims: number("max_claims"),
            max_dispatches: number("max_dispatches"),
            max_bytes: number("max_bytes"),
            worker_profiles: asked["worker_profiles"].as_array().map(names),
            preceding: 0,
            at: commit["at"].as_i64().unwrap_or(0),
        };
        let request = text(&commit["request"], "id");
        let (plan, clocks) = Naive::new(&document).charge(&ask, request, text(commit, "id"));
        let digest = sha256_hex(&[&commit["operations"].to_string()]);
        if plan["operations_sha256"] != digest.as_str() {
            return Err("a grant is not the second planner's".to_owned());
        }
        let after: Value = serde_json::from_str(&next.serialise()).map_err(|error| error.to_string())?;
        if after["clocks"][&ask.pool] != clocks {
            return Err("a grant is charged otherwise than the second planner charges it".to_owned());
        }
        let claims = commit["operations"].as_array().map_or(0, Vec::len) as u64;
        self.stage.tally(|tally| {
            tally.plans += 1;
            tally.grants += claims;
        });
        Ok(())
    }

    fn check_operation(&mut self, operation: &Value, commit: &Value) -> Result<(), String> {
        let dispatch = text(operation, "dispatch_id").to_owned();
        match text(operation, "kind") {
            "Dispatch" if operation["state"] == "bound" => self.check_bound(&dispatch, &operation["run"]),
            "Completion" => {
                self.completed.insert(text(operation, "claim_id").to_owned());
                self.stage.tally(|tally| tally.finishes += 1);
                Ok(())
            }
            "ClaimCancellation" => self.check_cancelled(operation, commit),
            "Release" => self.check_release(dispatch, &operation["evidence"]),
            _ => Ok(()),
        }
    }

    /// A bound run is attempt 1 of a run that a POST of ours started for this dispatch, and is written down once.
    fn check_bound(&self, dispatch: &str, run: &Value) -> Result<(), String> {
        let id: u64 = text(run, "run_id").parse().unwrap_or(0);
        let own = self.stage.own_runs(dispatch).contains(&id) && self.stage.github.posts_of_dispatch(dispatch) == 1;
        let launched = self.stage.github.run(id).is_some_and(|shown| shown.actor == self.stage.launcher);
        if !own || !launched || run["run_attempt"] != 1 {
            return Err(format!("run {id} is bound to {dispatch}, and no POST of ours started it for that"));
        }
        let before = self.last.as_ref().and_then(|last| last.projection.dispatch(dispatch));
        if before.is_some_and(|before| before.run.is_some()) {
            return Err(format!("{dispatch} was bound to run {id} before, and it is written again"));
        }
        self.stage.tally(|tally| tally.bound += 1);
        Ok(())
    }

    /// Only its worker or an operator takes the Claim of a live bound run back.
    fn check_cancelled(&self, operation: &Value, commit: &Value) -> Result<(), String> {
        let claim = &self.model.claims[text(operation, "claim_id")];
        let Some(run) = &self.model.dispatches[&claim.dispatch].run else { return Ok(()) };
        let kind = text(&commit["request"], "kind");
        let asked = ["finish", "cancel_claim", "cancel_work"].contains(&kind);
        if !asked && !self.has_ended(text(run, "run_id")) {
            return Err(format!("a {kind} request cancels a Claim of a live run"));
        }
        Ok(())
    }

    /// Attempt 1 of a run is over in the world.
    fn has_ended(&self, run: &str) -> bool {
        let shown = self.stage.github.run(run.parse().unwrap_or(0));
        let first = shown.as_ref().map(|shown| &shown.attempts[0]);
        first.is_some_and(|first| first.status == "completed" && first.conclusion.is_some())
    }

    /// What is said to free a reservation is true in the world.
    fn check_release(&mut self, dispatch: String, evidence: &Value) -> Result<(), String> {
        let kind = text(evidence, "kind");
        let (posts, runs) = (self.stage.github.posts_of_dispatch(&dispatch), self.stage.own_runs(&dispatch));
        let holds = match kind {
            "terminal_run" => {
                let run = text(evidence, "run_id");
                let of_dispatch = runs.iter().any(|id| id.to_string() == run);
                of_dispatch && self.has_ended(run)
            }
            "nonlaunch" => {
                self.refused.insert(dispatch.clone());
                posts == 1 && runs.is_empty()
            }
            "prelaunch" => {
                self.prelaunch.insert(dispatch.clone());
                posts == 0 && runs.is_empty()
            }
            _ => false,
        };
        if !holds {
            return Err(format!("{dispatch} is freed on {kind} evidence that is not so: {posts} POSTs, runs {runs:?}"));
        }
        self.stage.tally(|tally| *tally.releases.entry(kind.to_owned()).or_default() += 1);
        Ok(())
    }

    /// Every reservation that is held, and why it may still be: the launch cannot be known. Any other is a failure, and
    /// so is Work that could be granted and was not.
    pub(crate) fn check_progress(&self, named: &BTreeMap<String, &'static str>) -> Result<u64, String> {
        let Some(current) = &self.last else { return Ok(0) };
        let projection = &current.projection;
        let mut unresolved = 0;
        for dispatch in projection.dispatches().filter(|dispatch| !dispatch.released) {
            let id = dispatch.assignment.dispatch_id.as_str();
            let runs = self.stage.github.runs_of_dispatch(id);
            let own = self.stage.own_runs(id);
            let phase = &self.model.dispatches[id].phase;
            if dispatch.run.is_some() || phase == "reserved" || phase == "rejected" {
                return Err(format!("{id} is {phase} and still holds its reservation"));
            }
            let listed = self.stage.listed(dispatch.profile.workflow.as_str());
            if own.len() == 1 && runs.len() == 1 && listed < 100 {
                return Err(format!(
                    "{id} is {phase}, its one run {} ended, and it still holds its reservation",
                    own[0]
                ));
            }
            let state = named.get(id).copied().unwrap_or("nothing");
            let expected = if runs.is_empty() { "launch_unresolved" } else { "run_binding_conflict" };
            if state != expected {
                return Err(format!("{id} with runs {runs:?} is called {state}, not {expected}"));
            }
            unresolved += 1;
        }
        for work in self.model.works.values().filter(|work| work.state == State::Available) {
            let (pool, account) = (text(&work.definition, "pool"), text(&work.definition, "fairness_key"));
            let held =
                projection.dispatches().filter(|one| !one.released && one.assignment.pool.as_str() == pool).count();
            let open: Vec<&str> = projection
                .claims()
                .filter(|claim| matches!(claim.status, ClaimStatus::Open))
                .map(|claim| &projection.work_of(claim).work)
                .filter(|work| work.pool.as_str() == pool)
                .map(|work| work.fairness_key.as_str())
                .collect();
            let settings = &self.stage.policy["pools"][pool];
            let limit = |name: &str| settings[name].as_u64().map_or(usize::MAX, |limit| limit as usize);
            let full = held >= limit("native_limit")
                || open.len() >= limit("logical_limit")
                || open.iter().filter(|own| **own == account).count() >= limit("per_account_limit");
            let edges = work.definition["depends_on"].as_array().into_iter().flatten();
            let waits = edges
                .filter(|edge| edge["kind"] == "work")
                .any(|edge| self.model.works[text(edge, "work_id")].barrier != "verified");
            if !full && !waits {
                return Err(format!("{} could be granted and never was", text(&work.definition, "node_key")));
            }
        }
        Ok(unresolved)
    }
}

/// A commit in a few words.
fn summary(commit: &Value) -> String {
    let operations = commit["operations"].as_array().into_iter().flatten().map(|operation| {
        let state = operation["state"].as_str().unwrap_or("");
        let kind = operation["evidence"]["kind"].as_str().unwrap_or("");
        format!("{} {state}{kind}", text(operation, "kind"))
    });
    let words: Vec<String> = operations.map(|word| word.trim().to_owned()).collect();
    let actor = &commit["actor"];
    format!(
        "{} by {} {}: {}",
        text(&commit["request"], "kind"),
        text(actor, "role"),
        text(actor, "run_id"),
        words.join(", ")
    )
}
