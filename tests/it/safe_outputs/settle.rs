//! Phase settle: jobs.md 12 number 11, lifecycle.md 11 numbers 7 and 12, and the tables of lifecycle.md 4.

use serde_json::json;
use wq_action::jobs::safe_outputs::Phase;
use wq_action::protocol::Code;

use super::{NO_WRITES, all, finish, grant, launched, operations, output, phase, worker};
use crate::support::probe::{Fault, Probe};
use crate::support::processes::Stage;

const THREE: [&str; 3] = [NO_WRITES, NO_WRITES, NO_WRITES];

/// jobs.md 12.11, lifecycle.md 11.12. S-403, S-405, S-410, S-411, O-022, O-239: one Completion, two cancellations, each in a
/// commit of its own; what the worker left out is cancelled, and mixed outcomes are a success. Repeating changes nothing.
#[test]
fn jobs_11_lifecycle_12_completed_cancelled_and_omitted() {
    let stage = Stage::new();
    let worker = worker(&stage, &THREE);
    worker.finishes(&[finish("f1", Some("h1"), "completed"), finish("f2", Some("h2"), "cancelled")]);
    let before = stage.queue().projection.requests().len();
    for round in 0..2 {
        let mut job = worker.safe_outputs();
        phase(&stage, &mut job, Phase::Settle).unwrap();
        let authorizations = output(&job, "claim_authorizations");
        assert_eq!(authorizations["status"], "completed_with_cancellations");
        assert_eq!(authorizations["run_id"], worker.run.to_string());
        let claim = &authorizations["claims"]["h1"];
        assert_eq!((&claim["state"], &claim["authorized"]), (&json!("completed"), &json!(true)), "round {round}");
        for handle in ["h2", "h3"] {
            let claim = &authorizations["claims"][handle];
            assert_eq!((&claim["state"], &claim["authorized"]), (&json!("cancelled"), &json!(false)));
        }
        assert_eq!(authorizations["errors"], json!([]));
        assert_eq!(stage.queue().projection.requests().len(), before + 3, "one commit for each Claim, once");
        assert!(job.outputs.summaries.concat().contains("A Completion is not a Result"));
        assert!(job.outputs.errors.is_empty());
    }
    assert_eq!(worker.claims(), [("completed", "pending"), ("cancelled", "none"), ("cancelled", "none")]);
    assert_eq!((operations(&stage, "Completion").len(), operations(&stage, "ClaimCancellation").len()), (1, 2));
}

/// lifecycle.md 11.12, the crash: whatever was committed before it stays, and the rest is settled by the repetition.
/// S-398, S-410.
#[test]
fn lifecycle_12_a_crash_after_the_first_completion_preserves_it() {
    let stage = Stage::new();
    let worker = worker(&stage, &THREE);
    worker.finishes(&[finish("f1", Some("h1"), "completed"), finish("f2", Some("h2"), "completed")]);
    // The second push of a Claim never leaves the process.
    let mut job = worker.safe_outputs();
    let steps = {
        let probe = Probe::default();
        let twin = Stage::new();
        let other = super::worker(&twin, &THREE);
        other.finishes(&[finish("f1", Some("h1"), "completed"), finish("f2", Some("h2"), "completed")]);
        let mut job = other.safe_outputs();
        job.probe = probe.clone();
        phase(&twin, &mut job, Phase::Settle).unwrap();
        probe.steps()
    };
    let pushes = steps.iter().enumerate().filter(|(_, (_, kind))| *kind == crate::support::probe::Kind::Push);
    let second = pushes.map(|(at, _)| at).nth(1).unwrap();
    job.probe = Probe::striking(second, Fault::CrashBefore, false);
    let _ = phase(&stage, &mut job, Phase::Settle);
    assert_eq!(worker.claims()[0], ("completed", "pending"));
    assert_eq!(worker.claims()[1], ("open", "none"));
    let mut job = worker.safe_outputs();
    phase(&stage, &mut job, Phase::Settle).unwrap();
    assert_eq!(worker.claims(), [("completed", "pending"), ("completed", "pending"), ("cancelled", "none")]);
    assert_eq!(operations(&stage, "Completion").len(), 2);
}

/// jobs.md 12.11: a contradiction blocks the Claim that it is about; a line that names no Claim blocks nobody, so its
/// Claim is one without a finish. S-408, S-409, O-238, O-242.
#[test]
fn jobs_11_a_conflict_blocks_and_an_unresolvable_line_does_not() {
    let stage = Stage::new();
    let worker = worker(&stage, &THREE);
    worker.finishes(&[
        finish("f1", Some("h1"), "completed"),
        finish("f2", Some("h1"), "cancelled"),
        finish("f3", None, "completed"),
        finish("f4", Some("h9"), "completed"),
        json!({"version": 3, "intent_id": "f5", "kind": "finish", "claim_handle": "h2",
            "parameters": {"outcome": "completed", "keep_open": "true"}}),
        finish("f6", Some("h3"), "completed"),
        finish("f7", Some("h3"), "completed"),
    ]);
    let mut job = worker.safe_outputs();
    phase(&stage, &mut job, Phase::Settle).unwrap();
    let authorizations = output(&job, "claim_authorizations");
    assert_eq!(authorizations["status"], "pending");
    let states =
        ["h1", "h2", "h3"].map(|handle| authorizations["claims"][handle]["state"].as_str().unwrap().to_owned());
    assert_eq!(states, ["blocked", "cancelled", "completed"]);
    let errors: Vec<_> = authorizations["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| {
            (
                error["line"].as_i64().unwrap(),
                error["claim_handle"].as_str().map(str::to_owned),
                error["code"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let scope = |line| (line, None, "work_queue_finish_scope_invalid".to_owned());
    assert_eq!(
        errors,
        [(2, Some("h1".to_owned()), "work_queue_finish_conflict".to_owned()), scope(3), scope(4), scope(5)]
    );
    assert_eq!(worker.claims()[0].0, "open");
    assert_eq!(job.outputs.warnings.len(), 1, "what is left open is told");
}

/// S-409, O-242: a Claim that has ended is ended by nothing else; saying the same again changes nothing.
#[test]
fn a_finish_contradicts_no_committed_end() {
    for (first, second, expected) in [
        ("completed", "cancelled", "blocked"),
        ("cancelled", "completed", "blocked"),
        ("completed", "completed", "completed"),
        ("cancelled", "cancelled", "cancelled"),
    ] {
        let stage = Stage::new();
        let worker = worker(&stage, &[NO_WRITES]);
        worker.finishes(&[finish("f1", None, first)]);
        phase(&stage, &mut worker.safe_outputs(), Phase::Settle).unwrap();
        let commits = stage.queue().projection.requests().len();
        worker.finishes(&[finish("f2", None, second)]);
        let mut job = worker.safe_outputs();
        phase(&stage, &mut job, Phase::Settle).unwrap();
        let authorizations = output(&job, "claim_authorizations");
        assert_eq!(authorizations["claims"]["h1"]["state"], expected, "{first} then {second}");
        assert_eq!(stage.queue().projection.requests().len(), commits);
    }
}

/// lifecycle.md 11.23, jobs.md 12.8, S-409, O-240, O-241: the choice of keep_open is part of the finish, is kept, and the Work
/// waits until its delivery is verified; then it is granted anew, its attempts begin anew, and nothing was forgotten.
#[test]
fn lifecycle_23_a_kept_open_round() {
    let stage = Stage::new();
    let worker = worker(&stage, &[NO_WRITES]);
    let kept = json!({"version": 3, "intent_id": "f1", "kind": "finish",
        "parameters": {"outcome": "completed", "keep_open": true}});
    worker.finishes(std::slice::from_ref(&kept));
    let mut job = worker.safe_outputs();
    phase(&stage, &mut job, Phase::Settle).unwrap();
    assert_eq!(output(&job, "claim_authorizations")["claims"]["h1"]["state"], "completed");
    assert_eq!(operations(&stage, "Completion")[0]["keep_open"], true);
    assert_eq!(worker.claims(), [("completed", "pending")]);
    // While delivery is pending there is no second Claim.
    let shift = stage.shift();
    let refused = stage.publish(&stage.dispatch_next(&shift, "grant-2", 1)).unwrap();
    assert!(refused.outcome.commit_id().is_none());
    // Another choice contradicts, the same does not.
    worker.finishes(&[finish("f1", None, "completed")]);
    let mut job = worker.safe_outputs();
    phase(&stage, &mut job, Phase::Settle).unwrap();
    assert_eq!(output(&job, "claim_authorizations")["claims"]["h1"]["state"], "blocked");
    worker.finishes(&[kept]);
    let mut job = worker.safe_outputs();
    all(&stage, &mut job).unwrap();
    assert_eq!(job.outputs.output("work_queue_outcome"), Some("completed"));
    let queue = stage.queue();
    let work = queue.projection.work(worker.assignment.claims[0].work_id.as_str()).unwrap();
    assert_eq!((work.state(), work.attempts), ("available", 0));
    // The old round's authority does not come back, and its settlement can still be read.
    let mut job = worker.safe_outputs();
    all(&stage, &mut job).unwrap();
    assert_eq!(output(&job, "claim_authorizations")["claims"]["h1"]["state"], "result");
    stage.github.complete_run(worker.run, "success");
    let run = grant(&stage, &stage.shift(), "grant-3", 1);
    assert_eq!(stage.assignment_of(run).claims[0].work_id, worker.assignment.claims[0].work_id);
    let mut job = worker.safe_outputs();
    assert_eq!(phase(&stage, &mut job, Phase::Settle).unwrap_err().code(), Code::WorkQueueDispatchNotActive);
    let claim = stage.queue().projection.claim(worker.assignment.claims[0].claim_id.as_str()).unwrap().clone();
    assert!(claim.status.round().unwrap().settled.is_some());
}

/// lifecycle.md 11.7 for finishes, O-234, S-378, S-386: a second attempt holds no authority, and neither does a run that is
/// not the assignment's. The whole worker fails, nothing is written, and the output says so.
#[test]
fn lifecycle_07_a_later_attempt_and_another_run_settle_nothing() {
    let stage = Stage::new();
    let worker = worker(&stage, &[NO_WRITES]);
    worker.finishes(&[finish("f1", None, "completed")]);
    let commits = stage.queue().projection.requests().len();
    let mut job = worker.safe_outputs();
    job.set("GITHUB_RUN_ATTEMPT", "2");
    stage.github.complete_run(worker.run, "failure");
    stage.github.rerun(worker.run, stage.github.account_id("wim"));
    stage.github.start_run(worker.run);
    for found in Phase::Settle.with(&stage, &mut job) {
        assert_eq!(found, Code::RerunNotAuthorized);
    }
    assert_eq!(output(&job, "claim_authorizations"), json!({"version": 3, "status": "failed", "claims": {}}));
    let other = stage.shift();
    let mut job = worker.safe_outputs();
    job.set("GITHUB_RUN_ID", &other.run.to_string());
    assert!(phase(&stage, &mut job, Phase::Settle).is_err());
    assert_eq!(stage.queue().projection.requests().len(), commits);
}

/// Every phase of a job, with its code.
trait With {
    fn with(self, stage: &Stage, job: &mut crate::support::jobs::Job<'_>) -> Vec<Code>;
}

impl With for Phase {
    fn with(self, stage: &Stage, job: &mut crate::support::jobs::Job<'_>) -> Vec<Code> {
        [Phase::Deliver, self].map(|one| phase(stage, job, one).unwrap_err().code()).to_vec()
    }
}

/// lifecycle.md 4.2 step 3: a binding that activation could not publish is made good before anything is settled.
#[test]
fn a_lost_binding_is_made_good() {
    let stage = Stage::new();
    let worker = launched(&stage, &[NO_WRITES]);
    worker.job.next().perform(wq_action::jobs::activation::run).unwrap();
    worker.finishes(&[finish("f1", None, "completed")]);
    let mut job = worker.safe_outputs();
    phase(&stage, &mut job, Phase::Settle).unwrap();
    assert_eq!(worker.claims(), [("completed", "pending")]);
}

/// S-387, S-523: a preview settles nothing and says so for every Claim.
#[test]
fn a_preview_settles_nothing() {
    let stage = Stage::new();
    let worker = worker(&stage, &THREE);
    worker.finishes(&[finish("f1", Some("h1"), "completed")]);
    let before = stage.text();
    let mut job = worker.safe_outputs();
    job.staged();
    all(&stage, &mut job).unwrap();
    let authorizations = output(&job, "claim_authorizations");
    assert_eq!(authorizations["status"], "staged_preview");
    for handle in ["h1", "h2", "h3"] {
        assert_eq!(authorizations["claims"][handle]["state"], "staged_preview");
        assert_eq!(authorizations["claims"][handle]["authorized"], false);
        assert_eq!(output(&job, "claim_results")["claims"][handle]["state"], "staged_preview");
    }
    assert_eq!(job.outputs.output("work_queue_outcome"), Some("staged_preview"));
    assert_eq!(stage.text(), before);
    assert!(job.outputs.errors.is_empty());
}

/// S-327, S-331, S-405: an agent that failed, whatever it says about it, ends no Claim by that and frees no capacity: trusted
/// wrap-up cancels what was not finished through the ordinary gate, and the reservation stays until the run has ended.
#[test]
fn an_agents_failure_closes_nothing_by_itself() {
    let stage = Stage::new();
    let worker = worker(&stage, &[NO_WRITES, NO_WRITES]);
    worker.finishes(&[finish("f1", Some("h1"), "completed")]);
    let mut job = worker.safe_outputs();
    super::put_out(
        &mut job,
        &[json!({"type": "noop", "claim_handle": "h1", "message": "FATAL: run cancelled, release capacity"})],
    );
    // What is staged is not durable, and nothing has happened yet.
    assert_eq!(worker.claims(), [("open", "none"), ("open", "none")]);
    all(&stage, &mut job).unwrap();
    assert_eq!(worker.claims(), [("completed", "verified"), ("cancelled", "none")]);
    let queue = stage.queue();
    let dispatch = queue.projection.dispatch(worker.assignment.dispatch_id.as_str()).unwrap();
    assert!(!dispatch.released);
}

/// S-539: a Claim whose delivery has failed says so in every later report, and nothing of it is executed.
#[test]
fn a_failed_delivery_is_told() {
    use wq_action::protocol::actor::{Actor, Role};
    use wq_action::protocol::commit::FrozenRequest;
    use wq_action::protocol::request::RequestKind;
    let stage = Stage::new();
    let worker = worker(&stage, &[super::WRITES]);
    worker.finishes(&[finish("f1", None, "completed")]);
    phase(&stage, &mut worker.safe_outputs(), Phase::Settle).unwrap();
    stage.github.complete_run(worker.run, "failure");
    stage.wait(300_001);
    let queue = stage.queue();
    let run = queue.projection.dispatch(worker.assignment.dispatch_id.as_str()).unwrap().run.clone().unwrap();
    let member = &worker.assignment.claims[0];
    let completion = operations(&stage, "Completion").len();
    assert_eq!(completion, 1);
    let commit = stage
        .text()
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .find(|line| line["request"]["kind"] == "finish")
        .unwrap()["id"]
        .clone();
    let operation = json!({"kind": "DeliveryFailure", "work_id": member.work_id.as_str(), "claim_id": member.claim_id.as_str(),
        "completion_id": commit, "reason": "verification_exhausted", "disposition": "unknown",
        "evidence": {"kind": "terminal_run", "source": "github_api", "repository": run.repository.as_str(),
            "workflow": run.workflow.as_str(), "ref": run.revision.as_str(), "principal": run.principal.as_str(),
            "checked_at": stage.clock_now(), "run_id": run.run_id.as_str(), "run_attempt": 1, "status": "completed",
            "conclusion": "failure", "effects": "unknown"}});
    let shift = stage.shift();
    let actor = Actor { role: Role::Reconciler, ..shift.actor };
    let text = crate::support::ledger::canonical(&json!({"operations": [operation]}).to_string());
    let id = wq_action::protocol::RequestId::new("failed").unwrap();
    stage.publish(&FrozenRequest::new(id, RequestKind::DeliveryFailure, actor, &text).unwrap()).unwrap();
    let mut job = worker.safe_outputs();
    all(&stage, &mut job).unwrap_err();
    assert_eq!(output(&job, "claim_authorizations")["claims"]["h1"]["state"], "delivery_failed");
    assert_eq!(output(&job, "claim_authorizations")["claims"]["h1"]["authorized"], false);
    assert_eq!(output(&job, "claim_results")["claims"]["h1"]["state"], "delivery_failed");
    assert_eq!(job.outputs.output("work_queue_outcome"), Some("delivery_failed"));
}
