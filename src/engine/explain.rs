//! Why a Work is or is not next (engine.md 4.7; decisions 38-40, 71, 72).

use hashbrown::HashSet;

use super::schedule::explain::{Capacity, SelectionView, write_position};
use super::schedule::{Eligibility, Reason, select};
use super::state::{Barrier, Ownership, Projection, WorkIx, WorkState};
use crate::protocol::fault::ensure;
use crate::protocol::json::{Members, Scanner, Writer};
use crate::protocol::resource::Edge;
use crate::protocol::{At, Code, Fault, Identity, Wire as _, WorkId};

/// Most unresolved edges that an explanation lists; the total is counted beside.
pub const MAX_UNRESOLVED: usize = 8;

/// The reference's explanation of one Work at one time.
#[derive(Clone, Debug)]
pub struct WorkExplanation {
    /// The dependency conditions alone.
    pub readiness: Eligibility,
    /// Every condition.
    pub scheduling: Eligibility,
    /// The pool's next selection.
    pub next: SelectionView,
    /// Capacity in use by the Work's pool and key.
    pub capacity: Capacity,
    work: WorkIx,
}

/// What decision 38 adds: the edges that hold a Work back, and the path to the first cause.
#[derive(Clone, Debug)]
pub struct WorkView {
    /// True if the Work could be granted now.
    pub ready: bool,
    /// The engine's reason code.
    pub reason: &'static str,
    /// The specification's word for it, where it has another.
    pub label: &'static str,
    /// Unresolved edges: `(kind, id, reason)`, at most [`MAX_UNRESOLVED`].
    pub unresolved: Vec<(&'static str, String, &'static str)>,
    /// All unresolved edges.
    pub unresolved_total: usize,
    /// Ancestors from the nearest to the first cause.
    pub blocking_path: Vec<WorkId>,
}

impl WorkView {
    /// Adds the members of decision 71.
    pub fn members(&self, state: &WorkState, members: &mut Members<'_>) {
        members.name("blocking_path", |w| w.array(&self.blocking_path, |w, id| id.write(w)));
        members.name("fairness_key", |w| state.work.fairness_key.write(w));
        members.name("label", |w| w.string(self.label));
        members.name("priority", |w| state.scheduling_priority().write(w));
        members.name("ready", |w| w.bool(self.ready));
        members.name("reason", |w| w.string(self.reason));
        members.name("unresolved", |w| {
            w.array(&self.unresolved, |w, (kind, id, reason)| {
                w.object(|edge| {
                    edge.name("id", |w| w.string(id));
                    edge.name("kind", |w| w.string(kind));
                    edge.name("reason", |w| w.string(reason));
                });
            });
        });
        members.name("unresolved_total", |w| w.integer(self.unresolved_total as i64));
    }
}

/// Work that was found to have no cancelled or failed ancestor while one view is made, so that the many paths of a dense
/// graph are not walked one by one.
#[derive(Default)]
struct Hopeful(HashSet<WorkIx>);

impl Projection {
    /// The next selection of a pool, by the same function that grants.
    ///
    /// # Errors
    /// `policy_missing` without a Policy, `policy_invalid` for a pool that is not installed.
    pub fn explain_pool(&self, pool: &str, at: At) -> Result<SelectionView, Fault> {
        select(self, pool, at).map(|selection| SelectionView::of(self, &selection))
    }

    /// Explains one Work.
    ///
    /// # Errors
    /// `policy_missing` without a Policy, `policy_invalid` as engine.md 4.7 has it for retired pools.
    pub fn explain_work(&self, state: &WorkState, at: At) -> Result<WorkExplanation, Fault> {
        let installed = self.rules()?;
        let policy = &installed.policy;
        let pool = policy.pools.get(&state.work.pool);
        if pool.is_none() {
            let aged = state.work.depends_on.iter().any(|edge| match edge {
                Edge::Gate(gate) => self
                    .observations
                    .get(&gate.key)
                    .is_some_and(|latest| latest.credential_generation == self.generation),
                Edge::Work(_) => false,
            });
            if aged {
                return Err(Fault::new(
                    Code::PolicyInvalid,
                    "the Work's pool is retired, so its gates have no age limit",
                ));
            }
        }
        let runtime = self.pools.iter().find(|runtime| runtime.name == state.work.pool);
        let account = policy.account(state.work.fairness_key.as_str());
        let capacity = runtime.map_or(Capacity { logical: 0, native: 0, account: 0 }, |runtime| Capacity {
            logical: runtime.open,
            native: runtime.native,
            account: account.and_then(|account| runtime.open_by_account.get(&(account as u16)).copied()).unwrap_or(0),
        });
        let next = match select(self, state.work.pool.as_str(), at) {
            Ok(selection) => SelectionView::of(self, &selection),
            Err(_) => SelectionView::refused(Reason::PolicyEpochRetired.as_str()),
        };
        Ok(WorkExplanation {
            readiness: self.dependencies(state, pool, at),
            scheduling: self.eligibility(state, at, None),
            next,
            capacity,
            work: self.work_ids.get(&state.work.work_id).copied().unwrap_or(WorkIx(0)),
        })
    }

    /// Writes an explanation in the reference's shape.
    pub fn write_work_explanation(&self, explanation: &WorkExplanation, writer: &mut Writer) {
        writer.object(|members| self.work_explanation_members(explanation, members));
    }

    /// Adds an explanation's members to an object that says more.
    pub fn work_explanation_members(&self, explanation: &WorkExplanation, members: &mut Members<'_>) {
        let state = self.work_at(explanation.work);
        members.name("attempts", |w| w.integer(i64::from(state.attempts)));
        members.name("barrier", |w| w.string(state.barrier().as_str()));
        members.name("capacity", |w| explanation.capacity.write(w));
        members.name("next", |w| explanation.next.write(w));
        members.name("position", |w| write_position(state.position, w));
        members.name("readiness", |w| write_eligibility(&explanation.readiness, w));
        members.name("retry_not_before", |w| state.retry_not_before.write(w));
        members.name("scheduling", |w| write_eligibility(&explanation.scheduling, w));
        members.name("state", |w| w.string(state.state()));
        members.name("work_id", |w| state.work.work_id.write(w));
    }

    /// The compact view of a Work for reads.
    #[must_use]
    pub fn view_work(&self, state: &WorkState, at: At, allow: Option<&[Identity]>) -> WorkView {
        let eligibility = self.eligibility(state, at, allow);
        let mut unresolved = Vec::new();
        let mut total = 0;
        let installed = self.installed();
        let pool = installed.and_then(|installed| installed.policy.pools.get(&state.work.pool));
        let mut predecessors = state.predecessors.iter();
        let mut hopeful = Hopeful::default();
        for edge in &state.work.depends_on {
            let entry = match edge {
                Edge::Work(id) => predecessors.next().and_then(|ix| {
                    let reason = self.predecessor_label(*ix, &mut hopeful)?;
                    Some(("work", id.to_string(), reason))
                }),
                Edge::Gate(gate) => self.gate(&gate.key, pool, at).err().map(|reason| {
                    (gate.resource.kind.as_str(), gate.resource.resource_id.to_string(), gate_label(reason))
                }),
            };
            if let Some(entry) = entry {
                total += 1;
                if unresolved.len() < MAX_UNRESOLVED {
                    unresolved.push(entry);
                }
            }
        }
        let waits = matches!(state.ownership, Ownership::Available);
        let blocking_path = if waits { self.blocking_path(state, &mut hopeful) } else { Vec::new() };
        let label = self.label(&eligibility, state, &mut hopeful);
        WorkView {
            ready: eligibility.is_ready(),
            reason: eligibility.reason.as_str(),
            label,
            unresolved,
            unresolved_total: total,
            blocking_path,
        }
    }

    /// Explains every Claim of a committed request anew: replays the history up to its commit and lets the scheduler
    /// choose again (engine.md 4.7). One object a Claim, in order, as of the current tip; none if it granted nothing.
    ///
    /// What a checkpoint replaced cannot be replayed; its explanations were checked when it was, and are returned.
    ///
    /// # Errors
    /// `request_missing` for an unknown id, `selection_invalid` if the history gives another grant than the recorded one.
    pub fn rebuild_grants(&self, request: &str, scanner: &mut Scanner) -> Result<Vec<String>, Fault> {
        let missing = || Fault::new(Code::RequestMissing, "the queue has no request of this id");
        let ordinal = *self.request_ids.get(request).ok_or_else(missing)? as usize;
        let explain = |projection: &Self| -> Vec<String> {
            let claims = projection.requests.get(ordinal).map(|accepted| projection.granted(accepted));
            let text = |claim| {
                let mut writer = Writer::new();
                projection.write_claim_explanation(claim, &mut writer);
                writer.finish()
            };
            claims.unwrap_or_default().iter().map(text).collect()
        };
        let recorded = explain(self);
        let Some(source) = self.requests[ordinal].source.commit().filter(|_| !recorded.is_empty()) else {
            return Ok(recorded);
        };
        let before = self.active().take_while(|line| *line != source).count();
        let mut past = self.prefix(scanner, before + 1)?;
        // An explanation names the tip that it is given at.
        past.tip.clone_from(&self.tip);
        let rebuilt = explain(&past);
        ensure!(rebuilt == recorded, SelectionInvalid, "the history gives another grant than the recorded one");
        Ok(rebuilt)
    }

    /// The ancestors that hold a Work back, nearest first, down to one that waits for nothing but itself.
    fn blocking_path(&self, state: &WorkState, hopeful: &mut Hopeful) -> Vec<WorkId> {
        let mut path = Vec::new();
        let mut at = state;
        // A path visits each Work of an acyclic graph at most once, and a graph is bounded.
        while path.len() < 64 {
            let failed = at.predecessors.iter().find(|ix| self.dead_label(**ix, hopeful).is_some());
            let waiting = at.predecessors.iter().find(|ix| self.work_at(**ix).barrier() != Barrier::Verified);
            let Some(ix) = failed.or(waiting) else { break };
            at = self.work_at(*ix);
            path.push(at.work.work_id.clone());
        }
        path
    }

    /// The label of Work that can never be verified because it or an ancestor at any depth is cancelled or failed.
    fn dead_label(&self, ix: WorkIx, hopeful: &mut Hopeful) -> Option<&'static str> {
        let mut seen = HashSet::<WorkIx>::from([ix]);
        let mut stack = vec![ix];
        while let Some(ix) = stack.pop() {
            let state = self.work_at(ix);
            match (&state.ownership, state.barrier()) {
                (Ownership::Cancelled { .. }, _) => return Some("dependency_failed"),
                (_, Barrier::Failed) => return Some("dependency_delivery_failed"),
                (_, Barrier::Verified) => {}
                _ => {
                    let unknown = |next: &WorkIx| !hopeful.0.contains(next) && seen.insert(*next);
                    stack.extend(state.predecessors.iter().copied().filter(unknown));
                }
            }
        }
        hopeful.0.extend(seen);
        None
    }

    /// Decision 72 for one predecessor; none if it is verified.
    fn predecessor_label(&self, ix: WorkIx, hopeful: &mut Hopeful) -> Option<&'static str> {
        let state = self.work_at(ix);
        match state.barrier() {
            Barrier::Verified => None,
            Barrier::Pending => Some("dependency_result_unavailable"),
            Barrier::None | Barrier::Failed => Some(self.dead_label(ix, hopeful).unwrap_or("dependency_wait")),
        }
    }

    fn label(&self, eligibility: &Eligibility, state: &WorkState, hopeful: &mut Hopeful) -> &'static str {
        match eligibility.reason {
            Reason::DependencyResultUnavailable | Reason::DependencyFailed | Reason::DependencyDeliveryFailed => {
                let dead = state.predecessors.iter().find_map(|ix| self.dead_label(*ix, hopeful));
                let waiting = state.predecessors.iter().find_map(|ix| self.predecessor_label(*ix, hopeful));
                dead.or(waiting).unwrap_or("dependency_wait")
            }
            reason => gate_label(reason),
        }
    }
}

/// The specification's word for a gate's reason; other reasons keep their own.
fn gate_label(reason: Reason) -> &'static str {
    match reason {
        Reason::DependencyExternalWaiting => "external_wait",
        Reason::ObservationStale | Reason::ExternalUnavailable => "external_unavailable",
        other => other.as_str(),
    }
}

fn write_eligibility(eligibility: &Eligibility, writer: &mut Writer) {
    writer.object(|members| {
        members.name("observations", |w| w.array(&eligibility.observations, |w, id| id.write(w)));
        members.name("ready", |w| w.bool(eligibility.is_ready()));
        members.name("reason", |w| w.string(eligibility.reason.as_str()));
        if let Some(predecessor) = &eligibility.predecessor {
            members.name("work_id", |w| predecessor.write(w));
        }
    });
}
