//! `wq explain` of what was committed, through the binary.

use serde_json::{Value, json};

use crate::support::built::{Node, Queue, aw_policy};
use crate::support::cli::{Ran, feed, run};
use crate::support::git::Bare;

fn ask(bare: &Bare, arguments: &[&str]) -> Ran {
    let mut all = vec!["explain", "--remote", "queue.git", "--repo", "owner/repo", "--json"];
    all.extend(arguments);
    run(bare.around(), &all)
}

/// Without what names the moment of the answer.
fn lasting(mut answer: Value) -> Value {
    for member in ["tip", "sha", "evaluated_at"] {
        assert!(answer.as_object_mut().unwrap().remove(member).is_some());
    }
    answer
}

fn queue() -> Queue {
    let mut policy = aw_policy();
    policy["accounting_weights"]["team"] = 2.into();
    let nodes: Vec<Node> = (0..6)
        .map(|number| {
            let account = if number % 2 == 0 { "" } else { "team" };
            Node::new(&format!("n{number}")).graph(&format!("g{number}")).account(account).priority(1 + number % 3)
        })
        .collect();
    Queue::open(&policy, &nodes)
}

/// O-303, S-529, S-565, S-566: a committed grant is explained by replaying the history up to it and choosing again,
/// operation by operation; the planner, asked at that moment, gives the same winner for the same reason; later commits
/// change nothing but the tip; and nothing is written.
#[test]
fn a_grant_is_explained_as_it_was_made() {
    let mut queue = queue();
    queue.grant(2000, 1, 1).unwrap();
    let before = queue.text.clone();
    let tip = queue.state.tip().unwrap().as_str().to_owned();
    let grants = queue.grant(3000, 3, 3).unwrap();
    let request = queue.state.requests().last().unwrap().request_id.as_str().to_owned();
    let commit = queue.state.tip().unwrap().as_str().to_owned();
    let bare = Bare::new();
    bare.seed(queue.text.as_bytes());
    let told: Vec<Value> = grants.iter().map(|grant| ask(&bare, &["--claim-id", &grant.claim]).json(0)).collect();
    for (index, (told, grant)) in told.iter().zip(&grants).enumerate() {
        assert_eq!(told["status"], "committed_claim_prefix");
        assert_eq!(told["position"], json!({"commit": 2, "operation": index}));
        assert_eq!((told["before_tip"].as_str(), told["at"].as_i64()), (Some(tip.as_str()), Some(3000)));
        assert_eq!(
            (told["work_id"].as_str(), told["selection"]["work_id"].as_str()),
            (Some(grant.work.as_str()), Some(grant.work.as_str()))
        );
        assert_eq!(
            (told["commit_id"].as_str(), told["request_id"].as_str()),
            (Some(commit.as_str()), Some(request.as_str()))
        );
        assert_eq!(told["capacity_before"]["logical"].as_u64(), Some(1 + index as u64));
        assert_eq!(told["tip"], commit.as_str());
    }
    // The predecessor, asked at the moment of the grant.
    let ledger = [
        "replay",
        "--ledger",
        "-",
        "--json",
        "--pool",
        "default",
        "--at",
        "3000",
        "--max-claims",
        "3",
        "--max-dispatches",
        "3",
        "--request-id",
        &request,
    ];
    let planned = feed(bare.around(), &ledger, &before).json(0);
    let winners: Vec<&Value> = told.iter().map(|told| &told["work_id"]).collect();
    assert_eq!(json!(winners), planned["prediction"]["result"]["work_ids"], "{planned}");
    let next = feed(bare.around(), &["explain", "--ledger", "-", "--json", "--at", "3000"], &before).json(0);
    assert_eq!((&next["selection"], &next["label"]), (&told[0]["selection"], &told[0]["label"]));

    let whole = ask(&bare, &["--request-id", &request]).json(0);
    assert_eq!((whole["kind"].as_str(), whole["status"].as_str()), (Some("dispatch_next"), Some("committed_request")));
    for (one, told) in whole["claims"].as_array().unwrap().iter().zip(&told) {
        let mut told = told.clone();
        for member in ["sha", "evaluated_at", "label"] {
            told.as_object_mut().unwrap().remove(member);
        }
        assert_eq!(*one, told);
    }
    assert_eq!(lasting(ask(&bare, &["--before-claim", &grants[1].claim]).json(0)), lasting(told[1].clone()));

    // Later decisions, and another repository that holds them.
    queue.deliver(&grants[0], 4000).unwrap();
    queue.grant(5000, 1, 1).unwrap();
    let later = Bare::new();
    later.seed(queue.text.as_bytes());
    let untouched = later.contents();
    for (told, grant) in told.iter().zip(&grants) {
        let again = ask(&later, &["--claim-id", &grant.claim]).json(0);
        assert_ne!(again["tip"], told["tip"]);
        assert_eq!(lasting(again), lasting(told.clone()));
    }
    assert_eq!(later.contents(), untouched);
    let submitted = ask(&later, &["--request-id", "r0"]).json(0);
    assert_eq!((submitted["kind"].as_str(), &submitted["claims"]), (Some("submit"), &json!([])));
}

/// S-567, S-568: every answer names the tip and the time that it was computed for, and says what kind of truth it is: a
/// prediction, a reading of the moment, or a committed decision.
#[test]
fn answers_say_what_they_are() {
    let mut queue = queue();
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    let bare = Bare::new();
    bare.seed(queue.text.as_bytes());
    let tip = queue.state.tip().unwrap().as_str();
    for (arguments, status) in [
        (&["explain"][..], "snapshot_prediction"),
        (&["explain", "--work-id", &grant.work, "--pool", "default"], "operator_live_read"),
        (&["explain", "--claim-id", &grant.claim], "committed_claim_prefix"),
        (&["explain", "--request-id", "r0"], "committed_request"),
        (&["state"], "committed_snapshot"),
        (&["state", "--offset", "3", "--limit", "2"], "committed_snapshot"),
        (&["inspect", "--work-id", &grant.work], "committed_snapshot"),
        (&["trace", "--claim-id", &grant.claim], "operator_live_read"),
        (&["trace", "--claim-id", &grant.claim, "--offset", "1", "--limit", "1"], "operator_live_read"),
    ] {
        let place = ["--remote", "queue.git", "--repo", "owner/repo"];
        let answer = run(bare.around(), &[arguments, &place, &["--json"]].concat()).json(0);
        assert_eq!((answer["status"].as_str(), answer["tip"].as_str()), (Some(status), Some(tip)), "{arguments:?}");
        assert_eq!(answer["sha"].as_str(), bare.resolve("refs/heads/work-queue").as_deref());
        let at = answer["evaluated_at"].as_i64().unwrap();
        assert!(at > 1_600_000_000_000);
        let people = run(bare.around(), &[arguments, &place].concat());
        assert!(people.out.contains(tip) && people.out.contains(&at.to_string()[..8]), "{arguments:?}: {people:?}");
    }
}

/// One selector, no pool beside a committed decision, known ids: the form is checked before anything is read.
#[test]
fn one_thing_is_explained() {
    let nothing = Bare::new();
    for arguments in [
        &["--work-id", "w", "--claim-id", "c"][..],
        &["--work-id", "w", "--request-id", "r"],
        &["--claim-id", "c", "--request-id", "r"],
        &["--claim-id", "c", "--pool", "default"],
        &["--before-claim", "c", "--pool", "default"],
        &["--request-id", "r", "--pool", "default"],
        &["--work-id", ""],
        &["--pool", ""],
    ] {
        assert_eq!(ask(&nothing, arguments).error(2), "inspection_invalid", "{arguments:?}");
    }
    let bare = Bare::new();
    bare.seed(queue().text.as_bytes());
    for (flag, code) in
        [("--work-id", "work_missing"), ("--claim-id", "claim_missing"), ("--request-id", "request_missing")]
    {
        assert_eq!(ask(&bare, &[flag, "none"]).error(2), code);
    }
}
