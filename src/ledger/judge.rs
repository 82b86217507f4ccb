//! The pure part of a publication: what a read state and a request make of each other. The publisher asks it on every
//! attempt, and the explorer drives the same functions against a simulated register.

use super::error::LedgerError;
use super::guard;
use crate::engine::mutation::mutated;
use crate::engine::{Decision, Generated, Projection};
use crate::protocol::commit::FrozenRequest;
use crate::protocol::{Code, CommitId, Fault};

/// The commit of a request id, if it is this request's.
///
/// # Errors
/// `request_reused` if the id is committed with another actor, kind or parameters.
pub fn committed(projection: &Projection, request: &FrozenRequest) -> Result<Option<CommitId>, LedgerError> {
    if mutated!(RequestTwice) {
        return Ok(None);
    }
    let Some(accepted) = projection.request(request.id.as_str()) else { return Ok(None) };
    let same = accepted.fingerprint == request.fingerprint
        && accepted.kind == request.kind
        && *accepted.actor == request.actor;
    if same || mutated!(RecoverAnyMeaning) {
        return Ok(Some(accepted.commit_id.clone()));
    }
    Err(Fault::new(Code::RequestReused, "the request id is committed with another meaning").into())
}

/// A decision, if our publishers may write it on this state; `base` is none at genesis.
///
/// # Errors
/// `internal` if what was decided is not this request, one step on from `base`; otherwise what publishers refuse
/// although replay would accept it.
pub fn judge(decision: Decision, request: &FrozenRequest, base: Option<&Projection>) -> Result<Decision, LedgerError> {
    if let Decision::Publish(generated) = &decision {
        check_generated(generated, request, base)?;
        guard::check_admission(base, generated)?;
    }
    Ok(decision)
}

/// What a decision must be, whoever made it: this request, one step on from what was read.
fn check_generated(
    generated: &Generated,
    request: &FrozenRequest,
    base: Option<&Projection>,
) -> Result<(), LedgerError> {
    let commit = &generated.commit;
    let sound = commit.request.id == request.id
        && commit.request.fingerprint == request.fingerprint
        && *commit.actor == request.actor
        && commit.previous.as_ref() == base.and_then(Projection::tip)
        && generated.next.tip() == Some(&commit.id)
        && generated.next.requests().len() == base.map_or(0, |base| base.requests().len()) + 1;
    if sound { Ok(()) } else { Err(LedgerError::internal("a decision is not one step on from what was read")) }
}
