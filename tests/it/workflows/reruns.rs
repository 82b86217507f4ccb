//! Runs that are repeated in part, and runs that end in the middle.

use serde_json::json;

use super::{Scene, Setting, completes, node, plans};
use crate::support::actions::{Moment, Plan, Turn};

/// The jobs of every workflow; a rerun of one repeats those after it.
const JOBS: [&str; 5] = ["activation", "agent", "detection", "safe_outputs", "conclusion"];

/// A dispatcher's rerun, from each of its jobs on: what was published stays published once. A rerun without the agent
/// repeats the same requests; a rerun of the agent asks anew, for Work that is there already.
#[test]
fn a_rerun_of_each_job_of_a_dispatcher() {
    let Some(scene) = Scene::new(&Setting::default()) else { return };
    scene.agent("dispatcher", plans(&[node("one")], 1, 1)).agent("worker", completes());
    let run = scene.start();
    let mut before = scene.execute(run);
    before.succeeded();
    let commits = scene.commits();
    for from in (0..JOBS.len()).rev() {
        scene.host.github.rerun(run, scene.host.github.account_id("wim"));
        let ran = scene.execute_as(run, &Plan { only: Some(&JOBS[from..]), before: Some(&before), hook: None });
        if from >= 2 {
            ran.succeeded();
            assert_eq!(scene.commits(), commits, "from {}", JOBS[from]);
        }
        assert_eq!((scene.operations("Work").len(), scene.waiting().len()), (1, 1), "from {}", JOBS[from]);
        scene.sound();
        before = ran;
    }
}

/// A worker's second attempt has no authority, whichever job it begins with, and says so.
#[test]
fn a_rerun_of_each_job_of_a_worker() {
    let Some(scene) = Scene::new(&Setting::default()) else { return };
    scene.agent("worker", json!([]));
    let run = scene.workers(&["one"])[0];
    let mut before = scene.execute(run);
    before.succeeded();
    let commits = scene.commits();
    scene.agent("worker", completes());
    for from in (0..JOBS.len()).rev() {
        scene.host.github.rerun(run, scene.host.github.account_id("wim"));
        let ran = scene.execute_as(run, &Plan { only: Some(&JOBS[from..]), before: Some(&before), hook: None });
        assert_eq!(scene.commits(), commits, "from {}", JOBS[from]);
        if from < 4 {
            assert_eq!(ran.conclusion, "failure", "from {}", JOBS[from]);
        }
        if from == 3 || from == 2 {
            let log = &ran.job("safe_outputs").step("work_queue_claim_reconciliation").log;
            assert!(log.contains("rerun_not_authorized"), "{log}");
        }
        // The jobs of the next attempt build on what the first one left.
        before.run = ran.run;
    }
}

/// The steps at which a run is ended.
const POINTS: [&str; 9] = [
    "work_queue_snapshot",
    "work_queue_intent_origin",
    "agentic_execution",
    "Collect work queue intents",
    "Upload the agent's output",
    "work_queue_claim_reconciliation",
    "work_queue_controls",
    "process_safe_outputs",
    "Summarize work queue activity",
];

const WAYS: [Turn; 3] = [Turn::Cancel, Turn::Lose, Turn::Vanish];

/// Every point with every way to end there. With `WQ_WAYS` set, for time, every fifth of them, which has each way twice.
fn ends() -> Vec<(&'static str, Turn)> {
    let part = std::env::var_os("WQ_WAYS").is_some();
    let all = POINTS.iter().flat_map(|at| WAYS.iter().map(move |how| (*at, *how)));
    all.enumerate().filter(|(number, _)| !part || number % 5 == 0).map(|(_, end)| end).collect()
}

/// True for an end after a worker's Completion and before its delivery was verified.
fn leaves_a_delivery_open(at: &str, how: Turn) -> bool {
    match at {
        "work_queue_claim_reconciliation" => how == Turn::Vanish,
        "work_queue_controls" => true,
        "process_safe_outputs" => how != Turn::Vanish,
        _ => false,
    }
}

fn end(at: &'static str, how: Turn) -> impl Fn(&Moment<'_>) -> Turn + Sync {
    move |moment| if moment.step == at { how } else { Turn::On }
}

/// A dispatcher that is cancelled before a step, or whose machine goes away before or after it: later runs bring everything
/// that was admitted to its Result, and nothing is sent twice.
#[test]
fn a_dispatcher_that_ends_at_each_step() {
    let Some(scene) = Scene::new(&Setting { budget: 16, ..Setting::default() }) else { return };
    let mut made = node("x");
    made["node_key"] = json!("$RUN");
    scene.agent("dispatcher", plans(&[made], 1, 1));
    for (at, how) in ends() {
        let run = scene.start();
        let hook = end(at, how);
        let ran = scene.execute_as(run, &Plan { hook: Some(&hook), ..Plan::default() });
        let told = if how == Turn::Cancel { "cancelled" } else { "failure" };
        assert_eq!(ran.conclusion, told, "{at} {how:?}");
        scene.sound();
    }
    scene.agent("worker", completes());
    scene.waiting().into_iter().for_each(|run| drop(scene.execute(run)));
    assert_eq!(scene.settle(), scene.operations("Work").len());
}

/// A worker that ends at a step: its Claim is settled once, by its own run or by a later dispatcher's.
#[test]
fn a_worker_that_ends_at_each_step() {
    let Some(scene) = Scene::new(&Setting { budget: 32, ..Setting::default() }) else { return };
    let ends = ends();
    let keys: Vec<String> = (0..ends.len()).map(|number| format!("work-{number}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let runs = scene.workers(&keys);
    scene.agent("worker", completes());
    for (run, (at, how)) in runs.into_iter().zip(&ends) {
        let (at, how) = (*at, *how);
        let hook = end(at, how);
        scene.execute_as(run, &Plan { hook: Some(&hook), ..Plan::default() });
        scene.sound();
    }
    let results = scene.settle();
    let completions = scene.operations("Completion").len();
    assert_eq!(completions, keys.len(), "every Work was completed once");
    // A Claim that completed, and whose run ended before its delivery was verified, keeps its Work until somebody who may
    // looks at the delivery.
    let open = ends.iter().filter(|(at, how)| leaves_a_delivery_open(at, *how)).count();
    assert_eq!(completions - results, open);
}
