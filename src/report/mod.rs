//! What people read: labels that cannot harm a terminal, tables, and nothing that looks like a secret. Pure.

pub mod activity;
pub mod category;
pub mod commit_view;
pub mod debug;
mod details;
mod forest;
pub mod grant;
mod label;
mod markdown;
mod metrics;
mod page;
pub mod receipt;
mod redact;
mod table;
mod trace;
mod work;

pub use details::{Details, MAX_ATTEMPTS, terminal};
pub use forest::forest_page;
pub use label::{label, plain, quote, short};
pub use markdown::{cell, rows};
pub use metrics::metrics;
pub use page::{Line, MAX_PAGE_BYTES, MAX_ROWS, Page};
pub use redact::redact;
pub use table::{Align, Table};
pub use trace::trace_page;
pub use work::counts;
