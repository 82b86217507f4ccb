//! Artifacts that a run has left, for `replay --run-id` (operator-cli.md 11).

use serde::Deserialize;

use super::client::Client;
use super::endpoint::{ARTIFACT_ZIP, RUN_ARTIFACTS};
use super::error::ForgeError;
use crate::protocol::{Decimal, RepositoryName};

/// Artifacts of one page of a listing.
pub const ARTIFACTS_PER_PAGE: usize = 100;

/// One artifact.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Artifact {
    /// Numeric id.
    #[serde(deserialize_with = "super::records::id")]
    pub id: Decimal,
    /// Its name, which other artifacts of the run may have too.
    pub name: String,
    /// Bytes of its archive, as the host counts them.
    pub size_in_bytes: u64,
    /// True once it can no longer be downloaded.
    pub expired: bool,
}

#[derive(Deserialize)]
struct Page {
    artifacts: Vec<Artifact>,
}

impl Client<'_> {
    /// One page of a run's artifacts, from 1, at most 100, of every attempt.
    ///
    /// # Errors
    /// A [`ForgeError`].
    pub fn artifacts(
        &self,
        repository: &RepositoryName,
        run_id: &Decimal,
        page: usize,
    ) -> Result<Vec<Artifact>, ForgeError> {
        let run_id = run_id.as_str();
        let target =
            format!("/repos/{repository}/actions/runs/{run_id}/artifacts?per_page={ARTIFACTS_PER_PAGE}&page={page}");
        self.read::<Page>(&RUN_ARTIFACTS, target).map(|page| page.artifacts)
    }

    /// The archive of an artifact; none if it has more than `most` bytes.
    ///
    /// # Errors
    /// A [`ForgeError`]; `api_gone` for an expired one.
    pub fn artifact_archive(
        &self,
        repository: &RepositoryName,
        id: &Decimal,
        most: u64,
    ) -> Result<Option<Vec<u8>>, ForgeError> {
        let target = format!("/repos/{repository}/actions/artifacts/{}/zip", id.as_str());
        self.follow_out(&ARTIFACT_ZIP, &target, most)
    }
}
