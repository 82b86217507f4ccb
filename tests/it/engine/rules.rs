//! What replay refuses of a dishonest or confused writer, whatever the operations are.

use serde_json::{Value, json};
use wq_action::engine::{Projection, replay};
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::LedgerText;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{Epoch, Opaque};

use crate::support::built::{
    ADMINISTRATOR, DISPATCHER, Node, PRODUCER, Queue, RECONCILER, aw_policy, frozen, grant_parameters, nodes,
};
use crate::support::ledger::{Chain, HOST, canonical, policy, typed};

fn code(text: &str) -> &'static str {
    let outcome = LedgerText::new(text.as_bytes().to_vec()).and_then(|text| replay(&text, &mut Scanner::new(HOST)));
    outcome.map_or_else(|fault| fault.fault.code().as_str(), |_| "accepted")
}

fn two() -> Queue {
    let mut policy = aw_policy();
    policy["pools"]["default"]["profiles"]["default"]["max_claims"] = 2.into();
    Queue::open(&policy, &[Node::new("a"), Node::new("b"), Node::new("c")])
}

/// The Claims that an honest grant would carry.
fn honest(queue: &Queue, request: &str, claims: u32) -> Vec<Value> {
    let frozen = frozen(request, RequestKind::DispatchNext, DISPATCHER, &grant_parameters("default", claims, 2));
    let mut copy = queue.clone();
    let decision = copy.decide_frozen(&frozen, 2000, &[]).unwrap();
    copy.publish(decision).unwrap();
    let last: Value = serde_json::from_str(copy.text.lines().last().unwrap()).unwrap();
    last["operations"].as_array().unwrap().clone()
}

fn granted(queue: &Queue, claims: u32, operations: &[Value]) -> Result<(), String> {
    let frozen = frozen("grant", RequestKind::DispatchNext, DISPATCHER, &grant_parameters("default", claims, 2));
    let epoch = queue.state.installed().unwrap().epoch.clone();
    queue.clone().forge_frozen(&frozen, &epoch, 2000, operations)
}

/// S-026, S-044, S-045, S-046, S-129, S-166, O-007: only the planner's own Claims, all of them, in their groups, with
/// their ids, are a grant.
#[test]
fn only_the_computed_claims_are_a_grant() {
    let queue = two();
    let claims = honest(&queue, "grant", 3);
    assert_eq!(claims.len(), 3);
    assert_eq!(granted(&queue, 3, &claims), Ok(()));
    let refused = |operations: &[Value]| granted(&queue, 3, operations).unwrap_err();
    assert_eq!(refused(&claims[..2]), "packing_invalid");
    assert_eq!(refused(&[claims[1].clone()]), "selection_invalid");
    assert_eq!(refused(&[claims[1].clone(), claims[0].clone(), claims[2].clone()]), "selection_invalid");
    for (member, value) in [
        ("work_id", claims[1]["work_id"].clone()),
        ("claim_id", json!("c_mine")),
        ("dispatch_id", claims[2]["dispatch_id"].clone()),
        ("handle", json!("h2")),
        ("observations", json!(["o1"])),
    ] {
        let mut changed = claims.clone();
        changed[0][member] = value;
        assert_eq!(refused(&changed), "selection_invalid", "{member}");
    }
    // Nor is a Work whose predecessor has no Result, however ready someone declares it.
    let waiting = Queue::open(&aw_policy(), &[Node::new("a"), Node::new("late").after("a")]);
    let mut early = honest(&waiting, "grant", 1);
    early[0]["work_id"] = Node::new("late").id().into();
    assert_eq!(granted(&waiting, 1, &early).unwrap_err(), "selection_invalid");
    // One more than the request admits, and one from another request.
    assert_eq!(granted(&queue, 2, &claims).unwrap_err(), "selection_invalid");
    assert_eq!(refused(&honest(&queue, "other", 3)), "selection_invalid");
    for (kind, actor) in [(RequestKind::Submit, PRODUCER), (RequestKind::Observe, RECONCILER)] {
        let parameters = if kind == RequestKind::Submit { "nodes" } else { "operations" };
        let outcome = queue.clone().forge(kind, actor, 2000, &json!({ parameters: claims }), &claims);
        assert!(["request_invalid", "unauthorized_operation"].contains(&outcome.unwrap_err().as_str()));
    }
}

/// S-136: a grant without Claims is no commit, and nothing is charged or used up by asking.
#[test]
fn a_grant_without_claims_is_refused() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a").gate(5, "closed")]);
    let before = queue.state.serialise();
    let request = frozen("again", RequestKind::DispatchNext, DISPATCHER, &grant_parameters("default", 1, 1));
    let decision = queue.decide_frozen(&request, 2000, &[]).unwrap();
    assert_eq!(queue.publish(decision).unwrap_err(), "no_eligible_work");
    assert_eq!(queue.state.serialise(), before);
    let observation = crate::support::built::seen("o1", 5, "closed", 2000, &json!({}));
    let epoch = queue.state.installed().unwrap().epoch.clone();
    assert_eq!(queue.clone().forge_frozen(&request, &epoch, 2000, &[observation]).unwrap_err(), "request_invalid");
    queue.submit(PRODUCER, 2100, &[Node::new("b")]).unwrap();
    // The same id grants now.
    let decision = queue.decide_frozen(&request, 2200, &[]).unwrap();
    queue.publish(decision).unwrap();
    assert_eq!(nodes(&queue.last_grants()), ["b"]);
}

/// S-041, S-100, S-246, S-250: a committed request id is never committed again.
#[test]
fn a_request_id_is_used_once() {
    let mut queue = two();
    let request = |claims| frozen("id", RequestKind::DispatchNext, DISPATCHER, &grant_parameters("default", claims, 1));
    let decision = queue.decide_frozen(&request(1), 2000, &[]).unwrap();
    queue.publish(decision).unwrap();
    let clocks = queue.document()["clocks"].clone();
    for claims in [1, 2] {
        assert_eq!(queue.decide_frozen(&request(claims), 2001, &[]).unwrap_err(), "request_reused");
    }
    assert_eq!(queue.document()["clocks"], clocks);
}

/// S-004, S-152: a refused commit leaves nothing of itself behind, also when its last operation is at fault.
#[test]
fn commits_take_effect_whole_or_not_at_all() {
    let mut queue = two();
    let before = queue.state.serialise();
    let bad = Node::new("bad").after("missing");
    assert_eq!(queue.submit(PRODUCER, 2000, &[Node::new("good"), bad]).unwrap_err(), "dependency_invalid");
    let paused = json!({"kind": "Control", "control": "grants_paused", "value": true, "reason": "test"});
    let stale = json!({"kind": "WorkPriority", "work_id": Node::new("a").id(), "priority": 1, "expected_priority": 5,
        "reason": "test"});
    let outcome = queue.operate(RequestKind::Control, ADMINISTRATOR, 2000, &[paused, stale]);
    assert_eq!(outcome.unwrap_err(), "priority_conflict");
    assert_eq!(queue.state.serialise(), before);
}

/// S-043: the commit names the installed epoch.
#[test]
fn commits_name_the_installed_epoch() {
    let mut queue = two();
    let operation = json!({"kind": "Control", "control": "grants_paused", "value": true, "reason": "test"});
    let request = frozen("id", RequestKind::Control, ADMINISTRATOR, &json!({"operations": [operation]}));
    let epoch = Epoch::new("elsewhere").unwrap();
    assert_eq!(
        queue.forge_frozen(&request, &epoch, 2000, std::slice::from_ref(&operation)).unwrap_err(),
        "policy_invalid"
    );
}

/// S-042, S-654: what a role may not issue or carry is refused.
#[test]
fn roles_do_their_own_work_alone() {
    let mut queue = two();
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    let pause = json!({"kind": "Control", "control": "grants_paused", "value": true, "reason": "test"});
    for actor in [PRODUCER, DISPATCHER, RECONCILER, &grant.worker()] {
        let refused = queue.operate(RequestKind::Control, actor, 2100, std::slice::from_ref(&pause));
        assert_eq!(refused.unwrap_err(), "actor_unauthorized");
    }
    for actor in [PRODUCER, RECONCILER] {
        let refused = queue.request(RequestKind::DispatchNext, actor, 2100, &grant_parameters("default", 1, 1));
        assert_eq!(refused.unwrap_err(), "actor_unauthorized");
    }
    assert_eq!(queue.submit(RECONCILER, 2100, &[Node::new("d")]).unwrap_err(), "actor_unauthorized");
    let foreign = PRODUCER.replace("owner/repo", "foreign/repo");
    assert_eq!(queue.submit(&foreign, 2100, &[Node::new("d")]).unwrap_err(), "actor_unauthorized");
}

fn policy_operation(epoch: &str) -> Value {
    json!({"kind": "Policy", "epoch": epoch, "policy": aw_policy()})
}

/// S-050, S-051, S-052, S-053, O-050: a ledger begins with a Policy, in one of two forms; both replay.
#[test]
fn a_ledger_begins_with_a_policy() {
    let historical = format!(r#"{{"kind":"Policy","epoch":"one","policy":{}}}"#, policy(false));
    let genesis = |kind, actor, parameters: &str, operations: &[String]| {
        let mut chain = Chain::new("one");
        chain.commit("root", kind, actor, 10, parameters, operations);
        code(&chain.text)
    };
    let listed = |operations: &[String]| format!("{{\"operations\":[{}]}}", operations.join(","));
    let submitted = |nodes: &[String]| format!("{{\"nodes\":[{}]}}", nodes.join(","));
    let policy_only = [canonical(&historical)];
    assert_eq!(genesis(RequestKind::Policy, ADMINISTRATOR, &listed(&policy_only), &policy_only), "accepted");
    let work = canonical(&Node::new("a").value().to_string());
    let bootstrap = [canonical(&policy_operation("one").to_string()), work.clone()];
    let nodes = submitted(&bootstrap[1..]);
    for actor in [PRODUCER, DISPATCHER] {
        assert_eq!(genesis(RequestKind::Submit, actor, &nodes, &bootstrap), "accepted");
    }
    let by_administrator = genesis(RequestKind::Submit, ADMINISTRATOR, &nodes, &bootstrap);
    assert_eq!(by_administrator, "policy_missing");
    let work_only = [work.clone()];
    assert_eq!(genesis(RequestKind::Submit, PRODUCER, &nodes, &work_only), "policy_missing");
    let control = [r#"{"kind":"Control","control":"grants_paused","value":true,"reason":"x"}"#.to_owned()];
    assert_eq!(genesis(RequestKind::Control, ADMINISTRATOR, &listed(&control), &control), "policy_missing");
    // The nodes of the request are the Work of the commit, and the epoch is the Policy's.
    let other = [canonical(&Node::new("b").value().to_string())];
    assert_eq!(genesis(RequestKind::Submit, PRODUCER, &submitted(&other), &bootstrap), "request_invalid");
    let elsewhere = [canonical(&policy_operation("two").to_string()), work];
    assert_eq!(genesis(RequestKind::Submit, PRODUCER, &nodes, &elsewhere), "policy_not_quiescent");
    assert_eq!(code(""), "ledger_invalid");
}

/// S-177, S-179, S-182, S-183, S-201: publishers open a queue with a submission alone, checked by replay, under the
/// submission's own id, fingerprint and actor.
#[test]
fn publishers_open_a_queue_with_a_submission() {
    let queue = Queue::open(&aw_policy(), &[Node::new("a")]);
    let first: Value = serde_json::from_str(queue.text.lines().next().unwrap()).unwrap();
    assert_eq!((&first["request"]["id"], &first["actor"]["role"]), (&json!("r0"), &json!("producer")));
    let kinds: Vec<&Value> = first["operations"].as_array().unwrap().iter().map(|one| &one["kind"]).collect();
    assert_eq!(kinds, ["Policy", "Work"]);
    assert_eq!(first["request"]["parameters"]["nodes"].as_array().unwrap().len(), 1);
    assert_eq!(Queue::try_open(&aw_policy(), &[Node::new("a").after("b")]).err().unwrap(), "dependency_invalid");
    let mut broken = aw_policy();
    broken["pools"]["default"]["profiles"]["default"]["effect_scope"] = "foreign/repo".into();
    assert_eq!(Queue::try_open(&broken, &[Node::new("a")]).err().unwrap(), "policy_invalid");
    let policy: Opaque = typed(&aw_policy().to_string());
    let open = |kind, actor, parameters: &Value| {
        let request = frozen("id", kind, actor, parameters);
        let outcome =
            Projection::bootstrap(&mut Scanner::new(HOST), &request, &policy, wq_action::protocol::At::default());
        outcome.map(drop).map_err(|fault| fault.code().as_str())
    };
    let operations = json!({"operations": [policy_operation("one")]});
    assert!(open(RequestKind::Policy, ADMINISTRATOR, &operations).is_err());
    assert!(open(RequestKind::Submit, ADMINISTRATOR, &json!({"nodes": [Node::new("a").value()]})).is_err());
    assert!(open(RequestKind::DispatchNext, DISPATCHER, &grant_parameters("default", 1, 1)).is_err());
}

/// S-187, S-208, S-209, S-210, S-211, S-556: a Policy changes alone, by an administrator, under a new epoch, and only
/// when nothing is active; then the clocks start anew and history stays.
#[test]
fn a_policy_changes_in_a_quiet_queue_alone() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a"), Node::new("b")]);
    let change = |queue: &mut Queue, actor: &str, epoch: &str, more: &[Value], at| {
        let mut operations = vec![policy_operation(epoch)];
        operations.extend_from_slice(more);
        queue.operate(RequestKind::Policy, actor, at, &operations)
    };
    let refused = |queue: &mut Queue, at| change(queue, ADMINISTRATOR, "two", &[], at).unwrap_err();
    assert_eq!(refused(&mut queue, 1100), "policy_not_quiescent");
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    queue.cancel_work(ADMINISTRATOR, &Node::new("b").id(), 2001).unwrap();
    queue.complete(&grant, 2100).unwrap();
    assert_eq!(refused(&mut queue, 2200), "policy_not_quiescent");
    queue.result(&grant, 2300).unwrap();
    assert_eq!(refused(&mut queue, 2400), "policy_not_quiescent");
    queue.release(&grant, 2500).unwrap();
    assert_eq!(change(&mut queue, PRODUCER, "two", &[], 2600).unwrap_err(), "actor_unauthorized");
    let first = queue.state.installed().unwrap().epoch.as_str().to_owned();
    assert_eq!(change(&mut queue, ADMINISTRATOR, &first, &[], 2600).unwrap_err(), "policy_not_quiescent");
    let twice = [policy_operation("two")];
    assert_eq!(change(&mut queue, ADMINISTRATOR, "two", &twice, 2600).unwrap_err(), "policy_not_quiescent");
    assert_ne!(queue.document()["clocks"], json!({}));
    let (works, claims) = (queue.document()["works"].clone(), queue.document()["claims"].clone());
    change(&mut queue, ADMINISTRATOR, "two", &[], 2700).unwrap();
    assert_eq!(queue.document()["clocks"], json!({}));
    assert_eq!((&queue.document()["works"], &queue.document()["claims"]), (&works, &claims));
    queue.submit(PRODUCER, 2800, &[Node::new("c")]).unwrap();
    assert_eq!(nodes(&queue.grant(2900, 1, 1).unwrap()), ["c"]);
}

/// S-073, S-074, S-117, S-148, S-147: there is no unscheduled mode, no other mode, and no weight outside 1 to 1000.
#[test]
fn scheduling_cannot_be_turned_off() {
    let refused = |change: fn(&mut Value)| {
        let mut policy = aw_policy();
        change(&mut policy);
        Queue::try_open(&policy, &[Node::new("a")]).err().unwrap_or_else(|| "accepted".to_owned())
    };
    for change in [
        |policy: &mut Value| policy["mode"] = "fifo".into(),
        |policy: &mut Value| policy["mode"] = "disabled".into(),
        |policy: &mut Value| policy["mode"] = Value::Null,
        |policy: &mut Value| policy["class_weights"] = json!([0, 4, 2, 1, 1]),
        |policy: &mut Value| policy["class_weights"] = json!([1001, 4, 2, 1, 1]),
        |policy: &mut Value| policy["class_weights"] = json!([1, 4, 2, 1]),
        |policy: &mut Value| policy["class_weights"] = json!([8, 4, 2, 1, -1]),
        |policy: &mut Value| policy["accounting_weights"] = json!({"": 2}),
        |policy: &mut Value| policy["accounting_weights"] = json!({"a": 1}),
        |policy: &mut Value| policy["accounting_weights"] = json!({"": 1, "a": 0}),
        |policy: &mut Value| policy["accounting_weights"] = json!({"": 1, "a": 1001}),
    ] {
        assert!(["policy_invalid", "ledger_invalid"].contains(&refused(change).as_str()));
    }
    let fraction = |policy: &mut Value| policy["accounting_weights"] = json!({"": 1, "a": 1.5});
    let mut policy = aw_policy();
    fraction(&mut policy);
    let text = policy.to_string();
    assert!(wq_action::protocol::json::parse(&text).is_err());
    let mut queue = two();
    let named = json!({"pool": "default", "max_claims": 1, "max_dispatches": 1, "max_bytes": 49_152,
        "work_id": Node::new("c").id()});
    assert_eq!(queue.request(RequestKind::DispatchNext, DISPATCHER, 2000, &named).unwrap_err(), "ledger_invalid");
}

/// S-047, O-012: what publishers write is one chain, in its order.
#[test]
fn every_commit_names_the_one_before() {
    let mut queue = two();
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    queue.deliver(&grant, 2100).unwrap();
    let lines: Vec<Value> = queue.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 7);
    assert_eq!(lines[0]["previous"], Value::Null);
    assert!(lines.windows(2).all(|pair| pair[1]["previous"] == pair[0]["id"]));
}

/// S-027, S-028, S-653: trace data and decision times change nothing but themselves: no identity, no authority, no order.
#[test]
fn traces_and_times_decide_nothing() {
    let mut queue = two();
    queue.grant(2000, 2, 2).unwrap();
    let mut lines: Vec<Value> = queue.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines[1]["trace"] = json!({"trace_id": "t", "span_id": "s", "publisher_attempt": 7});
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let traced = replay(&LedgerText::new(text.into_bytes()).unwrap(), &mut Scanner::new(HOST)).unwrap();
    let mut document: Value = serde_json::from_str(&traced.serialise()).unwrap();
    let mut plain = queue.document();
    for one in [&mut document, &mut plain] {
        one.as_object_mut().unwrap().remove("requests");
        one.as_object_mut().unwrap().remove("ledger_bytes");
    }
    assert_eq!(document, plain);
}
