//! The operating envelope: what compaction costs and saves, how publishers contend for one branch, what a Claim writes
//! until its release, and what a fair prefix leaves unused. Prints tables in Markdown.
//!
//! `cargo bench --bench envelope` prints them all; `-- compaction`, `-- contention`, `-- claims` or `-- prefixes` prints
//! one. `-- --generate BATCH MIB > ledger.jsonl` writes the ledger that the first table measures.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a bench reports by printing and may panic")]

#[path = "support/generator.rs"]
#[allow(dead_code, reason = "another bench uses the rest")]
mod generator;

#[path = "../tests/support/git.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod git;

#[path = "../tests/support/ledger.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod ledger;

#[path = "../tests/support/built.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod built;

/// The tests check what they write against the published schemas; a bench would measure that.
mod schema {
    use wq_action::engine::Projection;

    pub(crate) fn check_ledger(_: &str) {}
    pub(crate) fn check_commit(_: &str) {}
    pub(crate) fn check_last_assignments(_: &Projection) {}
}

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use built::{DISPATCHER, Node, PRODUCER, Queue, aw_policy, frozen, grant_parameters};
use generator::{Generator, Shape};
use git::Bare;
use serde_json::{Value, json};
use wq_action::engine::checkpoint::CheckpointInputs;
use wq_action::engine::{Decision, replay};
use wq_action::ledger::commit_object::Author;
use wq_action::ledger::{Branch, Outcome, Publisher, Retries, Setup, Transport};
use wq_action::ports::{SystemClock, SystemEntropy};
use wq_action::protocol::RepositoryName;
use wq_action::protocol::Revision;
use wq_action::protocol::actor::Actor;
use wq_action::protocol::commit::FrozenRequest;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::LedgerText;
use wq_action::protocol::request::RequestKind;

/// Best of several runs, in milliseconds, and the last thing made.
fn best<T>(runs: usize, mut measured: impl FnMut() -> T) -> (f64, T) {
    let mut least = Duration::MAX;
    let mut made = None;
    for _ in 0..runs {
        drop(made.take());
        let start = Instant::now();
        let one = black_box(measured());
        least = least.min(start.elapsed());
        made = Some(one);
    }
    (least.as_secs_f64() * 1e3, made.unwrap())
}

fn mib(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The value below which this share of a sorted list lies.
fn quantile<T: Copy + PartialOrd>(values: &mut [T], share: f64) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap());
    values[((values.len() - 1) as f64 * share).round() as usize]
}

/// Submissions of sixteen nodes under nine keys, in dispatches of `batch` Claims.
fn mix(batch: i64) -> Shape {
    Shape { nodes: 16, batch, ..Shape::default() }
}

fn cold(text: &str) -> wq_action::engine::Projection {
    let text = LedgerText::new(text.as_bytes().to_vec()).unwrap();
    replay(&text, &mut Scanner::new("github.com")).unwrap()
}

/// A ledger at its watermark, with the whole recovery reserve spoken for by Work that waits.
fn watermark(batch: i64) -> String {
    const ORDINARY: usize = 64 << 20;
    const RESERVE: u64 = 16 << 20;
    let mut generator = Generator::new(mix(batch));
    while generator.text().len() < ORDINARY - (768 << 10) {
        generator.drain();
        generator.submit(true);
    }
    let (mut bytes, mut reserved) = (0, 0);
    while generator.text().len() + bytes < ORDINARY && generator.state().headroom() + reserved < RESERVE {
        let before = (generator.text().len(), generator.state().headroom());
        generator.submit(true);
        bytes = bytes.max(generator.text().len() - before.0);
        reserved = reserved.max(generator.state().headroom() - before.1);
    }
    generator.text().to_owned()
}

/// S-630: builds and restores the checkpoint of ledgers of several sizes and batches, up to the watermark with the full
/// reserve. The other tables vary dispatchers, batches and profiles.
fn compaction() {
    println!("| ledger | reserved | batch | commits | Work | replay | build | checkpoint | of the ledger | restore |");
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let sizes = [(1, 1), (1, 4), (1, 16), (4, 4), (8, 4), (10, 4), (12, 4), (16, 1), (16, 4), (16, 16), (64, 4)];
    let sizes = sizes.into_iter().map(|(size, batch)| (Some(size), batch));
    for (size, batch) in sizes.chain([(None, 4)]) {
        let text = match size {
            Some(size) => generator::ledger(mix(batch), (size << 20) - (1 << 18)),
            None => watermark(batch),
        };
        let runs = if text.len() > 4 << 20 { 3 } else { 9 };
        let (replayed, state) = best(runs, || cold(&text));
        let actor: Actor = ledger::typed(built::ADMINISTRATOR);
        let sha = Revision::new("b".repeat(40)).unwrap();
        let at = state.requests().last().unwrap().at;
        let inputs = CheckpointInputs { prior_git_sha: &sha, actor: &actor, at };
        let (build, built) = best(runs, || state.checkpoint(&inputs, &mut Scanner::new("github.com")));
        let end = match built {
            Ok(built) => {
                let line = format!("{}\n", built.commit.as_str());
                let (restore, _) = best(runs, || cold(&line));
                let share = 100.0 * line.len() as f64 / text.len() as f64;
                format!("{:.2} MiB | {share:.0} % | {restore:.1} ms", mib(line.len()))
            }
            Err(fault) => format!("none: `{}` | | ", fault.code().as_str()),
        };
        println!(
            "| {:.1} MiB | {:.1} MiB | {batch} | {} | {} | {replayed:.1} ms | {build:.1} ms | {end} |",
            mib(text.len()),
            mib(state.headroom() as usize),
            state.requests().len(),
            state.works().len(),
        );
    }
}

fn publisher(transport: &dyn Transport) -> Publisher<'_> {
    let setup = Setup {
        transport,
        branch: Branch::default(),
        repository: RepositoryName::new("owner/repo").unwrap(),
        host: "github.com".into(),
        author: Author::Operator,
        clock: &SystemClock,
        entropy: &SystemEntropy,
        retries: Retries::default(),
        confirm_empty: None,
    };
    Publisher::new(setup).unwrap()
}

/// What one publisher saw: attempts and milliseconds of each request, and how many calls ended without a decision.
#[derive(Default)]
struct Seen {
    attempts: Vec<u32>,
    times: Vec<f64>,
    repeats: u32,
}

/// Publishes a request and repeats the same call until it is answered.
fn insist(transport: &dyn Transport, request: &FrozenRequest, seen: &mut Seen) {
    let start = Instant::now();
    loop {
        match publisher(transport).publish_request(request, None) {
            Ok(publication) => {
                if !matches!(publication.outcome, Outcome::Nothing { .. }) {
                    seen.attempts.push(publication.lost.len() as u32 + 1);
                    seen.times.push(start.elapsed().as_secs_f64() * 1e3);
                }
                return;
            }
            Err(error) => assert_eq!(error.exit(), 5, "{error}"),
        }
        seen.repeats += 1;
    }
}

/// Publishers that start together on one local repository, each with fresh processes for each request, as commands are.
fn contention() {
    const ROUNDS: usize = 6;
    println!(
        "| publishers | dispatchers' batch | requests | attempts, median and most | repeated calls | a request, median, 95 %, most |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: |");
    for (publishers, batch) in [(1, 1), (2, 1), (4, 1), (4, 4), (8, 1), (8, 4)] {
        let bare = Bare::new();
        let nodes: Vec<_> = (0..128).map(|key| Node::new(&format!("n{key}"))).collect();
        bare.seed(Queue::open(&policy(1, batch, true), &nodes).text.as_bytes());
        let barrier = Barrier::new(publishers);
        let seen: Vec<Seen> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..publishers)
                .map(|thread| {
                    let (bare, barrier) = (&bare, &barrier);
                    scope.spawn(move || {
                        let transport = bare.transport();
                        let mut seen = Seen::default();
                        barrier.wait();
                        for round in 0..ROUNDS {
                            insist(&transport, &asked(thread, round, batch), &mut seen);
                        }
                        seen
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut attempts: Vec<u32> = seen.iter().flat_map(|seen| seen.attempts.clone()).collect();
        let mut times: Vec<f64> = seen.iter().flat_map(|seen| seen.times.clone()).collect();
        println!(
            "| {publishers} | {batch} | {} | {}, {} | {} | {:.0}, {:.0}, {:.0} ms |",
            times.len(),
            quantile(&mut attempts, 0.5),
            quantile(&mut attempts, 1.0),
            seen.iter().map(|seen| seen.repeats).sum::<u32>(),
            quantile(&mut times, 0.5),
            quantile(&mut times, 0.95),
            quantile(&mut times, 1.0),
        );
    }
}

/// Dispatchers and producers in turns.
fn asked(thread: usize, round: usize, batch: u32) -> FrozenRequest {
    let id = format!("r-{thread}-{round}");
    if (thread + round).is_multiple_of(2) {
        return frozen(&id, RequestKind::DispatchNext, DISPATCHER, &grant_parameters("default", batch, 1));
    }
    let node = Node::new(&id).graph(&format!("graph-{thread}"));
    frozen(&id, RequestKind::Submit, PRODUCER, &json!({"nodes": [node.value()]}))
}

/// What is written from the grant of a Claim to its release, by the kind of request.
fn claims() {
    println!("| batch | Claims | commits a Claim | bytes a Claim | grant | start | bind | finish | result | release |");
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for batch in [1, 2, 4, 8, 16] {
        let text = generator::ledger(mix(batch), 1 << 20);
        let claims = cold(&text).claims().len();
        let mut bytes: BTreeMap<String, usize> = BTreeMap::new();
        let mut commits = 0;
        for line in text.lines() {
            let commit: Value = serde_json::from_str(line).unwrap();
            let kind = commit["request"]["kind"].as_str().unwrap();
            let state = commit["operations"][0]["state"].as_str().unwrap_or_default();
            let name = if kind == "dispatch" { state } else { kind };
            if !matches!(name, "submit" | "control" | "policy") {
                commits += 1;
                *bytes.entry(name.to_owned()).or_default() += line.len() + 1;
            }
        }
        let total = bytes.values().sum::<usize>() / claims;
        let parts = ["dispatch_next", "started", "bound", "finish", "result", "release"];
        let parts = parts.map(|name| (bytes.remove(name).unwrap_or_default() / claims).to_string()).join(" | ");
        assert!(bytes.is_empty(), "{bytes:?}");
        println!("| {batch} | {claims} | {:.2} | {total} | {parts} |", f64::from(commits) / claims as f64);
    }
}

/// An AW Policy of some profiles, each of dispatches of `batch` Claims, under four accounting keys.
fn policy(profiles: usize, batch: u32, share_keys: bool) -> Value {
    let mut policy = aw_policy();
    policy["accounting_weights"] = json!({"": 1, "a": 1, "b": 2, "c": 4});
    policy["pools"]["default"]["logical_limit"] = 4096.into();
    policy["pools"]["default"]["native_limit"] = 4096.into();
    let known = &mut policy["pools"]["default"]["profiles"];
    let mut route = known["default"].clone();
    route["max_claims"] = batch.into();
    route["share_keys"] = share_keys.into();
    for profile in 0..profiles {
        known[if profile == 0 { "default".to_owned() } else { format!("p{profile}") }] = route.clone();
    }
    policy
}

/// A reproducible choice.
fn dice(state: &mut u64, bound: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 33) as usize) % bound
}

/// S-628: slots that a dispatcher had and a fair prefix did not fill although Work was waiting, because the prefix stops at the
/// first winner that does not fit.
fn prefixes() {
    const WORKS: usize = 96;
    println!(
        "| profiles | batch | share keys | dispatches asked | requests | slots | used | unused while Work waited | why it stopped |"
    );
    println!("| ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | --- |");
    for (profiles, batch, share, dispatches) in [
        (1, 1, false, 4),
        (1, 4, true, 4),
        (1, 4, false, 4),
        (3, 4, true, 4),
        (3, 4, false, 4),
        (1, 16, true, 1),
        (3, 16, true, 1),
        (3, 16, false, 1),
    ] {
        let mut seed = 1;
        let nodes: Vec<_> = (0..WORKS)
            .map(|key| {
                let account = ["", "a", "b", "c"][dice(&mut seed, 4)];
                let profile = ["default", "p1", "p2"][dice(&mut seed, 3) % profiles];
                let priority = dice(&mut seed, 5) as i64 + 1;
                Node::new(&format!("n{key}"))
                    .graph(&format!("g{key}"))
                    .account(account)
                    .profile(profile)
                    .priority(priority)
            })
            .collect();
        let mut queue = Queue::open(&policy(profiles, batch, share), &nodes);
        let (mut requests, mut slots, mut used) = (0, 0, 0);
        let mut stopped: BTreeMap<&str, usize> = BTreeMap::new();
        let parameters = grant_parameters("default", (batch * dispatches).min(16), dispatches);
        loop {
            let available = queue.state.stats().counts.available as usize;
            let offered = (batch * dispatches).min(16) as usize;
            let decision = queue.decide(RequestKind::DispatchNext, DISPATCHER, 2000 + requests, &parameters);
            let Ok(Decision::Publish(generated)) = decision else { break };
            // The last request finds less Work than slots, which says nothing about prefixes.
            if available >= offered {
                slots += offered;
                used += generated.commit.operations.len();
                *stopped.entry(generated.stopped.as_ref().map_or("none", |(reason, _)| *reason)).or_default() += 1;
            }
            requests += 1;
            queue.publish(Decision::Publish(generated)).unwrap();
        }
        let why: Vec<_> = stopped.iter().map(|(reason, times)| format!("`{reason}` {times}")).collect();
        println!(
            "| {profiles} | {batch} | {share} | {dispatches} | {requests} | {slots} | {used} | {:.0} % | {} |",
            100.0 * (slots - used) as f64 / slots as f64,
            why.join(", ")
        );
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [flag, batch, size] = arguments.as_slice()
        && flag == "--generate"
    {
        print!("{}", generator::ledger(mix(batch.parse().unwrap()), size.parse::<usize>().unwrap() << 20));
        return;
    }
    let tables: [(&str, fn()); 4] =
        [("compaction", compaction), ("contention", contention), ("claims", claims), ("prefixes", prefixes)];
    for (name, table) in tables {
        if arguments.is_empty() || arguments.iter().any(|argument| argument == name) {
            println!("\n### {name}\n");
            table();
        }
    }
}
