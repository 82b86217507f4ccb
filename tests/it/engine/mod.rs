//! Replay, planning and explanation against the conformance corpus.

mod administration;
mod admission;
mod boundaries;
mod checkpoint;
mod corpus_replay;
mod dense;
mod deployments;
mod epochs;
mod evidence_fairness;
mod fairness;
mod gates;
mod invalid;
mod issues;
mod lifecycle;
pub(crate) mod naive;
mod planner;
mod prefixes;
mod properties;
mod rounds;
mod rules;
mod scope;
mod vectors;
