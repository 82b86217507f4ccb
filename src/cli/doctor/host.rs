//! The host, the token, and the rules of the queue branch.

use super::{Findings, Level};
use crate::cli::hub::{Caller, Hub};
use crate::forge::{Failure as Kind, ForgeError};
use crate::ports::{Clock as _, SystemClock};
use crate::protocol::At;

/// A clock that is further off than this is told, in milliseconds. Nothing in the queue depends on it (decision 18).
const MAX_DRIFT_MS: i64 = 60_000;

/// Rules of a branch that refuse an ordinary, unsigned fast-forward push by this token unless it may bypass them.
const REFUSING: [(&str, &str); 12] = [
    ("creation", "creating the branch"),
    ("update", "every push"),
    ("pull_request", "a push without a pull request"),
    ("required_status_checks", "a push without passed checks"),
    ("required_deployments", "a push without deployments"),
    ("required_signatures", "commits without a signature"),
    ("merge_queue", "a push outside the merge queue"),
    ("workflows", "a push without passed workflows"),
    ("code_scanning", "a push without scan results"),
    ("commit_message_pattern", "commit messages of another form"),
    ("commit_author_email_pattern", "authors of another form"),
    ("committer_email_pattern", "committers of another form"),
];

/// API version and clock.
pub(super) fn look(caller: &Caller, findings: &mut Findings) {
    let before = SystemClock.now();
    match caller.client().versions() {
        Ok(date) => {
            findings.ok("api_version", "the host offers the REST API version that launches need");
            clock(before, date, findings);
        }
        Err(error) if *error.failure() == Kind::Unsupported => findings.add(
            Level::Warning,
            error.code().as_str(),
            format!("{}; launches and wq dispatch are refused there", error.message()),
            error.action(),
        ),
        Err(error) => findings.failed(Level::Warning, &error.into()),
    }
}

fn clock(before: At, date: Option<At>, findings: &mut Findings) {
    let Some(date) = date else { return };
    // The header counts whole seconds.
    let drift = (before.get() - date.get()).abs();
    if drift > MAX_DRIFT_MS {
        findings.add(
            Level::Warning,
            "clock_drift",
            format!("this machine's clock differs from the host's by {} s", drift / 1000),
            "Synchronize the clock; times in the ledger are only as good as it.",
        );
    } else {
        findings.ok("clock", "this machine's clock agrees with the host's");
    }
}

/// What the token is shown to be good for, and what the branch's rules refuse.
pub(super) fn permissions(hub: &Hub, branch: &str, findings: &mut Findings) {
    let scopes = account(hub, findings);
    roles(hub, scopes.as_deref(), findings);
    reads(hub, findings);
    rules(hub, branch, findings);
}

/// The account, and a classic token's scopes.
fn account(hub: &Hub, findings: &mut Findings) -> Option<Vec<String>> {
    match hub.client().credential() {
        Ok(credential) => {
            findings.ok("account", format!("the token acts for account {}", credential.account.id.as_str()));
            credential.scopes
        }
        Err(error) if *error.failure() == Kind::Forbidden => {
            findings.add(
                Level::Warning,
                error.code().as_str(),
                "the token has no account of its own, as the token of a workflow or an App",
                "Use a person's token for commands that write; reads work without one.",
            );
            None
        }
        Err(error) => {
            findings.failed(Level::Warning, &error.into());
            None
        }
    }
}

/// What the account may do, and what a classic token's scopes leave of it. Of other tokens the host tells nothing.
fn roles(hub: &Hub, scopes: Option<&[String]>, findings: &mut Findings) {
    let permissions = hub.record.permissions;
    if permissions.admin {
        findings.ok("administration", "the account may administer the queue");
    } else {
        findings.add(
            Level::Note,
            "administration",
            "the account has no admin permission: dispatch-next, policy, deploy, control, cancel and compact are refused",
            "Let an administrator of the repository run them.",
        );
    }
    if !permissions.push {
        findings.add(
            Level::Warning,
            "contents_write",
            "the account has no write permission: submissions, snapshot tags and launches are refused",
            "Ask for write permission to the repository.",
        );
        return;
    }
    let repo = scopes.map(|scopes| scopes.iter().any(|scope| scope == "repo" || scope == "public_repo"));
    for (code, permission, needed) in [
        ("contents_write", "contents: write", "publications and new snapshot tags"),
        ("actions_write", "actions: write", "launches and wq dispatch"),
    ] {
        match repo {
            Some(true) => findings.ok(code, format!("the token's scopes include {permission}, for {needed}")),
            Some(false) => findings.add(
                Level::Warning,
                code,
                format!("the token's scopes do not include {permission}, which {needed} need"),
                "Give the classic token the scope repo.",
            ),
            None => findings.add(
                Level::Note,
                code,
                format!("{needed} need {permission}; a read cannot show whether this token has it"),
                format!("Check that the token's permissions for this repository include {permission}."),
            ),
        }
    }
}

/// Reads that need the permissions of the commands that read.
fn reads(hub: &Hub, findings: &mut Findings) {
    let client = hub.client();
    let default = hub.record.default_branch.as_deref().unwrap_or("main");
    let contents = client.reference(&hub.name, &format!("heads/{default}")).map(|_| ());
    let actions = client.workflow(&hub.name, "dispatcher.lock.yml").map(|_| ());
    for (code, name, read) in [("contents_read", "contents", contents), ("actions_read", "actions", actions)] {
        match read {
            Ok(()) => findings.ok(code, format!("the token may read {name}")),
            // An empty repository has no references.
            Err(error) if *error.failure() == Kind::Conflict => {}
            Err(error) => failed(findings, &error),
        }
    }
}

fn rules(hub: &Hub, branch: &str, findings: &mut Findings) {
    let kinds = match hub.client().branch_rules(&hub.name, branch) {
        Ok(kinds) => kinds,
        Err(error) => return failed(findings, &error),
    };
    let mut refusing = REFUSING.iter().filter(|(kind, _)| kinds.iter().any(|found| found == kind)).peekable();
    if refusing.peek().is_none() {
        findings.ok("branch_rules", "no rule of the queue branch that the host shows refuses a push");
    }
    for (kind, what) in refusing {
        findings.add(
            Level::Warning,
            "branch_rule",
            format!("a rule of the queue branch, {kind}, refuses {what}"),
            "Leave the queue branch out of the rule, or let the publishers' account or App bypass it.",
        );
    }
}

fn failed(findings: &mut Findings, error: &ForgeError) {
    findings.add(Level::Warning, error.code().as_str(), error.message(), error.action());
}
