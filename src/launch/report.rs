//! What became of a group, in the words of receipts (jobs.md 5.3.6, 11.3).

use crate::protocol::evidence::Evidence;
use crate::protocol::json::Members;
use crate::protocol::{Code, Decimal, DispatchId, Measured, Wire as _};

/// State of a group after a launch or a reconciliation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// Bound to its run, which has not ended.
    Bound,
    /// Its reservation is free.
    Released,
    /// Granted, no launch begun.
    Reserved,
    /// A launch may have started a run, and none is bound.
    LaunchUnresolved,
    /// Runs or identities contradict each other; nothing was guessed.
    RunBindingConflict,
    /// The host was asked to cancel the bound run, which has not ended.
    CancellationRequested,
    /// Staged mode: everything was checked, nothing sent.
    StagedPreview,
}

impl GroupState {
    /// As receipts name it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::Released => "released",
            Self::Reserved => "reserved",
            Self::LaunchUnresolved => "launch_unresolved",
            Self::RunBindingConflict => "run_binding_conflict",
            Self::CancellationRequested => "cancellation_requested",
            Self::StagedPreview => "staged_preview",
        }
    }
}

/// What became of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReport {
    /// The dispatch.
    pub dispatch_id: DispatchId,
    /// Its state.
    pub state: GroupState,
    /// True once its capacity is free.
    pub released: bool,
    /// True if this call sent the POST.
    pub dispatched: bool,
    /// True if the host refused the launch for good: the reservation is free, and nothing ran.
    pub rejected: bool,
    /// The run, where one is known: bound if the state says so, otherwise what the host answered.
    pub run_id: Option<Decimal>,
    /// The run's page, after a launch by this call.
    pub html_url: Option<String>,
    /// Attempts of a discovery that found nothing.
    pub attempts: Option<u32>,
    /// What stood in the way, where something did.
    pub blocked: Option<Code>,
    /// The evidence that a reconciliation took last.
    pub evidence: Option<Measured<Evidence>>,
}

impl GroupReport {
    /// A report of a state and nothing else.
    #[must_use]
    pub fn new(dispatch_id: &DispatchId, state: GroupState) -> Self {
        Self {
            dispatch_id: dispatch_id.clone(),
            state,
            released: state == GroupState::Released,
            dispatched: false,
            rejected: false,
            run_id: None,
            html_url: None,
            attempts: None,
            blocked: None,
            evidence: None,
        }
    }

    /// The same report with what stood in the way.
    #[must_use]
    pub fn blocked(self, code: Code) -> Self {
        Self { blocked: Some(code), ..self }
    }

    /// True if the job may end well with it (lifecycle.md 1.8): a launch that was refused is not an execution.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self.state, GroupState::Bound | GroupState::Released | GroupState::StagedPreview) && !self.rejected
    }

    /// The specification's word where it says more than the state (decision 39): `launch_uncertain` while nothing
    /// trustworthy is known of a launch and no search has used its attempts up.
    #[must_use]
    pub fn label(&self) -> Option<&'static str> {
        (self.state == GroupState::LaunchUnresolved && self.attempts.is_none()).then_some("launch_uncertain")
    }

    /// What an operator does next, where something is left to do.
    #[must_use]
    pub fn next_action(&self) -> Option<&'static str> {
        match self.state {
            GroupState::LaunchUnresolved => Some(
                "Find the run by its title in the repository's Actions page. If it runs, its activation binds it; when it \
                 has ended, run `wq reconcile`. The reservation is kept until then.",
            ),
            GroupState::RunBindingConflict => Some(
                "Compare the runs that carry this dispatch in their title, and cancel those that nobody launched. The \
                 reservation is kept.",
            ),
            GroupState::Reserved => Some(
                "Repeat the dispatcher that was granted it, or, once its run has ended, cancel it with `wq reconcile \
                 --cancel-reserved`. A reservation that an operator granted has no such run, and is kept.",
            ),
            GroupState::Released if self.rejected => {
                Some("Correct what the host refused; the Work is granted again after its backoff.")
            }
            _ => None,
        }
    }

    /// Writes the report as receipts have it.
    pub fn members(&self, members: &mut Members<'_>) {
        if let Some(attempts) = self.attempts {
            members.name("attempts", |w| w.integer(i64::from(attempts)));
        }
        if let Some(code) = self.blocked {
            members.name("blocked", |w| w.string(code.as_str()));
        }
        members.name("dispatch_id", |w| self.dispatch_id.write(w));
        members.name("dispatched", |w| w.bool(self.dispatched));
        if let Some(url) = &self.html_url {
            members.name("html_url", |w| w.string(url));
        }
        if let Some(label) = self.label() {
            members.name("label", |w| w.string(label));
        }
        if let Some(action) = self.next_action() {
            members.name("next_action", |w| w.string(action));
        }
        if self.rejected {
            members.name("rejected", |w| w.bool(true));
        }
        members.name("released", |w| w.bool(self.released));
        if let Some(run_id) = &self.run_id {
            members.name("run_id", |w| run_id.write(w));
        }
        members.name("state", |w| w.string(self.state.as_str()));
    }
}
