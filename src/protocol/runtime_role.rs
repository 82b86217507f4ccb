//! The three roles that a workflow can be compiled for (jobs.md 1.1).

use super::wire::words;

words! {
    /// What a workflow is to the queue. Actors of the ledger have roles of their own ([`super::actor::Role`]).
    pub enum RuntimeRole {
        /// Reads alone.
        Observer = "observer",
        /// Submits and dispatches.
        Dispatcher = "dispatcher",
        /// Works on an assignment.
        Worker = "worker",
    }
}
