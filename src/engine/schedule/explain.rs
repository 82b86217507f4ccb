//! Why a Claim was granted: recorded with it, and the same on every replay (engine.md 4.7).

use super::clock::Ticks;
use super::select::Selection;
use crate::engine::state::{ClaimState, Position, Projection};
use crate::protocol::json::{Members, Writer};
use crate::protocol::{At, CommitId, ObservationId, Priority, Wire as _, WorkId};

/// Capacity in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Open Claims of the pool.
    pub logical: u32,
    /// Unreleased dispatches of the pool.
    pub native: u32,
    /// Open Claims of the accounting key in the pool.
    pub account: u32,
}

impl Capacity {
    pub(crate) fn write(self, writer: &mut Writer) {
        writer.object(|members| {
            members.name("account", |w| w.integer(i64::from(self.account)));
            members.name("logical", |w| w.integer(i64::from(self.logical)));
            members.name("native", |w| w.integer(i64::from(self.native)));
        });
    }
}

/// The part of a Claim's explanation that the Claim itself does not hold.
#[derive(Clone, Debug)]
pub struct ClaimExplanation {
    /// Tip before the granting commit; none for a grant in a genesis commit, which cannot be.
    pub before_tip: Option<CommitId>,
    /// Where the Claim stands.
    pub position: Position,
    /// Time of the grant.
    pub at: At,
    /// Effective priority at the grant.
    pub priority: Priority,
    /// How it was chosen: `fifo_default`, `priority_class`, `weighted_key` or `weighted_class`; none where the grant
    /// itself was not replayed.
    pub label: Option<&'static str>,
    /// Virtual time of the class clock after the pick: in weighted mode, the pass at which the class was chosen.
    pub class_pass: Ticks,
    /// Virtual time of the key clock after the pick: the pass at which the key was chosen.
    pub key_pass: Ticks,
    /// The class's stored pass before, without what it catches up when it enters again.
    pub class_pass_prior: Ticks,
    /// The key's stored pass before, likewise.
    pub key_pass_prior: Ticks,
    /// Before this Claim.
    pub capacity_before: Capacity,
    /// After it.
    pub capacity_after: Capacity,
}

/// A selection without clocks: what people and snapshots are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectionView {
    /// `selected` or why nothing is.
    pub reason: &'static str,
    /// The winner.
    pub work_id: Option<WorkId>,
    /// Observations used.
    pub observations: Vec<ObservationId>,
    /// Class clock after the pick, decimal.
    pub class_pass: Option<String>,
    /// Key clock after the pick, decimal.
    pub key_pass: Option<String>,
}

impl SelectionView {
    pub(crate) fn refused(reason: &'static str) -> Self {
        Self { reason, work_id: None, observations: Vec::new(), class_pass: None, key_pass: None }
    }

    pub(crate) fn of(projection: &Projection, selection: &Selection) -> Self {
        match &selection.winner {
            None => Self::refused(selection.reason),
            Some(winner) => Self {
                reason: selection.reason,
                work_id: Some(projection.work_at(winner.work).work.work_id.clone()),
                observations: winner.observations.clone(),
                class_pass: Some(winner.class_pass.to_string()),
                key_pass: Some(winner.key_pass.to_string()),
            },
        }
    }

    /// Writes the view (engine.md 4.7).
    pub fn write(&self, writer: &mut Writer) {
        writer.object(|members| {
            if let Some(pass) = &self.class_pass {
                members.name("class_pass", |w| w.string(pass));
            }
            if let Some(pass) = &self.key_pass {
                members.name("key_pass", |w| w.string(pass));
            }
            members.name("observations", |w| w.array(&self.observations, |w, id| id.write(w)));
            members.name("reason", |w| w.string(self.reason));
            if let Some(work) = &self.work_id {
                members.name("work_id", |w| work.write(w));
            }
        });
    }
}

pub(crate) fn write_position(position: Position, writer: &mut Writer) {
    writer.object(|members| {
        members.name("commit", |w| w.integer(i64::from(position.commit)));
        members.name("operation", |w| w.integer(i64::from(position.operation)));
    });
}

impl Projection {
    /// Writes a Claim's explanation as of the current tip.
    pub fn write_claim_explanation(&self, claim: &ClaimState, writer: &mut Writer) {
        writer.object(|members| self.claim_explanation_members(claim, members));
    }

    fn claim_explanation_members(&self, claim: &ClaimState, members: &mut Members<'_>) {
        let explanation = &claim.explanation;
        let work = self.work_of(claim);
        let dispatch = self.dispatch_of(claim);
        members.name("at", |w| explanation.at.write(w));
        members.name("before_tip", |w| match &explanation.before_tip {
            Some(tip) => tip.write(w),
            None => w.string(""),
        });
        members.name("capacity_after", |w| explanation.capacity_after.write(w));
        members.name("capacity_before", |w| explanation.capacity_before.write(w));
        members.name("claim_handle", |w| claim.claim.handle.write(w));
        members.name("claim_id", |w| claim.claim.claim_id.write(w));
        members.name("class_pass_prior", |w| w.string(&explanation.class_pass_prior.to_string()));
        members.name("commit_id", |w| claim.commit_id.write(w));
        members.name("dispatch_id", |w| claim.claim.dispatch_id.write(w));
        members.name("fairness_key", |w| work.work.fairness_key.write(w));
        members.name("key_pass_prior", |w| w.string(&explanation.key_pass_prior.to_string()));
        members.name("policy_epoch", |w| dispatch.assignment.policy_epoch.write(w));
        members.name("pool", |w| work.work.pool.write(w));
        members.name("position", |w| write_position(explanation.position, w));
        members.name("priority", |w| explanation.priority.write(w));
        members.name("request_id", |w| claim.request_id.write(w));
        members.name("selection", |w| {
            SelectionView {
                reason: "selected",
                work_id: Some(claim.claim.work_id.clone()),
                observations: claim.claim.observations.0.clone(),
                class_pass: Some(explanation.class_pass.to_string()),
                key_pass: Some(explanation.key_pass.to_string()),
            }
            .write(w);
        });
        members.name("status", |w| w.string("committed_claim_prefix"));
        members.name("tip", |w| w.string(self.tip.as_ref().map_or("", CommitId::as_str)));
        members.name("work_id", |w| claim.claim.work_id.write(w));
        members.name("work_position", |w| write_position(work.position, w));
    }
}

/// The specification's word for a planner's reason (decision 39, engine.md 4.8).
#[must_use]
pub fn reason_label(reason: &'static str) -> &'static str {
    match reason {
        "native_capacity_blocked" => "capacity_blocked",
        "assignment_bytes_blocked" => "assignment_size_blocked",
        other => other,
    }
}
