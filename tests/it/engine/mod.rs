//! Replay, planning and explanation against the conformance corpus.

mod corpus_replay;
mod invalid;
mod naive;
mod planner;
mod properties;
mod vectors;
