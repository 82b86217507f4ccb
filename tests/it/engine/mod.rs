//! Replay, planning and explanation against the conformance corpus.

mod admission;
mod corpus_replay;
mod fairness;
mod invalid;
mod naive;
mod planner;
mod properties;
mod rules;
mod vectors;
