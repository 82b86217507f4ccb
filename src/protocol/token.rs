//! Access tokens as values that cannot leak by accident (publication.md 1.6, lifecycle.md 8.1).

use std::fmt;
use std::sync::Arc;

use super::{Code, Fault};

/// An access token. It can be put into a request header and nowhere else: its `Debug` form is redacted and it has no
/// `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Longest token, in bytes.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

impl Token {
    /// Takes a token: 1 to 16,384 visible ASCII characters.
    ///
    /// # Errors
    /// `settings_invalid` for anything else.
    pub fn new(token: impl Into<String>) -> Result<Self, Fault> {
        let token = token.into();
        if token.is_empty() || token.len() > MAX_TOKEN_BYTES || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Fault::new(Code::SettingsInvalid, "a credential is one line of visible characters"));
        }
        Ok(Self(token))
    }

    /// The HTTP header that carries the token as the password of basic authentication, for git.
    pub(crate) fn basic_header(&self) -> String {
        use base64::Engine as _;
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("x-access-token:{}", self.0));
        format!("AUTHORIZATION: basic {pair}")
    }

    /// The value of the `authorization` header of an API request.
    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(redacted)")
    }
}

/// Gives a credential for one invocation. It is asked again each time, because tokens rotate inside a job.
pub type TokenProvider = Arc<dyn Fn() -> Result<Token, Fault> + Send + Sync>;
