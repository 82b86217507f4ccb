//! The snapshot that a run captured, for `replay --run-id` and `--file` (operator-cli.md 11): where it comes from, and what
//! is shown of it, which is metadata and counts.

use std::path::Path;

use super::access::{Access, host};
use super::input::{self, Refused};
use super::prediction::{Prediction, Question};
use super::{Failure, Global, Reply};
use crate::agent::captured::Captured;
use crate::agent::snapshot::{MAX_SNAPSHOT_FILE, SNAPSHOT_NAME};
use crate::engine::Projection;
use crate::forge::{ARTIFACTS_PER_PAGE, Artifact, Client, archive};
use crate::protocol::json::{Members, Writer};
use crate::protocol::{Code, Decimal, Fault, RepositoryName, Wire as _};
use crate::report::{counts, label};

/// Most pages of artifacts that are looked through.
const MAX_PAGES: usize = 20;
/// Most bytes of all archives that are downloaded, and of all snapshots that are read from them.
const MAX_TOGETHER: u64 = MAX_SNAPSHOT_FILE;

/// A snapshot and where it was found.
pub(super) struct Found {
    captured: Captured,
    artifact: Option<(Artifact, Decimal, i64)>,
}

impl Found {
    /// When it was captured.
    pub(super) fn captured_at(&self) -> i64 {
        self.captured.snapshot.captured_at.get()
    }
}

/// Reads a downloaded snapshot.
pub(super) fn of_file(path: &Path) -> Result<Found, Failure> {
    let most = usize::try_from(MAX_SNAPSHOT_FILE).unwrap_or(usize::MAX);
    let bytes = input::read(path, most).map_err(|refused| match refused {
        Refused::TooLong => invalid(&Fault::new(Code::ResourceLimit, "the snapshot is longer than 162 MiB")),
        Refused::Unreadable(failure) => failure,
    })?;
    let captured = Captured::check(bytes, host()?.name()).map_err(|fault| invalid(&fault))?;
    Ok(Found { captured, artifact: None })
}

/// Looks through the artifacts of a run for the snapshot of its current attempt. A candidate that is defective is an error,
/// whatever else is there.
pub(super) fn of_run(global: &Global, run_id: &str) -> Result<Found, Failure> {
    let run_id = Decimal::new(run_id.to_owned()).map_err(|fault| Failure::flag(&fault, "--run-id"))?;
    let access = Access::open(global)?;
    let (client, repository) = (access.github()?.client(), access.name());
    let run = client.run(repository, &run_id)?;
    let attempt = run.run_attempt.and_then(|attempt| i64::try_from(attempt).ok()).unwrap_or(1);
    let workflow = run.path.split('@').next().unwrap_or(&run.path);
    let (mut to_download, mut to_read) = (MAX_TOGETHER, MAX_TOGETHER);
    let mut found: Option<Found> = None;
    for artifact in candidates(client, repository, &run_id)? {
        let archive = download(client, repository, &artifact, &mut to_download)?;
        for captured in snapshots(&archive, &mut to_read, access.host().name())? {
            if !captured.is_of(repository.as_str(), workflow, &run_id, attempt) {
                continue;
            }
            if found.is_some() {
                return Err(Failure::new(
                    Code::SnapshotAmbiguous,
                    Code::SnapshotAmbiguous.meaning(),
                    "Download the right one yourself and replay it with --file.",
                ));
            }
            found = Some(Found { captured, artifact: Some((artifact.clone(), run_id.clone(), attempt)) });
        }
    }
    found.ok_or_else(|| {
        Failure::new(
            Code::SnapshotMissing,
            Code::SnapshotMissing.meaning(),
            "Check the run id and how long artifacts are kept; a downloaded snapshot replays with --file.",
        )
    })
}

fn too_much(what: &'static str) -> Failure {
    Failure::new(Code::ResourceLimit, what, "Download the right artifact yourself and replay it with --file.")
}

/// The activation artifacts of a run that can still be downloaded: its own, and those of workflows that it calls.
fn candidates(client: Client<'_>, repository: &RepositoryName, run_id: &Decimal) -> Result<Vec<Artifact>, Failure> {
    let mut found = Vec::new();
    for page in 1..=MAX_PAGES {
        let artifacts = client.artifacts(repository, run_id, page)?;
        let last = artifacts.len() < ARTIFACTS_PER_PAGE;
        let activates = |name: &str| name == "activation" || name.ends_with("-activation");
        found.extend(artifacts.into_iter().filter(|artifact| !artifact.expired && activates(&artifact.name)));
        if last {
            return Ok(found);
        }
    }
    Err(too_much("the run has more than 2000 artifacts"))
}

/// Downloads an archive, within what is left of the bound on all of them.
fn download(
    client: Client<'_>,
    repository: &RepositoryName,
    artifact: &Artifact,
    left: &mut u64,
) -> Result<Vec<u8>, Failure> {
    let over = || too_much("the run's activation artifacts have more than 162 MiB together");
    if artifact.size_in_bytes > *left {
        return Err(over());
    }
    let archive = client.artifact_archive(repository, &artifact.id, *left)?.ok_or_else(over)?;
    *left -= archive.len() as u64;
    Ok(archive)
}

/// Every snapshot of an archive, within what is left of the bound on all of them.
fn snapshots(bytes: &[u8], left: &mut u64, host: &str) -> Result<Vec<Captured>, Failure> {
    let mut found = Vec::new();
    for entry in archive::entries(bytes).map_err(|fault| invalid(&fault))? {
        if entry.base_name() != SNAPSHOT_NAME.as_bytes() {
            continue;
        }
        if entry.size() > *left {
            return Err(too_much("the run's snapshots have more than 162 MiB together"));
        }
        let content = entry.read(*left).map_err(|fault| invalid(&fault))?;
        *left -= content.len() as u64;
        found.push(Captured::check(content, host).map_err(|fault| invalid(&fault))?);
    }
    Ok(found)
}

/// A snapshot that does not hold together, by its code alone: a message could quote what somebody wrote into it.
fn invalid(fault: &Fault) -> Failure {
    let message = format!("the snapshot is refused: {}", fault.code().meaning());
    let failure = Failure::new(fault.code(), message, "Find out who wrote it; nothing was changed.");
    Failure { exit: 3, ..failure }
}

/// What is shown of a snapshot, with a prediction for the moment of its capture if one was asked for.
pub(super) fn reply(found: &Found, asked: Option<&Question>, json: bool) -> Result<Reply, Failure> {
    let projection = found.captured.projection.as_ref();
    let prediction = match (asked, projection) {
        (None, _) => None,
        (Some(asked), Some(projection)) => Some((asked, asked.ask(projection)?)),
        (Some(_), None) => {
            return Err(Failure::new(
                Code::PolicyMissing,
                "the snapshot holds no queue, so nothing can be predicted",
                "Leave out --pool, or replay a later run's snapshot.",
            ));
        }
    };
    if let Some((_, Prediction { plan: Err(fault), .. })) = &prediction {
        return Err(Failure::from(fault.clone()).at_request());
    }
    if !json {
        return Ok(Reply::done(text(found, prediction.as_ref())));
    }
    let snapshot = &found.captured.snapshot;
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("captured_at", |w| snapshot.captured_at.write(w));
        members.name("evaluated_at", |w| snapshot.captured_at.write(w));
        members.name("repository", |w| snapshot.origin.repository.write(w));
        members.name("role", |w| found.captured.role.write(w));
        members.name("sha", |w| match &snapshot.sha {
            Some(sha) => sha.write(w),
            None => w.raw("null"),
        });
        members.name("source", |w| w.object(|source| source_members(found, source)));
        members.name("status", |w| w.string("snapshot_replay"));
        members.name("workflow", |w| w.string(snapshot.origin.workflow.as_ref().map_or("", |path| path.as_str())));
        queue_members(projection, members);
        assignment_member(found, members);
        if let Some((asked, prediction)) = &prediction {
            members.name("prediction", |w| w.object(|members| prediction_members(asked, prediction, members)));
        }
    });
    Ok(Reply::done(writer.finish()))
}

fn source_members(found: &Found, members: &mut Members<'_>) {
    let Some((artifact, run_id, attempt)) = &found.artifact else {
        return members.name("kind", |w| w.string("file"));
    };
    members.name("artifact_id", |w| artifact.id.write(w));
    members.name("artifact_name", |w| w.string(&artifact.name));
    members.name("kind", |w| w.string("artifact"));
    members.name("run_attempt", |w| w.integer(*attempt));
    members.name("run_id", |w| run_id.write(w));
}

/// Counts of the queue; those of an absent one are zero.
fn queue_members(projection: Option<&Projection>, members: &mut Members<'_>) {
    let installed = projection.and_then(Projection::installed);
    let absent = Projection::empty();
    let stats = projection.unwrap_or(&absent).stats();
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    members.name("admission_paused", |w| w.bool(projection.is_some_and(Projection::admission_paused)));
    members.name("commit_count", |w| w.integer(number(stats.transactions)));
    members.name("grants_paused", |w| w.bool(projection.is_some_and(Projection::grants_paused)));
    members.name("policy_epoch", |w| match installed {
        Some(installed) => installed.epoch.write(w),
        None => w.raw("null"),
    });
    members.name("policy_installed", |w| w.bool(installed.is_some()));
    members.name("stats", |w| {
        w.object(|members| {
            let states = stats.counts;
            members.name("available", |w| w.integer(number(states.available)));
            members.name("cancelled", |w| w.integer(number(states.cancelled)));
            members.name("claimed", |w| w.integer(number(states.claimed)));
            members.name("claims", |w| w.integer(number(stats.claims)));
            members.name("completed", |w| w.integer(number(states.completed)));
            members.name("dispatches", |w| w.integer(number(stats.dispatches)));
            members.name("nodes", |w| w.integer(number(stats.nodes)));
            members.name("transactions", |w| w.integer(number(stats.transactions)));
            members.name("work", |w| w.integer(number(stats.work)));
        });
    });
    members.name("tip", |w| match projection.and_then(Projection::tip) {
        Some(tip) => tip.write(w),
        None => w.raw("null"),
    });
}

/// A worker's assignment: names and states, no payloads.
fn assignment_member(found: &Found, members: &mut Members<'_>) {
    let (Some(assignment), Some(projection)) = (&found.captured.snapshot.worker, &found.captured.projection) else {
        return;
    };
    let dispatch = projection.dispatch(assignment.dispatch_id.as_str());
    members.name("assignment", |w| {
        w.object(|members| {
            members.name("claims", |w| {
                w.array(&assignment.claims, |w, member| {
                    let claim = projection.claim(member.claim_id.as_str());
                    let barrier = claim.map(|claim| projection.work_of(claim).barrier().as_str());
                    w.object(|members| {
                        members.name("claim_handle", |w| member.handle.write(w));
                        members.name("claim_id", |w| member.claim_id.write(w));
                        members.name("delivery_barrier", |w| w.string(barrier.unwrap_or("none")));
                        members.name("state", |w| w.string(claim.map_or("", |claim| claim.status.as_str())));
                        members.name("work_id", |w| member.work_id.write(w));
                    });
                });
            });
            members.name("commit_id", |w| assignment.commit_id.write(w));
            members.name("dispatch_id", |w| assignment.dispatch_id.write(w));
            members.name("released", |w| w.bool(dispatch.is_some_and(|dispatch| dispatch.released)));
            members.name("request_id", |w| assignment.request_id.write(w));
            members.name("state", |w| w.string(dispatch.map_or("", |dispatch| dispatch.phase.as_str())));
        });
    });
}

fn prediction_members(asked: &Question, prediction: &Prediction, members: &mut Members<'_>) {
    let Ok(plan) = &prediction.plan else { return };
    let count = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
    members.name("at", |w| w.integer(asked.at));
    members.name("claims", |w| w.integer(count(plan.claims.len())));
    members.name("dispatches", |w| w.integer(count(plan.groups.len())));
    members.name("next", |w| {
        w.object(|members| {
            members.name("reason", |w| w.string(plan.next.reason));
            if let Some(id) = &plan.next.work_id {
                members.name("work_id", |w| id.write(w));
            }
        });
    });
    members.name("pool", |w| w.string(&asked.pool));
    members.name("reason", |w| w.string(plan.reason));
    members.name("status", |w| w.string("snapshot_prediction"));
    members.name("work_ids", |w| w.array(&plan.claims, |w, planned| planned.work_id().write(w)));
}

fn text(found: &Found, prediction: Option<&(&Question, Prediction)>) -> String {
    let (captured, projection) = (&found.captured, found.captured.projection.as_ref());
    let mut out = format!(
        "snapshot of a {} run in {}, captured at {} ms\n",
        captured.role,
        label(captured.snapshot.origin.repository.as_str()),
        found.captured_at()
    );
    match projection {
        Some(projection) => {
            let tip = projection.tip().map_or_else(|| "-".to_owned(), |tip| label(tip.as_str()));
            let stats = projection.stats();
            out.push_str(&format!("{} commits, tip {tip}\n{}\n", stats.transactions, counts(&stats)));
        }
        None => out.push_str("the queue did not exist\n"),
    }
    if let Some(assignment) = &captured.snapshot.worker {
        let dispatch = label(assignment.dispatch_id.as_str());
        out.push_str(&format!("assignment of dispatch {dispatch}: {} Claims\n", assignment.claims.len()));
    }
    if let Some((asked, Prediction { plan: Ok(plan), .. })) = prediction {
        let (claims, groups) = (plan.claims.len(), plan.groups.len());
        let pool = label(&asked.pool);
        out.push_str(&format!("pool {pool} would have got {claims} Claims in {groups} dispatches; {}\n", plan.reason));
    }
    out.push_str("A replay of what was captured. It proves no credential, no launch and no completion.\n");
    out
}
