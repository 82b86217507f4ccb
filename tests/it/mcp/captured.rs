//! `wq replay --file`: a downloaded snapshot.

use serde_json::{Value, json};

use super::desk::{CAPTURED, Desk, absent, dispatcher, policy, queue, snapshot, worker};
use crate::support::built::{DISPATCHER, Node, Queue};
use crate::support::cli::{Ran, run};
use crate::support::ledger::work_id;

fn replay(desk: &Desk, more: &[&str]) -> Ran {
    let path = desk.snapshot();
    run(desk.path(), &[&["replay", "--json", "--file", path.to_str().unwrap()], more].concat())
}

/// O-333, O-338, O-340: a downloaded snapshot is validated and replayed by today's binary without repository, token or
/// network; what is shown is metadata and counts.
#[test]
fn a_file_is_replayed() {
    let desk = Desk::new("dispatcher", &dispatcher());
    let told = replay(&desk, &[]).json(0);
    let expected = json!({"status": "snapshot_replay", "source": {"kind": "file"}, "role": "dispatcher",
        "repository": "owner/repo", "workflow": ".github/workflows/dispatcher.lock.yml", "sha": "1".repeat(40),
        "policy_installed": true, "tip": queue().state.tip().unwrap().as_str(),
        "policy_epoch": queue().state.installed().unwrap().epoch.as_str(), "captured_at": CAPTURED,
        "evaluated_at": CAPTURED, "commit_count": 2, "admission_paused": false, "grants_paused": false,
        "stats": {"work": 4, "available": 4, "claimed": 0, "completed": 0, "cancelled": 0, "claims": 0, "dispatches": 0,
            "transactions": 2, "nodes": 5}});
    assert_eq!(told, expected);
    let (taken, grants) = worker(2);
    let told = replay(&Desk::new("worker", &taken), &[]).json(0);
    let assignment = &told["assignment"];
    assert_eq!((&told["role"], &assignment["dispatch_id"]), (&json!("worker"), &json!(grants[0].dispatch)));
    assert_eq!((&assignment["state"], &assignment["released"]), (&json!("bound"), &json!(false)));
    let claim = json!({"claim_handle": "h2", "claim_id": grants[1].claim, "work_id": grants[1].work, "state": "open",
        "delivery_barrier": "none"});
    assert_eq!(assignment["claims"][1], claim);
    assert!(!told.to_string().contains("task"), "a payload is shown");
    let mut observer = absent("observer");
    observer["origin"]["workflow"] = json!("w.yml");
    (observer["origin"]["run_id"], observer["origin"]["run_attempt"]) = (json!("5"), json!(1));
    let told = replay(&Desk::new("observer", &observer), &[]).json(0);
    assert_eq!(
        (&told["policy_installed"], &told["tip"], &told["stats"]["work"]),
        (&json!(false), &json!(null), &json!(0))
    );
}

/// O-341: with a pool the scheduler runs for the moment of the capture, within the given limits.
#[test]
fn a_prediction_is_of_the_capture() {
    let mut retried = Queue::open(&policy(), &[Node::new("a"), Node::new("b")]);
    let grants = retried.grant(2_000, 1, 1).unwrap();
    retried.cancel_claim(&grants[0], 2_100, 2_100 + 30_000).unwrap();
    let mut late = snapshot(&retried, DISPATCHER, None);
    let limits = ["--pool", "default", "--max-claims", "2", "--max-dispatches", "2"];
    let early = replay(&Desk::new("dispatcher", &late), &limits).json(0);
    let b = json!([work_id("graph", "b")]);
    assert_eq!((&early["prediction"]["work_ids"], &early["prediction"]["at"]), (&b, &json!(CAPTURED)));
    late["captured_at"] = json!(50_000);
    let desk = Desk::new("dispatcher", &late);
    let told = replay(&desk, &limits).json(0);
    let prediction = &told["prediction"];
    assert_eq!(
        (&prediction["claims"], &prediction["dispatches"], &prediction["pool"]),
        (&json!(2), &json!(1), &json!("default"))
    );
    let one = replay(&desk, &["--pool", "default"]).json(0);
    assert_eq!(
        (&one["prediction"]["claims"], &one["prediction"]["reason"]),
        (&json!(1), &json!("claim_budget_reached"))
    );
    assert_eq!(one["prediction"]["next"]["work_id"].as_str().map(str::len), Some(64));
    assert_eq!(replay(&desk, &["--pool", "elsewhere"]).error(2), "policy_invalid");
    for flags in [
        &["--max-claims", "2"][..],
        &["--pool", "default", "--max-claims", "257"],
        &["--run-id", "7"],
        &["--ledger", "x"],
    ] {
        assert_eq!(replay(&desk, flags).code, 2, "{flags:?}");
    }
    assert_eq!(replay(&Desk::new("dispatcher", &absent("dispatcher")), &["--pool", "default"]).code, 2);
}

/// A snapshot that does not hold together is refused by its code alone; what was written into it is not quoted.
#[test]
fn defective_files_are_refused() {
    const INVALID: &str = "work_queue_snapshot_invalid";
    let base = dispatcher();
    let (taken, _) = worker(1);
    let change = |base: &Value, path: &str, value: Value| {
        let mut changed = base.clone();
        *changed.pointer_mut(path).unwrap() = value;
        changed
    };
    for (what, snapshot, code) in [
        ("another role", change(&base, "/origin/role", json!("producer")), INVALID),
        ("no role at all", change(&base, "/origin/role", json!("secret")), INVALID),
        ("a foreign run", change(&taken, "/origin/run_id", json!("7")), "work_queue_assignment_mismatch"),
        ("another principal", change(&taken, "/origin/principal", json!("7")), "work_queue_assignment_mismatch"),
        ("another workflow", change(&taken, "/origin/workflow", json!("secret.yml")), "work_queue_assignment_mismatch"),
        ("another dispatch", change(&taken, "/origin/dispatch_id", json!("secret")), "work_queue_assignment_mismatch"),
        ("a second attempt", change(&taken, "/origin/run_attempt", json!(2)), INVALID),
        (
            "an edited task",
            change(&taken, "/worker/claims/0/work", json!({"secret": 1})),
            "work_queue_assignment_mismatch",
        ),
        ("a broken log", change(&base, "/transactionLog", json!("{\"secret\":1}\n")), "ledger_invalid"),
        ("no text", json!("secret"), INVALID),
    ] {
        let ran = replay(&Desk::new("dispatcher", &snapshot), &[]);
        assert_eq!(ran.error(3), code, "{what}");
        assert!(!ran.err.contains("secret"), "{what}: {}", ran.err);
    }
    let desk = Desk::new("dispatcher", &base);
    std::fs::File::create(desk.snapshot()).unwrap().set_len(162 * 1024 * 1024 + 1).unwrap();
    assert_eq!(replay(&desk, &[]).error(3), "resource_limit");
    std::fs::remove_file(desk.snapshot()).unwrap();
    assert_eq!(replay(&desk, &[]).error(7), "io_failed");
}

/// O-343: help and output say what a replay does not prove.
#[test]
fn a_replay_proves_little() {
    let desk = Desk::new("dispatcher", &dispatcher());
    let told = run(desk.path(), &["replay", "--file", desk.snapshot().to_str().unwrap(), "--pool", "default"]);
    assert!(told.out.ends_with("It proves no credential, no launch and no completion.\n"), "{told:?}");
    let help = run(desk.path(), &["replay", "--help"]).out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        help.contains("proves neither that a credential would be accepted now nor that a worker completed anything")
    );
    assert!(help.contains("such a fix needs a test of its own"));
}

/// O-338, O-342: traced, the replay of a file opens no connection and starts no program.
#[test]
fn a_file_is_replayed_offline() {
    if !super::confined::can_trace() {
        return;
    }
    let desk = Desk::new("dispatcher", &dispatcher());
    let log = desk.path().join("trace");
    let mut command = std::process::Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=%network,execve", "-o"]).arg(&log).arg(env!("CARGO_BIN_EXE_wq"));
    command.args(["replay", "--pool", "default", "--file"]).arg(desk.snapshot()).env("GH_TOKEN", "secret");
    assert!(command.output().unwrap().status.success());
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(log.lines().filter(|line| !line.contains("execve(")).count(), 0, "{log}");
    assert_eq!(log.lines().count(), 1, "{log}");
}
