//! What the scheduler keeps for each installed pool.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use std::sync::Arc;

use super::clock::{Clock, Scale};
use crate::engine::state::WorkIx;
use crate::protocol::policy::Policy;
use crate::protocol::{At, PoolName};

/// The stride clocks of one pool: one over priorities, one for each priority over accounting keys.
#[derive(Clone, Debug)]
pub(crate) struct PoolClocks {
    pub(crate) classes: Clock,
    pub(crate) keys: [Option<Clock>; 5],
}

/// Tick scales of an epoch, from all weights of its Policy.
#[derive(Debug)]
pub(crate) struct Scales {
    pub(crate) classes: Scale,
    pub(crate) keys: Scale,
}

impl Scales {
    pub(crate) fn new(policy: &Policy) -> Self {
        let classes: Vec<u32> = policy.class_weights.iter().map(|weight| weight.get() as u32).collect();
        let keys: Vec<u32> = policy.accounting.iter().map(|(_, weight)| weight.get() as u32).collect();
        Self { classes: Scale::new(&classes), keys: Scale::new(&keys) }
    }
}

/// What eligibility needs of a ready Work without touching its state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hint {
    pub(crate) retry_not_before: At,
    pub(crate) gated: bool,
}

/// Counters, ready frontier and clocks of one pool.
#[derive(Clone, Debug)]
pub(crate) struct PoolState {
    pub(crate) name: PoolName,
    /// Open Claims.
    pub(crate) open: u32,
    /// Open Claims by account index.
    pub(crate) open_by_account: HashMap<u16, u32>,
    /// Unreleased dispatches.
    pub(crate) native: u32,
    /// Available Work.
    pub(crate) available: u32,
    /// Work that is neither settled nor cancelled.
    pub(crate) active: u32,
    /// By class (priority - 1) and account: available Work whose predecessors are verified and whose attempts are
    /// not used up, in FIFO order.
    pub(crate) ready: [BTreeMap<u16, BTreeMap<WorkIx, Hint>>; 5],
    /// None until the first Claim of the epoch.
    pub(crate) clocks: Option<PoolClocks>,
    pub(crate) scales: Arc<Scales>,
}

impl PoolState {
    pub(crate) fn new(name: PoolName, scales: &Arc<Scales>) -> Self {
        Self {
            name,
            open: 0,
            open_by_account: HashMap::new(),
            native: 0,
            available: 0,
            active: 0,
            ready: Default::default(),
            clocks: None,
            scales: Arc::clone(scales),
        }
    }

    /// The stored clocks, or untouched ones.
    pub(crate) fn current_clocks(&self) -> PoolClocks {
        self.clocks
            .clone()
            .unwrap_or_else(|| PoolClocks { classes: Clock::new(self.scales.classes.len()), keys: Default::default() })
    }
}
