//! What must hold of the raw ledger after a run, read from the bare repository and judged without the publisher.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};
use wq_action::engine::Projection;
use wq_action::protocol::identity::sha256_hex;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::LedgerText;

use super::asks::{Ask, Asked};
use super::stage::{Stage, Try};
use crate::engine::naive::{self, Naive};
use crate::support::ledger::HOST;

/// The ledger as the branch holds it.
pub(super) struct Audit {
    text: String,
    lines: Vec<Value>,
    /// Line of each request id.
    by_request: HashMap<String, usize>,
}

/// What a recount found.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) commits: usize,
    pub(super) works: usize,
    pub(super) claims: usize,
    pub(super) grants: usize,
}

impl Audit {
    /// Reads the ledger. Every request id is there once, and the lines form one chain.
    pub(super) fn read(stage: &Stage) -> Self {
        let text = stage.bare.ledger();
        assert!(text.ends_with('\n'));
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut by_request = HashMap::new();
        let mut tip = Value::Null;
        for (index, line) in lines.iter().enumerate() {
            assert_eq!(line["previous"], tip, "line {}", index + 1);
            tip = line["id"].clone();
            let id = line["request"]["id"].as_str().unwrap().to_owned();
            assert!(by_request.insert(id, index).is_none(), "line {}: a request id is there twice", index + 1);
        }
        Self { text, lines, by_request }
    }

    fn line(&self, request: &str) -> Option<&Value> {
        self.by_request.get(request).map(|index| &self.lines[*index])
    }

    pub(super) fn request_ids(&self) -> BTreeSet<&str> {
        self.by_request.keys().map(String::as_str).collect()
    }

    /// Git's history: one line of single parents, and each commit's ledger is the one before it and one line more,
    /// byte for byte. There is no other reference and no other file.
    pub(super) fn history(&self, stage: &Stage) {
        let bare = &stage.bare;
        assert_eq!(bare.git(&["for-each-ref", "--format=%(refname)"]), "refs/heads/work-queue");
        assert_eq!(bare.git(&["ls-tree", "-r", "--name-only", "refs/heads/work-queue"]), "work-queue.jsonl");
        let log = bare.git(&["log", "--reverse", "--topo-order", "--format=%H %P", "refs/heads/work-queue"]);
        let mut before = "";
        let mut names = String::new();
        for entry in log.lines() {
            let (commit, parents) = entry.split_once(' ').unwrap_or((entry, ""));
            assert_eq!(parents, before);
            names.push_str(&format!("{commit}:work-queue.jsonl\n"));
            before = commit;
        }
        let blobs = bare.git_in(&["cat-file", "--batch-check=%(objectname)"], names.as_bytes());
        assert_eq!(blobs.lines().count(), self.lines.len());
        let mut end = 0;
        for (blob, line) in blobs.lines().zip(self.text.lines()) {
            end += line.len() + 1;
            let prefix = &self.text.as_bytes()[..end];
            let id = gix::objs::compute_hash(gix::hash::Kind::Sha1, gix::objs::Kind::Blob, prefix).unwrap();
            assert_eq!(id.to_string(), blob);
        }
        bare.git(&["fsck", "--strict", "--no-dangling", "--no-progress"]);
    }

    /// What a request's tries said is what the ledger holds. Returns true if the request is in it.
    pub(super) fn told(&self, ask: &Ask, tries: &[Try]) -> bool {
        let line = self.line(&ask.id);
        let answers: Vec<&Value> = tries.iter().filter_map(|one| one.answer.as_ref()).collect();
        let last = answers.last().unwrap_or_else(|| panic!("{} was never answered", ask.id));
        assert_eq!(tries.last().unwrap().exit, Some(0));
        for answer in &answers {
            assert_eq!(answer["request_id"], ask.id.as_str());
            match &ask.asked {
                Asked::Again(work) => self.told_again(ask, work, answer),
                Asked::Submit(works) => {
                    let line = line.unwrap_or_else(|| panic!("{} was acknowledged and is lost", ask.id));
                    assert_eq!(answer["commit_id"], line["id"], "{}", ask.id);
                    assert_eq!(answer["status"], "admitted", "{}", ask.id);
                    assert_eq!(&members(of_kind(line, "Work"), "work_id"), works, "{}", ask.id);
                }
                Asked::Dispatch if answer["status"] == "granted" => {
                    let line = line.unwrap_or_else(|| panic!("{} was acknowledged and is lost", ask.id));
                    assert_eq!(answer["commit_id"], line["id"], "{}", ask.id);
                    let told = answer["claims"].as_array().unwrap();
                    for member in ["claim_id", "work_id", "dispatch_id", "handle"] {
                        let granted = members(of_kind(line, "Claim"), member);
                        assert_eq!(members(told.iter(), member), granted, "{} {member}", ask.id);
                    }
                    assert!(!told.is_empty());
                }
                Asked::Dispatch => {
                    assert_eq!((answer["status"].as_str(), &answer["commit_id"]), (Some("no_grant"), &Value::Null));
                }
            }
        }
        if let (Asked::Dispatch, None) = (&ask.asked, line) {
            assert_eq!(last["status"], "no_grant", "{}", ask.id);
        }
        line.is_some()
    }

    /// Known Work stays as it was: nothing is written, and the answer names the commit that admitted it.
    fn told_again(&self, ask: &Ask, work: &str, answer: &Value) {
        assert!(self.line(&ask.id).is_none(), "{} wrote known Work again", ask.id);
        let admitted = self.lines.iter().find(|line| of_kind(line, "Work").any(|one| one["work_id"] == work)).unwrap();
        assert_eq!(answer["commit_id"], admitted["id"]);
        assert_eq!((&answer["created"], &answer["changed"]), (&Value::from(false), &Value::from(false)));
    }

    /// Replays prefix by prefix. Every grant is the choice of a planner that scans everything and shares no code with
    /// the engine, and the clocks are those of its charges alone, one for each Claim. All counters equal a recount.
    pub(super) fn replayed(&self, stage: &Stage) -> Counts {
        let text = LedgerText::new(self.text.clone().into_bytes()).unwrap();
        let commits = text.commits(&mut Scanner::new(HOST)).unwrap();
        let mut state = Projection::empty();
        let mut recount = Recount::default();
        let mut clocks = Value::Null;
        let mut grants = 0;
        for (line, commit) in self.lines.iter().zip(commits) {
            if line["request"]["kind"] == "dispatch_next" {
                let document: Value = serde_json::from_str(&state.serialise()).unwrap();
                assert_eq!(document["clocks"]["default"], clocks, "before {}", line["id"]);
                clocks = self.granted(&document, line);
                grants += 1;
            }
            state = state.apply(commit).unwrap();
            line["operations"].as_array().unwrap().iter().for_each(|operation| recount.count(operation));
        }
        let document: Value = serde_json::from_str(&state.serialise()).unwrap();
        assert_eq!(document["clocks"]["default"], clocks);
        assert_eq!(state.headroom(), Naive::new(&document).headroom());
        let mut expected = recount.stats();
        expected["transactions"] = self.lines.len().into();
        assert_eq!(document["stats"], expected);
        self.commands(stage, &expected);
        let works = recount.works.len();
        Counts { commits: self.lines.len(), works, claims: recount.claims.len(), grants }
    }

    /// One grant against the planner that scans everything. Returns the clocks after it.
    fn granted(&self, document: &Value, line: &Value) -> Value {
        let parameters = &line["request"]["parameters"];
        let number = |name: &str| parameters[name].as_u64().unwrap() as usize;
        let ask = naive::Ask {
            pool: parameters["pool"].as_str().unwrap().to_owned(),
            max_claims: number("max_claims"),
            max_dispatches: number("max_dispatches"),
            max_bytes: number("max_bytes"),
            worker_profiles: None,
            preceding: 0,
            at: line["at"].as_i64().unwrap(),
        };
        let (request, commit) = (line["request"]["id"].as_str().unwrap(), line["id"].as_str().unwrap());
        let (plan, clocks) = Naive::new(document).charge(&ask, request, commit);
        assert_eq!(json!(members(of_kind(line, "Claim"), "work_id")), plan["work_ids"], "{request}");
        assert_eq!(sha256_hex(&[&line["operations"].to_string()]), plan["operations_sha256"], "{request}");
        clocks
    }

    /// The commands that read say the same: `verify` on the file, `stats` on the branch.
    fn commands(&self, stage: &Stage, expected: &Value) {
        let path = stage.file("final.jsonl", &self.text);
        let verified = stage.answer(stage.wq(&["verify", "--ledger", path.to_str().unwrap()]));
        assert_eq!(verified["ok"], true);
        assert_eq!(verified["ledger_bytes"].as_u64(), Some(self.text.len() as u64));
        let stats = stage.answer(stage.on_queue(&["stats"]));
        for answer in [&verified, &stats] {
            for (name, value) in expected.as_object().unwrap() {
                assert_eq!(&answer[name], value, "{name}");
            }
        }
        assert_eq!(stats["sha"].as_str(), stage.bare.resolve("refs/heads/work-queue").as_deref());
    }
}

fn of_kind<'l>(line: &'l Value, kind: &'l str) -> impl Iterator<Item = &'l Value> {
    line["operations"].as_array().unwrap().iter().filter(move |operation| operation["kind"] == kind)
}

fn members<'v>(values: impl Iterator<Item = &'v Value>, name: &str) -> Vec<String> {
    values.map(|value| value[name].as_str().unwrap().to_owned()).collect()
}

/// States counted from the operations alone.
#[derive(Default)]
struct Recount {
    works: BTreeMap<String, &'static str>,
    /// Claims by id, true while open.
    claims: BTreeMap<String, bool>,
    reserved: BTreeSet<String>,
    released: BTreeSet<String>,
}

impl Recount {
    fn count(&mut self, operation: &Value) {
        let id = |name: &str| operation[name].as_str().unwrap().to_owned();
        match operation["kind"].as_str().unwrap() {
            "Work" => assert_eq!(self.works.insert(id("work_id"), "available"), None, "Work is admitted once"),
            "Claim" => {
                assert_eq!(self.works.insert(id("work_id"), "claimed"), Some("available"), "one owner at a time");
                assert_eq!(self.claims.insert(id("claim_id"), true), None);
                assert!(!self.released.contains(&id("dispatch_id")));
                self.reserved.insert(id("dispatch_id"));
            }
            "Completion" => self.close(&id("work_id"), &id("claim_id"), "completed"),
            "ClaimCancellation" => self.close(&id("work_id"), &id("claim_id"), "available"),
            "WorkCancellation" => {
                assert_eq!(self.works.insert(id("work_id"), "cancelled"), Some("available"));
            }
            "Release" => {
                assert!(self.reserved.remove(&id("dispatch_id")));
                assert!(self.released.insert(id("dispatch_id")));
            }
            "Policy" => assert!(self.works.is_empty(), "one Policy, before all Work"),
            "Dispatch" | "Result" => {}
            other => panic!("{other} was never asked for"),
        }
    }

    fn close(&mut self, work: &str, claim: &str, state: &'static str) {
        assert_eq!(self.claims.insert(claim.to_owned(), false), Some(true));
        assert_eq!(self.works.insert(work.to_owned(), state), Some("claimed"));
    }

    fn stats(&self) -> Value {
        let count = |state: &str| self.works.values().filter(|one| **one == state).count();
        json!({"available": count("available"), "claimed": count("claimed"), "completed": count("completed"),
            "cancelled": count("cancelled"), "claims": self.claims.len(), "dispatches": self.reserved.len(),
            "nodes": self.works.len(), "work": self.works.len()})
    }
}
