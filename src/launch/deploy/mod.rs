//! Deployment synchronization (publication.md 5, operator-cli.md 8.2): which revision of a worker future Claims run, and
//! whether it can run at all. Both are derived from the verified default revision and the host's answers, never from
//! what a caller ran at or proposes, and both are derived anew on every attempt to publish them.

mod operator;
mod plan;
mod runtime;

pub use operator::{Deployed, Selection};

use crate::forge::Client;
use crate::ledger::{Ledger, LedgerError, Publication};
use crate::ports::Clock;
use crate::protocol::actor::Actor;
use crate::protocol::commit::FrozenRequest;
use crate::protocol::operation::{Deployment, Operation};
use crate::protocol::request::RequestKind;
use crate::protocol::{Digest, Opaque, PoolName, ProfileName, RepositoryName, RequestId, Revision};

use super::error::LaunchError;
use super::route::{Inspector, default_revision};
use super::step::listed;
use plan::Planner;

/// What a synchronization works with.
pub struct Deployer<'a, 'l> {
    /// The queue.
    pub ledger: &'l mut (dyn Ledger + 'a),
    /// Reads what is deployed.
    pub client: Client<'a>,
    /// Time.
    pub clock: &'a dyn Clock,
    /// The repository of queue and workers.
    pub repository: &'a RepositoryName,
    /// Who publishes: an administrator, a producer or a dispatcher.
    pub actor: &'a Actor,
}

/// One change of a worker's deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Pool.
    pub pool: PoolName,
    /// Worker.
    pub worker_profile: ProfileName,
    /// The revision that it is about.
    pub revision: Revision,
    /// Its contract.
    pub contract: Option<Digest>,
    /// Whether it can run.
    pub available: bool,
    /// True if future Claims without a pin run it.
    pub activate: bool,
}

/// One worker of one pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    pool: PoolName,
    profile: ProfileName,
}

impl Target {
    fn is(&self, pool: &Opaque, profile: &Opaque) -> bool {
        use crate::protocol::Wire as _;
        self.pool.canonical() == pool.as_str() && self.profile.canonical() == profile.as_str()
    }

    fn update(&self, change: &Deployment) -> Update {
        Update {
            pool: self.pool.clone(),
            worker_profile: self.profile.clone(),
            revision: change.profile.revision.clone(),
            contract: change.profile.logical_contract.clone(),
            available: change.available,
            activate: change.activate != Some(false),
        }
    }
}

impl Deployer<'_, '_> {
    fn request(&self, id: RequestId, changes: &[Deployment]) -> Result<FrozenRequest, LaunchError> {
        let operations: Vec<_> = changes.iter().map(|change| Operation::Deployment(Box::new(change.clone()))).collect();
        Ok(FrozenRequest::new(id, RequestKind::Deployment, self.actor.clone(), &listed(&operations))?)
    }

    /// Publishes changes. Each attempt reads the default revision and inspects every worker anew, and publishes only
    /// what holds then (publication.md 5.4).
    fn publish(&mut self, request: &FrozenRequest, changes: &[Deployment]) -> Result<Publication, LaunchError> {
        let (client, repository, clock) = (self.client, self.repository, self.clock);
        let published = self.ledger.publish(request, None, &mut |projection, scanner, _| {
            let default = default_revision(client, repository)?;
            let inspector = Inspector::new(client, repository);
            Planner::new(&inspector, &default.revision, projection)?.check(changes)?;
            // The world was read; the decision is made now.
            projection.decide(scanner, request, clock.now(), &[]).map_err(LedgerError::from)
        });
        Ok(published?)
    }
}
