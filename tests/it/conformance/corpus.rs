//! Every ledger of the corpus decodes and encodes to itself; every damaged one is refused with its code and line.

use wq_action::protocol::Wire as _;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::LedgerText;

use crate::support::corpus::{load_corpus, load_invalid};
use crate::support::ledger::read;

/// S-012, S-014: reading and writing keep every byte.
#[test]
fn every_line_decodes_and_encodes_to_itself() {
    let mut lines = 0;
    for case in load_corpus() {
        let host = case.expect["host"].as_str().unwrap().to_owned();
        let text = LedgerText::new(case.text.clone()).unwrap_or_else(|fault| panic!("{}: {fault}", case.name));
        let mut scanner = Scanner::new(&host);
        let commits = text.commits(&mut scanner).unwrap_or_else(|fault| panic!("{}: {fault}", case.name));
        assert_eq!(commits.len() as u64, case.expect["commits"].as_u64().unwrap(), "{}", case.name);
        let bytes: u64 = commits.iter().map(|commit| commit.ledger_bytes()).sum();
        assert_eq!(bytes, case.text.len() as u64, "{}", case.name);
        for (index, commit) in commits.iter().enumerate() {
            let line = text.line(index).unwrap();
            assert_eq!(commit.source.as_str(), line.as_str(), "{} line {}", case.name, index + 1);
            let document = scanner.read(&line).unwrap();
            let root = document.root().object().unwrap();
            assert_eq!(root.get("actor").unwrap().raw(), commit.actor.canonical(), "{} line {}", case.name, index + 1);
            let spans = root.get("operations").unwrap().array().unwrap();
            assert_eq!(spans.clone().count(), commit.operations.len());
            for (span, operation) in spans.zip(&commit.operations) {
                assert_eq!(span.raw(), operation.canonical(), "{} line {}", case.name, index + 1);
            }
            lines += 1;
        }
        assert_eq!(commits.iter().map(|c| c.id.as_str()).filter(|id| *id == case.expect["tip"]).count(), 1);
    }
    crate::support::tell!("{lines} lines decoded and encoded to themselves");
}

fn check_invalid(file: &str) {
    let mut wrong = Vec::new();
    for case in load_invalid(file) {
        if !matches!(case.stage.as_str(), "codec" | "shape") {
            // Later steps judge these; here they must at least read.
            if let Err(fault) = read(&case.text, &case.host) {
                wrong.push(format!("{}: {fault} before {} at {:?}", case.name, case.code, case.line));
            }
            continue;
        }
        match read(&case.text, &case.host) {
            Ok(_) => wrong.push(format!("{}: accepted, not {} at {:?}", case.name, case.code, case.line)),
            Err(fault) if case.allows(fault.fault.code().as_str()) && fault.line == case.line => {}
            Err(fault) => wrong.push(format!("{}: {fault}, not {} at {:?}", case.name, case.code, case.line)),
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// S-009, S-016, S-018, S-020: exact code and line.
#[test]
fn damaged_text_is_refused() {
    check_invalid("codec");
}

/// S-005, S-042: exact code and line.
#[test]
fn damaged_records_are_refused() {
    check_invalid("shape");
}

#[test]
fn ledgers_that_only_replay_refuses_still_read() {
    check_invalid("chain");
    check_invalid("replay");
    check_invalid("checkpoint");
}
