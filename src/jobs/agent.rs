//! What the agent's own modes, `mcp` and `tool`, take from their environment: a role, the place of a snapshot and of two
//! files, and the host's name. No token is among it, and nothing here could use one.

use std::path::{Path, PathBuf};

use super::paths::{BASE, Paths};
use crate::agent::snapshot::Snapshot;
use crate::agent::tools::{Random, Staged, Toolbox};
use crate::forge::Host;
use crate::ports::{Entropy as _, SystemEntropy};
use crate::protocol::json::Scanner;
use crate::protocol::{Code, Fault, RuntimeRole};

/// Where an agent's mode finds what it needs.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The protected, compiled role.
    pub role: RuntimeRole,
    /// The activation snapshot.
    pub snapshot: PathBuf,
    /// The files to stage in.
    pub staged: Staged,
    /// Name of the host of external resources.
    pub host: String,
}

impl Setting {
    /// Takes the role and the places from a job's variables; an empty variable is absent.
    ///
    /// # Errors
    /// `work_queue_runtime_role_invalid` unless the role is one of the three, `settings_invalid` for a host that has no
    /// usable URL.
    pub fn of(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, Fault> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let role = variable("GH_AW_WORK_QUEUE_ROLE").as_deref().and_then(RuntimeRole::parse);
        let role = role.ok_or_else(|| Fault::from(Code::WorkQueueRuntimeRoleInvalid))?;
        let temp = variable("RUNNER_TEMP").unwrap_or_else(|| "/tmp".to_owned());
        let paths = Paths::new(Path::new(BASE), Path::new(&temp), |name| variable(name).map(PathBuf::from));
        let [server, api, graphql] = ["GITHUB_SERVER_URL", "GITHUB_API_URL", "GITHUB_GRAPHQL_URL"].map(variable);
        let host = Host::new(server.as_deref(), api.as_deref(), graphql.as_deref())?;
        Ok(Self {
            role,
            snapshot: paths.snapshot,
            staged: Staged { intents: paths.staged_intents, finish: paths.staged_finish },
            host: host.name().to_owned(),
        })
    }

    /// As [`Setting::of`], from this process's environment.
    ///
    /// # Errors
    /// As [`Setting::of`].
    pub fn of_process() -> Result<Self, Fault> {
        Self::of(&|name| std::env::var(name).ok())
    }

    /// Reads and checks the snapshot, and hands it to the tools.
    ///
    /// # Errors
    /// The code for which the snapshot is refused (jobs.md 3.7); a missing file is refused too.
    pub fn open<'a>(self, random: Random<'a>) -> Result<Toolbox<'a>, Fault> {
        tracing::debug!(target: "work-queue:mcp", "snapshot.load.start");
        let missing = || Fault::new(Code::WorkQueueSnapshotInvalid, "there is no activation snapshot");
        let snapshot = Snapshot::read(&self.snapshot, &self.host)?.ok_or_else(missing)?;
        let bytes = snapshot.log.len();
        let view = snapshot.view(Some(self.role), &mut Scanner::new(&self.host))?;
        let works = view.projection.as_ref().map_or(0, |projection| projection.works().len());
        let (worker, absent) = (view.snapshot.worker.is_some(), view.projection.is_none());
        tracing::debug!(target: "work-queue:mcp", bytes, works, worker, absent, "snapshot.load.complete");
        Ok(Toolbox::new(self.role, view, self.staged, random, &self.host))
    }
}

/// The system's randomness, for ids of intents.
///
/// # Errors
/// `io_failed` when the system has none to give.
pub fn random(buffer: &mut [u8]) -> Result<(), Fault> {
    SystemEntropy.fill(buffer)
}
