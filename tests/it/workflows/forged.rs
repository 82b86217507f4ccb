//! What an agent can write, forged: each file, and what becomes of it.

use serde_json::{Value, json};

use super::{Scene, Setting, completes, node, plans};
use crate::support::actions::{Moment, Plan, Turn};

const STAGED: &str = "$RUNNER_TEMP/gh-aw/safeoutputs/work-queue";

/// One forgery of a worker's agent.
struct Forgery {
    what: &'static str,
    steps: Value,
    /// Completions that this run leaves, and whether it succeeds. A line whose Claim cannot be told is reported and stands
    /// for no finish, so that the Claim it may have meant is cancelled.
    completed: usize,
    succeeds: bool,
}

fn finish(handle: &str, id: &str) -> String {
    let line = json!({"version": 3, "intent_id": id, "kind": "finish", "parameters": {"outcome": "completed"},
        "claim_handle": handle});
    format!("{line}\n")
}

fn forgeries() -> Vec<Forgery> {
    let honest = completes()[0].clone();
    let staged = |name: &str| format!("{STAGED}/{name}");
    let origin = json!({"role": "administrator", "principal": "1", "repository": "octo/widgets"}).to_string();
    let of = |what, steps, completed, succeeds| Forgery { what, steps, completed, succeeds };
    vec![
        of(
            "a snapshot of its own, in its job",
            json!([honest, {"write": "/tmp/gh-aw/work-queue.snapshot.json", "text": "{}\n"}]),
            1,
            true,
        ),
        of(
            "a finish for another's Claim beside its own",
            json!([honest, {"append": staged("work-queue.finish.jsonl"), "text": finish("claim-of-another", "intent:1")}]),
            1,
            true,
        ),
        of(
            "a finish for another's Claim alone",
            json!([{"append": staged("work-queue.finish.jsonl"), "text": finish("claim-of-another", "intent:1")}]),
            0,
            true,
        ),
        of(
            "lines that are no JSON",
            json!([{"write": staged("work-queue.finish.jsonl"), "text": "completed\n{]\n"}]),
            0,
            true,
        ),
        of(
            "a link to a file that it may not choose",
            json!([{"link": staged("work-queue.finish.jsonl"), "to": "/etc/passwd"}]),
            0,
            false,
        ),
        of(
            "collected files of its own, under the trusted names",
            json!([{"write": "/tmp/gh-aw/work-queue.intents.jsonl", "text": "{}\n"}, honest]),
            1,
            true,
        ),
        of(
            "an origin in the runner's own files",
            json!([honest, {"call": "work_queue_read", "with": {}}, {"env": "GH_AW_WORK_QUEUE_INTENT_ORIGIN", "text": origin}]),
            1,
            true,
        ),
    ]
}

/// Whatever a worker's agent writes, it gets at most what it could have asked for: its own Claims, and nothing of others.
#[test]
fn forged_files_of_a_worker() {
    let Some(scene) = Scene::new(&Setting { budget: 16, ..Setting::default() }) else { return };
    let forgeries = forgeries();
    let keys: Vec<String> = (0..forgeries.len()).map(|number| format!("work-{number}")).collect();
    let runs = scene.workers(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    for (forgery, run) in forgeries.into_iter().zip(runs) {
        scene.agent("worker", forgery.steps);
        let before = scene.operations("Completion").len();
        let ran = scene.execute(run);
        let completed = scene.operations("Completion").len() - before;
        let found = (completed, ran.conclusion == "success");
        assert_eq!(found, (forgery.completed, forgery.succeeds), "{}: {ran:#?}", forgery.what);
        scene.sound();
    }
    assert_eq!(scene.operations("Work").len(), keys.len());
}

/// Intents of a dispatcher that it did not stage through its tools: each line is judged alone, and its siblings count.
#[test]
fn forged_intents_of_a_dispatcher() {
    let Some(scene) = Scene::new(&Setting::default()) else { return };
    let mut steps = plans(&[node("one")], 1, 1);
    let submit = |id: &str, more: Value| {
        let mut line = json!({"version": 3, "intent_id": id, "kind": "submit",
            "parameters": {"nodes": [{"node_key": "forged", "payload": {}}]}});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("{line}\n")
    };
    let lines = [
        "no JSON\n".to_owned(),
        finish("claim-of-another", "intent:1"),
        submit("intent:2", json!({"actor": {"role": "administrator"}})),
        submit("intent:3", json!({"claim_handle": "claim-of-another"})),
        submit("intent:4", json!({"kind": "cancel_work"})),
        submit("intent:5", json!({"version": 2})),
    ];
    steps
        .as_array_mut()
        .unwrap()
        .push(json!({"append": format!("{STAGED}/work-queue.intents.jsonl"), "text": lines.concat()}));
    scene.agent("dispatcher", steps);
    let ran = scene.dispatcher();
    let outputs = ran.job("safe_outputs");
    let receipts = outputs.json("work_queue_controls", "work_queue_requests");
    let count = |status: &str| {
        receipts["receipts"].as_array().unwrap().iter().filter(|receipt| receipt["status"] == status).count()
    };
    assert_eq!((count("durable"), count("blocked")), (2, lines.len()), "{receipts:#}");
    assert_eq!(outputs.step("work_queue_controls").outcome, "failure");
    assert_eq!((scene.operations("Work").len(), scene.waiting().len()), (1, 1));
}

/// An artifact that holds more than its job put there: the trusted snapshot is the one that counts.
#[test]
fn a_snapshot_in_the_agents_artifact() {
    let Some(scene) = Scene::new(&Setting::default()) else { return };
    let run = scene.workers(&["one"])[0];
    scene.agent("worker", completes());
    let hook = |moment: &Moment<'_>| {
        if moment.job == "safe_outputs" {
            for name in ["agent", "agent-output-fallback"] {
                std::fs::write(moment.store.join(name).join("work-queue.snapshot.json"), "{}").unwrap();
            }
        }
        Turn::On
    };
    let ran = scene.execute_as(run, &Plan { hook: Some(&hook), ..Plan::default() });
    ran.succeeded();
    assert_eq!(scene.operations("Result").len(), 1);
}

/// A snapshot that was changed on its way to the trusted jobs changes nothing that they publish.
#[test]
fn a_snapshot_changed_in_transit() {
    let Some(scene) = Scene::new(&Setting { budget: 4, ..Setting::default() }) else { return };
    let runs = scene.workers(&["one", "two"]);
    scene.agent("worker", completes());
    let other = scene.host.github.run(runs[1]).unwrap().assignment.clone().unwrap();
    type Change = Box<dyn Fn(&mut Value) + Sync>;
    let changes: [Change; 4] = [
        Box::new(|snapshot| snapshot["role"] = json!("dispatcher")),
        Box::new(|snapshot| snapshot["transactionLog"] = json!("")),
        Box::new(|snapshot| snapshot["worker"] = Value::Null),
        Box::new(move |snapshot| snapshot["worker"] = serde_json::from_str(&other).unwrap()),
    ];
    let commits = scene.commits();
    let mut bound = 0;
    for change in &changes {
        let hook = |moment: &Moment<'_>| {
            // The artifact is gone after the attempt; each attempt of the loop is the first one of the run.
            if moment.job == "safe_outputs" && moment.step == "work_queue_claim_reconciliation" {
                let path = moment.files.join("work-queue.snapshot.json");
                let mut snapshot = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
                change(&mut snapshot);
                std::fs::remove_file(&path).unwrap();
                std::fs::write(&path, snapshot.to_string()).unwrap();
            }
            Turn::On
        };
        let ran = scene.execute_as(runs[0], &Plan { hook: Some(&hook), ..Plan::default() });
        assert_eq!(ran.job("safe_outputs").result, "failure", "{ran:#?}");
        assert_eq!((scene.operations("Completion").len(), scene.operations("Result").len()), (0, 0), "{ran:#?}");
        bound = scene.commits() - commits;
    }
    // The binding of the activation, at most.
    assert!(bound <= 1, "{bound}");
}

/// An origin that is not this run's is refused before anything is published.
#[test]
fn a_forged_origin() {
    let own = "GH_AW_WORK_QUEUE_INTENT_ORIGIN: ${{ needs.agent.outputs.work_queue_origin }}";
    for forged in [
        "{\"principal\":\"1\",\"repository\":\"octo/widgets\",\"role\":\"administrator\",\"run_attempt\":1,\"run_id\":\"1\"}",
        "{\"principal\":\"1\",\"repository\":\"octo/widgets\",\"role\":\"dispatcher\",\"run_attempt\":1,\"run_id\":\"1\",\
         \"workflow\":\".github/workflows/dispatcher.lock.yml\"}",
        "no JSON",
    ] {
        let edit = ("dispatcher.lock.yml", own.to_owned(), format!("GH_AW_WORK_QUEUE_INTENT_ORIGIN: '{forged}'"));
        let Some(scene) = Scene::new(&Setting { edits: vec![edit], ..Setting::default() }) else { return };
        scene.agent("dispatcher", plans(&[node("one")], 1, 1));
        let ran = scene.dispatcher();
        assert_eq!(ran.job("safe_outputs").step("work_queue_controls").outcome, "failure", "{ran:#?}");
        assert_eq!((scene.commits(), scene.waiting().len()), (0, 0));
    }
}
