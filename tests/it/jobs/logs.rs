//! Debug lines of the queue (jobs.md 6.4).

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tracing_subscriber::layer::SubscriberExt as _;
use wq_action::jobs::log::DebugLayer;
use wq_action::jobs::{activation, deliver, settle};
use wq_action::ledger::simulated::Trouble;
use wq_action::protocol::At;
use wq_action::protocol::commit::FrozenRequest;
use wq_action::report::category::Category;
use wq_action::report::debug::{NAMESPACES, Switches};

use crate::support::jobs::Job;
use crate::support::probe::{Fault, Kind, Probe};
use crate::support::processes::{Shift, Stage};

/// What a layer wrote.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The lines of what happens, with a clock that the test moves.
fn lines(switches: Switches, act: impl FnOnce(&AtomicU64)) -> Vec<String> {
    let (sink, clock) = (Sink::default(), Arc::new(AtomicU64::new(0)));
    let time = Arc::clone(&clock);
    let now = Arc::new(move || (At::new(1_791_462_896_789).unwrap(), time.load(Ordering::Relaxed)));
    let subscriber = tracing_subscriber::registry().with(DebugLayer::new(switches, now, sink.clone()));
    tracing::subscriber::with_default(subscriber, || act(&clock));
    String::from_utf8(sink.0.lock().unwrap().clone()).unwrap().lines().map(str::to_owned).collect()
}

fn debug(patterns: &str) -> Switches {
    Switches::new(None, None, Some(patterns))
}

/// O-195, O-196, O-197, O-200, jobs.md 12, check 14: twelve namespaces; patterns with `*` between commas or white space;
/// an exclusion wins wherever it stands; either of the runner's variables switches everything on, exclusions included.
#[test]
fn jobs_14_namespaces_are_switched() {
    let on = |switches: &Switches| -> Vec<&str> {
        NAMESPACES.into_iter().filter(|name| switches.enables(&format!("work-queue:{name}"))).collect()
    };
    assert_eq!(
        NAMESPACES,
        [
            "claims",
            "delivery",
            "dispatch",
            "effects",
            "intents",
            "mcp",
            "memory",
            "native",
            "reconciler",
            "replay",
            "scheduler",
            "store"
        ]
    );
    assert_eq!(on(&debug("work-queue:*")), NAMESPACES);
    assert_eq!(on(&debug("*")), NAMESPACES);
    assert_eq!(on(&debug("work-queue:store, work-queue:native\twork-queue:mcp")), ["mcp", "native", "store"]);
    for list in ["work-queue:*,-work-queue:replay", "-work-queue:replay work-queue:*", "-*:replay,*"] {
        let enabled = on(&debug(list));
        assert!(enabled.len() == 11 && !enabled.contains(&"replay"), "{list}: {enabled:?}");
    }
    assert_eq!(on(&debug("work-queue:store,-work-queue:*")), [""; 0]);
    assert_eq!(on(&debug("-work-queue:store")), [""; 0]);
    assert_eq!(on(&debug("other:* work-queue")), [""; 0]);
    assert_eq!(on(&debug("work-queue:s*")), ["scheduler", "store"]);
    let excluded = Some("-work-queue:*");
    assert_eq!(on(&Switches::new(Some("true"), None, excluded)), NAMESPACES);
    assert_eq!(on(&Switches::new(None, Some("1"), excluded)), NAMESPACES);
    for (actions, runner) in [(Some("1"), None), (Some("TRUE"), None), (None, Some("true")), (None, Some("0"))] {
        assert_eq!(on(&Switches::new(actions, runner, None)), [""; 0]);
    }
}

/// O-194, O-198, O-199, jobs.md 12, check 14: each line has its time and ends with the whole milliseconds since the line
/// before it in its namespace; what is switched off leaves that interval running, and what is always visible updates it.
#[test]
fn jobs_14_lines_have_time_and_interval() {
    let seen = lines(debug("work-queue:dispatch"), |clock| {
        tracing::debug!(target: "work-queue:dispatch", "controls.start");
        clock.store(1532, Ordering::Relaxed);
        tracing::debug!(target: "work-queue:dispatch", failed = true, http_status = 422_u16, "launch.post.failed");
        clock.store(1540, Ordering::Relaxed);
        tracing::debug!(target: "work-queue:store", attempt = 1_u64, "request.publish.attempt");
        clock.store(1600, Ordering::Relaxed);
        tracing::debug!(target: "work-queue:dispatch", durable = 2_usize, blocked = 0_i64, "controls.complete");
    });
    assert_eq!(
        seen,
        [
            "[2026-10-08T12:34:56.789Z] [work-queue:dispatch] controls.start +0ms",
            "[2026-10-08T12:34:56.789Z] [work-queue:dispatch] launch.post.failed failed=true http_status=422 +1532ms",
            "[2026-10-08T12:34:56.789Z] [work-queue:dispatch] controls.complete durable=2 blocked=0 +68ms",
        ]
    );
    let seen = lines(debug("work-queue:*,-work-queue:dispatch"), |clock| {
        tracing::debug!(target: "work-queue:dispatch", "controls.blocked");
        clock.store(10, Ordering::Relaxed);
        tracing::debug!(target: "work-queue:dispatch", "controls.start");
        clock.store(25, Ordering::Relaxed);
        tracing::debug!(target: "work-queue:dispatch", "controls.blocked");
    });
    let ends: Vec<&str> = seen.iter().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(ends, ["+0ms", "+25ms"]);
}

/// O-203: blocked controls and launches that failed are written with everything switched off.
#[test]
fn failures_are_always_visible() {
    let seen = lines(Switches::default(), |_| {
        tracing::debug!(target: "work-queue:dispatch", "controls.blocked");
        tracing::debug!(target: "work-queue:dispatch", "intent.process.blocked");
        tracing::debug!(target: "work-queue:dispatch", "launch.start_marker.failed");
        tracing::debug!(target: "work-queue:dispatch", "launch.post.failed");
        tracing::debug!(target: "work-queue:dispatch", "launch.post.definitive_rejection");
        tracing::debug!(target: "work-queue:dispatch", "launch.binding.failed");
        tracing::debug!(target: "work-queue:dispatch", "launch.unresolved");
        tracing::debug!(target: "work-queue:claims", "claim.finish.blocked");
        tracing::debug!(target: "work-queue:claims", "claims.reconcile.failed");
        tracing::debug!(target: "work-queue:mcp", "server.start.failed");
        tracing::debug!(target: "work-queue:dispatch", "launch.start");
        tracing::debug!(target: "work-queue:store", "launch.post.failed");
        tracing::debug!(target: "work-queue:native", "run.fetch.failed");
    });
    assert_eq!(seen.len(), 10, "{seen:#?}");
}

/// O-202, O-208, O-211, jobs.md 12, check 14: text, signed and fractional numbers, and names that are no static words
/// are dropped, whoever emits them; so are targets that are no namespace.
#[test]
fn jobs_14_fields_are_flags_and_counts_alone() {
    let seen = lines(debug("*"), |_| {
        let secret = "ghs_secret octo/widgets /tmp/path";
        tracing::debug!(
            target: "work-queue:store", name = secret, shown = %secret, told = ?secret, below = -1_i64, part = 1.5,
            most = 9_007_199_254_740_991_u64, beyond = 9_007_199_254_740_992_u64, flag = false, "ledger.read.complete"
        );
        tracing::debug!(target: "work-queue:store", "{secret}");
        tracing::debug!(target: "work-queue:other", "ledger.read.complete");
        tracing::debug!(target: "other", "ledger.read.complete");
    });
    let line =
        "[2026-10-08T12:34:56.789Z] [work-queue:store] ledger.read.complete most=9007199254740991 flag=false +0ms";
    assert_eq!(seen, [line]);
}

/// O-201: the whole life of a Claim, logged: a publication that loses a race, recovers and lands; a packed prefix; a launch
/// and its binding; a worker's finish; an independent verification, and the settlement that follows from it.
///
/// O-202, O-212: every line holds flags and counts alone, and without a line everything happens all the same.
#[test]
fn the_life_of_a_claim_is_logged() {
    let quiet = life(Switches::default());
    assert_eq!(quiet.0, [""; 0]);
    let (seen, state) = life(debug("*"));
    assert_eq!(state, quiet.1);
    let events: Vec<&str> = seen.iter().map(|line| line.split(' ').nth(2).unwrap()).collect();
    let mut expected = [
        "request.publish.start",
        "request.publish.attempt",
        "request.candidate.checked",
        "request.publish.recovery",
        "request.publish.backoff",
        "request.publish.complete",
        "pack.complete",
        "launch.assignment.checked",
        "launch.credential.checked",
        "launch.start_marker.persisted",
        "launch.post.start",
        "launch.post.complete",
        "run.validate.complete",
        "launch.binding.persisted",
        "publisher.authenticate.complete",
        "snapshot.capture.complete",
        "claims.reconcile.start",
        "claim.finish.persisted",
        "claims.reconcile.complete",
        "results.finalize.start",
        "delivery.verifier.checked",
        "result.persisted",
        "results.finalize.complete",
    ]
    .into_iter();
    let mut wanted = expected.next();
    for event in &events {
        if wanted == Some(event) {
            wanted = expected.next();
        }
    }
    assert_eq!(wanted, None, "{seen:#?}");
    assert!(
        seen.iter().any(|line| line.contains("request.publish.recovery conflict=true ambiguous=false")),
        "{seen:#?}"
    );
    for line in &seen {
        for field in line.split(' ').skip(3) {
            let value = field.split_once('=').map(|(_, value)| value);
            let plain = |value: &str| matches!(value, "true" | "false") || value.parse::<u64>().is_ok();
            assert!(value.is_some_and(plain) || (field.starts_with('+') && field.ends_with("ms")), "{line}");
        }
    }
}

/// A queue of one Work that declares to write nothing.
fn readonly() -> (Stage, Shift) {
    let stage = Stage::new();
    let shift = stage.shift();
    let plain = stage.submission("first", 1);
    let parameters = plain.parameters.as_str().replace(r#"{"task""#, r#"{"effect_contract":{"kind":"none"},"task""#);
    let request = FrozenRequest::new(plain.id, plain.kind, plain.actor, &parameters).unwrap();
    stage.process(&shift).submit(&request).unwrap();
    (stage, shift)
}

/// Grant, launch, activation, finish and delivery of its Claim; the lines, and the queue in the end.
fn life(switches: Switches) -> (Vec<String>, String) {
    let (stage, shift) = readonly();
    let probe = Probe::default();
    stage.process_with(&shift, &probe).dispatch("grant-1", &shift.actor, 1).unwrap();
    let push = probe.steps().iter().position(|(_, kind)| *kind == Kind::Push).unwrap();
    let (stage, shift) = readonly();
    let seen = lines(switches, |_| {
        let probe = Probe::striking(push, Fault::Ledger(Trouble::FalseConflict), false);
        let granted = stage.process_with(&shift, &probe).dispatch("grant-1", &shift.actor, 1).unwrap();
        assert!(granted.is_settled(), "{granted:?}");
        let run = stage.github.runs_of_dispatch(granted.launches[0].dispatch_id.as_str())[0];
        stage.github.start_run(run);
        let mut job = Job::new(&stage, run, "worker");
        job.perform(activation::run).unwrap();
        let finish = r#"{"intent_id":"intent:1","kind":"finish","parameters":{"outcome":"completed"},"version":3}"#;
        std::fs::write(job.paths().finish, format!("{finish}\n")).unwrap();
        job.next().perform(settle::run).unwrap();
        job.next().perform(deliver::run).unwrap();
    });
    (seen, stage.queue().projection.serialise())
}

/// O-204, O-206, O-208: every code has a category with an explanation and an action, in static text; a denial names the
/// permissions to check and says that the agent's job stays read-only.
#[test]
fn every_code_has_a_category() {
    use wq_action::protocol::Code;
    let mut names = std::collections::BTreeSet::new();
    for category in Category::ALL {
        assert!(names.insert(category.name), "{}", category.name);
        for sentence in [category.explanation, category.action] {
            assert!(sentence.ends_with('.') && sentence.len() < 250 && !sentence.contains("  "), "{sentence}");
        }
    }
    for code in Code::ALL {
        let category = Category::of(*code);
        assert!(Category::ALL.contains(&category));
    }
    for code in [Code::ApiForbidden, Code::ApiUnauthenticated, Code::PublicationDenied] {
        let denied = Category::of(code);
        assert_eq!(denied.name, "github_permission_denied");
        for words in ["contents: write", "actions: write", "the agent's job stays read-only"] {
            assert!(denied.action.contains(words), "{}", denied.action);
        }
    }
}
