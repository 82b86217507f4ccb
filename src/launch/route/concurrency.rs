//! Concurrency groups of a compiled workflow. GitHub keeps one waiting run of a group and cancels the ones before it,
//! whatever `cancel-in-progress` says, so a worker whose group is the same for all its runs loses siblings.

use super::LockFile;
use super::yaml::Yaml;

/// What makes a group another one for each run of a workflow.
const VARYING: [&str; 5] = ["github.run_id", "github.run_number", "inputs.", "inputs[", "work_queue_assignment"];

impl LockFile {
    /// True if the workflow, or one of its jobs, has a concurrency group that all runs of the workflow share.
    #[must_use]
    pub fn has_shared_concurrency_group(&self) -> bool {
        let jobs = self.root.get("jobs").and_then(Yaml::mapping);
        let jobs = jobs.into_iter().flat_map(|jobs| jobs.values()).map(std::rc::Rc::as_ref);
        std::iter::once(self.root.as_ref()).chain(jobs).filter_map(|owner| owner.get("concurrency")).any(is_shared)
    }
}

fn is_shared(concurrency: &Yaml) -> bool {
    let group = concurrency.text().or_else(|| concurrency.get("group").and_then(Yaml::text));
    group.is_some_and(|group| !VARYING.iter().any(|name| group.contains(name)))
}
