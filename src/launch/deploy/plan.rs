//! Which changes the facts ask for (publication.md 5.3), and whether given changes are those (5.4).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Target;
use crate::engine::Projection;
use crate::engine::registry::{Deployed, Registry};
use crate::engine::state::{Installed, Ownership};
use crate::launch::error::LaunchError;
use crate::launch::route::Inspector;
use crate::protocol::fault::ensure;
use crate::protocol::operation::Deployment;
use crate::protocol::policy::{Policy, WorkerProfile};
use crate::protocol::{Code, Fault, Opaque, Reason, Revision, Text, Wire as _};

/// Why a worker is paused.
const UNAVAILABLE: &str = "worker_unavailable";

type Pins = BTreeMap<Target, BTreeSet<Revision>>;

/// Compares a state with the facts of one verified default revision. Changes chain: each is decided on the registry
/// that the ones before it leave.
pub(super) struct Planner<'p, 'a> {
    inspector: &'p Inspector<'a>,
    revision: &'p Revision,
    policy: &'p Policy,
    registry: Registry,
    /// The revisions that unclaimed Work is pinned to.
    pins: Pins,
}

impl<'p, 'a> Planner<'p, 'a> {
    /// A planner on a state whose Policy is AW-managed.
    ///
    /// # Errors
    /// `deployment_invalid` for any other queue.
    pub(super) fn new(
        inspector: &'p Inspector<'a>,
        revision: &'p Revision,
        projection: &'p Projection,
    ) -> Result<Self, Fault> {
        let policy = &managed(projection)?.policy;
        Ok(Self { inspector, revision, policy, registry: projection.registry.clone(), pins: pins(projection) })
    }

    /// The changes of one worker: the current route first, then the revisions that Work is pinned to, sorted. `reason`
    /// is that of an available worker.
    ///
    /// # Errors
    /// The failed lookup.
    pub(super) fn changes(&mut self, target: &Target, reason: &str) -> Result<Vec<Deployment>, LaunchError> {
        let mut changes = Vec::new();
        let deployed = self.deployed(target)?;
        let (profile, available) = self.wanted(deployed)?;
        let known = deployed.revisions.get(&deployed.current_ref);
        let stands = known.is_some_and(|known| *known.profile == profile && known.available == available);
        if !stands {
            changes.push(self.add(target, profile, available, None, reason)?);
        }
        let current = self.deployed(target)?.current_ref.clone();
        let pinned = self.pins.get(target).cloned().unwrap_or_default();
        for revision in pinned.into_iter().filter(|revision| *revision != current) {
            let Some(known) = self.deployed(target)?.revisions.get(&revision) else { continue };
            let (profile, before) = (Arc::clone(&known.profile), known.available);
            let available = self.runs(&profile)?;
            if available != before {
                changes.push(self.add(target, (*profile).clone(), available, Some(false), reason)?);
            }
        }
        Ok(changes)
    }

    /// Checks changes that somebody planned.
    ///
    /// # Errors
    /// `deployment_conflict` if the route moved on, `deployment_invalid` if the facts ask for another change or the
    /// change is none that may be made; or the failed lookup.
    pub(super) fn check(&mut self, changes: &[Deployment]) -> Result<(), LaunchError> {
        for change in changes {
            let target = self.target(change)?;
            let deployed = self.deployed(&target)?;
            ensure!(
                deployed.current_ref == change.expected_ref && deployed.current_contract == change.expected_contract,
                DeploymentConflict,
                "another deployment moved the route"
            );
            let holds = if change.activate == Some(false) {
                let known = deployed.revisions.get(&change.profile.revision);
                known.is_some_and(|known| *known.profile == change.profile)
                    && self.runs(&change.profile)? == change.available
            } else {
                let (profile, available) = self.wanted(deployed)?;
                profile == change.profile && available == change.available
            };
            ensure!(holds, DeploymentInvalid, "the host no longer shows what this deployment says");
            self.registry.deploy(self.policy, change.clone())?;
        }
        Ok(())
    }

    /// The route that the facts ask for. A broken file pauses the revision that is current; one that is registered
    /// with another contract than its file carries is broken too.
    fn wanted(&self, deployed: &Deployed) -> Result<(WorkerProfile, bool), LaunchError> {
        let current = deployed.revisions.get(&deployed.current_ref).ok_or_else(not_deployed)?;
        let found = self.inspector.inspect(&current.profile.workflow, self.revision)?;
        let available = found.is_available();
        if let Some(contract) = found.contract {
            let revision = self.revision.clone();
            let wanted = WorkerProfile { revision, logical_contract: Some(contract), ..(*current.profile).clone() };
            if deployed.revisions.get(self.revision).is_none_or(|known| *known.profile == wanted) {
                return Ok((wanted, available));
            }
        }
        Ok(((*current.profile).clone(), false))
    }

    /// Whether a registered revision can run with exactly its contract.
    fn runs(&self, profile: &WorkerProfile) -> Result<bool, LaunchError> {
        let found = self.inspector.inspect(&profile.workflow, &profile.revision)?;
        Ok(found.is_available() && found.contract == profile.logical_contract)
    }

    /// One change, and the registry after it.
    fn add(
        &mut self,
        target: &Target,
        profile: WorkerProfile,
        available: bool,
        activate: Option<bool>,
        reason: &str,
    ) -> Result<Deployment, Fault> {
        let deployed = self.deployed(target)?;
        let change = Deployment {
            pool: Opaque::checked(Text::from(target.pool.canonical())),
            worker_profile: Opaque::checked(Text::from(target.profile.canonical())),
            expected_ref: deployed.current_ref.clone(),
            expected_contract: deployed.current_contract.clone(),
            profile,
            available,
            activate,
            reason: Reason::new(if available { reason } else { UNAVAILABLE })?,
        };
        self.registry.deploy(self.policy, change.clone())?;
        Ok(change)
    }

    fn deployed(&self, target: &Target) -> Result<&Deployed, Fault> {
        self.registry.entry(target.pool.as_str(), target.profile.as_str()).ok_or_else(not_deployed)
    }

    fn target(&self, change: &Deployment) -> Result<Target, Fault> {
        let found = targets(&self.registry).find(|target| target.is(&change.pool, &change.worker_profile));
        found.ok_or_else(not_deployed)
    }
}

fn not_deployed() -> Fault {
    Fault::new(Code::DeploymentInvalid, "no such worker is deployed")
}

/// The Policy of a queue whose workers can be deployed.
///
/// # Errors
/// `deployment_invalid` for any other queue.
pub(super) fn managed(projection: &Projection) -> Result<&Installed, Fault> {
    let installed = projection.installed().filter(|installed| installed.policy.aw);
    let message = "the queue's Policy is not AW-managed; its workers stay at their exact revisions";
    installed.ok_or_else(|| Fault::new(Code::DeploymentInvalid, message))
}

/// Every deployed worker, by pool and name.
pub(super) fn targets(registry: &Registry) -> impl Iterator<Item = Target> {
    registry.0.iter().flat_map(|(pool, entries)| {
        entries.keys().map(|profile| Target { pool: pool.clone(), profile: profile.clone() })
    })
}

/// The revisions that unclaimed Work is pinned to.
fn pins(projection: &Projection) -> Pins {
    let mut pins = Pins::new();
    for state in projection.works().filter(|state| matches!(state.ownership, Ownership::Available)) {
        if let Some(revision) = &state.work.execution_ref {
            let target = Target { pool: state.work.pool.clone(), profile: state.work.worker_profile.clone() };
            pins.entry(target).or_default().insert(revision.clone());
        }
    }
    pins
}
