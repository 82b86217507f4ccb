//! Looking for the run of a launch whose answer was lost (lifecycle.md 3.2 to 3.4, 3.8).

use wq_action::launch::report::GroupState;
use wq_action::protocol::assignment::Assignment;

use super::{granted, history, run_of, said};
use crate::support::github::{Endpoint, Faults, NewRun, OCTO_WIDGETS, Strike};
use crate::support::probe::Probe;
use crate::support::processes::{Shift, Stage};

/// A group that was started, with or without a run.
fn started(strike: Strike) -> (Stage, Shift, Assignment) {
    let (stage, shift, mut groups) = granted(1);
    stage.github.faults(Faults::next(Endpoint::Dispatch, strike));
    stage.process(&shift).launch(&groups[0]).unwrap();
    (stage, shift, groups.remove(0))
}

/// S-299, O-332: the one run that carries the dispatch and is the launched one in everything is bound by a later sweep.
#[test]
fn a_sweep_finds_and_binds_the_run() {
    let (stage, _, group) = started(Strike::DropAfter);
    let report = stage.process(&stage.shift()).sweep().unwrap();
    assert_eq!(said(&report[0]), ("bound", None, false));
    assert_eq!(report[0].run_id.as_ref().unwrap().as_str(), run_of(&stage, &group.dispatch_id).to_string());
    assert_eq!(history(&stage, &group.dispatch_id), ["started", "uncertain", "bound"]);
}

/// S-300, S-303, S-304, S-305, S-322, S-548, O-020: the search used its attempts up: that is written down once with what
/// to do next. Neither it nor time nor the dispatcher's end frees anything, and the group can still be bound and freed.
#[test]
fn an_exhausted_search_is_recorded_and_frees_nothing() {
    let (stage, shift, group) = started(Strike::DropBefore);
    let id = &group.dispatch_id;
    stage.github.complete_run(shift.run, "cancelled");
    let before = stage.clock_now();
    let report = stage.process(&stage.shift()).sweep().unwrap();
    assert_eq!((said(&report[0]), report[0].attempts), (("launch_unresolved", None, false), Some(5)));
    assert!(report[0].next_action().is_some() && report[0].evidence.is_some());
    assert_eq!(stage.clock_now() - before, 50 + 100 + 200 + 400);
    assert_eq!(history(&stage, id), ["started", "uncertain", "unresolved"]);
    for _ in 0..12 {
        stage.wait(3_600_000);
        let report = stage.process(&stage.shift()).sweep().unwrap();
        assert_eq!(said(&report[0]), ("launch_unresolved", None, false));
    }
    assert_eq!(history(&stage, id), ["started", "uncertain", "unresolved"]);
    let run = stage.launch_by_hand(&group);
    stage.activate(run, &Probe::default()).unwrap();
    assert_eq!(stage.phase(id), "bound");
    stage.github.complete_run(run, "success");
    assert_eq!(said(&stage.process(&stage.shift()).sweep().unwrap()[0]), ("released", None, false));
}

/// Lifecycle.md 11, test 6: the title of group 10 does not satisfy group 1, whether group 1's own run is there or not.
#[test]
fn lifecycle_06_the_title_of_group_10_does_not_satisfy_group_1() {
    for (strike, found) in [(Strike::DropBefore, false), (Strike::DropAfter, true)] {
        let (stage, _, group) = started(strike);
        let own = stage.github.runs_of_dispatch(group.dispatch_id.as_str());
        assert_eq!(own.len(), usize::from(found));
        // The launch credential's run at the approved tag, for a group whose id begins with this one's.
        let tag = format!("refs/tags/gh-aw/work-queue/{}", stage.revision.as_str());
        let title = format!("gh-aw work-queue {}0", group.dispatch_id.as_str());
        let other = stage.github.new_run(&NewRun {
            repository: OCTO_WIDGETS,
            workflow: "worker.lock.yml",
            event: "workflow_dispatch",
            reference: &tag,
            actor: stage.github.account_id("queue-launcher[bot]"),
            title: Some(&title),
        });
        let report = stage.process(&stage.shift()).sweep().unwrap();
        let expected = if found { "bound" } else { "launch_unresolved" };
        assert_eq!(said(&report[0]), (expected, None, false));
        assert_ne!(report[0].run_id.as_ref().map(|id| id.as_str().to_owned()), Some(other.to_string()));
        assert_eq!(stage.phase(&group.dispatch_id), if found { "bound" } else { "unresolved" });
    }
}

/// Lifecycle.md 11, test 8: a full second page may hide the run, so nothing is bound and nothing written.
#[test]
fn lifecycle_08_a_listing_that_does_not_end_is_a_conflict() {
    let (stage, _, group) = started(Strike::DropAfter);
    let actor = stage.github.account_id("ada");
    let tag = format!("refs/tags/gh-aw/work-queue/{}", stage.revision.as_str());
    for _ in 0..98 {
        let new = NewRun {
            repository: OCTO_WIDGETS,
            workflow: "worker.lock.yml",
            event: "workflow_dispatch",
            reference: &tag,
            actor,
            title: Some("another"),
        };
        stage.github.new_run(&new);
    }
    let before = history(&stage, &group.dispatch_id);
    let add = || {
        let new = NewRun {
            repository: OCTO_WIDGETS,
            workflow: "worker.lock.yml",
            event: "workflow_dispatch",
            reference: &tag,
            actor,
            title: Some("another"),
        };
        stage.github.new_run(&new)
    };
    add();
    // 100 runs: both pages are full.
    let report = stage.process(&stage.shift()).sweep().unwrap();
    assert_eq!(said(&report[0]), ("run_binding_conflict", Some("run_binding_conflict"), false));
    assert_eq!(history(&stage, &group.dispatch_id), before);
    assert_eq!(stage.phase(&group.dispatch_id), "uncertain");
}

/// Lifecycle.md 11, test 8: with 99 runs the second page is not full, and the run is found among them.
#[test]
fn lifecycle_08_a_listing_that_ends_is_searched_to_its_end() {
    let (stage, _, group) = started(Strike::DropAfter);
    let actor = stage.github.account_id("ada");
    let tag = format!("refs/tags/gh-aw/work-queue/{}", stage.revision.as_str());
    for _ in 0..98 {
        stage.github.new_run(&NewRun {
            repository: OCTO_WIDGETS,
            workflow: "worker.lock.yml",
            event: "workflow_dispatch",
            reference: &tag,
            actor,
            title: Some("another"),
        });
    }
    let report = stage.process(&stage.shift()).sweep().unwrap();
    assert_eq!(said(&report[0]), ("bound", None, false));
    assert_eq!(stage.phase(&group.dispatch_id), "bound");
}

/// S-299, S-275, lifecycle.md 11, test 8: a run that carries the dispatch and is another's is no candidate to be
/// skipped: the search is inconclusive, and nothing is bound, although a right one may be there too.
#[test]
fn lifecycle_08_a_foreign_run_with_the_title_is_a_conflict() {
    type Change = fn(&Stage, &mut crate::support::github::Run);
    let changes: [Change; 3] = [
        |stage, run| run.actor = stage.github.account_id("ada"),
        |_, run| run.path = ".github/workflows/other.lock.yml".to_owned(),
        |stage, run| run.attempts[0].triggering_actor = stage.github.account_id("ada"),
    ];
    for change in changes {
        for strike in [Strike::DropBefore, Strike::DropAfter] {
            let (stage, _, group) = started(strike);
            let foreign = stage.launch_by_hand(&group);
            let mut changed = (*stage.github.run(foreign).unwrap()).clone();
            change(&stage, &mut changed);
            stage.github.change_run(foreign, |run| *run = changed);
            let report = stage.process(&stage.shift()).sweep().unwrap();
            assert_eq!(said(&report[0]), ("run_binding_conflict", Some("run_binding_conflict"), false));
            assert_eq!(stage.phase(&group.dispatch_id), "uncertain");
        }
    }
}

/// Lifecycle.md 11, test 8: a listing that names a run at the approved revision whose attempt shows another.
#[test]
fn lifecycle_08_a_token_match_with_another_revision_is_a_conflict() {
    let (stage, _, group) = started(Strike::DropAfter);
    let run = run_of(&stage, &group.dispatch_id);
    let probe = Probe::default();
    let shift = stage.shift();
    // Between the listing and the read of the attempt the run shows another revision.
    let attempt = {
        let (stage, _, _) = started(Strike::DropAfter);
        let probe = Probe::default();
        stage.process_with(&stage.shift(), &probe).sweep().unwrap();
        let kind = crate::support::probe::Kind::Api("run-attempt");
        probe.steps().iter().position(|(_, one)| *one == kind).unwrap()
    };
    let change = || stage.github.change_run(run, |run| run.head_sha = "e".repeat(40));
    let report = probe.meanwhile(attempt, change, || stage.process_with(&shift, &probe).sweep()).unwrap();
    assert_eq!(report[0].state, GroupState::RunBindingConflict);
    assert_eq!(stage.phase(&group.dispatch_id), "uncertain");
}

/// S-549: two runs that are both right are a conflict: nobody guesses.
#[test]
fn two_right_runs_are_a_conflict() {
    let (stage, _, group) = started(Strike::DropAfter);
    stage.launch_by_hand(&group);
    let report = stage.process(&stage.shift()).sweep().unwrap();
    assert_eq!(said(&report[0]), ("run_binding_conflict", Some("run_binding_conflict"), false));
    assert!(report[0].next_action().is_some() && !report[0].released);
    assert_eq!(stage.phase(&group.dispatch_id), "uncertain");
}

/// Lifecycle.md 11, test 9: a deadline that ends the search before its attempts are used up writes nothing.
#[test]
fn lifecycle_09_a_deadline_writes_nothing() {
    let (stage, _, group) = started(Strike::DropBefore);
    let before = stage.text();
    // Every answer of the listing comes two and a half minutes late; the deadline is five.
    stage.github.faults(Faults::default().and(Endpoint::WorkflowRuns, 1, 9, Strike::Delay(150_000)));
    let report = stage.process(&stage.shift()).sweep().unwrap();
    assert_eq!((said(&report[0]), report[0].attempts), (("launch_unresolved", None, false), Some(2)));
    assert_eq!(stage.text(), before);
    assert_eq!(stage.phase(&group.dispatch_id), "uncertain");
}

/// S-315, O-255: a host that is down during the search proves nothing: the reservation is kept.
#[test]
fn a_search_that_cannot_read_frees_nothing() {
    for strike in Strike::every() {
        if matches!(strike, Strike::Delay(_) | Strike::Duplicate | Strike::Stale(_)) {
            continue;
        }
        let (stage, _, group) = started(Strike::DropAfter);
        stage.github.faults(Faults::default().outage(1, 1000, strike.clone()));
        let report = stage.process(&stage.shift()).sweep().unwrap();
        assert_eq!((report[0].state, report[0].released), (GroupState::LaunchUnresolved, false), "{strike:?}");
        assert!(report[0].blocked.is_some(), "{strike:?}");
        assert_eq!(stage.github.posts_of_dispatch(group.dispatch_id.as_str()), 1);
        stage.github.no_faults();
        let report = stage.process(&stage.shift()).sweep().unwrap();
        assert_eq!(said(&report[0]), ("bound", None, false), "{strike:?}");
    }
}

/// Lifecycle.md 3.9: one group that cannot be read stops none of the others, and those with a run come first.
#[test]
fn a_sweep_goes_on_after_a_failure() {
    let (stage, shift, groups) = granted(3);
    for group in &groups {
        stage.process(&shift).launch(group).unwrap();
    }
    for group in &groups {
        stage.github.complete_run(run_of(&stage, &group.dispatch_id), "success");
    }
    stage.github.faults(Faults::next(Endpoint::Attempt, Strike::Status(500)));
    let reports = stage.process(&stage.shift()).sweep().unwrap();
    let said: Vec<_> = reports.iter().map(said).collect();
    assert_eq!(said, [("bound", Some("api_unavailable"), false), ("released", None, false), ("released", None, false)]);
}

/// Two sweeps at once, at every step of the first: one binding and no double write.
#[test]
fn two_sweeps_at_once_agree() {
    for strike in [Strike::DropBefore, Strike::DropAfter] {
        let (stage, _, _) = started(strike.clone());
        let probe = Probe::default();
        stage.process_with(&stage.shift(), &probe).sweep().unwrap();
        let count = probe.steps().len();
        for at in 0..count {
            let (stage, _, group) = started(strike.clone());
            let (one, two) = (stage.shift(), stage.shift());
            let probe = Probe::default();
            let rival = || drop(stage.process(&two).sweep().unwrap());
            let report = probe.meanwhile(at, rival, || stage.process_with(&one, &probe).sweep()).unwrap();
            let expected = if strike == Strike::DropAfter { "bound" } else { "launch_unresolved" };
            assert_eq!(report[0].state.as_str(), expected, "{at}");
            let end = if strike == Strike::DropAfter { "bound" } else { "unresolved" };
            assert_eq!(history(&stage, &group.dispatch_id), ["started", "uncertain", end], "{at}");
        }
    }
}

/// S-320: a group of which nothing is known keeps its slot and stops no other Work.
#[test]
fn an_unresolved_group_stops_no_other_work() {
    let stage = Stage::with_works(2);
    let shift = stage.shift();
    stage.github.faults(Faults::next(Endpoint::Dispatch, Strike::DropBefore));
    let first = stage.process(&shift).dispatch("grant-1", &shift.actor, 1).unwrap();
    assert_eq!(said(&first.launches[0]), ("launch_unresolved", None, true));
    let next = stage.shift();
    let second = stage.process(&next).dispatch("grant-2", &next.actor, 1).unwrap();
    assert_eq!(said(&second.swept[0]), ("launch_unresolved", None, false));
    assert_eq!(said(&second.launches[0]), ("bound", None, true));
    assert_eq!(stage.phase(&first.launches[0].dispatch_id), "unresolved");
}
