//! Who acts: a job's own run, the origin of its intents, the launch credential, and a person at the command line.

mod credential;
mod operator;
mod origin;

use serde_json::{Value, json};
use wq_action::forge::Client;
use wq_action::launch::publisher::{Authenticated, Scope, authenticate};
use wq_action::protocol::actor::Role;
use wq_action::protocol::{Code, DispatchId, Handle, Wire as _};
use wq_action::runner::Context;

use crate::support::answers::Answers;

const SHA: &str = "0123456789012345678901234567890123456789";
const REPOSITORY: &str = "/repos/octo/queue";
const RUN: &str = "/repos/Octo/Queue/actions/runs/42";

/// A job of run 42 that the runner describes truly, spelled in another case than the host's.
fn variables() -> Vec<(&'static str, String)> {
    [
        ("GITHUB_REPOSITORY", "octo/queue"),
        ("GITHUB_RUN_ID", "42"),
        ("GITHUB_RUN_ATTEMPT", "1"),
        ("GITHUB_WORKFLOW_REF", "octo/queue/.github/workflows/plan.lock.yml@refs/heads/main"),
        ("GITHUB_SHA", SHA),
        ("GITHUB_EVENT_NAME", "schedule"),
        ("GITHUB_ACTOR_ID", "7"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .to_vec()
}

fn context(changes: &[(&'static str, &str)]) -> Context {
    with_payload(changes, r#"{"repository":{"id":99}}"#)
}

fn with_payload(changes: &[(&'static str, &str)], payload: &str) -> Context {
    let mut all = variables();
    for (name, value) in changes {
        all.retain(|(known, _)| known != name);
        all.push((name, (*value).to_owned()));
    }
    Context::new(all.into_iter().map(|(name, value)| (name.to_owned(), value)), Some(payload.to_owned())).unwrap()
}

fn run(attempt: u64) -> Value {
    json!({
        "id": 42, "run_attempt": attempt, "repository": {"id": 99, "full_name": "Octo/Queue"},
        "event": "schedule", "head_sha": SHA, "path": ".github/workflows/plan.lock.yml@refs/heads/main",
        "actor": {"id": 7}, "triggering_actor": {"id": 8}, "status": "in_progress", "conclusion": null,
        "created_at": "2026-11-30T12:00:00Z",
    })
}

/// The host that agrees with [`variables`].
fn host() -> Answers {
    let repository = json!({"id": 99, "full_name": "Octo/Queue", "default_branch": "main"});
    Answers::new().with(REPOSITORY, repository).with(RUN, run(1))
}

fn dispatch() -> Scope {
    Scope { dispatch_id: Some(DispatchId::new("d_1").unwrap()), claim_handle: Some(Handle::new("h1").unwrap()) }
}

fn dispatcher(client: Client<'_>, context: &Context) -> Result<Authenticated, Code> {
    authenticate(client, context, Role::Dispatcher, &Scope::default()).map_err(|fault| fault.code())
}

/// S-289, S-651, O-037: a job acts as what the host says of its run: principal, workflow, run and attempt are the run's, the
/// repository has the host's spelling, and the role is what protected code asks for. Nothing was enrolled before, and no
/// input, name or Git author takes part.
#[test]
fn a_job_acts_as_its_run() {
    let host = host();
    let found = dispatcher(host.client(), &context(&[])).unwrap();
    let actor = concat!(
        r#"{"principal":"7","repository":"Octo/Queue","role":"dispatcher","run_attempt":1,"run_id":"42","#,
        r#""workflow":".github/workflows/plan.lock.yml"}"#
    );
    assert_eq!(found.actor().canonical(), actor);
    assert_eq!(found.repository().as_str(), "Octo/Queue");
    assert_eq!((found.repository_id().as_str(), found.reference()), ("99", "refs/heads/main"));
    assert_eq!(found.created_at().unwrap().get(), 1_796_040_000_000);
    assert_eq!(host.asked(), [REPOSITORY, RUN], "each read once");
    let worker = authenticate(host.client(), &context(&[]), Role::Worker, &dispatch()).unwrap();
    assert!(worker.actor().canonical().contains(r#""claim_handle":"h1","dispatch_id":"d_1""#));
    let bare = authenticate(host.client(), &context(&[]), Role::Worker, &Scope::default());
    assert_eq!(bare.unwrap_err().code(), Code::ActorUnauthorized);
    // A job that says nothing of its account or its event's repository is judged by the rest.
    assert!(dispatcher(host.client(), &with_payload(&[("GITHUB_ACTOR_ID", "")], "{}")).is_ok());
}

/// S-652: every difference between the job's claims and the host's answer is refused with its own code.
#[test]
fn every_difference_has_its_code() {
    let cases: &[(&str, &str, Code)] = &[
        ("GITHUB_WORKFLOW_REF", "", Code::PublisherWorkflowContextMissing),
        ("GITHUB_WORKFLOW_REF", "octo/other/.github/workflows/plan.lock.yml@m", Code::PublisherWorkflowContextMissing),
        ("GITHUB_WORKFLOW_REF", "octo/queue/.github/workflows/plan.lock.yml", Code::PublisherWorkflowContextMissing),
        ("GITHUB_WORKFLOW_REF", "octo/queue/.github/workflows/a.yml@m", Code::PublisherNativeContextMismatch),
        ("GITHUB_SHA", "", Code::PublisherNativeContextMismatch),
        ("GITHUB_SHA", "0123", Code::PublisherNativeContextMismatch),
        ("GITHUB_SHA", "1123456789012345678901234567890123456789", Code::PublisherNativeContextMismatch),
        ("GITHUB_EVENT_NAME", "push", Code::PublisherNativeContextMismatch),
        ("GITHUB_EVENT_NAME", "", Code::PublisherNativeContextMismatch),
        ("GITHUB_RUN_ATTEMPT", "2", Code::PublisherNativeContextMismatch),
        ("GITHUB_ACTOR_ID", "8", Code::PublisherPrincipalMismatch),
        ("GITHUB_ACTOR_ID", "x", Code::PublisherPrincipalMismatch),
    ];
    for (name, value, code) in cases {
        assert_eq!(dispatcher(host().client(), &context(&[(name, value)])).unwrap_err(), *code, "{name}={value}");
    }
    let foreign = with_payload(&[], r#"{"repository":{"id":98}}"#);
    assert_eq!(dispatcher(host().client(), &foreign).unwrap_err(), Code::PublisherRepositoryIdentityMismatch);
    let answers: &[(&str, Value, Code)] = &[
        ("/id", json!(43), Code::PublisherNativeContextMismatch),
        ("/run_attempt", json!(2), Code::PublisherNativeContextMismatch),
        ("/run_attempt", Value::Null, Code::PublisherNativeContextMismatch),
        ("/repository/id", json!(98), Code::PublisherNativeContextMismatch),
        ("/repository/full_name", json!("octo/other"), Code::PublisherNativeContextMismatch),
        ("/path", json!(".github/workflows/b.yml"), Code::PublisherNativeContextMismatch),
        ("/event", json!("workflow_dispatch"), Code::PublisherNativeContextMismatch),
        ("/actor", Value::Null, Code::PublisherPrincipalMismatch),
        ("/actor/id", json!(8), Code::PublisherPrincipalMismatch),
    ];
    for (pointer, value, code) in answers {
        let mut answer = run(1);
        *answer.pointer_mut(pointer).unwrap() = value.clone();
        let found = dispatcher(host().with(RUN, answer).client(), &context(&[]));
        assert_eq!(found.unwrap_err(), *code, "{pointer}");
    }
    let renamed = json!({"id": 99, "full_name": "octo/renamed", "default_branch": "main"});
    let found = dispatcher(host().with(REPOSITORY, renamed).client(), &context(&[]));
    assert_eq!(found.unwrap_err(), Code::NativeRepositoryIdentityMismatch);
    let mut dateless = run(1);
    dateless["created_at"] = json!("yesterday");
    let found = dispatcher(host().with(RUN, dateless).client(), &context(&[])).unwrap();
    assert_eq!(found.created_at().unwrap_err().code(), Code::PublisherOriginTimeMissing);
}

/// Makes one more defect: in the host's answer, in the variables, in the payload.
type Change<'c> = dyn FnMut(&mut Value, &mut Vec<(&'static str, &'static str)>, &mut &'static str) + 'c;

/// The first difference in the protocol's order is the one that is named, whatever else is wrong.
#[test]
fn differences_are_found_in_order() {
    // Each change is one more defect, and comes before those that were made already.
    let mut answer = run(1);
    let mut changes = vec![];
    let mut payload = "{}";
    let mut step = |change: &mut Change<'_>| {
        change(&mut answer, &mut changes, &mut payload);
        let host = host().with(RUN, answer.clone());
        dispatcher(host.client(), &with_payload(&changes, payload)).unwrap_err()
    };
    let code = step(&mut |answer, _, _| answer["actor"]["id"] = json!(8));
    assert_eq!(code, Code::PublisherPrincipalMismatch);
    let code = step(&mut |_, _, payload| *payload = r#"{"repository":{"id":98}}"#);
    assert_eq!(code, Code::PublisherRepositoryIdentityMismatch);
    let code = step(&mut |_, changes, _| changes.push(("GITHUB_EVENT_NAME", "push")));
    assert_eq!(code, Code::PublisherNativeContextMismatch);
    let code = step(&mut |_, changes, _| changes.push(("GITHUB_WORKFLOW_REF", "x")));
    assert_eq!(code, Code::PublisherWorkflowContextMissing);
    let code = step(&mut |answer, _, _| answer["run_attempt"] = json!(2));
    assert_eq!(code, Code::PublisherNativeContextMismatch);
}

/// S-282: a worker's authority ends with attempt 1, whether the environment or the host tells of a later one; neither
/// the scope nor an origin helps.
#[test]
fn a_rerun_of_a_worker_has_no_authority() {
    let as_worker = |host: &Answers, context: &Context| {
        authenticate(host.client(), context, Role::Worker, &dispatch()).unwrap_err().code()
    };
    let later = context(&[("GITHUB_RUN_ATTEMPT", "2"), ("GITHUB_WORKFLOW_REF", "")]);
    let host = host().with(RUN, run(2));
    assert_eq!(as_worker(&host, &later), Code::RerunNotAuthorized);
    assert_eq!(host.asked(), [""; 0], "nothing is read for it");
    assert_eq!(as_worker(&host, &context(&[])), Code::RerunNotAuthorized);
    let same = dispatcher(host.client(), &context(&[("GITHUB_RUN_ATTEMPT", "2")])).unwrap();
    assert_eq!(same.actor().run_attempt.unwrap().get(), 2, "a dispatcher may be run again");
}

/// A host that does not answer is told apart from a run that is not the job's.
#[test]
fn a_failing_host_is_no_difference() {
    for (status, code) in [
        (401, Code::ApiUnauthenticated),
        (403, Code::ApiForbidden),
        (404, Code::ApiNotFound),
        (500, Code::ApiUnavailable),
        (0, Code::ApiUnreachable),
    ] {
        for target in [REPOSITORY, RUN] {
            let mut host = host();
            host.by_target.insert(target.to_owned(), (status, Value::Null));
            assert_eq!(dispatcher(host.client(), &context(&[])).unwrap_err(), code, "{target} {status}");
        }
    }
}
