//! First submissions, deployments and their synchronization over the simulated GitHub (publication.md 3.4, 4.3, 5; its
//! checklist items 11 to 14).

mod operator;
mod synchronize;

use serde_json::{Value, json};
use wq_action::engine::Projection;
use wq_action::launch::bootstrap::FirstSubmission;
use wq_action::ledger::proposal::{Worker, default_policy};
use wq_action::ledger::{Ledger, LedgerError, Outcome, Proposal, Publication};
use wq_action::protocol::actor::Role;
use wq_action::protocol::commit::FrozenRequest;
use wq_action::protocol::policy::Policy;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{Code, Digest, ProfileName, Revision};

use crate::support::github::{Endpoint, Faults, OCTO_WIDGETS, Strike};
use crate::support::stage::{Stage, actor, lock, node, request, stamp, submission};

/// Publishes a first submission as a caller would.
fn first(stage: &Stage, request: &FrozenRequest, proposal: Option<&Policy>) -> Result<Publication, LedgerError> {
    stage.ask(|client| {
        let first = match proposal {
            Some(policy) => FirstSubmission::proposed(client, &stage.repository, policy)?,
            None => FirstSubmission::resolved(client, &stage.repository)?,
        };
        let admit = |next: &Projection| first.admit(next);
        let proposal = Proposal { policy: first.policy(), default_branch: None, admit: Some(&admit) };
        stage.ledger().publish(request, Some(&proposal), &mut |projection, scanner, at| {
            projection.decide(scanner, request, at, &[]).map_err(LedgerError::from)
        })
    })
}

/// A queue with one Work of the worker `worker`.
pub(super) fn opened(workers: &[&str]) -> Stage {
    let stage = Stage::new(workers);
    first(&stage, &submission("open", &[node("n", "worker")]), None).unwrap();
    stage
}

/// A compiler's proposal for one worker at some revision.
fn proposal(stage: &Stage, at: &str, letter: &str) -> Policy {
    let worker = Worker {
        name: ProfileName::new("worker").unwrap(),
        revision: Revision::new(at).unwrap(),
        contract: Some(Digest::new(stamp(letter)).unwrap()),
    };
    default_policy(&stage.repository, &[worker]).unwrap()
}

fn route(stage: &Stage, profile: &str) -> Value {
    stage.document()["policy"]["pools"]["default"]["profiles"][profile].clone()
}

/// S-180, S-185, S-186, O-030, O-041: of 31 workers 30 are broken, each in some way. A submission to the good one makes
/// the queue; one that names a broken one writes nothing, and says what to do; later Work asks the host nothing.
#[test]
fn publication_11_one_good_worker_of_many_makes_the_queue() {
    let broken: Vec<String> = (0..30).map(|n| format!("w{n:02}")).collect();
    let mut names: Vec<&str> = broken.iter().map(String::as_str).collect();
    names.push("worker");
    let stage = Stage::new(&names);
    for (n, name) in broken.iter().enumerate() {
        match n % 4 {
            0 => drop(stage.put(&lock(name), None)),
            1 => drop(stage.put(&lock(name), Some("on: ["))),
            2 => stage.register(name, None),
            _ => stage.register(name, Some("disabled_manually")),
        }
    }
    for name in &broken {
        let error = first(&stage, &submission("bad", &[node("n", name)]), None).unwrap_err();
        assert_eq!((error.code(), stage.commits()), (Code::PolicyMissing, 0), "{name}");
        assert!(error.message().ends_with("deploy the worker, then retry the same submission"));
        // One unavailable route holds the whole submission back.
        let both = [node("n", "worker"), node("m", name)];
        assert_eq!(first(&stage, &submission("both", &both), None).unwrap_err().code(), Code::PolicyMissing);
    }
    assert_eq!(stage.commits(), 0);
    let published = first(&stage, &submission("good", &[node("n", "worker")]), None).unwrap();
    assert!(matches!(published.outcome, Outcome::PublishedNow { .. }));
    assert_eq!(stage.document()["policy"]["pools"]["default"]["profiles"].as_object().unwrap().len(), 31);
    let calls = stage.github.all_calls();
    stage.publish(&submission("later", &[node("later", "w02")])).unwrap();
    assert_eq!((stage.github.all_calls(), stage.commits()), (calls, 2));
}

/// O-041, O-105: a lookup that fails while a first submission is verified is raised, and nothing is written; the same
/// submission passes afterwards.
#[test]
fn a_failed_lookup_makes_no_queue() {
    for strike in [401, 403, 429, 500].map(Strike::Status).into_iter().chain([Strike::TimeoutBefore]) {
        for (at, nth) in [
            (Endpoint::Repository, 1),
            (Endpoint::GetRef, 1),
            (Endpoint::Contents, 1),
            (Endpoint::Contents, 2),
            (Endpoint::Contents, 3),
            (Endpoint::Contents, 4),
            (Endpoint::Contents, 5),
            (Endpoint::Workflow, 1),
        ] {
            let stage = Stage::new(&["worker"]);
            let request = submission("open", &[node("n", "worker")]);
            stage.github.faults(Faults::default().and(at, nth, 1, strike.clone()));
            let error = first(&stage, &request, None).unwrap_err();
            assert!(error.code().as_str().starts_with("api_"), "{at:?} {nth} {strike:?}: {error}");
            assert_eq!(stage.commits(), 0);
            first(&stage, &request, None).unwrap();
            assert_eq!(stage.commits(), 1);
        }
    }
}

/// S-228, S-229, O-031, O-101: a caller may bring a Policy of its own. Its workers are those of the verified default revision,
/// whatever revision it names and however well the stamp there fits, and are verified there with the contract that it
/// names; everything else of it holds.
#[test]
fn a_proposal_selects_no_revision() {
    let stage = Stage::new(&["worker"]);
    let old = stage.head();
    let head = stage.put("README.md", Some("# More\n"));
    let request = submission("open", &[node("n", "worker")]);
    let other = first(&stage, &request, Some(&proposal(&stage, &old, "d"))).unwrap_err();
    assert_eq!((other.code(), stage.commits()), (Code::PolicyMissing, 0));
    // Nothing but what the caller brings is read: no settings, no folder, no source.
    let contents = stage.github.calls(Endpoint::Contents);
    first(&stage, &request, Some(&proposal(&stage, &old, "c"))).unwrap();
    assert_eq!(stage.github.calls(Endpoint::Contents) - contents, 1);
    assert_eq!(route(&stage, "worker")["ref"], head);
    assert_eq!(route(&stage, "worker")["logical_contract"], stamp("c"));
}

/// A proposal for a repository without any branch stays as it is and is verified at the branch that stands by then:
/// there is no worker on it yet.
#[test]
fn an_empty_repository_has_no_worker_yet() {
    let stage = Stage::new(&[]);
    stage.github.move_ref(OCTO_WIDGETS, "refs/heads/main", None);
    stage.ask(|client| {
        let first =
            FirstSubmission::proposed(client, &stage.repository, &proposal(&stage, &"a".repeat(40), "c")).unwrap();
        assert_eq!(first.default_branch(), "main");
        let head = stage.put("README.md", Some("# Prepared\n"));
        let request = submission("open", &[node("n", "worker")]);
        let admit = |next: &Projection| first.admit(next);
        let proposal = Proposal { policy: first.policy(), default_branch: None, admit: Some(&admit) };
        let mut ledger = stage.ledger();
        let error = ledger.publish(&request, Some(&proposal), &mut |_, _, _| unreachable!()).unwrap_err();
        assert_eq!((error.code(), stage.commits()), (Code::PolicyMissing, 0), "{head}");
    });
    stage.add_worker("worker", "c");
    first(&stage, &submission("open", &[node("n", "worker")]), Some(&proposal(&stage, &"a".repeat(40), "c"))).unwrap();
    assert_eq!(route(&stage, "worker")["ref"], stage.head());
}

/// S-196, S-233, O-067: another settings file changes nothing about an installed Policy, not even beside new Work, and
/// neither does a caller that was compiled with other values, whose Work is taken all the same.
#[test]
fn settings_leave_an_installed_policy_alone() {
    let stage = opened(&["worker"]);
    let policy = stage.document()["policy"].clone();
    stage.put(".github/workflows/aw.json", Some(r#"{"work_queue":{"concurrency":2}}"#));
    first(&stage, &submission("more", &[node("more", "worker")]), None).unwrap();
    assert_eq!((stage.commits(), &stage.document()["policy"]), (2, &policy));
    let other = proposal(&stage, &"a".repeat(40), "d");
    first(&stage, &submission("other", &[node("other", "worker")]), Some(&other)).unwrap();
    assert_eq!((stage.commits(), &stage.document()["policy"]), (3, &policy));
}

/// Installs what the repository's files say now.
fn install(stage: &Stage, name: &str) -> Result<Publication, LedgerError> {
    let resolved = stage.ask(|client| wq_action::launch::route::resolve(client, &stage.repository)).unwrap();
    let policy: Value = serde_json::from_str(resolved.policy.source.as_str()).unwrap();
    let operations = json!({"operations": [{"kind": "Policy", "epoch": "second", "policy": policy}]});
    stage.publish(&request(name, RequestKind::Policy, Role::Administrator, &operations))
}

/// Cancels the one Work of a queue.
fn quiet(stage: &Stage) {
    let work = crate::support::ledger::work_id("graph", "n");
    let cancel = json!({"operations": [{"kind": "WorkCancellation", "work_id": work, "reason": "unwanted"}]});
    stage.publish(&request("cancel", RequestKind::CancelWork, Role::Administrator, &cancel)).unwrap();
}

/// S-197, O-067: resolving settings and routes again gives the Policy of a new epoch, which an administrator installs
/// in a quiet queue alone. What was accepted and recorded stays, and the clocks are new.
#[test]
fn another_epoch_takes_the_settings_of_the_day() {
    let stage = opened(&["worker"]);
    let head = stage.put(".github/workflows/aw.json", Some(r#"{"work_queue":{"concurrency":2}}"#));
    let error = install(&stage, "busy").unwrap_err();
    assert_eq!((error.code(), stage.commits()), (Code::PolicyNotQuiescent, 1));
    quiet(&stage);
    let before = stage.document();
    install(&stage, "quiet").unwrap();
    let document = stage.document();
    assert_eq!(document["policy"]["pools"]["default"]["native_limit"], 2);
    assert_eq!(route(&stage, "worker")["ref"], head);
    assert_eq!((&document["works"], &document["clocks"]), (&before["works"], &json!({})));
    assert_eq!((document["policy_epoch"].as_str(), stage.commits()), (Some("second"), 3));
    for accepted in before["requests"].as_object().unwrap() {
        assert_eq!(document["requests"][accepted.0], *accepted.1);
    }
}

/// O-367: a queue under a historical Policy stays at its exact revisions: nothing is synchronized or deployed there,
/// until an administrator installs an AW-managed Policy while it is quiet.
#[test]
fn a_historical_queue_is_moved_explicitly() {
    let stage = Stage::new(&["worker"]);
    let mut old: Value = serde_json::from_str(proposal(&stage, &stage.head(), "c").source.as_str()).unwrap();
    old.as_object_mut().unwrap().remove("authorization");
    old["producers"] = json!({"1": {"pools": ["default"], "priorities": [3], "fairness_keys": [""]}});
    let worker = &mut old["pools"]["default"]["profiles"]["worker"];
    worker.as_object_mut().unwrap().remove("logical_contract");
    worker["principal"] = "1".into();
    let old = wq_action::ledger::proposal::read_policy(&old.to_string()).unwrap();
    let revision = stage.head();
    stage.put("README.md", Some("# More\n"));
    first(&stage, &submission("open", &[node("n", "worker")]), Some(&old)).unwrap();
    assert_eq!(route(&stage, "worker")["ref"], revision);
    let calls = stage.github.all_calls();
    let error = operator::deploy(&stage, "deploy", &operator::select(None, None)).unwrap_err();
    assert_eq!(error.code(), Code::DeploymentInvalid);
    assert_eq!(synchronize::by(&stage, &actor(Role::Dispatcher), &["default"], &["worker"]).unwrap(), []);
    assert_eq!((stage.github.all_calls(), stage.commits()), (calls, 1));
    quiet(&stage);
    install(&stage, "move").unwrap();
    assert_eq!(stage.deployed("default", "worker"), (stage.head(), true));
}
