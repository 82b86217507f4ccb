//! The minimum behaviour of a launch (lifecycle.md 11), each with its number, and the rows of its tables.

mod binding;
mod discovery;
mod launch;
mod recovery;
mod release;

use wq_action::launch::report::GroupReport;
use wq_action::protocol::DispatchId;
use wq_action::protocol::assignment::Assignment;

use crate::support::processes::{Shift, Stage};

/// A queue with this many groups granted and none launched.
fn granted(groups: usize) -> (Stage, Shift, Vec<Assignment>) {
    let stage = Stage::with_works(groups);
    let shift = stage.shift();
    stage.publish(&stage.dispatch_next(&shift, "grant-1", groups)).unwrap();
    let assignments = stage.assignments("grant-1");
    assert_eq!(assignments.len(), groups);
    (stage, shift, assignments)
}

/// What a report says: state, code in the way, whether it sent the POST.
fn said(report: &GroupReport) -> (&'static str, Option<&'static str>, bool) {
    (report.state.as_str(), report.blocked.map(|code| code.as_str()), report.dispatched)
}

/// The one run of a dispatch.
fn run_of(stage: &Stage, dispatch: &DispatchId) -> u64 {
    let runs = stage.github.runs_of_dispatch(dispatch.as_str());
    assert_eq!(runs.len(), 1);
    runs[0]
}

/// The reasons of the last reads, and what the ledger says about a dispatch: the states of its operations in order.
fn history(stage: &Stage, dispatch: &DispatchId) -> Vec<String> {
    let mut history = Vec::new();
    for line in stage.text().lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        for operation in line["operations"].as_array().unwrap() {
            if operation["dispatch_id"] == dispatch.as_str() {
                match operation["kind"].as_str().unwrap() {
                    "Dispatch" => history.push(operation["state"].as_str().unwrap().to_owned()),
                    "Release" => history.push(format!("release:{}", operation["evidence"]["kind"].as_str().unwrap())),
                    _ => {}
                }
            }
        }
    }
    history
}
