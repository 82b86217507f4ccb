//! Records in, projection out (engine.md 3-6). Pure: no clock, file, environment, network or randomness; every time
//! comes from a commit or an argument.

pub mod admission;
mod apply;
mod authority;
pub mod browse;
pub mod budget;
pub mod chain;
pub mod checkpoint;
mod encode;
pub mod explain;
pub mod gates;
pub mod generate;
mod hint;
mod id_map;
mod index;
mod matching;
pub mod mutation;
pub mod refresh;
pub mod registry;
pub mod replay;
pub mod schedule;
pub mod scope;
pub mod state;
pub mod submission;
pub mod trace;
mod view;

pub use explain::{WorkExplanation, WorkView};
pub use generate::{Decision, Generated};
pub use replay::replay;
pub use state::Projection;

#[cfg(test)]
mod tests;
