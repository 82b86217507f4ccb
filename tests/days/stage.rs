//! What all processes of a campaign share: the host, the queue, the weather, the credentials, and what was counted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use serde_json::Value;
use wq_action::engine::state::DispatchPhase;
use wq_action::forge::Request;
use wq_action::ledger::simulated::SimulatedBranch;
use wq_action::protocol::RepositoryName;

use crate::support::github::{Github, JOB, Kind, LAUNCH, OCTO_WIDGETS, worker_lock, worker_source};
use crate::support::ledger::policy;
use crate::support::tell;

/// The host of everything.
pub(crate) const WEB: &str = "github.com";
pub(crate) const BATCH: &str = ".github/workflows/batch.lock.yml";
pub(crate) const DISPATCHER: &str = ".github/workflows/dispatcher.lock.yml";
/// The launch credential's App.
pub(crate) const LAUNCHER: &str = "queue-launcher";

/// What happened, in numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) days: u64,
    pub(crate) steps: u64,
    pub(crate) slices: u64,
    pub(crate) processes: u64,
    pub(crate) commits: u64,
    pub(crate) grants: u64,
    pub(crate) posts: u64,
    pub(crate) bound: u64,
    pub(crate) finishes: u64,
    pub(crate) faults: u64,
    pub(crate) calls: u64,
    pub(crate) compactions: u64,
    pub(crate) replays: u64,
    pub(crate) plans: u64,
    pub(crate) reruns: u64,
    pub(crate) duplicates: u64,
    pub(crate) rotations: u64,
    pub(crate) refused: u64,
    pub(crate) unresolved: u64,
    pub(crate) releases: BTreeMap<String, u64>,
    /// How processes ended.
    pub(crate) ends: BTreeMap<String, u64>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        for (own, more) in [
            (&mut self.days, other.days),
            (&mut self.steps, other.steps),
            (&mut self.slices, other.slices),
            (&mut self.processes, other.processes),
            (&mut self.commits, other.commits),
            (&mut self.grants, other.grants),
            (&mut self.posts, other.posts),
            (&mut self.bound, other.bound),
            (&mut self.finishes, other.finishes),
            (&mut self.faults, other.faults),
            (&mut self.calls, other.calls),
            (&mut self.compactions, other.compactions),
            (&mut self.replays, other.replays),
            (&mut self.plans, other.plans),
            (&mut self.reruns, other.reruns),
            (&mut self.duplicates, other.duplicates),
            (&mut self.rotations, other.rotations),
            (&mut self.refused, other.refused),
            (&mut self.unresolved, other.unresolved),
        ] {
            *own += more;
        }
        for (own, more) in [(&mut self.releases, &other.releases), (&mut self.ends, &other.ends)] {
            for (kind, count) in more {
                *own.entry(kind.clone()).or_default() += count;
            }
        }
    }
}

/// The texts of the two tokens that rotate.
#[derive(Clone, Debug)]
pub(crate) struct Tokens {
    pub(crate) job: String,
    pub(crate) launch: String,
    rotations: u32,
}

/// The shared world.
pub(crate) struct Stage {
    pub(crate) github: Github,
    pub(crate) branch: SimulatedBranch,
    pub(crate) repository: RepositoryName,
    /// The approved revision of the workers.
    pub(crate) revision: String,
    /// The account behind the launch credential.
    pub(crate) launcher: u64,
    /// The Policy that the first submission proposes.
    pub(crate) policy: Value,
    loud: bool,
    git_per_mille: Mutex<u64>,
    tokens: Mutex<Tokens>,
    tally: Mutex<Tally>,
    violations: Mutex<Vec<String>>,
    /// Runs that somebody started by hand with an assignment of another.
    handmade: Mutex<BTreeSet<u64>>,
    /// What processes were told: request and commit.
    answered: Mutex<Vec<(String, String)>>,
}

/// The Policy of the simulated queue: two pools, a single and a batch profile, three accounts.
fn settings(revision: &str) -> Value {
    let mut settings: Value = serde_json::from_str(&policy(true)).unwrap();
    settings["accounting_weights"] = serde_json::json!({"": 1, "a": 2, "b": 3});
    let pool = &mut settings["pools"]["default"];
    pool["allowed_repositories"] = serde_json::json!([OCTO_WIDGETS]);
    pool["logical_limit"] = 9.into();
    pool["native_limit"] = 6.into();
    pool["per_account_limit"] = 6.into();
    pool["retry"] = serde_json::json!({"max_attempts": 3, "backoff_ms": 3_600_000});
    pool["reconciliation"] = serde_json::json!({"max_attempts": 2, "deadline_ms": 300_000});
    let profile = &mut pool["profiles"]["default"];
    profile["ref"] = revision.into();
    profile["effect_scope"] = OCTO_WIDGETS.into();
    let mut batch = profile.clone();
    batch["workflow"] = BATCH.into();
    batch["max_claims"] = 3.into();
    batch["share_keys"] = true.into();
    pool["profiles"]["batch"] = batch;
    let mut slow = pool.clone();
    slow["logical_limit"] = 3.into();
    slow["native_limit"] = 2.into();
    slow.as_object_mut().unwrap().remove("per_account_limit");
    slow["retry"]["max_attempts"] = 2.into();
    settings["pools"]["slow"] = slow;
    settings
}

impl Stage {
    pub(crate) fn new(loud: bool) -> Self {
        let github = Github::standard();
        github.keep_calls(16);
        let contract = "c".repeat(64);
        let files = [
            (".github/workflows/batch.md", Some(worker_source("Batch"))),
            (BATCH, Some(worker_lock("Batch", &contract))),
        ];
        let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_deref())).collect();
        let revision = github.commit(OCTO_WIDGETS, "main", &files);
        github.workflow(OCTO_WIDGETS, BATCH, "Batch");
        let launcher = github.account(&format!("{LAUNCHER}[bot]"), Kind::Bot);
        Self {
            branch: SimulatedBranch::new(),
            repository: RepositoryName::new(OCTO_WIDGETS).unwrap(),
            policy: settings(&revision),
            revision,
            launcher,
            github,
            loud,
            git_per_mille: Mutex::new(0),
            tokens: Mutex::new(Tokens { job: JOB.to_owned(), launch: LAUNCH.to_owned(), rotations: 0 }),
            tally: Mutex::default(),
            violations: Mutex::default(),
            handmade: Mutex::default(),
            answered: Mutex::default(),
        }
    }

    pub(crate) fn log(&self, who: &str, what: &str) {
        if self.loud {
            let ms = self.github.now();
            let (day, rest) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
            let (hour, minute, second) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
            tell!("{:>3} {hour:02}:{minute:02}:{second:02} {who}: {what}", day % 1000);
        }
    }

    pub(crate) fn tally(&self, change: impl FnOnce(&mut Tally)) {
        change(&mut self.tally.lock().unwrap());
    }

    pub(crate) fn counted(&self) -> Tally {
        self.tally.lock().unwrap().clone()
    }

    pub(crate) fn object(&self, what: String) {
        self.violations.lock().unwrap().push(what);
    }

    pub(crate) fn objections(&self) -> Vec<String> {
        std::mem::take(&mut self.violations.lock().unwrap())
    }

    pub(crate) fn git_per_mille(&self) -> u64 {
        *self.git_per_mille.lock().unwrap()
    }

    pub(crate) fn set_git_per_mille(&self, per_mille: u64) {
        *self.git_per_mille.lock().unwrap() = per_mille;
    }

    pub(crate) fn tokens(&self) -> Tokens {
        self.tokens.lock().unwrap().clone()
    }

    /// Replaces a token; the old one is worthless from now on.
    pub(crate) fn rotate(&self, launch: bool) {
        let mut tokens = self.tokens.lock().unwrap();
        tokens.rotations += 1;
        let next = format!("token-{}", tokens.rotations);
        let old = std::mem::replace(if launch { &mut tokens.launch } else { &mut tokens.job }, next.clone());
        self.github.rotate(&old, &next);
        self.tally(|tally| tally.rotations += 1);
        self.log("world", if launch { "the launch token rotates" } else { "the job token rotates" });
    }

    /// Remembers that a process was told where its request is.
    pub(crate) fn answer(&self, request: &str, commit: &str) {
        self.answered.lock().unwrap().push((request.to_owned(), commit.to_owned()));
    }

    pub(crate) fn answers(&self) -> Vec<(String, String)> {
        self.answered.lock().unwrap().clone()
    }

    pub(crate) fn by_hand(&self, run: u64) {
        self.handmade.lock().unwrap().insert(run);
    }

    pub(crate) fn is_handmade(&self, run: u64) -> bool {
        self.handmade.lock().unwrap().contains(&run)
    }

    /// The runs that launches of ours started for a dispatch.
    pub(crate) fn own_runs(&self, dispatch: &str) -> Vec<u64> {
        let mut runs = self.github.runs_of_dispatch(dispatch);
        runs.retain(|run| !self.is_handmade(*run));
        runs
    }

    /// How many runs a listing of a worker has.
    pub(crate) fn listed(&self, workflow: &str) -> usize {
        let runs = self.github.runs();
        let shown = runs.iter().filter_map(|run| self.github.run(*run));
        shown.filter(|run| run.path.split('@').next() == Some(workflow) && run.head_sha == self.revision).count()
    }

    /// A launch is about to be sent: its start marker must be in the queue and name this sender's run.
    pub(crate) fn posting(&self, request: &Request, run: i64) {
        let body: Value = serde_json::from_str(request.body().unwrap_or("")).unwrap_or_default();
        let assignment = body["inputs"]["work_queue_assignment"].as_str().unwrap_or("");
        let assignment: Value = serde_json::from_str(assignment).unwrap_or_default();
        let id = assignment["dispatch_id"].as_str().unwrap_or("");
        let current = self.branch.current();
        let dispatch = current.as_ref().and_then(|current| current.projection.dispatch(id));
        let sender = dispatch.and_then(|dispatch| dispatch.sender.as_ref());
        let ours = sender.and_then(|sender| sender.run_id.as_ref()).is_some_and(|id| id.as_str() == run.to_string());
        let begun = dispatch.is_some_and(|dispatch| dispatch.phase != DispatchPhase::Reserved);
        if !ours || !begun {
            self.object(format!("run {run} posts {id} without a start marker of its own"));
        }
        if self.github.posts_of_dispatch(id) != 0 {
            self.object(format!("run {run} posts {id} a second time"));
        }
        self.tally(|tally| tally.posts += 1);
    }
}
