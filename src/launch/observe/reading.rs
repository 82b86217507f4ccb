//! What an answer says about a gate (lifecycle.md 7.5). Whatever cannot be told is `unknown`; nothing but the host's
//! own fields makes a gate ready.

use crate::forge::Broken;
use crate::forge::{Failure, ForgeError, Issue, Pull, PullMerge};
use crate::protocol::operation::{GateState, ResourceState, StateReason};
use crate::protocol::resource::Condition;
use crate::protocol::{At, Code, Identity};

/// How a read ended, in the words of `read_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadStatus {
    /// The facts are there.
    Ok,
    /// The Issue is open.
    Reopened,
    /// The Issue is closed, and not as completed.
    ClosedNotCompleted,
    /// The pull request is closed, and not merged.
    ClosedUnmerged,
    /// A field that the condition needs is missing.
    PredicateUnknown,
    /// The pull request is merged, and its merge commit or time is not to be had.
    MergeEvidenceMissing,
    /// 401 or 403.
    AccessDenied,
    /// 404.
    NotFound,
    /// 429, or a 403 of a rate limit.
    RateLimited,
    /// Any other failure.
    Unavailable,
    /// There is no client.
    CredentialsMissing,
    /// The credential is of another generation than the queue's; nothing was sent.
    AccessGenerationMismatch,
    /// No scope allows the repository; nothing was sent.
    NotAllowlisted,
    /// The repository has another name now, and no scope allows that one.
    RedirectNotAllowlisted,
    /// The repository or the resource is not the one that was admitted.
    IdentityMismatch,
    /// The resource is of another kind, or the pull request is not this repository's.
    ResourceTypeMismatch,
    /// The reads of one refresh are used up.
    ReadBudgetExhausted,
}

impl ReadStatus {
    /// The word that is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Reopened => "external_reopened",
            Self::ClosedNotCompleted => "external_closed_not_completed",
            Self::ClosedUnmerged => "external_closed_unmerged",
            Self::PredicateUnknown => "external_predicate_unknown",
            Self::MergeEvidenceMissing => "external_merge_evidence_missing",
            Self::AccessDenied => "external_access_denied",
            Self::NotFound => "external_not_found",
            Self::RateLimited => "external_rate_limited",
            Self::Unavailable => "external_unavailable",
            Self::CredentialsMissing => Code::ExternalReadCredentialsMissing.as_str(),
            Self::AccessGenerationMismatch => Code::ExternalAccessGenerationMismatch.as_str(),
            Self::NotAllowlisted => Code::ExternalNotAllowlisted.as_str(),
            Self::RedirectNotAllowlisted => Code::ExternalRedirectNotAllowlisted.as_str(),
            Self::IdentityMismatch => Code::ExternalIdentityMismatch.as_str(),
            Self::ResourceTypeMismatch => Code::ExternalResourceTypeMismatch.as_str(),
            Self::ReadBudgetExhausted => Code::ExternalReadBudgetExhausted.as_str(),
        }
    }

    /// What a failed call means. A resource that is gone, throttled or not to be seen is none of closed and merged.
    pub(super) fn of(error: &ForgeError) -> Self {
        match error.failure() {
            Failure::Unauthenticated | Failure::Forbidden => Self::AccessDenied,
            Failure::NotFound => Self::NotFound,
            Failure::RateLimited(_) => Self::RateLimited,
            Failure::Broken(Broken::Credential(_)) => Self::CredentialsMissing,
            _ => Self::Unavailable,
        }
    }
}

/// What was seen of a gate: the fields that its condition needs and no others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Whether the condition is met.
    pub state: GateState,
    /// How the read ended.
    pub read_status: ReadStatus,
    /// When the host says that the resource changed last.
    pub source_updated_at: Option<At>,
    /// Why an Issue is closed or open.
    pub state_reason: Option<StateReason>,
    /// Open or closed.
    pub resource_state: Option<ResourceState>,
    /// Whether a pull request was merged.
    pub merged: Option<bool>,
    /// As what.
    pub merge_commit: Option<Identity>,
}

impl Seen {
    fn new(state: GateState, read_status: ReadStatus) -> Self {
        Self {
            state,
            read_status,
            source_updated_at: None,
            state_reason: None,
            resource_state: None,
            merged: None,
            merge_commit: None,
        }
    }

    /// A read without facts. Another identity than the admitted one fails the gate; every other failure leaves it
    /// unknown.
    pub(super) fn failed(status: ReadStatus) -> Self {
        let state = match status {
            ReadStatus::RedirectNotAllowlisted | ReadStatus::IdentityMismatch | ReadStatus::ResourceTypeMismatch => {
                GateState::Failed
            }
            _ => GateState::Unknown,
        };
        Self::new(state, status)
    }

    /// An Issue under a condition.
    pub(super) fn issue(issue: &Issue, condition: Condition) -> Self {
        let resource_state = issue.state.as_deref().and_then(ResourceState::parse);
        let reason = issue.state_reason.as_deref();
        let completed = reason == Some(StateReason::Completed.as_str());
        let (state, status) = match resource_state {
            None => (GateState::Unknown, ReadStatus::PredicateUnknown),
            Some(ResourceState::Open) => (GateState::Waiting, ReadStatus::Reopened),
            Some(ResourceState::Closed) if condition == Condition::Closed || completed => {
                (GateState::Ready, ReadStatus::Ok)
            }
            Some(ResourceState::Closed) if reason.is_none() => (GateState::Unknown, ReadStatus::PredicateUnknown),
            Some(ResourceState::Closed) => (GateState::Failed, ReadStatus::ClosedNotCompleted),
        };
        Self {
            source_updated_at: issue.updated_at,
            state_reason: reason.and_then(StateReason::parse),
            resource_state,
            ..Self::new(state, status)
        }
    }

    /// A pull request, and what GraphQL says of its merge where that was asked (decision 63).
    pub(super) fn pull(pull: &Pull, merge: Option<&Result<PullMerge, ReadStatus>>) -> Self {
        let resource_state = pull.state.as_deref().and_then(ResourceState::parse);
        let mut merge_commit = None;
        let (state, status) = match (pull.merged, resource_state, merge) {
            (Some(true), _, Some(Err(status))) => (GateState::Unknown, *status),
            (Some(true), _, Some(Ok(PullMerge { merged: true, id: Some(id), commit: Some(commit) })))
                if *id == pull.id && pull.merged_at.is_some() =>
            {
                merge_commit = Identity::new(commit.text().clone()).ok();
                (GateState::Ready, ReadStatus::Ok)
            }
            (Some(true), ..) => (GateState::Unknown, ReadStatus::MergeEvidenceMissing),
            (Some(false), Some(ResourceState::Closed), _) => (GateState::Failed, ReadStatus::ClosedUnmerged),
            (Some(false), Some(ResourceState::Open), _) => (GateState::Waiting, ReadStatus::Ok),
            (Some(false), None, _) | (None, ..) => (GateState::Unknown, ReadStatus::PredicateUnknown),
        };
        Self {
            source_updated_at: pull.updated_at,
            resource_state,
            merged: pull.merged,
            merge_commit,
            ..Self::new(state, status)
        }
    }
}
