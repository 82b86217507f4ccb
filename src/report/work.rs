//! What every overview counts.

use crate::engine::state::Stats;

/// Work by state, Claims and native reservations, as every overview counts them.
#[must_use]
pub fn counts(stats: &Stats) -> String {
    let works = stats.counts;
    format!(
        "{} Work: {} available, {} claimed, {} completed, {} cancelled; {} Claims; {} native reservations",
        stats.work, works.available, works.claimed, works.completed, works.cancelled, stats.claims, stats.dispatches,
    )
}
