//! The simulated GitHub itself: each endpoint's happy path by the published schemas, permissions, faults, and one world
//! behind two doors.

use serde_json::{Value, json};

use crate::support::github::{
    ADMIN, Access, Endpoint, Faults, Github, Issued, JOB, LAUNCH, Lifecycle, NOTHING, NewRun, OCTO_WIDGETS, READER,
    REST, Strike, Transport, WRITER, covered, schemas_available,
};
use crate::support::tell;

const WORKER: &str = "/repos/octo/widgets/actions/workflows/worker.lock.yml";
const DISPATCH: &str = "/repos/octo/widgets/actions/workflows/worker.lock.yml/dispatches";

/// The body of a dispatch of an assignment.
fn dispatch_of(reference: &str, dispatch: &str) -> Value {
    let assignment = json!({"dispatch_id": dispatch}).to_string();
    json!({"ref": reference, "inputs": {"work_queue_assignment": assignment}})
}

/// Dispatches and returns the run's id.
fn launch(github: &Github, dispatch: &str) -> u64 {
    let answer = github.post(LAUNCH, DISPATCH, &dispatch_of("refs/heads/main", dispatch));
    assert_eq!(answer.status, 200, "{}", answer.json());
    answer.json()["workflow_run_id"].as_u64().unwrap()
}

#[test]
fn every_endpoint_answers_as_the_published_schemas_say() {
    let github = Github::standard();
    let sha = github.head(OCTO_WIDGETS, "main").unwrap();
    github.issue(OCTO_WIDGETS, 1);
    github.pull(OCTO_WIDGETS, 2);
    github.rules(
        OCTO_WIDGETS,
        vec![json!({
            "type": "deletion", "ruleset_source_type": "Repository", "ruleset_source": OCTO_WIDGETS, "ruleset_id": 5,
        })],
    );
    let repository = "/repos/octo/widgets";
    let get = |token: &str, target: &str| {
        let answer = github.get(token, target);
        assert_eq!(answer.status, 200, "{target}: {}", answer.json());
        answer.json()
    };
    assert_eq!(get(ADMIN, "/user")["login"], "ada");
    assert_eq!(get(JOB, "/users/github-actions%5Bbot%5D")["type"], "Bot");
    assert_eq!(get(ADMIN, repository)["permissions"]["admin"], true);
    assert_eq!(get(JOB, &format!("{repository}/git/ref/heads/main"))["object"]["sha"], sha);
    let tag = format!("refs/tags/gh-aw/work-queue/{sha}");
    let made = github.post(LAUNCH, &format!("{repository}/git/refs"), &json!({"ref": tag, "sha": sha}));
    assert_eq!((made.status, made.json()["object"]["type"].as_str()), (201, Some("commit")));
    let again = github.post(LAUNCH, &format!("{repository}/git/refs"), &json!({"ref": tag, "sha": sha}));
    assert_eq!((again.status, again.json()["message"].as_str()), (422, Some("Reference already exists")));
    let file = get(JOB, &format!("{repository}/contents/.github/workflows/worker.md?ref={sha}"));
    assert_eq!((file["type"].as_str(), file["encoding"].as_str()), (Some("file"), Some("base64")));
    assert_eq!(get(JOB, &format!("{repository}/contents/.github/workflows")).as_array().unwrap().len(), 4);
    assert_eq!(get(JOB, WORKER)["state"], "active");
    let run = {
        let answer = github.post(LAUNCH, DISPATCH, &dispatch_of(&tag, "d_1"));
        assert_eq!(answer.status, 200, "{}", answer.json());
        answer.json()["workflow_run_id"].as_u64().unwrap()
    };
    let shown = get(JOB, &format!("{repository}/actions/runs/{run}"));
    assert_eq!(
        (shown["display_title"].as_str(), shown["head_sha"].as_str()),
        (Some("gh-aw work-queue d_1"), Some(&*sha))
    );
    assert_eq!(shown["actor"]["id"], github.account_id("queue-launcher[bot]"));
    let listing = format!("{WORKER}/runs?event=workflow_dispatch&head_sha={sha}&per_page=50&page=1");
    assert_eq!(get(JOB, &listing)["total_count"], 1);
    assert_eq!(github.post(WRITER, &format!("{repository}/actions/runs/{run}/cancel"), &Value::Null).status, 202);
    github.complete_run(run, "cancelled");
    assert_eq!(github.post(WRITER, &format!("{repository}/actions/runs/{run}/cancel"), &Value::Null).status, 409);
    assert_eq!(github.post(WRITER, &format!("{repository}/actions/runs/{run}/rerun"), &Value::Null).status, 201);
    assert_eq!(get(JOB, &format!("{repository}/actions/runs/{run}"))["run_attempt"], 2);
    assert_eq!(get(JOB, &format!("{repository}/actions/runs/{run}/attempts/1"))["conclusion"], "cancelled");
    assert_eq!(get(READER, &format!("{repository}/issues/1"))["state"], "open");
    assert!(get(READER, &format!("{repository}/issues/2"))["pull_request"].is_object());
    assert_eq!(get(READER, &format!("{repository}/pulls/2")).get("merge_commit_sha"), None);
    assert_eq!(get(READER, &format!("{repository}/rules/branches/work-queue"))[0]["type"], "deletion");
    assert_eq!(get(ADMIN, &format!("{repository}/actions/permissions"))["enabled"], true);
    assert!(get(JOB, "/versions").as_array().unwrap().contains(&json!("2026-03-10")));
    get(JOB, "/meta");
    get(JOB, "/rate_limit");
    let query = "query($owner: String!, $name: String!, $number: Int!) {
        repository(owner: $owner, name: $name) { nameWithOwner isEmpty
          pullRequest(number: $number) { __typename merged mergedAt mergeCommit { oid } } } }";
    let body = json!({"query": query, "variables": {"owner": "octo", "name": "widgets", "number": 2}});
    let found = github.post(READER, "/graphql", &body).json();
    assert_eq!(found["data"]["repository"]["isEmpty"], false);
    assert_eq!(found["data"]["repository"]["pullRequest"]["merged"], false);

    if schemas_available() {
        let covered = covered();
        tell!("endpoints answered and valid by GitHub's published schemas: {} of {}", covered.len(), REST.len() + 1);
        for (endpoint, ..) in REST {
            assert!(covered.contains(&endpoint.name()), "{}", endpoint.name());
        }
        assert!(covered.contains(&Endpoint::GraphQl.name()));
    }
}

/// A check that refuses nothing would show nothing.
#[test]
fn messages_against_the_schemas_are_noticed() {
    if !schemas_available() {
        return;
    }
    let github = Github::standard();
    let bad = |method: &str, target: &str, body: Option<Value>| {
        github.ask(method, ADMIN, target, body.as_ref(), "2026-03-10");
        let found = github.take_violations();
        assert_eq!(found.len(), 1, "{method} {target}: {found:?}");
        found[0].clone()
    };
    assert!(bad("GET", "/repos/octo/widgets?page=1", None).contains("no query parameter"));
    assert!(bad("GET", "/repos/octo/widgets/actions/runs/first", None).contains("run_id"));
    assert!(bad("GET", &format!("{WORKER}/runs?status=finished"), None).contains("status"));
    assert!(bad("POST", "/repos/octo/widgets/git/refs", Some(json!({"ref": "refs/tags/x"}))).contains("request body"));
    assert!(bad("POST", DISPATCH, Some(json!({"ref": 1}))).contains("request body"));
    assert!(bad("POST", DISPATCH, None).contains("needs a body"));
    assert!(bad("DELETE", "/repos/octo/widgets", None).contains("not simulated"));
    let query = |text: &str| Some(json!({"query": text}));
    assert!(bad("POST", "/graphql", query("{ repository(owner: \"o\") { id } }")).contains("name"));
    assert!(bad("POST", "/graphql", query("{ viewer { logins } }")).contains("logins"));
    let variables = json!({"query": "query($n: Int!) { rateLimit { limit } repository(owner: \"octo\", name: \"widgets\") \
        { pullRequest(number: $n) { merged } } }", "variables": {"n": "2"}});
    assert!(bad("POST", "/graphql", Some(variables)).contains("variable"));
    github.rules(OCTO_WIDGETS, vec![json!({"type": 5})]);
    assert!(bad("GET", "/repos/octo/widgets/rules/branches/main", None).contains("reply 200"));
}
