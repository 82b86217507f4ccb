//! Phase deliver: lifecycle.md 11 numbers 13, 14, 15 and 18, jobs.md 12 number 15, and the tables of lifecycle.md 5 and 6.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use wq_action::delivery::export::{ERRORS_NAME, Export, namespace};
use wq_action::delivery::gate::{Ask, Frame, authorize};
use wq_action::delivery::partition::Rejected;
use wq_action::jobs::safe_outputs::Phase;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::resource_scope::{Target, TargetOrigin};
use wq_action::protocol::{Code, Fault};

use super::{NO_WRITES, PLANS, WRITES, Worker, all, finish, operations, output, phase, put_out, submit, worker};
use crate::support::jobs::Job;
use crate::support::processes::{HOST, Stage};

fn errors(job: &Job<'_>) -> Vec<(Value, Value, Value)> {
    let errors = output(job, "claim_scope_errors");
    let one = |error: &Value| (error["index"].clone(), error["claim_handle"].clone(), error["code"].clone());
    errors.as_array().unwrap().iter().map(one).collect()
}

fn result(job: &Job<'_>, handle: &str) -> Value {
    output(job, "claim_results")["claims"][handle].clone()
}

/// A worker whose Claims are all completed, with its next job.
fn completed<'s>(stage: &'s Stage, payloads: &[&str]) -> (Worker<'s>, Job<'s>) {
    let worker = worker(stage, payloads);
    let handles: Vec<String> = worker.assignment.claims.iter().map(|member| member.handle.to_string()).collect();
    let lines: Vec<Value> =
        handles.iter().map(|handle| finish(&format!("f-{handle}"), Some(handle), "completed")).collect();
    worker.finishes(&lines);
    let job = worker.safe_outputs();
    (worker, job)
}

/// S-340, S-366, S-371, O-022, O-235: Work without writes is verified before its Result; what its worker said beside is
/// attributed to it and written nowhere. The Result names the bound run, a receipt, and that nothing was written.
#[test]
fn work_without_writes_gets_its_verified_result() {
    let stage = Stage::new();
    let (worker, mut job) = completed(&stage, &[NO_WRITES]);
    put_out(&mut job, &[json!({"type": "noop", "message": "looked"}), json!({"type": "missing-tool", "tool": "x"})]);
    all(&stage, &mut job).unwrap();
    assert_eq!(worker.claims(), [("completed", "verified")]);
    assert_eq!(job.outputs.output("work_queue_outcome"), Some("completed"));
    let results = operations(&stage, "Result");
    assert_eq!(results.len(), 1);
    let outputs = json!([{"effect": "none", "type": "noop"}, {"effect": "none", "type": "missing_tool"}]);
    assert_eq!(results[0]["descriptor"], json!({"version": 1, "outputs": outputs}));
    let evidence = &results[0]["evidence"];
    assert_eq!((&evidence["kind"], &evidence["source"]), (&json!("delivery"), &json!("verified_receipts")));
    assert_eq!((&evidence["effects"], &evidence["run_id"]), (&json!("none"), &json!(worker.run.to_string())));
    assert_eq!(evidence["receipt"].as_str().unwrap().len(), 64);
    // The same once more changes nothing.
    let text = stage.text();
    let mut again = worker.safe_outputs();
    put_out(&mut again, &[]);
    all(&stage, &mut again).unwrap();
    assert_eq!(stage.text(), text);
    assert_eq!(result(&again, "h1")["state"], "result");
}

/// S-340: the Result of such Work may have an empty descriptor.
#[test]
fn an_empty_descriptor_is_a_result_too() {
    let stage = Stage::new();
    let (_, mut job) = completed(&stage, &[NO_WRITES]);
    all(&stage, &mut job).unwrap();
    assert_eq!(operations(&stage, "Result")[0]["descriptor"], json!({"version": 1, "outputs": []}));
}

/// S-339, S-367, S-401: a Claim whose only outputs are queue controls is verified from the ledger: the control is published
/// after the Completion and before the Result, which names it.
#[test]
fn queue_controls_are_delivered_from_the_ledger() {
    let stage = Stage::new();
    let (worker, mut job) = completed(&stage, &[PLANS]);
    worker.intents(&[submit("i1", None, "child")]);
    job.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &super::control_config());
    all(&stage, &mut job).unwrap();
    assert_eq!(worker.claims(), [("completed", "verified")]);
    let results = operations(&stage, "Result");
    let output = &results[0]["descriptor"]["outputs"][0];
    assert_eq!((&output["type"], &output["resource"]["kind"]), (&json!("work_queue_submit"), &json!("queue_commit")));
    assert_eq!(output["evidence"]["writes"], json!({"works": 1, "claims": 0, "dispatches": 0}));
    assert_eq!(output["evidence"]["commit_id"], output["resource"]["id"]);
    assert_eq!(results[0]["evidence"]["effects"], "partial");
    let text = stage.text();
    let order: Vec<usize> = ["\"kind\":\"Completion\"", "\"node_key\":\"child\"", "\"kind\":\"Result\""]
        .map(|part| text.lines().position(|line| line.contains(part)).unwrap())
        .to_vec();
    assert!(order.is_sorted(), "{order:?}");
    // The child inherits where its parent stands.
    let queue = stage.queue();
    let parent = &queue.projection.work(worker.assignment.claims[0].work_id.as_str()).unwrap().work;
    let child = queue.projection.works().last().unwrap();
    assert_eq!((&child.work.graph_id, &child.work.fairness_key), (&parent.graph_id, &parent.fairness_key));
}

/// S-339, S-407: a control that was staged and not committed proves nothing, and neither does one that was committed and
/// whose intent was lost: delivery stays pending.
#[test]
fn a_control_that_cannot_be_matched_proves_nothing() {
    for lost in [false, true] {
        let stage = Stage::new();
        let (worker, mut job) = completed(&stage, &[PLANS]);
        worker.intents(&[submit("i1", None, "child")]);
        phase(&stage, &mut job, Phase::Settle).unwrap();
        if lost {
            job.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &super::control_config());
            phase(&stage, &mut job, Phase::Controls).unwrap();
            worker.intents(&[]);
        }
        let mut job = worker.safe_outputs();
        let error = phase(&stage, &mut job, Phase::Deliver).unwrap_err();
        let code = if lost { Code::EffectContractInvalid } else { Code::QueueControlNotCommitted };
        assert_eq!(error.code(), code);
        assert_eq!(result(&job, "h1")["state"], "pending");
        assert_eq!(worker.claims(), [("completed", "pending")]);
        assert!(operations(&stage, "Result").is_empty());
    }
}

/// lifecycle.md 11.18. S-407: a control that is committed after the inventory was read makes the proof void; nothing is
/// published on it.
#[test]
fn lifecycle_18_a_control_after_the_inventory_voids_the_proof() {
    use wq_action::delivery::verify::{Inspection, StagedControl, inspect};
    let stage = Stage::new();
    let optional = PLANS.replace("\"min\":1", "\"min\":0");
    let (worker, mut job) = completed(&stage, &[&optional]);
    phase(&stage, &mut job, Phase::Settle).unwrap();
    let queue = stage.queue();
    let dispatch = queue.projection.dispatch(worker.assignment.dispatch_id.as_str()).unwrap();
    let run = dispatch.run.clone().unwrap();
    let frame = Frame::enter(&worker.assignment, "h1", &run).unwrap();
    let share = wq_action::delivery::partition::Share {
        handle: worker.assignment.claims[0].handle.clone(),
        messages: Vec::new(),
        disputed: false,
    };
    let controls: [Result<StagedControl, Code>; 0] = [];
    let mut scanner = Scanner::new(HOST);
    let inspection = Inspection { frame, share: &share, controls: &controls };
    let proof = inspect(&queue.projection, &inspection, &mut scanner).unwrap();
    proof.check(&queue.projection, &frame, &mut scanner).unwrap();
    worker.intents(&[submit("i1", None, "child")]);
    job.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &super::control_config());
    phase(&stage, &mut job, Phase::Controls).unwrap();
    let refused = proof.check(&stage.queue().projection, &frame, &mut scanner).unwrap_err();
    assert_eq!(refused.code(), Code::WorkQueueControlInventoryChanged);
}

/// S-366, S-397, S-398, S-411, O-239: Results are each Claim's own. What needs a writer stays pending with a reason, nothing
/// of it is executed, and its siblings are settled; the step fails at the end.
#[test]
fn what_needs_a_writer_stays_pending() {
    let stage = Stage::new();
    let (worker, mut job) = completed(&stage, &[NO_WRITES, WRITES]);
    put_out(
        &mut job,
        &[
            json!({"type": "noop", "claim_handle": "h1"}),
            json!({"type": "create_issue", "claim_handle": "h2", "title": "t"}),
        ],
    );
    let calls = |stage: &Stage| stage.github.log().iter().filter(|call| call.method != "GET").count();
    let before = calls(&stage);
    let error = all(&stage, &mut job).unwrap_err();
    assert_eq!(error.code(), Code::DeliveryVerifierRequired);
    assert_eq!(worker.claims(), [("completed", "verified"), ("completed", "pending")]);
    let pending = result(&job, "h2");
    assert_eq!((&pending["state"], &pending["reason"]), (&json!("pending"), &json!("verification_unavailable")));
    assert!(pending["explanation"].as_str().unwrap().contains("nothing was executed"));
    assert_eq!(job.outputs.output("work_queue_outcome"), Some("delivery_pending"));
    assert_eq!(calls(&stage), before, "nothing was written on GitHub");
    assert!(operations(&stage, "DeliveryFailure").is_empty());
}

/// lifecycle.md 11.13. S-372, S-375, O-236, O-237: with two original Claims a message without handle is refused, also when one
/// of them is settled already.
#[test]
fn lifecycle_13_one_settled_member_makes_no_selector_optional() {
    let stage = Stage::new();
    let worker = worker(&stage, &[NO_WRITES, NO_WRITES]);
    worker.finishes(&[finish("f1", Some("h1"), "completed"), finish("f2", Some("h2"), "cancelled")]);
    let mut job = worker.safe_outputs();
    put_out(&mut job, &[json!({"type": "noop"})]);
    let error = all(&stage, &mut job).unwrap_err();
    assert_eq!(error.code(), Code::ClaimScopeRequired);
    assert_eq!(errors(&job), [(json!(0), Value::Null, json!("claim_scope_required"))]);
    assert_eq!(worker.claims(), [("completed", "verified"), ("cancelled", "none")]);
}

/// lifecycle.md 11.14. S-371, S-373, S-374, S-376, S-377, S-379, S-382, S-397, O-235, O-238: a sole Claim is attached; null and
/// everything else that is wrong is refused with its place, and never repaired.
#[test]
fn lifecycle_14_a_null_handle_is_no_absent_one() {
    for (message, code) in [
        (json!({"type": "noop"}), None),
        (json!({"type": "noop", "claim_handle": "h1"}), None),
        (json!({"type": "noop", "claim_handle": null}), Some("claim_scope_invalid")),
        (json!({"type": "noop", "claim_handle": ""}), Some("claim_scope_invalid")),
        (json!({"type": "noop", "claim_handle": "h2"}), Some("claim_scope_invalid")),
        (json!({"type": "noop", "claim_id": "other"}), Some("claim_scope_invalid")),
        (json!({"type": "noop", "authorized": true}), Some("claim_scope_invalid")),
        (json!({"type": "noop", "run_id": "7"}), Some("claim_scope_invalid")),
        (json!({"type": "brand_new_type", "claim_handle": null}), Some("claim_scope_invalid")),
        (json!({"type": "approve_workflow_run", "run_id": "7", "assignment": {}}), Some("claim_scope_invalid")),
        (json!(["noop"]), Some("claim_scope_invalid")),
        (json!({"type": "work_queue_submit", "nodes": []}), Some("claim_control_delivery_invalid")),
        (json!({"type": "dispatch_workflow", "workflow": "worker"}), Some("claim_scope_invalid")),
    ] {
        let stage = Stage::new();
        let (worker, mut job) = completed(&stage, &[NO_WRITES]);
        put_out(&mut job, std::slice::from_ref(&message));
        let done = all(&stage, &mut job);
        match code {
            None => {
                done.unwrap();
                assert_eq!(worker.claims(), [("completed", "verified")], "{message}");
            }
            Some(code) => {
                assert_eq!(done.unwrap_err().code().as_str(), code, "{message}");
                assert_eq!(errors(&job)[0].2, code);
                // What is nobody's disputes nobody.
                let disputed = errors(&job)[0].1 != Value::Null;
                let barrier = if disputed { "pending" } else { "verified" };
                assert_eq!(worker.claims(), [("completed", barrier)], "{message}");
            }
        }
    }
}

/// lifecycle.md 11.15. S-370, S-391, S-392, S-393, S-398: counts hold for each Claim: a sibling's output satisfies nobody
/// else's minimum, an excess is the excess of its Claim alone, and a silent Claim is looked at too.
#[test]
fn lifecycle_15_counts_hold_for_each_claim() {
    let stage = Stage::new();
    let (worker, mut job) = completed(&stage, &[NO_WRITES, NO_WRITES, NO_WRITES]);
    job.set("GH_AW_SAFE_OUTPUTS_HANDLER_CONFIG", r#"{"noop":{"min":1,"max":2},"github-token":"x"}"#);
    let noop = |handle: &str| json!({"type": "noop", "claim_handle": handle});
    put_out(&mut job, &[noop("h1"), noop("h1"), noop("h1"), noop("h2")]);
    let error = all(&stage, &mut job).unwrap_err();
    assert_eq!(error.code(), Code::ClaimOutputCount);
    let count = json!("claim_output_count");
    assert_eq!(errors(&job), [(json!(2), json!("h1"), count.clone()), (Value::Null, json!("h3"), count)]);
    assert_eq!(worker.claims(), [("completed", "pending"), ("completed", "verified"), ("completed", "pending")]);
    let messages = output(&job, "claim_scope_errors");
    assert!(messages[0]["message"].as_str().unwrap().contains("at most 2"));
    assert!(messages[1]["message"].as_str().unwrap().contains("at least 1 are required, 0 were found"));
}

/// lifecycle.md 11.16. S-388, S-389, S-390: a reference to a sibling's temporary id is refused, and the sibling goes on.
#[test]
fn lifecycle_16_temporary_ids_are_a_claims_own() {
    let stage = Stage::new();
    let (worker, mut job) = completed(&stage, &[NO_WRITES, NO_WRITES]);
    put_out(
        &mut job,
        &[
            json!({"type": "noop", "claim_handle": "h2", "temporary_id": "aw_abc"}),
            json!({"type": "noop", "claim_handle": "h1", "body": "see #AW_abc."}),
        ],
    );
    assert_eq!(all(&stage, &mut job).unwrap_err().code(), Code::ClaimScopeInvalid);
    assert_eq!(errors(&job), [(json!(1), json!("h1"), json!("claim_scope_invalid"))]);
    assert_eq!(worker.claims(), [("completed", "pending"), ("completed", "verified")]);
}

/// S-384, S-385, S-404, S-405, S-406, O-243: a handle opens nothing by itself. A cancelled Claim's outputs are suppressed, an
/// open one's refused, and a sibling's Completion lends nothing.
#[test]
fn only_a_completed_claim_delivers() {
    let stage = Stage::new();
    let worker = worker(&stage, &[NO_WRITES, NO_WRITES, NO_WRITES]);
    worker.finishes(&[
        finish("f1", Some("h1"), "completed"),
        finish("f2", Some("h2"), "cancelled"),
        finish("f3", Some("h3"), "completed"),
        finish("f4", Some("h3"), "cancelled"),
    ]);
    let mut job = worker.safe_outputs();
    let noop = |handle: &str| json!({"type": "noop", "claim_handle": handle});
    put_out(&mut job, &[noop("h1"), noop("h2"), noop("h3")]);
    assert_eq!(all(&stage, &mut job).unwrap_err().code(), Code::ClaimNotAuthorized);
    let suppressed = ["h1", "h2", "h3"].map(|handle| result(&job, handle)["suppressed"].as_i64().unwrap());
    assert_eq!(suppressed, [0, 1, 1]);
    let success = ["h1", "h2", "h3"].map(|handle| result(&job, handle)["success"].as_bool().unwrap());
    assert_eq!(success, [true, true, false]);
    assert_eq!(worker.claims(), [("completed", "verified"), ("cancelled", "none"), ("open", "none")]);
    assert_eq!(job.outputs.output("work_queue_outcome"), Some("blocked"));
}

/// S-369, S-380, S-383, S-396: the gate asks the ledger, for this Claim and this target: the Work's own scope, the profile's
/// repository, and no message of a sibling, whatever the environment says.
#[test]
fn the_gate_asks_the_ledger_for_each_target() {
    let stage = Stage::new();
    let id = stage.github.repository_id("octo/widgets");
    let scope = format!(
        r#"{{"effect_contract":{{"outputs":[{{"max":1,"min":0,"type":"create_issue"}}],"version":1}},"resource_scope":{{"version":1,"resources":[{{"host":"github.com","repository":"octo/widgets","repository_id":"{id}"}}]}},"task":"scoped"}}"#
    );
    let (worker, mut job) = completed(&stage, &[&scope, NO_WRITES]);
    phase(&stage, &mut job, Phase::Settle).unwrap();
    let queue = stage.queue();
    let run = queue.projection.dispatch(worker.assignment.dispatch_id.as_str()).unwrap().run.clone().unwrap();
    let mut scanner = Scanner::new(HOST);
    let mut ask = |handle: &str, target: Option<&str>, staged: bool| -> Result<(), Code> {
        let frame = Frame::enter(&worker.assignment, handle, &run).unwrap();
        let target = target.map(|text| Target::parse(&mut Scanner::new(HOST), &text.to_owned().into()).unwrap());
        let target = target.as_ref().map(|target| (target, TargetOrigin::Described));
        let ask = Ask { message: None, target, effect: true, staged };
        authorize(&queue.projection, &frame, &ask, &mut scanner).map(drop).map_err(|fault| fault.code())
    };
    let own = format!(r#"{{"host":"github.com","repository":"octo/widgets","repository_id":"{id}"}}"#);
    assert_eq!(ask("h1", Some(&own), false), Ok(()));
    assert_eq!(ask("h1", Some(&own), true), Err(Code::ClaimNotAuthorized), "a preview writes nothing");
    assert_eq!(ask("h1", None, false), Err(Code::ClaimNotAuthorized), "a write has a target");
    assert_eq!(ask("h1", Some(r#"{"repository":"octo/other"}"#), false), Err(Code::WorkQueueEffectScopeDenied));
    let narrower = own.replace(r#""host""#, r#""path":"a","host""#);
    assert_eq!(ask("h1", Some(&narrower), false), Err(Code::ClaimScopeInvalid), "no path was named");
    assert_eq!(ask("h2", Some(&own), false), Err(Code::ClaimNotAuthorized), "Work without writes");
    assert_eq!(
        Frame::enter(&worker.assignment, "h3", &run).map(drop).map_err(|fault| fault.code()),
        Err(Code::ClaimScopeInvalid)
    );
}

/// S-383, S-397: a message that names another repository than the profile's is refused for its Claim.
#[test]
fn a_foreign_repository_is_denied() {
    let stage = Stage::new();
    let (worker, mut job) = completed(&stage, &[WRITES]);
    put_out(&mut job, &[json!({"type": "create_issue", "title": "t", "target-repo": "octo/other"})]);
    assert_eq!(all(&stage, &mut job).unwrap_err().code(), Code::WorkQueueEffectScopeDenied);
    assert_eq!(worker.claims(), [("completed", "pending")]);
}

/// S-370: the Work's immutable contract is a second check beside the workflow's counts.
#[test]
fn the_effect_contract_is_checked_apart_from_counts() {
    let stage = Stage::new();
    let (worker, mut job) = completed(&stage, &[WRITES, r#"{"task":"says nothing"}"#]);
    put_out(&mut job, &[json!({"type": "noop", "claim_handle": "h1"})]);
    all(&stage, &mut job).unwrap_err();
    for (handle, code) in [("h1", "effect_contract_invalid"), ("h2", "delivery_contract_required")] {
        let pending = result(&job, handle);
        assert_eq!((&pending["reason"], &pending["code"]), (&json!("effect_contract_invalid"), &json!(code)));
    }
    assert_eq!(worker.claims(), [("completed", "pending"), ("completed", "pending")]);
}

/// A named file of messages that is not there is lost: nothing is made up for it, whatever was completed before.
#[test]
fn lost_messages_prove_nothing() {
    let stage = Stage::new();
    let (worker, mut job) = completed(&stage, &[NO_WRITES]);
    job.set("GH_AW_AGENT_OUTPUT", job.folder().join("lost.json").to_str().unwrap().to_owned().as_str());
    assert_eq!(all(&stage, &mut job).unwrap_err().code(), Code::DeliveryVerifierRequired);
    assert_eq!(result(&job, "h1")["reason"], "verification_unavailable");
    assert_eq!(worker.claims(), [("completed", "pending")]);
}

/// S-394, S-395: only the explicit switch turns anything on. Without it no phase touches a file, asks the host, or sets an
/// output, whatever role, snapshot and messages lie around.
#[test]
fn without_the_switch_nothing_happens() {
    for switch in [None, Some("True"), Some("1")] {
        let stage = Stage::new();
        let (worker, mut job) = completed(&stage, &[NO_WRITES]);
        put_out(&mut job, &[json!({"type": "noop", "claim_handle": null})]);
        let file = std::fs::read(job.folder().join("agent_output.json")).unwrap();
        job.unset("GH_AW_WORK_QUEUE_ENABLED");
        if let Some(switch) = switch {
            job.set("GH_AW_WORK_QUEUE_ENABLED", switch);
        }
        let calls = stage.github.log().len();
        all(&stage, &mut job).unwrap();
        assert_eq!(stage.github.log().len(), calls);
        assert!(job.outputs.outputs.is_empty() && job.outputs.summaries.is_empty() && job.outputs.errors.is_empty());
        assert_eq!(std::fs::read(job.folder().join("agent_output.json")).unwrap(), file);
        assert_eq!(worker.claims(), [("open", "none")]);
    }
}

/// S-399, S-400, S-517, O-225: a dispatcher without assignment puts nothing out but staged controls; an observer's ordinary
/// messages are left alone, and its controls refused.
#[test]
fn a_dispatcher_has_no_safe_outputs_and_an_observer_no_controls() {
    let stage = Stage::with_works(1);
    let mut dispatcher = Job::new(&stage, stage.shift().run, "dispatcher");
    dispatcher.perform(wq_action::jobs::activation::run).unwrap();
    put_out(&mut dispatcher, &[json!({"type": "create_issue", "title": "t"}), json!({"type": "noop"})]);
    assert_eq!(phase(&stage, &mut dispatcher, Phase::Deliver).unwrap_err().code(), Code::ClaimScopeInvalid);
    assert_eq!(errors(&dispatcher).len(), 2);
    assert_eq!(dispatcher.outputs.output("work_queue_outcome"), Some("unassigned"));
    let mut observer = Job::new(&stage, stage.shift().run, "observer");
    observer.perform(wq_action::jobs::activation::run).unwrap();
    put_out(&mut observer, &[json!({"type": "create_issue", "title": "t", "claim_handle": null})]);
    all(&stage, &mut observer).unwrap();
    assert_eq!(errors(&observer), []);
    put_out(&mut observer, &[json!({"type": "work_queue_submit"})]);
    assert_eq!(phase(&stage, &mut observer, Phase::Deliver).unwrap_err().code(), Code::ClaimScopeInvalid);
}

/// lifecycle.md 11.7 for effects: a later attempt delivers nothing. O-234.
#[test]
fn lifecycle_07_a_later_attempt_delivers_nothing() {
    let stage = Stage::new();
    let (worker, mut job) = completed(&stage, &[NO_WRITES]);
    phase(&stage, &mut job, Phase::Settle).unwrap();
    stage.github.complete_run(worker.run, "failure");
    stage.github.rerun(worker.run, stage.github.account_id("wim"));
    stage.github.start_run(worker.run);
    for attempt in ["1", "2"] {
        job.set("GITHUB_RUN_ATTEMPT", attempt);
        let error = phase(&stage, &mut job, Phase::Deliver).unwrap_err();
        assert_eq!(error.code(), Code::RerunNotAuthorized, "attempt {attempt}");
    }
    assert_eq!(worker.claims(), [("completed", "pending")]);
}

/// jobs.md 12.15, S-496: the folder of a Claim is private and its own; a link anywhere on the way is refused, a link in place
/// of the file is replaced and not followed, and where redaction fails nothing is left to upload. Nothing reads it back.
#[test]
fn jobs_15_claim_exports_stay_in_their_folder() {
    let stage = Stage::new();
    let (worker, mut job) = completed(&stage, &[NO_WRITES]);
    put_out(&mut job, &[json!({"type": "noop", "claim_handle": "h1", "x": 1}), json!({"type": "work_queue_submit"})]);
    all(&stage, &mut job).unwrap_err();
    let member = &worker.assignment.claims[0];
    let folder = job.folder().join("claims").join(namespace(&worker.assignment, member).as_str());
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&folder.join(ERRORS_NAME))), (0o700, 0o600));
    let written: Value = serde_json::from_slice(&std::fs::read(folder.join(ERRORS_NAME)).unwrap()).unwrap();
    assert_eq!(written[0]["category"], "claim_control_delivery_invalid");
    assert_eq!((&written[0]["claim_id"], &written[0]["index"]), (&json!(member.claim_id.as_str()), &json!(1)));
    assert!(!folder.join("delivery-receipt.json").exists());
    let rejected = Rejected {
        index: Some(0),
        output: Some("noop".to_owned()),
        handle: Some(member.handle.clone()),
        fault: Fault::new(Code::ClaimScopeInvalid, "x".repeat(5000)),
    };
    let plain = |text: &str| Ok(text.to_owned());
    let base = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let export = Export::open(base.path(), &worker.assignment, member).unwrap();
    // A link in the file's place.
    std::os::unix::fs::symlink(outside.path().join("stolen"), export.folder().join(ERRORS_NAME)).unwrap();
    export.errors(&worker.assignment, member, &[&rejected], &plain).unwrap();
    assert!(!outside.path().join("stolen").exists());
    let text = std::fs::read_to_string(export.folder().join(ERRORS_NAME)).unwrap();
    assert!(text.len() < 2048, "messages are cut to 1 KiB");
    let failing = |_: &str| Err(Fault::from(Code::Internal));
    export.errors(&worker.assignment, member, &[&rejected], &failing).unwrap_err();
    assert!(!export.folder().join(ERRORS_NAME).exists(), "no redaction, no file");
    // What was left for people to look at is nothing that the queue reads.
    let text = stage.text();
    std::fs::remove_dir_all(job.folder().join("claims")).unwrap();
    all(&stage, &mut job).unwrap_err();
    assert_eq!(stage.text(), text);
    for part in ["claims", "claims/x"] {
        let base = tempfile::tempdir().unwrap();
        let place = part.replace('x', namespace(&worker.assignment, member).as_str());
        if part != "claims" {
            std::fs::create_dir(base.path().join("claims")).unwrap();
        }
        std::os::unix::fs::symlink(outside.path(), base.path().join(place)).unwrap();
        let refused = Export::open(base.path(), &worker.assignment, member).map(drop).unwrap_err();
        assert_eq!(refused.code(), Code::IoFailed, "{part}");
    }
}

/// S-355: neither payloads nor messages reach the ledger through a Result, the outputs or the summary.
#[test]
fn messages_and_payloads_are_told_nowhere() {
    let stage = Stage::new();
    let secret = "s3cret-payload";
    let payload = NO_WRITES.replace("look", secret);
    let (_, mut job) = completed(&stage, &[&payload]);
    put_out(
        &mut job,
        &[
            json!({"type": "noop", "message": "s3cret-message"}),
            json!({"type": "noop", "claim_handle": "s3cret-handle"}),
        ],
    );
    all(&stage, &mut job).unwrap_err();
    let told = format!("{:?}{:?}{:?}", job.outputs.outputs, job.outputs.summaries, job.outputs.errors);
    for word in [secret, "s3cret-message", "s3cret-handle"] {
        assert!(!told.contains(word), "{word}");
    }
    assert!(!operations(&stage, "Result")[0].to_string().contains("s3cret"));
}
