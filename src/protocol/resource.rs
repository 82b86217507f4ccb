//! External resources, dependency edges and gates (engine.md 2.8).

use super::fault::ensure;
use super::identity::{Decimal, Identity, Repository, WorkId};
use super::json::{Node, Writer};
use super::wire::{Wire, closed, words};
use super::{Code, Fault, Text};

words! {
    /// The resources that can gate Work.
    pub enum ResourceKind {
        Issue = "issue",
        PullRequest = "pull_request",
    }
}

words! {
    /// What a gate waits for. Issues have the first two, pull requests the last.
    pub enum Condition {
        Completed = "completed",
        Closed = "closed",
        Merged = "merged",
    }
}

/// An Issue or pull request on the approved host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Issue or pull request.
    pub kind: ResourceKind,
    /// The approved host.
    pub host: Identity,
    /// Its repository, for display and allow-lists.
    pub repository: Repository,
    /// The repository's numeric id.
    pub repository_id: Decimal,
    /// The resource's numeric id.
    pub resource_id: Decimal,
    /// Its number, for display.
    pub number: Decimal,
}

impl Resource {
    pub(crate) fn read_closed(node: Node<'_>, closed_code: Code) -> Result<Self, Fault> {
        const NAMES: &[(&str, bool); 6] = &[
            ("kind", true),
            ("host", true),
            ("repository", true),
            ("repository_id", true),
            ("resource_id", true),
            ("number", true),
        ];
        let slots = closed(node, NAMES, closed_code)?;
        let slot = |index: usize| slots[index].ok_or_else(|| Fault::from(closed_code));
        let kind = ResourceKind::read(slot(0)?, Code::ResourceInvalid)?;
        let host = Identity::read(slot(1)?, Code::LedgerInvalid)?;
        super::identity::check_identity(slot(2)?)?;
        if host.as_str() != node.host() {
            return Err(slot(1)?.fault(Code::ResourceUnauthorized, "the resource's host is not approved"));
        }
        Ok(Self {
            kind,
            host,
            repository: Repository::read(slot(2)?, Code::ResourceUnauthorized)?,
            repository_id: Decimal::read(slot(3)?, Code::ResourceInvalid)?,
            resource_id: Decimal::read(slot(4)?, Code::ResourceInvalid)?,
            number: Decimal::read(slot(5)?, Code::ResourceInvalid)?,
        })
    }

    /// The gate of this resource under a condition; display coordinates do not count.
    #[must_use]
    pub fn gate(&self, condition: Condition) -> GateKey {
        let mut writer = Writer::new();
        writer.object(|members| {
            members.name("condition", |w| condition.write(w));
            members.name("host", |w| self.host.write(w));
            members.name("kind", |w| self.kind.write(w));
            members.name("repository_id", |w| self.repository_id.write(w));
            members.name("resource_id", |w| self.resource_id.write(w));
        });
        GateKey(Text::from(writer.finish()))
    }

    /// What makes two Issues the same Issue: host, repository id and resource id.
    #[must_use]
    pub fn issue_identity(&self) -> (Text, Text, Text) {
        (self.host.text().clone(), self.repository_id.text().clone(), self.resource_id.text().clone())
    }
}

impl Wire for Resource {
    fn read(node: Node<'_>, _code: Code) -> Result<Self, Fault> {
        Self::read_closed(node, Code::LedgerInvalid)
    }

    fn write(&self, writer: &mut Writer) {
        writer.object(|members| {
            members.name("host", |w| self.host.write(w));
            members.name("kind", |w| self.kind.write(w));
            members.name("number", |w| self.number.write(w));
            members.name("repository", |w| self.repository.write(w));
            members.name("repository_id", |w| self.repository_id.write(w));
            members.name("resource_id", |w| self.resource_id.write(w));
        });
    }
}

/// Identity of a gate: canonical JSON of condition, host, kind, repository id and resource id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GateKey(Text);

impl GateKey {
    /// The key as text.
    #[must_use]
    pub fn text(&self) -> &Text {
        &self.0
    }
}

/// One entry of `depends_on`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edge {
    /// Another Work of the same graph and pool.
    Work(WorkId),
    /// An Issue or pull request.
    Gate(Box<Gate>),
}

/// An external edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The resource.
    pub resource: Resource,
    /// What is waited for; fits the resource's kind.
    pub condition: Condition,
    /// The gate's identity.
    pub key: GateKey,
}

impl Wire for Edge {
    fn read(node: Node<'_>, _code: Code) -> Result<Self, Fault> {
        let object = node.object().ok_or_else(|| node.fault(Code::LedgerInvalid, "an edge is an object"))?;
        let kind = object.get("kind").and_then(Node::plain);
        if kind == Some("work") {
            let slots = closed(node, &[("kind", true), ("work_id", true)], Code::LedgerInvalid)?;
            let work = slots[1].ok_or_else(|| Fault::from(Code::LedgerInvalid))?;
            return WorkId::read(work, Code::LedgerInvalid).map(Self::Work);
        }
        // Whatever else the kind says, the edge must look like a gate before its kind is judged.
        let slots = closed(node, &[("kind", true), ("resource", true), ("condition", true)], Code::LedgerInvalid)?;
        let slot = |index: usize| slots[index].ok_or_else(|| Fault::from(Code::LedgerInvalid));
        let resource = Resource::read(slot(1)?, Code::LedgerInvalid)?;
        let condition = Condition::read(slot(2)?, Code::DependencyInvalid)?;
        let fits = kind == Some(resource.kind.as_str())
            && match resource.kind {
                ResourceKind::Issue => condition != Condition::Merged,
                ResourceKind::PullRequest => condition == Condition::Merged,
            };
        ensure!(fits, DependencyInvalid, "an edge's kind, resource and condition do not fit together");
        let key = resource.gate(condition);
        Ok(Self::Gate(Box::new(Gate { resource, condition, key })))
    }

    fn write(&self, writer: &mut Writer) {
        writer.object(|members| match self {
            Self::Work(work) => {
                members.name("kind", |w| w.string("work"));
                members.name("work_id", |w| work.write(w));
            }
            Self::Gate(gate) => {
                members.name("condition", |w| gate.condition.write(w));
                members.name("kind", |w| gate.resource.kind.write(w));
                members.name("resource", |w| gate.resource.write(w));
            }
        });
    }
}
