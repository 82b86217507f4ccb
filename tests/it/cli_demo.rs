//! The demo, through the binary.

use std::time::{Duration, Instant};

use crate::support::cli::{run, wq};

/// O-014, O-254: the migration story comes to its end within its time: competing dispatcher processes, a batch of
/// three with one Claim completed, one cancelled and one omitted, a lost run reconciled, successors released by
/// Results, every Work verified, the ledger sound. Each Claim moved its account's pass on by one, cancelled or not.
#[test]
fn the_demo_plays_to_its_end() {
    let here = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let answer = run(here.path(), &["demo", "--json"]).json(0);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!((answer["ok"].as_bool(), answer["native_runs"].as_str()), (Some(true), Some("simulated")));
    assert_eq!(answer["ledger"]["ok"], true);
    let stats = &answer["stats"];
    assert_eq!((stats["completed"].as_u64(), stats["work"].as_u64()), (Some(14), Some(14)));
    assert_eq!((stats["metrics"]["results"].as_u64(), stats["dispatches"].as_u64()), (Some(14), Some(0)));
    // One cancelled by its worker, one omitted, one lost: three Claims more than Work.
    assert_eq!((stats["claims"].as_u64(), stats["metrics"]["claim_cancellations"].as_u64()), (Some(17), Some(3)));
    let turns = answer["turns"].as_array().unwrap();
    let granted: usize = turns.iter().map(|turn| turn["claims"].as_array().unwrap().len()).sum();
    assert_eq!(granted, 17);
    assert!(turns.iter().any(|turn| turn["claims"].as_array().unwrap().is_empty()), "somebody came too late");
    let told = answer["events"].to_string();
    for part in ["release backend and frontend", "release switch", "the answer never came", "said nothing of"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

/// The demo can leave its repository for the other commands.
#[test]
fn the_demo_can_be_looked_at_afterwards() {
    let here = tempfile::tempdir().unwrap();
    let mut command = wq(here.path());
    let output = command.args(["demo", "--keep", "--dispatchers", "2"]).env("TMPDIR", here.path()).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && told.contains("Native runs were simulated."), "{told}");
    let kept = std::fs::read_dir(here.path()).unwrap().next().unwrap().unwrap().path().join("queue.git");
    let stats = run(here.path(), &["stats", "--json", "--remote", kept.to_str().unwrap()]).json(0);
    assert_eq!(stats["completed"], 14);
}
