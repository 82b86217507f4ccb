//! What a job does before a new request: its approved workers, in the pools that the request names.

use std::collections::BTreeSet;

use serde_json::json;
use wq_action::launch::approve::{Allowlist, CompiledApproval};
use wq_action::launch::deploy::{Deployer, Update};
use wq_action::launch::error::LaunchError;
use wq_action::launch::start::Approval as _;
use wq_action::protocol::actor::{Actor, Role};
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{Code, PoolName};

use super::{first, opened, submission};
use crate::support::github::{Endpoint, Faults, OCTO_WIDGETS, Strike, worker_lock};
use crate::support::stage::{Stage, Watched, actor, id, lock, node, request, stamp};

fn allow(names: &[&str]) -> Allowlist {
    let names: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    Allowlist::new(&names, &names)
}

fn synchronize(
    deployer: &mut Deployer<'_, '_>,
    name: &str,
    pools: &[&str],
    allowed: &[&str],
) -> Result<Vec<Update>, LaunchError> {
    let pools: Vec<PoolName> = pools.iter().map(|name| PoolName::new(*name).unwrap()).collect();
    deployer.synchronize(&id(name), &pools, &allow(allowed))
}

pub(super) fn by(stage: &Stage, actor: &Actor, pools: &[&str], allowed: &[&str]) -> Result<Vec<Update>, LaunchError> {
    stage.deployer(actor, |deployer| synchronize(deployer, "new", pools, allowed))
}

fn names(updates: &[Update]) -> Vec<(&str, bool)> {
    updates.iter().map(|update| (update.worker_profile.as_str(), update.available)).collect()
}

/// S-225, S-227, S-229, O-095, O-101, O-102: before a new request exactly the approved workers of its pool are brought
/// to the verified default revision, each by a request of its own; approval narrows and moves nothing. A second look
/// with the same facts writes nothing.
#[test]
fn publication_13_approved_workers_follow_the_default_branch() {
    for role in [Role::Producer, Role::Dispatcher, Role::Administrator] {
        let stage = opened(&["worker", "second", "third"]);
        let old = stage.head();
        let head = stage.put(&lock("second"), Some(&worker_lock("second", &stamp("d"))));
        // A branch that somebody ran at, with the old stamp, is never looked at.
        stage.github.move_ref(OCTO_WIDGETS, "refs/heads/feature", Some(&old));
        stage.github.commit(OCTO_WIDGETS, "feature", &[("README.md", Some("# Theirs\n"))]);
        let updates = by(&stage, &actor(role), &["default"], &["worker", "second", "absent"]).unwrap();
        assert_eq!(names(&updates), [("second", true), ("worker", true)]);
        assert_eq!(stage.deployed("default", "worker"), (head.clone(), true));
        assert_eq!(stage.deployed("default", "second"), (head, true));
        assert_eq!((stage.deployed("default", "third"), stage.commits()), ((old, true), 3));
        let kinds: Vec<_> = stage.state().requests().map(|request| request.kind).collect();
        assert_eq!(kinds, [RequestKind::Submit, RequestKind::Deployment, RequestKind::Deployment]);
        let again = by(&stage, &actor(role), &["default"], &["worker", "second"]).unwrap();
        assert_eq!((again.len(), stage.commits()), (0, 3));
    }
}

/// S-224, S-231, O-096: a request that is committed, a role that deploys nothing, a caller that approves none of the
/// workers, a queue that is not there: nothing is looked up, nothing is written.
#[test]
fn what_needs_no_synchronization_asks_nothing() {
    let stage = opened(&["worker"]);
    stage.put("README.md", Some("# More\n"));
    let calls = stage.github.all_calls();
    let mut worker = actor(Role::Dispatcher);
    for role in [Role::Worker, Role::Reconciler, Role::Projector] {
        worker.role = role;
        assert_eq!(by(&stage, &worker, &["default"], &["worker"]).unwrap(), []);
    }
    let dispatcher = actor(Role::Dispatcher);
    assert_eq!(by(&stage, &dispatcher, &["default"], &["other"]).unwrap(), []);
    assert_eq!(by(&stage, &dispatcher, &[], &["worker"]).unwrap(), []);
    let committed = |deployer: &mut Deployer<'_, '_>| synchronize(deployer, "open", &["default"], &["worker"]);
    assert_eq!(stage.deployer(&dispatcher, committed).unwrap(), []);
    assert_eq!((stage.github.all_calls(), stage.commits()), (calls, 1));
    let absent = Stage::new(&["worker"]);
    assert_eq!(by(&absent, &dispatcher, &["default"], &["worker"]).unwrap(), []);
    assert_eq!(absent.github.all_calls(), 0);
}

/// S-232, O-104, O-170, O-171: a broken file pauses its worker alone, where it is; a missing registration moves the
/// route and leaves it unavailable. Workers of pools that the request does not name are neither looked at nor moved,
/// however broken.
#[test]
fn publication_13_a_broken_worker_pauses_alone() {
    let stage = Stage::new(&["worker", "broken", "quiet"]);
    stage.put(".github/workflows/aw.json", Some(r#"{"work_queue":{"pools":{"slow":{}}}}"#));
    first(&stage, &submission("open", &[node("n", "worker")]), None).unwrap();
    let old = stage.head();
    stage.put(&lock("broken"), None);
    stage.register("quiet", None);
    let head = stage.head();
    let dispatcher = actor(Role::Dispatcher);
    // Only the approved worker of the other pool is touched, whatever is wrong elsewhere.
    assert_eq!(names(&by(&stage, &dispatcher, &["slow"], &["worker"]).unwrap()), [("worker", true)]);
    assert_eq!((stage.deployed("default", "broken"), stage.commits()), ((old.clone(), true), 2));
    let updates = by(&stage, &dispatcher, &["default"], &["worker", "broken", "quiet"]).unwrap();
    assert_eq!(names(&updates), [("broken", false), ("quiet", false), ("worker", true)]);
    assert_eq!(stage.deployed("default", "broken"), (old.clone(), false));
    assert_eq!(stage.deployed("default", "quiet"), (head.clone(), false));
    assert_eq!(stage.deployed("default", "worker"), (head, true));
    assert_eq!(stage.deployed("slow", "broken"), (old, true));
    assert_eq!(by(&stage, &dispatcher, &["default"], &["worker", "broken", "quiet"]).unwrap(), []);
    assert_eq!(stage.commits(), 5);
}

/// S-230, S-232, O-105: a lookup that fails, before the plan or before the write, is raised, and nothing is published.
#[test]
fn a_failed_lookup_publishes_nothing() {
    let stage = opened(&["worker"]);
    stage.put("README.md", Some("# More\n"));
    let dispatcher = actor(Role::Dispatcher);
    let strikes = [401, 403, 429, 500, 503].map(Strike::Status).into_iter();
    for strike in strikes.chain([Strike::TimeoutBefore, Strike::DropBefore, Strike::SecondaryLimit(1)]) {
        for (at, last) in
            [(Endpoint::Repository, 2), (Endpoint::GetRef, 2), (Endpoint::Contents, 4), (Endpoint::Workflow, 2)]
        {
            for nth in 1..=last {
                stage.github.faults(Faults::default().and(at, nth, 1, strike.clone()));
                let error = by(&stage, &dispatcher, &["default"], &["worker"]).unwrap_err();
                assert!(error.code().as_str().starts_with("api_"), "{at:?} {nth} {strike:?}: {error}");
                assert_eq!(stage.commits(), 1, "{at:?} {nth} {strike:?}");
                stage.github.no_faults();
            }
        }
    }
    assert_eq!(by(&stage, &dispatcher, &["default"], &["worker"]).unwrap().len(), 1);
}

/// O-100, O-366: Work that is pinned keeps its revision, which changes its availability alone; other Work follows the
/// current one.
#[test]
fn publication_13_pins_keep_their_revision() {
    let stage = opened(&["worker"]);
    let old = stage.deployed("default", "worker").0;
    let mut pinned = node("pinned", "worker");
    pinned["execution_ref"] = old.as_str().into();
    stage.publish(&submission("pinned", &[pinned])).unwrap();
    let head = stage.put("README.md", Some("# More\n"));
    let dispatcher = actor(Role::Dispatcher);
    stage.register("worker", Some("disabled_manually"));
    let updates = by(&stage, &dispatcher, &["default"], &["worker"]).unwrap();
    let told: Vec<_> =
        updates.iter().map(|update| (update.revision.as_str(), update.available, update.activate)).collect();
    assert_eq!(told, [(head.as_str(), false, true), (old.as_str(), false, false)]);
    stage.register("worker", Some("active"));
    by(&stage, &dispatcher, &["default"], &["worker"]).unwrap();
    let dispatch = json!({"pool": "default", "max_claims": 2, "max_dispatches": 2, "max_bytes": 49152});
    stage.publish(&request("grant", RequestKind::DispatchNext, Role::Dispatcher, &dispatch)).unwrap();
    let state = stage.state();
    let mut granted: Vec<_> = state.dispatches().map(|dispatch| dispatch.profile.revision.as_str()).collect();
    granted.sort_unstable();
    let mut expected = [old.as_str(), head.as_str()];
    expected.sort_unstable();
    assert_eq!(granted, expected);
}

/// Two jobs that see the same facts publish once: whoever comes late finds the route moved, looks again, and has
/// nothing left to do. Facts that move meanwhile are looked at again too.
#[test]
fn the_same_facts_are_published_once() {
    let stage = opened(&["worker"]);
    stage.put("README.md", Some("# More\n"));
    let dispatcher = actor(Role::Dispatcher);
    let before = stage.state();
    by(&stage, &actor(Role::Producer), &["default"], &["worker"]).unwrap();
    let after = stage.state();
    stage.branch.replace(before);
    let theirs = || stage.branch.replace(after.clone());
    let ours = |deployer: &mut Deployer<'_, '_>| synchronize(deployer, "new", &["default"], &["worker"]);
    let updates = stage.deployer_at(&mut Watched::new(&stage, &theirs), &dispatcher, ours).unwrap();
    assert_eq!((updates.len(), stage.commits()), (0, 2));
    stage.put("README.md", Some("# Again\n"));
    let moved = || drop(stage.put("README.md", Some("# And again\n")));
    let updates = stage.deployer_at(&mut Watched::new(&stage, &moved), &dispatcher, ours).unwrap();
    assert_eq!((updates.len(), stage.commits()), (1, 3));
    assert_eq!(stage.deployed("default", "worker"), (stage.head(), true));
}

/// S-226, O-056, O-102: a worker is approved by both compiled lists or not at all. The approved profiles of a pool are
/// frozen in a request; a queue without deployed workers gets no list.
#[test]
fn both_lists_approve() {
    let lists = json!({"work_queue_enabled": true, "work_queue_workflows": ["worker", "second", "x"],
        "aw_context_workflows": ["third", "second", "worker"]});
    let allowed = Allowlist::compiled(&lists.to_string()).unwrap();
    assert_eq!(allowed, allow(&["worker", "second"]));
    assert_eq!(Allowlist::compiled(r#"{"work_queue_workflows":["worker"]}"#).unwrap(), Allowlist::default());
    for malformed in ["", "[]", r#"{"work_queue_workflows":"worker"}"#, r#"{"aw_context_workflows":["a","a"]}"#] {
        assert_eq!(Allowlist::compiled(malformed).unwrap_err().code(), Code::PolicyMissing, "{malformed}");
    }
    let stage = opened(&["worker", "second", "third"]);
    let (state, pool) = (stage.state(), PoolName::new("default").unwrap());
    let frozen = allowed.worker_profiles(&state, &pool).unwrap();
    assert_eq!(frozen.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["second", "worker"]);
    assert_eq!(allowed.worker_profiles(&state, &PoolName::new("none").unwrap()), None);
    let profiles = &state.installed().unwrap().policy.pools["default"].profiles;
    stage.ask(|client| {
        let approval = CompiledApproval { client, repository: &stage.repository, allowed: allowed.clone() };
        assert!(approval.allows(&profiles["worker"]) && !approval.allows(&profiles["third"]));
        approval.verify(&profiles["worker"]).unwrap();
        stage.register("worker", None);
        assert_eq!(approval.verify(&profiles["worker"]).unwrap_err().code(), Code::PolicyMissing);
    });
}
