//! What an agent might write in order to become more than it is, and the refusal of each.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use wq_action::agent::intent::{parse_batch, parse_finishes};
use wq_action::agent::snapshot::Snapshot;
use wq_action::protocol::assignment::Assignment;
use wq_action::protocol::json::Scanner;

use super::desk::{Desk, absent, dispatcher, worker};
use crate::support::built::PRODUCER;
use crate::support::ledger::HOST;

fn refusal(desk: &Desk) -> String {
    desk.open(|_| ()).map_or_else(|fault| fault.code().as_str().to_owned(), |()| "accepted".to_owned())
}

fn changed(base: &Value, change: impl FnOnce(&mut Value)) -> Value {
    let mut changed = base.clone();
    change(&mut changed);
    changed
}

/// jobs.md 12, number 3: each row of the table of reading a snapshot, one file each.
#[test]
fn jobs_03_each_row_of_the_snapshot_reader() {
    const INVALID: &str = "work_queue_snapshot_invalid";
    let base = dispatcher();
    let (worker, _) = worker(1);
    let cases: Vec<(&str, &'static str, Value, &str)> = vec![
        ("as it is", "dispatcher", base.clone(), "accepted"),
        ("an unknown member", "dispatcher", changed(&base, |s| s["more"] = json!(1)), INVALID),
        ("no origin", "dispatcher", changed(&base, |s| drop(s.as_object_mut().unwrap().remove("origin"))), INVALID),
        ("version 2", "dispatcher", changed(&base, |s| s["version"] = json!(2)), INVALID),
        ("a short sha", "dispatcher", changed(&base, |s| s["sha"] = json!("1".repeat(39))), INVALID),
        ("a log that is no text", "dispatcher", changed(&base, |s| s["transactionLog"] = json!([])), INVALID),
        ("captured before the epoch", "dispatcher", changed(&base, |s| s["captured_at"] = json!(-1)), "ledger_invalid"),
        (
            "an origin with a token",
            "dispatcher",
            changed(&base, |s| s["origin"]["authenticated"] = json!(true)),
            INVALID,
        ),
        ("an unknown role", "dispatcher", changed(&base, |s| s["role"] = json!("admin")), INVALID),
        ("hidden Work that is no list", "dispatcher", changed(&base, |s| s["visible_work_ids"] = json!({})), INVALID),
        (
            "another role",
            "dispatcher",
            changed(&base, |s| s["role"] = json!("observer")),
            "work_queue_runtime_role_conflict",
        ),
        ("a worker without assignment", "worker", base.clone(), "claim_scope_invalid"),
        ("an assignment without a worker", "dispatcher", worker.clone(), "claim_scope_invalid"),
        ("an assignment for an observer", "observer", worker.clone(), "claim_scope_invalid"),
        (
            "an empty log with a sha",
            "dispatcher",
            changed(&base, |s| s["transactionLog"] = json!("")),
            "work_queue_policy_missing",
        ),
        ("a log without its sha", "dispatcher", changed(&base, |s| s["sha"] = json!(null)), INVALID),
        (
            "an absent queue for a worker",
            "worker",
            changed(&worker, |s| {
                s["sha"] = json!(null);
                s["transactionLog"] = json!("");
            }),
            "work_queue_policy_missing",
        ),
        ("an absent queue", "observer", absent("observer"), "accepted"),
        (
            "a blank line in the log",
            "dispatcher",
            changed(&base, |s| s["transactionLog"] = json!(format!("{}\n", s["transactionLog"].as_str().unwrap()))),
            "ledger_invalid",
        ),
    ];
    for (what, role, snapshot, expected) in cases {
        assert_eq!(refusal(&Desk::new(role, &snapshot)), expected, "{what}");
    }
    let desk = Desk::new("dispatcher", &base);
    for (what, bytes) in [
        ("bad UTF-8", b"{\"version\":3\xff}".to_vec()),
        ("a byte order mark", format!("\u{feff}{base}").into_bytes()),
        ("a repeated key", base.to_string().replacen('{', "{\"version\":3,", 1).into_bytes()),
        ("half a file", base.to_string().as_bytes()[..100].to_vec()),
        ("an empty file", Vec::new()),
        ("two values", format!("{base}\n{base}\n").into_bytes()),
    ] {
        std::fs::write(desk.snapshot(), bytes).unwrap();
        assert_eq!(refusal(&desk), INVALID, "{what}");
    }
    std::fs::write(desk.snapshot(), base.to_string()).unwrap();
    assert_eq!(refusal(&desk), "accepted", "without its last line feed");
    std::fs::remove_file(desk.snapshot()).unwrap();
    assert_eq!(refusal(&desk), INVALID, "a missing file");
    let long = |size: usize| {
        format!(
            r#"{{"captured_at":1,"origin":{PRODUCER},"sha":"{}","transactionLog":"{}","version":3,"worker":null}}"#,
            "1".repeat(40),
            "x".repeat(size)
        )
    };
    let most = 80 * 1024 * 1024;
    let code =
        |size: usize| Snapshot::parse(long(size).into_bytes(), HOST).map_err(|fault| fault.code().as_str()).err();
    assert_eq!(code(most + 1), Some("ledger_limit"));
    assert_eq!(code(most), None);
    let file = std::fs::File::create(desk.snapshot()).unwrap();
    file.set_len(162 * 1024 * 1024 + 1).unwrap();
    assert_eq!(refusal(&desk), INVALID, "more than 162 MiB");
}

/// S-512, O-214, O-376: whatever the agent writes in the snapshot's place or into it, the protected role and the ledger's own
/// assignment decide; legacy winners of its choice are no assignment.
#[test]
fn forged_snapshots_are_refused() {
    const INVALID: &str = "work_queue_snapshot_invalid";
    let (base, _) = worker(1);
    let (two, _) = worker(2);
    for (what, role, snapshot, expected) in [
        (
            "a role that it was not compiled with",
            "observer",
            changed(&dispatcher(), |s| s["role"] = json!("worker")),
            "work_queue_runtime_role_conflict",
        ),
        (
            "a worker that says observer",
            "worker",
            changed(&base, |s| s["role"] = json!("observer")),
            "work_queue_runtime_role_conflict",
        ),
        (
            "an edited payload",
            "worker",
            changed(&base, |s| s["worker"]["claims"][0]["work"]["task"] = json!("mine")),
            "work_queue_assignment_mismatch",
        ),
        (
            "another handle",
            "worker",
            changed(&base, |s| s["worker"]["claims"][0]["handle"] = json!("h2")),
            "work_queue_assignment_mismatch",
        ),
        (
            "another dispatch",
            "worker",
            changed(&base, |s| s["worker"]["dispatch_id"] = json!("d_1")),
            "work_queue_assignment_mismatch",
        ),
        (
            "another's assignment",
            "worker",
            changed(&base, |s| s["worker"] = two["worker"].clone()),
            "work_queue_assignment_mismatch",
        ),
        ("a member more", "worker", changed(&base, |s| s["worker"]["authorized"] = json!(true)), "claim_scope_invalid"),
        ("a legacy scalar", "worker", changed(&base, |s| s["worker"] = json!("w_1")), "claim_scope_invalid"),
        (
            "a legacy winner",
            "worker",
            changed(&base, |s| s["worker"] = json!({"work_queue_claim": "c_1"})),
            "claim_scope_invalid",
        ),
        (
            "a log cut short",
            "worker",
            changed(&base, |s| {
                let log = s["transactionLog"].as_str().unwrap();
                let first = log.lines().next().unwrap().to_owned() + "\n";
                s["transactionLog"] = json!(first);
            }),
            "work_queue_assignment_mismatch",
        ),
        (
            "an edited task in the log",
            "worker",
            changed(&base, |s| {
                let log = s["transactionLog"].as_str().unwrap().replacen(r#"{"task":"a"}"#, r#"{"task":"x"}"#, 1);
                s["transactionLog"] = json!(log);
            }),
            "request_invalid",
        ),
    ] {
        let desk = Desk::new(role, &snapshot);
        assert_eq!(refusal(&desk), expected, "{what}");
        let ran = desk.run(&["mcp"], b"");
        assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{what}");
    }
    let desk = Desk::new("worker", &base);
    let real = desk.path().join("real.json");
    std::fs::rename(desk.snapshot(), &real).unwrap();
    symlink(&real, desk.snapshot()).unwrap();
    assert_eq!(refusal(&desk), INVALID, "a link");
    std::fs::remove_file(desk.snapshot()).unwrap();
    std::fs::hard_link(&real, desk.snapshot()).unwrap();
    assert_eq!(refusal(&desk), INVALID, "a second name");
    std::fs::remove_file(desk.snapshot()).unwrap();
    std::fs::create_dir(desk.snapshot()).unwrap();
    assert_eq!(refusal(&desk), INVALID, "a folder");
}

/// S-506, O-230: a staged file that is a link, has a second name, or is no file at all is not written to, and neither is what
/// it leads to.
#[test]
fn forged_staged_files_are_not_written_to() {
    let desk = Desk::new("dispatcher", &absent("dispatcher"));
    let dispatch = json!({"pool": "default", "max_claims": 1, "max_dispatches": 1});
    std::fs::create_dir_all(desk.staging()).unwrap();
    let target = desk.path().join("target");
    std::fs::write(&target, "").unwrap();
    let refused = || desk.refused("work_queue_dispatch_next", &dispatch);
    let limit = (-32603, "work_queue_intent_limit".to_owned());
    symlink(&target, desk.intents()).unwrap();
    assert_eq!(refused(), limit, "a link");
    std::fs::remove_file(desk.intents()).unwrap();
    symlink(desk.path().join("nowhere"), desk.intents()).unwrap();
    assert_eq!(refused(), limit, "a dangling link");
    std::fs::remove_file(desk.intents()).unwrap();
    std::fs::hard_link(&target, desk.intents()).unwrap();
    assert_eq!(refused(), limit, "a second name");
    std::fs::remove_file(desk.intents()).unwrap();
    std::fs::create_dir(desk.intents()).unwrap();
    assert_eq!(refused(), limit, "a folder");
    std::fs::remove_dir(desk.intents()).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, desk.intents(), rustix::fs::Mode::from_raw_mode(0o644)).unwrap();
    assert_eq!(refused(), limit, "a pipe");
    assert_eq!(std::fs::read(&target).unwrap(), b"");
    assert!(!desk.path().join("nowhere").exists());
    // One that stages at this moment keeps others out instead of mixing lines.
    std::fs::remove_file(desk.intents()).unwrap();
    let held = std::fs::File::create(desk.intents()).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert_eq!(refused(), (-32603, "io_failed".to_owned()));
    drop(held);
    desk.ask("work_queue_dispatch_next", &dispatch);
}

/// O-039, O-214, O-243: lines that an agent writes past the tools give it nothing: what is no closed intent of a known
/// kind is an error, and a finish that is for no Claim of the original assignment ends none.
#[test]
fn forged_lines_give_nothing() {
    let (snapshot, _) = worker(1);
    let original = Assignment::parse(&snapshot["worker"].to_string()).unwrap();
    let finish = |change: Value| {
        let mut line = json!({"version": 3, "intent_id": "i", "kind": "finish", "parameters": {"outcome": "completed"},
            "claim_handle": "h1"});
        for (name, value) in change.as_object().unwrap() {
            line[name] = value.clone();
        }
        line
    };
    let read = |line: &str| parse_finishes(line.as_bytes(), &original, &mut Scanner::new(HOST)).unwrap();
    assert_eq!(read(&finish(json!({})).to_string()).by_handle.len(), 1);
    for change in [
        json!({"claim_handle": "h2"}),
        json!({"claim_handle": "c_foreign"}),
        json!({"claim_handle": null}),
        json!({"kind": "submit"}),
        json!({"kind": "complete_work"}),
        json!({"version": 4}),
        json!({"intent_id": ""}),
        json!({"authorized": true}),
        json!({"run_id": "1"}),
        json!({"actor": {"role": "administrator"}}),
        json!({"parameters": {}}),
        json!({"parameters": {"outcome": "verified"}}),
        json!({"parameters": {"outcome": "cancelled", "keep_open": true}}),
        json!({"parameters": {"outcome": "completed", "dispatch_id": "d"}}),
        json!({"parameters": {"outcome": "completed", "evidence": {}}}),
    ] {
        let found = read(&finish(change.clone()).to_string());
        assert!(found.by_handle.is_empty(), "{change}");
        assert_eq!(found.errors.len(), 1, "{change}");
    }
    let intent = |change: Value| {
        let mut line =
            json!({"version": 3, "intent_id": "i", "kind": "dispatch_next", "parameters": {"pool": "default"}});
        for (name, value) in change.as_object().unwrap() {
            line[name] = value.clone();
        }
        line.to_string()
    };
    let batch = |line: &str| parse_batch(line.as_bytes(), &mut Scanner::new(HOST)).unwrap();
    assert_eq!(batch(&intent(json!({}))).intents.len(), 1);
    for change in [
        json!({"kind": "policy"}),
        json!({"kind": "release"}),
        json!({"kind": "grant"}),
        json!({"version": "3"}),
        json!({"origin": {"role": "administrator"}}),
        json!({"request_id": "r"}),
        json!({"parameters": []}),
        json!({"intent_id": 7}),
        json!({"intent_id": "x".repeat(257)}),
        json!({"claim_handle": null}),
    ] {
        let found = batch(&intent(change.clone()));
        assert!(found.intents.is_empty(), "{change}");
        assert_eq!(found.errors.len(), 1, "{change}");
    }
    assert!(
        batch(r#"{"version":3,"intent_id":"i","intent_id":"i","kind":"submit","parameters":{}}"#).intents.is_empty()
    );
}
