//! What an administrator's requests share: parameters that are the operations themselves, targets that are resolved on
//! a fresh read, and the recovery of a request whose id is committed already (operator-cli.md 8.4).

use super::access::Access;
use super::publish::{Published, freeze};
use super::source::{request_id, scanner};
use super::{Failure, Global};
use crate::engine::state::{Accepted, Source};
use crate::engine::{Decision, Projection};
use crate::launch::step::listed;
use crate::ledger::LedgerError;
use crate::ledger::publisher::Decide;
use crate::protocol::actor::{Actor, Role};
use crate::protocol::commit::Commit;
use crate::protocol::operation::Operation;
use crate::protocol::request::RequestKind;
use crate::protocol::{Code, CommitId, Fault};

/// A request of an administrator on named targets.
pub(crate) trait Intent {
    /// Kind of the request.
    const KIND: RequestKind;

    /// The operations for the state that was read, sorted by Work.
    ///
    /// # Errors
    /// When a target is not there, or two targets are one Work.
    fn resolve(&self, projection: &Projection) -> Result<Vec<Operation>, Failure>;

    /// True if operations that are committed under the request's id are what this asks for, whatever state they were
    /// resolved on.
    fn asked_for(&self, operations: &[Operation]) -> bool;

    /// As [`Intent::asked_for`], where only a checkpoint's receipt is left of the commit: the operations that the
    /// request must have had to be this one. Its fingerprint decides whether it was.
    ///
    /// # Errors
    /// When the receipt says too little to tell.
    fn recall(
        &self,
        projection: &Projection,
        _accepted: &Accepted,
        _actor: &Actor,
    ) -> Result<Option<Vec<Operation>>, Failure> {
        // The targets never go away, so what cannot be resolved now was not asked for then.
        Ok(self.resolve(projection).ok())
    }

    /// Refuses what replay would accept as a repetition, or names the commit that did all of it before.
    ///
    /// # Errors
    /// The refusal.
    fn check(&self, _projection: &Projection, _operations: &[Operation]) -> Result<Option<Repeated>, Fault> {
        Ok(None)
    }
}

/// Why nothing is left to do, and the commit that did it.
pub(crate) struct Repeated {
    pub(crate) reason: &'static str,
    pub(crate) commit_id: CommitId,
}

/// A publication, and the operations that it committed or found committed.
pub(crate) struct Administered {
    pub(crate) published: Published,
    pub(crate) operations: Vec<Operation>,
}

/// Publishes one operation. `build` makes it, once the queue was read; it is given the one operation that is committed
/// under the request's id, if this kind of request is.
///
/// # Errors
/// As a publication and as `build`; what replay refuses is the request's fault.
pub(crate) fn publish(
    global: &Global,
    kind: RequestKind,
    build: impl FnOnce(&Access, Option<Operation>) -> Result<Operation, Failure>,
) -> Result<(Published, Operation), Failure> {
    let access = Access::open(global)?;
    let (id, actor) = (request_id(global)?, access.actor(Role::Administrator)?);
    let mut publisher = access.publisher()?;
    // A queue that is missing or defective is told as such; what is refused after that is the request.
    let current = publisher.read_present()?;
    let accepted = current.projection.request(id.as_str()).filter(|accepted| accepted.kind == kind);
    let committed = match accepted.and_then(|accepted| accepted.source.commit()) {
        Some(text) => Commit::read(&mut scanner()?, text.text())?.operations.into_iter().next(),
        None => None,
    };
    drop(current);
    let operation = build(&access, committed)?;
    let request = freeze(&id, kind, &actor, &listed(std::slice::from_ref(&operation)))?;
    let publication = publisher.publish_request(&request, None).map_err(refusal)?;
    Ok((Published::new(id, publication), operation))
}

/// Resolves the targets on a fresh read and publishes. What was resolved stays as it is over lost races, so a change
/// that came in between refuses the whole request.
///
/// # Errors
/// As a publication; `request_reused` if the id is committed with another meaning.
pub(crate) fn administer<I: Intent>(global: &Global, intent: &I) -> Result<Administered, Failure> {
    let access = Access::open(global)?;
    let (id, actor) = (request_id(global)?, access.actor(Role::Administrator)?);
    let mut publisher = access.publisher()?;
    let mut resolved_anew = false;
    loop {
        let current = publisher.read_present()?;
        let operations = match current.projection.request(id.as_str()) {
            Some(accepted) => committed(&current.projection, accepted, &actor, intent)?,
            None => intent.resolve(&current.projection)?,
        };
        // The publication's own read then extends the only copy of what was read.
        drop(current);
        let request = freeze(&id, I::KIND, &actor, &listed(&operations))?;
        let decide: &mut Decide<'_> = &mut |projection, scanner, at| match intent.check(projection, &operations)? {
            Some(Repeated { reason, commit_id }) => Ok(Decision::Done { reason, commit_id: Some(commit_id) }),
            None => projection.decide(scanner, &request, at, &[]).map_err(LedgerError::from),
        };
        match publisher.publish(&request, None, decide) {
            Ok(publication) => {
                return Ok(Administered { published: Published::new(id, publication), operations });
            }
            // The same request may have been committed since the read, resolved on another state.
            Err(error) if error.code() == Code::RequestReused && !resolved_anew => resolved_anew = true,
            Err(error) => return Err(refusal(error)),
        }
    }
}

/// The operations of a committed request, if they are what is asked for.
fn committed<I: Intent>(
    projection: &Projection,
    accepted: &Accepted,
    actor: &Actor,
    intent: &I,
) -> Result<Vec<Operation>, Failure> {
    let operations = match &accepted.source {
        _ if accepted.kind != I::KIND => None,
        Source::Commit(text) => {
            let operations = Commit::read(&mut scanner()?, text.text())?.operations;
            Some(operations).filter(|operations| intent.asked_for(operations))
        }
        Source::Receipt(_) => intent.recall(projection, accepted, actor)?,
    };
    operations.ok_or_else(|| Fault::new(Code::RequestReused, "the request id is committed with another meaning").into())
}

/// A refused request. Replay names the line of a defective ledger; without a line the request is at fault.
fn refusal(error: LedgerError) -> Failure {
    let asked = error.line().is_none();
    let failure = Failure::from(error);
    if asked { failure.at_request() } else { failure }
}
