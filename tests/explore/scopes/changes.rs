//! Searches about what changes around Claims: routes, gates, Policies, deployments, rounds, checkpoints.

use super::claims::bindings;
use super::{FIRST, OWN, batching, policy};
use crate::kinds::{Change, Kind, Proof, TICK, slot};
use crate::search::Scope;
use crate::support::built::Node;

pub(super) fn profiles() -> Scope {
    let mut policy = batching(policy(8, 8, 3), 2);
    let mut other = policy["pools"]["default"]["profiles"]["default"].clone();
    other["workflow"] = ".github/workflows/other.lock.yml".into();
    policy["pools"]["default"]["profiles"]["other"] = other;
    Scope {
        name: "profiles",
        about: "Work of routes X, Y, X, X in turn, batches of two, one to three dispatches for each request",
        policy,
        nodes: vec![Node::new("a"), Node::new("b").profile("other"), Node::new("c"), Node::new("d")],
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 4, dispatches: 3 }).split(),
            slot("D2 grant", Kind::Grant { claims: 3, dispatches: 2 }).split(),
            slot("D3 grant", Kind::Grant { claims: 2, dispatches: 1 }).split(),
            slot("A cancel a", Kind::CancelWork { node: "a", fence: None }),
            slot("A cancel c", Kind::CancelWork { node: "c", fence: None }),
        ],
        ticks: 0,
        reaches: &[("D1 grant", "written"), ("D3 grant", "written"), ("D3 grant", "no_work")],
    }
}

pub(super) fn gates() -> Scope {
    Scope {
        name: "gates",
        about: "an Issue that is seen closed and open again, ages, and is seen under another credential generation",
        policy: policy(2, 2, 3),
        nodes: vec![Node::new("a").gate(7, "completed"), Node::new("b").after("a")],
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 2, dispatches: 2 }).split(),
            slot("O closed", Kind::Observe { id: "closed", closed: true }).split(),
            slot("O open", Kind::Observe { id: "open", closed: false }),
            slot("O closed again", Kind::Observe { id: "again", closed: true }),
            slot("A generation", Kind::Generation("second")),
        ],
        ticks: 3,
        reaches: &[("D1 grant", "written"), ("D1 grant", "no_eligible_work"), ("O closed", "observation_invalid")],
    }
}

pub(super) fn replacement() -> Scope {
    Scope {
        name: "replacement",
        about: "a failed delivery with and without possible effects, a Result instead, and nodes that would replace the Work",
        policy: policy(1, 2, 3),
        nodes: vec![Node::new("a"), Node::new("b").after("a")],
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 1, dispatches: 1 }),
            slot("D1 start", Kind::Start { of: FIRST, permit: true }),
            slot("W bind", Kind::Bind { of: FIRST, run: OWN }),
            slot("W complete", Kind::Finish { of: FIRST, run: OWN, outcome: "completed" }),
            slot("R failure", Kind::Failure { of: FIRST, attempts: 5, clean: false }).split(),
            slot("R clean failure", Kind::Failure { of: FIRST, attempts: 5, clean: true }).split(),
            slot("R result", Kind::Result { of: FIRST, by: FIRST }),
            slot("P replace", Kind::Replace { of: FIRST, priority: 3 }).split(),
            slot("P replace better", Kind::Replace { of: FIRST, priority: 1 }),
            slot("D2 grant", Kind::Grant { claims: 2, dispatches: 2 }),
        ],
        ticks: 0,
        reaches: &[
            ("R failure", "written"),
            ("R clean failure", "written"),
            ("R clean failure", "delivery_conflict"),
            ("P replace", "written"),
            ("P replace", "replacement_invalid"),
            ("P replace", "remediation_verifier_required"),
            ("P replace better", "replacement_invalid"),
            ("D2 grant", "written"),
        ],
    }
}

pub(super) fn policies() -> Scope {
    Scope {
        name: "policy",
        about: "a new Policy while Work is open, settled, or still holds a reservation; a worker of the old epoch",
        policy: policy(1, 1, 3),
        nodes: vec![Node::new("a")],
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 1, dispatches: 1 }),
            slot("D1 start", Kind::Start { of: FIRST, permit: true }),
            slot("W bind", Kind::Bind { of: FIRST, run: OWN }),
            slot("W complete", Kind::Finish { of: FIRST, run: OWN, outcome: "completed" }),
            slot("R result", Kind::Result { of: FIRST, by: FIRST }),
            slot("R ended", Kind::Release { of: FIRST, proof: Proof::Terminal, cancel: false }),
            slot("A cancel a", Kind::CancelWork { node: "a", fence: None }),
            slot("A policy", Kind::Policy { logical: 2 }).split(),
            slot("P submit", Kind::Submit { node: "new" }).split(),
            slot("D2 grant", Kind::Grant { claims: 1, dispatches: 1 }),
        ],
        ticks: 0,
        reaches: &[("A policy", "written"), ("A policy", "policy_not_quiescent"), ("D2 grant", "written")],
    }
}

pub(super) fn deployment() -> Scope {
    let old = ('0', 'c');
    let deploy = |name, expected, revision, change| slot(name, Kind::Deploy { expected, revision, change });
    Scope {
        name: "deployment",
        about: "two administrators deploy over each other: same contract, other contract, paused, widened, rewritten; pinned and free Work",
        policy: policy(2, 2, 3),
        nodes: vec![Node::new("a"), Node::new("pinned").with("execution_ref", "0".repeat(40))],
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 1, dispatches: 1 }),
            slot("D2 grant", Kind::Grant { claims: 2, dispatches: 2 }),
            deploy("A deploy 1", old, ('1', 'c'), Change::Activate).split(),
            deploy("B deploy 2", old, ('2', 'd'), Change::Activate).split(),
            deploy("A pause 0", ('1', 'c'), old, Change::Pause),
            deploy("A widen", old, ('3', 'c'), Change::Widen),
            deploy("A rewrite 0", old, ('0', 'd'), Change::Activate),
            slot("P submit", Kind::Submit { node: "new" }),
            slot("D1 start", Kind::Start { of: FIRST, permit: true }),
            slot("W bind", Kind::Bind { of: FIRST, run: OWN }),
            slot("W complete", Kind::Finish { of: FIRST, run: OWN, outcome: "completed" }),
        ],
        ticks: 0,
        reaches: &[
            ("A deploy 1", "written"),
            ("A deploy 1", "deployment_conflict"),
            ("B deploy 2", "written"),
            ("A pause 0", "written"),
            ("A widen", "deployment_invalid"),
            ("A rewrite 0", "deployment_invalid"),
            ("W complete", "written"),
            ("D2 grant", "no_eligible_work"),
        ],
    }
}

pub(super) fn rounds() -> Scope {
    Scope {
        name: "rounds",
        about: "a Completion that keeps its Work open, its delivery, the next grant, and a successor that goes on waiting",
        policy: policy(2, 2, 2),
        nodes: vec![Node::new("a"), Node::new("b").after("a")],
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 1, dispatches: 1 }),
            slot("D1 start", Kind::Start { of: FIRST, permit: true }),
            slot("W1 bind", Kind::Bind { of: FIRST, run: OWN }),
            slot("W1 keep", Kind::Finish { of: FIRST, run: OWN, outcome: "kept completed" }).split().lossy(),
            slot("W1 complete", Kind::Finish { of: FIRST, run: OWN, outcome: "completed" }),
            slot("R result 1", Kind::Result { of: FIRST, by: FIRST }).split(),
            slot("R failure 1", Kind::Failure { of: FIRST, attempts: 5, clean: false }),
            slot("A cancel a", Kind::CancelWork { node: "a", fence: None }),
            slot("D2 grant", Kind::Grant { claims: 2, dispatches: 2 }),
            slot("D2 start", Kind::Start { of: (8, 1), permit: true }),
            slot("W2 bind", Kind::Bind { of: (8, 1), run: OWN }),
            slot("W2 complete", Kind::Finish { of: (8, 1), run: OWN, outcome: "completed" }),
            slot("A compact", Kind::Compact),
            slot("A pause", Kind::PauseGrants(true)),
        ],
        ticks: 0,
        reaches: &[
            ("W1 keep", "written"),
            ("W1 complete", "claim_ineffective"),
            ("R result 1", "written"),
            ("A cancel a", "work_terminal"),
            ("D2 grant", "written"),
            ("W2 complete", "written"),
        ],
    }
}

pub(super) fn compaction() -> Scope {
    Scope {
        name: "compaction",
        about: "checkpoints, one upon the other, at any point of a Claim's life and of its retry; appends that race with them",
        policy: policy(1, 2, 2),
        nodes: vec![Node::new("a"), Node::new("b").after("a")],
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 1, dispatches: 1 }).lossy(),
            slot("D1 start", Kind::Start { of: FIRST, permit: true }),
            slot("W bind", Kind::Bind { of: FIRST, run: OWN }),
            slot("W complete", Kind::Finish { of: FIRST, run: OWN, outcome: "completed" }).split(),
            slot("R result", Kind::Result { of: FIRST, by: FIRST }),
            slot("R ended", Kind::Release { of: FIRST, proof: Proof::Terminal, cancel: true }),
            slot("R cancel", Kind::CancelClaim { of: FIRST, backoff: TICK }),
            slot("A compact", Kind::Compact).split(),
            slot("A compact again", Kind::Compact),
            slot("D2 grant", Kind::Grant { claims: 1, dispatches: 1 }),
        ],
        ticks: 1,
        reaches: &[
            ("A compact", "written"),
            ("A compact", "conflict"),
            ("A compact again", "written"),
            ("D1 grant", "recovered"),
            ("W complete", "written"),
            ("R result", "written"),
            ("D2 grant", "written"),
        ],
    }
}

pub(super) fn compacted_bindings() -> Scope {
    let mut scope = bindings();
    scope.name = "compacted bindings";
    scope.about = "as bindings, with a checkpoint at any point";
    for slot in &mut scope.slots {
        slot.split = false;
    }
    scope.slots.push(slot("A compact", Kind::Compact).split());
    scope.reaches = &[("A compact", "written"), ("S bind 2", "run_binding_conflict"), ("W2 bind", "written")];
    scope
}

/// Everything at once.
pub(super) fn campaign() -> Scope {
    let second = (1, 1);
    Scope {
        name: "campaign",
        about: "two dispatchers, two workers, a reconciler and an administrator over a Work and its successor: launch, delivery, \
                release, cancellation, deployment and compaction",
        policy: policy(1, 2, 2),
        nodes: vec![Node::new("a"), Node::new("b").after("a")],
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 1, dispatches: 1 }).lossy(),
            slot("D2 grant", Kind::Grant { claims: 2, dispatches: 2 }),
            slot("D1 start", Kind::Start { of: FIRST, permit: true }).lossy(),
            slot("D2 start", Kind::Start { of: second, permit: true }),
            slot("W1 bind", Kind::Bind { of: FIRST, run: OWN }),
            slot("W1 complete", Kind::Finish { of: FIRST, run: OWN, outcome: "completed" }),
            slot("R result 1", Kind::Result { of: FIRST, by: FIRST }),
            slot("R absent 1", Kind::Release { of: FIRST, proof: Proof::Nonlaunch, cancel: true }),
            slot("R ended 1", Kind::Release { of: FIRST, proof: Proof::Terminal, cancel: true }),
            slot("W2 bind", Kind::Bind { of: second, run: OWN }),
            slot("W2 complete", Kind::Finish { of: second, run: OWN, outcome: "completed" }),
            slot("A cancel claim", Kind::CancelWork { node: "a", fence: Some(FIRST) }),
            slot("A deploy", Kind::Deploy { expected: ('0', 'c'), revision: ('1', 'c'), change: Change::Activate }),
            slot("A compact", Kind::Compact).split(),
        ],
        ticks: 0,
        reaches: &[
            ("D1 grant", "recovered"),
            ("D1 start", "recovered"),
            ("R absent 1", "written"),
            ("W1 bind", "dispatch_invalid"),
            ("W1 complete", "claim_ineffective"),
            ("R result 1", "written"),
            ("W2 complete", "written"),
            ("A cancel claim", "claim_scope_invalid"),
            ("A deploy", "written"),
            ("A compact", "conflict"),
        ],
    }
}
