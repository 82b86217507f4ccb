//! What `cancel-work`, `cancel-claim` and `reprioritize` have in common, and `reprioritize` itself, through the binary,
//! on real bare repositories.

use serde_json::{Value, json};

use crate::support::cli::{Ran, feed, run};
use crate::support::git::Bare;
use crate::support::operator::Desk;

fn ids(desk: &Desk) -> Vec<String> {
    desk.projection()["works"].as_object().unwrap().keys().cloned().collect()
}

fn reprioritize(desk: &Desk, ids: &[&str], priority: &str, rest: &[&str]) -> Ran {
    let ids = ids.join(",");
    let mut all = vec!["reprioritize", "--work-id", &ids, "--priority", priority, "--reason", "operator_reprioritized"];
    all.extend(rest);
    desk.wq(&all)
}

/// O-405: selectors are repeated, separated by commas, or both; their order means nothing.
#[test]
fn selectors_repeat_or_are_separated_by_commas() {
    let desk = Desk::new(&["a", "b", "c"]);
    let works = ids(&desk);
    let [a, b, c] = [works[0].as_str(), &works[1], &works[2]];
    let change = ["reprioritize", "--priority", "1", "--reason", "r", "--request-id", "first"];
    let forms: [Vec<String>; 3] = [
        vec!["--work-id".into(), format!("{c},{a},{b}")],
        vec!["--work-id".into(), b.into(), "--work-id".into(), a.into(), "--work-id".into(), c.into()],
        vec![format!("--work-id={b},{c}"), "--work-id".into(), a.into()],
    ];
    let mut commits = Vec::new();
    for form in &forms {
        let mut all = change.to_vec();
        all.extend(form.iter().map(String::as_str));
        let answer = desk.wq(&all).json(0);
        assert_eq!(answer["count"], 3);
        commits.push(answer["commit_id"].clone());
    }
    assert!(commits.windows(2).all(|pair| pair[0] == pair[1]));
    let turns = desk.grant(3);
    let [a, b, c] = [turns[0].claim.as_str(), &turns[1].claim, &turns[2].claim];
    let cancel = ["cancel-claim", "--reason", "r", "--request-id", "second"];
    for form in
        [vec![format!("--claim-id={a},{b}"), format!("--claim-id={c}")], vec![format!("--claim-id={c},{b},{a}")]]
    {
        let mut all = cancel.to_vec();
        all.extend(form.iter().map(String::as_str));
        assert_eq!(desk.wq(&all).json(0)["count"], 3);
    }
    assert_eq!(desk.bare.ledger().lines().count(), 6);
}

/// 1 to 256 ids, all different and none empty; whatever else is given is refused before anything is read.
#[test]
fn selectors_are_bounded() {
    let bare = Bare::new();
    let many: Vec<String> = (0..257).map(|number| format!("w{number}")).collect();
    let (many, long) = (many.join(","), "x".repeat(257));
    for (command, flag) in [("cancel-work", "--work-id"), ("cancel-claim", "--claim-id"), ("reprioritize", "--work-id")]
    {
        let ask = |given: &[&str]| {
            let mut all = vec![command, "--remote", "nowhere.git", "--json", "--reason", "r"];
            if command == "reprioritize" {
                all.extend(["--priority", "1"]);
            }
            all.extend(given);
            run(bare.around(), &all)
        };
        for given in [
            &[][..],
            &[flag, ""],
            &[flag, ","],
            &[flag, "a,"],
            &[flag, "a,,b"],
            &[flag, "a,a"],
            &[flag, "a", flag, "b", flag, "a"],
            &[flag, "a\tb"],
            &[flag, &long],
            &[flag, &many],
        ] {
            assert_eq!(ask(given).error(2), "usage_invalid", "{command} {given:?}");
        }
        // The values are good, so the queue is looked for.
        assert_eq!(ask(&[flag, "a,b"]).error(7), "repository_unavailable");
        assert_eq!(ask(&[flag, "a", "--reason", "r"]).error(2), "usage_invalid", "a reason is given once");
    }
    for priority in ["0", "6", "-1", "x", ""] {
        let all = ["reprioritize", "--remote", "nowhere.git", "--json", "--reason", "r", "--work-id", "a"];
        let priority = format!("--priority={priority}");
        let all: Vec<&str> = all.into_iter().chain([priority.as_str()]).collect();
        assert_eq!(run(bare.around(), &all).error(2), "usage_invalid", "{priority}");
    }
    for command in ["cancel-work --work-id a", "cancel-claim --claim-id a", "reprioritize --work-id a --priority 1"] {
        let mut all: Vec<&str> = command.split(' ').collect();
        all.extend(["--remote", "nowhere.git", "--json"]);
        assert_eq!(run(bare.around(), &all).error(2), "usage_invalid", "{command} has no default reason");
        all.push("--reason=two words");
        assert_eq!(run(bare.around(), &all).error(2), "reason_invalid");
    }
}

/// The largest request: 256 targets in one commit.
#[test]
fn two_hundred_and_fifty_six_targets() {
    let desk = Desk::new(&["a"]);
    let nodes: Vec<Value> =
        (0..255).map(|n| json!({"graph_id": "g", "node_key": n.to_string(), "payload": {}})).collect();
    let submit = ["submit-graph", "--file", "-", "--remote", "queue.git", "--json"];
    feed(desk.bare.around(), &submit, &json!(nodes).to_string()).json(0);
    let works = ids(&desk);
    let works: Vec<&str> = works.iter().map(String::as_str).collect();
    assert_eq!(reprioritize(&desk, &works, "2", &[]).json(0)["count"], 256);
    let answer = desk.wq(&["cancel-work", "--work-id", &works.join(","), "--reason", "r"]).json(0);
    assert_eq!((answer["count"].as_u64(), desk.bare.ledger().lines().count()), (Some(256), 4));
    assert_eq!(desk.wq(&["stats"]).json(0)["cancelled"], 256);
}

/// O-406: both are an administrator's: no flag chooses another role, and that is what the commits say.
#[test]
fn an_administrator_asks() {
    let desk = Desk::new(&["a"]);
    let work = ids(&desk).remove(0);
    let administrator = json!({"principal": "7", "repository": "local/queue", "role": "administrator"});
    reprioritize(&desk, &[&work], "1", &["--principal", "7"]).json(0);
    assert_eq!(desk.last()["actor"], administrator);
    let turn = desk.grant(1).remove(0);
    desk.wq(&["cancel-claim", "--claim-id", &turn.claim, "--reason", "r", "--principal", "7"]).json(0);
    assert_eq!(desk.last()["actor"], administrator);
    let role = ["cancel-claim", "--claim-id", &turn.claim, "--reason", "r", "--role", "producer"];
    assert_eq!(desk.wq(&role).error(2), "usage_invalid");
    assert_eq!(reprioritize(&desk, &[&work], "1", &["--role", "producer"]).error(2), "usage_invalid");
}

/// O-319, S-470: the new priority stands in one commit beside the one that was read, and holds for the next grant.
#[test]
fn priorities_hold_for_future_grants() {
    let desk = Desk::new(&["a", "b", "c"]);
    let before = desk.projection();
    let last = desk.wq(&["explain"]).json(0)["selection"]["work_id"].as_str().unwrap().to_owned();
    let chosen = ids(&desk).into_iter().find(|id| *id != last).unwrap();
    let answer = reprioritize(&desk, &[&chosen], "1", &["--request-id", "up"]).json(0);
    let commit = desk.last();
    assert_eq!((&commit["actor"]["role"], &commit["request"]["kind"]), (&json!("administrator"), &json!("control")));
    let operation = json!({"kind": "WorkPriority", "work_id": chosen, "priority": 1, "expected_priority": 3,
        "reason": "operator_reprioritized"});
    assert_eq!(commit["operations"], json!([operation]));
    let told = &answer["reprioritized"][0];
    for (member, value) in
        [("admitted_priority", 3), ("effective_priority", 1), ("expected_priority", 3), ("priority", 1)]
    {
        assert_eq!(told[member], value, "{member}");
    }
    let after = desk.projection();
    for member in ["position", "priority", "attempts", "retry_not_before", "payload", "enqueued"] {
        assert_eq!(before["works"][&chosen][member], after["works"][&chosen][member], "{member}");
    }
    assert_eq!(before["clocks"], after["clocks"]);
    let text =
        desk.text(&["reprioritize", "--work-id", &last, "--priority", "3", "--reason", "r", "--request-id", "same"]);
    assert!(text.starts_with("priority 3 for 1 Work\n") && text.contains(" before=3\n"), "{text}");
    assert!(text.contains("positions, retry boundaries and the debt of earlier charges stay\n"), "{text}");
    assert!(text.contains("request=same\n"), "{text}");
    assert_eq!(desk.grant(1)[0].work, chosen);
}

/// O-407: one target that cannot be changed refuses all of them, for both commands, and the branch does not move.
#[test]
fn all_targets_or_none() {
    let desk = Desk::new(&["a", "b", "c"]);
    let turn = desk.grant(1).remove(0);
    let other = ids(&desk).into_iter().find(|id| *id != turn.work).unwrap();
    let before = desk.bare.contents();
    let refused = reprioritize(&desk, &[&other, &turn.work], "1", &[]);
    assert_eq!(refused.error(2), "ownership_terminal");
    assert!(refused.err.contains(&turn.work), "{}", refused.err);
    assert_eq!(reprioritize(&desk, &[&other, "nothing"], "1", &[]).error(2), "work_missing");
    let claims = format!("{},nothing", turn.claim);
    assert_eq!(desk.wq(&["cancel-claim", "--claim-id", &claims, "--reason", "r"]).error(2), "claim_missing");
    assert_eq!(desk.bare.contents(), before);
    let works: Vec<String> = ids(&desk).into_iter().filter(|id| *id != turn.work).collect();
    let works: Vec<&str> = works.iter().map(String::as_str).collect();
    reprioritize(&desk, &works, "1", &[]).json(0);
    assert_eq!(desk.last()["operations"].as_array().unwrap().len(), 2);
    let turns = desk.grant(2);
    let claims = format!("{},{}", turns[0].claim, turns[1].claim);
    desk.wq(&["cancel-claim", "--claim-id", &claims, "--reason", "r"]).json(0);
    assert_eq!(desk.last()["operations"].as_array().unwrap().len(), 2);
}

/// O-408, O-319: what the read found must still hold when the change arrives: another priority, a grant, or the end of
/// a Claim in between refuses the request, and nothing is done to whatever stands there now.
#[test]
fn stale_expectations_are_refused() {
    let desk = Desk::new(&["a", "b"]);
    let works = ids(&desk);
    let both = [works[0].as_str(), &works[1]];
    let faster = ["reprioritize", "--work-id", &works[1], "--priority", "5", "--reason", "faster"];
    desk.overtake(&[&faster]);
    let refused = reprioritize(&desk, &both, "1", &[]);
    assert_eq!(refused.error(2), "priority_conflict");
    assert!(refused.err.contains(&works[1]), "{}", refused.err);
    assert_eq!(desk.overtaken()["changed"], true);
    assert!(desk.projection()["works"][&works[0]]["effective_priority"].is_null());
    // The other way round: to what it was, and back to the same value, is the value that was read.
    let there = ["reprioritize", "--work-id", &works[1], "--priority", "2", "--reason", "there"];
    let back = ["reprioritize", "--work-id", &works[1], "--priority", "5", "--reason", "back"];
    desk.overtake(&[&there, &back]);
    assert_eq!(reprioritize(&desk, &[&works[1]], "4", &[]).json(0)["lost_attempts"], 1);
    desk.overtake(&[&["dispatch-next"]]);
    assert_eq!(reprioritize(&desk, &both, "1", &[]).error(2), "ownership_terminal");
    let granted = desk.overtaken()["claims"][0].clone();
    let claim = granted["claim_id"].as_str().unwrap();
    let end = ["cancel-work", "--work-id", granted["work_id"].as_str().unwrap(), "--reason", "faster"];
    desk.overtake(&[&end]);
    let ran = desk.wq(&["cancel-claim", "--claim-id", claim, "--reason", "r"]);
    assert_eq!(ran.error(4), "claim_scope_invalid");
    let work = &desk.projection()["works"][granted["work_id"].as_str().unwrap()];
    assert_eq!(work["cancellation_reason"], "faster");
}

/// The same request id is the same change, in another order and after the state has moved; with other content it is
/// refused, and so it is for another account.
#[test]
fn a_priority_request_is_found_again() {
    let desk = Desk::new(&["a", "b"]);
    let works = ids(&desk);
    let (ahead, reversed) = ([works[0].as_str(), &works[1]], [works[1].as_str(), &works[0]]);
    let first = reprioritize(&desk, &ahead, "1", &["--request-id", "up"]).json(0);
    reprioritize(&desk, &[&works[0]], "4", &[]).json(0);
    let turn = desk.grant(1).remove(0);
    let ledger = desk.bare.ledger();
    let again = reprioritize(&desk, &reversed, "1", &["--request-id", "up"]).json(0);
    assert_eq!((&again["commit_id"], again["replayed"].as_bool()), (&first["commit_id"], Some(true)));
    assert_eq!((again["changed"].as_bool(), again["count"].as_u64()), (Some(false), Some(2)));
    let moved =
        again["reprioritized"].as_array().unwrap().iter().find(|one| one["work_id"] == works[0].as_str()).unwrap();
    assert_eq!(
        (&moved["priority"], &moved["expected_priority"], &moved["effective_priority"]),
        (&json!(1), &json!(3), &json!(4))
    );
    for ran in [
        reprioritize(&desk, &reversed, "2", &["--request-id", "up"]),
        reprioritize(&desk, &ahead[..1], "1", &["--request-id", "up"]),
        reprioritize(&desk, &ahead, "1", &["--request-id", "up", "--principal", "2"]),
        desk.wq(&[
            "reprioritize",
            "--work-id",
            &ahead.join(","),
            "--priority",
            "1",
            "--reason",
            "other",
            "--request-id",
            "up",
        ]),
        desk.wq(&[
            "cancel-work",
            "--work-id",
            &ahead.join(","),
            "--reason",
            "operator_reprioritized",
            "--request-id",
            "up",
        ]),
        desk.wq(&["control", "pause", "grants", "--reason", "r", "--request-id", "up"]),
        desk.wq(&["cancel-claim", "--claim-id", &turn.claim, "--reason", "r", "--request-id", "up"]),
    ] {
        assert_eq!(ran.error(2), "request_reused");
    }
    assert_eq!(desk.bare.ledger(), ledger);
}

/// Two processes with one request id that read different states commit it once, and both tell that commit.
#[test]
fn one_request_of_two_processes_is_one_change() {
    let desk = Desk::new(&["a"]);
    let work = ids(&desk).remove(0);
    let between = ["reprioritize", "--work-id", &work, "--priority", "2", "--reason", "between"];
    let same = ["reprioritize", "--work-id", &work, "--priority", "1", "--reason", "r", "--request-id", "up"];
    desk.overtake(&[&between, &same]);
    let answer = desk.wq(&same).json(0);
    assert_eq!((&answer["commit_id"], answer["changed"].as_bool()), (&desk.overtaken()["commit_id"], Some(false)));
    assert_eq!(answer["reprioritized"][0]["expected_priority"], 2);
    assert_eq!(desk.bare.ledger().lines().count(), 3);
}

/// O-412: waiting Work takes a new priority, also while it waits out a retry; granted, completed and cancelled Work
/// does not.
#[test]
fn only_waiting_work_takes_a_priority() {
    let desk = Desk::new(&["a", "b", "c", "d"]);
    let turns = desk.grant(3);
    let refused = |work: &str| assert_eq!(reprioritize(&desk, &[work], "1", &[]).error(2), "ownership_terminal");
    refused(&turns[0].work);
    for turn in &turns[..2] {
        desk.start(turn);
    }
    desk.finish(&turns[0], "completed").unwrap();
    refused(&turns[0].work);
    desk.wq(&["cancel-work", "--work-id", &turns[2].work, "--reason", "r"]).json(0);
    refused(&turns[2].work);
    desk.finish(&turns[1], "cancelled").unwrap();
    let boundary = desk.projection()["works"][&turns[1].work]["retry_not_before"].clone();
    assert!(boundary.as_i64().unwrap() > 0);
    reprioritize(&desk, &[&turns[1].work], "1", &[]).json(0);
    let work = desk.projection()["works"][&turns[1].work].clone();
    assert_eq!(
        (&work["effective_priority"], &work["retry_not_before"], &work["attempts"]),
        (&json!(1), &boundary, &json!(1))
    );
    // Before its boundary it waits; the other Work goes first.
    let at = (boundary.as_i64().unwrap() - 1).to_string();
    let waits = desk.wq(&["explain", "--work-id", &turns[1].work, "--at", &at]).json(0);
    assert_eq!(waits["reason"], "retry_delayed");
    assert_eq!(
        desk.wq(&["explain", "--at", &boundary.to_string()]).json(0)["selection"]["work_id"],
        turns[1].work.as_str()
    );
}

/// The same holds after compaction, which keeps of a change neither the new nor the expected priority: requests of all
/// kinds are found again by their ids, and refused with another meaning.
#[test]
fn requests_are_found_again_after_compaction() {
    let desk = Desk::new(&["a", "b", "c", "d"]);
    let works = ids(&desk);
    let [a, b, c, d] = [works[0].as_str(), &works[1], &works[2], &works[3]];
    reprioritize(&desk, &[a, b], "2", &[]).json(0);
    reprioritize(&desk, &[b, c], "4", &[]).json(0);
    let changed = reprioritize(&desk, &[a, b, c, d], "1", &["--request-id", "change"]).json(0);
    reprioritize(&desk, &[a, d], "5", &[]).json(0);
    let turns = desk.grant(2);
    let claims = [turns[0].claim.as_str(), &turns[1].claim].join(",");
    let revoke =
        |claims: &str| desk.wq(&["cancel-claim", "--claim-id", claims, "--reason", "r", "--request-id", "revoke"]);
    let end = |works: &str| desk.wq(&["cancel-work", "--work-id", works, "--reason", "r", "--request-id", "end"]);
    let pause = |what: &str| desk.wq(&["control", "pause", what, "--reason", "r", "--request-id", "pause"]);
    let (revoked, ended, paused) = (revoke(&claims).json(0), end(a).json(0), pause("grants").json(0));
    for name in ["e", "f"] {
        desk.compact();
        let ledger = desk.bare.ledger();
        let reversed = [turns[1].claim.as_str(), &turns[0].claim].join(",");
        let again = [
            (reprioritize(&desk, &[d, b, c, a], "1", &["--request-id", "change"]).json(0), &changed),
            (revoke(&reversed).json(0), &revoked),
            (end(a).json(0), &ended),
            (pause("grants").json(0), &paused),
        ];
        for (again, first) in &again {
            assert_eq!((&again["commit_id"], again["replayed"].as_bool()), (&first["commit_id"], Some(true)));
        }
        let told = again[0].0["reprioritized"].as_array().unwrap();
        let expected: Vec<i64> = told.iter().map(|one| one["expected_priority"].as_i64().unwrap()).collect();
        assert_eq!(expected, [2, 4, 4, 3]);
        for ran in [
            reprioritize(&desk, &[a, b, c, d], "2", &["--request-id", "change"]),
            reprioritize(&desk, &[a, b, c], "1", &["--request-id", "change"]),
            reprioritize(&desk, &[a, b, c, d], "1", &["--request-id", "change", "--principal", "2"]),
            reprioritize(&desk, &[a], "1", &["--request-id", "end"]),
            revoke(&turns[0].claim),
            revoke("nothing"),
            end(b),
            end(&[a, b].join(",")),
            pause("admission"),
        ] {
            assert_eq!(ran.error(2), "request_reused");
        }
        assert_eq!(desk.bare.ledger(), ledger);
        desk.submit(name, &[]).json(0);
    }
}
