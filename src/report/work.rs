//! What every read shows of a Work beside its state and barrier.

use crate::engine::WorkView;
use crate::engine::state::{Stats, WorkState};
use crate::protocol::Wire as _;
use crate::protocol::json::Members;

/// Work by state, Claims and native reservations, as every overview counts them.
#[must_use]
pub fn counts(stats: &Stats) -> String {
    let works = stats.counts;
    format!(
        "{} Work: {} available, {} claimed, {} completed, {} cancelled; {} Claims; {} native reservations",
        stats.work, works.available, works.claimed, works.completed, works.cancelled, stats.claims, stats.dispatches,
    )
}

/// Adds the members of decision 71.
pub fn view_members(state: &WorkState, view: &WorkView, members: &mut Members<'_>) {
    members.name("blocking_path", |w| w.array(&view.blocking_path, |w, id| id.write(w)));
    members.name("fairness_key", |w| state.work.fairness_key.write(w));
    members.name("label", |w| w.string(view.label));
    members.name("priority", |w| state.scheduling_priority().write(w));
    members.name("ready", |w| w.bool(view.ready));
    members.name("reason", |w| w.string(view.reason));
    members.name("unresolved", |w| {
        w.array(&view.unresolved, |w, (kind, id, reason)| {
            w.object(|edge| {
                edge.name("id", |w| w.string(id));
                edge.name("kind", |w| w.string(kind));
                edge.name("reason", |w| w.string(reason));
            });
        });
    });
    members.name("unresolved_total", |w| w.integer(view.unresolved_total as i64));
}
