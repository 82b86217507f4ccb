//! What the queue refuses in a workflow before it ever runs (jobs.md 1.3): shapes of a source that a compiler refuses
//! too, and of a compiled file that nobody but a hand can make.

use super::lock::{ASSIGNMENT_INPUT, LockFile, triggers_dispatch};
use super::source::{Finding, SourceFile};
use super::yaml::Yaml;

/// Inputs of earlier versions that seeded a queue.
const RETIRED_INPUTS: [&str; 2] = ["initializeWorkQueue", "initializationContext"];
/// What both findings about them say.
const RETIRED: &str = "a queue is not seeded any more: the first submission makes it; remove the input";
/// Where a run's name begins that carries its dispatch, and what it must name to carry it.
const RUN_NAME: [&str; 3] = ["gh-aw work-queue", "dispatch_id", ASSIGNMENT_INPUT];
/// Safe outputs that write outside of any Claim's scope.
const UNSCOPED: [&str; 5] = ["call-workflow", "dispatch-repository", "ledger", "repo-memory", "drive-memory"];
/// Kinds of external handlers that are bound to no Claim.
const EXTERNAL: [&str; 3] = ["linear", "jira", "ado"];
/// Safe outputs that are bound to a Claim only by a literal reference.
const REFERENCED: [&str; 2] = ["code-scanning-alert", "coverage"];

impl SourceFile {
    /// The shapes that are refused whatever the settings say.
    pub(super) fn refusals(&self) -> Vec<Finding> {
        let mut found = Found::default();
        let on = self.front.get("on");
        if mentions(&self.front, &RETIRED_INPUTS) {
            found.add("on.workflow_dispatch.inputs", RETIRED);
        }
        if on.is_some_and(|on| mentions(on, &[ASSIGNMENT_INPUT])) {
            found.add("on.workflow_dispatch.inputs", "work_queue_assignment is reserved; remove the declaration");
        }
        if !self.uses_queue() {
            return found.0;
        }
        if self.front.get("status-comment") == Some(&Yaml::Bool(true))
            || self.front.at(&["on", "status-comment"]) == Some(&Yaml::Bool(true))
        {
            found.add("status-comment", "a status comment belongs to no Claim; remove the member");
        }
        let outputs = self.front.get("safe-outputs");
        if !self.is_worker() {
            if outputs.and_then(|outputs| outputs.get("claim-adapters")).is_some() {
                found.add("safe-outputs.claim-adapters", "only a worker has Claims to adapt outputs to");
            }
            return found.0;
        }
        if self.front.get("run-name").is_some() {
            found.add("run-name", "the run name of a worker carries its dispatch and is reserved; remove the member");
        }
        if !triggers_dispatch(on) {
            found.add("on", "a worker is started by workflow_dispatch; add the trigger");
        }
        if let Some(outputs) = outputs {
            outputs_of_worker(outputs, &mut found);
        }
        found.0
    }
}

impl LockFile {
    /// What is wrong with a compiled workflow beside its assignment, stamp and lists, which have checks of their own.
    /// `worker` says that its source declares it as one.
    #[must_use]
    pub fn findings(&self, worker: bool) -> Vec<Finding> {
        let mut found = Found::default();
        if mentions(&self.root, &RETIRED_INPUTS) {
            found.add("on.workflow_dispatch.inputs", RETIRED);
        }
        if !worker {
            return found.0;
        }
        let name = self.root.get("run-name").and_then(Yaml::text).unwrap_or_default();
        if !RUN_NAME.iter().all(|part| name.contains(part)) {
            found.add(
                "run-name",
                "the run name does not carry the dispatch of the assignment; compile the workflow again",
            );
        }
        let context = self.root.at(&["on", "workflow_dispatch", "inputs", "aw_context"]);
        if context.is_none() {
            let message = "the caller's context has no input; runs cannot be told together. Compile the workflow again";
            found.0.push(Finding { error: false, property: "on.workflow_dispatch.inputs.aw_context", message });
        }
        if self.passes_on_secrets() {
            found.add("jobs", "a called workflow inherits every secret; name those that it needs");
        }
        found.0
    }

    /// True if a job hands all secrets to a called workflow.
    fn passes_on_secrets(&self) -> bool {
        let jobs = self.root.get("jobs").and_then(Yaml::mapping);
        jobs.into_iter()
            .flat_map(|jobs| jobs.values())
            .any(|job| job.get("secrets").and_then(Yaml::text) == Some("inherit"))
    }
}

/// What was found so far; all of it is refused.
#[derive(Default)]
struct Found(Vec<Finding>);

impl Found {
    fn add(&mut self, property: &'static str, message: &'static str) {
        self.0.push(Finding { error: true, property, message });
    }
}

/// Outputs that a worker must not have, unless an adapter binds them to a Claim.
fn outputs_of_worker(outputs: &Yaml, found: &mut Found) {
    let adapted = |name: &str| {
        let adapters = outputs.get("claim-adapters");
        adapters.and_then(Yaml::mapping).is_some_and(|adapters| adapters.keys().any(|key| plain(key) == plain(name)))
    };
    for (name, value) in outputs.mapping().into_iter().flatten() {
        let kind = plain(name);
        let external = EXTERNAL.iter().any(|vendor| kind.starts_with(&format!("{vendor}-")));
        if (external || UNSCOPED.contains(&kind.as_str())) && !adapted(name) {
            found.add("safe-outputs", "an output that no Claim bounds; give it a per-Claim adapter or remove it");
        }
        let reference = value.get("target-ref").and_then(Yaml::text).unwrap_or_default();
        let literal =
            (reference.starts_with("refs/heads/") || reference.starts_with("refs/tags/")) && !reference.contains("${{");
        if REFERENCED.iter().any(|kinds| kind.contains(kinds)) && !literal && !adapted(name) {
            found.add("safe-outputs", "this output needs a literal target-ref under refs/heads/ or refs/tags/");
        }
    }
}

/// A name of an output as it is written in sources.
fn plain(name: &str) -> String {
    name.replace('_', "-").to_ascii_lowercase()
}

/// True if a mapping anywhere below has one of these keys. What was shared by aliases is bounded by the reader.
fn mentions(value: &Yaml, names: &[&str]) -> bool {
    match value {
        Yaml::Mapping(members) => {
            members.iter().any(|(name, value)| names.contains(&name.as_str()) || mentions(value, names))
        }
        Yaml::Sequence(items) => items.iter().any(|item| mentions(item, names)),
        _ => false,
    }
}
