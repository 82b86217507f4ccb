//! What read and explain answer.

use serde_json::{Value, json};

use super::desk::{CAPTURED, Desk, absent, dispatcher, policy, queue, snapshot, worker};
use crate::support::built::{DISPATCHER, Node, PRODUCER, Queue};
use crate::support::ledger::work_id;

const READ: &str = "work_queue_read";
const EXPLAIN: &str = "work_queue_explain";

fn ids(answer: &Value) -> Vec<&str> {
    answer["works"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

/// S-499, S-500, S-568, O-226: a read answers from the activation snapshot with a page of Work, counts, where the data came
/// from and for when, and a prediction that says it is not authoritative; with Policy, key and class metadata, and why
/// each Work waits.
#[test]
fn a_read_shows_the_snapshot() {
    let desk = Desk::new("dispatcher", &dispatcher());
    let answer = desk.ask(READ, &json!({}));
    let tip = queue().state.tip().unwrap().to_string();
    for (name, value) in [
        ("view", json!("activation_snapshot")),
        ("snapshot_sha", json!("1".repeat(40))),
        ("queue_tip", json!(tip)),
        ("captured_at", json!(CAPTURED)),
        ("queue_state", json!("initialized")),
        ("policy_mode", json!("weighted-priority")),
        ("fairness_units", json!("durable_claims")),
        ("counts", json!({"available": 4})),
        ("claim_counts", json!({})),
        ("barrier_counts", json!({"none": 4})),
        ("native_reservations", json!({"outstanding": 0, "unbound": 0})),
        ("total", json!(4)),
        ("offset", json!(0)),
        ("next_offset", json!(null)),
    ] {
        assert_eq!(answer[name], value, "{name}");
    }
    assert!(answer.get("work").is_none());
    let policy = &answer["policy"];
    assert_eq!(policy["class_weights"], json!([8, 4, 2, 1, 1]));
    assert_eq!((&policy["accounting_keys"], &policy["native_limit"]), (&json!(2), &json!(16)));
    let prediction = &answer["prediction"];
    assert_eq!(prediction["authoritative"], false);
    assert_eq!(prediction["work_id"], work_id("other", "d"));
    assert_eq!(prediction["comparison"]["class"], "1");
    assert_eq!(prediction["comparison"]["key"], "team");
    let works = answer["works"].as_array().unwrap();
    let told: Vec<_> = works
        .iter()
        .map(|item| {
            let text = |name: &str| item[name].as_str().unwrap().to_owned();
            (text("state"), item["ready"].as_bool().unwrap(), text("reason"), text("label"))
        })
        .collect();
    let waits =
        |ready: bool, reason: &str, label: &str| ("available".to_owned(), ready, reason.to_owned(), label.to_owned());
    assert_eq!(
        told,
        [
            waits(true, "ready", "ready"),
            waits(false, "dependency_result_unavailable", "dependency_wait"),
            waits(false, "external_unavailable", "external_unavailable"),
            waits(true, "ready", "ready"),
        ]
    );
    assert_eq!((&works[3]["priority"], &works[3]["fairness_key"]), (&json!(1), &json!("team")));
    assert_eq!(works[0]["deployment"]["available"], true);
    assert_eq!(works[0]["admission_contract"], json!("c".repeat(64)));
    assert!(!answer.to_string().contains("task"), "a payload is shown");
}

/// S-171: state and readiness stand apart, with unresolved edges and the path to the first cause, in read and in explain.
#[test]
fn readiness_is_apart_from_ownership() {
    let desk = Desk::new("dispatcher", &dispatcher());
    let (a, b) = (work_id("graph", "a"), work_id("graph", "b"));
    let item = desk.ask(READ, &json!({"work": b}))["works"][0].clone();
    let explained = desk.ask(EXPLAIN, &json!({"work": b}))["explanation"].clone();
    for told in [&item, &explained] {
        assert_eq!(
            (&told["state"], &told["barrier"], &told["ready"]),
            (&json!("available"), &json!("none"), &json!(false))
        );
        assert_eq!(told["unresolved"], json!([{"kind": "work", "id": a, "reason": "dependency_wait"}]));
        assert_eq!((&told["unresolved_total"], &told["blocking_path"]), (&json!(1), &json!([a])));
    }
}

/// S-513, O-223: an absent queue is told as uninitialized, to observers and dispatchers; S-513: an invalid ledger stays an
/// error.
#[test]
fn an_absent_queue_is_uninitialized() {
    for role in ["observer", "dispatcher"] {
        let desk = Desk::new(role, &absent(role));
        let answer = desk.ask(READ, &json!({"work": "nothing"}));
        let expected = json!({"view": "activation_snapshot", "snapshot_sha": null, "queue_tip": null,
            "captured_at": CAPTURED, "queue_state": "uninitialized", "policy_mode": null, "policy": null,
            "prediction": {"work_id": null, "reason": "queue_uninitialized", "authoritative": false},
            "fairness_units": "durable_claims", "counts": {}, "claim_counts": {}, "barrier_counts": {},
            "native_reservations": {"outstanding": 0, "unbound": 0}, "work": {"id": "nothing", "state": "absent"},
            "total": 0, "offset": 0, "next_offset": null, "works": []});
        assert_eq!(answer, expected);
        let answer = desk.ask(EXPLAIN, &json!({"work": "nothing"}));
        let expected = json!({"work_id": "nothing", "state": "absent", "ready": false, "reason": "queue_uninitialized",
            "authoritative": false});
        assert_eq!(answer["explanation"], expected);
    }
    let mut broken = absent("observer");
    broken["sha"] = json!("1".repeat(40));
    broken["transactionLog"] = json!("{}\n");
    let refused = Desk::new("observer", &broken).open(|_| ()).unwrap_err();
    assert_ne!(refused.code().as_str(), "work_queue_policy_missing");
    assert_eq!(refused.code().exit(), 3);
}

/// jobs.md 12, number 7; S-501, S-569, O-227: pages and orders of display, which change neither the prediction nor the
/// whole; ties fall back to first in, first out.
#[test]
fn jobs_07_pages_and_orders() {
    let nodes: Vec<Node> =
        (0..7).map(|n| Node::new(&format!("n{n}")).with("enqueued", [5, 3, 5, 1, 3, 5, 1][n])).collect();
    let queue = Queue::open(&policy(), &nodes);
    let desk = Desk::new("dispatcher", &snapshot(&queue, DISPATCHER, None));
    let whole = desk.ask(READ, &json!({}));
    let fifo: Vec<String> = (0..7).map(|n| work_id("graph", &format!("n{n}"))).collect();
    assert_eq!(ids(&whole), fifo);

    let mut seen: Vec<String> = Vec::new();
    let mut offset = json!(0);
    while !offset.is_null() {
        let page = desk.ask(READ, &json!({"limit": 3, "offset": offset}));
        assert_eq!(
            (&page["total"], &page["queue_tip"], &page["captured_at"]),
            (&json!(7), &whole["queue_tip"], &json!(CAPTURED))
        );
        assert_eq!((&page["counts"], &page["prediction"]), (&whole["counts"], &whole["prediction"]));
        assert!(ids(&page).len() <= 3);
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        offset = page["next_offset"].clone();
    }
    assert_eq!(seen, fifo);
    let beyond = desk.ask(READ, &json!({"offset": 1_000_000}));
    assert_eq!((ids(&beyond).len(), &beyond["next_offset"], &beyond["total"]), (0, &json!(null), &json!(7)));

    let sorted = |terms: Value| desk.ask(READ, &json!({"sort": terms}));
    let by = |order: &[usize]| order.iter().map(|n| fifo[*n].clone()).collect::<Vec<_>>();
    let term = |key: &str, direction: &str| json!({"key": key, "direction": direction});
    assert_eq!(ids(&sorted(json!([term("enqueued", "asc")]))), by(&[3, 6, 1, 4, 0, 2, 5]));
    assert_eq!(ids(&sorted(json!([term("enqueued", "desc")]))), by(&[0, 2, 5, 1, 4, 3, 6]));
    // Every id has 64 characters: a tie that the second term decides, or else the order of admission.
    assert_eq!(ids(&sorted(json!([term("id_length", "desc")]))), fifo);
    assert_eq!(ids(&sorted(json!([term("id_length", "asc"), term("enqueued", "asc")]))), by(&[3, 6, 1, 4, 0, 2, 5]));
    let mut bytes = fifo.clone();
    bytes.sort();
    let by_id = sorted(json!([term("id", "asc")]));
    assert_eq!(ids(&by_id), bytes);
    assert_eq!(by_id["prediction"], whole["prediction"]);
    bytes.reverse();
    assert_eq!(ids(&sorted(json!([term("id", "desc")]))), bytes);
    for terms in
        [json!([]), json!([term("state", "asc")]), json!([term("id", "up")]), json!([{"key": "id"}]), json!("id")]
    {
        assert_eq!(desk.call(READ, &json!({"sort": terms})).unwrap_err().0, -32602, "{terms}");
    }
}

/// jobs.md 12, number 7; S-659: with a filter of what may be shown, other Work is in no list, count, path or prediction;
/// only counts of it explain why.
#[test]
fn jobs_07_hidden_work_stays_hidden() {
    let mut hiding = dispatcher();
    let (a, b, d) = (work_id("graph", "a"), work_id("graph", "b"), work_id("other", "d"));
    hiding["visible_work_ids"] = json!([b]);
    let desk = Desk::new("dispatcher", &hiding);
    let answer = desk.ask(READ, &json!({}));
    assert_eq!(ids(&answer), [b.as_str()]);
    assert_eq!((&answer["total"], &answer["counts"]), (&json!(1), &json!({"available": 1})));
    let prediction = &answer["prediction"];
    assert_eq!((&prediction["work_id"], &prediction["reason"]), (&json!(null), &json!("selected")));
    assert_eq!(prediction["comparison"]["eligible"], 2);
    assert_eq!(answer["works"][0]["unresolved_total"], 1);
    let explained = desk.ask(EXPLAIN, &json!({"work": b}));
    assert_eq!(explained["explanation"]["reason"], "dependency_result_unavailable");
    let asked = desk.ask(READ, &json!({"work": a}));
    assert_eq!((ids(&asked).len(), &asked["work"]["state"]), (0, &json!("absent")));
    for told in [&answer, &explained, &desk.ask(READ, &json!({"work": b}))] {
        let told = told.to_string();
        assert!(!told.contains(&a) && !told.contains(&d) && !told.contains("team"), "{told}");
    }
    for hidden in [&a, &d, &"nothing".to_owned()] {
        assert_eq!(
            desk.refused(EXPLAIN, &json!({"work": hidden})),
            (-32603, "work_queue_read_scope_denied".to_owned())
        );
    }
    hiding["visible_work_ids"] = json!([a, d]);
    assert_eq!(Desk::new("dispatcher", &hiding).ask(READ, &json!({}))["prediction"]["work_id"], d);
}

/// S-502, S-567: an explanation comes from the same snapshot, says so, and is word for word the scheduler's own, as the
/// operator's is; it never claims to be fresh.
#[test]
fn an_explanation_is_the_operators() {
    let queue = queue();
    let desk = Desk::new("dispatcher", &snapshot(&queue, DISPATCHER, None));
    let id = work_id("graph", "c");
    let answer = desk.ask(EXPLAIN, &json!({"work": id, "pool": "default"}));
    assert_eq!((&answer["view"], &answer["captured_at"]), (&json!("activation_snapshot"), &json!(CAPTURED)));
    assert_eq!(answer["queue_tip"], queue.state.tip().unwrap().as_str());
    let explanation = &answer["explanation"];
    assert_eq!(explanation["authoritative"], false);

    let ledger = desk.path().join("ledger.jsonl");
    std::fs::write(&ledger, &queue.text).unwrap();
    let operator = crate::support::cli::run(
        desk.path(),
        &["explain", "--json", "--ledger", ledger.to_str().unwrap(), "--work-id", &id, "--at", &CAPTURED.to_string()],
    )
    .json(0);
    for (name, value) in operator["explanation"].as_object().unwrap() {
        assert_eq!(explanation[name], *value, "{name}");
    }
    for name in
        ["ready", "reason", "label", "priority", "fairness_key", "unresolved", "unresolved_total", "blocking_path"]
    {
        assert_eq!(explanation[name], operator[name], "{name}");
    }
    assert_eq!(operator["status"], "operator_live_read");
    let absent = desk.ask(EXPLAIN, &json!({"work": "nothing"}));
    assert_eq!(absent["explanation"]["reason"], "work_absent");
    assert_eq!(
        desk.refused(EXPLAIN, &json!({"work": id, "pool": "other"})),
        (-32603, "work_queue_read_scope_denied".to_owned())
    );
    assert_eq!(desk.refused(READ, &json!({"pool": "other"})), (-32603, "policy_invalid".to_owned()));
    for name in ["work", "pool"] {
        // 200 characters and 400 bytes.
        let long = json!({name: "\u{e9}".repeat(200)});
        assert_eq!(desk.refused(READ, &long), (-32603, "request_invalid".to_owned()));
    }
}

/// O-213: what is asked later is answered from the same snapshot; what was staged meanwhile is not in it.
#[test]
fn the_snapshot_is_immutable() {
    let desk = Desk::new("dispatcher", &dispatcher());
    desk.open(|toolbox| {
        let call = |toolbox: &mut _, name: &str, arguments: &str| {
            wq_action::jobs::tool::call(toolbox, name, arguments).unwrap()
        };
        let before = call(toolbox, READ, "{}");
        std::fs::write(desk.snapshot(), absent("dispatcher").to_string()).unwrap();
        call(toolbox, "work_queue_submit", r#"{"nodes":[{"payload":{"task":"new"}}]}"#);
        std::fs::remove_file(desk.snapshot()).unwrap();
        assert_eq!(call(toolbox, READ, "{}"), before);
    })
    .unwrap();
}

/// Claims and reservations are counted for the shown Work of the pool.
#[test]
fn claims_and_reservations_are_counted() {
    let (taken, grants) = worker(2);
    let desk = Desk::new("worker", &taken);
    let answer = desk.ask(READ, &json!({}));
    assert_eq!((&answer["counts"], &answer["claim_counts"]), (&json!({"claimed": 2}), &json!({"open": 2})));
    assert_eq!(answer["native_reservations"], json!({"outstanding": 1, "unbound": 0}));
    assert_eq!(answer["works"][0]["claim_id"], grants[0].claim);
    let mut unbound = Queue::open(&policy(), &[Node::new("a")]);
    unbound.submit(PRODUCER, 1_100, &[Node::new("b")]).unwrap();
    unbound.grant(1_200, 1, 1).unwrap();
    let answer = Desk::new("dispatcher", &snapshot(&unbound, DISPATCHER, None)).ask(READ, &json!({}));
    assert_eq!(answer["native_reservations"], json!({"outstanding": 1, "unbound": 1}));
    let other = json!({"work": work_id("graph", "b")});
    let answer = Desk::new("dispatcher", &snapshot(&unbound, DISPATCHER, None)).ask(READ, &other);
    assert_eq!(answer["native_reservations"], json!({"outstanding": 0, "unbound": 0}));
}

/// S-487, S-569: whatever the graph, an item lists at most eight unresolved edges and sixty-four ancestors, with the count of
/// all edges beside; a page has at most 128 items; no answer holds the log.
#[test]
fn answers_are_bounded() {
    let keys: Vec<String> = (0..200).map(|n| format!("n{n}")).collect();
    let mut nodes: Vec<Node> = Vec::new();
    for (n, key) in keys.iter().enumerate() {
        let node = Node::new(key).graph("deep");
        nodes.push(if n == 0 { node } else { node.after(&keys[n - 1]) });
    }
    let wide: Vec<Node> = (0..10).map(|n| Node::new(&format!("w{n}")).graph("wide")).collect();
    let join = (0..10).fold(Node::new("join").graph("wide"), |node, n| node.after(&format!("w{n}")));
    let mut queue = Queue::open(&policy(), &nodes);
    queue.submit(PRODUCER, 1_100, &[wide, vec![join]].concat()).unwrap();
    let desk = Desk::new("dispatcher", &snapshot(&queue, DISPATCHER, None));
    let page = desk.ask(READ, &json!({"limit": 128}));
    assert_eq!((ids(&page).len(), &page["next_offset"]), (128, &json!(128)));
    assert_eq!(desk.call(READ, &json!({"limit": 129})).unwrap_err().0, -32602);
    let deepest = desk.ask(EXPLAIN, &json!({"work": work_id("deep", "n199")}));
    assert_eq!(deepest["explanation"]["blocking_path"].as_array().unwrap().len(), 64);
    let joined = desk.ask(EXPLAIN, &json!({"work": work_id("wide", "join")}));
    assert_eq!(joined["explanation"]["unresolved"].as_array().unwrap().len(), 8);
    assert_eq!(joined["explanation"]["unresolved_total"], 10);
    for answer in [page, deepest, joined] {
        let text = answer.to_string();
        assert!(!text.contains("transactionLog") && !text.contains("operations") && text.len() < 512 * 1024);
    }
}
