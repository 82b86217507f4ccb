//! Host and token as every mode and command finds them: in the environment, and nowhere else (publication.md 9.1).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::JobError;
use crate::forge::{Forge, Host, HttpForge, Network};
use crate::protocol::{Code, Token, TokenProvider};

/// Variables that may hold the token, the first that is set counting.
const TOKENS: [&str; 3] = ["GH_AW_WORK_QUEUE_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"];
/// How the names of the variables begin that jobs read beside the runner's own.
const PREFIXES: [&str; 2] = ["GH_AW_", "GITHUB_AW_OTEL_"];

/// A variable of the environment that is not empty. What is no text is kept wrong, so that its check refuses it.
pub(crate) fn variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
    Some(value.to_string_lossy().into_owned())
}

/// The host that the environment names, github.com by default (decision 9).
///
/// # Errors
/// `settings_invalid` for an address that is no host's.
pub(crate) fn host() -> Result<Host, JobError> {
    let [server, api, graphql] =
        ["GITHUB_SERVER_URL", "GITHUB_API_URL", "GITHUB_GRAPHQL_URL"].map(variable).map(Option::unwrap_or_default);
    Host::new(Some(&server), Some(&api), Some(&graphql)).map_err(|fault| {
        let next = "Set GITHUB_SERVER_URL to a URL such as https://github.com, and GITHUB_API_URL and GITHUB_GRAPHQL_URL to \
                    that host's, or unset them.";
        JobError::from(fault).with_action(next)
    })
}

/// The token of the environment. It is never taken from a flag, a file or another program.
///
/// # Errors
/// `api_unauthenticated` without one, `settings_invalid` for text that is no token.
pub(crate) fn token() -> Result<Token, JobError> {
    let (name, value) = TOKENS.iter().find_map(|name| Some((*name, variable(name)?))).ok_or_else(|| {
        JobError::new(Code::ApiUnauthenticated, "there is no token for GitHub in the environment").with_action(
            "Set GH_AW_WORK_QUEUE_TOKEN, GH_TOKEN or GITHUB_TOKEN, or name a local bare repository with --remote PATH.",
        )
    })?;
    Token::new(value).map_err(|fault| {
        let next = "Give the token as one line of visible characters.";
        JobError::new(fault.code(), format!("{name}: {}", fault.message())).with_action(next)
    })
}

/// A way to the host with one credential, through the proxy and the certificate authorities that the environment
/// names.
///
/// # Errors
/// `settings_invalid` for a proxy or an authority that cannot be used.
pub(crate) fn forge(host: Host, token: &Token) -> Result<Box<dyn Forge>, JobError> {
    let token = token.clone();
    let provider: TokenProvider = Arc::new(move || Ok(token.clone()));
    let network = Network::from_environment()?;
    Ok(Box::new(HttpForge::new(host, provider, &network)?))
}

/// What compiled workflows put into a job's environment, by name. It may hold credentials, so it has no `Debug` form.
#[derive(Clone, Default)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Variables from pairs; empty values count as absent.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect())
    }

    /// Those of this process whose names begin with `GH_AW_` or `GITHUB_AW_OTEL_`. A value that is no text is kept
    /// wrong, so that its check refuses it.
    #[must_use]
    pub fn of_process() -> Self {
        let ours = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let known = |name: &str| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        Self::new(
            ours.filter(|(name, _)| known(name)).map(|(name, value)| (name, value.to_string_lossy().into_owned())),
        )
    }

    /// One value.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// True for exactly `true`.
    #[must_use]
    pub fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}
