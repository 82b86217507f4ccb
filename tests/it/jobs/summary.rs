//! The view of a checked commit in the step summary (publication.md 2.8).

use wq_action::jobs::{JobError, World, activation};
use wq_action::ledger::LedgerError;
use wq_action::ledger::simulated::Trouble;
use wq_action::protocol::Code;
use wq_action::protocol::commit::FrozenRequest;
use wq_action::report::commit_view::{MAX_VIEW_BYTES, MAX_VIEW_ROWS, NO_MORE_VIEWS};

use super::launched;
use crate::support::jobs::Job;
use crate::support::probe::{Fault, Kind, Probe};
use crate::support::processes::Stage;

fn publish(world: &mut World<'_>, request: &FrozenRequest) -> Result<(), JobError> {
    world.ledger.publish(request, None, &mut |projection, scanner, at| {
        projection.decide(scanner, request, at, &[]).map_err(LedgerError::from)
    })?;
    Ok(())
}

fn submit(job: &mut Job<'_>, request: &FrozenRequest) -> Result<(), JobError> {
    job.perform(|world| publish(world, request))
}

/// S-258, S-521: a checked commit adds one view of Work and Claims and no payload; so does one whose acknowledgement was
/// lost and that was then found.
#[test]
fn a_checked_commit_adds_one_view() {
    let (stage, _, run) = launched();
    let mut job = Job::new(&stage, run, "worker");
    job.perform(activation::run).unwrap();
    assert_eq!(job.outputs.summaries.len(), 1);
    let view = &job.outputs.summaries[0];
    let tip = stage.queue().projection.tip().unwrap().as_str().to_owned();
    assert!(view.starts_with(&format!("### Work queue commit {}", tip[..20].replace('_', "&#95;"))), "{view}");
    for line in ["Request kind dispatch, 1 operations", "| claimed | none |", "| h1 |", "| open | bound | held |"] {
        assert!(view.contains(line), "{line}\n{view}");
    }
    for hidden in ["\"task\"", "task", "octo", "receipt", "fingerprint"] {
        assert!(!view.contains(hidden), "{hidden}\n{view}");
    }
    let (stage, _, run) = launched();
    let mut job = Job::new(&stage, run, "worker");
    job.perform(activation::run).unwrap();
    let push = job.probe.steps().iter().position(|(_, kind)| *kind == Kind::Push).unwrap();
    let (stage, _, run) = launched();
    let mut job = Job::new(&stage, run, "worker");
    job.probe = Probe::striking(push, Fault::Ledger(Trouble::LostAnswer), false);
    job.perform(activation::run).unwrap();
    assert_eq!(job.outputs.summaries.len(), 1);
}

/// S-259: what was staged, refused, lost for good or found committed before adds none.
#[test]
fn nothing_else_adds_a_view() {
    let (stage, shift, run) = launched();
    let mut job = Job::new(&stage, run, "worker");
    job.staged().perform(activation::run).unwrap();
    assert!(job.outputs.summaries.is_empty());
    let request = stage.submission("more", 1);
    let mut job = Job::new(&stage, shift.run, "dispatcher");
    submit(&mut job, &request).unwrap();
    submit(&mut job, &request).unwrap();
    assert_eq!(job.outputs.summaries.len(), 1, "a replayed request adds none");
    let reused = FrozenRequest { id: request.id.clone(), ..stage.submission("other", 1) };
    assert_eq!(submit(&mut job, &reused).unwrap_err().code(), Code::RequestReused);
    job.probe = Probe::striking(1, Fault::Ledger(Trouble::Denied), true);
    submit(&mut job, &stage.submission("denied", 1)).unwrap_err();
    job.probe = Probe::striking(1, Fault::Ledger(Trouble::LostPush), true);
    submit(&mut job, &stage.submission("lost", 1)).unwrap_err();
    let nothing = stage.dispatch_next(&shift, "grant-2", 1);
    job.probe = Probe::default();
    stage.publish(&stage.dispatch_next(&shift, "grant-3", 1)).unwrap();
    submit(&mut job, &nothing).unwrap();
    assert_eq!(job.outputs.summaries.len(), 1);
}

/// S-260: a summary that cannot be written is a warning; binding, charge and files are as with it.
#[test]
fn a_summary_that_fails_changes_nothing() {
    let run = |no_summary: bool| {
        let (stage, _, run) = launched();
        let mut job = Job::new(&stage, run, "worker");
        job.outputs.no_summary = no_summary;
        job.perform(activation::run).unwrap();
        assert_eq!(job.outputs.warnings.len(), usize::from(no_summary));
        (stage.queue().projection.serialise(), job.outputs.outputs.len())
    };
    assert_eq!(run(true), run(false));
}

/// S-258, S-582: at most 32 rows each, 32 KiB a view, and 8 views of a step, whatever the identities are; the ninth is
/// one fixed notice. Work of the commit comes first. Text of a submission cannot format anything, and tokens are masked.
#[test]
fn views_are_bounded() {
    let stage = Stage::with_works(1);
    let shift = stage.shift();
    let mut job = Job::new(&stage, shift.run, "dispatcher");
    let evil = "\u{1f600}|<b>`![x](https://e.invalid)@octo ".repeat(3);
    let token = format!("ghp_{}", "a".repeat(30));
    let views = job.perform(|world| {
        for round in 0..12 {
            let request = stage.submission(&format!("s{round}"), if round == 0 { 40 } else { 1 });
            let hostile =
                request.parameters.as_str().replace(r#""node_key":"n"#, &format!(r#""node_key":"{token} {evil}"#));
            let hostile = rederived(&hostile);
            let request = FrozenRequest::new(request.id, request.kind, request.actor, &hostile).unwrap();
            publish(world, &request)?;
        }
        Ok(())
    });
    views.unwrap();
    let summaries = &job.outputs.summaries;
    assert_eq!(summaries.len(), 9);
    assert_eq!(summaries[8], NO_MORE_VIEWS);
    for view in &summaries[..8] {
        assert!(view.len() <= MAX_VIEW_BYTES, "{}", view.len());
        let rows = view.lines().filter(|line| line.contains("| available |")).count();
        assert!((8..=MAX_VIEW_ROWS).contains(&rows), "{rows}");
        assert!(!view.contains("<b>") && !view.contains('`') && !view.contains("](") && !view.contains("@octo"));
        assert!(!view.contains("ghp_") && view.contains("&#42;&#42;&#42;"));
        assert!(view.contains("Payloads and results are never shown here"));
    }
}

/// The parameters with identities that follow from their nodes' keys.
fn rederived(parameters: &str) -> String {
    let mut parameters: serde_json::Value = serde_json::from_str(parameters).unwrap();
    for node in parameters["nodes"].as_array_mut().unwrap() {
        let (graph, key) = (node["graph_id"].as_str().unwrap(), node["node_key"].as_str().unwrap());
        node["work_id"] = crate::support::ledger::work_id(graph, key).into();
    }
    crate::support::ledger::canonical(&parameters.to_string())
}
