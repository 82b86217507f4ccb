//! The deployment registry that an AW Policy starts, and the profile that a Work executes under (engine.md 3.9).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::mutation::mutated;
use crate::protocol::policy::{Policy, WorkerProfile};
use crate::protocol::work::Work;
use crate::protocol::{Digest, Opaque, PoolName, ProfileName, Revision, Wire as _};

/// Deployments by pool and profile. Empty under a historical Policy.
#[derive(Clone, Debug, Default)]
pub struct Registry(pub(crate) BTreeMap<PoolName, BTreeMap<ProfileName, Deployed>>);

/// The known revisions of one route.
#[derive(Clone, Debug)]
pub struct Deployed {
    /// Revision of future Claims without a pin.
    pub current_ref: Revision,
    /// Its contract.
    pub current_contract: Digest,
    /// Every revision ever deployed.
    pub revisions: BTreeMap<Revision, DeployedRevision>,
}

/// One revision of a route.
#[derive(Clone, Debug)]
pub struct DeployedRevision {
    /// The route at that revision.
    pub profile: Arc<WorkerProfile>,
    /// False pauses the Work that executes it.
    pub available: bool,
}

/// Why a Work's route cannot take it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReady {
    /// The revision is unknown or paused.
    Unavailable,
    /// The revision has another contract than the one frozen at admission.
    Incompatible,
}

impl Registry {
    /// The registry of a newly installed Policy.
    #[must_use]
    pub fn initial(policy: &Policy) -> Self {
        let mut registry = BTreeMap::new();
        if policy.aw {
            for (name, pool) in &policy.pools {
                let entries: BTreeMap<ProfileName, Deployed> = pool
                    .profiles
                    .iter()
                    .filter_map(|(name, profile)| {
                        let contract = profile.logical_contract.clone()?;
                        let revision = DeployedRevision { profile: Arc::clone(profile), available: true };
                        let deployed = Deployed {
                            current_ref: profile.revision.clone(),
                            current_contract: contract,
                            revisions: BTreeMap::from([(profile.revision.clone(), revision)]),
                        };
                        Some((name.clone(), deployed))
                    })
                    .collect();
                if !entries.is_empty() {
                    registry.insert(name.clone(), entries);
                }
            }
        }
        Self(registry)
    }

    /// The entry of a route, if it is deployed.
    #[must_use]
    pub fn entry(&self, pool: &str, profile: &str) -> Option<&Deployed> {
        self.0.get(pool)?.get(profile)
    }

    /// The entry that a Deployment names, to be changed. The names are canonical JSON of any kind; only strings match.
    pub(crate) fn target(
        &mut self,
        pool: &Opaque,
        profile: &Opaque,
    ) -> Option<(&PoolName, &ProfileName, &mut Deployed)> {
        let (pool, entries) = self.0.iter_mut().find(|(name, _)| name.canonical() == pool.as_str())?;
        let (profile, entry) = entries.iter_mut().find(|(name, _)| name.canonical() == profile.as_str())?;
        Some((pool, profile, entry))
    }

    /// True if the pool has a deployed route.
    #[must_use]
    pub fn covers(&self, pool: &str) -> bool {
        self.0.contains_key(pool)
    }

    /// The route that a Work executes under now.
    ///
    /// # Errors
    /// [`NotReady`] if its revision is unknown, paused or of another contract.
    pub fn execution_profile(
        &self,
        policy: &Policy,
        work: &Work,
        contract: Option<&Digest>,
    ) -> Result<Arc<WorkerProfile>, NotReady> {
        let Some(entry) = self.entry(work.pool.as_str(), work.worker_profile.as_str()) else {
            let pool = policy.pools.get(&work.pool);
            let profile = pool.and_then(|pool| pool.profiles.get(&work.worker_profile));
            return profile.cloned().ok_or(NotReady::Unavailable);
        };
        let revision = entry
            .revisions
            .get(work.execution_ref.as_ref().filter(|_| !mutated!(IgnorePin)).unwrap_or(&entry.current_ref));
        let revision = revision
            .filter(|revision| revision.available || mutated!(RunPausedRevision))
            .ok_or(NotReady::Unavailable)?;
        if revision.profile.logical_contract.as_ref() == contract || mutated!(RunOtherContract) {
            Ok(Arc::clone(&revision.profile))
        } else {
            Err(NotReady::Incompatible)
        }
    }
}
