//! What several test modules share.

pub(crate) mod built;
pub(crate) mod cli;
pub(crate) mod corpus;
pub(crate) mod git;
pub(crate) mod http_git;
pub(crate) mod ledger;
pub(crate) mod queue;
