//! The published conformance data and the ledger corpus, as far as bytes and records go.

mod corpus;
mod prefix;
mod values;
