//! Days of a repository, by the thousand: dispatchers that overlap, workers that come late or never, operators, outages,
//! lost answers, cancelled jobs, re-runs, duplicates by hand, clocks that are off by ten minutes, rotating tokens. After
//! every step the rules of `docs/EVIDENCE.md` are judged by the explorer's recount and the second planner, and beside
//! them those that need to know what really ran (lifecycle.md 1 to 3).
//!
//! Days come in campaigns of seven with one queue. A failure names its seed:
//!
//! ```text
//! WQ_DAY_SEED=17 cargo test --test days
//! ```
//!
//! runs that campaign alone and tells every step; `WQ_DAYS=20000` runs more days than the usual 2,000.
#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "a test may stop and may explain")]

#[path = "../explore/audit/mod.rs"]
#[allow(dead_code, unused_imports, unused_macros, reason = "shared with the explorer")]
mod audit;
mod campaign;
mod chance;
mod checks;
mod jobs;
mod life;
#[path = "../it/engine/naive.rs"]
#[allow(dead_code, reason = "shared with the integration tests")]
mod naive;
mod people;
mod stage;
#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports, unused_macros, reason = "shared with the integration tests")]
mod support;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use campaign::{Campaign, DAYS};
use stage::Tally;
use support::tell;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// S-295, S-300, S-304, S-320, S-322, S-323: whatever is delayed, lost, stale, cancelled or repeated, a reservation is
/// freed only when its run has really ended or nothing can have run; it is held as long as that is unknown, and the rest
/// of the queue goes on.
#[test]
fn two_thousand_days_keep_every_rule() {
    let begun = std::time::Instant::now();
    let alone = number("WQ_DAY_SEED");
    let wanted = number("WQ_DAYS").unwrap_or(2000).div_ceil(DAYS);
    let (first, last) = alone.map_or((1, wanted), |seed| (seed, seed));
    let (next, stop) = (AtomicU64::new(first), AtomicBool::new(false));
    let (sum, failures) = (Mutex::new(Tally::default()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > last || stop.load(Ordering::Relaxed) {
                        return;
                    }
                    match Campaign::new(seed, alone.is_some()).run() {
                        Ok(tally) => sum.lock().unwrap().add(&tally),
                        Err(what) => {
                            stop.store(true, Ordering::Relaxed);
                            failures.lock().unwrap().push(format!(
                                "campaign {seed}: {what}\n  run it again with: WQ_DAY_SEED={seed} cargo test --test days"
                            ));
                        }
                    }
                }
            });
        }
    });
    let (sum, failures) = (sum.into_inner().unwrap(), failures.into_inner().unwrap());
    report(&sum, begun.elapsed().as_secs_f64());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn report(sum: &Tally, seconds: f64) {
    tell!(
        "{} simulated days in campaigns of {DAYS}: {} processes, {} steps, {} turns, {} API calls, {} commits in {seconds:.1} s",
        sum.days,
        sum.processes,
        sum.steps,
        sum.slices,
        sum.calls,
        sum.commits
    );
    tell!(
        "{} Claims granted in {} grants, {} launch POSTs, {} bound runs, {} completions; releases {:?}, {} unresolved at the end",
        sum.grants,
        sum.plans,
        sum.posts,
        sum.bound,
        sum.finishes,
        sum.releases,
        sum.unresolved
    );
    tell!(
        "{} faults and cancellations, {} re-runs, {} duplicates by hand, {} refused attempts, {} token rotations, {} compactions, {} cold replays",
        sum.faults,
        sum.reruns,
        sum.duplicates,
        sum.refused,
        sum.rotations,
        sum.compactions,
        sum.replays
    );
    let (messages, shapes) = support::github::checked_messages();
    tell!("{messages} requests and replies are valid by GitHub's published schemas, in {shapes} shapes");
    if number("WQ_DAY_ENDS").is_some() {
        for (end, count) in &sum.ends {
            tell!("{count:>8} {end}");
        }
    }
}
