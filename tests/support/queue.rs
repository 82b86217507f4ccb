//! Requests of the protocol, and publishers of them.

use std::cell::RefCell;

use wq_action::ledger::commit_object::Author;
use wq_action::ledger::git::{Advertisement, ObjectId};
use wq_action::ledger::proposal::{Worker, default_policy};
use wq_action::ledger::{Branch, GitTransport, LedgerError, Publisher, PushOutcome, Retries, Setup, Transport};
use wq_action::ports::SimulatedClock;
use wq_action::ports::SystemEntropy;
use wq_action::protocol::RepositoryName;
use wq_action::protocol::actor::{Actor, Role};
use wq_action::protocol::commit::FrozenRequest;
use wq_action::protocol::policy::Policy;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::work::derive_work_id;
use wq_action::protocol::{Decimal, GraphId, NodeKey, ProfileName, Repository, RequestId, Revision};

use super::git::{NOW, real_git};

pub(crate) const REPOSITORY: &str = "local/queue";

pub(crate) fn actor(role: Role) -> Actor {
    Actor::new(role, Decimal::new("1").unwrap(), Repository::new(REPOSITORY).unwrap()).unwrap()
}

pub(crate) fn policy() -> Policy {
    let worker = Worker {
        name: ProfileName::new("worker").unwrap(),
        revision: Revision::new("f".repeat(40)).unwrap(),
        contract: None,
    };
    default_policy(&RepositoryName::new(REPOSITORY).unwrap(), &[worker]).unwrap()
}

/// One node, as canonical text.
pub(crate) fn node(graph: &str, key: &str, payload: &str) -> String {
    let id = derive_work_id(&GraphId::new(graph).unwrap(), &NodeKey::new(key).unwrap());
    format!(
        r#"{{"batch_trust_domain":"default","depends_on":[],"enqueued":{NOW},"fairness_key":"","graph_id":"{graph}","kind":"Work","node_key":"{key}","payload":{payload},"pool":"default","priority":3,"work_id":"{id}","worker_profile":"worker"}}"#
    )
}

pub(crate) fn submission(id: &str, role: Role, nodes: &[String]) -> FrozenRequest {
    request(id, RequestKind::Submit, role, &format!(r#"{{"nodes":[{}]}}"#, nodes.join(",")))
}

/// A submission of one node that is named after its request.
pub(crate) fn submit(id: &str) -> FrozenRequest {
    submission(id, Role::Producer, &[node(&format!("graph-{id}"), "n", r#"{"task":"t"}"#)])
}

pub(crate) fn dispatch(id: &str) -> FrozenRequest {
    let parameters = r#"{"max_bytes":49152,"max_claims":1,"max_dispatches":1,"pool":"default"}"#;
    request(id, RequestKind::DispatchNext, Role::Dispatcher, parameters)
}

pub(crate) fn request(id: &str, kind: RequestKind, role: Role, parameters: &str) -> FrozenRequest {
    FrozenRequest::new(RequestId::new(id).unwrap(), kind, actor(role), parameters).unwrap()
}

/// What a publisher borrows.
pub(crate) struct World<T = GitTransport> {
    pub(crate) transport: T,
    pub(crate) clock: SimulatedClock,
    pub(crate) retries: Retries,
}

impl<T: Transport> World<T> {
    pub(crate) fn new(transport: T) -> Self {
        Self { transport, clock: SimulatedClock::new(NOW), retries: Retries::default() }
    }

    pub(crate) fn publisher(&self) -> Publisher<'_> {
        self.publisher_of(Branch::default(), REPOSITORY)
    }

    /// A publisher for another branch or in another repository's name.
    pub(crate) fn publisher_of(&self, branch: Branch, repository: &str) -> Publisher<'_> {
        let setup = Setup {
            transport: &self.transport,
            branch,
            repository: RepositoryName::new(repository).unwrap(),
            host: "github.com".into(),
            author: Author::Operator,
            clock: &self.clock,
            entropy: &SystemEntropy,
            retries: self.retries,
            confirm_empty: None,
        };
        Publisher::new(setup).unwrap()
    }
}

/// A transport that does something just before each push, or replaces its report.
pub(crate) struct Meddling<'m> {
    pub(crate) inner: GitTransport,
    /// Called with the number of the push, from 0.
    pub(crate) before_push: Box<dyn Fn(usize) + 'm>,
    /// Replaces the true report of a push.
    pub(crate) report: Box<dyn Fn(usize, PushOutcome) -> PushOutcome + 'm>,
    /// Fails the advertisement of this number, from 0.
    pub(crate) blind: Box<dyn Fn(usize) -> bool + 'm>,
    pub(crate) pushes: RefCell<usize>,
    pub(crate) reads: RefCell<usize>,
}

impl<'m> Meddling<'m> {
    pub(crate) fn new(inner: GitTransport) -> Self {
        Self {
            inner,
            before_push: Box::new(|_| {}),
            report: Box::new(|_, outcome| outcome),
            blind: Box::new(|_| false),
            pushes: RefCell::new(0),
            reads: RefCell::new(0),
        }
    }
}

impl Transport for Meddling<'_> {
    fn advertise(&self, store: &std::path::Path, names: &[&str]) -> Result<Advertisement, LedgerError> {
        let number = self.reads.replace_with(|count| *count + 1);
        if (self.blind)(number) {
            let nowhere = std::path::Path::new("/nowhere/at/all");
            let remote = wq_action::ledger::Remote::path(nowhere).unwrap();
            let bounds = wq_action::ledger::Bounds::default();
            return real_git().transport(remote, None, bounds).advertise(store, names);
        }
        self.inner.advertise(store, names)
    }

    fn fetch(&self, store: &std::path::Path, source: &str, destination: &str) -> Result<(), LedgerError> {
        self.inner.fetch(store, source, destination)
    }

    fn push(
        &self,
        store: &std::path::Path,
        commit: ObjectId,
        reference: &str,
        expected: Option<ObjectId>,
    ) -> Result<PushOutcome, LedgerError> {
        let number = self.pushes.replace_with(|count| *count + 1);
        (self.before_push)(number);
        let outcome = self.inner.push(store, commit, reference, expected)?;
        Ok((self.report)(number, outcome))
    }

    fn is_local(&self) -> bool {
        self.inner.is_local()
    }
}
