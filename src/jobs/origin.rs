//! Capture of the logical requester (jobs.md 4.2): in the agent's job, before any step of the author, an authenticated
//! run states itself. A later job publishes the agent's intents in this name and asks the host again.

use super::error::JobError;
use super::world::World;
use crate::launch::publisher::{Scope, authenticate};
use crate::protocol::actor::{Actor, Role};
use crate::protocol::fault::ensure;
use crate::protocol::{RuntimeRole, Wire as _};
use crate::runner::Runtime;

/// The step output, and the job output made of it.
const OUTPUT: &str = "work_queue_origin";
/// The variable that later steps of the job inherit.
const VARIABLE: &str = "GH_AW_WORK_QUEUE_INTENT_ORIGIN";

/// Authenticates the run and states it as output and variable.
///
/// # Errors
/// As [`Runtime::resolve`]; `work_queue_observer_read_only`; as [`authenticate`]; `io_failed`.
pub fn run(world: &mut World<'_>) -> Result<Actor, JobError> {
    let runtime = Runtime::resolve(world.context, world.variables.is_true("GH_AW_WORK_QUEUE_REQUIRE_ASSIGNMENT"))?;
    ensure!(runtime.role() != RuntimeRole::Observer, WorkQueueObserverReadOnly, "an observer has no intents");
    let (role, scope) = match runtime.assignment() {
        Some(assignment) => {
            (Role::Worker, Scope { dispatch_id: Some(assignment.dispatch_id.clone()), claim_handle: None })
        }
        None => (Role::Dispatcher, Scope::default()),
    };
    let authenticated = authenticate(world.client, world.context, role, &scope)?;
    let encoded = authenticated.actor().canonical();
    world.outputs.export(VARIABLE, &encoded)?;
    world.outputs.set(OUTPUT, &encoded)?;
    Ok(authenticated.actor().clone())
}
