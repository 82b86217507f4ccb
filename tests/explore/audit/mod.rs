//! The rules, once more: what a ledger may say next, judged from the commit's JSON and from nothing of the engine's.
//! Everything is recomputed by scanning; there is no index and no clock. A fault that the engine's writer and reader
//! share shows here, or in the second planner, or nowhere.

mod deployment;
mod lifecycle;
pub(crate) mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub(crate) use rules::{
    ADMISSION, AUTHORITY, BUDGET, CANCELLATION, CAPACITY, CHARGE, COMPACTION, DEBT, DEPLOYMENT, EVIDENCE, LAUNCH,
    LIFECYCLE, PAUSE, PLAN, POLICY, PREDECESSOR, PRIORITY, PROJECTION, READABLE, REPLAY, REQUEST, RETRY, RULES,
    SETTLEMENT, Verdict, Violation, WINNER, focused, rule,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Available,
    Claimed,
    Completed,
    Cancelled,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Claimed => "claimed",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) definition: Arc<Value>,
    pub(crate) state: State,
    pub(crate) barrier: &'static str,
    pub(crate) attempts: u64,
    retry: i64,
    priority: i64,
    pub(crate) owner: Option<String>,
    /// Commit of the Completion.
    pub(crate) completion: Option<String>,
    completed_at: i64,
    settled: Option<Arc<Value>>,
    cancelled: Option<Arc<Value>>,
    /// Completed for this round alone.
    keep: bool,
    /// Contract of the route at admission.
    contract: Value,
}

#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) work: String,
    pub(crate) dispatch: String,
    pub(crate) handle: String,
    /// `open`, `completed` or `cancelled`.
    pub(crate) state: &'static str,
    cancelled: Option<Arc<Value>>,
    /// The Result of its round, if its Work was kept open.
    settled: Option<Arc<Value>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Dispatch {
    request: String,
    epoch: String,
    pool: String,
    pub(crate) profile: Arc<Value>,
    pub(crate) phase: String,
    pub(crate) released: bool,
    pub(crate) run: Option<Arc<Value>>,
    principal: Option<String>,
    writes: u64,
}

/// What the ledger means, recomputed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) policy: Arc<Value>,
    pub(crate) works: BTreeMap<String, Work>,
    pub(crate) claims: BTreeMap<String, Claim>,
    pub(crate) dispatches: BTreeMap<String, Dispatch>,
    /// Request id to commit id.
    pub(crate) requests: BTreeMap<String, String>,
    grants_paused: bool,
    admission_paused: bool,
    epoch: String,
    /// By pool and profile.
    routes: BTreeMap<(String, String), Route>,
}

/// A deployed route.
#[derive(Clone, Debug)]
struct Route {
    current: String,
    contract: Value,
    /// By revision: the profile, and whether it is available.
    revisions: BTreeMap<String, (Arc<Value>, bool)>,
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or("")
}

fn count(value: &Value, name: &str) -> i64 {
    value[name].as_i64().unwrap_or(0)
}

/// One commit being judged.
struct Step<'c> {
    id: &'c str,
    at: i64,
    kind: &'c str,
    request: &'c str,
    actor: &'c Value,
    operations: &'c [Value],
}

impl Model {
    /// Takes the next commit in, or says which rule it breaks.
    pub(crate) fn step(&mut self, commit: &Value) -> Verdict {
        let request = text(&commit["request"], "id");
        let known = self.requests.insert(request.to_owned(), text(commit, "id").to_owned());
        rule!(known.is_none(), REQUEST, "{request} is committed a second time");
        if self.epoch.is_empty() {
            self.epoch = text(commit, "policy_epoch").to_owned();
        }
        let step = Step {
            id: text(commit, "id"),
            at: count(commit, "at"),
            kind: text(&commit["request"], "kind"),
            request,
            actor: &commit["actor"],
            operations: commit["operations"].as_array().map_or(&[], Vec::as_slice),
        };
        for operation in step.operations {
            self.operate(operation, &step)?;
        }
        self.check_exhausted(&step)?;
        self.check_capacity()
    }

    fn operate(&mut self, operation: &Value, step: &Step<'_>) -> Verdict {
        match text(operation, "kind") {
            "Policy" => self.install(operation)?,
            "Deployment" => self.deploy(operation)?,
            "Work" => self.admit(operation, step)?,
            "Control" => match text(operation, "control") {
                "grants_paused" => self.grants_paused = operation["value"] == true,
                "admission_paused" => self.admission_paused = operation["value"] == true,
                _ => {}
            },
            "WorkPriority" => self.reprioritize(operation)?,
            "Claim" => self.grant(operation, step)?,
            "Completion" => self.complete(operation, step)?,
            "ClaimCancellation" => self.cancel_claim(operation, step)?,
            "WorkCancellation" => self.cancel_work(operation, step)?,
            "Result" | "DeliveryFailure" => self.settle(operation, step)?,
            "Dispatch" => self.advance(operation, step)?,
            "Release" => self.release(operation, step)?,
            _ => {}
        }
        Ok(())
    }

    fn pool(&self, name: &str) -> &Value {
        &self.policy["pools"][name]
    }

    fn pool_of(&self, work: &Work) -> &Value {
        self.pool(text(&work.definition, "pool"))
    }

    fn admit(&mut self, node: &Value, step: &Step<'_>) -> Verdict {
        let id = text(node, "work_id");
        rule!(!self.admission_paused, PAUSE, "a node is admitted while admission is paused");
        if text(step.actor, "role") == "worker" {
            let claim = self.effects(step.actor).map_err(|why| Violation {
                rule: AUTHORITY,
                detail: format!("a child is submitted by a worker without authority: {why}"),
            })?;
            let parent = &self.works[&self.claims[&claim].work].definition;
            let kept = ["pool", "priority", "fairness_key"].iter().all(|name| parent[name] == node[name]);
            rule!(kept, ADMISSION, "a child differs from its parent in pool, priority or key");
        }
        if self.works.contains_key(id) {
            return Ok(());
        }
        if let Some(replaced) = node["replacement_of"]["work_id"].as_str() {
            let before = self.works.get(replaced).ok_or_else(|| missing(ADMISSION, "Work"))?;
            let kept = ["pool", "priority", "fairness_key"].iter().all(|name| before.definition[name] == node[name]);
            rule!(kept && before.barrier == "failed", ADMISSION, "a node replaces Work that did not fail");
            let clean = before.settled.as_ref().is_some_and(|settled| settled["disposition"] == "none");
            rule!(clean, ADMISSION, "a node replaces Work that may have had effects");
        }
        let work = Work {
            definition: Arc::new(node.clone()),
            state: State::Available,
            barrier: "none",
            attempts: 0,
            retry: 0,
            priority: count(node, "priority"),
            owner: None,
            completion: None,
            completed_at: 0,
            settled: None,
            cancelled: None,
            keep: false,
            contract: self.route_of(node).map_or(Value::Null, |(profile, _)| profile["logical_contract"].clone()),
        };
        self.works.insert(id.to_owned(), work);
        Ok(())
    }

    fn reprioritize(&mut self, change: &Value) -> Verdict {
        let work = self.works.get_mut(text(change, "work_id"));
        let work = work.ok_or_else(|| missing(PRIORITY, "Work"))?;
        rule!(work.state == State::Available, PRIORITY, "the priority of {} Work changes", work.state.word());
        rule!(work.priority == count(change, "expected_priority"), PRIORITY, "the priority was not the expected one");
        work.priority = count(change, "priority");
        Ok(())
    }

    fn grant(&mut self, claim: &Value, step: &Step<'_>) -> Verdict {
        let (id, work_id, dispatch) = (text(claim, "claim_id"), text(claim, "work_id"), text(claim, "dispatch_id"));
        let work = self.works.get(work_id).ok_or_else(|| missing(WINNER, "Work"))?;
        rule!(work.state == State::Available, WINNER, "a Claim is granted for {} Work", work.state.word());
        let open = self.claims.values().any(|claim| claim.work == work_id && claim.state == "open");
        rule!(!open && !self.claims.contains_key(id), WINNER, "a second Claim of a Work is open");
        rule!(!self.grants_paused, PAUSE, "a Claim is granted while grants are paused");
        let edges = work.definition["depends_on"].as_array().into_iter().flatten();
        for edge in edges.filter(|edge| edge["kind"] == "work") {
            let before = self.works.get(text(edge, "work_id"));
            let verified =
                before.is_some_and(|before| before.state == State::Completed && before.barrier == "verified");
            rule!(verified, PREDECESSOR, "Work is granted while its predecessor has no Result");
        }
        rule!(work.retry <= step.at, RETRY, "Work is granted before its retry boundary");
        let most = count(&self.pool_of(work)["retry"], "max_attempts") as u64;
        rule!(work.attempts < most, RETRY, "Work is granted after its last attempt");
        let (profile, available) = self.route_of(&work.definition).ok_or_else(|| missing(DEPLOYMENT, "revision"))?;
        rule!(available, DEPLOYMENT, "Work is granted on a paused revision");
        rule!(profile["logical_contract"] == work.contract, DEPLOYMENT, "Work is granted under another contract");
        let pool = text(&work.definition, "pool").to_owned();
        let entry = self.dispatches.entry(dispatch.to_owned()).or_insert_with(|| Dispatch {
            request: step.request.to_owned(),
            epoch: self.epoch.clone(),
            pool,
            profile,
            phase: "reserved".to_owned(),
            released: false,
            run: None,
            principal: None,
            writes: 0,
        });
        rule!(entry.request == step.request, WINNER, "a Claim joins a dispatch of another grant");
        let most = count(&entry.profile, "max_claims");
        let members: Vec<&Claim> = self.claims.values().filter(|claim| claim.dispatch == dispatch).collect();
        rule!((members.len() as i64) < most, CAPACITY, "a dispatch holds more Claims than its profile allows");
        let handle = text(claim, "handle");
        rule!(members.iter().all(|member| member.handle != handle), WINNER, "a handle is given twice");
        let claim = Claim {
            work: work_id.to_owned(),
            dispatch: dispatch.to_owned(),
            handle: handle.to_owned(),
            state: "open",
            cancelled: None,
            settled: None,
        };
        self.claims.insert(id.to_owned(), claim);
        if let Some(work) = self.works.get_mut(work_id) {
            work.state = State::Claimed;
            work.attempts += 1;
            work.owner = Some(id.to_owned());
        }
        Ok(())
    }

    /// Why an actor is not the worker behind a Claim, if it is not.
    fn unbound(&self, claim: &str, actor: &Value) -> Option<&'static str> {
        let Some(claim) = self.claims.get(claim) else { return Some("there is no such Claim") };
        let dispatch = &self.dispatches[&claim.dispatch];
        let Some(run) = dispatch.run.as_ref().filter(|_| dispatch.phase == "bound") else {
            return Some("its dispatch is not bound");
        };
        if dispatch.released {
            return Some("its dispatch is released");
        }
        if dispatch.epoch != self.epoch {
            return Some("its epoch is retired");
        }
        let same = text(actor, "role") == "worker"
            && ["run_id", "workflow", "repository", "principal"].iter().all(|name| run[name] == actor[name])
            && text(actor, "dispatch_id") == claim.dispatch
            && text(actor, "claim_handle") == claim.handle;
        if same { None } else { Some("the actor is not its bound run") }
    }

    fn claim_of(&self, actor: &Value) -> Option<String> {
        let found = self.claims.iter().find(|(_, claim)| {
            claim.dispatch == text(actor, "dispatch_id") && claim.handle == text(actor, "claim_handle")
        });
        found.map(|(id, _)| id.clone())
    }

    /// The Claim whose worker may still act on it: open and owning, or completed and not failed.
    pub(crate) fn may_act(&self, actor: &Value) -> Result<String, &'static str> {
        let id = self.claim_of(actor).ok_or("there is no such member")?;
        if let Some(why) = self.unbound(&id, actor) {
            return Err(why);
        }
        let claim = &self.claims[&id];
        let work = &self.works[&claim.work];
        let owns = work.owner.as_ref() == Some(&id)
            && match claim.state {
                "open" => work.state == State::Claimed,
                "completed" => work.state == State::Completed && work.barrier != "failed",
                _ => false,
            };
        if owns { Ok(id) } else { Err("its Claim does not own the Work, or its delivery failed") }
    }

    /// The Claim under whose own Completion this worker may have effects.
    pub(crate) fn effects(&self, actor: &Value) -> Result<String, &'static str> {
        let id = self.may_act(actor)?;
        let claim = &self.claims[&id];
        let pending = claim.state == "completed" && self.works[&claim.work].barrier == "pending";
        if pending { Ok(id) } else { Err("it has no Completion of its own with a pending delivery") }
    }

    fn complete(&mut self, operation: &Value, step: &Step<'_>) -> Verdict {
        let id = text(operation, "claim_id");
        let refused = self.unbound(id, step.actor);
        rule!(refused.is_none(), AUTHORITY, "a Claim is completed although {}", refused.unwrap_or(""));
        let (claim, work) = (&self.claims[id], &self.works[&self.claims[id].work]);
        let owns = claim.state == "open" && work.state == State::Claimed && work.owner.as_deref() == Some(id);
        rule!(owns, AUTHORITY, "a {} Claim completes {} Work", claim.state, work.state.word());
        let same = claim.work == text(operation, "work_id") && claim.dispatch == text(operation, "dispatch_id");
        rule!(same, AUTHORITY, "a Completion names another Work or dispatch");
        let work = claim.work.clone();
        self.end_claim(id, "completed", None);
        if let Some(work) = self.works.get_mut(&work) {
            work.state = State::Completed;
            work.barrier = "pending";
            work.completion = Some(step.id.to_owned());
            work.completed_at = step.at;
            work.keep = operation["keep_open"] == true;
        }
        Ok(())
    }

    fn end_claim(&mut self, id: &str, state: &'static str, operation: Option<&Value>) {
        if let Some(claim) = self.claims.get_mut(id) {
            claim.state = state;
            claim.cancelled = operation.map(|operation| Arc::new(operation.clone()));
        }
    }

    fn cancel_claim(&mut self, operation: &Value, step: &Step<'_>) -> Verdict {
        let id = text(operation, "claim_id");
        let claim = self.claims.get(id).ok_or_else(|| missing(CANCELLATION, "Claim"))?;
        if claim.cancelled.as_deref() == Some(operation) {
            return Ok(());
        }
        let work = &self.works[&claim.work];
        let owns =
            claim.state == "open" && work.owner.as_deref() == Some(id) && claim.work == text(operation, "work_id");
        rule!(owns, CANCELLATION, "a {} Claim is cancelled", claim.state);
        if text(step.actor, "role") == "worker" {
            let refused = self.unbound(id, step.actor);
            rule!(refused.is_none(), AUTHORITY, "a worker cancels a Claim although {}", refused.unwrap_or(""));
        }
        let released = step.operations.iter().find(|other| {
            text(other, "kind") == "Release" && text(other, "dispatch_id") == claim.dispatch && step.kind == "release"
        });
        let origin = released.map_or(step.at, |release| count(&release["evidence"], "checked_at"));
        let least = origin + count(&self.pool_of(work)["retry"], "backoff_ms");
        let boundary = count(operation, "retry_not_before");
        rule!(boundary >= least, RETRY, "a retry boundary of {boundary} where {least} is the least");
        let work = claim.work.clone();
        self.end_claim(id, "cancelled", Some(operation));
        if let Some(work) = self.works.get_mut(&work) {
            work.state = State::Available;
            work.owner = None;
            work.retry = boundary;
        }
        Ok(())
    }

    fn cancel_work(&mut self, operation: &Value, step: &Step<'_>) -> Verdict {
        let work = self.works.get(text(operation, "work_id")).ok_or_else(|| missing(CANCELLATION, "Work"))?;
        rule!(work.state != State::Completed, CANCELLATION, "completed Work is cancelled");
        if let Some(fence) = operation["claim_id"].as_str() {
            let holds = work.owner.as_deref() == Some(fence) && self.claims.contains_key(fence);
            rule!(holds, CANCELLATION, "the fenced Claim does not own the cancelled Work");
        }
        if text(step.actor, "role") == "worker" {
            let most = count(&self.pool_of(work)["retry"], "max_attempts") as u64;
            let own = self.claim_of(step.actor).is_some_and(|claim| self.claims[&claim].state == "cancelled");
            rule!(own && work.attempts >= most, AUTHORITY, "a worker cancels Work that has attempts left");
        }
        if let Some(before) = &work.cancelled {
            rule!(**before == *operation, CANCELLATION, "Work is cancelled twice in different words");
            return Ok(());
        }
        if let (State::Claimed, Some(owner)) = (work.state, work.owner.clone()) {
            self.end_claim(&owner, "cancelled", None);
        }
        if let Some(work) = self.works.get_mut(text(operation, "work_id")) {
            work.state = State::Cancelled;
            work.cancelled = Some(Arc::new(operation.clone()));
        }
        Ok(())
    }

    fn check_exhausted(&self, step: &Step<'_>) -> Verdict {
        for operation in step.operations.iter().filter(|operation| text(operation, "kind") == "ClaimCancellation") {
            let work = &self.works[text(operation, "work_id")];
            let most = count(&self.pool_of(work)["retry"], "max_attempts") as u64;
            let ended = work.attempts < most || work.state == State::Cancelled;
            rule!(ended, RETRY, "the last attempt is cancelled and its Work stays available");
        }
        Ok(())
    }

    /// Recounts every limit.
    fn check_capacity(&self) -> Verdict {
        for (name, pool) in self.policy["pools"].as_object().into_iter().flatten() {
            let mut accounts: BTreeMap<&str, i64> = BTreeMap::new();
            for claim in self.claims.values().filter(|claim| claim.state == "open") {
                let definition = &self.works[&claim.work].definition;
                if text(definition, "pool") == name {
                    *accounts.entry(text(definition, "fairness_key")).or_default() += 1;
                }
            }
            let (open, most) = (accounts.values().sum::<i64>(), count(pool, "logical_limit"));
            rule!(open <= most, CAPACITY, "{open} Claims are open where {most} may be");
            if let Some(most) = pool["per_account_limit"].as_i64() {
                let full = accounts.values().all(|open| *open <= most);
                rule!(full, CAPACITY, "an account has more than {most} Claims open");
            }
            let held = self.dispatches.values().filter(|dispatch| dispatch.pool == *name && !dispatch.released).count();
            let most = count(pool, "native_limit");
            rule!(held as i64 <= most, CAPACITY, "{held} dispatches hold capacity where {most} may");
        }
        Ok(())
    }

    /// Compares the recount with the serialised projection.
    pub(crate) fn agrees(&self, document: &Value) -> Verdict {
        let sizes = [("works", self.works.len()), ("claims", self.claims.len()), ("dispatches", self.dispatches.len())];
        for (name, size) in sizes {
            let shown = document[name].as_object().map_or(0, serde_json::Map::len);
            rule!(shown == size, PROJECTION, "{shown} {name} are shown where {size} are");
        }
        for (id, work) in &self.works {
            let shown = &document["works"][id];
            let priority = shown.get("effective_priority").unwrap_or(&shown["priority"]);
            let same = shown["state"] == work.state.word()
                && shown["barrier"] == work.barrier
                && shown["attempts"] == work.attempts
                && shown["retry_not_before"] == work.retry
                && (shown["keep_open"] == true) == work.keep
                && *priority == work.priority;
            rule!(same, PROJECTION, "Work {} is shown otherwise", text(&work.definition, "node_key"));
        }
        for (id, claim) in &self.claims {
            rule!(
                document["claims"][id]["state"] == claim.state,
                PROJECTION,
                "a {} Claim is shown otherwise",
                claim.state
            );
        }
        for (id, dispatch) in &self.dispatches {
            let shown = &document["dispatches"][id];
            let same = shown["state"] == dispatch.phase.as_str()
                && shown["released"] == dispatch.released
                && shown["lifecycle_writes"] == dispatch.writes
                && shown["profile"] == *dispatch.profile
                && shown.get("run") == dispatch.run.as_deref();
            rule!(same, PROJECTION, "a {} dispatch is shown otherwise", dispatch.phase);
        }
        for ((pool, profile), route) in &self.routes {
            let shown = &document["deployments"][pool][profile];
            let revisions: serde_json::Map<String, Value> = route
                .revisions
                .iter()
                .map(|(name, (profile, available))| {
                    (name.clone(), serde_json::json!({"available": available, "profile": **profile}))
                })
                .collect();
            let same = shown["current_ref"] == route.current.as_str()
                && shown["current_contract"] == route.contract
                && shown["revisions"] == Value::Object(revisions);
            rule!(same, PROJECTION, "a deployed route is shown otherwise");
        }
        let paused = (document["grants_paused"] == true, document["admission_paused"] == true);
        rule!(paused == (self.grants_paused, self.admission_paused), PROJECTION, "a pause is shown otherwise");
        self.agrees_in_number(&document["stats"])
    }

    fn agrees_in_number(&self, stats: &Value) -> Verdict {
        let works = |state| self.works.values().filter(|work| work.state == state).count();
        let held = self.dispatches.values().filter(|dispatch| !dispatch.released).count();
        let counts = [
            ("available", works(State::Available)),
            ("claimed", works(State::Claimed)),
            ("completed", works(State::Completed)),
            ("cancelled", works(State::Cancelled)),
            ("claims", self.claims.len()),
            ("dispatches", held),
        ];
        for (name, count) in counts {
            rule!(stats[name] == count, PROJECTION, "{} {name} are counted where {count} are", stats[name]);
        }
        Ok(())
    }
}

fn missing(rule: &'static str, what: &str) -> Violation {
    Violation { rule, detail: format!("there is no such {what}") }
}
