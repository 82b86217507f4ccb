//! A whole GitHub for tests: accounts, tokens, repositories, runs that advance only when told, faults on demand.
//!
//! [`Github`] is one shared world. [`Github::handle`] answers a request in process; [`Github::serve`] puts the same
//! world behind loopback HTTP, smart-HTTP Git included, so that two processes and one process see the same thing.
//! Every request and every reply that no fault spoils is held against GitHub's published schemas (`check`, `shape`); what
//! they refuse fails the test when the last handle of the test goes.

#![allow(dead_code, unused_imports, reason = "each test binary and each test uses its own part")]

mod actions;
mod artifacts;
mod ask;
mod build;
mod call;
mod check;
mod endpoint;
mod faults;
mod graphql;
mod handle;
mod journal;
mod openapi;
mod port;
mod render;
mod repository;
mod rest;
mod run;
mod server;
mod shape;
mod time;
mod workflow_file;
mod world;

pub(crate) use artifacts::{Packed, zip};
pub(crate) use ask::VERSION;
pub(crate) use build::{
    ADMIN, JOB, LAUNCH, NOTHING, OCTO_WIDGETS, READER, WRITER, dispatcher_lock, worker_lock, worker_source,
};
pub(crate) use call::{Answer, Call, Transport};
pub(crate) use check::{available as schemas_available, covered, found_in_reply};
pub(crate) use endpoint::{Endpoint, REST};
pub(crate) use faults::{Faults, Strike};
pub(crate) use handle::{Github, NewRun};
pub(crate) use journal::Logged;
pub(crate) use port::Port;
pub(crate) use repository::Role;
pub(crate) use run::Run;
pub(crate) use server::{Options, Server};
pub(crate) use shape::tally as checked_messages;
pub(crate) use time::{http_date, rfc3339};
pub(crate) use world::{Access, Account, Area, Edition, Entry, Issue, Issued, Kind, Level, Lifecycle, Pull, Token};
