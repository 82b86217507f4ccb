//! What must hold of queue and host, whatever was struck.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use wq_action::engine::{Projection, replay};
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::LedgerText;

use super::scene::{Day, runs_of};
use crate::engine::naive::{self, Naive};
use crate::support::github::Endpoint;
use crate::support::processes::HOST;

fn lines(day: &Day) -> Vec<Value> {
    day.stage
        .branch
        .current()
        .map_or_else(Vec::new, |_| day.stage.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn operations<'l>(lines: &'l [Value], kind: &'l str) -> impl Iterator<Item = &'l Value> {
    lines
        .iter()
        .flat_map(|line| line["operations"].as_array().unwrap())
        .filter(move |operation| operation["kind"] == kind)
}

/// At any moment: at most one POST for each dispatch, and no slot freed without its evidence being true.
pub(super) fn between(day: &Day) {
    let github = &day.stage.github;
    for (dispatch, posts) in github.posts() {
        assert!(posts <= 1, "{posts} POSTs for {dispatch}");
    }
    let lines = lines(day);
    let mut freed = BTreeSet::new();
    for release in operations(&lines, "Release") {
        let (id, evidence) = (release["dispatch_id"].as_str().unwrap(), &release["evidence"]);
        assert!(freed.insert(id.to_owned()), "freed twice");
        let runs = runs_of(&day.stage, id);
        match evidence["kind"].as_str().unwrap() {
            "terminal_run" => {
                let bound: u64 = evidence["run_id"].as_str().unwrap().parse().unwrap();
                assert!(runs.contains(&bound), "freed by a run of something else");
                let run = github.run(bound).unwrap();
                assert_eq!(run.attempts[0].status, "completed", "freed while the run was under way");
                assert!(run.attempts[0].conclusion.is_some());
            }
            "nonlaunch" => {
                assert!(runs.is_empty(), "freed as never launched, and there is a run");
                let refused = |call: &crate::support::github::Logged| {
                    call.endpoint == Endpoint::Dispatch
                        && call.dispatch_id.as_deref() == Some(id)
                        && call.status.is_some_and(|status| [400, 401, 403, 404, 422, 429].contains(&status))
                };
                assert!(github.log().iter().any(refused), "freed without a refusal");
            }
            "prelaunch" => {
                assert!(runs.is_empty(), "freed before its launch, and there is a run");
                assert_eq!(github.posts_of_dispatch(id), 0, "freed before its launch, and it was sent");
                let origin = github.run(day.first.run).unwrap();
                let is_origin = id_of_request(&lines, id) == "grant-1";
                assert!(!is_origin || origin.attempts[0].status == "completed", "freed while the origin was at work");
            }
            other => panic!("freed by {other}"),
        }
    }
    let Some(queue) = day.stage.branch.current() else { return };
    for dispatch in queue.projection.dispatches() {
        assert_eq!(dispatch.released, freed.contains(dispatch.assignment.dispatch_id.as_str()));
    }
}

fn id_of_request<'l>(lines: &'l [Value], dispatch: &str) -> &'l str {
    let grants = |line: &&Value| {
        line["operations"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["kind"] == "Claim" && one["dispatch_id"] == dispatch)
    };
    lines.iter().find(grants).unwrap()["request"]["id"].as_str().unwrap()
}

/// At the end: the ledger replays, every charge is that of a planner which scans everything, one for each Claim, and no
/// slot is held without a reason.
pub(super) fn after(day: &Day) {
    between(day);
    let lines = lines(day);
    let mut ids = BTreeSet::new();
    assert!(lines.iter().all(|line| ids.insert(line["request"]["id"].as_str().unwrap())), "a request is there twice");
    let text = LedgerText::new(day.stage.text().into_bytes()).unwrap();
    let mut scanner = Scanner::new(HOST);
    let cold = replay(&text, &mut scanner).unwrap();
    let queue = day.stage.queue();
    assert_eq!(cold.serialise(), queue.projection.serialise());
    charges(&text, &lines);
    for work in queue.projection.works() {
        let id = work.work.work_id.as_str();
        let claims = operations(&lines, "Claim").filter(|claim| claim["work_id"] == id).count();
        assert_eq!(claims, work.attempts as usize, "a charge without its Claim");
    }
    for dispatch in queue.projection.dispatches().filter(|dispatch| !dispatch.released) {
        let id = dispatch.assignment.dispatch_id.as_str();
        let runs = runs_of(&day.stage, id);
        // Whether a launch that left no run was sent at all is known to nobody; several runs are not for us to choose.
        assert!(runs.len() != 1, "held although its only run has ended: {:?}", dispatch.phase);
        assert!(dispatch.sender.is_some(), "held although it never started");
    }
}

/// Every grant against the planner that scans everything.
fn charges(text: &LedgerText, lines: &[Value]) {
    let mut state = Projection::empty();
    let mut clocks = Value::Null;
    for (line, commit) in lines.iter().zip(text.commits(&mut Scanner::new(HOST)).unwrap()) {
        if line["request"]["kind"] == "dispatch_next" {
            let mut document: Value = serde_json::from_str(&state.serialise()).unwrap();
            assert_eq!(document["clocks"]["default"], clocks);
            // What a grant looks at counts for it.
            let seen: Vec<Value> = operations(std::slice::from_ref(line), "Observation").cloned().collect();
            for observation in &seen {
                let resource = &observation["resource"];
                let gate = json!({"condition": observation["condition"], "host": resource["host"],
                    "kind": resource["kind"], "repository_id": resource["repository_id"],
                    "resource_id": resource["resource_id"]});
                document["observations"][gate.to_string()] = observation.clone();
            }
            let parameters = &line["request"]["parameters"];
            let number = |name: &str| parameters[name].as_u64().unwrap() as usize;
            let ask = naive::Ask {
                pool: "default".to_owned(),
                max_claims: number("max_claims"),
                max_dispatches: number("max_dispatches"),
                max_bytes: number("max_bytes"),
                worker_profiles: None,
                preceding: seen.len(),
                at: line["at"].as_i64().unwrap(),
            };
            let (request, id) = (line["request"]["id"].as_str().unwrap(), line["id"].as_str().unwrap());
            let (plan, next) = Naive::new(&document).charge(&ask, request, id);
            let granted: Vec<&Value> =
                operations(std::slice::from_ref(line), "Claim").map(|one| &one["work_id"]).collect();
            assert_eq!(json!(granted), plan["work_ids"], "another choice or another number of Claims");
            clocks = next;
        }
        state = state.apply(commit).unwrap();
    }
    let document: Value = serde_json::from_str(&state.serialise()).unwrap();
    assert_eq!(document["clocks"]["default"], clocks);
}

/// What became of each Work.
pub(super) fn end(day: &Day) -> Vec<String> {
    let queue = day.stage.queue();
    let mut end = Vec::new();
    for work in queue.projection.works() {
        let state = work.state();
        let held = queue
            .projection
            .owner_of(work)
            .map(|claim| queue.projection.dispatch_of(claim))
            .filter(|_| state == "claimed");
        end.push(match held {
            Some(dispatch) if !dispatch.released => {
                let id = &dispatch.assignment.dispatch_id;
                let runs = runs_of(&day.stage, id.as_str()).len();
                let why = if runs == 0 { "no run was ever seen" } else { "several runs" };
                format!("held ({}, {why})", day.stage.phase(id))
            }
            _ => state.to_owned(),
        });
        assert!(!matches!(state, "available"), "left behind: {state}");
    }
    end
}
