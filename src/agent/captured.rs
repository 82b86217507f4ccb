//! A captured snapshot, replayed later (operator-cli.md 11). It is looked at and never becomes an authority: whoever has the
//! file may have written it, so that it holds together proves nothing about what a run did.

use super::snapshot::Snapshot;
use crate::engine::Projection;
use crate::protocol::actor::{Actor, Role};
use crate::protocol::assignment::Assignment;
use crate::protocol::fault::ensure;
use crate::protocol::json::Scanner;
use crate::protocol::{Code, Decimal, Fault, RuntimeRole};

/// A snapshot that holds together.
#[derive(Debug)]
pub struct Captured {
    /// The role of the run that captured it.
    pub role: RuntimeRole,
    /// What the file holds; its ledger's text is dropped.
    pub snapshot: Snapshot,
    /// The queue; none for an absent one.
    pub projection: Option<Projection>,
}

impl Captured {
    /// Checks a file's bytes and replays its ledger; `host` is that of external resources. The role defaults to that of a
    /// worker for a snapshot with an assignment, and of a dispatcher otherwise.
    ///
    /// # Errors
    /// As [`Snapshot::parse`] and [`Snapshot::view`]; `work_queue_snapshot_invalid` for an origin that names no run and
    /// workflow or is of another role, `work_queue_assignment_mismatch` for a worker whose dispatch is bound to another run.
    pub fn check(bytes: Vec<u8>, host: &str) -> Result<Self, Fault> {
        let snapshot = Snapshot::parse(bytes, host)?;
        let implied = if snapshot.worker.is_some() { RuntimeRole::Worker } else { RuntimeRole::Dispatcher };
        let role = snapshot.role.unwrap_or(implied);
        check_origin(&snapshot.origin, role)?;
        let mut view = snapshot.view(Some(role), &mut Scanner::new(host))?;
        if let (Some(projection), Some(assignment)) = (&view.projection, &view.snapshot.worker) {
            check_binding(projection, assignment, &view.snapshot.origin)?;
        }
        view.snapshot.log = String::new();
        Ok(Self { role, snapshot: view.snapshot, projection: view.projection })
    }

    /// True if this attempt of this run of the workflow captured it, in this repository.
    #[must_use]
    pub fn is_of(&self, repository: &str, workflow: &str, run_id: &Decimal, attempt: i64) -> bool {
        let origin = &self.snapshot.origin;
        origin.repository.as_str() == repository
            && origin.workflow.as_ref().is_some_and(|path| path.as_str() == workflow)
            && origin.run_id.as_ref() == Some(run_id)
            && origin.run_attempt.is_some_and(|own| own.get() == attempt)
    }
}

fn check_origin(origin: &Actor, role: RuntimeRole) -> Result<(), Fault> {
    let fits = match role {
        RuntimeRole::Observer => origin.role == Role::Producer,
        RuntimeRole::Dispatcher => origin.role == Role::Dispatcher,
        RuntimeRole::Worker => origin.role == Role::Worker,
    };
    ensure!(fits, WorkQueueSnapshotInvalid, "the snapshot's origin is of another role");
    let placed = origin.run_id.is_some() && origin.run_attempt.is_some() && origin.workflow.is_some();
    ensure!(placed, WorkQueueSnapshotInvalid, "the snapshot's origin names no run and workflow");
    Ok(())
}

/// The run that the ledger binds to a worker's dispatch must be the one that captured the snapshot.
fn check_binding(projection: &Projection, assignment: &Assignment, origin: &Actor) -> Result<(), Fault> {
    let other =
        || Fault::new(Code::WorkQueueAssignmentMismatch, "the snapshot's ledger binds the dispatch to another run");
    let dispatch = projection.dispatch(assignment.dispatch_id.as_str()).ok_or_else(other)?;
    let run = dispatch.run.as_ref().ok_or_else(other)?;
    let same = Some(&run.run_id) == origin.run_id.as_ref()
        && origin.run_attempt.is_some_and(|attempt| attempt.get() == 1)
        && run.repository.as_str() == origin.repository.as_str()
        && origin.workflow.as_ref().is_some_and(|workflow| workflow.as_str() == run.workflow.as_str())
        && run.principal == origin.principal
        && origin.dispatch_id.as_ref() == Some(&assignment.dispatch_id);
    if same { Ok(()) } else { Err(other()) }
}
