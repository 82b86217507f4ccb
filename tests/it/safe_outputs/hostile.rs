//! Files that an agent wrote: whatever is in them, nothing is widened, and every refusal has its code.

use serde_json::{Value, json};
use wq_action::jobs::safe_outputs::{PHASES, Phase, run};
use wq_action::protocol::Code;

use super::{NO_WRITES, PLANS, Ports, all, control_config, finish, operations, output, phase, put_out, submit, worker};
use crate::support::jobs::Job;
use crate::support::processes::Stage;

/// S-378, S-406, O-234: a forged snapshot names another assignment, another role or none: the run is not its, nothing is
/// settled, published or delivered.
#[test]
fn a_forged_snapshot_widens_nothing() {
    let stage = Stage::new();
    let worker = worker(&stage, &[NO_WRITES]);
    worker.finishes(&[finish("f1", None, "completed")]);
    worker.intents(&[submit("i1", None, "x")]);
    let path = worker.job.folder().join("work-queue.snapshot.json");
    let original = std::fs::read_to_string(&path).unwrap();
    let forged = |change: &dyn Fn(&mut Value)| {
        let mut snapshot: Value = serde_json::from_str(&original).unwrap();
        change(&mut snapshot);
        snapshot.to_string()
    };
    let before = stage.text();
    for (text, what) in [
        (forged(&|s| s["worker"]["dispatch_id"] = "d_other".into()), "another dispatch"),
        (
            forged(&|s| s["worker"]["claims"][0]["work"] = json!({"effect_contract": {"kind": "none"}, "x": 1})),
            "another task",
        ),
        (forged(&|s| s["worker"] = Value::Null), "no assignment"),
        (forged(&|s| s["role"] = "dispatcher".into()), "another role"),
        (forged(&|s| s["transactionLog"] = "".into()), "no ledger"),
        (forged(&|s| s["extra"] = 1.into()), "an open shape"),
        ("{".to_owned(), "no JSON"),
    ] {
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, text).unwrap();
        let mut job = worker.safe_outputs();
        job.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &control_config());
        all(&stage, &mut job).unwrap_err();
        assert_eq!(stage.text(), before, "{what}");
        assert_eq!(output(&job, "claim_authorizations")["status"], "failed", "{what}");
    }
    std::fs::remove_file(&path).unwrap();
    let mut job = worker.safe_outputs();
    assert_eq!(phase(&stage, &mut job, Phase::Settle).unwrap_err().code(), Code::WorkQueueSnapshotInvalid);
}

/// O-234, S-378: the snapshot of another run's assignment, put into a run that is real and authenticated, binds nothing.
#[test]
fn another_runs_assignment_is_not_this_runs() {
    let stage = Stage::new();
    let first = worker(&stage, &[NO_WRITES]);
    let shift = stage.shift();
    stage.process(&shift).submit(&stage.submission("more", 1)).unwrap();
    let run = super::grant(&stage, &shift, "grant-2", 1);
    let mut other = Job::new(&stage, run, "worker");
    other.perform(wq_action::jobs::activation::run).unwrap();
    let mut job = other.next();
    let from = first.job.folder().join("work-queue.snapshot.json");
    let to = job.folder().join("work-queue.snapshot.json");
    std::fs::remove_file(&to).unwrap();
    std::fs::copy(from, to).unwrap();
    std::fs::write(job.folder().join("work-queue.finish.jsonl"), format!("{}\n", finish("f1", None, "completed")))
        .unwrap();
    let before = stage.text();
    all(&stage, &mut job).unwrap_err();
    assert_eq!(stage.text(), before);
}

/// S-405, O-238: hostile finish files. A file that is none of ours fails the phase and touches no Claim; lines that are no
/// finishes complete nothing.
#[test]
fn hostile_finish_files_complete_nothing() {
    for text in [
        "\u{feff}{}".to_owned(),
        format!("{}\n", json!({"version": 3, "intent_id": "f", "kind": "finish", "parameters": {"outcome": "done"}})),
        format!("{}\n", json!({"version": 3, "intent_id": "f", "kind": "finish", "parameters": {}})),
        format!(
            "{}\n",
            json!({"version": 3, "intent_id": "f", "kind": "finish", "claim_handle": null, "parameters": {"outcome": "completed"}})
        ),
        format!(
            "{}\n",
            json!({"version": 3, "intent_id": "f", "kind": "finish", "authorized": true, "parameters": {"outcome": "completed"}})
        ),
        format!(
            "{}\n",
            json!({"version": 3, "intent_id": "f", "kind": "submit", "parameters": {"outcome": "completed"}})
        ),
        r#"{"version":3,"intent_id":"f","kind":"finish","parameters":{"outcome":"cancelled","outcome":"completed"}}"#
            .to_owned(),
    ] {
        let stage = Stage::new();
        let worker = worker(&stage, &[NO_WRITES]);
        std::fs::write(worker.job.folder().join("work-queue.finish.jsonl"), &text).unwrap();
        let mut job = worker.safe_outputs();
        phase(&stage, &mut job, Phase::Settle).unwrap();
        assert_eq!(worker.claims(), [("cancelled", "none")], "{text}");
        assert!(operations(&stage, "Completion").is_empty());
    }
    let stage = Stage::new();
    let worker = worker(&stage, &[NO_WRITES]);
    let path = worker.job.folder().join("work-queue.finish.jsonl");
    let good = format!("{}\n", finish("f", None, "completed"));
    std::fs::write(&path, good.repeat(257)).unwrap();
    assert_eq!(
        phase(&stage, &mut worker.safe_outputs(), Phase::Settle).unwrap_err().code(),
        Code::WorkQueueIntentLimit
    );
    std::fs::write(&path, b"\xff\n").unwrap();
    let code = phase(&stage, &mut worker.safe_outputs(), Phase::Settle).unwrap_err().code();
    assert_eq!(code, Code::WorkQueueIntentTransportInvalid);
    std::fs::remove_file(&path).unwrap();
    let elsewhere = worker.job.folder().join("elsewhere");
    std::fs::write(&elsewhere, good).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert_eq!(
        phase(&stage, &mut worker.safe_outputs(), Phase::Settle).unwrap_err().code(),
        Code::WorkQueueIntentLimit
    );
    assert_eq!(worker.claims(), [("open", "none")]);
}

/// O-211, O-212, S-508: hostile intents: an actor, a request id or a pool of the agent's choice changes nothing, unknown
/// members are refused, and no text of theirs reaches log, summary or annotation.
#[test]
fn hostile_intents_choose_nothing() {
    for parameters in [
        json!({"nodes": [{"payload": {}, "enqueued": null}]}),
        json!({"nodes": [{"payload": {}, "actor": {"role": "administrator"}}]}),
        json!({"nodes": [{"payload": {}, "work_id": "s3cret"}]}),
        json!({"nodes": [{"payload": {}, "worker_profile": "s3cret"}]}),
        json!({"nodes": [{"payload": {}, "fairness_key": "s3cret"}]}),
        json!({"nodes": [], "policy": {}}),
        json!({"nodes": [{"payload": {}}], "request_id": "s3cret"}),
        json!({"nodes": {}}),
        json!([]),
    ] {
        let stage = Stage::new();
        let worker = worker(&stage, &[PLANS]);
        worker.finishes(&[finish("f1", None, "completed")]);
        worker.intents(&[json!({"version": 3, "intent_id": "i", "kind": "submit", "parameters": parameters})]);
        let mut job = worker.safe_outputs();
        job.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &control_config());
        let ports = Ports::new(&stage, &job.probe);
        job.perform(|world| run(world, &ports, &PHASES)).unwrap_err();
        assert_eq!(operations(&stage, "Work").len(), 1, "{parameters}");
        let told = format!("{:?}{:?}{:?}", job.outputs.summaries, job.outputs.errors, job.outputs.notes);
        assert!(!told.contains("s3cret"), "{told}");
    }
    for parameters in [
        json!({"pool": "default", "max_claims": 1, "max_dispatches": 1, "work_id": "x"}),
        json!({"pool": "default", "max_claims": 1, "max_dispatches": 1, "worker_profiles": []}),
        json!({"pool": "default", "max_claims": 0, "max_dispatches": 1}),
        json!({"pool": "default", "max_claims": 257, "max_dispatches": 1}),
        json!({"pool": "", "max_claims": 1, "max_dispatches": 1}),
        json!({"max_claims": 1, "max_dispatches": 1}),
    ] {
        let stage = Stage::with_works(1);
        let mut job = Job::new(&stage, stage.shift().run, "dispatcher");
        job.perform(wq_action::jobs::activation::run).unwrap();
        job.set("GH_AW_WORK_QUEUE_CONTROL_CONFIG", &control_config());
        let line = json!({"version": 3, "intent_id": "g", "kind": "dispatch_next", "parameters": parameters});
        std::fs::write(job.folder().join("work-queue.intents.jsonl"), format!("{line}\n")).unwrap();
        let error = phase(&stage, &mut job, Phase::Controls).unwrap_err();
        assert_eq!(error.code(), Code::WorkQueueDispatchIntentInvalid, "{parameters}");
        assert!(operations(&stage, "Claim").is_empty());
    }
}

/// S-397, S-407: a hostile file of messages is refused whole or message by message, and settles nothing that it names.
#[test]
fn hostile_messages_prove_nothing() {
    let stage = Stage::new();
    let worker = worker(&stage, &[NO_WRITES]);
    worker.finishes(&[finish("f1", None, "completed")]);
    phase(&stage, &mut worker.safe_outputs(), Phase::Settle).unwrap();
    let path = worker.job.folder().join("agent_output.json");
    for text in [&b"[]"[..], b"{\"items\":[],\"items\":[]}", b"\xff", b"{\"items\":7}", b""] {
        std::fs::write(&path, text).unwrap();
        let mut job = worker.safe_outputs();
        job.set("GH_AW_AGENT_OUTPUT", path.to_str().unwrap());
        let code = phase(&stage, &mut job, Phase::Deliver).unwrap_err().code();
        assert_eq!(code, Code::WorkQueueOutputInvalid, "{text:?}");
    }
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
    let mut job = worker.safe_outputs();
    job.set("GH_AW_AGENT_OUTPUT", path.to_str().unwrap());
    assert_eq!(phase(&stage, &mut job, Phase::Deliver).unwrap_err().code(), Code::WorkQueueOutputInvalid);
    assert_eq!(worker.claims(), [("completed", "pending")]);
    // Staged controls that cannot be read leave nothing provable.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(worker.job.folder().join("work-queue.intents.jsonl"), b"\xff").unwrap();
    let mut job = worker.safe_outputs();
    put_out(&mut job, &[json!({"type": "noop"})]);
    phase(&stage, &mut job, Phase::Deliver).unwrap_err();
    assert_eq!(worker.claims(), [("completed", "pending")]);
}
