//! How much is read, and for whom: lifecycle.md 7.2, 7.3.

use serde_json::{Value, json};
use wq_action::launch::observe::{Budget, observe, refresh};
use wq_action::protocol::actor::Role;
use wq_action::protocol::operation::Observation;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::resource::Gate;
use wq_action::protocol::{At, Code};

use super::fake::{Fake, NOW, with_resolver};
use super::mapping::{asked, gates, pull_edge};
use crate::support::built::{DISPATCHER, Node, Queue, RECONCILER, aw_policy, issue, seen};
use crate::support::corpus::load;

fn at(millis: i64) -> At {
    At::new(millis).unwrap()
}

fn edges(numbers: impl IntoIterator<Item = u64>) -> Value {
    numbers.into_iter().map(|n| json!({"kind": "issue", "condition": "closed", "resource": issue(n)})).collect()
}

/// Issues 1 to `n`, 64 for each Work.
fn many(policy: &Value, n: u64) -> Queue {
    let nodes: Vec<Node> = (1..=n)
        .step_by(64)
        .map(|first| Node::new(&format!("n{first:04}")).with("depends_on", edges(first..=n.min(first + 63))))
        .collect();
    Queue::open(policy, &nodes)
}

fn numbers(gates: &[&Gate]) -> Vec<u64> {
    gates.iter().map(|gate| gate.resource.number.as_str().parse().unwrap()).collect()
}

fn due(queue: &Queue, at_millis: i64) -> Vec<u64> {
    numbers(&queue.state.due_gates(&asked(), at(at_millis), 128).unwrap())
}

fn look(queue: &Queue, fake: &Fake) -> Vec<Observation> {
    with_resolver(fake, |resolver| refresh(&queue.state, resolver, &asked(), Role::Dispatcher)).unwrap()
}

/// The published budgets, on a real queue: the number of gates that a grant may refresh.
#[test]
fn the_published_budgets_bound_what_is_due() {
    let Some(data) = load("observation-refresh-budget.json") else { return };
    for case in data["cases"].as_array().unwrap() {
        let mut policy = aw_policy();
        policy["limits"]["operations"] = case["operations"].clone();
        // A commit of few operations admits few nodes.
        let small = case["operations"].as_u64().unwrap() < 8;
        let mut queue = if small {
            Queue::open(&policy, &[Node::new("a").with("depends_on", edges(1..=60))])
        } else {
            many(&policy, 300)
        };
        if case["grants_paused"] == true {
            queue.control("grants_paused", &json!(true), 2000).unwrap();
        }
        if case["ledger_bytes"].as_u64() >= case["ledger_limit"].as_u64() {
            continue; // `nothing_is_read_at_the_watermark` shows these on a ledger of that size.
        }
        let due = queue.state.due_gates(&asked(), at(NOW), case["requested"].as_i64().unwrap());
        match due {
            Ok(due) => assert_eq!(due.len() as u64, case["expected"].as_u64().unwrap(), "{}", case["name"]),
            Err(fault) => assert_eq!(fault.code().as_str(), case["error"], "{}", case["name"]),
        }
    }
}

/// S-440, S-457: every repository and every resource is read once, however many nodes and conditions share them, and
/// nothing that nobody waits for is read.
#[test]
fn reads_are_shared() {
    let both = json!([
        {"kind": "issue", "condition": "completed", "resource": issue(5)},
        {"kind": "issue", "condition": "closed", "resource": issue(5)},
    ]);
    let pull = pull_edge(6);
    let queue = Queue::open(
        &aw_policy(),
        &[
            Node::new("a").with("depends_on", both.clone()),
            Node::new("b").with("depends_on", both),
            Node::new("c").gate(5, "closed"),
            Node::new("d").with("depends_on", pull.clone()),
            Node::new("e").with("depends_on", pull),
            Node::new("f"),
        ],
    );
    let fake = Fake::new();
    fake.issue(5, &json!({"state_reason": "not_planned"}));
    fake.pull(6, &json!({}), &json!({}));
    let seen = look(&queue, &fake);
    let states: Vec<_> = seen.iter().map(|seen| (seen.condition.as_str(), seen.state.as_str())).collect();
    assert_eq!(states, [("completed", "failed"), ("closed", "ready"), ("merged", "ready")]);
    assert_eq!(
        fake.asked(),
        ["/repos/owner/repo", "/repos/owner/repo/issues/5", "/repos/owner/repo/pulls/6", "graphql 6"]
    );
    let idle = Queue::open(&aw_policy(), &[Node::new("a")]);
    assert!(look(&idle, &fake).is_empty());
    assert!(fake.asked().is_empty());
}

/// S-457: gates are due in FIFO order of the Work that only they hold back: not behind other Work, before a retry
/// boundary, claimed, cancelled, of another pool or account that is full, of an unapproved worker, or held back anyway.
#[test]
fn only_what_a_candidate_needs_is_due() {
    let mut policy = aw_policy();
    policy["accounting_weights"] = json!({"": 1, "x": 5});
    let mut queue = Queue::open(
        &policy,
        &[
            Node::new("a").gate(1, "closed").priority(5),
            Node::new("b").gate(2, "closed").priority(1).account("x"),
            Node::new("c").gate(3, "closed").account("x"),
            Node::new("d").gate(1, "closed").gate(4, "closed"),
            Node::new("e").gate(5, "closed").after("a"),
            Node::new("f").gate(6, "closed"),
            Node::new("g"),
        ],
    );
    assert_eq!(due(&queue, NOW), [1, 2, 3, 4, 6]);
    queue.cancel_work(crate::support::built::ADMINISTRATOR, &Node::new("f").id(), 1500).unwrap();
    assert_eq!(due(&queue, NOW), [1, 2, 3, 4]);
    let mut parameters = asked();
    parameters.worker_profiles = Some(Vec::new());
    assert!(queue.state.due_gates(&parameters, at(NOW), 128).unwrap().is_empty());
    // A fresh answer is not asked for again, whatever it was; it holds `d` back, so gate 4 is not needed either.
    let open = json!({"state": "waiting", "resource_state": "open", "state_reason": "reopened"});
    queue.operate(RequestKind::Observe, RECONCILER, NOW, &[seen("o1", 1, "closed", NOW, &open)]).unwrap();
    assert_eq!(due(&queue, NOW), [2, 3]);
    // Too old, from the future, of another generation: due again.
    assert_eq!(due(&queue, NOW + 60_000), [2, 3]);
    assert_eq!(due(&queue, NOW + 60_001), [1, 2, 3, 4]);
    assert_eq!(due(&queue, NOW - 1), [1, 2, 3, 4]);
    let mut renewed = queue.clone();
    renewed.control("credential_generation", &json!("g2"), NOW).unwrap();
    assert_eq!(due(&renewed, NOW), [1, 2, 3, 4]);
    // A retry boundary keeps even a due gate unread.
    let grant = queue.grant(NOW, 1, 1).unwrap().remove(0);
    assert_eq!(grant.node, "g");
    queue.operate(RequestKind::Observe, RECONCILER, NOW + 1, &[seen("o2", 3, "closed", NOW + 1, &json!({}))]).unwrap();
    let grant = queue.grant(NOW + 1, 1, 1).unwrap().remove(0);
    assert_eq!(grant.node, "c");
    queue.cancel_claim(&grant, NOW + 2, NOW + 200_000).unwrap();
    assert_eq!(due(&queue, NOW + 199_999), [1, 2, 4]);
    assert_eq!(due(&queue, NOW + 200_000), [1, 2, 3, 4]);
}

/// S-457: a ledger that has reached its ordinary budget refreshes nothing; one byte below, it does.
#[test]
fn nothing_is_read_at_the_watermark() {
    let open = |bytes: u64| {
        let mut policy = aw_policy();
        policy["limits"]["ledger_bytes"] = bytes.into();
        Queue::open(&policy, &[Node::new("a").gate(5, "closed")])
    };
    let size = open(9999).state.ledger_bytes();
    assert!((1000..9999).contains(&size), "the limit keeps its number of digits");
    assert!(due(&open(size), NOW).is_empty());
    assert_eq!(due(&open(size + 1), NOW), [5]);
}

/// S-457, S-491: while grants are paused or the pool is full nothing is read.
#[test]
fn nothing_is_read_when_nothing_could_be_granted() {
    let mut policy = aw_policy();
    policy["pools"]["default"]["logical_limit"] = 1.into();
    let mut queue = Queue::open(&policy, &[Node::new("a"), Node::new("b").gate(5, "closed")]);
    let fake = Fake::new();
    fake.issue(5, &json!({}));
    let mut paused = queue.clone();
    paused.control("grants_paused", &json!(true), 2000).unwrap();
    assert!(look(&paused, &fake).is_empty());
    queue.grant(2000, 1, 1).unwrap();
    assert!(look(&queue, &fake).is_empty());
    assert!(fake.asked().is_empty());
}

/// What a publisher could not write is left out, so one gate never refuses the grants of all others: used-up
/// observations, a record over its limit, a time before the latest.
#[test]
fn what_cannot_be_written_refuses_no_grant() {
    let mut policy = aw_policy();
    policy["limits"]["observation_writes"] = 1.into();
    let mut queue = Queue::open(&policy, &[Node::new("a").gate(5, "closed"), Node::new("b")]);
    let fake = Fake::new();
    fake.issue(5, &json!({}));
    let open = json!({"state": "waiting", "resource_state": "open"});
    queue.operate(RequestKind::Observe, RECONCILER, 1500, &[seen("o1", 5, "closed", 1500, &open)]).unwrap();
    queue.control("credential_generation", &json!("g2"), 1600).unwrap();
    assert!(look(&queue, &fake).is_empty());
    assert!(fake.asked().is_empty(), "a gate that cannot be written is not read");
    let future = seen("o1", 5, "closed", NOW + 10, &open);
    let mut ahead = Queue::open(&aw_policy(), &[Node::new("a").gate(5, "closed"), Node::new("b")]);
    ahead.operate(RequestKind::Observe, RECONCILER, NOW + 10, &[future]).unwrap();
    assert!(look(&ahead, &fake).is_empty());
    let mut policy = aw_policy();
    policy["limits"]["evidence_bytes"] = 300.into();
    let tight = Queue::open(&policy, &[Node::new("a").gate(5, "closed"), Node::new("b")]);
    assert!(look(&tight, &fake).is_empty());
    for queue in [&mut queue, &mut ahead] {
        let frozen = crate::support::built::frozen(
            "grant",
            RequestKind::DispatchNext,
            DISPATCHER,
            &crate::support::built::grant_parameters("default", 9, 9),
        );
        let decision = queue.decide_frozen(&frozen, NOW + 20, &look(queue, &fake)).unwrap();
        queue.publish(decision).unwrap();
        assert_eq!(crate::support::built::nodes(&queue.last_grants()), ["b"]);
    }
}

/// At most 128 gates are looked at for a grant, and what is left waits for the next one; the reads have a bound of
/// their own, behind which gates are unknown without a call; more than the hard caps cannot be asked for.
#[test]
fn budgets_hold_at_their_bounds() {
    let queue = many(&aw_policy(), 300);
    let fake = Fake::new();
    (1..=300).for_each(|number| fake.issue(number, &json!({})));
    assert_eq!(look(&queue, &fake).len(), 128);
    assert_eq!(fake.asked().len(), 129);
    let all = gates(&queue);
    let explicit = |count: usize, budget: Budget| {
        with_resolver(&fake, |resolver| {
            observe(&queue.state, &resolver.with_budget(budget), &all[..count], Role::Reconciler)
        })
    };
    assert_eq!(explicit(128, Budget::default()).unwrap().len(), 128);
    let refused = explicit(129, Budget::default()).unwrap_err();
    assert_eq!(refused.code(), Code::ExternalResolverBudgetExceeded);
    fake.asked();
    let seen = explicit(256, Budget::new(256, 200).unwrap()).unwrap();
    assert_eq!(fake.asked().len(), 200);
    let exhausted = seen.iter().filter(|seen| seen.read_status.as_str() == "external_read_budget_exhausted");
    assert_eq!(exhausted.clone().count(), 256 - 199);
    assert!(exhausted.clone().all(|seen| seen.state.as_str() == "unknown"));
    assert_eq!(explicit(256, Budget::new(256, 512).unwrap()).unwrap().len(), 256);
    for (gates, reads, fits) in [(256, 512, true), (257, 512, false), (256, 513, false)] {
        match Budget::new(gates, reads) {
            Ok(_) => assert!(fits),
            Err(fault) => assert!(!fits && fault.code() == Code::ExternalResolverBudgetExceeded),
        }
    }
}
