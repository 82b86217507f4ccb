//! The incremental planner against one that scans everything, at every prefix of every ledger.

use serde_json::Value;
use wq_action::engine::Projection;

use super::corpus_replay::{first_difference, predict, prefixes};
use super::naive::{Ask, Naive};
use crate::support::corpus::load_corpus;

pub(super) fn asks(state: &Projection, document: &Value, at: i64) -> Vec<Ask> {
    let installed = state.installed().unwrap();
    let operations = installed.policy.limits.operations as usize;
    let mut asks = Vec::new();
    for (pool, policy) in &installed.policy.pools {
        let profiles: Vec<String> = policy.profiles.keys().map(|name| name.as_str().to_owned()).collect();
        let age = policy.max_observation_age_ms.get();
        let wakes: Vec<i64> = document["works"]
            .as_object()
            .unwrap()
            .values()
            .filter_map(|work| work["retry_not_before"].as_i64())
            .filter(|time| *time > at)
            .take(1)
            .flat_map(|time| [time - 1, time])
            .collect();
        let plain = Ask {
            pool: pool.as_str().to_owned(),
            max_claims: 256,
            max_dispatches: 256,
            max_bytes: 49_152,
            worker_profiles: None,
            preceding: 0,
            at,
        };
        asks.push(plain.clone());
        asks.push(Ask { max_claims: 3, max_dispatches: 1, at: at + age, ..plain.clone() });
        asks.push(Ask { max_claims: 16, max_dispatches: 2, max_bytes: 1500, at: at + 1, ..plain.clone() });
        asks.push(Ask { max_bytes: 2200, at: at + 100_000_000, ..plain.clone() });
        asks.push(Ask { worker_profiles: Some(profiles[..1].to_vec()), ..plain.clone() });
        asks.push(Ask { worker_profiles: Some(Vec::new()), ..plain.clone() });
        asks.push(Ask { preceding: operations - 2.min(operations), at: at.max(1000) - 1000, ..plain.clone() });
        asks.push(Ask { preceding: operations, max_claims: 1, ..plain.clone() });
        asks.extend(wakes.into_iter().map(|at| Ask { at, max_claims: 8, ..plain.clone() }));
    }
    asks
}

pub(super) fn prediction(ask: &Ask) -> Value {
    let mut value = serde_json::json!({
        "pool": ask.pool, "max_claims": ask.max_claims, "max_dispatches": ask.max_dispatches,
        "max_bytes": ask.max_bytes, "at": ask.at, "preceding_operations": ask.preceding,
        "request_id": "plan \\ request", "commit_id": "commit",
    });
    if let Some(profiles) = &ask.worker_profiles {
        value["worker_profiles"] = serde_json::json!(profiles);
    }
    value
}

/// S-048, S-097, S-115: the frontier, the counters and the clocks that the engine keeps lead to the answers of a scan
/// over everything, and the reserve that it keeps is the sum over all states. Planning changes nothing.
#[test]
fn the_planner_equals_a_scan_over_everything() {
    let mut wrong = Vec::new();
    let (mut plans, mut claims, mut states) = (0, 0, 0);
    for case in load_corpus() {
        let ledger: Vec<Value> =
            std::str::from_utf8(&case.text).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        // Long ledgers are sampled; every state still has its digest checked elsewhere.
        let step = if ledger.len() > 200 { 7 } else { 1 };
        let reached = prefixes(&case, &mut wrong);
        for (index, state) in reached.iter().enumerate().filter(|(index, _)| index % step == 0) {
            let text = state.serialise();
            let document: Value = serde_json::from_str(&text).unwrap();
            let naive = Naive::new(&document);
            states += 1;
            if state.headroom() != naive.headroom() {
                wrong.push(format!("{} prefix {}: reserve {}", case.name, index + 1, state.headroom()));
            }
            for ask in asks(state, &document, ledger[index]["at"].as_i64().unwrap()) {
                let expected = naive.plan(&ask, "plan \\ request", "commit");
                plans += 1;
                claims += expected["work_ids"].as_array().unwrap().len();
                if let Some(difference) = first_difference("", &predict(state, &prediction(&ask)), &expected) {
                    wrong.push(format!("{} prefix {} {ask:?}: {difference}", case.name, index + 1));
                }
            }
            assert_eq!(state.serialise(), text, "planning changed {} prefix {}", case.name, index + 1);
        }
    }
    crate::support::tell!("{plans} plans with {claims} Claims on {states} states");
    wrong.truncate(20);
    assert!(wrong.is_empty(), "wrong:\n{}", wrong.join("\n"));
}
