//! The explorer: the shipped engine and the publisher's pure decisions against a simulated compare-and-swap register,
//! searched breadth-first over every order of steps, crashes and lost answers in small scopes, and with one rule broken
//! at a time. `docs/EVIDENCE.md` holds its tables; this writes them:
//!
//! ```text
//! WQ_UPDATE_DOCS=1 cargo test --test explore
//! ```
// An optimised build has no faults to switch on.
#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "a test may stop and may explain")]

mod audit;
mod faults;
mod kinds;
#[path = "../it/engine/naive.rs"]
#[allow(dead_code, reason = "shared with the integration tests")]
mod naive;
mod register;
mod report;
mod scopes;
mod search;
mod slots;
#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports, unused_macros, reason = "shared with the integration tests")]
mod support;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use wq_action::engine::mutation::{Mutation, with};

use faults::ROWS;
use search::{Outcome, explore};
use support::tell;

/// No search of these scopes comes near; one that did would be unfinished, and that is a failure.
const MOST_STATES: usize = 1_000_000;

/// Runs a job for every item on all cores and gives the outcomes in order.
fn side_by_side<T: Sync, R: Send>(items: &[T], job: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    let outcome = job(item);
                    done.lock().unwrap().push((index, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// What a search without a fault must be: finished, clean, and not empty of what it is about.
fn complaints(scope: &search::Scope, outcome: &Outcome) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Some((violation, trace)) = &outcome.violation {
        wrong.push(format!("{}: {}: {}\n  {}", scope.name, violation.rule, violation.detail, trace.join("\n  ")));
    } else if !outcome.exhausted {
        wrong.push(format!("{}: unfinished after {} states", scope.name, outcome.states));
    }
    for wanted in scope.reaches.iter().filter(|wanted| !outcome.witnesses.contains_key(wanted)) {
        wrong.push(format!("{}: never reached: {} {}", scope.name, wanted.0, wanted.1));
    }
    wrong
}

/// Runs searches side by side and fails unless each is finished, clean and about something.
fn search_all(scopes: Vec<search::Scope>) -> Vec<(search::Scope, Outcome)> {
    let outcomes = side_by_side(&scopes, |scope| {
        let begun = std::time::Instant::now();
        let outcome = explore(scope, MOST_STATES);
        tell!(
            "{}: {} states, {} transitions, {} ledgers, depth {}, exhausted: {}, {:.1} s",
            scope.name,
            outcome.states,
            outcome.transitions,
            outcome.versions,
            outcome.depth,
            outcome.exhausted,
            begun.elapsed().as_secs_f64()
        );
        outcome
    });
    let found: Vec<_> = scopes.into_iter().zip(outcomes).collect();
    let wrong: Vec<String> = found.iter().flat_map(|(scope, outcome)| complaints(scope, outcome)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    found
}

/// S-616, S-618: fair-prefix packing against an independent planner (profiles X, Y, X, X among them), binding conflicts,
/// Control, exclusive delivery outcomes and replacement, each with the exact codes of its refusals and with witnesses
/// that the states it is about are reached. S-615: what is explored is the code itself, and the document follows it.
#[test]
fn every_search_is_exhausted_and_breaks_no_rule() {
    let found = search_all(scopes::scopes());
    report::section("rules", &report::rules());
    report::section("searches", &report::searches(&found));
}

/// S-619: a search that ends before its time is no pass, however much of it is done, and says so.
#[test]
fn an_unfinished_search_is_no_pass() {
    let scope = scopes::scopes().into_iter().find(|scope| scope.name == "launch").unwrap();
    for most in [1, 50, 500] {
        let outcome = explore(&scope, most);
        assert!(!outcome.exhausted && outcome.violation.is_none());
        let complaints = complaints(&scope, &outcome);
        assert!(complaints[0].starts_with("launch: unfinished after"), "{complaints:?}");
        let rows = report::searches(&[(scope.clone(), outcome)]);
        assert!(rows.ends_with("| **no** |\n"), "{rows}");
    }
}

/// S-618: every deliberate fault is caught, by the rule that it breaks and by no other.
#[test]
fn every_fault_is_caught_by_the_rule_that_it_breaks() {
    let named: Vec<Mutation> = ROWS.iter().map(|row| row.fault).collect();
    for fault in Mutation::ALL {
        let rows = named.iter().filter(|named| *named == fault).count();
        assert_eq!(rows, 1, "{fault:?} has {rows} rows");
    }
    let scopes = scopes::scopes();
    let found = side_by_side(ROWS, |row| {
        let scope = scopes.iter().find(|scope| scope.name == row.search).unwrap();
        let begun = std::time::Instant::now();
        let outcome = with(Some(row.fault), || audit::focused(Some(row.rule), || explore(scope, MOST_STATES)));
        let seconds = begun.elapsed().as_secs_f64();
        match outcome.violation {
            Some((violation, trace)) if violation.rule == row.rule => {
                tell!("{:?}: {} in {} steps: {} ({seconds:.1} s)", row.fault, row.rule, trace.len(), violation.detail);
                Ok(trace)
            }
            other => Err(format!("{:?} is not caught by {} in {}: {other:?}", row.fault, row.rule, row.search)),
        }
    });
    let wrong: Vec<&String> = found.iter().filter_map(|found| found.as_ref().err()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let found: Vec<_> = ROWS.iter().zip(found.into_iter().flatten()).collect();
    report::section("faults", &report::faults(&found));
}

/// S-613, S-614: the document keeps safety apart from liveness, and says for each subject that a model would leave to
/// refinement which searches and tests of the code itself cover it.
#[test]
fn the_document_says_what_kind_of_evidence_it_is() {
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/EVIDENCE.md")).unwrap();
    let running = document.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(running.contains("These are safety rules"), "safety is not named");
    assert!(running.contains("Liveness and fairness in the long run are shown elsewhere"), "liveness is not apart");
    let names: Vec<&str> = scopes::scopes().iter().map(|scope| scope.name).collect();
    let rows = document.split("## Nothing between").nth(1).unwrap().split("## ").next().unwrap();
    let rows: Vec<&str> = rows.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
    assert_eq!(rows.len(), 7, "graphs, fingerprints, packing, freshness, Policies, parser, transport");
    for word in rows.iter().flat_map(|row| row.split('`').skip(1).step_by(2)) {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(word);
        assert!(names.contains(&word) || path.is_file(), "{word} is no search and no test");
    }
}
