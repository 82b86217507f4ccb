//! Spans of the queue's phases, for an exporter that a workflow may have.

use serde_json::{Value, json};
use wq_action::jobs::{activation, conclusion};

use super::launched;
use crate::support::jobs::Job;
use crate::support::processes::Stage;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn spans(job: &Job<'_>) -> Vec<Value> {
    let Ok(text) = std::fs::read_to_string(job.paths().spans) else { return Vec::new() };
    let span = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let scope = &line["resourceSpans"][0]["scopeSpans"][0];
        assert_eq!(scope["scope"]["name"], "work-queue");
        scope["spans"][0].clone()
    };
    text.lines().map(span).collect()
}

fn attribute(span: &Value, key: &str) -> Vec<String> {
    let pairs = span["attributes"].as_array().unwrap().iter();
    let fits = pairs.filter(|pair| pair["key"] == format!("work_queue.{key}"));
    fits.map(|pair| pair["value"]["stringValue"].as_str().unwrap().to_owned()).collect()
}

/// S-571, S-572, S-574, S-576: spans have the protocol's names, belong to the job's own trace, and refer to the branch's
/// revision, the request, the commit, the dispatch and each Claim. They go to a local file: no service is needed.
#[test]
fn spans_belong_to_the_jobs_trace() {
    let (stage, _, run) = launched();
    let mut job = Job::new(&stage, run, "worker");
    job.set("GITHUB_AW_OTEL_TRACE_ID", TRACE).set("GITHUB_AW_OTEL_PARENT_SPAN_ID", PARENT);
    job.perform(activation::run).unwrap();
    let spans = spans(&job);
    let names: Vec<&str> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["work-queue.publish.run", "work-queue.reconcile.run"]);
    for span in &spans {
        assert_eq!((&span["traceId"], &span["parentSpanId"]), (&json!(TRACE), &json!(PARENT)));
        assert_eq!(span["spanId"].as_str().unwrap().len(), 16);
    }
    let queue = stage.queue();
    let tip = queue.projection.tip().unwrap().as_str();
    assert_eq!(attribute(&spans[0], "commit_id"), [tip]);
    assert_eq!(attribute(&spans[0], "branch_sha"), [queue.commit.to_string()]);
    assert_eq!(attribute(&spans[0], "result"), ["published"]);
    let assignment = stage.assignment_of(run);
    assert_eq!(attribute(&spans[1], "dispatch_id"), [assignment.dispatch_id.as_str()]);
    assert_eq!(attribute(&spans[1], "claim_ref"), [assignment.claims[0].claim_id.as_str()]);
    assert_eq!(attribute(&spans[1], "work_ref"), [assignment.claims[0].work_id.as_str()]);
    // Whoever reads the conclusion is told that there is a trace.
    let mut concluding = job.next();
    let target = concluding.paths().concluded_snapshot;
    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
    std::fs::copy(concluding.paths().snapshot, target).unwrap();
    concluding.perform(conclusion::run).unwrap();
    assert!(concluding.outputs.summaries[0].contains("Trace data of this run: available"));
}

/// S-581, S-582: the labels that metrics may have are pool, priority, mode and result; payloads are in no span.
#[test]
fn spans_have_four_labels_and_no_payload() {
    let stage = Stage::with_works(1);
    let shift = stage.shift();
    let mut job = Job::new(&stage, shift.run, "dispatcher");
    job.set("GITHUB_AW_OTEL_TRACE_ID", TRACE).set("GITHUB_AW_OTEL_PARENT_SPAN_ID", PARENT);
    let request = stage.dispatch_next(&shift, "grant", 1);
    job.perform(|world| {
        let decided = world.ledger.publish(&request, None, &mut |projection, scanner, at| {
            projection.decide(scanner, &request, at, &[]).map_err(wq_action::ledger::LedgerError::from)
        });
        decided?;
        Ok(())
    })
    .unwrap();
    let spans = spans(&job);
    assert_eq!((spans.len(), &spans[0]["name"]), (1, &json!("work-queue.schedule.run")));
    let keys: Vec<&str> =
        spans[0]["attributes"].as_array().unwrap().iter().map(|pair| pair["key"].as_str().unwrap()).collect();
    let known = ["request_id", "commit_id", "branch_sha", "dispatch_id", "claim_ref", "pool", "mode", "result"];
    assert!(keys.iter().all(|key| known.contains(&key.strip_prefix("work_queue.").unwrap())), "{keys:?}");
    assert_eq!(attribute(&spans[0], "pool"), ["default"]);
    let text = std::fs::read_to_string(job.paths().spans).unwrap();
    assert!(!text.contains("task") && !text.contains("payload"), "{text}");
}

/// S-577: attempts that lost a race are events of the span, with their number, the version that they were decided on and
/// their result, apart from what was accepted.
#[test]
fn lost_attempts_stay_apart() {
    use crate::support::probe::{Fault, Kind, Probe};
    use wq_action::ledger::simulated::Trouble;
    let (stage, _, run) = launched();
    let mut job = Job::new(&stage, run, "worker");
    job.perform(activation::run).unwrap();
    let push = job.probe.steps().iter().position(|(_, kind)| *kind == Kind::Push).unwrap();
    let (stage, _, run) = launched();
    let observed = stage.queue().commit.to_string();
    let mut job = Job::new(&stage, run, "worker");
    job.set("GITHUB_AW_OTEL_TRACE_ID", TRACE).set("GITHUB_AW_OTEL_PARENT_SPAN_ID", PARENT);
    job.probe = Probe::striking(push, Fault::Ledger(Trouble::FalseConflict), false);
    job.perform(activation::run).unwrap();
    let published = &spans(&job)[0];
    let lost = &published["events"][0];
    let pairs = lost["attributes"].as_array().unwrap();
    let told: Vec<(&str, &str)> = pairs
        .iter()
        .map(|pair| (pair["key"].as_str().unwrap(), pair["value"]["stringValue"].as_str().unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            ("work_queue.attempt", "1"),
            ("work_queue.result", "publish_conflict"),
            ("work_queue.observed_sha", &*observed)
        ]
    );
    assert_eq!(attribute(published, "result"), ["published"]);
}

/// S-571, S-578, S-579, O-212: without a whole trace context nothing is written; a file that cannot be written, and a
/// span or context that somebody forged, change neither binding nor outputs.
#[test]
fn tracing_changes_nothing() {
    let activate = |prepare: &dyn Fn(&mut Job<'_>)| {
        let (stage, _, run) = launched();
        let mut job = Job::new(&stage, run, "worker");
        prepare(&mut job);
        job.perform(activation::run).unwrap();
        (stage.queue().projection.serialise(), job.outputs.outputs[0].clone(), spans(&job).len())
    };
    let plain = activate(&|_| {});
    assert_eq!(plain.2, 0);
    for (trace, parent) in [
        (TRACE, ""),
        ("", PARENT),
        (&TRACE[1..], PARENT),
        (TRACE, "0000000000000000"),
        ("0AF7651916CD43DD8448EB211C80319C", PARENT),
        ("0af7651916cd43dd8448eb211c80319\n", PARENT),
    ] {
        let found = activate(&|job| {
            job.set("GITHUB_AW_OTEL_TRACE_ID", trace).set("GITHUB_AW_OTEL_PARENT_SPAN_ID", parent);
        });
        assert_eq!(found, plain, "{trace:?} {parent:?}");
    }
    let found = activate(&|job| {
        job.set("GITHUB_AW_OTEL_TRACE_ID", TRACE).set("GITHUB_AW_OTEL_PARENT_SPAN_ID", PARENT);
        std::fs::create_dir_all(job.paths().spans).unwrap();
    });
    assert_eq!(found, plain);
    let found = activate(&|job| {
        job.set("GITHUB_AW_OTEL_TRACE_ID", TRACE).set("GITHUB_AW_OTEL_PARENT_SPAN_ID", PARENT);
        job.payload()["inputs"]["aw_context"] =
            json!({"otel_trace_id": "f".repeat(32), "authorized": true, "run_id": "1"}).to_string().into();
    });
    assert_eq!((&found.0, &found.1), (&plain.0, &plain.1));
}
