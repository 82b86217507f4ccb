//! What happened in a queue, counted separately (decision 56). Runner time is not among it: the ledger records decisions
//! and evidence, not minutes.

use crate::engine::Projection;
use crate::engine::state::{Barrier, ClaimStatus, DispatchState};

/// The counts, each under its name.
#[must_use]
pub fn metrics(projection: &Projection) -> [(&'static str, usize); 9] {
    let dispatches = |test: fn(&DispatchState) -> bool| projection.dispatches().filter(|one| test(one)).count();
    let barrier = |wanted| projection.works().filter(|work| work.barrier() == wanted).count();
    let claims = |test: fn(&ClaimStatus) -> bool| projection.claims().filter(|one| test(&one.status)).count();
    // A round of kept-open Work has its Result on its Claim.
    let rounds = claims(|status| status.round().is_some_and(|round| round.settled.is_some()));
    let cancelled =
        claims(|status| matches!(status, ClaimStatus::Cancelled { .. } | ClaimStatus::WorkCancelled { .. }));
    [
        ("grants", projection.claims().len()),
        ("launches", dispatches(|one| one.sender.is_some())),
        ("bound_runs", dispatches(|one| one.run.is_some())),
        ("completions", claims(|status| matches!(status, ClaimStatus::Completed { .. }))),
        ("results", barrier(Barrier::Verified) + rounds),
        ("claim_cancellations", cancelled),
        ("work_cancellations", projection.works().filter(|work| work.state() == "cancelled").count()),
        ("delivery_failures", barrier(Barrier::Failed)),
        ("releases", dispatches(|one| one.released)),
    ]
}
