//! Ledgers that were written before this program: read as they are, and continued.

use serde_json::{Value, json};
use wq_action::engine::{Decision, replay};
use wq_action::protocol::At;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::LedgerText;
use wq_action::protocol::request::RequestKind;

use crate::support::built::{Node, Queue, aw_policy, frozen};
use crate::support::cli::run;
use crate::support::corpus::{conformance, load, load_corpus};
use crate::support::git::Bare;
use crate::support::ledger::{HOST, fixture};

/// Every old ledger: its name, its text and its host.
fn old() -> Vec<(String, String, String)> {
    let own = ["three-commits", "lifecycle"].map(|name| {
        let text = std::fs::read_to_string(fixture(&format!("{name}.jsonl"))).unwrap();
        (name.to_owned(), text, HOST.to_owned())
    });
    let corpus = load_corpus().into_iter().map(|case| {
        let host = case.expect["host"].as_str().unwrap().to_owned();
        (case.name, String::from_utf8(case.text).unwrap(), host)
    });
    own.into_iter().chain(corpus).collect()
}

/// The members of an object that a closed schema does not have.
fn foreign<'v>(schema: &Value, object: &'v Value) -> Vec<&'v str> {
    assert_eq!(schema["additionalProperties"], false, "the schema is closed");
    let known = schema["properties"].as_object().unwrap();
    let members = object.as_object().unwrap().keys().map(String::as_str);
    members.filter(|member| !known.contains_key(*member)).collect()
}

/// O-192: every record of old ledgers and of ours is of version 3. An old ledger is read as it lies, with every line kept to
/// the byte, and the next commit is one more line. A commit that keeps its Work open has a member that the closed
/// schemas of earlier builds refuse, in its request and in its operation; an ordinary one has none.
#[test]
fn old_ledgers_need_no_migration() {
    let (mut continued, mut full) = (0, 0);
    for (name, text, host) in old() {
        let lines: Vec<&str> = text.lines().collect();
        let version = |line: &str| serde_json::from_str::<Value>(line).unwrap()["version"].clone();
        assert!(lines.iter().all(|line| version(line) == 3), "{name}");
        let mut scanner = Scanner::new(&host);
        let state = replay(&LedgerText::new(text.clone().into_bytes()).unwrap(), &mut scanner).unwrap();
        let kept: Vec<&str> = state.active().map(|line| line.as_str()).collect();
        assert_eq!(kept, lines, "{name}");
        let actor =
            json!({"role": "administrator", "principal": "1", "repository": state.repository().unwrap().as_str()});
        let operation = json!({"kind": "Control", "control": "admission_paused", "value": !state.admission_paused(),
            "reason": "looked_at"});
        let parameters = json!({"operations": [operation]});
        let request = frozen("one-more", RequestKind::Control, &actor.to_string(), &parameters);
        let at = state.requests().last().unwrap().at.get();
        match state.decide(&mut scanner, &request, At::new(at).unwrap(), &[]) {
            Ok(Decision::Publish(generated)) => {
                let after: Vec<&str> = generated.next.active().map(|line| line.as_str()).collect();
                assert_eq!(after[..lines.len()], lines[..], "{name}");
                assert_eq!((after.len(), version(after[lines.len()])), (lines.len() + 1, json!(3)), "{name}");
                continued += 1;
            }
            Err(fault) if fault.code().as_str() == "ledger_limit" => full += 1,
            other => panic!("{name}: {other:?}"),
        }
    }
    crate::support::tell!("{continued} old ledgers continued, {full} were full");
    assert!(continued > 1 && full * 4 < continued);

    let round = |keep: bool| {
        let mut queue = Queue::open(&aw_policy(), &[Node::new("a")]);
        let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
        queue.start(&grant, 2001).unwrap();
        queue.bind(&grant, 2002).unwrap();
        if keep {
            queue.keep_open(&grant, 2003).unwrap()
        } else {
            queue.finish(&grant, "completed", 2003).unwrap()
        }
        let commit: Value = serde_json::from_str(queue.text.lines().last().unwrap()).unwrap();
        assert_eq!(commit["version"], 3);
        (commit["request"]["parameters"].clone(), commit["operations"][0].clone())
    };
    let (plain, kept) = (round(false), round(true));
    let members = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for (plain, kept) in [(&plain.0, &kept.0), (&plain.1, &kept.1)] {
        let mut more = members(kept);
        more.retain(|member| plain.get(member).is_none());
        assert_eq!(more, ["keep_open"]);
    }
    if conformance().is_none() {
        return;
    }
    let schema = load("schema/QueueCommit.json").unwrap();
    for (name, plain, kept) in [("FinishParameters", &plain.0, &kept.0), ("CompletionOperation", &plain.1, &kept.1)] {
        let schema = &schema["$defs"][name];
        assert_eq!(foreign(schema, plain), [""; 0]);
        assert_eq!(foreign(schema, kept), ["keep_open"]);
    }
}

/// O-374: a queue that stands on a branch already goes on: the next commits stand on top of its Git history and of its
/// lines, whose Work, Claims and requests are all there.
#[test]
fn existing_queues_work_on() {
    let text = std::fs::read_to_string(fixture("three-commits.jsonl")).unwrap();
    let bare = Bare::new();
    let first = bare.seed(text.as_bytes());
    let ask = |arguments: &[&str]| {
        let mut all = arguments.to_vec();
        all.extend(["--remote", "queue.git", "--repo", "owner/repo", "--principal", "1001", "--json"]);
        run(bare.around(), &all).json(0)
    };
    let before = ask(&["replay"])["projection"].take();
    ask(&["control", "pause", "admission", "--reason", "r"]);
    ask(&["control", "resume", "admission", "--reason", "r"]);
    let granted = ask(&["dispatch-next", "--max-claims", "1"]);
    assert_eq!(granted["claims"].as_array().unwrap().len(), 1, "the Work that waited is next");
    let after = ask(&["replay"])["projection"].take();
    for member in ["claims", "dispatches", "requests"] {
        for (id, value) in before[member].as_object().unwrap() {
            assert_eq!(after[member][id], *value, "{member}");
        }
    }
    assert_eq!(before["works"].as_object().unwrap().len(), after["works"].as_object().unwrap().len());
    let ledger = bare.ledger();
    assert!(ledger.starts_with(&text));
    assert_eq!(ledger.lines().count(), text.lines().count() + 3);
    let history = bare.git(&["rev-list", "refs/heads/work-queue"]);
    assert_eq!((history.lines().count(), history.lines().last()), (4, Some(first.as_str())));
}
