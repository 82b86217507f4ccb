//! `docs/FAILURES.md` says what every stable code means.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use wq_action::protocol::Code;

use crate::tree;

const INTRODUCTION: &str = "\
# Failures

<!-- Generated from src/protocol/code.rs: change the sentences there, then run
     WQ_UPDATE_DOCS=1 cargo test --test it in_step -->

A command that fails says a stable code, a sentence, and what to do next. Programs match on the code, which never
changes its meaning; the sentence may. With `--json` the code is the member `code`. No message quotes payloads, tokens,
paths or what a remote answered.

## Exit statuses

| exit | meaning |
| --- | --- |
| 0 | done, or a legitimate answer that nothing can be granted now |
| 2 | usage, configuration or input file: correct it and run again |
| 3 | the ledger or snapshot is invalid or unsupported: nothing was changed |
| 4 | denied: role, scope, credential, pause, budget or a rule of the repository |
| 5 | the outcome is unknown: publication could not be proven; the same command with the same `--request-id` may be repeated safely |
| 6 | recovery required: something durable needs a person or a later run |
| 7 | host, network or service unavailable |
| 70 | a bug in `wq`; nothing was written |

## What is not supported

A ledger is read whole or not at all. `unsupported_protocol` refuses a record whose `version` is not 3 or is missing, an
operation kind that this version does not know, a branch that still holds the predecessor's `dispatch-work-coordinator.jsonl`,
and a ledger that uses a feature which is not finished yet. Nothing is converted, skipped or half-read, and the branch
stays as it is: read it with the version that wrote it, or choose another branch.

## Codes

| code | exit | meaning |
| --- | --- | --- |
";

/// S-650: what `unsupported_protocol` means, and that such a ledger stays untouched, is documented with all other codes.
#[test]
fn failures_document_in_step() {
    let mut text = INTRODUCTION.to_owned();
    for code in Code::ALL {
        writeln!(text, "| `{code}` | {} | {} |", code.exit(), code.meaning()).unwrap();
    }
    tree::keep_in_step("docs/FAILURES.md", &text);
}

/// One name and one sentence per code, in order, each with an exit status of the documented table.
#[test]
fn codes_are_distinct_and_ordered() {
    let names: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "codes are declared in alphabetical order, once each");
    let meanings: BTreeSet<_> = Code::ALL.iter().map(|code| code.meaning()).collect();
    assert_eq!(meanings.len(), names.len(), "two codes share a sentence");
    for code in Code::ALL {
        assert!([2, 3, 4, 5, 6, 7, 70].contains(&code.exit()), "{code} has an undocumented exit status");
        assert!(code.meaning().ends_with('.'), "{code} has no whole sentence");
        assert!(code.as_str().bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_')));
    }
}
