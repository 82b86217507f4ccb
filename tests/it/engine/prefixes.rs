//! Replaying anew, extending what was replayed before, and keeping nothing at all give one state and one next answer.

use serde_json::Value;
use wq_action::engine::replay::replay_prefix;
use wq_action::engine::{Projection, replay};
use wq_action::protocol::At;
use wq_action::protocol::json::{Scanner, Writer};
use wq_action::protocol::ledger_text::LedgerText;

use crate::support::corpus::load_corpus;
use crate::support::ledger::{HOST, fixture};

/// What is next in every pool, when the last commit was decided and much later.
fn next(state: &Projection) -> Vec<String> {
    let installed = state.installed().unwrap();
    let last = state.requests().last().unwrap().at.get();
    let pools: Value = serde_json::from_str(installed.policy.source.as_str()).unwrap();
    let mut answers = Vec::new();
    for pool in pools["pools"].as_object().unwrap().keys() {
        for at in [last, last + 3_600_000] {
            let mut writer = Writer::new();
            match state.explain_pool(pool, At::new(at).unwrap()) {
                Ok(view) => view.write(&mut writer),
                Err(fault) => writer.string(fault.code().as_str()),
            }
            answers.push(format!("{pool} at {at}: {}", writer.finish()));
        }
    }
    answers
}

/// Digest of the logical snapshot, which holds what the serialised projection leaves out.
fn snapshot(state: &Projection, scanner: &mut Scanner) -> String {
    state.snapshot(scanner).unwrap().digest().as_str().to_owned()
}

/// Compares the three at every prefix of a ledger; the snapshot and the replay out of the whole file at every prefix
/// whose number this step divides.
fn check(name: &str, bytes: &[u8], host: &str, step: usize) -> usize {
    let whole = LedgerText::new(bytes.to_vec()).unwrap();
    let mut scanner = Scanner::new(host);
    let commits = whole.commits(&mut scanner).unwrap();
    let mut kept = Projection::empty();
    let mut end = 0;
    let count = commits.len();
    for (index, commit) in commits.into_iter().enumerate() {
        end += whole.line(index).unwrap().len() + 1;
        kept = kept.follow(commit, &mut scanner).unwrap();
        let place = format!("{name} prefix {}", index + 1);
        // Nothing is shared with what came before, not even the scanner.
        let mut own = Scanner::new(host);
        let cold = replay(&LedgerText::new(bytes[..end].to_vec()).unwrap(), &mut own).unwrap();
        let text = kept.serialise();
        assert!(cold.serialise() == text, "{place}");
        assert_eq!(next(&cold), next(&kept), "{place}");
        if (index + 1) % step == 0 || index + 1 == count {
            let mut other = Scanner::new(host);
            let out_of_all = replay_prefix(&whole, &mut other, index + 1).unwrap();
            assert!(out_of_all.serialise() == text, "{place}");
            assert_eq!(next(&out_of_all), next(&kept), "{place}");
            let expected = snapshot(&kept, &mut scanner);
            assert_eq!(snapshot(&cold, &mut own), expected, "{place}");
            assert_eq!(snapshot(&out_of_all, &mut other), expected, "{place}");
        }
    }
    count
}

fn check_corpus(chosen: impl Fn(&str) -> bool, step: usize) {
    let mut compared = 0;
    for case in load_corpus().into_iter().filter(|case| chosen(&case.name)) {
        compared += check(&case.name, &case.text, case.expect["host"].as_str().unwrap(), step);
    }
    crate::support::tell!("{compared} prefixes replayed in three ways");
}

/// S-068, S-070: replaying cold, extending the projection before it by the next commit, and replaying out of the whole
/// ledger without any projection kept agree at every prefix on the serialised projection, on the logical snapshot, and
/// on the next selection of every pool.
#[test]
fn three_ways_to_a_prefix_agree() {
    for name in ["three-commits.jsonl", "lifecycle.jsonl", "records.jsonl"] {
        let bytes = std::fs::read(fixture(name)).unwrap();
        // One of them is a collection of records and no replayable chain.
        if replay(&LedgerText::new(bytes.clone()).unwrap(), &mut Scanner::new(HOST)).is_ok() {
            check(name, &bytes, HOST, 1);
        } else {
            assert_eq!(name, "records.jsonl");
        }
    }
    check_corpus(|name| !name.starts_with("sL"), 1);
}

/// S-068, S-070: the same for one half of the long ledgers.
#[test]
fn three_ways_to_a_prefix_agree_on_long_ledgers() {
    check_corpus(|name| ["sL1", "sL2", "sL3"].contains(&name), 64);
}

/// S-068, S-070: the same for the other half.
#[test]
fn three_ways_to_a_prefix_agree_on_the_other_long_ledgers() {
    check_corpus(|name| ["sL4", "sL5", "sL6"].contains(&name), 64);
}
