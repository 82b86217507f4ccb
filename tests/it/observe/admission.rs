//! Admission of Issues and pull requests: lifecycle.md 7.7.

use serde_json::{Value, json};
use wq_action::launch::observe::{Admission, resolve_nodes};
use wq_action::protocol::json::{Value as Node, parse};
use wq_action::protocol::{Code, Fault};

use super::fake::{Fake, repository, scopes, with_resolver, with_scopes};
use crate::support::built::{Node as Built, PRODUCER, Queue, aw_policy, issue};

fn nodes(nodes: &[Value]) -> Vec<Node> {
    nodes.iter().map(|node| parse(&node.to_string()).unwrap()).collect()
}

fn json_of(node: &Node) -> Value {
    serde_json::from_str(&node.encode().unwrap()).unwrap()
}

fn admit(fake: &Fake, queue: Option<&Queue>, submitted: &[Value]) -> Result<Vec<Value>, Fault> {
    with_resolver(fake, |resolver| {
        let projection = queue.map(|queue| &queue.state);
        let admission = Admission { projection, resolver: Some(resolver), host: "github.com" };
        Ok(resolve_nodes(&nodes(submitted), &admission)?.iter().map(json_of).collect())
    })
}

fn edge(kind: &str, resource: &Value) -> Value {
    json!({"payload": {"task": "t"}, "graph_id": "g", "depends_on": [{"kind": kind, "resource": resource}]})
}

fn refused(fake: &Fake, submitted: &Value) -> Code {
    admit(fake, None, std::slice::from_ref(submitted)).unwrap_err().code()
}

/// S-426, O-312: a node may name an Issue or pull request by repository and number; host, kind, repository and number,
/// and both ids are what the host shows, in every place that holds one, each read once.
#[test]
fn names_become_complete_identities() {
    let fake = Fake::new();
    fake.issue(5, &json!({"id": 1005, "state": "open"}));
    fake.issue(8, &json!({"id": 1008}));
    fake.pull(6, &json!({"id": 1006, "merged": false, "state": "open"}), &json!({}));
    let submitted = json!({
        "payload": {"task": "t"},
        "depends_on": [
            {"kind": "issue", "resource": {"repository": "Owner/REPO", "number": 5}},
            {"kind": "issue", "condition": "closed", "resource": {"kind": "issue", "repository": "owner/repo", "number": "5"}},
            {"kind": "pull_request", "resource": {"repository": "owner/repo", "number": 6, "resource_id": "1006"}},
            {"kind": "work", "node_key": "other"},
        ],
        "subject": {"kind": "pull_request", "repository": "owner/repo", "number": "6"},
        "backing_issue": {"repository": "owner/repo", "number": 8, "repository_id": 9},
    });
    fake.show("/repos/Owner/REPO", &repository("owner/repo", 9));
    let admitted = admit(&fake, None, std::slice::from_ref(&submitted)).unwrap().remove(0);
    let full = |kind: &str, id: &str, number: &str| {
        json!({"kind": kind, "host": "github.com", "repository": "owner/repo", "repository_id": "9",
            "resource_id": id, "number": number})
    };
    let mut expected = submitted;
    expected["depends_on"][0]["resource"] = full("issue", "1005", "5");
    expected["depends_on"][1]["resource"] = full("issue", "1005", "5");
    expected["depends_on"][2]["resource"] = full("pull_request", "1006", "6");
    expected["subject"] = full("pull_request", "1006", "6");
    expected["backing_issue"] = full("issue", "1008", "8");
    assert_eq!(admitted, expected);
    let asked = fake.asked();
    assert_eq!(asked.len(), 4, "{asked:?}");
    // Without a resource nothing is read, and no credential is needed.
    let plain = nodes(&[json!({"payload": {}, "depends_on": [{"kind": "work", "node_key": "x"}]})]);
    let none = Admission { projection: None, resolver: None, host: "github.com" };
    assert_eq!(resolve_nodes(&plain, &none).unwrap(), plain);
}

/// S-425, S-426, S-428: what the host does not show, shows as something else, or may not be asked, is not
/// admitted; a resource that does not exist yet is none.
#[test]
fn unproven_resources_are_refused() {
    let at = |number: u64| json!({"repository": "owner/repo", "number": number});
    let fake = Fake::new();
    fake.issue(5, &json!({}));
    fake.issue(6, &json!({"pull_request": {"url": "x"}}));
    fake.pull(7, &json!({"base": {"repo": {"id": 10, "full_name": "owner/fork"}}}), &json!({}));
    fake.status("/repos/owner/repo/issues/401", 401);
    fake.status("/repos/owner/repo/issues/403", 403);
    fake.status("/repos/owner/repo/issues/410", 410);
    fake.status("/repos/owner/repo/issues/429", 429);
    fake.status("/repos/owner/repo/issues/500", 500);
    for missing in [401, 403, 404, 410, 429, 500] {
        assert_eq!(refused(&fake, &edge("issue", &at(missing))), Code::ExternalAdmissionUnverified, "{missing}");
    }
    assert_eq!(refused(&fake, &edge("issue", &at(6))), Code::ExternalResourceTypeMismatch);
    assert_eq!(refused(&fake, &edge("pull_request", &at(7))), Code::ExternalResourceTypeMismatch);
    for (member, value) in [("resource_id", "6"), ("repository_id", "10")] {
        let mut other = at(5);
        other[member] = value.into();
        assert_eq!(refused(&fake, &edge("issue", &other)), Code::ExternalAdmissionIdentityMismatch);
    }
    let foreign = json!({"repository": "other/repo", "number": 5});
    assert_eq!(refused(&fake, &edge("issue", &foreign)), Code::ExternalNotAllowlisted);
    let elsewhere = json!({"host": "ghe.example", "repository": "owner/repo", "number": 5});
    assert_eq!(refused(&fake, &edge("issue", &elsewhere)), Code::ExternalNotAllowlisted);
    let renamed = Fake::new();
    renamed.show("/repos/owner/repo", &repository("owner/elsewhere", 9));
    assert_eq!(refused(&renamed, &edge("issue", &at(5))), Code::ExternalRedirectNotAllowlisted);
}

/// Malformed resources and conditions are refused before anything is read.
#[test]
fn malformed_resources_are_refused() {
    let fake = Fake::new();
    for resource in [
        json!("owner/repo#5"),
        json!({"number": 5}),
        json!({"repository": "owner/repo"}),
        json!({"repository": "owner/repo", "number": 0}),
        json!({"repository": "owner/repo", "number": -5}),
        json!({"repository": "owner/repo", "number": "05"}),
        json!({"repository": "owner/repo", "number": true}),
        json!({"repository": 5, "number": 5}),
        json!({"repository": "owner/repo", "number": 5, "url": "x"}),
        json!({"kind": "discussion", "repository": "owner/repo", "number": 5}),
    ] {
        assert_eq!(refused(&fake, &edge("issue", &resource)), Code::ExternalResourceInvalid, "{resource}");
    }
    let resource = json!({"kind": "pull_request", "repository": "owner/repo", "number": 5});
    assert_eq!(refused(&fake, &edge("issue", &resource)), Code::ExternalResourceTypeMismatch);
    let unnamed = json!({"payload": {}, "subject": {"repository": "owner/repo", "number": 5}});
    assert_eq!(refused(&fake, &unnamed), Code::ExternalResourceInvalid);
    for (kind, condition) in
        [("issue", "merged"), ("pull_request", "closed"), ("pull_request", "completed"), ("issue", "open")]
    {
        let mut node = edge(kind, &json!({"repository": "owner/repo", "number": 5}));
        node["depends_on"][0]["condition"] = condition.into();
        assert_eq!(refused(&fake, &node), Code::ExternalConditionInvalid, "{kind} {condition}");
    }
    assert!(fake.asked().is_empty());
}

/// Admission needs a credential of the queue's current generation, for every scope, and says so before it reads.
#[test]
fn admission_needs_current_credentials() {
    let node = edge("issue", &json!({"repository": "owner/repo", "number": 5}));
    let fake = Fake::new();
    fake.issue(5, &json!({}));
    let none = Admission { projection: None, resolver: None, host: "github.com" };
    let missing = resolve_nodes(&nodes(std::slice::from_ref(&node)), &none).unwrap_err();
    assert_eq!(missing.code(), Code::ExternalReadCredentialsMissing);
    let mut queue = Queue::open(&aw_policy(), &[Built::new("first")]);
    admit(&fake, Some(&queue), std::slice::from_ref(&node)).unwrap();
    queue.control("credential_generation", &json!("g2"), 2000).unwrap();
    fake.asked();
    let stale = admit(&fake, Some(&queue), std::slice::from_ref(&node)).unwrap_err();
    assert_eq!(stale.code(), Code::ExternalReadCredentialsMissing);
    assert!(fake.asked().is_empty());
    with_scopes(&fake, &scopes(&["owner/repo"], "g2"), |resolver| {
        let admission = Admission { projection: Some(&queue.state), resolver: Some(resolver), host: "github.com" };
        resolve_nodes(&nodes(std::slice::from_ref(&node)), &admission).unwrap();
    });
}

/// S-428: a node that is admitted gets its stored identity back and reads nothing, whatever became of the Issue and of
/// the credentials since; named otherwise, it is another definition.
#[test]
fn resubmission_restores_and_reads_nothing() {
    let mut queue = Queue::open(&aw_policy(), &[Built::new("first")]);
    let built = Built::new("a").gate(5, "closed").with("subject", issue(7));
    queue.submit(PRODUCER, 2000, std::slice::from_ref(&built)).unwrap();
    queue.control("credential_generation", &json!("g2"), 2500).unwrap();
    let none = Admission { projection: Some(&queue.state), resolver: None, host: "github.com" };
    let mut again = built.value();
    again["depends_on"][0]["resource"] = json!({"repository": "Owner/repo", "number": 5});
    again["subject"] = json!({"kind": "issue", "repository": "owner/repo", "number": "7"});
    let restored = resolve_nodes(&nodes(&[again.clone()]), &none).unwrap();
    assert_eq!(json_of(&restored[0]), built.value());
    // By its ids, under another name and number, it is the same still.
    again["depends_on"][0]["resource"] = issue(5);
    again["depends_on"][0]["resource"]["repository"] = "owner/renamed".into();
    assert_eq!(json_of(&resolve_nodes(&nodes(&[again.clone()]), &none).unwrap()[0]), built.value());
    for (member, value) in [("number", json!(6)), ("resource_id", json!("6")), ("kind", json!("issue"))] {
        let mut other = again.clone();
        if member == "kind" {
            other["depends_on"] = json!([{"kind": "work", "node_key": "first"}, other["depends_on"][0]]);
        } else {
            other["depends_on"][0]["resource"] = json!({"repository": "owner/repo", "number": 5});
            other["depends_on"][0]["resource"][member] = value;
        }
        let refused = resolve_nodes(&nodes(&[other]), &none).unwrap_err();
        assert_eq!(refused.code(), Code::WorkConflict, "{member}");
    }
    // What was restored is accepted as the same submission.
    assert_eq!(queue.submit(PRODUCER, 3000, &[built]).unwrap_err(), "already_submitted");
}

/// One submission reads at most 128 resources.
#[test]
fn admission_has_the_budget_of_a_refresh() {
    let fake = Fake::new();
    (1..=129).for_each(|number| fake.issue(number, &json!({})));
    let gates = |count: u64| -> Vec<Value> {
        (1..=count).map(|n| json!({"kind": "issue", "resource": {"repository": "owner/repo", "number": n}})).collect()
    };
    let node = |count: u64| json!({"payload": {}, "depends_on": gates(count)});
    admit(&fake, None, &[node(128)]).unwrap();
    assert_eq!(fake.asked().len(), 129);
    assert_eq!(refused(&fake, &node(129)), Code::ExternalResolverBudgetExceeded);
    assert!(fake.asked().is_empty());
}
