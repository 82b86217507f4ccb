//! `wq compact`, as a person runs it.

use std::path::Path;

use serde_json::Value;

use crate::support::cli::{Ran, feed, run};
use crate::support::git::Bare;
use crate::support::history::version;

fn on(bare: &Bare, arguments: &[&str]) -> Ran {
    let mut all = arguments.to_vec();
    all.extend(["--remote", "queue.git", "--json"]);
    run(bare.around(), &all)
}

fn submit(bare: &Bare, id: &str) -> Ran {
    let task = format!(r#"{{"task":"{id}"}}"#);
    let arguments = ["submit-work", "--file", "-", "--remote", "queue.git", "--json", "--request-id", id];
    feed(bare.around(), &arguments, &task)
}

/// Three tasks, of which one is granted.
fn seeded() -> Bare {
    let bare = Bare::new();
    for id in ["one", "two", "three"] {
        submit(&bare, id).json(0);
    }
    on(&bare, &["dispatch-next", "--request-id", "grant"]).json(0);
    bare
}

fn head(bare: &Bare) -> String {
    bare.resolve("refs/heads/work-queue").unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// An answer without what a compaction changes: where the queue stands, and when it was asked.
fn timeless(mut value: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(members) => {
                for member in
                    ["tip", "sha", "evaluated_at", "transactions", "requests", "ledger_bytes", "bytes", "age_ms"]
                {
                    members.remove(member);
                }
                // The text begins with the tip, the Policy and the time.
                if let Some(Value::String(details)) = members.get_mut("details") {
                    *details = details.split_once("\n\n").unwrap().1.to_owned();
                }
                members.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut value);
    value
}

/// O-305, S-058: the answer tells what was replaced and what by; a second compaction has nothing to do.
#[test]
fn compact_tells_what_it_did() {
    let bare = seeded();
    let bytes = bare.ledger().len();
    let prior = head(&bare);
    let answer = on(&bare, &["compact"]).json(0);
    let members = [
        "acknowledgment_recovered",
        "bytes_after",
        "bytes_before",
        "changed",
        "commits",
        "duplicates_removed",
        "evaluated_at",
        "reason",
        "sha",
        "tip",
    ];
    assert_eq!(keys(&answer), members);
    assert_eq!((answer["changed"].as_bool(), answer["reason"].as_str()), (Some(true), Some("compacted")));
    assert_eq!((answer["commits"].as_u64(), answer["duplicates_removed"].as_u64()), (Some(1), Some(0)));
    assert_eq!(answer["bytes_before"].as_u64(), Some(bytes as u64));
    assert_eq!(answer["bytes_after"].as_u64(), Some(bare.ledger().len() as u64));
    assert_eq!(answer["sha"].as_str(), Some(head(&bare).as_str()));
    let line: Value = serde_json::from_str(&bare.ledger()).unwrap();
    assert_eq!((&line["id"], &line["operations"][0]["prior_git_sha"]), (&answer["tip"], &Value::from(prior)));

    let written = head(&bare);
    let again = on(&bare, &["compact"]).json(0);
    assert_eq!((again["changed"].as_bool(), again["reason"].as_str()), (Some(false), Some("already_compact")));
    assert_eq!((&again["tip"], head(&bare)), (&answer["tip"], written));
    let text = run(bare.around(), &["compact", "--remote", "queue.git"]);
    assert_eq!(text.code, 0);
    assert!(text.out.starts_with("already one checkpoint of 4 requests; tip "), "{text:?}");
    submit(&bare, "four").json(0);
    let text = run(bare.around(), &["compact", "--remote", "queue.git"]);
    assert!(text.out.starts_with("compacted: 6 requests kept as receipts, "), "{text:?}");
}

/// What the commands answer is the same before and after any number of compactions: the selection, the
/// explanation of each Work, Claim and decision, and a repeated request.
#[test]
fn answers_survive_compaction() {
    let bare = seeded();
    let grant = on(&bare, &["dispatch-next", "--request-id", "grant"]).json(0);
    assert_eq!(grant["replayed"].as_bool(), Some(true));
    let claim = claim_of(&bare);
    let work = state_work(&bare);
    let questions: Vec<Vec<&str>> = vec![
        vec!["explain", "--at", "1900000000000"],
        vec!["explain", "--request-id", "grant"],
        vec!["explain", "--claim-id", &claim],
        vec!["explain", "--work-id", &work, "--at", "1900000000000"],
        vec!["inspect", "--claim-id", &claim],
        vec!["inspect", "--work-id", &work],
        vec!["stats"],
    ];
    let ask = || questions.iter().map(|question| timeless(on(&bare, question).json(0))).collect::<Vec<_>>();
    let before = ask();
    for round in 0..2 {
        assert_eq!(on(&bare, &["compact"]).json(0)["changed"].as_bool(), Some(true));
        for (question, (after, before)) in questions.iter().zip(ask().iter().zip(&before)) {
            // What decided a grant is named from the commits before it, which are receipts now.
            let decision = question.contains(&"explain")
                && question.iter().any(|flag| ["--claim-id", "--request-id"].contains(flag));
            let before = if decision { &unlabelled(before.clone()) } else { before };
            assert_eq!(after, before, "{question:?} in round {round}");
        }
        let written = head(&bare);
        let again = on(&bare, &["dispatch-next", "--request-id", "grant"]).json(0);
        assert_eq!((again["replayed"].as_bool(), &again["commit_id"]), (Some(true), &grant["commit_id"]));
        // Why the prefix stopped is worked out from the commits before as well.
        assert_eq!(again["assignments"], grant["assignments"]);
        assert_eq!(again["claims"], unlabelled(grant["claims"].clone()));
        assert_eq!(submit(&bare, "one").json(0)["replayed"].as_bool(), Some(true));
        assert_eq!(
            on(&bare, &["dispatch-next", "--request-id", "grant", "--max-claims", "2"]).error(2),
            "request_reused"
        );
        assert_eq!(head(&bare), written);
        // A commit on top, so that the next round nests; it changes no answer.
        let text = bare.ledger();
        version(&bare, &format!("{text}{text}"), &[&written]);
        if round == 0 {
            assert_eq!(on(&bare, &["compact"]).json(0)["changed"].as_bool(), Some(false), "repetitions are no history");
            nest(&bare);
        }
    }
}

/// An answer without labels at any depth.
fn unlabelled(mut value: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.remove("label");
                members.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut value);
    value
}

/// Publishes something that the questions do not see.
fn nest(bare: &Bare) {
    use crate::support::history::control;
    use crate::support::queue::World;
    World::new(bare.transport()).publisher().publish_request(&control("unseen"), None).unwrap();
}

fn ledger_line(bare: &Bare, kind: &str) -> Value {
    let lines = bare.ledger();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut operations = lines.flat_map(|line| line["operations"].as_array().unwrap().clone());
    operations.find(|operation| operation["kind"] == kind).unwrap()
}

fn claim_of(bare: &Bare) -> String {
    ledger_line(bare, "Claim")["claim_id"].as_str().unwrap().to_owned()
}

fn state_work(bare: &Bare) -> String {
    ledger_line(bare, "Work")["work_id"].as_str().unwrap().to_owned()
}

/// S-065: a plan can be made first and applied later, from a file or from standard input; a foreign or tampered one is
/// refused with its code.
#[test]
fn a_plan_is_made_and_applied() {
    let bare = seeded();
    let before = head(&bare);
    let plan = on(&bare, &["compact", "--dry-run"]).json(0);
    assert_eq!(head(&bare), before);
    let members = [
        "base_git_sha",
        "base_tip",
        "branch",
        "bytes_after",
        "bytes_before",
        "history_sha256",
        "kind",
        "repository",
        "state_sha256",
        "transactions",
        "version",
    ];
    assert_eq!(keys(&plan), members);
    assert_eq!((plan["base_git_sha"].as_str(), plan["transactions"].as_u64()), (Some(before.as_str()), Some(4)));
    let write = |plan: &Value| std::fs::write(bare.around().join("plan.json"), plan.to_string()).unwrap();
    let apply = || on(&bare, &["compact", "--plan", "plan.json"]);
    let mut other = plan.clone();
    other["state_sha256"] = "0".repeat(64).into();
    write(&other);
    assert_eq!(apply().error(3), "checkpoint_invalid");
    other["base_git_sha"] = "1".repeat(40).into();
    write(&other);
    assert_eq!(apply().error(3), "ledger_nonextending");
    std::fs::write(bare.around().join("plan.json"), "{").unwrap();
    assert_eq!(apply().error(2), "usage_invalid");
    std::fs::write(bare.around().join("plan.json"), " ".repeat(5000)).unwrap();
    assert_eq!(apply().error(2), "usage_invalid");
    assert_eq!(head(&bare), before);
    let arguments = ["compact", "--plan", "-", "--remote", "queue.git", "--json"];
    let answer = feed(bare.around(), &arguments, &format!("{plan}\n")).json(0);
    assert_eq!((answer["changed"].as_bool(), &answer["bytes_after"]), (Some(true), &plan["bytes_after"]));
    write(&plan);
    assert_eq!(apply().json(0)["reason"].as_str(), Some("already_compact"));
    let nothing = on(&bare, &["compact", "--dry-run"]);
    assert_eq!((nothing.code, nothing.out.trim()), (0, "null"));
}

/// What ends the command: no queue, wrong flags, a denial, a history that is gone.
#[test]
fn compact_refuses() {
    let empty = Bare::new();
    assert_eq!(on(&empty, &["compact"]).error(4), "queue_missing");
    assert_eq!(on(&empty, &["compact", "--dry-run"]).error(4), "queue_missing");
    let bare = seeded();
    assert_eq!(on(&bare, &["compact", "--request-id", "own"]).error(2), "usage_invalid");
    assert_eq!(on(&bare, &["compact", "--dry-run", "--plan", "p"]).error(2), "usage_invalid");
    bare.hook("pre-receive", "#!/bin/sh\nexit 1\n");
    let before = bare.contents();
    assert_eq!(on(&bare, &["compact"]).error(4), "publication_denied");
    assert_eq!(bare.contents(), before);
    std::fs::remove_file(Path::new(&bare.path()).join("hooks/pre-receive")).unwrap();
    on(&bare, &["compact"]).json(0);
    let text = bare.ledger();
    version(&bare, &text, &[]);
    assert_eq!(on(&bare, &["compact"]).error(3), "checkpoint_invalid", "a checkpoint without its history");
    assert_eq!(on(&bare, &["stats"]).error(3), "checkpoint_invalid");
}

/// S-065: when others are faster in every attempt the command is put off, with status 0 and nothing written.
#[test]
fn contention_puts_a_compaction_off() {
    let bare = seeded();
    // Each push of a compaction meets a branch that just moved to the next of these versions.
    let mut base = head(&bare);
    let text = bare.ledger();
    let mut script =
        "#!/bin/sh\nset -e\ncase $(env -u GIT_QUARANTINE_PATH git rev-parse refs/heads/work-queue) in\n".to_owned();
    let first = base.clone();
    for _ in 0..6 {
        let next = version(&bare, &text, &[&base]);
        script += &format!("{base}) env -u GIT_QUARANTINE_PATH git update-ref refs/heads/work-queue {next};;\n");
        base = next;
    }
    bare.git(&["update-ref", "refs/heads/work-queue", &first]);
    bare.hook("pre-receive", &(script + "esac\n"));
    let answer = on(&bare, &["compact"]).json(0);
    assert_eq!((answer["changed"].as_bool(), answer["reason"].as_str()), (Some(false), Some("compaction_contention")));
    assert_eq!((head(&bare), bare.ledger()), (base, text));
    let text = answer["commits"].as_u64();
    assert_eq!(text, Some(4));
}

/// A ledger file cannot show what a checkpoint in it replaced, and `verify` says so; the branch is checked as a whole.
#[test]
fn a_file_does_not_prove_its_checkpoint() {
    let bare = seeded();
    on(&bare, &["compact"]).json(0);
    let told = feed(bare.around(), &["verify", "--ledger", "-"], &bare.ledger());
    assert!(told.out.contains("; 4 of the commits are receipts of a checkpoint"), "{}", told.out);
    assert_eq!(feed(bare.around(), &["verify", "--ledger", "-", "--json"], &bare.ledger()).json(0)["replaced"], 4);
    assert_eq!(on(&bare, &["stats"]).json(0)["transactions"], 5);
}
