//! Issues and pull requests that Work waits for (lifecycle.md 7). Reads alone.

use super::client::Client;
use super::endpoint::{ISSUE, PULL};
use super::error::ForgeError;
use super::records::{Issue, Pull};
use crate::protocol::{Decimal, RepositoryName};

impl Client<'_> {
    /// An Issue by its number. One that was transferred is not read where it went, which another credential may guard.
    ///
    /// # Errors
    /// A [`ForgeError`]; [`super::Failure::Moved`] for a transferred Issue.
    pub fn issue(&self, repository: &RepositoryName, number: &Decimal) -> Result<Issue, ForgeError> {
        self.read_in_place(&ISSUE, &format!("/repos/{repository}/issues/{}", number.as_str()))
    }

    /// A pull request by its number, in place like an Issue.
    ///
    /// # Errors
    /// As [`Client::issue`].
    pub fn pull(&self, repository: &RepositoryName, number: &Decimal) -> Result<Pull, ForgeError> {
        self.read_in_place(&PULL, &format!("/repos/{repository}/pulls/{}", number.as_str()))
    }
}
