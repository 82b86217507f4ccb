//! The fuller receipt of a processed `dispatch_next` (specification 7.13), derived from the ledger: a grant, what became of
//! each of its dispatches and Claims, and where both were seen. A reservation is never presented as a run.

use crate::engine::Projection;
use crate::engine::state::{Accepted, ClaimState};
use crate::protocol::json::Writer;
use crate::protocol::{At, CommitId, RequestId, Wire as _};

/// How the request was evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Evaluation<'a> {
    /// The request.
    pub request_id: &'a RequestId,
    /// Claims asked for.
    pub requested_claims: i64,
    /// Dispatches asked for.
    pub requested_dispatches: i64,
    /// Why the fair prefix ended, or why there is none.
    pub reason: &'static str,
    /// The Work that stands first and was held back, where a decision was made now.
    pub blocked_work_id: Option<&'a str>,
    /// True if the request was committed before.
    pub recovered: bool,
    /// Head of the queue branch where all this was seen.
    pub sha: &'a str,
    /// When.
    pub evaluated_at: At,
    /// Launches of which nothing trustworthy is known.
    pub uncertain: usize,
    /// Launches that the host refused for good.
    pub rejected: usize,
    /// Attempts that lost before this decision, each with the head that it was decided on and how it ended.
    pub lost: &'a [Lost],
}

/// A tentative decision that did not become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Number of the attempt, from 1.
    pub number: u32,
    /// Head that it was decided on; none for an absent queue.
    pub observed: Option<String>,
    /// `publish_conflict`, or `publication_uncertain`.
    pub result: &'static str,
}

/// The specification's word for an engine's reason (engine.md 4.8).
#[must_use]
pub fn reason_label(reason: &'static str) -> &'static str {
    match reason {
        "native_capacity_blocked" => "capacity_blocked",
        "assignment_bytes_blocked" => "assignment_size_blocked",
        other => other,
    }
}

/// Status of the grant alone, and the limiting reason beside it.
#[must_use]
pub fn grant_status(evaluation: &Evaluation<'_>, granted: usize) -> (&'static str, Option<&'static str>) {
    let reason = reason_label(evaluation.reason);
    let partial = i64::try_from(granted).is_ok_and(|granted| granted < evaluation.requested_claims);
    if evaluation.recovered {
        ("request_replayed", None)
    } else if granted == 0 && reason.starts_with("external_") {
        ("no_eligible_work", Some(reason))
    } else if granted == 0 {
        (reason, Some(reason))
    } else if partial {
        ("partial_batch", Some(reason))
    } else {
        ("granted", None)
    }
}

/// Status of everything: what is not known of a launch stands before how full the grant is.
#[must_use]
pub fn overall_status(evaluation: &Evaluation<'_>, granted: usize) -> &'static str {
    if evaluation.uncertain > 0 {
        "launch_uncertain"
    } else if evaluation.rejected > 0 {
        "launch_rejected"
    } else {
        grant_status(evaluation, granted).0
    }
}

/// The receipt as canonical JSON.
#[must_use]
pub fn grant_receipt(projection: &Projection, evaluation: &Evaluation<'_>) -> String {
    let accepted = projection.request(evaluation.request_id.as_str());
    let claims: &[ClaimState] = accepted.map_or(&[], |accepted| projection.granted(accepted));
    let mut dispatches: Vec<&str> = Vec::new();
    for claim in claims {
        if !dispatches.contains(&claim.claim.dispatch_id.as_str()) {
            dispatches.push(claim.claim.dispatch_id.as_str());
        }
    }
    let (grant, limiting) = grant_status(evaluation, claims.len());
    let text = |writer: &mut Writer, text: Option<&str>| match text {
        Some(text) => writer.string(text),
        None => writer.raw("null"),
    };
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("attempts", |w| w.array(evaluation.lost, |w, lost| write_lost(lost, w)));
        members.name("blocked_work_ref", |w| text(w, evaluation.blocked_work_id));
        members.name("claims", |w| w.array(claims, |w, claim| write_claim(projection, claim, w)));
        members.name("commit_id", |w| text(w, accepted.map(|accepted| accepted.commit_id.as_str())));
        members.name("counts", |w| write_counts(projection, claims, &dispatches, evaluation, w));
        members.name("dispatches", |w| w.array(&dispatches, |w, id| write_dispatch(projection, id, claims, w)));
        members.name("evaluated_at", |w| evaluation.evaluated_at.write(w));
        members.name("grant_status", |w| w.string(grant));
        members.name("granted_claims", |w| w.integer(claims.len() as i64));
        members.name("limiting_reason", |w| text(w, limiting));
        members.name("observed_tip", |w| text(w, projection.tip().map(CommitId::as_str)));
        members.name("policy_epoch", |w| text(w, epoch(projection, accepted)));
        members.name("request_id", |w| evaluation.request_id.write(w));
        members.name("requested_claims", |w| w.integer(evaluation.requested_claims));
        members.name("requested_dispatches", |w| w.integer(evaluation.requested_dispatches));
        members.name("reserved_dispatches", |w| w.integer(dispatches.len() as i64));
        members.name("source_commit", |w| w.string(evaluation.sha));
        members.name("status", |w| w.string(overall_status(evaluation, claims.len())));
    });
    writer.finish()
}

/// The epoch of the request's commit, or of the state that granted nothing.
fn epoch<'p>(projection: &'p Projection, accepted: Option<&'p Accepted>) -> Option<&'p str> {
    let installed = projection.installed().map(|installed| installed.epoch.as_str());
    accepted.map(|accepted| accepted.policy_epoch.as_str()).or(installed)
}

fn write_lost(lost: &Lost, writer: &mut Writer) {
    writer.object(|members| {
        members.name("attempt", |w| w.integer(i64::from(lost.number)));
        members.name("observed_sha", |w| match &lost.observed {
            Some(sha) => w.string(sha),
            None => w.raw("null"),
        });
        members.name("result", |w| w.string(lost.result));
    });
}

/// A Claim: which commit granted it, how it was finished, and how its delivery stands.
fn write_claim(projection: &Projection, claim: &ClaimState, writer: &mut Writer) {
    let settled = claim.status.round().is_some_and(|round| round.settled.is_some());
    let current = projection
        .owner_of(projection.work_of(claim))
        .is_some_and(|owner| owner.claim.claim_id == claim.claim.claim_id);
    let effects = if settled {
        "verified"
    } else if current {
        projection.work_of(claim).barrier().as_str()
    } else {
        "none"
    };
    writer.object(|members| {
        members.name("claim_ref", |w| claim.claim.claim_id.write(w));
        members.name("commit_ref", |w| claim.commit_id.write(w));
        members.name("dispatch_id", |w| claim.claim.dispatch_id.write(w));
        members.name("effects", |w| w.string(effects));
        members.name("finish", |w| w.string(claim.status.as_str()));
        members.name("handle", |w| claim.claim.handle.write(w));
        members.name("work_ref", |w| claim.claim.work_id.write(w));
    });
}

fn write_dispatch(projection: &Projection, id: &str, claims: &[ClaimState], writer: &mut Writer) {
    let dispatch = projection.dispatch(id);
    let own = claims.iter().filter(|claim| claim.claim.dispatch_id.as_str() == id);
    writer.object(|members| {
        members.name("claim_refs", |w| w.array(own, |w, claim| claim.claim.claim_id.write(w)));
        members.name("dispatch_id", |w| w.string(id));
        members.name("released", |w| w.bool(dispatch.is_some_and(|dispatch| dispatch.released)));
        members.name("run_id", |w| match dispatch.and_then(|dispatch| dispatch.run.as_ref()) {
            Some(run) => run.run_id.write(w),
            None => w.raw("null"),
        });
        members.name("status", |w| w.string(dispatch.map_or("reserved", |dispatch| dispatch.phase.as_str())));
    });
}

/// Requested, granted, bound, completed and released are five things and stay apart.
fn write_counts(
    projection: &Projection,
    claims: &[ClaimState],
    dispatches: &[&str],
    evaluation: &Evaluation<'_>,
    writer: &mut Writer,
) {
    let count = |fits: &dyn Fn(&crate::engine::state::DispatchState) -> bool| {
        dispatches.iter().filter_map(|id| projection.dispatch(id)).filter(|dispatch| fits(dispatch)).count() as i64
    };
    writer.object(|members| {
        members.name("bound_dispatches", |w| w.integer(count(&|dispatch| dispatch.run.is_some())));
        members.name("completed_claims", |w| {
            w.integer(claims.iter().filter(|claim| claim.status.as_str() == "completed").count() as i64);
        });
        members.name("granted_claims", |w| w.integer(claims.len() as i64));
        members.name("released_dispatches", |w| w.integer(count(&|dispatch| dispatch.released)));
        members.name("requested_claims", |w| w.integer(evaluation.requested_claims));
    });
}
