//! What the controls of one run work with, and who asks (jobs.md 5.3.4).

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::forge::Client;
use crate::launch::error::LaunchError;
use crate::launch::origin::trusted_origin;
use crate::launch::publisher::{Authenticated, Scope, authenticate};
use crate::launch::settings::{Proposal, read_proposal};
use crate::launch::step::in_role;
use crate::ledger::Ledger;
use crate::ports::Clock;
use crate::protocol::actor::{Actor, Role};
use crate::protocol::assignment::Assignment;
use crate::protocol::json::Scanner;
use crate::protocol::{At, Handle, RepositoryName};
use crate::runner::Context;

use super::config::ControlConfig;
use crate::jobs::error::JobError;
use crate::jobs::given::{Given, is_staged};
use crate::jobs::own_run::OwnRun;
use crate::jobs::readers::{Connect, Readers};
use crate::jobs::world::World;

/// Everything that the intents of a batch share.
pub(super) struct Desk<'d> {
    pub(super) context: &'d Context,
    pub(super) client: Client<'d>,
    pub(super) clock: &'d dyn Clock,
    pub(super) repository: &'d RepositoryName,
    pub(super) host: &'d str,
    pub(super) ledger: &'d mut dyn Ledger,
    pub(super) config: &'d ControlConfig,
    pub(super) connect: &'d dyn Connect,
    pub(super) readers: Rc<Readers<'d>>,
    pub(super) proposal: Option<Proposal>,
    pub(super) staged: bool,
    pub(super) scanner: Scanner,
    pub(super) remaining: u32,
    /// What the first intent that was not carried out ended with.
    pub(super) failed: Option<JobError>,
    assignment: Option<&'d Assignment>,
    known: BTreeMap<Option<Handle>, Result<Requester, JobError>>,
}

/// Who asks, as the host confirmed it.
#[derive(Clone, Debug)]
pub struct Requester {
    /// The logical requester: its attempt is the one that staged the intents.
    pub actor: Actor,
    /// The same run as a dispatcher, at the attempt that publishes: it sends the launches.
    pub sender: Actor,
    /// When the run was created.
    pub created_at: Option<At>,
    /// The run's number among those of its workflow.
    pub run_number: u64,
}

impl Requester {
    fn of(client: Client<'_>, context: &Context, authenticated: &Authenticated) -> Result<Self, LaunchError> {
        let origin = trusted_origin(client, context, authenticated)?;
        Ok(Self {
            actor: origin.actor().clone(),
            sender: in_role(authenticated.actor(), Role::Dispatcher),
            created_at: authenticated.created_at().ok(),
            run_number: authenticated.run().run_number.unwrap_or(1),
        })
    }
}

impl<'d> Desk<'d> {
    /// Takes a job's world apart. Nothing is asked of the host yet.
    ///
    /// # Errors
    /// As [`read_proposal`] and [`Readers::of`].
    pub(super) fn new(
        world: &'d mut World<'_>,
        given: &'d Given,
        config: &'d ControlConfig,
        connect: &'d dyn Connect,
    ) -> Result<Self, JobError> {
        let proposal = read_proposal(world.variables.iter())?;
        let (staged, scanner) = (is_staged(world), world.scanner());
        let readers = Rc::new(Readers::of(world, connect)?);
        let (context, client, clock) = (world.context, world.client, world.clock);
        let (repository, host) = (world.repository, world.host);
        Ok(Self {
            context,
            client,
            clock,
            repository,
            host,
            ledger: &mut *world.ledger,
            config,
            connect,
            readers,
            proposal,
            staged,
            scanner,
            remaining: config.budget,
            failed: None,
            assignment: given.assignment.as_ref(),
            known: BTreeMap::new(),
        })
    }

    /// Dispatches that the batch leaves.
    pub(super) fn remaining(&self) -> u32 {
        self.remaining
    }

    /// The original assignment of a worker.
    pub(super) fn assignment(&self) -> Option<&'d Assignment> {
        self.assignment
    }

    /// The run as a worker's.
    pub(super) fn own_run(&self, assignment: &'d Assignment) -> OwnRun<'d> {
        OwnRun { client: self.client, context: self.context, clock: self.clock, assignment }
    }

    /// Authenticates this run once for each Claim, and confirms for whom it publishes. A worker must be its dispatch's
    /// bound run.
    pub(super) fn requester(&mut self, handle: Option<&Handle>) -> Result<Requester, JobError> {
        let key = handle.cloned();
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        // Kept when it fails too: many lines must not ask a host that does not answer many times.
        let requester = self.authenticate(handle);
        self.known.insert(key, requester.clone());
        requester
    }

    fn authenticate(&mut self, handle: Option<&Handle>) -> Result<Requester, JobError> {
        match (self.assignment, handle) {
            (Some(assignment), Some(handle)) => {
                let current = self.ledger.read_present()?;
                let bound = self.own_run(assignment).verify_on(&current, handle, !self.staged)?;
                Ok(Requester::of(self.client, self.context, &bound.authenticated)?)
            }
            _ => {
                let authenticated = authenticate(self.client, self.context, Role::Dispatcher, &Scope::default())?;
                Ok(Requester::of(self.client, self.context, &authenticated)?)
            }
        }
    }
}
