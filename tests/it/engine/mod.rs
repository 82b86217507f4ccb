//! Replay, planning and explanation against the conformance corpus.

mod admission;
mod checkpoint;
mod corpus_replay;
mod fairness;
mod gates;
mod invalid;
mod lifecycle;
pub(crate) mod naive;
mod planner;
mod properties;
mod rules;
mod vectors;
