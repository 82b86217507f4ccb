//! `wq conclusion`.

use super::{Failure, Global, Reply};
use crate::jobs::{conclusion, perform};

/// Summarise what became of the queue since activation (the conclusion job).
///
/// Reads the activation snapshot, by default from gh-aw-activation below RUNNER_TEMP, at most 162 MiB, and the queue as
/// it stands. Appends counts to the step summary and publishes nothing.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(global: &Global, _args: &Args) -> Result<Reply, Failure> {
    let done = perform(&global.branch, |_, world| conclusion::run(world))?;
    if global.json {
        return Ok(Reply::done(done.json()));
    }
    Ok(Reply::done(format!("{} commits since activation\n", done.commits)))
}
