//! Which gates a grant must look at afresh, and which fresh observations may be written (engine.md 4.9, lifecycle.md
//! 7.3). Pure: somebody else does the looking.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::HashSet;

use super::state::{Projection, WorkIx, WorkState};
use crate::protocol::operation::Observation;
use crate::protocol::policy::Pool;
use crate::protocol::request::DispatchParameters;
use crate::protocol::resource::{Edge, Gate, GateKey};
use crate::protocol::{At, Code, Fault, Measured};

/// Most gates that one grant refreshes unless somebody asks for another number (engine.md 4.9).
pub const DEFAULT_REFRESH: i64 = 128;

impl Projection {
    /// The gates that must be read before this grant, in FIFO order of the Work that needs them, each once. At most
    /// `requested` (0 to 255), one fewer than a commit's operations, and none while nothing could be granted.
    ///
    /// Needed are gates of Work that only gates can still keep back: available, its retry boundary passed, its
    /// predecessors verified, within its pool's limits, its route approved. Such a gate is due when it was never
    /// observed, or under another credential generation, in the future, or too long ago. Work that a fresh observation
    /// holds back already needs no other gate, and a gate whose observations are used up for this epoch is not read.
    ///
    /// # Errors
    /// `ledger_invalid` for `requested` out of bounds, `policy_missing`, `policy_invalid` for a pool that is not
    /// installed.
    pub fn due_gates(&self, asked: &DispatchParameters, at: At, requested: i64) -> Result<Vec<&Gate>, Fault> {
        let budget = usize::try_from(self.observation_refresh_budget(requested)?).unwrap_or(usize::MAX);
        let missing = || Fault::new(Code::PolicyInvalid, "the pool is not installed");
        let name = asked.pool.as_str();
        let limits = self.rules()?.policy.pools.get(name).ok_or_else(missing)?;
        let ix = self.pools.binary_search_by(|state| state.name.as_str().cmp(name)).map_err(|_| missing())?;
        let pool = &self.pools[ix];
        let full =
            i64::from(pool.open) >= limits.logical_limit.get() || i64::from(pool.native) >= limits.native_limit.get();
        let mut due: Vec<&Gate> = Vec::new();
        if budget == 0 || full {
            return Ok(due);
        }
        // The frontier is in FIFO order inside each account; a heap of their heads merges them as far as is needed.
        let mut accounts: Vec<_> = pool
            .ready
            .iter()
            .flat_map(|class| class.values())
            .map(|bucket| {
                bucket.iter().filter(|(_, hint)| hint.gated && hint.retry_not_before <= at).map(|(ix, _)| *ix)
            })
            .collect();
        let mut heads: BinaryHeap<Reverse<(WorkIx, usize)>> = BinaryHeap::with_capacity(accounts.len());
        heads.extend(accounts.iter_mut().enumerate().filter_map(|(at, bucket)| Some(Reverse((bucket.next()?, at)))));
        let mut seen: HashSet<&GateKey> = HashSet::new();
        while let Some(Reverse((work, account))) = heads.pop() {
            let state = self.work_at(work);
            if self.own_reason(state, at, asked.worker_profiles.as_deref()).is_none() {
                for gate in self.due_of(state, limits, at) {
                    if due.len() == budget {
                        return Ok(due);
                    }
                    if seen.insert(&gate.key) {
                        due.push(gate);
                    }
                }
            }
            heads.extend(accounts[account].next().map(|next| Reverse((next, account))));
        }
        Ok(due)
    }

    /// The gates of one Work that must be read; none if one that need not be read holds it back.
    fn due_of<'p>(&'p self, state: &'p WorkState, limits: &Pool, at: At) -> Vec<&'p Gate> {
        let mut due = Vec::new();
        for edge in &state.work.depends_on {
            let Edge::Gate(gate) = edge else { continue };
            if self.gate(&gate.key, Some(limits), at).is_ok() {
                continue;
            }
            if !self.is_due(&gate.key, limits, at) {
                return Vec::new();
            }
            due.push(&**gate);
        }
        due
    }

    fn is_due(&self, gate: &GateKey, limits: &Pool, at: At) -> bool {
        let stale = self.observations.get(gate).is_none_or(|latest| {
            let age = at.get() - latest.observed_at.get();
            latest.credential_generation != self.generation || age < 0 || age > limits.max_observation_age_ms.get()
        });
        stale && self.may_observe(gate)
    }

    /// True while the gate may be observed once more in this epoch.
    fn may_observe(&self, gate: &GateKey) -> bool {
        let writes = self.observation_writes.get(gate).copied().unwrap_or(0);
        self.rules().is_ok_and(|installed| writes < installed.policy.limits.observation_writes)
    }

    /// True if a publisher may write this observation on this state. What it may not write would refuse a whole grant;
    /// left out, it leaves its gate as it was, which holds back only the Work behind it.
    #[must_use]
    pub fn accepts_observation(&self, observation: &Observation, at: At) -> bool {
        let Ok(installed) = self.rules() else { return false };
        let policy = &installed.policy;
        let gate = observation.gate();
        let repository = observation.resource.repository.as_str();
        observation.observed_at <= at
            && observation.credential_generation == self.generation
            && self.observations.get(&gate).is_none_or(|latest| latest.observed_at <= observation.observed_at)
            && Measured::new(observation.clone()).bytes() <= policy.limits.evidence_bytes
            && policy.pools.values().any(|pool| pool.allows(repository))
            && self.may_observe(&gate)
    }
}
