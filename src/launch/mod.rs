//! From a grant to a bound run and back to free capacity (lifecycle.md 1 to 3, 7, 8): start marker, snapshot tag, the
//! one POST, binding, reconciliation, observations of what Work waits for, and the deployment of worker revisions.

pub mod approve;
pub mod bind;
pub mod bootstrap;
pub mod confirm;
pub mod credential;
pub mod deploy;
pub mod discover;
pub mod dispatcher;
pub mod error;
pub mod grant;
pub mod identity;
pub mod native;
pub mod observe;
pub mod operator;
pub mod origin;
pub mod publisher;
pub mod reconcile;
pub mod release;
pub mod report;
pub mod route;
pub mod settings;
pub mod start;
pub mod step;
pub mod tag;
