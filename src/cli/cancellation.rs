//! How `cancel-work` and `cancel-claim` tell what they did.

use super::administer::Administered;
use super::{Global, Reply};
use crate::engine::Projection;
use crate::engine::state::{ClaimState, WorkState};
use crate::ledger::Outcome;
use crate::protocol::json::Writer;
use crate::protocol::operation::{Operation, WorkCancellation};
use crate::protocol::{Reason, Wire as _};
use crate::report::label;

/// The cancellation that an operation is.
pub(crate) fn cancellation(operation: &Operation) -> Option<&WorkCancellation> {
    match operation {
        Operation::WorkCancellation(cancellation) => Some(cancellation),
        _ => None,
    }
}

/// One cancelled Work.
struct Cancelled<'p> {
    work: &'p WorkState,
    /// The Claim that owned it.
    owner: Option<&'p ClaimState>,
    /// Dispatches of any attempt that hold native capacity: their runs may still be going.
    held: Vec<&'p str>,
}

fn cancelled<'p>(projection: &'p Projection, operations: &[Operation]) -> Vec<Cancelled<'p>> {
    let works = operations.iter().filter_map(cancellation).filter_map(|one| projection.work(one.work_id.as_str()));
    let mut cancelled: Vec<Cancelled<'p>> =
        works.map(|work| Cancelled { work, owner: projection.owner_of(work), held: Vec::new() }).collect();
    cancelled.sort_unstable_by(|one, other| one.work.work.work_id.cmp(&other.work.work.work_id));
    for claim in projection.claims().filter(|claim| !projection.dispatch_of(claim).released) {
        if let Ok(at) = cancelled.binary_search_by(|one| one.work.work.work_id.cmp(&claim.claim.work_id)) {
            cancelled[at].held.push(claim.claim.dispatch_id.as_str());
        }
    }
    cancelled
}

/// The native reservations that are still held, each once.
fn reservations<'p>(cancelled: &[Cancelled<'p>]) -> Vec<&'p str> {
    let mut ids: Vec<&str> = cancelled.iter().flat_map(|one| one.held.iter().copied()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Tells a cancellation, just made or found again.
pub(crate) fn told(global: &Global, administered: &Administered, reason: &Reason) -> Reply {
    let projection = &administered.published.publication.current.projection;
    let cancelled = cancelled(projection, &administered.operations);
    let body = if global.json { json(administered, &cancelled, reason) } else { text(administered, &cancelled) };
    Reply::done(body)
}

/// False if all of it had been cancelled by another request before.
fn made(administered: &Administered) -> bool {
    !matches!(administered.published.publication.outcome, Outcome::Done { .. })
}

fn json(administered: &Administered, cancelled: &[Cancelled<'_>], reason: &Reason) -> String {
    let mut writer = Writer::new();
    writer.object(|members| {
        administered.published.members(members);
        members.name("cancelled", |w| w.array(cancelled, |w, one| write(one, w)));
        members.name("count", |w| w.integer(cancelled.len() as i64));
        members.name("reason", |w| reason.write(w));
        members.name("reservations_retained", |w| w.array(reservations(cancelled), |w, id| w.string(id)));
        members.name("status", |w| w.string(if made(administered) { "cancelled" } else { "already_cancelled" }));
    });
    writer.finish()
}

fn write(one: &Cancelled<'_>, writer: &mut Writer) {
    writer.object(|members| {
        if let Some(claim) = one.owner {
            members.name("claim_id", |w| claim.claim.claim_id.write(w));
            members.name("dispatch_id", |w| claim.claim.dispatch_id.write(w));
        }
        members.name("graph_id", |w| one.work.work.graph_id.write(w));
        members.name("node_key", |w| one.work.work.node_key.write(w));
        members.name("reservation_retained", |w| w.bool(!one.held.is_empty()));
        members.name("work_id", |w| one.work.work.work_id.write(w));
    });
}

fn text(administered: &Administered, cancelled: &[Cancelled<'_>]) -> String {
    let word = if made(administered) { "cancelled" } else { "already cancelled" };
    let mut out = format!("{word}: {} Work\n", cancelled.len());
    for one in cancelled {
        let work = &one.work.work;
        out.push_str(&format!("  {} node={}", label(work.work_id.as_str()), label(work.node_key.as_str())));
        if let Some(claim) = one.owner {
            let (claim_id, dispatch_id) = (claim.claim.claim_id.as_str(), claim.claim.dispatch_id.as_str());
            out.push_str(&format!(" claim={} dispatch={}", label(claim_id), label(dispatch_id)));
        }
        out.push('\n');
    }
    let held = reservations(cancelled).len();
    out.push_str(&format!(
        "native reservations kept until evidence releases them: {held}; no run is stopped and no charge is refunded\n"
    ));
    out.push_str(&administered.published.line());
    out
}
