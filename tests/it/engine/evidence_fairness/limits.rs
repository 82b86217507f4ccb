//! Where service ends: one counterexample for each assumption, so that none of them is taken for granted.

use std::fmt::Write as _;

use serde_json::{Value, json};
use wq_action::engine::Decision;
use wq_action::engine::schedule::clock::{Clock, Scale};
use wq_action::protocol::request::RequestKind;

use super::tenants::{roomy, singles, tenants, work};
use crate::support::built::{DISPATCHER, Node, PRODUCER, Queue, grant_parameters};

fn open_claims(queue: &Queue) -> usize {
    queue.state.claims().len()
}

/// S-606, S-611: strict priority starves a lower class for as long as higher Work keeps arriving.
#[test]
fn strict_priority_starves() {
    strict();
}

pub(super) fn strict() -> String {
    let mut policy = roomy(&[]);
    policy["mode"] = "strict-priority".into();
    let mut queue =
        Queue::open(&policy, &work("low", "", 1).into_iter().map(|node| node.priority(2)).collect::<Vec<_>>());
    let mut text = String::from("| step | arrives | granted | class 2 |\n| --- | --- | --- | --- |\n");
    for step in 0..40_i64 {
        queue.submit(PRODUCER, 2000 + 10 * step, &[Node::new(&format!("high/{step}")).priority(1)]).unwrap();
        let granted = singles(&mut queue, 2005 + 10 * step, 1);
        assert_eq!(granted, ["high"]);
        if step < 3 || step == 39 {
            let before = if step == 39 { "| … | | | |\n" } else { "" };
            writeln!(text, "{before}| {} | `high/{step}`, class 1 | `high/{step}` | `low/0` waits |", step + 1)
                .unwrap();
        }
    }
    assert_eq!(queue.work("low/0")["state"], "available");
    assert_eq!(singles(&mut queue, 9000, 1), ["low"]);
    text.push_str("| 41 | nothing | `low/0` | served |\n");
    // The same arrivals under the default mode: class 2 gets its turn.
    let mut queue =
        Queue::open(&roomy(&[]), &work("low", "", 1).into_iter().map(|node| node.priority(2)).collect::<Vec<_>>());
    queue
        .submit(PRODUCER, 2000, &work("high", "", 10).into_iter().map(|node| node.priority(1)).collect::<Vec<_>>())
        .unwrap();
    assert!(singles(&mut queue, 3000, 3).contains(&"low".to_owned()));
    text
}

/// S-611: a winner that no request can carry blocks the pool, at no charge, until a request can carry it.
#[test]
fn an_unpackable_winner_blocks() {
    unpackable();
}

pub(super) fn unpackable() -> String {
    let big = Node::new("big/0").with("payload", json!({"text": "t".repeat(3000)}));
    let mut queue = Queue::open(&roomy(&[]), &[vec![big], work("small", "", 5)].concat());
    let clocks = queue.document()["clocks"].clone();
    let mut parameters = grant_parameters("default", 8, 8);
    parameters["max_bytes"] = 2000.into();
    for step in 0..20 {
        let refused = queue.request(RequestKind::DispatchNext, DISPATCHER, 2000 + step, &parameters);
        assert_eq!(refused.unwrap_err(), "assignment_bytes_blocked");
    }
    assert_eq!((open_claims(&queue), &queue.document()["clocks"]), (0, &clocks));
    assert_eq!(singles(&mut queue, 3000, 2), ["big", "small"]);
    "| requests are large enough for the winner | 20 requests of 2,000 bytes for a winner of 3,000: no grant, no charge, five small tasks wait behind it; one request of 49,152 bytes: granted |\n".to_owned()
}

/// S-611: nobody is served without a request, or by requests whose publication never succeeds; waiting earns nothing.
#[test]
fn no_request_no_service() {
    unasked();
}

pub(super) fn unasked() -> String {
    let mut queue = Queue::open(&roomy(&[("a", 1)]), &work("a", "a", 3));
    for step in 0..20_i64 {
        queue.submit(PRODUCER, 1_000_000 * step, &work(&format!("other{step}"), "", 1)).unwrap();
    }
    assert_eq!(open_claims(&queue), 0);
    let before = queue.document();
    for step in 0..20 {
        let lost =
            queue.decide(RequestKind::DispatchNext, DISPATCHER, 50_000_000 + step, &grant_parameters("default", 4, 4));
        assert!(matches!(lost, Ok(Decision::Publish(_))));
    }
    assert_eq!(queue.document(), before);
    assert_eq!(singles(&mut queue, 60_000_000, 4), ["other0", "a", "other1", "a"]);
    "| requests recur, and their publication succeeds | three ready tasks, no request: no grant ever; 20 decisions that were never published: no grant, no charge |\n".to_owned()
}

/// S-611: capacity that is never released serves nobody; a key at its own limit waits for its own Claims alone.
#[test]
fn unreleased_capacity_serves_nobody() {
    unreleased();
}

pub(super) fn unreleased() -> String {
    let mut policy = roomy(&[("a", 1)]);
    policy["pools"]["default"]["native_limit"] = 1.into();
    let mut queue = Queue::open(&policy, &[work("first", "", 1), work("a", "a", 2)].concat());
    let held = queue.grant(2000, 1, 1).unwrap().remove(0);
    queue.complete(&held, 2100).unwrap();
    queue.result(&held, 2200).unwrap();
    for step in 0..20 {
        assert_eq!(queue.grant(3000 + 1_000_000 * step, 1, 1).unwrap_err(), "native_capacity_blocked");
    }
    queue.release(&held, 90_000_000).unwrap();
    assert_eq!(singles(&mut queue, 90_000_001, 1), ["a"]);
    "| reservations are released in the end | one native slot, its run delivered but never released: 20 requests over 20,000 seconds give no grant; after the release the next one does |\n".to_owned()
}

/// S-611: Work behind a predecessor without a Result waits for ever, and costs nobody anything.
#[test]
fn a_missing_result_blocks_its_successors_alone() {
    missing_result();
}

pub(super) fn missing_result() -> String {
    let waits = Node::new("waits/0").after("root/0").account("a");
    let mut queue =
        Queue::open(&roomy(&[("a", 1000)]), &[vec![Node::new("root/0"), waits], work("other", "", 12)].concat());
    let root = queue.grant(2000, 1, 1).unwrap().remove(0);
    queue.complete(&root, 2100).unwrap();
    assert!(singles(&mut queue, 3000, 12).iter().all(|tenant| tenant == "other"));
    assert_eq!(queue.grant(9000, 1, 1).unwrap_err(), "no_eligible_work");
    let passes: Value = queue.document()["clocks"]["default"]["keys"]["3"]["pass"].clone();
    assert!(passes.get("a").is_none());
    queue.result(&root, 9100).unwrap();
    assert_eq!(singles(&mut queue, 9200, 1), ["waits"]);
    "| dependencies become available | a successor of weight 1,000 whose predecessor has no Result: 12 grants pass it by, it is not even in the clock; with the Result it is next |\n".to_owned()
}

/// S-611: a key that is eligible again and again, but never for as long as its wait, may never be served; joining costs one
/// turn's time each time.
#[test]
fn a_key_that_keeps_leaving_may_never_be_served() {
    leaving();
}

pub(super) fn leaving() -> String {
    let (scale, mut clock) = (Scale::new(&[3, 1]), Clock::new(2));
    let mut served = 0;
    for turn in 0..10_000 {
        let set: &[u16] = if turn % 2 == 0 { &[0, 1] } else { &[0] };
        served += usize::from(clock.pick(&scale, set) == Some(1));
    }
    assert_eq!(served, 0);
    // Staying for its wait is enough.
    let waits = (0..4).position(|_| clock.pick(&scale, &[0, 1]) == Some(1));
    assert!(waits.is_some());
    "| the key stays eligible | weights 3:1, the second key eligible in every other of 10,000 picks: never served; when it stays, within 4 picks |\n".to_owned()
}

/// S-611: the bound on waiting grows with the number of keys: no share is a promise of latency.
#[test]
fn more_keys_mean_longer_waits() {
    crowded();
}

pub(super) fn crowded() -> String {
    let waits = |keys: usize| {
        let scale = Scale::new(&vec![1; keys]);
        let (mut clock, all) = (Clock::new(keys), (0..keys as u16).collect::<Vec<_>>());
        let mut last = vec![0_usize; keys];
        let mut worst = 0;
        for turn in 1..=4 * keys {
            let winner = usize::from(clock.pick(&scale, &all).unwrap());
            worst = worst.max(turn - last[winner] - 1);
            last[winner] = turn;
        }
        worst
    };
    assert_eq!([waits(2), waits(16), waits(1024)], [1, 15, 1023]);
    "| keys are finite and their weights fixed | longest wait among 2, 16 and 1,024 equal keys: 1, 15 and 1,023 grants |\n".to_owned()
}

/// S-611: a request for several Claims stops at the first winner that fits nowhere, so slots stay idle although others
/// behind it would fit.
#[test]
fn a_fair_prefix_leaves_slots_idle() {
    let mut policy = roomy(&[]);
    let default = policy["pools"]["default"]["profiles"]["default"].clone();
    policy["pools"]["default"]["profiles"]["other"] = default;
    policy["pools"]["default"]["profiles"]["default"]["max_claims"] = 4.into();
    let submitted = [work("a", "", 1), vec![Node::new("b/0").profile("other")], work("c", "", 3)].concat();
    let mut queue = Queue::open(&policy, &submitted);
    assert_eq!(tenants(&queue.grant(2000, 4, 1).unwrap()), ["a"]);
}
