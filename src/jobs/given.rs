//! What the later jobs of a run were given: the role that was compiled in, and the assignment that activation captured
//! (jobs.md 3.7, 5.1). Files and variables are claims; the ledger and GitHub decide.

use crate::agent::file::{Refused, read_bounded};
use crate::agent::intent::MAX_INTENT_BYTES;
use crate::agent::snapshot::Snapshot;
use crate::protocol::assignment::Assignment;
use crate::protocol::{Code, Fault, RuntimeRole};

use super::error::JobError;
use super::world::World;

/// The one switch of queue handling (decision 41).
const ENABLED: &str = "GH_AW_WORK_QUEUE_ENABLED";
/// Configurations that may ask for a preview.
const CONFIGURATIONS: [&str; 2] = ["GH_AW_SAFE_OUTPUTS_HANDLER_CONFIG", "GH_AW_WORK_QUEUE_CONTROL_CONFIG"];

/// Role and assignment of a run.
#[derive(Clone, Debug)]
pub struct Given {
    /// The role.
    pub role: RuntimeRole,
    /// The original assignment; there for a worker and for nobody else.
    pub assignment: Option<Assignment>,
}

impl Given {
    /// Reads the snapshot and holds it against the compiled role.
    ///
    /// # Errors
    /// `work_queue_snapshot_invalid` for a snapshot that is missing (except an observer's) or malformed; otherwise as
    /// [`Snapshot::view`].
    pub fn read(world: &World<'_>) -> Result<Self, JobError> {
        let compiled = world.context.role()?;
        let Some(snapshot) = Snapshot::read(&world.paths.snapshot, world.host)? else {
            if compiled == Some(RuntimeRole::Observer) {
                return Ok(Self { role: RuntimeRole::Observer, assignment: None });
            }
            return Err(Fault::new(Code::WorkQueueSnapshotInvalid, "the activation snapshot is missing").into());
        };
        let view = snapshot.view(compiled, &mut world.scanner())?;
        Ok(Self { role: view.role, assignment: view.snapshot.worker })
    }
}

/// True if the queue is switched on for this step. A stray role, assignment or snapshot switches nothing on.
#[must_use]
pub fn is_enabled(world: &World<'_>) -> bool {
    world.variables.is_true(ENABLED)
}

/// True in a preview: asked for by the environment, or by a protected configuration of this step.
#[must_use]
pub fn is_staged(world: &World<'_>) -> bool {
    let configured = |name: &&str| {
        let text = world.variables.get(name)?;
        serde_json::from_str::<serde_json::Value>(text).ok()?.get("staged")?.as_bool()
    };
    world.staged || CONFIGURATIONS.iter().any(|name| configured(name) == Some(true))
}

/// A file of staged intents; empty if it is not there.
///
/// # Errors
/// `work_queue_intent_limit` for anything but a plain file of at most 4 MiB.
pub fn staged_file(path: &std::path::Path) -> Result<Vec<u8>, Fault> {
    match read_bounded(path, MAX_INTENT_BYTES) {
        Ok(bytes) => {
            let bytes = bytes.unwrap_or_default();
            tracing::debug!(target: "work-queue:intents", bytes = bytes.len(), "intents.read.complete");
            Ok(bytes)
        }
        Err(Refused::Unreadable) => Err(Fault::new(Code::IoFailed, "a file of staged intents could not be read")),
        Err(_) => Err(Code::WorkQueueIntentLimit.into()),
    }
}
