//! References: the default branch's revision and snapshot tags (publication.md 4.2, lifecycle.md 1.4).

use super::client::{Client, path};
use super::endpoint::{CREATE_REF, REF};
use super::error::ForgeError;
use super::port::Request;
use super::records::Tag;
use crate::protocol::{RepositoryName, Revision};

impl Client<'_> {
    /// A reference by its name below `refs/`, such as `heads/main`; none where there is none.
    ///
    /// # Errors
    /// A [`ForgeError`].
    pub fn reference(&self, repository: &RepositoryName, name: &str) -> Result<Option<Tag>, ForgeError> {
        self.find(&REF, format!("/repos/{repository}/git/ref/{}", path(name)))
    }

    /// Creates a reference. Sent once; after an error it may exist all the same.
    ///
    /// # Errors
    /// A [`ForgeError`]; `api_unprocessable` also where it exists already.
    pub fn create_reference(
        &self,
        repository: &RepositoryName,
        full_name: &str,
        sha: &Revision,
    ) -> Result<(), ForgeError> {
        let body = serde_json::json!({"ref": full_name, "sha": sha.as_str()}).to_string();
        let request = Request::new(&CREATE_REF, format!("/repos/{repository}/git/refs")).with_body(body);
        let response = self.send(&request)?;
        if response.status == 201 { Ok(()) } else { Err(ForgeError::answered(&CREATE_REF, &response)) }
    }
}
