//! Every damaged ledger that chain or replay must refuse is refused with its code, at its line.

use std::collections::BTreeMap;

use serde_json::Value;
use wq_action::engine::replay;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::{LedgerFault, LedgerText};

use crate::support::corpus::{InvalidCase, load_corpus, load_invalid};

const LATER: [&str; 1] = ["Checkpoint"];

fn outcome(text: &[u8], host: &str) -> Result<(), LedgerFault> {
    replay(&LedgerText::new(text.to_vec())?, &mut Scanner::new(host)).map(drop)
}

/// The first line, at or before the refusing one, that holds an operation which this version refuses, and its kind.
/// Without a line at fault the whole text counts.
fn later_feature(case: &InvalidCase) -> Option<(usize, String)> {
    let text = String::from_utf8_lossy(&case.text);
    let last = case.line.unwrap_or(usize::MAX);
    text.lines().enumerate().take(last).find_map(|(index, line)| {
        let commit: Value = serde_json::from_str(line).ok()?;
        let kinds = commit["operations"].as_array()?.iter().filter_map(|operation| operation["kind"].as_str());
        let kind = kinds.into_iter().find(|kind| LATER.contains(kind))?;
        Some((index + 1, kind.to_owned()))
    })
}

fn check(file: &str) {
    let mut wrong = Vec::new();
    let mut skipped: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut run, mut other) = (0, 0);
    for case in load_invalid(file) {
        let outcome = outcome(&case.text, &case.host);
        if file == "replay"
            && let Some((line, feature)) = later_feature(&case)
        {
            // Refused all the same, and for that reason.
            match outcome {
                Err(fault) if fault.fault.code().as_str() == "unsupported_protocol" && fault.line == Some(line) => {}
                outcome => wrong.push(format!("{}: {outcome:?}, not unsupported at {line}", case.name)),
            }
            skipped.entry(feature).or_default().push(case.name);
            continue;
        }
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
    for (feature, names) in skipped {
        crate::support::tell!("{file}: behind {feature}: {} cases: {}", names.len(), names.join(" "));
    }
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

/// A ledger with an operation that this version does not support is refused as such, at that operation's line, and
/// never read halfway.
#[test]
fn later_features_are_refused_by_name() {
    let mut wrong = Vec::new();
    for case in load_corpus() {
        let later = case.features.iter().any(|feature| LATER.contains(&feature.as_str()));
        match outcome(&case.text, case.expect["host"].as_str().unwrap()) {
            Ok(()) if !later => {}
            Err(fault) if later && fault.fault.code().as_str() == "unsupported_protocol" && fault.line.is_some() => {}
            outcome => wrong.push(format!("{}: {outcome:?}", case.name)),
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
