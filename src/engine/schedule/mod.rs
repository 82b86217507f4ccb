//! The scheduler: two-level stride, FIFO inside, fair-prefix packing (engine.md 4). Grants, replay's re-check,
//! predictions and explanations all call the one planner.

pub mod clock;
pub mod comparison;
mod eligibility;
pub mod explain;
mod pack;
pub(crate) mod pool;
mod select;

pub use eligibility::{Eligibility, Reason};
pub use pack::{Plan, PlanInputs, PlannedClaim, PlannedGroup, StopReason, plan};
pub use select::{Selection, select};
