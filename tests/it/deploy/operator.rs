//! An operator deploys: one request for everything that is selected.

use wq_action::launch::deploy::{Deployed, Deployer, Selection};
use wq_action::launch::error::LaunchError;
use wq_action::ledger::Outcome;
use wq_action::protocol::actor::Role;
use wq_action::protocol::{Code, PoolName, ProfileName};

use super::{first, opened, submission};
use crate::support::github::{Endpoint, Faults, OCTO_WIDGETS, Strike, worker_lock};
use crate::support::stage::{Stage, Watched, actor, id, lock, node, stamp};

pub(super) fn select(pool: Option<&str>, profile: Option<&str>) -> Selection {
    Selection {
        pool: pool.map(|name| PoolName::new(name).unwrap()),
        worker_profile: profile.map(|name| ProfileName::new(name).unwrap()),
    }
}

pub(super) fn deploy(stage: &Stage, name: &str, selection: &Selection) -> Result<Deployed, LaunchError> {
    stage.deployer(&actor(Role::Administrator), |deployer| deployer.deploy(selection, &id(name)))
}

fn told(deployed: &Deployed) -> Vec<(&str, &str, bool, bool)> {
    deployed
        .updates
        .iter()
        .map(|update| (update.worker_profile.as_str(), update.revision.as_str(), update.available, update.activate))
        .collect()
}

/// S-227, S-232, O-098, O-104: one request brings every selected worker to the verified default revision, and
/// pauses the one whose file is broken at the revision that it has; a worker that is not registered moves and is paused.
/// Work, Policy and everything else stay, the queue is not drained, and a second look changes nothing.
#[test]
fn one_request_deploys_what_is_selected() {
    let stage = opened(&["worker", "broken", "quiet", "other"]);
    let old = stage.deployed("default", "worker").0;
    stage.put(&lock("broken"), Some("on: ["));
    stage.register("quiet", None);
    let head = stage.put("README.md", Some("# More\n"));
    let before = stage.document();
    let narrow = deploy(&stage, "narrow", &select(Some("default"), Some("other"))).unwrap();
    assert_eq!(told(&narrow), [("other", head.as_str(), true, true)]);
    let all = deploy(&stage, "all", &select(None, None)).unwrap();
    assert_eq!(
        told(&all),
        [("broken", old.as_str(), false, true), ("quiet", &head, false, true), ("worker", &head, true, true)]
    );
    assert!(matches!(all.publication.unwrap().outcome, Outcome::PublishedNow { .. }));
    assert_eq!(stage.commits(), 3);
    for (name, expected) in
        [("broken", (&old, false)), ("quiet", (&head, false)), ("worker", (&head, true)), ("other", (&head, true))]
    {
        assert_eq!(stage.deployed("default", name), (expected.0.clone(), expected.1), "{name}");
    }
    let after = stage.document();
    for member in ["policy", "works", "claims", "dispatches", "policy_epoch"] {
        assert_eq!(before[member], after[member], "{member}");
    }
    let again = deploy(&stage, "again", &select(None, None)).unwrap();
    assert!(again.publication.is_none() && again.updates.is_empty());
    assert_eq!(stage.commits(), 3);
    // Repaired, both run again.
    stage.put(&lock("broken"), Some(&worker_lock("broken", &stamp("d"))));
    stage.github.workflow(OCTO_WIDGETS, &lock("quiet"), "quiet");
    deploy(&stage, "repaired", &select(None, None)).unwrap();
    for name in ["broken", "quiet", "worker", "other"] {
        assert_eq!(stage.deployed("default", name), (stage.head(), true), "{name}");
    }
}

/// O-100, O-106: a revision that unclaimed Work is pinned to is looked at again at that revision, changes its
/// availability alone, and never becomes current by it.
#[test]
fn pins_change_availability_alone() {
    let stage = opened(&["worker"]);
    let old = stage.deployed("default", "worker").0;
    let mut pinned = node("pinned", "worker");
    pinned["execution_ref"] = old.as_str().into();
    stage.publish(&submission("pinned", &[pinned])).unwrap();
    let head = stage.put(&lock("worker"), Some(&worker_lock("worker", &stamp("d"))));
    assert_eq!(told(&deploy(&stage, "moved", &select(None, None)).unwrap()), [("worker", head.as_str(), true, true)]);
    stage.register("worker", Some("disabled_manually"));
    let paused = deploy(&stage, "paused", &select(None, None)).unwrap();
    assert_eq!(told(&paused), [("worker", head.as_str(), false, true), ("worker", old.as_str(), false, false)]);
    assert_eq!(stage.deployed("default", "worker"), (head.clone(), false));
    stage.register("worker", Some("active"));
    let resumed = deploy(&stage, "resumed", &select(None, None)).unwrap();
    assert_eq!(told(&resumed), [("worker", head.as_str(), true, true), ("worker", old.as_str(), true, false)]);
    let registered = stage.document()["deployments"]["default"]["worker"]["revisions"][&old].clone();
    assert_eq!(registered["profile"]["logical_contract"], stamp("c"));
    assert_eq!((stage.deployed("default", "worker"), stage.commits()), ((head, true), 5));
}

/// A queue that is not there, a pool and a worker that are not are refused before anything is looked up or written; a
/// role that deploys nothing may look.
#[test]
fn what_cannot_be_deployed_is_refused() {
    let absent = Stage::new(&["worker"]);
    assert_eq!(deploy(&absent, "a", &select(None, None)).unwrap_err().code(), Code::QueueMissing);
    let stage = opened(&["worker"]);
    let calls = stage.github.all_calls();
    for selection in [select(Some("none"), None), select(None, Some("none")), select(Some("default"), Some("none"))] {
        assert_eq!(deploy(&stage, "b", &selection).unwrap_err().code(), Code::DeploymentInvalid);
    }
    assert_eq!((stage.github.all_calls(), stage.commits()), (calls, 1));
    let worker = actor(Role::Reconciler);
    let error = stage.deployer(&worker, |deployer| deployer.deploy(&select(None, None), &id("c")));
    stage.put("README.md", Some("# More\n"));
    assert!(error.is_ok_and(|deployed| deployed.publication.is_none()));
    let error = stage.deployer(&worker, |deployer| deployer.deploy(&select(None, None), &id("c"))).unwrap_err();
    assert_eq!((error.code(), stage.commits()), (Code::ActorUnauthorized, 1));
}

/// More changes than one request holds are refused, with the advice to select less; a smaller selection passes.
#[test]
fn too_many_changes_are_refused() {
    let names: Vec<String> = (0..129).map(|n| format!("w{n:03}")).collect();
    let mut all: Vec<&str> = names.iter().map(String::as_str).collect();
    all.push("worker");
    let stage = Stage::new(&all);
    stage.put(".github/workflows/aw.json", Some(r#"{"work_queue":{"pools":{"slow":{}}}}"#));
    first(&stage, &submission("open", &[node("n", "worker")]), None).unwrap();
    stage.put("README.md", Some("# More\n"));
    let error = deploy(&stage, "all", &select(None, None)).unwrap_err();
    assert_eq!((error.code(), stage.commits()), (Code::ResourceLimit, 1));
    assert!(error.message().contains("select one pool or worker"));
    let slow = deploy(&stage, "slow", &select(Some("slow"), None)).unwrap();
    assert_eq!((slow.updates.len(), stage.commits()), (130, 2));
}

/// A committed request tells again what it did, without a look at the host; for other workers, or of another kind or
/// actor, its id is used.
#[test]
fn a_committed_deployment_is_told_again() {
    let stage = opened(&["worker", "other"]);
    stage.put("README.md", Some("# More\n"));
    let done = deploy(&stage, "d", &select(None, Some("worker"))).unwrap();
    let calls = stage.github.all_calls();
    let again = deploy(&stage, "d", &select(None, Some("worker"))).unwrap();
    assert_eq!(again.updates, done.updates);
    assert!(matches!(again.publication.unwrap().outcome, Outcome::AlreadyCommitted { .. }));
    for (name, selection) in [("d", select(None, Some("other"))), ("open", select(None, None))] {
        assert_eq!(deploy(&stage, name, &selection).unwrap_err().code(), Code::RequestReused, "{name}");
    }
    let other =
        stage.deployer(&actor(Role::Producer), |deployer| deployer.deploy(&select(None, Some("worker")), &id("d")));
    assert_eq!(other.unwrap_err().code(), Code::RequestReused);
    assert_eq!((stage.github.all_calls(), stage.commits()), (calls, 2));
}

/// S-230, O-106: what was planned is looked at anew before it is published: if the facts changed in between it is
/// refused, and if somebody else deployed it conflicts; nothing is written then.
#[test]
fn facts_are_checked_anew_before_each_write() {
    type Change = fn(&Stage);
    let changes: [(&str, Change, Code); 3] = [
        ("another head", |stage| drop(stage.put("README.md", Some("# Again\n"))), Code::DeploymentInvalid),
        ("a paused worker", |stage| stage.register("worker", Some("disabled_manually")), Code::DeploymentInvalid),
        (
            "a denied look",
            |stage| stage.github.faults(Faults::next(Endpoint::GetRef, Strike::Status(403))),
            Code::ApiForbidden,
        ),
    ];
    for (what, change, code) in changes {
        let stage = opened(&["worker"]);
        stage.put("README.md", Some("# More\n"));
        assert_eq!((late(&stage, &|| change(&stage)), stage.commits()), (code, 1), "{what}");
    }
    let stage = opened(&["worker"]);
    stage.put("README.md", Some("# More\n"));
    let before = stage.state();
    deploy(&stage, "theirs", &select(None, None)).unwrap();
    let after = stage.state();
    stage.branch.replace(before);
    assert_eq!(late(&stage, &|| stage.branch.replace(after.clone())), Code::DeploymentConflict);
    assert_eq!(stage.commits(), 2);
}

/// The code of a deployment that something gets ahead of, after it was planned.
fn late(stage: &Stage, change: &dyn Fn()) -> Code {
    let mut ledger = Watched::new(stage, change);
    let ours = |deployer: &mut Deployer<'_, '_>| deployer.deploy(&select(None, None), &id("ours"));
    stage.deployer_at(&mut ledger, &actor(Role::Administrator), ours).unwrap_err().code()
}
