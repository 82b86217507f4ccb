//! The verified default revision (publication.md 4.2): where worker code comes from, whatever a caller ran at.

use crate::forge::endpoint::REF;
use crate::forge::{Client, Failure, ForgeError};
use crate::launch::error::LaunchError;
use crate::protocol::fault::ensure;
use crate::protocol::{Code, Fault, RepositoryName, Revision};

/// The head of a repository's default branch, as the host told it a moment ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultRevision {
    /// Name of the branch, without `refs/heads/`.
    pub branch: String,
    /// Its commit, never all zeros.
    pub revision: Revision,
}

/// Reads the default branch and its commit, before any file is read.
///
/// # Errors
/// `policy_invalid` where the records are not those of exactly this repository and branch; whatever a lookup fails with,
/// unchanged.
pub fn default_revision(client: Client<'_>, repository: &RepositoryName) -> Result<DefaultRevision, LaunchError> {
    let branch = default_branch(client, repository)?;
    let malformed = || Fault::new(Code::PolicyInvalid, "the default branch's record is not what it should be");
    let found = match client.reference(repository, &format!("heads/{branch}")) {
        Ok(Some(found)) => found,
        Ok(None) => return Err(ForgeError::new(&REF, Failure::NotFound).into()),
        Err(error) if *error.failure() == Failure::Reply => return Err(malformed().into()),
        Err(error) => return Err(error.into()),
    };
    let exact = found.name.strip_prefix("refs/heads/") == Some(branch.as_str()) && found.object.kind == "commit";
    ensure!(exact && !is_null(&found.object.sha), PolicyInvalid, malformed().message().to_owned());
    Ok(DefaultRevision { branch, revision: found.object.sha })
}

/// Name of a repository's default branch, which a repository without branches has too.
///
/// # Errors
/// `policy_invalid` for another repository's record and for a name that is not taken here; or the failed lookup.
pub fn default_branch(client: Client<'_>, repository: &RepositoryName) -> Result<String, LaunchError> {
    let found = client.repository(repository)?;
    let same = found.full_name.eq_ignore_ascii_case(repository.as_str());
    ensure!(same, PolicyInvalid, "the host answers with another repository than the one that was asked for");
    let unusable = || Fault::new(Code::PolicyInvalid, "the repository has no default branch of a usable name");
    Ok(found.default_branch.filter(|name| is_branch_name(name)).ok_or_else(unusable)?)
}

/// `^[A-Za-z0-9][A-Za-z0-9._/-]*$` without `..`.
fn is_branch_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'/' | b'-'))
        && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        && !name.contains("..")
}

/// True for the all-zero revision, which names no commit.
pub(super) fn is_null(revision: &Revision) -> bool {
    revision.as_str().bytes().all(|digit| digit == b'0')
}
