//! The published conformance data and the ledger corpus, as far as bytes and records go.

mod corpus;
mod effects;
mod prefix;
mod schema;
mod values;
