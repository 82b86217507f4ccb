//! The real binary in the environment of a job, against the simulated host over HTTP, Git included.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{NO_WRITES, control_config, dispatch_next, finish};
use crate::support::cli::{Ran, wq};
use crate::support::git::Bare;
use crate::support::github::{Github, JOB, LAUNCH, NewRun, OCTO_WIDGETS, Options, Server};

struct Desk {
    github: Github,
    bare: Arc<Bare>,
    server: Server,
}

/// The files of one job.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, lines: &[Value]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}

impl Desk {
    fn new() -> Self {
        let (github, bare) = Github::standard_with_git();
        github.follow_system_clock();
        let server = github.serve(Options::default());
        github.addresses(server.server_url(), server.api_url());
        Self { github, bare, server }
    }

    fn dispatcher(&self) -> u64 {
        let run = self.github.new_run(&NewRun {
            repository: OCTO_WIDGETS,
            workflow: "dispatcher.lock.yml",
            event: "schedule",
            reference: "main",
            actor: self.github.account_id("wim"),
            title: None,
        });
        self.github.start_run(run);
        run
    }

    /// A snapshot of a run, as activation leaves it.
    fn snapshot(&self, run: u64, role: &str, assignment: &Value) -> Files {
        let shown = self.github.run(run).unwrap();
        let head = self.github.head(OCTO_WIDGETS, "refs/heads/work-queue");
        let mut origin = json!({"role": role, "principal": shown.actor.to_string(), "repository": OCTO_WIDGETS,
            "workflow": shown.path.split('@').next().unwrap(), "run_id": run.to_string(), "run_attempt": 1});
        if role == "worker" {
            origin["dispatch_id"] = assignment["dispatch_id"].clone();
        }
        let files = Files { folder: tempfile::tempdir().unwrap() };
        // The runner makes both before a step begins.
        files.write("output", &[]);
        files.write("summary", &[]);
        let log = head.as_ref().map_or_else(String::new, |_| self.bare.ledger());
        files.write(
            "snapshot.json",
            &[json!({"version": 3, "sha": head, "transactionLog": log, "worker": assignment,
            "captured_at": self.github.now(), "origin": origin, "role": role})],
        );
        files
    }

    fn run(&self, run: u64, role: &str, files: &Files, arguments: &[&str]) -> Ran {
        let shown = self.github.run(run).unwrap();
        let mut command = wq(self.bare.around());
        let path = |name: &str| files.path(name);
        command
            .env("GITHUB_SERVER_URL", self.server.server_url())
            .env("GITHUB_API_URL", self.server.api_url())
            .env("GITHUB_GRAPHQL_URL", self.server.graphql_url())
            .env("GITHUB_REPOSITORY", OCTO_WIDGETS)
            .env("GITHUB_RUN_ID", run.to_string())
            .env("GITHUB_RUN_ATTEMPT", "1")
            .env("GITHUB_WORKFLOW_REF", format!("{OCTO_WIDGETS}/{}", shown.path))
            .env("GITHUB_SHA", &shown.head_sha)
            .env("GITHUB_EVENT_NAME", &shown.event)
            .env("GITHUB_ACTOR_ID", shown.actor.to_string())
            .env("GITHUB_OUTPUT", path("output"))
            .env("GITHUB_STEP_SUMMARY", path("summary"))
            .env("GH_AW_WORK_QUEUE_TOKEN", JOB)
            .env("GH_AW_WORK_QUEUE_ENABLED", "true")
            .env("GH_AW_WORK_QUEUE_ROLE", role)
            .env("GH_AW_WORK_QUEUE_SNAPSHOT", path("snapshot.json"))
            .env("GH_AW_WORK_QUEUE_INTENTS", path("intents.jsonl"))
            .env("GH_AW_WORK_QUEUE_FINISH_INTENT", path("finish.jsonl"))
            .env("GH_AW_WORK_QUEUE_CONTROL_CONFIG", control_config())
            .args(arguments);
        if role == "worker" {
            command.env("GH_AW_WORK_QUEUE_CONTRACT", "c".repeat(64));
        }
        let ran = Ran::of(command.output().unwrap());
        for (text, place) in [(&ran.out, "stdout"), (&ran.err, "stderr"), (&files.read("summary"), "summary")] {
            for token in [JOB, LAUNCH] {
                assert!(!text.contains(token), "a token in {place}");
            }
        }
        ran
    }
}

fn plan(id: &str, payload: &str) -> Value {
    let payload: Value = serde_json::from_str(payload).unwrap();
    json!({"version": 3, "intent_id": id, "kind": "submit", "parameters": {"nodes": [{"payload": payload}]}})
}

/// O-029, S-339, S-340, S-410: a day of two runs through the binary: a plan makes the queue, its grant launches a worker, and
/// the worker's safe outputs settle, control and deliver.
#[test]
fn a_plan_becomes_a_result_through_the_binary() {
    let desk = Desk::new();
    let run = desk.dispatcher();
    let files = desk.snapshot(run, "dispatcher", &Value::Null);
    files.write("intents.jsonl", &[plan("i1", NO_WRITES), dispatch_next("g1", 1)]);
    let ran = desk.run(run, "dispatcher", &files, &["safe-outputs", "--phase", "controls"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(files.read("output").contains("work_queue_controls_status"));
    let receipts: Value = serde_json::from_str(&files.read("work-queue.receipts.json")).unwrap();
    let launch = &receipts["receipts"][1]["launches"][0];
    assert_eq!(launch["state"], "bound");
    let worker: u64 = launch["run_id"].as_str().unwrap().parse().unwrap();
    desk.github.start_run(worker);
    let assignment: Value =
        serde_json::from_str(desk.github.run(worker).unwrap().assignment.as_ref().unwrap()).unwrap();
    let files = desk.snapshot(worker, "worker", &assignment);
    files.write("finish.jsonl", &[finish("f1", None, "completed")]);
    let ran = desk.run(worker, "worker", &files, &["safe-outputs", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    let output = files.read("output");
    for name in
        ["claim_authorizations", "work_queue_requests", "work_queue_outcome", "claim_results", "claim_scope_errors"]
    {
        assert!(output.contains(name), "{name}");
    }
    let ledger = desk.bare.ledger();
    assert!(ledger.contains("\"kind\":\"Completion\"") && ledger.contains("\"kind\":\"Result\""));
    assert!(files.read("summary").contains("Work queue delivery"));
}

/// O-094, O-203, O-204, O-208, O-211: blocked controls are told on standard error without any switch, as static events with
/// counts and flags; the annotation says category, explanation and action; no identifier, name, path or token is in either.
#[test]
fn blocked_controls_are_always_visible() {
    let desk = Desk::new();
    let run = desk.dispatcher();
    let files = desk.snapshot(run, "dispatcher", &Value::Null);
    files.write("intents.jsonl", &[plan("i-s3cret", r#"{"x":"s3cret"}"#), dispatch_next("g1", 9)]);
    let ran = desk.run(run, "dispatcher", &files, &["safe-outputs", "--phase", "controls"]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("[work-queue:dispatch] intent.process.blocked failed=true"), "{}", ran.err);
    assert!(ran.err.contains("[work-queue:dispatch] controls.blocked"), "{}", ran.err);
    assert!(ran.out.contains("::error title=Work queue%3A dispatch_budget_exceeded::"), "{}", ran.out);
    assert!(ran.out.contains("Ask for fewer dispatches"));
    for word in ["s3cret", "octo", "widgets", "refs/", files.folder.path().to_str().unwrap(), "request:"] {
        let lines = ran.err.lines().filter(|line| line.contains("work-queue:"));
        assert!(lines.clone().all(|line| !line.contains(word)), "{word} in {}", ran.err);
    }
}
