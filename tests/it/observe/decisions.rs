//! What a grant makes of fresh observations: publication.md 2.2, lifecycle.md 7.6.

use serde_json::json;
use wq_action::engine::Decision;
use wq_action::launch::observe::{held_back, observe, refresh};
use wq_action::protocol::actor::Role;
use wq_action::protocol::commit::FrozenRequest;
use wq_action::protocol::operation::Operation;
use wq_action::protocol::request::RequestKind;

use super::fake::{Fake, NOW, scopes, with_resolver, with_scopes};
use super::mapping::{asked, gates};
use crate::support::built::{DISPATCHER, Node, Queue, RECONCILER, aw_policy, frozen, grant_parameters, nodes, seen};

fn request(id: &str) -> FrozenRequest {
    frozen(id, RequestKind::DispatchNext, DISPATCHER, &grant_parameters("default", 9, 9))
}

/// Refreshes and decides, as one attempt of a dispatcher.
fn decide(queue: &Queue, fake: &Fake, id: &str) -> Decision {
    let seen = with_resolver(fake, |resolver| refresh(&queue.state, resolver, &asked(), Role::Dispatcher)).unwrap();
    queue.decide_frozen(&request(id), NOW, &seen).unwrap()
}

/// S-443, S-447, S-451: the observations stand before the Claims of the same commit, which name them; when the Issue is
/// reopened afterwards, the Claim stands and only later grants wait.
#[test]
fn observations_and_claims_share_a_commit() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a").gate(5, "closed"), Node::new("b").gate(5, "closed")]);
    let fake = Fake::new();
    fake.issue(5, &json!({}));
    let one = frozen("one", RequestKind::DispatchNext, DISPATCHER, &grant_parameters("default", 1, 1));
    let fresh = with_resolver(&fake, |resolver| refresh(&queue.state, resolver, &asked(), Role::Dispatcher)).unwrap();
    let decision = queue.decide_frozen(&one, NOW, &fresh).unwrap();
    let Decision::Publish(generated) = &decision else { panic!("{decision:?}") };
    let [Operation::Observation(observation), Operation::Claim(claim)] = &generated.commit.operations[..] else {
        panic!("{:?}", generated.commit.operations)
    };
    assert_eq!(claim.observations.0.as_slice(), std::slice::from_ref(&observation.observation_id));
    assert_eq!(observation.observed_at.get(), NOW);
    queue.publish(decision).unwrap();
    let grant = queue.last_grants().remove(0);
    // Reopened: what is granted stays so, and the next grant waits.
    fake.issue(5, &json!({"state": "open", "state_reason": "reopened"}));
    let reopened =
        with_resolver(&fake, |resolver| observe(&queue.state, resolver, &gates(&queue)[..1], Role::Reconciler));
    let reopened: serde_json::Value =
        serde_json::from_str(&wq_action::protocol::Wire::canonical(&reopened.unwrap()[0])).unwrap();
    assert_eq!(reopened["state_reason"], "reopened");
    queue.operate(RequestKind::Observe, RECONCILER, NOW, &[reopened]).unwrap();
    assert_eq!(queue.document()["claims"][&grant.claim]["state"], "open");
    assert_eq!(queue.grant(NOW, 1, 1).unwrap_err(), "no_eligible_work");
    queue.start(&grant, NOW + 1).unwrap();
    queue.bind(&grant, NOW + 2).unwrap();
    queue.finish(&grant, "completed", NOW + 3).unwrap();
}

/// S-446, S-491, S-542: a failed read stands against an older success and blocks its node alone; unrelated Work is
/// granted, and the unknown is written with it. With nothing to grant nothing is written, and the receipt says
/// `external_unavailable` rather than that the queue is empty.
#[test]
fn failed_reads_block_their_node_alone() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a").gate(5, "closed")]);
    queue.operate(RequestKind::Observe, RECONCILER, 1500, &[seen("o1", 5, "closed", 1500, &json!({}))]).unwrap();
    // The success is still known, and too old by one millisecond.
    queue.control("grants_paused", &json!(false), NOW).unwrap();
    let text = queue.text.clone();
    let fake = Fake::new();
    fake.status("/repos/owner/repo/issues/5", 503);
    let clocked = wq_action::ports::SimulatedClock::new(61_501);
    let scopes = scopes(&["owner/repo"], "initial");
    let client = wq_action::forge::Client::new(&fake, &clocked);
    let clients =
        wq_action::launch::observe::Clients::new(&scopes, vec![(super::fake::name("owner/repo"), client)]).unwrap();
    let resolver = wq_action::launch::observe::Resolver::new(&scopes, &clients, &clocked);
    let fresh = refresh(&queue.state, &resolver, &asked(), Role::Dispatcher).unwrap();
    assert_eq!(held_back(&fresh), Some("external_unavailable"));
    let decision = queue.decide_frozen(&request("none"), 61_501, &fresh).unwrap();
    assert!(matches!(decision, Decision::Nothing { reason: "no_eligible_work", .. }), "{decision:?}");
    queue.publish(decision).unwrap_err();
    assert_eq!(queue.text, text);
    queue.submit(crate::support::built::PRODUCER, 61_501, &[Node::new("b")]).unwrap();
    let decision = queue.decide_frozen(&request("some"), 61_501, &fresh).unwrap();
    queue.publish(decision).unwrap();
    assert_eq!(nodes(&queue.last_grants()), ["b"]);
    assert!(queue.text.lines().last().unwrap().contains(r#""read_status":"external_unavailable""#));
    let work = queue.state.work(&Node::new("a").id()).unwrap();
    let view = queue.state.view_work(work, wq_action::protocol::At::new(61_501).unwrap(), None);
    assert_eq!(view.reason, "external_unavailable");
    // An open Issue is a condition that is not met, not an unreadable one.
    fake.issue(5, &json!({"state": "open"}));
    let open = refresh(
        &Queue::open(&aw_policy(), &[Node::new("a").gate(5, "closed")]).state,
        &resolver,
        &asked(),
        Role::Dispatcher,
    );
    assert_eq!(held_back(&open.unwrap()), Some("external_wait"));
    assert_eq!(held_back(&[]), None);
}

/// S-439, S-491: an Observation from an older credential generation never makes a gate ready, whether it is in the ledger
/// or was read with an older credential; and an evaluation without a grant writes nothing, however often it is repeated.
#[test]
fn lifecycle_22_older_generations_and_zero_grants() {
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a").gate(5, "closed")]);
    let fake = Fake::new();
    fake.issue(5, &json!({}));
    let old = with_resolver(&fake, |resolver| refresh(&queue.state, resolver, &asked(), Role::Dispatcher)).unwrap();
    assert!(old[0].satisfies());
    queue.operate(RequestKind::Observe, RECONCILER, NOW, &[seen("o1", 5, "closed", NOW, &json!({}))]).unwrap();
    queue.control("credential_generation", &json!("second"), NOW).unwrap();
    let text = queue.text.clone();
    assert_eq!(queue.grant(NOW, 1, 1).unwrap_err(), "no_eligible_work");
    assert_eq!(queue.decide_frozen(&request("old"), NOW, &old).unwrap_err(), "observation_invalid");
    fake.asked();
    // The job's credentials are of the first generation still: nothing is sent with them.
    for round in 0..3 {
        let decision = decide(&queue, &fake, &format!("poll-{round}"));
        assert!(matches!(decision, Decision::Nothing { .. }));
        queue.publish(decision).unwrap_err();
    }
    assert!(fake.asked().is_empty());
    assert_eq!(queue.text, text);
    let second = scopes(&["owner/repo"], "second");
    let fresh = with_scopes(&fake, &second, |resolver| refresh(&queue.state, resolver, &asked(), Role::Dispatcher));
    let decision = queue.decide_frozen(&request("new"), NOW, &fresh.unwrap()).unwrap();
    queue.publish(decision).unwrap();
    assert_eq!(nodes(&queue.last_grants()), ["a"]);
}

/// The observations take their part of a commit's operations: what is left is for Claims.
#[test]
fn observations_count_as_operations() {
    let mut policy = aw_policy();
    policy["limits"]["operations"] = 3.into();
    let nodes_of = |keys: &[&str]| -> Vec<Node> { keys.iter().map(|key| Node::new(key)).collect() };
    let mut queue = Queue::open(&policy, &[Node::new("a").gate(5, "closed"), Node::new("b").gate(6, "closed")]);
    queue.submit(crate::support::built::PRODUCER, 1500, &nodes_of(&["c", "d"])).unwrap();
    let fake = Fake::new();
    fake.issue(5, &json!({}));
    fake.issue(6, &json!({}));
    let decision = decide(&queue, &fake, "grant");
    queue.publish(decision).unwrap();
    assert_eq!(nodes(&queue.last_grants()), ["a"]);
}
