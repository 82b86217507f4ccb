//! The queue's part of the safe outputs, in this process: settle, controls and deliver of runs at the simulated GitHub.

mod binary;
mod controls;
mod deliver;
mod faults;
mod hostile;
mod settle;
mod worker_controls;

use std::cell::RefCell;

use serde_json::{Value, json};
use wq_action::forge::Forge;
use wq_action::jobs::readers::Connect;
use wq_action::jobs::safe_outputs::{PHASES, Phase, run};
use wq_action::jobs::{JobError, activation};
use wq_action::launch::grant::Ask;
use wq_action::ledger::proposal::read_policy;
use wq_action::protocol::assignment::Assignment;
use wq_action::protocol::commit::FrozenRequest;
use wq_action::protocol::policy::Policy;
use wq_action::protocol::{PoolName, RequestId, Token};

use crate::support::github::{LAUNCH, Port};
use crate::support::jobs::Job;
use crate::support::probe::{Probe, Wire};
use crate::support::processes::{Shift, Stage, publish};

/// Ways to the simulated host for credentials of the test's choice; remembers which were taken up.
pub(crate) struct Ports<'s> {
    stage: &'s Stage,
    probe: Probe,
    /// Tokens that may be asked for.
    known: Vec<&'static str>,
    /// Those that were.
    pub(crate) taken: RefCell<Vec<&'static str>>,
}

impl<'s> Ports<'s> {
    pub(crate) fn new(stage: &'s Stage, probe: &Probe) -> Self {
        let known = vec![LAUNCH, crate::support::github::JOB, crate::support::github::WRITER];
        Self { stage, probe: probe.clone(), known, taken: RefCell::default() }
    }
}

impl Connect for Ports<'_> {
    fn connect<'s>(&'s self, token: &Token) -> Result<Box<dyn Forge + 's>, JobError> {
        let text = self.known.iter().find(|known| Token::new(**known).unwrap() == *token).unwrap();
        self.taken.borrow_mut().push(text);
        Ok(Box::new(Wire {
            port: Port::new(&self.stage.github, text, &self.stage.clock),
            github: self.stage.github.clone(),
            probe: self.probe.clone(),
        }))
    }
}

/// The Policy of the stage, with assignments of up to this many Claims.
fn policy(stage: &Stage, most: usize) -> Policy {
    let text = stage.policy().source.as_str().replace("\"max_claims\":1", &format!("\"max_claims\":{most}"));
    read_policy(&text).unwrap()
}

/// A producer's submission of independent nodes with these payloads.
fn submission(stage: &Stage, id: &str, payloads: &[&str]) -> FrozenRequest {
    let plain = stage.submission(id, payloads.len());
    let mut parameters: Value = serde_json::from_str(plain.parameters.as_str()).unwrap();
    for (node, payload) in parameters["nodes"].as_array_mut().unwrap().iter_mut().zip(payloads) {
        node["payload"] = serde_json::from_str(payload).unwrap();
    }
    let text = crate::support::ledger::canonical(&parameters.to_string());
    FrozenRequest::new(plain.id, plain.kind, plain.actor, &text).unwrap()
}

/// A payload without writes.
pub(crate) const NO_WRITES: &str = r#"{"effect_contract":{"kind":"none"},"task":"look"}"#;
/// A payload whose worker is to plan one follow-up.
pub(crate) const PLANS: &str =
    r#"{"effect_contract":{"outputs":[{"max":2,"min":1,"type":"work_queue_submit"}],"version":1},"task":"plan"}"#;
/// A payload whose worker is to write an Issue.
pub(crate) const WRITES: &str =
    r#"{"effect_contract":{"outputs":[{"max":1,"min":1,"type":"create_issue"}],"version":1},"task":"write"}"#;

/// A worker's run with one assignment of so many Claims, activated.
pub(crate) struct Worker<'s> {
    pub(crate) stage: &'s Stage,
    pub(crate) run: u64,
    pub(crate) assignment: Assignment,
    /// The job of activation; later ones share its files.
    pub(crate) job: Job<'s>,
}

/// Submits these payloads, grants them as one assignment, launches its worker and activates it.
pub(crate) fn worker<'s>(stage: &'s Stage, payloads: &[&str]) -> Worker<'s> {
    let worker = launched(stage, payloads);
    let mut job = worker.job.next();
    job.perform(activation::run).unwrap();
    worker
}

/// The same before activation.
pub(crate) fn launched<'s>(stage: &'s Stage, payloads: &[&str]) -> Worker<'s> {
    let shift = stage.shift();
    let mut process = stage.process(&shift);
    let request = submission(stage, "first", payloads);
    publish(&mut process.ledger, &request, Some(&policy(stage, 16))).unwrap();
    let run = grant(stage, &shift, "grant-1", payloads.len());
    let assignment = stage.assignment_of(run);
    assert_eq!(assignment.claims.len(), payloads.len());
    Worker { stage, run, assignment, job: Job::new(stage, run, "worker") }
}

/// Grants so many Claims as one dispatch and launches it; returns its run.
pub(crate) fn grant(stage: &Stage, shift: &Shift, id: &str, claims: usize) -> u64 {
    let ask = Ask {
        request_id: RequestId::new(id).unwrap(),
        actor: shift.actor.clone(),
        pool: PoolName::new("default").unwrap(),
        max_claims: claims as i64,
        max_dispatches: 1,
        worker_profiles: None,
        run_budget: 16,
        remaining: 16,
        run_number: shift.number,
    };
    let granted = stage.process(shift).launching(|launcher| launcher.grant(&ask, None, None)).unwrap();
    assert_eq!(granted.launches.len(), 1, "{granted:?}");
    let run = stage.github.runs_of_dispatch(granted.launches[0].dispatch_id.as_str())[0];
    stage.github.start_run(run);
    run
}

impl<'s> Worker<'s> {
    /// The safe_outputs job of this run: same files, fresh outputs.
    pub(crate) fn safe_outputs(&self) -> Job<'s> {
        self.job.next()
    }

    /// Writes the collected finishes.
    pub(crate) fn finishes(&self, lines: &[Value]) -> &Self {
        self.file("work-queue.finish.jsonl", lines)
    }

    /// Writes the collected intents.
    pub(crate) fn intents(&self, lines: &[Value]) -> &Self {
        self.file("work-queue.intents.jsonl", lines)
    }

    /// Writes one file of lines.
    pub(crate) fn file(&self, name: &str, lines: &[Value]) -> &Self {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(self.job.folder().join(name), text).unwrap();
        self
    }

    /// The states of the Claims, in the order of the assignment: finish and delivery.
    pub(crate) fn claims(&self) -> Vec<(&'static str, &'static str)> {
        let queue = self.stage.queue();
        let states = self.assignment.claims.iter().map(|member| {
            let claim = queue.projection.claim(member.claim_id.as_str()).unwrap();
            (claim.status.as_str(), queue.projection.work_of(claim).barrier().as_str())
        });
        states.collect()
    }
}

/// Names the file of the agent's messages and writes it.
pub(crate) fn put_out(job: &mut Job<'_>, items: &[Value]) {
    let path = job.folder().join("agent_output.json");
    std::fs::write(&path, json!({"items": items}).to_string()).unwrap();
    job.set("GH_AW_AGENT_OUTPUT", path.to_str().unwrap());
}

/// A finish line.
pub(crate) fn finish(id: &str, handle: Option<&str>, outcome: &str) -> Value {
    let mut line = json!({"version": 3, "intent_id": id, "kind": "finish", "parameters": {"outcome": outcome}});
    if let Some(handle) = handle {
        line["claim_handle"] = handle.into();
    }
    line
}

/// A submission of one node.
pub(crate) fn submit(id: &str, handle: Option<&str>, key: &str) -> Value {
    let node = json!({"node_key": key, "payload": {"task": key}});
    let mut line = json!({"version": 3, "intent_id": id, "kind": "submit", "parameters": {"nodes": [node]}});
    if let Some(handle) = handle {
        line["claim_handle"] = handle.into();
    }
    line
}

/// A request for so many groups of one Claim.
pub(crate) fn dispatch_next(id: &str, groups: i64) -> Value {
    let parameters = json!({"pool": "default", "max_claims": groups, "max_dispatches": groups});
    json!({"version": 3, "intent_id": id, "kind": "dispatch_next", "parameters": parameters})
}

/// The protected configuration of controls, with a launch credential.
pub(crate) fn control_config() -> String {
    json!({"work_queue_enabled": true, "work_queue_workflows": ["worker"], "aw_context_workflows": ["worker"],
        "github-token": LAUNCH, "max": 4,
        "work_queue_dispatch_credential": {"kind": "github_app", "app_slug": "queue-launcher"}})
    .to_string()
}

/// Runs one phase of a job.
pub(crate) fn phase(stage: &Stage, job: &mut Job<'_>, phase: Phase) -> Result<(), JobError> {
    phases(stage, job, &[phase])
}

/// Runs all phases of a job.
pub(crate) fn all(stage: &Stage, job: &mut Job<'_>) -> Result<(), JobError> {
    phases(stage, job, &PHASES)
}

fn phases(stage: &Stage, job: &mut Job<'_>, phases: &[Phase]) -> Result<(), JobError> {
    let ports = Ports::new(stage, &job.probe);
    job.perform(|world| run(world, &ports, phases))
}

/// An output of a job, as JSON.
pub(crate) fn output(job: &Job<'_>, name: &str) -> Value {
    let text = job.outputs.output(name).unwrap_or_else(|| panic!("there is no output {name}"));
    serde_json::from_str(text).unwrap()
}

/// The operations that the ledger holds, by kind, in order.
pub(crate) fn operations(stage: &Stage, kind: &str) -> Vec<Value> {
    let text = stage.text();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let all = lines.flat_map(|line| line["operations"].as_array().unwrap().clone());
    all.filter(|operation| operation["kind"] == kind).collect()
}
