//! The queue as the services use it (design.md 4): read it, publish one request. The publisher is the real one; the
//! simulated one keeps a chain in memory.

use std::sync::Arc;

use super::bootstrap::Proposal;
use super::current::Current;
use super::error::LedgerError;
use super::publisher::{Decide, Publication, Publisher, Queue};
use crate::protocol::commit::FrozenRequest;

/// One queue branch.
pub trait Ledger {
    /// Reads, replays and checks the queue. Always asks where it is kept, never writes.
    ///
    /// # Errors
    /// As [`Publisher::read`].
    fn read(&mut self) -> Result<Queue, LedgerError>;

    /// Reads a queue that must be there.
    ///
    /// # Errors
    /// As [`Publisher::read_present`].
    fn read_present(&mut self) -> Result<Arc<Current>, LedgerError>;

    /// Publishes a request: decides it on the state that is read, appends it by compare-and-swap, and repeats from the
    /// read after a lost race.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    fn publish(
        &mut self,
        request: &FrozenRequest,
        proposal: Option<&Proposal<'_>>,
        decide: &mut Decide<'_>,
    ) -> Result<Publication, LedgerError>;
}

impl Ledger for Publisher<'_> {
    fn read(&mut self) -> Result<Queue, LedgerError> {
        Publisher::read(self)
    }

    fn read_present(&mut self) -> Result<Arc<Current>, LedgerError> {
        Publisher::read_present(self)
    }

    fn publish(
        &mut self,
        request: &FrozenRequest,
        proposal: Option<&Proposal<'_>>,
        decide: &mut Decide<'_>,
    ) -> Result<Publication, LedgerError> {
        Publisher::publish(self, request, proposal, decide)
    }
}
