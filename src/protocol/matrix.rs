//! Which role may issue which request, and which operations each may carry (engine.md 2.4).

use super::actor::Role;
use super::operation::OperationKind;
use super::request::RequestKind;

impl Role {
    /// True if this role may issue requests of this kind.
    #[must_use]
    pub fn may_issue(self, kind: RequestKind) -> bool {
        use RequestKind as K;
        match self {
            Self::Administrator => matches!(
                kind,
                K::Policy
                    | K::Deployment
                    | K::Control
                    | K::Submit
                    | K::DispatchNext
                    | K::Observe
                    | K::CancelWork
                    | K::Checkpoint
            ),
            Self::Producer => matches!(kind, K::Deployment | K::Submit | K::CancelWork),
            Self::Dispatcher => {
                matches!(kind, K::Deployment | K::Submit | K::DispatchNext | K::Observe | K::Dispatch)
            }
            Self::Worker => matches!(kind, K::Submit | K::DispatchNext | K::Observe | K::Finish | K::Dispatch),
            Self::Reconciler => matches!(
                kind,
                K::Observe | K::Dispatch | K::Release | K::Result | K::DeliveryFailure | K::CancelClaim | K::CancelWork
            ),
            Self::Projector => kind == K::IssueLink,
        }
    }
}

impl OperationKind {
    /// True if a request of this kind may carry this operation. Policy in a submission is for genesis alone, which
    /// replay checks.
    #[must_use]
    pub fn fits(self, kind: RequestKind) -> bool {
        use RequestKind as K;
        match self {
            Self::Policy => matches!(kind, K::Policy | K::Submit),
            Self::Deployment => kind == K::Deployment,
            Self::Control | Self::WorkPriority => kind == K::Control,
            Self::Work => kind == K::Submit,
            Self::Claim => kind == K::DispatchNext,
            Self::Completion => kind == K::Finish,
            Self::Result => kind == K::Result,
            Self::DeliveryFailure => kind == K::DeliveryFailure,
            Self::Observation => matches!(kind, K::DispatchNext | K::Observe),
            Self::ClaimCancellation => matches!(kind, K::Finish | K::Release | K::CancelClaim),
            Self::WorkCancellation => matches!(kind, K::Finish | K::Release | K::CancelClaim | K::CancelWork),
            Self::Dispatch => kind == K::Dispatch,
            Self::Release => kind == K::Release,
            Self::Checkpoint => kind == K::Checkpoint,
            Self::IssueLink | Self::IssueComment => kind == K::IssueLink,
        }
    }

    /// True if commits of this role may contain this operation.
    #[must_use]
    pub fn permitted(self, role: Role) -> bool {
        use Role as R;
        match self {
            Self::Policy | Self::Deployment => matches!(role, R::Administrator | R::Producer | R::Dispatcher),
            Self::Control | Self::WorkPriority | Self::Checkpoint => role == R::Administrator,
            Self::Work => matches!(role, R::Producer | R::Dispatcher | R::Worker | R::Administrator),
            Self::Claim => matches!(role, R::Dispatcher | R::Administrator | R::Worker),
            Self::Completion => role == R::Worker,
            Self::Result | Self::DeliveryFailure | Self::Release => role == R::Reconciler,
            Self::Observation => matches!(role, R::Reconciler | R::Dispatcher | R::Administrator | R::Worker),
            Self::ClaimCancellation => matches!(role, R::Worker | R::Reconciler),
            Self::WorkCancellation => {
                matches!(role, R::Producer | R::Administrator | R::Reconciler | R::Worker)
            }
            Self::Dispatch => matches!(role, R::Dispatcher | R::Worker | R::Reconciler),
            Self::IssueLink | Self::IssueComment => role == R::Projector,
        }
    }
}
