//! Deployments: which revision of a route later Claims run, and what they leave alone.

use serde_json::{Value, json};
use wq_action::engine::Decision;
use wq_action::protocol::At;
use wq_action::protocol::request::RequestKind;

use crate::support::built::{
    ADMINISTRATOR, DISPATCHER, Grant, Node, Outcome, PRODUCER, Queue, RECONCILER, aw_policy, grant_parameters, nodes,
};
use crate::support::ledger::policy;

/// A revision of 40 equal digits.
fn revision(digit: &str) -> String {
    digit.repeat(40)
}

fn contract(letter: &str) -> String {
    letter.repeat(64)
}

/// What the registry says of a route of the default pool.
fn entry(queue: &Queue, profile: &str) -> Value {
    queue.document()["deployments"]["default"][profile].clone()
}

/// A Deployment of this revision, as honest writers make it now.
fn deployment(queue: &Queue, profile: &str, to: &str, letter: &str, available: bool) -> Value {
    let mut route = queue.document()["policy"]["pools"]["default"]["profiles"][profile].clone();
    route["ref"] = revision(to).into();
    route["logical_contract"] = contract(letter).into();
    let entry = entry(queue, profile);
    json!({"kind": "Deployment", "pool": "default", "worker_profile": profile, "expected_ref": entry["current_ref"],
        "expected_contract": entry["current_contract"], "profile": route, "available": available,
        "reason": "worker_deployed"})
}

fn publish(queue: &mut Queue, operation: &Value, at: i64) -> Outcome<()> {
    queue.operate(RequestKind::Deployment, PRODUCER, at, std::slice::from_ref(operation))
}

/// Deploys a revision and makes it the current route.
pub(super) fn deploy(
    queue: &mut Queue,
    profile: &str,
    to: &str,
    letter: &str,
    available: bool,
    at: i64,
) -> Outcome<()> {
    let operation = deployment(queue, profile, to, letter, available);
    publish(queue, &operation, at)
}

/// Changes the availability of a known revision alone.
fn toggle(queue: &mut Queue, to: &str, letter: &str, available: bool, at: i64) -> Outcome<()> {
    let mut operation = deployment(queue, "default", to, letter, available);
    operation["activate"] = false.into();
    publish(queue, &operation, at)
}

fn reason(queue: &Queue, key: &str, at: i64) -> &'static str {
    let state = queue.state.work(&Node::new(key).id()).unwrap();
    queue.state.view_work(state, At::new(at).unwrap(), None).reason
}

/// Revision that a Claim's dispatch froze.
fn frozen_ref(queue: &Queue, grant: &Grant) -> Value {
    queue.document()["dispatches"][&grant.dispatch]["profile"]["ref"].clone()
}

/// Two routes in one pool, each with a contract.
fn two_routes() -> Value {
    let mut policy = aw_policy();
    let profiles = &mut policy["pools"]["default"]["profiles"];
    profiles["other"] = profiles["default"].clone();
    policy
}

/// S-212, S-213, S-214, O-073, O-080, O-081: a compatible deployment in a busy queue sends later Claims to the new
/// revision and changes nothing else; what was granted before finishes under its own frozen route.
#[test]
fn deployments_redirect_later_grants_alone() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a"), Node::new("b").after("a"), Node::new("c")]);
    let grants = queue.grant(2000, 2, 2).unwrap();
    queue.deliver(&grants[1], 2100).unwrap();
    queue.start(&grants[0], 2200).unwrap();
    queue.bind(&grants[0], 2201).unwrap();
    let before = queue.document();
    deploy(&mut queue, "default", "1", "c", true, 2300).unwrap();
    let mut after = queue.document();
    assert_eq!(after["deployments"]["default"]["default"]["current_ref"], revision("1"));
    // Apart from the registry and the new request itself, the projection is the same to the byte.
    let added = after["requests"].as_object_mut().unwrap();
    added.retain(|id, _| before["requests"].get(id).is_some());
    for member in ["deployments", "ledger_bytes", "tip"] {
        after[member] = before[member].clone();
    }
    after["stats"]["transactions"] = before["stats"]["transactions"].clone();
    assert_eq!(after, before);
    // The bound run completes, delivers and is released as the revision that it is.
    queue.finish(&grants[0], "completed", 2400).unwrap();
    queue.result(&grants[0], 2401).unwrap();
    queue.release(&grants[0], 2402).unwrap();
    assert_eq!(frozen_ref(&queue, &grants[0]), revision("0"));
    let next = queue.grant(2500, 1, 1).unwrap().remove(0);
    assert_eq!((next.node.as_str(), frozen_ref(&queue, &next)), ("b", json!(revision("1"))));
}

/// S-218, O-084, O-099: a deployment names the current revision and contract, and carries a route that differs from the
/// approved one in these two alone; limits, weights and authority are the business of a Policy in a quiet queue.
#[test]
fn deployments_compare_and_carry_no_authority() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a")]);
    let honest = deployment(&queue, "default", "1", "c", true);
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut operation = honest.clone();
        change(&mut operation);
        publish(&mut queue.clone(), &operation, 2000).err().unwrap_or_else(|| "accepted".to_owned())
    };
    assert_eq!(refused(&|_| ()), "accepted");
    assert_eq!(refused(&|one| one["expected_ref"] = revision("1").into()), "deployment_conflict");
    assert_eq!(refused(&|one| one["expected_contract"] = contract("d").into()), "deployment_conflict");
    for (member, value) in [
        ("workflow", json!(".github/workflows/elsewhere.lock.yml")),
        ("principal", json!("77")),
        ("effect_scope", json!("owner/elsewhere")),
        ("max_claims", json!(2)),
        ("share_keys", json!(true)),
    ] {
        assert_eq!(refused(&|one| one["profile"][member] = value.clone()), "deployment_invalid", "{member}");
    }
    for (member, value) in [("trust_domain", "mine"), ("credential_scope", "organization")] {
        assert_eq!(refused(&|one| one["profile"][member] = value.into()), "policy_invalid", "{member}");
    }
    // Names that are no installed route, of whatever type.
    for name in [json!("missing"), json!(7), json!(["default"]), json!(null), json!({})] {
        assert_eq!(refused(&|one| one["pool"] = name.clone()), "deployment_invalid", "{name}");
        assert_eq!(refused(&|one| one["worker_profile"] = name.clone()), "deployment_invalid", "{name}");
    }
    for (member, value) in [("class_weights", json!([1, 1, 1, 1, 1])), ("native_limit", json!(64))] {
        assert_eq!(refused(&|one| one[member] = value.clone()), "unsupported_protocol", "{member}");
    }
    for member in honest.as_object().unwrap().keys() {
        let outcome = refused(&|one| drop(one.as_object_mut().unwrap().remove(member)));
        assert_eq!(outcome, "unsupported_protocol", "{member}");
    }
    // A revision is immutable: its contract never changes.
    assert_eq!(refused(&|one| one["profile"]["ref"] = revision("0").into()), "accepted");
    let mut rewritten = deployment(&queue, "default", "0", "d", true);
    assert_eq!(publish(&mut queue, &rewritten, 2000).unwrap_err(), "deployment_invalid");
    rewritten["activate"] = false.into();
    assert_eq!(publish(&mut queue, &rewritten, 2000).unwrap_err(), "deployment_invalid");
    // The winner of a race leaves the loser's expectation stale.
    publish(&mut queue, &honest, 2001).unwrap();
    assert_eq!(publish(&mut queue, &honest, 2002).unwrap_err(), "deployment_conflict");
    // Economics change by a Policy alone, once the queue is quiet.
    let mut economics = aw_policy();
    economics["class_weights"] = json!([1, 1, 1, 1, 1]);
    let change = json!({"kind": "Policy", "epoch": "two", "policy": economics});
    let install =
        |queue: &mut Queue, at| queue.operate(RequestKind::Policy, ADMINISTRATOR, at, std::slice::from_ref(&change));
    assert_eq!(install(&mut queue, 2003).unwrap_err(), "policy_not_quiescent");
    queue.cancel_work(ADMINISTRATOR, &Node::new("a").id(), 2004).unwrap();
    install(&mut queue, 2005).unwrap();
    // Another Policy starts another registry.
    assert_eq!(entry(&queue, "default")["revisions"].as_object().unwrap().len(), 1);
}

/// Several Deployments of one request chain their expectations, and take effect together or not at all.
#[test]
fn one_request_may_chain_deployments() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a")]);
    let first = deployment(&queue, "default", "1", "c", true);
    let mut second = deployment(&queue, "default", "2", "d", true);
    let refused = queue.operate(RequestKind::Deployment, DISPATCHER, 2000, &[first.clone(), second.clone()]);
    assert_eq!(refused.unwrap_err(), "deployment_conflict");
    assert_eq!(entry(&queue, "default")["current_ref"], revision("0"));
    second["expected_ref"] = revision("1").into();
    queue.operate(RequestKind::Deployment, DISPATCHER, 2001, &[first, second]).unwrap();
    assert_eq!(entry(&queue, "default")["current_contract"], contract("d"));
    assert_eq!(entry(&queue, "default")["revisions"].as_object().unwrap().len(), 3);
}

/// S-219, O-078, O-100: without activation only the availability of a known, identical revision changes, and the current
/// route stays; Work pinned to that revision waits for it, and no other Work does.
#[test]
fn availability_changes_without_moving_the_route() {
    let pinned = Node::new("pinned").with("execution_ref", revision("0"));
    let mut queue = Queue::open(&aw_policy(), &[pinned, Node::new("free")]);
    deploy(&mut queue, "default", "1", "c", true, 2000).unwrap();
    assert_eq!(toggle(&mut queue, "2", "c", true, 2001).unwrap_err(), "deployment_invalid");
    assert_eq!(toggle(&mut queue, "0", "d", false, 2001).unwrap_err(), "deployment_invalid");
    toggle(&mut queue, "0", "c", false, 2002).unwrap();
    assert_eq!(entry(&queue, "default")["current_ref"], revision("1"));
    assert_eq!(entry(&queue, "default")["revisions"][revision("0")]["available"], false);
    assert_eq!(reason(&queue, "pinned", 2003), "worker_unavailable");
    assert_eq!(nodes(&queue.grant(2003, 9, 9).unwrap()), ["free"]);
    assert_eq!(queue.grant(2004, 9, 9).unwrap_err(), "no_eligible_work");
    toggle(&mut queue, "0", "c", true, 2005).unwrap();
    let granted = queue.grant(2006, 9, 9).unwrap().remove(0);
    assert_eq!((granted.node.as_str(), frozen_ref(&queue, &granted)), ("pinned", json!(revision("0"))));
    assert_eq!(entry(&queue, "default")["current_ref"], revision("1"));
    // A pin names a deployed revision.
    let unknown = Node::new("unknown").with("execution_ref", revision("9"));
    assert_eq!(queue.submit(PRODUCER, 2007, &[unknown]).unwrap_err(), "work_invalid");
}

/// S-173, S-220, O-076, O-077: admission freezes the contract that is approved then; unpinned Work follows compatible
/// revisions alone, retries included, and a pin keeps its revision.
#[test]
fn work_keeps_the_contract_of_its_admission() {
    let pinned = Node::new("pinned").with("execution_ref", revision("0"));
    let mut queue = Queue::open(&aw_policy(), &[Node::new("old"), pinned]);
    assert_eq!(queue.work("old")["admission_contract"], contract("c"));
    deploy(&mut queue, "default", "2", "d", true, 2000).unwrap();
    queue.submit(PRODUCER, 2001, &[Node::new("new")]).unwrap();
    assert_eq!(queue.work("new")["admission_contract"], contract("d"));
    assert_eq!(queue.work("new").get("logical_contract"), None);
    assert_eq!(reason(&queue, "old", 2002), "worker_incompatible");
    let refs: Vec<(String, Value)> =
        queue.grant(2002, 9, 9).unwrap().iter().map(|grant| (grant.node.clone(), frozen_ref(&queue, grant))).collect();
    assert_eq!(refs, [("pinned".to_owned(), json!(revision("0"))), ("new".to_owned(), json!(revision("2")))]);
    deploy(&mut queue, "default", "3", "c", true, 2100).unwrap();
    let old = queue.grant(2101, 9, 9).unwrap().remove(0);
    assert_eq!((old.node.as_str(), frozen_ref(&queue, &old)), ("old", json!(revision("3"))));
    // The retry of the pinned Work runs what it ran before, and keeps its contract.
    let pinned = queue.state.claims().find(|claim| queue.state.work_of(claim).work.node_key.as_str() == "pinned");
    let (work, claim) =
        pinned.map(|claim| (claim.claim.work_id.to_string(), claim.claim.claim_id.to_string())).unwrap();
    for claim_of in [(work, claim), (old.work.clone(), old.claim.clone())] {
        let cancel = json!({"kind": "ClaimCancellation", "work_id": claim_of.0, "claim_id": claim_of.1,
            "reason": "lost", "retry_not_before": 40_000});
        queue.operate(RequestKind::CancelClaim, RECONCILER, 2200, &[cancel]).unwrap();
    }
    deploy(&mut queue, "default", "4", "d", true, 2300).unwrap();
    let again = queue.grant(50_000, 9, 9).unwrap().remove(0);
    assert_eq!((again.node.as_str(), frozen_ref(&queue, &again)), ("pinned", json!(revision("0"))));
    assert_eq!(reason(&queue, "old", 50_001), "worker_incompatible");
    assert_eq!(queue.work("old")["admission_contract"], contract("c"));
}

/// S-221, S-222, O-082, O-083: a worker that is paused, incompatible or not approved holds back its own Work and what
/// depends on it; the rest of the pool is granted, and waiting costs neither attempt nor turn.
#[test]
fn a_blocked_worker_holds_back_its_own_work() {
    let blocked = Node::new("blocked").profile("other").priority(1);
    let submitted = [blocked, Node::new("behind").after("blocked"), Node::new("free")];
    let mut queue = Queue::open(&two_routes(), &submitted);
    let approved = |profiles: &[&str]| {
        let mut parameters = grant_parameters("default", 9, 9);
        parameters["worker_profiles"] = json!(profiles);
        parameters
    };
    let mut paused = queue.clone();
    deploy(&mut paused, "other", "1", "c", false, 2000).unwrap();
    let mut incompatible = queue.clone();
    deploy(&mut incompatible, "other", "1", "d", true, 2000).unwrap();
    for (queue, why) in [(&mut paused, "worker_unavailable"), (&mut incompatible, "worker_incompatible")] {
        assert_eq!(reason(queue, "blocked", 2001), why);
        assert_eq!(reason(queue, "behind", 2001), "dependency_result_unavailable");
        assert_eq!(nodes(&queue.grant(2001, 9, 9).unwrap()), ["free"]);
        assert_eq!(queue.grant(2002, 9, 9).unwrap_err(), "no_eligible_work");
        assert_eq!((&queue.work("blocked")["attempts"], &queue.work("behind")["attempts"]), (&json!(0), &json!(0)));
        // Class 1 was never charged: it has neither pass nor clock.
        let clocks = queue.document()["clocks"]["default"].clone();
        assert_eq!((clocks["classes"]["pass"].get("1"), clocks["keys"].get("1")), (None, None));
        deploy(queue, "other", "2", "c", true, 2003).unwrap();
        assert_eq!(nodes(&queue.grant(2004, 9, 9).unwrap()), ["blocked"]);
    }
    // Approval is the caller's, for this one request.
    assert_eq!(
        queue.request(RequestKind::DispatchNext, DISPATCHER, 2000, &approved(&[])).unwrap_err(),
        "no_eligible_work"
    );
    queue.request(RequestKind::DispatchNext, DISPATCHER, 2001, &approved(&["default"])).unwrap();
    assert_eq!(nodes(&queue.last_grants()), ["free"]);
    assert_eq!(nodes(&queue.grant(2002, 9, 9).unwrap()), ["blocked"]);
}

/// Members of one dispatch share one frozen route: a deployment between two Claims, or a pin, separates them.
#[test]
fn one_dispatch_runs_one_revision() {
    let mut policy = aw_policy();
    policy["pools"]["default"]["profiles"]["default"]["max_claims"] = 4.into();
    let pinned = |key: &str| Node::new(key).with("execution_ref", revision("0"));
    let mut queue = Queue::open(&policy, &[pinned("p1"), Node::new("a"), pinned("p2"), Node::new("b")]);
    let together = queue.clone().grant(2000, 4, 4).unwrap();
    assert!(together.iter().all(|grant| grant.dispatch == together[0].dispatch));
    deploy(&mut queue, "default", "1", "c", true, 2000).unwrap();
    let apart = queue.grant(2001, 4, 4).unwrap();
    assert_eq!(nodes(&apart), ["p1", "a", "p2", "b"]);
    assert_eq!((&apart[0].dispatch, &apart[1].dispatch), (&apart[2].dispatch, &apart[3].dispatch));
    assert_ne!(apart[0].dispatch, apart[1].dispatch);
}

/// S-217, O-079: a route without a contract has no registry: nothing can be deployed to it, and a pin names its one
/// exact revision.
#[test]
fn routes_without_a_contract_keep_their_revision() {
    let mut bare = aw_policy();
    bare["pools"]["default"]["profiles"]["default"].as_object_mut().unwrap().remove("logical_contract");
    let historical: Value = serde_json::from_str(&policy(false)).unwrap();
    for policy in [bare, historical] {
        let exact = Node::new("exact").with("execution_ref", revision("0"));
        let mut queue = Queue::open(&policy, &[Node::new("a"), exact]);
        assert_eq!(queue.document().get("deployments"), None);
        let mut operation = deployment(&queue, "default", "1", "c", true);
        operation["expected_ref"] = revision("0").into();
        operation["expected_contract"] = contract("c").into();
        assert_eq!(publish(&mut queue, &operation, 2000).unwrap_err(), "deployment_invalid");
        let other = Node::new("other").with("execution_ref", revision("1"));
        assert_eq!(queue.submit(PRODUCER, 2001, &[other]).unwrap_err(), "work_invalid");
        let grants = queue.grant(2002, 9, 9).unwrap();
        assert_eq!(nodes(&grants), ["a", "exact"]);
        assert!(grants.iter().all(|grant| frozen_ref(&queue, grant) == revision("0")));
        assert_eq!(queue.work("a").get("admission_contract"), None);
    }
}

/// O-097: deployments come from administrators, producers and dispatchers; a worker is refused by its role.
#[test]
fn workers_deploy_nothing() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a")]);
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    queue.complete(&grant, 2100).unwrap();
    let operation = [deployment(&queue, "default", "1", "c", true)];
    let projector = RECONCILER.replace("reconciler", "projector");
    for actor in [&grant.worker(), RECONCILER, &projector] {
        let refused = queue.operate(RequestKind::Deployment, actor, 2200, &operation);
        assert_eq!(refused.unwrap_err(), "actor_unauthorized");
    }
    for actor in [ADMINISTRATOR, PRODUCER, DISPATCHER] {
        let mut queue = queue.clone();
        queue.operate(RequestKind::Deployment, actor, 2200, &operation).unwrap();
        let decision = queue.decide(RequestKind::DispatchNext, DISPATCHER, 2300, &grant_parameters("default", 1, 1));
        assert!(matches!(decision, Ok(Decision::Nothing { reason: "no_work", .. })));
    }
}
