//! The loop of a checked publication (publication.md 2.2, 2.6), over whatever keeps the versions: the queue branch, or a
//! register in memory. Both go through these very lines.

use std::sync::Arc;

use super::bootstrap::{Proposal, bootstrap};
use super::current::Current;
use super::error::LedgerError;
use super::git::PushOutcome;
use super::guard;
use super::judge::{committed, judge};
use super::publisher::{Attempt, Decide, LaunchPermit, Outcome, Publication, Queue, doubtful, unconfirmed, unresolved};
use super::retry::Retries;
use crate::engine::{Decision, Generated, Projection};
use crate::ports::{Clock, Entropy};
use crate::protocol::commit::FrozenRequest;
use crate::protocol::json::Scanner;
use crate::protocol::request::fingerprint;
use crate::protocol::{At, Code, CommitId, Fault, RepositoryName, Wire as _};

/// What every publication needs beside the versions.
pub(super) struct Means<'m> {
    /// The repository that every actor must belong to.
    pub(super) repository: &'m RepositoryName,
    /// Time.
    pub(super) clock: &'m dyn Clock,
    /// Chance.
    pub(super) entropy: &'m dyn Entropy,
    /// Attempts.
    pub(super) retries: Retries,
    /// Reads records.
    pub(super) scanner: &'m mut Scanner,
}

/// Where versions of the queue are kept: each can be read, and one can be offered in place of the last.
pub(super) trait Register {
    /// The version that stands now.
    fn read(&mut self) -> Result<Queue, LedgerError>;

    /// Offers the version that follows `base`, or the first one. Returns the report and that version.
    fn offer(&mut self, base: Option<&Current>, next: Projection) -> Result<(PushOutcome, Current), LedgerError>;

    /// Whatever stands between a validated first version and its offer: the caller's judgement at least.
    fn admit_first(&mut self, proposal: &Proposal<'_>, next: &Projection) -> Result<(), LedgerError> {
        proposal.judge(next)
    }

    /// Takes an acknowledged version for what was read last.
    fn adopt(&mut self, current: &Arc<Current>);

    /// Everything else.
    fn means(&mut self) -> Means<'_>;
}

/// What a decision leads to.
enum Step {
    /// The request is committed.
    Committed(CommitId),
    /// Nothing is to be written.
    End(Outcome),
    /// This is to be written.
    Write(Box<Generated>),
}

/// Publishes a request: decides it on the state that is read, appends it by compare-and-swap, and repeats from
/// the read after a lost race. The request id makes the whole call idempotent.
///
/// # Errors
/// By class: *denied* (`publication_denied`, `actor_unauthorized`, …), *invalid* (whatever replay would raise,
/// `request_reused`, `ledger_nonextending`, …), *absent* (`queue_missing`), *unavailable*; `publication_unresolved`
/// as *conflict* when every attempt lost a race, as *unknown* when it cannot be told whether one landed.
pub(super) fn publish(
    register: &mut dyn Register,
    request: &FrozenRequest,
    proposal: Option<&Proposal<'_>>,
    decide: &mut Decide<'_>,
) -> Result<Publication, LedgerError> {
    check_request(&register.means(), request)?;
    let retries = register.means().retries;
    let mut lost = Vec::new();
    tracing::debug!(target: "work-queue:store", max_retries = retries.attempts() - 1, "request.publish.start");
    for number in 0..retries.attempts() {
        tracing::debug!(target: "work-queue:store", attempt = number + 1, "request.publish.attempt");
        let base = match register.read() {
            Ok(Queue::Present(current)) => Some(current),
            Ok(Queue::Absent) => None,
            Ok(Queue::EmptyRepository) => return Err(unconfirmed()),
            Err(error) if doubtful(&lost) => return Err(unresolved(&lost, Some(&error))),
            Err(error) => return Err(error),
        };
        let asked_at = register.means().clock.now();
        let (step, at) = step(register.means().scanner, request, proposal, base.as_deref(), asked_at, decide)?;
        let (generated, observed) = match (step, &base) {
            (Step::Write(generated), base) => (*generated, base.as_ref().map(|current| current.commit)),
            (Step::Committed(commit_id), Some(current)) => {
                tracing::debug!(target: "work-queue:store", attempt = number + 1, "request.recovered");
                // An earlier push of this call can land during the pause.
                let outcome = if lost.is_empty() {
                    Outcome::AlreadyCommitted { commit_id }
                } else {
                    Outcome::Recovered { commit_id }
                };
                return Ok(Publication { outcome, current: Arc::clone(current), evaluated_at: at, lost });
            }
            (Step::End(outcome), Some(current)) => {
                tracing::debug!(target: "work-queue:store", "request.publish.no_operations");
                return Ok(Publication { outcome, current: Arc::clone(current), evaluated_at: at, lost });
            }
            _ => return Err(LedgerError::internal("a first submission was decided without a commit")),
        };
        let operations = generated.commit.operations.len();
        tracing::debug!(target: "work-queue:store", operations, "request.candidate.checked");
        let stopped = generated.stopped.clone();
        let commit_id = generated.commit.id.clone();
        if let (None, Some(proposal)) = (&base, proposal) {
            register.admit_first(proposal, &generated.next)?;
        }
        let (result, next) = register.offer(base.as_deref(), generated.next)?;
        // The next read then extends the only copy of what was read, instead of a second one.
        drop(base);
        if result == PushOutcome::Acknowledged {
            let attempt = number + 1;
            tracing::debug!(target: "work-queue:store", operations, attempt, "request.publish.complete");
            let current = Arc::new(next);
            register.adopt(&current);
            let outcome = Outcome::PublishedNow { permit: LaunchPermit::new(commit_id), stopped };
            return Ok(Publication { outcome, current, evaluated_at: at, lost });
        }
        tell_lost(&result, number + 1 < retries.attempts());
        lost.push(Attempt { number: number + 1, observed, result });
        if let Some(recovered) = recover(register, request, at, &mut lost)? {
            return Ok(recovered);
        }
        let means = register.means();
        if !retries.pause(number, means.clock, means.entropy)? {
            break;
        }
    }
    tracing::debug!(target: "work-queue:store", attempts = lost.len(), "request.publish.exhausted");
    Err(unresolved(&lost, None))
}

/// An attempt that was not acknowledged, for the log.
fn tell_lost(result: &PushOutcome, retry_available: bool) {
    let conflict = matches!(result, PushOutcome::Conflict | PushOutcome::UpToDate);
    let ambiguous = matches!(result, PushOutcome::Ambiguous(_));
    if let PushOutcome::Denied(error) = result {
        let http_status = error.status();
        tracing::debug!(target: "work-queue:store", failed = true, http_status, "request.publish.write_failed");
    }
    tracing::debug!(target: "work-queue:store", conflict, ambiguous, retry_available, "request.publish.recovery");
}

/// One decision, from scratch, and its time: the request may be committed already, and what is decided must be one step
/// on.
fn step(
    scanner: &mut Scanner,
    request: &FrozenRequest,
    proposal: Option<&Proposal<'_>>,
    base: Option<&Current>,
    at: At,
    decide: &mut Decide<'_>,
) -> Result<(Step, At), LedgerError> {
    let decision = match base {
        Some(current) => {
            if let Some(commit_id) = committed(&current.projection, request)? {
                return Ok((Step::Committed(commit_id), at));
            }
            guard::check_proposal(&current.projection, proposal.map(|proposal| proposal.policy))?;
            decide(&current.projection, scanner, at)?
        }
        None => bootstrap(scanner, request, proposal, at)?,
    };
    match judge(decision, request, base.map(|current| &current.projection))? {
        Decision::Publish(generated) => {
            let at = generated.commit.at;
            Ok((Step::Write(generated), at))
        }
        Decision::Done { reason, commit_id } => Ok((Step::End(Outcome::Done { reason, commit_id }), at)),
        Decision::Nothing { reason, next, at } => Ok((Step::End(Outcome::Nothing { reason, next }), at)),
    }
}

/// Everything that can be refused before Git is touched (publication.md 2.1).
fn check_request(means: &Means<'_>, request: &FrozenRequest) -> Result<(), LedgerError> {
    let refuse = |code, message: &'static str| Err(LedgerError::from(Fault::new(code, message)));
    request.actor.check()?;
    if !means.repository.is(&request.actor.repository) {
        return refuse(Code::ActorUnauthorized, "the actor belongs to another repository");
    }
    let expected = fingerprint(&request.actor.canonical(), request.kind, request.parameters.as_str());
    if request.fingerprint != expected {
        return refuse(Code::RequestInvalid, "the fingerprint is not the request's");
    }
    if !request.actor.role.may_issue(request.kind) {
        return refuse(Code::ActorUnauthorized, "the role may not issue this kind of request");
    }
    Ok(())
}

/// After an attempt that was not acknowledged: reads again and looks for the request. A denial is raised only if
/// the request is not there, because a hook can accept first and decline then.
fn recover(
    register: &mut dyn Register,
    request: &FrozenRequest,
    at: At,
    lost: &mut Vec<Attempt>,
) -> Result<Option<Publication>, LedgerError> {
    let denial = lost.last().and_then(|attempt| match &attempt.result {
        PushOutcome::Denied(error) => Some(error.clone()),
        _ => None,
    });
    let queue = match (register.read(), &denial) {
        (Ok(queue), _) => queue,
        (Err(_), Some(denial)) => return Err(denial.clone()),
        (Err(error), None) => return Err(unresolved(lost, Some(&error))),
    };
    if let Queue::Present(current) = queue
        && let Some(commit_id) = committed(&current.projection, request)?
    {
        let outcome = Outcome::Recovered { commit_id };
        return Ok(Some(Publication { outcome, current, evaluated_at: at, lost: std::mem::take(lost) }));
    }
    match denial {
        Some(denial) => Err(denial),
        None => Ok(None),
    }
}
