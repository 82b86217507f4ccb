//! The explorer: the shipped engine and the publisher's pure decisions against a simulated compare-and-swap register,
//! searched breadth-first over every order of steps, crashes and lost answers in small scopes, and with one rule broken
//! at a time. `docs/EVIDENCE.md` holds its tables:
//!
//! ```text
//! WQ_UPDATE_DOCS=1 cargo test --test explore
//! ```
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "a test may stop and may explain")]

mod audit;
#[path = "../it/engine/naive.rs"]
#[allow(dead_code, reason = "shared with the integration tests")]
mod naive;
mod register;
mod scopes;
mod search;
mod slots;
#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "shared with the integration tests")]
mod support;

use search::explore;

#[test]
fn every_search_is_exhausted() {
    for scope in scopes::scopes() {
        if let Ok(only) = std::env::var("WQ_SCOPE") {
            if only != scope.name {
                continue;
            }
        }
        let start = std::time::Instant::now();
        let outcome = explore(&scope, 300_000);
        println!(
            "{:12} states {} transitions {} versions {} depth {} exhausted {} in {:?}",
            scope.name,
            outcome.states,
            outcome.transitions,
            outcome.versions,
            outcome.depth,
            outcome.exhausted,
            start.elapsed()
        );
        if let Some((violation, trace)) = &outcome.violation {
            println!("  {violation:?}\n  {}", trace.join("\n  "));
        }
        for wanted in scope.reaches {
            if !outcome.witnesses.contains_key(wanted) {
                println!("  not reached: {wanted:?}");
            }
        }
        println!("  {:?}", outcome.witnesses);
    }
}

#[test]
fn discover() {
    use wq_action::engine::mutation::{Mutation, with};
    std::panic::set_hook(Box::new(|_| {}));
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                loop {
                    let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(mutation) = Mutation::ALL.get(index) else { return };
                    let mut line = format!("{mutation:?}:");
                    for scope in scopes::scopes() {
                        if scope.name == "debt" && line.contains(" at ") {
                            continue;
                        }
                        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                            with(Some(*mutation), || explore(&scope, 30_000))
                        }));
                        match outcome {
                            Err(_) => line += &format!(" {} PANIC;", scope.name),
                            Ok(outcome) => {
                                if let Some((violation, trace)) = &outcome.violation {
                                    line += &format!(
                                        " {} at {} ({}: {});",
                                        scope.name,
                                        trace.len(),
                                        violation.rule,
                                        violation.detail
                                    );
                                }
                            }
                        }
                    }
                    println!("{line}");
                }
            });
        }
    });
}
