//! What recovery rests on: the stored assignment, evidence, one log; and what outages, budgets and credentials do.

use wq_action::launch::grant::Ask;
use wq_action::launch::report::GroupState;
use wq_action::ledger::proposal::read_policy;
use wq_action::ledger::simulated::Trouble;
use wq_action::ledger::{Class, Outcome};
use wq_action::protocol::commit::FrozenRequest;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{Code, PoolName, RequestId};

use super::{granted, history, run_of, said};
use crate::support::github::{Endpoint, Faults, Github, JOB, LAUNCH, OCTO_WIDGETS, Strike};
use crate::support::probe::{Fault, Kind, Probe};
use crate::support::processes::{Shift, Stage, publish};

/// A request of a run for one group, with what the run may grant in all.
fn ask(shift: &Shift, id: &str, run_budget: u32) -> Ask {
    Ask {
        request_id: RequestId::new(id.to_owned()).unwrap(),
        actor: shift.actor.clone(),
        pool: PoolName::new("default").unwrap(),
        max_claims: 1,
        max_dispatches: 1,
        worker_profiles: None,
        run_budget,
        remaining: run_budget,
        run_number: shift.number,
    }
}

/// S-267, S-279: two Claims of one group are launched by one POST that carries both; the requester, the sender and the
/// worker are three identities, and the worker's is the account of the launch credential.
#[test]
fn a_group_of_two_claims_is_one_launch() {
    let stage = Stage::new();
    let policy =
        read_policy(&stage.policy().source.as_str().replace(r#""max_claims":1"#, r#""max_claims":2"#)).unwrap();
    let shift = stage.shift();
    publish(&mut stage.process(&shift).ledger, &stage.submission("first", 2), Some(&policy)).unwrap();
    stage.publish(&stage.dispatch_next(&shift, "grant-1", 2)).unwrap();
    let groups = stage.assignments("grant-1");
    assert_eq!((groups.len(), groups[0].claims.len()), (1, 2));
    // Another run of the dispatcher sends what the first one was granted.
    let other = stage.shift();
    let report = stage.process(&other).launch(&groups[0]).unwrap();
    assert_eq!(said(&report), ("bound", None, true));
    let id = &groups[0].dispatch_id;
    assert_eq!((stage.github.calls(Endpoint::Dispatch), stage.github.posts_of_dispatch(id.as_str())), (1, 1));
    let queue = stage.queue();
    let dispatch = queue.projection.dispatch(id.as_str()).unwrap();
    let requester = &queue.projection.request("grant-1").unwrap().actor;
    let (sender, run) = (dispatch.sender.as_ref().unwrap(), dispatch.run.as_ref().unwrap());
    assert_eq!((&**requester, sender), (&shift.actor, &other.actor));
    assert_eq!(run.principal.as_str(), stage.github.account_id("queue-launcher[bot]").to_string());
    assert_ne!(run.principal, requester.principal);
    assert!(run.run_id != *sender.run_id.as_ref().unwrap() && requester.run_id != sender.run_id);
}

/// Lifecycle.md 11, test 13: two members are bound together and one is settled: a control that names no member is still
/// refused, because the original assignment has two; and one that names the settled member by its handle is judged as it.
#[test]
fn lifecycle_13_one_settled_member_does_not_imply_the_other() {
    let stage = Stage::new();
    let policy =
        read_policy(&stage.policy().source.as_str().replace(r#""max_claims":1"#, r#""max_claims":2"#)).unwrap();
    let shift = stage.shift();
    publish(&mut stage.process(&shift).ledger, &stage.submission("first", 2), Some(&policy)).unwrap();
    stage.publish(&stage.dispatch_next(&shift, "grant-1", 2)).unwrap();
    let group = stage.assignments("grant-1").remove(0);
    stage.process(&shift).launch(&group).unwrap();
    let run = run_of(&stage, &group.dispatch_id);
    let control = |id: &str, handle: Option<&str>| {
        let child = stage.submission(id, 1);
        let actor = stage.worker(run, &group.dispatch_id, handle);
        let request = FrozenRequest::new(child.id, RequestKind::Submit, actor, child.parameters.as_str()).unwrap();
        stage.publish(&request).map(|_| ()).map_err(|error| error.code())
    };
    assert_eq!(control("none", None), Err(Code::ClaimScopeRequired));
    let first = group.claims[0].handle.as_str();
    let actor = stage.worker(run, &group.dispatch_id, Some(first));
    let dispatch = group.dispatch_id.as_str();
    let parameters = format!(r#"{{"claim_handle":"{first}","dispatch_id":"{dispatch}","outcome":"completed"}}"#);
    let id = RequestId::new("finish-first").unwrap();
    stage.publish(&FrozenRequest::new(id, RequestKind::Finish, actor, &parameters).unwrap()).unwrap();
    assert_eq!(control("still-none", None), Err(Code::ClaimScopeRequired));
    assert_eq!(control("child-1", Some(first)), Ok(()));
    assert!(control("child-2", Some(group.claims[1].handle.as_str())).is_err(), "it has not completed");
}

/// S-223: what was granted is recovered by what was stored with the grant: the worker's workflow is disabled and the
/// default branch has moved on, and the lost launch is still found, bound and freed.
#[test]
fn recovery_asks_no_route_of_today() {
    let (stage, shift, groups) = granted(1);
    stage.github.faults(Faults::next(Endpoint::Dispatch, Strike::DropAfter));
    stage.process(&shift).launch(&groups[0]).unwrap();
    stage.github.workflow_state(OCTO_WIDGETS, ".github/workflows/worker.lock.yml", Some("disabled_manually"));
    stage.github.commit(OCTO_WIDGETS, "main", &[(".github/workflows/worker.lock.yml", Some("name: other\n"))]);
    let id = &groups[0].dispatch_id;
    assert_eq!(said(&stage.process(&stage.shift()).sweep().unwrap()[0]), ("bound", None, false));
    stage.github.complete_run(run_of(&stage, id), "failure");
    assert_eq!(said(&stage.process(&stage.shift()).sweep().unwrap()[0]), ("released", None, false));
    assert_eq!(stage.github.calls(Endpoint::Workflow), 0);
}

/// S-301, S-302: two runs carry the dispatch and are right. One of them ends, then the other: what was found and has
/// ended proves nothing about what was launched, so the conflict and the reservation stay, and neither run is bound.
#[test]
fn runs_that_end_prove_nothing_about_others() {
    let (stage, shift, groups) = granted(1);
    stage.github.faults(Faults::next(Endpoint::Dispatch, Strike::DropAfter));
    stage.process(&shift).launch(&groups[0]).unwrap();
    let second = stage.launch_by_hand(&groups[0]);
    let id = &groups[0].dispatch_id;
    for run in stage.github.runs_of_dispatch(id.as_str()) {
        let report = stage.process(&stage.shift()).sweep().unwrap().remove(0);
        assert_eq!((report.state, report.released), (GroupState::RunBindingConflict, false));
        stage.github.complete_run(run, "success");
    }
    let report = stage.process(&stage.shift()).sweep().unwrap().remove(0);
    assert_eq!((report.state, report.released), (GroupState::RunBindingConflict, false));
    assert_eq!((stage.phase(id), stage.github.run(second).unwrap().completed()), ("uncertain", true));
    let queue = stage.queue();
    assert!(queue.projection.dispatch(id.as_str()).unwrap().run.is_none(), "nobody has the authority of a binding");
}

/// S-313, S-468: a revoked credential stops what it was for and proves nothing: the bound run that ended meanwhile is
/// not seen to have ended, and with the launch credential revoked nothing is begun. With credentials both go on.
#[test]
fn a_revoked_credential_stops_writes_and_proves_nothing() {
    let (stage, shift, groups) = granted(2);
    stage.process(&shift).launch(&groups[0]).unwrap();
    let id = &groups[0].dispatch_id;
    stage.github.complete_run(run_of(&stage, id), "success");
    let report = stage.process_as(&shift, "worthless").reconcile(id).unwrap();
    assert_eq!(said(&report), ("bound", Some("api_unauthenticated"), false));
    assert_eq!(stage.phase(id), "bound");
    stage.github.revoke(LAUNCH);
    let refused = stage.process(&shift).launch(&groups[1]).unwrap_err();
    assert_eq!(refused.code(), Code::WorkQueueDispatchCredentialIdentityUnavailable);
    assert_eq!((stage.phase(&groups[1].dispatch_id), stage.github.calls(Endpoint::Dispatch)), ("reserved", 1));
    assert_eq!(said(&stage.process(&shift).reconcile(id).unwrap()), ("released", None, false));
}

/// S-291, O-280: the launch is sent by the credential that was selected for it and by no other: a client with the
/// queue's own token is refused before anything is begun, although that token could publish.
#[test]
fn the_queues_credential_launches_nothing() {
    let (stage, shift, groups) = granted(1);
    let mut process = stage.process(&shift);
    process.rotate_launch(JOB);
    let refused = process.launch(&groups[0]).unwrap_err();
    assert_eq!(refused.code(), Code::WorkQueueDispatchCredentialClientMismatch);
    assert_eq!((stage.phase(&groups[0].dispatch_id), stage.github.calls(Endpoint::Dispatch)), ("reserved", 0));
}

/// S-290: staged mode checks the assignment and needs no launch credential; a job without one that would launch is
/// refused before the start marker; and a submission needs none.
#[test]
fn previews_and_submissions_need_no_launch_credential() {
    let (stage, shift, groups) = granted(1);
    let before = stage.text();
    let preview = stage.process(&shift).launching(|launcher| {
        (launcher.launch, launcher.staged) = (None, true);
        launcher.launch(&groups[0]).unwrap()
    });
    assert_eq!(said(&preview), ("staged_preview", None, false));
    let refused = stage.process(&shift).launching(|launcher| {
        launcher.launch = None;
        launcher.launch(&groups[0]).unwrap_err()
    });
    assert_eq!(refused.code(), Code::WorkQueueDispatchCredentialValidatorRequired);
    assert_eq!((stage.text(), stage.github.all_calls()), (before, 0));
}

/// S-515: the budget is the run's, over all its requests: three requests for one dispatch each, of which a budget of two
/// grants two; the third is refused whole. Another run has a budget of its own, and a repeated request costs nothing.
#[test]
fn one_budget_spans_the_run() {
    let stage = Stage::with_works(4);
    let shift = stage.shift();
    let grant = |shift: &Shift, id: &str| {
        stage
            .process(shift)
            .launching(|launcher| launcher.grant(&ask(shift, id, 2), None, None))
            .map(|granted| (granted.launches.len(), granted.recovered))
    };
    assert_eq!(grant(&shift, "one").unwrap(), (1, false));
    assert_eq!(grant(&shift, "two").unwrap(), (1, false));
    let before = stage.text();
    assert_eq!(grant(&shift, "three").unwrap_err().code(), Code::WorkQueueDispatchBudgetExceeded);
    assert_eq!(grant(&shift, "two").unwrap(), (1, true));
    assert_eq!(stage.text(), before);
    assert_eq!(grant(&stage.shift(), "four").unwrap(), (1, false));
}

/// S-493: the run has ended and its release cannot be written: that is told with its code, and the slot stays until a
/// later sweep writes it.
#[test]
fn evidence_that_cannot_be_written_is_told() {
    let (stage, shift, groups) = granted(1);
    stage.process(&shift).launch(&groups[0]).unwrap();
    let id = &groups[0].dispatch_id;
    stage.github.complete_run(run_of(&stage, id), "success");
    let push = {
        let (stage, shift, groups) = granted(1);
        stage.process(&shift).launch(&groups[0]).unwrap();
        stage.github.complete_run(run_of(&stage, &groups[0].dispatch_id), "success");
        let probe = Probe::default();
        stage.process_with(&shift, &probe).sweep().unwrap();
        probe.steps().iter().position(|(_, kind)| *kind == Kind::Push).unwrap()
    };
    let probe = Probe::striking(push, Fault::Ledger(Trouble::LostPush), true);
    let report = stage.process_with(&shift, &probe).sweep().unwrap().remove(0);
    assert_eq!((report.state, report.released, report.blocked.is_some()), (GroupState::Bound, false, true));
    assert_eq!(said(&stage.process(&shift).sweep().unwrap()[0]), ("released", None, false));
}

/// S-316, S-317, S-318, S-623: an outage of the queue branch: nothing is granted and nothing sent from what a process
/// knew before. A grant whose answer was lost in it is found under its id afterwards, and each of its groups is then
/// reconciled on its own: what ran is bound, what never started is launched once.
#[test]
fn after_an_outage_requests_are_found_and_groups_settled_one_by_one() {
    let stage = Stage::with_works(3);
    let shift = stage.shift();
    let down = Probe::striking(0, Fault::Ledger(Trouble::Unavailable), true);
    let refused = stage.process_with(&shift, &down).dispatch("grant-1", &shift.actor, 2).unwrap_err();
    assert_eq!((refused.code(), refused.exit()), (Code::RepositoryUnavailable, 7));
    assert_eq!((stage.github.calls(Endpoint::Dispatch), stage.queue().projection.dispatches().len()), (0, 0));

    // The push of the grant lands; its answer and everything after it is lost.
    let push = {
        let stage = Stage::with_works(3);
        let (shift, probe) = (stage.shift(), Probe::default());
        stage.process_with(&shift, &probe).dispatch("grant-1", &shift.actor, 2).unwrap();
        probe.steps().iter().position(|(_, kind)| *kind == Kind::Push).unwrap()
    };
    let probe = Probe::striking(push, Fault::Ledger(Trouble::LostAnswer), true);
    let _ = stage.process_with(&shift, &probe).dispatch("grant-1", &shift.actor, 2);
    let again = stage.publish(&stage.dispatch_next(&shift, "grant-1", 2)).unwrap();
    assert!(matches!(again.outcome, Outcome::AlreadyCommitted { .. }), "{:?}", again.outcome);
    assert_eq!(stage.github.calls(Endpoint::Dispatch), 0);

    let granted = stage.process(&shift).dispatch("grant-1", &shift.actor, 2).unwrap();
    assert!(granted.recovered && granted.is_settled());
    assert_eq!(granted.launches.len(), 2);
    for group in stage.assignments("grant-1") {
        assert_eq!(history(&stage, &group.dispatch_id), ["started", "bound"]);
        assert_eq!(stage.github.posts_of_dispatch(group.dispatch_id.as_str()), 1);
    }
}

/// S-547: a marker without a trustworthy answer is labelled `launch_uncertain` and keeps its capacity; once a search used
/// its attempts up it is `launch_unresolved` without that label.
#[test]
fn uncertain_and_unresolved_are_told_apart() {
    let (stage, shift, groups) = granted(1);
    stage.github.faults(Faults::next(Endpoint::Dispatch, Strike::DropBefore));
    let report = stage.process(&shift).launch(&groups[0]).unwrap();
    assert_eq!(
        (report.state.as_str(), report.label(), report.released),
        ("launch_unresolved", Some("launch_uncertain"), false)
    );
    let report = stage.process(&shift).sweep().unwrap().remove(0);
    assert_eq!((report.state.as_str(), report.label(), report.released), ("launch_unresolved", None, false));
    assert_eq!(stage.phase(&groups[0].dispatch_id), "unresolved");
}

/// S-270: a run that the POST named is fetched and compared before it is bound: another revision, workflow, event,
/// account or repository is bound by nobody, and its dispatch stays uncertain.
#[test]
fn a_run_that_was_named_is_compared_before_it_is_bound() {
    type Change = fn(&Github, u64);
    let changes: [(&str, Change); 4] = [
        ("run_ref_mismatch", |github, run| github.change_run(run, |run| run.head_sha = "d".repeat(40))),
        ("run_event_mismatch", |github, run| github.change_run(run, |run| run.event = "push".to_owned())),
        ("run_workflow_mismatch", |github, run| {
            github.change_run(run, |run| run.path = ".github/workflows/other.lock.yml@main".to_owned());
        }),
        ("run_principal_mismatch", |github, run| {
            let other = github.account_id("wim");
            github.change_run(run, |run| run.actor = other);
        }),
    ];
    for (code, change) in changes {
        let post = {
            let ((stage, shift, groups), probe) = (granted(1), Probe::default());
            stage.process_with(&shift, &probe).launch(&groups[0]).unwrap();
            probe.steps().iter().position(|(_, kind)| *kind == Kind::Api("dispatch")).unwrap()
        };
        let (stage, shift, mut groups) = granted(1);
        let (group, probe) = (groups.remove(0), Probe::default());
        let github = stage.github.clone();
        let id = group.dispatch_id.clone();
        let report = probe.meanwhile(
            post + 1,
            || change(&github, github.runs_of_dispatch(id.as_str())[0]),
            || stage.process_with(&shift, &probe).launch(&group).unwrap(),
        );
        assert_eq!((report.blocked.map(|code| code.as_str()), report.dispatched), (Some(code), true));
        assert_eq!(stage.phase(&group.dispatch_id), "uncertain", "{code}");
        assert_eq!(stage.github.posts_of_dispatch(group.dispatch_id.as_str()), 1);
    }
}

/// S-625: launch with run details and binding by activation, on each kind of host that offers them: github.com and a data
/// residency host. An Enterprise Server does not, and is refused before anything is begun
/// (`lifecycle_04_a_host_without_run_details_is_refused_before_the_marker`).
#[test]
fn each_kind_of_host_launches_and_binds() {
    let residency = || {
        let github = Github::standard();
        github.addresses("https://octo.ghe.com", "https://api.octo.ghe.com");
        github
    };
    let worlds: [(&str, Github); 2] =
        [("https://api.github.com/", Github::standard()), ("https://api.octo.ghe.com/", residency())];
    for (api, github) in worlds {
        let stage = Stage::of(github);
        let shift = stage.shift();
        stage.process(&shift).submit(&stage.submission("first", 2)).unwrap();
        stage.publish(&stage.dispatch_next(&shift, "grant-1", 2)).unwrap();
        let groups = stage.assignments("grant-1");
        let report = stage.process(&shift).launch(&groups[0]).unwrap_or_else(|error| panic!("{api}: {error}"));
        assert_eq!(said(&report), ("bound", None, true), "{api}");
        stage.github.faults(Faults::next(Endpoint::Dispatch, Strike::DropAfter));
        stage.process(&shift).launch(&groups[1]).unwrap();
        let run = run_of(&stage, &groups[1].dispatch_id);
        stage.activate(run, &Probe::default()).unwrap();
        assert_eq!(stage.phase(&groups[1].dispatch_id), "bound", "{api}");
    }
}

/// A denied branch is a denial and no outage, whatever the process knows.
#[test]
fn a_denied_branch_is_told_as_denied() {
    let (stage, shift, _) = granted(1);
    let probe = Probe::striking(0, Fault::Ledger(Trouble::Denied), true);
    let refused = stage.process_with(&shift, &probe).sweep().unwrap_err();
    assert!(matches!(&refused, wq_action::launch::error::LaunchError::Ledger(error) if error.class() == Class::Denied));
    assert_eq!(refused.exit(), 4);
}
