//! The Actions runner as one validated value (jobs.md 3.4, 8): what a job's environment says about its run, repository
//! and event. Nothing here is proof: [`crate::launch::publisher`] compares it with what GitHub answers.

mod context;
pub mod output;
mod runtime;

pub use context::{Context, WorkflowRef};
pub use runtime::Runtime;

pub use crate::protocol::RuntimeRole;
