//! Measures with a captured ledger (publication.md 8.2): `GH_AW_WORK_QUEUE_PERF_LEDGER` names the file, and
//! `GH_AW_WORK_QUEUE_PERF_LIVE_HEAD` the commit of the queue branch that it was taken from, whose objects lie in the
//! repository of this checkout. Reads alone: no network, no write, no launch. Without the two variables nothing is measured.

use std::path::Path;
use std::time::Instant;

use wq_action::engine::{Projection, replay};
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::LedgerText;

use crate::support::git::{Bare, git_command};
use crate::support::queue::{World, submit};
use crate::support::tell;

fn state(bytes: Vec<u8>) -> Projection {
    replay(&LedgerText::new(bytes).unwrap(), &mut Scanner::new("github.com")).unwrap()
}

/// Replays the file and the ledger of that commit, holds both states against each other, and times a cold and a second
/// reading.
fn measure(ledger: &Path, head: &str, repository: &Path) -> String {
    let begun = Instant::now();
    let captured = state(std::fs::read(ledger).unwrap());
    let cold = begun.elapsed();
    let begun = Instant::now();
    let again = state(std::fs::read(ledger).unwrap());
    let repeated = begun.elapsed();
    assert_eq!(captured.serialise(), again.serialise());
    assert!(head.len() >= 40 && head.bytes().all(|byte| byte.is_ascii_hexdigit()), "the head is no commit");
    let shown =
        git_command(repository).args(["cat-file", "blob", &format!("{head}:work-queue.jsonl")]).output().unwrap();
    assert!(shown.status.success(), "the head's objects are not here");
    let live = state(shown.stdout);
    assert_eq!(captured.serialise(), live.serialise(), "the file is not that commit's ledger");
    let stats = captured.stats();
    format!(
        "live data: {} commits, {} Work, {} bytes; cold {} ms, repeated {} ms",
        stats.transactions,
        stats.work,
        captured.ledger_bytes(),
        cold.as_millis(),
        repeated.as_millis()
    )
}

/// Skipped without the two variables.
#[test]
fn a_captured_ledger_is_measured_where_one_is_named() {
    let (ledger, head) =
        (std::env::var("GH_AW_WORK_QUEUE_PERF_LEDGER"), std::env::var("GH_AW_WORK_QUEUE_PERF_LIVE_HEAD"));
    match (ledger, head) {
        (Ok(ledger), Ok(head)) => tell!("{}", measure(Path::new(&ledger), &head, Path::new("."))),
        _ => tell!("live data: not measured, no ledger and head are named"),
    }
}

/// What is measured is what the branch holds; a file of another version is refused, and nothing is written.
#[test]
fn the_measure_compares_file_and_branch() {
    let bare = Bare::new();
    let world = World::new(bare.transport());
    let policy = crate::support::queue::policy();
    world.publisher().publish_request(&submit("one"), Some(&policy)).unwrap();
    let (first, older) = (bare.resolve("refs/heads/work-queue").unwrap(), bare.ledger());
    world.publisher().publish_request(&submit("two"), None).unwrap();
    let head = bare.resolve("refs/heads/work-queue").unwrap();
    let file = bare.around().join("captured.jsonl");
    std::fs::write(&file, bare.ledger()).unwrap();
    assert!(measure(&file, &head, &bare.path()).contains("2 commits, 2 Work"));
    std::fs::write(&file, older).unwrap();
    assert!(measure(&file, &first, &bare.path()).contains("1 commits"));
    assert!(std::panic::catch_unwind(|| measure(&file, &head, &bare.path())).is_err());
    assert_eq!(bare.resolve("refs/heads/work-queue").unwrap(), head);
}
