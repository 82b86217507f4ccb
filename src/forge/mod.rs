//! GitHub as typed values (lifecycle.md 0.2, 0.3, 8): one client over one small port. Reads may be repeated within
//! bounds, writes never; every failure keeps apart what it means.

mod accounts;
mod actions;
pub mod archive;
mod artifacts;
mod client;
mod contents;
mod credential;
pub mod endpoint;
mod error;
mod graphql;
mod headers;
mod host;
mod http;
mod issues;
mod network;
mod port;
mod records;
mod refs;
mod repositories;

pub use actions::{Posted, RunFilter};
pub use artifacts::{ARTIFACTS_PER_PAGE, Artifact};
pub use client::{Client, Patience};
pub use contents::{Entry, EntryKind, Unusable};
pub use credential::Credential;
pub use error::{Failure, ForgeError};
pub use host::Host;
pub use http::HttpForge;
pub use network::Network;
pub use port::{Body, Broken, Forge, Headers, Request, Response};
pub use records::{Account, AccountKind, Issue, Pull, PullMerge, Repository, Run, RunPage, Tag, Workflow};
