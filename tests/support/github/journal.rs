//! What was asked of the simulated GitHub.

use std::collections::BTreeMap;

use super::endpoint::Endpoint;

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    pub(crate) method: String,
    pub(crate) endpoint: Endpoint,
    /// Path and query as sent, without the host's prefix.
    pub(crate) target: String,
    /// None when nothing was answered.
    pub(crate) status: Option<u16>,
    /// Whether the world acted on it, and how often.
    pub(crate) handled: u32,
    /// The account behind the token.
    pub(crate) account: Option<u64>,
    /// The asked `X-GitHub-Api-Version`.
    pub(crate) version: Option<String>,
    /// Of the assignment that a dispatch carries.
    pub(crate) dispatch_id: Option<String>,
    /// What the fault plan did.
    pub(crate) fault: Option<String>,
}

/// Calls and counters.
#[derive(Default)]
pub(crate) struct Journal {
    pub(super) calls: Vec<Logged>,
    /// Only so many of the newest calls are kept in full; the counters know all. None keeps everything.
    pub(super) keep: Option<usize>,
    pub(super) by_endpoint: BTreeMap<Endpoint, u64>,
    pub(super) posts: BTreeMap<String, u32>,
    pub(super) total: u64,
    /// How many calls the fault plan struck.
    pub(super) struck: u64,
}

impl Journal {
    pub(super) fn add(&mut self, call: Logged) {
        self.total += 1;
        self.struck += u64::from(call.fault.is_some());
        *self.by_endpoint.entry(call.endpoint).or_default() += 1;
        if let Some(dispatch) = &call.dispatch_id {
            *self.posts.entry(dispatch.clone()).or_default() += 1;
        }
        self.calls.push(call);
        if let Some(keep) = self.keep
            && self.calls.len() > 2 * keep
        {
            self.calls.drain(..self.calls.len() - keep);
        }
    }
}
