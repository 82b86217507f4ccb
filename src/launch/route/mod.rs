//! Worker routes as they are written: compiled workflows, their sources, and which routes to verify
//! (publication.md 4). Pure functions over bytes; fetching them is done elsewhere.

mod allowlist;
mod defect;
mod lock;
mod select;
mod source;
mod yaml;

pub use allowlist::{CONTROL_CONFIG, HANDLER_CONFIG};
pub use defect::Defect;
pub use lock::{ASSIGNMENT_INPUT, CONTRACT_VARIABLE, LockFile};
pub use select::{Admission, Route, routes_to_verify};
pub use source::{Finding, SourceFile};
