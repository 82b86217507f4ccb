//! `wq collect`.

use std::path::PathBuf;

use super::{Failure, Reply};
use crate::agent::collect::describe;
use crate::jobs::collect;
use crate::jobs::paths::BASE;

/// Exit status when a file was rejected.
const REJECTED: u8 = 2;

/// Collect staged intents after the agent has ended: copy two files out of its reach, or refuse them.
///
/// From gh-aw/safeoutputs/work-queue below RUNNER_TEMP, work-queue.intents.jsonl and work-queue.finish.jsonl: plain files
/// with one name, at most 4 MiB and 256 lines each. They are copied byte for byte; what an earlier step left at the
/// destination is removed first. A missing file is no error. Prints one JSON object,
/// {"files":[{"name","status","reason"?}]} with status collected or rejected.
///
/// Exit status: 0, also when there is nothing to collect; 2 when a file was rejected or RUNNER_TEMP is not set.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder that the files are copied into.
    #[arg(long, value_name = "DIR", default_value = BASE)]
    destination: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<Reply, Failure> {
    let temp = std::env::var_os("RUNNER_TEMP").filter(|temp| !temp.is_empty()).map(PathBuf::from);
    let files = collect::run(temp.as_deref(), &args.destination)?;
    let exit = if files.iter().any(|file| file.rejected.is_some()) { REJECTED } else { 0 };
    Ok(Reply { body: describe(&files), exit })
}
