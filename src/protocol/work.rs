//! Work: as submitted, and as admitted (engine.md 2.5, 5).

use super::identity::{
    At, Digest, FairnessKey, GraphId, Identity, NodeKey, Opaque, PoolName, Priority, ProfileName, Revision,
    TrustDomain, WorkId, sha256_hex,
};
use super::json::{Kind, Node, Writer};
use super::resource::{Edge, Resource};
use super::wire::{Wire, closed, record, words};
use super::{Code, Fault};

words! {
    /// What was done about the failed Work that a node replaces.
    pub enum Remediation {
        Idempotent = "idempotent",
        Compensated = "compensated",
        Inspection = "inspection",
    }
}

record! {
    /// Names the failed Work that a node replaces.
    pub struct Replacement, closed LedgerInvalid {
        work_id: WorkId = "work_id";
        disposition: Remediation = "disposition" => ReplacementInvalid;
        evidence: Identity = "evidence";
    }
}

/// A Work operation as it stands in a commit.
///
/// The shape stage checks three of its members; the rest is judged at admission, where a defect has its place
/// among checks against the Policy and the graph. So each of those members is held as read or as refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkDraft {
    /// The whole operation; two definitions are the same if these texts are.
    pub source: Opaque,
    /// Derived id, as claimed.
    pub work_id: WorkId,
    /// Pinned contract.
    pub logical_contract: Option<Digest>,
    /// Pinned revision.
    pub execution_ref: Option<Revision>,
    pub(crate) graph_id: Result<GraphId, Fault>,
    pub(crate) node_key: Result<NodeKey, Fault>,
    pub(crate) pool: Result<PoolName, Fault>,
    pub(crate) priority: Result<Priority, Fault>,
    pub(crate) fairness_key: Result<FairnessKey, Fault>,
    pub(crate) worker_profile: Result<ProfileName, Fault>,
    pub(crate) batch_trust_domain: Result<TrustDomain, Fault>,
    pub(crate) payload: Result<Opaque, Fault>,
    pub(crate) depends_on: Result<Vec<Result<Edge, Fault>>, Fault>,
    pub(crate) enqueued: Result<At, Fault>,
    pub(crate) subject: Option<Result<Box<Resource>, Fault>>,
    pub(crate) backing_issue: Option<Result<Box<Resource>, Fault>>,
    pub(crate) replacement_of: Option<Result<Box<Replacement>, Fault>>,
}

/// Admitted Work: every member valid.
#[derive(Clone, Debug)]
pub struct Work {
    /// The whole operation as canonical text.
    pub source: Opaque,
    /// Id derived from graph and node key.
    pub work_id: WorkId,
    /// Graph.
    pub graph_id: GraphId,
    /// Key inside the graph.
    pub node_key: NodeKey,
    /// Pool.
    pub pool: PoolName,
    /// Admitted priority.
    pub priority: Priority,
    /// Accounting key.
    pub fairness_key: FairnessKey,
    /// Route inside the pool.
    pub worker_profile: ProfileName,
    /// Batch trust domain.
    pub batch_trust_domain: TrustDomain,
    /// The task, an object.
    pub payload: Opaque,
    /// Edges in order.
    pub depends_on: Vec<Edge>,
    /// Time of submission; never an input to selection.
    pub enqueued: At,
    /// The resource that the Work is about.
    pub subject: Option<Box<Resource>>,
    /// An Issue granted by a projector rule.
    pub backing_issue: Option<Box<Resource>>,
    /// The failed Work that this one replaces.
    pub replacement_of: Option<Box<Replacement>>,
    /// Pinned contract.
    pub logical_contract: Option<Digest>,
    /// Pinned revision.
    pub execution_ref: Option<Revision>,
}

/// Members of a Work operation and whether each is required.
const NAMES: &[(&str, bool); 17] = &[
    ("kind", true),
    ("work_id", true),
    ("graph_id", true),
    ("node_key", true),
    ("pool", true),
    ("priority", true),
    ("fairness_key", true),
    ("worker_profile", true),
    ("batch_trust_domain", true),
    ("payload", true),
    ("depends_on", true),
    ("enqueued", true),
    ("subject", false),
    ("backing_issue", false),
    ("replacement_of", false),
    ("logical_contract", false),
    ("execution_ref", false),
];

impl Wire for WorkDraft {
    fn read(node: Node<'_>, _code: Code) -> Result<Self, Fault> {
        let slots = closed(node, NAMES, Code::UnsupportedProtocol)?;
        let slot = |index: usize| slots[index].ok_or_else(|| Fault::from(Code::UnsupportedProtocol));
        let work_id = WorkId::read(slot(1)?, Code::LedgerInvalid)?;
        let contract = slots[15].map(|node| Digest::read(node, Code::WorkInvalid)).transpose()?;
        let pin = slots[16].map(|node| Revision::read(node, Code::WorkInvalid)).transpose()?;
        let payload = slot(9)?;
        let edges = slot(10)?;
        Ok(Self {
            source: Opaque::read(node, Code::LedgerInvalid)?,
            work_id,
            logical_contract: contract,
            execution_ref: pin,
            graph_id: Wire::read(slot(2)?, Code::LedgerInvalid),
            node_key: Wire::read(slot(3)?, Code::LedgerInvalid),
            pool: Wire::read(slot(4)?, Code::LedgerInvalid),
            priority: Wire::read(slot(5)?, Code::LedgerInvalid),
            fairness_key: Wire::read(slot(6)?, Code::LedgerInvalid),
            worker_profile: Wire::read(slot(7)?, Code::LedgerInvalid),
            batch_trust_domain: Wire::read(slot(8)?, Code::LedgerInvalid),
            payload: if payload.kind() == Kind::Object {
                Opaque::read(payload, Code::WorkInvalid)
            } else {
                Err(payload.fault(Code::WorkInvalid, "a payload is an object"))
            },
            depends_on: match edges.array() {
                Some(items) => Ok(items.map(|item| Edge::read(item, Code::LedgerInvalid)).collect()),
                None => Err(edges.fault(Code::ResourceLimit, "depends_on is an array")),
            },
            enqueued: Wire::read(slot(11)?, Code::LedgerInvalid),
            subject: slots[12].map(|node| Wire::read(node, Code::LedgerInvalid)),
            backing_issue: slots[13].map(|node| Wire::read(node, Code::LedgerInvalid)),
            replacement_of: slots[14].map(|node| Wire::read(node, Code::LedgerInvalid)),
        })
    }

    fn write(&self, writer: &mut Writer) {
        self.source.write(writer);
    }
}

/// True for the members of a Work operation, which a Work state extends.
pub(crate) fn is_definition_member(name: &str) -> bool {
    NAMES.iter().any(|(member, _)| *member == name)
}

impl WorkDraft {
    /// The Work of a definition that was admitted before, every member valid in itself.
    ///
    /// # Errors
    /// The first member's fault.
    pub(crate) fn admitted(self) -> Result<Work, Fault> {
        Ok(Work {
            source: self.source,
            work_id: self.work_id,
            graph_id: self.graph_id?,
            node_key: self.node_key?,
            pool: self.pool?,
            priority: self.priority?,
            fairness_key: self.fairness_key?,
            worker_profile: self.worker_profile?,
            batch_trust_domain: self.batch_trust_domain?,
            payload: self.payload?,
            depends_on: self.depends_on?.into_iter().collect::<Result<_, _>>()?,
            enqueued: self.enqueued?,
            subject: self.subject.transpose()?,
            backing_issue: self.backing_issue.transpose()?,
            replacement_of: self.replacement_of.transpose()?,
            logical_contract: self.logical_contract,
            execution_ref: self.execution_ref,
        })
    }
}

impl Work {
    /// Writes the operation's members, for the Work state that extends them.
    pub(crate) fn members(&self, members: &mut super::json::Members<'_>) {
        members.name("batch_trust_domain", |w| self.batch_trust_domain.write(w));
        members.name("depends_on", |w| w.array(&self.depends_on, |w, edge| edge.write(w)));
        members.name("enqueued", |w| self.enqueued.write(w));
        members.name("fairness_key", |w| self.fairness_key.write(w));
        members.name("graph_id", |w| self.graph_id.write(w));
        members.name("kind", |w| w.string("Work"));
        members.name("node_key", |w| self.node_key.write(w));
        members.name("payload", |w| self.payload.write(w));
        members.name("pool", |w| self.pool.write(w));
        members.name("priority", |w| self.priority.write(w));
        members.name("work_id", |w| self.work_id.write(w));
        members.name("worker_profile", |w| self.worker_profile.write(w));
        if let Some(subject) = &self.subject {
            members.name("subject", |w| subject.write(w));
        }
        if let Some(issue) = &self.backing_issue {
            members.name("backing_issue", |w| issue.write(w));
        }
        if let Some(replacement) = &self.replacement_of {
            members.name("replacement_of", |w| replacement.write(w));
        }
        if let Some(contract) = &self.logical_contract {
            members.name("logical_contract", |w| contract.write(w));
        }
        if let Some(pin) = &self.execution_ref {
            members.name("execution_ref", |w| pin.write(w));
        }
    }

    /// Writes a Work operation: what front ends submit. Its `source` is not read.
    pub fn write_operation(&self, writer: &mut Writer) {
        writer.object(|members| self.members(members));
    }
}

/// The id of a node: SHA-256 of canonical `{graph_id, node_key}`.
///
/// # Panics
/// Never: a digest is an identity.
#[must_use]
pub fn derive_work_id(graph_id: &GraphId, node_key: &NodeKey) -> WorkId {
    let mut writer = Writer::new();
    writer.raw("{\"graph_id\":");
    graph_id.write(&mut writer);
    writer.raw(",\"node_key\":");
    node_key.write(&mut writer);
    writer.raw("}");
    WorkId::new(sha256_hex(&[&writer.finish()])).expect("64 hexadecimal digits are an identity")
}
