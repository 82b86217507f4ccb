//! The published engine fixtures, driven through the engine.

use serde_json::{Value, json};
use wq_action::engine::Projection;
use wq_action::engine::budget::refresh_budget;
use wq_action::protocol::At;
use wq_action::protocol::json::{Scanner, Writer};
use wq_action::protocol::ledger_text::LedgerText;

use crate::support::built::{Node, Queue, aw_policy, nodes};
use crate::support::corpus::load;
use crate::support::ledger::{HOST, canonical};

fn view(state: &Projection, at: i64) -> Value {
    let mut writer = Writer::new();
    state.explain_pool("default", At::new(at).unwrap()).unwrap().write(&mut writer);
    serde_json::from_str(&writer.finish()).unwrap()
}

/// S-033, S-048, S-287: the expected state after each of the seventeen commits, and the granted assignment.
#[test]
fn every_prefix_has_the_published_state() {
    let Some(data) = load("canonical-prefix.json") else { return };
    let text = LedgerText::new(data["canonical"].as_str().unwrap().as_bytes().to_vec()).unwrap();
    let commits = text.commits(&mut Scanner::new(HOST)).unwrap();
    let mut state = Projection::empty();
    let mut checked = 0;
    for (commit, expected) in commits.into_iter().zip(data["prefixes"].as_array().unwrap()) {
        let at = commit.at.get();
        state = state.apply(commit).unwrap_or_else(|fault| panic!("{}: {fault}", expected["tip"]));
        let document: Value = serde_json::from_str(&state.serialise()).unwrap();
        let next = view(&state, at);
        let node = |id: &Value| document["works"][id.as_str().unwrap()]["node_key"].clone();
        let clocks = &document["clocks"]["default"];
        let v = |clock: &Value| if clock["v"].is_null() { json!("0") } else { clock["v"].clone() };
        let works: serde_json::Map<String, Value> = document["works"]
            .as_object()
            .unwrap()
            .values()
            .map(|work| {
                let key = work["node_key"].as_str().unwrap().to_owned();
                (key, json!({"barrier": work["barrier"], "state": work["state"]}))
            })
            .collect();
        let actual = json!({
            "claims": document["claims"].as_object().unwrap().len(),
            "class_v": v(&clocks["classes"]),
            "key_v": v(&clocks["keys"]["3"]),
            "native_reservations": document["stats"]["dispatches"],
            "next_node": next.get("work_id").map_or(json!(""), node),
            "policy_epoch": document["policy_epoch"],
            "reason": next["reason"],
            "tip": document["tip"],
            "works": works,
        });
        assert_eq!(actual, *expected);
        checked += 1;
    }
    assert_eq!(checked, 17);
    let dispatch = state.dispatch(data["assignment"]["dispatch_id"].as_str().unwrap()).unwrap();
    assert_eq!(dispatch.assignment.canonical(), canonical(&data["assignment"].to_string()));
}

/// S-076, S-077, S-078, S-083, S-096, S-550, S-622: the published orders, granted by the engine in one commit each.
#[test]
fn selections_have_the_published_order() {
    let Some(cases) = load("selection.json") else { return };
    for case in cases.as_array().unwrap() {
        let mut policy = aw_policy();
        policy["mode"] = case["mode"].clone();
        policy["class_weights"] = case["class_weights"].clone();
        policy["accounting_weights"] = case["accounting_weights"].clone();
        let pool = &mut policy["pools"]["default"];
        pool["profiles"]["default"]["max_claims"] = case["profile_max"].clone();
        pool["profiles"]["default"]["share_keys"] = case["share_keys"].clone();
        for name in ["x", "y"] {
            pool["profiles"][name] = pool["profiles"]["default"].clone();
        }
        let submitted: Vec<Node> = case["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| {
                let text = |name: &str| node[name].as_str().unwrap();
                Node::new(text("key"))
                    .priority(node["priority"].as_i64().unwrap())
                    .account(text("account"))
                    .profile(text("profile"))
                    .with("enqueued", node["enqueued"].clone())
            })
            .collect();
        let mut queue = Queue::open(&policy, &submitted);
        let number = |name: &str| case[name].as_u64().unwrap() as u32;
        let (claims, dispatches) = (number("max_claims"), number("max_dispatches"));
        let parameters = crate::support::built::grant_parameters("default", claims, dispatches);
        let kind = wq_action::protocol::request::RequestKind::DispatchNext;
        let decision = queue.decide(kind, crate::support::built::DISPATCHER, 2000, &parameters).unwrap();
        if let wq_action::engine::Decision::Publish(generated) = &decision {
            assert_eq!(generated.stopped.as_ref().unwrap().0, case["reason"], "{}", case["name"]);
        }
        queue.publish(decision).unwrap();
        assert_eq!(json!(nodes(&queue.last_grants())), case["expected"], "{}", case["name"]);
    }
}

/// The published deadlines of a failed delivery, with the Completion at 4000.
#[test]
fn deliveries_fail_at_the_published_deadlines() {
    let Some(data) = load("delivery-deadlines.json") else { return };
    let mut policy = aw_policy();
    policy["pools"]["default"]["reconciliation"] =
        json!({"max_attempts": data["max_attempts"], "deadline_ms": data["deadline_ms"]});
    let mut queue = Queue::open(&policy, &[Node::new("a")]);
    let grant = queue.grant(2000, 1, 1).unwrap().remove(0);
    let completion = data["completion_at"].as_i64().unwrap();
    queue.complete(&grant, completion - 2).unwrap();
    for case in data["cases"].as_array().unwrap() {
        let mut more = json!({});
        if case["attempts"] != 0 {
            more["attempts"] = case["attempts"].clone();
        }
        for name in ["effects", "receipt"] {
            if let Some(value) = case.get(name) {
                more[name] = value.clone();
            }
        }
        let at = case["at"].as_i64().unwrap();
        let outcome = queue.clone().fail(&grant, at, case["disposition"].as_str().unwrap(), &more);
        assert_eq!(outcome.err().as_deref().unwrap_or("allowed"), case["expected"], "{}", case["id"]);
    }
}

#[test]
fn refresh_budgets_are_the_published_ones() {
    let Some(data) = load("observation-refresh-budget.json") else { return };
    for case in data["cases"].as_array().unwrap() {
        let number = |name: &str| case[name].as_u64().unwrap();
        let budget = refresh_budget(
            case["grants_paused"] == true,
            number("ledger_bytes"),
            number("ledger_limit"),
            number("operations"),
            case["requested"].as_i64().unwrap(),
        );
        match budget {
            Ok(budget) => assert_eq!(budget, case["expected"], "{}", case["name"]),
            Err(fault) => assert_eq!(fault.code().as_str(), case["error"], "{}", case["name"]),
        }
    }
}
