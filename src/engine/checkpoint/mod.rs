//! Checkpoints: the state of a chain in place of its history (engine.md 3.12).
//!
//! A checkpoint keeps what later decisions and answers need: the projection, every accepted request as a receipt, and
//! each Claim's explanation. It drops payloads of requests, old Policies and evidence receipts. Its digest covers the
//! logical snapshot, in which the receipts stand uncompressed, so that two writers agree whatever their compressor.

mod build;
mod receipt;
mod restore;
mod snapshot;

pub use build::{BuiltCheckpoint, CheckpointInputs, checkpoint_request_id};
pub use snapshot::Snapshot;
