//! `wq cancel-work` and `wq cancel-claim`, through the binary, on real bare repositories.

use serde_json::{Value, json};
use wq_action::protocol::Code;
use wq_action::protocol::request::RequestKind;

use crate::support::cli::{Ran, feed};
use crate::support::operator::{Desk, Turn};

/// Ids of the Work whose graphs have these names.
fn ids(desk: &Desk, names: &[&str]) -> Vec<String> {
    let projection = desk.projection();
    let works = projection["works"].as_object().unwrap();
    let id = |name: &&str| works.iter().find(|(_, work)| work["graph_id"] == **name).unwrap().0.clone();
    names.iter().map(id).collect()
}

fn cancel_work(desk: &Desk, ids: &[&str], rest: &[&str]) -> Ran {
    let mut all = vec!["cancel-work", "--reason", "operator_cancelled"];
    all.extend(ids.iter().flat_map(|id| ["--work-id", id]));
    all.extend(rest);
    desk.wq(&all)
}

fn cancel_claim(desk: &Desk, turns: &[&Turn], rest: &[&str]) -> Ran {
    let mut all = vec!["cancel-claim", "--reason", "operator_cancelled"];
    all.extend(turns.iter().flat_map(|turn| ["--claim-id", turn.claim.as_str()]));
    all.extend(rest);
    desk.wq(&all)
}

/// Everything that a cancellation leaves as it was.
fn untouched(before: &Value, after: &Value) {
    for member in ["dispatches", "clocks", "policy_epoch", "grants_paused", "admission_paused", "observations"] {
        assert_eq!(before[member], after[member], "{member}");
    }
}

/// O-315, O-316: cancelled Work is ended, waiting or running, in one commit of an administrator. What it was charged
/// stays charged, the reservation of a run that may go on stays held, as a pause leaves both too, and no option forces
/// anything else.
#[test]
fn work_is_cancelled_and_nothing_is_refunded() {
    let desk = Desk::new(&["a", "b", "c"]);
    let turn = desk.grant(1).remove(0);
    desk.start(&turn);
    let waiting = ids(&desk, &["b"]).remove(0);
    let before = desk.projection();
    desk.wq(&["control", "pause", "grants", "--reason", "r"]).json(0);
    desk.wq(&["control", "resume", "grants", "--reason", "r"]).json(0);
    untouched(&before, &desk.projection());
    let answer = cancel_work(&desk, &[&waiting, &turn.work], &["--request-id", "end"]).json(0);
    assert_eq!((answer["count"].as_u64(), answer["status"].as_str()), (Some(2), Some("cancelled")));
    assert_eq!(answer["reservations_retained"], json!([turn.dispatch]));
    let commit = desk.last();
    assert_eq!(
        (&commit["actor"]["role"], &commit["request"]["kind"]),
        (&json!("administrator"), &json!("cancel_work"))
    );
    let mut expected = [&waiting, &turn.work];
    expected.sort_unstable();
    let operations: Vec<_> = expected
        .iter()
        .map(|id| json!({"kind": "WorkCancellation", "reason": "operator_cancelled", "work_id": id}))
        .collect();
    assert_eq!(commit["operations"], json!(operations));
    let after = desk.projection();
    untouched(&before, &after);
    assert_eq!(after["dispatches"][&turn.dispatch]["released"], false);
    assert_eq!(after["works"][&turn.work]["attempts"], 1);
    assert_eq!(
        (&after["works"][&turn.work]["state"], &after["claims"][&turn.claim]["state"]),
        (&json!("cancelled"), &json!("cancelled"))
    );
    assert_eq!(after["stats"]["available"], 1);
    assert_eq!(desk.finish(&turn, "completed").unwrap_err(), Code::ClaimIneffective);
    for command in ["control pause grants", "cancel-work --work-id x", "cancel-claim --claim-id x"] {
        let mut all: Vec<&str> = command.split(' ').collect();
        all.extend(["--reason", "r", "--force"]);
        assert_eq!(desk.wq(&all).error(2), "usage_invalid");
    }
    let third = ids(&desk, &["c"]).remove(0);
    let text = desk.text(&["cancel-work", "--work-id", &third, "--reason", "r", "--request-id", "third"]);
    assert!(text.starts_with("cancelled: 1 Work\n") && text.contains("request=third\n"), "{text}");
    assert!(text.contains("native reservations kept until evidence releases them: 0;"), "{text}");
}

/// One target that cannot be cancelled refuses all of them, and the refusal names it. A repetition in the same words
/// writes nothing; in other words it is refused.
#[test]
fn work_is_cancelled_whole_or_not_at_all() {
    let desk = Desk::new(&["a", "b"]);
    let turn = desk.grant(1).remove(0);
    desk.start(&turn);
    desk.finish(&turn, "completed").unwrap();
    let other = ids(&desk, &["a", "b"]).into_iter().find(|id| *id != turn.work).unwrap();
    let before = desk.bare.contents();
    let refused = cancel_work(&desk, &[&other, &turn.work], &[]);
    assert_eq!(refused.error(2), "work_terminal");
    assert!(refused.err.contains(&turn.work), "{}", refused.err);
    let refused = cancel_work(&desk, &[&other, "nothing"], &[]);
    assert_eq!(refused.error(2), "work_missing");
    assert!(refused.err.contains("nothing"), "{}", refused.err);
    assert_eq!(desk.bare.contents(), before);
    let first = cancel_work(&desk, &[&other], &["--request-id", "once"]).json(0);
    let ledger = desk.bare.ledger();
    let again = cancel_work(&desk, &[&other], &["--request-id", "once"]).json(0);
    assert_eq!((&again["commit_id"], again["replayed"].as_bool()), (&first["commit_id"], Some(true)));
    let repeated = cancel_work(&desk, &[&other], &[]).json(0);
    assert_eq!((repeated["status"].as_str(), &repeated["commit_id"]), (Some("already_cancelled"), &first["commit_id"]));
    assert_eq!(repeated["changed"], false);
    let words = ["cancel-work", "--work-id", &other, "--reason", "other"];
    assert_eq!(desk.wq(&words).error(2), "cancellation_conflict");
    let mut words = words.to_vec();
    words.extend(["--request-id", "once"]);
    assert_eq!(desk.wq(&words).error(2), "request_reused");
    assert_eq!(desk.bare.ledger(), ledger);
}

/// O-317, O-318: the named Claims, and no others, are revoked in one transaction and their Work is cancelled for good:
/// no retry, no word in a worker's name, no message to a run, whose reservation stays.
#[test]
fn claims_are_revoked_with_their_work() {
    let desk = Desk::new(&["a", "b", "c"]);
    let turns = desk.grant(3);
    desk.start(&turns[0]);
    let before = desk.projection();
    let commits = desk.bare.ledger().lines().count();
    let answer = cancel_claim(&desk, &[&turns[1], &turns[0]], &["--request-id", "end"]).json(0);
    assert_eq!(desk.bare.ledger().lines().count(), commits + 1);
    let mut held = vec![turns[0].dispatch.as_str(), &turns[1].dispatch];
    held.sort_unstable();
    assert_eq!(answer["reservations_retained"], json!(held));
    let commit = desk.last();
    assert_eq!(commit["actor"], json!({"principal": "1", "repository": "local/queue", "role": "administrator"}));
    assert_eq!(commit["request"]["kind"], "cancel_work");
    let mut expected = [&turns[0], &turns[1]];
    expected.sort_unstable_by_key(|turn| &turn.work);
    let operation = |turn: &&Turn| json!({"kind": "WorkCancellation", "claim_id": turn.claim, "reason": "operator_cancelled", "work_id": turn.work});
    assert_eq!(commit["operations"], expected.iter().map(operation).collect::<Value>());
    let after = desk.projection();
    untouched(&before, &after);
    for turn in &turns[..2] {
        let work = &after["works"][&turn.work];
        assert_eq!((&work["state"], &work["retry_not_before"]), (&json!("cancelled"), &json!(0)));
        assert_eq!(work["cancellation_claim_id"], json!(turn.claim));
    }
    assert_eq!(after["claims"][&turns[2].claim], before["claims"][&turns[2].claim]);
    assert_eq!(desk.wq(&["dispatch-next"]).json(0)["reason"], "no_work");
    // Recovery of the same request, in another order and after the queue has moved on.
    desk.submit("d", &[]).json(0);
    let ledger = desk.bare.ledger();
    let again = cancel_claim(&desk, &[&turns[0], &turns[1]], &["--request-id", "end"]).json(0);
    assert_eq!((&again["commit_id"], again["replayed"].as_bool()), (&answer["commit_id"], Some(true)));
    for turns in [&[&turns[0]][..], &[&turns[0], &turns[2]], &[&turns[0], &turns[1], &turns[2]]] {
        assert_eq!(cancel_claim(&desk, turns, &["--request-id", "end"]).error(2), "request_reused");
    }
    assert_eq!(
        cancel_work(&desk, &[&turns[0].work, &turns[1].work], &["--request-id", "end"]).error(2),
        "request_reused"
    );
    let other = ["--request-id", "end", "--principal", "2"];
    assert_eq!(cancel_claim(&desk, &[&turns[0], &turns[1]], &other).error(2), "request_reused");
    assert_eq!(desk.bare.ledger(), ledger);
}

/// O-410: a completed Claim is not cancelled, and a Claim of an earlier attempt cannot cancel a later one; nor can a
/// Claim that was cancelled already. Each refuses its whole request.
#[test]
fn only_current_claims_are_revoked() {
    let desk = Desk::new(&["a", "b", "c"]);
    let turns = desk.grant(3);
    let refused = |turn: &Turn, exit: i32, code: &str| {
        let before = desk.bare.contents();
        let ran = cancel_claim(&desk, &[&turns[2], turn], &[]);
        assert_eq!(ran.error(exit), code);
        assert_eq!(desk.bare.contents(), before);
    };
    desk.start(&turns[0]);
    desk.finish(&turns[0], "completed").unwrap();
    refused(&turns[0], 2, "work_terminal");
    // Given back for another attempt, then granted again.
    desk.start(&turns[1]);
    desk.finish(&turns[1], "cancelled").unwrap();
    refused(&turns[1], 4, "claim_scope_invalid");
    let later = desk.grant(1).remove(0);
    assert_eq!(later.work, turns[1].work);
    refused(&turns[1], 4, "claim_scope_invalid");
    let both = cancel_claim(&desk, &[&turns[1], &later], &[]);
    assert_eq!(both.error(2), "usage_invalid");
    assert_eq!(desk.projection()["claims"][&later.claim]["state"], "open");
    assert_eq!(desk.wq(&["cancel-claim", "--claim-id", "nothing", "--reason", "r"]).error(2), "claim_missing");
    // Both attempts' runs may still be going.
    let answer = cancel_claim(&desk, &[&later], &["--request-id", "end"]).json(0);
    assert_eq!(answer["reservations_retained"].as_array().unwrap().len(), 2);
    refused(&later, 4, "claim_scope_invalid");
    let again = cancel_claim(&desk, &[&later], &["--request-id", "end"]).json(0);
    assert_eq!(again["commit_id"], answer["commit_id"]);
}

/// A Claim that is completed, cancelled or replaced between the read and the push keeps the whole request out, and one
/// request of several publishers is committed once.
#[test]
fn a_lost_race_is_decided_again() {
    let desk = Desk::new(&["a", "b"]);
    let turns = desk.grant(2);
    desk.overtake(&[&["cancel-claim", "--claim-id", &turns[1].claim, "--reason", "operator_cancelled"]]);
    let refused = cancel_claim(&desk, &[&turns[0], &turns[1]], &[]);
    assert_eq!(refused.error(4), "claim_scope_invalid");
    assert_eq!(desk.overtaken()["count"], 1);
    assert_eq!(desk.projection()["claims"][&turns[0].claim]["state"], "open");
    desk.overtake(&[&["submit-work", "--file", "task.json"]]);
    std::fs::write(desk.bare.around().join("task.json"), "{}").unwrap();
    let answer = cancel_claim(&desk, &[&turns[0]], &[]).json(0);
    assert_eq!((answer["lost_attempts"].as_u64(), answer["published_now"].as_bool()), (Some(1), Some(true)));
    desk.submit("c", &[]).json(0);
    let work = ids(&desk, &["c"]).remove(0);
    let same = ["cancel-work", "--work-id", &work, "--reason", "operator_cancelled", "--request-id", "end"];
    desk.overtake(&[&same]);
    let answer = desk.wq(&same).json(0);
    assert_eq!((answer["recovered"].as_bool(), answer["changed"].as_bool()), (Some(true), Some(false)));
    assert_eq!(answer["commit_id"], desk.overtaken()["commit_id"]);
}

/// O-409: while a revocation is on its way, the Claim that it names is given back and another one takes its Work. The
/// refresh after the lost race finds another owner than the named one and leaves it alone.
#[test]
fn a_refresh_never_hits_the_claim_that_replaced_its_target() {
    let desk = Desk::new(&["a"]);
    let turn = desk.grant(1).remove(0);
    desk.start(&turn);
    let head = || desk.bare.resolve("refs/heads/work-queue").unwrap();
    let before = head();
    desk.finish(&turn, "cancelled").unwrap();
    let later = desk.grant(1).remove(0);
    assert_eq!(later.work, turn.work);
    let after = head();
    // Back to the moment before, and on to the moment after while the push arrives.
    desk.bare.git(&["update-ref", "refs/heads/work-queue", &before]);
    let (path, git) = (std::env::var("PATH").unwrap(), desk.bare.path().display().to_string());
    desk.bare.hook(
        "pre-receive",
        &format!(
            "#!/bin/sh\nmkdir \"$GIT_DIR/overtaken\" 2>/dev/null || exit 0\n\
             env -i PATH='{path}' git -C '{git}' update-ref refs/heads/work-queue {after} {before}\n"
        ),
    );
    let refused = cancel_claim(&desk, &[&turn], &[]);
    assert_eq!(refused.error(4), "claim_scope_invalid");
    assert!(desk.bare.path().join("overtaken").exists(), "the race was lost");
    assert_eq!(head(), after);
    let claims = desk.projection()["claims"].take();
    assert_eq!((&claims[&later.claim]["state"], &claims[&turn.claim]["state"]), (&json!("open"), &json!("cancelled")));
}

/// Revoking a Claim is an administrator's: our publishers write it for no other role, though replay would accept a
/// producer's.
#[test]
fn other_roles_revoke_no_claim() {
    let desk = Desk::new(&["a"]);
    let turn = desk.grant(1).remove(0);
    let fenced = json!({"kind": "WorkCancellation", "claim_id": turn.claim, "reason": "r", "work_id": turn.work});
    for (role, kind) in [("producer", RequestKind::CancelWork), ("reconciler", RequestKind::CancelClaim)] {
        let actor = json!({"role": role, "principal": "1", "repository": "local/queue"});
        let refused = desk.publish(kind, &actor, &json!({"operations": [fenced]}));
        assert_eq!(refused.unwrap_err(), Code::UnauthorizedOperation, "{role}");
    }
    let plain = json!({"kind": "WorkCancellation", "reason": "r", "work_id": turn.work});
    let administrator = json!({"role": "administrator", "principal": "1", "repository": "local/queue"});
    let refused = desk.publish(RequestKind::CancelClaim, &administrator, &json!({"operations": [fenced]}));
    assert_eq!(refused.unwrap_err(), Code::ActorUnauthorized, "the kind is a reconciler's");
    let producer = json!({"role": "producer", "principal": "1", "repository": "local/queue"});
    desk.publish(RequestKind::CancelWork, &producer, &json!({"operations": [plain]})).unwrap();
}

/// S-328: a fault that returns is no endless loop: each attempt waits out its backoff, an equivalent credential or an
/// explicit cancellation repairs it, and without either the last permitted attempt ends the Work.
#[test]
fn a_fault_that_returns_is_ended() {
    let desk = Desk::new(&["a", "b"]);
    let fail = |turn: &Turn| {
        desk.start(turn);
        desk.finish(turn, "cancelled").unwrap();
        desk.projection()["works"][&turn.work].clone()
    };
    let turns = desk.grant(2);
    for turn in &turns {
        let work = fail(turn);
        let boundary = work["retry_not_before"].as_i64().unwrap();
        let waits = desk.wq(&["explain", "--work-id", &turn.work, "--at", &(boundary - 1).to_string()]).json(0);
        assert_eq!((&work["state"], &waits["reason"]), (&json!("available"), &json!("retry_delayed")));
    }
    desk.wq(&["control", "credential", "--generation", "repaired", "--reason", "expired_token"]).json(0);
    cancel_work(&desk, &[&turns[0].work], &[]).json(0);
    let second = desk.grant(2).remove(0);
    assert_eq!(second.work, turns[1].work);
    fail(&second);
    let third = desk.grant(2).remove(0);
    let ended = fail(&third);
    assert_eq!((&ended["state"], &ended["cancellation_reason"]), (&json!("cancelled"), &json!("attempts_exhausted")));
    assert_eq!(desk.wq(&["dispatch-next"]).json(0)["reason"], "no_work");
}

/// S-170: Work behind a cancelled one stays to be looked at, with the reason, until it is cancelled itself or new nodes
/// take its place.
#[test]
fn blocked_descendants_stay_inspectable() {
    let desk = Desk::new(&[]);
    let submit = |nodes: &Value| {
        let all = ["submit-graph", "--file", "-", "--remote", "queue.git", "--json"];
        let ids = feed(desk.bare.around(), &all, &nodes.to_string()).json(0)["work_ids"].clone();
        ids.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let node = |key: &str, needs: &[&str]| {
        let edges: Vec<Value> = needs.iter().map(|needs| json!({"kind": "work", "node_key": needs})).collect();
        json!({"graph_id": "g", "node_key": key, "payload": {"task": key}, "depends_on": edges})
    };
    let works = submit(&json!([node("a", &[]), node("b", &["a"]), node("c", &["b"])]));
    cancel_work(&desk, &[&works[0]], &[]).json(0);
    for blocked in &works[1..] {
        let told = desk.wq(&["explain", "--work-id", blocked]).json(0);
        assert_eq!((&told["state"], &told["label"]), (&json!("available"), &json!("dependency_failed")));
        assert!(told["blocking_path"].as_array().unwrap().contains(&json!(works[0])));
        desk.wq(&["inspect", "--work-id", blocked]).json(0);
    }
    assert_eq!(desk.wq(&["dispatch-next"]).json(0)["status"], "no_grant");
    let new = submit(&json!([node("a2", &[]), node("b2", &["a2"])]));
    assert_eq!(desk.grant(1)[0].work, new[0]);
    cancel_work(&desk, &[&works[1], &works[2]], &[]).json(0);
    let told = desk.wq(&["explain", "--work-id", &works[1]]).json(0);
    assert_eq!((&told["state"], &told["reason"]), (&json!("cancelled"), &json!("ownership_cancelled")));
}
