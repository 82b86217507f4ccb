//! One job of a run at the simulated GitHub, in this process: the environment that the runner gives it, a folder for its
//! files, and what it told the runner.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use wq_action::forge::Client;
use wq_action::jobs::summary::summarized;
use wq_action::jobs::world::is_staged;
use wq_action::jobs::{JobError, Paths, Variables, World};
use wq_action::ports::SimulatedEntropy;
use wq_action::runner::Context;
use wq_action::runner::output::CapturedOutputs;

use super::github::{JOB, OCTO_WIDGETS, Port};
use super::probe::{Probe, Wire};
use super::processes::{HOST, Stage};

/// A job.
pub(crate) struct Job<'s> {
    stage: &'s Stage,
    variables: Vec<(String, String)>,
    payload: Value,
    /// The folder that stands for `/tmp/gh-aw`; `RUNNER_TEMP` is `runner` in it. Shared by the jobs of a run where
    /// artifacts are.
    folder: Arc<tempfile::TempDir>,
    /// What it told the runner.
    pub(crate) outputs: CapturedOutputs,
    /// Its network steps.
    pub(crate) probe: Probe,
}

impl<'s> Job<'s> {
    /// A job of a run, compiled for a role, as the runner starts it in the run's newest attempt.
    pub(crate) fn new(stage: &'s Stage, run: u64, role: &str) -> Self {
        let shown = stage.github.run(run).unwrap();
        let mut payload = json!({"repository": {"id": stage.github.repository_id(OCTO_WIDGETS)}});
        if let Some(assignment) = &shown.assignment {
            payload["inputs"] = json!({"work_queue_assignment": assignment});
        }
        let variables = [
            ("GITHUB_REPOSITORY", OCTO_WIDGETS.to_owned()),
            ("GITHUB_RUN_ID", run.to_string()),
            ("GITHUB_RUN_ATTEMPT", shown.attempts.len().to_string()),
            ("GITHUB_WORKFLOW_REF", format!("{OCTO_WIDGETS}/{}", shown.path)),
            ("GITHUB_SHA", shown.head_sha.clone()),
            ("GITHUB_EVENT_NAME", shown.event.clone()),
            ("GITHUB_ACTOR_ID", shown.actor.to_string()),
            ("GH_AW_WORK_QUEUE_ENABLED", "true".to_owned()),
            ("GH_AW_WORK_QUEUE_ROLE", role.to_owned()),
        ];
        let mut job = Self {
            stage,
            variables: variables.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            payload,
            folder: Arc::new(tempfile::tempdir().unwrap()),
            outputs: CapturedOutputs::default(),
            probe: Probe::default(),
        };
        if role == "worker" {
            job.set("GH_AW_WORK_QUEUE_CONTRACT", stage.contract.as_str());
        }
        job
    }

    /// A later job of the same run: the same environment, and the files of this one as its artifacts.
    pub(crate) fn next(&self) -> Self {
        Self {
            stage: self.stage,
            variables: self.variables.clone(),
            payload: self.payload.clone(),
            folder: Arc::clone(&self.folder),
            outputs: CapturedOutputs::default(),
            probe: Probe::default(),
        }
    }

    /// Sets a variable.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> &mut Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Takes a variable away.
    pub(crate) fn unset(&mut self, name: &str) -> &mut Self {
        self.variables.retain(|(known, _)| known != name);
        self
    }

    /// The event's payload.
    pub(crate) fn payload(&mut self) -> &mut Value {
        &mut self.payload
    }

    /// A preview.
    pub(crate) fn staged(&mut self) -> &mut Self {
        self.set("GH_AW_SAFE_OUTPUTS_STAGED", "true")
    }

    /// The folder of its files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its files.
    pub(crate) fn paths(&self) -> Paths {
        let variable = |name: &str| {
            let found = self.variables.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| PathBuf::from(value))
        };
        Paths::new(self.folder(), &self.folder().join("runner"), variable)
    }

    /// Runs a mode in this job.
    pub(crate) fn perform<T>(
        &mut self,
        mode: impl FnOnce(&mut World<'_>) -> Result<T, JobError>,
    ) -> Result<T, JobError> {
        let (stage, paths) = (self.stage, self.paths());
        let variables = Variables::new(self.variables.iter().cloned());
        let context = Context::new(self.variables.iter().cloned(), Some(self.payload.to_string()))?;
        let wire = Wire {
            port: Port::new(&stage.github, JOB, &stage.clock),
            github: stage.github.clone(),
            probe: self.probe.clone(),
        };
        let entropy = SimulatedEntropy::new(11);
        let mut ledger = stage.ledger(&self.probe);
        let mut world = World {
            context: &context,
            client: Client::new(&wire, &*stage.clock),
            ledger: &mut ledger,
            clock: &*stage.clock,
            entropy: &entropy,
            outputs: &mut self.outputs,
            paths: &paths,
            variables: &variables,
            staged: is_staged(&variables),
            host: HOST,
            repository: context.repository(),
        };
        summarized(&mut world, mode)
    }
}
