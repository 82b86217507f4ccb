//! The binding: which run may act for a dispatch, whoever comes first (lifecycle.md 2).

use wq_action::launch::error::LaunchError;
use wq_action::launch::report::GroupState;
use wq_action::ledger::simulated::Trouble;
use wq_action::protocol::Code;

use super::{granted, history, run_of, said};
use crate::support::github::{Endpoint, Faults, Strike};
use crate::support::probe::{Fault, Kind, Probe};
use crate::support::processes::{Shift, Stage};

/// A group whose run exists and whose launcher heard nothing.
fn lost() -> (Stage, Shift, u64) {
    let (stage, shift, groups) = granted(1);
    stage.github.faults(Faults::next(Endpoint::Dispatch, Strike::DropAfter));
    assert_eq!(stage.process(&shift).launch(&groups[0]).unwrap().state, GroupState::LaunchUnresolved);
    let run = run_of(&stage, &groups[0].dispatch_id);
    (stage, shift, run)
}

fn code(result: Result<(), LaunchError>) -> Code {
    result.unwrap_err().code()
}

/// S-276, S-280: a run whose launcher heard nothing binds itself and writes nothing else; repeating it writes nothing.
#[test]
fn activation_binds_its_own_run_once() {
    let (stage, _, run) = lost();
    let before = stage.text();
    stage.activate(run, &Probe::default()).unwrap();
    let after = stage.text();
    assert_eq!(after.lines().count(), before.lines().count() + 1);
    let last: serde_json::Value = serde_json::from_str(after.lines().last().unwrap()).unwrap();
    let operations = last["operations"].as_array().unwrap();
    assert_eq!((operations.len(), &operations[0]["state"]), (1, &"bound".into()));
    assert_eq!(operations[0]["evidence"]["source"], "trusted_activation");
    stage.activate(run, &Probe::default()).unwrap();
    assert_eq!(stage.text(), after);
}

/// S-281: launcher and run bind at once, in both orders and at every step: one binding, and both are content.
#[test]
fn the_same_binding_by_two_is_one() {
    let (stage, shift, groups) = granted(1);
    let probe = Probe::default();
    stage.process_with(&shift, &probe).launch(&groups[0]).unwrap();
    let steps = probe.steps();
    let post = steps.iter().position(|(_, kind)| *kind == Kind::Api("dispatch")).unwrap();
    for at in post + 1..steps.len() {
        let (stage, shift, groups) = granted(1);
        let id = &groups[0].dispatch_id;
        let probe = Probe::default();
        let activate = || stage.activate(run_of(&stage, id), &Probe::default()).unwrap();
        let report = probe.meanwhile(at, activate, || stage.process_with(&shift, &probe).launch(&groups[0]));
        assert_eq!(said(&report.unwrap()), ("bound", None, true), "{at}");
        assert_eq!(history(&stage, id), ["started", "bound"], "{at}");
    }
}

/// S-275, S-277, O-091, O-207: a run binds itself only if it is the launched one in everything: repository, event,
/// revision, workflow, principal and title.
#[test]
fn a_run_that_differs_in_anything_binds_nothing() {
    type Change = fn(&Stage, &mut crate::support::github::Run);
    let changes: [(Change, Code); 5] = [
        (|_, run| run.event = "push".to_owned(), Code::RunEventMismatch),
        (|_, run| run.head_sha = "e".repeat(40), Code::RunRefMismatch),
        (|_, run| run.path = ".github/workflows/other.lock.yml".to_owned(), Code::RunWorkflowMismatch),
        (|stage, run| run.actor = stage.github.account_id("ada"), Code::RunPrincipalMismatch),
        (|_, run| run.title.push('0'), Code::RunCorrelationMismatch),
    ];
    for (change, expected) in changes {
        let (stage, _, run) = lost();
        // The world is asked for accounts before it is changed.
        let mut changed = (*stage.github.run(run).unwrap()).clone();
        change(&stage, &mut changed);
        stage.github.change_run(run, |run| *run = changed);
        assert_eq!(code(stage.activate(run, &Probe::default())), expected);
        assert_eq!(stage.queue().projection.dispatches().next().unwrap().run, None);
    }
}

/// S-282, S-325, lifecycle.md 11, test 7: a rerun has no authority: it can neither bind nor repeat a binding. Attempt 1 stays
/// the bound one, and its end frees the reservation although a later attempt runs.
#[test]
fn lifecycle_07_a_rerun_has_no_authority_and_hides_no_end() {
    let (stage, shift, run) = lost();
    let by = stage.github.account_id("ada");
    stage.github.complete_run(run, "failure");
    stage.github.rerun(run, by);
    stage.github.start_run(run);
    assert_eq!(code(stage.activate(run, &Probe::default())), Code::RerunNotAuthorized);
    // The sweep finds attempt 1, binds it and sees that it has ended.
    let id = stage.assignment_of(run).dispatch_id;
    let report = stage.process(&shift).reconcile(&id).unwrap();
    assert_eq!(said(&report), ("released", None, false));
    assert_eq!(code(stage.activate(run, &Probe::default())), Code::WorkQueueDispatchNotActive);

    let (stage, shift, groups) = granted(1);
    stage.process(&shift).launch(&groups[0]).unwrap();
    let run = run_of(&stage, &groups[0].dispatch_id);
    stage.activate(run, &Probe::default()).unwrap();
    stage.github.complete_run(run, "success");
    stage.github.rerun(run, by);
    assert_eq!(code(stage.activate(run, &Probe::default())), Code::RerunNotAuthorized);
    let report = stage.process(&shift).sweep().unwrap();
    assert_eq!(said(&report[0]), ("released", None, false));
    assert_eq!(report[0].evidence.as_ref().unwrap().run_attempt.map(|_| 1), Some(1));
}

/// O-329, lifecycle.md 11, test 5: the run was verified and its binding could not be published. What is
/// kept is a hint; it survives a compaction, and the next sweep binds the run that it names.
#[test]
fn lifecycle_05_a_hint_survives_compaction_and_leads_to_the_binding() {
    let (stage, shift, groups) = granted(1);
    let probe = Probe::default();
    stage.process_with(&shift, &probe).launch(&groups[0]).unwrap();
    let pushes: Vec<usize> =
        (0..).zip(probe.steps()).filter(|(_, (_, kind))| *kind == Kind::Push).map(|(at, _)| at).collect();

    let (stage, shift, groups) = granted(1);
    let id = &groups[0].dispatch_id;
    let probe = Probe::striking(pushes[1], Fault::Ledger(Trouble::Denied), false);
    let report = stage.process_with(&shift, &probe).launch(&groups[0]).unwrap();
    assert_eq!((report.state, report.dispatched), (GroupState::LaunchUnresolved, true));
    assert_eq!(history(&stage, id), ["started", "uncertain"]);
    let run = run_of(&stage, id);
    assert_eq!(report.run_id.unwrap().as_str(), run.to_string());
    let queue = stage.queue();
    let dispatch = queue.projection.dispatch(id.as_str()).unwrap();
    assert_eq!((dispatch.run.as_ref(), dispatch.released), (None, false));
    assert_eq!(dispatch.reason.as_ref().unwrap().as_str(), "binding_unconfirmed");
    drop(queue);
    stage.compact();
    let mut scanner = wq_action::protocol::json::Scanner::new(crate::support::processes::HOST);
    let hint = stage.queue().projection.run_hint(id, &mut scanner).unwrap();
    assert_eq!(hint.as_str(), run.to_string());
    let report = stage.process(&stage.shift()).sweep().unwrap();
    assert_eq!(said(&report[0]), ("bound", None, false));
    assert_eq!(stage.phase(id), "bound");
}

/// O-331: only a run that passed every check leaves a hint; an answer that cannot be verified leaves none.
#[test]
fn an_answer_that_does_not_verify_leaves_no_hint() {
    let (stage, shift, groups) = granted(1);
    stage.github.faults(Faults::default().and(Endpoint::Run, 1, 9, Strike::Status(404)));
    let report = stage.process(&shift).launch(&groups[0]).unwrap();
    assert_eq!(said(&report), ("launch_unresolved", Some("api_not_found"), true));
    let id = &groups[0].dispatch_id;
    assert_eq!(history(&stage, id), ["started", "uncertain"]);
    let mut scanner = wq_action::protocol::json::Scanner::new(crate::support::processes::HOST);
    assert_eq!(stage.queue().projection.run_hint(id, &mut scanner), None);
}

/// O-327, O-328, lifecycle.md 1.6: reads after the POST are repeated while they fail for a while or the title is not shown
/// yet; the POST is not.
#[test]
fn reads_after_the_post_are_repeated_and_the_post_is_not() {
    for strikes in [vec![Strike::Status(500)], vec![Strike::TimeoutBefore, Strike::HalfBody, Strike::Status(429)]] {
        let (stage, shift, groups) = granted(1);
        let mut faults = Faults::default();
        for (nth, strike) in (1..).zip(strikes) {
            faults = faults.and(Endpoint::Run, nth, 1, strike);
        }
        stage.github.faults(faults);
        stage.github.title_lag(1);
        let report = stage.process(&shift).launch(&groups[0]).unwrap();
        assert_eq!(said(&report), ("bound", None, true));
        assert_eq!(stage.github.calls(Endpoint::Dispatch), 1);
    }
}

/// S-285: a dispatcher's run is no worker's run; it can neither be bound nor free a group.
#[test]
fn a_dispatchers_run_is_never_bound() {
    let (stage, shift, run) = lost();
    let assignment = stage.assignment_of(run);
    let actor = stage.worker(shift.run, &assignment.dispatch_id, None);
    assert!(stage.activate_as(shift.run, &assignment, &actor, &Probe::default()).is_err());
    assert_eq!(stage.queue().projection.dispatches().next().unwrap().run, None);
}

/// Lifecycle.md 2.6: no start marker, no binding; a contract that is not the frozen one, no binding; a foreign
/// assignment, no binding.
#[test]
fn activation_refuses_what_was_not_launched() {
    let (stage, _, groups) = granted(2);
    // Tags are made by launches.
    let sha = stage.revision.as_str().to_owned();
    let tag = format!("refs/tags/gh-aw/work-queue/{sha}");
    stage.github.move_ref(crate::support::github::OCTO_WIDGETS, &tag, Some(&sha));
    let run = stage.launch_by_hand(&groups[0]);
    assert_eq!(code(stage.activate(run, &Probe::default())), Code::WorkQueueLaunchMarkerRequired);
    let actor = stage.worker(run, &groups[0].dispatch_id, None);
    let mut foreign = groups[0].clone();
    foreign.claims.clone_from(&groups[1].claims);
    assert_eq!(code(stage.activate_as(run, &foreign, &actor, &Probe::default())), Code::WorkQueueAssignmentMismatch);
}

/// S-281: two runs carry one dispatch. The bound one stays bound; the other is refused as a conflict.
#[test]
fn a_second_run_is_refused() {
    let (stage, shift, groups) = granted(1);
    stage.process(&shift).launch(&groups[0]).unwrap();
    let second = stage.launch_by_hand(&groups[0]);
    assert_eq!(code(stage.activate(second, &Probe::default())), Code::RunBindingConflict);
    let queue = stage.queue();
    let bound = queue.projection.dispatches().next().unwrap().run.clone().unwrap();
    assert_ne!(bound.run_id.as_str(), second.to_string());
}
