//! The port over HTTP/1.1 and TLS. It follows no redirect, keeps no cookie, accepts no compression, and sends each
//! request once: neither it nor the library below repeats one, whatever happens to the connection.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use ureq::config::AutoHeaderValue;
use ureq::http::{self, HeaderValue};
use ureq::tls::TlsConfig;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, AsSendBody, Error};

use super::endpoint::{API_VERSION, Interface, Method};
use super::headers;
use super::host::Host;
use super::network::Network;
use super::port::{Body, Broken, Forge, MAX_BODY_BYTES, Request, Response};
use crate::protocol::{Fault, Token, TokenProvider};

/// Longest wait for a connection, in seconds.
const CONNECT_SECONDS: u64 = 10;
/// Longest wait for a whole artifact, in seconds.
const DOWNLOAD_SECONDS: u64 = 120;
/// Most bytes of an answer's status line and headers.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Who calls.
const USER_AGENT: &str = concat!("wq-action/", env!("CARGO_PKG_VERSION"));
/// The form of answer that is asked for.
const ACCEPT: &str = "application/vnd.github+json";

/// GitHub over the network.
pub struct HttpForge {
    host: Host,
    credential: TokenProvider,
    agent: Agent,
}

impl HttpForge {
    /// A way to this host with this credential, which is asked for before each request.
    ///
    /// # Errors
    /// `settings_invalid` when certificates or the proxy that `network` names cannot be used.
    pub fn new(host: Host, credential: TokenProvider, network: &Network) -> Result<Self, Fault> {
        let tls = TlsConfig::builder()
            .root_certs(network.roots()?)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .proxy(network.proxy([host.api(), host.graphql()])?)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_response_header_size(MAX_HEADER_BYTES)
            .user_agent(USER_AGENT)
            .accept(ACCEPT)
            .accept_encoding(AutoHeaderValue::None)
            .build();
        Ok(Self { host, credential, agent: Agent::with_parts(config, DefaultConnector::default(), Names::default()) })
    }

    /// Sends a request whose body has this form, and reads the whole answer.
    fn exchange(&self, request: &Request, body: impl AsSendBody, json: bool) -> Result<Response, Broken> {
        let endpoint = request.endpoint();
        let token = (self.credential)().map_err(Broken::Credential)?;
        // A token is visible ASCII, and a target is percent-encoded; neither can be refused here.
        let mut authorization = HeaderValue::from_str(&token.bearer()).map_err(|_| Broken::Unreachable)?;
        authorization.set_sensitive(true);
        let base = match endpoint.interface {
            Interface::Rest => self.host.api(),
            Interface::Graphql => self.host.graphql(),
        };
        let mut call = http::Request::builder()
            .method(endpoint.method.as_str())
            .uri(format!("{base}{}", request.target()))
            .header("authorization", authorization);
        if request.is_versioned() {
            call = call.header("x-github-api-version", API_VERSION);
        }
        if json {
            call = call.header("content-type", "application/json");
        }
        let call = call.body(body).map_err(|_| Broken::Unreachable)?;
        let mut config = self
            .agent
            .configure_request(call)
            .timeout_global(Some(Duration::from_secs(endpoint.seconds)))
            .timeout_connect(Some(Duration::from_secs(CONNECT_SECONDS.min(endpoint.seconds))));
        if !endpoint.safe {
            // A kept connection may have died unseen, and the outcome of a write that meets it would be unknown.
            config = config.max_idle_age(Duration::ZERO);
        }
        let mut answer = self.agent.run(config.build()).map_err(broken)?;
        let body = answer.body_mut().with_config().limit(MAX_BODY_BYTES as u64).read_to_vec().map_err(broken)?;
        let headers = headers::read(answer.headers(), &self.host);
        Ok(Response { status: answer.status().as_u16(), headers, body: Body(body) })
    }
}

impl Forge for HttpForge {
    fn send(&self, request: &Request) -> Result<Response, Broken> {
        match (request.endpoint().method, request.body()) {
            (Method::Get, _) => self.exchange(request, (), false),
            (Method::Post, Some(body)) => self.exchange(request, body, true),
            (Method::Post, None) => self.exchange(request, "", false),
        }
    }

    /// The request has no header but those of every request; above all it has no credential.
    fn fetch(&self, address: &str, most: u64) -> Result<Option<Vec<u8>>, Broken> {
        let call = http::Request::builder().uri(address).body(()).map_err(|_| Broken::Unreachable)?;
        let config = self
            .agent
            .configure_request(call)
            .timeout_global(Some(Duration::from_secs(DOWNLOAD_SECONDS)))
            .timeout_connect(Some(Duration::from_secs(CONNECT_SECONDS)));
        let mut answer = self.agent.run(config.build()).map_err(broken)?;
        if answer.status().as_u16() != 200 {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let body = answer.body_mut().with_config().limit(u64::MAX).reader();
        body.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| broken_io(&error))?;
        Ok(Some(bytes))
    }

    fn host(&self) -> &Host {
        &self.host
    }

    /// Asks for the credential now, as the next request will: tokens rotate.
    fn holds(&self, token: &Token) -> Option<bool> {
        (self.credential)().ok().map(|own| own == *token)
    }
}

impl fmt::Debug for HttpForge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpForge").field("host", &self.host).finish_non_exhaustive()
    }
}

/// The system's names, with one error for a name that leads nowhere: the system's own has no kind to tell it by.
#[derive(Debug, Default)]
struct Names(DefaultResolver);

impl Resolver for Names {
    fn resolve(
        &self,
        uri: &http::Uri,
        config: &ureq::config::Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        self.0.resolve(uri, config, timeout).map_err(|error| match error {
            Error::Io(_) => Error::HostNotFound,
            other => other,
        })
    }
}

/// Why there is no whole answer. The library's own text is dropped: it may quote what the host sent.
fn broken(error: Error) -> Broken {
    match error {
        Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect)
        | Error::HostNotFound
        | Error::ConnectionFailed
        | Error::ConnectProxyFailed(_)
        | Error::BadUri(_)
        | Error::InvalidProxyUrl => Broken::Unreachable,
        Error::Timeout(_) => Broken::Timeout,
        Error::Tls(_) | Error::TlsRequired | Error::Rustls(_) | Error::Pem(_) => Broken::Untrusted,
        Error::Io(error) => broken_io(&error),
        _ => Broken::Malformed,
    }
}

fn broken_io(error: &io::Error) -> Broken {
    if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
        return Broken::Untrusted;
    }
    match error.kind() {
        // Only the attempt to connect ends so.
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::AddrNotAvailable
        | io::ErrorKind::PermissionDenied => Broken::Unreachable,
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Broken::Timeout,
        _ => Broken::Interrupted,
    }
}
