//! Work of a checkpoint (engine.md 3.12.5 steps 7, 9 and 10).

use hashbrown::HashMap;

use super::receipts::{History, check_parameters, read_position};
use super::{Parts, damaged, entries, intact, intact_option, small};
use crate::engine::mutation::mutated;
use crate::engine::state::{ClaimIx, CommentOwner, Delivery, Ownership, Position, Projection, WorkIx, WorkState};
use crate::protocol::fault::ensure;
use crate::protocol::json::{Node, Scanner, Writer};
use crate::protocol::operation::{DeliveryFailure, ResultOperation, WorkCancellation};
use crate::protocol::request::RequestKind;
use crate::protocol::wire::Wire as _;
use crate::protocol::work::{Work, WorkDraft, is_definition_member};
use crate::protocol::{At, Code, CommitId, Digest, Fault, Text};

/// One Work: its definition, and the members that say how it stands.
pub(super) struct WorkNode<'a> {
    pub(super) work: Work,
    position: Position,
    state: Members<'a>,
}

/// Members of a Work state beside its definition.
const STATE: [&str; 18] = [
    "admission_contract",
    "attempts",
    "barrier",
    "cancellation_claim_id",
    "cancellation_commit_id",
    "cancellation_reason",
    "claim_id",
    "completion_id",
    "disposition",
    "effective_priority",
    "issue_link",
    "issue_summary",
    "keep_open",
    "position",
    "result",
    "result_commit_id",
    "retry_not_before",
    "state",
];

/// The values of [`STATE`] that a Work has.
struct Members<'a>([Option<Node<'a>>; STATE.len()]);

impl<'a> Members<'a> {
    fn get(&self, name: &str) -> Option<Node<'a>> {
        STATE.iter().position(|known| *known == name).and_then(|at| self.0[at])
    }

    fn need(&self, name: &str) -> Result<Node<'a>, Fault> {
        self.get(name).ok_or_else(|| damaged("a Work lacks a member of its state"))
    }

    /// The state's word, `""` where it is none.
    fn word(&self, name: &str) -> &'a str {
        self.get(name).and_then(Node::plain).unwrap_or_default()
    }
}

/// Reads every Work in order of admission.
pub(super) fn read<'a>(node: Node<'a>, history: &History<'_>) -> Result<Vec<WorkNode<'a>>, Fault> {
    let mut definitions = String::new();
    let mut read = Vec::new();
    for (key, node) in entries(node)? {
        let start = definitions.len() as u32;
        let mut state = Members([None; STATE.len()]);
        let mut separator = '{';
        for (name, value) in node.object().into_iter().flat_map(|object| object.members()) {
            let plain = name.plain().ok_or_else(|| damaged("a Work has an unknown member"))?;
            if is_definition_member(plain) {
                definitions.push(separator);
                definitions.extend(["\"", plain, "\":", value.raw()]);
                separator = ',';
            } else {
                let at = STATE.iter().position(|known| *known == plain);
                state.0[at.ok_or_else(|| damaged("a Work has an unknown member"))?] = Some(value);
            }
        }
        definitions.push('}');
        read.push((key, state, start, definitions.len() as u32));
    }
    let definitions = Text::from(definitions);
    let mut scanner = Scanner::new(node.host());
    let mut nodes = Vec::with_capacity(read.len());
    for (key, state, start, end) in read {
        let document = scanner.read(&definitions.part(start, end))?;
        let work = WorkDraft::read(document.root(), Code::CheckpointInvalid).and_then(WorkDraft::admitted);
        let work = work.map_err(|fault| Fault::new(Code::CheckpointInvalid, fault.message().to_owned()))?;
        ensure!(*work.work_id.text() == key, CheckpointInvalid, "a Work has another id than its key");
        let position = read_position(state.need("position")?)?;
        nodes.push(WorkNode { work, position, state });
    }
    nodes.sort_by_key(|node| node.position);
    let created = nodes.len() == history.creators.len();
    ensure!(created, CheckpointInvalid, "a created Work is missing");
    Ok(nodes)
}

/// Every submission's Work rebuilds its parameters, and every Work lies at a submission.
pub(super) fn check_submissions(nodes: &[WorkNode<'_>], history: &History<'_>) -> Result<(), Fault> {
    let mut rest = nodes;
    for (ordinal, receipt) in history.receipts.iter().enumerate() {
        let own = rest.iter().take_while(|node| node.position.commit as usize == ordinal).count();
        let (own, later) = rest.split_at(own);
        rest = later;
        if receipt.accepted.kind != RequestKind::Submit {
            ensure!(own.is_empty(), CheckpointInvalid, "a Work was admitted by no submission");
            continue;
        }
        let first = usize::from(receipt.bootstrap);
        let placed = own.iter().enumerate().all(|(index, node)| node.position.operation as usize == index + first);
        ensure!(!own.is_empty() && placed, CheckpointInvalid, "a submission's Work is not where it was admitted");
        let mut parameters = Writer::new();
        parameters.object(|members| {
            members.name("nodes", |w| w.array(own, |w, node| node.work.source.write(w)));
        });
        let accepted = &receipt.accepted;
        check_parameters(&parameters.finish(), accepted.kind, receipt.actor, &receipt.digest, &accepted.fingerprint)?;
    }
    ensure!(rest.is_empty(), CheckpointInvalid, "a Work was admitted after the last receipt");
    Ok(())
}

impl Projection {
    pub(super) fn restore_works(
        &mut self,
        nodes: Vec<WorkNode<'_>>,
        parts: &Parts<'_>,
        history: &History<'_>,
        cancellations: &HashMap<Text, Node<'_>>,
        mut barriers: HashMap<Text, Node<'_>>,
    ) -> Result<(), Fault> {
        let times = parts.completion_times.object().ok_or_else(|| damaged("completion_times is not an object"))?;
        let times: HashMap<Text, Node<'_>> =
            times.members().filter_map(|(key, value)| Some((key.string()?, value))).collect();
        for node in nodes {
            let ownership = self.read_ownership(&node, &times, &mut barriers, cancellations)?;
            self.restore_work(node, ownership, history)?;
        }
        ensure!(barriers.is_empty(), CheckpointInvalid, "a settlement belongs to no completed Work");
        self.link_from(0);
        Ok(())
    }

    fn restore_work(&mut self, node: WorkNode<'_>, ownership: Ownership, history: &History<'_>) -> Result<(), Fault> {
        let WorkNode { work, position, state } = node;
        let creator = history.creators.get(&work.work_id).cloned();
        let creator = creator.ok_or_else(|| damaged("a Work has no creator"))?;
        let attempts = small(state.need("attempts")?)?;
        let admission_contract: Option<Digest> = intact_option(state.get("admission_contract"))?;
        let again = matches!(ownership, Ownership::Completed { keep_open: true, delivery: Delivery::Pending, .. });
        if again || matches!(ownership, Ownership::Available | Ownership::Claimed(_)) {
            self.check_live(&work, attempts, admission_contract.as_ref())?;
        }
        let gates = self.enlist(&work);
        let installed = self.policy()?;
        // Settled Work of a pool or key that is no longer installed never reaches an index.
        let pool = self.pools.binary_search_by(|state| state.name.cmp(&work.pool)).map_or(u16::MAX, |at| at as u16);
        let account = installed.policy.account(work.fairness_key.as_str()).map_or(u16::MAX, |at| at as u16);
        let ix = WorkIx(self.works.len() as u32);
        let restored = WorkState {
            position,
            ownership,
            attempts: if mutated!(CompactionRefundsAttempts) { 0 } else { attempts },
            retry_not_before: intact(state.need("retry_not_before")?)?,
            admission_contract,
            effective_priority: intact_option(state.get("effective_priority"))?,
            creator,
            issue_link: intact_option(state.get("issue_link"))?,
            issue_summary: intact_option(state.get("issue_summary"))?,
            pool,
            account,
            predecessors: Vec::new(),
            successors: Vec::new(),
            unverified: 0,
            gates,
            work,
        };
        if let Some(issue) = restored.bound_issue() {
            self.bound_issues.insert(issue.issue_identity(), ix);
        }
        if let Some(comment) = &restored.issue_summary {
            self.comments.insert(comment.clone(), CommentOwner::Summary(ix));
        }
        self.works.push(restored);
        Ok(())
    }

    /// What Work that can still be granted or completed needs of the installed Policy.
    fn check_live(&self, work: &Work, attempts: u32, contract: Option<&Digest>) -> Result<(), Fault> {
        let installed = self.policy()?;
        let pool =
            installed.policy.pools.get(&work.pool).filter(|pool| pool.profiles.contains_key(&work.worker_profile));
        let pool = pool.ok_or_else(|| damaged("the route of active Work is not installed"))?;
        let registered = installed.policy.account(work.fairness_key.as_str()).is_some();
        ensure!(registered, PolicyInvalid, "the accounting key of active Work is not registered");
        let within = i64::from(attempts) <= pool.retry.max_attempts.get();
        ensure!(within, CheckpointInvalid, "active Work has more attempts than the Policy allows");
        if let Some(entry) = self.registry.entry(work.pool.as_str(), work.worker_profile.as_str()) {
            let runs = entry.revisions.iter().any(|(revision, known)| {
                work.execution_ref.as_ref().is_none_or(|pin| pin == revision)
                    && known.profile.logical_contract.as_ref() == contract
            });
            let pinned = work.logical_contract.is_none() || work.logical_contract.as_ref() == contract;
            ensure!(runs && pinned, CheckpointInvalid, "no deployed revision has the contract of active Work");
        }
        Ok(())
    }

    fn read_ownership(
        &self,
        node: &WorkNode<'_>,
        times: &HashMap<Text, Node<'_>>,
        barriers: &mut HashMap<Text, Node<'_>>,
        cancellations: &HashMap<Text, Node<'_>>,
    ) -> Result<Ownership, Fault> {
        let (state, id) = (&node.state, node.work.work_id.text());
        let owner = match state.get("claim_id") {
            Some(claim) => Some(self.owner(claim, node)?),
            None => None,
        };
        let barrier = state.word("barrier");
        match (state.word("state"), owner) {
            ("available", None) if barrier == "none" => Ok(Ownership::Available),
            ("claimed", Some(claim)) if barrier == "none" && self.claim_at(claim).status.is_open() => {
                Ok(Ownership::Claimed(claim))
            }
            ("completed", Some(claim)) if self.claim_at(claim).status.as_str() == "completed" => {
                let keep_open = intact_option::<bool>(state.get("keep_open"))?.unwrap_or(false);
                let rounds = keep_open == self.claim_at(claim).status.round().is_some();
                ensure!(rounds, CheckpointInvalid, "a Work and its Claim differ in keep_open");
                let time = times.get(id).copied().ok_or_else(|| damaged("completed Work has no time"))?;
                Ok(Ownership::Completed {
                    claim,
                    completion_id: intact(state.need("completion_id")?)?,
                    completion_at: intact::<At>(time)?,
                    delivery: read_delivery(state, barriers.remove(id))?,
                    keep_open,
                })
            }
            ("cancelled", owner)
                if barrier == "none" && owner.is_none_or(|claim| !self.claim_at(claim).status.is_open()) =>
            {
                let operation = cancellations.get(id).copied();
                let operation: WorkCancellation = intact(operation.ok_or_else(|| damaged("no cancellation"))?)?;
                let commit_id: CommitId = intact(state.need("cancellation_commit_id")?)?;
                Ok(Ownership::Cancelled { operation, commit_id, owner })
            }
            _ => Err(damaged("a Work's state, owner and barrier do not fit together")),
        }
    }

    /// The Claim that a Work names as its current or last owner.
    fn owner(&self, claim: Node<'_>, node: &WorkNode<'_>) -> Result<ClaimIx, Fault> {
        let id = claim.string().ok_or_else(|| damaged("an owner is not an id"))?;
        let claim = self.claim_ids.get(id.as_str()).copied();
        let claim = claim.filter(|claim| self.claim_at(*claim).claim.work_id == node.work.work_id);
        claim.ok_or_else(|| damaged("a Work's owner is no Claim of it"))
    }
}

fn read_delivery(state: &Members<'_>, settled: Option<Node<'_>>) -> Result<Delivery, Fault> {
    match (state.word("barrier"), settled) {
        ("pending", None) => Ok(Delivery::Pending),
        ("verified", Some(settled)) => {
            let operation: Box<ResultOperation> = Box::new(intact(settled)?);
            let commit_id = intact(state.need("result_commit_id")?)?;
            let same = state.need("result")?.raw() == operation.descriptor.0.as_str();
            ensure!(same, CheckpointInvalid, "a Work's result is not its Result's descriptor");
            Ok(Delivery::Verified { operation, commit_id })
        }
        ("failed", Some(settled)) => {
            let operation: Box<DeliveryFailure> = Box::new(intact(settled)?);
            let same = state.word("disposition") == operation.disposition.as_str();
            ensure!(same, CheckpointInvalid, "a Work's disposition is not its DeliveryFailure's");
            Ok(Delivery::Failed(operation))
        }
        _ => Err(damaged("a barrier and its settlement do not fit together")),
    }
}
