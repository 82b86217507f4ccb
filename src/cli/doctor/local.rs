//! The workflow checks alone, on a directory of this machine (`--workflows`): what `wq init` writes, or a pull request
//! would merge. No network, no token, no queue.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Finding, Findings, Level};
use crate::cli::Failure;
use crate::launch::route::{Defect, LockFile, SourceFile, WORKFLOWS};
use crate::launch::settings::{self, Given, MAX_FILE_BYTES, SETTINGS_FILE};
use crate::protocol::Code;

/// First line of a compiled file that `wq init` wrote; its stamp is ours to check.
pub(in crate::cli) const OURS: &str = "# Written by wq init";
/// Most files of a folder that are looked at, as many as the host lists.
const MAX_FILES: usize = 1000;

/// A workflow that uses the queue, as its files lie in the directory.
struct Workflow {
    name: String,
    source: SourceFile,
    lock: Option<LockFile>,
}

/// Looks at the settings and at every workflow of a directory that uses the queue.
///
/// # Errors
/// `io_failed` where the folder of workflows, or a file in it, cannot be read.
pub(in crate::cli) fn look(root: &Path, findings: &mut Findings) -> Result<(), Failure> {
    let folder = root.join(WORKFLOWS);
    let given = settings(root, findings)?;
    let mut workflows = Vec::new();
    for name in sources(&folder)? {
        let Some(bytes) = read(&folder.join(format!("{name}.md")))? else { continue };
        let source = match SourceFile::read(&bytes) {
            Ok(source) => source,
            // A text without front matter, such as a read-me, is no workflow.
            Err(Defect::FrontMatterMissing) if !bytes.starts_with(b"---") => continue,
            Err(defect) => {
                unusable(&name, defect, findings);
                continue;
            }
        };
        for finding in source.findings(given) {
            remark(&name, finding.error, finding.property, finding.message, findings);
        }
        if source.uses_queue() {
            workflows.push(Workflow { lock: compiled(&folder, &name, findings)?, name, source });
        }
    }
    for workflow in &workflows {
        judge(root, workflow, &workflows, findings)?;
    }
    if workflows.is_empty() {
        findings.add(
            Level::Warning,
            Code::PolicyMissing.as_str(),
            "no workflow here uses the queue",
            "Write some with wq init, or name another directory with --dir.",
        );
    }
    Ok(())
}

fn judge(root: &Path, workflow: &Workflow, all: &[Workflow], findings: &mut Findings) -> Result<(), Failure> {
    let Workflow { name, source, lock } = workflow;
    let Some(lock) = lock else { return Ok(()) };
    for finding in lock.findings(source.is_worker()) {
        remark(name, finding.error, finding.property, finding.message, findings);
    }
    let checked = if source.is_worker() {
        if lock.has_shared_concurrency_group() {
            super::workflows::shared_concurrency(name, findings);
        }
        lock.check_assignment().and_then(|()| lock.contract()).and_then(|stamp| {
            let outdated = is_ours(root, name) && computed(root, source).is_some_and(|computed| computed != stamp);
            if outdated { Err(Defect::StampUnexpected) } else { Ok(()) }
        })
    } else {
        match source.dispatched_workers() {
            Ok(Some(listed)) => {
                launches(name, &listed, all, findings);
                lock.check_dispatcher(&listed)
            }
            Ok(None) if lock.declares_assignment() => Err(Defect::AssignmentForbidden),
            Ok(None) => Ok(()),
            Err(defect) => Err(defect),
        }
    };
    let what = if source.is_worker() { "worker" } else { "dispatcher" };
    super::workflows::verdict(name, what, Some(checked), findings);
    Ok(())
}

/// Every worker that a dispatcher may launch is one.
fn launches(name: &str, listed: &BTreeSet<String>, all: &[Workflow], findings: &mut Findings) {
    let is_worker = |wanted: &str| all.iter().any(|other| other.name == wanted && other.source.is_worker());
    for missing in listed.iter().filter(|listed| !is_worker(listed)) {
        findings.add(
            Level::Error,
            "dispatcher_worker_missing",
            format!("{name} may launch {missing}, which has no source that declares it as a worker"),
            "Correct the list of workers, or add the worker's source and compiled workflow.",
        );
    }
}

/// The stamp that a source of ours must have; none if an import is not to be had here.
pub(in crate::cli) fn computed(root: &Path, source: &SourceFile) -> Option<crate::protocol::Digest> {
    let mut imports = Vec::new();
    for path in source.imports() {
        // Imports of other repositories are not read: their stamp cannot be known here.
        let local = !path.contains('@')
            && Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let bytes = local.then(|| read(&root.join(WORKFLOWS).join(path)).ok().flatten()).flatten()?;
        imports.push(SourceFile::read(&bytes).ok()?);
    }
    Some(source.contract(&imports))
}

/// The workflows of a root that have both files: name, source, and text of the compiled file.
pub(in crate::cli) fn pairs(root: &Path) -> Result<Vec<(String, SourceFile, String)>, Failure> {
    let folder = root.join(WORKFLOWS);
    let mut pairs = Vec::new();
    for name in sources(&folder)? {
        let files = (read(&folder.join(format!("{name}.md")))?, read(&folder.join(format!("{name}.lock.yml")))?);
        let (Some(source), Some(lock)) = files else { continue };
        let (Ok(source), Ok(lock)) = (SourceFile::read(&source), String::from_utf8(lock)) else { continue };
        pairs.push((name, source, lock));
    }
    Ok(pairs)
}

/// True if `wq init` wrote a workflow's compiled file.
fn is_ours(root: &Path, name: &str) -> bool {
    let path = root.join(WORKFLOWS).join(format!("{name}.lock.yml"));
    read(&path).ok().flatten().is_some_and(|bytes| bytes.starts_with(OURS.as_bytes()))
}

fn settings(root: &Path, findings: &mut Findings) -> Result<Given, Failure> {
    let Some(bytes) = read(&root.join(SETTINGS_FILE))? else {
        findings.ok("settings", "there is no settings file; the defaults count");
        return Ok(Given::default());
    };
    match settings::parse(&bytes) {
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

/// Names of the sources of a folder, sorted; none if there is no such folder.
fn sources(folder: &Path) -> Result<Vec<String>, Failure> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(_) => return Err(unreadable()),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(|_| unreadable())?.file_name();
        let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".md")) else { continue };
        names.push(name.to_owned());
        if names.len() >= MAX_FILES {
            return Err(Failure::new(
                Code::PolicyMissing,
                "the workflow folder holds 1,000 sources or more, and the host may not list them all",
                "Remove workflows that are not used.",
            ));
        }
    }
    names.sort();
    Ok(names)
}

fn compiled(folder: &Path, name: &str, findings: &mut Findings) -> Result<Option<LockFile>, Failure> {
    let Some(bytes) = read(&folder.join(format!("{name}.lock.yml")))? else {
        let message = format!("{name}: there is no compiled workflow");
        findings.add(Level::Error, "workflow_missing", message, "Compile the workflow and merge the result.");
        return Ok(None);
    };
    match LockFile::read(&bytes) {
        Ok(lock) => Ok(Some(lock)),
        Err(defect) => {
            unusable(name, defect, findings);
            Ok(None)
        }
    }
}

fn unusable(name: &str, defect: Defect, findings: &mut Findings) {
    findings.add(Level::Error, "workflow_unusable", format!("{name}: {}", defect.sentence()), defect.action());
}

pub(super) fn remark(name: &str, error: bool, property: &str, message: &'static str, findings: &mut Findings) {
    let level = if error { Level::Error } else { Level::Warning };
    findings.0.push(Finding {
        level,
        code: "workflow",
        message: format!("{name}: {property}"),
        fix: message.to_owned(),
    });
}

/// A regular file of at most 1 MiB and one byte, which is one too many; none if it is not there.
fn read(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    use std::io::Read as _;
    // Looked at before it is opened: opening a pipe waits for its other end.
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(unreadable()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(_) => return Err(unreadable()),
    }
    let file = std::fs::File::open(path).map_err(|_| unreadable())?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|_| unreadable())?;
    Ok(Some(bytes))
}

fn unreadable() -> Failure {
    Failure::new(
        Code::IoFailed,
        "a file of the workflow folder cannot be read",
        "Name the root of a checkout with --dir, and make its files readable.",
    )
}
