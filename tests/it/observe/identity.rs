//! Whose answer it must be: lifecycle.md 7.1 and 7.4.

use serde_json::{Value, json};
use wq_action::forge::Headers;
use wq_action::launch::observe::refresh;
use wq_action::protocol::actor::Role;
use wq_action::protocol::operation::Observation;

use super::fake::{Fake, repository, scopes, with_scopes};
use super::mapping::{asked, pull_edge};
use crate::support::built::{Node, Queue, aw_policy};

fn open(edges: Option<Value>) -> Queue {
    let node = Node::new("a");
    Queue::open(
        &aw_policy(),
        &[match edges {
            None => node.gate(5, "closed"),
            Some(edges) => node.with("depends_on", edges),
        }],
    )
}

fn look(queue: &Queue, fake: &Fake, allowed: &[&str]) -> Observation {
    let scopes = scopes(allowed, "initial");
    let seen = with_scopes(fake, &scopes, |resolver| refresh(&queue.state, resolver, &asked(), Role::Dispatcher));
    seen.unwrap().remove(0)
}

fn told(seen: &Observation) -> (&'static str, &str) {
    (seen.state.as_str(), seen.read_status.as_str())
}

fn redirect(to: &str) -> Headers {
    Headers { location: Some(to.to_owned()), ..Headers::default() }
}

/// S-427: a renamed repository is followed to a name that is allowed itself, while its id is the same; the Observation
/// keeps the admitted coordinates.
#[test]
fn renames_lead_to_allowed_names_alone() {
    let queue = open(None);
    let fake = Fake::new();
    fake.set("/repos/owner/repo", Ok((301, redirect("/repositories/9"), String::new())));
    fake.show("/repositories/9", &repository("owner/renamed", 9));
    fake.show(
        "/repos/owner/renamed/issues/5",
        &json!({"id": 5, "number": 5, "state": "closed", "state_reason": "completed"}),
    );
    let seen = look(&queue, &fake, &["owner/repo"]);
    assert_eq!(told(&seen), ("failed", "external_redirect_not_allowlisted"));
    assert_eq!(fake.asked(), ["/repos/owner/repo", "/repositories/9"]);
    let seen = look(&queue, &fake, &["owner/repo", "Owner/Renamed"]);
    assert_eq!(told(&seen), ("ready", "ok"));
    assert_eq!(seen.resource.repository.as_str(), "owner/repo");
    assert_eq!(fake.asked(), ["/repos/owner/repo", "/repositories/9", "/repos/owner/renamed/issues/5"]);
    // Another repository under an allowed name is another repository.
    fake.show("/repositories/9", &repository("owner/renamed", 10));
    let seen = look(&queue, &fake, &["owner/repo", "owner/renamed"]);
    assert_eq!(told(&seen), ("failed", "external_identity_mismatch"));
    assert_eq!(fake.asked().len(), 2, "its Issues are not read");
}

/// S-425, S-428: another id, another number, another kind, a transfer: each fails the gate by name, and the edge stays
/// what it was.
#[test]
fn other_identities_fail_by_name() {
    let issues = open(None);
    for (change, status) in [
        (json!({"id": 6}), "external_identity_mismatch"),
        (json!({"number": 6}), "external_identity_mismatch"),
        (json!({"pull_request": {"url": "x"}}), "external_resource_type_mismatch"),
        (json!({"id": 6, "pull_request": {"url": "x"}}), "external_identity_mismatch"),
    ] {
        let fake = Fake::new();
        fake.issue(5, &change);
        let before = issues.document();
        let seen = look(&issues, &fake, &["owner/repo"]);
        assert_eq!(told(&seen), ("failed", status), "{change}");
        assert_eq!(seen.resource_state, None, "nothing of a stranger is told");
        assert_eq!(issues.document(), before);
    }
    let pulls = open(Some(pull_edge(6)));
    for (change, status) in [
        (json!({"id": 7}), "external_identity_mismatch"),
        (json!({"number": 7}), "external_identity_mismatch"),
        (json!({"base": {"repo": {"id": 10, "full_name": "owner/repo"}}}), "external_resource_type_mismatch"),
    ] {
        let fake = Fake::new();
        fake.pull(6, &change, &json!({}));
        assert_eq!(told(&look(&pulls, &fake, &["owner/repo"])), ("failed", status), "{change}");
        assert!(!fake.asked().contains(&"graphql 6".to_owned()));
    }
    // An Issue edge never asks the other endpoint, nor a pull request edge the Issue's.
    let fake = Fake::new();
    fake.issue(6, &json!({}));
    assert_eq!(told(&look(&pulls, &fake, &["owner/repo"])), ("unknown", "external_not_found"));
}

/// S-428, S-434: a transferred Issue is not read where it went, and fails its gate.
#[test]
fn transfers_are_not_followed() {
    let queue = open(None);
    let fake = Fake::new();
    fake.set("/repos/owner/repo/issues/5", Ok((301, redirect("/repositories/77/issues/5"), String::new())));
    fake.show("/repositories/77/issues/5", &json!({"id": 5, "number": 5, "state": "closed"}));
    assert_eq!(told(&look(&queue, &fake, &["owner/repo"])), ("failed", "external_identity_mismatch"));
    assert_eq!(fake.asked(), ["/repos/owner/repo", "/repos/owner/repo/issues/5"]);
}

/// Names are compared without regard to case; the host exactly.
#[test]
fn allowed_names_ignore_case() {
    let queue = open(None);
    let fake = Fake::new();
    fake.show("/repos/OWNER/Repo", &repository("owner/repo", 9));
    fake.issue(5, &json!({}));
    assert_eq!(told(&look(&queue, &fake, &["OWNER/Repo"])), ("ready", "ok"));
    assert!(scopes(&["owner/repo"], "initial").find("ghe.example", "owner/repo").is_none());
}
