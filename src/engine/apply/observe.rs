//! Observation of gates.

use std::sync::Arc;

use crate::engine::state::{Context, Projection};
use crate::protocol::actor::Role;
use crate::protocol::fault::ensure;
use crate::protocol::operation::Observation;
use crate::protocol::{Fault, Measured};

impl Projection {
    pub(crate) fn apply_observation(
        &mut self,
        observation: Measured<Observation>,
        context: &Context<'_>,
    ) -> Result<(), Fault> {
        let installed = self.rules()?;
        let policy = &installed.policy;
        let repository = observation.resource.repository.as_str();
        if context.actor.role == Role::Worker {
            let parent = self.work_of(self.continuation(context.actor)?);
            let pool = policy.pools.get(&parent.work.pool);
            ensure!(
                pool.is_some_and(|pool| pool.allows(repository)),
                DependencyUnauthorized,
                "a worker observes only what its own pool allows"
            );
        }
        ensure!(
            observation.observed_at <= context.at && observation.credential_generation == self.generation,
            ObservationInvalid,
            "the observation is from the future or of another credential generation"
        );
        ensure!(
            observation.bytes() <= policy.limits.evidence_bytes,
            ResourceLimit,
            "the observation exceeds its limit"
        );
        ensure!(
            policy.pools.values().any(|pool| pool.allows(repository)),
            DependencyUnauthorized,
            "no pool allows the observed repository"
        );
        if let Some(known) = self.observation_ids.get(&observation.observation_id) {
            ensure!(**known == observation, ObservationConflict, "the observation id was used with other content");
            return Ok(());
        }
        let gate = observation.gate();
        let writes = self.observation_writes.get(&gate).copied().unwrap_or(0) + 1;
        ensure!(
            writes <= policy.limits.observation_writes,
            ResourceLimit,
            "the gate was observed too often in this epoch"
        );
        let observation = Arc::new(observation);
        self.observation_writes.insert(gate.clone(), writes);
        self.observation_ids.insert(observation.observation_id.clone(), Arc::clone(&observation));
        self.observations.insert(gate, observation);
        Ok(())
    }
}
