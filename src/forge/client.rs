//! Typed calls over the port. Reads follow redirects inside the API and may be repeated; writes are sent once.

use std::time::Duration;

use serde::de::DeserializeOwned;

use super::endpoint::{Endpoint, IS_EMPTY, Interface, PULL_MERGE};
use super::error::{Failure, ForgeError};
use super::host::Host;
use super::port::{Forge, Request, Response};
use crate::ports::Clock;
use crate::protocol::Token;

/// Most redirects that a read follows.
const MAX_REDIRECTS: usize = 3;
/// Longest wait before a read is repeated because the host asked for it, in seconds.
const MAX_WAIT_SECONDS: u64 = 10;

/// How often a safe read is repeated after a transient failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Never: the protocol's own loops decide (lifecycle.md 0.3).
    Once,
    /// Up to three times, with 100 ms and 400 ms between.
    Patient,
}

/// GitHub with one credential, as typed calls.
#[derive(Clone, Copy)]
pub struct Client<'a> {
    forge: &'a dyn Forge,
    clock: &'a dyn Clock,
    patience: Patience,
}

impl<'a> Client<'a> {
    /// Calls through this port; reads are sent once.
    #[must_use]
    pub fn new(forge: &'a dyn Forge, clock: &'a dyn Clock) -> Self {
        Self { forge, clock, patience: Patience::Once }
    }

    /// The same client with another patience for reads.
    #[must_use]
    pub fn with_patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &'a Host {
        self.forge.host()
    }

    /// True if both send through one port, and so with one credential.
    #[must_use]
    pub fn is_same(&self, other: Client<'_>) -> bool {
        std::ptr::addr_eq(self.forge, other.forge)
    }

    /// True if this token is the client's own; none where it cannot be told.
    #[must_use]
    pub fn holds(&self, token: &Token) -> Option<bool> {
        self.forge.holds(token)
    }

    /// Sends a write, or a read of which every status is wanted. Once.
    pub(super) fn send(&self, request: &Request) -> Result<Response, ForgeError> {
        let endpoint = request.endpoint();
        let answer = self.forge.send(request).map_err(|broken| ForgeError::new(endpoint, Failure::Broken(broken)));
        match &answer {
            Ok(response) => tracing::debug!(call = endpoint.name, status = response.status, "api answered"),
            Err(_) => tracing::debug!(call = endpoint.name, "api gave no whole answer"),
        }
        answer
    }

    /// Reads what a redirect out of the API leads to, without the credential. None if it holds more than `most` bytes.
    pub(super) fn follow_out(
        &self,
        endpoint: &'static Endpoint,
        target: &str,
        most: u64,
    ) -> Result<Option<Vec<u8>>, ForgeError> {
        self.patiently(endpoint, || {
            let response = self.send(&Request::new(endpoint, target.to_owned()))?;
            let (302, Some(address)) = (response.status, &response.headers.elsewhere) else {
                return Err(ForgeError::answered(endpoint, &response));
            };
            match self.forge.fetch(address, most) {
                Ok(Some(bytes)) => Ok((bytes.len() as u64 <= most).then_some(bytes)),
                Ok(None) => Err(ForgeError::new(endpoint, Failure::Reply)),
                Err(broken) => Err(ForgeError::new(endpoint, Failure::Broken(broken))),
            }
        })
    }

    /// Reads: status 200 and a body of this form, or an error.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        endpoint: &'static Endpoint,
        target: String,
    ) -> Result<T, ForgeError> {
        debug_assert!(endpoint.safe && endpoint.interface == Interface::Rest);
        self.patiently(endpoint, || {
            let mut target = target.clone();
            for _ in 0..=MAX_REDIRECTS {
                let mut response = self.send(&Request::new(endpoint, target.clone()))?;
                if response.status == 400 {
                    // A host that does not know the version refuses every call that names it.
                    response = self.send(&Request::new(endpoint, target).unversioned())?;
                }
                match (response.status, &response.headers.location) {
                    (200, _) => return decode(endpoint, &response),
                    (301 | 302 | 307 | 308, Some(location)) => target = location.clone(),
                    _ => return Err(ForgeError::answered(endpoint, &response)),
                }
            }
            Err(ForgeError::new(endpoint, Failure::Moved))
        })
    }

    /// As [`Client::read`], but what moved elsewhere is not read there: a redirect is [`Failure::Moved`].
    pub(super) fn read_in_place<T: DeserializeOwned>(
        &self,
        endpoint: &'static Endpoint,
        target: &str,
    ) -> Result<T, ForgeError> {
        debug_assert!(endpoint.safe && endpoint.interface == Interface::Rest);
        self.patiently(endpoint, || {
            let response = self.send(&Request::new(endpoint, target.to_owned()))?;
            if response.status == 200 {
                decode(endpoint, &response)
            } else {
                Err(ForgeError::answered(endpoint, &response))
            }
        })
    }

    /// As [`Client::read`]; none where it is not there.
    pub(super) fn find<T: DeserializeOwned>(
        &self,
        endpoint: &'static Endpoint,
        target: String,
    ) -> Result<Option<T>, ForgeError> {
        match self.read(endpoint, target) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks GraphQL. Its errors are failures even beside data.
    pub(super) fn query<T: DeserializeOwned>(
        &self,
        endpoint: &'static Endpoint,
        body: String,
    ) -> Result<T, ForgeError> {
        debug_assert!([IS_EMPTY.path, PULL_MERGE.path].contains(&endpoint.path));
        self.patiently(endpoint, || {
            let response = self.send(&Request::new(endpoint, String::new()).with_body(body.clone()))?;
            if response.status != 200 {
                return Err(ForgeError::answered(endpoint, &response));
            }
            let reply: Reply<T> = decode(endpoint, &response)?;
            match (reply.data, reply.errors) {
                (Some(data), None) => Ok(data),
                (_, Some(errors)) => Err(ForgeError::new(endpoint, errors.failure(&response))),
                (None, None) => Err(ForgeError::new(endpoint, Failure::Reply)),
            }
        })
    }

    fn patiently<T>(
        &self,
        endpoint: &'static Endpoint,
        mut attempt: impl FnMut() -> Result<T, ForgeError>,
    ) -> Result<T, ForgeError> {
        let waits: &[u64] = match self.patience {
            Patience::Once => &[],
            Patience::Patient => &[100, 400],
        };
        for wait in waits {
            match attempt() {
                Err(error) if error.is_transient() => {
                    let asked = match error.failure() {
                        Failure::RateLimited(seconds) => seconds.unwrap_or(1),
                        _ => 0,
                    };
                    if asked > MAX_WAIT_SECONDS {
                        return Err(error);
                    }
                    tracing::debug!(call = endpoint.name, delay_ms = wait + asked * 1000, "read is repeated");
                    self.clock.sleep(Duration::from_millis(wait + asked * 1000));
                }
                other => return other,
            }
        }
        attempt()
    }
}

/// What every GraphQL answer is.
#[derive(serde::Deserialize)]
struct Reply<T> {
    data: Option<T>,
    errors: Option<Errors>,
}

#[derive(serde::Deserialize)]
struct Errors(Vec<GraphqlError>);

#[derive(serde::Deserialize)]
struct GraphqlError {
    #[serde(rename = "type")]
    kind: Option<String>,
}

impl Errors {
    fn failure(&self, response: &Response) -> Failure {
        match self.0.first().and_then(|error| error.kind.as_deref()) {
            Some("NOT_FOUND") => Failure::NotFound,
            Some("FORBIDDEN" | "INSUFFICIENT_SCOPES") => Failure::Forbidden,
            Some("RATE_LIMITED") => Failure::RateLimited(response.headers.wait()),
            _ => Failure::Server,
        }
    }
}

/// A body in its form. Members that nothing here depends on are left out, whatever they hold.
pub(super) fn decode<T: DeserializeOwned>(endpoint: &'static Endpoint, response: &Response) -> Result<T, ForgeError> {
    serde_json::from_slice(&response.body.0).map_err(|_| ForgeError::new(endpoint, Failure::Reply))
}

/// One segment of a path or one value of a query, percent-encoded.
pub(super) fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// A path of several segments.
pub(super) fn path(text: &str) -> String {
    text.split('/').map(segment).collect::<Vec<_>>().join("/")
}
