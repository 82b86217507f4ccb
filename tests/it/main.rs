//! The integration tests, in one binary so that they link once.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "a test may stop and may explain")]

mod documents;
mod failures;
mod requirements;
mod rooms;
mod tree;
