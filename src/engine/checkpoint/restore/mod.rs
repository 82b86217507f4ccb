//! Restoring a projection from a checkpoint (engine.md 3.12.5).
//!
//! Whatever the digest vouches for is taken as given where the notes say so; the Git ancestry alone proves it. But a
//! state that no chain can reach, such as completed Work without a Completion, is refused even where the notes demand no
//! check: a projection has no place for it.

mod claims;
mod clocks;
mod deployments;
mod dispatches;
mod receipts;
mod works;

use std::sync::Arc;

use hashbrown::HashMap;

use crate::engine::mutation::mutated;
use crate::engine::schedule::clock::Ticks;
use crate::engine::state::{Accepted, ClaimState, ClaimStatus, Projection, Source, WorkIx};
use crate::protocol::actor::Role;
use crate::protocol::commit::Commit;
use crate::protocol::compressed::inflate;
use crate::protocol::fault::ensure;
use crate::protocol::json::{Kind, Node, Scanner};
use crate::protocol::limits::MAX_RECEIPT_BYTES;
use crate::protocol::operation::{Checkpoint, Observation, Operation};
use crate::protocol::policy::Policy;
use crate::protocol::request::RequestKind;
use crate::protocol::resource::GateKey;
use crate::protocol::wire::closed;
use crate::protocol::{At, Code, CommitId, Digest, Epoch, Fault, Generation, Measured, Repository, Text, Wire};

/// A defect of the checkpoint.
fn damaged(message: &'static str) -> Fault {
    Fault::new(Code::CheckpointInvalid, message)
}

/// Reads a value whose own refusals all mean that the checkpoint is damaged.
fn intact<T: Wire>(node: Node<'_>) -> Result<T, Fault> {
    T::read(node, Code::CheckpointInvalid)
        .map_err(|fault| Fault::new(Code::CheckpointInvalid, fault.message().to_owned()))
}

/// As [`intact`] for a member that may be absent.
fn intact_option<T: Wire>(node: Option<Node<'_>>) -> Result<Option<T>, Fault> {
    node.map(intact).transpose()
}

/// The entries of a map of the snapshot, by key.
fn entries(node: Node<'_>) -> Result<HashMap<Text, Node<'_>>, Fault> {
    let object = node.object().ok_or_else(|| damaged("a map of the checkpoint is not an object"))?;
    let mut entries = HashMap::with_capacity(object.len());
    for (key, value) in object.members() {
        ensure!(value.kind() == Kind::Object, CheckpointInvalid, "an entry of the checkpoint is not an object");
        entries.insert(key.string().ok_or_else(|| damaged("a key of the checkpoint is not a string"))?, value);
    }
    Ok(entries)
}

/// A safe count that is not negative.
fn count(node: Node<'_>) -> Result<u64, Fault> {
    let integer = node.integer().and_then(|integer| u64::try_from(integer).ok());
    integer.ok_or_else(|| damaged("a count of the checkpoint is not one"))
}

/// As [`count`], for the counts that a chain of a million commits bounds. There is room to count on.
fn small(node: Node<'_>) -> Result<u32, Fault> {
    let small = u32::try_from(count(node)?).ok().filter(|small| *small <= u32::MAX / 2);
    small.ok_or_else(|| damaged("a count of the checkpoint is out of bounds"))
}

/// A pass or virtual time: a canonical non-negative decimal.
fn ticks(node: Node<'_>) -> Result<Ticks, Fault> {
    let ticks = node.plain().and_then(|text| text.parse().ok());
    ticks.ok_or_else(|| damaged("a pass is not a canonical decimal"))
}

/// The members of the snapshot as it stands in the operation.
struct Parts<'a> {
    repository: Node<'a>,
    tip: Node<'a>,
    policy_epoch: Node<'a>,
    policy: Node<'a>,
    works: Node<'a>,
    claims: Node<'a>,
    dispatches: Node<'a>,
    observations: Node<'a>,
    requests: Node<'a>,
    clocks: Node<'a>,
    admission_paused: Node<'a>,
    grants_paused: Node<'a>,
    generation: Node<'a>,
    stats: Node<'a>,
    observation_writes: Node<'a>,
    seen_epochs: Node<'a>,
    seen_generations: Node<'a>,
    observation_ids: Node<'a>,
    terminal_barriers: Node<'a>,
    cancellations: Node<'a>,
    completion_times: Node<'a>,
    last_at: Node<'a>,
    deployments: Option<Node<'a>>,
}

impl<'a> Parts<'a> {
    fn read(state: Node<'a>) -> Result<Self, Fault> {
        const NAMES: &[(&str, bool); 24] = &[
            ("repository", true),
            ("tip", true),
            ("policy_epoch", true),
            ("policy", true),
            ("works", true),
            ("claims", true),
            ("dispatches", true),
            ("observations", true),
            ("requests_compressed", true),
            ("clocks", true),
            ("admission_paused", true),
            ("grants_paused", true),
            ("credential_generation", true),
            ("stats", true),
            ("ledger_bytes", true),
            ("observation_writes", true),
            ("seen_epochs", true),
            ("seen_generations", true),
            ("observation_ids", true),
            ("terminal_barriers", true),
            ("cancellations", true),
            ("completion_times", true),
            ("last_at", true),
            ("deployments", false),
        ];
        let slots = closed(state, NAMES, Code::CheckpointInvalid)?;
        let slot = |index: usize| slots[index].ok_or_else(|| damaged("the checkpoint lacks a member"));
        // What the ledger was long before is history; the account starts anew.
        count(slot(14)?)?;
        Ok(Self {
            repository: slot(0)?,
            tip: slot(1)?,
            policy_epoch: slot(2)?,
            policy: slot(3)?,
            works: slot(4)?,
            claims: slot(5)?,
            dispatches: slot(6)?,
            observations: slot(7)?,
            requests: slot(8)?,
            clocks: slot(9)?,
            admission_paused: slot(10)?,
            grants_paused: slot(11)?,
            generation: slot(12)?,
            stats: slot(13)?,
            observation_writes: slot(15)?,
            seen_epochs: slot(16)?,
            seen_generations: slot(17)?,
            observation_ids: slot(18)?,
            terminal_barriers: slot(19)?,
            cancellations: slot(20)?,
            completion_times: slot(21)?,
            last_at: slot(22)?,
            deployments: slots[23],
        })
    }

    /// True if this is the digest of the logical snapshot, in which the inflated receipts stand under `requests`.
    fn digests_to(&self, state: Node<'_>, requests: &str, digest: &Digest) -> bool {
        const KEY: &str = "\"requests_compressed\":";
        let (state, packed) = (state.raw(), self.requests.raw());
        // The member lies inside the state.
        let at = packed.as_ptr() as usize - state.as_ptr() as usize;
        let before = &state[..at - KEY.len()];
        digest.is_of(&[before, "\"requests\":", requests, &state[at + packed.len()..]])
    }
}

impl Projection {
    /// The state that a checkpoint, alone in its chain, stands for. The next commit has the ordinal after all receipts
    /// and the checkpoint.
    ///
    /// # Errors
    /// `checkpoint_invalid`, or the code of the Policy, profile, actor or deployment that is at fault inside it. A
    /// checkpoint that passes is still worth only what its Git ancestry proves.
    pub fn restore(commit: Commit, scanner: &mut Scanner) -> Result<Self, Fault> {
        let sound = commit.previous.is_none() && commit.actor.role == Role::Administrator;
        ensure!(sound, CheckpointInvalid, "a checkpoint is the root of its chain, made by an administrator");
        let [Operation::Checkpoint(checkpoint)] = commit.operations.as_slice() else {
            return Err(damaged("a checkpoint is one operation"));
        };
        let mut states = Scanner::new(scanner.host());
        let document = states.read(checkpoint.state.0.text())?;
        let parts = Parts::read(document.root())?;
        let packed = parts.requests.plain().ok_or_else(|| damaged("the compressed requests are not a string"))?;
        let requests = Text::from(inflate(packed, MAX_RECEIPT_BYTES)?);
        let mut receipts = Scanner::new(scanner.host());
        let history = receipts.read(&requests).map_err(|_| damaged("the inflated requests are not JSON"))?;
        let canonical = history.root().raw() == requests.as_str() && history.root().kind() == Kind::Array;
        ensure!(canonical, CheckpointInvalid, "the inflated requests are not a canonical array");
        let agrees = parts.digests_to(document.root(), requests.as_str(), &checkpoint.state_sha256);
        ensure!(agrees, CheckpointInvalid, "the checkpoint's state is not the one that its digest names");
        Self::rebuild(&commit, checkpoint, &parts, history.root())
    }

    fn rebuild(commit: &Commit, checkpoint: &Checkpoint, parts: &Parts<'_>, history: Node<'_>) -> Result<Self, Fault> {
        let last_at: At = intact(parts.last_at)?;
        let same = intact::<CommitId>(parts.tip)? == checkpoint.prior_tip
            && intact::<Repository>(parts.repository)? == commit.actor.repository
            && intact::<Epoch>(parts.policy_epoch)? == commit.policy_epoch
            && commit.at >= last_at;
        ensure!(same, CheckpointInvalid, "the checkpoint and its state differ in tip, repository, epoch or time");
        let policy = Policy::read(parts.policy, Code::LedgerInvalid)?;
        let mut restored = Self::empty();
        restored.repository = Some(commit.actor.repository.clone());
        restored.install(commit.policy_epoch.clone(), policy);
        restored.restore_switches(parts)?;
        check_counts(parts, history)?;
        restored.registry = deployments::restore(&*restored.policy()?, parts, history)?;
        if !mutated!(CompactionResetsDebt) {
            restored.restore_clocks(parts.clocks)?;
        }
        let history = receipts::read(history, parts, &commit.actor.repository)?;
        restored.restore_observations(parts)?;
        restored.restore_states(parts, &history)?;
        restored.finish(commit, history)
    }

    /// Pauses, generation and everything ever seen.
    fn restore_switches(&mut self, parts: &Parts<'_>) -> Result<(), Fault> {
        self.admission_paused = intact(parts.admission_paused)?;
        self.grants_paused = intact(parts.grants_paused)? && !mutated!(CompactionResumesGrants);
        self.generation = intact(parts.generation)?;
        self.seen_generations = seen::<Generation>(parts.seen_generations)?;
        let epochs = seen::<Epoch>(parts.seen_epochs)?;
        let known = self.seen_epochs.iter().all(|current| epochs.contains(current))
            && self.seen_generations.contains(&self.generation);
        ensure!(known, CheckpointInvalid, "the current epoch or generation was never seen");
        self.seen_epochs = epochs;
        Ok(())
    }

    fn restore_observations(&mut self, parts: &Parts<'_>) -> Result<(), Fault> {
        for (id, node) in entries(parts.observation_ids)? {
            let observation: Arc<Measured<Observation>> = Arc::new(intact(node)?);
            ensure!(*observation.observation_id.text() == id, CheckpointInvalid, "an observation has another id");
            self.observation_ids.insert(observation.observation_id.clone(), observation);
        }
        for (gate, node) in entries(parts.observations)? {
            let latest: Measured<Observation> = intact(node)?;
            ensure!(*latest.gate().text() == gate, CheckpointInvalid, "an observation is of another gate");
            let known = self.observation_ids.get(&latest.observation_id).filter(|known| ***known == latest);
            let shared = known.cloned().unwrap_or_else(|| Arc::new(latest));
            self.observations.insert(shared.gate(), shared);
        }
        let writes = parts.observation_writes.object().ok_or_else(|| damaged("observation_writes is not an object"))?;
        let gates: HashMap<Text, GateKey> =
            self.observations.keys().map(|gate| (gate.text().clone(), gate.clone())).collect();
        for (gate, writes) in writes.members() {
            let gate = gate.string().and_then(|gate| gates.get(&gate));
            let gate = gate.ok_or_else(|| damaged("a counted gate was never observed"))?;
            self.observation_writes.insert(gate.clone(), count(writes)?);
        }
        Ok(())
    }

    /// Work, Claims and dispatches, which name one another.
    fn restore_states(&mut self, parts: &Parts<'_>, history: &receipts::History<'_>) -> Result<(), Fault> {
        let nodes = works::read(parts.works, history)?;
        works::check_submissions(&nodes, history)?;
        let cancellations = entries(parts.cancellations)?;
        for (index, node) in nodes.iter().enumerate() {
            self.work_ids.insert(node.work.work_id.clone(), WorkIx(index as u32));
        }
        let mut barriers = entries(parts.terminal_barriers)?;
        let openings = self.restore_claims(parts, history, &cancellations, &mut barriers)?;
        check_cancellations(&self.claims, &nodes, &cancellations)?;
        self.restore_works(nodes, parts, history, &cancellations, barriers)?;
        self.restore_dispatches(parts, history, &openings)
    }

    /// The receipts and the checkpoint become the accepted commits, and the budget is checked once.
    fn finish(mut self, commit: &Commit, history: receipts::History<'_>) -> Result<Self, Fault> {
        let first_claim = self.claims.len() as u32;
        self.reserve(history.receipts.len() + 1);
        for receipt in history.receipts {
            let ordinal = self.requests.len() as u32;
            if !mutated!(CompactionForgetsRequests) {
                self.request_ids.insert(receipt.accepted.request_id.clone(), ordinal);
            }
            self.requests.push(receipt.accepted);
        }
        self.replaced = self.requests.len() as u32;
        let fresh = !self.request_ids.contains_key(&commit.request.id);
        ensure!(fresh, CheckpointInvalid, "the checkpoint's own request is among its receipts");
        self.request_ids.insert(commit.request.id.clone(), self.replaced);
        self.requests.push(Accepted {
            source: Source::Commit(commit.source.clone()),
            commit_id: commit.id.clone(),
            request_id: commit.request.id.clone(),
            kind: RequestKind::Checkpoint,
            fingerprint: commit.request.fingerprint.clone(),
            actor: Arc::clone(&commit.actor),
            at: commit.at,
            policy_epoch: commit.policy_epoch.clone(),
            claims: (first_claim, first_claim),
        });
        self.commit_ids.insert(commit.id.clone(), ());
        self.tip = Some(commit.id.clone());
        self.ledger_bytes = commit.ledger_bytes();
        let limits = self.rules()?.policy.limits;
        let within = self.ledger_bytes + self.headroom <= limits.ledger_bytes + limits.recovery_bytes;
        ensure!(within, CheckpointInvalid, "the checkpoint and the reserve of its state exceed the ledger's budget");
        Ok(self)
    }
}

/// The names of a set that is written as an object of `true`.
fn seen<T: Wire + Eq + std::hash::Hash>(node: Node<'_>) -> Result<hashbrown::HashSet<T>, Fault> {
    let object = node.object().ok_or_else(|| damaged("a set of the checkpoint is not an object"))?;
    object
        .members()
        .map(|(key, value)| {
            ensure!(value.boolean() == Some(true), CheckpointInvalid, "a set of the checkpoint holds something else");
            intact(key)
        })
        .collect()
}

/// Every recorded cancellation is of a Claim or Work that it cancelled.
fn check_cancellations(
    claims: &[ClaimState],
    nodes: &[works::WorkNode<'_>],
    recorded: &HashMap<Text, Node<'_>>,
) -> Result<(), Fault> {
    let claims = claims.iter().filter(|claim| matches!(claim.status, ClaimStatus::Cancelled { .. })).count();
    let works = nodes.iter().filter(|node| recorded.contains_key(node.work.work_id.text())).count();
    ensure!(claims + works == recorded.len(), CheckpointInvalid, "a cancellation belongs to nothing cancelled");
    Ok(())
}

/// The three counts that are checked before anything is built from what they count.
fn check_counts(parts: &Parts<'_>, history: Node<'_>) -> Result<(), Fault> {
    let stats = parts.stats.object().ok_or_else(|| damaged("stats are not an object"))?;
    let sizes = [
        ("transactions", history.array_len()),
        ("work", parts.works.object().map_or(0, |works| works.len())),
        ("claims", parts.claims.object().map_or(0, |claims| claims.len())),
    ];
    for (name, size) in sizes {
        let counted = stats.get(name).map(count).transpose()?;
        ensure!(counted == Some(size as u64), CheckpointInvalid, "the checkpoint's counts are not what it holds");
    }
    Ok(())
}
