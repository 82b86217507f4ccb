//! The jobs of a workflow, in this process over the simulated host: what each checks, writes and tells the runner.

mod activation;
mod binding;
mod conclusion;
mod logs;
mod origin;
mod outputs;
mod prompts;
mod summary;
mod traces;

use wq_action::jobs::JobError;
use wq_action::launch::report::GroupState;
use wq_action::protocol::Code;

use crate::support::github::{Endpoint, Faults, Strike};
use crate::support::jobs::Job;
use crate::support::processes::{Shift, Stage};

/// A queue with one group of so many Claims whose run exists and whose launcher heard nothing.
fn launched() -> (Stage, Shift, u64) {
    let stage = Stage::with_works(1);
    let shift = stage.shift();
    stage.publish(&stage.dispatch_next(&shift, "grant-1", 1)).unwrap();
    let groups = stage.assignments("grant-1");
    stage.github.faults(Faults::next(Endpoint::Dispatch, Strike::DropAfter));
    assert_eq!(stage.process(&shift).launch(&groups[0]).unwrap().state, GroupState::LaunchUnresolved);
    let runs = stage.github.runs_of_dispatch(groups[0].dispatch_id.as_str());
    stage.github.start_run(runs[0]);
    (stage, shift, runs[0])
}

/// Activates, and expects this refusal: no file, no output, nothing written to the queue.
fn refused(job: &mut Job<'_>, stage: &Stage, code: Code) -> JobError {
    let before = stage.branch.current().map(|current| current.commit);
    let error = job.perform(wq_action::jobs::activation::run).unwrap_err();
    assert_eq!(error.code(), code, "{error:?}");
    assert!(job.outputs.outputs.is_empty() && job.outputs.exports.is_empty(), "{:?}", job.outputs);
    assert!(!job.paths().snapshot.exists(), "a snapshot was written");
    let left: Vec<_> = std::fs::read_dir(job.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "aw-prompts"), "{left:?}");
    assert_eq!(stage.branch.current().map(|current| current.commit), before);
    error
}
