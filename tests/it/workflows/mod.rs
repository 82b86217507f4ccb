//! End to end: the workflows that `wq init` writes, executed step by step as a runner would, with the binary under test behind
//! `action.yml` and its launcher, against the simulated GitHub and real Git.

mod forged;
mod lost;
mod reruns;
mod roles;
mod rounds;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::Mutex;

use serde_json::{Value, json};
use wq_action::ledger::proposal::{Worker, default_policy};
use wq_action::protocol::{Digest, ProfileName, RepositoryName, Revision};

use crate::support::actions::{ACTION, Host, Moment, Plan, Ran, Turn};
use crate::support::github::{Github, OCTO_WIDGETS};

/// The script of a worker that completes every Claim.
pub(crate) fn completes() -> Value {
    json!([{"each": [{"call": "work_queue_claim_finish", "with": {"claim_handle": "$HANDLE", "outcome": "completed"}}]}])
}

/// The script of a dispatcher that submits these nodes, if any, and asks for as many workers.
pub(crate) fn plans(nodes: &[Value], claims: u32, dispatches: u32) -> Value {
    let mut steps = Vec::new();
    if !nodes.is_empty() {
        let expect = json!({"status": "staged"});
        steps.push(json!({"call": "work_queue_submit", "with": {"nodes": nodes}, "expect": expect}));
    }
    if dispatches > 0 {
        let with = json!({"pool": "default", "max_claims": claims, "max_dispatches": dispatches});
        steps.push(json!({"call": "work_queue_dispatch_next", "with": with, "expect": {"status": "staged"}}));
    }
    Value::Array(steps)
}

/// A node whose worker writes nothing.
pub(crate) fn node(key: &str) -> Value {
    json!({"graph_id": "graph", "node_key": key, "payload": {"task": key, "effect_contract": {"kind": "none"}}})
}

/// How a scene differs from what `wq init` writes.
#[derive(Default)]
pub(crate) struct Setting {
    /// Most Claims of one assignment; more than one needs a Policy proposal in the dispatcher.
    pub(crate) claims: u32,
    /// Launches of a dispatcher's run, 1 if it is 0.
    pub(crate) budget: u32,
    /// Text of the compiled files to be replaced, file name first.
    pub(crate) edits: Vec<(&'static str, String, String)>,
}

/// A repository with a dispatcher and a worker, and what their agents do.
pub(crate) struct Scene {
    pub(crate) host: Host,
    scripts: Mutex<BTreeMap<String, Value>>,
}

impl Scene {
    /// None where workflows cannot be executed.
    pub(crate) fn new(setting: &Setting) -> Option<Self> {
        let (github, bare) = Github::standard_with_git();
        let mut files = written(setting);
        let entries: Vec<(&str, Option<&str>)> =
            files.iter().map(|(path, text)| (path.as_str(), Some(text.as_str()))).collect();
        let deployed = github.commit(OCTO_WIDGETS, "main", &entries);
        if setting.claims > 1 {
            let policy = policy(&files, &deployed, setting.claims);
            let (path, text) = files.iter_mut().find(|(path, _)| path.ends_with("dispatcher.lock.yml")).unwrap();
            let role = "  GH_AW_WORK_QUEUE_ROLE: dispatcher\n";
            let proposed = text.replacen(role, &format!("{role}  GH_AW_WORK_QUEUE_POLICY: '{policy}'\n"), 1);
            github.commit(OCTO_WIDGETS, "main", &[(path.as_str(), Some(proposed.as_str()))]);
        }
        for (path, _) in files.iter().filter(|(path, _)| path.ends_with("observer.lock.yml")) {
            github.workflow(OCTO_WIDGETS, path, "observer");
        }
        let scripts = Mutex::default();
        Some(Self { host: Host::new(github, bare)?, scripts })
    }

    /// Says what the agent of a workflow does from now on.
    pub(crate) fn agent(&self, workflow: &str, script: Value) -> &Self {
        self.scripts.lock().unwrap().insert(workflow.to_owned(), script);
        self
    }

    /// Starts and executes the dispatcher.
    pub(crate) fn dispatcher(&self) -> Ran {
        let run = self.start();
        self.execute(run)
    }

    /// Starts the dispatcher.
    pub(crate) fn start(&self) -> u64 {
        self.host.start("dispatcher.lock.yml", "workflow_dispatch", "wim")
    }

    /// Executes a run from its beginning to its end.
    pub(crate) fn execute(&self, run: u64) -> Ran {
        self.execute_as(run, &Plan::default())
    }

    /// The same with a plan.
    pub(crate) fn execute_as(&self, run: u64, plan: &Plan<'_>) -> Ran {
        let path = self.host.github.run(run).unwrap().path.clone();
        let name = path.split('@').next().unwrap().rsplit('/').next().unwrap().split('.').next().unwrap().to_owned();
        let script = self.scripts.lock().unwrap().get(&name).cloned().unwrap_or(json!([]));
        let hook = |moment: &Moment<'_>| {
            if moment.step == "agentic_execution" {
                fs::write(moment.temp.join("agent.json"), script.to_string()).unwrap();
            }
            plan.hook.map_or(Turn::On, |hook| hook(moment))
        };
        self.host.execute_as(run, &Plan { only: plan.only, before: plan.before, hook: Some(&hook) })
    }

    /// The runs that wait, oldest first.
    pub(crate) fn waiting(&self) -> Vec<u64> {
        self.host.queued()
    }

    /// The one run that waits.
    pub(crate) fn the_worker(&self) -> u64 {
        let waiting = self.waiting();
        assert_eq!(waiting.len(), 1, "{waiting:?} {:#?}", self.ledger());
        waiting[0]
    }

    /// The queue's state as `wq state` tells it; it replays and checks everything.
    pub(crate) fn state(&self) -> Value {
        self.wq(&["replay", "--json"])
    }

    /// A command on the queue, as JSON.
    pub(crate) fn wq(&self, arguments: &[&str]) -> Value {
        let path = self.host.bare.path();
        let remote = path.to_str().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_wq"));
        command
            .args(arguments)
            .args(["--repo", OCTO_WIDGETS, "--remote", remote])
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The ledger's commits; none while there is no queue.
    pub(crate) fn ledger(&self) -> Vec<Value> {
        if self.host.github.head(OCTO_WIDGETS, "work-queue").is_none() {
            return Vec::new();
        }
        let text = self.host.bare.git(&["show", "work-queue:work-queue.jsonl"]);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Commits in the ledger.
    pub(crate) fn commits(&self) -> usize {
        self.ledger().len()
    }

    /// Lets so many workers start at once: one run of the dispatcher that submits a node for each. Returns their runs.
    pub(crate) fn workers(&self, keys: &[&str]) -> Vec<u64> {
        let nodes: Vec<Value> = keys.iter().map(|key| node(key)).collect();
        let count = u32::try_from(keys.len()).unwrap();
        self.agent("dispatcher", plans(&nodes, count, count));
        self.dispatcher().succeeded();
        let waiting = self.waiting();
        assert_eq!(waiting.len(), keys.len());
        waiting
    }

    /// What always holds: the ledger replays, and no dispatch was sent twice.
    pub(crate) fn sound(&self) {
        if self.commits() > 0 {
            self.state();
        }
        assert!(self.host.github.posts().values().all(|posts| *posts == 1), "{:?}", self.host.github.posts());
    }

    /// Rounds without a new plan until nothing waits. Returns how many Results there are.
    pub(crate) fn settle(&self) -> usize {
        self.agent("dispatcher", plans(&[], 16, 16)).agent("worker", completes());
        for _ in 0..4 {
            // The wait before another attempt.
            std::thread::sleep(std::time::Duration::from_millis(1100));
            self.dispatcher();
            let waiting = self.waiting();
            if waiting.is_empty() {
                break;
            }
            waiting.into_iter().for_each(|run| drop(self.execute(run)));
        }
        self.sound();
        self.operations("Result").len()
    }

    /// The operations of a kind, in order.
    pub(crate) fn operations(&self, kind: &str) -> Vec<Value> {
        let all = self.ledger().into_iter().flat_map(|commit| commit["operations"].as_array().unwrap().clone());
        all.filter(|operation| operation["kind"] == kind).collect()
    }
}

/// A Policy with assignments of so many Claims.
fn policy(files: &[(String, String)], deployed: &str, claims: u32) -> String {
    let (_, lock) = files.iter().find(|(path, _)| path.ends_with("worker.lock.yml")).unwrap();
    let stamp = lock.split("GH_AW_WORK_QUEUE_CONTRACT: \"").nth(1).unwrap();
    let worker = Worker {
        name: ProfileName::new("worker").unwrap(),
        revision: Revision::new(deployed.to_owned()).unwrap(),
        contract: Some(Digest::new(stamp[..64].to_owned()).unwrap()),
    };
    let policy = default_policy(&RepositoryName::new(OCTO_WIDGETS).unwrap(), &[worker]).unwrap();
    policy.source.as_str().replace("\"max_claims\":1", &format!("\"max_claims\":{claims}"))
}

/// What `wq init` writes, with agents that do what a script says, and the setting's changes.
fn written(setting: &Setting) -> Vec<(String, String)> {
    let folder = tempfile::tempdir().unwrap();
    let action = format!("{ACTION}@{}", "0".repeat(40));
    let wrote = Command::new(env!("CARGO_BIN_EXE_wq"))
        .args(["init", "--action-ref", &action, "--dir"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(wrote.status.success(), "{wrote:?}");
    let read = |path: &str| (path.to_owned(), fs::read_to_string(folder.path().join(path)).unwrap());
    let agent = "#!/usr/bin/env bash\nexec python3 .github/work-queue/agent.py \"$RUNNER_TEMP/agent.json\"\n";
    let mut files = vec![
        read(".github/work-queue/detect.sh"),
        (".github/work-queue/dispatcher.sh".to_owned(), agent.to_owned()),
        (".github/work-queue/worker.sh".to_owned(), agent.to_owned()),
        (".github/work-queue/agent.py".to_owned(), include_str!("../../support/actions/agent.py").to_owned()),
        read(".github/workflows/aw.json"),
        read(".github/workflows/dispatcher.md"),
        read(".github/workflows/dispatcher.lock.yml"),
        read(".github/workflows/worker.md"),
        read(".github/workflows/worker.lock.yml"),
    ];
    let mut replace = |name: &str, from: &str, to: &str| {
        let (_, text) = files.iter_mut().find(|(path, _)| path.ends_with(name)).unwrap();
        assert!(text.contains(from), "{name} has no {from:?}");
        *text = text.replace(from, to);
    };
    replace("aw.json", "\"concurrency\": 4", "\"concurrency\": 32");
    replace("aw.json", "\"backoff_seconds\": 60", "\"backoff_seconds\": 1");
    if setting.budget > 1 {
        let budget = setting.budget;
        replace("dispatcher.lock.yml", "_BUDGET: \"1\"", &format!("_BUDGET: \"{budget}\""));
        replace("dispatcher.lock.yml", "\"max\":1", &format!("\"max\":{budget}"));
    }
    for (name, from, to) in &setting.edits {
        replace(name, from, to);
    }
    files.push((".github/workflows/observer.lock.yml".to_owned(), roles::OBSERVER.to_owned()));
    files.push((".github/work-queue/observer.sh".to_owned(), agent.to_owned()));
    files
}
