//! What each mode of the Action takes on loopback, with a ledger of 1 MiB and of 16 MiB: the shipped binary against a
//! simulated GitHub and real Git. The yardstick of the same run is plain `git fetch` of the queue branch into an empty
//! repository, which every mode that reads the queue has to wait for. Prints a table in Markdown. A worker's modes are not
//! measured: the routes of the generated ledgers lead to no workflow that exists.
//!
//! `cargo bench --bench modes` prints it; `-- 1` or `-- 1 4` measures other sizes, in MiB.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    reason = "a bench reports by printing and may panic"
)]

#[path = "support/generator.rs"]
#[allow(dead_code, reason = "another bench uses the rest")]
mod generator;

#[path = "../tests/support/mod.rs"]
#[allow(dead_code, unused_imports, unused_macros, reason = "tests use the rest")]
mod support;

use std::collections::BTreeMap;
use std::fs;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use support::git::Bare;
use support::github::{Github, JOB, NewRun, Options, Server};

/// The repository of the generated ledgers.
const REPOSITORY: &str = "owner/repo";
/// Rounds of one dispatcher; the best of each mode is told.
const ROUNDS: usize = 3;
/// Where the jobs of a run keep their files. A bench runs alone, so they are the real ones.
const FILES: &str = "/tmp/gh-aw";

/// Best times by mode, in milliseconds.
type Times = BTreeMap<&'static str, f64>;

/// A GitHub with a queue of some size.
struct World {
    github: Github,
    server: Server,
    folder: tempfile::TempDir,
    times: Times,
}

impl World {
    fn new(ledger: &str) -> Self {
        let bare = Arc::new(Bare::new());
        let github = Github::new().repository(REPOSITORY);
        github.attach(REPOSITORY, &bare);
        let github = github.with_workflows(REPOSITORY);
        bare.seed(ledger.as_bytes());
        github.follow_system_clock();
        let server = github.serve(Options::default());
        github.addresses(server.server_url(), server.api_url());
        Self { github, server, folder: tempfile::tempdir().unwrap(), times: Times::new() }
    }

    fn took(&mut self, mode: &'static str, started: Instant) {
        let took = started.elapsed().as_secs_f64() * 1_000.0;
        self.times.entry(mode).and_modify(|best| *best = best.min(took)).or_insert(took);
    }

    /// The yardstick.
    fn fetch(&mut self) {
        let target = self.folder.path().join("fetched.git");
        let _ = fs::remove_dir_all(&target);
        let git = |arguments: &[&str]| {
            let mut command = support::git::git_command(self.folder.path());
            let done = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
            assert!(done.success(), "{arguments:?}");
        };
        git(&["init", "--quiet", "--bare", "fetched.git"]);
        let url = format!("{}/{REPOSITORY}", self.server.server_url());
        let header = format!("http.extraHeader=Authorization: Basic {}", base64(&format!("x-access-token:{JOB}")));
        let started = Instant::now();
        git(&["-C", "fetched.git", "-c", &header, "fetch", "--quiet", "--no-tags", &url, "work-queue"]);
        self.took("git fetch", started);
    }

    /// A mode of a run's job; panics with what it said unless it succeeds.
    fn mode(&mut self, run: u64, role: &str, name: &'static str, arguments: &[&str], more: &[(&str, &str)]) -> String {
        let shown = self.github.run(run).unwrap();
        let temp = self.folder.path().join("temp");
        fs::create_dir_all(&temp).unwrap();
        let mut event = json!({"repository": {"id": self.github.repository_id(REPOSITORY)}});
        if let Some(assignment) = &shown.assignment {
            event["inputs"] = json!({"work_queue_assignment": assignment});
        }
        fs::write(temp.join("event.json"), event.to_string()).unwrap();
        let place = |name: &str| temp.join(name).to_str().unwrap().to_owned();
        let mut command = Command::new(env!("CARGO_BIN_EXE_wq"));
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("RUNNER_TEMP", &temp)
            .env("GITHUB_REPOSITORY", REPOSITORY)
            .env("GITHUB_RUN_ID", run.to_string())
            .env("GITHUB_RUN_ATTEMPT", "1")
            .env("GITHUB_WORKFLOW_REF", format!("{REPOSITORY}/{}", shown.path))
            .env("GITHUB_SHA", &shown.head_sha)
            .env("GITHUB_EVENT_NAME", &shown.event)
            .env("GITHUB_EVENT_PATH", place("event.json"))
            .env("GITHUB_ACTOR_ID", shown.actor.to_string())
            .env("GITHUB_SERVER_URL", self.server.server_url())
            .env("GITHUB_API_URL", self.server.api_url())
            .env("GITHUB_GRAPHQL_URL", self.server.graphql_url())
            .env("GITHUB_OUTPUT", place("output"))
            .env("GITHUB_ENV", place("env"))
            .env("GITHUB_STEP_SUMMARY", place("summary"))
            .env("GH_AW_WORK_QUEUE_ENABLED", "true")
            .env("GH_AW_WORK_QUEUE_ROLE", role)
            .env("GH_AW_WORK_QUEUE_CONTRACT", "c".repeat(64))
            .envs(more.iter().copied())
            .stdin(Stdio::null());
        let trusted = !matches!(name, "tool" | "mcp" | "collect");
        if trusted {
            command.env("GH_TOKEN", JOB);
        }
        for file in ["output", "env", "summary"] {
            fs::write(temp.join(file), "").unwrap();
        }
        let started = Instant::now();
        let output = command.output().unwrap();
        self.took(name, started);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        fs::read_to_string(temp.join("output")).unwrap()
    }

    /// The value of an output, from the runner's file of outputs.
    fn output(text: &str, name: &str) -> String {
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(value) = line.strip_prefix(&format!("{name}=")) {
                return value.to_owned();
            }
            if let Some(end) = line.strip_prefix(&format!("{name}<<")) {
                return lines.take_while(|line| *line != end).collect::<Vec<_>>().join("\n");
            }
        }
        panic!("no output {name}: {text}")
    }

    /// One dispatcher, from its activation to its conclusion.
    fn round(&mut self, number: usize) {
        let _ = fs::remove_dir_all(FILES);
        fs::create_dir_all(FILES).unwrap();
        let intents = format!("{FILES}/work-queue.intents.jsonl");
        let actor = self.github.account_id("wim");
        let run = self.github.new_run(&NewRun {
            repository: REPOSITORY,
            workflow: "dispatcher.lock.yml",
            event: "schedule",
            reference: "main",
            actor,
            title: None,
        });
        self.github.start_run(run);
        self.mode(run, "dispatcher", "activation, dispatcher", &["activation"], &[]);
        let said = self.mode(run, "dispatcher", "origin", &["origin"], &[]);
        let origin = Self::output(&said, "work_queue_origin");
        let submit = format!(
            r#"{{"nodes":[{{"graph_id":"bench-{number}","payload":{{"effect_contract":{{"kind":"none"}},"task":"bench"}}}}]}}"#
        );
        self.mode(run, "dispatcher", "tool", &["tool", "work_queue_read", "{}"], &[]);
        self.mode(run, "dispatcher", "tool", &["tool", "work_queue_submit", &submit], &[]);
        self.mode(run, "dispatcher", "collect", &["collect"], &[]);
        let config =
            r#"{"aw_context_workflows":["worker"],"work_queue_enabled":true,"work_queue_workflows":["worker"]}"#;
        let controls = [
            ("GH_AW_WORK_QUEUE_INTENT_ORIGIN", origin.as_str()),
            ("GH_AW_WORK_QUEUE_INTENTS", intents.as_str()),
            ("GH_AW_WORK_QUEUE_CONTROL_CONFIG", config),
        ];
        let name = "controls: one submission";
        self.mode(run, "dispatcher", name, &["safe-outputs", "--phase", "controls"], &controls);
        self.mode(run, "dispatcher", "conclusion", &["conclusion"], &[("GH_AW_WORK_QUEUE_SNAPSHOT", SNAPSHOT)]);
        self.github.complete_run(run, "success");
    }
}

const SNAPSHOT: &str = "/tmp/gh-aw/work-queue.snapshot.json";

fn base64(text: &str) -> String {
    use ::base64::Engine as _;
    ::base64::engine::general_purpose::STANDARD.encode(text)
}

fn measure(mebibytes: usize) -> (usize, Times) {
    let ledger = generator::ledger(generator::Shape::default(), mebibytes << 20);
    let mut world = World::new(&ledger);
    for number in 0..ROUNDS {
        world.fetch();
        world.round(number);
    }
    (ledger.lines().count(), world.times)
}

fn main() {
    let sizes: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![1, 16] } else { sizes };
    let measured: Vec<(usize, (usize, Times))> = sizes.iter().map(|size| (*size, measure(*size))).collect();
    let mut head = "| mode |".to_owned();
    let mut rule = "| --- |".to_owned();
    for (size, (commits, _)) in &measured {
        head.push_str(&format!(" {size} MiB, {commits} commits | to git fetch |"));
        rule.push_str(" ---: | ---: |");
    }
    println!("{head}\n{rule}");
    let modes: Vec<&str> = measured[0].1.1.keys().copied().collect();
    for mode in modes {
        let mut row = format!("| {mode} |");
        for (_, (_, times)) in &measured {
            row.push_str(&format!(" {:.0} ms | {:.2} |", times[mode], times[mode] / times["git fetch"]));
        }
        println!("{row}");
    }
}
