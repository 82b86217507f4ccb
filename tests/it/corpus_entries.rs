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

/// O-290, O-291: each ledger of the corpus is read by `verify` and by the agent's tool with the tip and, pool by
/// pool, the states that the corpus expects, so both decide with one engine over one contract.
#[test]
fn the_corpus_reads_alike_through_both_entry_points() {
    for case in load_corpus() {
        let folder = tempfile::tempdir().unwrap();
        let host = case.expect["host"].as_str().unwrap();
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
        let tool = |name: &str, arguments: &Value| {
            let mut command = wq(folder.path(), host, &["tool", name, &arguments.to_string()]);
            command.env("GH_AW_WORK_QUEUE_ROLE", "dispatcher").env("GH_AW_WORK_QUEUE_SNAPSHOT", &path);
            let ran = Ran::of(command.output().unwrap());
            assert_eq!(ran.code, 0, "{}: {ran:?}", case.name);
            let read: Value = serde_json::from_str(&ran.out).unwrap();
            assert_eq!(read["queue_tip"], case.expect["tip"], "{}", case.name);
            read
        };
        tool("work_queue_explain", &json!({"work": "none"}));
        // The larger cases have no projection beside them, and so no list of pools.
        let Some(pools) = case.expect["projection"]["policy"]["pools"].as_object() else { continue };
        let works = case.expect["projection"]["works"].as_object().unwrap();
        for pool in pools.keys() {
            let read = tool("work_queue_read", &json!({"pool": pool, "limit": 1}));
            let mut expected = std::collections::BTreeMap::<&str, i64>::new();
            let inside = works.values().filter(|work| work["pool"] == pool.as_str());
            for work in inside.clone() {
                *expected.entry(work["state"].as_str().unwrap()).or_default() += 1;
            }
            assert_eq!(read["total"], inside.count(), "{} {pool}", case.name);
            for (state, count) in expected {
                assert_eq!(read["counts"][state], count, "{} {pool}: {state}", case.name);
            }
        }
    }
}
