//! What stays put whatever happens around it: approved routes and contracts, reservations, edges, positions.

use serde_json::{Value, json};
use wq_action::engine::Projection;
use wq_action::engine::checkpoint::CheckpointInputs;
use wq_action::protocol::actor::Actor;
use wq_action::protocol::commit::Commit;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{At, Code, Fault, Revision};

use crate::support::built::{
    ADMINISTRATOR, DISPATCHER, Grant, Node, PRODUCER, Queue, RECONCILER, aw_policy, frozen, grant_parameters, nodes,
};
use crate::support::ledger::{HOST, typed};

/// A Deployment of another revision of the default route.
fn deployment(letter: &str, change: &dyn Fn(&mut Value)) -> Value {
    let mut route = aw_policy()["pools"]["default"]["profiles"]["default"].clone();
    route["ref"] = "1".repeat(40).into();
    route["logical_contract"] = letter.repeat(64).into();
    change(&mut route);
    json!({"kind": "Deployment", "pool": "default", "worker_profile": "default", "expected_ref": "0".repeat(40),
        "expected_contract": "c".repeat(64), "profile": route, "available": true, "reason": "worker_deployed"})
}

fn reason(queue: &Queue, key: &str, at: i64) -> &'static str {
    let state = queue.state.work(&Node::new(key).id()).unwrap();
    queue.state.view_work(state, At::new(at).unwrap(), None).reason
}

/// S-216: whatever else a deployment would let a worker do is refused, under its old contract and under a new one; and a
/// changed interface, which has another contract, runs no Work that was admitted under the old one, nor does it reach
/// the route that a Claim froze.
#[test]
fn another_authority_is_another_contract() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("frozen"), Node::new("waits")]);
    let grant = queue.grant(1500, 1, 1).unwrap().remove(0);
    let before = queue.document();
    for letter in ["c", "d"] {
        for (member, value) in [
            ("workflow", json!(".github/workflows/elsewhere.lock.yml")),
            ("principal", json!("77")),
            ("effect_scope", json!("owner/elsewhere")),
            ("credential_scope", json!("organization")),
            ("trust_domain", json!("elsewhere")),
            ("max_claims", json!(2)),
            ("share_keys", json!(true)),
        ] {
            let wider = deployment(letter, &|route| route[member] = value.clone());
            let refused = queue.operate(RequestKind::Deployment, ADMINISTRATOR, 2000, &[wider]).unwrap_err();
            assert!(["deployment_invalid", "policy_invalid"].contains(&refused.as_str()), "{member}: {refused}");
        }
    }
    assert_eq!(queue.document(), before);
    queue.operate(RequestKind::Deployment, ADMINISTRATOR, 2000, &[deployment("d", &|_| ())]).unwrap();
    assert_eq!(reason(&queue, "waits", 2001), "worker_incompatible");
    assert_eq!(queue.grant(2001, 9, 9).unwrap_err(), "no_eligible_work");
    assert_eq!(
        queue.document()["dispatches"][&grant.dispatch]["profile"],
        before["dispatches"][&grant.dispatch]["profile"]
    );
    queue.submit(PRODUCER, 2002, &[Node::new("new")]).unwrap();
    let new = queue.grant(2003, 9, 9).unwrap().remove(0);
    assert_eq!(new.node, "new");
    assert_eq!(queue.document()["dispatches"][&new.dispatch]["profile"]["logical_contract"], "d".repeat(64));
}

/// S-224: a Deployment is written by administrators, producers and dispatchers, in a request of its own kind. No worker,
/// reconciler or projector may send one, and none can ride on what an agent's intents become: submissions, grants and
/// finishes.
#[test]
fn deployments_are_derived_by_protected_roles_alone() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a")]);
    let grant = queue.grant(1500, 1, 1).unwrap().remove(0);
    queue.start(&grant, 1501).unwrap();
    queue.bind(&grant, 1502).unwrap();
    let operation = deployment("c", &|_| ());
    for actor in [ADMINISTRATOR, PRODUCER, DISPATCHER] {
        let mut queue = queue.clone();
        queue.operate(RequestKind::Deployment, actor, 2000, std::slice::from_ref(&operation)).unwrap();
    }
    let worker = grant.worker();
    let projector = RECONCILER.replace("reconciler", "projector");
    for actor in [worker.as_str(), RECONCILER, &projector] {
        let refused =
            queue.operate(RequestKind::Deployment, actor, 2000, std::slice::from_ref(&operation)).unwrap_err();
        assert_eq!(refused, "actor_unauthorized");
    }
    let finish = json!({"dispatch_id": grant.dispatch, "claim_handle": grant.handle, "outcome": "completed"});
    let node = Node::new("b").value();
    for (kind, actor, parameters) in [
        (RequestKind::Submit, PRODUCER, json!({"nodes": [node]})),
        (RequestKind::Submit, DISPATCHER, json!({"nodes": [node]})),
        (RequestKind::Submit, &worker, json!({"nodes": [node]})),
        (RequestKind::DispatchNext, DISPATCHER, grant_parameters("default", 1, 1)),
        (RequestKind::DispatchNext, &worker, grant_parameters("default", 1, 1)),
        (RequestKind::Finish, &worker, finish),
        (RequestKind::Control, ADMINISTRATOR, json!({"operations": [operation]})),
    ] {
        let text = queue.text.clone();
        let forged = queue.forge(kind, actor, 2000, &parameters, std::slice::from_ref(&operation));
        assert!(forged.is_err(), "{kind}: {actor}");
        assert_eq!(queue.text, text);
    }
}

/// S-226: the approval stands in the request that was accepted and binds its grants on every replay; the Policy, the
/// registry and the next request know nothing of it.
#[test]
fn approval_belongs_to_its_request() {
    let mut policy = aw_policy();
    let profiles = &mut policy["pools"]["default"]["profiles"];
    profiles["other"] = profiles["default"].clone();
    let submitted = [Node::new("a").profile("other"), Node::new("b"), Node::new("c").profile("other")];
    let mut queue = Queue::open(&policy, &submitted);
    let before = queue.document();
    let mut parameters = grant_parameters("default", 9, 9);
    parameters["worker_profiles"] = json!(["default"]);
    queue.request(RequestKind::DispatchNext, DISPATCHER, 2000, &parameters).unwrap();
    assert_eq!(nodes(&queue.last_grants()), ["b"]);
    let line: Value = serde_json::from_str(queue.text.lines().last().unwrap()).unwrap();
    assert_eq!(line["request"]["parameters"]["worker_profiles"], json!(["default"]));
    let after = queue.document();
    for member in ["policy", "policy_epoch", "deployments"] {
        assert_eq!(before[member], after[member], "{member}");
    }
    // The same grant under another approval is another request, and its fingerprint or its choice shows it.
    let rest = &queue.text[..queue.text.trim_end().rfind('\n').unwrap() + 1];
    let mut other = line.clone();
    other["request"]["parameters"]["worker_profiles"] = json!(["default", "other"]);
    let mut scanner = Scanner::new(HOST);
    let base = rest.lines().fold(Projection::empty(), |state, line| {
        let commit = Commit::read(&mut scanner, &line.into()).unwrap();
        state.apply(commit).unwrap()
    });
    let refused = Commit::read(&mut scanner, &other.to_string().into()).and_then(|commit| base.clone().apply(commit));
    assert_eq!(refused.unwrap_err().code(), Code::RequestInvalid);
    let wider = frozen("wider", RequestKind::DispatchNext, DISPATCHER, &other["request"]["parameters"]);
    other["request"]["id"] = json!("wider");
    other["request"]["fingerprint"] = json!(wider.fingerprint.as_str());
    let refused = Commit::read(&mut scanner, &other.to_string().into()).and_then(|commit| base.apply(commit));
    assert!(refused.is_err());
    // Nobody approves anything here, so everything is.
    assert_eq!(nodes(&queue.grant(2001, 9, 9).unwrap()), ["a", "c"]);
}

/// S-278: a managed route names no principal. The one that launched is recorded on the dispatch beside the route that it
/// froze, from there it binds the run, and a checkpoint keeps both.
#[test]
fn the_launching_principal_is_recorded() {
    let mut policy = aw_policy();
    assert_eq!(policy["pools"]["default"]["profiles"]["default"].get("principal"), None);
    policy["pools"]["default"]["profiles"]["default"]["max_claims"] = 1.into();
    let mut queue = Queue::open(&policy, &[Node::new("a")]);
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    let sender: Value = serde_json::from_str(DISPATCHER).unwrap();
    let mut start = json!({"kind": "Dispatch", "dispatch_id": grant.dispatch, "state": "started", "sender": sender});
    let unnamed = queue.operate(RequestKind::Dispatch, DISPATCHER, 2001, std::slice::from_ref(&start));
    assert_eq!(unnamed.unwrap_err(), "run_binding_conflict");
    start["credential_principal"] = "4242".into();
    queue.operate(RequestKind::Dispatch, DISPATCHER, 2001, &[start]).unwrap();
    // The worker of another account is not the one that was launched.
    assert_eq!(queue.bind(&grant, 2002).unwrap_err(), "run_binding_conflict");
    let seen = |document: &Value| {
        let dispatch = &document["dispatches"][&grant.dispatch];
        (dispatch["credential_principal"].clone(), dispatch["profile"].clone())
    };
    let (principal, profile) = seen(&queue.document());
    assert_eq!((principal.as_str(), profile.get("principal")), (Some("4242"), None));
    assert_eq!(profile["ref"], "0".repeat(40));
    let kept = compacted(&queue).unwrap();
    assert_eq!(seen(&serde_json::from_str(&kept.serialise()).unwrap()), (principal, profile));
}

/// The state behind a checkpoint of the queue, read back from its text.
fn compacted(queue: &Queue) -> Result<Projection, Fault> {
    let mut scanner = Scanner::new(HOST);
    let inputs = CheckpointInputs {
        prior_git_sha: &typed::<Revision>(&format!("\"{}\"", "b".repeat(40))),
        actor: &typed::<Actor>(ADMINISTRATOR),
        at: queue.state.requests().last().unwrap().at,
    };
    let built = queue.state.checkpoint(&inputs, &mut scanner)?;
    let commit = Commit::read(&mut scanner, built.commit.text())?;
    Projection::restore(commit, &mut scanner)
}

fn held(queue: &Queue, grant: &Grant) -> bool {
    queue.document()["dispatches"][&grant.dispatch]["released"] == false
}

/// S-333, O-256: obsolete Work stays until somebody cancels it by name. If a run holds it, the run is told nothing and
/// may go on and bind, its reservation stays and takes its place, and proof alone frees it: that the run ended, or that
/// none was ever launched.
#[test]
fn cancelled_work_keeps_its_reservation_until_proof() {
    let mut policy = aw_policy();
    policy["pools"]["default"]["native_limit"] = 2.into();
    let mut queue = Queue::open(&policy, &[Node::new("a"), Node::new("b"), Node::new("c")]);
    let grants = queue.grant(2000, 2, 2).unwrap();
    for grant in &grants {
        queue.start(grant, 2001).unwrap();
    }
    // Time, pauses and other Work make nothing obsolete go away.
    queue.control("grants_paused", &json!(true), 900_000).unwrap();
    queue.control("grants_paused", &json!(false), 900_001).unwrap();
    assert_eq!((&queue.work("c")["state"], &queue.work("a")["state"]), (&json!("available"), &json!("claimed")));
    let dispatches = queue.document()["dispatches"].clone();
    for grant in &grants {
        queue.cancel_work(ADMINISTRATOR, &grant.work, 900_002).unwrap();
        assert_eq!(queue.document()["works"][&grant.work]["state"], "cancelled");
    }
    assert_eq!(queue.document()["dispatches"], dispatches, "not a word to the runs");
    queue.bind(&grants[0], 900_003).unwrap();
    assert_eq!(queue.grant(900_004, 1, 1).unwrap_err(), "native_capacity_blocked");
    // A run that is still going, and a launch of which nothing is known, are no proof.
    let release = |grant: &Grant, kind: &str, more: &Value| {
        json!([{"kind": "Release", "dispatch_id": grant.dispatch,
            "evidence": grant.evidence(kind, "github_api", 900_005, more)}])
    };
    let running = release(&grants[0], "terminal_run", &json!({"status": "in_progress"}));
    let unknown = release(&grants[1], "nonlaunch", &json!({}));
    let bound = release(&grants[0], "nonlaunch", &json!({"receipt": "r"}));
    for operations in [&running, &unknown, &bound] {
        let refused = queue.operate(RequestKind::Release, RECONCILER, 900_005, operations.as_array().unwrap());
        assert_eq!(refused.unwrap_err(), "evidence_invalid");
    }
    assert!(grants.iter().all(|grant| held(&queue, grant)));
    for proof in
        [release(&grants[0], "terminal_run", &json!({})), release(&grants[1], "nonlaunch", &json!({"receipt": "r"}))]
    {
        queue.operate(RequestKind::Release, RECONCILER, 900_006, proof.as_array().unwrap()).unwrap();
    }
    assert!(!grants.iter().any(|grant| held(&queue, grant)));
    assert_eq!(nodes(&queue.grant(900_007, 1, 1).unwrap()), ["c"]);
}

/// S-363: what stood behind a failed node goes on standing behind it, whatever its replacement delivers; it ends when it is
/// cancelled by name, and new nodes name the replacement.
#[test]
fn descendants_keep_their_edge_to_the_failed_node() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a"), Node::new("b").after("a"), Node::new("c").after("b")]);
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    queue.complete(&grant, 2001).unwrap();
    let none = json!({"attempts": 5, "effects": "none", "receipt": "r"});
    queue.fail(&grant, 2010, "none", &none).unwrap();
    queue.release(&grant, 2011).unwrap();
    let edges = queue.work("b")["depends_on"].clone();
    let replacement = json!({"work_id": grant.work, "disposition": "inspection", "evidence": "seen"});
    queue.submit(PRODUCER, 2020, &[Node::new("again").with("replacement_of", replacement)]).unwrap();
    let again = queue.grant(2021, 1, 1).unwrap().remove(0);
    assert_eq!(again.node, "again");
    queue.deliver(&again, 2022).unwrap();
    assert_eq!((&queue.work("again")["barrier"], &queue.work("b")["depends_on"]), (&json!("verified"), &edges));
    assert_eq!(edges, json!([{"kind": "work", "work_id": grant.work}]));
    for key in ["b", "c"] {
        assert_eq!(queue.work(key)["state"], "available", "nothing was abandoned by itself");
    }
    assert_eq!(reason(&queue, "b", 900_000), "dependency_delivery_failed");
    assert_eq!(queue.grant(900_000, 9, 9).unwrap_err(), "no_eligible_work");
    for key in ["b", "c"] {
        queue.cancel_work(ADMINISTRATOR, &Node::new(key).id(), 900_001).unwrap();
        assert_eq!(queue.work(key)["state"], "cancelled");
    }
    queue.submit(PRODUCER, 900_002, &[Node::new("b2").after("again")]).unwrap();
    assert_eq!(nodes(&queue.grant(900_003, 9, 9).unwrap()), ["b2"]);
}

/// O-109: Work of the first commit keeps its position behind the Policy, and every accepted request its identity, in a
/// checkpoint; and the documentation says that a checkpoint brings no deleted branch back.
#[test]
fn bootstrap_positions_survive_checkpoints() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a"), Node::new("b")]);
    queue.submit(PRODUCER, 1500, &[Node::new("c")]).unwrap();
    queue.grant(2000, 1, 1).unwrap();
    let positions = |state: &Projection| -> Vec<(u32, u32)> {
        state.works().map(|work| (work.position.commit, work.position.operation)).collect()
    };
    assert_eq!(positions(&queue.state), [(0, 1), (0, 2), (1, 0)]);
    let kept = compacted(&queue).unwrap();
    assert_eq!(positions(&kept), positions(&queue.state));
    for before in queue.state.requests() {
        let after = kept.request(before.request_id.as_str()).unwrap();
        assert_eq!(
            (&after.fingerprint, &after.commit_id, &after.actor, after.kind, after.at),
            (&before.fingerprint, &before.commit_id, &before.actor, before.kind, before.at)
        );
    }
    let text = std::fs::read_to_string(crate::tree::root().join("docs/NON-GUARANTEES.md")).unwrap();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("A checkpoint cannot restore a deleted branch"));
}

/// Decision 6: a ledger in which a submission repeats an admitted node among new ones replays, and a checkpoint cannot
/// keep it. So our publishers refuse such submissions (`publishers_are_stricter_than_replay`).
#[test]
fn mixed_submissions_cannot_be_compacted() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a")]);
    assert!(compacted(&queue).is_ok());
    queue.submit(PRODUCER, 1500, &[Node::new("a"), Node::new("b")]).unwrap();
    assert_eq!(compacted(&queue).unwrap_err().code(), Code::CheckpointInvalid);
}

/// A reservation of a historical Policy whose route has a contract cannot be kept by a checkpoint while it is held.
#[test]
fn historical_reservations_with_a_contract_wait_for_their_release() {
    let mut policy: Value = serde_json::from_str(&crate::support::ledger::policy(false)).unwrap();
    policy["pools"]["default"]["profiles"]["default"]["logical_contract"] = "c".repeat(64).into();
    let mut queue = Queue::open(&policy, &[Node::new("a")]);
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    assert_eq!(compacted(&queue).unwrap_err().code(), Code::CheckpointInvalid);
    queue.deliver(&grant, 2100).unwrap();
    assert!(compacted(&queue).is_ok());
}

/// Decision 62: payloads of 54 levels and descriptors of 52, the deepest that our publishers let in, come through a
/// checkpoint, beside a reservation of a successor that carries the Result.
#[test]
fn the_deepest_values_come_through_a_checkpoint() {
    let nested = |levels: usize| -> Value { (1..levels).fold(json!({}), |inner, _| json!({ "a": inner })) };
    let delivered = |payload: usize, descriptor: usize| {
        let mut queue =
            Queue::open(&aw_policy(), &[Node::new("a").with("payload", nested(payload)), Node::new("b").after("a")]);
        let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
        queue.complete(&grant, 2001).unwrap();
        let evidence = grant.evidence("delivery", "verified_receipts", 2005, &json!({"receipt": "receipt"}));
        let result = json!({"kind": "Result", "work_id": grant.work, "claim_id": grant.claim,
            "completion_id": queue.completion(&grant), "descriptor": nested(descriptor), "evidence": evidence});
        queue.operate(RequestKind::Result, RECONCILER, 2005, &[result]).unwrap();
        queue.release(&grant, 2006).unwrap();
        queue.grant(2007, 1, 1).unwrap();
        compacted(&queue).map(drop)
    };
    assert_eq!(delivered(54, 52).map_err(|fault| fault.code()), Ok(()));
}
