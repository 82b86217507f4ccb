//! A fair, incorruptible work queue for agentic GitHub workflows, kept in one file on a Git branch.

pub mod agent;
pub mod cli;
pub mod delivery;
pub mod engine;
pub mod forge;
pub mod jobs;
pub mod launch;
pub mod ledger;
pub mod ports;
pub mod protocol;
pub mod report;
pub mod runner;
