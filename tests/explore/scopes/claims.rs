//! Searches about one Claim's life: grant, launch, finish, release, delivery, retry.

use super::{FIRST, OWN, accounts, batching, policy};
use crate::kinds::{Kind, Proof, Run, TICK, slot};
use crate::search::Scope;
use crate::support::built::Node;

pub(super) fn race() -> Scope {
    Scope {
        name: "grant race",
        about: "two dispatchers for the last slot, the second Work behind the first",
        policy: policy(1, 1, 3),
        nodes: vec![Node::new("a"), Node::new("b").after("a")],
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 2, dispatches: 2 }).split().lossy(),
            slot("D2 grant", Kind::Grant { claims: 1, dispatches: 1 }).split().lossy(),
            slot("D3 reuse", Kind::Reuse { slot: 0 }),
            slot("A cancel a", Kind::CancelWork { node: "a", fence: None }).split(),
            slot("A pause", Kind::PauseGrants(true)).split(),
        ],
        ticks: 0,
        reaches: &[
            ("D1 grant", "written"),
            ("D1 grant", "recovered"),
            ("D1 grant", "conflict"),
            ("D1 grant", "grants_paused"),
            ("D2 grant", "capacity_blocked"),
            ("D3 reuse", "request_reused"),
        ],
    }
}

pub(super) fn packing() -> Scope {
    Scope {
        name: "packing",
        about: "batches of two, two accounts with a limit each, a dispatch budget and three native slots",
        policy: batching(accounts(policy(4, 3, 3), Some(2)), 2),
        nodes: ["a", "b", "c"]
            .iter()
            .map(|key| Node::new(key))
            .chain(["x", "y"].map(|key| Node::new(key).account("x")))
            .collect(),
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 5, dispatches: 1 }).split(),
            slot("D2 grant", Kind::Grant { claims: 2, dispatches: 2 }).split(),
            slot("D3 grant", Kind::Grant { claims: 5, dispatches: 5 }).split(),
            slot("A cancel a", Kind::CancelWork { node: "a", fence: None }),
            slot("A cancel x", Kind::CancelWork { node: "x", fence: None }),
            slot("A y first", Kind::Priority { node: "y", expected: 3, priority: 1 }),
        ],
        ticks: 0,
        reaches: &[("D1 grant", "written"), ("D3 grant", "capacity_blocked"), ("A y first", "ownership_terminal")],
    }
}

pub(super) fn launch() -> Scope {
    Scope {
        name: "launch",
        about: "grant, start marker and POST, each with crash and lost answers; an operator starts the same dispatch",
        policy: policy(1, 1, 3),
        nodes: vec![Node::new("a")],
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 1, dispatches: 1 }).split().lossy(),
            slot("D1 start", Kind::Start { of: FIRST, permit: true }).split().lossy(),
            slot("O start", Kind::Start { of: FIRST, permit: false }).split().lossy(),
            slot("D1 doubt", Kind::Uncertain { of: FIRST, start: 1 }),
            slot("R reject", Kind::Reject { of: FIRST }),
            slot("W bind", Kind::Bind { of: FIRST, run: OWN }),
            slot("S bind", Kind::Bind { of: FIRST, run: Run::Stray }),
            slot("A pause", Kind::PauseGrants(true)),
        ],
        ticks: 0,
        reaches: &[
            ("D1 grant", "recovered"),
            ("D1 start", "recovered"),
            ("D1 start", "dispatch_invalid"),
            ("D1 start", "grants_paused"),
            ("O start", "written"),
            ("D1 doubt", "written"),
            ("W bind", "written"),
            ("W bind", "run_binding_conflict"),
            ("R reject", "written"),
        ],
    }
}

pub(super) fn finish() -> Scope {
    Scope {
        name: "finish",
        about: "a worker completes, cancels or is cancelled, and another run tries the same",
        policy: policy(1, 2, 3),
        nodes: vec![Node::new("a")],
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 1, dispatches: 1 }),
            slot("D1 start", Kind::Start { of: FIRST, permit: true }),
            slot("W bind", Kind::Bind { of: FIRST, run: OWN }),
            slot("W complete", Kind::Finish { of: FIRST, run: OWN, outcome: "completed" }).split().lossy(),
            slot("W cancel", Kind::Finish { of: FIRST, run: OWN, outcome: "cancelled" }).split(),
            slot("S complete", Kind::Finish { of: FIRST, run: Run::Stray, outcome: "completed" }),
            slot("A cancel a", Kind::CancelWork { node: "a", fence: None }).split(),
            slot("A cancel claim", Kind::CancelWork { node: "a", fence: Some(FIRST) }).split(),
            slot("R cancel claim", Kind::CancelClaim { of: FIRST, backoff: TICK }),
            slot("D2 grant", Kind::Grant { claims: 1, dispatches: 1 }),
        ],
        ticks: 1,
        reaches: &[
            ("W complete", "written"),
            ("W complete", "recovered"),
            ("W complete", "claim_ineffective"),
            ("W cancel", "written"),
            ("S complete", "run_binding_conflict"),
            ("A cancel a", "written"),
            ("A cancel a", "work_terminal"),
            ("A cancel claim", "claim_scope_invalid"),
            ("D2 grant", "written"),
        ],
    }
}

pub(super) fn release() -> Scope {
    let proof = |name, proof, cancel| slot(name, Kind::Release { of: FIRST, proof, cancel });
    Scope {
        name: "release",
        about: "every kind of evidence, fitting or not, offered at every point of a dispatch's life",
        policy: policy(1, 1, 3),
        nodes: vec![Node::new("a")],
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 1, dispatches: 1 }),
            slot("D1 start", Kind::Start { of: FIRST, permit: true }).lossy(),
            slot("W bind", Kind::Bind { of: FIRST, run: OWN }),
            slot("W complete", Kind::Finish { of: FIRST, run: OWN, outcome: "completed" }),
            proof("R unlaunched", Proof::Prelaunch, true).split(),
            proof("R absent", Proof::Nonlaunch, true).split(),
            proof("R ended", Proof::Terminal, true),
            proof("R ended early", Proof::Terminal, false),
            proof("R other ended", Proof::TerminalOfStray, true),
            proof("R ahead", Proof::TerminalAhead, true),
            proof("R looked", Proof::Reconciliation, true),
        ],
        ticks: 0,
        reaches: &[
            ("R unlaunched", "written"),
            ("R unlaunched", "evidence_invalid"),
            ("R unlaunched", "release_invalid"),
            ("R absent", "written"),
            ("R absent", "evidence_invalid"),
            ("R ended", "written"),
            ("R ended early", "release_invalid"),
            ("R other ended", "evidence_invalid"),
            ("R ahead", "evidence_invalid"),
            ("R looked", "release_invalid"),
        ],
    }
}

pub(super) fn late_worker() -> Scope {
    Scope {
        name: "late worker",
        about: "a reservation is freed while the POST is still under way; the Work is granted again; the first worker wakes",
        policy: policy(1, 1, 2),
        nodes: vec![Node::new("a")],
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 1, dispatches: 1 }),
            slot("D1 start", Kind::Start { of: FIRST, permit: true }),
            slot("R absent", Kind::Release { of: FIRST, proof: Proof::Nonlaunch, cancel: true }).split(),
            slot("R ended", Kind::Release { of: FIRST, proof: Proof::Terminal, cancel: false }),
            slot("W1 bind", Kind::Bind { of: FIRST, run: OWN }),
            slot("W1 complete", Kind::Finish { of: FIRST, run: OWN, outcome: "completed" }).split(),
            slot("R cancel", Kind::CancelClaim { of: FIRST, backoff: TICK }),
            slot("D2 grant", Kind::Grant { claims: 1, dispatches: 1 }),
            slot("D2 start", Kind::Start { of: (7, 1), permit: true }),
            slot("W2 bind", Kind::Bind { of: (7, 1), run: OWN }),
            slot("W2 complete", Kind::Finish { of: (7, 1), run: OWN, outcome: "completed" }),
        ],
        ticks: 1,
        reaches: &[
            ("R absent", "written"),
            ("W1 bind", "dispatch_invalid"),
            ("W1 complete", "claim_ineffective"),
            ("D2 grant", "written"),
            ("D2 grant", "no_eligible_work"),
            ("W2 complete", "written"),
        ],
    }
}

pub(super) fn bindings() -> Scope {
    let second = (0, 2);
    Scope {
        name: "bindings",
        about: "two dispatches of one grant, their own runs, and a stray run that tries to bind to both",
        policy: policy(2, 2, 3),
        nodes: vec![Node::new("a"), Node::new("b")],
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 2, dispatches: 2 }),
            slot("D1 start 1", Kind::Start { of: FIRST, permit: true }).lossy(),
            slot("D1 start 2", Kind::Start { of: second, permit: true }).lossy(),
            slot("W1 bind", Kind::Bind { of: FIRST, run: OWN }).split(),
            slot("W2 bind", Kind::Bind { of: second, run: OWN }),
            slot("S bind 1", Kind::Bind { of: FIRST, run: Run::Stray }).split(),
            slot("S bind 2", Kind::Bind { of: second, run: Run::Stray }).split(),
        ],
        ticks: 0,
        reaches: &[
            ("W1 bind", "written"),
            ("W1 bind", "run_binding_conflict"),
            ("S bind 1", "written"),
            ("S bind 2", "run_binding_conflict"),
        ],
    }
}

pub(super) fn delivery() -> Scope {
    let second = (4, 1);
    Scope {
        name: "delivery",
        about: "Result against DeliveryFailure, a Result in another Claim's name, and a successor that waits",
        policy: policy(2, 3, 3),
        nodes: vec![Node::new("a"), Node::new("b").after("a"), Node::new("c")],
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 1, dispatches: 1 }),
            slot("D1 start", Kind::Start { of: FIRST, permit: true }),
            slot("W1 bind", Kind::Bind { of: FIRST, run: OWN }),
            slot("W1 complete", Kind::Finish { of: FIRST, run: OWN, outcome: "completed" }),
            slot("D2 grant", Kind::Grant { claims: 2, dispatches: 2 }),
            slot("D2 start", Kind::Start { of: second, permit: true }),
            slot("W2 bind", Kind::Bind { of: second, run: OWN }),
            slot("R result", Kind::Result { of: FIRST, by: FIRST }).split().lossy(),
            slot("R result of c", Kind::Result { of: FIRST, by: second }),
            slot("R failure", Kind::Failure { of: FIRST, attempts: 5, clean: false }).split(),
            slot("R hasty failure", Kind::Failure { of: FIRST, attempts: 4, clean: false }),
            slot("A cancel a", Kind::CancelWork { node: "a", fence: None }),
        ],
        ticks: 0,
        reaches: &[
            ("R result", "written"),
            ("R result", "recovered"),
            ("R result", "delivery_conflict"),
            ("R result of c", "delivery_conflict"),
            ("R failure", "written"),
            ("R failure", "delivery_conflict"),
            ("R hasty failure", "reconciliation_pending"),
            ("A cancel a", "work_terminal"),
        ],
    }
}

pub(super) fn debt() -> Scope {
    let account = |key: &str| Node::new(key).account("x");
    Scope {
        name: "debt",
        about: "grants among two accounts and two priorities, with pauses, changed priorities and cancellations between",
        policy: accounts(policy(2, 8, 3), None),
        nodes: vec![Node::new("a"), account("x"), account("y"), Node::new("low").priority(5)],
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 1, dispatches: 1 }),
            slot("D2 grant", Kind::Grant { claims: 2, dispatches: 2 }),
            slot("D3 grant", Kind::Grant { claims: 1, dispatches: 1 }),
            slot("A pause", Kind::PauseGrants(true)),
            slot("A raise low", Kind::Priority { node: "low", expected: 5, priority: 2 }),
            slot("A lower low", Kind::Priority { node: "low", expected: 2, priority: 4 }),
            slot("R cancel claim", Kind::CancelClaim { of: FIRST, backoff: TICK }),
        ],
        ticks: 1,
        reaches: &[
            ("D2 grant", "written"),
            ("D3 grant", "grants_paused"),
            ("D3 grant", "capacity_blocked"),
            ("A lower low", "priority_conflict"),
            ("A lower low", "written"),
            ("R cancel claim", "written"),
        ],
    }
}

pub(super) fn retry() -> Scope {
    Scope {
        name: "retry",
        about: "backoff and the last of two attempts, ended by reconciler and worker",
        policy: policy(2, 8, 2),
        nodes: vec![Node::new("a")],
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 1, dispatches: 1 }),
            slot("R cancel 1", Kind::CancelClaim { of: FIRST, backoff: TICK }).split(),
            slot("R hasty cancel 1", Kind::CancelClaim { of: FIRST, backoff: TICK - 1 }),
            slot("D2 grant", Kind::Grant { claims: 1, dispatches: 1 }),
            slot("R cancel 2", Kind::CancelClaim { of: (3, 1), backoff: TICK }).split(),
            slot("D3 grant", Kind::Grant { claims: 1, dispatches: 1 }),
            slot("D2 start", Kind::Start { of: (3, 1), permit: true }),
            slot("W2 bind", Kind::Bind { of: (3, 1), run: OWN }),
            slot("W2 cancel", Kind::Finish { of: (3, 1), run: OWN, outcome: "cancelled" }).split(),
        ],
        ticks: 3,
        reaches: &[
            ("R hasty cancel 1", "retry_invalid"),
            ("D2 grant", "written"),
            ("D2 grant", "no_eligible_work"),
            ("R cancel 2", "retry_exhausted"),
            ("W2 cancel", "written"),
            ("D3 grant", "no_work"),
        ],
    }
}

pub(super) fn children() -> Scope {
    Scope {
        name: "children",
        about: "a worker's submissions before, under and after its own Completion; admission pauses",
        policy: policy(2, 4, 3),
        nodes: vec![Node::new("a")],
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 1, dispatches: 1 }),
            slot("D1 start", Kind::Start { of: FIRST, permit: true }),
            slot("W bind", Kind::Bind { of: FIRST, run: OWN }),
            slot("W child", Kind::Child { of: FIRST, priority: 3 }).split(),
            slot("W better child", Kind::Child { of: FIRST, priority: 1 }),
            slot("W complete", Kind::Finish { of: FIRST, run: OWN, outcome: "completed" }).split(),
            slot("R result", Kind::Result { of: FIRST, by: FIRST }),
            slot("R failure", Kind::Failure { of: FIRST, attempts: 5, clean: false }),
            slot("R ended", Kind::Release { of: FIRST, proof: Proof::Terminal, cancel: false }),
            slot("A pause", Kind::PauseAdmission(true)),
            slot("P submit", Kind::Submit { node: "new" }),
        ],
        ticks: 0,
        reaches: &[
            ("W child", "written"),
            ("W child", "claim_effects_unauthorized"),
            ("W child", "claim_ineffective"),
            ("W child", "admission_paused"),
            ("W better child", "child_entitlement"),
            ("P submit", "written"),
            ("P submit", "admission_paused"),
        ],
    }
}

pub(super) fn budget() -> Scope {
    let mut policy = policy(4, 8, 2);
    policy["limits"]["recovery_bytes"] = 215_000.into();
    Scope {
        name: "budget",
        about: "a recovery reserve that takes no more than two or three open obligations",
        policy,
        nodes: vec![Node::new("a"), Node::new("b")],
        slots: vec![
            slot("D1 grant", Kind::Grant { claims: 1, dispatches: 1 }),
            slot("D2 grant", Kind::Grant { claims: 1, dispatches: 1 }).split(),
            slot("P submit", Kind::Submit { node: "new" }).split(),
            slot("D1 start", Kind::Start { of: FIRST, permit: true }),
            slot("W bind", Kind::Bind { of: FIRST, run: OWN }),
            slot("W complete", Kind::Finish { of: FIRST, run: OWN, outcome: "completed" }),
            slot("R result", Kind::Result { of: FIRST, by: FIRST }),
            slot("R ended", Kind::Release { of: FIRST, proof: Proof::Terminal, cancel: false }),
            slot("A cancel b", Kind::CancelWork { node: "b", fence: None }),
        ],
        ticks: 0,
        reaches: &[
            ("D2 grant", "ledger_limit"),
            ("D2 grant", "written"),
            ("P submit", "ledger_limit"),
            ("P submit", "written"),
        ],
    }
}
