//! The gate before an effect (lifecycle.md 5.4, jobs.md 5.4): may this Claim, by this message, touch this resource now?
//! Everything is asked of a queue that was read for this question, and of a run that was authenticated for it. A handle
//! alone opens nothing, and no variable of the environment is looked at.

use crate::engine::Projection;
use crate::engine::scope::EffectQuestion;
use crate::engine::state::{Barrier, ClaimState, ClaimStatus, DispatchPhase, Ownership};
use crate::protocol::assignment::{Assignment, Member};
use crate::protocol::effect_contract::EffectContract;
use crate::protocol::evidence::RunBinding;
use crate::protocol::fault::ensure;
use crate::protocol::json::{Node, Scanner};
use crate::protocol::operation::DispatchStep;
use crate::protocol::resource_scope::{Target, TargetOrigin};
use crate::protocol::{Code, Fault, Opaque};

/// Members of a message that name a repository.
const REPOSITORIES: [&str; 4] = ["repo", "repository", "target-repo", "target_repo"];

/// One Claim of one authenticated run. It is made once for a Claim's turn and never changed: no other Claim can be entered
/// from it.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    assignment: &'a Assignment,
    member: &'a Member,
    run: &'a RunBinding,
}

impl<'a> Frame<'a> {
    /// Enters a Claim. `run` is this very process's run, authenticated and validated.
    ///
    /// # Errors
    /// `claim_scope_invalid` for a handle that the assignment does not have.
    pub fn enter(assignment: &'a Assignment, handle: &str, run: &'a RunBinding) -> Result<Self, Fault> {
        let member = assignment.member(handle).ok_or_else(|| Fault::from(Code::ClaimScopeInvalid))?;
        Ok(Self { assignment, member, run })
    }

    /// The Claim.
    #[must_use]
    pub fn member(&self) -> &'a Member {
        self.member
    }

    /// The assignment that it belongs to.
    #[must_use]
    pub fn assignment(&self) -> &'a Assignment {
        self.assignment
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> &'a RunBinding {
        self.run
    }
}

/// How a Claim stands, as far as effects go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Completed, delivery pending: effects are authorized.
    Completed,
    /// Not completed.
    Open,
    /// Cancelled: its outputs are suppressed.
    Cancelled,
    /// It has its Result: nothing is executed again.
    Settled,
    /// Its delivery has failed.
    Failed,
}

impl Standing {
    /// The word of proofs and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Open => "open",
            Self::Cancelled => "cancelled",
            Self::Settled => "result",
            Self::Failed => "delivery_failed",
        }
    }

    /// True if doing nothing is the right end: the Claim is cancelled, or delivered already.
    #[must_use]
    pub const fn is_suppressed(self) -> bool {
        matches!(self, Self::Cancelled | Self::Settled)
    }

    /// The refusal of an effect of such a Claim; none if effects are authorized.
    #[must_use]
    pub const fn refusal(self) -> Option<Code> {
        match self {
            Self::Completed => None,
            Self::Cancelled => Some(Code::ClaimCancelled),
            Self::Settled => Some(Code::ClaimAlreadySettled),
            Self::Open | Self::Failed => Some(Code::ClaimNotAuthorized),
        }
    }
}

/// What is asked of the gate beside the Claim itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask<'q> {
    /// The message, as canonical text.
    pub message: Option<&'q Opaque>,
    /// What it would write to, and who named that.
    pub target: Option<(&'q Target, TargetOrigin)>,
    /// True for a write. A write needs a resolved target.
    pub effect: bool,
    /// True in staged mode, where nothing is written.
    pub staged: bool,
}

/// The Claim of a frame on this state, whose dispatch is bound to the frame's run.
///
/// # Errors
/// `work_queue_binding_not_durable`, `claim_scope_invalid`.
pub fn claim<'p>(projection: &'p Projection, frame: &Frame<'_>) -> Result<&'p ClaimState, Fault> {
    let claim = projection.claim(frame.member.claim_id.as_str());
    let claim = claim.filter(|claim| {
        claim.claim.dispatch_id == frame.assignment.dispatch_id
            && claim.claim.handle == frame.member.handle
            && claim.claim.work_id == frame.member.work_id
    });
    let claim = claim.ok_or_else(|| Fault::new(Code::ClaimScopeInvalid, "the ledger holds no such member"))?;
    let dispatch = projection.dispatch_of(claim);
    let bound = dispatch.phase == DispatchPhase::Moved(DispatchStep::Bound) && dispatch.run.as_ref() == Some(frame.run);
    ensure!(bound, WorkQueueBindingNotDurable, "the dispatch is not bound to this run");
    Ok(claim)
}

/// How a frame's Claim stands on this state.
///
/// # Errors
/// As [`claim`]; `work_queue_claim_ownership_invalid` for a completed Claim that is not its Work's owner.
pub fn standing(projection: &Projection, frame: &Frame<'_>) -> Result<Standing, Fault> {
    let claim = claim(projection, frame)?;
    let work = projection.work_of(claim);
    Ok(match &claim.status {
        ClaimStatus::Cancelled { .. } | ClaimStatus::WorkCancelled { .. } => Standing::Cancelled,
        ClaimStatus::Open => Standing::Open,
        // A round of kept-open Work is settled in its Claim: the Work may have another owner by now.
        ClaimStatus::Completed { round: Some(round), .. } if round.settled.is_some() => Standing::Settled,
        ClaimStatus::Completed { commit_id, .. } => {
            let owned = match &work.ownership {
                Ownership::Completed { completion_id, .. } => {
                    completion_id == commit_id
                        && projection.owner_of(work).is_some_and(|owner| owner.claim.claim_id == claim.claim.claim_id)
                }
                _ => false,
            };
            ensure!(owned, WorkQueueClaimOwnershipInvalid, Code::WorkQueueClaimOwnershipInvalid.meaning());
            match work.barrier() {
                Barrier::Verified => Standing::Settled,
                Barrier::Failed => Standing::Failed,
                Barrier::None | Barrier::Pending => Standing::Completed,
            }
        }
    })
}

/// Asks whether the frame's Claim may do this. The stored assignment and the run were checked by the caller, on the same
/// read and for this question.
///
/// # Errors
/// `claim_scope_invalid` for a message of another Claim or a target outside the Work's scope;
/// `work_queue_effect_scope_denied` for a repository that is not the profile's; `claim_cancelled`, `claim_already_settled`
/// and `claim_not_authorized` by how the Claim stands; `claim_not_authorized` too for a write in staged mode, of Work that
/// forbids writes, or without a resolved target; otherwise as [`standing`].
pub fn authorize(
    projection: &Projection,
    frame: &Frame<'_>,
    ask: &Ask<'_>,
    scanner: &mut Scanner,
) -> Result<Standing, Fault> {
    if ask.effect {
        ensure!(!ask.staged, ClaimNotAuthorized, "staged mode writes nothing");
        let contract = EffectContract::of_payload(scanner, &frame.member.work)?;
        let forbidden = contract.is_some_and(|contract| contract.forbids_writes());
        ensure!(!forbidden, ClaimNotAuthorized, "the Work's effect contract forbids every write");
        ensure!(ask.target.is_some(), ClaimNotAuthorized, "a write needs a resolved target");
    }
    let claim = claim(projection, frame)?;
    let scope = projection.dispatch_of(claim).profile.effect_scope.clone();
    if let Some(message) = ask.message {
        check_message(message, frame, scope.as_str(), scanner)?;
    }
    if let Some((target, _)) = ask.target {
        ensure!(target.repository.as_str() == scope.as_str(), WorkQueueEffectScopeDenied, OUTSIDE);
    }
    let standing = standing(projection, frame)?;
    if let Some(code) = standing.refusal() {
        return Err(code.into());
    }
    if let Some((target, origin)) = ask.target {
        let question = EffectQuestion {
            dispatch_id: frame.assignment.dispatch_id.as_str(),
            handle: frame.member.handle.as_str(),
            work: &frame.member.work,
            target,
            origin,
        };
        projection.check_effect(scanner, &question)?;
    }
    Ok(standing)
}

const OUTSIDE: &str = "a message or its target names another repository than the profile's";

fn check_message(message: &Opaque, frame: &Frame<'_>, scope: &str, scanner: &mut Scanner) -> Result<(), Fault> {
    let document = scanner.read(message.text())?;
    let object = document.root().object().ok_or_else(|| Fault::from(Code::ClaimScopeInvalid))?;
    let named = object.get("claim_handle").and_then(Node::string);
    let own = named.is_some_and(|named| named.as_str() == frame.member.handle.as_str());
    ensure!(own, ClaimScopeInvalid, "the message is of another Claim");
    for name in REPOSITORIES {
        let same = object.get(name).is_none_or(|value| value.string().is_some_and(|value| value.as_str() == scope));
        ensure!(same, WorkQueueEffectScopeDenied, OUTSIDE);
    }
    Ok(())
}
