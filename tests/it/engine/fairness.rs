//! The scheduler through whole grants: who is next, what a turn costs, and what fits into one dispatch.

use serde_json::{Value, json};
use wq_action::engine::Decision;
use wq_action::protocol::request::RequestKind;

use crate::support::built::{
    ADMINISTRATOR, DISPATCHER, Grant, Node, PRODUCER, Queue, RECONCILER, aw_policy, grant_parameters, nodes, seen,
};

/// A Policy with room, small reserves, and these accounting weights.
fn roomy(weights: &Value) -> Value {
    let mut policy = aw_policy();
    policy["accounting_weights"] = weights.clone();
    let pool = &mut policy["pools"]["default"];
    pool["logical_limit"] = 256.into();
    pool["native_limit"] = 256.into();
    pool["reconciliation"]["max_attempts"] = 1.into();
    policy["limits"]["evidence_bytes"] = 512.into();
    policy["limits"]["result_bytes"] = 64.into();
    policy
}

fn batches(policy: &mut Value, most: u64) {
    policy["pools"]["default"]["profiles"]["default"]["max_claims"] = most.into();
}

/// Grants one Claim at a time; the winners in order.
fn one_by_one(queue: &mut Queue, count: i64) -> Vec<String> {
    let at = 10_000 + 100 * queue.state.requests().len() as i64;
    (0..count).map(|step| queue.grant(at + step, 1, 1).unwrap().remove(0).node).collect()
}

fn many(prefix: &str, count: usize, change: impl Fn(Node) -> Node) -> Vec<Node> {
    (0..count).map(|index| change(Node::new(&format!("{prefix}{index}")))).collect()
}

fn clock(queue: &Queue, priority: &str) -> Value {
    queue.document()["clocks"]["default"]["keys"][priority].clone()
}

/// S-082, S-083, S-085, S-088, S-141, S-144, O-013: without grouping there is one bucket, and Work is granted in the order of
/// acceptance, whoever submitted it, whatever times it carries, over the pool's whole capacity.
#[test]
fn unconfigured_work_is_first_come_first_served() {
    let late = Node::new("first").with("enqueued", 9_000_000);
    let mut queue = Queue::open(&aw_policy(), &[late]);
    // Commit times run backwards, and so do the claimed ages.
    queue.submit(DISPATCHER, 900, &[Node::new("second").with("enqueued", 500)]).unwrap();
    queue.submit(PRODUCER, 800, &many("third", 15, |node| node.with("enqueued", 0))).unwrap();
    let granted = queue.grant(10_000, 16, 16).unwrap();
    assert_eq!(granted.len(), 16);
    assert_eq!(nodes(&granted)[..4], ["first", "second", "third0", "third1"]);
    assert_eq!(queue.document()["clocks"]["default"]["keys"].as_object().unwrap().len(), 1);
    // The last one in the middle completes first; the next grant does not care.
    queue.complete(&granted[7], 20_000).unwrap();
    assert_eq!(queue.grant(30_000, 1, 1).unwrap_err(), "native_capacity_blocked");
    queue.result(&granted[7], 20_003).unwrap();
    queue.release(&granted[7], 20_004).unwrap();
    assert_eq!(nodes(&queue.grant(30_000, 1, 1).unwrap()), ["third14"]);
}

/// S-084, S-086, S-324: the earliest commit wins, then the operation index; resubmission and cancellation keep the place.
#[test]
fn places_are_kept() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a"), Node::new("b")]);
    queue.submit(PRODUCER, 2000, &[Node::new("c")]).unwrap();
    let before = queue.work("b")["position"].clone();
    assert_eq!(queue.submit(PRODUCER, 3000, &[Node::new("b")]).unwrap_err(), "already_submitted");
    let grant = queue.grant(4000, 1, 1).unwrap().remove(0);
    assert_eq!(grant.node, "a");
    queue.cancel_claim(&grant, 5000, 35_000).unwrap();
    assert_eq!(queue.work("a")["position"], json!({"commit": 0, "operation": 1}));
    assert_eq!(queue.work("b")["position"], before);
    // Not behind the others once its delay is over.
    assert_eq!(nodes(&queue.grant(35_000, 1, 1).unwrap()), ["a"]);
}

/// S-087, S-091, S-102: delayed, blocked, unroutable and terminal Work does not hold up what stands behind it.
#[test]
fn work_that_cannot_run_blocks_nobody() {
    let nodes_in = [
        Node::new("claimed"),
        Node::new("delayed"),
        Node::new("cancelled"),
        Node::new("waiting").after("claimed"),
        Node::new("gated").gate(5, "closed"),
        Node::new("ready"),
    ];
    let mut queue = Queue::open(&aw_policy(), &nodes_in);
    let first = queue.grant(2000, 2, 2).unwrap();
    assert_eq!(nodes(&first), ["claimed", "delayed"]);
    // The boundary is trusted: below the policy's backoff it is refused.
    assert_eq!(queue.cancel_claim(&first[1], 3000, 32_999).unwrap_err(), "retry_invalid");
    queue.cancel_claim(&first[1], 3000, 33_000).unwrap();
    queue.cancel_work(ADMINISTRATOR, &Node::new("cancelled").id(), 3001).unwrap();
    assert_eq!(nodes(&queue.grant(32_999, 9, 9).unwrap()), ["ready"]);
    assert_eq!(queue.grant(32_999, 9, 9).unwrap_err(), "no_eligible_work");
    assert_eq!(nodes(&queue.grant(33_000, 9, 9).unwrap()), ["delayed"]);
}

/// S-076: the most urgent class with eligible Work, then weights among its keys; the class clock stays untouched.
#[test]
fn strict_priority_is_weighted_inside_the_class() {
    let mut policy = roomy(&json!({"": 1, "a": 2, "b": 1}));
    policy["mode"] = "strict-priority".into();
    let mut submitted = many("low", 2, |node| node.priority(4));
    submitted.extend(many("a", 4, |node| node.priority(2).account("a")));
    submitted.extend(many("b", 2, |node| node.priority(2).account("b")));
    let mut queue = Queue::open(&policy, &submitted);
    assert_eq!(one_by_one(&mut queue, 8), ["a0", "a1", "b0", "a2", "a3", "b1", "low0", "low1"]);
    assert_eq!(queue.document()["clocks"]["default"]["classes"], json!({"v": "0", "pass": {}, "active": {}}));
}

/// S-077, S-079, S-119: turns go to classes by weight, then to keys; turns of empty classes and of capped keys are
/// lent, and a key's cap counts over all classes.
#[test]
fn turns_are_shared_and_lent() {
    let mut policy = roomy(&json!({"": 1, "a": 1}));
    policy["class_weights"] = json!([2, 1, 1, 1, 1]);
    policy["pools"]["default"]["per_account_limit"] = 4.into();
    let mut submitted = many("p", 3, |node| node.priority(1));
    submitted.extend(many("a", 3, |node| node.priority(1).account("a")));
    submitted.extend(many("q", 3, |node| node.priority(2)));
    let mut queue = Queue::open(&policy, &submitted);
    // Two turns of class 1 for one of class 2; in class 1 the keys alternate.
    assert_eq!(one_by_one(&mut queue, 6), ["p0", "a0", "q0", "p1", "a1", "q1"]);
    // "" has four open Claims over both classes, so both classes' turns go to what is left.
    assert_eq!(one_by_one(&mut queue, 1), ["a2"]);
    assert_eq!(queue.grant(20_000, 9, 9).unwrap_err(), "no_eligible_work");
}

/// S-104, S-105, S-107, S-112: a key that joins late starts one stride from now and gets no burst for its absence.
#[test]
fn late_keys_get_no_burst() {
    let mut queue = Queue::open(&roomy(&json!({"": 1, "x": 1})), &many("n", 12, |node| node));
    assert_eq!(one_by_one(&mut queue, 5), ["n0", "n1", "n2", "n3", "n4"]);
    queue.submit(PRODUCER, 5000, &many("x", 3, |node| node.account("x"))).unwrap();
    assert_eq!(one_by_one(&mut queue, 6), ["n5", "x0", "n6", "x1", "n7", "x2"]);
    // It went idle; returning, it is clamped again instead of catching up.
    assert_eq!(one_by_one(&mut queue, 2), ["n8", "n9"]);
    queue.submit(PRODUCER, 6000, &many("y", 2, |node| node.account("x"))).unwrap();
    assert_eq!(one_by_one(&mut queue, 4), ["n10", "y0", "n11", "y1"]);
}

/// S-111: equal passes go to the smaller priority, and to the smaller key by UTF-8 bytes, beyond the first plane too.
#[test]
fn ties_break_by_number_and_by_bytes() {
    // UTF-16 order would put U+FFFD behind U+10000.
    let keys = ["a", "\u{e9}", "\u{fffd}", "\u{10000}"];
    let weights: Value = keys.iter().chain(&[""]).map(|key| ((*key).to_owned(), json!(1))).collect();
    let submitted: Vec<Node> = keys.iter().rev().map(|key| Node::new(key).account(key)).collect();
    let mut queue = Queue::open(&roomy(&weights), &submitted);
    assert_eq!(one_by_one(&mut queue, 4), keys);
    let mut policy = roomy(&json!({"": 1}));
    policy["class_weights"] = json!([1, 1, 1, 1, 1]);
    let submitted: Vec<Node> = (1..=5).rev().map(|p| Node::new(&p.to_string()).priority(p)).collect();
    assert_eq!(one_by_one(&mut Queue::open(&policy, &submitted), 5), ["1", "2", "3", "4", "5"]);
}

/// S-021, S-108, S-109, S-110: scales come from all configured weights, used or not, exact far beyond a machine word.
#[test]
fn scales_are_exact_and_whole() {
    let primes = [997, 991, 983, 977, 971, 967, 953, 947, 941, 937];
    let mut weights = serde_json::Map::from_iter([(String::new(), json!(1)), ("a".to_owned(), json!(2))]);
    weights.extend(primes.iter().map(|prime| (format!("unused{prime}"), json!(prime))));
    let mut queue = Queue::open(&roomy(&Value::Object(weights)), &many("n", 3, |node| node.account("a")));
    one_by_one(&mut queue, 2);
    let quantum = primes.iter().map(|prime| num_bigint::BigUint::from(*prime as u32)).product::<num_bigint::BigUint>();
    // Q is twice the product and the stride of weight 2 is half of Q; two turns were paid, a third is the next pass.
    assert_eq!(clock(&queue, "3")["v"], (&quantum * 2_u32).to_string());
    assert_eq!(clock(&queue, "3")["pass"]["a"], (&quantum * 3_u32).to_string());
    assert!(quantum.bits() > 64);
}

/// S-098, S-099, S-101, S-127, O-014: each Claim costs its key one turn, in a batch or alone, and nothing is refunded.
#[test]
fn every_claim_costs_one_turn() {
    let weights = json!({"": 1, "b": 1});
    let submitted = [many("a", 3, |node| node), many("b", 3, |node| node.account("b"))].concat();
    let mut batched = roomy(&weights);
    batches(&mut batched, 3);
    batched["pools"]["default"]["profiles"]["default"]["share_keys"] = true.into();
    let mut together = Queue::open(&batched, &submitted);
    let granted = together.grant(2000, 3, 1).unwrap();
    assert_eq!(nodes(&granted), ["a0", "b0", "a1"]);
    assert!(granted.iter().all(|grant| grant.dispatch == granted[0].dispatch));
    let mut apart = Queue::open(&roomy(&weights), &submitted);
    for at in 2000..2003 {
        apart.grant(at, 1, 1).unwrap();
    }
    assert_eq!(together.document()["clocks"], apart.document()["clocks"]);
    let clocks = together.document()["clocks"].clone();
    together.cancel_claim(&granted[0], 3000, 33_000).unwrap();
    together.cancel_work(ADMINISTRATOR, &granted[1].work, 3001).unwrap();
    assert_eq!(together.document()["clocks"], clocks);
    // A second attempt is a second turn.
    together.cancel_work(ADMINISTRATOR, &Node::new("a2").id(), 3002).unwrap();
    together.cancel_work(ADMINISTRATOR, &Node::new("b1").id(), 3003).unwrap();
    together.cancel_work(ADMINISTRATOR, &Node::new("b2").id(), 3004).unwrap();
    assert_eq!(nodes(&together.grant(40_000, 1, 1).unwrap()), ["a0"]);
    assert_ne!(together.document()["clocks"], clocks);
}

fn three_profiles() -> Value {
    let mut policy = roomy(&json!({"": 1, "b": 1}));
    batches(&mut policy, 4);
    let pool = &mut policy["pools"]["default"];
    pool["profiles"]["x"] = pool["profiles"]["default"].clone();
    pool["profiles"]["y"] = pool["profiles"]["default"].clone();
    policy
}

/// S-094, S-095, S-096, S-113, S-122, S-128: a winner goes to the earliest group that takes it; one that fits nowhere
/// ends the prefix, and neither it nor anything behind it leaves a trace.
#[test]
fn prefixes_stop_where_the_winner_does_not_fit() {
    let submitted = [Node::new("x0").profile("x"), Node::new("y0").profile("y"), Node::new("x1").profile("x")];
    let mut queue = Queue::open(&three_profiles(), &submitted);
    let mut wide = queue.clone();
    assert_eq!(nodes(&queue.grant(2000, 3, 1).unwrap()), ["x0"]);
    let mut single = Queue::open(&three_profiles(), &submitted);
    single.grant(2000, 1, 1).unwrap();
    let state = |queue: &Queue| (queue.document()["clocks"].clone(), queue.document()["stats"].clone());
    assert_eq!(state(&queue), state(&single));
    // With two dispatches the third Claim joins the first group.
    let granted = wide.grant(2000, 3, 2).unwrap();
    assert_eq!(nodes(&granted), ["x0", "y0", "x1"]);
    assert_eq!(granted[0].dispatch, granted[2].dispatch);
    assert_eq!((granted[1].handle.as_str(), granted[2].handle.as_str()), ("h1", "h2"));
}

/// S-089, S-123, S-124, S-126, O-244: one Claim a dispatch unless the profile says more; other profiles and, without
/// an administrator's word, other keys get dispatches of their own.
#[test]
fn only_compatible_work_shares_a_dispatch() {
    let dispatches = |granted: &[Grant]| -> usize {
        granted.iter().map(|grant| &grant.dispatch).collect::<std::collections::BTreeSet<_>>().len()
    };
    let submitted = [Node::new("a"), Node::new("b").account("b"), Node::new("c"), Node::new("d").profile("x")];
    let granted = Queue::open(&three_profiles(), &submitted).grant(2000, 4, 4).unwrap();
    assert_eq!((granted.len(), dispatches(&granted)), (4, 3));
    let mut shared = three_profiles();
    shared["pools"]["default"]["profiles"]["default"]["share_keys"] = true.into();
    assert_eq!(dispatches(&Queue::open(&shared, &submitted).grant(2000, 4, 4).unwrap()), 2);
    let plain = roomy(&json!({"": 1}));
    assert_eq!(dispatches(&Queue::open(&plain, &many("n", 3, |node| node)).grant(2000, 3, 3).unwrap()), 3);
}

/// S-092, S-130, S-131, S-294, S-311, S-543, S-558: logical slots and native reservations are limited apart.
#[test]
fn slots_and_reservations_are_limited_apart() {
    let mut policy = roomy(&json!({"": 1}));
    policy["pools"]["default"]["logical_limit"] = 2.into();
    policy["pools"]["default"]["native_limit"] = 3.into();
    let mut queue = Queue::open(&policy, &many("n", 9, |node| node));
    let granted = queue.grant(2000, 9, 9).unwrap();
    assert_eq!(granted.len(), 2);
    assert_eq!(queue.grant(2001, 9, 9).unwrap_err(), "capacity_blocked");
    // Completion frees the slot, not the reservation.
    queue.complete(&granted[0], 3000).unwrap();
    let third = queue.grant(4000, 9, 9).unwrap();
    assert_eq!(third.len(), 1);
    queue.complete(&granted[1], 5000).unwrap();
    assert_eq!(queue.grant(6000, 9, 9).unwrap_err(), "native_capacity_blocked");
    queue.release(&granted[0], 7000).unwrap();
    assert_eq!(queue.grant(8000, 9, 9).unwrap().len(), 1);
}

/// S-480: neither the request's nor the Policy's bound on assignment bytes is exceeded; the smaller one counts.
#[test]
fn assignments_stay_within_both_bounds() {
    let text = "t".repeat(900);
    let mut policy = roomy(&json!({"": 1}));
    batches(&mut policy, 4);
    let submitted = many("n", 4, |node| node.with("payload", json!({"text": text})));
    let groups = |policy: &Value, bytes: u64| -> Result<Vec<usize>, String> {
        let mut queue = Queue::open(policy, &submitted);
        let mut parameters = grant_parameters("default", 4, 4);
        parameters["max_bytes"] = bytes.into();
        queue.request(RequestKind::DispatchNext, DISPATCHER, 2000, &parameters)?;
        let state = queue.state.clone();
        assert!(state.dispatches().all(|one| one.assignment.canonical().len() as u64 <= bytes));
        Ok(state.dispatches().map(|one| one.assignment.claims.len()).collect())
    };
    assert_eq!(groups(&policy, 49_152).unwrap(), [4]);
    assert_eq!(groups(&policy, 3000).unwrap(), [2, 2]);
    assert_eq!(groups(&policy, 1300).unwrap_err(), "assignment_bytes_blocked");
    policy["limits"]["assignment_bytes"] = 3000.into();
    assert_eq!(groups(&policy, 49_152).unwrap(), [2, 2]);
}

/// S-118, S-160, O-019: pools share neither capacity nor routes, and a grant names one pool.
#[test]
fn pools_are_apart() {
    let mut policy = roomy(&json!({"": 1}));
    policy["pools"]["default"]["logical_limit"] = 1.into();
    policy["pools"]["other"] = policy["pools"]["default"].clone();
    policy["pools"]["other"]["profiles"]["own"] = policy["pools"]["default"]["profiles"]["default"].clone();
    let other = |key: &str| Node::new(key).graph("far").with("pool", "other");
    let mut queue = Queue::open(&policy, &[Node::new("a"), other("b").profile("own")]);
    assert_eq!(queue.submit(PRODUCER, 1500, &[Node::new("c").profile("own")]).unwrap_err(), "work_invalid");
    assert_eq!(nodes(&queue.grant(2000, 9, 9).unwrap()), ["a"]);
    assert_eq!(nodes(&queue.grant_from("other", 2000, 9, 9).unwrap()), ["b"]);
    assert_eq!(queue.grant_from("third", 2000, 1, 1).unwrap_err(), "policy_invalid");
    // A graph stays where it began.
    assert_eq!(queue.submit(PRODUCER, 1500, &[Node::new("d").with("pool", "other")]).unwrap_err(), "graph_invalid");
}

/// S-087, S-090, S-534, S-535: approval of worker profiles limits a grant without changing the order of what remains.
#[test]
fn only_approved_profiles_are_granted() {
    let submitted = [Node::new("x0").profile("x"), Node::new("y0").profile("y"), Node::new("x1").profile("x")];
    let mut queue = Queue::open(&three_profiles(), &submitted);
    let mut parameters = grant_parameters("default", 9, 9);
    parameters["worker_profiles"] = json!([]);
    let none = queue.request(RequestKind::DispatchNext, DISPATCHER, 2000, &parameters);
    assert_eq!(none.unwrap_err(), "no_eligible_work");
    parameters["worker_profiles"] = json!(["y", "default"]);
    queue.request(RequestKind::DispatchNext, DISPATCHER, 2000, &parameters).unwrap();
    assert_eq!(nodes(&queue.last_grants()), ["y0"]);
    parameters["worker_profiles"] = json!(["x"]);
    queue.request(RequestKind::DispatchNext, DISPATCHER, 2001, &parameters).unwrap();
    assert_eq!(nodes(&queue.last_grants()), ["x0", "x1"]);
    assert_eq!(queue.grant(2002, 1, 1).unwrap_err(), "no_work");
}

/// S-163, S-164, S-165, S-167, S-168, S-286, S-418, O-253, O-254: waiting Work takes no slot, a join waits for every
/// verified Result, and a Claim's assignment carries the Results of its own predecessors.
#[test]
fn joins_wait_for_every_result() {
    let mut policy = roomy(&json!({"": 1}));
    batches(&mut policy, 4);
    policy["pools"]["default"]["logical_limit"] = 3.into();
    let submitted = [
        Node::new("join").after("left").after("right").gate(5, "completed"),
        Node::new("left").after("root"),
        Node::new("right").after("root"),
        Node::new("root"),
    ];
    let mut queue = Queue::open(&policy, &submitted);
    let root = queue.grant(2000, 4, 4).unwrap();
    assert_eq!(nodes(&root), ["root"]);
    queue.complete(&root[0], 2100).unwrap();
    assert_eq!(queue.grant(2200, 4, 4).unwrap_err(), "no_eligible_work");
    queue.result(&root[0], 2200).unwrap();
    let fork = queue.grant(2300, 4, 4).unwrap();
    assert_eq!(nodes(&fork), ["left", "right"]);
    assert_eq!(fork[0].dispatch, fork[1].dispatch);
    queue.start(&fork[0], 2400).unwrap();
    queue.bind(&fork[0], 2401).unwrap();
    queue.finish(&fork[0], "completed", 2402).unwrap();
    queue.result(&fork[0], 2403).unwrap();
    queue.finish(&fork[1], "completed", 2404).unwrap();
    assert_eq!(queue.grant(2500, 4, 4).unwrap_err(), "no_eligible_work");
    queue.result(&fork[1], 2600).unwrap();
    // Only the gate is left; it takes neither slot nor turn.
    assert_eq!(queue.grant(2700, 4, 4).unwrap_err(), "no_eligible_work");
    let clocks = queue.document()["clocks"].clone();
    let observation = seen("o1", 5, "completed", 2800, &json!({}));
    queue.operate(RequestKind::Observe, RECONCILER, 2800, &[observation]).unwrap();
    assert_eq!(queue.document()["clocks"], clocks);
    let join = queue.grant(2900, 4, 4).unwrap().remove(0);
    let dispatch = queue.state.dispatch(&join.dispatch).unwrap();
    let member = &dispatch.assignment.claims[0];
    assert_eq!(member.work.as_str(), r#"{"task":"join"}"#);
    let references: Vec<(&str, &str)> =
        member.result_refs.iter().map(|one| (one.work_id.as_str(), one.descriptor.as_str())).collect();
    assert_eq!(
        references,
        [(fork[0].work.as_str(), r#"{"done":"left"}"#), (fork[1].work.as_str(), r#"{"done":"right"}"#)]
    );
    let claim = queue.state.claim(&join.claim).unwrap();
    assert_eq!(claim.claim.observations.0.iter().map(|id| id.as_str()).collect::<Vec<_>>(), ["o1"]);
}

/// S-116, S-162: graphs, fan-out and subjects make no turns of their own; only class and key do.
#[test]
fn graphs_have_no_share() {
    let mut submitted = many("big", 6, |node| node.graph("big"));
    submitted.extend([Node::new("small").graph("small"), Node::new("last").graph("third")]);
    let mut queue = Queue::open(&roomy(&json!({"": 1})), &submitted);
    let granted = one_by_one(&mut queue, 8);
    assert_eq!(granted, ["big0", "big1", "big2", "big3", "big4", "big5", "small", "last"]);
}

/// S-022, S-149, S-483: every one of 1,024 keys has a pass of its own, which stays while the key is idle; more are refused.
#[test]
fn keys_share_no_bucket() {
    let key = |n: usize| if n == 0 { String::new() } else { format!("{}{n:04}", "k".repeat(124)) };
    let weights = |count: usize| -> Value { (0..count).map(|n| (key(n), json!(1))).collect() };
    let submitted: Vec<Node> = (0..100).map(|n| Node::new(&format!("n{n}")).account(&key(n * 10))).collect();
    let mut policy = roomy(&weights(1024));
    policy["pools"]["default"]["retry"]["max_attempts"] = 1.into();
    let mut queue = Queue::open(&policy, &submitted);
    let granted = queue.grant(2000, 100, 100).unwrap();
    assert_eq!(granted.len(), 100);
    assert_eq!(clock(&queue, "3")["pass"].as_object().unwrap().len(), 100);
    queue.submit(PRODUCER, 3000, &[Node::new("again")]).unwrap();
    queue.grant(4000, 1, 1).unwrap();
    let passes = clock(&queue, "3")["pass"].clone();
    assert_eq!(passes.as_object().unwrap().len(), 100);
    assert_eq!((&passes[""], &passes[key(10)]), (&json!("3"), &json!("2")));
    assert!(Queue::try_open(&roomy(&weights(1025)), &submitted[..1]).is_err());
    let long = json!({"": 1, "k".repeat(129): 1});
    assert!(Queue::try_open(&roomy(&long), &submitted[..1]).is_err());
    // Bytes count, not letters.
    for (emoji, fits) in [(32, true), (33, false)] {
        let policy = roomy(&json!({"": 1, "\u{1f600}".repeat(emoji): 1}));
        assert_eq!(Queue::try_open(&policy, &[Node::new("a")]).is_ok(), fits);
    }
}

/// S-138: an answer without a grant names the winner that stands first and what blocks it.
#[test]
fn no_grant_names_the_blocked_winner() {
    let mut queue = Queue::open(&roomy(&json!({"": 1})), &[Node::new("a"), Node::new("b")]);
    let mut parameters = grant_parameters("default", 4, 4);
    parameters["max_bytes"] = 100.into();
    match queue.decide(RequestKind::DispatchNext, DISPATCHER, 2000, &parameters).unwrap() {
        Decision::Nothing { reason, next, .. } => {
            assert_eq!(reason, "assignment_bytes_blocked");
            assert_eq!(next.work_id.unwrap().as_str(), Node::new("a").id());
        }
        other => panic!("{other:?}"),
    }
}
