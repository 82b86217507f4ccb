//! What the step summary shows of a checked commit (publication.md 2.8): a bounded table of Work and one of Claims as they
//! stand after it, and never a payload.

use std::collections::BTreeSet;

use super::markdown::{cell, rows};
use super::work::counts;
use crate::engine::Projection;
use crate::engine::state::{ClaimState, WorkState};
use crate::protocol::commit::Commit;
use crate::protocol::operation::Operation;
use crate::protocol::{At, DispatchId, WorkId};

/// Most rows of Work, and of Claims.
pub const MAX_VIEW_ROWS: usize = 32;
/// Longest view, in bytes.
pub const MAX_VIEW_BYTES: usize = 32 * 1024;
/// Bytes of it that are kept for its end.
const TRAILER_BYTES: usize = 2 * 1024;
/// Most views of one step.
pub const MAX_VIEWS: usize = 8;
/// What stands in place of the next view.
pub const NO_MORE_VIEWS: &str = "_Further commits of this step are not shown; the ledger has them all._";
/// Characters of an id, of a commit's id, and of other values.
const ID: usize = 16;
const COMMIT: usize = 24;
const VALUE: usize = 48;

/// The view of a commit on the state right after it.
#[must_use]
pub fn commit_view(projection: &Projection, commit: &Commit, at: At) -> String {
    let (works, claims) = (work_rows(projection, commit, at), claim_rows(projection, commit));
    let mut view = format!(
        "### Work queue commit {}\n\nRequest kind {}, {} operations. {}.\n\n",
        cell(commit.id.as_str(), COMMIT),
        cell(commit.request.kind.as_str(), VALUE),
        commit.operations.len(),
        counts(&projection.stats()),
    );
    let shown_works = push_rows(&mut view, ["Work", "Node", "Pool", "State", "Delivery", "Why"], works);
    let head = ["Claim", "Handle", "Work", "State", "Dispatch", "Reservation"];
    let shown_claims = push_rows(&mut view, head, claims);
    view.push_str(&format!(
        "Shown: {shown_works} of {} Work, {shown_claims} of {} Claims. Payloads and results are never shown here; \
         completed is not delivered.\n",
        projection.works().len(),
        projection.claims().len(),
    ));
    view
}

/// Appends a table, without the rows that no longer fit. Returns how many were written.
fn push_rows<const N: usize>(view: &mut String, head: [&str; N], mut cells: Vec<[String; N]>) -> usize {
    while !cells.is_empty() {
        let table = rows(head, cells.iter().cloned());
        if view.len() + table.len() <= MAX_VIEW_BYTES - TRAILER_BYTES {
            view.push_str(&table);
            view.push('\n');
            break;
        }
        cells.pop();
    }
    cells.len()
}

/// What an operation is about.
enum Subject<'o> {
    Work(&'o WorkId),
    Group(&'o DispatchId),
    Other,
}

fn subject(operation: &Operation) -> Subject<'_> {
    match operation {
        Operation::Dispatch(dispatch) => Subject::Group(&dispatch.dispatch_id),
        Operation::Release(release) => Subject::Group(&release.dispatch_id),
        Operation::Claim(claim) => Subject::Work(&claim.work_id),
        Operation::Work(node) => Subject::Work(&node.work_id),
        Operation::WorkPriority(change) => Subject::Work(&change.work_id),
        Operation::Completion(done) => Subject::Work(&done.work_id),
        Operation::Result(result) => Subject::Work(&result.work_id),
        Operation::DeliveryFailure(failure) => Subject::Work(&failure.work_id),
        Operation::ClaimCancellation(cancelled) => Subject::Work(&cancelled.work_id),
        Operation::WorkCancellation(cancelled) => Subject::Work(&cancelled.work_id),
        _ => Subject::Other,
    }
}

/// The Work that a commit's operations name, by itself or by a dispatch.
fn named<'c>(projection: &'c Projection, commit: &'c Commit) -> BTreeSet<&'c str> {
    let mut found = BTreeSet::new();
    for operation in &commit.operations {
        match subject(operation) {
            Subject::Work(id) => drop(found.insert(id.as_str())),
            Subject::Group(id) => {
                let members = projection.dispatch(id.as_str()).map(|dispatch| &dispatch.assignment.claims);
                found.extend(members.into_iter().flatten().map(|member| member.work_id.as_str()));
            }
            Subject::Other => {}
        }
    }
    found
}

/// The first items of three groups: named ones, unsettled ones, the rest.
fn focused<'i, T>(items: impl Iterator<Item = &'i T> + Clone, rank: impl Fn(&T) -> u8) -> Vec<&'i T> {
    (0..3_u8)
        .flat_map(|wanted| items.clone().filter(|item| rank(item) == wanted).take(MAX_VIEW_ROWS).collect::<Vec<_>>())
        .take(MAX_VIEW_ROWS)
        .collect()
}

fn work_rows(projection: &Projection, commit: &Commit, at: At) -> Vec<[String; 6]> {
    let named = named(projection, commit);
    let rank = |state: &WorkState| match state {
        _ if named.contains(state.work.work_id.as_str()) => 0,
        _ if state.is_active() => 1,
        _ => 2,
    };
    let works: Vec<&WorkState> = projection.works().collect();
    let row = |state: &WorkState| {
        let waits = state.state() == "available";
        let why = if waits { projection.view_work(state, at, None).label } else { "" };
        [
            cell(state.work.work_id.as_str(), ID),
            cell(state.work.node_key.as_str(), VALUE),
            cell(state.work.pool.as_str(), VALUE),
            state.state().to_owned(),
            state.barrier().as_str().to_owned(),
            why.to_owned(),
        ]
    };
    focused(works.iter().copied(), rank).into_iter().map(row).collect()
}

fn claim_rows(projection: &Projection, commit: &Commit) -> Vec<[String; 6]> {
    let named = named(projection, commit);
    let rank = |claim: &ClaimState| match claim {
        _ if named.contains(claim.claim.work_id.as_str()) && projection.is_current(claim) => 0,
        _ if claim.status.is_open() => 1,
        _ => 2,
    };
    let claims: Vec<&ClaimState> = projection.claims().collect();
    let row = |claim: &ClaimState| {
        let dispatch = projection.dispatch_of(claim);
        [
            cell(claim.claim.claim_id.as_str(), ID),
            cell(claim.claim.handle.as_str(), ID),
            cell(claim.claim.work_id.as_str(), ID),
            claim.status.as_str().to_owned(),
            dispatch.phase.as_str().to_owned(),
            if dispatch.released { "free" } else { "held" }.to_owned(),
        ]
    };
    focused(claims.iter().copied(), rank).into_iter().map(row).collect()
}
