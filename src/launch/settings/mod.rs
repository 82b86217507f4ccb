//! Scheduling and Issue settings of a repository, the Policy that they make, and its transport (publication.md 6).
//!
//! Settings are preferences, never authority: no member names a principal, a credential, a repository or a route.

mod apply;
mod error;
pub(crate) mod lenient;
mod profiles;
mod proposal;
mod read;

use std::collections::BTreeMap;

pub use apply::apply;
pub use error::{SETTINGS_FILE, SettingsError};
pub use profiles::{ApprovedWorker, resolve_policy};
pub use proposal::{
    MAX_CHUNK_BYTES, MAX_PARTS, POLICY_VARIABLE, Proposal, WRITTEN_CHUNK_BYTES, policy_variables, read_proposal,
};
pub use read::parse;

use crate::protocol::policy::{Mode, Weight};
use crate::protocol::{FairnessKey, PoolName};

/// Largest settings file, source workflow or compiled workflow, in bytes (publication.md 4.3, 4.4).
pub const MAX_FILE_BYTES: usize = 1024 * 1024;

/// A capacity: 1 to 4,096.
pub type Capacity = crate::protocol::identity::Within<1, 4096>;

/// The resolved `work_queue` section of `.github/workflows/aw.json` (publication.md 6.2): every default filled in,
/// every inherited value copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How a priority class is chosen.
    pub mode: Mode,
    /// Weights of priority 1 to 5.
    pub class_weights: [Weight; 5],
    /// Accounting keys with their weights; the empty key is always there and weighs 1. At most 1,024.
    pub accounting_weights: BTreeMap<FairnessKey, Weight>,
    /// Logical and native capacity of each pool that sets none.
    pub concurrency: Capacity,
    /// Most pending Work.
    pub pending_limit: Capacity,
    /// Retry of each pool that sets none.
    pub retry: RetrySettings,
    /// Named pools, at most 64.
    pub pools: BTreeMap<PoolName, PoolSettings>,
    /// Issue projection; none if it is disabled.
    pub issues: Option<IssueSettings>,
    /// What the file says beside the values, for the rules about deprecated workflow members.
    pub given: Given,
}

/// Which parts of the file were present, whatever they held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// The member `work_queue`, `{}` included.
    pub section: bool,
    /// The member `work_queue.issues`, `false` included.
    pub issues: bool,
}

/// Attempts of one Work and the wait after a cancelled Claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrySettings {
    /// Attempts, 1 to 16.
    pub max_attempts: crate::protocol::identity::Within<1, 16>,
    /// Wait in seconds, 1 to 3,600.
    pub backoff_seconds: crate::protocol::identity::Within<1, 3600>,
}

/// One named pool, with inherited values filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// Logical and native capacity.
    pub concurrency: Capacity,
    /// Most open Claims of one accounting key; never inherited.
    pub per_account_limit: Option<Capacity>,
    /// Attempts and wait.
    pub retry: RetrySettings,
}

/// Settings of the Issue projection (issues.md 2), kept as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueSettings {
    /// The label, 1 to 33 UTF-8 bytes.
    pub label: String,
    /// How titles begin, 1 to 80 UTF-8 bytes.
    pub title_prefix: String,
}

impl Default for IssueSettings {
    fn default() -> Self {
        Self { label: "work".to_owned(), title_prefix: "[work queue]".to_owned() }
    }
}

impl Default for Settings {
    /// What holds without a file, without the section, and for `{}`.
    fn default() -> Self {
        read::defaults()
    }
}
