//! The simulated GitHub itself: each endpoint's happy path by the published schemas, permissions, faults, and one world
//! behind two doors.

use serde_json::{Value, json};

use crate::support::github::{
    ADMIN, Endpoint, Entry, Faults, Github, JOB, LAUNCH, Lifecycle, NOTHING, NewRun, OCTO_WIDGETS, READER, REST,
    Strike, VERSION, WRITER, covered, schemas_available,
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
    let artifact = github.upload(run, "activation", Vec::new());
    let artifacts = get(JOB, &format!("{repository}/actions/runs/{run}/artifacts?per_page=100&page=1"));
    assert_eq!(artifacts["artifacts"][0]["id"], artifact);
    let target = format!("{repository}/actions/artifacts/{artifact}/zip");
    let address = github.ask("GET", JOB, &target, None, VERSION);
    assert_eq!((address.status, address.header("location").is_some()), (302, true));
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

/// What a call is answered with, or why it is not.
fn status(github: &Github, token: &str, method: &str, target: &str, body: Option<&Value>) -> (u16, String) {
    let answer = github.ask(method, token, target, body, "2026-03-10");
    (answer.status, answer.json()["message"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn permissions_are_refused_as_github_refuses_them() {
    let github = Github::standard();
    let body = dispatch_of("main", "d_1");
    let post = |token: &str| status(&github, token, "POST", DISPATCH, Some(&body));
    let refused = github.post(JOB, DISPATCH, &body);
    assert_eq!(refused.status, 403);
    assert_eq!(refused.header("x-accepted-github-permissions"), Some("actions=write"));
    assert_eq!(post(JOB).1, "Resource not accessible by integration");
    assert_eq!(post(READER).1, "Resource not accessible by personal access token");
    assert_eq!(post("unknown"), (401, "Bad credentials".to_owned()));
    assert_eq!(post(""), (401, "Requires authentication".to_owned()));
    let read = |token: &str, target: &str| status(&github, token, "GET", target, None).0;
    assert_eq!((read("", "/repos/octo/widgets"), read(NOTHING, "/repos/octo/widgets")), (200, 200));
    assert_eq!((read("", "/user"), read(JOB, "/user"), read(ADMIN, "/user")), (401, 403, 200));
    assert_eq!(read(WRITER, "/repos/octo/widgets/actions/permissions"), 403);
    github.make_private(OCTO_WIDGETS);
    assert_eq!((read("", "/repos/octo/widgets"), read(NOTHING, "/repos/octo/widgets")), (404, 404));
    assert_eq!((read(READER, "/repos/octo/widgets"), read(LAUNCH, "/repos/octo/widgets/issues/1")), (200, 403));
    github.rotate(READER, "the-next-token");
    assert_eq!((read(READER, "/repos/octo/widgets"), read("the-next-token", "/repos/octo/widgets")), (401, 200));
    github.expire("the-next-token", github.now() + 1000);
    github.advance(1000);
    assert_eq!(read("the-next-token", "/repos/octo/widgets"), 401);
    github.revoke(ADMIN);
    assert_eq!(read(ADMIN, "/user"), 401);
    github.change(OCTO_WIDGETS, |repository| repository.archived = true);
    assert_eq!(post(LAUNCH), (403, "Repository was archived so is read-only.".to_owned()));
    assert!(github.runs().is_empty());
}

#[test]
fn a_dispatch_is_checked_against_the_workflow_at_its_ref() {
    let github = Github::standard();
    let post = |body: &Value| status(&github, LAUNCH, "POST", DISPATCH, Some(body));
    let dispatcher = DISPATCH.replace("worker.lock", "dispatcher.lock");
    assert_eq!(post(&dispatch_of("refs/tags/none", "d_1")).0, 422);
    assert_eq!(post(&json!({"ref": "main"})), (422, "Required input not provided".to_owned()));
    assert_eq!(post(&json!({"ref": "main", "inputs": {"other": "x"}})), (422, "Unexpected inputs provided".to_owned()));
    assert_eq!(status(&github, LAUNCH, "POST", &dispatcher, Some(&dispatch_of("main", "d_1"))).0, 422);
    assert_eq!(post(&json!({"ref": "main", "inputs": {"work_queue_assignment": "x".repeat(65_536)}})).0, 422);
    let older = github.ask("POST", LAUNCH, DISPATCH, Some(&dispatch_of("main", "d_2")), "2022-11-28");
    assert_eq!((older.status, older.body.len()), (204, 0));
    assert_eq!(github.ask("GET", LAUNCH, "/meta", None, "2031-01-01").status, 400);
    github.workflow_state(OCTO_WIDGETS, ".github/workflows/worker.lock.yml", Some("disabled_manually"));
    assert_eq!(post(&dispatch_of("main", "d_3")).0, 422);
    github.workflow_state(OCTO_WIDGETS, ".github/workflows/worker.lock.yml", None);
    assert_eq!(post(&dispatch_of("main", "d_3")).0, 404);
    assert_eq!((github.runs().len(), github.posts_of_dispatch("d_3"), github.posts_of_dispatch("d_4")), (1, 2, 0));

    let github = Github::standard().enterprise("https://ghe.example.com", "/forge");
    let target = format!("/forge/api/v3{DISPATCH}");
    let body = dispatch_of("main", "d_1");
    assert_eq!(github.post(LAUNCH, &target, &body).status, 400);
    assert_eq!(github.ask("POST", LAUNCH, &target, Some(&body), "2022-11-28").status, 204);
    assert_eq!(github.get(LAUNCH, "/forge/api/v3/versions").status, 400);
    assert_eq!(github.get(LAUNCH, "/api/v3/meta").status, 404);
    github.take_violations();
}

#[test]
fn runs_move_only_when_told_and_may_be_seen_late() {
    let github = Github::standard();
    github.title_lag(2);
    let run = launch(&github, "d_1");
    let target = format!("/repos/octo/widgets/actions/runs/{run}");
    let title = || github.get(JOB, &target).json()["display_title"].as_str().unwrap().to_owned();
    assert_eq!([title(), title(), title()], ["Worker", "Worker", "gh-aw work-queue d_1"]);
    let state = || github.get(JOB, &target).json()["status"].as_str().unwrap().to_owned();
    assert_eq!(state(), "queued");
    github.start_run(run);
    github.complete_run(run, "success");
    github.faults(Faults::default().and(Endpoint::Run, 1, 1, Strike::Stale(1)).and(
        Endpoint::Run,
        2,
        1,
        Strike::Stale(2),
    ));
    assert_eq!([state(), state(), state()], ["in_progress", "queued", "completed"]);
    github.faults(Faults::next(Endpoint::WorkflowRuns, Strike::Stale(3)));
    assert_eq!(github.get(JOB, &format!("{WORKER}/runs")).json()["total_count"], 0);
    assert_eq!(github.get(JOB, &format!("{WORKER}/runs?event=push")).json()["total_count"], 0);
    github.rerun(run, github.account_id("wim"));
    let attempt = |n: u32| github.get(JOB, &format!("{target}/attempts/{n}"));
    assert_eq!(
        (attempt(1).json()["conclusion"].as_str(), attempt(2).json()["status"].as_str()),
        (Some("success"), Some("queued"))
    );
    assert_eq!((attempt(3).status, attempt(2).json()["triggering_actor"]["login"].as_str()), (404, Some("wim")));
    let reference = "main";
    let actor = github.account_id("github-actions[bot]");
    let own = NewRun {
        repository: OCTO_WIDGETS,
        workflow: "dispatcher.lock.yml",
        event: "schedule",
        reference,
        actor,
        title: None,
    };
    let own = github.new_run(&own);
    assert_eq!(github.get(JOB, &format!("/repos/octo/widgets/actions/runs/{own}")).json()["event"], "schedule");
    for n in 0..60 {
        launch(&github, &format!("d_x{n}"));
    }
    let page = |n: u32| {
        github.get(JOB, &format!("{WORKER}/runs?per_page=50&page={n}")).json()["workflow_runs"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!((page(1), page(2), page(3)), (50, 11, 0));
}

#[test]
fn what_is_renamed_moved_or_gone_is_told_apart() {
    let github = Github::standard().repository("octo/gadgets");
    let sha = github.head(OCTO_WIDGETS, "main").unwrap();
    for number in 1..=3 {
        github.issue(OCTO_WIDGETS, number);
    }
    let gadgets = github.repository_id("octo/gadgets");
    github.change_issue(OCTO_WIDGETS, 2, |issue| issue.status = Lifecycle::Deleted);
    github.change_issue(OCTO_WIDGETS, 3, |issue| issue.status = Lifecycle::Transferred(gadgets, 9));
    let get = |target: &str| github.get(READER, target);
    assert_eq!(get("/repos/octo/widgets/issues/2").status, 410);
    assert_eq!(get("/repos/octo/widgets/issues/4").status, 404);
    let moved = get("/repos/octo/widgets/issues/3");
    assert_eq!(moved.status, 301);
    assert_eq!(moved.header("location"), Some("https://api.github.com/repos/octo/gadgets/issues/9"));
    // A repository without branches is neither readable nor absent.
    assert_eq!(get("/repos/octo/gadgets/git/ref/heads/main").status, 409);
    assert_eq!(get("/repos/octo/gadgets/contents/README.md").status, 404);
    let empty = json!({"query": "{ repository(owner: \"octo\", name: \"gadgets\") { nameWithOwner isEmpty } }"});
    assert_eq!(github.post(READER, "/graphql", &empty).json()["data"]["repository"]["isEmpty"], true);
    github.rename(OCTO_WIDGETS, "octo/things");
    let moved = get("/repos/octo/widgets/git/ref/heads/main");
    let location = moved.header("location").unwrap().strip_prefix("https://api.github.com").unwrap().to_owned();
    assert_eq!((moved.status, get(&location).json()["object"]["sha"].as_str()), (301, Some(&*sha)));
    assert_eq!(get("/repos/octo/things").json()["full_name"], "octo/things");
    let unseen = json!({"query": "{ repository(owner: \"octo\", name: \"none\") { isEmpty } }"});
    assert_eq!(github.post(READER, "/graphql", &unseen).json()["errors"][0]["type"], "NOT_FOUND");
    // Annotated tags and links are what they are.
    github.annotate("octo/things", "v1", &sha);
    assert_eq!(get("/repos/octo/things/git/ref/tags/v1").json()["object"]["type"], "tag");
    let link = |target: &str| Some(Entry::Link(target.to_owned()));
    github.commit_entries("octo/things", "main", &[("a/there", link("../README.md")), ("a/nowhere", link("gone"))]);
    assert_eq!(get("/repos/octo/things/contents/a/there").json()["path"], "README.md");
    assert_eq!(get("/repos/octo/things/contents/a/nowhere").json()["type"], "symlink");
    assert_eq!(get("/repos/octo/things/contents/a?ref=v1").status, 404);
}
