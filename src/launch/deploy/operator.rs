//! `wq deploy --from-config`: everything that is selected, in one request (operator-cli.md 8.2).

use std::sync::Arc;

use super::plan::{Planner, managed, targets};
use super::{Deployer, Target, Update};
use crate::engine::Projection;
use crate::engine::state::{Accepted, Source};
use crate::launch::error::LaunchError;
use crate::launch::route::{Inspector, default_revision};
use crate::ledger::{Current, Outcome, Publication};
use crate::protocol::fault::ensure;
use crate::protocol::json::Scanner;
use crate::protocol::operation::Deployment;
use crate::protocol::request::RequestKind;
use crate::protocol::{Code, Fault, PoolName, ProfileName, RequestId, Wire as _};

/// Why a worker runs a revision.
const DEPLOYED: &str = "worker_deployed";

/// Which workers an operator means; none means all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Those of one pool.
    pub pool: Option<PoolName>,
    /// Those of one name.
    pub worker_profile: Option<ProfileName>,
}

impl Selection {
    fn takes(&self, target: &Target) -> bool {
        self.pool.as_ref().is_none_or(|pool| *pool == target.pool)
            && self.worker_profile.as_ref().is_none_or(|profile| *profile == target.profile)
    }
}

/// What a deployment came to.
#[derive(Debug)]
pub struct Deployed {
    /// The changes, in order; empty if everything is current already.
    pub updates: Vec<Update>,
    /// The publication; none if there is nothing to change.
    pub publication: Option<Publication>,
    /// The queue after it.
    pub current: Arc<Current>,
}

impl Deployer<'_, '_> {
    /// Brings the selected workers to the verified default revision, or pauses those that cannot run there, in one
    /// request. Drains nothing and changes nothing else.
    ///
    /// # Errors
    /// `queue_missing`; `deployment_invalid` for a queue that is not AW-managed, an unknown pool, and a selection
    /// without a worker that carries a contract; `resource_limit` for more changes than one request holds;
    /// `deployment_conflict` if somebody else deployed meanwhile; `request_reused` for a committed request id that
    /// means anything else; whatever a lookup fails with, and then nothing is published.
    pub fn deploy(&mut self, selection: &Selection, id: &RequestId) -> Result<Deployed, LaunchError> {
        let current = self.ledger.read_present()?;
        if let Some(accepted) = current.projection.request(id.as_str()) {
            return self.committed(accepted, selection, &current);
        }
        let selected = select(&current.projection, selection)?;
        let default = default_revision(self.client, self.repository)?;
        let inspector = Inspector::new(self.client, self.repository);
        let mut planner = Planner::new(&inspector, &default.revision, &current.projection)?;
        let (mut changes, mut updates) = (Vec::new(), Vec::new());
        for target in &selected {
            let found = planner.changes(target, DEPLOYED)?;
            updates.extend(found.iter().map(|change| target.update(change)));
            changes.extend(found);
        }
        let most = managed(&current.projection)?.policy.limits.operations;
        ensure!(
            changes.len() as u64 <= most,
            ResourceLimit,
            format!("{} changes are more than one request holds ({most}); select one pool or worker", changes.len())
        );
        tracing::debug!(workers = selected.len(), changes = changes.len(), "deployment planned");
        if changes.is_empty() {
            return Ok(Deployed { updates, publication: None, current });
        }
        let request = self.request(id.clone(), &changes)?;
        drop(current);
        let publication = self.publish(&request, &changes)?;
        Ok(Deployed { updates, current: Arc::clone(&publication.current), publication: Some(publication) })
    }

    /// A request that was committed before is told again. Neither its workers nor its revisions are looked at anew.
    fn committed(
        &self,
        accepted: &Accepted,
        selection: &Selection,
        current: &Arc<Current>,
    ) -> Result<Deployed, LaunchError> {
        let same = accepted.kind == RequestKind::Deployment && *accepted.actor == *self.actor;
        ensure!(same, RequestReused, "the request id is committed with another meaning");
        let mut updates = Vec::new();
        for change in recorded(accepted)? {
            let target = read_target(&change)?;
            ensure!(selection.takes(&target), RequestReused, "the request id is committed for other workers");
            updates.push(target.update(&change));
        }
        let publication = Publication {
            outcome: Outcome::AlreadyCommitted { commit_id: accepted.commit_id.clone() },
            current: Arc::clone(current),
            evaluated_at: self.clock.now(),
            lost: Vec::new(),
        };
        Ok(Deployed { updates, publication: Some(publication), current: Arc::clone(current) })
    }
}

/// The selected workers, by pool and name.
fn select(projection: &Projection, selection: &Selection) -> Result<Vec<Target>, Fault> {
    let policy = &managed(projection)?.policy;
    if let Some(pool) = &selection.pool {
        ensure!(policy.pools.contains_key(pool), DeploymentInvalid, "the pool is not installed; see `wq state`");
    }
    let selected: Vec<_> = targets(&projection.registry).filter(|target| selection.takes(target)).collect();
    ensure!(
        !selected.is_empty(),
        DeploymentInvalid,
        "no selected worker carries a contract; leave --pool or --worker-profile out, or compile the worker again"
    );
    Ok(selected)
}

/// The Deployments of a committed request.
fn recorded(accepted: &Accepted) -> Result<Vec<Deployment>, Fault> {
    let (text, list) = match &accepted.source {
        Source::Commit(text) => (text, "operations"),
        Source::Receipt(text) => (text, "events"),
    };
    // No member of a Deployment names a resource, so no host is needed.
    let mut scanner = Scanner::new("");
    let document = scanner.read(text.text())?;
    let listed = document.root().object().and_then(|object| object.get(list)?.array());
    listed.into_iter().flatten().map(|event| Deployment::read(event, Code::LedgerInvalid)).collect()
}

fn read_target(change: &Deployment) -> Result<Target, Fault> {
    let mut scanner = Scanner::new("");
    let pool = PoolName::read(scanner.read(change.pool.text())?.root(), Code::LedgerInvalid)?;
    let profile = ProfileName::read(scanner.read(change.worker_profile.text())?.root(), Code::LedgerInvalid)?;
    Ok(Target { pool, profile })
}
