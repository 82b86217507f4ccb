//! The queue's part of the safe outputs (jobs.md 5): settle, controls and deliver, in this order. A Completion stands before
//! the controls of its Claim, both before its outputs, and its Result comes last.

use super::error::JobError;
use super::readers::Connect;
use super::world::World;
use super::{controls, deliver, settle};

/// One phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Each Claim ends.
    Settle,
    /// Staged submissions and grants are published.
    Controls,
    /// Outputs are attributed, and what can be proven becomes a Result.
    Deliver,
}

/// The order in which all of them run.
pub const PHASES: [Phase; 3] = [Phase::Settle, Phase::Controls, Phase::Deliver];

/// Runs phases. One that fails does not keep the later ones from running and reporting: each asks the ledger and the host
/// for its own authority.
///
/// # Errors
/// That of the first phase that failed.
pub fn run(world: &mut World<'_>, connect: &dyn Connect, phases: &[Phase]) -> Result<(), JobError> {
    let mut first: Option<JobError> = None;
    for phase in phases {
        let done = match phase {
            Phase::Settle => settle::run(world).map(drop),
            Phase::Controls => controls::run(world, connect).map(drop),
            Phase::Deliver => deliver::run(world).map(drop),
        };
        if let Err(error) = done {
            first.get_or_insert(error);
        }
    }
    first.map_or(Ok(()), Err)
}
