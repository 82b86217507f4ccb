//! What several test modules share.

pub(crate) mod actions;
pub(crate) mod answers;
pub(crate) mod built;
pub(crate) mod cli;
pub(crate) mod corpus;
pub(crate) mod git;
pub(crate) mod github;
pub(crate) mod history;
pub(crate) mod http_git;
pub(crate) mod jobs;
pub(crate) mod ledger;
pub(crate) mod operator;
pub(crate) mod probe;
pub(crate) mod processes;
pub(crate) mod queue;
pub(crate) mod schema;
pub(crate) mod stage;
pub(crate) mod wire;

/// Prints a line past the capture of test output: what was covered and what was skipped belongs into every run's log.
macro_rules! tell {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let line = format!($($part)*) + "\n";
        // A closed standard error is no reason to fail a test.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }};
}
pub(crate) use tell;
