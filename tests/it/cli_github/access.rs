//! Reading and administering a queue on GitHub: which repository, with which token, as whom.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Desk;
use crate::support::cli::Ran;
use crate::support::git::Bare;
use crate::support::github::{ADMIN, Endpoint, Faults, Github, JOB, NOTHING, OCTO_WIDGETS, READER, Strike, WRITER};

/// Every command that only reads, on a queue with one Work and one Claim.
fn reads(desk: &Desk) -> Vec<Vec<String>> {
    let granted = desk.wq(&["dispatch-next", "--request-id", "grant"]).json(0);
    let claim = granted["claims"][0]["claim_id"].as_str().unwrap();
    let work = granted["claims"][0]["work_id"].as_str().unwrap();
    [
        &["replay"][..],
        &["stats"],
        &["state"],
        &["verify"],
        &["explain"],
        &["explain", "--work-id", work],
        &["explain", "--claim-id", claim],
        &["explain", "--request-id", "grant"],
        &["inspect", "--work-id", work],
        &["trace", "--claim-id", claim],
        &["trace", "--request-id", "grant"],
    ]
    .iter()
    .map(|arguments| arguments.iter().map(|argument| (*argument).to_owned()).collect())
    .collect()
}

/// O-288: each read command reads the repository that `--repo` names, whoever may read it; no command of them writes,
/// and the ledger comes through Git alone.
#[test]
fn every_read_command_reads_the_named_repository() {
    let desk = Desk::with_work(&["alpha", "beta"]);
    let all = reads(&desk);
    let (head, writes) = (desk.head(), desk.writes());
    let (repositories, contents) = (desk.calls(&[Endpoint::Repository]), desk.calls(&[Endpoint::Contents]));
    let mut asked = 0;
    for arguments in &all {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        if arguments[0] == "verify" {
            continue;
        }
        let answer = desk.with(READER, &arguments).json(0);
        assert_eq!(answer["sha"].as_str(), head.as_deref(), "{arguments:?}");
        assert!(answer["tip"].is_string() && answer["evaluated_at"].is_i64(), "{arguments:?}");
        asked += 1;
    }
    assert_eq!(desk.calls(&[Endpoint::Repository]) - repositories, asked, "the identity is confirmed once each time");
    assert_eq!(desk.calls(&[Endpoint::Contents]), contents);
    assert_eq!((desk.head(), desk.writes()), (head, writes));
}

/// O-288: each administration command works on the repository that `--repo` names, as the authenticated administrator.
#[test]
fn administrators_act_as_the_account_behind_the_token() {
    let desk = Desk::with_work(&["alpha", "beta", "gamma"]);
    let granted = desk.wq(&["dispatch-next"]).json(0);
    let claim = granted["claims"][0]["claim_id"].as_str().unwrap();
    let waiting: Vec<String> = desk.wq(&["state", "--state", "available"]).json(0)["rows"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["kind"] == "work")
        .map(|row| row["id"].as_str().unwrap().to_owned())
        .collect();
    for arguments in [
        &["control", "pause", "grants", "--reason", "r"][..],
        &["control", "resume", "grants", "--reason", "r"],
        &["control", "credential", "--generation", "second", "--reason", "r"],
        &["reprioritize", "--work-id", &waiting[0], "--priority", "1", "--reason", "r"],
        &["cancel-work", "--work-id", &waiting[0], "--reason", "r"],
        &["cancel-claim", "--claim-id", claim, "--reason", "r"],
        &["cancel-work", "--work-id", &waiting[1], "--reason", "r"],
    ] {
        let answer = desk.wq(arguments).json(0);
        assert_eq!(answer["published_now"], true, "{arguments:?}");
    }
    let ada = desk.github.account_id("ada").to_string();
    let ours: Vec<Value> = desk.ledger().into_iter().skip(3).map(|commit| commit["actor"].clone()).collect();
    assert_eq!(ours.len(), 8);
    for actor in &ours {
        assert_eq!(*actor, json!({"principal": ada, "repository": OCTO_WIDGETS, "role": "administrator"}));
    }
    assert_eq!(desk.bare.git(&["log", "-1", "--format=%an", "work-queue"]), "gh-aw-work-queue");
    let compacted = desk.wq(&["compact"]).json(0);
    assert_eq!((compacted["changed"].as_bool(), compacted["commits"].as_i64()), (Some(true), Some(1)));
    assert_eq!(desk.calls(&[Endpoint::Dispatch, Endpoint::CreateRef, Endpoint::Cancel]), 0);
}

/// O-288: who may not administer is refused before anything is read or written, and no flag makes somebody else
/// of the account; who may push may submit.
#[test]
fn the_host_says_who_may_do_what() {
    let desk = Desk::with_work(&["alpha"]);
    let head = desk.head();
    for (token, arguments) in [
        (WRITER, &["dispatch-next"][..]),
        (WRITER, &["control", "pause", "grants", "--reason", "r"]),
        (WRITER, &["compact"]),
        (READER, &["dispatch-next"]),
    ] {
        let refused = desk.with(token, arguments);
        assert_eq!(refused.error(4), "actor_unauthorized", "{arguments:?}");
    }
    let path = desk.file("task.json", "{}");
    let refused = desk.with(READER, &["submit-work", "--file", path.to_str().unwrap()]);
    assert_eq!(refused.error(4), "actor_unauthorized");
    // A job's token has no account that could be an operator's.
    assert_eq!(desk.with(JOB, &["dispatch-next"]).error(4), "api_forbidden");
    let other = desk.wq(&["dispatch-next", "--principal", "7"]);
    assert_eq!(other.error(2), "usage_invalid");
    assert!(other.err.contains("--principal is for a local repository"), "{other:?}");
    assert_eq!(desk.head(), head);
    assert_eq!(desk.writes(), 0);
    let wim = desk.github.account_id("wim").to_string();
    assert_eq!(desk.submit("beta", &[]).json(0)["status"], "admitted");
    let last = desk.ledger().pop().unwrap();
    assert_eq!(last["actor"], json!({"principal": wim, "repository": OCTO_WIDGETS, "role": "producer"}));
}

/// O-288: without `--repo` the environment names the repository; a repository that cannot be looked up, or answers
/// under another name, is never an absent queue.
#[test]
fn the_repository_is_identified_first() {
    let desk = Desk::with_work(&["alpha"]);
    let stats = |desk: &Desk, variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = desk.command(ADMIN, &["stats", "--json"]);
        command.args(arguments).envs(variables.iter().copied());
        Ran::of(command.output().unwrap())
    };
    for variables in [
        &[("GH_REPO", OCTO_WIDGETS)][..],
        &[("GITHUB_REPOSITORY", OCTO_WIDGETS)],
        &[("GH_REPO", OCTO_WIDGETS), ("GITHUB_REPOSITORY", "octo/other")],
    ] {
        assert_eq!(stats(&desk, variables, &[]).json(0)["work"], 1, "{variables:?}");
    }
    assert_eq!(stats(&desk, &[], &[]).error(2), "usage_invalid");
    assert_eq!(stats(&desk, &[("GH_REPO", "host/octo/widgets")], &[]).error(2), "repository_invalid");
    // The host's spelling is the canonical one.
    let other_case = stats(&desk, &[], &["--repo", "Octo/WIDGETS"]);
    assert_eq!(other_case.json(0)["work"], 1);
    assert_eq!(stats(&desk, &[], &["--repo", "octo/missing"]).error(4), "repository_unavailable");
    desk.github.make_private(OCTO_WIDGETS);
    assert_eq!(desk.with(NOTHING, &["stats"]).error(4), "repository_unavailable");
    for status in [401, 403, 500] {
        desk.github.faults(Faults::default().and(Endpoint::Repository, 1, 3, Strike::Status(status)));
        let exit = if status == 500 { 7 } else { 4 };
        let ran = desk.wq(&["stats"]);
        assert_eq!(ran.error(exit), "repository_unavailable", "{status}");
        assert!(ran.err.contains(&status.to_string()), "{ran:?}");
        desk.github.no_faults();
    }
    desk.github.rename(OCTO_WIDGETS, "octo/gadgets");
    let renamed = desk.wq(&["stats"]);
    assert_eq!(renamed.error(7), "repository_unavailable");
    assert!(renamed.err.contains("renamed or transferred"), "{renamed:?}");
}

/// O-371: a missing queue is told as such, an empty repository only when the service confirms that it is empty, and neither is
/// made by a command that is no submission.
#[test]
fn publication_07_absence_needs_proof() {
    let desk = Desk::new();
    for arguments in
        [&["stats"][..], &["dispatch-next"], &["control", "pause", "grants", "--reason", "r"], &["compact"]]
    {
        assert_eq!(desk.wq(arguments).error(4), "queue_missing", "{arguments:?}");
    }
    assert_eq!(desk.calls(&[Endpoint::GraphQl, Endpoint::Contents, Endpoint::Workflow]), 0, "no worker file is read");
    let (github, bare) = (Github::new().repository(OCTO_WIDGETS), Arc::new(Bare::new()));
    github.attach(OCTO_WIDGETS, &bare);
    let empty = Desk::serving(github, bare);
    for arguments in [&["stats"][..], &["dispatch-next"]] {
        assert_eq!(empty.wq(arguments).error(4), "queue_missing", "{arguments:?}");
    }
    assert_eq!(empty.calls(&[Endpoint::GraphQl]), 2);
    empty.github.faults(Faults::default().and(Endpoint::GraphQl, 1, 3, Strike::Status(502)));
    assert_eq!(empty.wq(&["stats"]).error(7), "repository_unavailable");
    empty.github.no_faults();
    let refused = empty.submit("alpha", &[]);
    assert_eq!(refused.error(7), "repository_unavailable");
    assert!(refused.err.contains("Push a first commit"), "{refused:?}");
    assert_eq!((desk.writes(), empty.writes()), (0, 0));
    assert_eq!(empty.head(), None);
}

/// The token comes from three variables in their order, and from nowhere else; a queue on GitHub needs one.
#[test]
fn the_token_comes_from_the_environment() {
    let desk = Desk::with_work(&["alpha"]);
    let run = |variables: &[(&str, &str)]| {
        let mut command = desk.command(ADMIN, &["stats", "--json", "--repo", OCTO_WIDGETS]);
        command.env_remove("GH_AW_WORK_QUEUE_TOKEN").envs(variables.iter().copied());
        Ran::of(command.output().unwrap())
    };
    run(&[("GH_TOKEN", READER)]).json(0);
    run(&[("GITHUB_TOKEN", READER)]).json(0);
    run(&[("GH_AW_WORK_QUEUE_TOKEN", READER), ("GH_TOKEN", "wrong"), ("GITHUB_TOKEN", "wrong")]).json(0);
    run(&[("GH_TOKEN", READER), ("GITHUB_TOKEN", "wrong")]).json(0);
    run(&[("GH_AW_WORK_QUEUE_TOKEN", ""), ("GH_TOKEN", READER)]).json(0);
    let before = desk.github.all_calls();
    assert_eq!(run(&[]).error(4), "api_unauthenticated");
    let broken = run(&[("GH_TOKEN", "two words")]);
    assert_eq!(broken.error(2), "settings_invalid");
    assert!(broken.err.contains("GH_TOKEN") && !broken.err.contains("two words"), "{broken:?}");
    assert_eq!(desk.github.all_calls(), before);
    assert_eq!(run(&[("GH_TOKEN", "wrong"), ("GITHUB_TOKEN", READER)]).error(4), "repository_unavailable");
}

/// The host is https, or http on this machine alone; its variables are told apart from the repository's.
#[test]
fn the_host_comes_from_the_environment() {
    let desk = Desk::with_work(&["alpha"]);
    for (name, value) in [
        ("GITHUB_SERVER_URL", "http://example.invalid"),
        ("GITHUB_API_URL", "ftp://127.0.0.1"),
        ("GITHUB_GRAPHQL_URL", "https://user@example.invalid/graphql"),
    ] {
        let ran = Ran::of(
            desk.command(ADMIN, &["stats", "--json", "--repo", OCTO_WIDGETS]).env(name, value).output().unwrap(),
        );
        assert_eq!(ran.error(2), "settings_invalid", "{name}");
        assert!(!ran.err.contains("example.invalid"), "{ran:?}");
    }
}

/// O-378: `--policy` and `--principal` are a local repository's; there is no other storage than Git, and no command takes
/// a run's id.
#[test]
fn local_flags_are_refused_on_github() {
    let desk = Desk::with_work(&["alpha"]);
    let policy = desk.file("policy.json", "{}");
    let task = desk.file("task.json", "{}");
    let (policy, task) = (policy.to_str().unwrap(), task.to_str().unwrap());
    let refused = desk.wq(&["submit-work", "--file", task, "--policy", policy]);
    assert_eq!(refused.error(2), "usage_invalid");
    assert!(refused.err.contains("--policy is for a local repository"), "{refused:?}");
    for arguments in [
        // O-378: no run can be named to be bound.
        &["reconcile", "--run-id", "1"][..],
        &["evidence", "--run-id", "1"],
        &["dispatch-next", "--run-id", "1"],
        &["dispatch", "dispatcher", "--run-id", "1"],
        &["stats", "--storage", "git"],
        &["--storage", "x", "stats"],
        &["dispatch", "dispatcher", "--storage", "git"],
    ] {
        assert_eq!(desk.wq(arguments).error(2), "usage_invalid", "{arguments:?}");
    }
    assert_eq!(desk.writes(), 0);
}
