//! Runs: their attempts, and what they looked like some changes ago.

use std::sync::Arc;

use super::world::World;

/// One attempt.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) triggering_actor: u64,
    /// `queued`, `in_progress`, `completed`, …
    pub(crate) status: String,
    pub(crate) conclusion: Option<String>,
    pub(crate) started_at: i64,
    pub(crate) updated_at: i64,
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) id: u64,
    pub(crate) repository: u64,
    pub(crate) workflow: u64,
    pub(crate) number: u64,
    pub(crate) event: String,
    pub(crate) head_sha: String,
    pub(crate) head_branch: Option<String>,
    /// `.github/workflows/worker.lock.yml@refs/tags/…`.
    pub(crate) path: String,
    pub(crate) actor: u64,
    /// The run name, once it is populated.
    pub(crate) title: String,
    /// The workflow's name, shown until then.
    pub(crate) name: String,
    pub(crate) created_at: i64,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) cancel_requested: bool,
    /// The assignment that the run was started with, as sent.
    pub(crate) assignment: Option<String>,
    /// Its dispatch id.
    pub(crate) dispatch_id: Option<String>,
}

impl Run {
    /// The newest attempt; there is always one.
    pub(crate) fn latest(&self) -> &Attempt {
        &self.attempts[self.attempts.len() - 1]
    }

    /// True when the newest attempt is completed.
    pub(crate) fn completed(&self) -> bool {
        self.latest().status == "completed"
    }
}

/// What was so at a version of the world, newest last.
pub(super) struct Record {
    history: Vec<(u64, Arc<Run>)>,
    /// How many reads still show the title unpopulated.
    pub(super) untitled: u32,
}

impl World {
    /// Adds a run.
    pub(super) fn insert_run(&mut self, run: Run) {
        self.version += 1;
        let record = Record { untitled: self.title_lag, history: vec![(self.version, Arc::new(run))] };
        self.runs.insert(record.history[0].1.id, record);
    }

    /// The run as it is, or as it was `stale` changes ago.
    pub(super) fn run(&self, id: u64, stale: u64) -> Option<Arc<Run>> {
        let version = self.version.saturating_sub(stale);
        let history = &self.runs.get(&id)?.history;
        history.iter().rev().find(|(at, _)| *at <= version).map(|(_, run)| Arc::clone(run))
    }

    /// Changes a run; a test names only runs that exist.
    pub(super) fn change_run(&mut self, id: u64, change: impl FnOnce(&mut Run, i64)) {
        let now = self.now();
        self.version += 1;
        let record = self.runs.get_mut(&id).expect("the simulated GitHub has no such run");
        let mut run = Run::clone(&record.history[record.history.len() - 1].1);
        change(&mut run, now);
        if let Some(attempt) = run.attempts.last_mut() {
            attempt.updated_at = now;
        }
        record.history.push((self.version, Arc::new(run)));
    }
}
