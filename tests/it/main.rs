//! The integration tests, in one binary so that they link once.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "a test may stop and may explain")]

mod bad_input;
mod cli_answers;
mod cli_bad_input;
mod cli_cancel;
mod cli_compact;
mod cli_control;
mod cli_demo;
mod cli_explain;
mod cli_gates;
mod cli_inspect;
mod cli_no_cache;
mod cli_policy;
mod cli_publish;
mod cli_read;
mod cli_selectors;
mod cli_state;
mod cli_trace;
mod cold_replay;
mod conformance;
mod documents;
mod engine;
mod envelope;
mod failures;
mod fixtures;
mod fuzz_seeds;
mod git_ancestry;
mod git_compact;
mod git_environment;
mod git_extend;
mod git_http;
mod git_process;
mod git_publish;
mod git_publisher;
mod git_read;
mod hostile_repository;
mod old_ledgers;
mod properties;
mod readme_tour;
mod records;
mod requirements;
mod rooms;
mod stress;
#[path = "../support/mod.rs"]
mod support;
mod tree;
