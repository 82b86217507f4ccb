//! Settings and workflows of the default branch.

use super::local::remark;
use super::{Findings, Level};
use crate::cli::hub::Hub;
use crate::forge::{EntryKind, ForgeError};
use crate::launch::route::{Defect, LockFile, SourceFile};
use crate::launch::settings::{self, Given, MAX_FILE_BYTES, Settings};
use crate::protocol::{Code, Revision};

const DIRECTORY: &str = ".github/workflows";
/// Where the host's listing of a directory ends.
const LISTING_LIMIT: usize = 1000;

/// Looks at every source workflow that uses the queue, with its compiled file and registration.
pub(super) fn look(hub: &Hub, findings: &mut Findings) {
    if let Err(error) = walk(hub, findings) {
        findings.add(Level::Warning, error.code().as_str(), error.message(), error.action());
    }
}

fn walk(hub: &Hub, findings: &mut Findings) -> Result<(), ForgeError> {
    let client = hub.client();
    let branch = hub.record.default_branch.as_deref().unwrap_or_default();
    let head = if branch.is_empty() { None } else { client.reference(&hub.name, &format!("heads/{branch}"))? };
    let Some(head) = head else {
        findings.add(
            Level::Warning,
            Code::PolicyInvalid.as_str(),
            "the default branch has no revision, so there are no workers",
            "Push a first commit with the workers to the default branch.",
        );
        return Ok(());
    };
    let revision = head.object.sha;
    let given = settings(hub, &revision, findings)?;
    let entries = client.directory(&hub.name, &revision, DIRECTORY)?.unwrap_or_default();
    if entries.len() >= LISTING_LIMIT {
        findings.add(
            Level::Warning,
            Code::PolicyMissing.as_str(),
            "the workflow folder holds 1,000 files or more, so its listing cannot be trusted to be whole",
            "Remove workflows that are not used.",
        );
    }
    let mut workers = Vec::new();
    let mut dispatchers = Vec::new();
    for entry in entries.iter().filter(|entry| entry.kind == EntryKind::File) {
        let Some(name) = entry.path.strip_prefix(DIRECTORY).and_then(|rest| rest.strip_prefix('/')) else { continue };
        let Some(name) = name.strip_suffix(".md") else { continue };
        let Some(Ok(bytes)) = client.file(&hub.name, &revision, &entry.path, MAX_FILE_BYTES as u64)? else { continue };
        // A source that is no workflow of ours is none of our business.
        let Ok(source) = SourceFile::read(&bytes) else { continue };
        if !source.uses_queue() {
            continue;
        }
        for finding in source.findings(given) {
            remark(name, finding.error, finding.property, finding.message, findings);
        }
        if source.is_worker() {
            workers.push(name.to_owned());
            worker(hub, &revision, name, findings)?;
        } else if let Ok(Some(listed)) = source.dispatched_workers() {
            dispatchers.push((name.to_owned(), listed.clone()));
            let lock = compiled(hub, &revision, name, findings)?;
            let checked = lock.map(|lock| lock.check_dispatcher(&listed));
            verdict(name, "dispatcher", checked, findings);
        }
    }
    for (name, listed) in &dispatchers {
        for missing in listed.iter().filter(|listed| !workers.contains(listed)) {
            findings.add(
                Level::Warning,
                "dispatcher_worker_missing",
                format!("{name} may launch {missing}, which is no worker of the default branch"),
                "Correct the list of workers, or merge the worker's source and compiled workflow.",
            );
        }
    }
    absent(&workers, dispatchers.len(), findings);
    Ok(())
}

fn absent(workers: &[String], dispatchers: usize, findings: &mut Findings) {
    if workers.is_empty() {
        findings.add(
            Level::Warning,
            Code::PolicyMissing.as_str(),
            "no workflow of the default branch is declared as a worker",
            "Declare one with tools.work-queue.worker: true, compile it and merge both files.",
        );
    }
    if dispatchers == 0 {
        findings.add(
            Level::Warning,
            Code::DispatcherInvalid.as_str(),
            "no workflow of the default branch launches workers",
            "Give a dispatcher the list safe-outputs.dispatch-workflow.workflows, compile it and merge both files.",
        );
    }
}

fn settings(hub: &Hub, revision: &Revision, findings: &mut Findings) -> Result<Given, ForgeError> {
    let path = ".github/workflows/aw.json";
    let read = hub.client().file(&hub.name, revision, path, MAX_FILE_BYTES as u64)?;
    let parsed = match read {
        None => Ok(Settings::default()),
        Some(Ok(bytes)) => settings::parse(&bytes),
        Some(Err(_)) => {
            let message = "the settings file is no regular file of at most 1 MiB";
            findings.add(Level::Error, Code::SettingsInvalid.as_str(), message, "Replace it by a regular file.");
            return Ok(Given::default());
        }
    };
    match parsed {
        Ok(settings) => {
            findings.ok("settings", "the repository's settings are valid");
            Ok(settings.given)
        }
        Err(error) => {
            let message = format!("{}: {}", error.property(), error.message());
            findings.add(Level::Error, error.code().as_str(), message, "Correct .github/workflows/aw.json.");
            Ok(Given::default())
        }
    }
}

fn worker(hub: &Hub, revision: &Revision, name: &str, findings: &mut Findings) -> Result<(), ForgeError> {
    let lock = compiled(hub, revision, name, findings)?;
    for finding in lock.iter().flat_map(|lock| lock.findings(true)) {
        remark(name, finding.error, finding.property, finding.message, findings);
    }
    if lock.as_ref().is_some_and(LockFile::has_shared_concurrency_group) {
        shared_concurrency(name, findings);
    }
    let checked = lock.map(|lock| lock.check_assignment().and_then(|()| lock.contract().map(|_| ())));
    verdict(name, "worker", checked, findings);
    Ok(())
}

pub(super) fn shared_concurrency(name: &str, findings: &mut Findings) {
    findings.add(
        Level::Warning,
        "worker_concurrency",
        format!("{name}: all its runs share a concurrency group, so GitHub cancels siblings that wait in it"),
        "Put ${{ github.run_id }} into the group, or remove the group; the queue bounds how many run.",
    );
}

/// The compiled file, if it is there and can be read; its registration is looked at beside.
fn compiled(
    hub: &Hub,
    revision: &Revision,
    name: &str,
    findings: &mut Findings,
) -> Result<Option<LockFile>, ForgeError> {
    let file = format!("{name}.lock.yml");
    let path = format!("{DIRECTORY}/{file}");
    let compile = "Compile the workflow and merge the result.";
    let bytes = match hub.client().file(&hub.name, revision, &path, MAX_FILE_BYTES as u64)? {
        Some(Ok(bytes)) => bytes,
        Some(Err(_)) => {
            let message = format!("{name}: the compiled workflow is no regular file of at most 1 MiB");
            findings.add(Level::Error, "workflow_unusable", message, compile);
            return Ok(None);
        }
        None => {
            let message = format!("{name}: there is no compiled workflow");
            findings.add(Level::Error, "workflow_missing", message, compile);
            return Ok(None);
        }
    };
    match hub.client().workflow(&hub.name, &file)? {
        Some(found) if found.path == path && found.state == "active" => {}
        Some(_) => {
            let message = format!("{name}: the workflow is registered and not active at its path");
            findings.add(Level::Error, "workflow_inactive", message, "Enable the workflow on GitHub.");
        }
        None => {
            let message = format!("{name}: the workflow is not registered");
            findings.add(Level::Error, "workflow_unregistered", message, "Merge it into the default branch and wait.");
        }
    }
    match LockFile::read(&bytes) {
        Ok(lock) => Ok(Some(lock)),
        Err(defect) => {
            verdict(name, "workflow", Some(Err(defect)), findings);
            Ok(None)
        }
    }
}

pub(super) fn verdict(name: &str, what: &str, checked: Option<Result<(), Defect>>, findings: &mut Findings) {
    match checked {
        None => {}
        Some(Ok(())) => findings.ok("workflow", format!("{name}: a {what} whose files hold together")),
        Some(Err(defect)) => {
            findings.add(Level::Error, "workflow_unusable", format!("{name}: {}", defect.sentence()), defect.action());
        }
    }
}
