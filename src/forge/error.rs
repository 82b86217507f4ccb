//! What a call that failed means. A 401 is not a 403 is not a 404, and none of them is an empty answer.

use std::fmt;

use super::endpoint::Endpoint;
use super::port::{Broken, Response};
use crate::protocol::{Code, Fault};

/// Kinds of failure that are handled apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// 401, or no usable credential at all.
    Unauthenticated,
    /// 403 that is no rate limit: the credential lacks a permission.
    Forbidden,
    /// 404: not there, or not to be seen by this credential.
    NotFound,
    /// 409.
    Conflict,
    /// 410: it was deleted.
    Gone,
    /// 422, and 400.
    Unprocessable,
    /// 429, or 403 of a rate limit; seconds to wait, where the host says so.
    RateLimited(Option<u64>),
    /// 5xx and 408.
    Server,
    /// A redirect that is not followed.
    Moved,
    /// No whole answer.
    Broken(Broken),
    /// A whole answer that is not what the endpoint promises.
    Reply,
    /// The host does not offer what is needed (decision 64).
    Unsupported,
    /// Any other status.
    Status,
}

/// A failed call: what kind, of which endpoint, with which status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeError(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    failure: Failure,
    endpoint: &'static str,
    permission: &'static str,
    status: Option<u16>,
    accepted: Option<String>,
}

impl ForgeError {
    /// A failure of a call without an answer to judge.
    #[must_use]
    pub fn new(endpoint: &'static Endpoint, failure: Failure) -> Self {
        let (name, permission) = (endpoint.name, endpoint.permission);
        Self(Box::new(Inner { failure, endpoint: name, permission, status: None, accepted: None }))
    }

    /// What an answer with an unexpected status means.
    #[must_use]
    pub fn answered(endpoint: &'static Endpoint, response: &Response) -> Self {
        let headers = &response.headers;
        let failure = match response.status {
            401 => Failure::Unauthenticated,
            403 if is_limited(response) => Failure::RateLimited(headers.wait()),
            429 => Failure::RateLimited(headers.wait()),
            403 => Failure::Forbidden,
            404 => Failure::NotFound,
            409 => Failure::Conflict,
            410 => Failure::Gone,
            400 | 422 => Failure::Unprocessable,
            408 | 500..=599 => Failure::Server,
            300..=399 => Failure::Moved,
            _ => Failure::Status,
        };
        let mut error = Self::new(endpoint, failure);
        error.0.status = Some(response.status);
        error.0.accepted = headers.accepted_permissions.as_deref().and_then(permissions);
        error
    }

    /// The kind.
    #[must_use]
    pub fn failure(&self) -> &Failure {
        &self.0.failure
    }

    /// HTTP status of the answer, if there was one.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// True if repeating a read can help.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self.0.failure,
            Failure::RateLimited(_)
                | Failure::Server
                | Failure::Broken(Broken::Unreachable | Broken::Timeout | Broken::Interrupted)
                | Failure::Reply
        )
    }

    /// True if the resource is not there for this credential.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.0.failure == Failure::NotFound
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        match &self.0.failure {
            Failure::Unauthenticated => Code::ApiUnauthenticated,
            Failure::Forbidden => Code::ApiForbidden,
            Failure::NotFound => Code::ApiNotFound,
            Failure::Conflict => Code::ApiConflict,
            Failure::Gone => Code::ApiGone,
            Failure::Unprocessable => Code::ApiUnprocessable,
            Failure::RateLimited(_) => Code::ApiRateLimited,
            Failure::Server => Code::ApiUnavailable,
            Failure::Broken(Broken::Credential(fault)) => fault.code(),
            Failure::Broken(Broken::Malformed) | Failure::Reply | Failure::Moved | Failure::Status => {
                Code::ApiReplyInvalid
            }
            Failure::Broken(_) => Code::ApiUnreachable,
            Failure::Unsupported => Code::HostUnsupported,
        }
    }

    /// The sentence: which call, and what happened. It quotes nothing that the host sent but a list of permissions.
    #[must_use]
    pub fn message(&self) -> String {
        let Inner { failure, endpoint, permission, status, accepted } = &*self.0;
        let what = match failure {
            Failure::Unauthenticated => "the credential was not accepted".to_owned(),
            Failure::Forbidden => match accepted {
                Some(accepted) => format!("the credential lacks a permission; the call accepts {accepted}"),
                None => format!("the credential lacks a permission; the call needs {permission}"),
            },
            Failure::NotFound => format!("not there, or the credential may not see it (it needs {permission})"),
            Failure::Conflict => "the host reports a conflict".to_owned(),
            Failure::Gone => "the resource was deleted".to_owned(),
            Failure::Unprocessable => "the host refused the request's content".to_owned(),
            Failure::RateLimited(Some(seconds)) => format!("the host limits the rate; it asks to wait {seconds} s"),
            Failure::RateLimited(None) => "the host limits the rate".to_owned(),
            Failure::Server => "the host failed".to_owned(),
            Failure::Moved => "the host redirects, and this call follows no redirect".to_owned(),
            Failure::Broken(Broken::Credential(fault)) => fault.message().to_owned(),
            Failure::Broken(Broken::Unreachable) => "the host could not be reached".to_owned(),
            Failure::Broken(Broken::Untrusted) => "the host's certificate is not trusted".to_owned(),
            Failure::Broken(Broken::Timeout) => "the host did not answer in time".to_owned(),
            Failure::Broken(Broken::Interrupted) => "the connection ended before the answer did".to_owned(),
            Failure::Broken(Broken::Malformed) | Failure::Reply => {
                "the answer is not what the call promises".to_owned()
            }
            Failure::Unsupported => {
                format!("the host does not offer REST API version {}", super::endpoint::API_VERSION)
            }
            Failure::Status => "the host answered with an unexpected status".to_owned(),
        };
        match status {
            Some(status) => format!("GitHub call {endpoint}: {what} (HTTP {status})"),
            None => format!("GitHub call {endpoint}: {what}"),
        }
    }

    /// What to do next.
    #[must_use]
    pub fn action(&self) -> &'static str {
        match &self.0.failure {
            Failure::Unauthenticated => "Give a token that has not expired or been revoked, then repeat the command.",
            Failure::Forbidden => "Give the token that permission, then repeat the command.",
            Failure::NotFound => "Check the name, and that the token may see the repository.",
            Failure::RateLimited(_) => "Wait until the host's limit resets, then repeat the command.",
            Failure::Broken(Broken::Untrusted) => {
                "Name the certificate authority in SSL_CERT_FILE or SSL_CERT_DIR if the host has one of its own."
            }
            Failure::Broken(Broken::Credential(_)) => "Give the credential as one line of visible characters.",
            Failure::Unsupported => "Use a host that offers it; reading, submitting and granting work without it.",
            Failure::Server | Failure::Broken(_) => "Check the host's status and the network, then repeat the command.",
            _ => "Run `wq doctor` to see what the host offers to this token.",
        }
    }
}

/// What tells a rate limit from a missing permission. A secondary limit may set no header at all; then its answer says
/// so in words.
fn is_limited(response: &Response) -> bool {
    #[derive(serde::Deserialize)]
    struct Refusal {
        message: String,
    }
    let headers = &response.headers;
    headers.retry_after.is_some()
        || headers.rate_remaining == Some(0)
        || serde_json::from_slice::<Refusal>(&response.body.0)
            .is_ok_and(|refusal| refusal.message.to_ascii_lowercase().contains("rate limit"))
}

/// A header's list of permissions, if it looks like one: short, of names, `=`, levels and separators.
fn permissions(header: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'=' | b',' | b';' | b' ' | b'-');
    (header.len() <= 128 && header.bytes().all(plain)).then(|| header.to_owned())
}

impl fmt::Display for ForgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.message())
    }
}

impl std::error::Error for ForgeError {}

/// The code and the sentence, for rooms whose refusals are faults.
impl From<ForgeError> for Fault {
    fn from(error: ForgeError) -> Self {
        Self::new(error.code(), error.message())
    }
}
