//! The activation snapshot (jobs.md 3.6, 3.7): the queue as one run saw it, in one file that only activation writes.

use std::path::Path;

use super::file::{Refused, read_bounded};
use crate::engine::{Projection, replay};
use crate::protocol::actor::Actor;
use crate::protocol::assignment::Assignment;
use crate::protocol::fault::ensure;
use crate::protocol::json::{Node, Scanner, Writer};
use crate::protocol::ledger_text::LedgerText;
use crate::protocol::limits::{MAX_LEDGER_BYTES, MAX_READER_BYTES};
use crate::protocol::wire::{closed, list};
use crate::protocol::{At, Code, Fault, Revision, RuntimeRole, Text, Wire as _, WorkId};

/// Name of the file, wherever it is kept.
pub const SNAPSHOT_NAME: &str = "work-queue.snapshot.json";
/// Longest file, in bytes.
pub const MAX_SNAPSHOT_FILE: u64 = 162 * 1024 * 1024;
/// Most identities of a read filter.
const MAX_VISIBLE: usize = crate::protocol::limits::MAX_ARRAY;

/// What the file holds.
#[derive(Clone)]
pub struct Snapshot {
    /// Head of the queue branch; none while there was no branch.
    pub sha: Option<Revision>,
    /// The ledger's text; empty for an absent queue alone.
    pub log: String,
    /// The assignment of a worker's run.
    pub worker: Option<Assignment>,
    /// When it was captured: the clock of every prediction.
    pub captured_at: At,
    /// The run that captured it.
    pub origin: Actor,
    /// The role as display metadata, never as authority.
    pub role: Option<RuntimeRole>,
    /// The only Work that reads may show, if there is such a filter.
    pub visible: Option<Vec<WorkId>>,
}

/// A snapshot whose ledger was replayed.
#[derive(Debug)]
pub struct SnapshotView {
    /// The role in which the reader acts.
    pub role: RuntimeRole,
    /// The file's content.
    pub snapshot: Snapshot,
    /// The queue; none for an absent one.
    pub projection: Option<Projection>,
}

fn invalid(message: &'static str) -> Fault {
    Fault::new(Code::WorkQueueSnapshotInvalid, message)
}

impl Snapshot {
    /// The file's text: canonical JSON and a line feed.
    ///
    /// # Errors
    /// `ledger_limit` for a ledger of more than 80 MiB, `work_queue_snapshot_invalid` for more than 161 MiB in all.
    pub fn encode(&self) -> Result<String, Fault> {
        ensure!(self.log.len() <= MAX_LEDGER_BYTES, LedgerLimit, "the ledger is longer than 80 MiB");
        let mut writer = Writer::new();
        writer.object(|members| {
            members.name("captured_at", |w| self.captured_at.write(w));
            members.name("origin", |w| self.origin.write(w));
            if let Some(role) = self.role {
                members.name("role", |w| role.write(w));
            }
            members.name("sha", |w| match &self.sha {
                Some(sha) => sha.write(w),
                None => w.raw("null"),
            });
            members.name("transactionLog", |w| w.string(&self.log));
            members.name("version", |w| w.integer(3));
            if let Some(visible) = &self.visible {
                members.name("visible_work_ids", |w| w.array(visible, |w, id| id.write(w)));
            }
            members.name("worker", |w| match &self.worker {
                Some(assignment) => w.raw(&assignment.canonical()),
                None => w.raw("null"),
            });
        });
        let mut text = writer.finish();
        ensure!(
            text.len() <= MAX_READER_BYTES,
            WorkQueueSnapshotInvalid,
            "the snapshot exceeds its bounded limit of 161 MiB"
        );
        text.push('\n');
        Ok(text)
    }

    /// Reads the file's bytes; `host` is that of external resources.
    ///
    /// # Errors
    /// `work_queue_snapshot_invalid`, `ledger_limit`, `claim_scope_invalid` for its assignment.
    pub fn parse(bytes: Vec<u8>, host: &str) -> Result<Self, Fault> {
        let mut text = String::from_utf8(bytes).map_err(|_| invalid("the snapshot is not UTF-8 text"))?;
        if text.ends_with('\n') {
            text.pop();
        }
        ensure!(text.len() <= MAX_READER_BYTES, WorkQueueSnapshotInvalid, "the snapshot is longer than 161 MiB");
        let mut scanner = Scanner::new(host);
        let document = scanner.read(&Text::from(text)).map_err(|_| invalid("the snapshot is not strict JSON"))?;
        Self::of(document.root())
    }

    fn of(node: Node<'_>) -> Result<Self, Fault> {
        const CODE: Code = Code::WorkQueueSnapshotInvalid;
        const NAMES: &[(&str, bool); 8] = &[
            ("version", true),
            ("sha", true),
            ("transactionLog", true),
            ("worker", true),
            ("captured_at", true),
            ("origin", true),
            ("visible_work_ids", false),
            ("role", false),
        ];
        let [Some(version), Some(sha), Some(log), Some(worker), Some(captured_at), Some(origin), visible, role] =
            closed(node, NAMES, CODE)?
        else {
            return Err(CODE.into());
        };
        let shape = |_| invalid("a member of the snapshot is malformed");
        ensure!(version.integer() == Some(3), WorkQueueSnapshotInvalid, "the snapshot is not of version 3");
        let log = log.string().ok_or_else(|| invalid("the snapshot's ledger is no text"))?;
        ensure!(log.len() <= MAX_LEDGER_BYTES, LedgerLimit, "the snapshot's ledger is longer than 80 MiB");
        Ok(Self {
            sha: if sha.is_null() { None } else { Some(Revision::read(sha, CODE)?) },
            log: log.as_str().to_owned(),
            worker: if worker.is_null() { None } else { Some(Assignment::read(worker)?) },
            captured_at: At::read(captured_at, CODE)?,
            origin: Actor::read(origin, CODE).map_err(shape)?,
            role: role.map(|role| RuntimeRole::read(role, CODE)).transpose()?,
            visible: visible.map(|ids| list(ids, 0, MAX_VISIBLE, CODE)).transpose().map_err(shape)?,
        })
    }

    /// Reads a file; none if it is not there. It must be plain, with one name, and at most 162 MiB long.
    ///
    /// # Errors
    /// As [`Snapshot::parse`].
    pub fn read(path: &Path, host: &str) -> Result<Option<Self>, Fault> {
        let bytes = read_bounded(path, MAX_SNAPSHOT_FILE).map_err(|refused| match refused {
            Refused::NotPlain => invalid("the snapshot is no plain file with one name"),
            Refused::TooLong => invalid("the snapshot is longer than 162 MiB"),
            Refused::Unreadable => invalid("the snapshot could not be read"),
        })?;
        bytes.map(|bytes| Self::parse(bytes, host)).transpose()
    }

    /// Checks the snapshot for a reader with this protected, compiled role (none if the reader was given none), and
    /// replays its ledger.
    ///
    /// # Errors
    /// `work_queue_runtime_role_conflict` for another role than the compiled one; `claim_scope_invalid` for a worker
    /// without assignment, an assignment without a worker, and an observer that was not compiled as one;
    /// `work_queue_policy_missing` for a worker without a queue and for a ledger without a Policy;
    /// `work_queue_assignment_mismatch` for an assignment that the ledger does not hold; otherwise the ledger's code.
    pub fn view(self, compiled: Option<RuntimeRole>, scanner: &mut Scanner) -> Result<SnapshotView, Fault> {
        if let (Some(compiled), Some(stated)) = (compiled, self.role) {
            ensure!(compiled == stated, WorkQueueRuntimeRoleConflict, "the snapshot was captured in another role");
        }
        let assigned = self.worker.is_some();
        let implied = if assigned { RuntimeRole::Worker } else { RuntimeRole::Dispatcher };
        let role = compiled.or(self.role).unwrap_or(implied);
        ensure!(
            (role == RuntimeRole::Worker) == assigned,
            ClaimScopeInvalid,
            "a worker and nobody else has an assignment"
        );
        ensure!(
            role != RuntimeRole::Observer || compiled.is_some(),
            ClaimScopeInvalid,
            "a snapshot alone makes nobody an observer"
        );
        if self.log.is_empty() {
            ensure!(self.sha.is_none() && !assigned, WorkQueuePolicyMissing, "the snapshot holds no queue");
            return Ok(SnapshotView { role, snapshot: self, projection: None });
        }
        ensure!(self.sha.is_some(), WorkQueueSnapshotInvalid, "the snapshot holds a queue without its revision");
        let text = LedgerText::new(self.log.clone().into_bytes()).map_err(|fault| fault.fault)?;
        let projection = replay(&text, scanner).map_err(|fault| match fault.fault.code() {
            Code::PolicyMissing => Code::WorkQueuePolicyMissing.into(),
            _ => fault.fault,
        })?;
        if let Some(assignment) = &self.worker {
            let stored = projection.dispatch(assignment.dispatch_id.as_str());
            ensure!(
                stored.is_some_and(|stored| stored.assignment.canonical() == assignment.canonical()),
                WorkQueueAssignmentMismatch,
                "the snapshot's ledger does not hold its assignment"
            );
        }
        Ok(SnapshotView { role, snapshot: self, projection: Some(projection) })
    }
}

/// Sizes alone: payloads stay out of logs.
impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({} bytes)", self.log.len())
    }
}
