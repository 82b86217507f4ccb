//! The queue branch: reading it into an isolated store and publishing to it by compare-and-swap (design.md 2, 5;
//! publication.md 1 to 3).

mod ancestry;
mod bootstrap;
pub mod cold;
pub mod commit_object;
pub mod compact;
pub mod current;
pub mod error;
pub mod extension;
pub mod git;
mod guard;
pub mod head;
pub mod judge;
pub mod names;
pub mod port;
pub mod proposal;
pub mod publisher;
pub mod push;
mod register;
pub mod remote;
pub mod retry;
pub mod simulated;
pub mod store;
pub mod tree;

pub use bootstrap::{Admit, ConfirmEmpty, Proposal};
pub use compact::{Compacted, Compaction, CompactionPlan};
pub use current::Current;
pub use error::{Class, LedgerError};
pub use git::{Ambiguity, Bounds, Environment, Git, GitTransport, PushOutcome, Transport};
pub use head::{Head, Snapshot, read_head};
pub use names::Branch;
pub use port::Ledger;
pub use publisher::{Attempt, LaunchPermit, Outcome, Publication, Publisher, Queue, Setup};
pub use remote::Remote;
pub use retry::Retries;
pub use store::Store;
