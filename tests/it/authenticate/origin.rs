//! The trusted origin of what a job publishes (jobs.md 5.3.4).

use serde_json::{Value, json};
use wq_action::launch::identity::request_id;
use wq_action::launch::origin::{Origin, trusted_origin};
use wq_action::launch::publisher::{Scope, authenticate};
use wq_action::protocol::actor::Role;
use wq_action::protocol::{Code, Wire as _};

use super::{RUN, context, dispatch, host, run};
use crate::support::answers::Answers;

const ORIGIN: &str = "GH_AW_WORK_QUEUE_INTENT_ORIGIN";

/// What activation of attempt 1 wrote.
fn captured() -> Value {
    json!({
        "role": "dispatcher", "principal": "7", "repository": "Octo/Queue",
        "workflow": ".github/workflows/plan.lock.yml", "run_id": "42", "run_attempt": 1,
    })
}

/// The host in attempt 2 of the run.
fn rerun() -> Answers {
    host().with(RUN, run(2)).with(&format!("{RUN}/attempts/1"), run(1))
}

fn of(host: &Answers, attempt: &str, role: Role, scope: &Scope, origin: &str) -> Result<Origin, Code> {
    let context = context(&[("GITHUB_RUN_ATTEMPT", attempt), (ORIGIN, origin)]);
    let publisher = authenticate(host.client(), &context, role, scope).map_err(|fault| fault.code())?;
    trusted_origin(host.client(), &context, &publisher).map_err(|fault| fault.code())
}

fn second(origin: &Value) -> Result<Origin, Code> {
    of(&rerun(), "2", Role::Dispatcher, &Scope::default(), &origin.to_string())
}

/// S-248: the job that publishes in attempt 2 what attempt 1 staged asks as attempt 1, so the request id is the same;
/// its own attempt stands beside the actor and in no part of it.
///
/// S-249: a new agent run of attempt 2 has a new origin, and every intent has a request id of its own.
#[test]
fn a_rerun_asks_as_the_attempt_that_staged() {
    let first = of(&host(), "1", Role::Dispatcher, &Scope::default(), "").unwrap();
    assert_eq!(first.actor().run_attempt.unwrap().get(), 1);
    let again = second(&captured()).unwrap();
    assert_eq!(again.actor(), first.actor());
    assert_eq!((first.publisher_attempt(), again.publisher_attempt()), (1, 2));
    assert!(!again.actor().canonical().contains("publisher"));
    assert_eq!(request_id(again.actor(), "i1"), request_id(first.actor(), "i1"));
    assert_ne!(request_id(again.actor(), "i2"), request_id(first.actor(), "i1"));
    let mut renewed = captured();
    renewed["run_attempt"] = json!(2);
    let host = rerun();
    let fresh = of(&host, "2", Role::Dispatcher, &Scope::default(), &renewed.to_string()).unwrap();
    assert_ne!(request_id(fresh.actor(), "i1"), request_id(first.actor(), "i1"));
    assert!(!host.asked().iter().any(|target| target.contains("attempts")), "its own attempt is known");
}

/// An absent origin is the job's own run in attempt 1 and for a worker, and an error in a later attempt.
#[test]
fn a_later_attempt_needs_an_origin() {
    let absent = of(&rerun(), "2", Role::Dispatcher, &Scope::default(), "").map(drop);
    assert_eq!(absent, Err(Code::WorkQueueIntentOriginRequired));
    let worker = of(&host(), "1", Role::Worker, &dispatch(), "").unwrap();
    assert_eq!(worker.actor().dispatch_id, dispatch().dispatch_id);
}

/// An origin is bounded, strict, closed, and of this very run.
#[test]
fn only_this_run_is_an_origin() {
    let refused = |text: &str| of(&rerun(), "2", Role::Dispatcher, &Scope::default(), text).map(drop);
    let text = captured().to_string();
    let padded = |length: usize| format!("{text}{}", " ".repeat(length - text.len()));
    assert_eq!(refused(&padded(4096)), Ok(()));
    assert_eq!(refused(&padded(4097)), Err(Code::WorkQueueIntentOriginLimit));
    let mismatch = Err(Code::WorkQueueIntentOriginMismatch);
    for malformed in ["{", "[]", "7", "null", &text.replacen('{', r#"{"role":"dispatcher","#, 1)] {
        assert_eq!(refused(malformed), mismatch, "{malformed}");
    }
    for (member, value) in [
        ("role", json!("producer")),
        ("role", json!("observer")),
        ("principal", json!("8")),
        ("principal", json!(7)),
        ("repository", json!("octo/queue")),
        ("workflow", json!(".github/workflows/other.yml")),
        ("run_id", json!("43")),
        ("run_attempt", json!(3)),
        ("run_attempt", json!(0)),
        ("dispatch_id", json!("d_1")),
        ("claim_handle", json!("h1")),
        ("publisher_attempt", json!(1)),
        ("trace", json!({})),
    ] {
        let mut other = captured();
        other[member] = value;
        assert_eq!(second(&other).map(drop), mismatch, "{member}");
    }
    for member in ["role", "principal", "repository", "workflow", "run_id", "run_attempt"] {
        let mut other = captured();
        other.as_object_mut().unwrap().remove(member);
        assert_eq!(second(&other).map(drop), mismatch, "{member}");
    }
}

/// An earlier attempt is read as exactly that attempt, and passes the same comparison as the job's own run.
#[test]
fn an_earlier_attempt_is_read_and_compared() {
    let target = format!("{RUN}/attempts/1");
    let with = |answer: (u16, Value)| {
        let mut host = rerun();
        host.by_target.insert(target.clone(), answer);
        of(&host, "2", Role::Dispatcher, &Scope::default(), &captured().to_string()).map(drop)
    };
    for status in [401, 403, 404, 500, 0] {
        assert_eq!(with((status, Value::Null)), Err(Code::WorkQueueIntentOriginReadFailed), "{status}");
    }
    assert_eq!(with((200, run(2))), Err(Code::PublisherNativeContextMismatch));
    let mut other = run(1);
    other["actor"]["id"] = json!(8);
    assert_eq!(with((200, other)), Err(Code::PublisherPrincipalMismatch));
}

/// A worker's origin from before a Claim was meant still holds, and the request then names the Claim; one of another
/// dispatch or Claim does not.
#[test]
fn a_workers_origin_may_lack_the_claim() {
    let mut origin = captured();
    origin["role"] = json!("worker");
    origin["dispatch_id"] = json!("d_1");
    let read = |origin: &Value| of(&host(), "1", Role::Worker, &dispatch(), &origin.to_string());
    assert_eq!(read(&origin).unwrap().actor().claim_handle, dispatch().claim_handle);
    origin["claim_handle"] = json!("h1");
    assert!(read(&origin).is_ok());
    for (member, value) in [("claim_handle", "h2"), ("dispatch_id", "d_2")] {
        let mut other = origin.clone();
        other[member] = json!(value);
        assert_eq!(read(&other).map(drop), Err(Code::WorkQueueIntentOriginMismatch), "{member}");
    }
}
