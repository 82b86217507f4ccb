//! How each Claim of a worker ends (lifecycle.md 4.2): one commit for each, in any mixture. A failure keeps back its own
//! Claim and none of the others.

use crate::engine::Projection;
use crate::engine::state::{Barrier, ClaimState, ClaimStatus};
use crate::ledger::{Ledger, LedgerError};
use crate::protocol::actor::Actor;
use crate::protocol::assignment::{Assignment, Member};
use crate::protocol::commit::FrozenRequest;
use crate::protocol::json::Members;
use crate::protocol::request::{FinishParameters, Outcome, RequestKind};
use crate::protocol::{Code, RequestId, Wire as _};

/// What is asked for one Claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Its finish lines contradict one another.
    Blocked,
    /// The worker asked for this.
    Stated {
        /// How it ends.
        outcome: Outcome,
        /// True if its Work is to stay open.
        keep_open: bool,
    },
    /// The worker said nothing: an open Claim is cancelled. Nothing completes by omission.
    Silent,
}

/// How a Claim stands after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// Completed, delivery pending: its effects are authorized.
    Completed,
    /// Cancelled.
    Cancelled,
    /// It has its Result.
    Result,
    /// Its delivery has failed.
    DeliveryFailed,
    /// Left as it was.
    Blocked,
    /// Staged mode: looked at, not touched.
    StagedPreview,
}

impl MemberState {
    /// The word of reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Result => "result",
            Self::DeliveryFailed => "delivery_failed",
            Self::Blocked => "blocked",
            Self::StagedPreview => "staged_preview",
        }
    }
}

/// One Claim in the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The Claim.
    pub member: Member,
    /// How it stands.
    pub state: MemberState,
    /// What kept it back.
    pub blocked: Option<Code>,
    /// True if this call published its end.
    pub published: bool,
}

impl Settled {
    /// A Claim that is left as it is.
    #[must_use]
    pub fn new(member: &Member, state: MemberState) -> Self {
        Self { member: member.clone(), state, blocked: None, published: false }
    }

    fn blocked(member: &Member, code: Code) -> Self {
        Self { blocked: Some(code), ..Self::new(member, MemberState::Blocked) }
    }

    /// True if the Claim's effects may be asked for.
    #[must_use]
    pub fn is_authorized(&self) -> bool {
        self.state == MemberState::Completed
    }

    /// Writes the entry of `claim_authorizations`.
    pub fn members(&self, members: &mut Members<'_>) {
        members.name("authorized", |w| w.bool(self.is_authorized()));
        members.name("claim_handle", |w| self.member.handle.write(w));
        members.name("claim_id", |w| self.member.claim_id.write(w));
        if let Some(code) = self.blocked {
            members.name("reason", |w| w.string(code.as_str()));
        }
        members.name("state", |w| w.string(self.state.as_str()));
        members.name("work_id", |w| self.member.work_id.write(w));
    }
}

/// The status of an assignment (lifecycle.md 4.4): `pending` until every Claim is settled, then by what the Claims are.
#[must_use]
pub fn status(members: &[Settled]) -> &'static str {
    let any = |states: &[MemberState]| members.iter().any(|member| states.contains(&member.state));
    let completed = any(&[MemberState::Completed, MemberState::Result, MemberState::DeliveryFailed]);
    if any(&[MemberState::StagedPreview]) {
        "staged_preview"
    } else if any(&[MemberState::Blocked]) {
        "pending"
    } else if completed && any(&[MemberState::Cancelled]) {
        "completed_with_cancellations"
    } else if completed {
        "completed"
    } else {
        "cancelled"
    }
}

/// Ends one Claim as wished, or reports how it stands already. `actor` is the authenticated worker with this Claim;
/// `request_id` is that of the wish's intent.
pub fn settle(
    ledger: &mut dyn Ledger,
    actor: &Actor,
    assignment: &Assignment,
    member: &Member,
    wish: &Wish,
    request_id: &RequestId,
) -> Settled {
    let (outcome, keep_open) = match wish {
        Wish::Blocked => return Settled::blocked(member, Code::WorkQueueFinishConflict),
        Wish::Stated { outcome, keep_open } => (*outcome, *keep_open),
        Wish::Silent => (Outcome::Cancelled, false),
    };
    let stated = matches!(wish, Wish::Stated { .. }).then_some((outcome, keep_open));
    let current = match ledger.read_present() {
        Ok(current) => current,
        Err(error) => return Settled::blocked(member, error.code()),
    };
    match ended(&current.projection, member, stated) {
        Ok(Some(state)) => return Settled::new(member, state),
        Ok(None) => {}
        Err(code) => return Settled::blocked(member, code),
    }
    drop(current);
    let published = publish(ledger, actor, assignment, member, (outcome, keep_open), request_id);
    // Whatever the publication said, the queue tells how the Claim stands: an end that landed is not denied.
    let after = match ledger.read_present() {
        Ok(current) => ended(&current.projection, member, Some((outcome, keep_open))),
        Err(error) => Err(error.code()),
    };
    match (after, published) {
        (Ok(Some(state)), published) => {
            tracing::debug!(
                target: "work-queue:claims",
                completed = state == MemberState::Completed,
                cancelled = state == MemberState::Cancelled,
                "claim.finish.persisted"
            );
            Settled { published: published.is_ok(), ..Settled::new(member, state) }
        }
        (_, Err(error)) => Settled::blocked(member, error.code()),
        (Ok(None), Ok(())) => Settled::blocked(member, Code::WorkQueueFinishNotDurable),
        (Err(code), Ok(())) => Settled::blocked(member, code),
    }
}

/// How a Claim that has ended stands; none while it is open. What was stated must agree with how it ended.
fn ended(
    projection: &Projection,
    member: &Member,
    stated: Option<(Outcome, bool)>,
) -> Result<Option<MemberState>, Code> {
    let claim = projection.claim(member.claim_id.as_str()).ok_or(Code::ClaimMissing)?;
    let state = match &claim.status {
        ClaimStatus::Open => return Ok(None),
        ClaimStatus::Cancelled { .. } | ClaimStatus::WorkCancelled { .. } => MemberState::Cancelled,
        ClaimStatus::Completed { .. } => delivered(projection, claim),
    };
    let kept = claim.status.round().is_some();
    let agrees = match (stated, state) {
        (None | Some((Outcome::Cancelled, _)), MemberState::Cancelled) | (None, _) => true,
        (Some((Outcome::Completed, _)), MemberState::Cancelled) | (Some((Outcome::Cancelled, _)), _) => false,
        (Some((Outcome::Completed, keep_open)), _) => keep_open == kept,
    };
    if agrees { Ok(Some(state)) } else { Err(Code::WorkQueueFinishConflict) }
}

/// What became of a completed Claim.
fn delivered(projection: &Projection, claim: &ClaimState) -> MemberState {
    if claim.status.round().is_some_and(|round| round.settled.is_some()) {
        return MemberState::Result;
    }
    match projection.work_of(claim).barrier() {
        Barrier::Verified => MemberState::Result,
        Barrier::Failed => MemberState::DeliveryFailed,
        Barrier::None | Barrier::Pending => MemberState::Completed,
    }
}

/// One request for one Claim; what it becomes is the engine's.
fn publish(
    ledger: &mut dyn Ledger,
    actor: &Actor,
    assignment: &Assignment,
    member: &Member,
    (outcome, keep_open): (Outcome, bool),
    request_id: &RequestId,
) -> Result<(), LedgerError> {
    let parameters = FinishParameters {
        dispatch_id: assignment.dispatch_id.clone(),
        claim_handle: member.handle.clone(),
        outcome,
        keep_open: keep_open.then_some(true),
    };
    let request = FrozenRequest::new(request_id.clone(), RequestKind::Finish, actor.clone(), &parameters.canonical())?;
    let published = ledger.publish(&request, None, &mut |projection, scanner, at| {
        projection.decide(scanner, &request, at, &[]).map_err(LedgerError::from)
    });
    published.map(drop)
}
