//! Graph admission: what a submission must be, and that it is admitted whole or not at all.

use serde_json::{Value, json};
use wq_action::protocol::json::Scanner;
use wq_action::protocol::request::RequestKind;

use crate::support::built::{DISPATCHER, Grant, Node, PRODUCER, Queue, aw_policy, frozen, issue, nodes};
use crate::support::ledger::{HOST, work_id};

fn queue() -> Queue {
    let mut policy = aw_policy();
    policy["accounting_weights"] = json!({"": 1, "a": 2});
    policy["pools"]["other"] = policy["pools"]["default"].clone();
    Queue::open(&policy, &[Node::new("root")])
}

fn refusal(nodes: &[Node]) -> String {
    let mut queue = queue();
    let before = queue.state.serialise();
    let code = queue.submit(PRODUCER, 2000, nodes).err().unwrap_or_else(|| "accepted".to_owned());
    if code != "accepted" {
        assert_eq!(queue.state.serialise(), before, "a refused submission leaves nothing");
    }
    code
}

/// S-007, S-139, S-140, S-143: every scheduling member is explicit and within its bounds; nothing is filled in.
#[test]
fn nodes_are_explicit() {
    for (member, value, code) in [
        ("priority", json!(0), "ledger_invalid"),
        ("priority", json!(6), "ledger_invalid"),
        ("fairness_key", json!("unregistered"), "admission_unauthorized"),
        ("pool", json!("missing"), "policy_invalid"),
        ("worker_profile", json!("missing"), "work_invalid"),
        ("batch_trust_domain", json!("mine"), "work_invalid"),
        ("work_id", json!("0".repeat(64)), "work_identity_invalid"),
        ("payload", json!("text"), "work_invalid"),
        ("enqueued", json!(-1), "ledger_invalid"),
        ("execution_ref", json!("1".repeat(40)), "work_invalid"),
        ("logical_contract", json!("d".repeat(64)), "work_invalid"),
    ] {
        assert_eq!(refusal(&[Node::new("n").with(member, value.clone())]), code, "{member} {value}");
    }
    let mut queue = queue();
    let complete = Node::new("n").value();
    for member in complete.as_object().unwrap().keys().filter(|name| *name != "kind") {
        let mut node = complete.clone();
        node.as_object_mut().unwrap().remove(member);
        let outcome = queue.request(RequestKind::Submit, PRODUCER, 2000, &json!({"nodes": [node]}));
        assert_eq!(outcome.unwrap_err(), "unsupported_protocol", "{member}");
    }
}

/// S-154, S-155, S-156, S-157, S-158, S-160, O-009: edges name other nodes of the same graph and pool, forward
/// references included; repeated nodes and cycles are refused, cycles with their path.
#[test]
fn graphs_are_acyclic_and_closed() {
    assert_eq!(refusal(&[Node::new("b").after("c"), Node::new("c").after("root")]), "accepted");
    assert_eq!(refusal(&[Node::new("b").after("missing")]), "dependency_invalid");
    assert_eq!(refusal(&[Node::new("b").after("b")]), "dependency_invalid");
    assert_eq!(refusal(&[Node::new("b").after("root").after("root")]), "dependency_invalid");
    assert_eq!(refusal(&[Node::new("b"), Node::new("b")]), "graph_invalid");
    assert_eq!(refusal(&[Node::new("b").with("pool", "other")]), "graph_invalid");
    let across = json!([{"kind": "work", "work_id": work_id("graph", "root")}]);
    assert_eq!(refusal(&[Node::new("b").graph("far").with("depends_on", across)]), "dependency_invalid");
    let ring = [Node::new("a").after("b"), Node::new("b").after("c"), Node::new("c").after("a")];
    let request =
        frozen("ring", RequestKind::Submit, PRODUCER, &json!({"nodes": ring.clone().map(|node| node.value())}));
    let at = wq_action::protocol::At::new(2000).unwrap();
    let fault = queue().state.decide(&mut Scanner::new(HOST), &request, at, &[]).unwrap_err();
    assert_eq!(fault.code().as_str(), "dependency_cycle");
    let path: Vec<&str> = fault.message().split(" -> ").collect();
    assert_eq!(path.len(), 4);
    assert_eq!(path[0], path[3]);
    for pair in path.windows(2) {
        assert!(["ab", "bc", "ca"].contains(&pair.concat().as_str()), "{path:?}");
    }
}

/// S-150, S-151, S-153, S-159, O-008: identity is graph and node key; an equal resubmission is answered with the first
/// commit and changes nothing, a different one is refused.
#[test]
fn definitions_never_change() {
    let mut queue = queue();
    let node = Node::new("n").after("root").account("a").priority(2).with("subject", issue(4));
    queue.submit(PRODUCER, 2000, std::slice::from_ref(&node)).unwrap();
    let before = queue.state.serialise();
    assert_eq!(queue.submit(DISPATCHER, 3000, std::slice::from_ref(&node)).unwrap_err(), "already_submitted");
    let without_edges = node.clone().with("depends_on", json!([]));
    for changed in [
        node.clone().with("payload", json!({"task": "other"})),
        node.clone().priority(1),
        node.clone().account(""),
        node.clone().with("enqueued", 2),
        node.clone().with("subject", issue(5)),
        node.clone().with("execution_ref", "0".repeat(40)),
        node.clone().gate(5, "closed"),
        without_edges,
    ] {
        assert_eq!(queue.submit(PRODUCER, 3000, &[changed]).unwrap_err(), "work_conflict");
    }
    assert_eq!(queue.state.serialise(), before);
    // Equal payloads in other nodes or graphs are other Work.
    let twin = Node::new("twin").with("payload", json!({"task": "n"}));
    queue.submit(PRODUCER, 3000, &[twin.clone(), twin.graph("far")]).unwrap();
    // A submission may repeat admitted nodes beside new ones.
    queue.submit(PRODUCER, 3001, &[node, Node::new("new")]).unwrap();
    assert_eq!(queue.document()["stats"]["work"], 5);
}

/// A worker between its Completion and its Result.
fn parent(queue: &mut Queue) -> Grant {
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    queue.complete(&grant, 2100).unwrap();
    grant
}

/// S-080, S-081, S-146, S-401, S-656: a worker extends the graph only while its delivery is pending, and its
/// children keep its admitted pool, priority and key.
#[test]
fn children_keep_their_parents_entitlement() {
    let mut policy = aw_policy();
    policy["accounting_weights"] = json!({"": 1, "a": 2});
    policy["pools"]["other"] = policy["pools"]["default"].clone();
    let mut queue = Queue::open(&policy, &[Node::new("root").priority(4).account("a")]);
    let grant = queue.grant(1500, 1, 1).unwrap().remove(0);
    let child = Node::new("child").priority(4).account("a");
    let worker = grant.worker();
    assert_eq!(queue.submit(&worker, 1600, std::slice::from_ref(&child)).unwrap_err(), "claim_ineffective");
    queue.start(&grant, 1700).unwrap();
    queue.bind(&grant, 1701).unwrap();
    assert_eq!(queue.submit(&worker, 1702, std::slice::from_ref(&child)).unwrap_err(), "claim_effects_unauthorized");
    queue.finish(&grant, "completed", 1703).unwrap();
    for changed in [child.clone().priority(1), child.clone().account(""), child.clone().with("pool", "other")] {
        assert_eq!(queue.submit(&worker, 1704, &[changed]).unwrap_err(), "child_entitlement");
    }
    let unbound = worker.replace(r#","claim_handle":"h1""#, "");
    assert_eq!(queue.submit(&unbound, 1704, std::slice::from_ref(&child)).unwrap_err(), "claim_scope_required");
    queue.submit(&worker, 1705, std::slice::from_ref(&child)).unwrap();
    queue.result(&grant, 1800).unwrap();
    let second = Node::new("second").priority(4).account("a");
    assert_eq!(queue.submit(&worker, 1900, &[second]).unwrap_err(), "claim_effects_unauthorized");
}

/// S-119: a historical Policy entitles producers by name; an AW Policy entitles every producer to what is installed.
#[test]
fn historical_producers_need_their_entitlement() {
    let mut policy: Value = serde_json::from_str(&crate::support::ledger::policy(false)).unwrap();
    policy["producers"]["1001"]["priorities"] = json!([3]);
    let mut queue = Queue::open(&policy, &[Node::new("root")]);
    assert_eq!(queue.submit(PRODUCER, 2000, &[Node::new("n").priority(2)]).unwrap_err(), "admission_unauthorized");
    let stranger = PRODUCER.replace("1001", "2002");
    assert_eq!(queue.submit(&stranger, 2000, &[Node::new("n")]).unwrap_err(), "admission_unauthorized");
    assert_eq!(queue.cancel_work(&stranger, &Node::new("root").id(), 2000).unwrap_err(), "admission_unauthorized");
    queue.submit(PRODUCER, 2000, &[Node::new("n")]).unwrap();
}

/// S-172: a subject is no prerequisite; outside repositories are refused for subjects and gates alike.
#[test]
fn subjects_gate_nothing() {
    let mut queue = queue();
    queue.submit(PRODUCER, 2000, &[Node::new("n").with("subject", issue(7))]).unwrap();
    assert_eq!(nodes(&queue.grant(2100, 2, 2).unwrap()), ["root", "n"]);
    let mut foreign = issue(7);
    foreign["repository"] = "foreign/repo".into();
    assert_eq!(refusal(&[Node::new("m").with("subject", foreign.clone())]), "resource_unauthorized");
    let edge = json!([{"kind": "issue", "condition": "closed", "resource": foreign}]);
    assert_eq!(refusal(&[Node::new("m").with("depends_on", edge)]), "resource_unauthorized");
}

/// S-487: the largest submission in one ring is checked without recursion and told whole; an explanation lists the first
/// few of many edges and counts the rest, and follows a long chain for a bounded way.
#[test]
fn checks_and_explanations_are_bounded() {
    let key = |index: usize| format!("n{index}");
    let ring: Vec<Node> = (0..256).map(|index| Node::new(&key(index)).after(&key((index + 1) % 256))).collect();
    let request = frozen(
        "ring",
        RequestKind::Submit,
        PRODUCER,
        &json!({"nodes": ring.iter().map(Node::value).collect::<Vec<_>>()}),
    );
    let at = wq_action::protocol::At::new(2000).unwrap();
    let fault = queue().state.decide(&mut Scanner::new(HOST), &request, at, &[]).unwrap_err();
    assert_eq!((fault.code().as_str(), fault.message().split(" -> ").count()), ("dependency_cycle", 257));
    let mut nodes = vec![Node::new(&key(0))];
    nodes.extend((1..200).map(|index| Node::new(&key(index)).after(&key(index - 1))));
    nodes.push((0..64).fold(Node::new("wide"), |node, index| node.after(&key(index))));
    let mut policy = aw_policy();
    policy["limits"]["result_bytes"] = 64.into();
    let mut queue = Queue::open(&policy, &[Node::new("root")]);
    queue.submit(PRODUCER, 2000, &nodes).unwrap();
    let view = |key: &str| queue.state.view_work(queue.state.work(&Node::new(key).id()).unwrap(), at, None);
    assert_eq!((view("wide").unresolved.len(), view("wide").unresolved_total), (8, 64));
    assert_eq!(view("n199").blocking_path.len(), 64);
}

fn limited(limit: &str, value: u64, nodes: &[Node]) -> String {
    let mut policy = aw_policy();
    policy["limits"][limit] = value.into();
    let outcome = Queue::open(&policy, &[Node::new("root")]).submit(PRODUCER, 2000, nodes);
    outcome.err().unwrap_or_else(|| "accepted".to_owned())
}

/// S-474, S-475, S-476, S-477, S-478, S-485, S-486: sizes and counts at their bound and beyond it.
#[test]
fn limits_hold_at_their_bound() {
    let sized = |bytes: usize| Node::new("n").with("payload", json!({"t": "x".repeat(bytes - 8)}));
    assert_eq!(limited("payload_bytes", 100, &[sized(100)]), "accepted");
    assert_eq!(limited("payload_bytes", 100, &[sized(101)]), "resource_limit");
    // Two Works and one gate, seen twice; the root counts too.
    let gated = [Node::new("a").gate(5, "closed"), Node::new("b").gate(5, "closed")];
    assert_eq!(limited("graph_nodes", 4, &gated), "accepted");
    assert_eq!(limited("graph_nodes", 3, &gated), "resource_limit");
    // Both predicates of one Issue are two gates (S-429).
    let both = [Node::new("a").gate(5, "closed").gate(5, "completed")];
    assert_eq!(limited("graph_nodes", 4, &both), "accepted");
    assert_eq!(limited("graph_nodes", 3, &both), "resource_limit");
    assert_eq!(limited("predecessors", 2, &both), "accepted");
    assert_eq!(limited("predecessors", 1, &both), "resource_limit");
    let three: Vec<Node> = ["a", "b", "c"].map(Node::new).to_vec();
    assert_eq!(limited("pending_nodes", 4, &three), "accepted");
    assert_eq!(limited("pending_nodes", 3, &three), "resource_limit");
    // What is delivered counts no more; what waits for its delivery does.
    let mut policy = aw_policy();
    policy["limits"]["pending_nodes"] = 1.into();
    let mut queue = Queue::open(&policy, &[Node::new("root")]);
    let grant = parent(&mut queue);
    assert_eq!(queue.submit(PRODUCER, 2200, &[Node::new("n")]).unwrap_err(), "resource_limit");
    queue.result(&grant, 2300).unwrap();
    queue.submit(PRODUCER, 2400, &[Node::new("n")]).unwrap();
    assert_eq!(limited("operations", 3, &three), "accepted");
    let four: Vec<Node> = ["a", "b", "c", "d"].map(Node::new).to_vec();
    assert_eq!(limited("operations", 3, &four), "resource_limit");
    // The worst ids take 1 KiB; what is left is the payload's.
    let payload = Node::new("n").with("payload", json!({"t": "x".repeat(2000)}));
    assert_eq!(limited("assignment_bytes", 4000, std::slice::from_ref(&payload)), "accepted");
    assert_eq!(limited("assignment_bytes", 3000, std::slice::from_ref(&payload)), "assignment_limit");
    // A predecessor's Result is reserved at its largest.
    let heavy = payload.after("root");
    assert_eq!(limited("assignment_bytes", 4000, &[heavy]), "assignment_limit");
}

/// S-472, S-473, S-479, S-484: no Policy raises a ceiling.
#[test]
fn ceilings_cannot_be_raised() {
    let installed = aw_policy()["limits"].clone();
    for (limit, ceiling) in installed.as_object().unwrap() {
        let mut policy = aw_policy();
        policy["limits"][limit] = (ceiling.as_u64().unwrap() + 1).into();
        assert_eq!(Queue::try_open(&policy, &[Node::new("a")]).err().unwrap(), "ledger_invalid", "{limit}");
    }
    let mut policy = aw_policy();
    assert_eq!((&installed["ledger_bytes"], &installed["recovery_bytes"]), (&json!(64 << 20), &json!(16 << 20)));
    policy["pools"]["default"]["profiles"]["default"]["max_claims"] = 17.into();
    assert_eq!(Queue::try_open(&policy, &[Node::new("a")]).err().unwrap(), "ledger_invalid");
    let mut policy = aw_policy();
    policy["limits"]["more"] = 1.into();
    assert_eq!(Queue::try_open(&policy, &[Node::new("a")]).err().unwrap(), "resource_limit");
}

/// S-336, S-358, S-359, S-360: only failed Work is replaced, by a node of its own graph, pool, priority and key, which queues
/// and pays as any other.
#[test]
fn replacements_follow_failed_deliveries() {
    let mut queue = queue();
    let grant = parent(&mut queue);
    let replacing = |key: &str| {
        Node::new(key).with(
            "replacement_of",
            json!({"work_id": Node::new("root").id(), "disposition": "inspection", "evidence": "seen"}),
        )
    };
    assert_eq!(queue.submit(PRODUCER, 2200, &[replacing("again")]).unwrap_err(), "replacement_invalid");
    let used_up = json!({"attempts": 5});
    queue.fail(&grant, 2300, "unknown", &used_up).unwrap();
    for changed in [replacing("again").priority(1), replacing("again").account("a"), replacing("again").graph("far")] {
        assert_eq!(queue.submit(PRODUCER, 2400, &[changed]).unwrap_err(), "replacement_invalid");
    }
    queue.submit(PRODUCER, 2500, &[replacing("again")]).unwrap();
    queue.release(&grant, 2600).unwrap();
    // The failed node is never granted again.
    assert_eq!(nodes(&queue.grant(9_999_999, 9, 9).unwrap()), ["again"]);
}

/// S-174, S-175, S-329: a corrected plan is new nodes behind the old ones, and an old Result reaches them by an
/// explicit edge of the same graph.
#[test]
fn revisions_are_new_nodes() {
    let mut queue = queue();
    let root = parent(&mut queue);
    queue.result(&root, 2200).unwrap();
    queue.submit(PRODUCER, 2300, &[Node::new("plain"), Node::new("root-v2").after("root")]).unwrap();
    let granted = queue.grant(2400, 2, 2).unwrap();
    assert_eq!(nodes(&granted), ["plain", "root-v2"]);
    let references = |grant: &Grant| {
        let claims = &queue.state.dispatch(&grant.dispatch).unwrap().assignment.claims;
        claims[0].result_refs.iter().map(|one| one.work_id.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(references(&granted[0]), [""; 0]);
    assert_eq!(references(&granted[1]), [root.work.as_str()]);
}
