//! Issues and pull requests that Work waits for (lifecycle.md 7). Reads alone.

use super::client::Client;
use super::endpoint::{ISSUE, PULL};
use super::error::ForgeError;
use super::records::{Issue, Pull};
use crate::protocol::{Decimal, RepositoryName};

impl Client<'_> {
    /// An Issue by its number. A transferred one is answered from where it went: whoever asks must compare identities.
    ///
    /// # Errors
    /// A [`ForgeError`].
    pub fn issue(&self, repository: &RepositoryName, number: &Decimal) -> Result<Issue, ForgeError> {
        self.read(&ISSUE, format!("/repos/{repository}/issues/{}", number.as_str()))
    }

    /// A pull request by its number.
    ///
    /// # Errors
    /// A [`ForgeError`].
    pub fn pull(&self, repository: &RepositoryName, number: &Decimal) -> Result<Pull, ForgeError> {
        self.read(&PULL, format!("/repos/{repository}/pulls/{}", number.as_str()))
    }
}
