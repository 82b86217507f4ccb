//! The scripts of the examples, run as an agent job would run them, with a stand-in for the queue's tools that writes
//! down what it is asked. What they ask for is then given to a real queue.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{ACTION, TEMPLATES};
use crate::support::cli::{Ran, run};
use crate::tree;

/// A place with a template's files, a queue's stand-in, and a clock that can be set.
struct Job {
    directory: tempfile::TempDir,
}

impl Job {
    fn new(template: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(run(path, &["init", "--action-ref", ACTION, "--template", template]).code, 0);
        std::fs::create_dir(path.join("bin")).unwrap();
        let job = Self { directory };
        job.tool("work-queue", "printf '%s\\n%s\\n' \"$1\" \"$2\" >>calls");
        job.tool("date", "if [ \"$*\" = \"-u +%F\" ]; then echo \"$DAY\"; else exec /bin/date \"$@\"; fi");
        job
    }

    fn tool(&self, name: &str, body: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.path().join("bin").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn script(&self, name: &str, variables: &[(&str, &str)]) -> Ran {
        let search = format!("{}:{}", self.path().join("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command.arg(format!(".github/work-queue/{name}.sh")).current_dir(self.path()).env_clear();
        command.env("PATH", search).env("GITHUB_RUN_ID", "42").envs(variables.iter().copied());
        Ran::of(command.output().unwrap())
    }

    /// The calls of the queue's tools so far: name and arguments.
    fn calls(&self) -> Vec<(String, Value)> {
        let text = std::fs::read_to_string(self.path().join("calls")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines.chunks(2).map(|call| (call[0].to_owned(), serde_json::from_str(call[1]).unwrap())).collect()
    }

    /// What the dispatcher submits on a day, and what it asks for.
    fn plan(&self, name: &str, day: &str) -> (Vec<Value>, Value) {
        let _ = std::fs::remove_file(self.path().join("calls"));
        let ran = self.script(name, &[("DAY", day)]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let calls = self.calls();
        let of =
            |tool: &str| calls.iter().find(|(name, _)| name == tool).map(|(_, arguments)| arguments.clone()).unwrap();
        (of("work_queue_submit")["nodes"].as_array().unwrap().clone(), of("work_queue_dispatch_next"))
    }
}

/// A Policy with these profiles, as a repository's files would make it.
fn policy(profiles: &[&str]) -> Value {
    let mut policy: Value =
        serde_json::from_str(&std::fs::read_to_string(tree::root().join("examples/policy.json")).unwrap()).unwrap();
    let pool = &mut policy["pools"]["default"];
    let template = pool["profiles"].as_object().unwrap().values().next().unwrap().clone();
    let named = profiles.iter().map(|name| {
        let mut profile = template.clone();
        profile["workflow"] = json!(format!(".github/workflows/{name}.lock.yml"));
        profile["max_claims"] = json!(1);
        profile["share_keys"] = json!(false);
        ((*name).to_owned(), profile)
    });
    pool["profiles"] = Value::Object(named.collect());
    pool["default_profile"] = json!(profiles[0]);
    policy
}

/// Submits nodes to a fresh queue and grants what was asked for: the profile and Claims of each dispatch.
fn grant(job: &Job, profiles: &[&str], nodes: &[Value], asked: &Value) -> Vec<(String, usize)> {
    let path = job.path();
    let git = Command::new("git").args(["init", "--quiet", "--bare", "queue.git"]).current_dir(path).status().unwrap();
    assert!(git.success());
    std::fs::write(path.join("nodes.json"), Value::from(nodes.to_vec()).to_string()).unwrap();
    std::fs::write(path.join("policy.json"), policy(profiles).to_string()).unwrap();
    let submit = run(
        path,
        &["submit-graph", "--remote", "queue.git", "--file", "nodes.json", "--policy", "policy.json", "--json"],
    );
    assert_eq!(submit.code, 0, "{submit:?}");
    let (claims, dispatches) = (asked["max_claims"].to_string(), asked["max_dispatches"].to_string());
    let flags = ["dispatch-next", "--remote", "queue.git", "--max-claims", &claims, "--max-dispatches", &dispatches];
    let granted = run(path, &[&flags[..], &["--json"]].concat()).json(0);
    let assignments = granted["assignments"].as_array().unwrap().iter();
    let mut granted: Vec<(String, usize)> = assignments
        .map(|one| (one["worker_profile"].as_str().unwrap().to_owned(), one["claims"].as_array().unwrap().len()))
        .collect();
    granted.sort();
    granted
}

/// O-416, O-417: the linter factory admits three Work for three profiles, each a graph of its own without edges, and a
/// real queue gives each of them a dispatch with one Claim at once: none waits for another.
#[test]
fn the_linter_factory_has_no_chain() {
    let (template, dispatcher, workers) = TEMPLATES[1];
    let job = Job::new(template);
    let (nodes, asked) = job.plan(dispatcher, "2026-10-08");
    let mut profiles: Vec<&str> = nodes.iter().map(|node| node["worker_profile"].as_str().unwrap()).collect();
    profiles.sort_unstable();
    assert_eq!(profiles, workers);
    let graphs: std::collections::BTreeSet<&str> =
        nodes.iter().map(|node| node["graph_id"].as_str().unwrap()).collect();
    assert_eq!(graphs.len(), 3);
    assert!(nodes.iter().all(|node| node.get("depends_on").is_none()));
    let granted = grant(&job, workers, &nodes, &asked);
    let expected: Vec<(String, usize)> = workers.iter().map(|name| ((*name).to_owned(), 1)).collect();
    assert_eq!(granted, expected);
    assert_eq!(job.plan(dispatcher, "2026-10-08").0, nodes, "a repeat on the same day is the same request");
}

/// O-418, S-520: a worker of the linter factory goes through its assignment in order, a failed member stops no later
/// one, and each output and each finish names the Claim that it belongs to.
#[test]
fn outputs_and_finishes_name_their_claim() {
    let job = Job::new(TEMPLATES[1].0);
    std::fs::write(job.path().join("prompt"), "Do it.\n<work-claim handle=\"h1\" claim_id=\"c1\" work_id=\"w1\">\n</work-claim>\n<work-claim handle=\"h2\" claim_id=\"c2\" work_id=\"w2\">\n</work-claim>\n").unwrap();
    let command = "echo '{\"type\":\"noop\",\"message\":\"'$WQ_CLAIM_HANDLE'\"}' >\"$WQ_CLAIM_OUTPUTS\"; test $WQ_CLAIM_HANDLE != h1";
    let variables = [("GH_AW_PROMPT", "prompt"), ("GH_AW_SAFE_OUTPUTS", "outputs"), ("WQ_AGENT_COMMAND", command)];
    for worker in TEMPLATES[1].2 {
        let _ = std::fs::remove_file(job.path().join("calls"));
        let _ = std::fs::remove_file(job.path().join("outputs"));
        let ran = job.script(worker, &variables);
        assert_eq!(ran.code, 0, "{ran:?}");
        let finish = |handle: &str, outcome: &str| {
            ("work_queue_claim_finish".to_owned(), json!({"claim_handle": handle, "outcome": outcome}))
        };
        assert_eq!(job.calls(), [finish("h1", "cancelled"), finish("h2", "completed")]);
        let outputs = std::fs::read_to_string(job.path().join("outputs")).unwrap();
        let handles: Vec<Value> =
            outputs.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["claim_handle"].clone()).collect();
        assert_eq!(handles, ["h1", "h2"]);
    }
    let unset = job.script("miner", &variables[..2]);
    assert_eq!(unset.code, 1);
    assert!(unset.err.contains("WQ_AGENT_COMMAND"));
}

/// O-421, O-422, O-423, O-424: each day three of the ten profiles are chosen, another day others; the three Work share
/// the day's graph and are roots without edges, so a real queue grants all of them at once; no more than 3 Claims and 3
/// dispatches are asked for; and the read-me says what selection, cohorts and the diagram do not promise.
#[test]
fn the_portfolio_chooses_three_of_ten() {
    let (template, dispatcher, profiles) = TEMPLATES[2];
    assert_eq!(profiles.len(), 10);
    let job = Job::new(template);
    let mut chosen = std::collections::BTreeSet::new();
    for day in ["2026-10-08", "2026-10-09", "2026-10-10", "2026-10-11"] {
        let (nodes, asked) = job.plan(dispatcher, day);
        let names: std::collections::BTreeSet<String> =
            nodes.iter().map(|node| node["worker_profile"].as_str().unwrap().to_owned()).collect();
        assert!(names.len() == 3 && names.iter().all(|name| profiles.contains(&name.as_str())));
        chosen.extend(names);
        for node in &nodes {
            assert_eq!(node["graph_id"], format!("reports-{day}"));
            assert!(node.get("depends_on").is_none());
        }
        assert_eq!(asked, json!({"pool": "default", "max_claims": 3, "max_dispatches": 3}));
        if day == "2026-10-08" {
            assert_eq!(grant(&job, profiles, &nodes, &asked).len(), 3);
        }
    }
    assert_eq!(chosen.len(), 10, "every profile has its turn within four days");
    let lock = std::fs::read_to_string(job.path().join(".github/workflows/daily-reports.lock.yml")).unwrap();
    assert!(lock.contains("GH_AW_WORK_QUEUE_DISPATCH_BUDGET: \"3\""));
    let text = std::fs::read_to_string(tree::root().join("examples/daily-report-portfolio/README.md")).unwrap();
    for phrase in ["Selection uses fresh state", "An older cohort may be served first", "It guarantees nothing"] {
        assert!(text.contains(phrase), "{phrase}");
    }
}
