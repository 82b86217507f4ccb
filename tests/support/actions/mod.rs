//! Executes workflow files as the runner of Actions does, against the simulated GitHub and real Git: jobs in the order of
//! their needs, conditions and expressions by GitHub's own packages, environment files, outputs, artifacts that move
//! between jobs, a token for each job with the permissions that the job declares.
//!
//! Every job sees a `/tmp/gh-aw` of its own: its steps run in a mount namespace in which a folder of the job lies there.

#![allow(dead_code, reason = "each test uses its own part")]

mod artifacts;
mod job;
pub(crate) mod node;
mod step;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::git::Bare;
use super::github::{Github, OCTO_WIDGETS, Options, Server};
use node::Status;

/// What the action is called by the workflows of a test; any commit is this one.
pub(crate) const ACTION: &str = "octo/wq-action";

/// One step as it ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepRan {
    pub(crate) name: String,
    pub(crate) id: String,
    /// Before `continue-on-error`.
    pub(crate) outcome: String,
    /// After it.
    pub(crate) conclusion: String,
    pub(crate) outputs: Map<String, Value>,
    /// Both streams, one after the other.
    pub(crate) log: String,
}

/// One job as it ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobRan {
    /// `success`, `failure`, `cancelled` or `skipped`.
    pub(crate) result: String,
    pub(crate) outputs: Map<String, Value>,
    pub(crate) steps: Vec<StepRan>,
    /// What the steps appended to the summary.
    pub(crate) summary: String,
    /// `::error::` and `::warning::` lines.
    pub(crate) annotations: Vec<String>,
}

impl JobRan {
    /// A step by id or name.
    pub(crate) fn step(&self, name: &str) -> &StepRan {
        let found = self.steps.iter().find(|step| step.id == name || step.name == name);
        found.unwrap_or_else(|| panic!("no step {name}: {:#?}", self.steps))
    }

    /// An output of a step, as JSON.
    pub(crate) fn json(&self, step: &str, output: &str) -> Value {
        let text = self.step(step).outputs.get(output).and_then(Value::as_str);
        let text = text.unwrap_or_else(|| panic!("step {step} has no output {output}: {:#?}", self.step(step)));
        serde_json::from_str(text).unwrap()
    }
}

/// One attempt of a run as it ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ran {
    pub(crate) run: u64,
    pub(crate) conclusion: String,
    pub(crate) jobs: BTreeMap<String, JobRan>,
    /// Where the run's artifacts are, a folder for each.
    pub(crate) store: PathBuf,
}

impl Ran {
    /// A job by name.
    pub(crate) fn job(&self, name: &str) -> &JobRan {
        self.jobs.get(name).unwrap_or_else(|| panic!("no job {name}: {self:#?}"))
    }

    /// The results of all jobs, for messages.
    pub(crate) fn results(&self) -> Vec<(&str, &str)> {
        self.jobs.iter().map(|(name, job)| (name.as_str(), job.result.as_str())).collect()
    }

    /// Panics with everything unless the run succeeded.
    pub(crate) fn succeeded(&self) -> &Self {
        assert_eq!(self.conclusion, "success", "{self:#?}");
        self
    }
}

/// The moment before a step.
pub(crate) struct Moment<'a> {
    pub(crate) job: &'a str,
    /// Id of the step, or its name.
    pub(crate) step: &'a str,
    /// What lies at `/tmp/gh-aw` for this job.
    pub(crate) files: &'a Path,
    /// `RUNNER_TEMP` of this job.
    pub(crate) temp: &'a Path,
    /// The run's artifacts.
    pub(crate) store: &'a Path,
}

/// What becomes of a run at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It goes on.
    On,
    /// Somebody cancels the run: this step is not executed, and only what waits for `always()` or `cancelled()` is.
    Cancel,
    /// The machine is gone: the job ends here as a failure, and nothing else of it is executed.
    Lose,
    /// The step is executed, and then the machine is gone: the job ends as a failure, without outputs.
    Vanish,
}

/// How an attempt goes.
#[derive(Default)]
pub(crate) struct Plan<'p> {
    /// Jobs that are executed; the others keep what they were in the attempt before.
    pub(crate) only: Option<&'p [&'p str]>,
    /// The attempt before.
    pub(crate) before: Option<&'p Ran>,
    /// Called before each step.
    #[allow(clippy::type_complexity, reason = "one closure")]
    pub(crate) hook: Option<&'p (dyn Fn(&Moment<'_>) -> Turn + Sync)>,
}

/// A GitHub whose workflows can be executed.
pub(crate) struct Host {
    pub(crate) github: Github,
    pub(crate) bare: Arc<Bare>,
    pub(crate) server: Server,
    pub(crate) secrets: Map<String, Value>,
    pub(crate) variables: Map<String, Value>,
    /// The agents of workflows, by workflow name: the text that is executed in place of `.github/work-queue/NAME.sh`.
    work: tempfile::TempDir,
    action: PathBuf,
}

impl Host {
    /// A world behind a server at the machine's time, and the action with the binary under test; none where the packages
    /// are missing, which is told.
    pub(crate) fn new(github: Github, bare: Arc<Bare>) -> Option<Self> {
        if !node::available() {
            super::tell!("not executed: the packages of Actions are not installed, see CONTRIBUTING.md");
            return None;
        }
        github.follow_system_clock();
        let server = github.serve(Options::default());
        github.addresses(server.server_url(), server.api_url());
        let work = tempfile::tempdir().unwrap();
        let action = action_folder(work.path());
        let host = Self { github, bare, server, secrets: Map::new(), variables: Map::new(), work, action };
        fs::create_dir_all("/tmp/gh-aw").unwrap();
        Some(host)
    }

    /// Executes the newest attempt of a run from its beginning to its end.
    pub(crate) fn execute(&self, run: u64) -> Ran {
        self.execute_as(run, &Plan::default())
    }

    /// The same, with tampering, cancellation, or parts of an earlier attempt.
    pub(crate) fn execute_as(&self, run: u64, plan: &Plan<'_>) -> Ran {
        self.github.start_run(run);
        let record = self.github.run(run).unwrap();
        let path = record.path.split('@').next().unwrap();
        let text = self.bare.git(&["show", &format!("{}:{path}", record.head_sha)]);
        let workflow = node::workflow(&text);
        let store = self.work.path().join(format!("artifacts-{run}"));
        if plan.before.is_none() {
            // A whole new attempt begins without the artifacts of the one before.
            let _ = fs::remove_dir_all(&store);
        }
        fs::create_dir_all(&store).unwrap();
        let mut ran = Ran { run, store, ..Ran::default() };
        let mut cancelled = false;
        let jobs = workflow["jobs"].as_object().unwrap();
        while ran.jobs.len() < jobs.len() {
            let ready = jobs.iter().find(|(name, job)| {
                !ran.jobs.contains_key(*name) && needs(job).iter().all(|need| ran.jobs.contains_key(need))
            });
            let (name, job) = ready.expect("the needs of jobs have no cycle");
            let kept = plan.only.is_some_and(|only| !only.contains(&name.as_str()));
            let done = match plan.before.filter(|_| kept) {
                Some(before) => before.job(name).clone(),
                None => job::run(self, &record, &workflow, name, job, &ran, plan, &mut cancelled),
            };
            ran.jobs.insert(name.clone(), done);
        }
        let any = |result: &str| ran.jobs.values().any(|job| job.result == result);
        ran.conclusion = match () {
            () if cancelled => "cancelled",
            () if any("failure") => "failure",
            () if any("cancelled") => "cancelled",
            () => "success",
        }
        .to_owned();
        self.github.complete_run(run, &ran.conclusion);
        ran
    }

    /// Executes every run that waits, oldest first, those that start meanwhile included.
    pub(crate) fn execute_queued(&self) -> Vec<Ran> {
        let mut done = Vec::new();
        while let Some(run) = self.queued().first().copied() {
            done.push(self.execute(run));
        }
        done
    }

    /// Runs that wait.
    pub(crate) fn queued(&self) -> Vec<u64> {
        let waits = |id: &u64| self.github.run(*id).is_some_and(|run| run.latest().status == "queued");
        self.github.runs().into_iter().filter(waits).collect()
    }

    /// A run of a workflow at the default branch's head, waiting.
    pub(crate) fn start(&self, workflow: &str, event: &str, login: &str) -> u64 {
        self.github.new_run(&super::github::NewRun {
            repository: OCTO_WIDGETS,
            workflow,
            event,
            reference: "main",
            actor: self.github.account_id(login),
            title: None,
        })
    }
}

/// The jobs that a job needs.
fn needs(job: &Value) -> Vec<String> {
    match &job["needs"] {
        Value::String(one) => vec![one.clone()],
        Value::Array(several) => several.iter().map(|one| one.as_str().unwrap().to_owned()).collect(),
        _ => Vec::new(),
    }
}

/// A folder with `action.yml`, the launcher and the binary under test, as a release has them. `WQ_DIST` names a folder with
/// binaries and sums that `dist/build.sh` made; without it the test's own binary is taken.
fn action_folder(work: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = work.join("action");
    let dist = folder.join("dist");
    fs::create_dir_all(&dist).unwrap();
    fs::copy(root.join("action.yml"), folder.join("action.yml")).unwrap();
    fs::copy(root.join("dist/run.sh"), dist.join("run.sh")).unwrap();
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let name = format!("wq-linux-{machine}");
    match std::env::var_os("WQ_DIST") {
        Some(built) => {
            for file in [name.as_str(), "SHA256SUMS"] {
                fs::copy(Path::new(&built).join(file), dist.join(file)).unwrap();
            }
        }
        None => {
            fs::hard_link(stripped(), dist.join(&name))
                .or_else(|_| fs::copy(stripped(), dist.join(&name)).map(drop))
                .unwrap();
            let sum = std::process::Command::new("sha256sum").arg(&name).current_dir(&dist).output().unwrap();
            fs::write(dist.join("SHA256SUMS"), sum.stdout).unwrap();
        }
    }
    fs::set_permissions(dist.join(&name), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// The test's own binary without what debuggers want: the launcher hashes it at every step.
fn stripped() -> &'static Path {
    static STRIPPED: std::sync::OnceLock<(tempfile::TempDir, PathBuf)> = std::sync::OnceLock::new();
    let (_, path) = STRIPPED.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wq");
        let binary = env!("CARGO_BIN_EXE_wq");
        let strip = std::process::Command::new("strip").arg("-o").arg(&path).arg(binary).status();
        if !strip.is_ok_and(|status| status.success()) {
            fs::copy(binary, &path).unwrap();
        }
        (folder, path)
    });
    path
}

/// What the needs of a job say about it: the context, and the status functions.
fn of_needs(ran: &Ran, jobs: &Value, job: &Value, cancelled: bool) -> (Value, Status) {
    let mut context = Map::new();
    let mut status = Status { success: true, failure: false, cancelled };
    for need in needs(job) {
        let done = ran.job(&need);
        context.insert(need, json!({"result": done.result, "outputs": done.outputs}));
    }
    // `success()` and `failure()` look at every job before this one, not at the named ones alone.
    let mut open = needs(job);
    let mut seen: Vec<String> = Vec::new();
    while let Some(name) = open.pop() {
        if !seen.contains(&name) {
            let result = ran.job(&name).result.as_str();
            status.success &= result == "success";
            status.failure |= result == "failure";
            open.extend(needs(&jobs[&name]));
            seen.push(name);
        }
    }
    status.success &= !cancelled;
    (Value::Object(context), status)
}
