//! The gates of a Work as reads show them: each with its own readiness, its latest observation, and why it holds back
//! (specification 7.16, decision 38).

use super::state::{ClaimState, Projection, WorkState};
use crate::protocol::commit::Commit;
use crate::protocol::json::{Members, Scanner};
use crate::protocol::operation::{Observation, Operation};
use crate::protocol::policy::Policy;
use crate::protocol::resource::{Condition, Edge, Gate, Resource};
use crate::protocol::{At, Wire as _};

/// A gate of a Work at one time.
#[derive(Clone, Copy, Debug)]
pub struct GateView<'a> {
    /// The gate.
    pub gate: &'a Gate,
    /// `ready`, or the engine's reason against it.
    pub reason: &'static str,
    /// What was seen of it last.
    pub observation: Option<&'a Observation>,
    at: At,
    /// Longest age of an observation, in milliseconds; none where the Work's pool is retired.
    pub max_age_ms: Option<i64>,
}

/// An observation that a Claim rests on.
#[derive(Clone, Copy, Debug)]
pub struct UsedObservation<'a> {
    /// The observation.
    pub observation: &'a Observation,
    /// Its age at the grant, in milliseconds.
    pub age_ms: i64,
    /// Longest age that the Policy of the grant allowed, in milliseconds; none where a later Policy replaced that one
    /// and a checkpoint replaced both.
    pub max_age_ms: Option<i64>,
}

impl Projection {
    /// How a gate of a Work stands at one time.
    #[must_use]
    pub fn gate_view<'a>(&'a self, state: &WorkState, gate: &'a Gate, at: At) -> GateView<'a> {
        let pool = self.installed().and_then(|installed| installed.policy.pools.get(&state.work.pool));
        GateView {
            gate,
            reason: self.gate(&gate.key, pool, at).map_or_else(super::schedule::Reason::as_str, |_| "ready"),
            observation: self.observations.get(&gate.key).map(|latest| &***latest),
            at,
            max_age_ms: pool.map(|pool| pool.max_observation_age_ms.get()),
        }
    }

    /// Every gate of a Work, in the order of its edges: at most 64.
    pub fn gates_of<'a>(&'a self, state: &'a WorkState, at: At) -> impl Iterator<Item = GateView<'a>> {
        state.work.depends_on.iter().filter_map(move |edge| match edge {
            Edge::Gate(gate) => Some(self.gate_view(state, gate, at)),
            Edge::Work(_) => None,
        })
    }

    /// The observations that a Claim rests on, in its order: at most as many as its Work has gates.
    #[must_use]
    pub fn observations_of(&self, claim: &ClaimState, scanner: &mut Scanner) -> Vec<UsedObservation<'_>> {
        let used = &claim.claim.observations.0;
        let max_age_ms = if used.is_empty() { None } else { self.age_limit(claim, scanner) };
        let known = used.iter().filter_map(|id| self.observation_ids.get(id));
        known
            .map(|observation| UsedObservation {
                observation,
                age_ms: claim.explanation.at.get() - observation.observed_at.get(),
                max_age_ms,
            })
            .collect()
    }

    /// The age that the Policy of a Claim's grant allowed.
    fn age_limit(&self, claim: &ClaimState, scanner: &mut Scanner) -> Option<i64> {
        let pool = &self.work_of(claim).work.pool;
        let limit = |policy: &Policy| policy.pools.get(pool).map(|pool| pool.max_observation_age_ms.get());
        let epoch = &self.dispatch_of(claim).assignment.policy_epoch;
        let installed = self.installed()?;
        if installed.epoch == *epoch {
            return limit(&installed.policy);
        }
        self.active().filter(|line| line.as_str().contains(r#""kind":"Policy""#)).find_map(|line| {
            let commit = Commit::read(scanner, line.text()).ok()?;
            commit.operations.iter().find_map(|operation| match operation {
                Operation::Policy(operation) if operation.epoch == *epoch => limit(&operation.policy),
                _ => None,
            })
        })
    }
}

fn name_members(resource: &Resource, condition: Condition, members: &mut Members<'_>) {
    members.name("condition", |w| condition.write(w));
    members.name("kind", |w| resource.kind.write(w));
    members.name("number", |w| resource.number.write(w));
    members.name("repository", |w| resource.repository.write(w));
    members.name("resource_id", |w| resource.resource_id.write(w));
}

impl GateView<'_> {
    /// The observation's age at the time of the view, in milliseconds.
    #[must_use]
    pub fn age_ms(&self) -> Option<i64> {
        self.observation.map(|seen| self.at.get() - seen.observed_at.get())
    }

    /// Adds what the gate is, whether it holds back and why, and what was seen of it when.
    pub fn members(&self, members: &mut Members<'_>) {
        name_members(&self.gate.resource, self.gate.condition, members);
        if let Some(most) = self.max_age_ms {
            members.name("max_observation_age_ms", |w| w.integer(most));
        }
        if let Some(seen) = self.observation {
            members.name("observation_id", |w| seen.observation_id.write(w));
            members.name("observed", |w| seen.state.write(w));
            members.name("observed_at", |w| seen.observed_at.write(w));
            members.name("read_status", |w| seen.read_status.write(w));
        }
        members.name("ready", |w| w.bool(self.reason == "ready"));
        members.name("state", |w| w.string(self.reason));
    }
}

impl UsedObservation<'_> {
    /// Adds what was seen, when, and how old it was allowed to be.
    pub fn members(&self, members: &mut Members<'_>) {
        name_members(&self.observation.resource, self.observation.condition, members);
        members.name("age_ms", |w| w.integer(self.age_ms));
        if let Some(most) = self.max_age_ms {
            members.name("max_observation_age_ms", |w| w.integer(most));
        }
        members.name("observation_id", |w| self.observation.observation_id.write(w));
        members.name("observed_at", |w| self.observation.observed_at.write(w));
    }
}
