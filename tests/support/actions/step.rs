//! One step: a command, our action, or one of the few other actions that workflows of the queue use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Map, Value};

use super::super::github::LAUNCH;
use super::artifacts;
use super::job::{Job, machine, merged_onto, step_context, text};
use super::node::{Status, action, condition, evaluate};
use super::{ACTION, StepRan};

/// Longest that a step may take.
const LIMIT_SECONDS: &str = "120";

/// What a step came to.
pub(super) struct Done {
    pub(super) success: bool,
    pub(super) outputs: Map<String, Value>,
    pub(super) log: String,
}

impl Done {
    fn of(success: bool) -> Self {
        Self { success, outputs: Map::new(), log: String::new() }
    }

    fn with(name: &str, value: &str) -> Self {
        let mut done = Self::of(true);
        done.outputs.insert(name.to_owned(), Value::String(value.to_owned()));
        done
    }
}

/// Runs a step whose condition holds.
pub(super) fn run(job: &mut Job<'_>, step: &Value, contexts: &Value, status: Status) -> Done {
    let own = evaluate(&step["env"], contexts, status);
    let mut contexts = contexts.clone();
    contexts["env"] = merged_onto(&contexts["env"], &own.as_object().cloned().unwrap_or_default());
    if let Some(uses) = step["uses"].as_str() {
        let with = evaluate(&step["with"], &contexts, status);
        let with = with.as_object().cloned().unwrap_or_default();
        let name = uses.split('@').next().unwrap();
        return match name {
            ACTION => composite(job, &with, &contexts),
            "actions/checkout" => checkout(job),
            "actions/upload-artifact" => upload(job, &with),
            "actions/download-artifact" => download(job, &with),
            "actions/create-github-app-token" => Done {
                outputs: [("app-slug".to_owned(), "queue-launcher".into())]
                    .into_iter()
                    .chain(Done::with("token", LAUNCH).outputs)
                    .collect(),
                ..Done::of(true)
            },
            other => panic!("{other} is not an action that is simulated"),
        };
    }
    let script = text(&evaluate(&step["run"], &contexts, status));
    command(job, &script, step["shell"].as_str(), &contexts, &[])
}

/// A path as a step says it, on this machine.
fn place(job: &Job<'_>, path: &str) -> PathBuf {
    match path.strip_prefix("/tmp/gh-aw") {
        Some(rest) => job.files.join(rest.trim_start_matches('/')),
        None => job.workspace.join(path),
    }
}

fn checkout(job: &Job<'_>) -> Done {
    let archive = Command::new("git")
        .args(["archive", "--format=tar", &job.run.head_sha])
        .current_dir(job.host.bare.path())
        .output()
        .unwrap();
    assert!(archive.status.success(), "{archive:?}");
    let mut tar = Command::new("tar");
    tar.args(["xf", "-"]).current_dir(&job.workspace);
    let unpacked = super::super::git::feed(tar, &archive.stdout);
    Done::of(unpacked.status.success())
}

fn upload(job: &Job<'_>, with: &Map<String, Value>) -> Done {
    let paths: Vec<PathBuf> = with["path"]
        .as_str()
        .unwrap()
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|path| place(job, path))
        .collect();
    let name = with.get("name").map_or("artifact".to_owned(), text);
    let missing = with.get("if-no-files-found").map_or("warn".to_owned(), text);
    Done::of(artifacts::upload(job.store, &name, &paths, &missing))
}

fn download(job: &Job<'_>, with: &Map<String, Value>) -> Done {
    let to = place(job, with.get("path").and_then(Value::as_str).unwrap_or("."));
    match with.get("name") {
        Some(name) => Done::of(artifacts::download(job.store, &text(name), &to)),
        None => {
            artifacts::download_matching(job.store, &with.get("pattern").map_or(String::new(), text), &to);
            Done::of(true)
        }
    }
}

/// Our action: the steps of `action.yml`, with its inputs.
fn composite(job: &mut Job<'_>, with: &Map<String, Value>, contexts: &Value) -> Done {
    let folder = job.host.action.clone();
    let tree = action(&fs::read_to_string(folder.join("action.yml")).unwrap());
    let mut inputs = Map::new();
    for (name, input) in tree["inputs"].as_object().into_iter().flatten() {
        let value = match with.get(name) {
            Some(given) => given.clone(),
            None => evaluate(&input["default"], contexts, Status::default()),
        };
        assert!(!(value.is_null() && input["required"] == true), "the input {name} is missing");
        inputs.insert(name.clone(), Value::String(text(&value)));
    }
    for name in with.keys() {
        assert!(inputs.contains_key(name), "action.yml has no input {name}");
    }
    let mut inside = contexts.clone();
    inside["inputs"] = Value::Object(inputs);
    inside["steps"] = Value::Object(Map::new());
    inside["github"]["action_path"] = Value::String(folder.to_str().unwrap().to_owned());
    let mut done: Vec<StepRan> = Vec::new();
    let mut failed = false;
    for step in tree["runs"]["steps"].as_array().into_iter().flatten() {
        inside["steps"] = step_context(&done);
        let status = Status { success: !failed, failure: failed, cancelled: false };
        if !condition(step.get("if"), &inside, status) {
            continue;
        }
        let own = evaluate(&step["env"], &inside, status);
        let mut with_env = inside.clone();
        with_env["env"] = merged_onto(&inside["env"], &own.as_object().cloned().unwrap_or_default());
        let script = text(&evaluate(&step["run"], &with_env, status));
        let path = folder.to_str().unwrap();
        let ran = command(job, &script, step["shell"].as_str(), &with_env, &[("GITHUB_ACTION_PATH", path)]);
        failed |= !ran.success;
        let outcome = if ran.success { "success" } else { "failure" }.to_owned();
        let id = step["id"].as_str().unwrap_or_default().to_owned();
        done.push(StepRan {
            id,
            outcome: outcome.clone(),
            conclusion: outcome,
            outputs: ran.outputs,
            log: ran.log,
            ..StepRan::default()
        });
    }
    inside["steps"] = step_context(&done);
    let mut outputs = Map::new();
    for (name, output) in tree["outputs"].as_object().into_iter().flatten() {
        let value = text(&evaluate(&output["value"], &inside, Status::default()));
        // An output that no step set is empty, which is the same as absent.
        if !value.is_empty() {
            outputs.insert(name.clone(), Value::String(value));
        }
    }
    Done { success: !failed, outputs, log: done.into_iter().map(|step| step.log).collect() }
}

/// The environment that a runner gives to every command.
fn environment(job: &Job<'_>, contexts: &Value, files: &Path) -> Vec<(String, String)> {
    let github = &contexts["github"];
    // First, because nothing that a step or a file says replaces what the runner says about the run.
    let own = contexts["env"].as_object().into_iter().flatten();
    let mut all: Vec<(String, String)> = own.map(|(name, value)| (name.clone(), text(value))).collect();
    let runner = [
        ("CI", "true".to_owned()),
        ("GITHUB_ACTIONS", "true".to_owned()),
        ("HOME", job.temp.parent().unwrap().to_str().unwrap().to_owned()),
        ("RUNNER_TEMP", job.temp.to_str().unwrap().to_owned()),
        ("RUNNER_OS", "Linux".to_owned()),
        ("RUNNER_ARCH", machine().to_owned()),
        ("RUNNER_NAME", "runner".to_owned()),
        ("RUNNER_ENVIRONMENT", "github-hosted".to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value));
    all.extend(runner);
    for name in [
        "event_name",
        "event_path",
        "run_id",
        "run_number",
        "run_attempt",
        "repository",
        "repository_id",
        "repository_owner",
        "sha",
        "ref",
        "workflow",
        "workflow_ref",
        "workflow_sha",
        "actor_id",
        "job",
        "server_url",
        "api_url",
        "graphql_url",
        "workspace",
    ] {
        all.push((format!("GITHUB_{}", name.to_uppercase()), text(&github[name])));
    }
    for name in ["OUTPUT", "ENV", "PATH", "STEP_SUMMARY", "STATE"] {
        all.push((format!("GITHUB_{name}"), files.join(name).to_str().unwrap().to_owned()));
    }
    let mut path = job.path.clone();
    path.push(std::env::var("PATH").unwrap());
    all.push(("PATH".to_owned(), path.join(":")));
    all
}

/// Runs a script, and takes in what it left in the runner's files.
fn command(job: &mut Job<'_>, script: &str, shell: Option<&str>, contexts: &Value, more: &[(&str, &str)]) -> Done {
    let files = tempfile::Builder::new().prefix("step-").tempdir_in(job.temp.parent().unwrap()).unwrap();
    for name in ["OUTPUT", "ENV", "PATH", "STEP_SUMMARY", "STATE"] {
        fs::write(files.path().join(name), "").unwrap();
    }
    let path = files.path().join("script.sh");
    fs::write(&path, script).unwrap();
    let shell: &[&str] = match shell {
        None => &["bash", "-e"],
        Some("bash") => &["bash", "--noprofile", "--norc", "-eo", "pipefail"],
        Some("sh") => &["sh", "-e"],
        Some(other) => panic!("the shell {other} is not simulated"),
    };
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "timeout", "--kill-after=5", LIMIT_SECONDS, "sh", "-c"])
        .arg("mount --bind \"$0\" /tmp/gh-aw && exec \"$@\"")
        .arg(&job.files)
        .args(shell)
        .arg(&path)
        .current_dir(&job.workspace)
        .env_clear()
        .envs(environment(job, contexts, files.path()))
        .envs(more.iter().copied())
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    let mut log = String::from_utf8_lossy(&output.stdout).into_owned();
    log.push_str(&String::from_utf8_lossy(&output.stderr));
    for line in log.lines() {
        if line.starts_with("::error") || line.starts_with("::warning") {
            job.annotations.push(line.to_owned());
        }
        if let Some(secret) = line.strip_prefix("::add-mask::") {
            job.masks.push(secret.to_owned());
        }
    }
    let read = |name: &str| fs::read_to_string(files.path().join(name)).unwrap_or_default();
    job.exported.extend(assignments(&read("ENV")));
    for line in read("PATH").lines() {
        job.path.insert(0, line.to_owned());
    }
    job.summary.push_str(&read("STEP_SUMMARY"));
    Done { success: output.status.success(), outputs: assignments(&read("OUTPUT")), log }
}

/// `NAME=value` lines and `NAME<<DELIMITER` blocks.
fn assignments(text: &str) -> Map<String, Value> {
    let mut found = Map::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let (equals, block) = (line.find('='), line.find("<<"));
        match (equals, block) {
            (_, Some(at)) if equals.is_none_or(|equals| at < equals) => {
                let (name, delimiter) = (&line[..at], &line[at + 2..]);
                let value: Vec<&str> = lines.by_ref().take_while(|line| *line != delimiter).collect();
                found.insert(name.to_owned(), Value::String(value.join("\n")));
            }
            (Some(at), _) => drop(found.insert(line[..at].to_owned(), Value::String(line[at + 1..].to_owned()))),
            _ => assert!(line.trim().is_empty(), "the runner refuses the line {line:?}"),
        }
    }
    found
}
