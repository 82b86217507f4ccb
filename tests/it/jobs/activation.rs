//! Activation (jobs.md 3): roles, the absent queue, proposals, the snapshot's file, and each refusal.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use wq_action::agent::snapshot::Snapshot;
use wq_action::jobs::activation;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::{Code, RuntimeRole, Wire as _};

use super::{launched, refused};
use crate::support::github::OCTO_WIDGETS;
use crate::support::jobs::Job;
use crate::support::probe::Kind;
use crate::support::processes::{HOST, Stage};

fn snapshot(job: &Job<'_>) -> Snapshot {
    Snapshot::read(&job.paths().snapshot, HOST).unwrap().unwrap()
}

/// S-288, S-292, S-511, S-512, O-214, O-220, O-222, jobs.md 12, check 1: every combination of compiled role, assignment and
/// requirement, the retired keys, and texts with a repeated key. No role falls back to a weaker one, and nothing an
/// event says changes the compiled role.
#[test]
fn jobs_01_the_role_table() {
    let (stage, shift, run) = launched();
    let assignment = stage.github.run(run).unwrap().assignment.clone().unwrap();
    let code = |role: Option<&str>, assigned: Option<Value>, required: bool| {
        let mut job = Job::new(&stage, if role == Some("worker") { run } else { shift.run }, role.unwrap_or("worker"));
        if role.is_none() {
            job.unset("GH_AW_WORK_QUEUE_ROLE");
        }
        job.payload()["inputs"] = assigned.unwrap_or(Value::Null);
        if required {
            job.set("GH_AW_WORK_QUEUE_REQUIRE_ASSIGNMENT", "true");
        }
        // A preview writes no binding, so one world serves all rows.
        job.staged().perform(activation::run).map(|done| done.role.as_str()).map_err(|error| error.code())
    };
    let given = || Some(json!({"work_queue_assignment": assignment}));
    assert_eq!(code(Some("observer"), None, false), Ok("observer"));
    assert_eq!(code(Some("dispatcher"), None, false), Ok("dispatcher"));
    assert_eq!(code(None, None, false), Ok("dispatcher"));
    assert_eq!(code(Some("worker"), given(), false), Ok("worker"));
    assert_eq!(code(Some("worker"), given(), true), Ok("worker"));
    let (conflict, required) = (Code::WorkQueueRuntimeRoleConflict, Code::WorkQueueAssignmentRequired);
    for (role, assigned, require, expected) in [
        (Some("worker"), None, false, required),
        (Some("worker"), None, true, required),
        (None, None, true, required),
        (Some("observer"), given(), false, Code::WorkQueueObserverAssignmentForbidden),
        (Some("observer"), given(), true, conflict),
        (Some("observer"), None, true, conflict),
        (Some("dispatcher"), given(), false, conflict),
        (Some("dispatcher"), None, true, conflict),
        (Some("producer"), None, false, Code::WorkQueueRuntimeRoleInvalid),
        (Some(""), given(), false, Code::WorkQueueRuntimeRoleInvalid),
    ] {
        assert_eq!(code(role, assigned, require), Err(expected), "{role:?} {require}");
    }
    let scope = Code::ClaimScopeInvalid;
    let twice = assignment.replacen('{', r#"{"version":3,"#, 1);
    for assigned in [
        json!({"work_queue_claim": "c"}),
        json!({"work_claim": null}),
        json!({"work_queue": ""}),
        json!({"work_queue_assignment": null}),
        json!({"work_queue_assignment": ""}),
        json!({"work_queue_assignment": twice}),
        json!({"work_queue_assignment": assignment, "aw_context": json!({"work_queue_assignment": assignment}).to_string()}),
        json!({"work_queue_assignment": assignment, "aw_context": "{"}),
        json!({"aw_context": r#"{"work_queue_claim":"c"}"#}),
        json!("text"),
    ] {
        for role in ["worker", "observer", "dispatcher"] {
            assert_eq!(code(Some(role), Some(assigned.clone()), false), Err(scope), "{role} {assigned}");
        }
    }
}

/// S-513, O-032, S-257, jobs.md 12, check 4: an absent queue is captured for observers and dispatchers, whatever they
/// propose, and creates nothing; a worker has no queue there. An existing branch without a Policy is no absent queue. Who
/// reads the log is told what a missing branch costs.
#[test]
fn jobs_04_an_absent_queue() {
    let stage = Stage::new();
    let shift = stage.shift();
    for role in ["observer", "dispatcher"] {
        let mut job = Job::new(&stage, shift.run, role);
        job.set("GH_AW_WORK_QUEUE_POLICY", stage.policy().source.as_str());
        assert_eq!(job.perform(activation::run).unwrap().commits, None);
        let reads = job.probe.steps().iter().filter(|(_, kind)| *kind == Kind::Read).count();
        assert_eq!((reads, job.probe.steps().len()), (2, 4), "two reads of the branch, repository and run");
        let found = snapshot(&job);
        assert_eq!((found.sha.as_ref(), found.log.as_str(), found.worker.as_ref()), (None, "", None));
        assert!(job.outputs.notes.iter().any(|note| note.contains("The first submission makes a new queue")));
        assert!(job.outputs.notes.iter().all(|note| !note.contains("work-queue") && !note.contains("octo")));
        let compiled = RuntimeRole::parse(role);
        assert!(found.view(compiled, &mut Scanner::new(HOST)).unwrap().projection.is_none());
    }
    assert!(stage.branch.current().is_none());
    let (other, _, run) = launched();
    let assignment = other.github.run(run).unwrap().assignment.clone().unwrap();
    let mut worker = Job::new(&stage, shift.run, "worker");
    worker.payload()["inputs"] = json!({"work_queue_assignment": assignment});
    refused(&mut worker, &stage, Code::WorkQueuePolicyMissing);
    stage.branch.replace(wq_action::engine::Projection::empty());
    for role in ["observer", "dispatcher"] {
        refused(&mut Job::new(&stage, shift.run, role), &stage, Code::WorkQueuePolicyMissing);
    }
    refused(&mut worker, &stage, Code::WorkQueuePolicyMissing);
}

/// S-255, S-317, S-513: a queue that cannot be read is an error, never an absent one, and no other storage, older
/// transport or file that lies about stands in for it.
#[test]
fn an_unreadable_queue_is_an_error() {
    use crate::support::probe::{Fault, Probe};
    use wq_action::ledger::simulated::Trouble;
    let stage = Stage::with_works(1);
    let shift = stage.shift();
    for trouble in [Trouble::Unavailable, Trouble::Denied] {
        for at in [0, 3] {
            let mut job = Job::new(&stage, shift.run, "dispatcher");
            job.set("GH_AW_WORK_QUEUE_STORAGE", "memory").set("GH_AW_WORK_QUEUE_CHECKED_TRANSPORT", "rest");
            let beside = tempfile::tempdir().unwrap();
            std::fs::write(beside.path().join("work-queue.jsonl"), stage.text()).unwrap();
            job.set("GH_AW_WORK_QUEUE_PERF_LEDGER", beside.path().join("work-queue.jsonl").to_str().unwrap());
            job.probe = Probe::striking(at, Fault::Ledger(trouble), true);
            refused(&mut job, &stage, Code::RepositoryUnavailable);
        }
    }
}

/// Jobs.md 3.2, step 3: a foreign genesis is refused before the host is asked anything, in every role.
#[test]
fn a_foreign_genesis_is_refused_before_the_first_call() {
    let (stage, _, run) = launched();
    let calls = stage.github.all_calls();
    for role in ["observer", "dispatcher", "worker"] {
        let mut job = Job::new(&stage, run, role);
        if role != "worker" {
            job.payload()["inputs"] = Value::Null;
        }
        job.set("GITHUB_REPOSITORY", "octo/other");
        refused(&mut job, &stage, Code::WorkQueueLedgerRepositoryMismatch);
    }
    assert_eq!(stage.github.all_calls(), calls);
}

/// S-498, S-512, O-214: what is captured is the checked queue and the authenticated run. The file cannot be written
/// again, the output is the canonical requester, an observer is a producer in it, and the queue is as it was.
#[test]
fn the_snapshot_is_the_queue_and_the_run() {
    let stage = Stage::with_works(2);
    let shift = stage.shift();
    for (role, actor) in [("observer", "producer"), ("dispatcher", "dispatcher")] {
        let (before, mut job) = (stage.text(), Job::new(&stage, shift.run, role));
        let done = job.perform(activation::run).unwrap();
        assert_eq!((done.role.as_str(), done.commits), (role, Some(1)));
        let path = job.paths().snapshot;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o444);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.len(), done.bytes);
        let found: Value = serde_json::from_str(text.strip_suffix('\n').unwrap()).unwrap();
        assert_eq!(found["transactionLog"], before);
        assert_eq!(found["sha"], stage.queue().commit.to_string());
        assert_eq!((&found["role"], &found["worker"], &found["version"]), (&json!(role), &Value::Null, &json!(3)));
        assert_eq!(found["captured_at"], stage.clock_now());
        let origin = json!({"role": actor, "principal": stage.github.account_id("wim").to_string(),
            "repository": OCTO_WIDGETS, "workflow": ".github/workflows/dispatcher.lock.yml",
            "run_id": shift.run.to_string(), "run_attempt": 1});
        assert_eq!(found["origin"], origin);
        assert_eq!(job.outputs.outputs.len(), 1);
        assert_eq!(job.outputs.output("work_queue_origin").unwrap(), snapshot(&job).origin.canonical());
        assert!(job.outputs.exports.is_empty() && job.outputs.summaries.is_empty());
        assert_eq!(stage.text(), before);
        assert_eq!(job.outputs.notes.iter().any(|note| note.contains("read-only observer")), role == "observer");
    }
}

/// Decision 58: a protected list of visible Work goes into the snapshot, and anything else is refused.
#[test]
fn visible_work_comes_from_the_protected_input_alone() {
    let stage = Stage::with_works(2);
    let shift = stage.shift();
    let mut job = Job::new(&stage, shift.run, "observer");
    job.set("GH_AW_WORK_QUEUE_VISIBLE_WORK", r#"["w1","w2"]"#).perform(activation::run).unwrap();
    let visible = snapshot(&job).visible.unwrap();
    assert_eq!(visible.iter().map(|id| id.as_str()).collect::<Vec<_>>(), ["w1", "w2"]);
    for text in [r#""w1""#, "[1]", r#"[""]"#, "w1", r#"{"w1":1}"#] {
        let mut job = Job::new(&stage, shift.run, "observer");
        job.set("GH_AW_WORK_QUEUE_VISIBLE_WORK", text);
        refused(&mut job, &stage, Code::SettingsInvalid);
    }
}

/// S-182: nothing can be seeded by activation.
#[test]
fn standalone_seeding_is_refused() {
    for stage in [Stage::new(), Stage::with_works(1)] {
        let shift = stage.shift();
        let calls = stage.github.all_calls();
        for (role, code) in
            [("observer", Code::WorkQueueObserverReadOnly), ("dispatcher", Code::WorkQueueStandaloneSeedingUnsupported)]
        {
            for name in ["SEED", "INITIALIZE", "INITIALIZATION_CONTEXT"] {
                let mut job = Job::new(&stage, shift.run, role);
                job.set(&format!("GH_AW_WORK_QUEUE_{name}"), "true");
                refused(&mut job, &stage, code);
                assert!(job.probe.steps().is_empty());
            }
        }
        assert_eq!(stage.github.all_calls(), calls);
    }
}

/// O-032, jobs.md 3.2, step 4: a proposal is validated and never installed. One that AW manages may differ from the
/// installed Policy, another must equal it.
#[test]
fn a_proposal_is_checked_and_never_installed() {
    let stage = Stage::with_works(1);
    let shift = stage.shift();
    let policy: Value = serde_json::from_str(stage.policy().source.as_str()).unwrap();
    let activate = |text: &str| {
        let mut job = Job::new(&stage, shift.run, "dispatcher");
        job.set("GH_AW_WORK_QUEUE_POLICY", text);
        job
    };
    let mut other = policy.clone();
    other["pools"]["default"]["native_limit"] = json!(3);
    for text in [policy.to_string(), other.to_string()] {
        activate(&text).perform(activation::run).unwrap();
    }
    other.as_object_mut().unwrap().remove("authorization");
    other["producers"] = json!({"1": {"pools": ["default"], "priorities": [3], "fairness_keys": [""]}});
    let worker = &mut other["pools"]["default"]["profiles"]["worker"];
    worker.as_object_mut().unwrap().remove("logical_contract");
    worker["principal"] = "1".into();
    refused(&mut activate(&other.to_string()), &stage, Code::WorkQueuePolicyProposalMismatch);
    let long = format!("{}{}", policy, " ".repeat(4 * 1024 * 1024));
    refused(&mut activate(&long), &stage, Code::WorkQueuePolicyProposalLimit);
    refused(&mut activate(r#"{"pools":{},"pools":{}}"#), &stage, Code::DuplicateKey);
    refused(&mut activate("{}"), &stage, Code::PolicyInvalid);
    let mut parts = activate(&policy.to_string());
    parts.set("GH_AW_WORK_QUEUE_POLICY_PARTS", "1");
    refused(&mut parts, &stage, Code::SettingsInvalid);
    assert_eq!(stage.text().lines().count(), 1);
}

/// Jobs.md 3.2: where the runner's file cannot be written, no snapshot stays behind; where the snapshot cannot take its
/// place, no output is set.
#[test]
fn nothing_is_left_of_a_half_written_activation() {
    let (stage, shift, run) = launched();
    for (role, run) in [("dispatcher", shift.run), ("worker", run)] {
        let mut job = Job::new(&stage, run, role);
        job.outputs.unwritable = true;
        assert_eq!(job.perform(activation::run).unwrap_err().code(), Code::IoFailed);
        assert!(job.outputs.outputs.is_empty());
        assert_eq!(std::fs::read_dir(job.folder()).unwrap().count(), 0);
        let mut job = Job::new(&stage, run, role);
        std::fs::create_dir_all(job.paths().snapshot.join("in the way")).unwrap();
        assert_eq!(job.perform(activation::run).unwrap_err().code(), Code::IoFailed);
        assert!(job.outputs.outputs.is_empty());
        assert!(!job.folder().join("work-queue.prompt.md").exists());
        assert_eq!(std::fs::read_dir(job.folder()).unwrap().count(), 1);
    }
    // A link in the file's place is replaced and not followed.
    let mut job = Job::new(&stage, shift.run, "dispatcher");
    let elsewhere = job.folder().join("elsewhere");
    std::fs::write(&elsewhere, "kept").unwrap();
    std::os::unix::fs::symlink(&elsewhere, job.paths().snapshot).unwrap();
    job.perform(activation::run).unwrap();
    assert_eq!(std::fs::read_to_string(elsewhere).unwrap(), "kept");
    assert!(std::fs::symlink_metadata(job.paths().snapshot).unwrap().is_file());
}
