//! What the conclusion of a run shows (jobs.md 7.2): the queue at activation beside the queue now, as counts. The only
//! identifiers are the run's own handles.

use std::collections::BTreeMap;

use super::markdown::{cell, rows};
use super::metrics::metrics;
use crate::engine::Projection;
use crate::engine::state::Barrier;
use crate::protocol::At;
use crate::protocol::assignment::Assignment;
use crate::protocol::operation::OperationKind;
use crate::protocol::wire::words;

/// Heading of the summary.
pub const HEADING: &str = "### Work queue activity";
/// The summary of a run whose comparison failed.
pub const UNAVAILABLE: &str = "### Work queue activity\n\nUnavailable: the queue or the activation snapshot could not be \
                               read. Nothing follows from this for any Claim, reservation or delivery.\n";
/// Characters of a handle.
const HANDLE: usize = 32;

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub struct Activity<'a> {
    /// The queue at activation; none where there was none.
    pub before: Option<&'a Projection>,
    /// The queue now.
    pub now: Option<&'a Projection>,
    /// When this is asked.
    pub at: At,
    /// Commits since activation.
    pub commits: usize,
    /// Operations of those commits whose text the ledger still holds.
    pub operations: &'a BTreeMap<&'static str, usize>,
    /// True if a checkpoint replaced some of those commits meanwhile.
    pub compacted: bool,
    /// The assignment of a worker's run.
    pub own: Option<&'a Assignment>,
    /// True if the run carries a trace.
    pub traced: bool,
    /// How the jobs before this one ended, by name.
    pub jobs: &'a [(String, JobResult)],
}

words! {
    /// How a job of a run ended, in GitHub's words.
    pub enum JobResult {
        Success = "success",
        Failure = "failure",
        Cancelled = "cancelled",
        Skipped = "skipped",
    }
}

/// Names of the operations in the order of the table.
const OPERATIONS: [OperationKind; 9] = [
    OperationKind::Work,
    OperationKind::Claim,
    OperationKind::Completion,
    OperationKind::Result,
    OperationKind::DeliveryFailure,
    OperationKind::ClaimCancellation,
    OperationKind::WorkCancellation,
    OperationKind::Dispatch,
    OperationKind::Release,
];

/// The summary, in Markdown.
#[must_use]
pub fn activity(activity: &Activity<'_>) -> String {
    let total = activity.now.map_or(0, |now| now.works().len());
    let mut text = format!(
        "{HEADING}\n\n{total} Work in the queue; {} new commits since activation. The queue is shared: changes may come \
         from other runs.\n\n",
        activity.commits
    );
    if let (Some(now), Some(own)) = (activity.now, activity.own) {
        text.push_str(&own_claims(now, own));
    }
    if !activity.jobs.is_empty() {
        let row = |(name, result): &(String, JobResult)| [cell(name, HANDLE), result.as_str().to_owned()];
        let table = rows(["Job", "Result"], activity.jobs.iter().map(row));
        text.push_str(&format!("How the run's jobs ended, which says nothing of its Claims.\n\n{table}\n"));
    }
    text.push_str("<details><summary>At activation and at conclusion</summary>\n\n");
    text.push_str(&states(activity));
    text.push_str(&operations(activity));
    if let Some(now) = activity.now {
        text.push_str(&waiting(now, activity.at));
        text.push_str(&audit(now));
    }
    let trace = if activity.traced { "available" } else { "not available" };
    text.push_str(&format!("Trace data of this run: {trace}. Runner time is not measured.\n\n</details>\n"));
    text
}

/// The worker's own Claims: launch and binding of the group beside the state of each member.
fn own_claims(now: &Projection, own: &Assignment) -> String {
    let dispatch = now.dispatch(own.dispatch_id.as_str());
    let launch = match dispatch {
        None => "unknown".to_owned(),
        Some(dispatch) => {
            let bound = if dispatch.run.is_some() { "bound to its run" } else { "not bound" };
            let held = if dispatch.released { "reservation free" } else { "reservation held" };
            format!("{}, {bound}, {held}", dispatch.phase.as_str())
        }
    };
    let row = |member: &crate::protocol::assignment::Member| {
        let claim = now.claim(member.claim_id.as_str());
        let delivery = claim.map_or("unknown", |claim| {
            let settled = claim.status.round().is_some_and(|round| round.settled.is_some());
            if settled { "verified, kept open" } else { now.work_of(claim).barrier().as_str() }
        });
        let why = claim.and_then(|claim| claim.explanation.label).unwrap_or("unknown");
        [
            cell(member.handle.as_str(), HANDLE),
            claim.map_or("unknown", |claim| claim.status.as_str()).to_owned(),
            delivery.to_owned(),
            why.to_owned(),
        ]
    };
    let table = rows(["Own Claim", "State", "Delivery", "Selected by"], own.claims.iter().map(row));
    format!("This run's group: {launch}. A completed Claim is not a delivered one.\n\n{table}\n")
}

/// A count, or the word for a queue that was not there.
fn shown(count: Option<usize>) -> String {
    count.map_or_else(|| "uninitialized".to_owned(), |count| count.to_string())
}

fn states(activity: &Activity<'_>) -> String {
    type Count = fn(&Projection) -> usize;
    const COUNTS: [(&str, Count); 13] = [
        ("Work available", |queue| queue.stats().counts.available as usize),
        ("Work claimed", |queue| queue.stats().counts.claimed as usize),
        ("Work completed", |queue| queue.stats().counts.completed as usize),
        ("Work cancelled", |queue| queue.stats().counts.cancelled as usize),
        ("Delivery none", |queue| barriers(queue, Barrier::None)),
        ("Delivery pending", |queue| barriers(queue, Barrier::Pending)),
        ("Delivery verified", |queue| barriers(queue, Barrier::Verified)),
        ("Delivery failed", |queue| barriers(queue, Barrier::Failed)),
        ("Claims open", |queue| claims(queue, "open")),
        ("Claims completed", |queue| claims(queue, "completed")),
        ("Claims cancelled", |queue| claims(queue, "cancelled")),
        ("Reservations outstanding", |queue| queue.dispatches().filter(|one| !one.released).count()),
        ("Reservations unbound", |queue| queue.dispatches().filter(|one| !one.released && one.run.is_none()).count()),
    ];
    let row = |(name, count): (&str, Count)| {
        [name.to_owned(), shown(activity.before.map(count)), shown(activity.now.map(count))]
    };
    format!("{}\n", rows(["State", "At activation", "At conclusion"], COUNTS.into_iter().map(row)))
}

fn barriers(queue: &Projection, wanted: Barrier) -> usize {
    queue.works().filter(|work| work.barrier() == wanted).count()
}

fn claims(queue: &Projection, wanted: &str) -> usize {
    queue.claims().filter(|claim| claim.status.as_str() == wanted).count()
}

fn operations(activity: &Activity<'_>) -> String {
    let count = |kind: OperationKind| activity.operations.get(kind.as_str()).copied().unwrap_or(0);
    let table = rows(
        ["Operation", "Since activation"],
        OPERATIONS.map(|kind| [kind.as_str().to_owned(), count(kind).to_string()]),
    );
    let note = if activity.compacted {
        "The ledger was compacted meanwhile: operations behind its checkpoint are not counted.\n\n"
    } else {
        ""
    };
    format!("{table}\n{note}")
}

/// Why available Work waits, by the specification's words.
fn waiting(now: &Projection, at: At) -> String {
    let mut reasons: BTreeMap<&'static str, usize> = BTreeMap::new();
    for work in now.works().filter(|work| work.state() == "available") {
        *reasons.entry(now.view_work(work, at, None).label).or_default() += 1;
    }
    if reasons.is_empty() {
        return String::new();
    }
    let table =
        rows(["Available Work", "Count"], reasons.into_iter().map(|(why, count)| [why.to_owned(), count.to_string()]));
    format!("{table}\n")
}

/// The queue's epoch, switches, and what ever happened in it.
fn audit(now: &Projection) -> String {
    let epoch = now.installed().map_or("none", |installed| installed.epoch.as_str());
    let word = |paused| if paused { "paused" } else { "open" };
    let (admission, grants) = (word(now.admission_paused()), word(now.grants_paused()));
    let ever = metrics(now).map(|(name, count)| format!("{count} {}", name.replace('_', " ")));
    format!("Policy epoch {}; admission {admission}, grants {grants}. Ever: {}.\n\n", cell(epoch, 24), ever.join(", "))
}
