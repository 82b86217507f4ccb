//! `wq policy`, through the binary, on real bare repositories.

use serde_json::{Value, json};

use crate::support::cli::feed;
use crate::support::operator::Desk;

/// The installed Policy with other weights, in a file beside the repository.
fn other_policy(desk: &Desk) -> Value {
    let mut policy = desk.projection()["policy"].take();
    policy["accounting_weights"]["team"] = json!(7);
    std::fs::write(desk.bare.around().join("policy.json"), policy.to_string()).unwrap();
    policy
}

const CHANGE: [&str; 7] = ["policy", "--file", "policy.json", "--epoch", "second", "--request-id", "change"];

fn cancel_everything(desk: &Desk) {
    let works = desk.projection()["works"].take();
    let ids: Vec<&str> = works.as_object().unwrap().keys().map(String::as_str).collect();
    desk.wq(&["cancel-work", "--work-id", &ids.join(","), "--reason", "r"]).json(0);
}

/// O-307: a quiet queue takes another Policy under a new epoch, for future Work only: what was recorded stays, and the
/// clocks start anew.
#[test]
fn a_quiet_queue_takes_another_policy() {
    let desk = Desk::new(&["a"]);
    let turn = desk.grant(1).remove(0);
    desk.start(&turn);
    desk.finish(&turn, "cancelled").unwrap();
    desk.release(&turn);
    cancel_everything(&desk);
    let before = desk.projection();
    let policy = other_policy(&desk);
    let answer = desk.wq(&CHANGE).json(0);
    assert_eq!((&answer["epoch"], &answer["policy_epoch"]), (&json!("second"), &json!("second")));
    assert_eq!((answer["changed"].as_bool(), answer["status"].as_str()), (Some(true), Some("installed")));
    let commit = desk.last();
    assert_eq!((&commit["actor"]["role"], &commit["request"]["kind"]), (&json!("administrator"), &json!("policy")));
    assert_eq!(commit["operations"], json!([{"kind": "Policy", "epoch": "second", "policy": policy}]));
    let after = desk.projection();
    assert_eq!((&after["policy"], &after["clocks"]), (&policy, &json!({})));
    assert_ne!(before["clocks"], json!({}));
    for member in ["works", "claims", "dispatches", "credential_generation"] {
        assert_eq!(before[member], after[member], "{member}");
    }
    // White space and the order of members are no other meaning.
    let mut spaced = serde_json::to_string_pretty(&policy).unwrap();
    spaced.push('\n');
    std::fs::write(desk.bare.around().join("policy.json"), spaced).unwrap();
    let again = desk.wq(&CHANGE).json(0);
    assert_eq!((&again["commit_id"], again["replayed"].as_bool()), (&answer["commit_id"], Some(true)));
    desk.submit("b", &["--fairness-key", "team"]).json(0);
    assert_eq!(desk.grant(1).len(), 1);
    let text = desk.bare.ledger();
    let third = ["policy", "--file", "policy.json", "--epoch", "third"];
    assert_eq!(desk.wq(&third).error(2), "policy_not_quiescent");
    assert_eq!(desk.bare.ledger(), text);
}

/// O-068, O-307: waiting Work, a reservation that may still run, and a delivery that is pending each keep the Policy, and so
/// does an epoch that was used; the refusal says which.
#[test]
fn a_busy_queue_keeps_its_policy() {
    let desk = Desk::new(&["a", "b"]);
    let mut policy = other_policy(&desk);
    let refused = |desk: &Desk, word: &str| {
        let ledger = desk.bare.ledger();
        let ran = desk.wq(&CHANGE);
        assert_eq!(ran.error(2), "policy_not_quiescent");
        assert!(ran.err.contains(word), "{}", ran.err);
        assert_eq!(desk.bare.ledger(), ledger);
    };
    refused(&desk, "unfinished");
    let turn = desk.grant(1).remove(0);
    desk.start(&turn);
    refused(&desk, "unfinished");
    cancel_everything(&desk);
    assert_eq!(desk.wq(&["stats"]).json(0)["cancelled"], 2);
    refused(&desk, "reservation");
    desk.release(&turn);
    desk.submit("c", &[]).json(0);
    let turn = desk.grant(1).remove(0);
    desk.start(&turn);
    desk.finish(&turn, "completed").unwrap();
    desk.release(&turn);
    refused(&desk, "delivery is pending");

    let desk = Desk::new(&["a"]);
    cancel_everything(&desk);
    other_policy(&desk);
    desk.wq(&CHANGE).json(0);
    let ledger = desk.bare.ledger();
    for epoch in ["second", desk.projection()["policy_epoch"].as_str().unwrap()] {
        let ran = desk.wq(&["policy", "--file", "policy.json", "--epoch", epoch]);
        assert_eq!(ran.error(2), "policy_not_quiescent");
        assert!(ran.err.contains("epoch"), "{}", ran.err);
    }
    policy["accounting_weights"]["team"] = json!(8);
    std::fs::write(desk.bare.around().join("policy.json"), policy.to_string()).unwrap();
    assert_eq!(desk.wq(&CHANGE).error(2), "request_reused");
    assert_eq!(desk.bare.ledger(), ledger);
}

/// O-036: on an absent queue there is no Policy to change, and none is installed without Work.
#[test]
fn an_absent_queue_gets_no_policy() {
    let desk = Desk::new(&["a"]);
    other_policy(&desk);
    let mut elsewhere = CHANGE.to_vec();
    elsewhere.extend(["--branch", "other"]);
    assert_eq!(desk.wq(&elsewhere).error(4), "queue_missing");
    for command in ["dispatch-next", "stats"] {
        assert_eq!(desk.wq(&[command, "--branch", "other"]).error(4), "queue_missing");
    }
    assert_eq!(
        desk.wq(&["control", "pause", "grants", "--reason", "r", "--branch", "other"]).error(4),
        "queue_missing"
    );
    let bootstrap =
        ["submit-graph", "--file", "-", "--policy", "policy.json", "--branch", "other", "--remote", "queue.git"];
    let mut all = bootstrap.to_vec();
    all.push("--json");
    assert_eq!(feed(desk.bare.around(), &all, "[]").error(2), "graph_invalid");
    assert_eq!(desk.bare.resolve("refs/heads/other"), None);
}

/// Files that are too long, not JSON of the wire profile, or no Policy are input errors; the queue stays as it is.
#[test]
fn policy_files_are_bounded() {
    let desk = Desk::new(&["a"]);
    cancel_everything(&desk);
    let policy = other_policy(&desk);
    let ledger = desk.bare.ledger();
    let with = |member: &str, value: Value| {
        let mut policy = policy.clone();
        policy[member] = value;
        policy.to_string()
    };
    let mut reaching = policy.clone();
    reaching["pools"]["default"]["profiles"]["worker"]["effect_scope"] = json!("other/one");
    let long = format!("\"{}\"", "x".repeat(4 * 1024 * 1024));
    let twice = policy.to_string().replacen('{', "{\"mode\":\"weighted-priority\",", 1);
    for (text, code) in [
        ("", "codec_invalid"),
        ("{", "codec_invalid"),
        (&twice, "duplicate_key"),
        (&long, "resource_limit"),
        ("[]", "ledger_invalid"),
        ("{}", "ledger_invalid"),
        (&with("mode", json!("lottery")), "policy_invalid"),
        (&with("extra", json!(1)), "ledger_invalid"),
        (&reaching.to_string(), "policy_invalid"),
    ] {
        std::fs::write(desk.bare.around().join("policy.json"), text).unwrap();
        assert_eq!(desk.wq(&CHANGE).error(2), code, "{}", &text[..text.len().min(60)]);
    }
    let all = ["policy", "--file", "-", "--epoch", "second", "--remote", "queue.git", "--json"];
    assert_eq!(feed(desk.bare.around(), &all, "\"\\ud800\"").error(2), "invalid_unicode");
    assert_eq!(desk.wq(&["policy", "--file", "none.json", "--epoch", "second"]).error(7), "io_failed");
    std::fs::write(desk.bare.around().join("policy.json"), policy.to_string()).unwrap();
    for flags in [
        &["--file", "policy.json"][..],
        &["--epoch", "second"],
        &["--file", "policy.json", "--epoch", ""],
        &["--file", "policy.json", "--epoch", "a\nb"],
        &["--file", "policy.json", "--epoch", "second", "--from-config"],
        &["--file", "policy.json", "--epoch", "second", "--force"],
    ] {
        let mut all = vec!["policy"];
        all.extend(flags);
        assert_eq!(desk.wq(&all).error(2), "usage_invalid", "{flags:?}");
    }
    assert_eq!(desk.bare.ledger(), ledger);
    assert_eq!(feed(desk.bare.around(), &all, &policy.to_string()).json(0)["epoch"], "second");
}
