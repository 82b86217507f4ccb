//! What an agent may touch (jobs.md 3.6 to 4.12): a snapshot that is read, intents that are staged. Nothing here holds a
//! token, opens a connection or writes to the queue.

pub mod captured;
pub mod catalog;
pub mod collect;
pub mod file;
pub mod intent;
pub mod prompt;
pub mod rpc;
mod schema;
pub mod server;
pub mod snapshot;
mod staging;
pub mod tools;
