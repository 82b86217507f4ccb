//! Every call that we make to GitHub, with the permission that it needs. `docs/SECURITY.md` is generated from this
//! table, and nothing else can be called: a [`super::Request`] is made from an endpoint.

/// The version of the REST API that every call names (lifecycle.md 0.3).
pub const API_VERSION: &str = "2026-03-10";

/// HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// A read.
    Get,
    /// A write, or a GraphQL query.
    Post,
}

impl Method {
    /// As it is sent.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// Which URL of the host a path is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// REST, below the API's base URL.
    Rest,
    /// The one GraphQL URL.
    Graphql,
}

/// One call.
#[derive(Debug)]
pub struct Endpoint {
    /// Short name, for diagnostics.
    pub name: &'static str,
    /// Method.
    pub method: Method,
    /// Path with its parameters in braces, as GitHub documents it; for GraphQL the query's name.
    pub path: &'static str,
    /// REST or GraphQL.
    pub interface: Interface,
    /// The permission that it needs, in the words of a workflow's `permissions`.
    pub permission: &'static str,
    /// What it is used for.
    pub purpose: &'static str,
    /// True if repeating it changes nothing.
    pub safe: bool,
    /// Longest wait for the whole answer, in seconds.
    pub seconds: u64,
}

macro_rules! endpoints {
    ($($constant:ident = $method:ident $interface:ident $path:literal, $name:literal, $permission:literal, $safe:literal, $purpose:literal;)*) => {
        $(#[doc = $purpose] pub const $constant: Endpoint = Endpoint {
            name: $name,
            method: Method::$method,
            path: $path,
            interface: Interface::$interface,
            permission: $permission,
            purpose: $purpose,
            safe: $safe,
            seconds: if $safe { 15 } else { 30 },
        };)*

        /// Every endpoint.
        pub const ENDPOINTS: &[&Endpoint] = &[$(&$constant,)*];
    };
}

endpoints! {
    USER = Get Rest "/user", "user", "any token of a person or App user", true,
        "Who acts: the principal of an operator and of a personal launch credential.";
    ACCOUNT = Get Rest "/users/{username}", "account", "metadata: read", true,
        "The numeric id of the bot account behind a workflow or App token.";
    REPOSITORY = Get Rest "/repos/{owner}/{repo}", "repository", "metadata: read", true,
        "The repository's identity, its default branch, and what the operator's account may do there.";
    REF = Get Rest "/repos/{owner}/{repo}/git/ref/{ref}", "ref", "contents: read", true,
        "The revision of the default branch, and the read-back of a snapshot tag.";
    CREATE_REF = Post Rest "/repos/{owner}/{repo}/git/refs", "create-ref", "contents: write", false,
        "Creates a snapshot tag that does not exist yet. Tags are never moved or deleted.";
    CONTENTS = Get Rest "/repos/{owner}/{repo}/contents/{path}", "contents", "contents: read", true,
        "Settings, worker sources and compiled workflows at one verified revision.";
    WORKFLOW = Get Rest "/repos/{owner}/{repo}/actions/workflows/{workflow_id}", "workflow", "actions: read", true,
        "Whether a workflow is registered at its path and active.";
    WORKFLOW_RUNS = Get Rest "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/runs", "workflow-runs",
        "actions: read", true, "Candidates for a launch whose answer was lost.";
    DISPATCH = Post Rest "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches", "dispatch",
        "actions: write", false, "The one POST that launches a dispatch, or starts a dispatcher.";
    RUN = Get Rest "/repos/{owner}/{repo}/actions/runs/{run_id}", "run", "actions: read", true,
        "The newest attempt of a run: the own one of a publisher, or a freshly launched one.";
    RUN_ATTEMPT = Get Rest "/repos/{owner}/{repo}/actions/runs/{run_id}/attempts/{attempt_number}", "run-attempt",
        "actions: read", true, "One exact attempt: evidence that a worker ended, or an earlier origin.";
    RUN_ARTIFACTS = Get Rest "/repos/{owner}/{repo}/actions/runs/{run_id}/artifacts", "run-artifacts", "actions: read", true,
        "`replay --run-id` alone: which activation snapshots a run has left.";
    ARTIFACT_ZIP = Get Rest "/repos/{owner}/{repo}/actions/artifacts/{artifact_id}/{archive_format}", "artifact-zip",
        "actions: read", true,
        "`replay --run-id` alone: one activation artifact, from the signed address that the answer names, without the token.";
    CANCEL_RUN = Post Rest "/repos/{owner}/{repo}/actions/runs/{run_id}/cancel", "cancel-run", "actions: write", false,
        "Asks for the cancellation of a bound run. It proves nothing and frees nothing.";
    ISSUE = Get Rest "/repos/{owner}/{repo}/issues/{issue_number}", "issue", "issues: read", true,
        "State of an Issue that a Work waits for.";
    PULL = Get Rest "/repos/{owner}/{repo}/pulls/{pull_number}", "pull", "pull-requests: read", true,
        "State and exact identity of a pull request that a Work waits for.";
    BRANCH_RULES = Get Rest "/repos/{owner}/{repo}/rules/branches/{branch}", "branch-rules", "metadata: read", true,
        "`doctor` alone: rules that would refuse a push to the queue branch.";
    VERSIONS = Get Rest "/versions", "versions", "none", true,
        "`doctor`, and before a start marker: whether the host knows the pinned API version.";
    IS_EMPTY = Post Graphql "QueueRepository", "is-empty", "contents: read", true,
        "Confirms that a repository without branches is empty, before a queue is taken to be absent.";
    PULL_MERGE = Post Graphql "QueuePullRequest", "pull-merge", "pull-requests: read", true,
        "The merge commit of a pull request, which the pinned REST version no longer has.";
}
