//! The integration tests, one binary.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests say what they skip, and may panic"
)]

mod conformance;
mod engine;
mod fixtures;
mod properties;
#[path = "../support/mod.rs"]
mod support;
