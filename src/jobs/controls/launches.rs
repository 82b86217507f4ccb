//! How a grant and its launches are told (jobs.md 5.3.6). A reservation is no run; what is not known of a launch stays
//! unknown; and a failure behind a grant takes none of its identities away.

use std::collections::BTreeSet;

use crate::agent::intent::Intent;
use crate::engine::Projection;
use crate::engine::state::DispatchPhase;
use crate::launch::grant::Granted;
use crate::launch::report::{GroupReport, GroupState};
use crate::ledger::{Attempt, Current, PushOutcome};
use crate::protocol::json::Writer;
use crate::protocol::{DispatchId, Fault, RequestId, Wire as _};
use crate::report::category::Category;
use crate::report::grant::{Evaluation, Lost, grant_receipt, reason_label};
use crate::report::receipt::{Launch, Receipt, Status};

use super::dispatch::Wanted;
use super::trouble;
use crate::jobs::error::JobError;

/// One request, as it is told.
pub(super) struct Told<'t> {
    pub(super) intent: &'t Intent,
    pub(super) id: &'t RequestId,
    pub(super) wanted: &'t Wanted,
}

/// True if something may have started and nothing trustworthy is known of it.
fn uncertain(report: &GroupReport) -> bool {
    matches!(report.state, GroupState::LaunchUnresolved | GroupState::RunBindingConflict)
}

fn is_settled(report: &GroupReport) -> bool {
    matches!(report.state, GroupState::Bound | GroupState::Released | GroupState::StagedPreview)
}

impl Told<'_> {
    fn told(&self, status: Status) -> Receipt {
        Receipt {
            request_id: Some(self.id.clone()),
            ..Receipt::new(Some(self.intent.intent_id.as_str().to_owned()), status)
        }
    }

    /// The receipt of a grant, of one that was found again, or of none. A group that a check kept back before its launch
    /// blocks the intent, with its identities.
    pub(super) fn receipt(&self, granted: &Granted, current: Option<&Current>, control: Option<String>) -> Receipt {
        let kept = granted.launches.iter().find_map(|launch| match launch.state {
            GroupState::Reserved => launch.blocked,
            _ => None,
        });
        let committed = granted.commit_id.is_some();
        let status = match kept {
            Some(_) => Status::Blocked,
            None if committed => Status::Durable,
            None => Status::NoGrant,
        };
        let lost: Vec<Lost> = granted.lost.iter().map(lost).collect();
        let blocks = granted.reason.ends_with("_blocked") && granted.reason != "operation_budget_blocked";
        let blocked = granted.next.as_ref().and_then(|next| next.work_id.as_ref()).filter(|_| blocks);
        let full = current.map(|current| {
            let evaluation = Evaluation {
                request_id: self.id,
                requested_claims: self.wanted.max_claims,
                requested_dispatches: self.wanted.max_dispatches,
                reason: self.reason(granted, &current.projection),
                blocked_work_id: blocked.map(|id| id.as_str()),
                recovered: granted.recovered,
                sha: &current.commit.to_string(),
                evaluated_at: granted.evaluated_at,
                uncertain: granted.launches.iter().filter(|launch| uncertain(launch)).count(),
                rejected: granted.launches.iter().filter(|launch| launch.rejected).count(),
                lost: &lost,
            };
            let status = crate::report::grant::grant_status(&evaluation, claims(&current.projection, self.id));
            (
                grant_receipt(&current.projection, &evaluation),
                if committed { status.0 } else { status.1.unwrap_or(status.0) },
            )
        });
        let (full, word) = full.unzip();
        Receipt {
            reason: Some(word.unwrap_or_else(|| reason_label(granted.reason))),
            trouble: kept.map(|code| trouble(&JobError::from(Fault::from(code)))),
            commit_id: granted.commit_id.clone(),
            recovered: granted.recovered,
            dispatches: Some(granted.launches.len()),
            launches: Some(granted.launches.iter().map(launch_of).collect()),
            control,
            receipt: full,
            ..self.told(status)
        }
    }

    /// Why the prefix ended, as exactly as the queue tells: what came after its last winner, or the gates that hold back
    /// whatever waits.
    fn reason(&self, granted: &Granted, projection: &Projection) -> &'static str {
        match (granted.reason, &granted.next) {
            ("prefix_complete", Some(next)) => next.reason,
            ("no_eligible_work", _) => {
                let waiting =
                    projection.works().filter(|work| work.state() == "available" && work.work.pool == self.wanted.pool);
                let labels: Vec<&str> =
                    waiting.map(|work| projection.view_work(work, granted.evaluated_at, None).label).collect();
                let gates = ["external_unavailable", "external_wait"];
                gates.into_iter().find(|gate| labels.contains(gate)).unwrap_or(granted.reason)
            }
            (reason, _) => reason,
        }
    }

    /// What is known after a failure behind a commit: the ids, and every reservation with what the ledger says of it. That a
    /// launch is not known is no word on whether a worker started.
    pub(super) fn blocked(&self, current: &Current, error: &JobError, control: Option<String>) -> Receipt {
        let projection = &current.projection;
        let ids = dispatches(projection, self.id);
        let launches: Vec<Launch> = ids
            .iter()
            .filter_map(|id| projection.dispatch(id.as_str()))
            .map(|dispatch| {
                let id = &dispatch.assignment.dispatch_id;
                let report = if dispatch.released {
                    GroupReport::new(id, GroupState::Released)
                } else if dispatch.phase == DispatchPhase::Reserved {
                    GroupReport::new(id, GroupState::Reserved).blocked(error.code())
                } else if let Some(run) = &dispatch.run {
                    GroupReport { run_id: Some(run.run_id.clone()), ..GroupReport::new(id, GroupState::Bound) }
                } else {
                    GroupReport::new(id, GroupState::LaunchUnresolved).blocked(error.code())
                };
                launch_of(&report)
            })
            .collect();
        Receipt {
            trouble: Some(trouble(error)),
            commit_id: projection.request(self.id.as_str()).map(|accepted| accepted.commit_id.clone()),
            dispatches: Some(launches.len()),
            launches: Some(launches),
            control,
            ..self.told(Status::Blocked)
        }
    }

    /// A worker's earlier request, confirmed and no more.
    pub(super) fn acknowledged(&self, projection: &Projection, control: Option<String>) -> Receipt {
        Receipt {
            reason: Some("request_replayed"),
            commit_id: projection.request(self.id.as_str()).map(|accepted| accepted.commit_id.clone()),
            recovered: true,
            acknowledgement_only: true,
            dispatches: Some(dispatches(projection, self.id).len()),
            launches: Some(Vec::new()),
            control,
            ..self.told(Status::Durable)
        }
    }
}

fn claims(projection: &Projection, id: &RequestId) -> usize {
    projection.request(id.as_str()).map_or(0, |accepted| projection.granted(accepted).len())
}

/// The dispatches of a request, each once.
fn dispatches(projection: &Projection, id: &RequestId) -> BTreeSet<DispatchId> {
    let granted = projection.request(id.as_str()).map(|accepted| projection.granted(accepted));
    granted.into_iter().flatten().map(|claim| claim.claim.dispatch_id.clone()).collect()
}

/// Attempts that lost: a lost race, or an answer that never came.
fn lost(attempt: &Attempt) -> Lost {
    let result = match attempt.result {
        PushOutcome::Conflict => "publish_conflict",
        _ => "publication_uncertain",
    };
    Lost { number: attempt.number, observed: attempt.observed.map(|head| head.to_string()), result }
}

/// One launch in the words of receipts. A group that was kept back before its launch says so, with the category.
fn launch_of(report: &GroupReport) -> Launch {
    let kept = report.blocked.filter(|_| report.state == GroupState::Reserved);
    let state = if kept.is_some() { "launch_blocked" } else { report.state.as_str() };
    let mut full = Writer::new();
    full.object(|members| match kept {
        None => report.members(members),
        Some(code) => {
            let category = Category::of(code);
            members.name("action", |w| w.string(category.action));
            members.name("blocked", |w| w.string(code.as_str()));
            members.name("dispatch_id", |w| report.dispatch_id.write(w));
            members.name("dispatched", |w| w.bool(false));
            members.name("explanation", |w| w.string(category.explanation));
            members.name("reason", |w| w.string(category.name));
            members.name("released", |w| w.bool(false));
            members.name("state", |w| w.string(state));
        }
    });
    let mut brief = Writer::new();
    brief.object(|members| {
        members.name("dispatch_id", |w| report.dispatch_id.write(w));
        members.name("dispatched", |w| w.bool(report.dispatched));
        members.name("released", |w| w.bool(report.released));
        if let Some(run_id) = &report.run_id {
            members.name("run_id", |w| run_id.write(w));
        }
        members.name("state", |w| w.string(state));
    });
    Launch { json: full.finish(), brief: brief.finish(), settled: is_settled(report), rejected: report.rejected }
}
