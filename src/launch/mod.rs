//! From a grant to a bound run and back to free capacity (lifecycle.md 1 to 3, 7, 8): start marker, snapshot tag, the
//! one POST, binding, reconciliation, observations of what Work waits for, and the deployment of worker revisions.

pub mod credential;
pub mod identity;
pub mod operator;
pub mod origin;
pub mod publisher;
pub mod route;
pub mod settings;
