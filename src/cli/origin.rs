//! `wq origin`.

use super::{Failure, Global, Reply};
use crate::jobs::{origin, perform};

/// State the authenticated run as the requester of the agent's intents (the agent's job, before any step of the author).
///
/// Reads the run, the role, the assignment and the credentials from the job's environment. Sets the output
/// work_queue_origin and the variable GH_AW_WORK_QUEUE_INTENT_ORIGIN, at most 4 KiB each. Writes nothing to the queue.
///
/// Variables, beside the runner's own: GH_AW_WORK_QUEUE_ROLE (observer, dispatcher or worker; by default worker with an
/// assignment and dispatcher without one), GH_AW_WORK_QUEUE_TOKEN, else GH_TOKEN, else GITHUB_TOKEN (at most 16,384
/// characters). The event payload has at most 32 MiB.
///
/// Exit 2 for a wrong environment, 4 if the run is not what it says or is an observer's, 7 if the host cannot be reached.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(global: &Global, _args: &Args) -> Result<Reply, Failure> {
    let actor = perform(&global.branch, |_, world| origin::run(world))?;
    if !global.json {
        return Ok(Reply::done(format!("the requester is this run as {}\n", actor.role.as_str())));
    }
    Ok(Reply::done(format!(r#"{{"role":"{}"}}"#, actor.role.as_str())))
}
