//! One fault at each network step of settle and of controls, and what fresh processes make of it. Whatever was struck, no
//! Claim ends twice, no request lands twice, no group is launched twice, and no receipt says more than is so.

use std::collections::BTreeSet;

use serde_json::Value;
use wq_action::engine::replay;
use wq_action::jobs::activation;
use wq_action::jobs::safe_outputs::{PHASES, Phase, run};
use wq_action::ledger::simulated::Trouble;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::LedgerText;

use super::{
    NO_WRITES, PLANS, Ports, Worker, control_config, dispatch_next, finish, operations, output, submit, worker,
};
use crate::support::github::Strike;
use crate::support::jobs::Job;
use crate::support::probe::{Fault, Kind, Probe};
use crate::support::processes::{HOST, Stage};
use crate::support::tell;

fn faults(kind: &Kind) -> Vec<Fault> {
    let mut faults: Vec<Fault> = match kind {
        Kind::Api(_) => [
            Strike::Status(401),
            Strike::Status(404),
            Strike::Status(422),
            Strike::Status(500),
            Strike::TimeoutAfter,
            Strike::ResetBefore,
            Strike::HalfBody,
            Strike::Garbage,
            Strike::WrongShape,
            Strike::Duplicate,
        ]
        .map(Fault::Api)
        .into(),
        Kind::Read => [Trouble::Unavailable, Trouble::Denied].map(Fault::Ledger).into(),
        Kind::Push => {
            [Trouble::Unavailable, Trouble::Denied, Trouble::LostAnswer, Trouble::LostPush, Trouble::FalseConflict]
                .map(Fault::Ledger)
                .into()
        }
    };
    faults.extend([Fault::CrashBefore, Fault::CrashAfter]);
    faults
}

/// The ledger replays cold to what stands, and holds each request once.
fn audit(stage: &Stage) {
    let text = stage.text();
    let mut ids = BTreeSet::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(ids.insert(line["request"]["id"].as_str().unwrap().to_owned()), "a request is there twice");
    }
    let cold = replay(&LedgerText::new(text.into_bytes()).unwrap(), &mut Scanner::new(HOST)).unwrap();
    assert_eq!(cold.serialise(), stage.queue().projection.serialise());
    for (dispatch, posts) in stage.github.posts() {
        assert!(posts <= 1, "{posts} POSTs for {dispatch}");
    }
}

fn perform(stage: &Stage, job: &mut Job<'_>, phases: &[Phase]) {
    let ports = Ports::new(stage, &job.probe);
    // What it ends with is in its outputs; a process that ended told nothing.
    let _ = job.perform(|world| run(world, &ports, phases));
}

/// A worker with a finished, a planning and a silent Claim.
fn scene(stage: &Stage) -> Worker<'_> {
    let worker = worker(stage, &[NO_WRITES, PLANS, NO_WRITES]);
    worker.finishes(&[finish("f1", Some("h1"), "completed"), finish("f2", Some("h2"), "completed")]);
    worker.intents(&[submit("i1", Some("h2"), "child")]);
    worker
}

fn worker_job<'s>(worker: &Worker<'s>) -> Job<'s> {
    let mut job = worker.safe_outputs();
    job.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &control_config());
    job
}

/// S-261, S-316, S-403, S-407, S-410: see the module, for all three phases of a worker.
#[test]
fn a_fault_at_every_step_of_a_worker_is_survived() {
    let steps = {
        let stage = Stage::new();
        let worker = scene(&stage);
        let mut job = worker_job(&worker);
        perform(&stage, &mut job, &PHASES);
        assert_eq!(worker.claims(), [("completed", "verified"), ("completed", "verified"), ("cancelled", "none")]);
        job.probe.steps()
    };
    let mut cells = 0;
    for (at, (_, kind)) in steps.iter().enumerate() {
        for fault in faults(kind) {
            let name = format!("{at} {kind:?} {fault:?}");
            let stage = Stage::new();
            let worker = scene(&stage);
            let mut job = worker_job(&worker);
            job.probe = Probe::striking(at, fault, false);
            perform(&stage, &mut job, &PHASES);
            stage.github.no_faults();
            audit(&stage);
            if !job.probe.has_died() {
                told_is_so(&worker, &job, &name);
            }
            let mut again = worker_job(&worker);
            perform(&stage, &mut again, &PHASES);
            audit(&stage);
            assert_eq!(
                worker.claims(),
                [("completed", "verified"), ("completed", "verified"), ("cancelled", "none")],
                "{name}"
            );
            let counts = ["Completion", "ClaimCancellation", "Result"].map(|kind| operations(&stage, kind).len());
            assert_eq!(counts, [2, 1, 2], "{name}");
            assert_eq!(
                operations(&stage, "Work").iter().filter(|work| work["node_key"] == "child").count(),
                1,
                "{name}"
            );
            cells += 1;
        }
    }
    tell!("faults of a worker's safe outputs: {cells} cells");
    assert!(cells > 100);
}

/// What a struck job told of its Claims holds in the ledger.
fn told_is_so(worker: &Worker<'_>, job: &Job<'_>, name: &str) {
    let authorizations = output(job, "claim_authorizations");
    for (member, (finish, barrier)) in worker.assignment.claims.iter().zip(worker.claims()) {
        let state = authorizations["claims"][member.handle.as_str()]["state"].as_str().unwrap_or("failed");
        if matches!(state, "completed" | "cancelled") {
            assert_eq!(finish, state, "{name}");
        }
        let delivered = job.outputs.output("claim_results").map(|_| output(job, "claim_results"));
        let delivered = delivered.map(|results| results["claims"][member.handle.as_str()]["state"].clone());
        if delivered == Some("result".into()) {
            assert_eq!(barrier, "verified", "{name}");
        }
    }
}

/// A dispatcher's run with its collected intents: a plan of one Work, and a grant of what two Works allow.
fn dispatcher(stage: &Stage) -> Job<'_> {
    let mut job = Job::new(stage, stage.shift().run, "dispatcher");
    job.perform(activation::run).unwrap();
    let mut job = job.next();
    job.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &control_config());
    let lines = [submit("i1", None, "a"), dispatch_next("g1", 2)];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(job.folder().join("work-queue.intents.jsonl"), text).unwrap();
    job
}

/// S-266, S-298, S-316, S-508, S-515, S-557, O-021, O-024, O-209, O-210: see the module, for the controls of a dispatcher.
#[test]
fn a_fault_at_every_step_of_controls_is_survived() {
    let steps = {
        let stage = Stage::with_works(1);
        let mut job = dispatcher(&stage);
        perform(&stage, &mut job, &[Phase::Controls]);
        assert_eq!(job.outputs.output("work_queue_controls_status"), Some("ok"));
        job.probe.steps()
    };
    let mut cells = 0;
    for (at, (_, kind)) in steps.iter().enumerate() {
        for fault in faults(kind) {
            let name = format!("{at} {kind:?} {fault:?}");
            let stage = Stage::with_works(1);
            let mut job = dispatcher(&stage);
            job.probe = Probe::striking(at, fault, false);
            perform(&stage, &mut job, &[Phase::Controls]);
            stage.github.no_faults();
            audit(&stage);
            if !job.probe.has_died() {
                receipts_are_so(&stage, &job, &name);
            }
            let mut again = job.next();
            perform(&stage, &mut again, &[Phase::Controls]);
            audit(&stage);
            receipts_are_so(&stage, &again, &name);
            let claims = operations(&stage, "Claim").len();
            assert!((1..=2).contains(&claims), "{name}: {claims} Claims");
            assert_eq!(operations(&stage, "Work").iter().filter(|work| work["node_key"] == "a").count(), 1, "{name}");
            cells += 1;
        }
    }
    tell!("faults of a dispatcher's controls: {cells} cells");
    assert!(cells > 200);
}

/// What receipts say holds in the ledger.
fn receipts_are_so(stage: &Stage, job: &Job<'_>, name: &str) {
    let document = output(job, "work_queue_requests");
    let queue = stage.queue();
    for receipt in document["receipts"].as_array().unwrap() {
        let request = receipt["request_id"].as_str().and_then(|id| queue.projection.request(id));
        match receipt["status"].as_str().unwrap() {
            "durable" => assert!(request.is_some(), "{name}: {receipt}"),
            "no_grant" => assert!(request.is_none(), "{name}: {receipt}"),
            _ => assert!(receipt["reason"].is_string() && receipt["action"].is_string(), "{name}: {receipt}"),
        }
        if let Some(request) = request {
            assert_eq!(receipt["commit_id"], request.commit_id.as_str(), "{name}");
        }
        for launch in receipt["launches"].as_array().into_iter().flatten() {
            let dispatch = queue.projection.dispatch(launch["dispatch_id"].as_str().unwrap()).unwrap();
            assert_eq!(launch["released"] == true, dispatch.released, "{name}: {launch}");
            if launch["state"] == "bound" {
                assert!(dispatch.run.is_some(), "{name}: {launch}");
            }
            let posts = stage.github.posts_of_dispatch(launch["dispatch_id"].as_str().unwrap());
            assert!(launch["dispatched"] != true || posts == 1, "{name}: {launch}");
            assert!(launch["state"] != "launch_blocked" || posts == 0, "{name}: {launch}");
        }
    }
    let ok = job.outputs.output("work_queue_controls_status") == Some("ok");
    assert_eq!(ok, document["success"] == true, "{name}");
}
