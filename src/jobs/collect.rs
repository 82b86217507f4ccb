//! `collect`: takes staged intents from where the agent wrote them to where trusted jobs look (jobs.md 4.12).

use std::path::Path;

use super::paths::staging_folder;
use crate::agent::collect::{Collected, collect};
use crate::protocol::{Code, Fault};

/// Collects both files below a runner's temporary folder into another folder.
///
/// # Errors
/// `work_queue_collection_runner_temp_missing` without a temporary folder; nothing was touched then.
pub fn run(runner_temp: Option<&Path>, destination: &Path) -> Result<Vec<Collected>, Fault> {
    let temp = runner_temp.ok_or_else(|| Fault::from(Code::WorkQueueCollectionRunnerTempMissing))?;
    Ok(collect(&staging_folder(temp), destination))
}
