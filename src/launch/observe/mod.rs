//! What the Issues and pull requests that Work waits for look like (lifecycle.md 7): read with the credential of their
//! own repository, within a budget, and written as Observations beside the Claims that rest on them.

mod admit;
mod reading;
mod resolve;
mod scope;

pub use admit::{Admission, resolve_nodes};
pub use reading::{ReadStatus, Seen};
pub use resolve::{Budget, Resolver, Target};
pub use scope::{
    Access, CREDENTIALS_VARIABLE, Clients, ReadCredential, Scope, Scopes, TOKEN_VARIABLE, read_credentials,
};

use crate::engine::Projection;
use crate::engine::refresh::DEFAULT_REFRESH;
use crate::protocol::actor::Role;
use crate::protocol::fault::ensure;
use crate::protocol::identity::sha256_hex;
use crate::protocol::json::{Value, parse};
use crate::protocol::operation::{GateState, Observation};
use crate::protocol::request::DispatchParameters;
use crate::protocol::resource::Gate;
use crate::protocol::{At, Code, Fault, Generation, Identity, ObservationId, Wire as _};

/// Looks at the gates that this grant needs and that nobody looked at lately. Each call reads anew, so a decision that is
/// made again after a lost race rests on nothing from before. The caller reads the clock after this and decides with that
/// time (publication.md 2.2 g); [`Projection::decide`] writes none of it unless it grants.
///
/// A read that failed gives an `unknown` observation, which stands against an older success (decision 45). Workers look
/// at nothing.
///
/// # Errors
/// As [`Projection::due_gates`]. Failed reads are observations, not errors.
pub fn refresh(
    projection: &Projection,
    resolver: &Resolver<'_>,
    asked: &DispatchParameters,
    role: Role,
) -> Result<Vec<Observation>, Fault> {
    if !may_observe(role) {
        return Ok(Vec::new());
    }
    let due = projection.due_gates(asked, resolver.clock().now(), DEFAULT_REFRESH)?;
    look(projection, resolver, &due)
}

/// Looks at gates because somebody asks for it, whether or not they are due. The observations are the operations of an
/// `observe` request.
///
/// # Errors
/// `work_queue_observation_role_required` for a role that does not observe, `external_resolver_budget_exceeded` for more
/// gates than the resolver's budget has.
pub fn observe(
    projection: &Projection,
    resolver: &Resolver<'_>,
    gates: &[&Gate],
    role: Role,
) -> Result<Vec<Observation>, Fault> {
    ensure!(
        may_observe(role),
        WorkQueueObservationRoleRequired,
        "only a dispatcher, a reconciler or an administrator observes gates"
    );
    look(projection, resolver, gates)
}

/// Why gates that were looked at hold Work back, for a receipt without a grant: `external_unavailable` if one could not
/// be read, `external_wait` if a condition is not met; none if every one is ready. Such a queue is not empty.
#[must_use]
pub fn held_back(observations: &[Observation]) -> Option<&'static str> {
    let any = |states: &[GateState]| observations.iter().any(|seen| states.contains(&seen.state));
    if any(&[GateState::Unknown]) {
        Some(ReadStatus::Unavailable.as_str())
    } else if any(&[GateState::Waiting, GateState::Failed]) {
        Some("external_wait")
    } else {
        None
    }
}

fn may_observe(role: Role) -> bool {
    matches!(role, Role::Dispatcher | Role::Reconciler | Role::Administrator)
}

fn look(projection: &Projection, resolver: &Resolver<'_>, gates: &[&Gate]) -> Result<Vec<Observation>, Fault> {
    let generation = projection.generation();
    let wanted: Vec<_> = gates.iter().map(|gate| (Target::from(&gate.resource), gate.condition)).collect();
    let seen = resolver.look(&wanted, generation)?;
    let now = resolver.clock().now();
    let mut observations = Vec::with_capacity(gates.len());
    for (gate, (seen, at)) in gates.iter().zip(seen) {
        tracing::debug!(state = seen.state.as_str(), status = seen.read_status.as_str(), "gate read");
        let observation = observation(gate, seen, at, generation)?;
        if projection.accepts_observation(&observation, now) {
            observations.push(observation);
        }
    }
    Ok(observations)
}

/// The operation that says what was seen. Its id is the digest of everything else in it.
fn observation(gate: &Gate, seen: Seen, at: At, generation: &Generation) -> Result<Observation, Fault> {
    let mut observation = Observation {
        observation_id: ObservationId::new("observation")?,
        credential_generation: generation.clone(),
        read_status: Identity::new(seen.read_status.as_str())?,
        resource: gate.resource.clone(),
        condition: gate.condition,
        state: seen.state,
        observed_at: at,
        source_updated_at: seen.source_updated_at,
        state_reason: seen.state_reason,
        resource_state: seen.resource_state,
        merged: seen.merged,
        merge_commit: seen.merge_commit,
    };
    let Value::Object(mut members) = parse(&observation.canonical())? else {
        return Err(Fault::from(Code::Internal));
    };
    members.retain(|(name, _)| name != "observation_id");
    let digest = sha256_hex(&[&Value::Object(members).encode()?]);
    observation.observation_id = ObservationId::new(format!("observation:{digest}"))?;
    Ok(observation)
}
