//! The ledger.

use super::{Findings, Level};
use crate::cli::access::Access;
use crate::cli::{Failure, Global};
use crate::ledger::{Current, Queue};
use crate::protocol::limits::MAX_LEDGER_BYTES;

/// Reads and checks the queue as every command does.
pub(super) fn look(global: &Global, findings: &mut Findings) {
    match read(global) {
        Ok(Queue::Present(current)) => describe(&current, findings),
        Ok(Queue::Absent) => findings.add(
            Level::Note,
            "queue_missing",
            "there is no queue on this branch yet",
            "The first submission makes it. If there was one, its requests, reservations and evidence will be unknown.",
        ),
        Ok(Queue::EmptyRepository) => findings.add(
            Level::Warning,
            "repository_unavailable",
            "the repository shows no default branch",
            "Push a first commit with the workers to the default branch.",
        ),
        Err(failure) => findings.failed(Level::Error, &failure),
    }
}

fn read(global: &Global) -> Result<Queue, Failure> {
    Ok(Access::open(global)?.publisher()?.read()?)
}

fn describe(current: &Current, findings: &mut Findings) {
    let projection = &current.projection;
    let stats = projection.stats();
    findings.ok("ledger", format!("the ledger is valid: {} commits, {} Work", projection.active().count(), stats.work));
    let percent = projection.ledger_bytes() * 100 / MAX_LEDGER_BYTES as u64;
    if percent >= 50 {
        findings.add(
            Level::Warning,
            "ledger_size",
            format!("the ledger has used {percent} % of the largest size"),
            "Replace its history by a checkpoint with wq compact.",
        );
    }
    for (paused, what, resume) in [
        (projection.admission_paused(), "admission of new Work", "admission"),
        (projection.grants_paused(), "granting", "grants"),
    ] {
        if paused {
            findings.add(
                Level::Note,
                "paused",
                format!("{what} is paused"),
                format!("Resume it with wq control resume {resume} --reason CODE when the cause is gone."),
            );
        }
    }
}
