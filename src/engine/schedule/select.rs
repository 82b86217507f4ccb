//! `planNext`: the one next winner of a pool (engine.md 4.4), over a scratch view of the projection.

use hashbrown::{HashMap, HashSet};
use std::cell::RefCell;
use std::sync::Arc;

use super::clock::{Clock, Ticks};
use super::pool::{Hint, PoolClocks, PoolState};
use crate::engine::mutation::mutated;
use crate::engine::state::{GateIx, Installed, Projection, WorkIx, WorkState};
use crate::protocol::policy::{Mode, Pool};
use crate::protocol::{At, Code, Fault, Identity, ObservationId, Priority};

/// Why a pool has no next winner, or that it has one.
#[derive(Clone, Debug)]
pub struct Selection {
    /// `selected`, `grants_paused`, `capacity_blocked`, `no_eligible_work` or `no_work`.
    pub reason: &'static str,
    /// The winner.
    pub winner: Option<Winner>,
}

/// A selected Work and the clocks as they will stand once it is granted.
#[derive(Clone, Debug)]
pub struct Winner {
    pub(crate) work: WorkIx,
    pub(crate) class: usize,
    pub(crate) account: u16,
    /// Effective priority.
    pub priority: Priority,
    /// The specification's word for how it was chosen: `fifo_default`, `priority_class`, `weighted_key` or
    /// `weighted_class` (engine.md 4.8).
    pub label: &'static str,
    /// Observations that the Claim will rest on, in edge order.
    pub observations: Vec<ObservationId>,
    /// Virtual time of the class clock after the pick.
    pub class_pass: Ticks,
    /// Virtual time of the key clock after the pick.
    pub key_pass: Ticks,
    pub(crate) classes: Option<Clock>,
    pub(crate) keys: Clock,
}

/// What is known of one class. A class that is not chosen needs no more than one eligible Work.
#[derive(Debug, Default)]
enum Class {
    #[default]
    Unknown,
    Empty,
    /// Some account has an eligible Work.
    Present(u16),
    Known(Heads),
}

impl Class {
    fn is_empty(&self) -> bool {
        match self {
            Self::Unknown | Self::Empty => true,
            Self::Present(_) => false,
            Self::Known(heads) => heads.accounts.is_empty(),
        }
    }
}

/// Heads of the eligible accounts of one class, in account order.
#[derive(Debug, Default)]
struct Heads {
    accounts: Vec<u16>,
    works: Vec<WorkIx>,
}

/// A scratch view of one pool: what it would be after some hypothetical Claims.
#[derive(Debug)]
pub(crate) struct Planner<'p> {
    pub(crate) projection: &'p Projection,
    pub(crate) installed: Arc<Installed>,
    pub(crate) pool_ix: u16,
    at: At,
    /// Approved profiles as a set: every Work that is considered asks it.
    allow: Option<HashSet<&'p str>>,
    /// True if routes must be asked for each Work.
    routes: bool,
    pub(crate) clocks: PoolClocks,
    pub(crate) open: u32,
    pub(crate) native: u32,
    extra_by_account: HashMap<u16, u32>,
    taken: HashSet<WorkIx>,
    /// Whether gates are satisfied, as far as somebody asked.
    gates: RefCell<Vec<Option<bool>>>,
    classes: [Class; 5],
}

/// The next winner of a pool, by the same function that grants.
///
/// # Errors
/// `policy_invalid` for a pool that is not installed.
pub fn select(projection: &Projection, pool: &str, at: At) -> Result<Selection, Fault> {
    Planner::new(projection, pool, at, None).map(|mut planner| planner.next())
}

impl<'p> Planner<'p> {
    pub(crate) fn new(
        projection: &'p Projection,
        pool: &str,
        at: At,
        allow: Option<&'p [Identity]>,
    ) -> Result<Self, Fault> {
        let installed = projection.policy()?;
        let missing = || Fault::new(Code::PolicyInvalid, "the pool is not installed");
        let ix = projection.pools.binary_search_by(|state| state.name.as_str().cmp(pool)).map_err(|_| missing())?;
        let state = &projection.pools[ix];
        Ok(Self {
            projection,
            routes: allow.is_some() || projection.registry.covers(pool),
            installed,
            pool_ix: ix as u16,
            at,
            allow: allow.map(|allow| allow.iter().map(Identity::as_str).collect()),
            clocks: state.current_clocks(),
            open: state.open,
            native: state.native,
            extra_by_account: HashMap::new(),
            taken: HashSet::new(),
            gates: RefCell::default(),
            classes: Default::default(),
        })
    }

    pub(crate) fn state(&self) -> &'p PoolState {
        &self.projection.pools[self.pool_ix as usize]
    }

    pub(crate) fn pool(&self) -> Result<&Pool, Fault> {
        let name = &self.state().name;
        self.installed.policy.pools.get(name).ok_or_else(|| Fault::from(Code::PolicyInvalid))
    }

    /// Open Claims of an account, hypothetical ones included.
    pub(crate) fn open_of(&self, account: u16) -> u32 {
        let stored = self.state().open_by_account.get(&account).copied().unwrap_or(0);
        stored + self.extra_by_account.get(&account).copied().unwrap_or(0)
    }

    /// The next winner. Changes no clock: [`Planner::take`] does.
    pub(crate) fn next(&mut self) -> Selection {
        let none = |reason| Selection { reason, winner: None };
        if self.projection.grants_paused && !mutated!(GrantWhilePaused) {
            return none("grants_paused");
        }
        let Ok(pool) = self.pool() else { return none("no_work") };
        if i64::from(self.open) >= pool.logical_limit.get() && !mutated!(IgnoreLogicalLimit) {
            return none("capacity_blocked");
        }
        self.pick().unwrap_or_else(|| {
            let available = self.state().available > self.taken.len() as u32;
            none(if available { "no_eligible_work" } else { "no_work" })
        })
    }

    fn pick(&mut self) -> Option<Selection> {
        for class in 0..5 {
            if matches!(self.classes[class], Class::Unknown) {
                self.classes[class] = self.first_of(class);
            }
        }
        let present: Vec<u16> = (0..5).filter(|class| !self.classes[usize::from(*class)].is_empty()).collect();
        let scales = &self.state().scales;
        let (class, classes) = match self.installed.policy.mode {
            Mode::StrictPriority => (*present.first()?, None),
            Mode::WeightedPriority => {
                let mut classes = self.clocks.classes.clone();
                (classes.pick(&scales.classes, &present)?, Some(classes))
            }
        };
        let class = usize::from(class);
        if !matches!(self.classes[class], Class::Known(_)) {
            self.classes[class] = Class::Known(self.heads_of(class));
        }
        let Class::Known(candidates) = &self.classes[class] else { return None };
        let mut keys = self.clocks.keys[class].clone().unwrap_or_else(|| Clock::new(scales.keys.len()));
        let account = keys.pick(&scales.keys, &candidates.accounts)?;
        let position = candidates.accounts.binary_search(&account).ok()?;
        let work = candidates.works[position];
        let state = self.projection.work_at(work);
        let keys_present = candidates.accounts.len();
        let label = label(self.installed.policy.mode, present.len(), class, keys_present, account);
        let observations = if !state.gates.is_empty() {
            self.projection.dependencies(state, self.pool().ok(), self.at).observations
        } else {
            Vec::new()
        };
        Some(Selection {
            reason: "selected",
            winner: Some(Winner {
                work,
                class,
                account,
                priority: state.scheduling_priority(),
                label,
                observations,
                class_pass: classes.as_ref().unwrap_or(&self.clocks.classes).v(),
                key_pass: keys.v(),
                classes,
                keys,
            }),
        })
    }

    /// Grants a winner hypothetically: clocks, counters and heads move on.
    pub(crate) fn take(&mut self, winner: Winner) {
        if let Some(classes) = winner.classes {
            self.clocks.classes = classes;
        }
        self.clocks.keys[winner.class] = Some(winner.keys);
        self.open += 1;
        *self.extra_by_account.entry(winner.account).or_default() += 1;
        self.taken.insert(winner.work);
        if self.account_full(winner.account) {
            for class in &mut self.classes {
                match class {
                    Class::Known(heads) => heads.remove(winner.account),
                    Class::Present(account) if *account == winner.account => *class = Class::Unknown,
                    _ => {}
                }
            }
        } else {
            let next = self.head(winner.class, winner.account, Some(winner.work));
            if let Class::Known(heads) = &mut self.classes[winner.class] {
                heads.replace(winner.account, next);
            }
        }
    }

    /// One account of a class with an eligible Work, if there is any.
    fn first_of(&self, class: usize) -> Class {
        let mut accounts = self.state().ready[class].keys();
        let first =
            accounts.find(|account| !self.account_full(**account) && self.head(class, **account, None).is_some());
        first.map_or(Class::Empty, |account| Class::Present(*account))
    }

    fn account_full(&self, account: u16) -> bool {
        let most = self.pool().ok().and_then(|pool| pool.per_account_limit);
        most.is_some_and(|most| i64::from(self.open_of(account)) >= most.get()) && !mutated!(IgnoreAccountLimit)
    }

    fn heads_of(&self, class: usize) -> Heads {
        let ready = &self.state().ready[class];
        let mut heads = Heads { accounts: Vec::with_capacity(ready.len()), works: Vec::with_capacity(ready.len()) };
        let limited = self.pool().is_ok_and(|pool| pool.per_account_limit.is_some());
        for (account, bucket) in ready {
            if limited && self.account_full(*account) {
                continue;
            }
            if let Some(work) = self.first(bucket.iter()) {
                heads.accounts.push(*account);
                heads.works.push(work);
            }
        }
        heads
    }

    /// First eligible Work of an account in FIFO order, behind `after`.
    fn head(&self, class: usize, account: u16, after: Option<WorkIx>) -> Option<WorkIx> {
        let bucket = self.state().ready[class].get(&account)?;
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.first(bucket.range((from, std::ops::Bound::Unbounded)))
    }

    fn first<'a>(&self, mut bucket: impl Iterator<Item = (&'a WorkIx, &'a Hint)>) -> Option<WorkIx> {
        let untouched = self.taken.is_empty();
        if mutated!(LastInFirstOut) {
            return bucket
                .filter(|(ix, hint)| !self.taken.contains(*ix) && self.admits(**ix, hint))
                .last()
                .map(|(ix, _)| *ix);
        }
        let (ix, _) = bucket.find(|(ix, hint)| (untouched || !self.taken.contains(*ix)) && self.admits(**ix, hint))?;
        Some(*ix)
    }

    /// The conditions that the frontier does not decide: time, route and gates.
    fn admits(&self, ix: WorkIx, hint: &Hint) -> bool {
        if hint.retry_not_before > self.at && !mutated!(IgnoreRetryDelay) {
            return false;
        }
        if !self.routes && !hint.gated {
            return true;
        }
        let work = self.projection.work_at(ix);
        let approved = self.allow.as_ref().is_none_or(|allow| allow.contains(work.work.worker_profile.as_str()));
        if !approved || (self.routes && self.projection.route_reason(work, None).is_some()) {
            return false;
        }
        // Work of the frontier waits for no other Work, so its gates are all that is left.
        work.gates.iter().all(|gate| self.is_open(*gate))
    }

    /// True if a gate is satisfied now. Looked up once, however many Work wait for it.
    fn is_open(&self, gate: GateIx) -> bool {
        let mut known = self.gates.borrow_mut();
        if known.is_empty() {
            known.resize(self.projection.gates.len(), None);
        }
        let ask = || self.projection.gate(&self.projection.gates[gate.0 as usize], self.pool().ok(), self.at).is_ok();
        *known[gate.0 as usize].get_or_insert_with(ask)
    }

    /// The eligible classes, and the eligible accounts of one of them, as the last pick saw them.
    pub(crate) fn contestants(&self, class: usize) -> (Vec<u16>, &[u16]) {
        let present = (0..5).filter(|class| !self.classes[usize::from(*class)].is_empty()).collect();
        match &self.classes[class] {
            Class::Known(heads) => (present, &heads.accounts),
            _ => (present, &[]),
        }
    }

    pub(crate) fn work(&self, ix: WorkIx) -> &'p WorkState {
        self.projection.work_at(ix)
    }
}

/// Index of the class of priority 3, which a submission has by default.
const DEFAULT_CLASS: usize = 2;
/// Index of the accounting key `""`, the first in UTF-8 order.
const DEFAULT_ACCOUNT: u16 = 0;

/// How a winner was chosen among so many eligible classes and, in its class, keys.
fn label(mode: Mode, classes: usize, class: usize, keys: usize, account: u16) -> &'static str {
    match mode {
        _ if (classes, class, keys, account) == (1, DEFAULT_CLASS, 1, DEFAULT_ACCOUNT) => "fifo_default",
        Mode::StrictPriority => "priority_class",
        Mode::WeightedPriority if keys > 1 => "weighted_key",
        Mode::WeightedPriority => "weighted_class",
    }
}

impl Heads {
    fn remove(&mut self, account: u16) {
        if let Ok(position) = self.accounts.binary_search(&account) {
            self.accounts.remove(position);
            self.works.remove(position);
        }
    }

    fn replace(&mut self, account: u16, next: Option<WorkIx>) {
        match (self.accounts.binary_search(&account), next) {
            (Ok(position), Some(work)) => self.works[position] = work,
            (Ok(_), None) => self.remove(account),
            (Err(_), _) => {}
        }
    }
}
