//! The launch: one sender, one POST, and what its answer means (lifecycle.md 1).

use wq_action::launch::report::GroupState;
use wq_action::ledger::simulated::Trouble;
use wq_action::protocol::Code;
use wq_action::protocol::actor::Role;
use wq_action::protocol::request::RequestKind;

use super::{granted, history, run_of, said};
use crate::support::github::{Endpoint, Faults, OCTO_WIDGETS, Strike};
use crate::support::probe::{Fault, Kind, Probe};
use crate::support::processes::Stage;

/// The number of the start marker's push among a launch's steps.
fn marker() -> usize {
    let (stage, shift, groups) = granted(1);
    let probe = Probe::default();
    stage.process_with(&shift, &probe).launch(&groups[0]).unwrap();
    probe.steps().iter().position(|(_, kind)| *kind == Kind::Push).unwrap()
}

/// S-264, O-085, O-087, O-090: one marker, one tag, one POST for the whole group, one binding.
#[test]
fn a_group_is_launched_with_one_post_and_bound_to_its_run() {
    let (stage, shift, groups) = granted(1);
    let report = stage.process(&shift).launch(&groups[0]).unwrap();
    assert_eq!(said(&report), ("bound", None, true));
    let id = &groups[0].dispatch_id;
    let run = run_of(&stage, id);
    assert_eq!(report.run_id.unwrap().as_str(), run.to_string());
    assert_eq!(history(&stage, id), ["started", "bound"]);
    let sha = stage.revision.as_str();
    let tag = format!("refs/tags/gh-aw/work-queue/{sha}");
    assert_eq!(stage.github.head(OCTO_WIDGETS, &tag).as_deref(), Some(sha));
    let run = stage.github.run(run).unwrap();
    assert_eq!(run.path, format!(".github/workflows/worker.lock.yml@{tag}"));
    assert_eq!(run.assignment.as_deref(), Some(&*groups[0].canonical()));
    let queue = stage.queue();
    let dispatch = queue.projection.dispatch(id.as_str()).unwrap();
    assert_eq!(dispatch.run.as_ref().unwrap().revision.as_str(), sha);
    assert_eq!(dispatch.sender.as_ref(), Some(&shift.actor));
    let post = stage.github.log().into_iter().find(|call| call.endpoint == Endpoint::Dispatch).unwrap();
    assert_eq!(post.version.as_deref(), Some("2026-03-10"));
    assert_eq!(stage.github.posts_of_dispatch(id.as_str()), 1);
}

/// S-265, lifecycle.md 11, test 1: two dispatchers race for one group, the second at every step of the first. One sends
/// the only POST; the other reports what reconciliation found, which is no error.
#[test]
fn lifecycle_01_two_dispatchers_send_one_post() {
    let (stage, shift, groups) = granted(1);
    let probe = Probe::default();
    stage.process_with(&shift, &probe).launch(&groups[0]).unwrap();
    let steps = probe.steps();
    let marker = steps.iter().position(|(_, kind)| *kind == Kind::Push).unwrap();
    for pause in 0..steps.len() {
        let (stage, shift, groups) = granted(1);
        let other = stage.shift();
        let id = &groups[0].dispatch_id;
        let probe = Probe::default();
        // The other dispatcher launches while the first is at this step.
        let rival = std::cell::RefCell::new(None);
        let first = probe.meanwhile(
            pause,
            || *rival.borrow_mut() = Some(stage.process(&other).launch(&groups[0])),
            || stage.process_with(&shift, &probe).launch(&groups[0]),
        );
        let (first, second) = (first.unwrap(), rival.into_inner().unwrap().unwrap());
        let posts = stage.github.posts_of_dispatch(id.as_str());
        assert_eq!(u32::from(first.dispatched) + u32::from(second.dispatched), posts, "at step {pause}");
        if pause == marker + 1 {
            // The other searched to the end of its patience between marker and POST, and wrote that down: a sender that
            // finds its marker moved does not send.
            assert_eq!((posts, history(&stage, id)), (0, vec!["started".to_owned(), "unresolved".to_owned()]));
            continue;
        }
        assert_eq!(posts, 1, "at step {pause}");
        for report in [&first, &second] {
            assert!(
                matches!(report.state, GroupState::Bound)
                    || !report.dispatched && report.state == GroupState::LaunchUnresolved,
                "at step {pause}: {report:?}"
            );
        }
        assert!(stage.queue().projection.dispatch(id.as_str()).unwrap().run.is_some(), "at step {pause}");
    }
}

/// S-266, S-276, O-263, lifecycle.md 11, test 2: the marker is committed and its acknowledgement lost. Nobody sends,
/// neither this process nor a fresh one of the same run; a run that was started all the same binds itself.
#[test]
fn lifecycle_02_a_marker_without_acknowledgement_sends_nothing() {
    let at = marker();
    for fault in [Fault::Ledger(Trouble::LostAnswer), Fault::CrashAfter] {
        let (stage, shift, groups) = granted(1);
        let id = &groups[0].dispatch_id;
        let probe = Probe::striking(at, fault.clone(), false);
        let report = stage.process_with(&shift, &probe).launch(&groups[0]);
        assert!(report.is_err() || !report.unwrap().dispatched);
        let report = stage.process(&shift).launch(&groups[0]).unwrap();
        assert_eq!((report.state, report.dispatched), (GroupState::LaunchUnresolved, false));
        let report = stage.process(&stage.shift()).launch(&groups[0]).unwrap();
        assert_eq!((report.state, report.dispatched), (GroupState::LaunchUnresolved, false));
        assert_eq!(stage.github.posts_of_dispatch(id.as_str()), 0, "{fault:?}");
        // Somebody's POST reached the host after all: its run binds itself.
        let run = stage.launch_by_hand(&groups[0]);
        stage.activate(run, &Probe::default()).unwrap();
        assert_eq!(stage.phase(id), "bound");
    }
}

/// S-298, S-261: a process that ends at any step after the grant leaves a reservation that a later one can still find,
/// and at most one POST.
#[test]
fn a_process_that_ends_anywhere_leaves_a_recoverable_reservation() {
    let (stage, shift, groups) = granted(1);
    let probe = Probe::default();
    stage.process_with(&shift, &probe).launch(&groups[0]).unwrap();
    for at in 0..probe.steps().len() {
        for fault in [Fault::CrashBefore, Fault::CrashAfter] {
            let (stage, shift, groups) = granted(1);
            let id = &groups[0].dispatch_id;
            let probe = Probe::striking(at, fault, false);
            let _ = stage.process_with(&shift, &probe).launch(&groups[0]);
            assert!(probe.has_died());
            let report = stage.process(&shift).launch(&groups[0]).unwrap();
            assert!(matches!(report.state, GroupState::Bound | GroupState::LaunchUnresolved), "{at}: {report:?}");
            assert!(stage.github.posts_of_dispatch(id.as_str()) <= 1);
            assert!(!stage.queue().projection.dispatch(id.as_str()).unwrap().released);
        }
    }
}

/// O-092, lifecycle.md 11, test 3: 422 with a request id is a definitive rejection: recorded, freed, and no success. The
/// Work keeps its place and its charge and waits for its backoff.
#[test]
fn lifecycle_03_a_rejection_frees_the_reservation_and_is_no_success() {
    for status in [400, 401, 403, 404, 422, 429] {
        let (stage, shift, groups) = granted(1);
        stage.github.faults(Faults::next(Endpoint::Dispatch, Strike::Status(status)));
        let report = stage.process(&shift).launch(&groups[0]).unwrap();
        assert_eq!((said(&report), report.rejected), (("released", None, true), true), "{status}");
        assert!(!report.is_settled() && report.released);
        let id = &groups[0].dispatch_id;
        assert_eq!(history(&stage, id), ["started", "rejected", "release:nonlaunch"]);
        let queue = stage.queue();
        let work = queue.projection.works().next().unwrap();
        assert_eq!((work.state(), work.attempts), ("available", 1));
        let checked = report.evidence.unwrap().checked_at.get();
        assert_eq!(work.retry_not_before.get(), checked + 30_000);
    }
}

/// S-268, S-271, S-273, O-086, O-255, lifecycle.md 11, tests 3 and 4: every other answer proves nothing: one POST, an uncertain
/// marker with a plain reason, the reservation kept.
#[test]
fn lifecycle_04_any_other_answer_is_uncertain_and_keeps_the_reservation() {
    let mut strikes: Vec<Strike> = [400, 401, 403, 404, 422, 429].map(Strike::StatusWithoutId).into();
    strikes.extend([201, 204, 408, 409, 410, 500, 502, 503, 504].map(Strike::Status));
    strikes.extend([500, 502, 503].map(Strike::StatusAfter));
    strikes.extend([
        Strike::DropBefore,
        Strike::DropAfter,
        Strike::ResetBefore,
        Strike::ResetAfter,
        Strike::TimeoutBefore,
        Strike::TimeoutAfter,
        Strike::HalfBody,
        Strike::Garbage,
        Strike::WrongShape,
        Strike::Html,
    ]);
    for strike in strikes {
        let (stage, shift, groups) = granted(1);
        stage.github.faults(Faults::next(Endpoint::Dispatch, strike.clone()));
        let report = stage.process(&shift).launch(&groups[0]).unwrap();
        assert_eq!((said(&report), report.rejected), (("launch_unresolved", None, true), false), "{strike:?}");
        assert!(!report.is_settled() && !report.released && report.run_id.is_none());
        let id = &groups[0].dispatch_id;
        assert_eq!(history(&stage, id), ["started", "uncertain"], "{strike:?}");
        let queue = stage.queue();
        let dispatch = queue.projection.dispatch(id.as_str()).unwrap();
        assert_eq!(dispatch.reason.as_ref().unwrap().as_str(), "post_response_unconfirmed");
        assert_eq!(queue.projection.works().next().unwrap().state(), "claimed");
        assert_eq!(stage.github.posts_of_dispatch(id.as_str()), 1, "{strike:?}");
        // Time frees nothing either, and neither does anybody's later launch.
        stage.wait(24 * 3_600_000);
        let report = stage.process(&stage.shift()).launch(&groups[0]).unwrap();
        assert_eq!((report.released, report.dispatched), (false, false));
        assert_eq!(stage.github.posts_of_dispatch(id.as_str()), 1, "{strike:?}");
    }
}

/// S-269: a host of an older API answers 204, which is no acceptance; it is refused before anything is begun.
#[test]
fn lifecycle_04_a_host_without_run_details_is_refused_before_the_marker() {
    let (stage, shift, groups) = granted(1);
    stage.github.versions(&["2022-11-28"]);
    let error = stage.process(&shift).launch(&groups[0]).unwrap_err();
    // Its first call already names a version that the host does not know.
    assert_ne!(error.code(), Code::LaunchUnresolved);
    assert_eq!(stage.phase(&groups[0].dispatch_id), "reserved");
    assert_eq!(stage.github.posts_of_dispatch(groups[0].dispatch_id.as_str()), 0);
}

/// S-461: while grants are paused no Claim is granted and no start marker made, even for a grant that stands; what was
/// started before is still reconciled. It is launched after the pause.
#[test]
fn paused_grants_start_nothing_and_still_reconcile() {
    let (stage, shift, groups) = granted(2);
    stage.github.faults(Faults::next(Endpoint::Dispatch, Strike::DropAfter));
    let report = stage.process(&shift).launch(&groups[0]).unwrap();
    assert_eq!(report.state, GroupState::LaunchUnresolved);
    stage.control("grants_paused", "true");
    let error = stage.process(&shift).launch(&groups[1]).unwrap_err();
    assert_eq!(error.code(), Code::GrantsPaused);
    assert_eq!(stage.phase(&groups[1].dispatch_id), "reserved");
    stage.publish(&stage.submission("more", 1)).unwrap();
    let refused = stage.process(&shift).dispatch("grant-2", &shift.actor, 1).unwrap();
    assert_eq!((refused.commit_id, refused.reason), (None, "grants_paused"));
    let report = stage.process(&shift).launch(&groups[0]).unwrap();
    assert_eq!(said(&report), ("bound", None, false));
    stage.control("grants_paused", "false");
    let report = stage.process(&shift).launch(&groups[1]).unwrap();
    assert_eq!(said(&report), ("bound", None, true));
}

/// The pause is committed just before the marker: the marker loses, and nothing was sent.
#[test]
fn a_pause_that_comes_first_wins_against_the_marker() {
    let at = marker();
    let (stage, shift, groups) = granted(1);
    let probe = Probe::default();
    let report = probe.meanwhile(
        at,
        || stage.control("grants_paused", "true"),
        || stage.process_with(&shift, &probe).launch(&groups[0]),
    );
    assert_eq!(report.unwrap_err().code(), Code::GrantsPaused);
    assert_eq!(stage.phase(&groups[0].dispatch_id), "reserved");
    assert_eq!(stage.github.posts_of_dispatch(groups[0].dispatch_id.as_str()), 0);
}

/// A rejection that finds doubt which a faster sweep wrote meanwhile is recorded all the same: the sender knows.
#[test]
fn a_rejection_is_recorded_although_a_sweep_was_faster() {
    let (stage, shift, groups) = granted(1);
    let id = &groups[0].dispatch_id;
    let probe = Probe::default();
    stage.process_with(&shift, &probe).launch(&groups[0]).unwrap();
    let post = probe.steps().iter().position(|(_, kind)| *kind == Kind::Api("dispatch")).unwrap();

    let (stage, shift, groups) = granted(1);
    let other = stage.shift();
    let probe = Probe::default();
    stage.github.faults(Faults::next(Endpoint::Dispatch, Strike::Status(422)));
    let report = probe.meanwhile(
        post,
        || drop(stage.process(&other).sweep().unwrap()),
        || stage.process_with(&shift, &probe).launch(&groups[0]),
    );
    assert_eq!(history(&stage, id), ["started", "unresolved", "rejected", "release:nonlaunch"]);
    assert_eq!(said(&report.unwrap()), ("released", None, true));
}

/// S-245, S-237: a repeated request walks its groups again and launches none that was begun, freed or finished.
#[test]
fn a_repeated_request_relaunches_nothing() {
    let stage = Stage::with_works(3);
    let shift = stage.shift();
    stage.github.faults(Faults::default().and(Endpoint::Dispatch, 2, 1, Strike::Status(422)));
    let first = stage.process(&shift).dispatch("grant-1", &shift.actor, 3).unwrap();
    let states: Vec<_> = first.launches.iter().map(said).collect();
    assert_eq!(states, [("bound", None, true), ("released", None, true), ("bound", None, true)]);
    let assignments = stage.assignments("grant-1");
    let run = run_of(&stage, &assignments[0].dispatch_id);
    stage.finish(run, "completed", &Probe::default()).into_iter().for_each(|one| drop(one.unwrap()));
    stage.github.complete_run(run, "success");
    let again = stage.process(&stage.again(&shift)).dispatch("grant-1", &shift.actor, 3).unwrap();
    assert!(again.recovered);
    assert_eq!(again.commit_id, first.commit_id);
    let states: Vec<_> = again.launches.iter().map(said).collect();
    assert_eq!(states, [("released", None, false), ("released", None, false), ("bound", None, false)]);
    assert_eq!(stage.queue().projection.claims().len(), 3);
    assert!(stage.github.posts().values().all(|count| *count == 1));
}

/// O-088: a tag that is another is neither moved nor deleted, and nothing is begun.
#[test]
fn a_foreign_snapshot_tag_stops_the_launch_before_its_marker() {
    let (stage, shift, groups) = granted(1);
    let other = stage.github.commit(OCTO_WIDGETS, "other", &[("x", Some("y"))]);
    let tag = format!("refs/tags/gh-aw/work-queue/{}", stage.revision.as_str());
    stage.github.move_ref(OCTO_WIDGETS, &tag, Some(&other));
    let error = stage.process(&shift).launch(&groups[0]).unwrap_err();
    assert_eq!(error.code(), Code::SnapshotTagMismatch);
    assert_eq!(stage.github.head(OCTO_WIDGETS, &tag).as_deref(), Some(&*other));
    assert_eq!(stage.phase(&groups[0].dispatch_id), "reserved");
}

/// Lifecycle.md 0.5: only a dispatcher may begin a launch.
#[test]
fn only_a_dispatcher_launches() {
    let (stage, mut shift, groups) = granted(1);
    shift.actor.role = Role::Reconciler;
    assert!(!Role::Reconciler.may_issue(RequestKind::DispatchNext));
    let error = stage.process(&shift).launch(&groups[0]).unwrap_err();
    assert_eq!(error.code(), Code::ActorUnauthorized);
    assert_eq!(stage.phase(&groups[0].dispatch_id), "reserved");
}

/// Lifecycle.md 1.3: the marker's push gave no answer and the queue cannot be read any more: whether a launch was
/// begun is unknown, so the report does not say that the group is merely reserved.
#[test]
fn a_marker_of_which_nothing_is_known_is_not_called_reserved() {
    for trouble in [Trouble::LostAnswer, Trouble::LostPush] {
        let (stage, shift, groups) = granted(1);
        let probe = Probe::striking(marker(), Fault::Ledger(trouble), true);
        let report = stage.process_with(&shift, &probe).launch(&groups[0]).unwrap();
        assert_eq!(said(&report), ("launch_unresolved", Some("publication_unresolved"), false));
        assert_eq!(stage.github.posts_of_dispatch(groups[0].dispatch_id.as_str()), 0);
    }
}

/// Lifecycle.md 1.8: the queue cannot be read after the grant: what was granted is still told, each reservation with
/// what stood in its way.
#[test]
fn a_failure_after_the_grant_keeps_what_was_granted() {
    let stage = Stage::with_works(2);
    let shift = stage.shift();
    let probe = Probe::default();
    stage.process_with(&shift, &probe).dispatch("grant-1", &shift.actor, 2).unwrap();
    let grant = probe.steps().iter().position(|(_, kind)| *kind == Kind::Push).unwrap();

    let stage = Stage::with_works(2);
    let shift = stage.shift();
    let probe = Probe::striking(grant + 1, Fault::Ledger(Trouble::Unavailable), true);
    let granted = stage.process_with(&shift, &probe).dispatch("grant-1", &shift.actor, 2).unwrap();
    let queue = stage.queue();
    let accepted = queue.projection.request("grant-1").unwrap();
    assert_eq!(granted.commit_id.as_ref(), Some(&accepted.commit_id));
    let said: Vec<_> = granted.launches.iter().map(said).collect();
    assert_eq!(said, [("reserved", Some("repository_unavailable"), false); 2]);
    assert!(!granted.is_settled());
}
