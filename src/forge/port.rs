//! The port to GitHub: one request, one answer. The real implementation is [`super::HttpForge`]; the simulated one
//! lives with the tests.

use std::fmt;

use super::endpoint::Endpoint;
use super::host::Host;
use crate::protocol::{At, Fault, Token};

/// Most bytes of an answer's body that are read.
pub(super) const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

/// One call, ready to be sent. Its `Debug` form names the endpoint alone.
pub struct Request {
    endpoint: &'static Endpoint,
    target: String,
    body: Option<String>,
    versioned: bool,
}

impl Request {
    /// A call of an endpoint. `target` is the path below the interface's base URL, with its query, percent-encoded;
    /// empty for GraphQL.
    #[must_use]
    pub fn new(endpoint: &'static Endpoint, target: String) -> Self {
        Self { endpoint, target, body: None, versioned: true }
    }

    /// The same call with a JSON body.
    #[must_use]
    pub fn with_body(mut self, body: String) -> Self {
        self.body = Some(body);
        self
    }

    /// The same read in the host's own API version, for a host that does not know the pinned one (decision 64).
    #[must_use]
    pub(super) fn unversioned(mut self) -> Self {
        debug_assert!(self.endpoint.safe, "a write always names its version");
        self.versioned = false;
        self
    }

    /// True if the call names the pinned API version.
    #[must_use]
    pub fn is_versioned(&self) -> bool {
        self.versioned
    }

    /// Which call it is.
    #[must_use]
    pub fn endpoint(&self) -> &'static Endpoint {
        self.endpoint
    }

    /// Path and query below the base URL.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The JSON body, for a POST.
    #[must_use]
    pub fn body(&self) -> Option<&str> {
        self.body.as_deref()
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({})", self.endpoint.name)
    }
}

/// The headers of an answer that anything here depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// `x-github-request-id`, 1 to 256 visible ASCII characters.
    pub request_id: Option<String>,
    /// `retry-after`, in seconds. Numbers have at most 12 digits.
    pub retry_after: Option<u64>,
    /// `x-ratelimit-remaining`.
    pub rate_remaining: Option<u64>,
    /// `x-ratelimit-reset`, in Unix seconds.
    pub rate_reset: Option<u64>,
    /// `date`: the server's clock.
    pub date: Option<At>,
    /// `location` of a redirect, relative to the API's base URL; none where it leads elsewhere.
    pub location: Option<String>,
    /// `location` of a redirect that leads out of the API: an `https` URL of at most 8192 bytes (or `http` on loopback).
    pub elsewhere: Option<String>,
    /// `x-accepted-github-permissions`: what the refused call would have needed.
    pub accepted_permissions: Option<String>,
    /// `x-oauth-scopes` of a classic token.
    pub oauth_scopes: Option<String>,
}

impl Headers {
    /// Seconds to wait before the next call: `retry-after`, or until an exhausted limit resets by the host's own clock.
    pub(super) fn wait(&self) -> Option<u64> {
        let until_reset = || {
            let (reset, now) = (self.rate_reset?, u64::try_from(self.date?.get()).ok()? / 1000);
            (self.rate_remaining == Some(0)).then(|| reset.saturating_sub(now))
        };
        self.retry_after.or_else(until_reset)
    }
}

/// A body that is not shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Body(pub Vec<u8>);

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.0.len())
    }
}

/// A whole answer, of any status. Redirects are answers too; the port follows none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Its headers.
    pub headers: Headers,
    /// Its body, at most 8 MiB.
    pub body: Body,
}

/// Why there is no whole answer. Whether the server acted is unknown unless it says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// There is no usable credential; nothing was sent.
    Credential(Fault),
    /// The host or its proxy could not be reached; nothing was sent.
    Unreachable,
    /// The host's certificate is not trusted, or it does not speak TLS as it should.
    Untrusted,
    /// No answer within the endpoint's time.
    Timeout,
    /// The connection ended before the answer did.
    Interrupted,
    /// The answer is larger than 8 MiB, or is no HTTP.
    Malformed,
}

/// A way to one host with one credential. Sends each request at most once.
pub trait Forge {
    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// [`Broken`] when there is no whole answer.
    fn send(&self, request: &Request) -> Result<Response, Broken>;

    /// The host that it leads to.
    fn host(&self) -> &Host;

    /// Reads what an address holds to which the host redirected outside of its API, without the credential: at most so many
    /// bytes, and one more where there are more. None for another status than 200.
    ///
    /// # Errors
    /// As [`Forge::send`].
    fn fetch(&self, _address: &str, _most: u64) -> Result<Option<Vec<u8>>, Broken> {
        Err(Broken::Unreachable)
    }

    /// True if this is the token that its calls carry now; none where it cannot be told. No implementation gives the
    /// token itself out.
    fn holds(&self, _token: &Token) -> Option<bool> {
        None
    }
}
