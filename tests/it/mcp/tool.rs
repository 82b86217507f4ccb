//! `wq tool`.

use serde_json::{Value, json};

use super::desk::{Desk, absent, dispatcher};
use crate::support::cli::Ran;

fn ok(ran: &Ran) -> Value {
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    serde_json::from_str(&ran.out).unwrap()
}

/// O-231: name and one JSON object, with the same handler as the server's: the same answer and the same file; the object may
/// come from standard input.
#[test]
fn one_call_answers_as_the_server() {
    let desk = Desk::new("dispatcher", &dispatcher());
    let expected = desk.ask("work_queue_read", &json!({"limit": 2}));
    let object = r#"{"limit":2}"#;
    for (arguments, input) in [
        (&["tool", "work_queue_read", object][..], ""),
        (&["tool", "Work-Queue-Read", object], ""),
        (&["tool", "work_queue_read"], object),
        (&["tool", "work_queue_read", "."], " {\"limit\": 2}\n"),
    ] {
        assert_eq!(ok(&desk.run(arguments, input.as_bytes())), expected, "{arguments:?}");
    }
    assert_eq!(ok(&desk.run(&["tool", "work_queue_read"], b"")), desk.ask("work_queue_read", &json!({})));
    let staged = ok(&desk.run(&["tool", "work_queue_submit", r#"{"nodes":[{"payload":{"task":"private"}}]}"#], b""));
    assert_eq!(staged["status"], "staged");
    assert_eq!(desk.staged(&desk.intents())[0]["intent_id"], staged["intent_id"]);
}

/// O-231: a refusal is one line on standard error and status 1; no operator's command can be reached by a tool's name. The
/// audit file says when, what and how, and holds no argument.
#[test]
fn refusals_and_the_audit() {
    let desk = Desk::new("dispatcher", &dispatcher());
    for (name, object, code) in [
        ("work_queue_reed", "{}", -32601),
        ("submit-work", "{}", -32601),
        ("control", "{}", -32601),
        ("work_queue_read", r#"{"limit":0}"#, -32602),
        ("work_queue_read", "[]", -32602),
        ("work_queue_read", "{", -32602),
        ("work_queue_read", r#"{"limit":1,"limit":1}"#, -32602),
        ("work_queue_read", r#"{"pool":"secret-pool"}"#, -32603),
        ("work_queue_claim_finish", r#"{"outcome":"completed"}"#, -32603),
    ] {
        let ran = desk.run(&["tool", name, object], b"");
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
        assert!(ran.err.starts_with(&format!("Error [{code}]: ")) && ran.err.lines().count() == 1, "{ran:?}");
        assert!(!ran.err.contains("secret-pool"));
    }
    ok(&desk.run(&["tool", "work_queue_read", r#"{"work":"secret-work"}"#], b""));
    let audit = std::fs::read_to_string(desk.path().join("audit/work-queue.jsonl")).unwrap();
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 10);
    assert!(!audit.contains("secret") && !audit.contains("reed") && !audit.contains("submit-work"), "{audit}");
    assert_eq!(
        (&lines[0]["tool"], &lines[0]["status"], &lines[0]["code"]),
        (&json!(null), &json!("error"), &json!(-32601))
    );
    assert_eq!((&lines[9]["tool"], &lines[9]["status"]), (&json!("work_queue_read"), &json!("ok")));
    let long = "x".repeat(10 * 1024 * 1024 + 1);
    assert_eq!(desk.run(&["tool", "work_queue_read"], long.as_bytes()).code, 2);
}

/// An observer's wrapper has the two tools that read.
#[test]
fn an_observer_has_two_tools() {
    let desk = Desk::new("observer", &absent("observer"));
    ok(&desk.run(&["tool", "work_queue_read", "{}"], b""));
    let ran = desk.run(&["tool", "work_queue_submit", r#"{"nodes":[{"payload":{}}]}"#], b"");
    assert_eq!((ran.code, ran.err.contains("work_queue_observer_read_only")), (1, true), "{ran:?}");
    assert!(!desk.staging().exists());
}

/// The help lists every tool, and shows one tool's schema with its bounds and defaults, without role or snapshot.
#[test]
fn help_needs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| crate::support::cli::run(folder.path(), arguments);
    let listed = run(&["tool", "--help"]);
    assert_eq!(listed.code, 0);
    for name in [
        "work_queue_read",
        "work_queue_explain",
        "work_queue_submit",
        "work_queue_dispatch_next",
        "work_queue_claim_finish",
    ] {
        assert!(listed.out.contains(name));
        let shown: Value = serde_json::from_str(&run(&["tool", name, "--help"]).out).unwrap();
        assert_eq!(shown["name"], name);
    }
    let shown: Value = serde_json::from_str(&run(&["tool", "work_queue_read", "--help"]).out).unwrap();
    let limit = &shown["inputSchema"]["properties"]["limit"];
    assert_eq!((&limit["minimum"], &limit["maximum"], &limit["default"]), (&json!(1), &json!(128), &json!(32)));
    assert_eq!(run(&["tool", "other", "--help"]).code, 2);
    assert_eq!(run(&["tool"]).code, 2);
    for mode in ["mcp", "collect"] {
        assert_eq!(run(&[mode, "--help"]).code, 0);
    }
}
