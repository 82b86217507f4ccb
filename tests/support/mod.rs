//! What several test modules share.

pub(crate) mod built;
pub(crate) mod corpus;
pub(crate) mod ledger;
