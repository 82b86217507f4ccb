//! Nothing is kept on disk: whatever lies about in the directories that a command could look into changes no answer and
//! no publication, and no file outlives a command.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::cli::{Ran, wq};
use crate::support::git::{Bare, feed, git_command};
use crate::support::operator::Desk;

/// Directories that a command could look into: the temporary one, a home, a cache, where it stands.
struct Surroundings {
    bare: Bare,
    around: tempfile::TempDir,
}

impl Surroundings {
    /// A copy of a queue in clean surroundings.
    fn new(ledger: &str) -> Self {
        let bare = Bare::new();
        bare.seed(ledger.as_bytes());
        let around = tempfile::tempdir().unwrap();
        for name in ["tmp", "home/.cache", "here"] {
            fs::create_dir_all(around.path().join(name)).unwrap();
        }
        Self { bare, around }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.around.path().join(name)
    }

    /// Fake stores, snapshots and caches of another queue, wherever one might be looked for.
    fn poison(&self, other: &str) {
        let fake = Bare::new();
        fake.seed(other.as_bytes());
        let head = fake.resolve("refs/heads/work-queue").unwrap();
        fake.git(&["update-ref", "refs/work-queue/head", &head]);
        let snapshot = serde_json::json!({"version": 3, "sha": head, "worker": null, "transactionLog": other,
            "captured_at": 1, "origin": {}});
        for directory in ["tmp", "home", "home/.cache", "here"] {
            let directory = self.at(directory);
            for name in ["wq-store-fake", "wq-store-", "wq-store-000000"] {
                copy(&fake.path(), &directory.join(name).join("objects.git"));
            }
            fs::write(directory.join("wq-store-fake/alive"), "").unwrap();
            fs::create_dir_all(directory.join("gh-aw")).unwrap();
            for name in ["work-queue.snapshot.json", "gh-aw/work-queue.snapshot.json", "projection.json"] {
                fs::write(directory.join(name), snapshot.to_string()).unwrap();
            }
            fs::write(directory.join("work-queue.jsonl"), other).unwrap();
            for name in [".wq", "wq", ".wq-cache", "wq-cache"] {
                fs::create_dir_all(directory.join(name)).unwrap();
                fs::write(directory.join(name).join("work-queue.jsonl"), other).unwrap();
                fs::write(directory.join(name).join(&head), snapshot.to_string()).unwrap();
            }
        }
    }

    /// Removes everything that was laid out.
    fn empty(&self) {
        for name in ["tmp", "home", "here"] {
            fs::remove_dir_all(self.at(name)).unwrap();
        }
        for name in ["tmp", "home/.cache", "here"] {
            fs::create_dir_all(self.at(name)).unwrap();
        }
    }

    fn run(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = wq(&self.at("here"));
        let remote = self.bare.path();
        command.args(arguments).args(["--json", "--remote", remote.to_str().unwrap()]);
        command.env("TMPDIR", self.at("tmp")).env("HOME", self.at("home"));
        command.env("XDG_CACHE_HOME", self.at("home/.cache")).env("RUNNER_TEMP", self.at("tmp"));
        command.env("GH_AW_WORK_QUEUE_SNAPSHOT", self.at("tmp/work-queue.snapshot.json"));
        Ran::of(feed(command, input.as_bytes()))
    }

    /// Every file below, with its content.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        walk(self.around.path(), &mut found);
        found
    }
}

fn walk(directory: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => walk(&path, found),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let mut command = git_command(to);
    command.args(["clone", "--quiet", "--mirror"]).arg(from).arg(to);
    assert!(command.status().unwrap().success());
}

/// An answer without what names the moment and the Git commit that it was read at; the details of `inspect` begin with it.
fn lasting(mut answer: Value) -> Value {
    for member in ["at", "evaluated_at", "sha", "held_reservations", "details"] {
        answer.as_object_mut().unwrap().remove(member);
    }
    answer
}

/// The answers of every reading command.
fn answers(place: &Surroundings, work: &str, claim: &str) -> Vec<Value> {
    let reads: [&[&str]; 9] = [
        &["stats"],
        &["replay"],
        &["state"],
        &["explain", "--at", "1900000000000"],
        &["explain", "--work-id", work, "--at", "1900000000000"],
        &["explain", "--claim-id", claim],
        &["inspect", "--work-id", work],
        &["trace", "--claim-id", claim],
        &["replay", "--pool", "default", "--at", "1900000000000", "--max-claims", "2"],
    ];
    reads.iter().map(|read| lasting(place.run(read, "").json(0))).collect()
}

/// A queue with Work that waits and Work that was granted, and another queue that could be taken for it.
fn queues() -> (String, String, String, String) {
    let desk = Desk::new(&["a", "b", "c"]);
    let turn = desk.grant(1).remove(0);
    (desk.bare.ledger(), Desk::new(&["x"]).bare.ledger(), turn.work, turn.claim)
}

/// S-071, S-496: fake object stores, snapshots, ledgers and caches around a command, of another queue and of this one at an
/// earlier tip, seed no answer; removing them all changes none; and a command leaves no file behind.
#[test]
fn what_lies_about_changes_no_answer() {
    let (ledger, other, work, claim) = queues();
    let earlier: String = ledger.lines().take(2).map(|line| format!("{line}\n")).collect();
    let place = Surroundings::new(&ledger);
    let clean = answers(&place, &work, &claim);
    assert!(place.files().is_empty(), "{:?}", place.files().keys());
    for poison in [&other, &earlier] {
        place.poison(poison);
        let laid = place.files();
        assert_eq!(answers(&place, &work, &claim), clean);
        // A store without a living process may be swept away; nothing else is touched, and nothing is added.
        let left = place.files();
        assert!(left.iter().all(|(path, bytes)| laid.get(path) == Some(bytes)), "a file was added or changed");
        let gone = laid.keys().filter(|path| !left.contains_key(*path));
        let store = |path: &Path| path.starts_with(place.at("tmp")) && path.to_str().unwrap().contains("wq-store-");
        assert!(gone.into_iter().all(|path| store(path)));
        place.empty();
        assert_eq!(answers(&place, &work, &claim), clean);
        assert!(place.files().is_empty());
    }
}

/// S-072, S-496: the same around publications: what is decided, and on what, comes from the branch alone.
#[test]
fn what_lies_about_seeds_no_publication() {
    let (ledger, other, _, _) = queues();
    let publish = |poisoned: bool| {
        let place = Surroundings::new(&ledger);
        if poisoned {
            place.poison(&other);
        }
        let before = place.files();
        place.run(&["submit-work", "--file", "-", "--graph-id", "d", "--request-id", "d"], r#"{"task":"d"}"#).json(0);
        if poisoned {
            place.empty();
        }
        let grant = ["dispatch-next", "--max-claims", "9", "--max-dispatches", "9", "--request-id", "g"];
        let granted = place.run(&grant, "").json(0);
        assert_eq!(granted["claims"].as_array().unwrap().len(), 3);
        let cancelled = place.run(&["control", "pause", "grants", "--reason", "r", "--request-id", "p"], "");
        cancelled.json(0);
        let after = place.files();
        assert!(after.iter().all(|(path, bytes)| before.get(path) == Some(bytes)), "{:?}", after.keys());
        let text = place.bare.ledger();
        let added = text.strip_prefix(ledger.as_str()).expect("the branch goes on where it was");
        let lines: Vec<Value> = added.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines.into_iter().map(timeless).collect::<Vec<_>>()
    };
    let clean = publish(false);
    assert_eq!(clean.len(), 3);
    assert_eq!(publish(true), clean);
}

/// A ledger line without the times of this run.
fn timeless(mut line: Value) -> Value {
    line["at"].take();
    line["request"]["fingerprint"].take();
    for pointer in ["/request/parameters/nodes", "/operations"] {
        for item in line.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten() {
            if item.get("enqueued").is_some() {
                item["enqueued"].take();
            }
        }
    }
    line
}
