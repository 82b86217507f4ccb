//! What several test modules share.

pub(crate) mod corpus;
pub(crate) mod ledger;
pub(crate) mod driver;
