//! Freeing capacity: by evidence, once, with what is still open (lifecycle.md 3.5 to 3.7).

use wq_action::launch::report::GroupState;
use wq_action::ledger::simulated::Trouble;
use wq_action::protocol::Code;

use super::{granted, history, run_of, said};
use crate::support::github::{Endpoint, Faults, Strike};
use crate::support::probe::{Fault, Kind, Probe};

/// S-297, S-311, O-024: the run has ended: an open Claim is cancelled, never completed, and the slot is free; the
/// completed one stays.
#[test]
fn an_ended_run_frees_its_slot_and_cancels_what_is_open() {
    let (stage, shift, groups) = granted(2);
    for group in &groups {
        stage.process(&shift).launch(group).unwrap();
    }
    let runs: Vec<u64> = groups.iter().map(|group| run_of(&stage, &group.dispatch_id)).collect();
    stage.finish(runs[0], "completed", &Probe::default()).into_iter().for_each(|one| drop(one.unwrap()));
    let states = |reports: Vec<_>| reports.iter().map(said).collect::<Vec<_>>();
    assert_eq!(states(stage.process(&shift).sweep().unwrap()), [("bound", None, false); 2]);
    runs.iter().for_each(|run| stage.github.complete_run(*run, "failure"));
    assert_eq!(states(stage.process(&shift).sweep().unwrap()), [("released", None, false); 2]);
    let queue = stage.queue();
    let works: Vec<_> = queue.projection.works().map(wq_action::engine::state::WorkState::state).collect();
    assert_eq!(works, ["completed", "available"]);
    assert_eq!(history(&stage, &groups[0].dispatch_id), ["started", "bound", "release:terminal_run"]);
    assert!(stage.process(&shift).sweep().unwrap().is_empty());
}

/// Lifecycle.md 3.8: a bound run that cannot be read keeps binding and reservation, whatever the answer.
#[test]
fn a_bound_run_that_cannot_be_read_keeps_its_reservation() {
    for strike in Strike::every() {
        // A read is repeated without the pinned version where the host refuses that with 400.
        let harmless = [Strike::Status(400), Strike::StatusWithoutId(400)].contains(&strike);
        if harmless || matches!(strike, Strike::Delay(_) | Strike::Duplicate | Strike::Stale(_)) {
            continue;
        }
        let (stage, shift, groups) = granted(1);
        stage.process(&shift).launch(&groups[0]).unwrap();
        stage.github.complete_run(run_of(&stage, &groups[0].dispatch_id), "success");
        stage.github.faults(Faults::next(Endpoint::Attempt, strike.clone()));
        let report = stage.process(&shift).sweep().unwrap().remove(0);
        assert_eq!((report.state, report.released), (GroupState::Bound, false), "{strike:?}");
        assert!(report.blocked.is_some(), "{strike:?}");
        assert_eq!(stage.phase(&groups[0].dispatch_id), "bound");
    }
}

/// Lifecycle.md 3.1: a run that is completed without a conclusion has not ended, and one that is asked to cancel
/// neither.
#[test]
fn a_run_has_ended_when_it_has_a_conclusion() {
    let (stage, shift, groups) = granted(1);
    stage.process(&shift).launch(&groups[0]).unwrap();
    let run = run_of(&stage, &groups[0].dispatch_id);
    for (status, conclusion) in [("completed", None), ("in_progress", Some("success")), ("queued", None)] {
        stage.github.set_attempt(run, status, conclusion);
        let report = stage.process(&shift).sweep().unwrap();
        assert_eq!(said(&report[0]), ("bound", None, false), "{status}");
    }
}

/// S-298, O-259, O-261, O-262: a dispatcher that ended between grant and marker: its attempt is read, has ended, and the
/// group is still untouched: its capacity is free, and retry policy decides when the Work runs.
#[test]
fn a_group_that_never_started_is_freed_after_its_origin_ended() {
    let (stage, shift, groups) = granted(1);
    let id = &groups[0].dispatch_id;
    // The origin still runs.
    let next = stage.shift();
    assert_eq!(said(&stage.process(&next).sweep().unwrap()[0]), ("reserved", None, false));
    stage.github.complete_run(shift.run, "failure");
    // The origin cannot be read.
    stage.github.faults(Faults::next(Endpoint::Attempt, Strike::Status(502)));
    assert_eq!(said(&stage.process(&next).sweep().unwrap()[0]), ("reserved", Some("api_unavailable"), false));
    let report = stage.process(&next).sweep().unwrap().remove(0);
    assert_eq!(said(&report), ("released", None, false));
    assert_eq!(history(&stage, id), ["release:prelaunch"]);
    let queue = stage.queue();
    let work = queue.projection.works().next().unwrap();
    assert_eq!(work.state(), "available");
    assert_eq!(work.retry_not_before.get(), report.evidence.unwrap().checked_at.get() + 30_000);
    assert_eq!(stage.github.posts_of_dispatch(id.as_str()), 0);
}

/// O-260: the exact attempt counts: a later attempt of the same run does not hide that the granting one ended, and an
/// attempt of another workflow or account is no origin.
#[test]
fn the_exact_granting_attempt_is_the_origin() {
    let (stage, shift, groups) = granted(1);
    stage.again(&shift);
    let next = stage.shift();
    assert_eq!(said(&stage.process(&next).sweep().unwrap()[0]), ("released", None, false));
    assert_eq!(stage.phase(&groups[0].dispatch_id), "released");

    let (stage, shift, groups) = granted(1);
    stage.github.complete_run(shift.run, "success");
    let ada = stage.github.account_id("ada");
    stage.github.change_run(shift.run, |run| run.actor = ada);
    let report = stage.process(&stage.shift()).sweep().unwrap();
    assert_eq!(said(&report[0]), ("reserved", Some("publisher_native_context_mismatch"), false));
    assert_eq!(stage.phase(&groups[0].dispatch_id), "reserved");
}

/// S-307, S-308, O-263, lifecycle.md 11, test 10: prelaunch cancellation races the start marker. Whichever commits first wins;
/// the other writes nothing, and after a cancellation nothing is sent.
#[test]
fn lifecycle_10_cancellation_and_marker_exclude_each_other() {
    // The marker comes between the cancellation's checks and its push, at every step.
    let (stage, shift, _) = granted(1);
    stage.github.complete_run(shift.run, "failure");
    let probe = Probe::default();
    stage.process_with(&stage.shift(), &probe).sweep().unwrap();
    let count = probe.steps().len();
    for at in 0..count {
        let (stage, shift, groups) = granted(1);
        let id = &groups[0].dispatch_id;
        let late = stage.again(&shift);
        stage.github.complete_run(late.run, "failure");
        let sweeper = stage.shift();
        let probe = Probe::default();
        let rival = || drop(stage.process(&late).launch(&groups[0]).unwrap());
        let report = probe.meanwhile(at, rival, || stage.process_with(&sweeper, &probe).sweep()).unwrap().remove(0);
        assert_ne!(report.state, GroupState::Released, "{at}");
        assert_eq!(history(&stage, id), ["started", "bound"], "{at}");
    }
    // The cancellation comes anywhere in the launch.
    let (stage, shift, groups) = granted(1);
    let probe = Probe::default();
    stage.process_with(&shift, &probe).launch(&groups[0]).unwrap();
    let marker = probe.steps().iter().position(|(_, kind)| *kind == Kind::Push).unwrap();
    for at in 0..probe.steps().len() {
        let (stage, shift, groups) = granted(1);
        let id = &groups[0].dispatch_id;
        let (late, sweeper) = (stage.again(&shift), stage.shift());
        let probe = Probe::default();
        let rival = || drop(stage.process(&sweeper).sweep().unwrap());
        let report = probe.meanwhile(at, rival, || stage.process_with(&late, &probe).launch(&groups[0]));
        if at <= marker {
            assert_eq!(history(&stage, id), ["release:prelaunch"], "{at}");
            assert_eq!(stage.github.posts_of_dispatch(id.as_str()), 0, "{at}");
            assert!(report.is_err() || !report.unwrap().dispatched, "{at}");
        } else if at == marker + 1 {
            // The sweep wrote its doubt between marker and POST, so the sender does not send.
            assert_eq!(history(&stage, id), ["started", "unresolved"], "{at}");
        } else {
            assert_eq!(stage.github.posts_of_dispatch(id.as_str()), 1, "{at}");
            assert_eq!(stage.phase(id), "bound", "{at}");
        }
    }
}

/// Lifecycle.md 11, test 11: the backoff counts from the moment when the proof was taken, however often its publication
/// lost a race.
#[test]
fn lifecycle_11_the_backoff_is_anchored_at_the_proof() {
    let steps = |conflicts: &[usize]| {
        let (stage, shift, groups) = granted(1);
        stage.process(&shift).launch(&groups[0]).unwrap();
        stage.github.complete_run(run_of(&stage, &groups[0].dispatch_id), "success");
        let begun = stage.clock_now();
        let probe = Probe::striking_each(conflicts, Fault::Ledger(Trouble::FalseConflict), 20_000, &stage);
        let report = stage.process_with(&shift, &probe).sweep().unwrap().remove(0);
        (stage, probe, report, begun)
    };
    let (_, probe, _, _) = steps(&[]);
    let push = probe.steps().iter().position(|(_, kind)| *kind == Kind::Push).unwrap();
    // Each lost race is followed by two reads: for the request, and for the next decision.
    let (stage, probe, report, begun) = steps(&[push, push + 3, push + 6]);
    let pushes = probe.steps().iter().filter(|(_, kind)| *kind == Kind::Push).count();
    assert_eq!(pushes, 4);
    assert_eq!(said(&report), ("released", None, false));
    let checked = report.evidence.unwrap().checked_at.get();
    assert!(checked - begun < 1000);
    let queue = stage.queue();
    let committed = queue.projection.requests().last().unwrap().at.get();
    assert!(committed - checked >= 60_000, "three races took a minute");
    assert_eq!(queue.projection.works().next().unwrap().retry_not_before.get(), checked + 30_000);
}

/// Lifecycle.md 1.7, 3.6: a rejection that is recorded and not yet released is freed by the next sweep with the same
/// proof, before and after a compaction.
#[test]
fn a_recorded_rejection_is_freed_by_the_next_sweep() {
    let rejected = |probe: &Probe| {
        let (stage, shift, groups) = granted(1);
        stage.github.faults(Faults::next(Endpoint::Dispatch, Strike::Status(422)));
        let report = stage.process_with(&shift, probe).launch(&groups[0]);
        (stage, groups, report)
    };
    let probe = Probe::default();
    rejected(&probe).2.unwrap();
    let pushes: Vec<usize> =
        (0..).zip(probe.steps()).filter(|(_, (_, kind))| *kind == Kind::Push).map(|(at, _)| at).collect();
    assert_eq!(pushes.len(), 3);
    for compacted in [false, true] {
        let (stage, groups, report) = rejected(&Probe::striking(pushes[2], Fault::CrashBefore, false));
        assert!(report.is_err() || report.unwrap().state == GroupState::LaunchUnresolved);
        let id = &groups[0].dispatch_id;
        assert_eq!(stage.phase(id), "rejected");
        if compacted {
            stage.compact();
        }
        let report = stage.process(&stage.shift()).sweep().unwrap().remove(0);
        assert_eq!((said(&report), report.rejected), (("released", None, false), true));
        assert_eq!(stage.phase(id), "released");
        let queue = stage.queue();
        assert_eq!(queue.projection.works().next().unwrap().state(), "available");
    }
}

/// S-314, decision 23: an operator's cancellation of a reservation needs exactly the evidence that a sweep needs.
#[test]
fn cancelling_a_reservation_by_hand_needs_the_same_evidence() {
    let (stage, shift, groups) = granted(2);
    let operator = stage.shift();
    let cancel = |id| stage.process(&operator).reconciling(|reconciler| reconciler.cancel_reserved(id));
    assert_eq!(cancel(&groups[0].dispatch_id).unwrap_err().code(), Code::NonlaunchEvidenceRequired);
    stage.process(&shift).launch(&groups[0]).unwrap();
    stage.github.complete_run(shift.run, "cancelled");
    assert_eq!(cancel(&groups[0].dispatch_id).unwrap_err().code(), Code::WorkQueueLaunchMayHaveStarted);
    cancel(&groups[1].dispatch_id).unwrap();
    assert_eq!(history(&stage, &groups[1].dispatch_id), ["release:prelaunch"]);
}

/// Lifecycle.md 3.5: the third Claim of a Work that ends without completion is its last: the Work is cancelled with the Claim.
#[test]
fn the_last_attempt_cancels_the_work() {
    let stage = crate::support::processes::Stage::with_works(1);
    for round in 1..=3 {
        let shift = stage.shift();
        let granted = stage.process(&shift).dispatch(&format!("grant-{round}"), &shift.actor, 1).unwrap();
        let run = run_of(&stage, &granted.launches[0].dispatch_id);
        stage.github.complete_run(run, "failure");
        stage.wait(60_000);
        stage.process(&shift).sweep().unwrap();
        stage.wait(60_000);
    }
    let queue = stage.queue();
    assert_eq!(queue.projection.works().next().unwrap().state(), "cancelled");
    assert!(queue.projection.dispatches().all(|dispatch| dispatch.released));
}

/// S-310: rejections are recorded and cancel the open Claim with its backoff, free the slot once and give nothing back;
/// the third is the last.
#[test]
fn rejections_use_the_attempts_up() {
    let stage = crate::support::processes::Stage::with_works(1);
    for round in 1..=3 {
        let shift = stage.shift();
        stage.github.faults(Faults::next(Endpoint::Dispatch, Strike::Status(422)));
        let granted = stage.process(&shift).dispatch(&format!("grant-{round}"), &shift.actor, 1).unwrap();
        let report = &granted.launches[0];
        assert_eq!((said(report), report.rejected), (("released", None, true), true), "{round}");
        assert_eq!(history(&stage, &report.dispatch_id), ["started", "rejected", "release:nonlaunch"]);
        let queue = stage.queue();
        let work = queue.projection.works().next().unwrap();
        assert_eq!(work.attempts, round, "a charge is not given back");
        assert_eq!(work.state(), if round < 3 { "available" } else { "cancelled" });
        if round < 3 {
            let early = stage.process(&shift).dispatch("too-early", &shift.actor, 1).unwrap();
            assert_eq!((early.commit_id, early.reason), (None, "no_eligible_work"));
        }
        stage.wait(30_001);
    }
}

/// S-309, S-323: a bound run is asked to cancel; that is a request: the slot stays until attempt 1 is seen to have ended.
#[test]
fn a_request_to_cancel_frees_nothing() {
    let (stage, shift, groups) = granted(1);
    let id = &groups[0].dispatch_id;
    stage.process(&shift).launch(&groups[0]).unwrap();
    let run = run_of(&stage, id);
    let ask = || {
        // The job's own token may only read.
        let mut process = stage.process_as(&shift, crate::support::github::ADMIN);
        process.reconciling(|reconciler| {
            reconciler.request_cancellation = true;
            reconciler.group(id, None).unwrap()
        })
    };
    let before = stage.text();
    assert_eq!(said(&ask()), ("cancellation_requested", None, false));
    assert!(stage.github.run(run).unwrap().cancel_requested);
    stage.wait(24 * 3_600_000);
    assert_eq!(said(&ask()), ("cancellation_requested", None, false));
    assert_eq!((stage.text(), stage.phase(id)), (before, "bound"));
    stage.github.complete_run(run, "cancelled");
    assert_eq!(said(&ask()), ("released", None, false));
}
