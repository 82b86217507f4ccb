//! What a job is to the queue, and the assignment that it was given (jobs.md 1.2).

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Context;
use crate::protocol::assignment::Assignment;
use crate::protocol::fault::ensure;
use crate::protocol::json;
use crate::protocol::{Code, Fault, RuntimeRole};

/// Members by which older workflows handed over one Claim; nothing accepts them any more.
const LEGACY: [&str; 3] = ["work_queue_claim", "work_claim", "work_queue"];
/// The reserved input.
const ASSIGNMENT: &str = "work_queue_assignment";
/// Longest caller context that is read, in bytes; GitHub takes 65,535 characters of inputs in all.
const MAX_CALLER_CONTEXT: usize = 512 * 1024;

/// The role of a run and, for a worker, its assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    role: RuntimeRole,
    assignment: Option<Assignment>,
}

/// Where an event can carry an assignment.
#[derive(Deserialize)]
struct Sources {
    #[serde(default)]
    inputs: Option<Value>,
    #[serde(default)]
    client_payload: Option<Value>,
}

impl Runtime {
    /// Resolves role and assignment from the protected compiled role and the event. Nothing falls back to a weaker role.
    ///
    /// # Errors
    /// In this order: `claim_scope_invalid` for a malformed assignment, one in a retired form, or more than one;
    /// `work_queue_runtime_role_invalid`; `work_queue_runtime_role_conflict` where an assignment is required of another
    /// role; `work_queue_observer_assignment_forbidden`; `work_queue_runtime_role_conflict` for a dispatcher with an
    /// assignment; `work_queue_assignment_required` for a worker without one.
    pub fn resolve(context: &Context, require_assignment: bool) -> Result<Self, Fault> {
        let assignment = context.payload().map(assignment).transpose()?.flatten();
        let role = context.role()?;
        ensure!(
            !require_assignment || role.is_none_or(|role| role == RuntimeRole::Worker),
            WorkQueueRuntimeRoleConflict,
            "an assignment is required, and the compiled role is not worker"
        );
        let role = match role {
            Some(RuntimeRole::Observer) if assignment.is_some() => {
                return Err(Code::WorkQueueObserverAssignmentForbidden.into());
            }
            Some(RuntimeRole::Dispatcher) if assignment.is_some() => {
                return Err(Fault::new(Code::WorkQueueRuntimeRoleConflict, "a dispatcher was given an assignment"));
            }
            Some(role) => role,
            None if assignment.is_some() || require_assignment => RuntimeRole::Worker,
            None => RuntimeRole::Dispatcher,
        };
        if role == RuntimeRole::Worker && assignment.is_none() {
            return Err(Code::WorkQueueAssignmentRequired.into());
        }
        Ok(Self { role, assignment })
    }

    /// The role.
    #[must_use]
    pub fn role(&self) -> RuntimeRole {
        self.role
    }

    /// The assignment; there for a worker and for nobody else.
    #[must_use]
    pub fn assignment(&self) -> Option<&Assignment> {
        self.assignment.as_ref()
    }
}

fn refused(message: &'static str) -> Fault {
    Fault::new(Code::ClaimScopeInvalid, message)
}

/// The one assignment of an event payload, if it has one.
fn assignment(payload: &str) -> Result<Option<Assignment>, Fault> {
    // The payload was checked to be an object when the context was made.
    let sources: Sources = serde_json::from_str(payload).map_err(|_| refused("the event payload is malformed"))?;
    let mut found = Vec::new();
    for source in [sources.inputs, sources.client_payload].into_iter().flatten() {
        match source {
            Value::Null => {}
            Value::Object(source) => collect(&source, &mut found)?,
            _ => return Err(refused("the inputs of an event are an object")),
        }
    }
    ensure!(found.len() <= 1, ClaimScopeInvalid, "an assignment has exactly one source");
    Ok(found.pop())
}

/// Adds what one source carries, in its own member and in its caller context.
fn collect(source: &Map<String, Value>, found: &mut Vec<Assignment>) -> Result<(), Fault> {
    no_legacy(|name| source.contains_key(name))?;
    if let Some(value) = source.get(ASSIGNMENT) {
        found.push(match value {
            Value::String(text) => Assignment::parse(text)?,
            Value::Object(_) => Assignment::parse(&value.to_string())?,
            _ => return Err(refused("an assignment is an object")),
        });
    }
    let caller = match source.get("aw_context") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::String(text)) if text.is_empty() => return Ok(()),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let malformed = |_| refused("the caller context is malformed");
    let caller = json::parse_bounded(&caller, MAX_CALLER_CONTEXT).map_err(malformed)?;
    ensure!(matches!(caller, json::Value::Object(_)), ClaimScopeInvalid, "the caller context is an object");
    no_legacy(|name| caller.get(name).is_some())?;
    if let Some(value) = caller.get(ASSIGNMENT) {
        found.push(match value {
            json::Value::String(text) => Assignment::parse(text)?,
            other => Assignment::parse(&other.encode().map_err(malformed)?)?,
        });
    }
    Ok(())
}

fn no_legacy(holds: impl Fn(&str) -> bool) -> Result<(), Fault> {
    ensure!(!LEGACY.iter().any(|name| holds(name)), ClaimScopeInvalid, "a Claim is handed over in a retired form");
    Ok(())
}
