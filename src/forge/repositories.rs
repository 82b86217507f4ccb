//! Repositories, their rules, and the host's versions.

use serde::Deserialize;

use super::client::{Client, decode, segment};
use super::endpoint::{API_VERSION, BRANCH_RULES, REPOSITORY, VERSIONS};
use super::error::{Failure, ForgeError};
use super::port::Request;
use super::records::Repository;
use crate::protocol::{At, RepositoryName};

/// A rule of a branch: its kind alone.
#[derive(Deserialize)]
struct Rule {
    #[serde(rename = "type")]
    kind: String,
}

impl Client<'_> {
    /// A repository by its name. After a rename the answer names the new one; whoever asks must compare.
    ///
    /// # Errors
    /// A [`ForgeError`].
    pub fn repository(&self, name: &RepositoryName) -> Result<Repository, ForgeError> {
        self.read(&REPOSITORY, format!("/repos/{name}"))
    }

    /// Kinds of the rules that hold for a branch, such as `non_fast_forward` or `pull_request`: at most 100.
    ///
    /// # Errors
    /// A [`ForgeError`].
    pub fn branch_rules(&self, name: &RepositoryName, branch: &str) -> Result<Vec<String>, ForgeError> {
        let target = format!("/repos/{name}/rules/branches/{}?per_page=100", segment(branch));
        let rules: Vec<Rule> = self.read(&BRANCH_RULES, target)?;
        Ok(rules.into_iter().map(|rule| rule.kind).collect())
    }

    /// Whether the host offers the pinned API version, and the time on its clock.
    ///
    /// # Errors
    /// A [`ForgeError`]; `host_unsupported` when it does not, or has no list of versions (decision 64).
    pub fn versions(&self) -> Result<Option<At>, ForgeError> {
        let response = self.send(&Request::new(&VERSIONS, "/versions".to_owned()))?;
        match response.status {
            200 => {
                let versions: Vec<String> = decode(&VERSIONS, &response)?;
                if versions.iter().any(|version| version == API_VERSION) {
                    return Ok(response.headers.date);
                }
                Err(ForgeError::new(&VERSIONS, Failure::Unsupported))
            }
            400 | 404 => Err(ForgeError::new(&VERSIONS, Failure::Unsupported)),
            _ => Err(ForgeError::answered(&VERSIONS, &response)),
        }
    }
}
