//! What people read: labels that cannot harm a terminal, tables, and nothing that looks like a secret. Pure.

mod label;
mod redact;
mod table;

pub use label::{label, plain, quote, short};
pub use redact::redact;
pub use table::{Align, Table};
