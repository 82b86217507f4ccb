//! A worker's activation: its own binding, and every run that is not the launched one.

use serde_json::json;
use wq_action::agent::snapshot::Snapshot;
use wq_action::jobs::activation;
use wq_action::ledger::simulated::Trouble;
use wq_action::protocol::actor::{Actor, Role};
use wq_action::protocol::commit::FrozenRequest;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{Code, Decimal, Repository, RequestId, RuntimeRole};

use super::{launched, refused};
use crate::support::github::OCTO_WIDGETS;
use crate::support::jobs::Job;
use crate::support::probe::{Fault, Kind, Probe};
use crate::support::processes::{HOST, Stage};

/// S-276, S-280, S-283, S-289, O-221, jobs.md 12, check 5: where the ledger has a start marker alone, activation binds
/// the authenticated run and writes nothing else; a bound run writes nothing at all. The snapshot holds the durable
/// binding, and the run id is the authenticated one whatever an input says.
#[test]
fn jobs_05_a_missing_binding_is_recovered_once() {
    let (stage, _, run) = launched();
    let before = stage.text();
    for attempt in 0..2 {
        let mut job = Job::new(&stage, run, "worker");
        job.payload()["inputs"]["run_id"] = json!("7");
        job.payload()["inputs"]["aw_context"] = json!({"run_id": "8", "work_id": "w"}).to_string().into();
        job.perform(activation::run).unwrap();
        let text = stage.text();
        assert_eq!(text.lines().count(), before.lines().count() + 1);
        let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        let operations = last["operations"].as_array().unwrap();
        assert_eq!(
            (operations.len(), &operations[0]["kind"], &operations[0]["state"]),
            (1, &json!("Dispatch"), &json!("bound"))
        );
        assert_eq!(operations[0]["run"]["run_id"], run.to_string());
        assert_eq!(last["actor"]["role"], "worker");
        let snapshot = Snapshot::read(&job.paths().snapshot, HOST).unwrap().unwrap();
        assert_eq!(snapshot.log, text);
        let view = snapshot.view(Some(RuntimeRole::Worker), &mut Scanner::new(HOST)).unwrap();
        let dispatch = view.projection.as_ref().unwrap().dispatches().next().unwrap();
        assert_eq!(dispatch.run.as_ref().unwrap().run_id.as_str(), run.to_string());
        assert_eq!(view.snapshot.worker.as_ref(), Some(&dispatch.assignment));
        let pushes = job.probe.steps().iter().filter(|(_, kind)| *kind == Kind::Push).count();
        assert_eq!(pushes, 1 - attempt);
    }
}

/// Jobs.md 12, check 5: launcher, sweep or a second activation bind the same run meanwhile, before every step of the
/// activation: one binding, and the worker goes on.
#[test]
fn jobs_05_an_identical_binding_by_another_is_idempotent() {
    let (stage, _, run) = launched();
    let mut job = Job::new(&stage, run, "worker");
    job.perform(activation::run).unwrap();
    let steps = job.probe.steps().len();
    for at in 0..steps {
        let (stage, _, run) = launched();
        let mut job = Job::new(&stage, run, "worker");
        let probe = job.probe.clone();
        let rival = || stage.activate(run, &Probe::default()).unwrap();
        probe.meanwhile(at, rival, || job.perform(activation::run)).unwrap();
        assert_eq!(
            stage.text().matches(r#""state":"bound""#).count(),
            2,
            "{at}: once in the request, once in the operations"
        );
    }
}

/// S-275, S-277, S-292, O-091, O-207, O-233, O-234, jobs.md 12, check 5: title and assignment authenticate nothing. A
/// run that differs in event, revision, workflow, account, title or attempt, and a second run of the dispatch, end
/// without a file, an output or a write; in a preview too.
#[test]
fn jobs_05_a_run_that_is_not_the_launched_one_is_refused() {
    type Change = fn(&Stage, &mut crate::support::github::Run);
    let changes: [(Change, Code); 5] = [
        (|_, run| run.event = "push".to_owned(), Code::RunEventMismatch),
        (|_, run| run.head_sha = "e".repeat(40), Code::RunRefMismatch),
        (|_, run| run.path = ".github/workflows/other.lock.yml@refs/heads/main".to_owned(), Code::RunWorkflowMismatch),
        (|stage, run| run.actor = stage.github.account_id("ada"), Code::RunPrincipalMismatch),
        (|_, run| run.title.push('0'), Code::RunCorrelationMismatch),
    ];
    for staged in [false, true] {
        for (change, code) in changes {
            let (stage, _, run) = launched();
            let mut changed = (*stage.github.run(run).unwrap()).clone();
            change(&stage, &mut changed);
            stage.github.change_run(run, |run| *run = changed);
            let mut job = Job::new(&stage, run, "worker");
            if staged {
                job.staged();
            }
            refused(&mut job, &stage, code);
        }
        let (stage, _, run) = launched();
        stage.activate(run, &Probe::default()).unwrap();
        let second = stage.launch_by_hand(&stage.assignment_of(run));
        stage.github.start_run(second);
        let mut job = Job::new(&stage, second, "worker");
        if staged {
            job.staged();
        }
        refused(&mut job, &stage, Code::RunBindingConflict);
        stage.github.complete_run(run, "failure");
        stage.github.rerun(run, stage.github.account_id("ada"));
        stage.github.start_run(run);
        let mut job = Job::new(&stage, run, "worker");
        refused(&mut job, &stage, Code::RerunNotAuthorized);
        // An environment that tells of attempt 1 does not hide the host's answer.
        refused(job.set("GITHUB_RUN_ATTEMPT", "1"), &stage, Code::RerunNotAuthorized);
    }
}

/// Jobs.md 3.3, 11.4: each refusal of the assignment, in the order of its checks.
#[test]
fn every_refusal_of_an_assignment_has_its_code() {
    let (stage, shift, run) = launched();
    let mut foreign: serde_json::Value =
        serde_json::from_str(stage.github.run(run).unwrap().assignment.as_ref().unwrap()).unwrap();
    foreign["claims"][0]["work"] = json!({"task": "another"});
    let mut job = Job::new(&stage, run, "worker");
    job.payload()["inputs"]["work_queue_assignment"] = foreign.to_string().into();
    refused(&mut job, &stage, Code::WorkQueueAssignmentMismatch);
    for stamp in ["", "no stamp", &"d".repeat(64)] {
        let mut job = Job::new(&stage, run, "worker");
        refused(job.set("GH_AW_WORK_QUEUE_CONTRACT", stamp), &stage, Code::WorkQueueWorkerContractMismatch);
        assert!(job.probe.steps().iter().all(|(_, kind)| *kind == Kind::Read), "the host was asked");
    }
    // A group that nobody began to launch.
    let reserved = Stage::with_works(1);
    let shift_there = reserved.shift();
    reserved.publish(&reserved.dispatch_next(&shift_there, "grant-1", 1)).unwrap();
    let sha = reserved.revision.as_str().to_owned();
    reserved.github.move_ref(OCTO_WIDGETS, &format!("refs/tags/gh-aw/work-queue/{sha}"), Some(&sha));
    let early = reserved.launch_by_hand(&reserved.assignments("grant-1")[0]);
    reserved.github.start_run(early);
    refused(&mut Job::new(&reserved, early, "worker"), &reserved, Code::WorkQueueLaunchMarkerRequired);
    // A released dispatch, and after that one of a retired epoch.
    stage.activate(run, &Probe::default()).unwrap();
    stage.finish(run, "cancelled", &Probe::default());
    stage.github.complete_run(run, "success");
    stage.process(&shift).sweep().unwrap();
    refused(&mut Job::new(&stage, run, "worker"), &stage, Code::WorkQueueDispatchNotActive);
    administer(&stage, RequestKind::CancelWork, &{
        let work = stage.queue().projection.works().next().unwrap().work.work_id.clone();
        json!({"operations": [{"kind": "WorkCancellation", "work_id": work.as_str(), "reason": "unwanted"}]})
    });
    let mut policy: serde_json::Value = serde_json::from_str(stage.policy().source.as_str()).unwrap();
    policy["pools"]["default"]["native_limit"] = json!(3);
    let install = json!({"operations": [{"kind": "Policy", "epoch": "second", "policy": policy}]});
    administer(&stage, RequestKind::Policy, &install);
    refused(&mut Job::new(&stage, run, "worker"), &stage, Code::WorkQueueAssignmentPolicyMismatch);
}

fn administer(stage: &Stage, kind: RequestKind, parameters: &serde_json::Value) {
    let principal = Decimal::new(stage.github.account_id("ada").to_string()).unwrap();
    let actor = Actor::new(Role::Administrator, principal, Repository::new(OCTO_WIDGETS).unwrap()).unwrap();
    let parameters = crate::support::ledger::canonical(&parameters.to_string());
    let id = RequestId::new(format!("administer-{}", kind.as_str())).unwrap();
    stage.publish(&FrozenRequest::new(id, kind, actor, &parameters).unwrap()).unwrap();
}

/// S-283, S-284, S-316: where the binding cannot be established within its bounded attempts, whatever fails and
/// wherever, the worker gets no snapshot; where it is not durable in the end, neither.
#[test]
fn without_a_durable_binding_there_is_no_snapshot() {
    let (stage, _, run) = launched();
    let mut job = Job::new(&stage, run, "worker");
    job.perform(activation::run).unwrap();
    let steps = job.probe.steps();
    for (at, (_, kind)) in steps.iter().enumerate() {
        let fault = match kind {
            Kind::Api(_) => Fault::Api(crate::support::github::Strike::Status(503)),
            Kind::Read | Kind::Push => Fault::Ledger(Trouble::Denied),
        };
        for fault in [fault, Fault::CrashBefore] {
            let (stage, _, run) = launched();
            let mut job = Job::new(&stage, run, "worker");
            job.probe = Probe::striking(at, fault.clone(), true);
            job.perform(activation::run).unwrap_err();
            assert!(job.outputs.outputs.is_empty(), "{at} {fault:?}");
            assert_eq!(std::fs::read_dir(job.folder()).unwrap().count(), 0, "{at} {fault:?}");
        }
    }
    // Somebody puts the branch back while the binding is verified.
    let push = steps.iter().position(|(_, kind)| *kind == Kind::Push).unwrap();
    let (stage, _, run) = launched();
    let before = stage.queue().projection.clone();
    let mut job = Job::new(&stage, run, "worker");
    let probe = job.probe.clone();
    let back = || stage.branch.replace(before);
    let error = probe.meanwhile(push + 1, back, || job.perform(activation::run)).unwrap_err();
    assert_eq!((error.code(), error.category().name), (Code::WorkQueueBindingNotDurable, "publication_uncertain"));
    assert!(job.outputs.outputs.is_empty() && !job.paths().snapshot.exists());
}

/// S-523: a preview checks the assignment, the run and the frozen principal, writes the snapshot, and binds nothing.
#[test]
fn a_preview_checks_everything_and_binds_nothing() {
    let (stage, _, run) = launched();
    let before = stage.text();
    let mut job = Job::new(&stage, run, "worker");
    job.staged().perform(activation::run).unwrap();
    assert_eq!(stage.text(), before);
    assert!(job.probe.steps().iter().all(|(_, kind)| *kind != Kind::Push));
    assert!(job.outputs.summaries.is_empty());
    let snapshot = Snapshot::read(&job.paths().snapshot, HOST).unwrap().unwrap();
    assert_eq!((snapshot.log, snapshot.worker), (before, Some(stage.assignment_of(run))));
    assert!(job.outputs.notes.iter().any(|note| note.contains("preview")));
    // The frozen principal is compared in a preview as well.
    let ada = stage.github.account_id("ada");
    stage.github.change_run(run, |run| run.actor = ada);
    refused(Job::new(&stage, run, "worker").staged(), &stage, Code::RunPrincipalMismatch);
}
