//! Every message is held against the published schemas, each shape of messages once; what is left out of a shape is
//! nothing that a schema looks at.

use serde_json::{Value, json};

use crate::support::github::{
    Endpoint, Faults, Github, JOB, LAUNCH, OCTO_WIDGETS, READER, Strike, checked_messages, found_in_reply,
    schemas_available,
};

/// Changes one member of a reply, by its path.
fn with(mut body: Value, at: &str, value: Value) -> Value {
    *body.pointer_mut(at).unwrap() = value;
    body
}

fn without(mut body: Value, at: &str, name: &str) -> Value {
    body.pointer_mut(at).unwrap().as_object_mut().unwrap().remove(name).unwrap();
    body
}

/// A reply with a wrong type, constant, member, date, address, length or number is found wrong after any number of
/// valid replies of the same endpoint, and each time again; what no schema looks at is not asked about twice.
#[test]
fn a_wrong_reply_is_found_after_a_valid_one() {
    if !schemas_available() {
        return;
    }
    let github = Github::standard();
    let body = json!({"ref": "main", "return_run_details": true, "inputs": {"work_queue_assignment": "{}"}});
    let dispatch = "/repos/octo/widgets/actions/workflows/worker.lock.yml/dispatches";
    let run = github.post(LAUNCH, dispatch, &body).json()["workflow_run_id"].as_u64().unwrap();
    let path = format!("/repos/octo/widgets/actions/runs/{run}");
    let valid = github.get(JOB, &path).json();
    let held = |body: &Value| found_in_reply("GET", &path, None, 200, body);
    for _ in 0..3 {
        assert_eq!(held(&valid), [""; 0]);
    }
    // Another run in everything that no schema looks at.
    let other = with(valid.clone(), "/id", json!(run + 77));
    let other = with(other, "/head_sha", json!("9".repeat(40)));
    let other = with(other, "/created_at", json!("2028-02-29T23:59:59Z"));
    let other = with(other, "/display_title", json!("another title, number 5"));
    assert_eq!(held(&other), [""; 0]);
    let wrong = [
        ("text for a number", with(valid.clone(), "/id", json!(run.to_string()))),
        ("a fraction", with(valid.clone(), "/id", json!(1.5))),
        ("a number for text", with(valid.clone(), "/head_sha", json!(7))),
        ("null for a number", with(valid.clone(), "/run_number", Value::Null)),
        ("text for a list", with(valid.clone(), "/pull_requests", json!("none"))),
        ("an element of another type", with(valid.clone(), "/pull_requests", json!([5]))),
        ("a missing member", without(valid.clone(), "", "workflow_id")),
        ("a missing member within", without(valid.clone(), "/head_commit", "tree_id")),
        ("a missing member of a repository", without(valid.clone(), "/repository", "hooks_url")),
        ("a day that does not exist", with(valid.clone(), "/created_at", json!("2027-02-29T10:00:00Z"))),
        ("an hour that does not exist", with(valid.clone(), "/updated_at", json!("2027-02-21T25:00:00Z"))),
        ("a date alone", with(valid.clone(), "/created_at", json!("2027-02-21"))),
        ("no date", with(valid.clone(), "/created_at", json!("yesterday at 5"))),
        ("no address", with(valid.clone(), "/repository/html_url", json!("octo/widgets/5"))),
        ("an address with a blank", with(valid.clone(), "/repository/html_url", json!("https://github.com/a b"))),
        ("no account", with(valid.clone(), "/actor", json!("wim"))),
    ];
    for (what, body) in &wrong {
        for _ in 0..2 {
            let found = held(body);
            assert!(!found.is_empty(), "{what}");
            assert!(found[0].contains("reply 200"), "{found:?}");
        }
    }
    assert_eq!(held(&valid), [""; 0]);
}

/// The same where schemas have constants, lengths and bounds, for requests, and for GraphQL.
#[test]
fn constants_lengths_and_bounds_count() {
    if !schemas_available() {
        return;
    }
    let github = Github::standard();
    let path = "/repos/octo/widgets/actions/workflows/worker.lock.yml";
    let workflow = github.get(READER, path).json();
    let held = |body: &Value| found_in_reply("GET", path, None, 200, body);
    assert_eq!(held(&workflow), [""; 0]);
    assert_eq!(held(&with(workflow.clone(), "/state", json!("disabled_manually"))), [""; 0]);
    for state in [json!("sleeping"), json!("active5"), json!(""), Value::Null] {
        assert!(!held(&with(workflow.clone(), "/state", state.clone())).is_empty(), "{state}");
    }
    let reference = "/repos/octo/widgets/git/ref/heads/main";
    let found = github.get(READER, reference).json();
    let held = |sha: &str| {
        let body = with(found.clone(), "/object/sha", json!(sha));
        found_in_reply("GET", reference, None, 200, &body)
    };
    for digit in ["0", "7", "c"] {
        assert_eq!(held(&digit.repeat(40)), [""; 0]);
        assert!(!held(&digit.repeat(39)).is_empty() && !held(&digit.repeat(41)).is_empty());
    }

    let runs = |query: &str| {
        github.get(JOB, &format!("{path}/runs?{query}"));
        github.take_violations()
    };
    for good in ["per_page=100", "per_page=30&page=2", "status=completed", "status=queued&page=17"] {
        assert_eq!(runs(good), [""; 0], "{good}");
    }
    for bad in ["status=finished", "status=completed1", "per_page=many", "page=x1", "pages=1"] {
        assert_eq!((runs(bad).len(), runs(bad).len()), (1, 1), "{bad}");
    }

    let query = "{ repository(owner: \"octo\", name: \"widgets\") { isEmpty viewerPermission pullRequest(number: 2) { number state \
        mergedAt } } }";
    let held = |permission: Value, number: Value, state: Value| {
        let pull = json!({"number": number, "state": state, "mergedAt": null});
        let found = json!({"isEmpty": false, "viewerPermission": permission, "pullRequest": pull});
        found_in_reply("POST", "/graphql", Some(query), 200, &json!({"data": {"repository": found}}))
    };
    assert_eq!(held(json!("READ"), json!(2), json!("OPEN")), [""; 0]);
    assert_eq!(held(json!("READ"), json!(3), json!("MERGED")), [""; 0]);
    assert!(!held(json!("READ5"), json!(3), json!("OPEN")).is_empty());
    assert!(!held(json!("READ"), json!(i64::from(i32::MAX) + 1), json!("OPEN")).is_empty());
    assert!(!held(json!("READ"), json!("2"), json!("OPEN")).is_empty());
    assert!(!held(json!("READ"), json!(2), json!("OPENED")).is_empty());
    assert!(!held(json!("READ"), json!(2), Value::Null).is_empty());
    let lacking = json!({"data": {"repository": {"isEmpty": false}}});
    assert!(!found_in_reply("POST", "/graphql", Some(query), 200, &lacking).is_empty());
}

/// Hundreds of runs have few shapes; errors of a fault plan are held against the schemas like any other reply.
#[test]
fn many_messages_have_few_shapes() {
    if !schemas_available() {
        return;
    }
    let github = Github::standard();
    let dispatch = "/repos/octo/widgets/actions/workflows/worker.lock.yml/dispatches";
    let ask = |count: u64| {
        for number in 0..count {
            let assignment = format!("{{\"dispatch_id\":\"d_{number}\"}}");
            let body =
                json!({"ref": "main", "return_run_details": true, "inputs": {"work_queue_assignment": assignment}});
            let run = github.post(LAUNCH, dispatch, &body).json()["workflow_run_id"].as_u64().unwrap();
            github.advance(61_000);
            github.get(JOB, &format!("/repos/octo/widgets/actions/runs/{run}/attempts/1"));
            github.commit(OCTO_WIDGETS, "main", &[("README.md", Some(&format!("# {number}\n")))]);
            github.get(JOB, "/repos/octo/widgets/git/ref/heads/main");
        }
    };
    ask(2);
    assert_eq!(github.take_violations(), [""; 0]);
    let before = checked_messages();
    ask(300);
    let after = checked_messages();
    let (messages, held) = (after.0 - before.0, after.1 - before.1);
    crate::support::tell!("of {messages} messages {held} had a shape of their own");
    // Other tests of this process count too.
    assert!(messages >= 1800);
    for status in [401, 403, 404, 422, 429, 500, 503] {
        github.faults(Faults::next(Endpoint::Repository, Strike::Status(status)));
        let before = checked_messages().0;
        assert_eq!(github.get(JOB, "/repos/octo/widgets").status, status);
        assert!(checked_messages().0 >= before + 2, "the request and the error");
    }
    assert_eq!(github.take_violations(), [""; 0]);
}
