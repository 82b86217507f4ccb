//! Who a credential acts for (lifecycle.md 8.2; publication.md 1.8).

use super::client::{Client, segment};
use super::endpoint::{ACCOUNT, USER};
use super::error::ForgeError;
use super::records::Account;

impl Client<'_> {
    /// The account behind the credential.
    ///
    /// # Errors
    /// A [`ForgeError`]; a workflow's own token has no account here and gets 403.
    pub fn user(&self) -> Result<Account, ForgeError> {
        self.read(&USER, "/user".to_owned())
    }

    /// The account of this login, 1 to 256 bytes.
    ///
    /// # Errors
    /// A [`ForgeError`].
    pub fn account(&self, login: &str) -> Result<Account, ForgeError> {
        self.read(&ACCOUNT, format!("/users/{}", segment(login)))
    }
}
