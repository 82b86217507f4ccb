//! What the host tells about a credential beside the answer itself.

use super::client::{Client, decode};
use super::endpoint::USER;
use super::error::ForgeError;
use super::port::Request;
use super::records::Account;

/// The account behind a credential, and the credential's scopes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The account.
    pub account: Account,
    /// Scopes of a classic token, such as `repo`; none for other kinds, of which the host tells nothing.
    pub scopes: Option<Vec<String>>,
}

impl Client<'_> {
    /// The account behind the credential, with the scopes of a classic token.
    ///
    /// # Errors
    /// A [`ForgeError`]; a workflow's own token has no account here and gets 403.
    pub fn credential(&self) -> Result<Credential, ForgeError> {
        let response = self.send(&Request::new(&USER, "/user".to_owned()))?;
        if response.status != 200 {
            return Err(ForgeError::answered(&USER, &response));
        }
        let list = |scopes: &String| {
            scopes.split(',').map(str::trim).filter(|scope| !scope.is_empty()).map(str::to_owned).collect()
        };
        Ok(Credential { account: decode(&USER, &response)?, scopes: response.headers.oauth_scopes.as_ref().map(list) })
    }
}
