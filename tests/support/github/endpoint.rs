//! The endpoints that the simulator serves, their templates and the permission each needs.

use super::world::{Area, Level};

/// An endpoint of GitHub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Endpoint {
    User,
    Account,
    Repository,
    GetRef,
    CreateRef,
    Contents,
    Workflow,
    WorkflowRuns,
    Dispatch,
    Run,
    Attempt,
    Artifacts,
    ArtifactZip,
    Cancel,
    Rerun,
    Issue,
    Pull,
    BranchRules,
    ActionsPermissions,
    Versions,
    Meta,
    RateLimit,
    GraphQl,
    /// Smart-HTTP Git, reading.
    GitFetch,
    /// Smart-HTTP Git, writing.
    GitPush,
    /// Nothing that is simulated.
    Unknown,
}

use Endpoint::{
    Account, ActionsPermissions, ArtifactZip, Artifacts, Attempt, BranchRules, Cancel, Contents, CreateRef, Dispatch,
    GetRef, GitFetch, GitPush, GraphQl, Issue, Meta, Pull, RateLimit, Repository, Rerun, Run, Unknown, User, Versions,
    Workflow, WorkflowRuns,
};

/// An endpoint, its method, its template and the permission that it needs.
pub(crate) type Row = (Endpoint, &'static str, &'static str, Option<(Area, Level)>);

/// Method, template and needed permission of every endpoint of the REST API. A last parameter takes the rest of the
/// path.
pub(crate) const REST: &[Row] = &[
    (User, "GET", "/user", None),
    (Account, "GET", "/users/{username}", None),
    (Repository, "GET", "/repos/{owner}/{repo}", Some((Area::Metadata, Level::Read))),
    (GetRef, "GET", "/repos/{owner}/{repo}/git/ref/{ref}", Some((Area::Contents, Level::Read))),
    (CreateRef, "POST", "/repos/{owner}/{repo}/git/refs", Some((Area::Contents, Level::Write))),
    (Contents, "GET", "/repos/{owner}/{repo}/contents/{path}", Some((Area::Contents, Level::Read))),
    (Workflow, "GET", "/repos/{owner}/{repo}/actions/workflows/{workflow_id}", Some((Area::Actions, Level::Read))),
    (
        WorkflowRuns,
        "GET",
        "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/runs",
        Some((Area::Actions, Level::Read)),
    ),
    (
        Dispatch,
        "POST",
        "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches",
        Some((Area::Actions, Level::Write)),
    ),
    (Run, "GET", "/repos/{owner}/{repo}/actions/runs/{run_id}", Some((Area::Actions, Level::Read))),
    (
        Attempt,
        "GET",
        "/repos/{owner}/{repo}/actions/runs/{run_id}/attempts/{attempt_number}",
        Some((Area::Actions, Level::Read)),
    ),
    (Artifacts, "GET", "/repos/{owner}/{repo}/actions/runs/{run_id}/artifacts", Some((Area::Actions, Level::Read))),
    (
        ArtifactZip,
        "GET",
        "/repos/{owner}/{repo}/actions/artifacts/{artifact_id}/{archive_format}",
        Some((Area::Actions, Level::Read)),
    ),
    (Cancel, "POST", "/repos/{owner}/{repo}/actions/runs/{run_id}/cancel", Some((Area::Actions, Level::Write))),
    (Rerun, "POST", "/repos/{owner}/{repo}/actions/runs/{run_id}/rerun", Some((Area::Actions, Level::Write))),
    (Issue, "GET", "/repos/{owner}/{repo}/issues/{issue_number}", Some((Area::Issues, Level::Read))),
    (Pull, "GET", "/repos/{owner}/{repo}/pulls/{pull_number}", Some((Area::PullRequests, Level::Read))),
    (BranchRules, "GET", "/repos/{owner}/{repo}/rules/branches/{branch}", Some((Area::Metadata, Level::Read))),
    (ActionsPermissions, "GET", "/repos/{owner}/{repo}/actions/permissions", Some((Area::Administration, Level::Read))),
    (Versions, "GET", "/versions", None),
    (Meta, "GET", "/meta", None),
    (RateLimit, "GET", "/rate_limit", None),
];

impl Endpoint {
    /// `GET /user` and so on: the name in the call log.
    pub(crate) fn name(self) -> String {
        match self {
            GraphQl => "POST /graphql".to_owned(),
            GitFetch => "git fetch".to_owned(),
            GitPush => "git push".to_owned(),
            Unknown => "unknown".to_owned(),
            _ => format!("{} {}", self.row().1, self.row().2),
        }
    }

    pub(super) fn template(self) -> &'static str {
        self.row().2
    }

    pub(super) fn needs(self) -> Option<(Area, Level)> {
        REST.iter().find(|row| row.0 == self).and_then(|row| row.3)
    }

    fn row(self) -> &'static Row {
        REST.iter().find(|row| row.0 == self).expect("only REST endpoints are asked for a row")
    }

    /// Finds the endpoint of a request, and its path parameters in order, decoded.
    pub(super) fn find(method: &str, path: &str) -> (Endpoint, Vec<String>) {
        let given: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        for (endpoint, verb, template, _) in REST {
            if *verb != method {
                continue;
            }
            if let Some(parameters) = fit(template, &given) {
                return (*endpoint, parameters);
            }
        }
        (Unknown, Vec::new())
    }
}

/// The parameters of a path, if the template fits it.
fn fit(template: &str, given: &[&str]) -> Option<Vec<String>> {
    let wanted: Vec<&str> = template.trim_start_matches('/').split('/').collect();
    let greedy = ["{ref}", "{path}", "{branch}"].contains(wanted.last()?);
    if given.len() < wanted.len() || (given.len() > wanted.len() && !greedy) {
        return None;
    }
    let mut parameters = Vec::new();
    for (index, want) in wanted.iter().enumerate() {
        let last = index + 1 == wanted.len();
        if want.starts_with('{') {
            let text = if last { given[index..].join("/") } else { given[index].to_owned() };
            if text.is_empty() {
                return None;
            }
            parameters.push(decode(&text));
        } else if *want != given[index] {
            return None;
        }
    }
    Some(parameters)
}

/// Takes percent-encoding away.
pub(super) fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let pair = bytes.get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        match (bytes[at], pair.and_then(|pair| u8::from_str_radix(pair, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
