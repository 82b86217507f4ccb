//! What a submitting or dispatching job does before a new request (publication.md 5.2): its approved workers, in the
//! pools that the request names, one publication for each change.

use std::sync::Arc;

use super::plan::{Planner, targets};
use super::{Deployer, Target, Update};
use crate::launch::approve::Allowlist;
use crate::launch::error::LaunchError;
use crate::launch::identity::{intent_id, request_id};
use crate::launch::route::{DefaultRevision, Inspector, default_revision};
use crate::ledger::{Current, Queue};
use crate::protocol::actor::{Actor, Role};
use crate::protocol::json::Writer;
use crate::protocol::operation::Deployment;
use crate::protocol::{Code, Digest, PoolName, RequestId, Wire as _};

/// Why a worker runs a revision.
const DEPLOYED: &str = "compiler_deployment";
/// How often a change is planned anew because the route or the facts moved.
const REPLANS: usize = 3;

impl Deployer<'_, '_> {
    /// Brings the approved workers of the named pools up to date before a request. A request that is committed already
    /// changes nothing, and neither does an actor that deploys nothing, a queue without deployed workers, or a caller
    /// that approves none of them: then not even the default revision is looked up.
    ///
    /// # Errors
    /// `deployment_conflict` or `deployment_invalid` when the route or the facts moved again and again; otherwise as a
    /// publication, or as a lookup fails. What was published before stays: each change stands for itself.
    pub fn synchronize(
        &mut self,
        request: &RequestId,
        pools: &[PoolName],
        allowed: &Allowlist,
    ) -> Result<Vec<Update>, LaunchError> {
        if !matches!(self.actor.role, Role::Administrator | Role::Producer | Role::Dispatcher) {
            return Ok(Vec::new());
        }
        let Queue::Present(mut current) = self.ledger.read()? else { return Ok(Vec::new()) };
        if current.projection.request(request.as_str()).is_some() {
            return Ok(Vec::new());
        }
        let selected = select(&current, pools, allowed);
        if selected.is_empty() {
            return Ok(Vec::new());
        }
        let mut facts = Facts::read(self)?;
        let mut updates = Vec::new();
        for target in &selected {
            let mut left = REPLANS;
            while let Some(change) = facts.first_change(&current, target)? {
                let id = deployment_request_id(self.actor, &change, &current);
                let request = self.request(id, std::slice::from_ref(&change))?;
                drop(current);
                match self.publish(&request, std::slice::from_ref(&change)) {
                    Ok(publication) => {
                        updates.push(target.update(&change));
                        current = publication.current;
                    }
                    Err(error) if left > 0 && is_moved(&error) => {
                        left -= 1;
                        current = self.ledger.read_present()?;
                        facts = Facts::read(self)?;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        tracing::debug!(workers = selected.len(), changes = updates.len(), "deployments synchronized");
        Ok(updates)
    }
}

/// What is planned with: looked up once for all workers.
struct Facts<'a> {
    default: DefaultRevision,
    inspector: Inspector<'a>,
}

impl<'a> Facts<'a> {
    fn read(deployer: &Deployer<'a, '_>) -> Result<Self, LaunchError> {
        let default = default_revision(deployer.client, deployer.repository)?;
        Ok(Self { default, inspector: Inspector::new(deployer.client, deployer.repository) })
    }

    fn first_change(&self, current: &Current, target: &Target) -> Result<Option<Deployment>, LaunchError> {
        let mut planner = Planner::new(&self.inspector, &self.default.revision, &current.projection)?;
        Ok(planner.changes(target, DEPLOYED)?.into_iter().next())
    }
}

fn is_moved(error: &LaunchError) -> bool {
    matches!(error.code(), Code::DeploymentConflict | Code::DeploymentInvalid)
}

/// The deployed workers of these pools that the caller approves. None under a Policy that is not AW-managed, which has
/// no deployed worker.
fn select(current: &Arc<Current>, pools: &[PoolName], allowed: &Allowlist) -> Vec<Target> {
    let projection = &current.projection;
    let Some(installed) = projection.installed() else { return Vec::new() };
    let approved = |target: &Target| {
        let pool = installed.policy.pools.get(&target.pool);
        pool.and_then(|pool| pool.profiles.get(&target.profile)).is_some_and(|profile| allowed.allows(profile))
    };
    targets(&projection.registry).filter(|target| pools.contains(&target.pool) && approved(target)).collect()
}

/// The id of one change on one state: the same change found twice on the same state is one request.
fn deployment_request_id(actor: &Actor, change: &Deployment, current: &Current) -> RequestId {
    let tip = current.projection.tip().map_or("", |tip| tip.as_str());
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("deployment", |w| w.string(Digest::of(&[&change.canonical()]).as_str()));
        members.name("tip", |w| w.string(tip));
    });
    request_id(actor, &intent_id(&writer.finish()))
}
