//! Cold replay against `serde_json` over the same file, one selection, and the process start.
//!
//! Prints ratios against a yardstick of the same run; `docs/BENCHMARKS.md` keeps the figures.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a bench reports by printing and may panic")]

#[path = "support/generator.rs"]
mod generator;

use std::hint::black_box;
use std::time::{Duration, Instant};

use generator::{Generator, Shape, ledger};
use wq_action::engine::schedule::select;
use wq_action::engine::{Projection, replay};
use wq_action::ledger::cold;
use wq_action::ledger::extension::extend;
use wq_action::protocol::At;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::LedgerText;

/// Best of several runs: the one least disturbed.
fn best(runs: usize, mut measured: impl FnMut()) -> Duration {
    (0..runs)
        .map(|_| {
            let start = Instant::now();
            measured();
            start.elapsed()
        })
        .min()
        .unwrap()
}

/// Both begin with the bytes of the file, whose encoding each has to check.
fn yardstick(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let value: serde_json::Value = serde_json::from_slice(line).unwrap();
        black_box(&value);
    }
}

/// From bytes to a projection, which the caller drops when the clock has stopped: a command ends without doing so.
/// By one thread, as the pure engine does it.
fn alone(bytes: Vec<u8>) -> (LedgerText, Projection) {
    let ledger = LedgerText::new(bytes).unwrap();
    let projection = replay(&ledger, &mut Scanner::new("github.com")).unwrap();
    (ledger, projection)
}

/// The same as every command does it: helpers read lines ahead of the thread that applies them.
fn shipped(bytes: Vec<u8>) -> (LedgerText, Projection) {
    let ledger = LedgerText::new(bytes).unwrap();
    let projection = cold::replay(&ledger, &mut Scanner::new("github.com")).unwrap();
    (ledger, projection)
}

/// Runs and times one thing, and gives back what it made.
fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let made = black_box(work());
    (start.elapsed(), made)
}

/// The other way to read the yardstick: text whose encoding somebody has checked before.
fn yardstick_checked(text: &str) {
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        black_box(&value);
    }
}

/// Best times of several cold replays, on one thread and as shipped, and of both yardsticks, taken in turns so that a
/// noisy moment meets all. The file's bytes are in memory before each clock starts.
fn best_of_all(runs: usize, text: &str) -> [Duration; 4] {
    let each = (0..runs).map(|_| {
        let replayed = |how: fn(Vec<u8>) -> (LedgerText, Projection)| {
            let bytes = text.as_bytes().to_vec();
            timed(|| how(bytes)).0
        };
        let [alone, shipped] = [replayed(alone), replayed(shipped)];
        let (theirs, ()) = timed(|| yardstick(text.as_bytes()));
        let (checked, ()) = timed(|| yardstick_checked(text));
        [alone, shipped, theirs, checked]
    });
    each.reduce(|a, b| std::array::from_fn(|index| a[index].min(b[index]))).unwrap()
}

/// Peak resident memory of this process in bytes, as Linux counts it.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or("VmHWM: 0 kB");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Replays a file in a process of its own, so that its peak is its own.
fn peak_of_replay(path: &std::path::Path) -> u64 {
    let output =
        std::process::Command::new(std::env::current_exe().unwrap()).arg("--peak-of").arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

const MIB: f64 = (1 << 20) as f64;

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn replays() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("cold replay: targets 0.5 of serde_json for 16 and 64 MiB, peak/file 2.5; {cores} cores");
    let directory = tempfile::tempdir().unwrap();
    // The process itself takes a few MiB before it reads anything; a ledger of one commit shows them.
    let smallest = directory.path().join("smallest.jsonl");
    std::fs::write(&smallest, Generator::new(Shape::default()).text()).unwrap();
    let idle = peak_of_replay(&smallest);
    println!("the process alone peaks at {:.1} MiB, which peak/file leaves out", idle as f64 / MIB);
    println!(
        "| file | commits | serde_json | as shipped | ratio | one thread | ratio | checked text | peak | peak/file |"
    );
    for mib in [1, 16, 64, 80] {
        let text = ledger(Shape::default(), (mib << 20) - if mib < 80 { 1 << 16 } else { 1 << 12 });
        let runs = if mib > 16 { 7 } else { 25 };
        let [alone, shipped, theirs, checked] = best_of_all(runs, &text);
        let path = directory.path().join(format!("{mib}.jsonl"));
        std::fs::write(&path, &text).unwrap();
        let peak = peak_of_replay(&path);
        println!(
            "| {:.1} MiB | {} | {:.1} ms | {:.1} ms | {:.2} | {:.1} ms | {:.2} | {:.2} / {:.2} | {:.1} MiB | {:.2} |",
            text.len() as f64 / MIB,
            text.lines().count(),
            ms(theirs),
            ms(shipped),
            shipped.as_secs_f64() / theirs.as_secs_f64(),
            ms(alone),
            alone.as_secs_f64() / theirs.as_secs_f64(),
            shipped.as_secs_f64() / checked.as_secs_f64(),
            alone.as_secs_f64() / checked.as_secs_f64(),
            peak as f64 / MIB,
            peak.saturating_sub(idle) as f64 / text.len() as f64
        );
    }
}

/// What one more commit costs a process that has the ledger before it replayed and the bytes of the longer one at hand:
/// proving that they begin with what it knows, reading and applying the new line.
fn extension() {
    println!("incremental replay by one commit: target 5 ms for 64 MiB");
    println!("| file | incremental | freeing the file's bytes |");
    for mib in [1, 16, 64, 80] {
        let text = ledger(Shape::default(), (mib << 20) - if mib < 80 { 1 << 16 } else { 1 << 12 });
        let last = text.trim_end().rfind('\n').unwrap() + 1;
        let (before, state) = shipped(text.as_bytes()[..last].to_vec());
        let mut scanner = Scanner::new("github.com");
        let each = (0..15).map(|_| {
            let (known, bytes) = (state.clone(), text.as_bytes().to_vec());
            let (took, extended) = timed(|| extend(known, &bytes, &mut scanner));
            assert_eq!(extended.unwrap().ledger_bytes(), text.len() as u64);
            [took, timed(|| drop(bytes)).0]
        });
        let [took, freed] = each.reduce(|a, b| std::array::from_fn(|index| a[index].min(b[index]))).unwrap();
        println!("| {:.1} MiB | {:.2} ms | {:.2} ms |", text.len() as f64 / MIB, ms(took), ms(freed));
        drop((before, state));
    }
}

fn selection() {
    let shape = Shape { keys: 1023, nodes: 64, payload: 20, batch: 1, controls: 0 };
    let mut generator = Generator::new(shape);
    while generator.state().stats().counts.available < 4096 {
        generator.submit(false);
    }
    let state = generator.state();
    let at = At::new(1_800_000_000_000).unwrap();
    let rounds = 200;
    let took = best(10, || {
        for _ in 0..rounds {
            black_box(select(black_box(state), "default", at).unwrap());
        }
    });
    let each = took / rounds;
    println!(
        "one selection among {} available Work under {} keys: {:.1} us (target 20 us)",
        state.stats().counts.available,
        1024,
        each.as_secs_f64() * 1e6
    );
}

fn process_start() {
    let binary = env!("CARGO_BIN_EXE_wq");
    let took = best(20, || {
        black_box(std::process::Command::new(binary).arg("--version").output().unwrap());
    });
    let floor = best(20, || {
        black_box(std::process::Command::new("/bin/true").output().unwrap());
    });
    println!(
        "process start (wq --version): {:.1} ms, {:.1}x of /bin/true (bound 10 ms)",
        took.as_secs_f64() * 1e3,
        took.as_secs_f64() / floor.as_secs_f64()
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(position) = arguments.iter().position(|argument| argument == "--generate") {
        // For anyone who wants the file itself: `cargo bench --bench replay -- --generate MIB > ledger.jsonl`.
        let mib: usize = arguments[position + 1].parse().unwrap();
        print!("{}", ledger(Shape::default(), mib << 20));
        return;
    }
    if let Some(position) = arguments.iter().position(|argument| argument == "--peak-of") {
        let bytes = std::fs::read(&arguments[position + 1]).unwrap();
        let ledger = LedgerText::new(bytes).unwrap();
        black_box(cold::replay(&ledger, &mut Scanner::new("github.com")).unwrap());
        println!("{}", peak());
        return;
    }
    if arguments.iter().any(|argument| argument == "--extension") {
        return extension();
    }
    if let Some(position) = arguments.iter().position(|argument| argument == "--ratio-of") {
        let text = std::fs::read_to_string(&arguments[position + 1]).unwrap();
        let [alone, shipped, theirs, _] = best_of_all(9, &text);
        println!("serde_json {:.1} ms, as shipped {:.1} ms, one thread {:.1} ms", ms(theirs), ms(shipped), ms(alone));
        return;
    }
    replays();
    extension();
    selection();
    process_start();
}
