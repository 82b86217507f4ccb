//! Issues and pull requests that submitted Work names and waits for.

use serde_json::{Value, json};

use super::Desk;
use crate::support::cli::Ran;
use crate::support::git::feed;
use crate::support::github::{Endpoint, OCTO_WIDGETS, WRITER};

fn submit(desk: &Desk, nodes: &Value) -> Ran {
    let arguments = ["submit-graph", "--file", "-", "--repo", OCTO_WIDGETS, "--json"];
    Ran::of(feed(desk.command(WRITER, &arguments), nodes.to_string().as_bytes()))
}

fn waiting_for(key: &str, kind: &str, number: u64, condition: &str) -> Value {
    json!({"graph_id": "gates", "node_key": key, "payload": {"task": key}, "depends_on": [
        {"kind": kind, "resource": {"repository": OCTO_WIDGETS, "number": number}, "condition": condition}]})
}

/// O-312: a graph may wait for Issues and pull requests; their identities are what the host shows, and one that it does
/// not show refuses the whole graph. O-252: a grant looks at them first, and only completion and an actual merge release.
#[test]
fn graphs_wait_for_issues_and_pull_requests() {
    let desk = Desk::with_work(&["alpha"]);
    desk.wq(&["dispatch-next"]).json(0);
    let ledger = desk.bare.ledger();
    let (issue, pull) = (desk.github.issue(OCTO_WIDGETS, 7), desk.github.pull(OCTO_WIDGETS, 8));
    let missing = json!([waiting_for("a", "issue", 7, "completed"), waiting_for("b", "issue", 99, "completed")]);
    let refused = submit(&desk, &missing);
    assert_eq!(refused.error(4), "external_admission_unverified");
    assert_eq!(desk.bare.ledger(), ledger, "all or nothing");
    let nodes = json!([waiting_for("a", "issue", 7, "completed"), waiting_for("b", "pull_request", 8, "merged")]);
    let admitted = submit(&desk, &nodes).json(0);
    assert_eq!(admitted["nodes"], 2);
    let projection = desk.wq(&["replay"]).json(0)["projection"].take();
    let resource = |work: &Value| {
        let work = &projection["works"][work.as_str().unwrap()];
        let work = work.get("work").unwrap_or(work);
        work["depends_on"][0]["resource"].clone()
    };
    let ids = &admitted["work_ids"];
    assert_eq!(resource(&ids[0])["resource_id"], issue.to_string());
    assert_eq!(resource(&ids[1])["resource_id"], pull.to_string());
    let (tip, reads) = (desk.bare.ledger(), desk.calls(&[Endpoint::Issue, Endpoint::Pull]));
    let held = desk.wq(&["dispatch-next"]).json(0);
    assert_eq!((held["status"].as_str(), held["reason"].as_str()), (Some("no_grant"), Some("external_wait")));
    assert!(desk.calls(&[Endpoint::Issue, Endpoint::Pull]) > reads);
    assert_eq!(desk.bare.ledger(), tip, "what was seen is written with a grant alone");
    desk.github.change_issue(OCTO_WIDGETS, 7, |issue| {
        (issue.state, issue.state_reason) = ("closed".to_owned(), Some("not_planned".to_owned()));
    });
    desk.github.change_pull(OCTO_WIDGETS, 8, |pull| pull.state = "closed".to_owned());
    assert_eq!(desk.wq(&["dispatch-next"]).json(0)["status"], "no_grant");
    desk.github.change_issue(OCTO_WIDGETS, 7, |issue| issue.state_reason = Some("completed".to_owned()));
    desk.github.merge(OCTO_WIDGETS, 8, &"d".repeat(40));
    let granted = desk.wq(&["dispatch-next", "--max-claims", "2", "--max-dispatches", "2"]).json(0);
    assert_eq!(granted["claims"].as_array().unwrap().len(), 2, "{granted}");
    let operations = desk.ledger().pop().unwrap()["operations"].take();
    let kinds: Vec<&str> = operations.as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Observation", "Observation", "Claim", "Claim"]);
}
