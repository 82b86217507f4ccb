//! The commands that publish, through the binary, on real bare repositories.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::cli::{Ran, feed, run, wq};
use crate::support::git::{Bare, executable};

/// Submits a task from standard input.
fn submit(bare: &Bare, task: &str, rest: &[&str]) -> Ran {
    let mut arguments = vec!["submit-work", "--file", "-", "--remote", "queue.git", "--json"];
    arguments.extend(rest);
    feed(bare.around(), &arguments, task)
}

fn graph(bare: &Bare, nodes: &str, rest: &[&str]) -> Ran {
    let mut arguments = vec!["submit-graph", "--file", "-", "--remote", "queue.git", "--json"];
    arguments.extend(rest);
    feed(bare.around(), &arguments, nodes)
}

fn on(bare: &Bare, arguments: &[&str]) -> Ran {
    let mut all = arguments.to_vec();
    all.extend(["--remote", "queue.git", "--json"]);
    run(bare.around(), &all)
}

fn lines(bare: &Bare) -> Vec<Value> {
    bare.ledger().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// S-007, S-080, S-081, O-027, O-028, O-310: the first submission makes the branch with one commit, Policy then Work, under the
/// submission's own request id, kind and actor; defaults are filled before anything is persisted.
#[test]
fn the_first_submission_makes_the_queue() {
    let bare = Bare::new();
    let answer = submit(&bare, r#"{"task":"first"}"#, &["--request-id", "one"]).json(0);
    assert_eq!((answer["created"].as_bool(), answer["published_now"].as_bool()), (Some(true), Some(true)));
    assert_eq!(answer["sha"].as_str(), bare.resolve("refs/heads/work-queue").as_deref());
    let [commit] = lines(&bare).try_into().unwrap();
    assert_eq!(commit["request"]["id"], "one");
    assert_eq!(commit["actor"], json!({"principal": "1", "repository": "local/queue", "role": "producer"}));
    let kinds: Vec<_> = commit["operations"].as_array().unwrap().iter().map(|one| one["kind"].clone()).collect();
    assert_eq!(kinds, ["Policy", "Work"]);
    let work = &commit["operations"][1];
    for (member, value) in [
        ("priority", json!(3)),
        ("fairness_key", json!("")),
        ("node_key", json!("root")),
        ("pool", json!("default")),
        ("worker_profile", json!("worker")),
        ("batch_trust_domain", json!("default")),
        ("depends_on", json!([])),
        ("payload", json!({"task": "first"})),
    ] {
        assert_eq!(work[member], value, "{member}");
    }
    assert!(work["enqueued"].as_i64().is_some_and(|at| at > 1_600_000_000_000 && at <= commit["at"].as_i64().unwrap()));
    assert_eq!(commit["operations"][0]["policy"]["authorization"], "aw");
}

/// O-008, O-324: a repeated request id returns the first outcome and writes nothing, with another meaning it is
/// refused; the same task under a new id is admitted already; another definition of it is refused.
#[test]
fn a_submission_happens_once() {
    let bare = Bare::new();
    let first = submit(&bare, r#"{"task":"x"}"#, &["--request-id", "one", "--priority", "2"]).json(0);
    let ledger = bare.ledger();
    let again = submit(&bare, "{ \"\\u0074ask\" : \"x\" }", &["--request-id", "one", "--priority", "2"]).json(0);
    for member in ["work_id", "commit_id", "request_id", "created", "status", "tip", "sha"] {
        assert_eq!(first[member], again[member], "{member}");
    }
    assert_eq!((again["replayed"].as_bool(), again["changed"].as_bool()), (Some(true), Some(false)));
    let known = submit(&bare, r#"{"task":"x"}"#, &["--priority", "2"]).json(0);
    assert_eq!(
        (known["status"].as_str(), known["commit_id"].clone()),
        (Some("already_admitted"), first["commit_id"].clone())
    );
    assert_eq!(submit(&bare, r#"{"task":"y"}"#, &["--request-id", "one"]).error(2), "request_reused");
    assert_eq!(submit(&bare, r#"{"task":"x"}"#, &["--priority", "1"]).error(2), "work_conflict");
    let other = ["--request-id", "one", "--priority", "2", "--principal", "2"];
    assert_eq!(submit(&bare, r#"{"task":"x"}"#, &other).error(2), "request_reused");
    assert_eq!(bare.ledger(), ledger);
}

/// O-313, O-324: dispatch-next grants the fair prefix with its reservations, tells why it stopped, and tells the same
/// again under the same request id; nothing to grant is a success that leaves the id unused.
#[test]
fn a_grant_is_told_the_same_way_again() {
    let bare = Bare::new();
    for task in ["a", "b", "c"] {
        submit(&bare, &format!(r#"{{"task":"{task}"}}"#), &[]).json(0);
    }
    let ask = ["dispatch-next", "--max-claims", "3", "--max-dispatches", "2", "--request-id", "turn"];
    let first = on(&bare, &ask).json(0);
    assert_eq!((first["claims"].as_array().unwrap().len(), first["assignments"].as_array().unwrap().len()), (2, 2));
    assert_eq!(
        (first["reason"].as_str(), first["status"].as_str()),
        (Some("dispatch_budget_blocked"), Some("granted"))
    );
    assert!(first["blocked_work_id"].is_string());
    submit(&bare, r#"{"task":"d"}"#, &[]).json(0);
    let again = on(&bare, &ask).json(0);
    for member in
        ["claims", "assignments", "reason", "label", "next", "blocked_work_id", "commit_id", "request_id", "status"]
    {
        assert_eq!(first[member], again[member], "{member}");
    }
    assert_eq!((again["replayed"].as_bool(), again["published_now"].as_bool()), (Some(true), Some(false)));
    let rest = on(&bare, &["dispatch-next", "--max-claims", "9", "--max-dispatches", "9"]).json(0);
    assert_eq!((rest["claims"].as_array().unwrap().len(), rest["reason"].as_str()), (2, Some("prefix_complete")));
    let ledger = bare.ledger();
    let none = on(&bare, &["dispatch-next", "--request-id", "late"]).json(0);
    assert_eq!((none["status"].as_str(), none["reason"].as_str()), (Some("no_grant"), Some("no_work")));
    assert_eq!((none["commit_id"].is_null(), none["changed"].as_bool()), (true, Some(false)));
    assert_eq!(bare.ledger(), ledger);
    assert!(!first.to_string().contains("task"), "payloads stay out");
}

/// O-009: a graph is admitted whole or not at all. An edge may name its node by key; a cycle is refused with its path.
#[test]
fn a_graph_is_admitted_whole() {
    let bare = Bare::new();
    let node = |key: &str, needs: &str| {
        format!(
            r#"{{"graph_id":"g","node_key":"{key}","payload":{{"n":"{key}"}},"depends_on":[{{"kind":"work","node_key":"{needs}"}}]}}"#
        )
    };
    let cycle = graph(&bare, &format!("[{},{}]", node("a", "b"), node("b", "a")), &[]);
    assert_eq!(cycle.error(2), "dependency_cycle");
    assert!(cycle.err.contains("a -> b -> a"), "{}", cycle.err);
    assert_eq!(bare.resolve("refs/heads/work-queue"), None);
    let root = r#"{"graph_id":"g","node_key":"a","payload":{"n":"a"}}"#;
    let answer = graph(&bare, &format!("[{root},{}]", node("b", "a")), &[]).json(0);
    assert_eq!((answer["nodes"].as_u64(), answer["created"].as_bool()), (Some(2), Some(true)));
    let ids = answer["work_ids"].as_array().unwrap().clone();
    let waits = on(&bare, &["explain", "--work-id", ids[1].as_str().unwrap()]).json(0);
    assert_eq!((waits["ready"].as_bool(), waits["label"].as_str()), (Some(false), Some("dependency_wait")));
    assert_eq!((waits["path"].clone(), waits["blocking_path"].clone()), (json!(["b", "a"]), json!([ids[0]])));
    assert_eq!((waits["unresolved_total"].as_u64(), waits["unresolved"][0]["id"].clone()), (Some(1), ids[0].clone()));
    for (nodes, code) in [
        ("{}", "graph_invalid"),
        ("[]", "graph_invalid"),
        ("[1]", "request_invalid"),
        (r#"[{"payload":{},"extra":1}]"#, "request_invalid"),
        (r#"[{"payload":{},"subject":null}]"#, "request_invalid"),
        (r#"[{"payload":1}]"#, "work_invalid"),
        (r#"[{"payload":{},"work_id":"x"}]"#, "work_identity_invalid"),
        (r#"[{"payload":{},"pool":"none"}]"#, "policy_invalid"),
        (r#"[{"payload":{},"priority":6}]"#, "ledger_invalid"),
        (r#"[{"payload":{},"payload":{}}]"#, "duplicate_key"),
        (r#"[{"payload":{"x":1.0}}]"#, "noncanonical_number"),
    ] {
        let ledger = bare.ledger();
        assert_eq!(graph(&bare, nodes, &[]).error(2), code, "{nodes}");
        assert_eq!(bare.ledger(), ledger);
    }
}

/// O-026, O-033, O-034, O-289: an absent queue is `queue_missing` for every read and for a grant, and nothing is
/// made; another branch is another queue.
#[test]
fn an_absent_queue_stays_absent() {
    let bare = Bare::new();
    for command in ["stats", "replay", "explain", "dispatch-next"] {
        let ran = on(&bare, &[command]);
        assert_eq!(ran.error(4), "queue_missing");
        assert!(!ran.err.contains("seed") && !ran.err.contains("administrator"), "{}", ran.err);
    }
    assert_eq!(on(&bare, &["inspect", "--work-id", "x"]).error(4), "queue_missing");
    assert_eq!(bare.git(&["for-each-ref"]), "");
    submit(&bare, r#"{"task":"x"}"#, &["--branch", "other"]).json(0);
    assert_eq!(on(&bare, &["stats"]).error(4), "queue_missing");
    assert_eq!(on(&bare, &["stats", "--branch", "other"]).json(0)["work"], 1);
}

/// O-049, O-224, O-292, O-293: a malformed, empty or policyless ledger, an unsupported version, a refused push and a
/// repository that is not there each end with a code and a status of their own, and the repository stays as it is.
#[test]
fn failures_are_typed_and_change_nothing() {
    for (ledger, code, exit) in [
        ("", "ledger_invalid", 3),
        ("not json\n", "codec_invalid", 3),
        ("{\"version\":2}\n", "unsupported_protocol", 3),
        ("<<<<<<< HEAD\n", "codec_invalid", 3),
    ] {
        let bare = Bare::new();
        bare.seed(ledger.as_bytes());
        let before = bare.contents();
        for ran in [on(&bare, &["stats"]), on(&bare, &["dispatch-next"]), submit(&bare, "{}", &[])] {
            let found = ran.error(exit);
            assert!(found == code || found == "ledger_invalid", "{found} instead of {code}");
        }
        assert_eq!(bare.contents(), before, "{ledger}");
    }
    let bare = Bare::new();
    submit(&bare, r#"{"task":"x"}"#, &[]).json(0);
    assert_eq!(on(&bare, &["stats", "--repo", "other/one"]).error(4), "actor_unauthorized");
    bare.hook("pre-receive", "#!/bin/sh\necho calls >> \"$GIT_DIR/calls\"\nexit 1\n");
    let ledger = bare.ledger();
    assert_eq!(submit(&bare, r#"{"task":"y"}"#, &[]).error(4), "publication_denied");
    assert_eq!(on(&bare, &["dispatch-next"]).error(4), "publication_denied");
    let calls = std::fs::read_to_string(bare.path().join("calls")).unwrap();
    assert_eq!((calls.lines().count(), bare.ledger()), (2, ledger), "a refusal is not retried");
    let nowhere = run(bare.around(), &["stats", "--remote", "nowhere", "--json"]);
    assert_eq!(nowhere.error(7), "repository_unavailable");
    assert_eq!(run(bare.around(), &["stats", "--json"]).error(2), "usage_invalid");
    let mut command = wq(bare.around());
    let output = command.args(["stats", "--remote", "queue.git", "--json"]).env("PATH", bare.around()).output();
    assert_eq!(Ran::of(output.unwrap()).error(7), "git_unavailable");
    let old = tempfile::tempdir().unwrap();
    executable(old.path(), "git", "#!/bin/sh\necho git version 2.30.9\n");
    let mut command = wq(bare.around());
    let output = command.args(["stats", "--remote", "queue.git", "--json"]).env("PATH", old.path()).output().unwrap();
    let ran = Ran::of(output);
    assert_eq!(ran.error(7), "git_unavailable");
    assert!(ran.err.contains("2.30"), "{}", ran.err);
}

/// Input files and flag values out of their bounds end with status 2 before anything is read or written.
#[test]
fn inputs_are_bounded() {
    let bare = Bare::new();
    let deep = format!("{}{}", r#"{"a":"#.repeat(55), "1") + &"}".repeat(55);
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(16_384));
    let huge = format!(r#"{{"a":"{}"}}"#, "x".repeat(4 * 1024 * 1024));
    for (task, code) in [
        (deep.as_str(), "resource_limit"),
        (&long, "resource_limit"),
        (&huge, "resource_limit"),
        ("[]", "work_invalid"),
        ("", "codec_invalid"),
        (r#"{"a":"\ud800"}"#, "invalid_unicode"),
        (r#"{"a":9007199254740992}"#, "noncanonical_number"),
        (r#"{"a":1,"\u0061":2}"#, "duplicate_key"),
    ] {
        assert_eq!(submit(&bare, task, &[]).error(2), code);
    }
    for (flags, code) in [
        (&["--priority", "6"][..], "usage_invalid"),
        (&["--principal", "one"], "usage_invalid"),
        (&["--request-id", ""], "usage_invalid"),
        (&["--graph-id", ""], "work_invalid"),
        (&["--repo", "a/b/c"], "repository_invalid"),
        (&["--branch", "a..b"], "branch_invalid"),
        (&["--worker-profile", "none"], "work_invalid"),
        (&["--policy", "none.json"], "io_failed"),
    ] {
        let ran = submit(&bare, r#"{"task":"x"}"#, flags);
        assert_eq!(ran.error(if code == "io_failed" { 7 } else { 2 }), code, "{flags:?}");
    }
    assert_eq!(submit(&bare, r#"{"task":"x"}"#, &["--fairness-key", "none"]).error(4), "admission_unauthorized");
    assert_eq!(bare.git(&["for-each-ref"]), "");
}

/// A first submission may bring its Policy; an invalid one is an input error.
#[test]
fn a_policy_file_starts_the_queue() {
    let bare = Bare::new();
    submit(&bare, r#"{"task":"x"}"#, &["--branch", "template"]).json(0);
    let template = bare.git(&["cat-file", "blob", "refs/heads/template:work-queue.jsonl"]);
    let commit: Value = serde_json::from_str(&template).unwrap();
    let mut policy = commit["operations"][0]["policy"].clone();
    policy["accounting_weights"]["team"] = json!(7);
    std::fs::write(bare.around().join("policy.json"), policy.to_string()).unwrap();
    let flags = ["--policy", "policy.json", "--fairness-key", "team"];
    submit(&bare, r#"{"task":"x"}"#, &flags).json(0);
    assert_eq!(on(&bare, &["replay"]).json(0)["projection"]["policy"]["accounting_weights"]["team"], 7);
    policy["accounting_weights"]["team"] = json!(0);
    std::fs::write(bare.around().join("policy.json"), policy.to_string()).unwrap();
    let refused = submit(&bare, r#"{"task":"x"}"#, &["--policy", "policy.json", "--branch", "third"]);
    assert_eq!(refused.error(2), "ledger_invalid");
    assert_eq!(bare.resolve("refs/heads/third"), None);
}

/// O-066: processes that submit at once to an empty repository, two of them the same task under the same id, leave
/// one Policy and every Work exactly once.
#[test]
fn concurrent_first_submissions_all_arrive() {
    let bare = Bare::new();
    let children: Vec<_> = (0..6)
        .map(|process| {
            let task = bare.around().join(format!("task-{process}.json"));
            std::fs::write(&task, format!(r#"{{"task":{}}}"#, process.max(1))).unwrap();
            let mut command = wq(bare.around());
            command.args(["submit-work", "--remote", "queue.git", "--json", "--file"]).arg(task);
            command.arg("--request-id").arg(format!("request-{}", process.max(1)));
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let answers: Vec<Value> =
        children.into_iter().map(|child| Ran::of(child.wait_with_output().unwrap()).json(0)).collect();
    assert_eq!(answers.iter().filter(|answer| answer["published_now"] == true).count(), 5);
    assert_eq!(answers[0]["work_id"], answers[1]["work_id"]);
    let commits = lines(&bare);
    assert_eq!(commits.len(), 5);
    let policies = commits.iter().filter(|commit| commit["operations"][0]["kind"] == "Policy").count();
    assert_eq!((policies, on(&bare, &["stats"]).json(0)["work"].as_u64()), (1, Some(5)));
}
