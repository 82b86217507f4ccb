//! Scheduling clocks of a checkpoint. Their values are taken as given; only their form is checked.

use super::{damaged, entries, ticks};
use crate::engine::schedule::clock::Clock;
use crate::engine::schedule::pool::PoolClocks;
use crate::engine::state::Projection;
use crate::protocol::json::Node;
use crate::protocol::wire::closed;
use crate::protocol::{Code, Fault};

impl Projection {
    pub(super) fn restore_clocks(&mut self, node: Node<'_>) -> Result<(), Fault> {
        let installed = self.policy()?;
        let accounting = &installed.policy.accounting;
        for (pool, node) in entries(node)? {
            let slots = closed(node, &[("classes", true), ("keys", true)], Code::CheckpointInvalid)?;
            let [Some(classes), Some(keys)] = slots else { return Err(damaged("a pool's clocks are incomplete")) };
            let classes = read(classes, 5, class_of)?;
            let mut clocks = PoolClocks { classes, keys: Default::default() };
            for (class, node) in entries(keys)? {
                let clock = read(node, accounting.len(), |key| installed.policy.account(key).map(|at| at as u16))?;
                if let Some(class) = class_of(class.as_str()) {
                    clocks.keys[usize::from(class)] = Some(clock);
                }
            }
            // A Policy change drops the clocks of every pool, so others than the installed ones have none.
            if let Some(state) = self.pools.iter_mut().find(|state| *state.name.text() == pool) {
                state.clocks = Some(clocks);
            }
        }
        Ok(())
    }
}

/// `"1"` to `"5"` as a member of the class clock.
fn class_of(name: &str) -> Option<u16> {
    ["1", "2", "3", "4", "5"].iter().position(|known| *known == name).map(|at| at as u16)
}

/// Reads one clock; members that `member` does not know are left out.
fn read(node: Node<'_>, members: usize, member: impl Fn(&str) -> Option<u16>) -> Result<Clock, Fault> {
    let slots = closed(node, &[("active", true), ("pass", true), ("v", true)], Code::CheckpointInvalid)?;
    let [Some(active), Some(pass), Some(v)] = slots else { return Err(damaged("a clock is incomplete")) };
    let object = |node: Node<'_>| node.object().is_some();
    if !(object(active) && object(pass)) {
        return Err(damaged("a clock's members are not objects"));
    }
    let mut passes = Vec::new();
    for (key, value) in pass.object().into_iter().flat_map(|object| object.members()) {
        let ticks = ticks(value)?;
        if let Some(member) = key.string().and_then(|key| member(key.as_str())) {
            passes.push((member, ticks));
        }
    }
    let mut present = Vec::new();
    for (key, value) in active.object().into_iter().flat_map(|object| object.members()) {
        if value.boolean() != Some(true) {
            return Err(damaged("an active member of a clock is not marked so"));
        }
        present.extend(key.string().and_then(|key| member(key.as_str())));
    }
    Ok(Clock::from_parts(members, ticks(v)?, passes, present))
}
