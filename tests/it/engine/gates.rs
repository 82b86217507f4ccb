//! Issues and pull requests as gates: what satisfies them, for how long, and who may say so.

use serde_json::{Value, json};
use wq_action::protocol::operation::Observation;
use wq_action::protocol::request::RequestKind;

use crate::support::built::{
    ADMINISTRATOR, DISPATCHER, Node, Queue, RECONCILER, aw_policy, frozen, grant_parameters, issue, nodes, seen,
};
use crate::support::ledger::typed;

fn gated(condition: &str) -> Queue {
    Queue::open(&aw_policy(), &[Node::new("a").gate(5, condition)])
}

fn observe(queue: &mut Queue, observation: &Value, at: i64) -> Result<(), String> {
    queue.operate(RequestKind::Observe, RECONCILER, at, std::slice::from_ref(observation))
}

/// The reason against the only Work.
fn reason(queue: &Queue, at: i64) -> &'static str {
    let work = queue.state.works().next().unwrap();
    queue.state.view_work(work, wq_action::protocol::At::new(at).unwrap(), None).reason
}

/// S-419, S-420, S-429, S-452: `completed` needs the Issue closed as completed, `closed` any closing, and each is its own gate.
#[test]
fn conditions_are_gates_of_their_own() {
    for (condition, state_reason, ready) in
        [("completed", "completed", true), ("closed", "completed", true), ("closed", "not_planned", true)]
    {
        let mut queue = gated(condition);
        observe(&mut queue, &seen("o1", 5, condition, 2000, &json!({"state_reason": state_reason})), 2000).unwrap();
        assert_eq!(reason(&queue, 2000) == "ready", ready);
    }
    let mut queue = gated("completed");
    // A `ready` that its own facts do not bear out is refused.
    let unproven = seen("o1", 5, "completed", 2000, &json!({"state_reason": "not_planned"}));
    assert_eq!(observe(&mut queue, &unproven, 2000).unwrap_err(), "observation_invalid");
    let waiting = seen("o1", 5, "completed", 2000, &json!({"state": "failed", "state_reason": "not_planned"}));
    observe(&mut queue, &waiting, 2000).unwrap();
    assert_eq!(reason(&queue, 2000), "dependency_external_waiting");
    assert_eq!(queue.work("a")["state"], "available");
    observe(&mut queue, &seen("o2", 5, "closed", 2001, &json!({})), 2001).unwrap();
    assert_eq!(reason(&queue, 2001), "dependency_external_waiting");
}

/// S-421: a pull request gates until it is merged, with its merge commit.
#[test]
fn pull_requests_must_be_merged() {
    let mut pull = issue(6);
    pull["kind"] = "pull_request".into();
    let edge = json!([{"kind": "pull_request", "condition": "merged", "resource": pull}]);
    let mut queue = Queue::open(&aw_policy(), &[Node::new("a").with("depends_on", edge)]);
    let look = |id: &str, state: &str, more: Value| {
        let mut observation = json!({"kind": "Observation", "observation_id": id, "resource": pull,
            "condition": "merged", "state": state, "observed_at": 2000, "credential_generation": "initial",
            "read_status": "ok", "resource_state": "closed"});
        for (name, value) in more.as_object().unwrap() {
            observation[name] = value.clone();
        }
        observation
    };
    let claimed = look("o1", "ready", json!({"merged": true}));
    assert_eq!(observe(&mut queue, &claimed, 2000).unwrap_err(), "observation_invalid");
    observe(&mut queue, &look("o1", "failed", json!({"merged": false})), 2000).unwrap();
    assert_eq!(reason(&queue, 2000), "dependency_external_waiting");
    observe(&mut queue, &look("o2", "ready", json!({"merged": true, "merge_commit": "abc"})), 2000).unwrap();
    assert_eq!(reason(&queue, 2000), "ready");
}

/// S-439, S-442, S-444, S-448, S-451, S-542: only the latest logged observation counts, within its age, of the current
/// generation; what was granted on it stands.
#[test]
fn observations_age() {
    let mut queue = gated("closed");
    assert_eq!(reason(&queue, 2000), "external_unavailable");
    observe(&mut queue, &seen("o1", 5, "closed", 2000, &json!({})), 2500).unwrap();
    assert_eq!(reason(&queue, 1999), "observation_stale");
    assert_eq!(reason(&queue, 62_000), "ready");
    assert_eq!(reason(&queue, 62_001), "observation_stale");
    let mut renewed = queue.clone();
    renewed.control("credential_generation", &json!("g2"), 2600).unwrap();
    assert_eq!(reason(&renewed, 2600), "observation_stale");
    let unreadable = seen("o2", 5, "closed", 2700, &json!({"state": "unknown", "read_status": "http_500"}));
    // It says the generation that it was read under.
    assert_eq!(observe(&mut renewed, &unreadable, 2700).unwrap_err(), "observation_invalid");
    let mut granted = queue.clone();
    let grant = granted.grant(2600, 1, 1).unwrap().remove(0);
    let reopened = seen(
        "o2",
        5,
        "closed",
        2700,
        &json!({"state": "waiting", "resource_state": "open",
        "state_reason": "reopened"}),
    );
    observe(&mut granted, &reopened, 2700).unwrap();
    assert_eq!(granted.document()["claims"][&grant.claim]["state"], "open");
    observe(&mut queue, &reopened, 2700).unwrap();
    assert_eq!(reason(&queue, 2700), "dependency_external_waiting");
    observe(&mut queue, &seen("o3", 5, "closed", 2800, &unknown()), 2800).unwrap();
    assert_eq!(reason(&queue, 2800), "external_unavailable");
}

fn unknown() -> Value {
    json!({"state": "unknown", "read_status": "read_unavailable"})
}

/// S-438, S-482, S-489: observations are from the past, of allowed repositories, small, and finite for each gate; their
/// ids never change meaning.
#[test]
fn observations_are_bounded() {
    let mut policy = aw_policy();
    policy["limits"]["observation_writes"] = 2.into();
    let mut queue = Queue::open(&policy, &[Node::new("a").gate(5, "closed")]);
    let first = seen("o1", 5, "closed", 2000, &json!({}));
    assert_eq!(observe(&mut queue, &first, 1999).unwrap_err(), "observation_invalid");
    observe(&mut queue, &first, 2000).unwrap();
    // Repeated, it has no effect; changed, it is refused.
    observe(&mut queue, &first, 2001).unwrap();
    let changed = seen("o1", 5, "closed", 1500, &json!({}));
    assert_eq!(observe(&mut queue, &changed, 2001).unwrap_err(), "observation_conflict");
    let merged = seen("o2", 5, "closed", 2000, &json!({"merge_commit": "abc"}));
    assert_eq!(observe(&mut queue, &merged, 2001).unwrap_err(), "observation_invalid");
    let mut foreign = seen("o2", 5, "closed", 2000, &json!({}));
    foreign["resource"]["repository"] = "foreign/repo".into();
    assert_eq!(observe(&mut queue, &foreign, 2001).unwrap_err(), "dependency_unauthorized");
    observe(&mut queue, &seen("o2", 5, "closed", 2000, &json!({})), 2001).unwrap();
    assert_eq!(observe(&mut queue, &seen("o3", 5, "closed", 2000, &json!({})), 2001).unwrap_err(), "resource_limit");
    let mut small = aw_policy();
    small["limits"]["evidence_bytes"] = 300.into();
    let mut queue = Queue::open(&small, &[Node::new("a").gate(5, "closed")]);
    assert_eq!(observe(&mut queue, &first, 2000).unwrap_err(), "resource_limit");
}

/// S-417: gates are vertices of their own kinds that several Work share, in every repository that the pool allows and no
/// other.
#[test]
fn gates_are_shared_across_allowed_repositories() {
    let mut policy = aw_policy();
    policy["pools"]["default"]["allowed_repositories"] = json!(["owner/repo", "owner/second"]);
    let mut elsewhere = issue(5);
    elsewhere["repository"] = "owner/second".into();
    let edge = |resource: &Value| json!([{"kind": "issue", "condition": "closed", "resource": resource}]);
    let waiting = |key: &str| Node::new(key).with("depends_on", edge(&elsewhere));
    let mut queue = Queue::open(&policy, &[waiting("a"), waiting("b")]);
    assert_eq!(queue.document()["stats"]["nodes"], 3);
    let mut observation = seen("o1", 5, "closed", 2000, &json!({}));
    observation["resource"] = elsewhere.clone();
    observe(&mut queue, &observation, 2000).unwrap();
    assert_eq!(nodes(&queue.grant(2100, 2, 2).unwrap()), ["a", "b"]);
    let mut foreign = issue(5);
    foreign["repository"] = "foreign/repo".into();
    let outside = Node::new("c").with("depends_on", edge(&foreign));
    assert_eq!(queue.submit(crate::support::built::PRODUCER, 2200, &[outside]).unwrap_err(), "resource_unauthorized");
}

/// S-443, S-447, S-491: fresh observations and the Claim that rests on them are one commit; without a Claim nothing is
/// written.
#[test]
fn observations_travel_with_their_claim() {
    let mut queue = gated("closed");
    let request = frozen("grant", RequestKind::DispatchNext, DISPATCHER, &grant_parameters("default", 1, 1));
    let fresh = |more: &Value| -> [Observation; 1] { [typed(&seen("o1", 5, "closed", 2000, more).to_string())] };
    let before = queue.state.serialise();
    let decision = queue.decide_frozen(&request, 2000, &fresh(&unknown())).unwrap();
    assert_eq!(queue.publish(decision).unwrap_err(), "no_eligible_work");
    assert_eq!(queue.state.serialise(), before);
    // Decided again after a lost race, the observation has aged.
    let decision = queue.decide_frozen(&request, 62_001, &fresh(&json!({}))).unwrap();
    assert_eq!(queue.publish(decision).unwrap_err(), "no_eligible_work");
    let decision = queue.decide_frozen(&request, 2000, &fresh(&json!({}))).unwrap();
    queue.publish(decision).unwrap();
    assert_eq!(nodes(&queue.last_grants()), ["a"]);
    let last: Value = serde_json::from_str(queue.text.lines().last().unwrap()).unwrap();
    let kinds: Vec<&Value> = last["operations"].as_array().unwrap().iter().map(|one| &one["kind"]).collect();
    assert_eq!(kinds, ["Observation", "Claim"]);
    assert_eq!(last["operations"][1]["observations"], json!(["o1"]));
    // An observation after a Claim could not have been part of its decision.
    let mut swapped = gated("closed");
    observe(&mut swapped, &seen("o0", 5, "closed", 1900, &json!({})), 1900).unwrap();
    let mut operations = last["operations"].as_array().unwrap().clone();
    operations[1]["observations"] = json!(["o0"]);
    operations.swap(0, 1);
    let epoch = swapped.state.installed().unwrap().epoch.clone();
    assert_eq!(swapped.forge_frozen(&request, &epoch, 2000, &operations).unwrap_err(), "packing_invalid");
    assert_eq!(swapped.cancel_work(ADMINISTRATOR, &Node::new("a").id(), 2100), Ok(()));
}
