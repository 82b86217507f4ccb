//! The front matter of a source workflow (`.md`) as far as the queue asks about it (publication.md 4.3, 6.3;
//! jobs.md 1.3; operator-cli.md 7.2).

use std::collections::BTreeSet;
use std::rc::Rc;

use super::Defect;
use super::allowlist::is_workflow_name;
use super::yaml::Yaml;
use crate::launch::settings::{Given, MAX_FILE_BYTES};

/// A source workflow, its front matter read.
#[derive(Debug)]
pub struct SourceFile {
    pub(super) front: Rc<Yaml>,
}

/// A remark about a source workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// True if the workflow is refused, false for a warning.
    pub error: bool,
    /// The member, as a path of the front matter.
    pub property: &'static str,
    /// What is wrong with it and what to write instead.
    pub message: &'static str,
}

impl SourceFile {
    /// Reads the bytes of a source workflow, at most 1 MiB of UTF-8 that begins with front matter between two lines
    /// `---`. What follows the front matter is not looked at.
    ///
    /// # Errors
    /// What of this does not hold.
    pub fn read(bytes: &[u8]) -> Result<Self, Defect> {
        if bytes.len() > MAX_FILE_BYTES {
            return Err(Defect::TooLong);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Defect::NotUtf8)?;
        let front = Yaml::read(front_matter(text).ok_or(Defect::FrontMatterMissing)?)?;
        if front.mapping().is_none() {
            return Err(Defect::FrontMatterMissing);
        }
        Ok(Self { front })
    }

    pub(super) fn queue(&self) -> Option<&Yaml> {
        self.front.at(&["tools", "work-queue"])
    }

    /// Whether the workflow is an approved worker: `tools.work-queue.worker` is exactly the boolean `true`.
    #[must_use]
    pub fn is_worker(&self) -> bool {
        self.queue().and_then(|queue| queue.get("worker")) == Some(&Yaml::Bool(true))
    }

    /// Whether the workflow uses the queue in any role. `tools.work-queue: false` is no use (and an error).
    #[must_use]
    pub fn uses_queue(&self) -> bool {
        self.queue().is_some_and(|queue| *queue != Yaml::Bool(false))
    }

    /// Whether the workflow insists on an assignment, which only a worker has. Any value but `false` counts.
    #[must_use]
    pub fn requires_assignment(&self) -> bool {
        self.queue().and_then(|queue| queue.get("require-assignment")).is_some_and(|value| *value != Yaml::Bool(false))
    }

    /// The workers that `safe-outputs.dispatch-workflow.workflows` names; none without the member.
    ///
    /// # Errors
    /// [`Defect::WorkersMissing`] for anything but a list of different workflow names, at least one.
    pub fn dispatched_workers(&self) -> Result<Option<BTreeSet<String>>, Defect> {
        let Some(list) = self.front.at(&["safe-outputs", "dispatch-workflow", "workflows"]) else { return Ok(None) };
        let items = list.sequence().filter(|items| !items.is_empty()).ok_or(Defect::WorkersMissing)?;
        let mut names = BTreeSet::new();
        for item in items {
            let name = item.text().filter(|name| is_workflow_name(name)).ok_or(Defect::WorkersMissing)?;
            if !names.insert(name.to_owned()) {
                return Err(Defect::WorkersMissing);
            }
        }
        Ok(Some(names))
    }

    /// Checks that the workflow is a dispatcher, and returns the workers that it may launch (operator-cli.md 7.2
    /// point 3).
    ///
    /// # Errors
    /// [`Defect::NoQueue`], [`Defect::IsWorker`], [`Defect::WorkersMissing`].
    pub fn check_dispatcher(&self) -> Result<BTreeSet<String>, Defect> {
        if !self.uses_queue() {
            return Err(Defect::NoQueue);
        }
        if self.is_worker() || self.requires_assignment() {
            return Err(Defect::IsWorker);
        }
        self.dispatched_workers()?.ok_or(Defect::WorkersMissing)
    }

    /// Everything that the queue has to say about this front matter. `given` says what the repository's settings file
    /// holds: a deprecated member beside the setting that replaced it is an error, alone it is a warning.
    #[must_use]
    pub fn findings(&self, given: Given) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut add = |error, property, message| findings.push(Finding { error, property, message });
        let queue = self.queue();
        let member = |name: &str| queue.and_then(|queue| queue.get(name));
        if queue == Some(&Yaml::Bool(false)) {
            add(true, "tools.work-queue", "scheduling cannot be disabled; remove the member");
        }
        if member("storage").is_some() {
            add(true, "tools.work-queue.storage", "the queue is kept in Git and nowhere else; remove the member");
        }
        if self.is_worker() && member("require-assignment") == Some(&Yaml::Bool(false)) {
            add(true, "tools.work-queue.require-assignment", "a worker always needs an assignment; remove the member");
        }
        if self.front.get("work-queue-policy").is_some() {
            let message = if given.section {
                "work_queue in .github/workflows/aw.json replaced this member; both are set, remove this one"
            } else {
                "deprecated; use work_queue in .github/workflows/aw.json"
            };
            add(given.section, "work-queue-policy", message);
        }
        if member("issues").is_some() {
            let message = if given.issues {
                "work_queue.issues in .github/workflows/aw.json replaced this member; both are set, remove this one"
            } else {
                "deprecated; use work_queue.issues in .github/workflows/aw.json"
            };
            add(given.issues, "tools.work-queue.issues", message);
        }
        findings.extend(self.refusals());
        findings
    }
}

/// The text between the first line `---` and the next one.
fn front_matter(text: &str) -> Option<&str> {
    let is_fence = |line: &str| line.trim_end() == "---";
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| is_fence(line))?;
    let mut end = first.len();
    for line in lines {
        if is_fence(line) {
            return Some(&text[first.len()..end]);
        }
        end += line.len();
    }
    None
}
