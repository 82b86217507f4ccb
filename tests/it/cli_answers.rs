//! What the commands' answers hold, through the binary: where the state lives, why something was or was not granted,
//! who acted, and nothing that a submitter wrote in a form that a terminal obeys.

use serde_json::{Value, json};

use crate::support::cli::{Ran, feed, run, wq};
use crate::support::git::Bare;

fn on(bare: &Bare, arguments: &[&str]) -> Ran {
    let mut all = arguments.to_vec();
    all.extend(["--remote", "queue.git", "--json"]);
    run(bare.around(), &all)
}

fn submit(bare: &Bare, task: &str, rest: &[&str]) -> Ran {
    let mut arguments = vec!["submit-work", "--file", "-", "--remote", "queue.git", "--json"];
    arguments.extend(rest);
    feed(bare.around(), &arguments, &format!(r#"{{"task":"{task}"}}"#))
}

fn graph(bare: &Bare, nodes: &Value, rest: &[&str]) -> Ran {
    let mut arguments = vec!["submit-graph", "--file", "-", "--remote", "queue.git", "--json"];
    arguments.extend(rest);
    feed(bare.around(), &arguments, &nodes.to_string())
}

fn commits(bare: &Bare) -> Vec<Value> {
    bare.ledger().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The default Policy, changed, as a file beside the repository.
fn policy(bare: &Bare, change: impl FnOnce(&mut Value)) -> &'static str {
    let template = Bare::new();
    submit(&template, "x", &[]).json(0);
    let mut policy = commits(&template)[0]["operations"][0]["policy"].clone();
    change(&mut policy);
    std::fs::write(bare.around().join("policy.json"), policy.to_string()).unwrap();
    "policy.json"
}

/// S-001, S-653, O-011: the ledger file alone decides. The commands leave nothing beside it, on the branch or
/// off it, and a repository that holds a copy of the file alone, committed by somebody else, gives the same answers.
#[test]
fn one_file_holds_everything() {
    let bare = Bare::new();
    let temporary = tempfile::tempdir().unwrap();
    let command = |arguments: &[&str]| {
        let mut command = wq(bare.around());
        command.args(arguments).args(["--remote", "queue.git", "--json"]).env("TMPDIR", temporary.path());
        command.env("HOME", temporary.path());
        command
    };
    for task in ["a", "b"] {
        let submission = command(&["submit-work", "--file", "-", "--request-id", task]);
        Ran::of(crate::support::git::feed(submission, format!(r#"{{"task":"{task}"}}"#).as_bytes())).json(0);
    }
    let turn = ["dispatch-next", "--request-id", "turn"];
    let granted = Ran::of(command(&turn).output().unwrap()).json(0);
    let state = Ran::of(command(&["replay"]).output().unwrap()).json(0);
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "nothing is left behind");
    assert_eq!(std::fs::read_dir(bare.around()).unwrap().count(), 1);
    assert_eq!(bare.git(&["for-each-ref", "--format=%(refname)"]), "refs/heads/work-queue");
    assert_eq!(bare.git(&["ls-tree", "-r", "--name-only", "refs/heads/work-queue"]), "work-queue.jsonl");
    let copy = Bare::new();
    copy.seed(bare.ledger().as_bytes());
    assert_eq!(on(&copy, &["replay"]).json(0)["projection"], state["projection"]);
    let again = on(&copy, &turn).json(0);
    assert_eq!((again["replayed"].as_bool(), &again["claims"]), (Some(true), &granted["claims"]));
    let (here, there) =
        (on(&bare, &["explain", "--at", "9000000000000"]), on(&copy, &["explain", "--at", "9000000000000"]));
    assert_eq!(here.json(0)["comparison"], there.json(0)["comparison"]);
}

/// O-404: the projection of `replay --json` is whole, payloads, Policy, clocks and requests included.
#[test]
fn replay_shows_everything_to_programs() {
    let bare = Bare::new();
    let work = submit(&bare, "payload here", &[]).json(0)["work_id"].as_str().unwrap().to_owned();
    on(&bare, &["dispatch-next"]).json(0);
    let answer = on(&bare, &["replay"]).json(0);
    let projection = answer["projection"].as_object().unwrap();
    for member in [
        "repository",
        "tip",
        "policy_epoch",
        "policy",
        "works",
        "claims",
        "dispatches",
        "observations",
        "requests",
        "clocks",
        "admission_paused",
        "grants_paused",
        "credential_generation",
        "stats",
        "ledger_bytes",
        "observation_writes",
    ] {
        assert!(projection.contains_key(member), "{member}");
    }
    assert_eq!(projection["works"][&work]["payload"], json!({"task": "payload here"}));
    assert_eq!(
        projection["dispatches"].as_object().unwrap().values().next().unwrap()["claims"][0]["work"]["task"],
        "payload here"
    );
}

/// S-075: weighted priority is the default mode, strict priority the other one, and there is no third.
#[test]
fn there_are_two_modes() {
    let bare = Bare::new();
    submit(&bare, "x", &[]).json(0);
    assert_eq!(commits(&bare)[0]["operations"][0]["policy"]["mode"], "weighted-priority");
    for (mode, exit) in [("strict-priority", 0), ("weighted-priority", 0), ("fifo", 2), ("advisory", 2), ("", 2)] {
        let bare = Bare::new();
        let file = policy(&bare, |policy| policy["mode"] = mode.into());
        let ran = submit(&bare, "x", &["--policy", file]);
        assert_eq!(ran.code, exit, "{mode}: {ran:?}");
        assert_eq!(bare.resolve("refs/heads/work-queue").is_some(), exit == 0);
    }
}

/// S-142: a submission without a worker profile gets the pool's default; the choice is kept, and only approved profiles
/// are accepted.
#[test]
fn routes_come_from_the_pool() {
    let bare = Bare::new();
    let file = policy(&bare, |policy| {
        let pool = &mut policy["pools"]["default"];
        pool["profiles"]["second"] = pool["profiles"]["worker"].clone();
        pool["default_profile"] = "second".into();
    });
    submit(&bare, "x", &["--policy", file]).json(0);
    assert_eq!(commits(&bare)[0]["operations"][1]["worker_profile"], "second");
    assert_eq!(submit(&bare, "x", &[]).json(0)["status"], "already_admitted");
    assert_eq!(submit(&bare, "x", &["--worker-profile", "worker"]).error(2), "work_conflict");
    assert_eq!(submit(&bare, "y", &["--worker-profile", "third"]).error(2), "work_invalid");
    submit(&bare, "y", &["--worker-profile", "worker"]).json(0);
    assert_eq!(commits(&bare)[1]["operations"][0]["worker_profile"], "worker");
}

/// S-137, S-138, S-535, S-551, S-558: an answer without a grant is a success that says which version it looked
/// at, the code, the specification's word for it, and the Work that stands first where one was held back. Only a pool
/// without waiting Work is `no_work`.
#[test]
fn an_answer_without_a_grant_says_why() {
    let pools = |logical: u64, native: u64| {
        let bare = Bare::new();
        let file = policy(&bare, |policy| {
            policy["pools"]["default"]["logical_limit"] = logical.into();
            policy["pools"]["default"]["native_limit"] = native.into();
        });
        let nodes = json!([
            {"graph_id": "g", "node_key": "a", "payload": {"n": "a"}},
            {"graph_id": "g", "node_key": "b", "payload": {"n": "b"}},
            {"graph_id": "g", "node_key": "c", "payload": {"n": "c"}, "depends_on": [{"kind": "work", "node_key": "a"}]},
        ]);
        let ids = graph(&bare, &nodes, &["--policy", file]).json(0)["work_ids"].clone();
        (bare, ids)
    };
    let refused = |bare: &Bare, more: &[&str]| {
        let ledger = bare.ledger();
        let mut arguments = vec!["dispatch-next"];
        arguments.extend(more);
        let answer = on(bare, &arguments).json(0);
        assert_eq!((answer["status"].as_str(), answer["lost_attempts"].as_u64()), (Some("no_grant"), Some(0)));
        assert_eq!(answer["claims"], json!([]));
        assert_eq!(answer["sha"].as_str(), bare.resolve("refs/heads/work-queue").as_deref());
        assert_eq!(answer["tip"], commits(bare).last().unwrap()["id"]);
        assert!(answer["evaluated_at"].is_i64());
        assert_eq!(bare.ledger(), ledger);
        answer
    };
    let code = |answer: &Value| (answer["reason"].clone(), answer["label"].clone(), answer["blocked_work_id"].clone());
    let (bare, ids) = pools(16, 1);
    let tight = refused(&bare, &["--max-bytes", "10"]);
    assert_eq!(code(&tight), (json!("assignment_bytes_blocked"), json!("assignment_size_blocked"), ids[0].clone()));
    on(&bare, &["dispatch-next"]).json(0);
    let native = refused(&bare, &[]);
    assert_eq!(code(&native), (json!("native_capacity_blocked"), json!("capacity_blocked"), ids[1].clone()));
    let (bare, _) = pools(1, 16);
    on(&bare, &["dispatch-next"]).json(0);
    assert_eq!(code(&refused(&bare, &[])), (json!("capacity_blocked"), json!("capacity_blocked"), Value::Null));
    let (bare, _) = pools(16, 16);
    let both = on(&bare, &["dispatch-next", "--max-claims", "9", "--max-dispatches", "9"]).json(0);
    assert_eq!((both["claims"].as_array().unwrap().len(), both["reason"].as_str()), (2, Some("no_eligible_work")));
    assert_eq!(code(&refused(&bare, &[])), (json!("no_eligible_work"), json!("no_eligible_work"), Value::Null));
    let bare = Bare::new();
    submit(&bare, "x", &[]).json(0);
    on(&bare, &["dispatch-next"]).json(0);
    assert_eq!(code(&refused(&bare, &[])), (json!("no_work"), json!("no_work"), Value::Null));
}

fn node(key: &str, priority: u64, account: &str) -> Value {
    // A graph of its own for each, because a graph keeps one accounting key.
    json!({"graph_id": key, "node_key": key, "payload": {"n": key}, "priority": priority, "fairness_key": account})
}

/// S-527, S-528, S-530, S-531, S-532, S-533: the next selection says how it was chosen and from what, as the planner
/// compared it, and the grant then carries the same word.
#[test]
fn a_selection_says_what_it_was_chosen_from() {
    for (mode, nodes, label) in [
        ("weighted-priority", json!([node("a", 3, ""), node("b", 3, "")]), "fifo_default"),
        ("strict-priority", json!([node("a", 2, ""), node("b", 1, "")]), "priority_class"),
        ("weighted-priority", json!([node("a", 2, ""), node("b", 1, "")]), "weighted_class"),
        ("weighted-priority", json!([node("a", 3, "team"), node("b", 3, "")]), "weighted_key"),
    ] {
        let bare = Bare::new();
        let file = policy(&bare, |policy| {
            policy["mode"] = mode.into();
            policy["accounting_weights"]["team"] = 2.into();
        });
        graph(&bare, &nodes, &["--policy", file]).json(0);
        let before = bare.contents();
        let told = on(&bare, &["explain", "--pool", "default"]).json(0);
        assert_eq!(bare.contents(), before);
        assert_eq!(told["label"], label);
        assert_eq!(told["tip"], commits(&bare)[0]["id"]);
        assert_eq!(told["policy_epoch"], commits(&bare)[0]["policy_epoch"]);
        let granted = on(&bare, &["dispatch-next"]).json(0);
        let claim = &granted["claims"][0];
        assert_eq!((&claim["work_id"], &claim["label"]), (&told["selection"]["work_id"], &json!(label)));
        let seen = &told["comparison"];
        assert_eq!((seen["available"].as_u64(), seen["eligible"].as_u64()), (Some(2), Some(2)));
        assert_eq!((&seen["class"], &seen["key"]), (&json!(claim["priority"].to_string()), &claim["fairness_key"]));
        assert_eq!(seen["capacity_before"], json!({"account": 0, "logical": 0, "native": 0}));
        assert_eq!(seen["capacity_after"], json!({"account": 1, "logical": 1, "native": 1}));
        assert_eq!((seen["position"]["commit"].as_u64(), seen["position"]["operation"].is_u64()), (Some(0), true));
        let expected = match label {
            "fifo_default" => json!([[["3", "4", "4"]], [["", "2", "2"]]]),
            "priority_class" => json!([[["1", null, "1"], ["2", null, "2"]], [["", "2", "2"]]]),
            "weighted_class" => json!([[["1", "1", "1"], ["2", "2", "2"]], [["", "2", "2"]]]),
            _ => json!([[["3", "4", "4"]], [["team", "1", "1"], ["", "2", "2"]]]),
        };
        let rows = |name: &str| -> Vec<Value> {
            let row = |one: &Value| json!([one["name"], one["pass"], one["stride"]]);
            seen[name].as_array().unwrap().iter().map(row).collect()
        };
        assert_eq!(json!([rows("classes"), rows("keys")]), expected, "{label}");
    }
    let bare = Bare::new();
    submit(&bare, "x", &[]).json(0);
    on(&bare, &["dispatch-next"]).json(0);
    let told = on(&bare, &["explain"]).json(0);
    assert_eq!((told["label"].as_str(), told["comparison"]["class"].is_null()), (Some("no_work"), true));
}

/// S-652, S-653: the actor is the command's role, the operator's account and the queue's repository. No flag names a
/// role, and nothing around the process changes who acts.
#[test]
fn actors_come_from_the_command() {
    let bare = Bare::new();
    let mut command = wq(bare.around());
    command.args(["submit-work", "--file", "-", "--remote", "queue.git", "--json", "--principal", "7"]);
    for (name, value) in
        [("GITHUB_ACTOR", "root"), ("GIT_AUTHOR_NAME", "root"), ("GITHUB_RUN_ID", "9"), ("USER", "root")]
    {
        command.env(name, value);
    }
    Ran::of(crate::support::git::feed(command, br#"{"actor":{"role":"administrator"},"role":"administrator"}"#))
        .json(0);
    on(&bare, &["dispatch-next", "--principal", "8"]).json(0);
    let actors: Vec<Value> = commits(&bare).iter().map(|commit| commit["actor"].clone()).collect();
    assert_eq!(actors[0], json!({"role": "producer", "principal": "7", "repository": "local/queue"}));
    assert_eq!(actors[1], json!({"role": "administrator", "principal": "8", "repository": "local/queue"}));
    for flag in ["--role", "--actor", "--workflow", "--run-id"] {
        assert_eq!(on(&bare, &["dispatch-next", flag, "worker"]).error(2), "usage_invalid", "{flag}");
    }
    let author = bare.git(&["log", "--format=%an", "refs/heads/work-queue"]);
    assert!(!author.contains("root"), "{author}");
}

/// S-417, S-452, O-015: Issues and pull requests are gates of a submission, shared and unmet until somebody observes
/// them; no command reads, writes or imports a queue that is kept in Issues.
#[test]
fn issues_are_gates_and_no_queue() {
    let bare = Bare::new();
    let resource = |kind: &str, id: &str| {
        json!({"kind": kind, "host": "github.com", "repository": "local/queue", "repository_id": "9", "resource_id": id,
            "number": id})
    };
    let gates = json!([
        {"kind": "issue", "condition": "completed", "resource": resource("issue", "5")},
        {"kind": "pull_request", "condition": "merged", "resource": resource("pull_request", "6")},
    ]);
    let nodes = json!([
        {"graph_id": "g", "node_key": "a", "payload": {}, "depends_on": gates},
        {"graph_id": "g", "node_key": "b", "payload": {}, "depends_on": gates},
    ]);
    graph(&bare, &nodes, &[]).json(0);
    let stats = on(&bare, &["stats"]).json(0);
    assert_eq!((stats["work"].as_u64(), stats["nodes"].as_u64()), (Some(2), Some(4)), "two Work share two gates");
    assert_eq!(on(&bare, &["dispatch-next"]).json(0)["reason"], "no_eligible_work");
    let work = commits(&bare)[0]["operations"][1]["work_id"].as_str().unwrap().to_owned();
    let waits = on(&bare, &["explain", "--work-id", &work]).json(0);
    assert_eq!((waits["label"].as_str(), waits["unresolved_total"].as_u64()), (Some("external_unavailable"), Some(2)));
    assert_eq!(waits["state"], "available");
    for command in ["import", "migrate", "seed", "sync", "issues"] {
        assert_eq!(on(&bare, &[command]).error(2), "usage_invalid", "{command}");
    }
}

/// S-257: the submission that makes a queue says so, and that an earlier branch's knowledge is not in it.
#[test]
fn a_new_queue_is_said_to_be_new() {
    let bare = Bare::new();
    assert!(on(&bare, &["stats"]).err.contains("knows none of the requests, reservations and evidence"));
    let arguments = ["submit-work", "--file", "-", "--remote", "queue.git"];
    let first = feed(bare.around(), &arguments, r#"{"task":"x"}"#);
    assert!(first.out.contains("a new queue: if there was an earlier branch"), "{first:?}");
    let second = feed(bare.around(), &arguments, r#"{"task":"y"}"#);
    assert!(second.code == 0 && !second.out.contains("a new queue"), "{second:?}");
    assert_eq!(submit(&bare, "z", &[]).json(0)["genesis"], false);
    bare.git(&["update-ref", "-d", "refs/heads/work-queue"]);
    assert_eq!(submit(&bare, "x", &[]).json(0)["genesis"], true, "a missing branch is a fresh genesis");
}

/// S-564: whatever a submitter put into names, what people see is visible ASCII, on both streams.
#[test]
fn submitted_text_reaches_no_terminal_unescaped() {
    let bare = Bare::new();
    // A terminal's control sequence introducer, an override of the direction of text, quotes and a line separator.
    let evil = "x\u{9b}31m\u{202e}\"'\\\u{2028}é";
    let file = policy(&bare, |policy| {
        policy["accounting_weights"][evil] = 3.into();
        let pool = &mut policy["pools"]["default"];
        pool["profiles"][evil] = pool["profiles"]["worker"].clone();
        policy["pools"][evil] = policy["pools"]["default"].clone();
    });
    let named = |key: &str, needs: &[&str]| {
        let edges: Vec<Value> = needs.iter().map(|key| json!({"kind": "work", "node_key": key})).collect();
        json!({"graph_id": evil, "node_key": key, "payload": {evil: evil}, "pool": evil, "fairness_key": evil,
            "worker_profile": evil, "depends_on": edges})
    };
    let other = format!("{evil}2");
    let show = |arguments: &[&str], input: &str, code: i32| {
        let mut all = arguments.to_vec();
        all.extend(["--remote", "queue.git"]);
        let ran = feed(bare.around(), &all, input);
        assert_eq!(ran.code, code, "{arguments:?}: {ran:?}");
        for text in [&ran.out, &ran.err] {
            let safe = text.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte));
            assert!(safe, "{arguments:?}: {text:?}");
        }
        ran.out.contains("u202e") || ran.err.contains("u202e")
    };
    let nodes = json!([named(evil, &[]), named(&other, &[evil])]).to_string();
    let cycle = json!([named(evil, &[&other]), named(&other, &[evil])]).to_string();
    assert!(show(&["submit-graph", "--file", "-", "--policy", file], &cycle, 2));
    assert!(show(&["submit-graph", "--file", "-", "--policy", file, "--request-id", evil], &nodes, 0));
    assert!(show(&["explain", "--pool", evil], "", 0));
    assert!(show(&["dispatch-next", "--pool", evil, "--max-claims", "2", "--request-id", &other], "", 0));
    show(&["dispatch-next", "--pool", evil, "--request-id", &other], "", 2);
    let state = on(&bare, &["replay"]).json(0)["projection"].clone();
    let claim = state["claims"].as_object().unwrap().keys().next().unwrap().clone();
    let works: Vec<&String> = state["works"].as_object().unwrap().keys().collect();
    assert!(show(&["replay"], "", 0));
    show(&["stats"], "", 0);
    show(&["explain", "--request-id", &other], "", 0);
    assert!(show(&["state"], "", 0));
    assert!(show(&["state", "--search", evil], "", 0));
    assert!(show(&["trace", "--request-id", evil], "", 0));
    assert!(show(&["trace", "--claim-id", &claim], "", 0));
    show(&["state", "--graph", "a\nb\u{1b}[31m"], "", 2);
    show(&["inspect", "--work-id", "\u{202e}\u{1b}"], "", 2);
    show(&["explain", "--claim-id", &claim], "", 0);
    show(&["inspect", "--claim-id", &claim], "", 0);
    for work in works {
        assert!(show(&["explain", "--work-id", work], "", 0));
        assert!(show(&["inspect", "--work-id", work], "", 0));
    }
}
