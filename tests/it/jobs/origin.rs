//! Capture of the logical requester, and what a later attempt makes of it.

use wq_action::jobs::{World, origin};
use wq_action::launch::origin::trusted_origin;
use wq_action::launch::publisher::{Scope, authenticate};
use wq_action::protocol::actor::{Actor, Role};
use wq_action::protocol::{Code, Wire as _};

use super::launched;
use crate::support::jobs::Job;
use crate::support::processes::Stage;

/// The requester that a publishing job of the same run finds.
fn requester(job: &mut Job<'_>) -> Result<Actor, Code> {
    let find = |world: &mut World<'_>| {
        let publisher = authenticate(world.client, world.context, Role::Dispatcher, &Scope::default())?;
        Ok(trusted_origin(world.client, world.context, &publisher)?.actor().clone())
    };
    job.perform(find).map_err(|error| error.code())
}

/// S-514: output and variable hold the authenticated run, in a worker's case with its dispatch, and nothing else; no
/// file takes part.
#[test]
fn the_origin_is_the_authenticated_run() {
    let (stage, shift, run) = launched();
    let mut job = Job::new(&stage, shift.run, "dispatcher");
    std::fs::write(job.folder().join("work-queue.intents.jsonl"), r#"{"origin":{"principal":"1"}}"#).unwrap();
    let actor = job.perform(origin::run).unwrap();
    assert_eq!(actor, shift.actor);
    let text = actor.canonical();
    assert_eq!(job.outputs.output("work_queue_origin"), Some(&*text));
    assert_eq!(job.outputs.exports, [("GH_AW_WORK_QUEUE_INTENT_ORIGIN".to_owned(), text)]);
    let mut worker = Job::new(&stage, run, "worker");
    let actor = worker.perform(origin::run).unwrap();
    assert_eq!(actor, stage.worker(run, &stage.assignment_of(run).dispatch_id, None));
    assert_eq!(stage.text().matches(r#""state":"bound""#).count(), 0, "nothing is written");
}

/// S-498, O-234: an observer has no intents, a worker's rerun no authority, and a run that is not the claimed one no
/// origin. Nothing is set then.
#[test]
fn who_has_no_origin_sets_none() {
    let (stage, shift, run) = launched();
    let refused = |mut job: Job<'_>, code: Code| {
        assert_eq!(job.perform(origin::run).unwrap_err().code(), code);
        assert!(job.outputs.outputs.is_empty() && job.outputs.exports.is_empty());
    };
    refused(Job::new(&stage, shift.run, "observer"), Code::WorkQueueObserverReadOnly);
    let mut other = Job::new(&stage, shift.run, "dispatcher");
    other.set("GITHUB_ACTOR_ID", "1");
    refused(other, Code::PublisherPrincipalMismatch);
    let mut bare = Job::new(&stage, run, "worker");
    *bare.payload() = serde_json::json!({});
    refused(bare, Code::WorkQueueAssignmentRequired);
    let mut unwritable = Job::new(&stage, shift.run, "dispatcher");
    unwritable.outputs.unwritable = true;
    refused(unwritable, Code::IoFailed);
    stage.github.complete_run(run, "failure");
    stage.github.rerun(run, stage.github.account_id("ada"));
    stage.github.start_run(run);
    refused(Job::new(&stage, run, "worker"), Code::RerunNotAuthorized);
}

/// S-249, S-514, jobs.md 12, check 13: a publisher of attempt 2 keeps the origin of attempt 1, so its requests are the
/// same; an agent of attempt 2 has an origin of its own. An origin of another run, one that is too long, one with another
/// member and one of a later attempt are refused.
#[test]
fn jobs_13_an_origin_outlives_its_attempt_and_nothing_else() {
    let stage = Stage::new();
    let shift = stage.shift();
    let mut agent = Job::new(&stage, shift.run, "dispatcher");
    let first = agent.perform(origin::run).unwrap();
    stage.again(&shift);
    let with = |text: &str| {
        let mut job = Job::new(&stage, shift.run, "dispatcher");
        job.set("GH_AW_WORK_QUEUE_INTENT_ORIGIN", text);
        requester(&mut job)
    };
    assert_eq!(with(&first.canonical()), Ok(first.clone()));
    let mut again = Job::new(&stage, shift.run, "dispatcher");
    let second = again.perform(origin::run).unwrap();
    assert_eq!(second.run_attempt.unwrap().get(), 2);
    assert_eq!(with(&second.canonical()), Ok(second.clone()));
    assert_eq!(requester(&mut Job::new(&stage, shift.run, "dispatcher")), Err(Code::WorkQueueIntentOriginRequired));
    let other = stage.shift();
    let mismatch = Err(Code::WorkQueueIntentOriginMismatch);
    assert_eq!(with(&other.actor.canonical()), mismatch);
    let extra = first.canonical().replacen('{', r#"{"authorized":true,"#, 1);
    assert_eq!(with(&extra), mismatch);
    assert_eq!(with(&first.canonical().replace(r#""run_attempt":1"#, r#""run_attempt":3"#)), mismatch);
    assert_eq!(with(&first.canonical().replace("dispatcher\"", "worker\"")), mismatch);
    let long = format!("{}{}", first.canonical(), " ".repeat(4096));
    assert_eq!(with(&long), Err(Code::WorkQueueIntentOriginLimit));
}
