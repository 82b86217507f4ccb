//! `wq activation`.

use super::{Failure, Global, Reply};
use crate::jobs::{activation, perform};
use crate::protocol::json::Writer;

/// Check what this run is, bind a worker's run, and capture the queue for the later jobs (the activation job).
///
/// Reads the run, the role, the assignment and the credentials from the job's environment. Writes the snapshot, at most
/// 162 MiB, and for a worker the prompt's blocks, at most 512 KiB, beside it; sets the outputs work_queue_origin, at most
/// 4 KiB, and work_queue_prompt, the path of the blocks. On any failure no file is written and no output set. To the queue it writes a
/// worker's own binding and nothing else, and nothing at all when GH_AW_SAFE_OUTPUTS_STAGED is true.
///
/// Variables, beside the runner's own: GH_AW_WORK_QUEUE_ROLE (observer, dispatcher or worker; by default worker with an
/// assignment and dispatcher without one), GH_AW_WORK_QUEUE_TOKEN, else GH_TOKEN, else GITHUB_TOKEN (at most 16,384
/// characters), GH_AW_WORK_QUEUE_SNAPSHOT (by default /tmp/gh-aw/work-queue.snapshot.json), GH_AW_WORK_QUEUE_CONTRACT
/// (64 hexadecimal digits, of a worker), GH_AW_WORK_QUEUE_POLICY (or numbered parts of it, 1 to 256 of at most 128 KiB each,
/// 4 MiB in all; none by default), GH_AW_WORK_QUEUE_REQUIRE_ASSIGNMENT (true or absent) and GH_AW_WORK_QUEUE_VISIBLE_WORK (a
/// JSON array of Work ids; all by default). The event payload has at most 32 MiB.
///
/// Exit 2 for a wrong environment, 3 for an invalid queue, 4 if it is denied, 5 if a binding is not known, 7 if the host
/// cannot be reached.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(global: &Global, _args: &Args) -> Result<Reply, Failure> {
    let done = perform(&global.branch, |_, world| activation::run(world))?;
    if !global.json {
        return Ok(Reply::done(format!("activated as {}\n", done.role.as_str())));
    }
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("bytes", |w| w.integer(done.bytes as i64));
        members.name("commits", |w| match done.commits {
            Some(commits) => w.integer(commits as i64),
            None => w.raw("null"),
        });
        members.name("role", |w| w.string(done.role.as_str()));
    });
    Ok(Reply::done(writer.finish()))
}
