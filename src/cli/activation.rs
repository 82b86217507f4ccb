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
