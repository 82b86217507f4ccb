//! One job: its token, its folders, its steps in order.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::super::github::{Access, Issued, Level, OCTO_WIDGETS, Run};
use super::node::{Status, condition, evaluate};
use super::step::{self, Done};
use super::{Host, JobRan, Moment, Plan, Ran, StepRan, Turn, of_needs};

/// What the steps of a job share.
pub(super) struct Job<'h> {
    pub(super) host: &'h Host,
    pub(super) run: &'h Run,
    pub(super) name: &'h str,
    /// What lies at `/tmp/gh-aw`.
    pub(super) files: PathBuf,
    pub(super) temp: PathBuf,
    pub(super) workspace: PathBuf,
    pub(super) store: &'h Path,
    pub(super) token: String,
    /// Contexts that do not change within the job.
    pub(super) contexts: Value,
    /// Variables that steps exported.
    pub(super) exported: Map<String, Value>,
    /// Folders that steps put in front of the search path, newest first.
    pub(super) path: Vec<String>,
    pub(super) summary: String,
    pub(super) annotations: Vec<String>,
    pub(super) masks: Vec<String>,
}

fn level(word: &Value) -> Level {
    match word.as_str() {
        Some("write") => Level::Write,
        Some("read") => Level::Read,
        _ => Level::None,
    }
}

/// The job's own token, with the permissions that it declares and no others.
fn token(host: &Host, run: &Run, name: &str, permissions: &Value) -> String {
    let token = format!("job-token-of-{}-{}-{name}", run.id, run.attempts.len());
    host.github.token(&token, "github-actions[bot]", Issued::Installation);
    let access = Access {
        actions: level(&permissions["actions"]),
        contents: level(&permissions["contents"]),
        issues: level(&permissions["issues"]),
        pull_requests: level(&permissions["pull-requests"]),
        administration: Level::None,
    };
    host.github.grant(&token, OCTO_WIDGETS, access);
    token
}

#[allow(clippy::too_many_arguments, reason = "a run and its plan")]
pub(super) fn run(
    host: &Host,
    run: &Run,
    workflow: &Value,
    name: &str,
    tree: &Value,
    ran: &Ran,
    plan: &Plan<'_>,
    cancelled: &mut bool,
) -> JobRan {
    let (needs, status) = of_needs(ran, &workflow["jobs"], tree, *cancelled);
    let attempt = run.attempts.len();
    let permissions = if tree["permissions"].is_null() { &workflow["permissions"] } else { &tree["permissions"] };
    let token = token(host, run, name, permissions);
    let folder = host.work.path().join(format!("run-{}-{attempt}-{name}", run.id));
    // A job that is executed again in one attempt begins anew.
    let _ = fs::remove_dir_all(&folder);
    let mut job = Job {
        host,
        run,
        name,
        files: folder.join("gh-aw"),
        temp: folder.join("temp"),
        workspace: folder.join("work"),
        store: &ran.store,
        contexts: Value::Null,
        token,
        exported: Map::new(),
        path: Vec::new(),
        summary: String::new(),
        annotations: Vec::new(),
        masks: Vec::new(),
    };
    for path in [&job.files, &job.temp, &job.workspace] {
        fs::create_dir_all(path).unwrap();
    }
    job.contexts = contexts(&job, workflow, needs);
    if !condition(tree.get("if"), &job.contexts, status) {
        let result = if *cancelled { "cancelled" } else { "skipped" };
        return JobRan { result: result.to_owned(), ..JobRan::default() };
    }
    job.contexts["env"] = merged(&job, &[&workflow["env"], &tree["env"]]);
    let (steps, result, gone) = steps(&mut job, tree, plan, cancelled);
    let mut all = job.contexts.clone();
    all["steps"] = step_context(&steps);
    // A job whose machine is gone hands nothing on.
    let outputs = if !gone { evaluate(&tree["outputs"], &all, Status::default()) } else { Value::Null };
    JobRan {
        result,
        outputs: outputs.as_object().cloned().unwrap_or_default(),
        steps,
        summary: job.summary,
        annotations: job.annotations,
    }
}

/// Runs the steps of a job; returns them, the job's result, and whether its machine went away.
fn steps(job: &mut Job<'_>, tree: &Value, plan: &Plan<'_>, cancelled: &mut bool) -> (Vec<StepRan>, String, bool) {
    let mut done: Vec<StepRan> = Vec::new();
    // A job that begins after the cancellation, because it waits for `always()`, is executed like any other.
    let (mut failed, mut stopped) = (false, false);
    for (index, step) in tree["steps"].as_array().into_iter().flatten().enumerate() {
        let id = step["id"].as_str().unwrap_or_default();
        let name = match step["name"].as_str() {
            Some(name) => name.to_owned(),
            None => format!("step {}", index + 1),
        };
        let turn = plan.hook.map_or(Turn::On, |hook| {
            let step = if id.is_empty() { name.as_str() } else { id };
            hook(&Moment { job: job.name, step, files: &job.files, temp: &job.temp, store: job.store })
        });
        match turn {
            Turn::On | Turn::Vanish => {}
            Turn::Cancel => (stopped, *cancelled) = (true, true),
            Turn::Lose => return (done, "failure".to_owned(), true),
        }
        let status = Status { success: !failed && !stopped, failure: failed && !stopped, cancelled: stopped };
        let mut contexts = job.contexts.clone();
        contexts["steps"] = step_context(&done);
        contexts["job"] = json!({"status": if stopped { "cancelled" } else if failed { "failure" } else { "success" }});
        contexts["env"] = merged_onto(&contexts["env"], &job.exported);
        let mut ran = StepRan { name, id: id.to_owned(), ..StepRan::default() };
        // The step that was under way when somebody cancelled is not executed, whatever its condition.
        if turn == Turn::Cancel || !condition(step.get("if"), &contexts, status) {
            ran.outcome = if turn == Turn::Cancel { "cancelled" } else { "skipped" }.to_owned();
            ran.conclusion.clone_from(&ran.outcome);
            done.push(ran);
            continue;
        }
        let Done { success, outputs, log } = step::run(job, step, &contexts, status);
        (ran.outputs, ran.log) = (outputs, log);
        ran.outcome = if success { "success" } else { "failure" }.to_owned();
        let forgiven = evaluate(&step["continue-on-error"], &contexts, status);
        let forgiven = forgiven == true || forgiven == "true";
        ran.conclusion = if success || forgiven { "success" } else { "failure" }.to_owned();
        failed |= ran.conclusion == "failure";
        done.push(ran);
        if turn == Turn::Vanish {
            return (done, "failure".to_owned(), true);
        }
    }
    let result = match () {
        () if stopped => "cancelled",
        () if failed => "failure",
        () => "success",
    };
    (done, result.to_owned(), false)
}

/// The `steps` context.
pub(super) fn step_context(steps: &[StepRan]) -> Value {
    let named = steps.iter().filter(|step| !step.id.is_empty());
    let all = named.map(|step| {
        let value = json!({"outputs": step.outputs, "outcome": step.outcome, "conclusion": step.conclusion});
        (step.id.clone(), value)
    });
    Value::Object(all.collect())
}

/// Environments of a workflow and of a job, evaluated one on top of the other.
fn merged(job: &Job<'_>, layers: &[&Value]) -> Value {
    let mut all = Map::new();
    for layer in layers {
        let mut contexts = job.contexts.clone();
        contexts["env"] = Value::Object(all.clone());
        let layer = evaluate(layer, &contexts, Status::default());
        for (name, value) in layer.as_object().into_iter().flatten() {
            all.insert(name.clone(), Value::String(text(value)));
        }
    }
    Value::Object(all)
}

pub(super) fn merged_onto(base: &Value, more: &Map<String, Value>) -> Value {
    let mut all = base.as_object().cloned().unwrap_or_default();
    all.extend(more.iter().map(|(name, value)| (name.clone(), Value::String(text(value)))));
    Value::Object(all)
}

/// A scalar as the runner hands it on.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The contexts that do not change within a job.
fn contexts(job: &Job<'_>, workflow: &Value, needs: Value) -> Value {
    let (host, run) = (job.host, job.run);
    let mut secrets = host.secrets.clone();
    secrets.insert("GITHUB_TOKEN".to_owned(), json!(job.token));
    let inputs = match &run.assignment {
        Some(assignment) => json!({"work_queue_assignment": assignment, "aw_context": ""}),
        None => json!({}),
    };
    let reference = run.path.split_once('@').map_or("refs/heads/main", |(_, reference)| reference);
    let repository = host.github.repository_id(OCTO_WIDGETS);
    let mut event = json!({
        "repository": {"id": repository, "full_name": OCTO_WIDGETS},
        "sender": {"id": run.actor},
        "ref": reference,
        "workflow": run.path.split('@').next(),
    });
    if run.event == "workflow_dispatch" {
        event["inputs"] = inputs.clone();
    }
    fs::write(job.temp.join("event.json"), event.to_string()).unwrap();
    json!({
        "github": {
            "token": job.token,
            "event": event,
            "event_name": run.event,
            "event_path": job.temp.join("event.json"),
            "run_id": run.id.to_string(),
            "run_number": run.number.to_string(),
            "run_attempt": run.attempts.len().to_string(),
            "repository": OCTO_WIDGETS,
            "repository_id": repository.to_string(),
            "repository_owner": OCTO_WIDGETS.split('/').next(),
            "sha": run.head_sha,
            "ref": reference,
            "workflow": text(&workflow["name"]),
            "workflow_ref": format!("{OCTO_WIDGETS}/{}", run.path),
            "workflow_sha": run.head_sha,
            "actor_id": run.actor.to_string(),
            "job": job.name,
            "server_url": host.server.server_url(),
            "api_url": host.server.api_url(),
            "graphql_url": host.server.graphql_url(),
            "workspace": job.workspace,
        },
        "vars": host.variables,
        "secrets": secrets,
        "inputs": inputs,
        "needs": needs,
        "runner": {"os": "Linux", "arch": machine(), "temp": job.temp, "name": "runner", "debug": ""},
        "env": {},
        "steps": {},
        "job": {"status": "success"},
    })
}

pub(super) fn machine() -> &'static str {
    if cfg!(target_arch = "aarch64") { "ARM64" } else { "X64" }
}
