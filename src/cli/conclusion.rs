//! `wq conclusion`.

use super::{Failure, Global, Reply};
use crate::jobs::{conclusion, perform};

/// Summarise what became of the queue since activation (the conclusion job).
///
/// Reads the activation snapshot, by default from gh-aw-activation below RUNNER_TEMP, at most 162 MiB, and the queue as
/// it stands. Appends counts to the step summary and publishes nothing.
///
/// Variables, beside the runner's own: GH_AW_WORK_QUEUE_ROLE (observer, dispatcher or worker; by default worker with an
/// assignment and dispatcher without one), GH_AW_WORK_QUEUE_TOKEN, else GH_TOKEN, else GITHUB_TOKEN (at most 16,384
/// characters), GH_AW_WORK_QUEUE_SNAPSHOT (another path of the snapshot) and GH_AW_WORK_QUEUE_JOB_RESULTS (toJSON(needs), of
/// which the first 32 jobs are shown; none by default).
///
/// Exit 3 if the snapshot or the queue cannot be used, 4 if it is denied, 7 if the host cannot be reached. Whatever fails, the
/// summary says that it is unavailable.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(global: &Global, _args: &Args) -> Result<Reply, Failure> {
    let done = perform(&global.branch, |_, world| conclusion::run(world))?;
    if global.json {
        return Ok(Reply::done(done.json()));
    }
    Ok(Reply::done(format!("{} commits since activation\n", done.commits)))
}
