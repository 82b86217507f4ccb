//! Where the jobs keep their files (jobs.md 8).

use std::path::{Path, PathBuf};

use crate::agent::snapshot::SNAPSHOT_NAME;

/// Folder of everything that jobs hand to one another.
pub const BASE: &str = "/tmp/gh-aw";
/// Names of the files of staged intents.
const INTENTS_NAME: &str = "work-queue.intents.jsonl";
const FINISH_NAME: &str = "work-queue.finish.jsonl";

/// Folder that an agent stages intents in, below the runner's temporary folder.
#[must_use]
pub fn staging_folder(runner_temp: &Path) -> PathBuf {
    runner_temp.join("gh-aw/safeoutputs/work-queue")
}

/// The files of one job. Each variable that is given stands for its file on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// `/tmp/gh-aw`.
    pub base: PathBuf,
    /// The activation snapshot.
    pub snapshot: PathBuf,
    /// The activation snapshot where the conclusion job downloads it to, apart from what the agent's job left.
    pub concluded_snapshot: PathBuf,
    /// The prompt's files.
    pub prompts: PathBuf,
    /// Where the agent's server stages intents.
    pub staged_intents: PathBuf,
    /// Where the agent's server stages finishes.
    pub staged_finish: PathBuf,
    /// The collected intents.
    pub intents: PathBuf,
    /// The collected finishes.
    pub finish: PathBuf,
    /// Spans for an exporter.
    pub spans: PathBuf,
}

impl Paths {
    /// The paths below a base and the runner's temporary folder, with a lookup of variables for those that are moved:
    /// `GH_AW_WORK_QUEUE_SNAPSHOT`, `GH_AW_WORK_QUEUE_INTENTS`, `GH_AW_WORK_QUEUE_FINISH_INTENT`.
    #[must_use]
    pub fn new(base: &Path, runner_temp: &Path, variable: impl Fn(&str) -> Option<PathBuf>) -> Self {
        let moved = |name| variable(name).filter(|path| !path.as_os_str().is_empty());
        let (snapshot, intents) = (moved("GH_AW_WORK_QUEUE_SNAPSHOT"), moved("GH_AW_WORK_QUEUE_INTENTS"));
        let finish = moved("GH_AW_WORK_QUEUE_FINISH_INTENT");
        let staging = staging_folder(runner_temp);
        let or = |moved: &Option<PathBuf>, folder: &Path, name| moved.clone().unwrap_or_else(|| folder.join(name));
        Self {
            snapshot: or(&snapshot, base, SNAPSHOT_NAME),
            concluded_snapshot: or(&snapshot, &runner_temp.join("gh-aw-activation"), SNAPSHOT_NAME),
            prompts: base.join("aw-prompts"),
            staged_intents: or(&intents, &staging, INTENTS_NAME),
            staged_finish: or(&finish, &staging, FINISH_NAME),
            intents: or(&intents, base, INTENTS_NAME),
            finish: or(&finish, base, FINISH_NAME),
            spans: base.join("otel.jsonl"),
            base: base.to_owned(),
        }
    }

    /// The paths of this process: below `/tmp/gh-aw`, and below `RUNNER_TEMP`, or `/tmp` without it.
    #[must_use]
    pub fn of_process() -> Self {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let temp = variable("RUNNER_TEMP").filter(|path| !path.as_os_str().is_empty());
        Self::new(Path::new(BASE), &temp.unwrap_or_else(|| PathBuf::from("/tmp")), variable)
    }
}
