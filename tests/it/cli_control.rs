//! `wq control`, through the binary, on real bare repositories.

use serde_json::{Value, json};
use wq_action::protocol::Code;
use wq_action::protocol::request::RequestKind;

use crate::support::cli::run;
use crate::support::git::Bare;
use crate::support::operator::Desk;

/// O-314: pauses and resumptions are applied and recorded as an administrator's, with their reason; then a grant is
/// answered with that reason and a submission is refused, until it is resumed. Both ways to say it mean the same.
#[test]
fn pauses_hold_until_they_are_resumed() {
    let desk = Desk::new(&["a"]);
    let paused = desk.wq(&["control", "pause", "grants", "--reason", "incident-1", "--request-id", "stop"]).json(0);
    assert_eq!((paused["grants_paused"].as_bool(), paused["changed"].as_bool()), (Some(true), Some(true)));
    for member in ["tip", "sha", "commit_id"] {
        assert!(paused[member].is_string(), "{member}");
    }
    assert!(paused["evaluated_at"].is_i64());
    let commit = desk.last();
    assert_eq!(commit["actor"], json!({"principal": "1", "repository": "local/queue", "role": "administrator"}));
    assert_eq!((&commit["request"]["kind"], &commit["request"]["id"]), (&json!("control"), &json!("stop")));
    let operation = json!({"control": "grants_paused", "kind": "Control", "reason": "incident-1", "value": true});
    assert_eq!((&commit["operations"], &paused["control"]), (&json!([operation]), &operation));

    let ledger = desk.bare.ledger();
    let none = desk.wq(&["dispatch-next"]).json(0);
    assert_eq!((none["status"].as_str(), none["reason"].as_str()), (Some("no_grant"), Some("grants_paused")));
    assert_eq!(desk.bare.ledger(), ledger);
    // The other form of the same request is the same request.
    let same =
        ["control", "--name", "grants_paused", "--paused=true", "--reason", "incident-1", "--request-id", "stop"];
    let again = desk.wq(&same).json(0);
    assert_eq!((&again["commit_id"], again["replayed"].as_bool()), (&paused["commit_id"], Some(true)));
    let other = ["control", "resume", "grants", "--reason", "incident-1", "--request-id", "stop"];
    assert_eq!(desk.wq(&other).error(2), "request_reused");
    assert_eq!(desk.bare.ledger(), ledger);

    desk.wq(&["control", "pause", "admission", "--reason", "incident-1"]).json(0);
    assert_eq!(desk.submit("b", &[]).error(4), "admission_paused");
    assert_eq!(desk.submit("a", &[]).json(0)["status"], "already_admitted");
    let resumed = desk.wq(&["control", "--name", "admission_paused", "--paused", "false", "--reason", "over"]).json(0);
    assert_eq!((resumed["admission_paused"].as_bool(), resumed["grants_paused"].as_bool()), (Some(false), Some(true)));
    desk.submit("b", &[]).json(0);
    let text = desk.text(&["control", "resume", "grants", "--reason", "over", "--request-id", "go"]);
    assert!(text.starts_with("grants resumed, because over; ") && text.contains(", request=go\n"), "{text}");
    assert_eq!(desk.grant(2).len(), 2);
}

/// O-314: the cutover makes another credential generation current, for good: one that was replaced never returns.
#[test]
fn a_credential_generation_never_returns() {
    let desk = Desk::new(&["a"]);
    let before = desk.projection();
    let answer = desk.wq(&["control", "credential", "--generation", "2026-12", "--reason", "cutover"]).json(0);
    assert_eq!(answer["credential_generation"], "2026-12");
    desk.wq(&["control", "--name", "credential_generation", "--generation", "2026-12", "--reason", "again"]).json(0);
    let ledger = desk.bare.ledger();
    let back = ["control", "credential", "--generation", "initial", "--reason", "back"];
    assert_eq!(desk.wq(&back).error(2), "credential_generation_reused");
    assert_eq!(desk.bare.ledger(), ledger);
    let after = desk.projection();
    for member in ["works", "claims", "dispatches", "clocks", "policy", "policy_epoch"] {
        assert_eq!(before[member], after[member], "{member}");
    }
}

/// A control says exactly one thing, and says it in full; what it does not say is refused before anything is read.
#[test]
fn controls_are_said_in_full() {
    let bare = Bare::new();
    let long = "x".repeat(257);
    for arguments in [
        &["control"][..],
        &["control", "pause"],
        &["control", "pause", "everything", "--reason", "r"],
        &["control", "pause", "grants"],
        &["control", "pause", "grants", "--reason", "r", "--force"],
        &["control", "--reason", "r"],
        &["control", "--name", "grants_paused", "--reason", "r"],
        &["control", "--name", "grants_paused", "--paused", "--reason", "r"],
        &["control", "--name", "grants_paused", "--paused=yes", "--reason", "r"],
        &["control", "--name", "grants_paused", "--paused=true"],
        &["control", "--name", "weights", "--paused=true", "--reason", "r"],
        &["control", "--name", "grants_paused", "--generation", "g", "--reason", "r"],
        &["control", "--name", "credential_generation", "--paused=true", "--reason", "r"],
        &["control", "--name", "credential_generation", "--reason", "r"],
        &["control", "--name", "grants_paused", "--paused=true", "--reason", "r", "pause", "grants", "--reason", "r"],
        &["control", "credential", "--generation", "", "--reason", "r"],
        &["control", "credential", "--generation", "a\nb", "--reason", "r"],
        &["control", "credential", "--generation", &long, "--reason", "r"],
        &["control", "credential", "--reason", "r"],
    ] {
        let mut all = vec!["--remote", "nowhere.git", "--json"];
        all.extend(arguments);
        let ran = run(bare.around(), &all);
        assert_eq!(ran.error(2), "usage_invalid", "{arguments:?}");
    }
    let long = "x".repeat(129);
    for reason in ["", " ", "two words", "-x", "\u{e9}", "a/b", &long] {
        let all = ["--remote", "nowhere.git", "--json", "control", "pause", "grants", &format!("--reason={reason}")];
        assert_eq!(run(bare.around(), &all).error(2), "reason_invalid", "{reason:?}");
    }
}

/// O-035: on an absent queue there is nothing to control, and nothing is written.
#[test]
fn an_absent_queue_is_not_controlled() {
    let desk = Desk::new(&[]);
    for what in [["pause", "grants"], ["resume", "admission"], ["credential", "--generation=g"]] {
        let ran = desk.wq(&["control", what[0], what[1], "--reason", "r"]);
        assert_eq!(ran.error(4), "queue_missing");
    }
    for command in [
        &["cancel-work", "--work-id", "w"][..],
        &["cancel-claim", "--claim-id", "c"],
        &["reprioritize", "--work-id", "w", "--priority", "1"],
    ] {
        let mut all = command.to_vec();
        all.extend(["--reason", "r"]);
        assert_eq!(desk.wq(&all).error(4), "queue_missing");
    }
    assert_eq!(desk.bare.git(&["for-each-ref"]), "");
}

/// S-459: a control is an administrator's alone, has a stable id and a sanitized reason, and arrives on a queue that
/// moves under it: decided again on what the faster one left.
#[test]
fn a_control_arrives_on_a_busy_queue() {
    let desk = Desk::new(&["a"]);
    let operation = json!({"control": "grants_paused", "kind": "Control", "reason": "r", "value": true});
    let parameters = json!({"operations": [operation]});
    for role in ["producer", "dispatcher", "reconciler"] {
        let actor = json!({"role": role, "principal": "1", "repository": "local/queue"});
        let refused = desk.publish(RequestKind::Control, &actor, &parameters);
        assert_eq!(refused.unwrap_err(), Code::ActorUnauthorized, "{role}");
    }
    desk.overtake(&[&["dispatch-next"]]);
    let paused = desk.wq(&["control", "pause", "grants", "--reason", "r", "--request-id", "stop"]).json(0);
    assert_eq!((paused["lost_attempts"].as_u64(), paused["published_now"].as_bool()), (Some(1), Some(true)));
    assert_eq!(desk.overtaken()["status"], "granted");
    assert_eq!(desk.wq(&["stats"]).json(0)["claimed"], 1);
    let again = desk.wq(&["control", "pause", "grants", "--reason", "r", "--request-id", "stop"]).json(0);
    assert_eq!((&again["commit_id"], again["changed"].as_bool()), (&paused["commit_id"], Some(false)));
    let other = ["control", "pause", "grants", "--reason", "r", "--request-id", "stop", "--principal", "2"];
    assert_eq!(desk.wq(&other).error(2), "request_reused");
}

/// A request changes controls or priorities, never both: replay would accept it, our publishers do not write it.
#[test]
fn controls_and_priorities_are_separate_requests() {
    let desk = Desk::new(&["a"]);
    let work = desk.projection()["works"].as_object().unwrap().keys().next().unwrap().clone();
    let administrator = json!({"role": "administrator", "principal": "1", "repository": "local/queue"});
    let operations = json!({"operations": [
        {"control": "grants_paused", "kind": "Control", "reason": "r", "value": true},
        {"kind": "WorkPriority", "work_id": work, "priority": 1, "expected_priority": 3, "reason": "r"}]});
    let refused = desk.publish(RequestKind::Control, &administrator, &operations);
    assert_eq!(refused.unwrap_err(), Code::RequestInvalid);
}

/// S-465: resuming needs a ledger of this protocol that holds and a credential that may write, and settles nothing: a
/// launch whose outcome is unknown stays unknown, with its reservation.
#[test]
fn resuming_settles_nothing() {
    let resume = ["control", "resume", "grants", "--reason", "r"];
    for (ledger, code) in
        [("{\"version\":2}\n", "unsupported_protocol"), ("{}\n", "unsupported_protocol"), ("", "ledger_invalid")]
    {
        let desk = Desk::new(&[]);
        desk.bare.seed(ledger.as_bytes());
        let before = desk.bare.contents();
        let refused = desk.wq(&resume).error(3);
        assert!(refused == code || refused == "ledger_invalid", "{refused}");
        assert_eq!(desk.bare.contents(), before);
    }
    let desk = Desk::new(&["a"]);
    let turn = desk.grant(1).remove(0);
    desk.lose(&turn);
    desk.wq(&["control", "pause", "grants", "--reason", "r"]).json(0);
    desk.bare.hook("pre-receive", "#!/bin/sh\nexit 1\n");
    assert_eq!(desk.wq(&resume).error(4), "publication_denied");
    desk.bare.hook("pre-receive", "#!/bin/sh\nexit 0\n");
    let before = desk.projection();
    desk.wq(&resume).json(0);
    let after = desk.projection();
    assert_eq!((&before["grants_paused"], &after["grants_paused"]), (&json!(true), &json!(false)));
    for member in ["works", "claims", "dispatches", "clocks"] {
        assert_eq!(before[member], after[member], "{member}");
    }
    let dispatch: &Value = &after["dispatches"][&turn.dispatch];
    assert_eq!((&dispatch["state"], &dispatch["released"]), (&json!("uncertain"), &json!(false)));
}
