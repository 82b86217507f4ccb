//! Where the queue's repository is (publication.md 1.5).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use super::error::{Class, LedgerError};
use crate::protocol::{Code, RepositoryName};

/// A remote repository. Its `Debug` form says only what kind it is: paths and URLs stay out of logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Remote {
    kind: Kind,
    address: OsString,
}

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    /// A directory on this machine.
    Path(PathBuf),
    /// A `file://` URL.
    File,
    /// An HTTP server; `scope` is `scheme://host[:port]/`.
    Http { secure: bool, scope: String },
}

impl Remote {
    /// A repository in a local directory, made absolute against the current directory.
    ///
    /// # Errors
    /// `usage_invalid` for an empty path.
    pub fn path(path: &Path) -> Result<Self, LedgerError> {
        let path = std::path::absolute(path).map_err(|_| usage("the remote's path is empty"))?;
        // An absolute path starts with a slash, so git takes it neither for an option nor for host:path.
        Ok(Self { address: path.clone().into_os_string(), kind: Kind::Path(path) })
    }

    /// A repository on a server, `<server>/<owner>/<name>.git`. The server is an origin such as `https://github.com`.
    ///
    /// # Errors
    /// `usage_invalid` when the server is not an `https` origin (or an `http` one on loopback).
    pub fn server(server: &str, repository: &RepositoryName) -> Result<Self, LedgerError> {
        Self::url(&format!("{}/{repository}.git", server.trim_end_matches('/')))
    }

    /// What a person gave on the command line: a URL when it names a scheme, otherwise a path.
    ///
    /// # Errors
    /// As [`Remote::url`] and [`Remote::path`].
    pub fn parse(text: &OsStr) -> Result<Self, LedgerError> {
        match text.to_str() {
            Some(url) if url.contains("://") => Self::url(url),
            _ => Self::path(Path::new(text)),
        }
    }

    /// A repository behind a URL: `https`, `file:///…`, or `http` on a loopback address. No user information, query
    /// or fragment.
    ///
    /// # Errors
    /// `usage_invalid` for any other URL.
    pub fn url(url: &str) -> Result<Self, LedgerError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| usage("the remote's URL has no scheme"))?;
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'@' | b'?' | b'#' | b'\\' | b'"' | b'\'');
        if !rest.bytes().all(plain) {
            return Err(usage("the remote's URL holds user information, a query or a character that is not allowed"));
        }
        let kind = match scheme {
            "file" if rest.starts_with('/') => Kind::File,
            "https" | "http" => {
                let (host, path) = rest.split_once('/').ok_or_else(|| usage("the remote's URL has no path"))?;
                let secure = scheme == "https";
                if path.is_empty() || !is_host(host) || !(secure || is_loopback(host)) {
                    return Err(usage("the remote's URL names no host that is allowed"));
                }
                Kind::Http { secure, scope: format!("{scheme}://{host}/") }
            }
            _ => return Err(usage("the remote's URL is neither https nor file")),
        };
        Ok(Self { kind, address: url.into() })
    }

    /// What git is told to talk to.
    pub(crate) fn address(&self) -> &OsStr {
        &self.address
    }

    /// The directory, for a path remote.
    pub(crate) fn directory(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Path(path) => Some(path),
            _ => None,
        }
    }

    /// True for a repository on this machine: no server, no token, whoever may write the directory is the authority.
    #[must_use]
    pub fn is_local(&self) -> bool {
        !matches!(self.kind, Kind::Http { .. })
    }

    /// The one protocol that git may use for this remote.
    pub(crate) fn protocol(&self) -> &'static str {
        match &self.kind {
            Kind::Path(_) | Kind::File => "file",
            Kind::Http { secure: true, .. } => "https",
            Kind::Http { secure: false, .. } => "http",
        }
    }

    /// The exact origin that a credential is for, with a closing slash; none for a local repository.
    pub(crate) fn scope(&self) -> Option<&str> {
        match &self.kind {
            Kind::Http { scope, .. } => Some(scope),
            _ => None,
        }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remote({})", self.protocol())
    }
}

fn usage(message: &'static str) -> LedgerError {
    LedgerError::new(Code::UsageInvalid, Class::Invalid, message, "Name a local directory or an https URL.")
}

fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    }
}

fn is_host(host: &str) -> bool {
    let (name, port) = split_port(host);
    let name_ok = match name.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
                && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        }
    };
    name_ok && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

fn is_loopback(host: &str) -> bool {
    matches!(split_port(host).0, "127.0.0.1" | "localhost" | "[::1]")
}
