//! The corpus through both entry points: ledgers that were made independently of this code, as the operator's command line
//! reads them and as the Action's agent side reads them.

use serde_json::{Value, json};

use crate::support::cli::Ran;
use crate::support::corpus::load_corpus;
use crate::support::git::feed;

/// The binary with the environment that both entry points need.
fn wq(directory: &std::path::Path, host: &str, arguments: &[&str]) -> std::process::Command {
    let mut command = crate::support::cli::wq(directory);
    command.args(arguments).env("GITHUB_SERVER_URL", format!("https://{host}")).env("RUNNER_TEMP", directory);
    command
}

/// O-290, O-291: each ledger of the corpus is read by `verify` and by the agent's tool with the states and the tip that
/// the corpus expects, so both decide with one engine over one contract.
#[test]
fn the_corpus_reads_alike_through_both_entry_points() {
    for case in load_corpus() {
        let folder = tempfile::tempdir().unwrap();
        let host = case.expect["host"].as_str().unwrap();
        let stats = &case.expect["stats"];
        let verified = Ran::of(feed(wq(folder.path(), host, &["verify", "--ledger", "-", "--json"]), &case.text));
        let told = verified.json(0);
        assert_eq!(told["tip"], case.expect["tip"], "{}", case.name);

        let repository = case.expect["projection"]["repository"].as_str().unwrap_or("o/r");
        let last = case.expect["predictions"].as_array().and_then(|all| all.last());
        let at = last.and_then(|prediction| prediction["at"].as_i64()).unwrap_or(1_800_000_000_000);
        let origin = json!({"role": "dispatcher", "principal": "1", "repository": repository,
            "workflow": ".github/workflows/d.lock.yml", "run_id": "1", "run_attempt": 1});
        let snapshot = json!({"version": 3, "sha": "1".repeat(40), "worker": null, "captured_at": at, "origin": origin,
            "transactionLog": str::from_utf8(&case.text).unwrap()});
        let path = folder.path().join("snapshot.json");
        std::fs::write(&path, snapshot.to_string()).unwrap();
        let mut counts = std::collections::BTreeMap::<String, i64>::new();
        let mut total = 0;
        for pool in case.expect["projection"]["policy"]["pools"].as_object().unwrap().keys() {
            let asked = json!({"pool": pool, "limit": 1}).to_string();
            let mut command = wq(folder.path(), host, &["tool", "work_queue_read", &asked]);
            command.env("GH_AW_WORK_QUEUE_ROLE", "dispatcher").env("GH_AW_WORK_QUEUE_SNAPSHOT", &path);
            let ran = Ran::of(command.output().unwrap());
            assert_eq!(ran.code, 0, "{} {pool}: {ran:?}", case.name);
            let read: Value = serde_json::from_str(&ran.out).unwrap();
            assert_eq!(read["queue_tip"], case.expect["tip"], "{}", case.name);
            total += read["total"].as_i64().unwrap();
            for (state, count) in read["counts"].as_object().unwrap() {
                *counts.entry(state.clone()).or_default() += count.as_i64().unwrap();
            }
        }
        // Work of a pool that a later Policy no longer has is in no pool that can be asked for.
        if case.features.iter().all(|feature| !feature.contains("epoch") && !feature.contains("policy")) {
            for state in ["available", "claimed", "completed", "cancelled"] {
                let expected = stats[state].as_i64().unwrap();
                assert_eq!(counts.get(state).copied().unwrap_or(0), expected, "{}: {state}", case.name);
            }
            assert_eq!(total, stats["work"].as_i64().unwrap(), "{}", case.name);
        }
    }
}
