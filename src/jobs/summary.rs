//! What follows every publication of a job: the view of a checked commit in the step summary (publication.md 2.8), and
//! the span of the publication (jobs.md 10). Both happen where the queue is written, so no job can forget them, and
//! neither can change what was published.

use std::cell::RefCell;
use std::sync::Arc;

use super::error::JobError;
use super::trace::{Span, Tracer};
use super::world::World;
use crate::ledger::publisher::Decide;
use crate::ledger::{Current, Ledger, LedgerError, Outcome, Proposal, Publication, PushOutcome, Queue};
use crate::protocol::commit::{Commit, FrozenRequest};
use crate::protocol::json::{self, Scanner};
use crate::protocol::request::RequestKind;
use crate::protocol::{At, Fault};
use crate::report::commit_view::{MAX_VIEWS, NO_MORE_VIEWS, commit_view};
use crate::runner::output::Outputs;

/// Does a job's work on a queue whose checked commits are summarised. Tests that make a world of their own do the same.
///
/// # Errors
/// As the work itself.
pub fn summarized<T>(
    world: &mut World<'_>,
    work: impl FnOnce(&mut World<'_>) -> Result<T, JobError>,
) -> Result<T, JobError> {
    let tracer =
        Tracer { variables: world.variables, file: &world.paths.spans, clock: world.clock, entropy: world.entropy };
    let outputs: &mut dyn Outputs = &mut *world.outputs;
    let shared = RefCell::new(outputs);
    let scanner = Scanner::new(world.host);
    let mut ledger = Summarizing { inner: &mut *world.ledger, outputs: Shared(&shared), tracer, scanner, views: 0 };
    work(&mut World {
        ledger: &mut ledger,
        outputs: &mut Shared(&shared),
        context: world.context,
        client: world.client,
        clock: world.clock,
        entropy: world.entropy,
        paths: world.paths,
        variables: world.variables,
        staged: world.staged,
        host: world.host,
        repository: world.repository,
    })
}

/// One set of outputs for the job and for the queue that it writes.
struct Shared<'r, 'o>(&'r RefCell<&'o mut dyn Outputs>);

impl Outputs for Shared<'_, '_> {
    fn set_all(&mut self, values: &[(&str, &str)]) -> Result<(), Fault> {
        self.0.borrow_mut().set_all(values)
    }

    fn export(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        self.0.borrow_mut().export(name, value)
    }

    fn summary(&mut self, markdown: &str) -> Result<(), Fault> {
        self.0.borrow_mut().summary(markdown)
    }

    fn error(&mut self, title: &str, message: &str) {
        self.0.borrow_mut().error(title, message);
    }

    fn warning(&mut self, title: &str, message: &str) {
        self.0.borrow_mut().warning(title, message);
    }

    fn note(&mut self, line: &str) {
        self.0.borrow_mut().note(line);
    }

    fn mask(&mut self, secret: &str) {
        self.0.borrow_mut().mask(secret);
    }
}

/// A queue that tells of what is published to it.
struct Summarizing<'l, 'o> {
    inner: &'l mut dyn Ledger,
    outputs: Shared<'l, 'o>,
    tracer: Tracer<'l>,
    scanner: Scanner,
    /// Views so far, the notice included.
    views: usize,
}

impl Ledger for Summarizing<'_, '_> {
    fn read(&mut self) -> Result<Queue, LedgerError> {
        self.inner.read()
    }

    fn read_present(&mut self) -> Result<Arc<Current>, LedgerError> {
        self.inner.read_present()
    }

    fn publish(
        &mut self,
        request: &FrozenRequest,
        proposal: Option<&Proposal<'_>>,
        decide: &mut Decide<'_>,
    ) -> Result<Publication, LedgerError> {
        let begun = self.tracer.clock.now();
        let published = self.inner.publish(request, proposal, decide);
        self.trace(request, begun, &published);
        if let Ok(publication) = &published {
            self.summarize(request, publication);
        }
        published
    }
}

impl Summarizing<'_, '_> {
    /// Appends the view of a commit that this very call wrote, also where its acknowledgement was lost. A request that
    /// was found committed, changed nothing or had nothing to grant adds none.
    fn summarize(&mut self, request: &FrozenRequest, publication: &Publication) {
        let wrote = matches!(publication.outcome, Outcome::PublishedNow { .. } | Outcome::Recovered { .. });
        if !wrote || self.views > MAX_VIEWS {
            return;
        }
        self.views += 1;
        let projection = &publication.current.projection;
        let source = projection.request(request.id.as_str()).and_then(|accepted| accepted.source.commit());
        let view = if self.views > MAX_VIEWS {
            NO_MORE_VIEWS.to_owned()
        } else {
            let commit = source.map(|source| Commit::read(&mut self.scanner, source.text()));
            let Some(Ok(commit)) = commit else { return };
            commit_view(projection, &commit, publication.evaluated_at)
        };
        if self.outputs.summary(&view).is_err() {
            let message = "A view of the queue could not be written; what was published stands.";
            self.outputs.warning("Work queue summary", message);
        }
    }

    fn trace(&self, request: &FrozenRequest, begun: At, published: &Result<Publication, LedgerError>) {
        let schedules = request.kind == RequestKind::DispatchNext;
        let phase = if schedules { "work-queue.schedule.run" } else { "work-queue.publish.run" };
        let mut span = Span { result: result(published), mode: Some(request.kind.as_str()), ..Span::default() };
        span.references.push(("request_id", request.id.as_str().to_owned()));
        if let Ok(publication) = published {
            let projection = &publication.current.projection;
            span.references.push(("branch_sha", publication.current.commit.to_string()));
            let commit = publication.outcome.commit_id();
            span.references.extend(commit.map(|id| ("commit_id", id.as_str().to_owned())));
            if let Some(accepted) = projection.request(request.id.as_str()) {
                for claim in projection.granted(accepted) {
                    span.references.push(("dispatch_id", claim.claim.dispatch_id.as_str().to_owned()));
                    span.references.push(("claim_ref", claim.claim.claim_id.as_str().to_owned()));
                }
            }
            span.attempts = publication
                .lost
                .iter()
                .map(|lost| (lost.number, lost.observed.map(|sha| sha.to_string()), lost_word(&lost.result)))
                .collect();
        }
        if schedules {
            span.pool = pool(request);
        }
        self.tracer.record(phase, begun, &span);
    }
}

/// The pool that a dispatch request names.
fn pool(request: &FrozenRequest) -> Option<String> {
    match json::parse(request.parameters.as_str()).ok()?.get("pool")? {
        json::Value::String(pool) => Some(pool.clone()),
        _ => None,
    }
}

/// How a publication ended, in a stable word.
fn result(published: &Result<Publication, LedgerError>) -> &'static str {
    match published.as_ref().map(|publication| &publication.outcome) {
        Err(error) => error.code().as_str(),
        Ok(Outcome::PublishedNow { .. }) => "published",
        Ok(Outcome::Recovered { .. }) => "recovered",
        Ok(Outcome::AlreadyCommitted { .. }) => "request_replayed",
        Ok(Outcome::Done { reason, .. } | Outcome::Nothing { reason, .. }) => reason,
    }
}

fn lost_word(result: &PushOutcome) -> &'static str {
    match result {
        PushOutcome::Acknowledged => "acknowledged",
        PushOutcome::UpToDate | PushOutcome::Conflict => "publish_conflict",
        PushOutcome::Denied(_) => "denied",
        PushOutcome::Ambiguous(_) => "unknown",
    }
}
