//! From the grant to the release: dispatches, completion, delivery, cancellation and retry.

use serde_json::{Value, json};
use wq_action::protocol::request::RequestKind;

use crate::support::built::{ADMINISTRATOR, DISPATCHER, Grant, Node, PRODUCER, Queue, RECONCILER, aw_policy, nodes};

fn granted() -> (Queue, Grant) {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a"), Node::new("b").after("a")]);
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    (queue, grant)
}

fn bound() -> (Queue, Grant) {
    let (mut queue, grant) = granted();
    queue.start(&grant, 2100).unwrap();
    queue.bind(&grant, 2101).unwrap();
    (queue, grant)
}

fn mark(queue: &mut Queue, grant: &Grant, state: &str, at: i64, more: &Value) -> Result<(), String> {
    let mut operation = json!({"kind": "Dispatch", "dispatch_id": grant.dispatch, "state": state});
    for (name, value) in more.as_object().unwrap() {
        operation[name] = value.clone();
    }
    queue.operate(RequestKind::Dispatch, RECONCILER, at, &[operation])
}

fn phase(queue: &Queue, grant: &Grant) -> Value {
    let dispatch = &queue.document()["dispatches"][&grant.dispatch];
    json!([dispatch["state"], dispatch["released"]])
}

/// S-262, S-263, S-293, S-029: one reservation for each dispatch, whose states stay apart, held until its release.
#[test]
fn dispatch_states_stay_apart() {
    let (mut queue, grant) = granted();
    assert_eq!(phase(&queue, &grant), json!(["reserved", false]));
    let doubt = json!({"reason": "timeout"});
    assert_eq!(mark(&mut queue, &grant, "uncertain", 2100, &doubt).unwrap_err(), "dispatch_invalid");
    queue.start(&grant, 2100).unwrap();
    assert_eq!(queue.start(&grant, 2101).unwrap_err(), "dispatch_invalid");
    assert_eq!(phase(&queue, &grant), json!(["started", false]));
    mark(&mut queue, &grant, "uncertain", 2102, &doubt).unwrap();
    assert_eq!(phase(&queue, &grant), json!(["uncertain", false]));
    let tried = |attempts: u64| {
        let evidence = grant.evidence("reconciliation", "github_api", 2103, &json!({"attempts": attempts}));
        json!({"reason": "lost", "evidence": evidence})
    };
    assert_eq!(mark(&mut queue, &grant, "unresolved", 2103, &tried(4)).unwrap_err(), "reconciliation_pending");
    mark(&mut queue, &grant, "unresolved", 2104, &tried(5)).unwrap();
    assert_eq!(phase(&queue, &grant), json!(["unresolved", false]));
    queue.bind(&grant, 2105).unwrap();
    assert_eq!(phase(&queue, &grant), json!(["bound", false]));
    assert_eq!(mark(&mut queue, &grant, "uncertain", 2106, &doubt).unwrap_err(), "dispatch_invalid");
    assert_eq!(queue.document()["stats"]["dispatches"], 1);
    queue.finish(&grant, "completed", 2107).unwrap();
    queue.release(&grant, 2108).unwrap();
    assert_eq!(phase(&queue, &grant), json!(["bound", true]));
    assert_eq!(queue.document()["stats"]["dispatches"], 0);
}

/// S-281: the same binding again changes nothing; another run, or a run that is bound elsewhere, is refused.
#[test]
fn a_binding_is_made_once() {
    let (mut queue, grant) = bound();
    let before = queue.document()["dispatches"][&grant.dispatch]["run"].clone();
    queue.bind(&grant, 2102).unwrap();
    assert_eq!(queue.document()["dispatches"][&grant.dispatch]["run"], before);
    let other = |run: &str, attempt: u64| {
        let mut binding = grant.binding();
        binding["run_id"] = run.into();
        binding["run_attempt"] = attempt.into();
        let evidence = grant.evidence("reconciliation", "github_api", 2103, &json!({"run_id": run}));
        json!({"run": binding, "evidence": evidence})
    };
    assert_eq!(mark(&mut queue, &grant, "bound", 2103, &other("77", 1)).unwrap_err(), "run_binding_conflict");
    assert_eq!(mark(&mut queue, &grant, "bound", 2103, &other(&grant.run(), 2)).unwrap_err(), "run_binding_conflict");
    queue.submit(PRODUCER, 2200, &[Node::new("c")]).unwrap();
    let second = queue.grant(2300, 1, 1).unwrap().remove(0);
    queue.start(&second, 2400).unwrap();
    let mut stolen = other(&grant.run(), 1);
    stolen["evidence"]["checked_at"] = 2400.into();
    assert_eq!(mark(&mut queue, &second, "bound", 2401, &stolen).unwrap_err(), "run_binding_conflict");
    // Nobody but the run itself binds as a worker.
    let evidence = second.evidence("reconciliation", "trusted_activation", 2402, &json!({}));
    let operation = json!({"kind": "Dispatch", "dispatch_id": second.dispatch, "state": "bound",
        "run": second.binding(), "evidence": evidence});
    let refused = queue.operate(RequestKind::Dispatch, &grant.worker(), 2402, &[operation]);
    assert_eq!(refused.unwrap_err(), "run_binding_conflict");
}

/// S-054, S-056, S-311, S-334, S-350, S-351, S-353, S-358, S-364, S-481: a Claim completes once; Result and
/// DeliveryFailure exclude each other, repeat without effect, and neither reopens, authorizes or releases anything.
#[test]
fn deliveries_settle_once() {
    let (mut queue, grant) = bound();
    assert_eq!(queue.finish(&grant, "completed", 2200), Ok(()));
    assert_eq!(queue.finish(&grant, "completed", 2201).unwrap_err(), "already_finished");
    assert_eq!(queue.finish(&grant, "cancelled", 2202).unwrap_err(), "claim_ineffective");
    let completion = json!({"kind": "Completion", "work_id": grant.work, "claim_id": grant.claim,
        "dispatch_id": grant.dispatch, "claim_handle": "h1", "run_id": grant.run(), "run_attempt": 1});
    let parameters = json!({"dispatch_id": grant.dispatch, "claim_handle": "h1", "outcome": "completed"});
    let again = queue.forge(RequestKind::Finish, &grant.worker(), 2203, &parameters, &[completion]);
    assert_eq!(again.unwrap_err(), "request_invalid");
    // The Completion came first, so nothing is cancelled any more.
    assert_eq!(queue.cancel_work(ADMINISTRATOR, &grant.work, 2204).unwrap_err(), "work_terminal");
    assert_eq!(queue.cancel_claim(&grant, 2205, 90_000).unwrap_err(), "claim_ineffective");
    let mut failed = queue.clone();
    let mut released = queue.clone();
    released.release(&grant, 2290).unwrap();
    released.result(&grant, 2300).unwrap();
    let evidence = grant.evidence("delivery", "verified_receipts", 2300, &json!({"receipt": "r"}));
    let sized = |bytes: usize| {
        json!({"kind": "Result", "work_id": grant.work, "claim_id": grant.claim,
            "completion_id": queue.completion(&grant), "descriptor": {"d": "x".repeat(bytes - 8)}, "evidence": evidence})
    };
    let (most, more) = (sized(4096), sized(4097));
    assert_eq!(queue.clone().operate(RequestKind::Result, RECONCILER, 2300, &[most]), Ok(()));
    assert_eq!(queue.operate(RequestKind::Result, RECONCILER, 2300, &[more]).unwrap_err(), "resource_limit");
    queue.result(&grant, 2300).unwrap();
    let settled = queue.document()["works"].clone();
    let last: Value = serde_json::from_str(queue.text.lines().last().unwrap()).unwrap();
    let mut result = last["operations"][0].clone();
    queue.operate(RequestKind::Result, RECONCILER, 2400, std::slice::from_ref(&result)).unwrap();
    result["descriptor"] = json!({"done": "otherwise"});
    assert_eq!(queue.operate(RequestKind::Result, RECONCILER, 2401, &[result]).unwrap_err(), "delivery_conflict");
    let exhausted = json!({"attempts": 5});
    assert_eq!(queue.fail(&grant, 2402, "unknown", &exhausted).unwrap_err(), "delivery_conflict");
    assert_eq!(queue.document()["works"], settled);
    assert_eq!(phase(&queue, &grant), json!(["bound", false]));
    failed.fail(&grant, 2300, "unknown", &exhausted).unwrap();
    assert_eq!(failed.result(&grant, 2301).unwrap_err(), "delivery_conflict");
    assert_eq!(failed.work("a")["state"], "completed");
    assert_eq!(failed.cancel_work(ADMINISTRATOR, &grant.work, 2302).unwrap_err(), "work_terminal");
    assert_eq!(failed.grant(9_000_000, 9, 9).unwrap_err(), "no_eligible_work");
    let rewired = Node::new("a").with("depends_on", json!([])).gate(5, "closed");
    assert_eq!(failed.submit(PRODUCER, 9_000_001, &[rewired]).unwrap_err(), "work_conflict");
}

/// S-332: what a Claim was granted stays what it was, whatever is submitted, reprioritized or deployed after it.
#[test]
fn claims_finish_what_they_were_given() {
    let (mut queue, grant) = bound();
    let given = |queue: &Queue| queue.state.dispatch(&grant.dispatch).unwrap().assignment.canonical();
    let before = given(&queue);
    assert!(before.contains(r#""work":{"task":"a"}"#));
    let revised = Node::new("a").with("payload", json!({"task": "a, revised"}));
    assert_eq!(queue.submit(PRODUCER, 2200, &[revised]).unwrap_err(), "work_conflict");
    let priority = json!({"kind": "WorkPriority", "work_id": Node::new("b").id(), "priority": 1,
        "expected_priority": 3, "reason": "urgent"});
    queue.operate(RequestKind::Control, ADMINISTRATOR, 2201, &[priority]).unwrap();
    queue.submit(PRODUCER, 2202, &[Node::new("r2/a").with("payload", json!({"task": "a, revised"}))]).unwrap();
    assert_eq!(nodes(&queue.grant(2203, 9, 9).unwrap()), ["r2/a"]);
    assert_eq!(given(&queue), before);
    queue.finish(&grant, "completed", 2300).unwrap();
    queue.result(&grant, 2301).unwrap();
    assert_eq!(given(&queue), before);
    assert_eq!(queue.work("a")["payload"], json!({"task": "a"}));
    assert_eq!(queue.work("r2/a")["state"], "claimed");
}

/// S-401: a member's pending delivery lends nothing to a sibling that has not completed, nor to one that is verified.
#[test]
fn siblings_lend_no_authority() {
    let mut policy = aw_policy();
    policy["pools"]["default"]["profiles"]["default"]["max_claims"] = 3.into();
    let mut queue = Queue::open(&policy, &["a", "b", "c"].map(Node::new));
    let grants = queue.grant(2000, 3, 1).unwrap();
    queue.start(&grants[0], 2100).unwrap();
    queue.bind(&grants[0], 2101).unwrap();
    queue.finish(&grants[0], "completed", 2102).unwrap();
    queue.finish(&grants[2], "completed", 2103).unwrap();
    queue.result(&grants[2], 2104).unwrap();
    let child = [Node::new("child")];
    for sibling in [&grants[1], &grants[2]] {
        let refused = queue.submit(&sibling.worker(), 2200, &child);
        assert_eq!(refused.unwrap_err(), "claim_effects_unauthorized");
    }
    queue.submit(&grants[0].worker(), 2201, &child).unwrap();
}

/// S-489: doubt about one dispatch is written a bounded number of times, and its release still fits afterwards.
#[test]
fn doubt_is_written_a_bounded_number_of_times() {
    let (mut queue, grant) = granted();
    queue.start(&grant, 2100).unwrap();
    let doubt = json!({"reason": "timeout"});
    let written = (0..20).take_while(|at| mark(&mut queue, &grant, "uncertain", 2200 + at, &doubt).is_ok()).count();
    // Five attempts of reconciliation and four, less the start marker.
    assert_eq!(written, 8);
    assert_eq!(mark(&mut queue, &grant, "uncertain", 2300, &doubt).unwrap_err(), "resource_limit");
    let evidence = grant.evidence("nonlaunch", "github_api", 2400, &json!({"receipt": "r"}));
    let cancel = json!({"kind": "ClaimCancellation", "work_id": grant.work, "claim_id": grant.claim, "reason": "lost",
        "retry_not_before": 90_000});
    let release = json!({"kind": "Release", "dispatch_id": grant.dispatch, "evidence": evidence});
    queue.operate(RequestKind::Release, RECONCILER, 2400, &[cancel, release]).unwrap();
}

/// S-346, S-347, S-348: a failure needs the exact run's terminal evidence and used-up reconciliation, and its
/// disposition is what the evidence shows.
#[test]
fn failures_are_proven() {
    let (mut queue, grant) = bound();
    queue.finish(&grant, "completed", 2200).unwrap();
    let fail = |disposition: &str, more: Value| {
        queue.clone().fail(&grant, 2300, disposition, &more).err().unwrap_or_else(|| "accepted".to_owned())
    };
    assert_eq!(fail("unknown", json!({})), "reconciliation_pending");
    assert_eq!(fail("unknown", json!({"attempts": 5})), "accepted");
    assert_eq!(fail("unknown", json!({"attempts": 5, "run_id": "77"})), "evidence_invalid");
    assert_eq!(fail("unknown", json!({"attempts": 5, "source": "trusted_publisher"})), "evidence_invalid");
    assert_eq!(fail("unknown", json!({"attempts": 5, "kind": "reconciliation"})), "evidence_invalid");
    assert_eq!(fail("none", json!({"attempts": 5})), "evidence_invalid");
    assert_eq!(fail("none", json!({"attempts": 5, "effects": "none"})), "evidence_invalid");
    assert_eq!(fail("none", json!({"attempts": 5, "effects": "none", "receipt": "r"})), "accepted");
    assert_eq!(fail("partial", json!({"attempts": 5, "effects": "partial"})), "accepted");
    assert_eq!(fail("gone", json!({"attempts": 5})), "evidence_invalid");
}

/// S-295, S-296, S-297, S-306, S-308: capacity is freed once, by proof that the exact run ended or never began, after every open
/// member is closed.
#[test]
fn releases_are_proven() {
    let mut policy = aw_policy();
    policy["pools"]["default"]["profiles"]["default"]["max_claims"] = 2.into();
    let mut queue = Queue::open(&policy, &[Node::new("a"), Node::new("b"), Node::new("c")]);
    let grants = queue.grant(2000, 2, 1).unwrap();
    let mut unlaunched = queue.clone();
    queue.start(&grants[0], 2100).unwrap();
    queue.bind(&grants[0], 2101).unwrap();
    queue.finish(&grants[0], "completed", 2102).unwrap();
    assert_eq!(queue.release(&grants[0], 2200).unwrap_err(), "release_invalid");
    let release = |grant: &Grant, kind: &str, source: &str, more: &Value| json!({"kind": "Release", "dispatch_id": grant.dispatch, "evidence": grant.evidence(kind, source, 2200, more)});
    let cancel = |grant: &Grant, retry: i64| {
        json!({"kind": "ClaimCancellation", "work_id": grant.work, "claim_id": grant.claim, "reason": "run_ended",
            "retry_not_before": retry})
    };
    let ended = release(&grants[0], "terminal_run", "github_api", &json!({}));
    // Backoff counts from the evidence of this very release, not from the commit.
    let forced = queue.operate(RequestKind::Release, ADMINISTRATOR, 9000, std::slice::from_ref(&ended));
    assert_eq!(forced.unwrap_err(), "actor_unauthorized");
    let early = [cancel(&grants[1], 32_199), ended.clone()];
    assert_eq!(queue.operate(RequestKind::Release, RECONCILER, 9000, &early).unwrap_err(), "retry_invalid");
    for (kind, source, code) in [
        ("reconciliation", "github_api", "release_invalid"),
        ("delivery", "verified_receipts", "evidence_invalid"),
        ("nonlaunch", "github_api", "evidence_invalid"),
        ("terminal_run", "trusted_publisher", "evidence_invalid"),
    ] {
        let operations = [cancel(&grants[1], 60_000), release(&grants[0], kind, source, &json!({}))];
        let refused = queue.operate(RequestKind::Release, RECONCILER, 9000, &operations);
        assert_eq!(refused.unwrap_err(), code, "{kind} {source}");
    }
    queue.operate(RequestKind::Release, RECONCILER, 9000, &[cancel(&grants[1], 32_200), ended.clone()]).unwrap();
    assert_eq!(
        (queue.work("a")["state"].clone(), queue.work("b")["state"].clone()),
        ("completed".into(), "available".into())
    );
    assert_eq!(queue.operate(RequestKind::Release, RECONCILER, 9001, &[ended]).unwrap_err(), "release_invalid");
    // Before any launch the publisher's own word frees the reservation.
    let never = release(&grants[0], "prelaunch", "trusted_publisher", &json!({}));
    let operations = [cancel(&grants[0], 32_200), cancel(&grants[1], 32_200), never.clone()];
    unlaunched.operate(RequestKind::Release, RECONCILER, 9000, &operations).unwrap();
    assert_eq!(unlaunched.document()["stats"]["dispatches"], 0);
    assert_eq!(unlaunched.start(&grants[0], 9001).unwrap_err(), "dispatch_invalid");
    let (mut started, grant) = granted();
    started.start(&grant, 2100).unwrap();
    let operations = [cancel(&grant, 32_200), release(&grant, "prelaunch", "trusted_publisher", &json!({}))];
    let refused = started.operate(RequestKind::Release, RECONCILER, 9000, &operations);
    assert_eq!(refused.unwrap_err(), "evidence_invalid");
}

/// S-102, S-103: attempts are finite; the last cancelled Claim takes its Work along, in the same commit.
#[test]
fn attempts_end() {
    let mut policy = aw_policy();
    policy["pools"]["default"]["retry"] = json!({"max_attempts": 2, "backoff_ms": 1000});
    let mut queue = Queue::open(&policy, &[Node::new("a"), Node::new("b").after("a")]);
    let first = queue.grant(2000, 1, 1).unwrap().remove(0);
    queue.start(&first, 2100).unwrap();
    queue.bind(&first, 2101).unwrap();
    queue.finish(&first, "cancelled", 2102).unwrap();
    assert_eq!(queue.work("a")["retry_not_before"], 3102);
    queue.release(&first, 2103).unwrap();
    assert_eq!(queue.grant(3101, 1, 1).unwrap_err(), "no_eligible_work");
    let second = queue.grant(3102, 1, 1).unwrap().remove(0);
    assert_eq!(queue.work("a")["attempts"], 2);
    assert_eq!(queue.cancel_claim(&second, 3200, 9000).unwrap_err(), "retry_exhausted");
    queue.start(&second, 3300).unwrap();
    queue.bind(&second, 3301).unwrap();
    queue.finish(&second, "cancelled", 3302).unwrap();
    assert_eq!(queue.work("a")["state"], "cancelled");
    assert_eq!(queue.work("a")["cancellation_reason"], "attempts_exhausted");
    assert_eq!(queue.finish(&second, "cancelled", 3303).unwrap_err(), "already_finished");
}

/// S-055, S-169, S-537: cancelling Work ends its Claim and keeps its reservation; its dependents, near and
/// far, report the failed ancestor and stay.
#[test]
fn cancelled_work_fails_its_dependents() {
    let (mut queue, grant) = granted();
    queue.submit(PRODUCER, 2050, &[Node::new("c").after("b")]).unwrap();
    queue.cancel_work(ADMINISTRATOR, &grant.work, 2100).unwrap();
    assert_eq!(queue.document()["claims"][&grant.claim]["state"], "cancelled");
    assert_eq!(phase(&queue, &grant), json!(["reserved", false]));
    queue.cancel_work(ADMINISTRATOR, &grant.work, 2101).unwrap();
    let other = json!({"kind": "WorkCancellation", "work_id": grant.work, "reason": "other"});
    let refused = queue.operate(RequestKind::CancelWork, ADMINISTRATOR, 2102, &[other]);
    assert_eq!(refused.unwrap_err(), "cancellation_conflict");
    assert_eq!(queue.cancel_claim(&grant, 2103, 90_000).unwrap_err(), "cancellation_conflict");
    assert_eq!(queue.work("b")["state"], "available");
    let at = wq_action::protocol::At::new(3000).unwrap();
    let dependent = queue.state.work(&Node::new("b").id()).unwrap();
    let view = queue.state.view_work(dependent, at, None);
    assert_eq!((view.reason, view.label), ("dependency_failed", "dependency_failed"));
    assert_eq!(view.blocking_path.iter().map(|id| id.as_str()).collect::<Vec<_>>(), [grant.work.as_str()]);
    let far = queue.state.view_work(queue.state.work(&Node::new("c").id()).unwrap(), at, None);
    assert_eq!((far.label, queue.work("c")["state"].as_str()), ("dependency_failed", Some("available")));
    assert_eq!(far.blocking_path.last().unwrap().as_str(), grant.work);
    // The worker's authority is gone with its Claim.
    queue.start(&grant, 3000).unwrap();
    queue.bind(&grant, 3001).unwrap();
    assert_eq!(queue.finish(&grant, "completed", 3002).unwrap_err(), "claim_ineffective");
}

/// S-338, S-341, S-538, S-540: why a successor waits, by what became of its predecessor, whose barrier is pending, then
/// verified or failed.
#[test]
fn successors_say_why_they_wait() {
    let reason = |queue: &Queue| {
        let at = wq_action::protocol::At::new(3000).unwrap();
        queue.state.view_work(queue.state.work(&Node::new("b").id()).unwrap(), at, None).reason
    };
    let barrier = |queue: &Queue| queue.work("a")["barrier"].as_str().unwrap().to_owned();
    let (mut queue, grant) = bound();
    assert_eq!((reason(&queue), barrier(&queue).as_str()), ("dependency_result_unavailable", "none"));
    queue.finish(&grant, "completed", 2200).unwrap();
    assert_eq!((reason(&queue), barrier(&queue).as_str()), ("dependency_result_unavailable", "pending"));
    let mut failed = queue.clone();
    failed.fail(&grant, 2300, "unknown", &json!({"attempts": 5})).unwrap();
    assert_eq!((reason(&failed), barrier(&failed).as_str()), ("dependency_delivery_failed", "failed"));
    queue.result(&grant, 2300).unwrap();
    assert_eq!((reason(&queue), barrier(&queue).as_str()), ("ready", "verified"));
}

/// S-461, S-462, S-463, S-464, S-460, S-552, S-553: pauses stop admission, grants and start markers, change nothing
/// else, and leave every way to drain open.
#[test]
fn a_paused_queue_drains() {
    let (mut queue, grant) = granted();
    queue.start(&grant, 2100).unwrap();
    queue.submit(PRODUCER, 2101, &[Node::new("c"), Node::new("d")]).unwrap();
    let unstarted = queue.grant(2102, 1, 1).unwrap().remove(0);
    let before = queue.document();
    queue.control("grants_paused", &json!(true), 2103).unwrap();
    queue.control("admission_paused", &json!(true), 2104).unwrap();
    for member in ["works", "claims", "dispatches", "clocks"] {
        assert_eq!(queue.document()[member], before[member], "{member}");
    }
    assert_eq!(queue.grant(2105, 1, 1).unwrap_err(), "grants_paused");
    assert_eq!(queue.start(&unstarted, 2105).unwrap_err(), "grants_paused");
    assert_eq!(queue.submit(PRODUCER, 2105, &[Node::new("e")]).unwrap_err(), "admission_paused");
    assert_eq!(queue.submit(PRODUCER, 2105, &[Node::new("c"), Node::new("d")]).unwrap_err(), "already_submitted");
    queue.bind(&grant, 2200).unwrap();
    queue.finish(&grant, "completed", 2201).unwrap();
    queue.result(&grant, 2202).unwrap();
    queue.release(&grant, 2203).unwrap();
    for key in ["b", "c", "d"] {
        queue.cancel_work(ADMINISTRATOR, &Node::new(key).id(), 2300).unwrap();
    }
    let never = unstarted.evidence("prelaunch", "trusted_publisher", 2400, &json!({}));
    let release = json!({"kind": "Release", "dispatch_id": unstarted.dispatch, "evidence": never});
    queue.operate(RequestKind::Release, RECONCILER, 2400, &[release]).unwrap();
    assert!(queue.state.is_quiescent());
    queue.control("admission_paused", &json!(false), 2500).unwrap();
    queue.control("grants_paused", &json!(false), 2501).unwrap();
    queue.submit(PRODUCER, 2502, &[Node::new("e")]).unwrap();
    assert_eq!(nodes(&queue.grant(2503, 1, 1).unwrap()), ["e"]);
}

/// S-470, S-471: a new priority applies to future turns alone, for waiting Work, against the expected value.
#[test]
fn priorities_change_by_compare_and_set() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a"), Node::new("b")]);
    let change = |queue: &mut Queue, key: &str, actor: &str, expected: i64, priority: i64| {
        let operation = json!({"kind": "WorkPriority", "work_id": Node::new(key).id(), "priority": priority,
            "expected_priority": expected, "reason": "urgent"});
        queue.operate(RequestKind::Control, actor, 2000, &[operation])
    };
    assert_eq!(change(&mut queue, "b", PRODUCER, 3, 1).unwrap_err(), "actor_unauthorized");
    assert_eq!(change(&mut queue, "b", ADMINISTRATOR, 2, 1).unwrap_err(), "priority_conflict");
    assert_eq!(change(&mut queue, "missing", ADMINISTRATOR, 3, 1).unwrap_err(), "work_missing");
    let first = queue.grant(1500, 2, 2).unwrap();
    queue.cancel_claim(&first[0], 1600, 40_000).unwrap();
    queue.cancel_claim(&first[1], 1601, 31_601).unwrap();
    let (place, clocks) = (queue.work("b")["position"].clone(), queue.document()["clocks"].clone());
    change(&mut queue, "b", ADMINISTRATOR, 3, 1).unwrap();
    assert_eq!((&queue.work("b")["retry_not_before"], &queue.document()["clocks"]), (&json!(31_601), &clocks));
    assert_eq!(change(&mut queue, "b", ADMINISTRATOR, 3, 2).unwrap_err(), "priority_conflict");
    let work = queue.work("b");
    assert_eq!((&work["priority"], &work["effective_priority"], &work["position"]), (&json!(3), &json!(1), &place));
    let grant = queue.grant(50_000, 1, 1).unwrap().remove(0);
    assert_eq!(grant.node, "b");
    assert_eq!(change(&mut queue, "b", ADMINISTRATOR, 1, 2).unwrap_err(), "ownership_terminal");
    // Its children have the priority that it was admitted with.
    queue.complete(&grant, 50_100).unwrap();
    let child = |priority| [Node::new("child").priority(priority)];
    assert_eq!(queue.submit(&grant.worker(), 50_200, &child(1)).unwrap_err(), "child_entitlement");
    queue.submit(&grant.worker(), 50_200, &child(3)).unwrap();
}

/// S-458, S-466, S-469, S-482: the controls are these three, and a credential generation never returns.
#[test]
fn controls_are_closed() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a")]);
    assert_eq!(queue.control("weights", &json!(true), 2000).unwrap_err(), "control_invalid");
    assert_eq!(queue.control("grants_paused", &json!("yes"), 2000).unwrap_err(), "control_invalid");
    queue.control("credential_generation", &json!("g2"), 2000).unwrap();
    queue.control("credential_generation", &json!("g2"), 2001).unwrap();
    for old in ["initial", "g3", "g2"] {
        let outcome = queue.control("credential_generation", &json!(old), 2002);
        assert_eq!(outcome.is_ok(), old == "g3", "{old}");
    }
    assert_eq!(queue.document()["policy_epoch"], queue.state.installed().unwrap().epoch.as_str());
    // A control and a piece of evidence have 1 KiB; whatever else they might carry is no member of theirs.
    let mut small = aw_policy();
    small["limits"]["evidence_bytes"] = 150.into();
    let mut queue = Queue::open(&small, &[Node::new("a")]);
    let long = json!("g".repeat(150));
    assert_eq!(queue.control("credential_generation", &long, 2000).unwrap_err(), "resource_limit");
    let grant = queue.grant(2001, 1, 1).unwrap().remove(0);
    queue.start(&grant, 2002).unwrap();
    assert_eq!(queue.bind(&grant, 2003).unwrap_err(), "resource_limit");
    let body = json!({"kind": "Control", "control": "grants_paused", "value": true, "reason": "x", "response": {}});
    let refused = queue.operate(RequestKind::Control, ADMINISTRATOR, 2004, &[body]);
    assert_eq!(refused.unwrap_err(), "unsupported_protocol");
}

/// S-488, S-490, S-492, S-494, S-495, S-554: admission and grants stop where the reserve for what is open would be
/// touched, and everything that closes Work still fits. No space is made meanwhile: every request, reservation and line
/// is still there.
#[test]
fn a_full_ledger_still_drains() {
    let mut policy = aw_policy();
    policy["limits"]["ledger_bytes"] = 16_000.into();
    policy["limits"]["recovery_bytes"] = 400_000.into();
    let mut queue = Queue::open(&policy, &[Node::new("a"), Node::new("b")]);
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    let mut refused = None;
    for index in 0..100 {
        let node = Node::new(&format!("n{index}"));
        if let Err(code) = queue.submit(DISPATCHER, 2001, &[node]) {
            refused = Some(code);
            break;
        }
    }
    assert_eq!(refused.as_deref(), Some("ledger_limit"));
    assert!(queue.state.headroom() <= 400_000);
    assert_eq!(phase(&queue, &grant), json!(["reserved", false]));
    let (text, requests) = (queue.text.clone(), queue.state.requests().len());
    // Filling the ordinary budget with controls stops grants and observations, not the way out.
    while queue.state.ledger_bytes() <= 16_000 {
        queue.control("admission_paused", &json!(true), 2002).unwrap();
    }
    assert_eq!(queue.grant(2003, 1, 1).unwrap_err(), "ledger_limit");
    let observation = crate::support::built::seen("o1", 5, "closed", 2003, &json!({}));
    let observed = queue.operate(RequestKind::Observe, RECONCILER, 2003, &[observation]);
    assert_eq!(observed.unwrap_err(), "ledger_limit");
    queue.deliver(&grant, 2100).unwrap();
    let waiting: Vec<String> = queue
        .state
        .works()
        .filter(|work| work.state() == "available")
        .map(|work| work.work.work_id.as_str().to_owned())
        .collect();
    for work in waiting {
        queue.cancel_work(ADMINISTRATOR, &work, 2200).unwrap();
    }
    assert!(queue.state.is_quiescent());
    assert_eq!(queue.state.headroom(), 0);
    assert!(queue.text.starts_with(&text) && queue.state.requests().len() > requests);
    assert_eq!(queue.document()["requests"].as_object().unwrap().len(), queue.text.lines().count());
    queue.control("admission_paused", &json!(false), 2300).unwrap();
    assert_eq!(queue.submit(DISPATCHER, 2301, &[Node::new("more")]).unwrap_err(), "ledger_limit");
    let larger = json!({"kind": "Policy", "epoch": "larger", "policy": aw_policy()});
    queue.operate(RequestKind::Policy, ADMINISTRATOR, 2302, &[larger]).unwrap();
    queue.submit(DISPATCHER, 2303, &[Node::new("more")]).unwrap();
}
