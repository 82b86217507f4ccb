//! People: producers who submit graphs, operators who pause, cancel, reprioritize, rotate and compact.

use std::sync::Arc;

use serde_json::{Value, json};
use wq_action::engine::checkpoint::CheckpointInputs;
use wq_action::forge::{Client, Patience};
use wq_action::launch::identity::{intent_id, purpose, request_id};
use wq_action::launch::operator::authenticate;
use wq_action::ports::Clock as _;
use wq_action::protocol::actor::Role;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{At, Revision};

use crate::jobs::{End, operate};
use crate::life::Life;
use crate::stage::WEB;

/// One request of an operator or producer.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) role: Role,
    pub(crate) kind: RequestKind,
    /// The operations; `retry_not_before` of a Claim's cancellation is counted from now.
    pub(crate) operations: Vec<Value>,
    /// What makes the request another one.
    pub(crate) name: String,
    /// How often the person gives the same command.
    pub(crate) times: u32,
}

/// A person with a token gives a command, again while its outcome is not clear.
pub(crate) fn ask(life: &Arc<Life>, token: &str, wish: &Wish) -> End {
    let stage = &life.stage;
    let port = life.port(token);
    let client = Client::new(&port, &life.clock).with_patience(Patience::Patient);
    let mut operations = wish.operations.clone();
    for operation in &mut operations {
        if operation["kind"] == "ClaimCancellation" {
            operation["retry_not_before"] = (life.clock.now().get() + 3 * 3_600_000).into();
        }
    }
    let mut end = String::new();
    for _ in 0..wish.times {
        let operator = match authenticate(client, &stage.repository, wish.role) {
            Ok(operator) => operator,
            Err(fault) => {
                end = fault.code().as_str().to_owned();
                continue;
            }
        };
        let mut ledger = life.ledger(operator.repository());
        let id = request_id(operator.actor(), &intent_id(&purpose(&[&wish.name])));
        match operate(life, &mut ledger, id, wish.kind, operator.actor(), &operations) {
            Ok(()) => return Ok("asked".to_owned()),
            Err(code) => end = code,
        }
    }
    Ok(end)
}

/// An administrator replaces history by state.
pub(crate) fn compact(life: &Arc<Life>, token: &str) -> End {
    let stage = &life.stage;
    let port = life.port(token);
    let operator = match authenticate(Client::new(&port, &life.clock), &stage.repository, Role::Administrator) {
        Ok(operator) => operator,
        Err(fault) => return Ok(fault.code().as_str().to_owned()),
    };
    life.pause();
    if life.is_dead() {
        return Ok("cancelled".to_owned());
    }
    // Nobody else has the turn until the next pause, so this is one step, as a push under a lease is.
    let Some(current) = stage.branch.current() else { return Ok("queue_missing".to_owned()) };
    if current.projection.replaced() > 0 && current.projection.active().nth(1).is_none() {
        return Ok("already compact".to_owned());
    }
    let last = current.projection.requests().last().map_or(0, |last| last.at.get());
    let inputs = CheckpointInputs {
        prior_git_sha: &Revision::new(current.commit.to_string()).map_err(|fault| fault.to_string())?,
        actor: operator.actor(),
        at: At::new(life.clock.now().get().max(last)).map_err(|fault| fault.to_string())?,
    };
    match current.projection.checkpoint(&inputs, &mut Scanner::new(WEB)) {
        Ok(built) => {
            stage.log(&life.name, "compacts");
            stage.branch.replace(built.projection);
            stage.tally(|tally| tally.compactions += 1);
        }
        Err(fault) => return Err(format!("a queue cannot be compacted: {fault}")),
    }
    life.pause();
    Ok("compacted".to_owned())
}

/// A control.
pub(crate) fn control(name: &str, value: impl Into<Value>) -> Value {
    json!({"kind": "Control", "control": name, "value": value.into(), "reason": "simulated"})
}
