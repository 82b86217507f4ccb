//! Controls of workers: what a Claim's worker may still plan and grant, and when (lifecycle.md 5.10, jobs.md 5.3.5).

use serde_json::json;
use wq_action::jobs::safe_outputs::Phase;
use wq_action::protocol::Code;

use super::{NO_WRITES, PLANS, all, control_config, dispatch_next, finish, operations, output, phase, submit, worker};
use crate::support::processes::Stage;

/// S-401, O-243: a fresh control needs its own Claim's Completion with delivery pending; a sibling's lends nothing, and a
/// cancelled or open Claim controls nothing.
#[test]
fn a_control_needs_its_own_pending_completion() {
    let stage = Stage::new();
    let worker = worker(&stage, &[PLANS, PLANS]);
    worker.finishes(&[finish("f1", Some("h1"), "completed"), finish("f2", Some("h2"), "cancelled")]);
    worker.intents(&[
        submit("i1", Some("h1"), "a"),
        submit("i2", Some("h2"), "b"),
        submit("i3", None, "c"),
        submit("i4", Some("h9"), "d"),
    ]);
    let mut job = worker.safe_outputs();
    job.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &control_config());
    phase(&stage, &mut job, Phase::Controls).unwrap_err();
    assert!(operations(&stage, "Work").iter().all(|work| work["graph_id"] != "a"), "nothing before the Completion");
    let before = operations(&stage, "Work").len();
    let mut job = job.next();
    all(&stage, &mut job).unwrap_err();
    let codes: Vec<_> = output(&job, "work_queue_requests")["receipts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|receipt| receipt["code"].as_str().unwrap_or("-").to_owned())
        .collect();
    assert_eq!(codes, ["-", "claim_effects_unauthorized", "claim_scope_required", "claim_scope_invalid"]);
    assert_eq!(operations(&stage, "Work").len(), before + 1);
    assert_eq!(worker.claims()[0], ("completed", "verified"));
}

/// S-402, jobs.md 5.3.5: after its Result a control that was accepted is only acknowledged; a fresh one is refused, and a
/// grant starts nothing more.
#[test]
fn after_the_result_controls_are_acknowledged_alone() {
    let stage = Stage::new();
    let grants = r#"{"effect_contract":{"outputs":[{"max":1,"min":1,"type":"work_queue_dispatch_next"}],"version":1}}"#;
    let worker = worker(&stage, &[grants]);
    worker.finishes(&[finish("f1", None, "completed")]);
    let shift = stage.shift();
    stage.process(&shift).submit(&stage.submission("more", 1)).unwrap();
    let mut intent = dispatch_next("g1", 1);
    worker.intents(std::slice::from_ref(&intent));
    let mut job = worker.safe_outputs();
    job.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &control_config());
    all(&stage, &mut job).unwrap();
    let first = output(&job, "work_queue_requests")["receipts"][0].clone();
    assert_eq!((&first["status"], &first["launches"][0]["state"]), (&json!("durable"), &json!("bound")));
    assert_eq!(first["control"]["writes"], json!({"works": 0, "claims": 1, "dispatches": 1}));
    assert_eq!(worker.claims(), [("completed", "verified")]);
    let text = stage.text();
    let mut job = job.next();
    phase(&stage, &mut job, Phase::Controls).unwrap();
    let again = output(&job, "work_queue_requests")["receipts"][0].clone();
    assert_eq!(
        (&again["acknowledgement_only"], &again["recovered"], &again["launches"]),
        (&json!(true), &json!(true), &json!([]))
    );
    assert_eq!((&again["commit_id"], &again["control"]), (&first["commit_id"], &first["control"]));
    intent["intent_id"] = "g2".into();
    worker.intents(&[intent]);
    let mut job = job.next();
    assert_eq!(phase(&stage, &mut job, Phase::Controls).unwrap_err().code(), Code::ClaimEffectsUnauthorized);
    assert_eq!(stage.text(), text);
}

/// jobs.md 5.3.5 step 6: a worker grants in its own pool alone.
#[test]
fn a_worker_grants_in_its_own_pool() {
    let stage = Stage::new();
    let worker = worker(&stage, &[NO_WRITES]);
    worker.finishes(&[finish("f1", None, "completed")]);
    let mut intent = dispatch_next("g1", 1);
    intent["parameters"]["pool"] = "other".into();
    worker.intents(&[intent]);
    let mut job = worker.safe_outputs();
    job.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &control_config());
    phase(&stage, &mut job, Phase::Settle).unwrap();
    let error = phase(&stage, &mut job, Phase::Controls).unwrap_err();
    assert_eq!(error.code(), Code::WorkQueueControlPoolNotAuthorized);
}

/// S-402, engine.md 3.12.2: a control's receipt and its digest read the same after a compaction.
#[test]
fn control_receipts_survive_compaction() {
    let stage = Stage::new();
    let worker = worker(&stage, &[PLANS]);
    worker.finishes(&[finish("f1", None, "completed")]);
    worker.intents(&[submit("i1", None, "child")]);
    let mut job = worker.safe_outputs();
    job.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &control_config());
    phase(&stage, &mut job, Phase::Settle).unwrap();
    phase(&stage, &mut job, Phase::Controls).unwrap();
    let before = output(&job, "work_queue_requests")["receipts"][0]["control"].clone();
    stage.compact();
    let mut job = job.next();
    phase(&stage, &mut job, Phase::Controls).unwrap();
    assert_eq!(output(&job, "work_queue_requests")["receipts"][0]["control"], before);
    phase(&stage, &mut job, Phase::Deliver).unwrap();
    assert_eq!(worker.claims(), [("completed", "verified")]);
}

/// O-234: a later attempt of a worker controls nothing, whatever it staged.
#[test]
fn a_later_attempt_controls_nothing() {
    let stage = Stage::new();
    let worker = worker(&stage, &[PLANS]);
    worker.finishes(&[finish("f1", None, "completed")]);
    worker.intents(&[submit("i1", None, "child")]);
    phase(&stage, &mut worker.safe_outputs(), Phase::Settle).unwrap();
    stage.github.complete_run(worker.run, "failure");
    stage.github.rerun(worker.run, stage.github.account_id("wim"));
    stage.github.start_run(worker.run);
    let text = stage.text();
    for attempt in ["1", "2"] {
        let mut job = worker.safe_outputs();
        job.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &control_config()).set("GITHUB_RUN_ATTEMPT", attempt);
        let error = phase(&stage, &mut job, Phase::Controls).unwrap_err();
        assert_eq!(error.code(), Code::RerunNotAuthorized, "attempt {attempt}");
    }
    assert_eq!(stage.text(), text);
}
