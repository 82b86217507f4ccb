//! `wq compact`.

use std::path::{Path, PathBuf};

use super::access::Access;
use super::input::{self, Refused};
use super::source::provenance;
use super::{Failure, Global, Reply};
use crate::ledger::{Compacted, Compaction, CompactionPlan, Current};
use crate::protocol::actor::Role;
use crate::protocol::json::{Members, Writer};
use crate::protocol::{At, Code, Fault};
use crate::report::label;

/// Replace the ledger's history by a checkpoint of its state, in an ordinary commit on top of it.
///
/// Work, Claims, reservations, clocks, request ids, explanations and traces stay; payloads of past requests and old
/// Policies remain in Git alone. A ledger that is one checkpoint already is left as it is. A commit that lands
/// meanwhile is never lost: the checkpoint is built again on top of it, and put off after six lost races.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the plan, a JSON object of at most 4096 bytes, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Apply this plan, or standard input for `-`: refused where the branch does not extend its base, or where its base
    /// is current and gives other digests. If the queue moved on, the checkpoint is of the queue as it is.
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    plan: Option<PathBuf>,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    if global.request_id.is_some() {
        return Err(Failure::usage(
            "a compaction names its request itself",
            "Leave out --request-id; the command can be repeated safely.",
        ));
    }
    let plan = args.plan.as_deref().map(read_plan).transpose()?;
    let access = Access::open(global)?;
    let actor = access.actor(Role::Administrator)?;
    let mut publisher = access.publisher()?;
    if args.dry_run {
        let plan = publisher.plan_compaction(&actor)?;
        let text = plan.map_or_else(|| "null".to_owned(), |plan| plan.text());
        return Ok(Reply::done(text));
    }
    tracing::debug!(planned = plan.is_some(), "compacting");
    let (compaction, current, at) = publisher.compact(&actor, plan.as_ref())?;
    Ok(Reply::done(if global.json { json(&compaction, &current, at) } else { text(&compaction, &current) }))
}

fn read_plan(path: &Path) -> Result<CompactionPlan, Failure> {
    let long = || Fault::new(Code::ResourceLimit, "a compaction plan is longer than 4096 bytes");
    let refused = |fault: Fault| Failure::flag(&fault, "--plan");
    let bytes = match input::read(path, CompactionPlan::MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(Refused::TooLong) => return Err(refused(long())),
        Err(Refused::Unreadable(failure)) => return Err(failure),
    };
    let text = String::from_utf8(bytes).map_err(|_| refused(Fault::from(Code::InvalidUtf8)))?;
    CompactionPlan::read(text.trim_end()).map_err(refused)
}

fn json(compaction: &Compaction, current: &Current, at: At) -> String {
    let (compacted, reason) = match compaction {
        Compaction::Done(compacted) => (Some(compacted), "compacted"),
        Compaction::AlreadyCompact => (None, "already_compact"),
        Compaction::Deferred => (None, "compaction_contention"),
    };
    let mut writer = Writer::new();
    writer.object(|members| {
        let size = current.projection.ledger_bytes();
        let or = |value: Option<u64>, other: u64| value.unwrap_or(other) as i64;
        let counted = |members: &mut Members<'_>, name: &'static str, of: fn(&Compacted) -> u64, other: u64| {
            members.name(name, |w| w.integer(or(compacted.map(of), other)));
        };
        members.name("acknowledgment_recovered", |w| w.bool(compacted.is_some_and(|compacted| compacted.recovered)));
        counted(members, "bytes_after", |compacted| compacted.bytes_after, size);
        counted(members, "bytes_before", |compacted| compacted.bytes_before, size);
        members.name("changed", |w| w.bool(compacted.is_some_and(|compacted| compacted.changed)));
        members.name("commits", |w| w.integer(current.projection.active().count() as i64));
        counted(members, "duplicates_removed", |compacted| compacted.duplicates_removed, 0);
        members.name("reason", |w| w.string(reason));
        provenance(&current.projection, Some(&current.commit.to_string()), at, members);
    });
    writer.finish()
}

fn text(compaction: &Compaction, current: &Current) -> String {
    let tip = current.projection.tip().map_or_else(String::new, |tip| label(tip.as_str()));
    let requests = current.projection.replaced();
    match compaction {
        Compaction::Done(Compacted { changed, recovered, bytes_before, bytes_after, duplicates_removed }) => {
            let how = match (changed, recovered) {
                (true, _) => "compacted",
                (false, true) => "compacted, found after an uncertain push",
                (false, false) => "compacted by another administrator meanwhile",
            };
            format!(
                "{how}: {requests} requests kept as receipts, {bytes_before} bytes before, {bytes_after} after, \
                 {duplicates_removed} repeated lines removed; tip {tip}"
            )
        }
        Compaction::AlreadyCompact => format!("already one checkpoint of {requests} requests; tip {tip}"),
        Compaction::Deferred => format!(
            "put off: other publishers were faster in every attempt, and nothing was written; repeat when the queue is \
             quieter; tip {tip}"
        ),
    }
}
