//! What every read shows of a Work, a Claim and a dispatch: metadata alone, never a payload or a descriptor.

use crate::engine::Projection;
use crate::engine::state::{ClaimState, Delivery, DispatchState, Ownership, WorkState};
use crate::protocol::At;
use crate::protocol::Wire as _;
use crate::protocol::assignment::Assignment;
use crate::protocol::json::{Members, Writer};
use crate::report::terminal;

/// Adds what was admitted and what became of it.
pub(crate) fn work_members(projection: &Projection, state: &WorkState, at: At, members: &mut Members<'_>) {
    let work = &state.work;
    let view = projection.view_work(state, at, None);
    view.members(state, members);
    members.name("admitted_priority", |w| work.priority.write(w));
    members.name("attempts", |w| w.integer(i64::from(state.attempts)));
    members.name("barrier", |w| w.string(state.barrier().as_str()));
    members.name("batch_trust_domain", |w| work.batch_trust_domain.write(w));
    members.name("enqueued", |w| work.enqueued.write(w));
    members.name("graph_id", |w| work.graph_id.write(w));
    members.name("node_key", |w| work.node_key.write(w));
    members.name("payload_bytes", |w| w.integer(work.payload.len() as i64));
    members.name("pool", |w| work.pool.write(w));
    members.name("position", |w| {
        w.object(|position| {
            position.name("commit", |w| w.integer(i64::from(state.position.commit)));
            position.name("operation", |w| w.integer(i64::from(state.position.operation)));
        });
    });
    members.name("retry_not_before", |w| state.retry_not_before.write(w));
    members.name("state", |w| w.string(state.state()));
    members.name("work_id", |w| work.work_id.write(w));
    members.name("worker_profile", |w| work.worker_profile.write(w));
    if let Some(pin) = &work.execution_ref {
        members.name("execution_ref", |w| pin.write(w));
    }
    if let Some(contract) = &state.admission_contract {
        members.name("admission_contract", |w| contract.write(w));
    }
    if let Some(owner) = projection.owner_of(state) {
        members.name("claim_id", |w| owner.claim.claim_id.write(w));
    }
    ownership_members(&state.ownership, members);
}

fn ownership_members(ownership: &Ownership, members: &mut Members<'_>) {
    match ownership {
        Ownership::Available | Ownership::Claimed(_) => {}
        Ownership::Completed { completion_id, delivery, keep_open, .. } => {
            members.name("completion_id", |w| completion_id.write(w));
            if *keep_open {
                members.name("keep_open", |w| w.bool(true));
            }
            match delivery {
                Delivery::Pending => {}
                Delivery::Verified { commit_id, .. } => members.name("result_commit_id", |w| commit_id.write(w)),
                Delivery::Failed(failure) => members.name("disposition", |w| failure.disposition.write(w)),
            }
        }
        Ownership::Cancelled { operation, commit_id, .. } => {
            members.name("cancellation_commit_id", |w| commit_id.write(w));
            members.name("cancellation_reason", |w| operation.reason.write(w));
        }
    }
}

/// Writes a Claim.
pub(crate) fn write_claim(projection: &Projection, claim: &ClaimState, writer: &mut Writer) {
    writer.object(|members| {
        members.name("claim_id", |w| claim.claim.claim_id.write(w));
        members.name("commit_id", |w| claim.commit_id.write(w));
        members.name("current", |w| w.bool(projection.is_current(claim)));
        members.name("dispatch_id", |w| claim.claim.dispatch_id.write(w));
        members.name("handle", |w| claim.claim.handle.write(w));
        members.name("observations", |w| claim.claim.observations.write(w));
        members.name("request_id", |w| claim.request_id.write(w));
        members.name("state", |w| w.string(claim.status.as_str()));
        members.name("work_id", |w| claim.claim.work_id.write(w));
        let (commit, reason, retry) = terminal(&claim.status);
        if let Some(commit) = commit {
            members.name("terminal_commit_id", |w| w.string(commit));
        }
        if let Some(reason) = reason {
            members.name("cancellation_reason", |w| w.string(reason));
        }
        if let Some(retry) = retry {
            members.name("retry_not_before", |w| retry.write(w));
        }
        if let Some(round) = claim.status.round() {
            members.name("keep_open", |w| w.bool(true));
            if let Some((_, commit)) = &round.settled {
                members.name("result_commit_id", |w| commit.write(w));
            }
        }
    });
}

/// Writes who is in an assignment, without payloads and Results.
pub(crate) fn write_members(assignment: &Assignment, writer: &mut Writer) {
    writer.array(&assignment.claims, |w, member| {
        w.object(|one| {
            one.name("claim_id", |w| member.claim_id.write(w));
            one.name("handle", |w| member.handle.write(w));
            one.name("work_id", |w| member.work_id.write(w));
        });
    });
}

/// Writes a dispatch: its route and lifecycle, and beside these what became of each of its members.
pub(crate) fn write_dispatch(projection: &Projection, dispatch: &DispatchState, writer: &mut Writer) {
    let assignment = &dispatch.assignment;
    writer.object(|members| {
        members.name("claims", |w| {
            w.array(&assignment.claims, |w, member| {
                w.object(|one| {
                    if let Some(work) = projection.work(member.work_id.as_str()) {
                        one.name("barrier", |w| w.string(work.barrier().as_str()));
                    }
                    one.name("claim_id", |w| member.claim_id.write(w));
                    one.name("handle", |w| member.handle.write(w));
                    if let Some(claim) = projection.claim(member.claim_id.as_str()) {
                        one.name("state", |w| w.string(claim.status.as_str()));
                    }
                    one.name("work_id", |w| member.work_id.write(w));
                });
            });
        });
        members.name("commit_id", |w| assignment.commit_id.write(w));
        members.name("dispatch_id", |w| assignment.dispatch_id.write(w));
        members.name("launch_started", |w| w.bool(dispatch.sender.is_some()));
        members.name("policy_epoch", |w| assignment.policy_epoch.write(w));
        members.name("pool", |w| assignment.pool.write(w));
        members.name("released", |w| w.bool(dispatch.released));
        members.name("request_id", |w| assignment.request_id.write(w));
        members.name("state", |w| w.string(dispatch.phase.as_str()));
        members.name("worker_profile", |w| assignment.worker_profile.write(w));
        if let Some(run) = &dispatch.run {
            members.name("run", |w| run.write(w));
        }
        if let Some(reason) = &dispatch.reason {
            members.name("reason", |w| reason.write(w));
        }
    });
}
