//! Starting a dispatcher by hand (operator-cli.md 7.2, lifecycle.md 1.9). It assigns nothing: the dispatcher's own
//! jobs grant and launch. Everything is verified at one revision of the default branch before anything is written; one
//! request goes out, and no other run than the one that its answer names is ever looked at.

use std::borrow::Cow;
use std::time::Duration;

use super::error::LaunchError;
use super::route::{DefaultRevision, Defect, LockFile, SourceFile, default_revision, is_workflow_name};
use super::tag::ensure_tag;
use crate::forge::{Client, ForgeError, Posted, Run};
use crate::ports::Clock;
use crate::protocol::{Code, Decimal, RepositoryName, Revision};

/// Longest workflow file, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Pauses between reads of a run that the host does not show yet, in milliseconds.
const RUN_PAUSES: [u64; 3] = [500, 1000, 2000];
/// Pause between two looks at a run that has not ended.
const POLL: Duration = Duration::from_secs(10);
/// Looks in a row that may fail before waiting is given up.
const MAX_FAILED_POLLS: u32 = 30;

/// A dispatcher whose source, compiled workflow, control lists and registration hold together at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatcher {
    /// Path of the compiled workflow.
    pub path: String,
    /// The default branch.
    pub branch: String,
    /// Its revision, at which everything was read.
    pub revision: Revision,
    file: String,
}

/// A dispatcher's run that was started and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Full name of the snapshot tag that it runs at.
    pub tag: String,
    /// The run.
    pub run_id: Decimal,
    /// Its page.
    pub html_url: String,
    /// What the host says of it, `queued` and the like.
    pub status: Option<String>,
    /// How it ended, once it has.
    pub conclusion: Option<String>,
}

/// Why a dispatcher was not started, or not verifiably so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatcherError {
    /// Stable code.
    pub code: Code,
    /// What is wrong.
    pub message: Cow<'static, str>,
    /// What to do next.
    pub action: Cow<'static, str>,
    /// The run that was accepted, where its page is known and it could not be verified.
    pub accepted: Option<String>,
}

impl DispatcherError {
    fn new(code: Code, message: impl Into<Cow<'static, str>>, action: &'static str) -> Self {
        Self { code, message: message.into(), action: action.into(), accepted: None }
    }

    /// A failed read before anything was written.
    fn lookup(error: LaunchError) -> Self {
        Self::new(error.code(), error.message().into_owned(), error.action())
    }
}

impl From<ForgeError> for DispatcherError {
    fn from(error: ForgeError) -> Self {
        Self::new(error.code(), error.message(), error.action())
    }
}

impl From<Defect> for DispatcherError {
    fn from(defect: Defect) -> Self {
        Self::new(Code::DispatcherInvalid, defect.sentence(), defect.action())
    }
}

/// A snapshot tag that is not there or not shown to be right: nothing was started.
impl From<LaunchError> for DispatcherError {
    fn from(error: LaunchError) -> Self {
        let action = match error.code() {
            Code::SnapshotTagMismatch => {
                "Find out who made the tag; it is never moved or deleted here. No run was started."
            }
            Code::ApiForbidden => "Give the token contents: write, or have the tag made; no run was started.",
            _ => "Repeat the command; no run was started.",
        };
        Self::new(error.code(), error.message().into_owned(), action)
    }
}

/// Verifies a dispatcher by the name of its source, `.github/workflows/<name>.md`. Reads alone.
///
/// # Errors
/// `usage_invalid` for a name that is none, `policy_invalid` for a default branch without a revision,
/// `dispatcher_invalid` for whatever does not hold together, and the code of a call that failed.
pub fn verify_dispatcher(
    client: Client<'_>,
    repository: &RepositoryName,
    name: &str,
) -> Result<Dispatcher, DispatcherError> {
    if !is_name(name) {
        let message = "a dispatcher is named by its workflow's file without path and extension";
        return Err(DispatcherError::new(Code::UsageInvalid, message, "Name it as in .github/workflows/NAME.md."));
    }
    let DefaultRevision { branch, revision } = default_revision(client, repository).map_err(DispatcherError::lookup)?;
    let (source_path, file) = (format!(".github/workflows/{name}.md"), format!("{name}.lock.yml"));
    let path = format!(".github/workflows/{file}");
    let read = |path: &str, missing: &'static str| match client.file(repository, &revision, path, MAX_FILE_BYTES)? {
        Some(Ok(bytes)) => Ok(bytes),
        Some(Err(_)) => Err(invalid("a workflow file of the dispatcher is no regular file of at most 1 MiB")),
        None => Err(invalid(missing)),
    };
    let source = SourceFile::read(&read(&source_path, "the default branch has no such source workflow")?)?;
    let workers = source.check_dispatcher()?;
    let lock = LockFile::read(&read(&path, "the default branch has no compiled workflow of this dispatcher")?)?;
    lock.check_dispatcher(&workers)?;
    match client.workflow(repository, &file)? {
        Some(workflow) if workflow.path == path && workflow.state == "active" => {}
        Some(workflow) if workflow.path == path => {
            let message = "the workflow is registered and not active";
            let action = "Enable the workflow on GitHub; this command does not.";
            return Err(DispatcherError::new(Code::DispatcherInvalid, message, action));
        }
        _ => return Err(invalid("the workflow is not registered under this path")),
    }
    Ok(Dispatcher { path, branch, revision, file })
}

/// Starts a verified dispatcher: makes or finds the snapshot tag, sends one request, and compares the run that its
/// answer names with what was verified. Nothing is sent twice, whatever happens.
///
/// # Errors
/// Before the request, the codes of [`ensure_tag`]. `api_…` when the host refused the request: no run was
/// started. `dispatch_unverified` when a run may have been started or was started and is not shown to be the right one.
pub fn start_dispatcher(
    client: Client<'_>,
    clock: &dyn Clock,
    repository: &RepositoryName,
    dispatcher: &Dispatcher,
) -> Result<Started, DispatcherError> {
    let tag = ensure_tag(client, repository, &dispatcher.revision)?;
    let (run_id, html_url) = match client.dispatch(repository, &dispatcher.file, &tag, &[]) {
        Posted::Accepted { run_id, html_url } => (run_id, html_url),
        Posted::Rejected { status, .. } => return Err(rejected(status)),
        Posted::Unknown { .. } => {
            let message = "the request was sent, and its answer names no run: one may have been started";
            return Err(unverified(message, None));
        }
    };
    let run = match read_run(client, clock, repository, &run_id) {
        Ok(run) => run,
        Err(error) => {
            let message = format!("a run was accepted and could not be read: {}", error.message());
            return Err(unverified(message, Some(html_url)));
        }
    };
    let same = run.id == run_id
        && run.repository.full_name.eq_ignore_ascii_case(repository.as_str())
        && run.path.split('@').next() == Some(dispatcher.path.as_str())
        && run.event == "workflow_dispatch"
        && run.head_sha == dispatcher.revision;
    if !same {
        let message = "the accepted run is not of the verified repository, workflow, event and revision";
        return Err(unverified(message, Some(html_url)));
    }
    Ok(Started { tag, run_id, html_url, status: run.status, conclusion: run.conclusion })
}

/// Waits until a dispatcher's run has ended, looking every ten seconds. Its workers are not waited for.
///
/// # Errors
/// The last failure when the run could not be read thirty times in a row, or was refused to this credential. It names
/// the run, which goes on.
pub fn wait_for_dispatcher(
    client: Client<'_>,
    clock: &dyn Clock,
    repository: &RepositoryName,
    started: &mut Started,
) -> Result<(), DispatcherError> {
    let mut failed = 0;
    loop {
        match client.run_attempt(repository, &started.run_id, 1) {
            Ok(run) => {
                failed = 0;
                (started.status, started.conclusion) = (run.status, run.conclusion);
                if started.status.as_deref() == Some("completed") && started.conclusion.is_some() {
                    return Ok(());
                }
            }
            Err(error) if error.is_transient() && failed < MAX_FAILED_POLLS => failed += 1,
            Err(error) => {
                let message = format!("the run was started and cannot be read: {}", error.message());
                let action = "It goes on without being watched; do not start it again.";
                let accepted = Some(started.html_url.clone());
                return Err(DispatcherError { accepted, ..DispatcherError::new(error.code(), message, action) });
            }
        }
        clock.sleep(POLL);
    }
}

/// The run that an answer named. The host may take a moment until it shows it.
fn read_run(
    client: Client<'_>,
    clock: &dyn Clock,
    repository: &RepositoryName,
    run_id: &Decimal,
) -> Result<Run, ForgeError> {
    for pause in RUN_PAUSES {
        match client.run(repository, run_id) {
            Err(error) if error.is_missing() || error.is_transient() => clock.sleep(Duration::from_millis(pause)),
            other => return other,
        }
    }
    client.run(repository, run_id)
}

/// True for the base name of a source, without the extension of any file.
fn is_name(name: &str) -> bool {
    is_workflow_name(name) && ![".md", ".yml", ".yaml"].iter().any(|extension| name.ends_with(extension))
}

fn invalid(message: &'static str) -> DispatcherError {
    let action = "Compile the dispatcher and merge source and compiled workflow into the default branch.";
    DispatcherError::new(Code::DispatcherInvalid, message, action)
}

fn rejected(status: u16) -> DispatcherError {
    let code = match status {
        401 => Code::ApiUnauthenticated,
        403 => Code::ApiForbidden,
        404 => Code::ApiNotFound,
        429 => Code::ApiRateLimited,
        _ => Code::ApiUnprocessable,
    };
    let message = format!("GitHub refused to start the dispatcher (HTTP {status}); no run was started");
    DispatcherError::new(code, message, "The token needs actions: write; correct the cause, then repeat the command.")
}

fn unverified(message: impl Into<Cow<'static, str>>, accepted: Option<String>) -> DispatcherError {
    let action =
        "Look at the workflow's runs on GitHub before starting it again; this command sends no second request.";
    DispatcherError { accepted, ..DispatcherError::new(Code::DispatchUnverified, message, action) }
}
