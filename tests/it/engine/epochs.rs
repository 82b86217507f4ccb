//! From a historical Policy to an AW-managed one, in a quiet queue.

use serde_json::{Value, json};
use wq_action::protocol::request::RequestKind;

use crate::support::built::{
    ADMINISTRATOR, DISPATCHER, Grant, Node, Outcome, PRODUCER, Queue, RECONCILER, aw_policy, frozen, nodes,
};
use crate::support::ledger::policy;

const STRANGER: &str = r#"{"role":"producer","principal":"77","repository":"owner/repo"}"#;

fn historical() -> Value {
    let mut policy: Value = serde_json::from_str(&policy(false)).unwrap();
    policy["accounting_weights"] = json!({"": 1, "team": 3});
    policy
}

fn move_on(queue: &mut Queue, at: i64) -> Outcome<()> {
    let mut managed = aw_policy();
    managed["accounting_weights"] = json!({"": 1, "team": 2});
    let change = json!({"kind": "Policy", "epoch": "managed", "policy": managed});
    queue.operate(RequestKind::Policy, ADMINISTRATOR, at, &[change])
}

/// S-198, O-070: a Policy without the AW marker is read with its own producer rules: listed principals, pools, priorities
/// and keys alone, for submission and cancellation, whoever submits.
#[test]
fn historical_policies_keep_their_producer_rules() {
    let mut queue = Queue::open(&historical(), &[Node::new("a")]);
    for (actor, node) in [
        (STRANGER, Node::new("b")),
        (PRODUCER, Node::new("b").account("team")),
        (&STRANGER.replace("producer", "administrator"), Node::new("b")),
    ] {
        assert_eq!(queue.submit(actor, 2000, &[node]).unwrap_err(), "admission_unauthorized");
    }
    queue.submit(PRODUCER, 2001, &[Node::new("b")]).unwrap();
    assert_eq!(queue.cancel_work(STRANGER, &Node::new("b").id(), 2002).unwrap_err(), "admission_unauthorized");
    queue.cancel_work(PRODUCER, &Node::new("b").id(), 2003).unwrap();
    let mut unnamed = historical();
    unnamed["pools"]["default"]["profiles"]["default"].as_object_mut().unwrap().remove("principal");
    assert_eq!(Queue::try_open(&unnamed, &[Node::new("a")]).err().unwrap(), "policy_invalid");
}

/// S-181, O-038: an AW-managed Policy asks whether pool, priority and key are installed, and nothing about who submits:
/// any producer and any dispatcher may, and there is no list that could name them.
#[test]
fn managed_policies_need_no_enrolment() {
    let mut policy = aw_policy();
    policy["accounting_weights"] = json!({"": 1, "team": 2});
    let mut queue = Queue::open(&policy, &[Node::new("a")]);
    queue.submit(STRANGER, 2000, &[Node::new("b").account("team").priority(1)]).unwrap();
    assert_eq!(policy["producers"], json!({}));
    for (number, actor) in [PRODUCER, DISPATCHER, &DISPATCHER.replace("1001", "4711")].into_iter().enumerate() {
        queue.submit(actor, 2000, &[Node::new(&format!("n{number}"))]).unwrap();
    }
    let mut enrolled = policy.clone();
    enrolled["producers"] = json!({"1001": {"pools": ["default"], "priorities": [1], "fairness_keys": [""]}});
    assert_eq!(Queue::try_open(&enrolled, &[Node::new("a")]).err().unwrap(), "policy_invalid");
    assert_eq!(queue.submit(STRANGER, 2001, &[Node::new("c").account("none")]).unwrap_err(), "admission_unauthorized");
    assert_eq!(queue.submit(STRANGER, 2001, &[Node::new("c").with("pool", "none")]).unwrap_err(), "policy_invalid");
    assert_eq!(queue.submit(STRANGER, 2001, &[Node::new("c").priority(6)]).unwrap_err(), "ledger_invalid");
}

/// What a Policy must leave as it was.
fn history(queue: &Queue) -> [Value; 7] {
    let document = queue.document();
    ["works", "claims", "dispatches", "observations", "admission_paused", "credential_generation", "repository"]
        .map(|member| document[member].clone())
}

/// Decision 36: the move waits until nothing is active, keeps every Work, Claim, Result, failure and request, and starts
/// clocks and registry anew. Results of before feed successors of after, failures still ask for a replacement, settled
/// deliveries stay settled, and no Claim of before has any authority left.
#[test]
fn a_historical_queue_becomes_managed_when_quiet() {
    let mut queue = Queue::open(&historical(), &["done", "failed", "dropped"].map(Node::new));
    let grants: Vec<Grant> = queue.grant(2000, 2, 2).unwrap();
    assert_eq!(move_on(&mut queue, 2001).unwrap_err(), "policy_not_quiescent");
    for (grant, at) in grants.iter().zip([2100, 2200]) {
        queue.start(grant, at).unwrap();
        queue.bind(grant, at + 1).unwrap();
        queue.finish(grant, "completed", at + 2).unwrap();
    }
    queue.result(&grants[0], 2300).unwrap();
    queue.fail(&grants[1], 2301, "none", &json!({"attempts": 5, "effects": "none", "receipt": "r"})).unwrap();
    queue.cancel_work(PRODUCER, &Node::new("dropped").id(), 2302).unwrap();
    assert_eq!(move_on(&mut queue, 2303).unwrap_err(), "policy_not_quiescent");
    queue.release(&grants[0], 2400).unwrap();
    queue.release(&grants[1], 2401).unwrap();
    let (completion, failure) = (queue.completion(&grants[0]), queue.document()["works"][&grants[1].work].clone());
    let before = history(&queue);
    let requests = queue.document()["requests"].clone();
    assert_ne!(queue.document()["clocks"], json!({}));
    move_on(&mut queue, 3000).unwrap();
    assert_eq!(history(&queue), before);
    let after = queue.document();
    assert!(requests.as_object().unwrap().iter().all(|(id, request)| after["requests"][id] == *request));
    assert_eq!((&after["clocks"], &after["observation_writes"]), (&json!({}), &json!({})));
    assert!(after["deployments"]["default"]["default"]["current_ref"].is_string());
    // Receipts: a request of before is still that request.
    let known = queue.state.claims().next().unwrap().request_id.as_str().to_owned();
    let pause = json!({"kind": "Control", "control": "grants_paused", "value": true, "reason": "test"});
    let again = frozen(&known, RequestKind::Control, ADMINISTRATOR, &json!({"operations": [pause]}));
    assert_eq!(queue.decide_frozen(&again, 3001, &[]).unwrap_err(), "request_reused");
    assert_eq!(queue.state.granted(queue.state.request(&known).unwrap()).len(), 2);
    // Settlements: repeated without effect, never contradicted.
    queue.result(&grants[0], 2300).unwrap();
    let evidence = grants[0].evidence("terminal_run", "github_api", 3002, &json!({"attempts": 5}));
    let contradiction = json!({"kind": "DeliveryFailure", "work_id": grants[0].work, "claim_id": grants[0].claim,
        "completion_id": completion, "reason": "gone", "disposition": "unknown", "evidence": evidence});
    let refused = queue.operate(RequestKind::DeliveryFailure, RECONCILER, 3002, &[contradiction]);
    assert_eq!(refused.unwrap_err(), "delivery_conflict");
    assert_eq!(queue.document()["works"][&grants[1].work], failure);
    // Authority: gone with the epoch.
    assert_eq!(queue.finish(&grants[0], "completed", 3003).unwrap_err(), "claim_ineffective");
    // Obligations: a successor takes the old Result, one of failed Work waits, and a replacement goes on.
    let replacement = json!({"work_id": grants[1].work, "disposition": "idempotent", "evidence": "seen"});
    let follow = [
        Node::new("next").after("done"),
        Node::new("stuck").after("failed"),
        Node::new("again").with("replacement_of", replacement),
        Node::new("team").account("team"),
    ];
    queue.submit(STRANGER, 3100, &follow).unwrap();
    let granted = queue.grant(3200, 9, 9).unwrap();
    assert_eq!(nodes(&granted), ["team", "next", "again"]);
    let next = granted.iter().find(|grant| grant.node == "next").unwrap();
    let member = &queue.document()["dispatches"][&next.dispatch]["claims"][0];
    assert_eq!(member["result_refs"][0]["descriptor"], json!({"done": "done"}));
    // The new clocks count the new weights from zero.
    let keys = &queue.document()["clocks"]["default"]["keys"]["3"];
    assert_eq!(keys["pass"], json!({"": "6", "team": "2"}));
}
