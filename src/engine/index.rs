//! Keeping the indexes true: every change of a Work or dispatch goes through here.
//!
//! Each state contributes to counters, to the recovery headroom and to the ready frontier. A change takes the
//! old contribution out, mutates, and puts the new one in, so no caller can forget an index.

use super::schedule::pool::{Hint, PoolState};
use super::state::{DispatchIx, DispatchState, Ownership, Projection, WorkIx, WorkState};
use crate::engine::mutation::mutated;
use crate::protocol::policy::{Limits, Pool};

/// Bytes that one Work may still need (engine.md 6.2).
pub(crate) fn work_reserve(work: &WorkState, pool: &Pool, limits: &Limits) -> u64 {
    if !work.is_active() {
        return 0;
    }
    let (evidence, result) = (limits.evidence_bytes, limits.result_bytes);
    let most = pool.retry.max_attempts.get() as u64;
    let left = match work.ownership {
        // The Result gives every attempt back, and must not fail for want of the room that they need.
        Ownership::Completed { keep_open: true, .. } => most,
        Ownership::Completed { .. } => 0,
        _ => most.saturating_sub(u64::from(work.attempts)),
    };
    let claimed = if matches!(work.ownership, Ownership::Claimed(_)) { 8192 } else { 0 };
    left * (4 * evidence + 8192) + 2 * result + 2 * evidence + 8192 + claimed
}

/// Bytes that one dispatch may still need (engine.md 6.2).
pub(crate) fn dispatch_reserve(dispatch: &DispatchState, pool: &Pool, limits: &Limits) -> u64 {
    if dispatch.released {
        return 0;
    }
    let evidence = limits.evidence_bytes;
    let budget = pool.reconciliation.max_attempts.get() as u64 + 4;
    let left = budget.saturating_sub(u64::from(dispatch.lifecycle_writes));
    left * (2 * evidence + 12_288) + 2 * evidence + 8192
}

/// What one active Work adds to the indexes.
struct Share {
    pool: usize,
    reserve: u64,
    available: bool,
    /// Its place in the ready frontier: class, account, and what eligibility needs.
    ready: Option<(usize, u16, Hint)>,
}

impl Projection {
    /// The state and the Policy of the pool of active Work or of an unreleased dispatch. Such pools are installed,
    /// because a Policy changes only when nothing is active.
    fn pool_parts(&self, pool: u16) -> Option<(&PoolState, &Pool, &Limits)> {
        let state = self.pools.get(pool as usize)?;
        let policy = &self.installed.as_ref()?.policy;
        Some((state, policy.pools.get(&state.name)?, &policy.limits))
    }

    pub(crate) fn change_work(&mut self, ix: WorkIx, change: impl FnOnce(&mut WorkState)) {
        self.detach_work(ix);
        change(&mut self.works[ix.0 as usize]);
        self.attach_work(ix);
    }

    pub(crate) fn attach_work(&mut self, ix: WorkIx) {
        self.count_work(ix, true);
        let Some(share) = self.share_of(ix) else { return };
        let pool = &mut self.pools[share.pool];
        pool.active += 1;
        pool.available += u32::from(share.available);
        if let Some((class, account, hint)) = share.ready {
            pool.ready[class].entry(account).or_default().insert(ix, hint);
        }
        self.active_works += 1;
        self.headroom += share.reserve;
    }

    fn detach_work(&mut self, ix: WorkIx) {
        self.count_work(ix, false);
        let Some(share) = self.share_of(ix) else { return };
        let pool = &mut self.pools[share.pool];
        pool.active -= 1;
        pool.available -= u32::from(share.available);
        if let Some((class, account, _)) = share.ready
            && let Some(bucket) = pool.ready[class].get_mut(&account)
        {
            bucket.remove(&ix);
            if bucket.is_empty() {
                pool.ready[class].remove(&account);
            }
        }
        self.active_works -= 1;
        self.headroom -= share.reserve;
    }

    /// What a Work adds to the indexes as it stands; nothing once it is settled or cancelled.
    fn share_of(&self, ix: WorkIx) -> Option<Share> {
        let work = self.work_at(ix);
        if !work.is_active() {
            return None;
        }
        let (_, pool, limits) = self.pool_parts(work.pool)?;
        let hint = Hint { retry_not_before: work.retry_not_before, gated: !work.gates.is_empty() };
        let class = work.scheduling_priority().get() as usize - 1;
        Some(Share {
            pool: usize::from(work.pool),
            reserve: work_reserve(work, pool, limits),
            available: matches!(work.ownership, Ownership::Available),
            ready: is_frontier(work, pool).then_some((class, work.account, hint)),
        })
    }

    fn count_work(&mut self, ix: WorkIx, add: bool) {
        let counter = match self.works[ix.0 as usize].ownership {
            Ownership::Available => &mut self.counts.available,
            Ownership::Claimed(_) => &mut self.counts.claimed,
            Ownership::Completed { .. } => &mut self.counts.completed,
            Ownership::Cancelled { .. } => &mut self.counts.cancelled,
        };
        *counter = if add { *counter + 1 } else { *counter - 1 };
    }

    /// Appends a dispatch and counts its reservation.
    pub(crate) fn open_dispatch(&mut self, dispatch: DispatchState) -> DispatchIx {
        let ix = DispatchIx(self.dispatches.len() as u32);
        self.dispatch_ids.insert(dispatch.assignment.dispatch_id.clone(), ix);
        self.dispatches.push(dispatch);
        self.attach_dispatch(ix);
        ix
    }

    pub(crate) fn change_dispatch(&mut self, ix: DispatchIx, change: impl FnOnce(&mut DispatchState)) {
        let reserve = self.reserve_of(ix);
        self.headroom -= reserve;
        if !self.dispatch_at(ix).released {
            self.unreleased -= 1;
            let pool = self.dispatch_at(ix).pool as usize;
            self.pools[pool].native -= 1;
        }
        change(&mut self.dispatches[ix.0 as usize]);
        self.attach_dispatch(ix);
    }

    fn attach_dispatch(&mut self, ix: DispatchIx) {
        self.headroom += self.reserve_of(ix);
        if !self.dispatch_at(ix).released {
            self.unreleased += 1;
            let pool = self.dispatch_at(ix).pool as usize;
            self.pools[pool].native += 1;
        }
    }

    fn reserve_of(&self, ix: DispatchIx) -> u64 {
        let dispatch = self.dispatch_at(ix);
        if dispatch.released || mutated!(FreeReservation) {
            return 0;
        }
        self.pool_parts(dispatch.pool).map_or(0, |(_, pool, limits)| dispatch_reserve(dispatch, pool, limits))
    }

    /// One more open Claim of an account.
    pub(crate) fn count_open(&mut self, pool: u16, account: u16) {
        let pool = &mut self.pools[pool as usize];
        pool.open += 1;
        *pool.open_by_account.entry(account).or_default() += 1;
    }

    /// One open Claim of an account less.
    pub(crate) fn count_closed(&mut self, pool: u16, account: u16) {
        let pool = &mut self.pools[pool as usize];
        pool.open -= 1;
        if let Some(open) = pool.open_by_account.get_mut(&account) {
            *open -= 1;
            if *open == 0 {
                pool.open_by_account.remove(&account);
            }
        }
    }
}

/// True if only time, gates, routes or capacity can still hold the Work back.
fn is_frontier(work: &WorkState, pool: &Pool) -> bool {
    matches!(work.ownership, Ownership::Available)
        && (work.unverified == 0 || mutated!(SuccessorBeforeResult))
        && i64::from(work.attempts) < pool.retry.max_attempts.get()
}
