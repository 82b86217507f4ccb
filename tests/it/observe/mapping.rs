//! What an answer means for a gate: the whole table of lifecycle.md 7.5.

use serde_json::{Value, json};
use wq_action::forge::{Broken, Headers};
use wq_action::launch::observe::{observe, refresh};
use wq_action::protocol::actor::Role;
use wq_action::protocol::operation::Observation;
use wq_action::protocol::request::DispatchParameters;
use wq_action::protocol::resource::{Edge, Gate};
use wq_action::protocol::{Code, Fault, Wire as _};

use super::fake::{Answer, Fake, MERGE, scopes, with_resolver, with_scopes};
use crate::support::built::{Node, Queue, aw_policy, grant_parameters, issue};
use crate::support::ledger::typed;

pub(super) fn pull_edge(number: u64) -> Value {
    let mut pull = issue(number);
    pull["kind"] = "pull_request".into();
    json!([{"kind": "pull_request", "condition": "merged", "resource": pull}])
}

pub(super) fn asked() -> DispatchParameters {
    typed(&grant_parameters("default", 9, 9).to_string())
}

/// Every gate of a queue, in FIFO order.
pub(super) fn gates(queue: &Queue) -> Vec<&Gate> {
    let edges = queue.state.works().flat_map(|state| &state.work.depends_on);
    edges.filter_map(|edge| if let Edge::Gate(gate) = edge { Some(&**gate) } else { None }).collect()
}

fn look(queue: &Queue, fake: &Fake) -> Observation {
    let mut seen = with_resolver(fake, |resolver| refresh(&queue.state, resolver, &asked(), Role::Dispatcher)).unwrap();
    assert_eq!(seen.len(), 1);
    seen.remove(0)
}

fn told(seen: &Observation) -> (&'static str, &str) {
    (seen.state.as_str(), seen.read_status.as_str())
}

/// S-419, S-420, S-422, S-423, O-252: an Issue is ready only when it is closed as its condition says; what is missing
/// makes it unknown; closed as not planned or as a duplicate does not complete it.
#[test]
fn issues_map_as_the_table_says() {
    for (condition, change, state, status) in [
        ("completed", json!({"state": "open"}), "waiting", "external_reopened"),
        ("completed", json!({"state": "open", "state_reason": "reopened"}), "waiting", "external_reopened"),
        ("closed", json!({"state": "open"}), "waiting", "external_reopened"),
        ("closed", json!({}), "ready", "ok"),
        ("closed", json!({"state_reason": "not_planned"}), "ready", "ok"),
        ("closed", json!({"state_reason": "duplicate"}), "ready", "ok"),
        ("closed", json!({"state_reason": null}), "ready", "ok"),
        ("completed", json!({}), "ready", "ok"),
        ("completed", json!({"state_reason": null}), "unknown", "external_predicate_unknown"),
        ("completed", json!({"state_reason": 7}), "unknown", "external_predicate_unknown"),
        ("completed", json!({"state_reason": "not_planned"}), "failed", "external_closed_not_completed"),
        ("completed", json!({"state_reason": "duplicate"}), "failed", "external_closed_not_completed"),
        ("completed", json!({"state_reason": "reopened"}), "failed", "external_closed_not_completed"),
        ("completed", json!({"state": "archived"}), "unknown", "external_predicate_unknown"),
        ("closed", json!({"state": null}), "unknown", "external_predicate_unknown"),
        ("closed", json!({"state": true}), "unknown", "external_predicate_unknown"),
    ] {
        let queue = Queue::open(&aw_policy(), &[Node::new("a").gate(5, condition)]);
        let fake = Fake::new();
        fake.issue(5, &change);
        let seen = look(&queue, &fake);
        assert_eq!(told(&seen), (state, status), "{condition} {change}");
        assert_eq!(seen.satisfies(), state == "ready");
        assert_eq!(fake.asked(), ["/repos/owner/repo", "/repos/owner/repo/issues/5"]);
    }
}

/// S-421, S-422, S-423, S-425, O-252: a pull request is ready only when its own endpoint says that it was merged, when,
/// and GraphQL the same of the same pull request with its merge commit (decision 63).
#[test]
fn pull_requests_map_as_the_table_says() {
    let none = json!({});
    for (change, graphql, state, status) in [
        (none.clone(), none.clone(), "ready", "ok"),
        (json!({"merged": null}), none.clone(), "unknown", "external_predicate_unknown"),
        (json!({"merged": "yes"}), none.clone(), "unknown", "external_predicate_unknown"),
        (json!({"merged": null, "state": "open"}), none.clone(), "unknown", "external_predicate_unknown"),
        (json!({"merged_at": null}), none.clone(), "unknown", "external_merge_evidence_missing"),
        (json!({"merged_at": "soon"}), none.clone(), "unknown", "external_merge_evidence_missing"),
        (none.clone(), json!({"mergeCommit": null}), "unknown", "external_merge_evidence_missing"),
        (none.clone(), json!({"mergeCommit": {"oid": "main"}}), "unknown", "external_merge_evidence_missing"),
        (none.clone(), json!({"merged": false}), "unknown", "external_merge_evidence_missing"),
        (none.clone(), json!({"fullDatabaseId": null}), "unknown", "external_merge_evidence_missing"),
        (none.clone(), json!({"fullDatabaseId": "7"}), "failed", "external_identity_mismatch"),
        (json!({"merged": false}), none.clone(), "failed", "external_closed_unmerged"),
        (json!({"merged": false, "state": "open"}), none.clone(), "waiting", "ok"),
        (json!({"merged": false, "state": "draft"}), none.clone(), "unknown", "external_predicate_unknown"),
    ] {
        let queue = Queue::open(&aw_policy(), &[Node::new("a").with("depends_on", pull_edge(6))]);
        let fake = Fake::new();
        fake.pull(6, &change, &graphql);
        let seen = look(&queue, &fake);
        assert_eq!(told(&seen), (state, status), "{change} {graphql}");
        assert_eq!(seen.satisfies(), state == "ready");
        assert_eq!(seen.merge_commit.as_ref().map(|commit| commit.as_str()), (state == "ready").then_some(MERGE));
        let mut calls = vec!["/repos/owner/repo", "/repos/owner/repo/pulls/6"];
        // GraphQL is asked only about what REST calls merged.
        calls.extend((change.get("merged").is_none()).then_some("graphql 6"));
        assert_eq!(fake.asked(), calls);
    }
}

fn limited() -> Answer {
    let headers = Headers { rate_remaining: Some(0), ..Headers::default() };
    Ok((403, headers, "{}".to_owned()))
}

fn answered(status: u16, body: &str) -> Answer {
    Ok((status, Headers::default(), body.to_owned()))
}

/// Every class of failure, and its word.
fn failures() -> Vec<(Answer, &'static str)> {
    let credential = Broken::Credential(Fault::from(Code::SettingsInvalid));
    vec![
        (answered(401, "{}"), "external_access_denied"),
        (answered(403, "{}"), "external_access_denied"),
        (limited(), "external_rate_limited"),
        (answered(404, r#"{"state":"closed","merged":true}"#), "external_not_found"),
        (answered(410, r#"{"state":"closed","state_reason":"completed"}"#), "external_unavailable"),
        (answered(422, "{}"), "external_unavailable"),
        (answered(429, "{}"), "external_rate_limited"),
        (answered(500, "{}"), "external_unavailable"),
        (answered(503, r#"{"state":"closed"}"#), "external_unavailable"),
        (answered(204, ""), "external_unavailable"),
        (answered(200, "closed"), "external_unavailable"),
        (answered(200, "{\"id\":5"), "external_unavailable"),
        (Err(Broken::Timeout), "external_unavailable"),
        (Err(Broken::Unreachable), "external_unavailable"),
        (Err(Broken::Untrusted), "external_unavailable"),
        (Err(Broken::Interrupted), "external_unavailable"),
        (Err(Broken::Malformed), "external_unavailable"),
        (
            Err(Broken::Credential(match credential {
                Broken::Credential(fault) => fault,
                _ => unreachable!(),
            })),
            "external_read_credentials_missing",
        ),
    ]
}

/// S-437, S-446: whatever fails, of the repository, the resource or the merge, is unknown and blocks that node; it
/// is read once, and never counts as closed or merged.
#[test]
fn failures_are_unknown() {
    let issues = Queue::open(&aw_policy(), &[Node::new("a").gate(5, "closed")]);
    let pulls = Queue::open(&aw_policy(), &[Node::new("a").with("depends_on", pull_edge(6))]);
    for (queue, targets) in [
        (&issues, &["/repos/owner/repo", "/repos/owner/repo/issues/5"][..]),
        (&pulls, &["/repos/owner/repo", "/repos/owner/repo/pulls/6", "graphql 6"][..]),
    ] {
        for target in targets {
            for (answer, status) in failures() {
                let fake = Fake::new();
                fake.issue(5, &json!({}));
                fake.pull(6, &json!({}), &json!({}));
                fake.set(target, answer.clone());
                let seen = look(queue, &fake);
                assert_eq!(told(&seen), ("unknown", status), "{target} {answer:?}");
                assert!(!seen.satisfies());
                assert_eq!(fake.asked().iter().filter(|asked| asked == target).count(), 1);
            }
        }
    }
    for (errors, status) in [
        (json!([{"type": "NOT_FOUND"}]), "external_not_found"),
        (json!([{"type": "FORBIDDEN"}]), "external_access_denied"),
        (json!([{"type": "RATE_LIMITED"}]), "external_rate_limited"),
        (json!([{"message": "merged"}]), "external_unavailable"),
    ] {
        let fake = Fake::new();
        fake.pull(6, &json!({}), &json!({}));
        fake.show("graphql 6", &json!({"data": null, "errors": errors}));
        assert_eq!(told(&look(&pulls, &fake)), ("unknown", status));
    }
}

/// S-424, S-438: an Observation says which resource under which condition was seen in which state and when, under which
/// generation; nothing else of the answer gets in, and nothing else counts: not labels, comments, text or links.
#[test]
fn observations_hold_the_predicate_alone() {
    let noise = json!({"title": "fixes #5, done", "body": "- [x] all merged; completed", "comments": 12,
        "labels": [{"name": "completed"}], "user": {"login": "somebody"}, "closed_by": {"login": "x"}});
    let queue =
        Queue::open(&aw_policy(), &[Node::new("a").gate(5, "completed").with("payload", json!({"merged": true}))]);
    let fake = Fake::new();
    let mut change = noise.clone();
    change["state"] = "open".into();
    fake.issue(5, &change);
    assert_eq!(told(&look(&queue, &fake)), ("waiting", "external_reopened"));
    fake.issue(5, &noise);
    let seen = look(&queue, &fake);
    let text: Value = serde_json::from_str(&seen.canonical()).unwrap();
    assert_eq!(
        text,
        json!({"kind": "Observation", "observation_id": seen.observation_id.as_str(), "resource": issue(5),
            "condition": "completed", "state": "ready", "observed_at": 50_000, "credential_generation": "initial",
            "read_status": "ok", "source_updated_at": 1000, "state_reason": "completed", "resource_state": "closed"})
    );
    let mut rest = text;
    rest.as_object_mut().unwrap().remove("observation_id");
    let digest = wq_action::protocol::identity::sha256_hex(&[&crate::support::ledger::canonical(&rest.to_string())]);
    assert_eq!(seen.observation_id.as_str(), format!("observation:{digest}"));
    // A reason outside the protocol's words is judged and not kept.
    fake.issue(5, &json!({"state_reason": "duplicate"}));
    assert_eq!(look(&queue, &fake).state_reason, None);
}

/// Without a client, and for a repository that no scope allows or under another generation, nothing is sent at all.
#[test]
fn what_may_not_be_read_is_not_asked_for() {
    let queue = Queue::open(&aw_policy(), &[Node::new("a").gate(5, "closed")]);
    let fake = Fake::new();
    fake.issue(5, &json!({}));
    for (scopes, status) in [
        (scopes(&["other/repo"], "initial"), "external_not_allowlisted"),
        (scopes(&["owner/repo"], "older"), "external_access_generation_mismatch"),
    ] {
        let seen = with_scopes(&fake, &scopes, |resolver| refresh(&queue.state, resolver, &asked(), Role::Dispatcher));
        assert_eq!(told(&seen.unwrap()[0]), ("unknown", status));
        assert!(fake.asked().is_empty());
    }
    let scopes = scopes(&["owner/repo"], "initial");
    let clients = wq_action::launch::observe::Clients::new(&scopes, Vec::new()).unwrap();
    let clock = wq_action::ports::SimulatedClock::new(super::fake::NOW);
    let resolver = wq_action::launch::observe::Resolver::new(&scopes, &clients, &clock);
    let seen = refresh(&queue.state, &resolver, &asked(), Role::Dispatcher).unwrap();
    assert_eq!(told(&seen[0]), ("unknown", "external_read_credentials_missing"));
}

/// Only a dispatcher, a reconciler or an administrator observes; a worker's or producer's request is refused before any
/// read, and a worker's own dispatch reads nothing.
#[test]
fn observing_needs_a_role() {
    let queue = Queue::open(&aw_policy(), &[Node::new("a").gate(5, "closed")]);
    for role in [Role::Administrator, Role::Dispatcher, Role::Reconciler, Role::Producer, Role::Worker, Role::Projector]
    {
        let fake = Fake::new();
        fake.issue(5, &json!({}));
        let may = matches!(role, Role::Administrator | Role::Dispatcher | Role::Reconciler);
        let explicit = with_resolver(&fake, |resolver| observe(&queue.state, resolver, &gates(&queue), role));
        match explicit {
            Ok(seen) => assert!(may && seen[0].satisfies()),
            Err(fault) => assert!(!may && fault.code() == Code::WorkQueueObservationRoleRequired),
        }
        let seen = with_resolver(&fake, |resolver| refresh(&queue.state, resolver, &asked(), role)).unwrap();
        assert_eq!(seen.len(), usize::from(may));
        assert_eq!(fake.asked().is_empty(), !may);
    }
}
