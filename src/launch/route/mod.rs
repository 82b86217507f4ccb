//! Worker routes (publication.md 4): compiled workflows, their sources, which routes to verify, and what the host shows
//! of them at one revision. Reading is apart from fetching: files are judged as bytes, and `inspect` and `resolve` fetch.

mod allowlist;
mod checks;
mod concurrency;
mod default_revision;
mod defect;
mod inspect;
mod lock;
mod resolve;
mod select;
mod source;
mod stamp;
mod yaml;

pub(super) use allowlist::is_workflow_name;
pub use allowlist::{CONTROL_CONFIG, HANDLER_CONFIG, compiled_lists};
pub use default_revision::{DefaultRevision, default_branch, default_revision};
pub use defect::Defect;
pub use inspect::{
    Flaw, Inspected, Inspector, Part, Problem, WORKFLOWS, verify_policy, verify_route, verify_routes, workflow_name,
};
pub use lock::{ASSIGNMENT_INPUT, CONTRACT_VARIABLE, LockFile};
pub use resolve::{Resolved, resolve};
pub use select::{Admission, Route, routes_of_genesis, routes_to_verify};
pub use source::{Finding, SourceFile};
