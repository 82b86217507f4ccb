//! The queue controls that a Claim's worker had committed, derived from the ledger (lifecycle.md 5.10, jobs.md 5.3.6). The
//! list is complete and ordered, and its digest is part of every proof of delivery: a control that lands later makes the
//! proof void.

use std::collections::BTreeSet;

use crate::engine::Projection;
use crate::engine::state::{Accepted, ClaimState, ClaimStatus, Source};
use crate::protocol::actor::{Actor, Role};
use crate::protocol::assignment::{Assignment, Member};
use crate::protocol::evidence::RunBinding;
use crate::protocol::identity::Within;
use crate::protocol::json::{Node, Scanner, Writer};
use crate::protocol::request::RequestKind;
use crate::protocol::{Code, CommitId, Digest, Fault, Opaque, Repository, RequestId, Text, Wire as _};

/// Output type of a submission.
pub const SUBMIT: &str = "work_queue_submit";
/// Output type of a grant.
pub const DISPATCH_NEXT: &str = "work_queue_dispatch_next";

/// One committed control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// [`SUBMIT`] or [`DISPATCH_NEXT`].
    pub output: &'static str,
    /// Its request.
    pub request_id: RequestId,
    /// The request's fingerprint.
    pub fingerprint: Digest,
    /// Its commit.
    pub commit_id: CommitId,
    /// Its receipt, an object.
    pub receipt: Opaque,
}

/// Every control of one Claim, in ledger order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// The controls.
    pub controls: Vec<Control>,
    /// SHA-256 of the list of receipts; an empty list has one too.
    pub digest: Digest,
}

/// The worker of a Claim, as every request of its bound run names it.
///
/// # Errors
/// None for a binding that a ledger holds.
pub fn worker_of(assignment: &Assignment, member: &Member, run: &RunBinding) -> Result<Actor, Fault> {
    Ok(Actor {
        role: Role::Worker,
        principal: run.principal.clone(),
        workflow: Some(run.workflow.clone()),
        dispatch_id: Some(assignment.dispatch_id.clone()),
        claim_handle: Some(member.handle.clone()),
        repository: Repository::new(run.repository.as_str())?,
        run_id: Some(run.run_id.clone()),
        run_attempt: Some(Within::new(1)?),
    })
}

/// The controls of a completed Claim.
///
/// # Errors
/// `work_queue_claim_ownership_invalid` for a Claim that is not completed or whose dispatch is not bound;
/// `work_queue_control_receipt_scope_invalid` for an entry that names another Claim than its request.
pub fn inventory(projection: &Projection, claim: &ClaimState, scanner: &mut Scanner) -> Result<Inventory, Fault> {
    let dispatch = projection.dispatch_of(claim);
    let unowned = || Fault::from(Code::WorkQueueClaimOwnershipInvalid);
    let run = dispatch.run.as_ref().ok_or_else(unowned)?;
    let member = dispatch.assignment.member(claim.claim.handle.as_str()).ok_or_else(unowned)?;
    let worker = worker_of(&dispatch.assignment, member, run)?;
    let mut controls = Vec::new();
    for accepted in projection.requests() {
        let control = matches!(accepted.kind, RequestKind::Submit | RequestKind::DispatchNext);
        if control && *accepted.actor == worker {
            controls.push(control_of(projection, claim, accepted, scanner)?);
        }
    }
    let mut writer = Writer::new();
    writer.array(&controls, |w, control: &Control| w.raw(control.receipt.as_str()));
    Ok(Inventory { controls, digest: Digest::of(&[&writer.finish()]) })
}

/// The receipt of one committed control.
///
/// # Errors
/// As [`inventory`].
pub fn control_of(
    projection: &Projection,
    claim: &ClaimState,
    accepted: &Accepted,
    scanner: &mut Scanner,
) -> Result<Control, Fault> {
    let ClaimStatus::Completed { commit_id: completion_id, .. } = &claim.status else {
        return Err(Code::WorkQueueClaimOwnershipInvalid.into());
    };
    let scoped = accepted.actor.dispatch_id.as_ref() == Some(&claim.claim.dispatch_id)
        && accepted.actor.claim_handle.as_ref() == Some(&claim.claim.handle);
    if !scoped {
        return Err(Code::WorkQueueControlReceiptScopeInvalid.into());
    }
    let output = if accepted.kind == RequestKind::Submit { SUBMIT } else { DISPATCH_NEXT };
    let (parameters_digest, works) = stored(&accepted.source, scanner)?;
    let granted = projection.granted(accepted);
    let dispatches: BTreeSet<&str> = granted.iter().map(|claim| claim.claim.dispatch_id.as_str()).collect();
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("claim_handle", |w| claim.claim.handle.write(w));
        members.name("claim_id", |w| claim.claim.claim_id.write(w));
        members.name("commit_id", |w| accepted.commit_id.write(w));
        members.name("completion_id", |w| completion_id.write(w));
        members.name("dispatch_id", |w| claim.claim.dispatch_id.write(w));
        members.name("parameters_digest", |w| parameters_digest.write(w));
        members.name("request_id", |w| accepted.request_id.write(w));
        members.name("type", |w| w.string(output));
        members.name("version", |w| w.integer(3));
        members.name("work_id", |w| claim.claim.work_id.write(w));
        members.name("writes", |w| {
            w.object(|members| {
                members.name("claims", |w| w.integer(granted.len() as i64));
                members.name("dispatches", |w| w.integer(dispatches.len() as i64));
                members.name("works", |w| w.integer(works));
            });
        });
    });
    Ok(Control {
        output,
        request_id: accepted.request_id.clone(),
        fingerprint: accepted.fingerprint.clone(),
        commit_id: accepted.commit_id.clone(),
        receipt: Opaque::checked(Text::from(writer.finish())),
    })
}

/// The digest of a request's parameters and how many Works its commit admitted; a checkpoint's receipt keeps both.
fn stored(source: &Source, scanner: &mut Scanner) -> Result<(Digest, i64), Fault> {
    let (text, list) = match source {
        Source::Commit(text) => (text, "operations"),
        Source::Receipt(text) => (text, "events"),
    };
    let document = scanner.read(text.text())?;
    let missing = || Fault::from(Code::Internal);
    let root = document.root().object().ok_or_else(missing)?;
    let is_work =
        |node: &Node<'_>| node.object().and_then(|object| object.get("kind")).and_then(Node::plain) == Some("Work");
    let works = root.get(list).and_then(Node::array).map_or(0, |items| items.filter(is_work).count() as i64);
    let digest = match source {
        Source::Commit(_) => {
            let parameters = root.get("request").and_then(Node::object).and_then(|request| request.get("parameters"));
            Digest::of(&[parameters.ok_or_else(missing)?.raw()])
        }
        Source::Receipt(_) => {
            Digest::read(root.get("parameters_digest").ok_or_else(missing)?, Code::CheckpointInvalid)?
        }
    };
    Ok((digest, works))
}
