//! A queue driven through the engine as a publisher would: decide, append, and check by cold replay.

use serde_json::{Map, Value, json};
use wq_action::engine::{Decision, Generated, Projection, replay};
use wq_action::protocol::actor::Actor;
use wq_action::protocol::commit::{Candidate, Commit, FrozenRequest};
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::LedgerText;
use wq_action::protocol::operation::Observation;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{At, CommitId, Epoch, Opaque, RequestId, Text};

use super::ledger::{HOST, canonical, policy, typed, work_id};

pub(crate) const ADMINISTRATOR: &str = r#"{"role":"administrator","principal":"1001","repository":"owner/repo"}"#;
pub(crate) const PRODUCER: &str = r#"{"role":"producer","principal":"1001","repository":"owner/repo"}"#;
pub(crate) const RECONCILER: &str = r#"{"role":"reconciler","principal":"1001","repository":"owner/repo"}"#;
pub(crate) const DISPATCHER: &str = r#"{"role":"dispatcher","principal":"1001","repository":"owner/repo",
    "workflow":".github/workflows/dispatcher.lock.yml","run_id":"100","run_attempt":1}"#;
const WORKFLOW: &str = ".github/workflows/worker.lock.yml";

/// The usual AW Policy, as JSON to be changed.
pub(crate) fn aw_policy() -> Value {
    serde_json::from_str(&policy(true)).unwrap()
}

/// A node to submit.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    graph: String,
    key: String,
    members: Map<String, Value>,
}

impl Node {
    pub(crate) fn new(key: &str) -> Self {
        let members = json!({"kind": "Work", "pool": "default", "priority": 3, "fairness_key": "",
            "worker_profile": "default", "batch_trust_domain": "default", "payload": {"task": key},
            "depends_on": [], "enqueued": 1});
        let Value::Object(members) = members else { unreachable!() };
        Self { graph: "graph".to_owned(), key: key.to_owned(), members }
    }

    pub(crate) fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.members.insert(member.to_owned(), value.into());
        self
    }

    pub(crate) fn graph(mut self, graph: &str) -> Self {
        self.graph = graph.to_owned();
        self
    }

    pub(crate) fn priority(self, priority: i64) -> Self {
        self.with("priority", priority)
    }

    pub(crate) fn account(self, key: &str) -> Self {
        self.with("fairness_key", key)
    }

    pub(crate) fn profile(self, profile: &str) -> Self {
        self.with("worker_profile", profile)
    }

    fn edge(mut self, edge: Value) -> Self {
        self.members["depends_on"].as_array_mut().unwrap().push(edge);
        self
    }

    /// Depends on another node of the same graph.
    pub(crate) fn after(self, key: &str) -> Self {
        let id = work_id(&self.graph, key);
        self.edge(json!({"kind": "work", "work_id": id}))
    }

    /// Depends on an Issue.
    pub(crate) fn gate(self, resource: u64, condition: &str) -> Self {
        self.edge(json!({"kind": "issue", "condition": condition, "resource": issue(resource)}))
    }

    pub(crate) fn id(&self) -> String {
        work_id(&self.graph, &self.key)
    }

    pub(crate) fn value(&self) -> Value {
        let mut members = self.members.clone();
        members.insert("graph_id".to_owned(), self.graph.clone().into());
        members.insert("node_key".to_owned(), self.key.clone().into());
        members.entry("work_id").or_insert_with(|| self.id().into());
        Value::Object(members)
    }
}

/// An Issue of the queue's repository.
pub(crate) fn issue(resource: u64) -> Value {
    json!({"kind": "issue", "host": HOST, "repository": "owner/repo", "repository_id": "9",
        "resource_id": resource.to_string(), "number": resource.to_string()})
}

/// What an Issue looked like.
pub(crate) fn seen(id: &str, resource: u64, condition: &str, at: i64, more: &Value) -> Value {
    let mut seen = json!({"kind": "Observation", "observation_id": id, "resource": issue(resource),
        "condition": condition, "state": "ready", "observed_at": at, "credential_generation": "initial",
        "read_status": "ok", "resource_state": "closed", "state_reason": "completed"});
    for (name, value) in more.as_object().unwrap() {
        seen[name] = value.clone();
    }
    seen
}

/// One granted Claim.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) node: String,
    pub(crate) work: String,
    pub(crate) claim: String,
    pub(crate) dispatch: String,
    pub(crate) handle: String,
}

impl Grant {
    /// Run that the tests bind to its dispatch.
    pub(crate) fn run(&self) -> String {
        let digits: u64 = self.dispatch.bytes().fold(7, |sum, byte| (sum * 31 + u64::from(byte)) % 1_000_000_007);
        (digits + 1).to_string()
    }

    /// The worker of the Claim.
    pub(crate) fn worker(&self) -> String {
        format!(
            r#"{{"role":"worker","principal":"1001","repository":"owner/repo","workflow":"{WORKFLOW}",
            "run_id":"{}","run_attempt":1,"dispatch_id":"{}","claim_handle":"{}"}}"#,
            self.run(),
            self.dispatch,
            self.handle
        )
    }

    pub(crate) fn binding(&self) -> Value {
        json!({"run_id": self.run(), "run_attempt": 1, "repository": "owner/repo", "workflow": WORKFLOW,
            "ref": "0".repeat(40), "principal": "1001", "event": "workflow_dispatch"})
    }

    pub(crate) fn evidence(&self, kind: &str, source: &str, at: i64, more: &Value) -> Value {
        let mut evidence = json!({"kind": kind, "source": source, "repository": "owner/repo", "workflow": WORKFLOW,
            "ref": "0".repeat(40), "principal": "1001", "checked_at": at});
        if !matches!(kind, "nonlaunch" | "prelaunch") {
            evidence["run_id"] = self.run().into();
            evidence["run_attempt"] = 1.into();
        }
        if kind == "terminal_run" {
            evidence["status"] = "completed".into();
            evidence["conclusion"] = "success".into();
        }
        for (name, value) in more.as_object().unwrap() {
            evidence[name] = value.clone();
        }
        evidence
    }
}

/// A queue, its ledger, and a counter for request ids.
#[derive(Clone)]
pub(crate) struct Queue {
    pub(crate) state: Projection,
    pub(crate) text: String,
    next: usize,
}

/// What a request came to: an engine code, or the reason for which nothing is written.
pub(crate) type Outcome<T> = Result<T, String>;

impl Queue {
    /// A queue that a producer's first submission opens under this Policy at time 1000.
    pub(crate) fn open(policy: &Value, nodes: &[Node]) -> Self {
        Self::try_open(policy, nodes).unwrap_or_else(|code| panic!("{code}"))
    }

    pub(crate) fn try_open(policy: &Value, nodes: &[Node]) -> Outcome<Self> {
        let request = frozen("r0", RequestKind::Submit, PRODUCER, &parameters(nodes));
        let policy: Opaque = typed(&policy.to_string());
        let at = At::new(1000).unwrap();
        let decision = Projection::bootstrap(&mut Scanner::new(HOST), &request, &policy, at);
        let mut queue = Self { state: Projection::empty(), text: String::new(), next: 1 };
        match decision.map_err(|fault| fault.code().as_str().to_owned())? {
            Decision::Publish(generated) => queue.append(*generated),
            other => panic!("{other:?}"),
        }
        Ok(queue)
    }

    fn append(&mut self, generated: Generated) {
        self.text.push_str(generated.commit.source.as_str());
        self.text.push('\n');
        super::schema::check_commit(generated.commit.source.as_str());
        self.state = generated.next;
        super::schema::check_last_assignments(&self.state);
        // Cold replay is quadratic over a test, so long ledgers are checked now and then.
        let commits = self.state.requests().len();
        if commits < 32 || commits.is_multiple_of(16) {
            self.check();
        }
    }

    /// Cold replay gives the same projection.
    pub(crate) fn check(&self) {
        let text = LedgerText::new(self.text.clone().into_bytes()).unwrap();
        let cold = replay(&text, &mut Scanner::new(HOST)).unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(cold.serialise(), self.state.serialise());
    }

    /// Decides a request under a new id, without publishing.
    pub(crate) fn decide(&mut self, kind: RequestKind, actor: &str, at: i64, parameters: &Value) -> Outcome<Decision> {
        self.next += 1;
        let request = frozen(&format!("r{}", self.next), kind, actor, parameters);
        self.decide_frozen(&request, at, &[])
    }

    pub(crate) fn decide_frozen(
        &self,
        request: &FrozenRequest,
        at: i64,
        observations: &[Observation],
    ) -> Outcome<Decision> {
        let decision = self.state.decide(&mut Scanner::new(HOST), request, At::new(at).unwrap(), observations);
        decision.map_err(|fault| fault.code().as_str().to_owned())
    }

    /// Publishes a decision. Err with the reason where nothing is to be written.
    pub(crate) fn publish(&mut self, decision: Decision) -> Outcome<()> {
        match decision {
            Decision::Publish(generated) => {
                self.append(*generated);
                Ok(())
            }
            Decision::Nothing { reason, .. } | Decision::Done { reason, .. } => Err(reason.to_owned()),
        }
    }

    /// Decides and publishes.
    pub(crate) fn request(&mut self, kind: RequestKind, actor: &str, at: i64, parameters: &Value) -> Outcome<()> {
        let decision = self.decide(kind, actor, at, parameters)?;
        self.publish(decision)
    }

    /// Appends a commit with operations of the test's own, as a dishonest writer would, and replays it.
    pub(crate) fn forge(
        &mut self,
        kind: RequestKind,
        actor: &str,
        at: i64,
        parameters: &Value,
        operations: &[Value],
    ) -> Outcome<()> {
        self.next += 1;
        let request = frozen(&format!("r{}", self.next), kind, actor, parameters);
        let epoch = self.state.installed().unwrap().epoch.clone();
        self.forge_frozen(&request, &epoch, at, operations)
    }

    pub(crate) fn forge_frozen(
        &mut self,
        request: &FrozenRequest,
        epoch: &Epoch,
        at: i64,
        operations: &[Value],
    ) -> Outcome<()> {
        self.next += 1;
        let operations: Vec<Opaque> = operations.iter().map(|operation| typed(&operation.to_string())).collect();
        let candidate = Candidate {
            id: &CommitId::new(format!("forged-{}", self.next)).unwrap(),
            previous: self.state.tip(),
            request,
            policy_epoch: epoch,
            at: At::new(at).unwrap(),
            operations: &operations,
        };
        let text = Text::from(candidate.encode());
        let commit = Commit::read(&mut Scanner::new(HOST), &text).map_err(|fault| fault.code().as_str().to_owned())?;
        let next = self.state.clone().apply(commit).map_err(|fault| fault.code().as_str().to_owned())?;
        self.text.push_str(text.as_str());
        self.text.push('\n');
        self.state = next;
        self.check();
        Ok(())
    }

    /// A request whose parameters are its operations.
    pub(crate) fn operate(&mut self, kind: RequestKind, actor: &str, at: i64, operations: &[Value]) -> Outcome<()> {
        self.request(kind, actor, at, &json!({ "operations": operations }))
    }

    pub(crate) fn submit(&mut self, actor: &str, at: i64, nodes: &[Node]) -> Outcome<()> {
        self.request(RequestKind::Submit, actor, at, &parameters(nodes))
    }

    /// Grants from the default pool.
    pub(crate) fn grant(&mut self, at: i64, claims: u32, dispatches: u32) -> Outcome<Vec<Grant>> {
        self.grant_from("default", at, claims, dispatches)
    }

    pub(crate) fn grant_from(&mut self, pool: &str, at: i64, claims: u32, dispatches: u32) -> Outcome<Vec<Grant>> {
        self.request(RequestKind::DispatchNext, DISPATCHER, at, &grant_parameters(pool, claims, dispatches))?;
        Ok(self.last_grants())
    }

    /// The Claims of the last commit.
    pub(crate) fn last_grants(&self) -> Vec<Grant> {
        let last = self.state.requests().last().unwrap();
        let grants = self.state.granted(last).iter().map(|claim| Grant {
            node: self.state.work_of(claim).work.node_key.as_str().to_owned(),
            work: claim.claim.work_id.as_str().to_owned(),
            claim: claim.claim.claim_id.as_str().to_owned(),
            dispatch: claim.claim.dispatch_id.as_str().to_owned(),
            handle: claim.claim.handle.as_str().to_owned(),
        });
        grants.collect()
    }

    /// The dispatcher's start marker.
    pub(crate) fn start(&mut self, grant: &Grant, at: i64) -> Outcome<()> {
        let sender: Value = serde_json::from_str(DISPATCHER).unwrap();
        let operation = json!({"kind": "Dispatch", "dispatch_id": grant.dispatch, "state": "started",
            "sender": sender, "credential_principal": "1001"});
        self.operate(RequestKind::Dispatch, DISPATCHER, at, &[operation])
    }

    /// The worker binds its run.
    pub(crate) fn bind(&mut self, grant: &Grant, at: i64) -> Outcome<()> {
        let evidence = grant.evidence("reconciliation", "trusted_activation", at, &json!({}));
        let operation = json!({"kind": "Dispatch", "dispatch_id": grant.dispatch, "state": "bound",
            "run": grant.binding(), "evidence": evidence});
        self.operate(RequestKind::Dispatch, &grant.worker(), at, &[operation])
    }

    /// The worker ends its Claim.
    pub(crate) fn finish(&mut self, grant: &Grant, outcome: &str, at: i64) -> Outcome<()> {
        let parameters = json!({"dispatch_id": grant.dispatch, "claim_handle": grant.handle, "outcome": outcome});
        self.request(RequestKind::Finish, &grant.worker(), at, &parameters)
    }

    /// The worker completes this round and keeps its Work open.
    pub(crate) fn keep_open(&mut self, grant: &Grant, at: i64) -> Outcome<()> {
        let parameters = json!({"dispatch_id": grant.dispatch, "claim_handle": grant.handle, "outcome": "completed",
            "keep_open": true});
        self.request(RequestKind::Finish, &grant.worker(), at, &parameters)
    }

    /// The reconciler verifies the delivery.
    pub(crate) fn result(&mut self, grant: &Grant, at: i64) -> Outcome<()> {
        let evidence = grant.evidence("delivery", "verified_receipts", at, &json!({"receipt": "receipt"}));
        let operation = json!({"kind": "Result", "work_id": grant.work, "claim_id": grant.claim,
            "completion_id": self.completion(grant), "descriptor": {"done": grant.node}, "evidence": evidence});
        self.operate(RequestKind::Result, RECONCILER, at, &[operation])
    }

    /// Commit of a Work's Completion.
    pub(crate) fn completion(&self, grant: &Grant) -> String {
        self.document()["works"][&grant.work]["completion_id"].as_str().unwrap().to_owned()
    }

    /// A DeliveryFailure with this evidence.
    pub(crate) fn fail(&mut self, grant: &Grant, at: i64, disposition: &str, more: &Value) -> Outcome<()> {
        let evidence = grant.evidence("terminal_run", "github_api", at, more);
        let operation = json!({"kind": "DeliveryFailure", "work_id": grant.work, "claim_id": grant.claim,
            "completion_id": self.completion(grant), "reason": "gone", "disposition": disposition,
            "evidence": evidence});
        self.operate(RequestKind::DeliveryFailure, RECONCILER, at, &[operation])
    }

    /// Releases a dispatch because its run ended; open Claims must be closed before.
    pub(crate) fn release(&mut self, grant: &Grant, at: i64) -> Outcome<()> {
        let evidence = grant.evidence("terminal_run", "github_api", at, &json!({}));
        let operation = json!({"kind": "Release", "dispatch_id": grant.dispatch, "evidence": evidence});
        self.operate(RequestKind::Release, RECONCILER, at, &[operation])
    }

    /// Start, bind, complete, verify and release, at consecutive times from `at`.
    pub(crate) fn deliver(&mut self, grant: &Grant, at: i64) -> Outcome<()> {
        self.complete(grant, at)?;
        self.result(grant, at + 3)?;
        self.release(grant, at + 4)
    }

    /// Start, bind and complete, at consecutive times from `at`.
    pub(crate) fn complete(&mut self, grant: &Grant, at: i64) -> Outcome<()> {
        self.start(grant, at)?;
        self.bind(grant, at + 1)?;
        self.finish(grant, "completed", at + 2)
    }

    /// Takes a Claim back through its reconciler.
    pub(crate) fn cancel_claim(&mut self, grant: &Grant, at: i64, retry: i64) -> Outcome<()> {
        let operation = json!({"kind": "ClaimCancellation", "work_id": grant.work, "claim_id": grant.claim,
            "reason": "lost", "retry_not_before": retry});
        self.operate(RequestKind::CancelClaim, RECONCILER, at, &[operation])
    }

    pub(crate) fn cancel_work(&mut self, actor: &str, work: &str, at: i64) -> Outcome<()> {
        let operation = json!({"kind": "WorkCancellation", "work_id": work, "reason": "unwanted"});
        self.operate(RequestKind::CancelWork, actor, at, &[operation])
    }

    pub(crate) fn control(&mut self, control: &str, value: &Value, at: i64) -> Outcome<()> {
        let operation = json!({"kind": "Control", "control": control, "value": value, "reason": "test"});
        self.operate(RequestKind::Control, ADMINISTRATOR, at, &[operation])
    }

    /// The serialised projection.
    pub(crate) fn document(&self) -> Value {
        serde_json::from_str(&self.state.serialise()).unwrap()
    }

    /// The state of a node of the usual graph.
    pub(crate) fn work(&self, key: &str) -> Value {
        self.document()["works"][work_id("graph", key)].clone()
    }
}

fn parameters(nodes: &[Node]) -> Value {
    json!({"nodes": nodes.iter().map(Node::value).collect::<Vec<_>>()})
}

pub(crate) fn grant_parameters(pool: &str, claims: u32, dispatches: u32) -> Value {
    json!({"pool": pool, "max_claims": claims, "max_dispatches": dispatches, "max_bytes": 49_152})
}

pub(crate) fn frozen(id: &str, kind: RequestKind, actor: &str, parameters: &Value) -> FrozenRequest {
    let parameters = canonical(&parameters.to_string());
    FrozenRequest::new(RequestId::new(id).unwrap(), kind, typed::<Actor>(actor), &parameters).unwrap()
}

/// Nodes of the grants, in order.
pub(crate) fn nodes(grants: &[Grant]) -> Vec<&str> {
    grants.iter().map(|grant| grant.node.as_str()).collect()
}
