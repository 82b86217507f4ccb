//! What outsiders can check: `schema/QueueCommit.json` and `schema/WorkQueueAssignment.json`, by an independent validator.
//!
//! Beyond these tests, every commit that any test's engine queue publishes and every ledger that any test reads from a
//! bare repository goes through the same validator (`tests/support/schema.rs`), assignments included.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use wq_action::engine::replay;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::LedgerText;
use wq_action::protocol::request::RequestKind;

use crate::support::built::{Node, PRODUCER, Queue, RECONCILER, aw_policy, seen};
use crate::support::cli::{feed, run, wq};
use crate::support::corpus::{load, load_corpus};
use crate::support::git::Bare;
use crate::support::ledger::fixture;
use crate::support::schema::{assignment_schema, commit_schema, objections, without_extension};

fn commits(ledger: &str) -> Vec<Value> {
    ledger.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Validates every commit; the operation kinds that occur.
fn validate(name: &str, ledger: &str) -> BTreeSet<String> {
    let schema = commit_schema().expect("the caller has the schema");
    let mut kinds = BTreeSet::new();
    for (index, commit) in commits(ledger).into_iter().enumerate() {
        let operations = commit["operations"].as_array().unwrap().iter();
        kinds.extend(operations.map(|operation| operation["kind"].as_str().unwrap().to_owned()));
        let complaints = objections(schema, &without_extension(commit));
        assert!(complaints.is_empty(), "{name} line {}: {complaints:?}", index + 1);
    }
    kinds
}

/// Every operation kind of the published schema.
fn every_kind() -> BTreeSet<String> {
    let schema = load("schema/QueueCommit.json").unwrap();
    let choices = schema["$defs"]["QueueOperation"]["anyOf"].as_array().unwrap();
    let name = |choice: &Value| choice["$ref"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let kind =
        |choice: &Value| schema["$defs"][name(choice)]["properties"]["kind"]["const"].as_str().unwrap().to_owned();
    choices.iter().map(kind).collect()
}

/// Validates the assignments that a ledger's grants lead to; how many.
fn assignments(name: &str, ledger: &[u8], host: &str) -> usize {
    let schema = assignment_schema().expect("the caller has the schema");
    let text = LedgerText::new(ledger.to_vec()).unwrap();
    // The project's list of records is no ledger that replays.
    let Ok(state) = replay(&text, &mut Scanner::new(host)) else {
        assert_eq!(name, "records.jsonl");
        return 0;
    };
    for dispatch in state.dispatches() {
        let assignment = serde_json::from_str(&dispatch.assignment.canonical()).unwrap();
        let complaints = objections(schema, &assignment);
        assert!(complaints.is_empty(), "{name}: {complaints:?}");
    }
    state.dispatches().len()
}

/// The control: ledgers that another implementation wrote fit the schema, so the schema is the one that they mean.
#[test]
fn the_corpus_fits_the_published_schemas() {
    if commit_schema().is_none() {
        return;
    }
    let (mut lines, mut granted, mut kinds) = (0, 0, BTreeSet::new());
    for case in load_corpus() {
        let text = String::from_utf8(case.text.clone()).unwrap();
        kinds.append(&mut validate(&case.name, &text));
        lines += text.lines().count();
        granted += assignments(&case.name, &case.text, case.expect["host"].as_str().unwrap());
    }
    crate::support::tell!("{lines} corpus commits and {granted} assignments fit the published schemas");
    assert_eq!(kinds, every_kind());
}

/// S-030: every operation kind as our encoder writes it, whole lifecycles as the engine generates them, and what the
/// commands put on a branch.
#[test]
fn what_we_write_fits_the_published_schemas() {
    if commit_schema().is_none() {
        return;
    }
    let mut encoded = BTreeSet::new();
    for name in ["three-commits.jsonl", "records.jsonl", "lifecycle.jsonl"] {
        let text = std::fs::read_to_string(fixture(name)).unwrap();
        encoded.append(&mut validate(name, &text));
        assignments(name, text.as_bytes(), "github.com");
    }
    assert_eq!(encoded, every_kind());
    let generated = validate("engine", &lifecycle().text);
    let commanded = validate("commands", &commands());
    let here = tempfile::tempdir().unwrap();
    let mut demo = wq(here.path());
    assert!(demo.args(["demo", "--keep"]).env("TMPDIR", here.path()).output().unwrap().status.success());
    let kept = std::fs::read_dir(here.path()).unwrap().next().unwrap().unwrap().path().join("queue.git");
    let mut played = crate::support::git::git_command(&kept);
    let played = played.args(["cat-file", "blob", "work-queue:work-queue.jsonl"]).output().unwrap();
    let played = validate("demo", &String::from_utf8(played.stdout).unwrap());
    crate::support::tell!("kinds published by engine {generated:?}, commands {commanded:?}, demo {played:?}");
    for kind in ["Policy", "Work", "Claim", "Dispatch", "Completion", "Result", "Release"] {
        assert!(generated.contains(kind) && played.contains(kind), "{kind}");
    }
}

/// A queue through every ending that a Work can have.
fn lifecycle() -> Queue {
    let node = |key: &str| Node::new(key).with("subject", crate::support::built::issue(9));
    let mut queue = Queue::open(&aw_policy(), &[node("a"), node("b"), Node::new("c").after("a").gate(5, "closed")]);
    let granted = queue.grant(2000, 2, 2).unwrap();
    queue.deliver(&granted[0], 2100).unwrap();
    queue.complete(&granted[1], 2200).unwrap();
    let evidence = json!({"attempts": 5, "effects": "unknown"});
    queue.fail(&granted[1], 400_000, "unknown", &evidence).unwrap();
    let observation = seen("o1", 5, "closed", 400_100, &json!({}));
    queue.operate(RequestKind::Observe, RECONCILER, 400_100, &[observation]).unwrap();
    let again = queue.grant(400_200, 1, 1).unwrap().remove(0);
    queue.cancel_claim(&again, 400_300, 430_300).unwrap();
    queue.cancel_work(crate::support::built::ADMINISTRATOR, &again.work, 400_400).unwrap();
    queue.submit(PRODUCER, 400_500, &[Node::new("d").priority(5)]).unwrap();
    queue.control("grants_paused", &json!(true), 400_600).unwrap();
    queue
}

/// The ledger that the publishing commands leave on a branch.
fn commands() -> String {
    let bare = Bare::new();
    let on = |arguments: &[&str], input: &str| {
        let all = [arguments, &["--remote", "queue.git", "--json"]].concat();
        feed(bare.around(), &all, input).json(0)
    };
    on(&["submit-work", "--file", "-", "--priority", "1"], r#"{"task":"\u2028 \ud83d\ude00","n":[null,true,-7]}"#);
    on(
        &["submit-graph", "--file", "-"],
        r#"[{"graph_id":"g","node_key":"a","payload":{}},{"graph_id":"g","node_key":"b","payload":{},"depends_on":[]}]"#,
    );
    run(bare.around(), &["dispatch-next", "--max-claims", "2", "--remote", "queue.git", "--json"]).json(0);
    bare.ledger()
}

/// Where damage can be done: each object that the schema closes, by its JSON pointer, with its members.
fn closed_objects(value: &Value, at: &str, found: &mut Vec<(String, Vec<String>)>) {
    match value {
        Value::Object(members) => {
            let name = at.rsplit('/').next().unwrap_or_default();
            // Maps of names and opaque data are open by design.
            let open =
                ["payload", "descriptor", "state", "accounting_weights", "producers", "pools", "profiles", "value"];
            if ["payload", "descriptor", "state", "value"].contains(&name) {
                return;
            }
            if !open.contains(&name) {
                found.push((at.to_owned(), members.keys().cloned().collect()));
            }
            for (name, member) in members {
                closed_objects(member, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                closed_objects(item, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// The negative control: an unknown member or a null in any closed object of any kind is seen by the validator.
#[test]
fn the_schema_refuses_damage() {
    let Some(schema) = commit_schema() else { return };
    let mut tried = 0;
    let text = std::fs::read_to_string(fixture("records.jsonl")).unwrap();
    for commit in commits(&text) {
        let mut places = Vec::new();
        closed_objects(&commit, "", &mut places);
        for (place, members) in places {
            let mut damaged = commit.clone();
            damaged.pointer_mut(&place).unwrap()["unknown_member"] = json!(1);
            assert!(!schema.is_valid(&damaged), "an unknown member at {place}");
            for member in members {
                let mut damaged = commit.clone();
                let before = std::mem::replace(&mut damaged.pointer_mut(&place).unwrap()[&member], Value::Null);
                // The one null of a commit is a root's predecessor.
                let legal = before.is_null() || (place.is_empty() && member == "previous");
                assert!(legal || !schema.is_valid(&damaged), "null at {place}/{member}");
                tried += 1;
            }
            tried += 1;
        }
    }
    let commit = commits(&text).remove(0);
    for (place, value) in [
        ("/version", json!(2)),
        ("/version", json!("3")),
        ("/at", json!(-1)),
        ("/at", json!(9_007_199_254_740_992_u64)),
        ("/operations", json!([])),
        ("/id", json!("")),
        ("/id", json!("x".repeat(257))),
        ("/id", json!("\u{1f600}".repeat(65))),
        ("/id", json!("a\u{7f}")),
        ("/actor/role", json!("owner")),
        ("/request/fingerprint", json!("A".repeat(64))),
        ("/request/kind", json!("grant")),
        ("/operations/0/kind", json!("Grant")),
    ] {
        let mut damaged = commit.clone();
        *damaged.pointer_mut(place).unwrap() = value;
        assert!(!schema.is_valid(&damaged), "{place}");
        tried += 1;
    }
    assert!(schema.is_valid(&commit));
    crate::support::tell!("the published schema refused {tried} damaged commits");
}
