//! `wq inspect`, through the binary.

use serde_json::{Value, json};

use crate::support::built::{DISPATCHER, Node, Queue, aw_policy, seen};
use crate::support::cli::{Ran, feed, run};
use crate::support::git::Bare;
use wq_action::protocol::request::RequestKind;

fn ask(queue: &Queue, arguments: &[&str]) -> Ran {
    let here = tempfile::tempdir().unwrap();
    let mut all = vec!["inspect", "--ledger", "-"];
    all.extend(arguments);
    feed(here.path(), &all, &queue.text)
}

fn told(queue: &Queue, arguments: &[&str]) -> Value {
    ask(queue, &[arguments, &["--json"]].concat()).json(0)
}

/// Two Work in one dispatch, and one behind both a Work and a gate.
fn group() -> Queue {
    let mut policy = aw_policy();
    policy["pools"]["default"]["profiles"]["default"]["max_claims"] = 2.into();
    Queue::open(&policy, &[Node::new("a"), Node::new("b"), Node::new("c").after("a").gate(5, "completed")])
}

/// O-298: exactly one of the two selectors; whatever is selected, the ids of Work, Claim, dispatch, request and commits
/// are printed whole.
#[test]
fn ids_are_whole_and_selectors_exclusive() {
    let nothing = Bare::new();
    let refused = |arguments: &[&str]| {
        run(nothing.around(), &[&["inspect", "--remote", "queue.git", "--json"], arguments].concat()).error(2)
    };
    assert_eq!(refused(&[]), "usage_invalid");
    assert_eq!(refused(&["--work-id", "w", "--claim-id", "c"]), "usage_invalid");
    assert_eq!(refused(&["--work-id", ""]), "inspection_invalid");
    assert_eq!(refused(&["--claim-id", ""]), "inspection_invalid");
    let mut queue = group();
    let grants = queue.grant(2000, 2, 1).unwrap();
    let commit = queue.state.tip().unwrap().as_str().to_owned();
    for selector in [["--claim-id", &grants[0].claim], ["--work-id", &grants[0].work]] {
        let ran = ask(&queue, &selector);
        assert!(ran.code == 0 && ran.out.is_ascii());
        for id in [&grants[0].work, &grants[0].claim, &grants[0].dispatch, &grants[0].handle, &commit] {
            assert!(ran.out.contains(&format!("\"{id}\"")), "{id}: {}", ran.out);
        }
    }
    let answer = told(&queue, &["--claim-id", &grants[1].claim]);
    assert_eq!(
        answer["selection"],
        json!({"current": true, "graph_id": "graph", "id": grants[1].claim, "kind": "claim", "work_id": grants[1].work})
    );
    assert_eq!(answer["status"], "committed_snapshot");
    assert_eq!(ask(&queue, &["--work-id", "none", "--json"]).error(2), "work_missing");
    assert_eq!(ask(&queue, &["--claim-id", "none", "--json"]).error(2), "claim_missing");
}

/// O-299: each edge names what it waits for and how that stands, and a dispatch keeps its original members whatever
/// became of them.
#[test]
fn dependencies_and_original_members_are_shown() {
    let mut queue = group();
    let waits = Node::new("c").after("a").id();
    let first = told(&queue, &["--work-id", &waits]);
    assert_eq!(first["dependencies"][0]["state"], "available");
    assert_eq!(first["dependencies"][1]["state"], "external_unavailable");
    let look = seen("look", 5, "completed", 1900, &json!({}));
    queue.operate(RequestKind::Observe, DISPATCHER, 1901, &[look]).unwrap();
    let grants = queue.grant(2000, 2, 1).unwrap();
    queue.complete(&grants[0], 2001).unwrap();
    queue.result(&grants[0], 2004).unwrap();
    let answer = told(&queue, &["--work-id", &waits]);
    let edges = answer["dependencies"].as_array().unwrap();
    assert_eq!(
        edges[0],
        json!({"barrier": "verified", "kind": "work", "node_key": "a", "state": "completed", "work_id": grants[0].work})
    );
    assert_eq!((edges[1]["observation_id"].as_str(), edges[1]["number"].as_str()), (Some("look"), Some("5")));
    let details = answer["details"].as_str().unwrap();
    assert!(details.contains(&format!("  Work \"{}\" \"a\": completed delivery=verified\n", grants[0].work)));
    assert!(
        details.contains("issue \"owner/repo\" #\"5\": requires completed (observation_stale)\nObservation: \"look\"")
    );
    // The second member ended otherwise; both still belong to the assignment.
    queue.cancel_claim(&grants[1], 2005, 99_000).unwrap();
    queue.release(&grants[0], 2006).unwrap();
    let answer = told(&queue, &["--claim-id", &grants[1].claim]);
    let details = answer["details"].as_str().unwrap();
    assert!(details.contains("Original assignment: 2 Claims (immutable)"));
    for (grant, end) in grants.iter().zip(["completed delivery=verified", "cancelled delivery=none"]) {
        let member =
            format!("  member: \"{}\" -> Work \"{}\" handle=\"{}\" [{end}]", grant.claim, grant.work, grant.handle);
        assert!(details.contains(&member), "{details}");
    }
    assert_eq!(answer["dispatch"]["claims"].as_array().unwrap().len(), 2);
}

/// O-300: the current owner of a Work and everybody who owned it before, with what ended each.
#[test]
fn every_owner_is_shown() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a")]);
    let mut at = 2000;
    let mut claims = Vec::new();
    for _ in 0..2 {
        let grant = queue.grant(at, 1, 1).unwrap().remove(0);
        queue.start(&grant, at + 1).unwrap();
        queue.bind(&grant, at + 2).unwrap();
        queue.cancel_claim(&grant, at + 3, at + 100_000).unwrap();
        queue.release(&grant, at + 4).unwrap();
        at += 200_000;
        claims.insert(0, grant.claim);
    }
    let work = Node::new("a").id();
    let idle = told(&queue, &["--work-id", &work]);
    assert!(idle["claim"].is_null() && idle["claims_total"] == 2, "nobody owns it now");
    let last = queue.grant(at, 1, 1).unwrap().remove(0);
    claims.insert(0, last.claim);
    let answer = told(&queue, &["--work-id", &work]);
    let rows = |name: &str| -> Vec<Value> {
        answer["claims"].as_array().unwrap().iter().map(|claim| claim[name].clone()).collect()
    };
    assert_eq!(json!(rows("claim_id")), json!(claims));
    assert_eq!(json!(rows("current")), json!([true, false, false]));
    assert_eq!(json!(rows("state")), json!(["open", "cancelled", "cancelled"]));
    let details = answer["details"].as_str().unwrap();
    assert!(details.contains("OWNERSHIP (3 Claims)"));
    assert_eq!(details.matches("[cancelled history]").count(), 2);
    assert_eq!(details.matches("reason=\"lost\"").count(), 2);
    assert!(details.contains(&format!("  C \"{}\" [open current]", claims[0])));
    let old = told(&queue, &["--claim-id", &claims[1]]);
    assert_eq!(
        (old["selection"]["current"].as_bool(), old["claim"]["cancellation_reason"].as_str()),
        (Some(false), Some("lost"))
    );
}

/// O-301, O-326, S-575: reservation, launch, verified binding, Completion, Result and Release are told apart at each
/// step, and the delivery barrier is another thing than the native run that holds capacity.
#[test]
fn every_step_is_told_apart() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a")]);
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    let seen = |queue: &Queue| {
        let answer = told(queue, &["--claim-id", &grant.claim]);
        let (dispatch, work) = (&answer["dispatch"], &answer["work"]);
        let details = answer["details"].as_str().unwrap();
        let retained = dispatch["released"] == false;
        assert!(details.contains(&format!("native reservation retained: {retained}")));
        assert!(details.contains(&format!("\nDelivery: {}\n", work["barrier"].as_str().unwrap())));
        [
            retained,
            dispatch["launch_started"] == true,
            dispatch["run"].is_object(),
            work["completion_id"].is_string(),
            work["result_commit_id"].is_string(),
        ]
    };
    assert_eq!(seen(&queue), [true, false, false, false, false]);
    queue.start(&grant, 2001).unwrap();
    assert_eq!(seen(&queue), [true, true, false, false, false]);
    queue.bind(&grant, 2002).unwrap();
    assert_eq!(seen(&queue), [true, true, true, false, false]);
    queue.finish(&grant, "completed", 2003).unwrap();
    assert_eq!(seen(&queue), [true, true, true, true, false]);
    let mut settled = queue.clone();
    settled.result(&grant, 2004).unwrap();
    assert_eq!(seen(&settled), [true, true, true, true, true]);
    settled.release(&grant, 2005).unwrap();
    assert_eq!(seen(&settled), [false, true, true, true, true]);
    // The run is over before its delivery was verified.
    queue.release(&grant, 2004).unwrap();
    assert_eq!(seen(&queue), [false, true, true, true, false]);
}

/// A kept-open round is told apart from a final one: on the Work while its delivery is pending, on its Claim for good.
#[test]
fn kept_open_rounds_are_shown() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a")]);
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    queue.start(&grant, 2001).unwrap();
    queue.bind(&grant, 2002).unwrap();
    let finish = json!({"dispatch_id": grant.dispatch, "claim_handle": grant.handle, "outcome": "completed",
        "keep_open": true});
    queue.request(RequestKind::Finish, &grant.worker(), 2003, &finish).unwrap();
    let pending = told(&queue, &["--work-id", &grant.work]);
    assert_eq!((&pending["work"]["keep_open"], &pending["claim"]["keep_open"]), (&json!(true), &json!(true)));
    assert!(pending["details"].as_str().unwrap().contains("\nKept open: "));
    queue.result(&grant, 2004).unwrap();
    let again = told(&queue, &["--work-id", &grant.work]);
    assert_eq!((again["work"]["state"].as_str(), &again["work"]["keep_open"]), (Some("available"), &Value::Null));
    let result = again["claims"][0]["result_commit_id"].as_str().unwrap();
    assert_eq!(result, queue.state.tip().unwrap().as_str());
    let details = again["details"].as_str().unwrap();
    assert!(details.contains(&format!(" kept-open result=\"{result}\" ended=")), "{details}");
    assert!(!details.contains("\nKept open: "));
}
