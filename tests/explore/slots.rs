//! The requests that actors make, and when they have reason to.

use serde_json::{Value, json};
use wq_action::protocol::commit::FrozenRequest;
use wq_action::protocol::identity::sha256_hex;
use wq_action::protocol::request::RequestKind;

use crate::audit::State;
use crate::kinds::{Change, Kind, Local, Native, Natives, Of, Proof, Run, Slot, TICK};
use crate::register::Register;
use crate::support::built::{ADMINISTRATOR, Grant, Node, PRODUCER, RECONCILER, frozen, grant_parameters, seen};
use crate::support::ledger::work_id;

/// The request id of a slot.
pub(crate) fn request_id(slots: &[Slot], index: usize) -> String {
    match slots[index].kind {
        Kind::Reuse { slot } => request_id(slots, slot),
        _ => format!("r{index}"),
    }
}

fn dispatcher(index: usize) -> String {
    format!(
        r#"{{"role":"dispatcher","principal":"1001","repository":"owner/repo",
        "workflow":".github/workflows/dispatcher.lock.yml","run_id":"{}","run_attempt":1}}"#,
        100 + index
    )
}

/// What a slot sees: the version that it reads, and the world around it.
pub(crate) struct Seen<'w> {
    pub(crate) slots: &'w [Slot],
    pub(crate) register: &'w Register,
    pub(crate) locals: &'w [Local],
    pub(crate) natives: &'w Natives,
    pub(crate) at: i64,
}

/// The dispatch of a Claim's slot once granted.
pub(crate) fn granted(slots: &[Slot], register: &Register, of: Of) -> Option<Grant> {
    let id = format!("c_{}_{}", sha256_hex(&[&request_id(slots, of.0)]), of.1);
    let claim = register.model.claims.get(&id)?;
    let node = register.model.works[&claim.work].definition["node_key"].as_str().unwrap().to_owned();
    Some(Grant {
        node,
        work: claim.work.clone(),
        claim: id,
        dispatch: claim.dispatch.clone(),
        handle: claim.handle.clone(),
    })
}

/// A request in words that do not depend on the names of commits: actor, kind and parameters.
type Words = (RequestKind, String, Value);

impl Seen<'_> {
    fn grant(&self, of: Of) -> Option<Grant> {
        granted(self.slots, self.register, of)
    }

    fn native(&self, grant: &Grant) -> Native {
        self.natives.get(&grant.dispatch).copied().unwrap_or_default()
    }

    /// The request that a slot would make of what it sees; none if it has no reason to ask.
    pub(crate) fn request(&self, index: usize) -> Option<Words> {
        let operate =
            |kind, actor: String, operations: Vec<Value>| Some((kind, actor, json!({"operations": operations})));
        match &self.slots[index].kind {
            Kind::Grant { claims, dispatches } => {
                let parameters = grant_parameters("default", *claims, *dispatches);
                Some((RequestKind::DispatchNext, dispatcher(index), parameters))
            }
            Kind::Start { of, permit } => {
                let grant = self.grant(*of)?;
                if *permit && self.locals[of.0] != Local::Permit {
                    return None;
                }
                let actor = dispatcher(of.0 + usize::from(!permit) * 50);
                let sender: Value = serde_json::from_str(&actor).unwrap();
                let marker = json!({"kind": "Dispatch", "dispatch_id": grant.dispatch, "state": "started",
                    "sender": sender, "credential_principal": "1001"});
                operate(RequestKind::Dispatch, actor, vec![marker])
            }
            Kind::Uncertain { of, start } => {
                let grant = self.grant(*of)?;
                if self.locals[*start] != Local::Posted(None) {
                    return None;
                }
                let doubt = json!({"kind": "Dispatch", "dispatch_id": grant.dispatch, "state": "uncertain",
                    "reason": "response_lost"});
                operate(RequestKind::Dispatch, dispatcher(of.0), vec![doubt])
            }
            Kind::Reject { of } => {
                let grant = self.grant(*of)?;
                let evidence = self.proof(&grant, Proof::Nonlaunch)?;
                let rejection = json!({"kind": "Dispatch", "dispatch_id": grant.dispatch, "state": "rejected",
                    "evidence": evidence});
                operate(RequestKind::Dispatch, dispatcher(of.0), vec![rejection])
            }
            Kind::PauseGrants(on) => {
                operate(RequestKind::Control, ADMINISTRATOR.to_owned(), vec![pause("grants_paused", *on)])
            }
            Kind::PauseAdmission(on) => {
                operate(RequestKind::Control, ADMINISTRATOR.to_owned(), vec![pause("admission_paused", *on)])
            }
            Kind::CancelWork { node, fence } => {
                let mut cancellation =
                    json!({"kind": "WorkCancellation", "work_id": work_id("graph", node), "reason": "unwanted"});
                if let Some(fence) = fence {
                    cancellation["claim_id"] = self.grant(*fence)?.claim.into();
                }
                operate(RequestKind::CancelWork, ADMINISTRATOR.to_owned(), vec![cancellation])
            }
            Kind::Priority { node, expected, priority } => {
                let change = json!({"kind": "WorkPriority", "work_id": work_id("graph", node), "reason": "urgent",
                    "priority": priority, "expected_priority": expected});
                operate(RequestKind::Control, ADMINISTRATOR.to_owned(), vec![change])
            }
            Kind::Submit { node } => {
                let node = Node::new(node).value();
                Some((RequestKind::Submit, PRODUCER.to_owned(), json!({ "nodes": [node] })))
            }
            Kind::Reuse { slot } => {
                let (kind, actor, _) = self.request(*slot)?;
                let parameters = match kind {
                    RequestKind::DispatchNext => grant_parameters("default", 7, 7),
                    _ => json!({"operations": [pause("grants_paused", false)]}),
                };
                Some((kind, actor, parameters))
            }
            _ => self.request_of_claim(index).or_else(|| self.request_of_administrator(index)),
        }
    }

    /// As [`Seen::request`], for what workers and reconcilers ask about a granted Claim.
    fn request_of_claim(&self, index: usize) -> Option<Words> {
        let operate =
            |kind, actor: String, operations: Vec<Value>| Some((kind, actor, json!({"operations": operations})));
        let reconcile = |kind, operations| operate(kind, RECONCILER.to_owned(), operations);
        match &self.slots[index].kind {
            Kind::Bind { of, run } => {
                let grant = self.grant(*of)?;
                let (id, actor) = self.speaker(&grant, *run)?;
                let mut binding = grant.binding();
                binding["run_id"] = id.clone().into();
                binding["ref"] = self.register.model.dispatches[&grant.dispatch].profile["ref"].clone();
                let evidence =
                    self.evidence(&grant, "reconciliation", "trusted_activation", self.at, &json!({ "run_id": id }));
                let bound = json!({"kind": "Dispatch", "dispatch_id": grant.dispatch, "state": "bound",
                    "run": binding, "evidence": evidence});
                operate(RequestKind::Dispatch, actor, vec![bound])
            }
            Kind::Finish { of, run, outcome } => {
                let grant = self.grant(*of)?;
                let (_, actor) = self.speaker(&grant, *run)?;
                let (outcome, kept) =
                    outcome.strip_prefix("kept ").map_or((*outcome, false), |outcome| (outcome, true));
                let mut parameters =
                    json!({"dispatch_id": grant.dispatch, "claim_handle": grant.handle, "outcome": outcome});
                if kept {
                    parameters["keep_open"] = true.into();
                }
                Some((RequestKind::Finish, actor, parameters))
            }
            Kind::Child { of, priority } => {
                let grant = self.grant(*of)?;
                let (_, actor) = self.speaker(&grant, Run::Own)?;
                let node = Node::new("child").priority(*priority).value();
                Some((RequestKind::Submit, actor, json!({ "nodes": [node] })))
            }
            Kind::Result { of, by } => {
                let (grant, by) = (self.grant(*of)?, self.grant(*by)?);
                let completion = self.register.model.works[&grant.work].completion.clone()?;
                let evidence =
                    self.evidence(&by, "delivery", "verified_receipts", self.at, &json!({"receipt": "receipt"}));
                let result = json!({"kind": "Result", "work_id": grant.work, "claim_id": by.claim,
                    "completion_id": completion, "descriptor": {"done": grant.node}, "evidence": evidence});
                reconcile(RequestKind::Result, vec![result])
            }
            Kind::Failure { of, attempts, clean } => {
                let grant = self.grant(*of)?;
                let completion = self.register.model.works[&grant.work].completion.clone()?;
                let mut evidence = self.proof(&grant, Proof::Terminal)?;
                evidence["attempts"] = (*attempts).into();
                if *clean {
                    evidence["effects"] = "none".into();
                    evidence["receipt"] = "nothing".into();
                }
                let disposition = if *clean { "none" } else { "unknown" };
                let failure = json!({"kind": "DeliveryFailure", "work_id": grant.work, "claim_id": grant.claim,
                    "completion_id": completion, "reason": "gone", "disposition": disposition, "evidence": evidence});
                reconcile(RequestKind::DeliveryFailure, vec![failure])
            }
            Kind::Replace { of, priority } => {
                let grant = self.grant(*of)?;
                let replaced = json!({"work_id": grant.work, "disposition": "inspection", "evidence": "seen"});
                let node = Node::new("instead").priority(*priority).with("replacement_of", replaced).value();
                Some((RequestKind::Submit, PRODUCER.to_owned(), json!({ "nodes": [node] })))
            }
            Kind::Release { of, proof, cancel } => {
                let grant = self.grant(*of)?;
                let evidence = self.proof(&grant, *proof)?;
                let retry = evidence["checked_at"].as_i64().unwrap() + TICK;
                let mut operations = if *cancel { self.cancellations(&grant, retry) } else { Vec::new() };
                operations.push(json!({"kind": "Release", "dispatch_id": grant.dispatch, "evidence": evidence}));
                reconcile(RequestKind::Release, operations)
            }
            Kind::CancelClaim { of, backoff } => {
                let grant = self.grant(*of)?;
                let retry = self.at + backoff;
                let mut operations = vec![json!({"kind": "ClaimCancellation", "work_id": grant.work,
                    "claim_id": grant.claim, "reason": "lost", "retry_not_before": retry})];
                operations.extend(self.exhausted(&grant.work));
                reconcile(RequestKind::CancelClaim, operations)
            }
            _ => None,
        }
    }

    /// As [`Seen::request`], for changes of the queue as a whole.
    fn request_of_administrator(&self, index: usize) -> Option<Words> {
        let administer =
            |kind, operation: Value| Some((kind, ADMINISTRATOR.to_owned(), json!({"operations": [operation]})));
        match &self.slots[index].kind {
            Kind::Compact => Some((RequestKind::Checkpoint, String::new(), Value::Null)),
            Kind::Deploy { expected, revision, change } => {
                administer(RequestKind::Deployment, self.deployment(*expected, *revision, *change))
            }
            Kind::Policy { logical } => {
                let mut policy = (*self.register.model.policy).clone();
                policy["pools"]["default"]["logical_limit"] = (*logical).into();
                let operation = json!({"kind": "Policy", "epoch": format!("epoch-{logical}"), "policy": policy});
                administer(RequestKind::Policy, operation)
            }
            Kind::Observe { id, closed } => {
                let mut more = json!({"credential_generation": self.register.projection.generation().as_str()});
                if !*closed {
                    more["state"] = "waiting".into();
                    more["resource_state"] = "open".into();
                    more["state_reason"] = "reopened".into();
                }
                administer(RequestKind::Observe, seen(id, 7, "completed", self.at, &more))
            }
            Kind::Generation(value) => {
                let control = json!({"kind": "Control", "control": "credential_generation", "value": value,
                    "reason": "test"});
                administer(RequestKind::Control, control)
            }
            _ => None,
        }
    }

    fn deployment(&self, expected: (char, char), revision: (char, char), change: Change) -> Value {
        let named = |digits: (char, char)| (digits.0.to_string().repeat(40), digits.1.to_string().repeat(64));
        let (expected, revision) = (named(expected), named(revision));
        let mut profile = self.register.model.policy["pools"]["default"]["profiles"]["default"].clone();
        profile["ref"] = revision.0.into();
        profile["logical_contract"] = revision.1.into();
        if change == Change::Widen {
            profile["max_claims"] = 16.into();
        }
        let mut deployment = json!({"kind": "Deployment", "pool": "default", "worker_profile": "default",
            "expected_ref": expected.0, "expected_contract": expected.1, "profile": profile,
            "available": change != Change::Pause, "reason": "test"});
        if change == Change::Pause {
            deployment["activate"] = false.into();
        }
        deployment
    }

    /// Evidence about the revision that the dispatch runs.
    fn evidence(&self, grant: &Grant, kind: &str, source: &str, at: i64, more: &Value) -> Value {
        let mut evidence = grant.evidence(kind, source, at, more);
        evidence["ref"] = self.register.model.dispatches[&grant.dispatch].profile["ref"].clone();
        evidence
    }

    /// Cancellations of every open member of a dispatch.
    fn cancellations(&self, grant: &Grant, retry: i64) -> Vec<Value> {
        let claims = self.register.model.claims.iter();
        let open = claims.filter(|(_, claim)| claim.dispatch == grant.dispatch && claim.state == "open");
        let operations = open.flat_map(|(id, claim)| {
            let cancellation = json!({"kind": "ClaimCancellation", "work_id": claim.work, "claim_id": id,
                "reason": "lost", "retry_not_before": retry});
            std::iter::once(cancellation).chain(self.exhausted(&claim.work))
        });
        operations.collect()
    }

    /// The cancellation of a Work whose last attempt ends. Left out on purpose where a search tests that it may not be.
    fn exhausted(&self, work: &str) -> Option<Value> {
        let state = &self.register.model.works[work];
        let last = state.state == State::Claimed && state.attempts >= 3;
        last.then(|| json!({"kind": "WorkCancellation", "work_id": work, "reason": "attempts_exhausted"}))
    }

    /// The run id and the worker actor of a run, if there is such a run.
    fn speaker(&self, grant: &Grant, run: Run) -> Option<(String, String)> {
        let native = self.native(grant);
        let actor = grant.worker();
        match run {
            Run::Own if native.running => Some((grant.run(), actor)),
            Run::Own => None,
            Run::Stray => {
                let id = stray(grant);
                Some((id.clone(), actor.replace(&format!("\"{}\"", grant.run()), &format!("\"{id}\""))))
            }
        }
    }

    /// Evidence, as far as the world gives cause for it.
    fn proof(&self, grant: &Grant, proof: Proof) -> Option<Value> {
        let (native, none) = (self.native(grant), json!({}));
        let phase = &self.register.model.dispatches[&grant.dispatch].phase;
        match proof {
            Proof::Prelaunch => {
                (phase == "reserved").then(|| self.evidence(grant, "prelaunch", "trusted_publisher", self.at, &none))
            }
            Proof::Nonlaunch => (!native.running && phase != "reserved")
                .then(|| self.evidence(grant, "nonlaunch", "github_api", self.at, &json!({"receipt": "absent"}))),
            Proof::Terminal => native.ended.then(|| self.evidence(grant, "terminal_run", "github_api", self.at, &none)),
            Proof::TerminalOfStray => {
                let run = json!({"run_id": stray(grant)});
                Some(self.evidence(grant, "terminal_run", "github_api", self.at, &run))
            }
            Proof::TerminalAhead => {
                native.running.then(|| self.evidence(grant, "terminal_run", "github_api", self.at + 10 * TICK, &none))
            }
            Proof::Reconciliation => {
                native.running.then(|| self.evidence(grant, "reconciliation", "github_api", self.at, &none))
            }
        }
    }
}

/// A run that no dispatch was posted for; the same one for every dispatch.
fn stray(_grant: &Grant) -> String {
    "77777".to_owned()
}

fn pause(control: &str, on: bool) -> Value {
    json!({"kind": "Control", "control": control, "value": on, "reason": "test"})
}

/// A request as text in which commits bear the names of their requests, so that it means the same on every version.
pub(crate) fn symbolic(words: &Words, register: &Register) -> String {
    let (kind, actor, parameters) = words;
    let mut text = format!("{}\n{}\n{parameters}", kind.as_str(), actor.replace('\n', " "));
    for (request, commit) in &register.model.requests {
        text = text.replace(&format!("\"{commit}\""), &format!("\"@{request}\""));
    }
    text
}

/// The request that such a text means on a version.
pub(crate) fn resolved(slots: &[Slot], index: usize, text: &str, register: &Register) -> FrozenRequest {
    let mut parts = text.splitn(3, '\n').map(str::to_owned);
    let (kind, actor, mut parameters) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    while let Some(at) = parameters.find("\"@") {
        let end = at + 2 + parameters[at + 2..].find('"').unwrap();
        let commit = register.commit_of(&parameters[at + 2..end]).unwrap_or("none").to_owned();
        parameters.replace_range(at + 1..end, &commit);
    }
    let kind = RequestKind::ALL.iter().find(|one| one.as_str() == kind).copied().unwrap();
    let parameters: Value = serde_json::from_str(&parameters).unwrap();
    frozen(&request_id(slots, index), kind, &actor, &parameters)
}
