//! The Policy that a repository's own files make (publication.md 4.3, operator-cli.md 9): settings, declared workers and
//! their stamps, all at the verified default revision.

use super::default_revision::{DefaultRevision, default_revision};
use super::inspect::{WORKFLOWS, stamp};
use super::{Defect, LockFile, SourceFile};
use crate::forge::{Client, ForgeError};
use crate::launch::error::LaunchError;
use crate::launch::settings::{ApprovedWorker, MAX_FILE_BYTES, SETTINGS_FILE, Settings, parse, resolve_policy};
use crate::ledger::{Class, LedgerError};
use crate::protocol::fault::ensure;
use crate::protocol::limits::MAX_PROFILES;
use crate::protocol::policy::Policy;
use crate::protocol::{Code, Fault, ProfileName, RepositoryName, Revision};

/// Entries of a listing from which on it cannot be known to be complete.
const MAX_ENTRIES: usize = 1000;

/// What a repository's files at its default revision came to.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// Where everything was read.
    pub default: DefaultRevision,
    /// The settings, defaults filled in.
    pub settings: Settings,
    /// The declared workers, by name.
    pub workers: Vec<ApprovedWorker>,
    /// The Policy that they make.
    pub policy: Policy,
}

/// Reads settings and workers at the verified default revision and makes the Policy of them. Registrations are not
/// looked at, and a worker without a valid stamp has no contract.
///
/// # Errors
/// As [`default_revision`]; `policy_missing` without a declared worker, for a folder of 1,000 entries or more, and for a
/// source that cannot be read; `policy_invalid` for more than 256 workers; `settings_invalid`; whatever a lookup fails
/// with, unchanged but for the name of the settings file.
pub fn resolve(client: Client<'_>, repository: &RepositoryName) -> Result<Resolved, LaunchError> {
    let default = default_revision(client, repository)?;
    let files = Files { client, repository, revision: &default.revision };
    let settings = files.settings()?;
    let names = files.workers()?;
    // The stamps of too many workers are not read; their number is refused below.
    let stamped = names.len() <= MAX_PROFILES;
    let contract = |name: &ProfileName| if stamped { files.contract(name) } else { Ok(None) };
    let workers: Vec<ApprovedWorker> = names
        .into_iter()
        .map(|name| Ok(ApprovedWorker { contract: contract(&name)?, name }))
        .collect::<Result<_, LaunchError>>()?;
    let policy = resolve_policy(repository, &default.revision, &workers, &settings)?;
    tracing::debug!(workers = workers.len(), pools = policy.pools.len(), "policy resolved");
    Ok(Resolved { default, settings, workers, policy })
}

/// The files of one revision.
struct Files<'a> {
    client: Client<'a>,
    repository: &'a RepositoryName,
    revision: &'a Revision,
}

impl Files<'_> {
    fn settings(&self) -> Result<Settings, LaunchError> {
        let found = self.client.file(self.repository, self.revision, SETTINGS_FILE, MAX_FILE_BYTES as u64);
        match found.map_err(|error| named(SETTINGS_FILE, &error))? {
            None => Ok(Settings::default()),
            Some(Ok(bytes)) => Ok(parse(&bytes).map_err(Fault::from)?),
            Some(Err(_)) => {
                let message = format!("{SETTINGS_FILE} is no regular file of at most 1 MiB with readable content");
                Err(Fault::new(Code::PolicyMissing, message).into())
            }
        }
    }

    /// Names of the sources that declare themselves workers, sorted.
    fn workers(&self) -> Result<Vec<ProfileName>, LaunchError> {
        let missing = |message: &'static str| Fault::new(Code::PolicyMissing, message);
        let listed = self.client.directory(self.repository, self.revision, WORKFLOWS)?;
        let listed = listed.ok_or_else(|| missing("the default branch has no folder of workflows"))?;
        ensure!(
            listed.len() < MAX_ENTRIES,
            PolicyMissing,
            "the folder of workflows has 1000 entries or more, and the host may not list them all"
        );
        let mut names = Vec::new();
        let mut paths: Vec<&str> = listed.iter().map(|entry| entry.path.as_str()).collect();
        paths.sort_unstable();
        for path in paths {
            let name = path.strip_prefix(WORKFLOWS).and_then(|rest| rest.strip_prefix('/'));
            let Some(name) = name.and_then(|name| name.strip_suffix(".md")).filter(|name| !name.contains('/')) else {
                continue;
            };
            if self.declares_worker(path)? {
                let valid = ProfileName::new(name).ok().filter(|_| super::allowlist::is_workflow_name(name));
                let message = || format!("{} is no name of a worker", shown(path));
                names.push(valid.ok_or_else(|| Fault::new(Code::PolicyInvalid, message()))?);
            }
        }
        Ok(names)
    }

    fn declares_worker(&self, path: &str) -> Result<bool, LaunchError> {
        let refuse = |why: &str| Fault::new(Code::PolicyMissing, format!("{}: {why}", shown(path)));
        match self.client.file(self.repository, self.revision, path, MAX_FILE_BYTES as u64)? {
            None => Err(refuse("the source workflow is missing").into()),
            Some(Err(_)) => {
                Err(refuse("the source workflow is no regular file of at most 1 MiB with readable content").into())
            }
            Some(Ok(bytes)) => match SourceFile::read(&bytes) {
                Ok(source) => Ok(source.is_worker()),
                // A text without front matter, such as a read-me, declares nothing.
                Err(Defect::FrontMatterMissing) if !bytes.starts_with(b"---") => Ok(false),
                Err(defect) => Err(refuse(defect.sentence()).into()),
            },
        }
    }

    /// The stamp of a worker's compiled file; none if it has no valid one.
    fn contract(&self, name: &ProfileName) -> Result<Option<crate::protocol::Digest>, LaunchError> {
        let path = format!("{WORKFLOWS}/{}.lock.yml", name.as_str());
        let found = self.client.file(self.repository, self.revision, &path, MAX_FILE_BYTES as u64)?;
        let lock = found.and_then(Result::ok).and_then(|bytes| LockFile::read(&bytes).ok());
        Ok(lock.and_then(|lock| stamp(&lock).ok()))
    }
}

/// A failed lookup, with the file that it was for.
fn named(file: &'static str, error: &ForgeError) -> LaunchError {
    let error = LedgerError::from(LaunchError::Forge(error.clone()));
    let class: Class = error.class();
    let named = LedgerError::new(error.code(), class, format!("{file}: {}", error.message()), error.action());
    LaunchError::Ledger(named.with_status(error.status()))
}

/// A path of the repository as far as it can be shown.
fn shown(path: &str) -> &str {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'/' | b'-');
    if path.len() <= 256 && path.bytes().all(plain) { path } else { "a source workflow" }
}
