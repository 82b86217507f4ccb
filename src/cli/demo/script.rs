//! The demo's plot.

use std::time::Duration;

use super::super::Failure;
use super::stage::Stage;
use super::story::{Story, lost};
use super::turns::{Turn, compete, read};
use super::workers::{Act, Simulation, now};
use crate::engine::Projection;
use crate::engine::state::{Barrier, DispatchState};
use crate::protocol::json::{Value, parse};
use crate::report::label;

/// Most rounds; the plot needs about seven.
const MAX_ROUNDS: u32 = 24;
/// Longest wait for a retry boundary between two rounds.
const MAX_WAIT: Duration = Duration::from_millis(500);

/// The demo's Policy: two accounts of equal weight, a route for single steps and one for batches of three.
const POLICY: &str = r#"{
  "mode": "weighted-priority", "class_weights": [8, 4, 2, 1, 1], "authorization": "aw", "producers": {},
  "accounting_weights": {"": 1, "checks": 1, "migration": 1},
  "pools": {"default": {
    "default_profile": "step",
    "profiles": {
      "step": {"workflow": ".github/workflows/step.lock.yml", "ref": "0000000000000000000000000000000000000000",
        "trust_domain": "default", "credential_scope": "repository", "effect_scope": "local/queue",
        "max_claims": 1, "share_keys": false},
      "batch": {"workflow": ".github/workflows/batch.lock.yml", "ref": "0000000000000000000000000000000000000000",
        "trust_domain": "default", "credential_scope": "repository", "effect_scope": "local/queue",
        "max_claims": 3, "share_keys": true}},
    "logical_limit": 12, "native_limit": 4, "allowed_repositories": ["local/queue"],
    "max_observation_age_ms": 60000, "retry": {"max_attempts": 3, "backoff_ms": 150},
    "reconciliation": {"max_attempts": 5, "deadline_ms": 300000}}},
  "limits": {"ledger_bytes": 67108864, "recovery_bytes": 16777216, "payload_bytes": 16384, "graph_nodes": 4096,
    "predecessors": 64, "pending_nodes": 4096, "operations": 256, "assignment_bytes": 49152, "result_bytes": 4096,
    "evidence_bytes": 1024, "observation_writes": 4096}
}"#;

/// The migration: one task opens two, and both open the last.
const MIGRATION: &str = r#"[
  {"graph_id": "migration", "node_key": "plan", "fairness_key": "migration", "payload": {"task": "plan the move"}},
  {"graph_id": "migration", "node_key": "backend", "fairness_key": "migration", "payload": {"task": "move the backend"},
    "depends_on": [{"kind": "work", "node_key": "plan"}]},
  {"graph_id": "migration", "node_key": "frontend", "fairness_key": "migration",
    "payload": {"task": "move the frontend"}, "depends_on": [{"kind": "work", "node_key": "plan"}]},
  {"graph_id": "migration", "node_key": "switch", "fairness_key": "migration", "payload": {"task": "switch over"},
    "depends_on": [{"kind": "work", "node_key": "backend"}, {"kind": "work", "node_key": "frontend"}]}
]"#;

/// Ten checks without edges, for the batch worker.
fn checks() -> String {
    let nodes: Vec<String> = (1..=10)
        .map(|number| {
            format!(
                r#"{{"graph_id":"checks","node_key":"check-{number:02}","fairness_key":"checks","worker_profile":"batch","payload":{{"check":{number}}}}}"#
            )
        })
        .collect();
    format!("[{}]", nodes.join(","))
}

/// Which parts of the plot have happened.
#[derive(Default)]
struct Plot {
    batch: bool,
    lost: bool,
}

/// Plays until every Work has its Result.
pub(super) fn play(stage: &Stage, story: &mut Story, dispatchers: u8) -> Result<(), Failure> {
    story.tell("A small repository moves to the queue. Git, the ledger and the processes are real; native runs are");
    story.tell("simulated: what they would do is published in their roles.");
    story.tell("");
    submissions(stage, story)?;
    story.tell("");
    story.tell("Each Claim goes to the account with ready Work that stands at the lowest pass; a tie goes to the name");
    story.tell("that sorts first. A grant moves its account's pass on by 1/weight. Nobody can name the Work.");
    let access = stage.access()?;
    let mut simulation = Simulation::new(access.publisher()?, access.repository.clone());
    let mut plot = Plot::default();
    for round in 1..=MAX_ROUNDS {
        let outputs = compete(stage, round, dispatchers)?;
        let projection = simulation.read()?;
        let turns = read(&outputs, &projection)?;
        story.tell("");
        story.tell(format!("Round {round}: {dispatchers} dispatcher processes at once"));
        turns.into_iter().for_each(|turn: Turn| story.turn(turn));
        for dispatch in projection.dispatches().filter(|dispatch| !dispatch.released) {
            run(&mut simulation, story, &mut plot, &projection, dispatch)?;
        }
        let after = simulation.read()?;
        released(story, &projection, &after);
        if after.works().all(|work| work.barrier() == Barrier::Verified) {
            return if plot.batch && plot.lost { Ok(()) } else { Err(lost("a part of the demo did not happen")) };
        }
        wait(&after);
    }
    Err(lost("the demo did not come to its end"))
}

/// Both submitters start at once on an empty repository: one makes the queue, the other appends to it.
fn submissions(stage: &Stage, story: &mut Story) -> Result<(), Failure> {
    let policy = stage.file("policy.json", POLICY)?;
    let files = [stage.file("migration.json", MIGRATION)?, stage.file("checks.json", &checks())?];
    let commands = files.iter().map(|file| {
        let mut command = stage.wq(&["submit-graph"], true);
        command.arg("--file").arg(file).arg("--policy").arg(&policy);
        command
    });
    let outputs = stage.together(commands.collect())?;
    story.tell("Two processes submit at once to an empty repository:");
    for (output, what) in outputs.iter().zip(["the migration, a graph of four tasks", "ten checks"]) {
        let text = String::from_utf8_lossy(&output.stdout);
        let answer = parse(text.trim_end()).map_err(|_| lost("a submission failed"))?;
        let nodes = answer.get("nodes").and_then(Value::as_integer).unwrap_or(0);
        let behind = answer.get("lost_attempts").and_then(Value::as_integer).unwrap_or(0);
        let how = if behind == 0 { "published at once" } else { "lost the race and appended to the winner's queue" };
        story.tell(format!("  {what}: {nodes} Work admitted, {how}"));
    }
    Ok(())
}

/// What becomes of one granted dispatch.
fn run(
    simulation: &mut Simulation<'_>,
    story: &mut Story,
    plot: &mut Plot,
    projection: &Projection,
    dispatch: &DispatchState,
) -> Result<(), Failure> {
    let members = &dispatch.assignment.claims;
    let key = |work_id: &str| projection.work(work_id).map_or("", |work| work.work.node_key.as_str());
    let names: Vec<String> = members.iter().map(|member| label(key(member.work_id.as_str()))).collect();
    simulation.start(dispatch)?;
    if !plot.lost && matches!(names.as_slice(), [only] if only == "backend" || only == "frontend") {
        plot.lost = true;
        story.tell(format!(
            "  launch of {}: the answer never came, so the dispatch is uncertain and keeps its",
            names[0]
        ));
        story.tell("    reservation; the reconciler proves that no run started, and only then frees it for a retry");
        return simulation.lose(dispatch);
    }
    let run = simulation.bind(dispatch)?;
    let mixed = !plot.batch && members.len() == 3;
    plot.batch |= mixed;
    let acts = if mixed { [Act::Complete, Act::Cancel, Act::Omit] } else { [Act::Complete; 3] };
    for (member, act) in members.iter().zip(acts) {
        simulation.finish(&run, dispatch, &member.handle, act)?;
    }
    simulation.settle(&run, &dispatch.assignment.dispatch_id)?;
    if mixed {
        story.tell(format!(
            "  batch run {}: completed {}, cancelled {}, said nothing of {}; the reconciler cancels what the ended run",
            run.run_id, names[0], names[1], names[2]
        ));
        story.tell("    left open, and both will be granted again after their backoff");
    } else {
        story.tell(format!("  run {}: {} completed, delivered and verified", run.run_id, names.join(", ")));
    }
    Ok(())
}

/// Tells which Work became ready through Results.
fn released(story: &mut Story, before: &Projection, after: &Projection) {
    let ready = |projection: &Projection, id: &str| {
        projection.work(id).is_some_and(|work| projection.view_work(work, now(), None).unresolved_total == 0)
    };
    let opened: Vec<String> = after
        .works()
        .filter(|work| !work.work.depends_on.is_empty())
        .map(|work| (work.work.work_id.as_str(), work.work.node_key.as_str()))
        .filter(|(id, _)| ready(after, id) && !ready(before, id))
        .map(|(_, key)| label(key))
        .collect();
    if !opened.is_empty() {
        story.tell(format!("  Results release {}", opened.join(" and ")));
    }
}

/// Waits for the nearest retry boundary if nothing is ready before it.
fn wait(projection: &Projection) {
    let at = now();
    let waiting: Vec<_> = projection.works().filter(|work| work.state() == "available").collect();
    if waiting.iter().any(|work| projection.view_work(work, at, None).ready) {
        return;
    }
    let boundary = waiting.iter().map(|work| work.retry_not_before.get()).filter(|boundary| *boundary > at.get()).min();
    if let Some(boundary) = boundary {
        let left = u64::try_from(boundary - at.get()).unwrap_or(0);
        std::thread::sleep(Duration::from_millis(left).min(MAX_WAIT));
    }
}
