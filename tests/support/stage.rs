//! A simulated GitHub with workers, and a queue of its repository in memory.

use std::sync::Arc;

use serde_json::{Value, json};
use wq_action::engine::Projection;
use wq_action::forge::Client;
use wq_action::launch::deploy::Deployer;
use wq_action::ledger::publisher::Decide;
use wq_action::ledger::simulated::{SimulatedBranch, SimulatedLedger};
use wq_action::ledger::{Current, Ledger, LedgerError, Proposal, Publication, Queue};
use wq_action::ports::{SimulatedClock, SimulatedEntropy};
use wq_action::protocol::actor::{Actor, Role};
use wq_action::protocol::commit::FrozenRequest;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{Decimal, Identity, Repository, RepositoryName, RequestId};

use super::git::NOW;
use super::github::{Endpoint, Github, JOB, OCTO_WIDGETS, Port, worker_lock, worker_source};
use super::ledger::{HOST, canonical, work_id};

/// A contract stamp of one repeated letter.
pub(crate) fn stamp(letter: &str) -> String {
    letter.repeat(64)
}

/// Path of a worker's source.
pub(crate) fn source(name: &str) -> String {
    format!(".github/workflows/{name}.md")
}

/// Path of a worker's compiled file.
pub(crate) fn lock(name: &str) -> String {
    format!(".github/workflows/{name}.lock.yml")
}

/// The world of a test.
pub(crate) struct Stage {
    pub(crate) github: Github,
    pub(crate) branch: SimulatedBranch,
    pub(crate) clock: SimulatedClock,
    pub(crate) repository: RepositoryName,
    entropy: SimulatedEntropy,
}

impl Stage {
    /// The repository with these workers, each stamped with the letter `c`.
    pub(crate) fn new(workers: &[&str]) -> Self {
        let stage = Self {
            github: Github::new().repository(OCTO_WIDGETS),
            branch: SimulatedBranch::new(),
            clock: SimulatedClock::new(NOW),
            repository: RepositoryName::new(OCTO_WIDGETS).unwrap(),
            entropy: SimulatedEntropy::new(7),
        };
        stage.put("README.md", Some("# Widgets\n"));
        workers.iter().for_each(|name| stage.add_worker(name, "c"));
        stage
    }

    /// Commits and registers a worker.
    pub(crate) fn add_worker(&self, name: &str, letter: &str) {
        self.put(&source(name), Some(&worker_source(name)));
        self.put(&lock(name), Some(&worker_lock(name, &stamp(letter))));
        self.github.workflow(OCTO_WIDGETS, &lock(name), name);
    }

    /// Commits one file to the default branch; none removes it. Returns the commit.
    pub(crate) fn put(&self, path: &str, text: Option<&str>) -> String {
        self.github.commit(OCTO_WIDGETS, "main", &[(path, text)])
    }

    /// The head of the default branch.
    pub(crate) fn head(&self) -> String {
        self.github.head(OCTO_WIDGETS, "main").unwrap()
    }

    /// Registers a worker in another state; none takes its registration away.
    pub(crate) fn register(&self, name: &str, state: Option<&str>) {
        self.github.workflow_state(OCTO_WIDGETS, &lock(name), state);
    }

    /// Does something with a client of the job's token.
    pub(crate) fn ask<T>(&self, act: impl FnOnce(Client<'_>) -> T) -> T {
        let port = Port::new(&self.github, JOB, &self.clock);
        act(Client::new(&port, &self.clock))
    }

    /// A process at the queue.
    pub(crate) fn ledger(&self) -> SimulatedLedger<'_> {
        SimulatedLedger::new(&self.branch, &self.repository, HOST, &self.clock, &self.entropy)
    }

    /// Deploys in this actor's name.
    pub(crate) fn deployer<T>(&self, actor: &Actor, act: impl FnOnce(&mut Deployer<'_, '_>) -> T) -> T {
        let mut ledger = self.ledger();
        self.deployer_at(&mut ledger, actor, act)
    }

    /// The same at another ledger.
    pub(crate) fn deployer_at<'a, T>(
        &'a self,
        ledger: &mut (dyn Ledger + 'a),
        actor: &Actor,
        act: impl FnOnce(&mut Deployer<'_, '_>) -> T,
    ) -> T {
        let port = Port::new(&self.github, JOB, &self.clock);
        let client = Client::new(&port, &self.clock);
        act(&mut Deployer { ledger, client, clock: &self.clock, repository: &self.repository, actor })
    }

    /// Publishes a request on the existing queue.
    pub(crate) fn publish(&self, request: &FrozenRequest) -> Result<Publication, LedgerError> {
        self.ledger().publish(request, None, &mut |projection, scanner, at| {
            projection.decide(scanner, request, at, &[]).map_err(LedgerError::from)
        })
    }

    /// The state of the queue.
    pub(crate) fn state(&self) -> Projection {
        self.branch.current().unwrap().projection.clone()
    }

    /// The serialised state.
    pub(crate) fn document(&self) -> Value {
        serde_json::from_str(&self.state().serialise()).unwrap()
    }

    /// Commits in the queue; none while it is absent.
    pub(crate) fn commits(&self) -> usize {
        self.branch.current().map_or(0, |current| current.projection.requests().len())
    }

    /// The deployment of a worker: its current revision, and whether that can run.
    pub(crate) fn deployed(&self, pool: &str, profile: &str) -> (String, bool) {
        let entry = &self.document()["deployments"][pool][profile];
        let current = entry["current_ref"].as_str().unwrap().to_owned();
        let available = entry["revisions"][&current]["available"].as_bool().unwrap();
        (current, available)
    }

    /// Calls of the endpoints that a route is read through.
    pub(crate) fn lookups(&self) -> [u64; 4] {
        [Endpoint::Repository, Endpoint::GetRef, Endpoint::Contents, Endpoint::Workflow].map(|at| self.github.calls(at))
    }
}

/// An actor of the repository; a dispatcher has a run.
pub(crate) fn actor(role: Role) -> Actor {
    let mut actor = Actor::new(role, Decimal::new("1").unwrap(), Repository::new(OCTO_WIDGETS).unwrap()).unwrap();
    if role == Role::Dispatcher {
        actor.workflow = Some(Identity::new(".github/workflows/plan.lock.yml").unwrap());
        actor.run_id = Some(Decimal::new("42").unwrap());
        actor.run_attempt = Some(wq_action::protocol::identity::Within::new(1).unwrap());
    }
    actor
}

/// A request id.
pub(crate) fn id(text: &str) -> RequestId {
    RequestId::new(text).unwrap()
}

/// A request of the repository.
pub(crate) fn request(name: &str, kind: RequestKind, role: Role, parameters: &Value) -> FrozenRequest {
    FrozenRequest::new(id(name), kind, actor(role), &canonical(&parameters.to_string())).unwrap()
}

/// A node for a worker of the default pool.
pub(crate) fn node(key: &str, worker: &str) -> Value {
    json!({"kind": "Work", "graph_id": "graph", "node_key": key, "work_id": work_id("graph", key), "pool": "default",
        "priority": 3, "fairness_key": "", "worker_profile": worker, "batch_trust_domain": "default",
        "payload": {"task": key}, "depends_on": [], "enqueued": NOW})
}

/// A producer's submission of nodes.
pub(crate) fn submission(name: &str, nodes: &[Value]) -> FrozenRequest {
    request(name, RequestKind::Submit, Role::Producer, &json!({"nodes": nodes}))
}

/// A process at the queue of a stage to which something else happens right before its first publication.
pub(crate) struct Watched<'s> {
    inner: SimulatedLedger<'s>,
    before: Option<&'s dyn Fn()>,
}

impl<'s> Watched<'s> {
    pub(crate) fn new(stage: &'s Stage, before: &'s dyn Fn()) -> Self {
        Self { inner: stage.ledger(), before: Some(before) }
    }
}

impl Ledger for Watched<'_> {
    fn read(&mut self) -> Result<Queue, LedgerError> {
        self.inner.read()
    }

    fn read_present(&mut self) -> Result<Arc<Current>, LedgerError> {
        self.inner.read_present()
    }

    fn publish(
        &mut self,
        request: &FrozenRequest,
        proposal: Option<&Proposal<'_>>,
        decide: &mut Decide<'_>,
    ) -> Result<Publication, LedgerError> {
        if let Some(before) = self.before.take() {
            before();
        }
        self.inner.publish(request, proposal, decide)
    }
}
