//! From a grant to a bound run and back to free capacity (lifecycle.md 1 to 3, 7, 8): start marker, snapshot tag, the
//! one POST, binding, reconciliation, observations of what Work waits for, and the deployment of worker revisions.

pub mod identity;
pub mod route;
pub mod settings;
