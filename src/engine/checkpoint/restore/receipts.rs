//! Receipts of a checkpoint (engine.md 3.12.5 steps 6 and 8).

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::{Parts, damaged, intact, small, ticks};
use crate::engine::schedule::explain::{Capacity, ClaimExplanation};
use crate::engine::state::{Accepted, Position, Source};
use crate::protocol::actor::Actor;
use crate::protocol::fault::ensure;
use crate::protocol::json::Node;
use crate::protocol::request::{DispatchParameters, RequestKind, fingerprinted};
use crate::protocol::wire::closed;
use crate::protocol::{ClaimId, Code, CommitId, Digest, Fault, Opaque, Repository, RequestId, Wire, WorkId};

/// Everything that the receipts say.
pub(super) struct History<'a> {
    pub(super) receipts: Vec<Receipt<'a>>,
    /// Who admitted each Work.
    pub(super) creators: HashMap<WorkId, Arc<Actor>>,
    /// Every Claim in order of grants.
    pub(super) grants: Vec<Grant>,
}

/// One receipt.
pub(super) struct Receipt<'a> {
    pub(super) accepted: Accepted,
    pub(super) digest: Digest,
    /// Canonical text of its actor.
    pub(super) actor: &'a str,
    /// True for the first receipt of a chain that began with Policy and Work in one commit.
    pub(super) bootstrap: bool,
    /// Its Dispatch events that name a launching principal.
    pub(super) starts: Vec<Node<'a>>,
}

/// A Claim event with its explanation.
pub(super) struct Grant {
    pub(super) claim_id: ClaimId,
    pub(super) explanation: ClaimExplanation,
}

const NAMES: &[(&str, bool); 13] = &[
    ("id", true),
    ("previous", true),
    ("request_id", true),
    ("kind", true),
    ("fingerprint", true),
    ("parameters_digest", true),
    ("actor", true),
    ("policy_epoch", true),
    ("at", true),
    ("events", true),
    ("claim_explanations", true),
    ("prior_tip", false),
    ("dispatch_parameters", false),
];

pub(super) fn read<'a>(node: Node<'a>, parts: &Parts<'_>, repository: &Repository) -> Result<History<'a>, Fault> {
    let mut history = History {
        receipts: Vec::with_capacity(node.array_len()),
        creators: HashMap::new(),
        grants: Vec::with_capacity(parts.claims.object().map_or(0, |claims| claims.len())),
    };
    let mut requests: HashSet<RequestId> = HashSet::new();
    let mut commits: HashSet<CommitId> = HashSet::new();
    for item in node.array().into_iter().flatten() {
        let receipt = read_receipt(item, &mut history, parts, repository)?;
        let fresh =
            requests.insert(receipt.accepted.request_id.clone()) && commits.insert(receipt.accepted.commit_id.clone());
        ensure!(fresh, CheckpointInvalid, "two receipts share a request or commit id");
        history.receipts.push(receipt);
    }
    Ok(history)
}

fn read_receipt<'a>(
    node: Node<'a>,
    history: &mut History<'a>,
    parts: &Parts<'_>,
    repository: &Repository,
) -> Result<Receipt<'a>, Fault> {
    let slots = closed(node, NAMES, Code::CheckpointInvalid)?;
    let slot = |index: usize| slots[index].ok_or_else(|| damaged("a receipt lacks a member"));
    let commit_id = CommitId::read(slot(0)?, Code::CheckpointInvalid)?;
    let request_id = RequestId::read(slot(2)?, Code::CheckpointInvalid)?;
    let actor_node = slot(6)?;
    let actor = Arc::new(Actor::read(actor_node, Code::CheckpointInvalid)?);
    let kind: RequestKind = slot(3)?
        .plain()
        .and_then(RequestKind::parse)
        .filter(|kind| actor.role.may_issue(*kind))
        .ok_or_else(|| Fault::new(Code::ActorUnauthorized, "a receipt's role may not issue its kind of request"))?;
    ensure!(actor.repository == *repository, CheckpointInvalid, "a receipt is of another repository");
    let placed = slots[11].is_some() == (kind == RequestKind::Checkpoint)
        && slots[12].is_some() == (kind == RequestKind::DispatchNext);
    ensure!(placed, CheckpointInvalid, "a receipt has a member of another kind of request");
    if let Some(tip) = slots[11] {
        intact::<CommitId>(tip)?;
    }
    let previous = slot(1)?;
    if !previous.is_null() {
        intact::<CommitId>(previous)?;
    }
    let first_claim = history.grants.len() as u32;
    let events = slot(9)?;
    let starts = read_events(events, slot(10)?, history, parts, &actor, (&request_id, &commit_id))?;
    let fingerprint: Digest = intact(slot(4)?)?;
    let digest: Digest = intact(slot(5)?)?;
    if let Some(parameters) = slots[12] {
        intact::<DispatchParameters>(parameters)?;
        check_parameters(parameters.raw(), kind, actor_node.raw(), &digest, &fingerprint)?;
    }
    let first = events.array().and_then(|mut events| events.next()).and_then(Node::object);
    let policy = first.and_then(|event| event.get("kind")).and_then(Node::plain) == Some("Policy");
    let accepted = Accepted {
        source: Source::Receipt(Opaque::checked(node.text())),
        commit_id,
        request_id,
        kind,
        fingerprint,
        actor,
        at: intact(slot(8)?)?,
        policy_epoch: intact(slot(7)?)?,
        claims: (first_claim, history.grants.len() as u32),
    };
    let bootstrap = history.receipts.is_empty() && previous.is_null() && policy;
    Ok(Receipt { accepted, digest, actor: actor_node.raw(), bootstrap, starts })
}

/// The parameters that a receipt still has or that its Work gives back digest to what it says, and so does its request.
pub(super) fn check_parameters(
    parameters: &str,
    kind: RequestKind,
    actor: &str,
    digest: &Digest,
    fingerprint: &Digest,
) -> Result<(), Fault> {
    let same = digest.is_of(&[parameters]) && fingerprint.is_of(&fingerprinted(actor, kind, parameters));
    ensure!(same, CheckpointInvalid, "a receipt's parameters are not the ones of its digest and fingerprint");
    Ok(())
}

fn read_events<'a>(
    events: Node<'a>,
    explanations: Node<'_>,
    history: &mut History<'_>,
    parts: &Parts<'_>,
    actor: &Arc<Actor>,
    ids: (&RequestId, &CommitId),
) -> Result<Vec<Node<'a>>, Fault> {
    let items = events.array().ok_or_else(|| damaged("a receipt's events are not an array"))?;
    let mut explained = explanations.array().ok_or_else(|| damaged("a receipt's explanations are not an array"))?;
    let mut starts = Vec::new();
    for node in items {
        let event = node.object().ok_or_else(|| damaged("an event is not an object"))?;
        let kind = event.get("kind").and_then(Node::plain).ok_or_else(|| damaged("an event has no kind"))?;
        let named = |name: &'static str| event.get(name).ok_or_else(|| damaged("an event does not name its subject"));
        match kind {
            "Work" => {
                let id: WorkId = intact(named("work_id")?)?;
                let fresh = history.creators.insert(id, Arc::clone(actor)).is_none();
                ensure!(fresh, CheckpointInvalid, "a Work was created twice");
            }
            "Claim" => {
                let claim_id: ClaimId = intact(named("claim_id")?)?;
                let work_id: WorkId = intact(named("work_id")?)?;
                let explanation = explained.next().ok_or_else(|| damaged("a Claim has no explanation"))?;
                check_explained(explanation, &claim_id, &work_id, ids)?;
                let explanation = read_explanation(explanation)?;
                history.grants.push(Grant { claim_id, explanation });
            }
            "Dispatch" if event.get("credential_principal").is_some() => starts.push(node),
            _ => {}
        }
    }
    ensure!(explained.next().is_none(), CheckpointInvalid, "an explanation has no Claim");
    let most = parts.claims.object().map_or(0, |claims| claims.len());
    ensure!(history.grants.len() <= most, CheckpointInvalid, "more Claims were granted than the checkpoint holds");
    Ok(starts)
}

fn check_explained(
    node: Node<'_>,
    claim: &ClaimId,
    work: &WorkId,
    (request, commit): (&RequestId, &CommitId),
) -> Result<(), Fault> {
    let object = node.object().ok_or_else(|| damaged("an explanation is not an object"))?;
    let is = |name: &str, text: &crate::protocol::Text| {
        object.get(name).and_then(Node::string).is_some_and(|given| given == *text)
    };
    let same = is("claim_id", claim.text())
        && is("work_id", work.text())
        && is("request_id", request.text())
        && is("commit_id", commit.text());
    ensure!(same, CheckpointInvalid, "an explanation is of another Claim");
    Ok(())
}

/// The members of an explanation that the Claim, its Work and its dispatch do not hold themselves.
fn read_explanation(node: Node<'_>) -> Result<ClaimExplanation, Fault> {
    let selection = member(node, "selection")?;
    let before: String = member(node, "before_tip")?.string().map(|tip| tip.as_str().to_owned()).unwrap_or_default();
    Ok(ClaimExplanation {
        before_tip: if before.is_empty() { None } else { Some(intact(member(node, "before_tip")?)?) },
        position: read_position(member(node, "position")?)?,
        at: intact(member(node, "at")?)?,
        priority: intact(member(node, "priority")?)?,
        label: None,
        class_pass: ticks(member(selection, "class_pass")?)?,
        key_pass: ticks(member(selection, "key_pass")?)?,
        class_pass_prior: ticks(member(node, "class_pass_prior")?)?,
        key_pass_prior: ticks(member(node, "key_pass_prior")?)?,
        capacity_before: capacity(member(node, "capacity_before")?)?,
        capacity_after: capacity(member(node, "capacity_after")?)?,
    })
}

fn member<'a>(node: Node<'a>, name: &str) -> Result<Node<'a>, Fault> {
    let found = node.object().and_then(|object| object.get(name));
    found.ok_or_else(|| damaged("an explanation or position lacks a member"))
}

pub(super) fn read_position(node: Node<'_>) -> Result<Position, Fault> {
    Ok(Position { commit: small(member(node, "commit")?)?, operation: small(member(node, "operation")?)? })
}

fn capacity(node: Node<'_>) -> Result<Capacity, Fault> {
    Ok(Capacity {
        logical: small(member(node, "logical")?)?,
        native: small(member(node, "native")?)?,
        account: small(member(node, "account")?)?,
    })
}
