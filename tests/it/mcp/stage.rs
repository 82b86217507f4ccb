//! What the tools stage, and what they refuse to.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use wq_action::agent::intent::{parse_batch, parse_finishes};
use wq_action::protocol::assignment::Assignment;
use wq_action::protocol::json::Scanner;

use super::desk::{Desk, absent, dispatcher, origin, policy, snapshot, worker};
use crate::support::built::{Node, Queue};
use crate::support::ledger::HOST;

const SUBMIT: &str = "work_queue_submit";
const DISPATCH: &str = "work_queue_dispatch_next";
const FINISH: &str = "work_queue_claim_finish";

fn handler(code: &str) -> (i64, String) {
    (-32603, code.to_owned())
}

fn params(tool: &str) -> (i64, String) {
    (-32602, tool.to_owned())
}

/// S-503, S-504, S-507, S-509, O-229, O-245: what is staged is an intent with what was given and a status that says no
/// more than `staged`; a dispatch is a pool and two limits.
#[test]
fn intents_are_staged() {
    let desk = Desk::new("dispatcher", &dispatcher());
    let node = json!({"payload": {"task": "t"}, "worker_profile": "default", "graph_id": "g", "node_key": "k",
        "pool": "default", "priority": 2, "fairness_key": "team",
        "depends_on": [{"kind": "work", "node_key": "other"}]});
    let first = desk.ask(SUBMIT, &json!({"nodes": [node]}));
    let second = desk.ask(DISPATCH, &json!({"pool": "default", "max_claims": 2, "max_dispatches": 1}));
    let id = |n: &str| format!("intent:{n}");
    let staged = |id: &str| json!({"intent_id": id, "status": "staged"});
    let (a, b) = (id("00000000-0000-4000-8000-000000000000"), id("01010101-0101-4101-8101-010101010101"));
    assert_eq!([first, second], [staged(&a), staged(&b)]);
    let expected = [
        json!({"version": 3, "intent_id": a, "kind": "submit", "parameters": {"nodes": [node]}}),
        json!({"version": 3, "intent_id": b, "kind": "dispatch_next",
            "parameters": {"pool": "default", "max_claims": 2, "max_dispatches": 1}}),
    ];
    assert_eq!(desk.staged(&desk.intents()), expected);
    let text = std::fs::read(desk.intents()).unwrap();
    assert_eq!(parse_batch(&text, &mut Scanner::new(HOST)).unwrap().intents.len(), 2);
    let mode = std::fs::metadata(desk.intents()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    assert!(!desk.finish().exists());
    // Nothing of it is in a later read.
    assert_eq!(desk.ask("work_queue_read", &json!({}))["total"], 4);
}

/// S-578, O-039, O-229: no tool takes a member that would choose authority, an actor, a trace, Work, a worker's revision or
/// a Policy; nothing is staged then.
#[test]
fn overrides_are_refused() {
    let desk = Desk::new("dispatcher", &dispatcher());
    let limits = || json!({"pool": "default", "max_claims": 1, "max_dispatches": 1});
    for name in [
        "actor",
        "role",
        "principal",
        "authority",
        "authorized",
        "trace",
        "trace_id",
        "policy",
        "policy_epoch",
        "request_id",
        "work",
        "work_id",
        "worker",
        "worker_profiles",
        "ref",
        "filter",
        "max_bytes",
        "origin",
        "captured_at",
        "run_id",
        "assignment",
    ] {
        let mut arguments = limits();
        arguments[name] = json!("x");
        assert_eq!(desk.refused(DISPATCH, &arguments), params(DISPATCH), "{name}");
        let arguments = json!({"nodes": [{"payload": {}}], name: "x"});
        assert_eq!(desk.refused(SUBMIT, &arguments), params(SUBMIT), "{name}");
        if !["work_id"].contains(&name) {
            let arguments = json!({"nodes": [{"payload": {}, name: "x"}]});
            assert_eq!(desk.refused(SUBMIT, &arguments), params(SUBMIT), "{name}");
        }
        assert_eq!(desk.refused(FINISH, &json!({"outcome": "completed", name: "x"})), params(FINISH), "{name}");
    }
    for node in [
        json!({"payload": {}, "kind": "Work"}),
        json!({"payload": {}, "enqueued": 1}),
        json!({"payload": {}, "batch_trust_domain": "other"}),
        json!({"payload": {}, "resource_scope": {}}),
        json!({"payload": {}, "keep_open": true}),
    ] {
        assert_eq!(desk.refused(SUBMIT, &json!({"nodes": [node]})), params(SUBMIT), "{node}");
    }
    assert!(!desk.intents().exists());
}

/// O-217, O-228: a plan beyond the bounds of the tool or of the installed Policy is refused when it is staged, with the
/// code that its acceptance would have; on an absent queue its form alone is looked at.
#[test]
fn plans_stay_within_installed_bounds() {
    let desk = Desk::new("dispatcher", &dispatcher());
    let node = |more: Value| {
        let mut node = json!({"payload": {"task": "t"}});
        for (name, value) in more.as_object().unwrap() {
            node[name] = value.clone();
        }
        json!({"nodes": [node]})
    };
    let large = json!({"payload": {"task": "x".repeat(16_384)}});
    let refused: [(Value, (i64, String)); 21] = [
        (node(json!({"pool": "other"})), handler("policy_invalid")),
        (node(json!({"fairness_key": "unregistered"})), handler("admission_unauthorized")),
        (node(json!({"worker_profile": "unapproved"})), handler("work_invalid")),
        (node(json!({"work_id": "w"})), handler("work_identity_invalid")),
        (node(large), handler("resource_limit")),
        (node(json!({"graph_id": "a\u{7}b"})), handler("work_invalid")),
        (node(json!({"node_key": "\u{e9}".repeat(200)})), handler("work_invalid")),
        (node(json!({"depends_on": [{"kind": "work", "node_key": ""}]})), handler("dependency_invalid")),
        (node(json!({"priority": 0})), params(SUBMIT)),
        (node(json!({"priority": 6})), params(SUBMIT)),
        (node(json!({"priority": "1"})), params(SUBMIT)),
        (node(json!({"pool": null})), params(SUBMIT)),
        (node(json!({"logical_contract": "C".repeat(64)})), params(SUBMIT)),
        (node(json!({"execution_ref": "a".repeat(41)})), params(SUBMIT)),
        (node(json!({"graph_id": "g".repeat(257)})), params(SUBMIT)),
        (node(json!({"payload": []})), params(SUBMIT)),
        (json!({"nodes": [{"graph_id": "g"}]}), params(SUBMIT)),
        (json!({"nodes": []}), params(SUBMIT)),
        (json!({"nodes": {}}), params(SUBMIT)),
        (json!({"nodes": vec![json!({"payload": {}}); 257]}), params(SUBMIT)),
        (json!({}), params(SUBMIT)),
    ];
    for (arguments, expected) in refused {
        assert_eq!(desk.refused(SUBMIT, &arguments), expected, "{arguments}");
    }
    let limits = |pool: Value, claims: Value, dispatches: Value| json!({"pool": pool, "max_claims": claims, "max_dispatches": dispatches});
    for (arguments, expected) in [
        (limits(json!("other"), json!(1), json!(1)), handler("policy_invalid")),
        (limits(json!("default"), json!(0), json!(1)), params(DISPATCH)),
        (limits(json!("default"), json!(1), json!(257)), params(DISPATCH)),
        (limits(json!("default"), json!("1"), json!(1)), params(DISPATCH)),
        (limits(json!("default"), json!(1.5), json!(1)), (-32602, "noncanonical_number".to_owned())),
        (limits(json!(" "), json!(1), json!(1)), params(DISPATCH)),
        (json!({"pool": "default", "max_claims": 1}), params(DISPATCH)),
    ] {
        assert_eq!(desk.refused(DISPATCH, &arguments), expected, "{arguments}");
    }
    assert!(!desk.intents().exists());
    let empty = Desk::new("dispatcher", &absent("dispatcher"));
    empty.ask(SUBMIT, &node(json!({"pool": "other", "fairness_key": "new"})));
    empty.ask(DISPATCH, &limits(json!("other"), json!(256), json!(256)));
    assert_eq!(empty.refused(SUBMIT, &node(json!({"graph_id": "a\u{7}b"}))), handler("work_invalid"));
}

/// S-656: what a worker plans keeps its own Work's pool, priority and key; it can name no new key, better its priority or
/// touch a Policy or a reservation, because no tool does.
#[test]
fn a_worker_plans_within_its_own_entitlement() {
    let (snapshot, _) = worker(1);
    let desk = Desk::new("worker", &snapshot);
    let plan = |more: Value| {
        let mut node = json!({"payload": {"task": "t"}, "node_key": "child"});
        for (name, value) in more.as_object().unwrap() {
            node[name] = value.clone();
        }
        json!({"nodes": [node]})
    };
    let staged = desk.ask(SUBMIT, &plan(json!({})));
    assert_eq!((&staged["status"], &staged["claim_handle"]), (&json!("staged"), &json!("h1")));
    assert_eq!(desk.staged(&desk.intents())[0]["claim_handle"], "h1");
    desk.ask(SUBMIT, &plan(json!({"pool": "default", "priority": 3, "fairness_key": ""})));
    for more in [
        json!({"priority": 1}),
        json!({"priority": 4}),
        json!({"fairness_key": "team"}),
        json!({"fairness_key": "new"}),
    ] {
        assert_eq!(desk.refused(SUBMIT, &plan(more.clone())), handler("child_entitlement"), "{more}");
    }
    assert_eq!(desk.refused(SUBMIT, &plan(json!({"pool": "other"}))), handler("policy_invalid"));
    assert_eq!(desk.staged(&desk.intents()).len(), 2);
}

/// S-505, O-230, O-240: a finish is for one original Claim; a worker of one Claim may leave the handle out, one of several
/// must name it, and may keep the Work open.
#[test]
fn a_finish_is_for_one_claim() {
    let (one, _) = worker(1);
    let desk = Desk::new("worker", &one);
    let told = desk.ask(FINISH, &json!({"outcome": "completed", "keep_open": true}));
    assert_eq!((&told["status"], &told["claim_handle"]), (&json!("staged"), &json!("h1")));
    let staged = desk.staged(&desk.finish());
    let parameters = json!({"outcome": "completed", "keep_open": true});
    assert_eq!((&staged[0]["kind"], &staged[0]["parameters"]), (&json!("finish"), &parameters));
    assert_eq!(staged[0]["claim_handle"], "h1");
    assert!(!desk.intents().exists());

    let (two, _) = worker(2);
    let desk = Desk::new("worker", &two);
    assert_eq!(desk.refused(FINISH, &json!({"outcome": "completed"})), handler("claim_scope_required"));
    for tool in [SUBMIT, DISPATCH] {
        let arguments = match tool {
            SUBMIT => json!({"nodes": [{"payload": {}}]}),
            _ => json!({"pool": "default", "max_claims": 1, "max_dispatches": 1}),
        };
        assert_eq!(desk.refused(tool, &arguments), handler("claim_scope_required"));
    }
    desk.ask(FINISH, &json!({"outcome": "completed", "claim_handle": "h1", "keep_open": true}));
    desk.ask(FINISH, &json!({"outcome": "cancelled", "claim_handle": "h2"}));
    for handle in ["h3", "H1", "c_1"] {
        assert_eq!(
            desk.refused(FINISH, &json!({"outcome": "completed", "claim_handle": handle})),
            handler("claim_scope_invalid")
        );
    }
    let dispatcher = Desk::new("dispatcher", &dispatcher());
    assert_eq!(dispatcher.refused(FINISH, &json!({"outcome": "completed"})), handler("work_queue_assignment_required"));
    let arguments = json!({"pool": "default", "max_claims": 1, "max_dispatches": 1, "claim_handle": "h1"});
    assert_eq!(dispatcher.refused(DISPATCH, &arguments), handler("work_queue_claim_scope_invalid"));
}

/// jobs.md 12, number 2: when all members but one are settled, the handle must still be named.
#[test]
fn jobs_02_a_settled_sibling_enables_no_inference() {
    let mut queue = Queue::open(&policy(), &[Node::new("a"), Node::new("e")]);
    let grants = queue.grant(2_000, 2, 1).unwrap();
    queue.start(&grants[0], 2_001).unwrap();
    queue.bind(&grants[0], 2_002).unwrap();
    queue.finish(&grants[0], "completed", 2_003).unwrap();
    let desk = Desk::new("worker", &snapshot(&queue, &origin(&grants[0]), Some(&grants[0])));
    assert_eq!(desk.refused(FINISH, &json!({"outcome": "completed"})), handler("claim_scope_required"));
    desk.ask(FINISH, &json!({"outcome": "completed", "claim_handle": "h2"}));
}

/// jobs.md 12, number 8; O-241, O-242: a repeated finish must say the same, and is then told under its first name without
/// another line; `keep_open` is a boolean, false when absent, and goes with completed alone.
#[test]
fn jobs_08_finishes_repeat_or_conflict() {
    let (snapshot, _) = worker(2);
    let desk = Desk::new("worker", &snapshot);
    let finish = |handle: &str, outcome: &str, keep_open: Option<Value>| {
        let mut arguments = json!({"claim_handle": handle, "outcome": outcome});
        if let Some(keep_open) = keep_open {
            arguments["keep_open"] = keep_open;
        }
        arguments
    };
    let first = desk.ask(FINISH, &finish("h1", "completed", None));
    for same in [None, Some(json!(false))] {
        assert_eq!(desk.ask(FINISH, &finish("h1", "completed", same)), first);
    }
    let kept = desk.ask(FINISH, &finish("h2", "completed", Some(json!(true))));
    assert_eq!(desk.ask(FINISH, &finish("h2", "completed", Some(json!(true)))), kept);
    assert_ne!(first["intent_id"], kept["intent_id"]);
    for (handle, outcome, keep_open) in [
        ("h1", "cancelled", None),
        ("h1", "completed", Some(json!(true))),
        ("h2", "completed", None),
        ("h2", "completed", Some(json!(false))),
        ("h2", "cancelled", None),
    ] {
        let arguments = finish(handle, outcome, keep_open);
        assert_eq!(desk.refused(FINISH, &arguments), handler("work_queue_finish_conflict"), "{arguments}");
    }
    let arguments = finish("h1", "cancelled", Some(json!(true)));
    assert_eq!(desk.refused(FINISH, &arguments), handler("work_queue_finish_invalid"));
    for keep_open in [json!("true"), json!(null), json!(1), json!([]), json!({})] {
        let arguments = finish("h1", "completed", Some(keep_open));
        assert_eq!(desk.refused(FINISH, &arguments), params(FINISH), "{arguments}");
    }
    for outcome in [json!("done"), json!("Completed"), json!(null), json!(true), json!("")] {
        assert_eq!(desk.refused(FINISH, &json!({"claim_handle": "h1", "outcome": outcome})), params(FINISH));
    }
    assert_eq!(desk.refused(FINISH, &json!({"claim_handle": "h1"})), params(FINISH));
    let lines = desk.staged(&desk.finish());
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["parameters"], json!({"outcome": "completed"}));
}

/// jobs.md 12, number 9; O-228: 256 lines and 4 MiB to the byte, each file by itself; what is not ours stops staging and
/// stays as it is.
#[test]
fn jobs_09_limits_of_staging() {
    let desk = Desk::new("dispatcher", &absent("dispatcher"));
    let dispatch = json!({"pool": "default", "max_claims": 1, "max_dispatches": 1});
    let line = |n: usize, size: usize| {
        let text = |pad: usize| {
            json!({"version": 3, "intent_id": format!("intent:{n}"), "kind": "submit",
                "parameters": {"nodes": [{"payload": {"task": "x".repeat(pad)}}]}})
            .to_string()
        };
        text(size.saturating_sub(text(0).len()))
    };
    let write = |text: &str| {
        std::fs::create_dir_all(desk.staging()).unwrap();
        std::fs::write(desk.intents(), text).unwrap();
    };
    let lines: Vec<String> = (0..255).map(|n| line(n, 0)).collect();
    // Blank lines are not counted, and a last line without its end is completed.
    write(&lines.join("\n\n"));
    desk.ask(DISPATCH, &dispatch);
    assert_eq!(desk.refused(DISPATCH, &dispatch), handler("work_queue_intent_limit"));
    let text = std::fs::read_to_string(desk.intents()).unwrap();
    assert_eq!((text.lines().filter(|line| !line.is_empty()).count(), text.ends_with('\n')), (256, true));

    let most = 4 * 1024 * 1024;
    write("");
    desk.ask(DISPATCH, &dispatch);
    let own = std::fs::metadata(desk.intents()).unwrap().len() as usize;
    for (room, fits) in [(own, true), (own - 1, false)] {
        let filler = line(0, most - room - 1) + "\n";
        assert_eq!(filler.len(), most - room);
        write(&filler);
        let called = desk.call(DISPATCH, &dispatch);
        assert_eq!(called.is_ok(), fits, "{called:?}");
        let size = std::fs::metadata(desk.intents()).unwrap().len() as usize;
        assert_eq!(size, if fits { most } else { filler.len() });
    }
    write(&"x".repeat(most + 1));
    assert_eq!(desk.refused(DISPATCH, &dispatch), handler("work_queue_intent_limit"));

    let own = line(7, 0);
    let other = own.replace("\"task\":\"\"", "\"task\":\"other\"");
    for (text, code) in [
        ("garbage\n".to_owned(), "work_queue_intent_invalid"),
        (own[..own.len() - 2].to_owned(), "work_queue_intent_invalid"),
        (own.replace("\"version\":3", "\"version\":2"), "work_queue_intent_invalid"),
        (own.replace("submit", "policy"), "work_queue_intent_invalid"),
        (own.replace("\"version\":3", "\"version\":3,\"actor\":{}"), "work_queue_intent_invalid"),
        (format!("{own}\n{other}\n"), "work_queue_intent_conflict"),
        (own.replace("\"kind\":\"submit\"", "\"kind\":\"finish\""), "work_queue_intent_invalid"),
    ] {
        write(&text);
        assert_eq!(desk.refused(DISPATCH, &dispatch), handler(code), "{text}");
        assert_eq!(std::fs::read_to_string(desk.intents()).unwrap(), text);
    }
    std::fs::write(desk.intents(), b"\xff\xfe\n").unwrap();
    assert_eq!(desk.refused(DISPATCH, &dispatch), handler("work_queue_intent_transport_invalid"));
    // The other file has its own limits.
    write(&format!("{own}\n{own}\n"));
    desk.ask(DISPATCH, &dispatch);
}

/// lifecycle.md 11, number 14: `claim_handle: null` is invalid even where the handle could be inferred, at the tool and in
/// a file.
#[test]
fn lifecycle_14_a_null_handle_is_no_absent_handle() {
    let (snapshot, _) = worker(1);
    let desk = Desk::new("worker", &snapshot);
    assert_eq!(desk.refused(FINISH, &json!({"outcome": "completed", "claim_handle": null})), params(FINISH));
    assert_eq!(desk.refused(FINISH, &json!({"outcome": "completed", "claim_handle": ""})), params(FINISH));
    assert!(!desk.finish().exists());
    let original = Assignment::parse(&snapshot["worker"].to_string()).unwrap();
    for handle in [json!(null), json!(""), json!(1)] {
        let line = json!({"version": 3, "intent_id": "i", "kind": "finish", "parameters": {"outcome": "completed"},
            "claim_handle": handle});
        let found = parse_finishes(line.to_string().as_bytes(), &original, &mut Scanner::new(HOST)).unwrap();
        assert!(found.by_handle.is_empty() && found.blocked.is_empty(), "{handle}");
        assert_eq!(found.errors.len(), 1);
    }
}
