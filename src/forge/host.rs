//! Which GitHub it is: github.com, a data residency host on ghe.com, or a GitHub Enterprise Server (lifecycle.md 1.5,
//! U-4; decision 9).

use crate::protocol::Fault;
use crate::protocol::fault::ensure;

/// Longest URL of a host, in bytes.
const MAX_URL_BYTES: usize = 512;

/// The base URLs of one GitHub. `https`, or `http` on a loopback address, which only tests use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    server: String,
    api: String,
    graphql: String,
}

impl Host {
    /// From `GITHUB_SERVER_URL`, `GITHUB_API_URL` and `GITHUB_GRAPHQL_URL`; what is absent or empty follows from the
    /// server: github.com has `api.github.com`, `*.ghe.com` has `api.` before its name, every other host has
    /// `/api/v3` and `/api/graphql`.
    ///
    /// # Errors
    /// `settings_invalid` for a URL that is no `https` base URL of at most 512 bytes (or `http` on loopback), or has
    /// user information, a query or a fragment.
    pub fn new(server: Option<&str>, api: Option<&str>, graphql: Option<&str>) -> Result<Self, Fault> {
        let given = |url: Option<&str>| url.filter(|url| !url.is_empty()).map(base).transpose();
        let server = given(server)?.unwrap_or_else(|| "https://github.com".to_owned());
        let (scheme, authority) = server.split_once("://").unwrap_or(("https", &server));
        let below = |dotted: &str, path: &str| match authority {
            "github.com" => format!("https://api.github.com{dotted}"),
            name if name.ends_with(".ghe.com") => format!("{scheme}://api.{name}{dotted}"),
            name => format!("{scheme}://{name}{path}"),
        };
        let api = given(api)?.unwrap_or_else(|| below("", "/api/v3"));
        let graphql = given(graphql)?.unwrap_or_else(|| below("/graphql", "/api/graphql"));
        Ok(Self { server, api, graphql })
    }

    /// Origin of the web pages and of git, such as `https://github.com`.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Base URL of REST, without a closing slash.
    #[must_use]
    pub fn api(&self) -> &str {
        &self.api
    }

    /// URL of GraphQL.
    #[must_use]
    pub fn graphql(&self) -> &str {
        &self.graphql
    }

    /// The host that resources must be on, such as `github.com` (decision 9): with its port, without a path.
    #[must_use]
    pub fn name(&self) -> &str {
        let rest = self.server.split_once("://").map_or(self.server.as_str(), |(_, rest)| rest);
        rest.split('/').next().unwrap_or(rest)
    }

    /// The API URL of a run, as a dispatch answer must name it.
    #[must_use]
    pub fn run_url(&self, repository: &str, run_id: &str) -> String {
        format!("{}/repos/{repository}/actions/runs/{run_id}", self.api)
    }

    /// The page of a run.
    #[must_use]
    pub fn html_url(&self, repository: &str, run_id: &str) -> String {
        format!("{}/{repository}/actions/runs/{run_id}", self.server)
    }
}

/// A base URL without its closing slash.
fn base(url: &str) -> Result<String, Fault> {
    let url = url.trim_end_matches('/');
    let allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'/' | b'[' | b']');
    let (scheme, rest) = url.split_once("://").unwrap_or(("", ""));
    let authority = rest.split('/').next().unwrap_or("");
    let name = authority.rsplit_once(':').map_or(authority, |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { authority }
    });
    let loopback = matches!(name, "127.0.0.1" | "localhost" | "[::1]");
    ensure!(
        url.len() <= MAX_URL_BYTES
            && rest.bytes().all(allowed)
            && !name.is_empty()
            && !rest.contains("//")
            && (scheme == "https" || (scheme == "http" && loopback)),
        SettingsInvalid,
        "a URL of the GitHub host is no https base URL"
    );
    // Hosts are compared as text afterwards, so there is one spelling.
    let (path, authority) = (&rest[authority.len()..], authority.to_ascii_lowercase());
    Ok(format!("{scheme}://{authority}{path}"))
}

#[cfg(test)]
mod tests {
    use super::Host;

    /// The three kinds of host, from the server alone and from all three variables.
    #[test]
    fn hosts_follow_from_their_server() {
        for (server, api, graphql, name) in [
            (None, "https://api.github.com", "https://api.github.com/graphql", "github.com"),
            (Some("https://github.com/"), "https://api.github.com", "https://api.github.com/graphql", "github.com"),
            (
                Some("https://Octo.ghe.com"),
                "https://api.octo.ghe.com",
                "https://api.octo.ghe.com/graphql",
                "octo.ghe.com",
            ),
            (
                Some("https://git.corp.example:8443"),
                "https://git.corp.example:8443/api/v3",
                "https://git.corp.example:8443/api/graphql",
                "git.corp.example:8443",
            ),
        ] {
            let host = Host::new(server, None, Some("")).unwrap();
            assert_eq!((host.api(), host.graphql(), host.name()), (api, graphql, name));
        }
        let given = Host::new(Some("https://h.example/git"), Some("https://h.example/git/api/v3/"), None).unwrap();
        assert_eq!(given.run_url("a/b", "7"), "https://h.example/git/api/v3/repos/a/b/actions/runs/7");
        assert_eq!(given.html_url("a/b", "7"), "https://h.example/git/a/b/actions/runs/7");
        assert_eq!(given.name(), "h.example");
    }

    /// What is no base URL of a host is refused, plain http anywhere but on this machine included.
    #[test]
    fn other_urls_are_refused() {
        for url in [
            "github.com",
            "http://github.com",
            "ftp://github.com",
            "https://",
            "https://u@h",
            "https://h?x",
            "https://h#f",
            "https://h/a//b",
            "https://h:x y",
            "http://localhost.example",
        ] {
            assert!(Host::new(Some(url), None, None).is_err(), "{url}");
        }
        assert!(Host::new(Some("http://127.0.0.1:8080"), None, None).is_ok());
    }
}
