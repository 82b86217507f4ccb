//! Admission of Issues and pull requests (lifecycle.md 7.7): what a new node names is read once and replaced by what the
//! host shows, so a queue never holds an identity that nobody proved. A node that is admitted already is given back what
//! was stored, and reads nothing.

use super::reading::ReadStatus;
use super::resolve::{Resolver, Target, names};
use crate::engine::Projection;
use crate::engine::submission::identity;
use crate::protocol::fault::ensure;
use crate::protocol::json::{Value, parse};
use crate::protocol::resource::{Condition, Edge, Resource, ResourceKind};
use crate::protocol::work::Work;
use crate::protocol::{Code, Decimal, Fault, Generation, Wire as _};

/// Members of a resource as somebody may write it.
const MEMBERS: [&str; 6] = ["kind", "host", "repository", "repository_id", "resource_id", "number"];

/// What nodes are resolved against.
#[derive(Clone, Copy)]
pub struct Admission<'a> {
    /// The queue as it stands; none before its first submission.
    pub projection: Option<&'a Projection>,
    /// The way to read; none where no credential is at hand.
    pub resolver: Option<&'a Resolver<'a>>,
    /// The approved host, for resources that name none.
    pub host: &'a str,
}

/// A place in the nodes that holds a resource.
struct Place {
    node: usize,
    /// The edge of `depends_on`; none for a member of the node itself.
    edge: Option<usize>,
    member: &'static str,
    target: Target,
}

/// Replaces every Issue and pull request that nodes name, in `depends_on`, `subject` and `backing_issue`, by its complete
/// identity. A resource needs `repository` (`owner/name`) and `number` (a positive integer, or its decimal digits); `kind`
/// too, where no edge says it. `host`, `repository_id` and `resource_id` may be left out; what is given must be what the
/// host shows. Everything else of a node stays for admission to judge.
///
/// # Errors
/// `external_resource_invalid` and `external_condition_invalid` for malformed resources and conditions,
/// `external_resource_type_mismatch` for another kind, `external_not_allowlisted` and
/// `external_redirect_not_allowlisted` for a repository outside the read scopes, `external_read_credentials_missing`
/// without a credential of the queue's current generation, `external_admission_identity_mismatch` for an id that is not
/// the host's, `external_admission_unverified` where the host does not show the resource, the two budget codes for too
/// many; `work_conflict` for a known node that names other resources; and those of [`identity`].
pub fn resolve_nodes(nodes: &[Value], admission: &Admission<'_>) -> Result<Vec<Value>, Fault> {
    let mut resolved = nodes.to_vec();
    let mut places: Vec<Place> = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let found = places_of(node, index, admission.host)?;
        if found.is_empty() {
            continue;
        }
        let (_, _, work_id) = identity(node)?;
        match admission.projection.and_then(|projection| projection.work(work_id.as_str())) {
            Some(known) => {
                for place in found {
                    let stored = stored(&known.work, &place).ok_or_else(|| {
                        let message =
                            "the resubmitted node names other Issues or pull requests than its stored definition";
                        Fault::new(Code::WorkConflict, message)
                    })?;
                    put(&mut resolved, &place, stored)?;
                }
            }
            None => places.extend(found),
        }
    }
    if places.is_empty() {
        return Ok(resolved);
    }
    let initial = Projection::empty();
    let generation = admission.projection.unwrap_or(&initial).generation();
    let resolver = usable(admission.resolver, generation)?;
    let targets: Vec<Target> = places.iter().map(|place| place.target.clone()).collect();
    for (place, answer) in places.iter().zip(resolver.identify(&targets, generation)?) {
        put(&mut resolved, place, &answer.map_err(refusal)?)?;
    }
    Ok(resolved)
}

/// A resolver whose every scope is of the current generation.
fn usable<'a>(resolver: Option<&'a Resolver<'a>>, generation: &Generation) -> Result<&'a Resolver<'a>, Fault> {
    let current =
        |resolver: &&Resolver<'_>| resolver.scopes().list().iter().all(|scope| scope.access_generation == *generation);
    resolver.filter(current).ok_or_else(|| {
        let message = "Issues and pull requests cannot be admitted without read credentials of the current generation";
        Fault::new(Code::ExternalReadCredentialsMissing, message)
    })
}

/// What a resource that could not be proven is refused with.
fn refusal(status: ReadStatus) -> Fault {
    let unverified = |message| Fault::new(Code::ExternalAdmissionUnverified, message);
    match status {
        ReadStatus::NotAllowlisted => Code::ExternalNotAllowlisted.into(),
        ReadStatus::RedirectNotAllowlisted => Code::ExternalRedirectNotAllowlisted.into(),
        ReadStatus::ResourceTypeMismatch => Code::ExternalResourceTypeMismatch.into(),
        ReadStatus::IdentityMismatch => Code::ExternalAdmissionIdentityMismatch.into(),
        ReadStatus::ReadBudgetExhausted => Code::ExternalReadBudgetExhausted.into(),
        ReadStatus::CredentialsMissing | ReadStatus::AccessGenerationMismatch => {
            Code::ExternalReadCredentialsMissing.into()
        }
        ReadStatus::NotFound => unverified("a submitted Issue or pull request is not there for the read credential"),
        ReadStatus::AccessDenied => unverified("the read credential may not see a submitted Issue or pull request"),
        ReadStatus::RateLimited => unverified("the host limits the rate, so a submitted resource was not identified"),
        _ => unverified("the host did not show a submitted Issue or pull request"),
    }
}

/// Every place of a node that holds a resource.
fn places_of(node: &Value, index: usize, host: &str) -> Result<Vec<Place>, Fault> {
    let mut places = Vec::new();
    if let Some(Value::Array(edges)) = node.get("depends_on") {
        for (edge_index, edge) in edges.iter().enumerate() {
            let kind = edge.get("kind").and_then(Value::as_str).and_then(ResourceKind::parse);
            let (Some(kind), Some(resource)) = (kind, edge.get("resource")) else { continue };
            let fits = edge.get("condition").is_none_or(|condition| {
                let condition = condition.as_str().and_then(Condition::parse);
                condition
                    .is_some_and(|condition| (condition == Condition::Merged) == (kind == ResourceKind::PullRequest))
            });
            ensure!(fits, ExternalConditionInvalid, "an edge's condition does not fit the kind of its resource");
            let target = read_target(resource, Some(kind), host)?;
            places.push(Place { node: index, edge: Some(edge_index), member: "resource", target });
        }
    }
    for member in ["subject", "backing_issue"] {
        if let Some(resource) = node.get(member) {
            let kind = (member == "backing_issue").then_some(ResourceKind::Issue);
            places.push(Place { node: index, edge: None, member, target: read_target(resource, kind, host)? });
        }
    }
    Ok(places)
}

/// Reads a resource as somebody wrote it. `kind` is what it must be, where its place says so.
fn read_target(resource: &Value, kind: Option<ResourceKind>, host: &str) -> Result<Target, Fault> {
    let invalid = |message: &'static str| Fault::new(Code::ExternalResourceInvalid, message);
    let Value::Object(members) = resource else { return Err(invalid("a resource is an object")) };
    ensure!(
        members.iter().all(|(name, _)| MEMBERS.contains(&name.as_str())),
        ExternalResourceInvalid,
        "a resource has an unknown member"
    );
    let text = |name: &str| match resource.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(invalid("a member of a resource is not a string")),
    };
    let decimal = |name: &str| {
        let digits = match resource.get(name) {
            Some(Value::Integer(number)) => Some(number.to_string()),
            _ => text(name)?.map(str::to_owned),
        };
        let digits = digits.map(Decimal::new).transpose();
        digits.map_err(|_| invalid("a number or id of a resource is not a positive decimal"))
    };
    let said =
        text("kind")?.map(|kind| ResourceKind::parse(kind).ok_or_else(|| invalid("a resource's kind is unknown")));
    let kind = match (kind, said.transpose()?) {
        (Some(kind), Some(said)) if kind != said => return Err(Code::ExternalResourceTypeMismatch.into()),
        (Some(kind), _) | (None, Some(kind)) => kind,
        (None, None) => return Err(invalid("a resource has no kind")),
    };
    Ok(Target {
        kind,
        host: text("host")?.unwrap_or(host).to_owned(),
        repository: text("repository")?.ok_or_else(|| invalid("a resource has no repository"))?.to_owned(),
        number: decimal("number")?.ok_or_else(|| invalid("a resource has no number"))?,
        repository_id: decimal("repository_id")?,
        resource_id: decimal("resource_id")?,
    })
}

/// The stored resource that a place of a known node names.
fn stored<'w>(work: &'w Work, place: &Place) -> Option<&'w Resource> {
    let resource = match (place.edge, place.member) {
        (Some(index), _) => match work.depends_on.get(index)? {
            Edge::Gate(gate) => Some(&gate.resource),
            Edge::Work(_) => None,
        },
        (None, "subject") => work.subject.as_deref(),
        (None, _) => work.backing_issue.as_deref(),
    };
    resource.filter(|resource| names(&place.target, resource))
}

/// Puts a resource in its place.
fn put(nodes: &mut [Value], place: &Place, resource: &Resource) -> Result<(), Fault> {
    let value = parse(&resource.canonical())?;
    let slot = nodes.get_mut(place.node).and_then(|node| match place.edge {
        Some(index) => match slot(node, "depends_on")? {
            Value::Array(edges) => slot(edges.get_mut(index)?, place.member),
            _ => None,
        },
        None => slot(node, place.member),
    });
    *slot.ok_or_else(|| Fault::from(Code::Internal))? = value;
    Ok(())
}

/// The member of an object, to be changed.
fn slot<'v>(value: &'v mut Value, name: &str) -> Option<&'v mut Value> {
    match value {
        Value::Object(members) => members.iter_mut().find(|(key, _)| key == name).map(|(_, value)| value),
        _ => None,
    }
}
