//! Every index of the projection, counted again from the states alone after every commit of the corpus.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::{HashMap, HashSet};

use serde_json::{Value, json};

use super::state::{ClaimIx, CommentOwner, Counts, Ownership, Projection, WorkIx};
use crate::protocol::Text;
use crate::protocol::commit::Commit;
use crate::protocol::identity::sha256_hex;
use crate::protocol::json::Scanner;
use crate::protocol::ledger_text::LedgerText;
use crate::protocol::operation::Operation;
use crate::protocol::resource::Edge;

#[allow(dead_code, reason = "the integration tests use the rest")]
#[path = "../../tests/support/corpus.rs"]
mod corpus;

/// By class and account: Work, retry boundary, and whether it has gates.
type Frontier = BTreeMap<(usize, u16), Vec<(WorkIx, i64, bool)>>;

/// Compares what is kept with what is counted; both sides in words.
fn recount(state: &Projection) {
    let Some(installed) = state.installed() else { return assert!(state.works.is_empty()) };
    let mut counts = Counts::default();
    for work in &state.works {
        *match work.ownership {
            Ownership::Available => &mut counts.available,
            Ownership::Claimed(_) => &mut counts.claimed,
            Ownership::Completed { .. } => &mut counts.completed,
            Ownership::Cancelled { .. } => &mut counts.cancelled,
        } += 1;
    }
    assert_eq!(state.counts, counts);
    assert_eq!(state.active_works as usize, state.works.iter().filter(|work| work.is_active()).count());
    assert_eq!(state.unreleased as usize, state.dispatches.iter().filter(|dispatch| !dispatch.released).count());
    let names: Vec<&str> = state.pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(names, installed.policy.pools.keys().map(|name| name.as_str()).collect::<Vec<_>>());
    recount_headroom(state);
    recount_pools(state);
    recount_edges(state);
    recount_graphs(state);
    recount_ids(state);
    recount_issues(state);
}

fn recount_issues(state: &Projection) {
    let mut bound = HashMap::new();
    let mut comments = HashMap::new();
    for (index, work) in state.works.iter().enumerate() {
        let ix = WorkIx(index as u32);
        if let Some(issue) = work.bound_issue() {
            assert_eq!(bound.insert(issue.issue_identity(), ix), None, "an Issue belongs to one Work");
        }
        if let Some(comment) = &work.issue_summary {
            assert_eq!(comments.insert(comment.clone(), CommentOwner::Summary(ix)), None);
        }
    }
    for (index, claim) in state.claims.iter().enumerate() {
        if let Some(comment) = &claim.issue_comment {
            assert_eq!(comments.insert(comment.clone(), CommentOwner::Claim(ClaimIx(index as u32))), None);
        }
    }
    assert_eq!(state.bound_issues, bound);
    assert_eq!(state.comments, comments);
}

/// Engine.md 6.2 and 3.13, in its own words.
fn recount_headroom(state: &Projection) {
    let policy = &state.installed().unwrap().policy;
    let (evidence, result) = (policy.limits.evidence_bytes, policy.limits.result_bytes);
    let works = state.works.iter().filter(|work| work.is_active()).map(|work| {
        let most = policy.pools[&work.work.pool].retry.max_attempts.get() as u64;
        let attempts = match &work.ownership {
            Ownership::Completed { keep_open, .. } => most * u64::from(*keep_open),
            _ => most.saturating_sub(u64::from(work.attempts)),
        };
        let claimed = if work.state() == "claimed" { 8192 } else { 0 };
        attempts * (4 * evidence + 8192) + 2 * result + 2 * evidence + 8192 + claimed
    });
    let dispatches = state.dispatches.iter().filter(|dispatch| !dispatch.released).map(|dispatch| {
        let most = policy.pools[&dispatch.assignment.pool].reconciliation.max_attempts.get() as u64 + 4;
        most.saturating_sub(u64::from(dispatch.lifecycle_writes)) * (2 * evidence + 12_288) + 2 * evidence + 8192
    });
    assert_eq!(state.headroom, works.sum::<u64>() + dispatches.sum::<u64>());
}

fn recount_pools(state: &Projection) {
    let policy = &state.installed().unwrap().policy;
    for pool in &state.pools {
        let mine = || state.works.iter().filter(|work| work.work.pool == pool.name);
        let mut open: HashMap<u16, u32> = HashMap::new();
        for claim in state.claims.iter().filter(|claim| claim.status.is_open()) {
            let work = state.work_of(claim);
            if work.work.pool == pool.name {
                *open.entry(work.account).or_default() += 1;
            }
        }
        assert_eq!(pool.open, open.values().sum::<u32>());
        assert_eq!(pool.open_by_account, open);
        let held = state.dispatches.iter().filter(|one| !one.released && one.assignment.pool == pool.name);
        assert_eq!(pool.native as usize, held.count());
        assert_eq!(pool.available as usize, mine().filter(|work| work.state() == "available").count());
        assert_eq!(pool.active as usize, mine().filter(|work| work.is_active()).count());
        let most = policy.pools[&pool.name].retry.max_attempts.get();
        let mut ready: Frontier = Frontier::new();
        for (index, work) in state.works.iter().enumerate() {
            let verified = work.work.depends_on.iter().all(|edge| match edge {
                Edge::Work(id) => state.work(id.as_str()).unwrap().verified().is_some(),
                Edge::Gate(_) => true,
            });
            let waits = work.state() == "available" && i64::from(work.attempts) < most;
            if work.work.pool == pool.name && waits && verified {
                let class = work.scheduling_priority().get() as usize - 1;
                let account = policy.account(work.work.fairness_key.as_str()).unwrap() as u16;
                let gated = work.work.depends_on.iter().any(|edge| matches!(edge, Edge::Gate(_)));
                let entry = (WorkIx(index as u32), work.retry_not_before.get(), gated);
                ready.entry((class, account)).or_default().push(entry);
            }
        }
        let mut kept: Frontier = Frontier::new();
        for (class, accounts) in pool.ready.iter().enumerate() {
            for (account, works) in accounts {
                let entries = works.iter().map(|(ix, hint)| (*ix, hint.retry_not_before.get(), hint.gated));
                kept.insert((class, *account), entries.collect());
            }
        }
        assert_eq!(kept, ready);
    }
}

fn recount_edges(state: &Projection) {
    let mut successors: Vec<Vec<WorkIx>> = vec![Vec::new(); state.works.len()];
    for (index, work) in state.works.iter().enumerate() {
        let named: Vec<WorkIx> = work
            .work
            .depends_on
            .iter()
            .filter_map(|edge| match edge {
                Edge::Work(id) => Some(state.work_ids[id]),
                Edge::Gate(_) => None,
            })
            .collect();
        assert_eq!(work.predecessors, named);
        let gates = work.work.depends_on.iter().filter_map(|edge| match edge {
            Edge::Gate(gate) => Some(&gate.key),
            Edge::Work(_) => None,
        });
        assert!(work.gates.iter().map(|ix| &state.gates[ix.0 as usize]).eq(gates));
        let unverified = named.iter().filter(|ix| state.work_at(**ix).verified().is_none()).count();
        assert_eq!(work.unverified as usize, unverified);
        for predecessor in named {
            successors[predecessor.0 as usize].push(WorkIx(index as u32));
        }
    }
    for (work, successors) in state.works.iter().zip(successors) {
        assert_eq!(work.successors, successors);
    }
    assert_eq!(state.gates.iter().collect::<HashSet<_>>().len(), state.gates.len());
    assert_eq!(state.gates.len(), state.gate_ids.len());
    assert!(state.works.windows(2).all(|pair| pair[0].position < pair[1].position), "indexes are the FIFO order");
}

fn recount_graphs(state: &Projection) {
    let mut graphs: HashMap<&str, (u64, HashSet<&str>)> = HashMap::new();
    for work in &state.works {
        let (works, gates) = graphs.entry(work.work.graph_id.as_str()).or_default();
        *works += 1;
        for edge in &work.work.depends_on {
            if let Edge::Gate(gate) = edge {
                gates.insert(gate.key.text().as_str());
            }
        }
        assert_eq!(state.graphs[work.work.graph_id.text()].pool, work.work.pool);
    }
    let vertices: u64 = graphs.values().map(|(works, gates)| works + gates.len() as u64).sum();
    assert_eq!(state.stats().nodes, vertices);
    assert_eq!(state.graphs.len(), graphs.len());
}

fn recount_ids(state: &Projection) {
    for (index, work) in state.works.iter().enumerate() {
        assert_eq!(state.work_ids[&work.work.work_id].0 as usize, index);
        if let Some(owner) = work.owner() {
            assert_eq!(state.claim_at(owner).claim.work_id, work.work.work_id);
        }
    }
    for (index, claim) in state.claims.iter().enumerate() {
        assert_eq!(state.claim_ids[&claim.claim.claim_id].0 as usize, index);
        assert_eq!(state.dispatch_of(claim).assignment.dispatch_id, claim.claim.dispatch_id);
        assert!(!claim.status.is_open() || state.work_of(claim).owner().unwrap().0 as usize == index);
    }
    for (index, dispatch) in state.dispatches.iter().enumerate() {
        assert_eq!(state.dispatch_ids[&dispatch.assignment.dispatch_id].0 as usize, index);
        let members: Vec<&str> =
            dispatch.members.iter().map(|ix| state.claim_at(*ix).claim.claim_id.as_str()).collect();
        assert_eq!(members, dispatch.assignment.claims.iter().map(|one| one.claim_id.as_str()).collect::<Vec<_>>());
        if let Some(run) = &dispatch.run {
            assert_eq!(state.runs[&run.run_id].0 as usize, index);
        }
    }
    assert_eq!(state.runs.len(), state.dispatches.iter().filter(|dispatch| dispatch.run.is_some()).count());
    let mut next_claim = 0;
    for (index, accepted) in state.requests.iter().enumerate() {
        assert_eq!(state.request_ids[&accepted.request_id] as usize, index);
        assert_eq!(accepted.claims.0, next_claim);
        next_claim = accepted.claims.1;
    }
    assert_eq!(next_claim as usize, state.claims.len());
    let commits: BTreeSet<&str> = state.requests.iter().map(|accepted| accepted.commit_id.as_str()).collect();
    assert_eq!(commits, state.commit_ids.keys().map(|id| id.as_str()).collect());
    let bytes: u64 = state.active().map(|line| line.len() as u64 + 1).sum();
    assert_eq!(state.ledger_bytes, bytes);
}

/// S-048: an index is what a count over all states gives, at every prefix of every ledger.
#[test]
fn every_index_equals_its_recount() {
    let mut prefixes = 0;
    for case in corpus::load_corpus() {
        let mut scanner = Scanner::new(case.expect["host"].as_str().unwrap());
        let text = LedgerText::new(case.text.clone()).unwrap();
        let mut state = Projection::empty();
        for commit in text.commits(&mut scanner).unwrap() {
            // The integration tests judge refusals; here a ledger ends at the first unsupported operation.
            let Ok(next) = state.apply(commit) else { break };
            recount(&next);
            state = next;
            prefixes += 1;
        }
    }
    println!("{prefixes} prefixes recounted");
}

/// Chooses among forged commits; the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() { None } else { items.get(self.roll(items.len())) }
    }
}

/// A commit on this state that bears one to four operations of other commits of the ledger, aimed at what the state
/// holds: forged actors, any order, wrong owners, odd times.
fn forged(state: &Projection, ledger: &[Value], dice: &mut Dice, serial: usize) -> Option<String> {
    let model = dice.pick(ledger)?;
    let kind = model["request"]["kind"].as_str()?;
    let mut actor = if dice.roll(4) == 0 { dice.pick(ledger)?["actor"].clone() } else { model["actor"].clone() };
    let parts: Vec<&Value> = ledger
        .iter()
        .filter(|commit| commit["request"]["kind"] == kind)
        .flat_map(|commit| commit["operations"].as_array().into_iter().flatten())
        .collect();
    let last = state.requests().last()?.at.get();
    let at = [last, last + 1, last + 60_000, last.saturating_sub(5), (1 << 53) - 1][dice.roll(5)];
    let mut operations = Vec::new();
    for _ in 0..=dice.roll(4) {
        let mut operation = (*dice.pick(&parts)?).clone();
        let claims: Vec<_> = state.claims().collect();
        if let (Some(claim), true) = (dice.pick(&claims), dice.roll(3) > 0) {
            let dispatch = state.dispatch_of(claim);
            for (member, value) in [
                ("claim_id", claim.claim.claim_id.as_str()),
                ("work_id", claim.claim.work_id.as_str()),
                ("dispatch_id", claim.claim.dispatch_id.as_str()),
                ("claim_handle", claim.claim.handle.as_str()),
            ] {
                if operation.get(member).is_some() && operation["kind"] != "Work" {
                    operation[member] = value.into();
                }
                if actor.get(member).is_some() {
                    actor[member] = value.into();
                }
            }
            if let (Some(run), Some(_)) = (&dispatch.run, actor.get("dispatch_id")) {
                actor["run_id"] = run.run_id.as_str().into();
            }
            if let (Some(run), true) = (&dispatch.run, operation["evidence"].get("run_id").is_some()) {
                operation["evidence"]["run_id"] = run.run_id.as_str().into();
            }
            if let (Ownership::Completed { completion_id, .. }, true) =
                (&state.work_of(claim).ownership, operation.get("completion_id").is_some())
            {
                operation["completion_id"] = completion_id.as_str().into();
            }
        }
        if operation.get("retry_not_before").is_some() {
            operation["retry_not_before"] = [at, at.saturating_add(3_600_000).min((1 << 53) - 1)][dice.roll(2)].into();
        }
        if operation.get("sender").is_some() {
            operation["sender"] = actor.clone();
        }
        if operation["evidence"].is_object() {
            operation["evidence"]["checked_at"] = at.into();
        }
        operations.push(operation);
    }
    let list = if kind == "submit" { "nodes" } else { "operations" };
    let mut parameters = json!({ list: operations });
    if matches!(kind, "finish" | "dispatch_next") {
        parameters = model["request"]["parameters"].clone();
    }
    // No ledger of the corpus keeps Work open, so these finishes are aimed.
    if kind == "finish"
        && dice.roll(2) == 0
        && let [completion] = operations.as_mut_slice()
        && completion["kind"] == "Completion"
    {
        for name in ["dispatch_id", "claim_handle"] {
            parameters[name] = completion[name].clone();
        }
        completion["run_id"] = actor["run_id"].clone();
        completion["keep_open"] = true.into();
        parameters["keep_open"] = true.into();
        parameters["outcome"] = "completed".into();
    }
    let fingerprint = json!({"actor": actor, "kind": kind, "parameters": parameters}).to_string();
    let commit = json!({"version": 3, "id": format!("forged-{serial}"), "previous": state.tip()?.as_str(),
        "request": {"id": format!("forged-{serial}"), "kind": kind, "parameters": parameters,
            "fingerprint": sha256_hex(&[&fingerprint])},
        "actor": actor, "policy_epoch": state.installed()?.epoch.as_str(), "at": at, "operations": operations});
    Some(commit.to_string())
}

/// S-048: commits that no publisher would write are refused whole or leave every index true. Each prefix of each
/// ledger is continued with forged commits, several in a row.
#[test]
fn forged_commits_keep_every_index_true() {
    let mut dice = Dice(7);
    let (mut accepted, mut refused, mut kept) = (BTreeMap::<String, u32>::new(), 0_u32, 0_u32);
    for case in corpus::load_corpus() {
        let mut scanner = Scanner::new(case.expect["host"].as_str().unwrap());
        let text = LedgerText::new(case.text.clone()).unwrap();
        let ledger: Vec<Value> = text.as_str().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut state = Projection::empty();
        for commit in text.commits(&mut scanner).unwrap().into_iter().take(60) {
            let Ok(next) = state.apply(commit) else { break };
            state = next;
            let mut branch = state.clone();
            for serial in 0..24 {
                let Some(line) = forged(&branch, &ledger, &mut dice, serial) else { continue };
                let Ok(commit) = Commit::read(&mut scanner, &Text::from(line)) else { continue };
                let kinds: Vec<&str> = commit.operations.iter().map(|operation| operation.kind().as_str()).collect();
                let name = kinds.join(" ");
                let keeps = matches!(&commit.operations[0], Operation::Completion(one) if one.keeps_open());
                match branch.clone().apply(commit) {
                    Ok(next) => {
                        recount(&next);
                        kept += u32::from(keeps);
                        branch = next;
                        *accepted.entry(name).or_default() += 1;
                    }
                    Err(_) => refused += 1,
                }
            }
        }
    }
    assert!(corpus::conformance().is_none() || accepted.len() > 20, "forged commits get through: {accepted:?}");
    assert!(corpus::conformance().is_none() || kept > 0, "some Work is kept open");
    let many = accepted.keys().filter(|kinds| kinds.contains(' ')).count();
    println!(
        "{} accepted in {} shapes, {many} of several operations; {refused} refused; {kept} keep Work open",
        accepted.values().sum::<u32>(),
        accepted.len()
    );
}
