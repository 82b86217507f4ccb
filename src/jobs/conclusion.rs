//! The conclusion of a run (jobs.md 7.2): the queue as it stands now, read and checked anew, beside the activation
//! snapshot. It publishes nothing (jobs.md 7.4): what was left open is settled by later evidence.

use std::collections::BTreeMap;

use serde_json::Value;

use super::error::JobError;
use super::trace;
use super::world::World;
use crate::agent::snapshot::{Snapshot, SnapshotView};
use crate::engine::Projection;
use crate::ledger::Queue;
use crate::protocol::assignment::Assignment;
use crate::protocol::commit::Commit;
use crate::protocol::fault::ensure;
use crate::protocol::json::Writer;
use crate::protocol::{Code, Fault};
use crate::report::activity::{Activity, JobResult, UNAVAILABLE, activity};

/// Variable with `toJSON(needs)`.
const JOB_RESULTS: &str = "GH_AW_WORK_QUEUE_JOB_RESULTS";
/// Most jobs that are shown.
const MAX_JOBS: usize = 32;
/// Longest name of a job that is shown, in bytes.
const MAX_JOB_NAME: usize = 100;

/// What is told of a run's own Claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concluded {
    /// Work in the queue; none while it is absent.
    pub work: Option<usize>,
    /// Commits since activation.
    pub commits: usize,
    /// State and delivery of each own member, by its handle.
    pub own: Vec<(String, &'static str, &'static str)>,
}

/// Reads snapshot and queue, and summarises. A failure leaves a warning and an "unavailable" summary.
///
/// # Errors
/// `work_queue_snapshot_invalid` for a snapshot that is missing, malformed or of another run; as the queue is read.
pub fn run(world: &mut World<'_>) -> Result<Concluded, JobError> {
    let compared = compare(world);
    match &compared {
        Ok((text, _)) => write(world, text),
        Err(error) => {
            let category = error.category();
            let message = format!("{} ({}): {}", category.name, error.code(), category.explanation);
            world.outputs.warning("Work queue activity", &message);
            write(world, UNAVAILABLE);
        }
    }
    compared.map(|(_, concluded)| concluded)
}

/// A summary that cannot be written changes nothing.
fn write(world: &mut World<'_>, text: &str) {
    if world.outputs.summary(text).is_err() {
        world
            .outputs
            .warning("Work queue activity", "The step summary could not be written; nothing else is affected.");
    }
}

fn compare(world: &mut World<'_>) -> Result<(String, Concluded), JobError> {
    let SnapshotView { snapshot, projection: before, .. } = snapshot(world)?;
    let queue = match world.ledger.read()? {
        Queue::Present(current) => Some(current),
        Queue::Absent => None,
        Queue::EmptyRepository => return Err(Fault::from(Code::RepositoryUnavailable).into()),
    };
    let now = queue.as_ref().map(|current| &current.projection);
    let extends = match (&before, now) {
        (Some(before), Some(now)) => holds(now, before),
        (Some(_), None) => false,
        (None, _) => true,
    };
    ensure!(extends, LedgerNonextending, "the queue no longer extends what the activation captured");
    let known = before.as_ref().map_or(0, |before| before.requests().len());
    let (operations, compacted) = now.map_or_else(|| Ok((BTreeMap::new(), false)), |now| since(world, now, known))?;
    let commits = now.map_or(0, |now| now.requests().len().saturating_sub(known));
    let jobs = job_results(world.variables.get(JOB_RESULTS));
    let text = activity(&Activity {
        before: before.as_ref(),
        now,
        at: world.clock.now(),
        commits,
        operations: &operations,
        compacted,
        own: snapshot.worker.as_ref(),
        traced: trace::is_available(world.variables),
        jobs: &jobs,
    });
    let own = match (now, &snapshot.worker) {
        (Some(now), Some(assignment)) => own(now, assignment),
        _ => Vec::new(),
    };
    Ok((text, Concluded { work: now.map(|now| now.works().len()), commits, own }))
}

/// What `toJSON(needs)` says of the jobs before this one. It is shown and decides nothing, so what is malformed is left out.
fn job_results(text: Option<&str>) -> Vec<(String, JobResult)> {
    let needs = text.and_then(|text| serde_json::from_str::<BTreeMap<String, Value>>(text).ok()).unwrap_or_default();
    let named = |name: &str| {
        name.len() <= MAX_JOB_NAME
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    let result = |need: &Value| need.get("result")?.as_str().and_then(JobResult::parse);
    let told =
        needs.into_iter().filter_map(|(name, need)| result(&need).filter(|_| named(&name)).map(|how| (name, how)));
    told.take(MAX_JOBS).collect()
}

/// True if a queue holds what an earlier state of it ended with, compacted or not.
fn holds(now: &Projection, before: &Projection) -> bool {
    before
        .requests()
        .last()
        .is_none_or(|last| now.request(last.request_id.as_str()).is_some_and(|known| known.commit_id == last.commit_id))
}

/// The snapshot of this very run.
fn snapshot(world: &World<'_>) -> Result<SnapshotView, JobError> {
    let compiled = world.context.role()?;
    let missing = || Fault::new(Code::WorkQueueSnapshotInvalid, "the activation snapshot is missing");
    let snapshot = Snapshot::read(&world.paths.concluded_snapshot, world.host)?.ok_or_else(missing)?;
    let here = world.repository.is(&snapshot.origin.repository)
        && snapshot.origin.run_id.as_ref() == Some(world.context.run_id());
    ensure!(here, WorkQueueSnapshotInvalid, "the activation snapshot is of another run");
    Ok(snapshot.view(compiled, &mut world.scanner())?)
}

/// Operations of the commits after the first `known`, by name, and whether some are behind a checkpoint.
fn since(world: &World<'_>, now: &Projection, known: usize) -> Result<(BTreeMap<&'static str, usize>, bool), JobError> {
    let (mut counts, mut compacted) = (BTreeMap::new(), false);
    let mut scanner = world.scanner();
    for accepted in now.requests().skip(known) {
        let Some(source) = accepted.source.commit() else {
            compacted = true;
            continue;
        };
        for operation in &Commit::read(&mut scanner, source.text())?.operations {
            *counts.entry(operation.kind().as_str()).or_insert(0) += 1;
        }
    }
    Ok((counts, compacted))
}

fn own(now: &Projection, assignment: &Assignment) -> Vec<(String, &'static str, &'static str)> {
    let state = |claim_id: &str| match now.claim(claim_id) {
        Some(claim) => (claim.status.as_str(), now.work_of(claim).barrier().as_str()),
        None => ("unknown", "unknown"),
    };
    let member = |member: &crate::protocol::assignment::Member| {
        let (claim, delivery) = state(member.claim_id.as_str());
        (member.handle.as_str().to_owned(), claim, delivery)
    };
    assignment.claims.iter().map(member).collect()
}

impl Concluded {
    /// One JSON object.
    #[must_use]
    pub fn json(&self) -> String {
        let mut writer = Writer::new();
        writer.object(|members| {
            members.name("claims", |w| {
                w.array(&self.own, |w, (handle, state, delivery)| {
                    w.object(|members| {
                        members.name("claim_handle", |w| w.string(handle));
                        members.name("delivery", |w| w.string(delivery));
                        members.name("state", |w| w.string(state));
                    });
                });
            });
            members.name("commits", |w| w.integer(self.commits as i64));
            members.name("work", |w| match self.work {
                Some(work) => w.integer(work as i64),
                None => w.raw("null"),
            });
        });
        writer.finish()
    }
}
