//! Graph admission: all nodes of a submission together, or none (engine.md 5).

use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

use super::state::{Context, GateIx, GraphState, Installed, Ownership, Position, Projection, WorkIx, WorkState};
use crate::engine::mutation::mutated;
use crate::protocol::actor::{Actor, Role};
use crate::protocol::assignment::size;
use crate::protocol::fault::ensure;
use crate::protocol::operation::Operation;
use crate::protocol::policy::{Pool, WorkerProfile};
use crate::protocol::resource::{Edge, GateKey, ResourceKind};
use crate::protocol::work::{Work, WorkDraft, derive_work_id};
use crate::protocol::{At, Code, Digest, Fault, Text, WorkId};

/// As long as a dispatch or Claim id can be.
const LONG_ID: &str = "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd";
/// The identity whose canonical form is longest: 256 characters that all need an escape.
const WORST_ID: &str = concat!(
    r"\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\",
    r"\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\",
    r"\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\",
    r"\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\",
);
const _: () = assert!(LONG_ID.len() == 70 && WORST_ID.len() == 256);

/// A validated new node.
pub(crate) struct NewNode {
    pub(crate) work: Work,
    pub(crate) contract: Option<Digest>,
    pub(crate) account: u16,
    pub(crate) operation: u32,
}

impl Projection {
    /// Validates every Work of a commit and inserts the new ones. Repeated ones have no effect.
    pub(crate) fn admit_nodes(&mut self, operations: &[Operation], context: &Context<'_>) -> Result<(), Fault> {
        let nodes = self.validate_nodes(operations, context.actor)?;
        for node in nodes {
            self.insert_node(node, context);
        }
        self.link_new(context.ordinal);
        Ok(())
    }

    /// Engine.md 5.1 over the whole submission; returns the new nodes in order.
    pub(crate) fn validate_nodes(&self, operations: &[Operation], actor: &Actor) -> Result<Vec<NewNode>, Fault> {
        let installed = self.rules()?;
        let mut nodes: Vec<NewNode> = Vec::new();
        let mut seen: HashSet<&WorkId> = HashSet::new();
        let mut issues: HashSet<(Text, Text, Text)> = HashSet::new();
        for (index, operation) in operations.iter().enumerate() {
            let Operation::Work(draft) = operation else { continue };
            let known = self.work_ids.get(&draft.work_id);
            if let Some(known) = known {
                self.check_entitlement(draft, actor)?;
                let same = self.work_at(*known).work.source == draft.source;
                ensure!(same, WorkConflict, "a resubmitted node differs from its stored definition");
            } else {
                let mut node = self.validate_node(draft, installed, actor)?;
                node.operation = index as u32;
                nodes.push(node);
            }
            ensure!(seen.insert(&draft.work_id), GraphInvalid, "a submission repeats a node");
            if known.is_none() {
                let issue = nodes.last().and_then(|node| node.work.backing_issue.as_ref());
                if let Some(identity) = issue.map(|issue| issue.issue_identity()) {
                    let free = !self.bound_issues.contains_key(&identity) && issues.insert(identity);
                    ensure!(free, IssueBindingConflict, "the backing Issue is bound to another Work");
                }
                ensure!(!self.admission_paused || mutated!(AdmitWhilePaused), AdmissionPaused, "admission is paused");
            }
        }
        self.check_graphs(&nodes, installed)?;
        check_cycles(&nodes)?;
        Ok(nodes)
    }

    /// Submission entitlement (engine.md 5.3). Values that are not even well-formed are entitled to nothing.
    pub(crate) fn check_entitlement(&self, node: &WorkDraft, actor: &Actor) -> Result<(), Fault> {
        let (pool, priority, key) =
            (node.pool.as_ref().ok(), node.priority.as_ref().ok(), node.fairness_key.as_ref().ok());
        let installed = self.rules()?;
        let policy = &installed.policy;
        if actor.role == Role::Worker {
            let parent = &self.work_of(self.continuation(actor)?).work;
            let same = pool == Some(&parent.pool)
                && (priority == Some(&parent.priority) || mutated!(ChildBetterPriority))
                && key == Some(&parent.fairness_key);
            ensure!(same, ChildEntitlement, "a child keeps its parent's pool, priority and accounting key");
        }
        let (Some(pool), Some(priority), Some(key)) = (pool, priority, key) else {
            return Err(Fault::new(Code::AdmissionUnauthorized, "the node names no pool, priority or accounting key"));
        };
        let entitled = if policy.aw {
            policy.pools.contains_key(pool) && policy.account(key.as_str()).is_some()
        } else if actor.role == Role::Worker {
            true
        } else {
            policy.producers.get(&actor.principal).is_some_and(|producer| {
                producer.pools.contains(pool)
                    && producer.priorities.contains(priority)
                    && producer.fairness_keys.contains(key)
            })
        };
        ensure!(entitled, AdmissionUnauthorized, "the principal is not entitled to this pool, priority or key");
        Ok(())
    }

    /// One new node, in the order of engine.md 5.2.
    fn validate_node(&self, draft: &WorkDraft, installed: &Installed, actor: &Actor) -> Result<NewNode, Fault> {
        let policy = &installed.policy;
        let graph_id = draft.graph_id.clone()?;
        let node_key = draft.node_key.clone()?;
        let pool_name = draft.pool.clone()?;
        let worker_profile = draft.worker_profile.clone()?;
        let batch_trust_domain = draft.batch_trust_domain.clone()?;
        let derived = draft.work_id == derive_work_id(&graph_id, &node_key);
        ensure!(derived, WorkIdentityInvalid, "the Work id is not derived from its graph and node key");
        let priority = draft.priority.clone()?;
        let fairness_key = draft.fairness_key.clone()?;
        let enqueued = draft.enqueued.clone()?;
        let missing = || Fault::new(Code::PolicyInvalid, "the node's pool is not installed");
        let pool = policy.pools.get(&pool_name).ok_or_else(missing)?;
        self.check_entitlement(draft, actor)?;
        let profile = self.admission_profile(draft, pool, pool_name.as_str(), worker_profile.as_str())?;
        let trusted = profile.trust_domain.as_str() == batch_trust_domain.as_str();
        ensure!(trusted, WorkInvalid, "the node's trust domain is not its profile's");
        let account = policy.account(fairness_key.as_str());
        let account = account.ok_or_else(|| Fault::new(Code::WorkInvalid, "the accounting key is not registered"))?;
        let payload = draft.payload.clone()?;
        ensure!(payload.len() as u64 <= policy.limits.payload_bytes, ResourceLimit, "the payload exceeds its limit");
        let depends_on = check_edges(draft, pool, policy.limits.predecessors)?;
        let subject = draft.subject.clone().transpose()?;
        if let Some(subject) = &subject {
            let allowed = pool.allows(subject.repository.as_str());
            ensure!(allowed, ResourceUnauthorized, "the subject's repository is not allowed by the pool");
        }
        let backing_issue = draft.backing_issue.clone().transpose()?;
        let replacement_of = draft.replacement_of.clone().transpose()?;
        let work = Work {
            source: draft.source.clone(),
            work_id: draft.work_id.clone(),
            graph_id,
            node_key,
            pool: pool_name,
            priority,
            fairness_key,
            worker_profile,
            batch_trust_domain,
            payload,
            depends_on,
            enqueued,
            subject,
            backing_issue,
            replacement_of,
            logical_contract: draft.logical_contract.clone(),
            execution_ref: draft.execution_ref.clone(),
        };
        self.check_backing_issue(&work, installed, pool)?;
        self.check_replacement(&work)?;
        self.check_assignment_size(&work, installed)?;
        Ok(NewNode { work, contract: profile.logical_contract.clone(), account: account as u16, operation: 0 })
    }

    /// The route that judges a submission (engine.md 5.4). Availability does not matter yet.
    fn admission_profile(
        &self,
        draft: &WorkDraft,
        pool: &Pool,
        pool_name: &str,
        worker_profile: &str,
    ) -> Result<Arc<WorkerProfile>, Fault> {
        let invalid = |message: &'static str| Fault::new(Code::WorkInvalid, message);
        let installed =
            pool.profiles.get(worker_profile).ok_or_else(|| invalid("the worker profile is not installed"))?;
        let profile = match self.registry.entry(pool_name, worker_profile) {
            Some(entry) => {
                let revision = entry.revisions.get(draft.execution_ref.as_ref().unwrap_or(&entry.current_ref));
                &revision.ok_or_else(|| invalid("the pinned revision is not deployed"))?.profile
            }
            None => {
                let pinned = draft.execution_ref.as_ref().is_none_or(|pin| *pin == installed.revision);
                ensure!(pinned, WorkInvalid, "the pinned revision is not the profile's");
                installed
            }
        };
        let contract = draft.logical_contract.is_none() || draft.logical_contract == profile.logical_contract;
        ensure!(contract, WorkInvalid, "the pinned contract is not the revision's");
        Ok(Arc::clone(profile))
    }

    fn check_backing_issue(&self, work: &Work, installed: &Installed, pool: &Pool) -> Result<(), Fault> {
        let Some(issue) = &work.backing_issue else { return Ok(()) };
        let granted = installed.policy.projectors.iter().any(|rule| {
            rule.pools.contains(&work.pool)
                && rule.repositories.contains(&issue.repository)
                && rule.backing_issues.contains(issue)
        });
        let allowed = issue.kind == ResourceKind::Issue && pool.allows(issue.repository.as_str()) && granted;
        ensure!(allowed, ResourceUnauthorized, "no projector rule grants this backing Issue");
        Ok(())
    }

    fn check_replacement(&self, work: &Work) -> Result<(), Fault> {
        let Some(replacement) = &work.replacement_of else { return Ok(()) };
        let target = self.work(replacement.work_id.as_str());
        let fits = target.is_some_and(|target| {
            target.barrier() == super::state::Barrier::Failed
                && target.work.pool == work.pool
                && target.work.graph_id == work.graph_id
                && target.work.priority == work.priority
                && target.work.fairness_key == work.fairness_key
                && target.work.work_id != work.work_id
        });
        ensure!(
            fits || mutated!(ReplaceUnfailed),
            ReplacementInvalid,
            "the replaced Work did not fail or differs in pool, graph, priority or key"
        );
        Ok(())
    }

    /// A one-Claim assignment must fit with worst-case ids and Results (engine.md 5.2 step 13).
    fn check_assignment_size(&self, work: &Work, installed: &Installed) -> Result<(), Fault> {
        let limits = &installed.policy.limits;
        let envelope = size::envelope(&size::Header {
            dispatch_id: LONG_ID,
            request_id: "",
            commit_id: "",
            policy_epoch: installed.epoch.as_str(),
            pool: work.pool.as_str(),
            worker_profile: work.worker_profile.as_str(),
        }) + 2 * 2 * WORST_ID.len() as u64;
        let mut unverified = 0;
        let references = size::references(work.depends_on.iter().filter_map(|edge| {
            let Edge::Work(id) = edge else { return None };
            let verified = self.work(id.as_str()).and_then(WorkState::verified);
            Some(match verified {
                Some((result, commit)) => (id.as_str(), commit.as_str(), result.descriptor.0.len()),
                None => {
                    unverified += 1;
                    (id.as_str(), WORST_ID, 2)
                }
            })
        }));
        let member = size::member("h16", LONG_ID, work.work_id.as_str(), work.payload.len(), references);
        let total = envelope + member + unverified * limits.result_bytes.saturating_sub(2);
        ensure!(total <= limits.assignment_bytes, AssignmentLimit, "the node cannot fit an assignment of its own");
        Ok(())
    }

    /// Steps 5 to 7 of engine.md 5.1.
    fn check_graphs(&self, nodes: &[NewNode], installed: &Installed) -> Result<(), Fault> {
        let limits = &installed.policy.limits;
        ensure!(self.largest_graph <= limits.graph_nodes, ResourceLimit, "a stored graph is larger than its limit");
        let mut fresh: HashMap<&WorkId, &Work> = HashMap::new();
        for node in nodes {
            fresh.insert(&node.work.work_id, &node.work);
        }
        let mut pools: HashMap<&Text, &Work> = HashMap::new();
        for node in nodes {
            let work = &node.work;
            for edge in &work.depends_on {
                let Edge::Work(id) = edge else { continue };
                let stored = self.work(id.as_str()).map(|state| &state.work);
                let target = stored.or_else(|| fresh.get(id).copied());
                let fits = target.is_some_and(|target| {
                    target.graph_id == work.graph_id && target.pool == work.pool && target.work_id != work.work_id
                });
                ensure!(fits, DependencyInvalid, "an edge names no other node of its graph and pool");
            }
            let first = pools.entry(work.graph_id.text()).or_insert(work);
            let stored = self.graphs.get(work.graph_id.text()).is_none_or(|graph| graph.pool == work.pool);
            ensure!(stored && first.pool == work.pool, GraphInvalid, "a graph spans pools");
        }
        self.check_vertices(nodes, limits.graph_nodes)?;
        let mut pending: HashMap<&str, u64> = HashMap::new();
        for node in nodes {
            *pending.entry(node.work.pool.as_str()).or_default() += 1;
        }
        for (pool, new) in pending {
            let active = self.pools.iter().find(|state| state.name.as_str() == pool).map_or(0, |state| state.active);
            let fits = u64::from(active) + new <= limits.pending_nodes;
            ensure!(fits, ResourceLimit, "the pool has too many pending nodes");
        }
        Ok(())
    }

    fn check_vertices(&self, nodes: &[NewNode], most: u64) -> Result<(), Fault> {
        let mut added: HashMap<&Text, (u64, HashSet<&GateKey>)> = HashMap::new();
        for node in nodes {
            let graph = self.graphs.get(node.work.graph_id.text());
            let (works, gates) = added.entry(node.work.graph_id.text()).or_default();
            *works += 1;
            for edge in &node.work.depends_on {
                if let Edge::Gate(gate) = edge
                    && graph.is_none_or(|graph| !graph.gates.contains(&gate.key))
                {
                    gates.insert(&gate.key);
                }
            }
        }
        for (graph, (works, gates)) in added {
            let stored = self.graphs.get(graph).map_or(0, GraphState::vertices);
            let fits = stored + works + gates.len() as u64 <= most;
            ensure!(fits, ResourceLimit, "the graph has too many nodes");
        }
        Ok(())
    }

    /// Counts a Work among the vertices of its graph and gives its gates their indexes.
    pub(crate) fn enlist(&mut self, work: &Work) -> Vec<GateIx> {
        let graph = self.graphs.entry(work.graph_id.text().clone()).or_insert_with(|| GraphState {
            pool: work.pool.clone(),
            works: 0,
            gates: HashSet::new(),
        });
        graph.works += 1;
        let mut gates = Vec::new();
        for edge in &work.depends_on {
            if let Edge::Gate(gate) = edge {
                graph.gates.insert(gate.key.clone());
                let next = GateIx(self.gates.len() as u32);
                let gate_ix = *self.gate_ids.entry(gate.key.clone()).or_insert(next);
                if gate_ix == next {
                    self.gates.push(gate.key.clone());
                }
                gates.push(gate_ix);
            }
        }
        self.largest_graph = self.largest_graph.max(graph.vertices());
        gates
    }

    fn insert_node(&mut self, node: NewNode, context: &Context<'_>) {
        let NewNode { work, contract, account, operation } = node;
        let ix = WorkIx(self.works.len() as u32);
        let gates = self.enlist(&work);
        if let Some(issue) = &work.backing_issue {
            self.bound_issues.insert(issue.issue_identity(), ix);
        }
        let pool = self.pools.binary_search_by(|state| state.name.cmp(&work.pool)).unwrap_or(0) as u16;
        self.work_ids.insert(work.work_id.clone(), ix);
        self.works.push(WorkState {
            work,
            position: Position { commit: context.ordinal, operation },
            ownership: Ownership::Available,
            attempts: 0,
            retry_not_before: At::default(),
            admission_contract: contract,
            effective_priority: None,
            creator: Arc::clone(context.actor),
            issue_link: None,
            issue_summary: None,
            pool,
            account,
            predecessors: Vec::new(),
            successors: Vec::new(),
            unverified: 0,
            gates,
        });
    }

    /// Resolves the edges of the nodes that this commit inserted, forward references included, and indexes them.
    fn link_new(&mut self, ordinal: u32) {
        let first = self.works.partition_point(|state| state.position.commit < ordinal);
        self.link_from(first);
    }

    /// As [`Projection::link_new`] for every Work from an index on.
    pub(crate) fn link_from(&mut self, first: usize) {
        for index in first..self.works.len() {
            let ix = WorkIx(index as u32);
            let predecessors: Vec<WorkIx> = self.works[index]
                .work
                .depends_on
                .iter()
                .filter_map(|edge| match edge {
                    Edge::Work(id) => self.work_ids.get(id).copied(),
                    Edge::Gate(_) => None,
                })
                .collect();
            let mut unverified = 0;
            for predecessor in &predecessors {
                let state = &mut self.works[predecessor.0 as usize];
                state.successors.push(ix);
                unverified += u32::from(state.verified().is_none());
            }
            let state = &mut self.works[index];
            state.predecessors = predecessors;
            state.unverified = unverified;
        }
        for index in first..self.works.len() {
            self.attach_work(WorkIx(index as u32));
        }
    }
}

/// Steps 8 and 9 of engine.md 5.2.
fn check_edges(draft: &WorkDraft, pool: &Pool, most: u64) -> Result<Vec<Edge>, Fault> {
    let drafts = draft.depends_on.as_ref().map_err(Clone::clone)?;
    ensure!(drafts.len() as u64 <= most, ResourceLimit, "the node has too many predecessors");
    let mut edges = Vec::with_capacity(drafts.len());
    let mut works: HashSet<&WorkId> = HashSet::new();
    let mut gates: HashSet<&GateKey> = HashSet::new();
    for edge in drafts {
        let edge = edge.as_ref().map_err(Clone::clone)?;
        match edge {
            Edge::Work(id) => ensure!(works.insert(id), DependencyInvalid, "the node repeats an edge"),
            Edge::Gate(gate) => {
                ensure!(gates.insert(&gate.key), DependencyInvalid, "the node repeats an edge");
                let allowed = pool.allows(gate.resource.repository.as_str());
                ensure!(allowed, ResourceUnauthorized, "an edge's repository is not allowed by the pool");
            }
        }
        edges.push(edge.clone());
    }
    Ok(edges)
}

/// Step 8 of engine.md 5.1: depth first from new ids in UTF-8 order, edges in order. The message carries the path.
fn check_cycles(nodes: &[NewNode]) -> Result<(), Fault> {
    if nodes.iter().all(|node| node.work.depends_on.iter().all(|edge| matches!(edge, Edge::Gate(_)))) {
        return Ok(());
    }
    let by_id: HashMap<&WorkId, &Work> = nodes.iter().map(|node| (&node.work.work_id, &node.work)).collect();
    let mut order: Vec<&WorkId> = by_id.keys().copied().collect();
    order.sort_unstable();
    let mut done: HashSet<&WorkId> = HashSet::new();
    for start in order {
        // An explicit stack: a chain of 256 nodes is deeper than recursion should go.
        let mut path: Vec<(&Work, usize)> = Vec::new();
        let mut on_path: HashSet<&WorkId> = HashSet::new();
        if !done.contains(start) {
            path.push((by_id[start], 0));
            on_path.insert(start);
        }
        while let Some((work, next)) = path.last_mut() {
            let Some(edge) = work.depends_on.get(*next) else {
                done.insert(&work.work_id);
                on_path.remove(&work.work_id);
                path.pop();
                continue;
            };
            *next += 1;
            let Edge::Work(id) = edge else { continue };
            let Some(target) = by_id.get(id) else { continue };
            if on_path.contains(&target.work_id) {
                return Err(cycle(&path, target));
            }
            if !done.contains(&target.work_id) {
                path.push((target, 0));
                on_path.insert(&target.work_id);
            }
        }
    }
    Ok(())
}

fn cycle(path: &[(&Work, usize)], target: &Work) -> Fault {
    let from = path.iter().position(|(work, _)| work.work_id == target.work_id).unwrap_or(0);
    let mut keys: Vec<&str> = path[from..].iter().map(|(work, _)| work.node_key.as_str()).collect();
    keys.push(target.node_key.as_str());
    Fault::new(Code::DependencyCycle, keys.join(" -> "))
}
