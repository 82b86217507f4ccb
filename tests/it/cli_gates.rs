//! What reads show of Work that waits, of its gates, and of the observations that a Claim rests on, through the binary.

use serde_json::{Value, json};
use wq_action::protocol::request::RequestKind;

use crate::support::built::{ADMINISTRATOR, DISPATCHER, Node, Queue, aw_policy, seen};
use crate::support::cli::run;
use crate::support::git::Bare;

/// A bare repository that holds a queue.
fn hold(queue: &Queue) -> Bare {
    let bare = Bare::new();
    bare.seed(queue.text.as_bytes());
    bare
}

fn text(bare: &Bare, arguments: &[&str]) -> String {
    let ran = run(bare.around(), &[arguments, &["--remote", "queue.git", "--repo", "owner/repo"]].concat());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    ran.out
}

fn ask(bare: &Bare, arguments: &[&str]) -> Value {
    run(bare.around(), &[arguments, &["--remote", "queue.git", "--repo", "owner/repo", "--json"]].concat()).json(0)
}

fn observe(queue: &mut Queue, at: i64, observations: &[Value]) {
    queue.operate(RequestKind::Observe, DISPATCHER, at, observations).unwrap();
}

/// The row of a Work in `wq state`.
fn row(bare: &Bare, id: &str) -> Value {
    let rows = ask(bare, &["state", "--search", id])["rows"].take();
    rows.as_array().unwrap().iter().find(|row| row["work_id"] == id && row["kind"] == "work").unwrap().clone()
}

/// S-171: the state that says who owns a Work stands beside whether it could be granted and why not, with the edges that
/// are unresolved and the path to the first cause, in every command that shows a Work, in the same words. Of a Work with
/// many edges at the end of a long chain 8 edges are listed and all are counted, and the path ends after 64.
#[test]
fn ownership_and_readiness_are_told_apart() {
    let node = |index: usize| match Node::new(&format!("n{index}")) {
        first if index == 0 => first,
        later => later.after(&format!("n{}", index - 1)),
    };
    let nodes: Vec<Node> = (0..80).map(node).collect();
    let mut last = Node::new("last").after("n79");
    for index in 0..20 {
        last = last.after(&format!("n{}", 50 + index));
    }
    let free = Node::new("free").priority(1);
    let mut policy = aw_policy();
    policy["pools"]["default"]["retry"]["max_attempts"] = 1.into();
    policy["limits"]["result_bytes"] = 64.into();
    let mut queue = Queue::open(&policy, &nodes);
    queue.submit(ADMINISTRATOR, 1500, &[last.clone(), free.clone()]).unwrap();
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    assert_eq!(grant.node, "free");
    let bare = hold(&queue);
    let shown = |id: &str| {
        let explained = ask(&bare, &["explain", "--work-id", id]);
        let inspected = ask(&bare, &["inspect", "--work-id", id])["work"].take();
        let listed = row(&bare, id);
        for member in
            ["state", "ready", "reason", "label", "priority", "unresolved", "unresolved_total", "blocking_path"]
        {
            assert!(!explained[member].is_null(), "{member}");
            assert_eq!(explained[member], inspected[member], "{member}");
            assert_eq!(explained[member], listed[member], "{member}");
        }
        explained
    };
    let first = shown(&nodes[0].id());
    assert_eq!((&first["state"], &first["ready"]), (&json!("available"), &json!(true)));
    let waits = shown(&nodes[1].id());
    assert_eq!((&waits["state"], &waits["ready"]), (&json!("available"), &json!(false)));
    assert_eq!(waits["unresolved"], json!([{"kind": "work", "id": nodes[0].id(), "reason": "dependency_wait"}]));
    assert_eq!((&waits["unresolved_total"], &waits["blocking_path"]), (&json!(1), &json!([nodes[0].id()])));
    let claimed = shown(&free.id());
    assert_eq!((&claimed["state"], &claimed["ready"]), (&json!("claimed"), &json!(false)));
    let last = shown(&last.id());
    assert_eq!((last["unresolved"].as_array().unwrap().len(), &last["unresolved_total"]), (8, &json!(21)));
    let path: Vec<&str> = last["blocking_path"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    assert_eq!((path.len(), path[0], path[63]), (64, nodes[79].id().as_str(), nodes[16].id().as_str()));
}

/// Work behind two Issues: one that was seen open, one that could not be read; and Work behind a third.
fn gated() -> (Queue, [Node; 2]) {
    let waits = Node::new("waits").gate(5, "completed").gate(6, "closed");
    let granted = Node::new("granted").gate(7, "completed");
    let mut queue = Queue::open(&aw_policy(), &[waits.clone(), granted.clone()]);
    let open = json!({"state": "waiting", "resource_state": "open", "state_reason": "reopened"});
    let unread = json!({"state": "unknown", "read_status": "http_404"});
    let looks = [
        seen("five", 5, "completed", 1900, &open),
        seen("six", 6, "closed", 1910, &unread),
        seen("seven", 7, "completed", 1950, &json!({})),
    ];
    observe(&mut queue, 1960, &looks);
    (queue, [waits, granted])
}

/// S-430: each gate has its own readiness, the id of its observation, and why it holds back, in `explain` and `inspect` of
/// its Work and in the traces of the request and of the Claim that name its Work.
#[test]
fn each_gate_shows_how_it_stands() {
    let (mut queue, [waits, granted]) = gated();
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    assert_eq!(grant.work, granted.id());
    let bare = hold(&queue);
    let at = "2100";
    let told = ask(&bare, &["explain", "--work-id", &waits.id(), "--at", at]);
    let gate = |number: &str, condition: &str, id: &str, observed: &str, at: i64, read: &str, state: &str| {
        json!({"kind": "issue", "repository": "owner/repo", "number": number, "resource_id": number,
            "condition": condition, "observation_id": id, "observed": observed, "observed_at": at,
            "read_status": read, "max_observation_age_ms": 60_000, "ready": state == "ready", "state": state})
    };
    let five = |state| gate("5", "completed", "five", "waiting", 1900, "ok", state);
    let six = |state| gate("6", "closed", "six", "unknown", 1910, "http_404", state);
    assert_eq!(told["gates"], json!([five("dependency_external_waiting"), six("external_unavailable")]));
    let people = text(&bare, &["explain", "--work-id", &waits.id(), "--at", at]);
    for line in [
        "  gate issue owner/repo #5 completed: dependency_external_waiting; observation five at 1900 ms, 200 ms old of \
         at most 60000: waiting, read ok\n",
        "  gate issue owner/repo #6 closed: external_unavailable; observation six at 1910 ms, 190 ms old of at most \
         60000: unknown, read http_404\n",
    ] {
        assert!(people.contains(line), "{people}");
    }
    // Read now, years later, the open Issue's observation is too old; the unreadable one stays unreadable.
    let inspected = ask(&bare, &["inspect", "--work-id", &waits.id()]);
    assert_eq!(inspected["dependencies"], json!([five("observation_stale"), six("external_unavailable")]));
    let of = |mut gate: Value, node: &Node| {
        gate["work_id"] = node.id().into();
        gate
    };
    let seven = gate("7", "completed", "seven", "ready", 1950, "ok", "observation_stale");
    let submitted = ask(&bare, &["trace", "--request-id", "r0"]);
    let all =
        [of(five("observation_stale"), &waits), of(six("external_unavailable"), &waits), of(seven.clone(), &granted)];
    assert_eq!((&submitted["gates"], &submitted["gates_total"]), (&json!(all), &json!(3)));
    let claim = ask(&bare, &["trace", "--claim-id", &grant.claim]);
    assert_eq!(claim["gates"], json!([of(seven, &granted)]));
    let events = claim["events"].as_array().unwrap();
    let look = events.iter().find(|event| event["kind"] == "Observation").unwrap();
    assert_eq!((&look["observation_id"], &look["state"]), (&json!("seven"), &json!("ready")));
    let people = text(&bare, &["trace", "--request-id", "r0"]);
    assert!(people.contains("gates now (3):\n  gate issue owner/repo #5 completed: observation_stale;"), "{people}");
    // A gate that nobody looked at says so.
    let fresh = Node::new("fresh").gate(9, "closed");
    queue.submit(ADMINISTRATOR, 2200, std::slice::from_ref(&fresh)).unwrap();
    let bare = hold(&queue);
    let told = ask(&bare, &["explain", "--work-id", &fresh.id()]);
    assert_eq!(
        (&told["gates"][0]["state"], told["gates"][0].get("observation_id")),
        (&json!("external_unavailable"), None)
    );
    assert!(text(&bare, &["explain", "--work-id", &fresh.id()]).contains("not observed yet"));
}

/// S-449: an explained Claim names the observations that it rested on, when each was made, and how old the Policy let it
/// be, whatever was seen since and under whatever Policy; an explained Work names the edge that holds it back.
#[test]
fn claims_name_their_observations_and_work_its_edges() {
    let (mut queue, [waits, _]) = gated();
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    let request = queue.state.requests().last().unwrap().request_id.as_str().to_owned();
    let expected = json!([{"kind": "issue", "repository": "owner/repo", "number": "7", "resource_id": "7",
        "condition": "completed", "observation_id": "seven", "observed_at": 1950, "age_ms": 50,
        "max_observation_age_ms": 60_000}]);
    let check = |queue: &Queue| {
        let bare = hold(queue);
        let told = ask(&bare, &["explain", "--claim-id", &grant.claim]);
        assert_eq!((&told["observations"], &told["at"]), (&expected, &json!(2000)));
        assert_eq!(told["selection"]["observations"], json!(["seven"]));
        let whole = ask(&bare, &["explain", "--request-id", &request]);
        assert_eq!(whole["claims"][0]["observations"], expected);
        let line = "rested on observation seven of issue owner/repo #7 at 1950 ms, 50 ms old of at most 60000\n";
        assert!(text(&bare, &["explain", "--claim-id", &grant.claim]).contains(line));
        assert!(text(&bare, &["explain", "--request-id", &request]).contains(line));
        bare
    };
    let bare = check(&queue);
    let told = ask(&bare, &["explain", "--work-id", &waits.id(), "--at", "2100"]);
    assert_eq!(
        told["unresolved"],
        json!([{"kind": "issue", "id": "5", "reason": "external_wait"},
            {"kind": "issue", "id": "6", "reason": "external_unavailable"}])
    );
    assert_eq!(told["reason"], "dependency_external_waiting");
    // Seen again, then another Policy with another age.
    let open = json!({"state": "waiting", "resource_state": "open", "state_reason": "reopened"});
    observe(&mut queue, 2300, &[seen("seven-again", 7, "completed", 2300, &open)]);
    check(&queue);
    queue.deliver(&grant, 2400).unwrap();
    queue.cancel_work(ADMINISTRATOR, &waits.id(), 2500).unwrap();
    let mut policy = aw_policy();
    policy["pools"]["default"]["max_observation_age_ms"] = 5.into();
    let change = json!({"kind": "Policy", "epoch": "second", "policy": policy});
    queue.operate(RequestKind::Policy, ADMINISTRATOR, 2600, &[change]).unwrap();
    check(&queue);
}
