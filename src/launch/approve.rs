//! What a caller's compiled workflow approves (jobs.md 5.3.1, publication.md 5.2): it narrows what the caller uses, and
//! never widens or moves what is installed.

use std::collections::BTreeSet;

use crate::engine::Projection;
use crate::forge::Client;
use crate::protocol::policy::WorkerProfile;
use crate::protocol::{Fault, Identity, PoolName, RepositoryName};

use super::error::LaunchError;
use super::route::{compiled_lists, verify_route, workflow_name};
use super::start::Approval;

/// The workers that a caller may use: those that both of its compiled lists name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowlist(BTreeSet<String>);

impl Allowlist {
    /// The workers, by the base names of their workflows, that are in both lists.
    #[must_use]
    pub fn new(work_queue_workflows: &BTreeSet<String>, aw_context_workflows: &BTreeSet<String>) -> Self {
        Self(work_queue_workflows.intersection(aw_context_workflows).cloned().collect())
    }

    /// The same out of the configuration of the queue's controls, as the compiler writes it into the environment. A
    /// list that is not there approves nothing.
    ///
    /// # Errors
    /// `policy_missing` for a configuration that is malformed or repeats itself.
    pub fn compiled(configuration: &str) -> Result<Self, Fault> {
        let [first, second] = compiled_lists(configuration)?;
        Ok(Self::new(&first.unwrap_or_default(), &second.unwrap_or_default()))
    }

    /// True if the profile's workflow is approved.
    #[must_use]
    pub fn allows(&self, profile: &WorkerProfile) -> bool {
        workflow_name(profile.workflow.as_str()).is_some_and(|name| self.0.contains(name))
    }

    /// The approved profiles of a pool, sorted, to be frozen in a new dispatch request (decision 22). None where no
    /// worker of the pool is deployed: then the launch itself is the guard.
    #[must_use]
    pub fn worker_profiles(&self, projection: &Projection, pool: &PoolName) -> Option<Vec<Identity>> {
        let installed = projection.installed().filter(|_| projection.registry.covers(pool.as_str()))?;
        let profiles = installed.policy.pools.get(pool)?.profiles.iter();
        let approved = profiles.filter(|(_, profile)| self.allows(profile));
        Some(approved.filter_map(|(name, _)| Identity::new(name.as_str()).ok()).collect())
    }
}

/// A caller's approval, with the host to verify routes on.
#[derive(Clone)]
pub struct CompiledApproval<'a> {
    /// Reads routes.
    pub client: Client<'a>,
    /// The repository of queue and workers.
    pub repository: &'a RepositoryName,
    /// What the caller approves.
    pub allowed: Allowlist,
}

impl Approval for CompiledApproval<'_> {
    fn allows(&self, profile: &WorkerProfile) -> bool {
        self.allowed.allows(profile)
    }

    fn verify(&self, profile: &WorkerProfile) -> Result<(), LaunchError> {
        verify_route(self.client, self.repository, profile)
    }
}
