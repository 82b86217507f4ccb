//! The projection: everything that the ledger says, and the indexes that decisions need (engine.md 3.2).

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

use super::id_map::IdMap;
use super::registry::Registry;
use super::schedule::explain::ClaimExplanation;
use super::schedule::pool::PoolState;
use crate::protocol::actor::Actor;
use crate::protocol::assignment::Assignment;
use crate::protocol::evidence::RunBinding;
use crate::protocol::identity::CommentId;
use crate::protocol::operation::{
    Claim, ClaimCancellation, DeliveryFailure, DispatchStep, Observation, ResultOperation, WorkCancellation,
};
use crate::protocol::policy::{Policy, WorkerProfile};
use crate::protocol::request::{Parameters, RequestKind};
use crate::protocol::resource::{GateKey, Resource};
use crate::protocol::work::Work;
use crate::protocol::{
    At, ClaimId, CommitId, Decimal, Digest, DispatchId, Epoch, Generation, Measured, ObservationId, Opaque, PoolName,
    Priority, Reason, Repository, RequestId, Text, WorkId,
};

/// Dense index of a Work. Indexes follow admission, so they are also the FIFO order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkIx(pub(crate) u32);

/// Dense index of a Claim, in order of grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimIx(pub(crate) u32);

/// Dense index of a dispatch, in order of grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DispatchIx(pub(crate) u32);

/// Dense index of an external gate that some Work names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GateIx(pub(crate) u32);

/// A place in the logical chain: commit ordinal and operation index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Commit ordinal, from 0.
    pub commit: u32,
    /// Index of the operation in its commit.
    pub operation: u32,
}

/// Who owns a Work, and with what result.
#[derive(Clone, Debug)]
pub enum Ownership {
    /// Waiting for a grant.
    Available,
    /// Granted to an open Claim.
    Claimed(ClaimIx),
    /// Completed by a Claim.
    Completed {
        /// The Claim.
        claim: ClaimIx,
        /// Commit of its Completion.
        completion_id: CommitId,
        /// Time of that commit.
        completion_at: At,
        /// What became of its delivery.
        delivery: Delivery,
        /// True if a Result makes the Work available again (engine.md 3.13).
        keep_open: bool,
    },
    /// Ended without completion.
    Cancelled {
        /// The operation, for exact repetition.
        operation: WorkCancellation,
        /// Its commit.
        commit_id: CommitId,
        /// The Claim that owned the Work then.
        owner: Option<ClaimIx>,
    },
}

/// Delivery of completed Work.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// Not settled yet.
    Pending,
    /// Verified by a Result.
    Verified {
        /// The Result.
        operation: Box<ResultOperation>,
        /// Its commit.
        commit_id: CommitId,
    },
    /// Given up.
    Failed(Box<DeliveryFailure>),
}

/// The delivery barrier between Work and its successors (engine.md 3.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// Not completed.
    None,
    /// Completed, not settled.
    Pending,
    /// Result recorded.
    Verified,
    /// Delivery failed.
    Failed,
}

impl Barrier {
    /// The word of the projection.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pending => "pending",
            Self::Verified => "verified",
            Self::Failed => "failed",
        }
    }
}

/// State of one Work.
#[derive(Clone, Debug)]
pub struct WorkState {
    /// The admitted node.
    pub work: Work,
    /// Where it was admitted.
    pub position: Position,
    /// Owner and result.
    pub ownership: Ownership,
    /// Claims granted so far.
    pub attempts: u32,
    /// Not granted before this time; 0 at first.
    pub retry_not_before: At,
    /// Contract frozen at admission.
    pub admission_contract: Option<Digest>,
    /// Priority of future selections, where WorkPriority changed it.
    pub effective_priority: Option<Priority>,
    /// Actor of the admitting commit.
    pub creator: Arc<Actor>,
    /// The Issue that an IssueLink bound.
    pub issue_link: Option<Box<Resource>>,
    /// The comment that sums the Work up.
    pub issue_summary: Option<CommentId>,
    pub(crate) pool: u16,
    pub(crate) account: u16,
    /// Work predecessors in edge order.
    pub(crate) predecessors: Vec<WorkIx>,
    /// Work that names this one as predecessor.
    pub(crate) successors: Vec<WorkIx>,
    /// Predecessors without a Result.
    pub(crate) unverified: u32,
    /// External gates among the edges, in edge order.
    pub(crate) gates: Vec<GateIx>,
}

impl WorkState {
    /// The delivery barrier.
    #[must_use]
    pub fn barrier(&self) -> Barrier {
        match &self.ownership {
            Ownership::Completed { delivery: Delivery::Pending, .. } => Barrier::Pending,
            Ownership::Completed { delivery: Delivery::Verified { .. }, .. } => Barrier::Verified,
            Ownership::Completed { delivery: Delivery::Failed(_), .. } => Barrier::Failed,
            _ => Barrier::None,
        }
    }

    /// `available`, `claimed`, `completed` or `cancelled`.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match &self.ownership {
            Ownership::Available => "available",
            Ownership::Claimed(_) => "claimed",
            Ownership::Completed { .. } => "completed",
            Ownership::Cancelled { .. } => "cancelled",
        }
    }

    /// The current or last owner.
    #[must_use]
    pub fn owner(&self) -> Option<ClaimIx> {
        match &self.ownership {
            Ownership::Available => None,
            Ownership::Claimed(claim) | Ownership::Completed { claim, .. } => Some(*claim),
            Ownership::Cancelled { owner, .. } => *owner,
        }
    }

    /// The Result that verified the Work, and its commit.
    #[must_use]
    pub fn verified(&self) -> Option<(&ResultOperation, &CommitId)> {
        match &self.ownership {
            Ownership::Completed { delivery: Delivery::Verified { operation, commit_id }, .. } => {
                Some((operation, commit_id))
            }
            _ => None,
        }
    }

    /// The Issue that the Work is bound to, by its node or by an IssueLink.
    #[must_use]
    pub fn bound_issue(&self) -> Option<&Resource> {
        self.work.backing_issue.as_deref().or(self.issue_link.as_deref())
    }

    /// Priority of the next selection.
    #[must_use]
    pub fn scheduling_priority(&self) -> Priority {
        self.effective_priority.unwrap_or(self.work.priority)
    }

    /// True while the Work is neither settled nor cancelled.
    #[must_use]
    pub fn is_active(&self) -> bool {
        match &self.ownership {
            Ownership::Available | Ownership::Claimed(_) => true,
            Ownership::Completed { delivery, .. } => matches!(delivery, Delivery::Pending),
            Ownership::Cancelled { .. } => false,
        }
    }
}

/// State of one Claim.
#[derive(Clone, Debug)]
pub struct ClaimState {
    /// The operation.
    pub claim: Claim,
    /// Commit of the grant.
    pub commit_id: CommitId,
    /// Request of the grant.
    pub request_id: RequestId,
    /// Open or ended.
    pub status: ClaimStatus,
    /// Why this Work won.
    pub explanation: Box<ClaimExplanation>,
    /// The comment that shows this Claim.
    pub issue_comment: Option<CommentId>,
    pub(crate) work: WorkIx,
    pub(crate) dispatch: DispatchIx,
}

/// A round of kept-open Work, from its Completion on (engine.md 3.13).
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// The Result that settled the round, and its commit. The Work itself forgets both when it becomes available
    /// again. None while delivery is pending, and for ever once it failed: that failure is the Work's own.
    pub settled: Option<(Box<ResultOperation>, CommitId)>,
}

/// How a Claim stands.
#[derive(Clone, Debug)]
pub enum ClaimStatus {
    /// Granted.
    Open,
    /// Completed by its worker.
    Completed {
        /// Commit of the Completion.
        commit_id: CommitId,
        /// Set if the Completion kept its Work open.
        round: Option<Box<Round>>,
    },
    /// Given up by a ClaimCancellation.
    Cancelled {
        /// The operation, for exact repetition.
        operation: ClaimCancellation,
        /// Its commit.
        commit_id: CommitId,
    },
    /// Ended together with its Work.
    WorkCancelled {
        /// Reason of the WorkCancellation.
        reason: Reason,
        /// Its commit.
        commit_id: CommitId,
    },
}

impl ClaimStatus {
    /// `open`, `completed` or `cancelled`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Completed { .. } => "completed",
            Self::Cancelled { .. } | Self::WorkCancelled { .. } => "cancelled",
        }
    }

    /// The round that the Claim completed, if it kept its Work open.
    #[must_use]
    pub fn round(&self) -> Option<&Round> {
        match self {
            Self::Completed { round, .. } => round.as_deref(),
            _ => None,
        }
    }

    /// True while the Claim is open.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }
}

/// Where a dispatch is in its lifecycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DispatchPhase {
    /// Granted, no launch begun.
    Reserved,
    /// Moved by a Dispatch operation.
    Moved(DispatchStep),
}

impl DispatchPhase {
    /// The word of the projection.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Moved(step) => step.as_str(),
        }
    }
}

/// State of one dispatch: a reservation of native capacity until released.
#[derive(Clone, Debug)]
pub struct DispatchState {
    /// The immutable assignment.
    pub assignment: Assignment,
    /// The route, frozen at the first Claim.
    pub profile: Arc<WorkerProfile>,
    /// Lifecycle state.
    pub phase: DispatchPhase,
    /// True once its capacity is free again.
    pub released: bool,
    /// Accepted Dispatch operations.
    pub lifecycle_writes: u32,
    /// Who began the launch.
    pub sender: Option<Actor>,
    /// Principal of the launching credential.
    pub credential_principal: Option<Decimal>,
    /// The bound run.
    pub run: Option<RunBinding>,
    /// Last reason given.
    pub reason: Option<Reason>,
    pub(crate) pool: u16,
    pub(crate) members: Vec<ClaimIx>,
}

impl DispatchState {
    /// The principal that its run must have, once known.
    #[must_use]
    pub fn principal(&self) -> Option<&Decimal> {
        self.profile.principal.as_ref().or(self.credential_principal.as_ref())
    }
}

/// What is left of an accepted commit.
#[derive(Clone, Debug)]
pub enum Source {
    /// Canonical text of a commit of the active chain.
    Commit(Opaque),
    /// Canonical text of the receipt that a checkpoint keeps of it (engine.md 3.12.2).
    Receipt(Opaque),
}

impl Source {
    /// The commit's canonical text, while the ledger still holds it.
    #[must_use]
    pub fn commit(&self) -> Option<&Opaque> {
        match self {
            Self::Commit(text) => Some(text),
            Self::Receipt(_) => None,
        }
    }
}

/// An accepted commit, as far as later decisions and reads need it.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// The commit, or its receipt.
    pub source: Source,
    /// Commit id.
    pub commit_id: CommitId,
    /// Request id.
    pub request_id: RequestId,
    /// Request kind.
    pub kind: RequestKind,
    /// Fingerprint.
    pub fingerprint: Digest,
    /// Actor.
    pub actor: Arc<Actor>,
    /// Time.
    pub at: At,
    /// Epoch.
    pub policy_epoch: Epoch,
    /// The Claims that it granted, as a range of Claim indexes.
    pub(crate) claims: (u32, u32),
}

/// The installed Policy and its epoch.
#[derive(Debug)]
pub struct Installed {
    /// Epoch.
    pub epoch: Epoch,
    /// Policy.
    pub policy: Policy,
}

/// The state after some prefix of a ledger. Extending it goes through [`Projection::apply`] alone.
#[derive(Clone, Debug)]
pub struct Projection {
    pub(crate) repository: Option<Repository>,
    pub(crate) tip: Option<CommitId>,
    pub(crate) installed: Option<Arc<Installed>>,
    pub(crate) works: Vec<WorkState>,
    pub(crate) work_ids: IdMap<WorkId, WorkIx>,
    pub(crate) claims: Vec<ClaimState>,
    pub(crate) claim_ids: IdMap<ClaimId, ClaimIx>,
    pub(crate) dispatches: Vec<DispatchState>,
    pub(crate) dispatch_ids: IdMap<DispatchId, DispatchIx>,
    /// Run ids ever bound, and to which dispatch.
    pub(crate) runs: IdMap<Decimal, DispatchIx>,
    pub(crate) registry: Registry,
    pub(crate) observations: HashMap<GateKey, Arc<Measured<Observation>>>,
    /// Gates that Work names, by index.
    pub(crate) gates: Vec<GateKey>,
    pub(crate) gate_ids: HashMap<GateKey, GateIx>,
    pub(crate) observation_ids: HashMap<ObservationId, Arc<Measured<Observation>>>,
    pub(crate) observation_writes: BTreeMap<GateKey, u64>,
    pub(crate) requests: Vec<Accepted>,
    /// How many of them are receipts; the active chain is the rest.
    pub(crate) replaced: u32,
    pub(crate) request_ids: IdMap<RequestId, u32>,
    pub(crate) commit_ids: IdMap<CommitId, ()>,
    /// Pools of the installed Policy, in name order.
    pub(crate) pools: Vec<PoolState>,
    pub(crate) admission_paused: bool,
    pub(crate) grants_paused: bool,
    pub(crate) generation: Generation,
    pub(crate) seen_epochs: HashSet<Epoch>,
    pub(crate) seen_generations: HashSet<Generation>,
    /// Issues bound to Work: host, repository id, resource id.
    pub(crate) bound_issues: HashMap<(Text, Text, Text), WorkIx>,
    /// Comments that projectors recorded, and what each shows.
    pub(crate) comments: HashMap<CommentId, CommentOwner>,
    pub(crate) graphs: HashMap<Text, GraphState>,
    /// Vertices of the largest graph; graphs only grow.
    pub(crate) largest_graph: u64,
    pub(crate) ledger_bytes: u64,
    /// Recovery headroom that the state needs (engine.md 6.2).
    pub(crate) headroom: u64,
    /// Work that is neither settled nor cancelled.
    pub(crate) active_works: u32,
    /// Dispatches that hold capacity.
    pub(crate) unreleased: u32,
    pub(crate) counts: Counts,
}

/// What a recorded comment shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommentOwner {
    /// A Work as a whole.
    Summary(WorkIx),
    /// One Claim.
    Claim(ClaimIx),
}

/// Vertices of one graph.
#[derive(Clone, Debug)]
pub(crate) struct GraphState {
    pub(crate) pool: PoolName,
    pub(crate) works: u64,
    pub(crate) gates: HashSet<GateKey>,
}

impl GraphState {
    pub(crate) fn vertices(&self) -> u64 {
        self.works + self.gates.len() as u64
    }
}

/// Work by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Available.
    pub available: u64,
    /// Claimed.
    pub claimed: u64,
    /// Completed.
    pub completed: u64,
    /// Cancelled.
    pub cancelled: u64,
}

/// Counts of the serialised projection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// All Work.
    pub work: u64,
    /// Work by state.
    pub counts: Counts,
    /// Claims ever granted.
    pub claims: u64,
    /// Unreleased dispatches.
    pub dispatches: u64,
    /// Accepted commits.
    pub transactions: u64,
    /// Distinct Work vertices plus distinct gates of each graph.
    pub nodes: u64,
}

impl Projection {
    /// The state before the first commit.
    ///
    /// # Panics
    /// Never: the initial generation is an identity.
    #[must_use]
    pub fn empty() -> Self {
        let generation = Generation::new("initial").expect("a literal identity");
        Self {
            repository: None,
            tip: None,
            installed: None,
            works: Vec::new(),
            work_ids: IdMap::default(),
            claims: Vec::new(),
            claim_ids: IdMap::default(),
            dispatches: Vec::new(),
            dispatch_ids: IdMap::default(),
            runs: IdMap::default(),
            registry: Registry::default(),
            observations: HashMap::new(),
            gates: Vec::new(),
            gate_ids: HashMap::new(),
            observation_ids: HashMap::new(),
            observation_writes: BTreeMap::new(),
            requests: Vec::new(),
            replaced: 0,
            request_ids: IdMap::default(),
            commit_ids: IdMap::default(),
            pools: Vec::new(),
            admission_paused: false,
            grants_paused: false,
            seen_epochs: HashSet::new(),
            seen_generations: HashSet::from([generation.clone()]),
            generation,
            bound_issues: HashMap::new(),
            comments: HashMap::new(),
            graphs: HashMap::new(),
            largest_graph: 0,
            ledger_bytes: 0,
            headroom: 0,
            active_works: 0,
            unreleased: 0,
            counts: Counts::default(),
        }
    }
}

impl Projection {
    /// Makes room for this many more commits at once.
    pub(crate) fn reserve(&mut self, commits: usize) {
        self.requests.reserve(commits);
        self.request_ids.reserve(commits);
        self.commit_ids.reserve(commits);
    }
}

/// What a commit is, for the operations that it carries.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) commit_id: &'a CommitId,
    pub(crate) request_id: &'a RequestId,
    pub(crate) kind: RequestKind,
    pub(crate) parameters: &'a Parameters,
    pub(crate) actor: &'a Arc<Actor>,
    pub(crate) at: At,
    pub(crate) ordinal: u32,
}
