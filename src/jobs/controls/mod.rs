//! Phase `controls` of the safe outputs (jobs.md 5.3): the staged submissions and grants of an agent, published by a job
//! that the agent cannot reach. Each intent is one request with a stable id; one that fails stops none of the others.

mod config;
mod desk;
mod dispatch;
mod launches;
mod submit;

pub use config::{ControlConfig, LaunchCredential};
pub use desk::Requester;
pub use submit::expected;

use std::io::Write as _;

use crate::agent::intent::{Batch, Intent, IntentKind, parse_batch};
use crate::protocol::fault::ensure;
use crate::protocol::json::Scanner;
use crate::protocol::selector::select;
use crate::protocol::{Code, Fault, Handle, RuntimeRole, Text};
use crate::report::receipt::{Document, Receipt, Status, Trouble};

use super::error::JobError;
use super::given::{Given, is_enabled, staged_file};
use super::readers::Connect;
use super::world::World;
use desk::Desk;

/// The outputs of this phase.
const REQUESTS: &str = "work_queue_requests";
const STATUS: &str = "work_queue_controls_status";
/// The file of receipts.
pub const RECEIPTS_NAME: &str = "work-queue.receipts.json";

/// Publishes the staged controls of this run and leaves a receipt of each, in the step's outputs, its summary and a file.
///
/// # Errors
/// The first trouble, after everything else was done: a blocked intent, a launch that is not settled, or one that the host
/// refused. Whatever could not be begun at all is a receipt of its own.
pub fn run(world: &mut World<'_>, connect: &dyn Connect) -> Result<Document, JobError> {
    if !is_enabled(world) {
        return Ok(Document::default());
    }
    tracing::debug!(target: "work-queue:dispatch", "controls.start");
    let (document, error) = match attempt(world, connect) {
        Ok(done) => done,
        Err(error) => {
            let receipts = vec![Receipt::blocked(None, trouble(&error))];
            (Document { receipts, remaining: 0 }, Some(error))
        }
    };
    publish(world, &document)?;
    let tally = document.tally();
    let recovery_required = tally.needs_recovery();
    if recovery_required {
        tracing::debug!(target: "work-queue:dispatch", failed = true, blocked = tally.blocked, unresolved = tally.unresolved, rejected = tally.rejected, "controls.blocked");
    }
    tracing::debug!(
        target: "work-queue:dispatch",
        durable = tally.durable,
        blocked = tally.blocked,
        unresolved = tally.unresolved,
        recovery_required,
        "controls.complete"
    );
    match error.or_else(|| failure(&document)) {
        Some(error) => Err(error),
        None => Ok(document),
    }
}

/// What the step fails with.
fn failure(document: &Document) -> Option<JobError> {
    let tally = document.tally();
    let code = match document.trouble() {
        Some(trouble) => trouble.code,
        None if tally.unresolved > 0 => Code::LaunchUnresolved,
        None if tally.rejected > 0 => Code::LaunchRejected,
        None => return None,
    };
    Some(JobError::new(code, "a staged control was not carried out; its receipt says which and why"))
}

/// The four words that diagnostic, receipt, summary and annotation share.
pub(super) fn trouble(error: &JobError) -> Trouble {
    let category = error.category();
    Trouble { code: error.code(), reason: category.name, explanation: category.explanation, action: category.action }
}

/// The receipts, and what the first intent that was not carried out ended with.
fn attempt(world: &mut World<'_>, connect: &dyn Connect) -> Result<(Document, Option<JobError>), JobError> {
    let given = Given::read(world)?;
    let batch = match staged_file(&world.paths.intents).and_then(|bytes| parse_batch(&bytes, &mut world.scanner())) {
        Ok(batch) => batch,
        Err(fault) => return Ok((unreadable(fault), None)),
    };
    tracing::debug!(
        target: "work-queue:dispatch",
        intents = batch.intents.len(),
        parse_errors = batch.errors.len(),
        "intents.process.start"
    );
    if batch.intents.is_empty() && batch.errors.is_empty() {
        return Ok((Document::default(), None));
    }
    let mut receipts = line_receipts(&batch);
    if given.role == RuntimeRole::Observer {
        let error = JobError::from(Fault::from(Code::WorkQueueObserverReadOnly));
        receipts.extend(batch.intents.iter().map(|intent| blocked(intent, &error)));
        return Ok((Document { receipts, remaining: 0 }, Some(error)));
    }
    let config = ControlConfig::read(world)?;
    let mut desk = Desk::new(world, &given, &config, connect)?;
    for intent in &batch.intents {
        receipts.push(desk.process(intent));
    }
    // A defective line comes first in the receipts, so its category is the step's.
    let failed = desk.failed.take().filter(|_| batch.errors.is_empty());
    let document = Document { receipts, remaining: desk.remaining() };
    tracing::debug!(
        target: "work-queue:dispatch",
        receipts = document.receipts.len(),
        remaining_dispatches = document.remaining,
        "intents.process.complete"
    );
    Ok((document, failed))
}

/// A file that cannot be read as intents at all is one blocked receipt, and nothing is left to launch.
fn unreadable(fault: Fault) -> Document {
    let error = JobError::from(fault);
    let trouble = Trouble { reason: "staged_queue_intents_invalid", ..trouble(&error) };
    Document { receipts: vec![Receipt::blocked(None, trouble)], remaining: 0 }
}

fn line_receipts(batch: &Batch) -> Vec<Receipt> {
    let receipt = |error: &crate::agent::intent::LineError| {
        let intent_id = error.intent_id.as_ref().map(|id| id.as_str().to_owned());
        let trouble = Trouble { reason: error.code.as_str(), ..trouble(&JobError::from(Fault::from(error.code))) };
        Receipt { line: Some(error.line), ..Receipt::blocked(intent_id, trouble) }
    };
    batch.errors.iter().map(receipt).collect()
}

fn blocked(intent: &Intent, error: &JobError) -> Receipt {
    let receipt = Receipt::blocked(Some(intent.intent_id.as_str().to_owned()), trouble(error));
    Receipt { claim_handle: intent.claim_handle.as_ref().map(|handle| handle.as_str().to_owned()), ..receipt }
}

impl Desk<'_> {
    /// One intent from its line to its receipt.
    fn process(&mut self, intent: &Intent) -> Receipt {
        let (dispatch, submit) = (intent.kind == IntentKind::DispatchNext, intent.kind == IntentKind::Submit);
        tracing::debug!(target: "work-queue:dispatch", dispatch, submit, "intent.process.start");
        match self.carry_out(intent) {
            Ok(receipt) => receipt,
            Err(error) => {
                tracing::debug!(target: "work-queue:dispatch", failed = true, http_status = error.status(), "intent.process.blocked");
                let receipt = blocked(intent, &error);
                self.failed.get_or_insert(error);
                receipt
            }
        }
    }

    fn carry_out(&mut self, intent: &Intent) -> Result<Receipt, JobError> {
        let handle = self.scope_of(intent)?;
        let who = self.requester(handle.as_ref())?;
        let receipt = match intent.kind {
            IntentKind::Finish => return Err(Fault::from(Code::WorkQueueControlIntentInvalid).into()),
            IntentKind::Submit => self.submit(intent, &who),
            IntentKind::DispatchNext => self.dispatch_next(intent, &who),
        }?;
        Ok(Receipt { claim_handle: handle.map(|handle| handle.as_str().to_owned()), ..receipt })
    }

    /// The Claim that an intent is for: none for a dispatcher, who may name none, and one of the original assignment for a
    /// worker, by the one normalizer.
    fn scope_of(&mut self, intent: &Intent) -> Result<Option<Handle>, Fault> {
        if intent.kind == IntentKind::Finish {
            return Err(Code::WorkQueueControlIntentInvalid.into());
        }
        let Some(assignment) = self.assignment() else {
            ensure!(
                intent.claim_handle.is_none(),
                WorkQueueClaimScopeInvalid,
                "a dispatcher holds no Claim to act for"
            );
            return Ok(None);
        };
        let mut scanner = Scanner::new("");
        let document = scanner.read(&Text::from(intent.canonical()))?;
        select(document.root(), assignment).map(|member| Some(member.handle.clone()))
    }
}

/// Receipts to the outputs, the summary and the file.
fn publish(world: &mut World<'_>, document: &Document) -> Result<(), JobError> {
    let json = document.json();
    let set = world.outputs.set_all(&[(REQUESTS, &json), (STATUS, document.status())]);
    if world.outputs.summary(&document.markdown()).is_err() {
        world.outputs.warning("Work queue", "The step summary could not be written. The queue is not affected.");
    }
    // Beside the intents that they are the receipts of.
    let folder = world.paths.intents.parent().unwrap_or(&world.paths.base);
    if write_file(folder, RECEIPTS_NAME, json.as_bytes()).is_err() {
        world.outputs.warning("Work queue", "The file of receipts could not be written. The queue is not affected.");
    }
    let tally = document.tally();
    let line = format!(
        "Work queue controls: {} durable requests, {} blocked intents, {} unresolved launches",
        tally.durable, tally.blocked, tally.unresolved
    );
    world.outputs.note(&line);
    Ok(set?)
}

/// Puts a file in place whole: a link or an older file of that name is replaced, never written through.
pub(super) fn write_file(folder: &std::path::Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().prefix(".wq-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.write_all(b"\n")?;
    file.persist(folder.join(name)).map_err(|error| error.error)?;
    Ok(())
}

/// A staged preview of an intent: checked, and nothing written.
fn preview(intent: &Intent) -> Receipt {
    Receipt::new(Some(intent.intent_id.as_str().to_owned()), Status::StagedPreview)
}
