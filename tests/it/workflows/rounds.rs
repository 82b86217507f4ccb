//! Whole rounds: a dispatcher plans, workers carry out, the next dispatcher sees what became of it.

use serde_json::json;

use super::{Scene, Setting, completes, node, plans};

/// The first submission makes the queue, its worker completes its Claim, and the next dispatcher frees the reservation.
#[test]
fn a_round_from_an_empty_repository() {
    let Some(scene) = Scene::new(&Setting::default()) else { return };
    scene.agent("dispatcher", plans(&[node("one")], 1, 1)).agent("worker", completes());
    let first = scene.dispatcher();
    first.succeeded();
    let receipts = first.job("safe_outputs").json("work_queue_controls", "work_queue_requests");
    assert_eq!(receipts["summary"]["durable_requests"], 2, "{receipts:#}");
    let worker = scene.execute(scene.the_worker());
    worker.succeeded();
    assert_eq!(worker.job("safe_outputs").outputs["work_queue_outcome"], "completed");
    assert_eq!(scene.operations("Result").len(), 1);
    assert_eq!(scene.operations("Release").len(), 0);

    scene.agent("dispatcher", plans(&[], 1, 1));
    let second = scene.dispatcher();
    second.succeeded();
    assert_eq!(scene.operations("Release").len(), 1, "{second:#?}");
    assert!(scene.waiting().is_empty());
    assert!(second.job("conclusion").summary.contains("Work queue activity"), "{second:#?}");
    scene.sound();
}

/// lifecycle.md 11, 12 and 23, through whole workflows. One assignment of three Claims: one completed, one cancelled, one
/// that nobody finished.
#[test]
fn claims_of_one_assignment_end_apart() {
    let Some(scene) = Scene::new(&Setting { claims: 4, ..Setting::default() }) else { return };
    scene.agent("dispatcher", plans(&[node("a"), node("b"), node("c")], 3, 1));
    scene.dispatcher().succeeded();
    scene.agent(
        "worker",
        json!([
            {"call": "work_queue_claim_finish", "with": {"outcome": "completed"}, "refused": "claim"},
            {"call": "work_queue_claim_finish", "with": {"claim_handle": "$0", "outcome": "completed", "keep_open": true}},
            {"call": "work_queue_claim_finish", "with": {"claim_handle": "$1", "outcome": "cancelled"}},
            {"call": "work_queue_claim_finish", "with": {"claim_handle": "$1", "outcome": "completed"}, "refused": "conflict"},
        ]),
    );
    let worker = scene.execute(scene.the_worker());
    worker.succeeded();
    let outputs = worker.job("safe_outputs");
    let settled = outputs.json("work_queue_claim_reconciliation", "claim_authorizations");
    assert_eq!(settled["status"], "completed_with_cancellations", "{settled:#}");
    assert_eq!(outputs.outputs["work_queue_outcome"], "completed_with_cancellations");
    let completions = scene.operations("Completion");
    assert_eq!((completions.len(), &completions[0]["keep_open"]), (1, &json!(true)));
    assert_eq!((scene.operations("ClaimCancellation").len(), scene.operations("Result").len()), (2, 1));
    scene.sound();
}

/// A Claim whose output needs a writer stays pending with its reason, and its sibling gets its Result.
#[test]
fn a_pending_claim_does_not_keep_its_sibling() {
    let Some(scene) = Scene::new(&Setting { claims: 4, ..Setting::default() }) else { return };
    let mut writes = node("b");
    let one = json!({"max": 1, "min": 1, "type": "create_issue"});
    writes["payload"] = json!({"task": "b", "effect_contract": {"version": 1, "outputs": [one]}});
    scene.agent("dispatcher", plans(&[node("a"), writes], 2, 1));
    scene.dispatcher().succeeded();
    scene.agent(
        "worker",
        json!([
            {"output": {"type": "create_issue", "title": "t", "body": "b", "claim_handle": "$1"}},
            {"each": [{"call": "work_queue_claim_finish", "with": {"claim_handle": "$HANDLE", "outcome": "completed"}}]},
        ]),
    );
    let worker = scene.execute(scene.the_worker());
    let outputs = worker.job("safe_outputs");
    assert_eq!(outputs.step("process_safe_outputs").outcome, "failure", "{worker:#?}");
    assert_eq!(outputs.step("process_safe_outputs").outputs["work_queue_outcome"], "delivery_pending");
    assert_eq!((scene.operations("Completion").len(), scene.operations("Result").len()), (2, 1));
    assert!(outputs.annotations.iter().any(|line| line.starts_with("::error")), "{outputs:#?}");
    scene.sound();
}

/// Two dispatchers at once: each admits its Work and starts one worker, and nothing is sent twice.
#[test]
fn two_dispatchers_at_once() {
    let Some(scene) = Scene::new(&Setting::default()) else { return };
    scene.agent("dispatcher", plans(&[node("first")], 1, 1));
    scene.dispatcher().succeeded();
    let own = |key: &str| {
        let mut steps = plans(&[node("x")], 1, 1);
        steps[0]["with"]["nodes"][0]["node_key"] = json!(key);
        steps
    };
    scene.agent("dispatcher", own("$RUN"));
    let (one, other) = (scene.start(), scene.start());
    std::thread::scope(|scope| {
        let both = [one, other].map(|run| {
            scope.spawn({
                let scene = &scene;
                move || scene.execute(run)
            })
        });
        for ran in both {
            ran.join().unwrap().succeeded();
        }
    });
    assert_eq!((scene.waiting().len(), scene.operations("Claim").len()), (3, 3));
    scene.sound();
    assert_eq!(scene.settle(), 3);
}
