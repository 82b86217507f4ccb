//! Kept-open Work: rounds of Claim, Completion and Result on one Work (engine.md 3.13).

use serde_json::{Value, json};
use wq_action::protocol::At;
use wq_action::protocol::request::RequestKind;

use super::naive::Naive;
use crate::support::built::{ADMINISTRATOR, Grant, Node, Outcome, PRODUCER, Queue, RECONCILER, aw_policy, nodes};

fn patient_policy() -> Value {
    let mut policy = aw_policy();
    policy["pools"]["default"]["retry"] = json!({"max_attempts": 2, "backoff_ms": 1000});
    policy
}

/// A queue whose Work `a` has a successor `b` and is in its first round, completed and kept open.
fn pending() -> (Queue, Grant) {
    let mut queue = Queue::open(&patient_policy(), &[Node::new("a"), Node::new("b").after("a")]);
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    bound(&mut queue, &grant, 2100);
    queue.keep_open(&grant, 2102).unwrap();
    (queue, grant)
}

fn bound(queue: &mut Queue, grant: &Grant, at: i64) {
    queue.start(grant, at).unwrap();
    queue.bind(grant, at + 1).unwrap();
}

/// A finish commit of the test's own making.
fn forged(queue: &Queue, grant: &Grant, at: i64, parameters: &Value, completion: &Value) -> Outcome<()> {
    let mut asked = json!({"dispatch_id": grant.dispatch, "claim_handle": "h1", "outcome": "completed"});
    let mut operation = json!({"kind": "Completion", "work_id": grant.work, "claim_id": grant.claim,
        "dispatch_id": grant.dispatch, "claim_handle": "h1", "run_id": grant.run(), "run_attempt": 1});
    for (target, more) in [(&mut asked, parameters), (&mut operation, completion)] {
        for (name, value) in more.as_object().unwrap() {
            target[name] = value.clone();
        }
    }
    queue.clone().forge(RequestKind::Finish, &grant.worker(), at, &asked, &[operation])
}

fn reason(queue: &Queue, key: &str) -> &'static str {
    let state = queue.state.work(&Node::new(key).id()).unwrap();
    queue.state.view_work(state, At::new(1_000_000).unwrap(), None).reason
}

/// The Result of a round as it was written.
fn result_of(grant: &Grant, completion: &str, at: i64, descriptor: &Value) -> Value {
    let evidence = grant.evidence("delivery", "verified_receipts", at, &json!({"receipt": "receipt"}));
    json!({"kind": "Result", "work_id": grant.work, "claim_id": grant.claim, "completion_id": completion,
        "descriptor": descriptor, "evidence": evidence})
}

fn settle(queue: &mut Queue, operation: &Value, at: i64) -> Outcome<()> {
    queue.operate(RequestKind::Result, RECONCILER, at, std::slice::from_ref(operation))
}

/// O-246, O-247, O-248, O-249, O-251: each verified round makes the Work available in its old place with all attempts,
/// for the next fair grant; until then nothing is granted, and its successor waits for the round that does not keep it
/// open. Many more rounds than attempts change no clock beyond their own Claims, and give no old Claim authority.
#[test]
fn rounds_repeat_until_one_is_final() {
    let mut queue = Queue::open(&patient_policy(), &[Node::new("a"), Node::new("b").after("a")]);
    let position = queue.work("a")["position"].clone();
    let mut at = 2000;
    for round in 1..=6 {
        // Every round also loses one attempt, so two rounds would exhaust a Work whose attempts are not given back.
        let lost = queue.grant(at, 1, 1).unwrap().remove(0);
        queue.cancel_claim(&lost, at + 1, at + 1001).unwrap();
        let grant = queue.grant(at + 2000, 1, 1).unwrap().remove(0);
        assert_eq!((grant.node.as_str(), &queue.work("a")["attempts"]), ("a", &json!(2)));
        bound(&mut queue, &grant, at + 2100);
        queue.keep_open(&grant, at + 2200).unwrap();
        assert_eq!((&queue.work("a")["barrier"], &queue.work("a")["keep_open"]), (&json!("pending"), &json!(true)));
        assert_eq!(queue.grant(at + 9000, 9, 9).unwrap_err(), "no_eligible_work");
        // While its delivery is pending the worker may add to the queue; never again afterwards.
        queue.submit(&grant.worker(), at + 2201, &[Node::new(&format!("child{round}"))]).unwrap();
        queue.cancel_work(ADMINISTRATOR, &Node::new(&format!("child{round}")).id(), at + 2202).unwrap();
        let clocks = queue.document()["clocks"].clone();
        queue.result(&grant, at + 2300).unwrap();
        assert_eq!(queue.document()["clocks"], clocks);
        let work = queue.work("a");
        assert_eq!(
            json!([work["state"], work["barrier"], work["attempts"], work["retry_not_before"], work["position"]]),
            json!(["available", "none", 0, 0, position])
        );
        for member in ["claim_id", "completion_id", "keep_open", "result", "result_commit_id"] {
            assert_eq!(work.get(member), None, "{member}");
        }
        assert_eq!(reason(&queue, "b"), "dependency_result_unavailable");
        let refused = queue.submit(&grant.worker(), at + 2301, &[Node::new("late")]);
        assert_eq!(refused.unwrap_err(), "claim_effects_unauthorized");
        let claim = &queue.document()["claims"][&grant.claim];
        assert_eq!((&claim["state"], &claim["keep_open"]), (&json!("completed"), &json!(true)));
        assert_eq!(claim["result_commit_id"], queue.state.tip().unwrap().as_str());
        queue.release(&grant, at + 2400).unwrap();
        at += 10_000;
    }
    let last = queue.grant(at, 1, 1).unwrap().remove(0);
    queue.deliver(&last, at + 100).unwrap();
    assert_eq!((&queue.work("a")["state"], &queue.work("a")["barrier"]), (&json!("completed"), &json!("verified")));
    assert_eq!(queue.document()["claims"][&last.claim].get("keep_open"), None);
    assert_eq!(nodes(&queue.grant(at + 200, 1, 1).unwrap()), ["b"]);
}

/// A kept-open round is charged like any other: beside a rival of equal weight the Work gets every second turn, and its
/// turns go on from where they were.
#[test]
fn rounds_owe_what_they_used() {
    let mut policy = patient_policy();
    policy["accounting_weights"] = json!({"": 1, "rival": 1});
    let rivals: Vec<Node> = (0..4).map(|n| Node::new(&format!("r{n}")).account("rival")).collect();
    let mut queue = Queue::open(&policy, &[Node::new("a")]);
    queue.submit(ADMINISTRATOR, 1500, &rivals).unwrap();
    let mut order = Vec::new();
    for round in 0..8 {
        let at = 10_000 * (round + 1);
        let grant = queue.grant(at, 1, 1).unwrap().remove(0);
        bound(&mut queue, &grant, at + 1);
        if grant.node == "a" {
            queue.keep_open(&grant, at + 3).unwrap();
        } else {
            queue.finish(&grant, "completed", at + 3).unwrap();
        }
        queue.result(&grant, at + 4).unwrap();
        queue.release(&grant, at + 5).unwrap();
        order.push(grant.node);
    }
    assert_eq!(order, ["a", "r0", "a", "r1", "a", "r2", "a", "r3"]);
}

/// O-246: a kept-open round whose delivery fails ends the Work like any failed delivery: nothing more is granted,
/// successors stay blocked, and only a replacement goes on.
#[test]
fn a_failed_round_is_the_last() {
    let (mut queue, grant) = pending();
    queue.fail(&grant, 2300, "partial", &json!({"attempts": 5, "effects": "partial"})).unwrap();
    queue.release(&grant, 2301).unwrap();
    assert_eq!((&queue.work("a")["state"], &queue.work("a")["barrier"]), (&json!("completed"), &json!("failed")));
    assert_eq!(queue.document()["claims"][&grant.claim].get("result_commit_id"), None);
    assert_eq!(queue.grant(1_000_000, 9, 9).unwrap_err(), "no_eligible_work");
    assert_eq!(reason(&queue, "b"), "dependency_delivery_failed");
    queue.fail(&grant, 2300, "partial", &json!({"attempts": 5, "effects": "partial"})).unwrap();
    assert_eq!(queue.fail(&grant, 2301, "unknown", &json!({"attempts": 5})).unwrap_err(), "delivery_conflict");
    assert_eq!(queue.result(&grant, 2302).unwrap_err(), "delivery_conflict");
    assert_eq!(queue.cancel_work(ADMINISTRATOR, &grant.work, 2303).unwrap_err(), "work_terminal");
    let replacement = json!({"work_id": grant.work, "disposition": "compensated", "evidence": "seen"});
    queue.submit(PRODUCER, 2400, &[Node::new("again").with("replacement_of", replacement)]).unwrap();
    assert_eq!(nodes(&queue.grant(2500, 9, 9).unwrap()), ["again"]);
}

/// O-153: while the delivery of a round is pending nobody cancels the Work; once it is settled they can, and the queue is
/// quiet only then.
#[test]
fn retained_work_is_cancelled_between_rounds_alone() {
    let (mut queue, grant) = pending();
    for actor in [ADMINISTRATOR, PRODUCER, RECONCILER] {
        assert_eq!(queue.cancel_work(actor, &grant.work, 2200).unwrap_err(), "work_terminal");
    }
    let fenced = json!({"kind": "WorkCancellation", "work_id": grant.work, "claim_id": grant.claim,
        "reason": "unwanted"});
    let refused = queue.operate(RequestKind::CancelWork, ADMINISTRATOR, 2200, std::slice::from_ref(&fenced));
    assert_eq!(refused.unwrap_err(), "work_terminal");
    assert_eq!(queue.cancel_claim(&grant, 2201, 90_000).unwrap_err(), "claim_ineffective");
    queue.result(&grant, 2300).unwrap();
    queue.release(&grant, 2301).unwrap();
    // The Claim of the settled round owns nothing that it could be fenced to.
    let refused = queue.operate(RequestKind::CancelWork, ADMINISTRATOR, 2302, &[fenced]);
    assert_eq!(refused.unwrap_err(), "claim_scope_invalid");
    queue.cancel_work(ADMINISTRATOR, &Node::new("b").id(), 2303).unwrap();
    assert!(!queue.state.is_quiescent());
    queue.cancel_work(ADMINISTRATOR, &grant.work, 2304).unwrap();
    assert!(queue.state.is_quiescent());
    assert_eq!(queue.work("a")["state"], "cancelled");
    // What was delivered stays delivered.
    assert!(queue.document()["claims"][&grant.claim]["result_commit_id"].is_string());
}

/// Both choices of a finish are repeated, or it is another finish; what a commit carries is what its request asks for.
#[test]
fn the_choice_is_made_once() {
    let (mut queue, grant) = pending();
    assert_eq!(queue.keep_open(&grant, 2200).unwrap_err(), "already_finished");
    assert_eq!(queue.finish(&grant, "completed", 2200).unwrap_err(), "claim_ineffective");
    assert_eq!(queue.finish(&grant, "cancelled", 2200).unwrap_err(), "claim_ineffective");
    queue.result(&grant, 2300).unwrap();
    assert_eq!(queue.keep_open(&grant, 2301).unwrap_err(), "already_finished");
    assert_eq!(queue.finish(&grant, "completed", 2301).unwrap_err(), "claim_ineffective");
    queue.release(&grant, 2302).unwrap();
    let last = queue.grant(3000, 1, 1).unwrap().remove(0);
    bound(&mut queue, &last, 3100);
    let (none, yes, no) = (json!({}), json!({"keep_open": true}), json!({"keep_open": false}));
    for (parameters, completion, outcome) in [
        (&none, &none, "accepted"),
        (&no, &none, "accepted"),
        (&none, &no, "accepted"),
        (&no, &no, "accepted"),
        (&yes, &yes, "accepted"),
        (&yes, &none, "request_invalid"),
        (&none, &yes, "request_invalid"),
        (&yes, &no, "request_invalid"),
        (&json!({"keep_open": true, "outcome": "cancelled"}), &none, "request_invalid"),
        (&json!({"keep_open": null}), &none, "request_invalid"),
        (&json!({"keep_open": 1}), &none, "request_invalid"),
    ] {
        let actual = forged(&queue, &last, 3200, parameters, completion).err().unwrap_or_else(|| "accepted".to_owned());
        assert_eq!(actual, outcome, "{parameters} {completion}");
    }
    queue.finish(&last, "completed", 3300).unwrap();
    assert_eq!(queue.finish(&last, "completed", 3301).unwrap_err(), "already_finished");
    assert_eq!(queue.keep_open(&last, 3301).unwrap_err(), "claim_ineffective");
}

/// A round's settlement stays that Claim's for ever: it repeats without effect and is contradicted by nothing, whatever
/// became of the Work since.
#[test]
fn settlements_belong_to_their_round() {
    let (mut queue, first) = pending();
    let completion = queue.completion(&first);
    let original = result_of(&first, &completion, 2300, &json!({"done": 1}));
    let mut changed = original.clone();
    changed["descriptor"] = json!({"done": 2});
    let failure = json!({"kind": "DeliveryFailure", "work_id": first.work, "claim_id": first.claim,
        "completion_id": completion, "reason": "gone", "disposition": "unknown",
        "evidence": first.evidence("terminal_run", "github_api", 2300, &json!({"attempts": 5}))});
    settle(&mut queue, &original, 2300).unwrap();
    let check = |queue: &mut Queue, at: i64| {
        let before = (queue.document()["works"].clone(), queue.document()["claims"].clone());
        settle(queue, &original, at).unwrap();
        assert_eq!((queue.document()["works"].clone(), queue.document()["claims"].clone()), before);
        assert_eq!(settle(queue, &changed, at + 1).unwrap_err(), "delivery_conflict");
        let failed = queue.operate(RequestKind::DeliveryFailure, RECONCILER, at + 1, std::slice::from_ref(&failure));
        assert_eq!(failed.unwrap_err(), "delivery_conflict");
    };
    check(&mut queue, 2400);
    queue.release(&first, 2500).unwrap();
    let second = queue.grant(3000, 1, 1).unwrap().remove(0);
    check(&mut queue, 3001);
    bound(&mut queue, &second, 3100);
    queue.keep_open(&second, 3200).unwrap();
    check(&mut queue, 3201);
    // Neither Claim settles the other's Completion.
    let crossed = result_of(&second, &completion, 3300, &json!({"done": 1}));
    assert_eq!(settle(&mut queue, &crossed, 3300).unwrap_err(), "delivery_conflict");
    queue.result(&second, 3300).unwrap();
    queue.release(&second, 3301).unwrap();
    let last = queue.grant(4000, 1, 1).unwrap().remove(0);
    queue.deliver(&last, 4100).unwrap();
    check(&mut queue, 5000);
    assert_eq!(queue.work("a")["result"], json!({"done": "a"}));
}

/// Engine.md 6.2 and 3.13: a pending kept-open round keeps the room of the attempts that its Result gives back. On a
/// nearly full ledger it is the Completion that is refused, as such, while an ordinary one still fits.
#[test]
fn rounds_reserve_their_next_attempts() {
    let (mut queue, grant) = pending();
    let headroom = |queue: &Queue| {
        assert_eq!(Naive::new(&queue.document()).headroom(), queue.state.headroom());
        queue.state.headroom()
    };
    let before = headroom(&queue);
    queue.result(&grant, 2300).unwrap();
    assert_eq!(headroom(&queue), before);
    let mut policy = aw_policy();
    policy["limits"]["ledger_bytes"] = 12_000.into();
    policy["limits"]["recovery_bytes"] = 200_000.into();
    let mut queue = Queue::open(&policy, &[Node::new("a")]);
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    bound(&mut queue, &grant, 2100);
    let mut at = 2200;
    while queue.control("admission_paused", &json!(at % 2 == 0), at).is_ok() {
        at += 1;
    }
    let refused = queue.keep_open(&grant, at);
    assert_eq!(refused.unwrap_err(), "ledger_limit");
    assert_eq!(queue.work("a")["state"], "claimed");
    queue.finish(&grant, "completed", at + 1).unwrap();
    queue.result(&grant, at + 2).unwrap();
    queue.release(&grant, at + 3).unwrap();
}
