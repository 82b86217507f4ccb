//! Lifecycle writes (lifecycle.md 0.5): each is one request with an id of its purpose, through the checked publisher.

use std::sync::Arc;

use crate::engine::Projection;
use crate::ledger::{Current, LaunchPermit, Ledger, LedgerError, Outcome, Publication};
use crate::protocol::actor::{Actor, Role};
use crate::protocol::commit::FrozenRequest;
use crate::protocol::fault::ensure;
use crate::protocol::json::Writer;
use crate::protocol::operation::Operation;
use crate::protocol::request::RequestKind;
use crate::protocol::{Code, Fault, RequestId, Wire as _};

use super::error::LaunchError;
use super::identity::{intent_id, purpose, request_id};

/// How often a write is built anew because the state it rests on moved.
const REBUILDS: usize = 8;

/// An actor of the same run in another role. A role is what a protected job asks for; principal and run stay those
/// that were authenticated.
#[must_use]
pub fn in_role(actor: &Actor, role: Role) -> Actor {
    let scoped = role == Role::Worker;
    Actor {
        role,
        dispatch_id: actor.dispatch_id.clone().filter(|_| scoped),
        claim_handle: actor.claim_handle.clone().filter(|_| scoped),
        ..actor.clone()
    }
}

/// The stable id of a lifecycle write.
#[must_use]
pub fn step_id(actor: &Actor, parts: &[&str]) -> RequestId {
    request_id(actor, &intent_id(&purpose(parts)))
}

/// The parameters of a request that carries its operations, as canonical text.
#[must_use]
pub fn listed(operations: &[Operation]) -> String {
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("operations", |w| w.array(operations, |w, operation| operation.write(w)));
    });
    writer.finish()
}

/// A lifecycle write that is in the ledger.
#[derive(Debug)]
pub struct Stepped {
    /// Permission to launch: there if and only if this very call's write was acknowledged.
    pub permit: Option<LaunchPermit>,
    /// The queue after it.
    pub current: Arc<Current>,
}

/// Publishes the operations that `build` gives for the state on which they are decided. Where that state moves, they
/// are built anew under the same request id, so that what lands was always decided on the state before it.
///
/// # Errors
/// What `build` refuses; `request_reused` if the id is committed with another kind or actor; otherwise as a publication.
pub fn publish_step(
    ledger: &mut dyn Ledger,
    actor: &Actor,
    kind: RequestKind,
    parts: &[&str],
    build: &dyn Fn(&Projection) -> Result<Vec<Operation>, Fault>,
) -> Result<Stepped, LaunchError> {
    let id = step_id(actor, parts);
    for _ in 0..REBUILDS {
        let current = ledger.read_present()?;
        if let Some(accepted) = current.projection.request(id.as_str()) {
            let same = accepted.kind == kind && *accepted.actor == *actor;
            ensure!(same, RequestReused, "the request id is committed with another meaning");
            return Ok(Stepped { permit: None, current });
        }
        let operations = build(&current.projection)?;
        // The publication's own read then extends the only copy of what was read.
        drop(current);
        let request = FrozenRequest::new(id.clone(), kind, actor.clone(), &listed(&operations))?;
        let mut moved = false;
        let published = ledger.publish(&request, None, &mut |projection, scanner, at| {
            if build(projection)? != operations {
                moved = true;
                return Err(Fault::new(Code::PublicationUnresolved, "the state moved on").into());
            }
            projection.decide(scanner, &request, at, &[]).map_err(LedgerError::from)
        });
        match published {
            Err(_) if moved => {}
            Err(error) => return Err(error.into()),
            Ok(Publication { outcome: Outcome::PublishedNow { permit, .. }, current, .. }) => {
                return Ok(Stepped { permit: Some(permit), current });
            }
            Ok(Publication { current, .. }) => return Ok(Stepped { permit: None, current }),
        }
    }
    Err(Fault::new(Code::PublicationUnresolved, "the queue moved on whenever this was decided").into())
}
