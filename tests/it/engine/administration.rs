//! What cancellations, priorities and controls leave alone, on any reachable state.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use wq_action::protocol::request::RequestKind;

use super::properties::{busy_policy, strategy_nodes, strategy_steps, take};
use crate::support::built::{ADMINISTRATOR, Node, PRODUCER, Queue, aw_policy};

/// Members of a Work that no administrator changes.
const KEPT: [&str; 12] = [
    "attempts",
    "barrier",
    "depends_on",
    "enqueued",
    "fairness_key",
    "graph_id",
    "payload",
    "pool",
    "position",
    "priority",
    "retry_not_before",
    "worker_profile",
];

/// Debt, memberships, reservations and the whole Policy are as before; so is every Work but for what is named.
fn kept(before: &Value, after: &Value, changed: &[&str]) -> Result<(), TestCaseError> {
    for member in ["clocks", "dispatches", "observations", "observation_writes", "policy", "policy_epoch"] {
        prop_assert_eq!(&before[member], &after[member], "{}", member);
    }
    for (id, work) in before["works"].as_object().unwrap() {
        let now = &after["works"][id];
        if changed.contains(&id.as_str()) {
            for member in KEPT {
                prop_assert_eq!(&work[member], &now[member], "{}", member);
            }
        } else {
            prop_assert_eq!(work, now);
        }
    }
    Ok(())
}

/// Ids of the Work in one of these states.
fn in_states(document: &Value, states: &[&str]) -> Vec<String> {
    let works = document["works"].as_object().unwrap().iter();
    works.filter(|(_, work)| states.iter().any(|state| work["state"] == *state)).map(|(id, _)| id.clone()).collect()
}

fn reprioritize(queue: &mut Queue, ids: &[&str], priority: i64, at: i64) -> Result<(), String> {
    let document = queue.document();
    let operation = |id: &&str| {
        let work = &document["works"][*id];
        let expected = work["effective_priority"].as_i64().or(work["priority"].as_i64());
        json!({"kind": "WorkPriority", "work_id": id, "priority": priority, "expected_priority": expected, "reason": "r"})
    };
    let operations: Vec<Value> = ids.iter().map(operation).collect();
    queue.operate(RequestKind::Control, ADMINISTRATOR, at, &operations)
}

/// O-320, O-411: whatever happened before, a new priority keeps positions, retry boundaries, admitted definitions and
/// charges; a cancellation, by its Work or by its Claim, keeps reservations, charges, dispatch memberships and the
/// Claims of all other Work.
#[test]
fn administrators_leave_debt_and_reservations_alone() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(60) });
    let seen = Cell::new([0_usize; 3]);
    let count = |at: usize, more: usize| {
        let mut counts = seen.get();
        counts[at] += more;
        seen.set(counts);
    };
    let run = runner.run(&(strategy_nodes(), strategy_steps(), 1..=5_i64), |(nodes, steps, priority)| {
        let mut queue = Queue::open(&busy_policy(), &nodes);
        let mut open = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            take(&mut queue, step, 10_000 + 20_000 * index as i64, &mut open);
        }
        let at = 1_000_000;
        let before = queue.document();
        let waiting = in_states(&before, &["available"]);
        let waiting: Vec<&str> = waiting.iter().map(String::as_str).collect();
        if !waiting.is_empty() {
            reprioritize(&mut queue, &waiting, priority, at).unwrap();
            let after = queue.document();
            kept(&before, &after, &waiting)?;
            prop_assert_eq!(&before["claims"], &after["claims"]);
            let new = waiting.iter().all(|id| after["works"][*id]["effective_priority"] == priority);
            prop_assert!(new);
        }
        for paused in [true, false] {
            let before = queue.document();
            queue.control("grants_paused", &json!(paused), at).unwrap();
            kept(&before, &queue.document(), &[])?;
        }
        let before = queue.document();
        let ended = in_states(&before, &["available", "claimed"]);
        let operation = |id: &String| {
            let work = &before["works"][id];
            let mut operation = json!({"kind": "WorkCancellation", "work_id": id, "reason": "r"});
            if work["state"] == "claimed" && id.as_bytes()[0].is_multiple_of(2) {
                operation["claim_id"] = work["claim_id"].clone();
            }
            operation
        };
        let operations: Vec<Value> = ended.iter().map(operation).collect();
        if !operations.is_empty() {
            queue.operate(RequestKind::CancelWork, ADMINISTRATOR, at, &operations).unwrap();
            let after = queue.document();
            kept(&before, &after, &ended.iter().map(String::as_str).collect::<Vec<_>>())?;
            for (id, claim) in before["claims"].as_object().unwrap() {
                let (revoked, now) = (claim["state"] == "open", &after["claims"][id]);
                for member in ["work_id", "dispatch_id", "handle", "commit_id", "request_id", "observations"] {
                    prop_assert_eq!(&claim[member], &now[member]);
                }
                let expected = if revoked { &json!("cancelled") } else { &claim["state"] };
                prop_assert_eq!(&now["state"], expected);
                prop_assert!(revoked || claim == now);
                count(2, usize::from(revoked));
            }
        }
        count(0, waiting.len());
        count(1, operations.len());
        queue.check();
        Ok(())
    });
    run.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(seen.get().iter().all(|count| *count > 0), "{seen:?}: the runs reached too little");
}

/// O-413: an override changes neither what is assigned already, nor the admitted metadata, nor the priority that
/// children are admitted with, nor a weight, nor what was charged.
#[test]
fn a_priority_override_reaches_future_grants_alone() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a"), Node::new("b"), Node::new("c")]);
    let b = Node::new("b").id();
    let first = queue.grant(2000, 1, 1).unwrap().remove(0);
    assert_eq!(first.node, "a");
    let before = queue.document();
    reprioritize(&mut queue, &[&b], 1, 2100).unwrap();
    let after = queue.document();
    for member in ["claims", "dispatches", "clocks", "policy"] {
        assert_eq!(before[member], after[member], "{member}");
    }
    for member in KEPT {
        assert_eq!(before["works"][&b][member], after["works"][&b][member], "{member}");
    }
    let grant = queue.grant(2200, 1, 1).unwrap().remove(0);
    assert_eq!(grant.node, "b");
    queue.complete(&grant, 2300).unwrap();
    let child = |priority| [Node::new("child").priority(priority)];
    assert_eq!(queue.submit(&grant.worker(), 2400, &child(1)).unwrap_err(), "child_entitlement");
    queue.submit(&grant.worker(), 2400, &child(3)).unwrap();
    assert_eq!(queue.work("child")["priority"], 3);
    // A producer admits new Work of that class as before.
    queue.submit(PRODUCER, 2500, &[Node::new("d").priority(1)]).unwrap();
}
