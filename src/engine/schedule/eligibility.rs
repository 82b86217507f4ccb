//! Why a Work may or may not be granted now (engine.md 4.3).

use crate::engine::mutation::mutated;
use crate::engine::registry::NotReady;
use crate::engine::state::{Barrier, Ownership, Projection, WorkState};
use crate::protocol::operation::GateState;
use crate::protocol::policy::Pool;
use crate::protocol::resource::{Edge, GateKey};
use crate::protocol::{At, Identity, ObservationId, WorkId};

/// The reason codes of eligibility, in order of precedence.
#[allow(missing_docs, reason = "variants are the protocol's own words")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Ready,
    OwnershipClaimed,
    OwnershipCompleted,
    OwnershipCancelled,
    GrantsPaused,
    WorkerNotApproved,
    WorkerUnavailable,
    WorkerIncompatible,
    RetryDelayed,
    RetryExhausted,
    CapacityBlocked,
    AccountCapacityBlocked,
    DependencyFailed,
    DependencyDeliveryFailed,
    DependencyResultUnavailable,
    ExternalUnavailable,
    ObservationStale,
    DependencyExternalWaiting,
    PolicyEpochRetired,
}

impl Reason {
    /// The stable reason code.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::OwnershipClaimed => "ownership_claimed",
            Self::OwnershipCompleted => "ownership_completed",
            Self::OwnershipCancelled => "ownership_cancelled",
            Self::GrantsPaused => "grants_paused",
            Self::WorkerNotApproved => "worker_not_approved",
            Self::WorkerUnavailable => "worker_unavailable",
            Self::WorkerIncompatible => "worker_incompatible",
            Self::RetryDelayed => "retry_delayed",
            Self::RetryExhausted => "retry_exhausted",
            Self::CapacityBlocked => "capacity_blocked",
            Self::AccountCapacityBlocked => "account_capacity_blocked",
            Self::DependencyFailed => "dependency_failed",
            Self::DependencyDeliveryFailed => "dependency_delivery_failed",
            Self::DependencyResultUnavailable => "dependency_result_unavailable",
            Self::ExternalUnavailable => "external_unavailable",
            Self::ObservationStale => "observation_stale",
            Self::DependencyExternalWaiting => "dependency_external_waiting",
            Self::PolicyEpochRetired => "policy_epoch_retired",
        }
    }
}

/// One evaluation: ready with the observations used, or the first reason against it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eligibility {
    /// `Ready` or the first failing condition.
    pub reason: Reason,
    /// The predecessor at fault, where one is.
    pub predecessor: Option<WorkId>,
    /// Observations of satisfied gates, in edge order, as far as the scan came.
    pub observations: Vec<ObservationId>,
}

impl Eligibility {
    pub(crate) fn refused(reason: Reason) -> Self {
        Self { reason, predecessor: None, observations: Vec::new() }
    }

    /// True if nothing stands against the Work.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.reason == Reason::Ready
    }
}

impl Projection {
    /// The dependency conditions of a Work, at a time, under the observation age of its pool.
    #[must_use]
    pub(crate) fn dependencies(&self, state: &WorkState, pool: Option<&Pool>, at: At) -> Eligibility {
        let mut observations = Vec::new();
        let mut predecessors = state.predecessors.iter();
        for edge in &state.work.depends_on {
            let verdict = match edge {
                Edge::Work(_) => {
                    let predecessor = predecessors.next().map(|ix| self.work_at(*ix));
                    predecessor
                        .and_then(|work| predecessor_reason(work).map(|reason| (reason, work.work.work_id.clone())))
                }
                Edge::Gate(gate) => match self.gate(&gate.key, pool, at) {
                    Ok(id) => {
                        observations.push(id);
                        continue;
                    }
                    Err(reason) => return Eligibility { reason, predecessor: None, observations },
                },
            };
            if let Some((reason, predecessor)) = verdict {
                return Eligibility { reason, predecessor: Some(predecessor), observations };
            }
        }
        Eligibility { reason: Reason::Ready, predecessor: None, observations }
    }

    /// The observation that satisfies a gate now.
    pub(crate) fn gate(&self, gate: &GateKey, pool: Option<&Pool>, at: At) -> Result<ObservationId, Reason> {
        let latest = self.observations.get(gate).filter(|latest| latest.state != GateState::Unknown);
        let latest = latest.ok_or(Reason::ExternalUnavailable)?;
        let age = at.get() - latest.observed_at.get();
        let most = pool.map_or(0, |pool| pool.max_observation_age_ms.get());
        if (latest.credential_generation != self.generation && !mutated!(UseOldGeneration))
            || age < 0
            || (age > most && !mutated!(UseStaleObservation))
        {
            return Err(Reason::ObservationStale);
        }
        if latest.satisfies() { Ok(latest.observation_id.clone()) } else { Err(Reason::DependencyExternalWaiting) }
    }

    /// Every condition of engine.md 4.3, for a Work of an installed pool.
    #[must_use]
    pub(crate) fn eligibility(&self, state: &WorkState, at: At, allow: Option<&[Identity]>) -> Eligibility {
        let reason = self.own_reason(state, at, allow);
        match reason {
            Some(reason) => Eligibility::refused(reason),
            None => {
                let installed = self.installed.as_ref();
                let pool = installed.and_then(|installed| installed.policy.pools.get(&state.work.pool));
                self.dependencies(state, pool, at)
            }
        }
    }

    pub(crate) fn own_reason(&self, state: &WorkState, at: At, allow: Option<&[Identity]>) -> Option<Reason> {
        match state.ownership {
            Ownership::Available => {}
            Ownership::Claimed(_) => return Some(Reason::OwnershipClaimed),
            Ownership::Completed { .. } => return Some(Reason::OwnershipCompleted),
            Ownership::Cancelled { .. } => return Some(Reason::OwnershipCancelled),
        }
        if self.grants_paused {
            return Some(Reason::GrantsPaused);
        }
        if let Some(reason) = self.route_reason(state, allow) {
            return Some(reason);
        }
        if state.retry_not_before > at {
            return Some(Reason::RetryDelayed);
        }
        let policy = &self.installed.as_ref()?.policy;
        let limits = policy.pools.get(&state.work.pool)?;
        if i64::from(state.attempts) >= limits.retry.max_attempts.get() {
            return Some(Reason::RetryExhausted);
        }
        let pool = &self.pools[state.pool as usize];
        if i64::from(pool.open) >= limits.logical_limit.get() {
            return Some(Reason::CapacityBlocked);
        }
        let open = pool.open_by_account.get(&state.account).copied().unwrap_or(0);
        let full = limits.per_account_limit.is_some_and(|most| i64::from(open) >= most.get());
        full.then_some(Reason::AccountCapacityBlocked)
    }

    /// The conditions on the Work's route: approved for this evaluation, available, compatible.
    pub(crate) fn route_reason(&self, state: &WorkState, allow: Option<&[Identity]>) -> Option<Reason> {
        let profile = state.work.worker_profile.as_str();
        if allow.is_some_and(|allow| !allow.iter().any(|approved| approved.as_str() == profile)) {
            return Some(Reason::WorkerNotApproved);
        }
        let policy = &self.installed.as_ref()?.policy;
        match self.registry.execution_profile(policy, &state.work, state.admission_contract.as_ref()) {
            Ok(_) => None,
            Err(NotReady::Unavailable) => Some(Reason::WorkerUnavailable),
            Err(NotReady::Incompatible) => Some(Reason::WorkerIncompatible),
        }
    }
}

fn predecessor_reason(work: &WorkState) -> Option<Reason> {
    if matches!(work.ownership, Ownership::Cancelled { .. }) {
        return Some(Reason::DependencyFailed);
    }
    match work.barrier() {
        Barrier::Verified => None,
        Barrier::Failed => Some(Reason::DependencyDeliveryFailed),
        Barrier::None | Barrier::Pending => Some(Reason::DependencyResultUnavailable),
    }
}
