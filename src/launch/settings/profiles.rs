//! The default Policy of a repository's approved workers (publication.md 4.3 points 4 to 7).

use super::{Settings, apply};
use crate::ledger::proposal::{Worker, default_policy};
use crate::ledger::{Class, LedgerError};
use crate::protocol::RepositoryName;
use crate::protocol::limits::MAX_PROFILES;
use crate::protocol::policy::Policy;
use crate::protocol::{Code, Digest, ProfileName, Revision};

/// A workflow that declares itself a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovedWorker {
    /// Base name of its source, which becomes the name of its profile.
    pub name: ProfileName,
    /// The contract stamp of its compiled file, if that has a valid one.
    pub contract: Option<Digest>,
}

/// The Policy that a repository's declarations make: each approved worker at the verified default revision, the
/// smallest name first, then the settings.
///
/// # Errors
/// `policy_missing` without an approved worker, `policy_invalid` for more than 256, for a repeated name and for an
/// all-zero revision, `settings_invalid` as [`apply`].
pub fn resolve_policy(
    repository: &RepositoryName,
    revision: &Revision,
    workers: &[ApprovedWorker],
    settings: &Settings,
) -> Result<Policy, LedgerError> {
    let invalid = |message: &'static str, action: &'static str| {
        LedgerError::new(Code::PolicyInvalid, Class::Invalid, message, action)
    };
    if workers.is_empty() {
        return Err(LedgerError::new(
            Code::PolicyMissing,
            Class::Invalid,
            "no workflow of the default branch declares itself a worker",
            "Declare tools.work-queue.worker: true in a workflow, compile it and merge it.",
        ));
    }
    if workers.len() > MAX_PROFILES {
        return Err(invalid(
            "more than 256 workflows declare themselves workers",
            "Keep at most 256 workers in one repository.",
        ));
    }
    if revision.as_str().bytes().all(|digit| digit == b'0') {
        return Err(invalid("the default revision names no commit", "Repeat once the default branch has a commit."));
    }
    let mut workers: Vec<Worker> = workers
        .iter()
        .map(|worker| Worker {
            name: worker.name.clone(),
            revision: revision.clone(),
            contract: worker.contract.clone(),
        })
        .collect();
    workers.sort_by(|a, b| a.name.cmp(&b.name));
    if workers.windows(2).any(|pair| pair[0].name == pair[1].name) {
        return Err(invalid("two workers have one name", "Report this; nothing was written."));
    }
    Ok(apply(settings, &default_policy(repository, &workers)?)?)
}
