//! Snapshot tags (lifecycle.md 1.4): the dispatch call takes a reference, and a moving branch is none that can be
//! approved. One lightweight tag a revision, created if it is absent, never moved and never deleted.
//!
//! O-088: there is no call that could move or delete a reference; see `forge/endpoint.rs`.

use crate::forge::{Client, Failure, ForgeError, Tag};
use crate::protocol::{Code, Fault, RepositoryName, Revision};

use super::error::LaunchError;

/// The full name of a revision's snapshot tag.
#[must_use]
pub fn tag_name(revision: &Revision) -> String {
    format!("refs/tags/gh-aw/work-queue/{}", revision.as_str())
}

/// Makes sure that the revision's snapshot tag exists and is exactly that. Whatever happened at its creation, the
/// read-back decides.
///
/// # Errors
/// `snapshot_tag_mismatch` for a tag that is another; `snapshot_tag_unverified` when the creation failed and the tag is
/// not there; otherwise the failed call. Nothing is launched after an error.
pub fn ensure_tag(client: Client<'_>, repository: &RepositoryName, revision: &Revision) -> Result<String, LaunchError> {
    let name = tag_name(revision);
    let below = name.trim_start_matches("refs/").to_owned();
    if let Some(tag) = client.reference(repository, &below)? {
        return verified(&tag, name, revision);
    }
    let created = client.create_reference(repository, &name, revision);
    if let Err(error) = &created
        && !may_exist(error)
    {
        return Err(error.clone().into());
    }
    match (client.reference(repository, &below)?, created) {
        (Some(tag), _) => verified(&tag, name, revision),
        (None, Err(error)) if error.status().is_some() => Err(error.into()),
        (None, _) => Err(Fault::from(Code::SnapshotTagUnverified).into()),
    }
}

/// True if a failed creation can have left a tag: ours, or that of a faster launcher.
fn may_exist(error: &ForgeError) -> bool {
    !matches!(error.failure(), Failure::Unauthenticated | Failure::Forbidden | Failure::NotFound | Failure::Moved)
}

fn verified(tag: &Tag, name: String, revision: &Revision) -> Result<String, LaunchError> {
    let same = tag.name == name && tag.object.kind == "commit" && tag.object.sha == *revision;
    if same { Ok(name) } else { Err(Fault::from(Code::SnapshotTagMismatch).into()) }
}
