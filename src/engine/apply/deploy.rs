//! Deployment: which revision of a route future Claims run (engine.md 3.9).

use std::sync::Arc;

use crate::engine::mutation::mutated;
use crate::engine::registry::{DeployedRevision, Registry};
use crate::engine::state::Projection;
use crate::protocol::fault::ensure;
use crate::protocol::operation::Deployment;
use crate::protocol::policy::{Policy, WorkerProfile};
use crate::protocol::{Code, Fault};

impl Projection {
    /// Work is not touched: routes are asked when a Claim is planned, so no index depends on them.
    pub(super) fn apply_deployment(&mut self, deployment: Deployment) -> Result<(), Fault> {
        let installed = self.policy()?;
        self.registry.deploy(&installed.policy, deployment)
    }
}

impl Registry {
    /// Registers a revision or changes its availability, and moves the route to it unless told otherwise.
    ///
    /// # Errors
    /// `deployment_invalid` or `deployment_conflict`, with nothing changed.
    pub(crate) fn deploy(&mut self, policy: &Policy, deployment: Deployment) -> Result<(), Fault> {
        let invalid = |message: &'static str| Fault::new(Code::DeploymentInvalid, message);
        let target = self.target(&deployment.pool, &deployment.worker_profile);
        let (pool, name, entry) = target.ok_or_else(|| invalid("no such route is deployed"))?;
        ensure!(
            (entry.current_ref == deployment.expected_ref && entry.current_contract == deployment.expected_contract)
                || mutated!(DeployUnseen),
            DeploymentConflict,
            "the expected revision or contract is not the current one"
        );
        let approved = policy.pools.get(pool).and_then(|pool| pool.profiles.get(name));
        let same = approved.is_some_and(|approved| same_authority(approved, &deployment.profile));
        ensure!(
            same || mutated!(DeployOtherAuthority),
            DeploymentInvalid,
            "a deployment changes more than revision and contract"
        );
        let known = entry.revisions.get(&deployment.profile.revision);
        let kept = known.is_none_or(|known| *known.profile == deployment.profile);
        ensure!(kept || mutated!(DeployOverRevision), DeploymentInvalid, "a deployed revision keeps its contract");
        let activate = deployment.activate != Some(false);
        ensure!(activate || known.is_some(), DeploymentInvalid, "only a deployed revision can be paused or resumed");
        let contract = deployment.profile.logical_contract.clone();
        let contract = contract.ok_or_else(|| invalid("a deployed profile has a contract"))?;
        let revision = deployment.profile.revision.clone();
        // The same object as before, so that groups of a plan still recognise their route at once.
        let profile = known
            .filter(|_| !mutated!(DeployOverRevision))
            .map_or_else(|| Arc::new(deployment.profile), |known| Arc::clone(&known.profile));
        entry.revisions.insert(revision.clone(), DeployedRevision { profile, available: deployment.available });
        if activate {
            entry.current_ref = revision;
            entry.current_contract = contract;
        }
        Ok(())
    }
}

/// Everything but revision and contract.
pub(crate) fn same_authority(approved: &WorkerProfile, deployed: &WorkerProfile) -> bool {
    approved.workflow == deployed.workflow
        && approved.principal == deployed.principal
        && approved.trust_domain == deployed.trust_domain
        && approved.credential_scope == deployed.credential_scope
        && approved.effect_scope == deployed.effect_scope
        && approved.max_claims == deployed.max_claims
        && approved.share_keys == deployed.share_keys
}
