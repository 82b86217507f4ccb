//! What the default branch of the repository decides: the first Policy, another Policy, and deployments.

use serde_json::{Value, json};

use super::Desk;
use crate::support::cli::Ran;
use crate::support::git::feed;
use crate::support::github::{Endpoint, Faults, OCTO_WIDGETS, Strike, WRITER, worker_lock};

const LOCK: &str = ".github/workflows/worker.lock.yml";
const SETTINGS: &str = ".github/workflows/aw.json";

fn settings(desk: &Desk, text: &str) -> String {
    desk.github.commit(OCTO_WIDGETS, "main", &[(SETTINGS, Some(text))])
}

fn main(desk: &Desk) -> String {
    desk.github.head(OCTO_WIDGETS, "refs/heads/main").unwrap()
}

fn genesis(desk: &Desk) -> Value {
    desk.ledger().remove(0)
}

fn graph(desk: &Desk, nodes: &Value) -> Ran {
    let arguments = ["submit-graph", "--file", "-", "--repo", OCTO_WIDGETS, "--json"];
    Ran::of(feed(desk.command(WRITER, &arguments), nodes.to_string().as_bytes()))
}

fn profile(policy: &Value) -> &Value {
    &policy["pools"]["default"]["profiles"]["worker"]
}

/// O-030: the first submission by somebody who may push, and not administer, makes the queue: scheduling from the
/// settings and routes from the declared workers, all at the verified default revision.
#[test]
fn a_first_submission_resolves_its_policy_from_the_repository() {
    let desk = Desk::new();
    let sha =
        settings(&desk, r#"{"work_queue":{"concurrency":5,"mode":"strict-priority","retry":{"max_attempts":2}}}"#);
    let submitted = desk.submit("alpha", &["--request-id", "first"]).json(0);
    assert_eq!((submitted["genesis"].as_bool(), submitted["created"].as_bool()), (Some(true), Some(true)));
    let commit = genesis(&desk);
    let wim = desk.github.account_id("wim").to_string();
    assert_eq!(commit["actor"], json!({"principal": wim, "repository": OCTO_WIDGETS, "role": "producer"}));
    let kinds: Vec<&str> =
        commit["operations"].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Policy", "Work"]);
    let policy = &commit["operations"][0]["policy"];
    assert_eq!((policy["authorization"].as_str(), policy["mode"].as_str()), (Some("aw"), Some("strict-priority")));
    assert_eq!(
        (policy["pools"]["default"]["native_limit"].as_i64(), profile(policy)["ref"].as_str()),
        (Some(5), Some(&*sha))
    );
    assert_eq!(profile(policy)["logical_contract"], "c".repeat(64));
    assert_eq!(profile(policy)["workflow"], LOCK);
    // Later files change nothing about it.
    settings(&desk, r#"{"work_queue":{"concurrency":7}}"#);
    let contents = desk.calls(&[Endpoint::Contents]);
    desk.submit("beta", &[]).json(0);
    assert_eq!(desk.calls(&[Endpoint::Contents]), contents, "an existing queue reads no worker files");
    let again = desk.submit("alpha", &["--request-id", "first"]).json(0);
    assert_eq!(again["replayed"], true);
    assert_eq!(desk.ledger().len(), 2);
}

/// O-311: a graph makes an absent queue as one Work does, all of it or nothing of it.
#[test]
fn a_graph_makes_an_absent_queue() {
    let desk = Desk::new();
    let node = |key: &str, edges: Value| json!({"graph_id": "g", "node_key": key, "payload": {"task": key}, "depends_on": edges});
    let first = json!([node("a", json!([])), node("b", json!([{"kind": "work", "node_key": "a"}]))]);
    let broken = json!([node("a", json!([])), node("b", json!([{"kind": "work", "node_key": "nobody"}]))]);
    assert_eq!(graph(&desk, &broken).code, 2);
    assert_eq!(desk.head(), None);
    let admitted = graph(&desk, &first).json(0);
    assert_eq!((admitted["nodes"].as_i64(), admitted["genesis"].as_bool()), (Some(2), Some(true)));
    let operations = genesis(&desk)["operations"].take();
    assert_eq!(operations.as_array().unwrap().len(), 3);
    assert_eq!(profile(&operations[0]["policy"])["ref"], main(&desk));
}

/// O-369: a worker that cannot be used, settings with a mistake and a repository that cannot be read make no queue; the same
/// submission passes once the worker is deployed.
#[test]
fn an_unusable_worker_makes_no_queue() {
    let desk = Desk::new();
    desk.github.workflow_state(OCTO_WIDGETS, LOCK, Some("disabled_manually"));
    let refused = desk.submit("alpha", &["--request-id", "first"]);
    assert_eq!(refused.error(refused.code), "policy_missing");
    assert!(refused.err.contains("retry the same submission"), "{refused:?}");
    desk.github.workflow_state(OCTO_WIDGETS, LOCK, Some("active"));
    settings(&desk, r#"{"work_queue":{"concurrency":0}}"#);
    let refused = desk.submit("alpha", &["--request-id", "first"]);
    assert_eq!(refused.error(2), "settings_invalid");
    assert!(refused.err.contains("work_queue.concurrency"), "{refused:?}");
    settings(&desk, "{}");
    for endpoint in [Endpoint::GetRef, Endpoint::Contents, Endpoint::Workflow] {
        desk.github.faults(Faults::default().and(endpoint, 1, 9, Strike::Status(503)));
        assert_eq!(desk.submit("alpha", &["--request-id", "first"]).error(7), "api_unavailable", "{endpoint:?}");
        desk.github.no_faults();
    }
    assert_eq!((desk.head(), desk.calls(&[Endpoint::GitPush])), (None, 0));
    desk.submit("alpha", &["--request-id", "first"]).json(0);
    assert_eq!(desk.ledger().len(), 1);
}

/// O-308: another Policy comes from the verified settings and workers or from a file, never from both, and only into an
/// existing, quiet queue; a repeated request means what it meant at first.
#[test]
fn another_policy_comes_from_the_default_branch() {
    let desk = Desk::new();
    assert_eq!(desk.wq(&["policy", "--from-config", "--epoch", "second"]).error(4), "queue_missing");
    let task = desk.submit("alpha", &[]).json(0)["work_id"].as_str().unwrap().to_owned();
    let busy = desk.wq(&["policy", "--from-config", "--epoch", "second"]);
    assert_eq!(busy.error(busy.code), "policy_not_quiescent");
    desk.wq(&["cancel-work", "--work-id", &task, "--reason", "r"]).json(0);
    let sha = settings(&desk, r#"{"work_queue":{"concurrency":3,"pools":{"slow":{"concurrency":1}}}}"#);
    let install = ["policy", "--from-config", "--epoch", "second", "--request-id", "install"];
    let installed = desk.wq(&install).json(0);
    assert_eq!(
        (installed["policy_epoch"].as_str(), installed["published_now"].as_bool()),
        (Some("second"), Some(true))
    );
    let policy = desk.ledger().pop().unwrap()["operations"][0]["policy"].take();
    assert_eq!(policy["pools"]["slow"]["native_limit"], 1);
    assert_eq!(profile(&policy)["ref"], sha);
    settings(&desk, r#"{"work_queue":{"concurrency":4}}"#);
    let again = desk.wq(&install).json(0);
    assert_eq!((again["replayed"].as_bool(), &again["policy_sha256"]), (Some(true), &installed["policy_sha256"]));
    let other = desk.wq(&["policy", "--from-config", "--epoch", "third", "--request-id", "install"]);
    assert_eq!(other.error(other.code), "request_reused");
    let file = desk.file("policy.json", &policy.to_string());
    let file = file.to_str().unwrap();
    for arguments in [
        &["policy", "--from-config", "--file", file, "--epoch", "third"][..],
        &["policy", "--epoch", "third"],
        &["policy", "--from-config"],
        &["policy", "--from-config", "--epoch", "third", "--remote", "queue.git"],
    ] {
        assert_eq!(desk.wq(arguments).error(2), "usage_invalid", "{arguments:?}");
    }
    assert_eq!(desk.with(WRITER, &install).error(4), "actor_unauthorized");
    desk.wq(&["policy", "--file", file, "--epoch", "third"]).json(0);
    // A historical Policy answers for its routes when it is installed.
    let mut historical = policy.clone();
    historical.as_object_mut().unwrap().remove("authorization");
    historical["producers"] = json!({"1": {"pools": ["default"], "priorities": [3], "fairness_keys": [""]}});
    desk.github.workflow_state(OCTO_WIDGETS, LOCK, Some("disabled_manually"));
    let file = desk.file("historical.json", &historical.to_string());
    let refused = desk.wq(&["policy", "--file", file.to_str().unwrap(), "--epoch", "fourth"]);
    assert!(["policy_missing", "policy_invalid"].contains(&refused.error(refused.code).as_str()), "{refused:?}");
}

/// O-098, O-101, O-104, O-309: a deployment takes the verified default revision into use for future Claims and pauses a
/// worker that cannot run there, on a queue that is busy and stays as it is; selection narrows it.
#[test]
fn workers_are_deployed_from_the_default_branch() {
    let desk = Desk::new();
    let absent = desk.wq(&["deploy", "--from-config"]);
    assert_eq!(absent.error(4), "queue_missing");
    desk.submit("alpha", &[]).json(0);
    desk.submit("beta", &[]).json(0);
    let granted = desk.wq(&["dispatch-next"]).json(0);
    let before = main(&desk);
    let current = desk.wq(&["deploy", "--from-config"]).json(0);
    assert_eq!((current["changed"].as_bool(), current["status"].as_str()), (Some(false), Some("already_current")));
    assert_eq!(current["updates"], json!([]));
    assert!(current["tip"].is_string());
    let contract = "d".repeat(64);
    let sha = desk.github.commit(OCTO_WIDGETS, "main", &[(LOCK, Some(&worker_lock("Worker", &contract)))]);
    assert_ne!(sha, before);
    let deployed = desk.wq(&["deploy", "--from-config", "--request-id", "d1"]).json(0);
    assert_eq!((deployed["changed"].as_bool(), deployed["status"].as_str()), (Some(true), Some("deployed")));
    assert_eq!(
        deployed["updates"],
        json!([{"activate": true, "available": true, "contract": contract, "pool": "default", "ref": sha,
            "worker_profile": "worker"}])
    );
    let last = desk.ledger().pop().unwrap();
    assert_eq!(
        (last["actor"]["role"].as_str(), last["request"]["kind"].as_str()),
        (Some("administrator"), Some("deployment"))
    );
    let again = desk.wq(&["deploy", "--from-config", "--request-id", "d1"]).json(0);
    assert_eq!((again["replayed"].as_bool(), &again["updates"]), (Some(true), &deployed["updates"]));
    // The Claim that was granted keeps its route; Work of the new contract takes the new one.
    desk.submit("gamma", &[]).json(0);
    let route = |granted: &Value| granted["assignments"][0]["ref"].as_str().unwrap().to_owned();
    assert_eq!(route(&granted), before);
    assert_eq!(route(&desk.wq(&["dispatch-next"]).json(0)), sha);
    desk.github.commit(OCTO_WIDGETS, "main", &[(LOCK, Some("on: push\njobs: {}\n"))]);
    let paused = desk.wq(&["deploy", "--from-config", "--pool", "default", "--worker-profile", "worker"]).json(0);
    assert_eq!(paused["updates"][0]["available"], false);
    let text = desk.text(&["deploy", "--from-config"]);
    assert!(text.contains("nothing written"), "{text}");
}

/// O-105: a look that fails publishes nothing; selections that name nothing, a missing `--from-config` and a queue that
/// is not AW-managed are refused with one code, and who may not administer with another.
#[test]
fn a_failed_or_empty_deployment_publishes_nothing() {
    let desk = Desk::new();
    desk.submit("alpha", &[]).json(0);
    desk.github.commit(OCTO_WIDGETS, "main", &[("OTHER", Some("x"))]);
    let ledger = desk.bare.ledger();
    for (endpoint, status, code) in [
        (Endpoint::GetRef, 500, "api_unavailable"),
        (Endpoint::Contents, 403, "api_forbidden"),
        (Endpoint::Workflow, 429, "api_rate_limited"),
    ] {
        desk.github.faults(Faults::default().and(endpoint, 1, 9, Strike::Status(status)));
        let failed = desk.wq(&["deploy", "--from-config"]);
        assert_eq!(failed.error(failed.code), code, "{endpoint:?}");
        desk.github.no_faults();
    }
    for arguments in [
        &["deploy"][..],
        &["deploy", "--from-config", "--pool", "nowhere"],
        &["deploy", "--from-config", "--worker-profile", "nobody"],
    ] {
        assert_eq!(desk.wq(arguments).error(2), "deployment_invalid", "{arguments:?}");
    }
    assert_eq!(desk.with(WRITER, &["deploy", "--from-config"]).error(4), "actor_unauthorized");
    let local = desk.wq(&["deploy", "--from-config", "--remote", "queue.git"]);
    assert_eq!(local.error(2), "usage_invalid");
    assert_eq!(desk.bare.ledger(), ledger);
}

/// O-364, O-365, O-366: a pin is a registered, compatible revision; a repetition keeps pin and contract, and another
/// explicit pin is refused; Work without one follows deployments.
#[test]
fn pins_are_registered_revisions() {
    let desk = Desk::new();
    let first = main(&desk);
    desk.submit("following", &[]).json(0);
    let unknown = desk.submit("pinned", &["--execution-ref", &"e".repeat(40)]);
    assert_eq!(unknown.error(2), "work_invalid");
    desk.submit("pinned", &["--execution-ref", &first]).json(0);
    let second = desk.github.commit(OCTO_WIDGETS, "main", &[("OTHER", Some("x"))]);
    desk.wq(&["deploy", "--from-config"]).json(0);
    let again = desk.submit("pinned", &[]).json(0);
    assert_eq!(again["created"], false);
    let other = desk.submit("pinned", &["--execution-ref", &second]);
    assert_eq!(other.error(2), "work_conflict");
    let granted = desk.wq(&["dispatch-next", "--max-claims", "2", "--max-dispatches", "2"]).json(0);
    let routes: Vec<&str> =
        granted["assignments"].as_array().unwrap().iter().map(|one| one["ref"].as_str().unwrap()).collect();
    assert_eq!(routes, [second.as_str(), first.as_str()]);
}
