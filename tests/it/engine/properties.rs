//! What holds for any ledger: line order and repetition do not matter, truncation is a prefix or a refusal, questions
//! change nothing, and pools do not disturb one another.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use wq_action::engine::{Decision, replay};
use wq_action::protocol::At;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::{LedgerFault, LedgerText};
use wq_action::protocol::request::RequestKind;

use super::corpus_replay::predict;
use super::naive::Naive;
use super::planner::{asks, prediction};
use crate::support::built::{DISPATCHER, Grant, Node, Queue, aw_policy, grant_parameters, nodes, seen};
use crate::support::corpus::{CorpusCase, load_corpus};

fn projection(bytes: Vec<u8>, host: &str) -> Result<String, LedgerFault> {
    replay(&LedgerText::new(bytes)?, &mut Scanner::new(host)).map(|state| state.serialise())
}

/// Short ledgers of the corpus that this version supports, whole, as lines.
fn supported() -> Vec<(CorpusCase, Vec<String>)> {
    let cases = load_corpus().into_iter().filter(|case| case.text.len() < 100_000);
    cases
        .map(|case| {
            let lines = std::str::from_utf8(&case.text).unwrap().lines().map(str::to_owned).collect();
            (case, lines)
        })
        .collect()
}

/// S-035: any order and any repetition of the lines gives the same projection, and so every later answer.
#[test]
fn order_and_repetition_of_lines_do_not_matter() {
    let cases = supported();
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(4) });
    for (case, lines) in &cases {
        let host = case.expect["host"].as_str().unwrap();
        let expected = projection(case.text.clone(), host).unwrap();
        let disturbed = (0..lines.len(), Just(lines.clone()).prop_shuffle(), 0..3_usize);
        runner
            .run(&disturbed, |(again, mut lines, copies)| {
                let repeated = lines[again].clone();
                (0..copies).for_each(|copy| lines.insert(copy * 5 % lines.len(), repeated.clone()));
                let text = lines.join("\n") + "\n";
                prop_assert_eq!(&projection(text.into_bytes(), host).unwrap(), &expected);
                Ok(())
            })
            .unwrap_or_else(|failure| panic!("{}: {failure}", case.name));
    }
}

/// S-049, S-555: a truncated ledger is refused, unless it ends with a whole line; then it is that prefix. Removing any
/// line but the last is refused.
#[test]
fn truncations_are_prefixes_or_refusals() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(40) });
    for (case, lines) in supported().iter().take(8) {
        let host = case.expect["host"].as_str().unwrap();
        runner
            .run(&(1..case.text.len()), |cut| {
                let outcome = projection(case.text[..cut].to_vec(), host);
                if case.text[cut - 1] == b'\n' {
                    prop_assert!(outcome.is_ok());
                } else {
                    prop_assert_eq!(outcome.unwrap_err().fault.code().as_str(), "ledger_invalid");
                }
                Ok(())
            })
            .unwrap();
        for gap in 0..lines.len() - 1 {
            let rest: String =
                lines.iter().enumerate().filter(|(at, _)| *at != gap).map(|(_, line)| format!("{line}\n")).collect();
            let fault = projection(rest.into_bytes(), host).unwrap_err();
            assert_eq!(fault.fault.code().as_str(), "ledger_invalid", "{} without line {}", case.name, gap + 1);
        }
    }
}

pub(super) fn busy_policy() -> Value {
    let mut policy = aw_policy();
    policy["accounting_weights"] = json!({"": 1, "a": 3, "b": 2});
    policy["pools"]["default"]["logical_limit"] = 5.into();
    policy["pools"]["default"]["per_account_limit"] = 3.into();
    policy["pools"]["default"]["native_limit"] = 4.into();
    policy["pools"]["default"]["profiles"]["default"]["max_claims"] = 2.into();
    policy["pools"]["other"] = policy["pools"]["default"].clone();
    policy
}

pub(super) fn strategy_nodes() -> impl Strategy<Value = Vec<Node>> {
    let node = (1..=5_i64, prop_oneof![Just(""), Just("a"), Just("b")], any::<bool>(), any::<bool>());
    proptest::collection::vec(node, 4..14).prop_map(|nodes| {
        let build = |(index, (priority, key, gated, chained)): (usize, (i64, &str, bool, bool))| {
            let node = Node::new(&format!("n{index}")).priority(priority).account(key);
            let node = if gated { node.gate(5, "closed") } else { node };
            if chained && index > 0 { node.after(&format!("n{}", index - 1)) } else { node }
        };
        nodes.into_iter().enumerate().map(build).collect()
    })
}

/// A step of a random run of a queue.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Grant(u32, u32),
    Deliver(usize),
    /// Completed with the Work kept open; settled, failed or left pending.
    Keep(usize, u8),
    Deploy(u8, bool),
    Cancel(usize, i64),
    CancelWork(usize),
    Prioritise(usize, i64),
    Observe,
    Pause(bool),
}

pub(super) fn strategy_steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..6_u32, 1..4_u32).prop_map(|(claims, dispatches)| Step::Grant(claims, dispatches)),
        3 => (0..9_usize).prop_map(Step::Deliver),
        2 => (0..9_usize, 0..3_u8).prop_map(|(claim, end)| Step::Keep(claim, end)),
        1 => (0..3_u8, any::<bool>()).prop_map(|(revision, available)| Step::Deploy(revision, available)),
        2 => (0..9_usize, 0..3_i64).prop_map(|(claim, delay)| Step::Cancel(claim, delay)),
        1 => (0..14_usize).prop_map(Step::CancelWork),
        1 => (0..14_usize, 1..=5_i64).prop_map(|(node, priority)| Step::Prioritise(node, priority)),
        1 => Just(Step::Observe),
        1 => any::<bool>().prop_map(Step::Pause),
    ];
    proptest::collection::vec(step, 1..16)
}

/// Takes a step; refusals are part of the game.
pub(super) fn take(queue: &mut Queue, step: &Step, at: i64, open: &mut Vec<Grant>) {
    let _ = match step {
        Step::Grant(claims, dispatches) => queue.grant(at, *claims, *dispatches).map(|grants| open.extend(grants)),
        Step::Deliver(index) if *index < open.len() => {
            let grant = open.remove(*index);
            queue.deliver(&grant, at)
        }
        Step::Keep(index, end) if *index < open.len() => {
            let grant = open.remove(*index);
            let kept = queue.start(&grant, at).and_then(|()| queue.bind(&grant, at)).and_then(|()| {
                queue.keep_open(&grant, at)?;
                match end {
                    0 => queue.result(&grant, at),
                    1 => queue.fail(&grant, at, "unknown", &json!({"attempts": 5})),
                    _ => Ok(()),
                }
            });
            kept.and_then(|()| queue.release(&grant, at))
        }
        Step::Deploy(revision, available) => {
            // Revision 2 has another contract, so Work admitted before it waits.
            let contract = if *revision == 2 { "d" } else { "c" };
            super::deployments::deploy(queue, "default", &revision.to_string(), contract, *available, at)
        }
        Step::Cancel(index, delay) if *index < open.len() => {
            let grant = open.remove(*index);
            queue.cancel_claim(&grant, at, at + 30_000 + delay)
        }
        Step::CancelWork(node) => {
            let work = Node::new(&format!("n{node}")).id();
            queue.cancel_work(crate::support::built::ADMINISTRATOR, &work, at)
        }
        Step::Prioritise(node, priority) => {
            let key = format!("n{node}");
            let expected = queue.work(&key)["effective_priority"].as_i64().or(queue.work(&key)["priority"].as_i64());
            let operation = json!({"kind": "WorkPriority", "work_id": Node::new(&key).id(), "priority": priority,
                "expected_priority": expected.unwrap_or(3), "reason": "test"});
            let administrator = crate::support::built::ADMINISTRATOR;
            queue.operate(RequestKind::Control, administrator, at, &[operation])
        }
        Step::Observe => {
            let observation = seen(&format!("seen-{at}"), 5, "closed", at, &json!({}));
            queue.operate(RequestKind::Observe, crate::support::built::RECONCILER, at, &[observation])
        }
        Step::Pause(paused) => queue.control("grants_paused", &json!(paused), at),
        _ => Ok(()),
    };
}

/// S-097, S-113, S-136: evaluations, granted or not, refused or not, leave the state as it was until they are
/// published, and an id that granted nothing can be used again.
#[test]
fn questions_change_nothing() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(40) });
    let run = runner.run(&(strategy_nodes(), strategy_steps()), |(nodes, steps)| {
        let mut queue = Queue::open(&busy_policy(), &nodes);
        let mut open = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let at = 10_000 + 20_000 * index as i64;
            let before = queue.state.serialise();
            let (text, time) = (queue.text.clone(), At::new(at).unwrap());
            for (claims, dispatches) in [(1, 1), (16, 2)] {
                let parameters = grant_parameters("default", claims, dispatches);
                let _ = queue.decide(RequestKind::DispatchNext, DISPATCHER, at, &parameters);
            }
            for work in queue.state.works() {
                let _ = queue.state.explain_work(work, time);
                let _ = queue.state.view_work(work, time, None);
            }
            let _ = queue.state.explain_pool("default", time);
            prop_assert_eq!(&queue.state.serialise(), &before);
            take(&mut queue, step, at, &mut open);
            if queue.text == text {
                prop_assert_eq!(&queue.state.serialise(), &before);
            }
        }
        queue.check();
        Ok(())
    });
    run.unwrap_or_else(|failure| panic!("{failure}"));
}

/// S-115: on any reachable state, with gates, caps, delays and batches, the planner's answer is that of a scan over
/// everything.
#[test]
fn plans_equal_a_scan_on_any_state() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(60) });
    let run = runner.run(&(strategy_nodes(), strategy_steps()), |(nodes, steps)| {
        let mut queue = Queue::open(&busy_policy(), &nodes);
        let mut open = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let at = 10_000 + 20_000 * index as i64;
            take(&mut queue, step, at, &mut open);
            let document = queue.document();
            let naive = Naive::new(&document);
            prop_assert_eq!(queue.state.headroom(), naive.headroom());
            for ask in asks(&queue.state, &document, at) {
                let expected = naive.plan(&ask, "plan \\ request", "commit");
                prop_assert_eq!(predict(&queue.state, &prediction(&ask)), expected, "{:?}", ask);
            }
        }
        Ok(())
    });
    run.unwrap_or_else(|failure| panic!("{failure}"));
}

/// S-055, S-130: whatever happens, no limit is exceeded and no Work has two owners.
#[test]
fn no_limit_is_ever_exceeded() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(60) });
    let run = runner.run(&(strategy_nodes(), strategy_steps()), |(nodes, steps)| {
        let mut queue = Queue::open(&busy_policy(), &nodes);
        let mut open = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            take(&mut queue, step, 10_000 + 20_000 * index as i64, &mut open);
            let document = queue.document();
            let claims: Vec<&Value> = document["claims"].as_object().unwrap().values().collect();
            let live: Vec<&&Value> = claims.iter().filter(|claim| claim["state"] == "open").collect();
            prop_assert!(live.len() <= 5);
            for key in ["", "a", "b"] {
                let of_key =
                    |claim: &&&&Value| document["works"][claim["work_id"].as_str().unwrap()]["fairness_key"] == key;
                prop_assert!(live.iter().filter(of_key).count() <= 3);
            }
            let held = document["dispatches"].as_object().unwrap().values().filter(|one| one["released"] == false);
            prop_assert!(held.count() <= 4);
            let mut owned: Vec<&str> = live.iter().map(|claim| claim["work_id"].as_str().unwrap()).collect();
            owned.sort_unstable();
            prop_assert!(owned.windows(2).all(|pair| pair[0] != pair[1]));
        }
        Ok(())
    });
    run.unwrap_or_else(|failure| panic!("{failure}"));
}

/// A pool's answers depend on that pool alone: whatever is submitted, granted and delivered in another.
#[test]
fn other_pools_do_not_matter() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(30) });
    let run = runner.run(&(strategy_nodes(), strategy_steps(), 1..6_u32), |(nodes, steps, others)| {
        let mut alone = Queue::open(&busy_policy(), &nodes);
        let mut beside = alone.clone();
        let foreign: Vec<Node> =
            (0..others).map(|n| Node::new(&format!("o{n}")).graph("far").with("pool", "other")).collect();
        beside.submit(crate::support::built::PRODUCER, 2000, &foreign).unwrap();
        let (mut open, mut open_beside) = (Vec::new(), Vec::new());
        for (index, step) in steps.iter().enumerate() {
            let at = 10_000 + 20_000 * index as i64;
            take(&mut alone, step, at, &mut open);
            if let Ok(grants) = beside.grant_from("other", at - 9, 1, 1) {
                beside.deliver(&grants[0], at - 8).unwrap();
            }
            take(&mut beside, step, at, &mut open_beside);
            prop_assert_eq!(names(&open), names(&open_beside));
            let parameters = grant_parameters("default", 9, 9);
            let (a, b) = (grant_view(&mut alone, at, &parameters), grant_view(&mut beside, at, &parameters));
            prop_assert_eq!(a, b);
        }
        Ok(())
    });
    run.unwrap_or_else(|failure| panic!("{failure}"));
}

fn names(grants: &[Grant]) -> Vec<String> {
    nodes(grants).into_iter().map(str::to_owned).collect()
}

/// The winners of a decision and what ended it.
fn grant_view(queue: &mut Queue, at: i64, parameters: &Value) -> (Vec<String>, String) {
    match queue.decide(RequestKind::DispatchNext, DISPATCHER, at, parameters) {
        Ok(Decision::Publish(generated)) => {
            let state = &generated.next;
            let granted = state.granted(state.requests().last().unwrap()).iter();
            let works = granted.map(|claim| claim.claim.work_id.as_str().to_owned()).collect();
            (works, generated.stopped.unwrap().0.to_owned())
        }
        Ok(Decision::Nothing { reason, .. } | Decision::Done { reason, .. }) => (Vec::new(), reason.to_owned()),
        Err(code) => (Vec::new(), code),
    }
}

/// S-108, S-110: a Policy of 1,024 keys whose weights take every value from 1 to 1,000 is scheduled as by a scan that
/// counts in big integers of its own.
#[test]
fn every_weight_at_once_agrees_with_a_scan() {
    let mut policy = busy_policy();
    let key = |n: usize| if n == 0 { String::new() } else { format!("k{n:04}") };
    policy["accounting_weights"] = (0..1024).map(|n| (key(n), json!(n % 1000 + 1))).collect();
    let pool = &mut policy["pools"]["default"];
    for limit in ["logical_limit", "native_limit", "per_account_limit"] {
        pool[limit] = 4096.into();
    }
    pool["retry"]["max_attempts"] = 1.into();
    pool["reconciliation"]["max_attempts"] = 1.into();
    let submitted: Vec<Node> =
        (0..160_usize).map(|n| Node::new(&format!("n{n:03}")).account(&key(n * 37 % 41 * 25)).priority(2)).collect();
    let mut queue = Queue::open(&policy, &submitted);
    for at in 0..4 {
        assert_eq!(queue.grant(2000 + at, 10, 10).unwrap().len(), 10);
        let document = queue.document();
        let naive = Naive::new(&document);
        for ask in asks(&queue.state, &document, 3000) {
            let expected = naive.plan(&ask, "plan \\ request", "commit");
            assert_eq!(predict(&queue.state, &prediction(&ask)), expected, "{ask:?}");
        }
    }
    let v = queue.document()["clocks"]["default"]["keys"]["2"]["v"].as_str().unwrap().to_owned();
    assert!(v.len() > 400, "a scale of 1,438 bits has {} digits", v.len());
}

/// S-057, S-114: a queue that is replayed after 17 grants and continued grants as one that never stopped.
#[test]
fn continuing_from_any_prefix_grants_the_same() {
    let mut policy = busy_policy();
    policy["pools"]["default"]["logical_limit"] = 4096.into();
    policy["pools"]["default"]["native_limit"] = 4096.into();
    policy["pools"]["default"].as_object_mut().unwrap().remove("per_account_limit");
    // Few attempts, so that the reserve of 117 open Claims fits.
    policy["pools"]["default"]["retry"]["max_attempts"] = 1.into();
    policy["pools"]["default"]["reconciliation"]["max_attempts"] = 1.into();
    let keys = ["", "a", "b"];
    let submitted: Vec<Node> = (0..117_usize)
        .map(|n| Node::new(&format!("n{n:03}")).priority((n % 5) as i64 + 1).account(keys[n % 3]))
        .collect();
    let mut queue = Queue::open(&policy, &submitted);
    for at in 0..17 {
        queue.grant(2000 + at, 1, 1).unwrap();
    }
    let text = LedgerText::new(queue.text.clone().into_bytes()).unwrap();
    let mut resumed = queue.clone();
    resumed.state = replay(&text, &mut Scanner::new(crate::support::ledger::HOST)).unwrap();
    for at in 0..100 {
        let granted = queue.grant(3000 + at, 1, 1).unwrap();
        assert_eq!(names(&granted), names(&resumed.grant(3000 + at, 1, 1).unwrap()));
    }
    assert_eq!(queue.text, resumed.text);
}
