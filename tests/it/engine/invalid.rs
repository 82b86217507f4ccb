//! Every damaged ledger that chain or replay must refuse is refused with its code, at its line.

use wq_action::engine::replay;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::{LedgerFault, LedgerText};

use crate::support::corpus::load_invalid;

fn outcome(text: &[u8], host: &str) -> Result<(), LedgerFault> {
    replay(&LedgerText::new(text.to_vec())?, &mut Scanner::new(host)).map(drop)
}

fn check(file: &str) {
    let mut wrong = Vec::new();
    let (mut run, mut other) = (0, 0);
    for case in load_invalid(file) {
        let outcome = outcome(&case.text, &case.host);
        run += 1;
        match outcome {
            Ok(()) => wrong.push(format!("{}: accepted, not {} at {:?}", case.name, case.code, case.line)),
            Err(fault) => {
                let code = fault.fault.code().as_str();
                if !case.allows(code) || fault.line != case.line {
                    wrong.push(format!(
                        "{} ({}): {fault}, not {} at {:?}",
                        case.name, case.mutation, case.code, case.line
                    ));
                }
                other += usize::from(code != case.code);
            }
        }
    }
    crate::support::tell!("{file}: {run} refused as published, {other} of them with a better code");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// S-032, S-036, S-037, S-038, S-039, S-040: roots, forks, rings, gaps and changed duplicates.
#[test]
fn broken_chains_are_refused() {
    check("chain");
}

#[test]
fn commits_that_break_a_rule_are_refused() {
    check("replay");
}

/// Damaged checkpoint roots: with the digest kept, and signed again.
#[test]
fn damaged_checkpoints_are_refused() {
    check("checkpoint");
}
