//! Tenants of one queue, through whole commits: each grant below is decided, published and replayed.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use wq_action::protocol::request::RequestKind;

use super::long::fixed;
use super::predicate::{bound, counts, strays};
use crate::support::built::{
    ADMINISTRATOR, DISPATCHER, Grant, Node, PRODUCER, Queue, aw_policy, grant_parameters, nodes,
};

/// A Policy with room, small reserves, and these accounting weights beside the default key's.
pub(super) fn roomy(weights: &[(&str, u32)]) -> Value {
    let mut policy = aw_policy();
    let mut all = Map::from_iter([(String::new(), json!(1))]);
    all.extend(weights.iter().map(|(key, weight)| ((*key).to_owned(), json!(weight))));
    policy["accounting_weights"] = Value::Object(all);
    let pool = &mut policy["pools"]["default"];
    pool["logical_limit"] = 256.into();
    pool["native_limit"] = 256.into();
    pool["reconciliation"]["max_attempts"] = 1.into();
    policy["limits"]["evidence_bytes"] = 512.into();
    policy["limits"]["result_bytes"] = 64.into();
    policy
}

/// Work of an account: nodes `PREFIX/0` and on.
pub(super) fn work(prefix: &str, account: &str, count: usize) -> Vec<Node> {
    (0..count).map(|index| Node::new(&format!("{prefix}/{index}")).account(account)).collect()
}

/// The tenants that won, by the part of the node's name before the slash.
pub(super) fn tenants(granted: &[Grant]) -> Vec<String> {
    granted.iter().map(|grant| grant.node.split_once('/').unwrap().0.to_owned()).collect()
}

/// Grants one at a time.
pub(super) fn singles(queue: &mut Queue, at: i64, count: i64) -> Vec<String> {
    (0..count).flat_map(|step| tenants(&queue.grant(at + step, 1, 1).unwrap())).collect()
}

fn tally(winners: &[String]) -> BTreeMap<&str, usize> {
    winners.iter().fold(BTreeMap::new(), |mut counts, winner| {
        *counts.entry(winner.as_str()).or_default() += 1;
        counts
    })
}

/// S-132: the shares of 5:3:2 through real commits, grant by grant the ones that the long runs' clock gives, so that what
/// is shown there holds for the ledger.
#[test]
fn commits_follow_the_clock() {
    let weights = [("a", 5), ("b", 3), ("c", 2)];
    let submitted = [work("a", "a", 80), work("b", "b", 50), work("c", "c", 40)].concat();
    let mut queue = Queue::open(&roomy(&weights), &submitted);
    let mut winners = Vec::new();
    for at in 0..10 {
        winners.extend(tenants(&queue.grant(2000 + at, 12, 12).unwrap()));
    }
    let winners: Vec<usize> = winners.iter().map(|tenant| "abc".find(tenant.as_str()).unwrap()).collect();
    assert_eq!(winners, fixed(&[5, 3, 2], 120));
    assert_eq!(counts(3, &winners), [60, 36, 24]);
    let strayed = strays(&[5, 3, 2], &winners);
    assert!((0..3).all(|member| strayed[member] < bound(&[5, 3, 2], member)));
}

/// A tenant that cuts its work into many tasks, graphs, submissions and routes gets the share of its key and no more; a
/// key that nobody registered is refused, so it cannot invent tenants either.
#[test]
fn sharding_gains_nothing() {
    sharding();
}

pub(super) fn sharding() -> String {
    let mut policy = roomy(&[("one", 1), ("many", 1)]);
    for route in ["x", "y"] {
        let default = policy["pools"]["default"]["profiles"]["default"].clone();
        policy["pools"]["default"]["profiles"][route] = default;
    }
    let shards: Vec<Node> = (0..100)
        .map(|index| {
            let node = Node::new(&format!("many/{index}")).account("many").graph(&format!("graph{index}"));
            node.profile(["default", "x", "y"][index % 3])
        })
        .collect();
    let mut queue = Queue::open(&policy, &shards[..50]);
    for (index, chunk) in shards[50..].chunks(5).enumerate() {
        let actor = if index % 2 == 0 { PRODUCER } else { DISPATCHER };
        queue.submit(actor, 1001 + index as i64, chunk).unwrap();
    }
    queue.submit(PRODUCER, 1100, &work("one", "one", 30)).unwrap();
    let refused = queue.submit(PRODUCER, 1101, &work("new", "many-2", 1));
    assert_eq!(refused.unwrap_err(), "admission_unauthorized");
    let winners = singles(&mut queue, 2000, 40);
    let shares = tally(&winners);
    assert_eq!((shares["one"], shares["many"]), (20, 20));
    let indexes: Vec<usize> = winners.iter().map(|winner| usize::from(winner == "many")).collect();
    assert!(strays(&[1, 1], &indexes).iter().all(|stray| *stray < bound(&[1, 1], 0)));
    format!(
        "| one tenant has 100 tasks in 100 graphs, 11 submissions and 3 routes, the other 30 in one graph; equal weights | of 40 grants: sharded {}, plain {} |\n",
        shares["many"], shares["one"]
    )
}

/// A key at its limit of open Claims blocks nobody, however long, and comes back without a burst.
#[test]
fn a_saturated_key_blocks_nobody() {
    saturated();
}

pub(super) fn saturated() -> String {
    let mut policy = roomy(&[("stuck", 1), ("free", 1)]);
    policy["pools"]["default"]["per_account_limit"] = 2.into();
    let mut queue = Queue::open(&policy, &[work("stuck", "stuck", 12), work("free", "free", 60)].concat());
    let mut at = 2000;
    let mut held = Vec::new();
    while held.len() < 2 {
        let grant = queue.grant(at, 1, 1).unwrap().remove(0);
        if grant.node.starts_with("stuck") {
            held.push(grant);
        } else {
            queue.deliver(&grant, at + 1).unwrap();
        }
        at += 100;
    }
    // The two Claims never end; every single ask is answered with the other key's Work.
    let mut served = 0;
    while served < 30 {
        let grant = queue.grant(at, 1, 1).unwrap().remove(0);
        assert!(grant.node.starts_with("free"), "{}", grant.node);
        queue.deliver(&grant, at + 1).unwrap();
        (served, at) = (served + 1, at + 100);
    }
    for grant in &held {
        queue.cancel_claim(grant, at, at + 1_000_000).unwrap();
    }
    let mut back = Vec::new();
    for _ in 0..6 {
        let grant = queue.grant(at, 1, 1).unwrap().remove(0);
        back.extend(tenants(std::slice::from_ref(&grant)));
        queue.deliver(&grant, at + 1).unwrap();
        at += 100;
    }
    assert_eq!(back, ["free", "stuck", "free", "stuck", "free", "stuck"]);
    format!(
        "| a key with 12 tasks has both its slots taken by runs that never end, equal weights | {served} asks, {served} grants to the other key; once the slots are free: {} |\n",
        back.join(" ")
    )
}

/// A key that was idle for long, having been served before or never, alternates when it returns.
#[test]
fn idle_keys_bring_no_burst() {
    idle();
}

pub(super) fn idle() -> String {
    let mut queue = Queue::open(
        &roomy(&[("busy", 1), ("idle", 1), ("new", 1)]),
        &[work("busy", "busy", 120), work("idle", "idle", 2)].concat(),
    );
    let first = singles(&mut queue, 2000, 4);
    assert_eq!(first, ["busy", "idle", "busy", "idle"]);
    let alone = singles(&mut queue, 3000, 60);
    assert!(alone.iter().all(|tenant| tenant == "busy"));
    queue.submit(PRODUCER, 4000, &[work("again", "idle", 10), work("new", "new", 10)].concat()).unwrap();
    let back = singles(&mut queue, 5000, 9);
    assert_eq!(back, ["busy", "again", "new", "busy", "again", "new", "busy", "again", "new"]);
    format!(
        "| two keys return after {} grants to a third, one served before and one never; equal weights | {} |\n",
        alone.len(),
        back.join(" ")
    )
}

/// Any legal string is a key of its own, whatever it means elsewhere, and gets the same share.
#[test]
fn any_legal_key_is_a_key() {
    legal_keys();
}

pub(super) fn legal_keys() -> String {
    let (long, emoji) = ("k".repeat(128), "\u{1f600}".repeat(32));
    let mut keys = vec![
        "",
        "*",
        "**",
        "__proto__",
        "constructor",
        "hasOwnProperty",
        "null",
        "0",
        "-1",
        "a/b",
        "../a",
        " ",
        "\"",
        "\\",
        "%00",
        "\u{85}",
        "e\u{301}",
        "\u{e9}",
        "\u{ffff}",
        "\u{10000}",
        &long,
        &emoji,
    ];
    let weights: Vec<(&str, u32)> = keys.iter().map(|key| (*key, 1)).collect();
    let submitted: Vec<Node> =
        (0..3 * keys.len()).map(|index| Node::new(&format!("n/{index}")).account(keys[index % keys.len()])).collect();
    let mut queue = Queue::open(&roomy(&weights), &submitted);
    let granted = queue.grant(2000, 3 * keys.len() as u32, 256).unwrap();
    let accounts: Vec<&str> =
        granted.iter().map(|grant| queue.state.work(&grant.work).unwrap().work.fairness_key.as_str()).collect();
    // Three rounds, each in the order of UTF-8 bytes.
    keys.sort_unstable();
    assert_eq!(accounts, keys.repeat(3));
    queue.check();
    format!(
        "| {} keys such as `*`, `__proto__`, the empty one, one of 128 bytes, 32 emoji, two spellings of é | 3 grants each, in byte order |\n",
        keys.len()
    )
}

/// S-120, S-121: Work whose route a dispatcher may not use is no competitor: the others share as if it were not there, it
/// runs up neither debt nor credit, and each of two dispatchers gets its own targets only.
#[test]
fn unavailable_routes_do_not_compete() {
    routes();
}

pub(super) fn routes() -> String {
    let mut policy = roomy(&[("a", 5), ("b", 3), ("c", 2)]);
    let default = policy["pools"]["default"]["profiles"]["default"].clone();
    policy["pools"]["default"]["profiles"]["other"] = default;
    let far: Vec<Node> = work("c", "c", 20).into_iter().map(|node| node.profile("other")).collect();
    let mut queue = Queue::open(&policy, &[work("a", "a", 60), work("b", "b", 40), far].concat());
    let mut ask = |at: i64, profile: &str, count: u32| {
        let mut parameters = grant_parameters("default", count, count);
        parameters["worker_profiles"] = json!([profile]);
        queue.request(RequestKind::DispatchNext, DISPATCHER, at, &parameters).unwrap();
        tenants(&queue.last_grants())
    };
    let near: Vec<String> = (0..8).flat_map(|step| ask(2000 + step, "default", 8)).collect();
    let indexes: Vec<usize> = near.iter().map(|tenant| "ab".find(tenant.as_str()).unwrap()).collect();
    assert_eq!(counts(2, &indexes), [40, 24]);
    assert_eq!(indexes, fixed(&[5, 3], 64));
    // The second dispatcher, between the first one's grants.
    assert_eq!(ask(3000, "other", 3), ["c", "c", "c"]);
    assert!(ask(3001, "default", 4).iter().all(|tenant| tenant != "c"));
    assert_eq!(ask(3002, "other", 1), ["c"]);
    let open = queue.document()["works"].as_object().unwrap().values().filter(|one| one["attempts"] == 1).count();
    assert_eq!(open, 64 + 3 + 4 + 1);
    "| keys 5:3:2, but the third one's route is not among the dispatcher's | of 64 grants: 40 and 24, as 5:3; a second dispatcher with that route alone gets the third key's Work alone |\n".to_owned()
}

/// S-604: a key's weight is its share within a class; a tenant that also has Work in classes of its own gets their turns
/// as well.
#[test]
fn shares_are_within_a_class() {
    classes();
}

pub(super) fn classes() -> String {
    let mut policy = roomy(&[("one", 1), ("wide", 1)]);
    policy["class_weights"] = json!([1, 1, 1, 1, 1]);
    let mut submitted = [work("one", "one", 40), work("wide", "wide", 40)].concat();
    for class in [4, 5] {
        submitted.extend(work(&format!("wide{class}"), "wide", 40).into_iter().map(|node| node.priority(class)));
    }
    let mut queue = Queue::open(&policy, &submitted);
    let winners: Vec<String> = (0..6).flat_map(|step| tenants(&queue.grant(2000 + step, 10, 10).unwrap())).collect();
    let shares = tally(&winners);
    assert_eq!((shares["one"], shares["wide"], shares["wide4"], shares["wide5"]), (10, 10, 20, 20));
    "| equal weights and equal classes; one tenant is in class 3 only, the other in 3, 4 and 5 | of 60 grants: 10 and 10 in class 3, 20 and 20 in the others: 10 against 50 in all |\n".to_owned()
}

/// A grant that is never delivered is charged like any other: cancelling gives no turn back, so nobody can try again at
/// the others' expense.
#[test]
fn failing_work_pays_its_turns() {
    let mut queue = Queue::open(
        &roomy(&[("flaky", 1), ("good", 1)]),
        &[work("flaky", "flaky", 30), work("good", "good", 30)].concat(),
    );
    let mut winners = Vec::new();
    for step in 0..20 {
        let at = 2000 + 100 * step;
        let grant = queue.grant(at, 1, 1).unwrap().remove(0);
        winners.extend(tenants(std::slice::from_ref(&grant)));
        if grant.node.starts_with("flaky") {
            queue.cancel_claim(&grant, at + 1, at + 30_001).unwrap();
            queue.cancel_work(ADMINISTRATOR, &grant.work, at + 2).unwrap();
        }
    }
    let shares = tally(&winners);
    assert_eq!((shares["flaky"], shares["good"]), (10, 10));
    assert_eq!(nodes(&queue.grant(9000, 1, 1).unwrap()), ["flaky/10"]);
}
