//! A staged `dispatch_next` (jobs.md 5.3.5): a fair prefix, committed within the pool's limits and the run's budget, and the
//! launch of its groups. Nothing that an agent wrote chooses the Work.

use std::rc::Rc;

use crate::agent::intent::Intent;
use crate::engine::Projection;
use crate::engine::state::{Accepted, Source};
use crate::launch::approve::CompiledApproval;
use crate::launch::deploy::Deployer;
use crate::launch::error::LaunchError;
use crate::launch::grant::{Ask, Granted, Synchronize};
use crate::launch::identity::request_id;
use crate::launch::observe::Resolver;
use crate::launch::start::Launcher;
use crate::protocol::actor::Role;
use crate::protocol::fault::ensure;
use crate::protocol::json::{Node, Scanner};
use crate::protocol::request::DispatchParameters;
use crate::protocol::wire::closed;
use crate::protocol::{Code, Fault, Generation, Identity, PoolName, Wire as _};
use crate::report::receipt::Receipt;

use super::config::LaunchCredential;
use super::desk::{Desk, Requester};
use super::launches::Told;
use super::preview;
use crate::jobs::error::JobError;

/// What an intent asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) pool: PoolName,
    pub(super) max_claims: i64,
    pub(super) max_dispatches: i64,
}

impl Wanted {
    /// Reads the closed parameters of an intent.
    ///
    /// # Errors
    /// `work_queue_dispatch_intent_invalid`.
    pub(super) fn read(intent: &Intent, scanner: &mut Scanner) -> Result<Self, Fault> {
        const CODE: Code = Code::WorkQueueDispatchIntentInvalid;
        let document = scanner.read(intent.parameters.text()).map_err(|_| Fault::from(CODE))?;
        let names = [("pool", true), ("max_claims", true), ("max_dispatches", true)];
        let [Some(pool), Some(claims), Some(dispatches)] = closed(document.root(), &names, CODE)? else {
            return Err(CODE.into());
        };
        let count = |node: Node<'_>| node.integer().filter(|count| (1..=256).contains(count)).ok_or(Fault::from(CODE));
        let pool = PoolName::read(pool, CODE).map_err(|_| Fault::from(CODE))?;
        Ok(Self { pool, max_claims: count(claims)?, max_dispatches: count(dispatches)? })
    }

    /// True if stored parameters are those of this intent; what the runtime adds to them is its own.
    pub(super) fn is_of(&self, stored: &DispatchParameters) -> bool {
        self.pool == stored.pool
            && self.max_claims == stored.max_claims.get()
            && self.max_dispatches == stored.max_dispatches.get()
    }

    /// The bounds that hold before anything is decided.
    fn check(&self, projection: &Projection) -> Result<(), Fault> {
        let installed = projection.installed().ok_or_else(|| Fault::from(Code::PolicyMissing))?;
        let pool = installed.policy.pools.get(&self.pool).ok_or_else(|| Fault::from(Code::PolicyInvalid))?;
        let claims =
            i64::try_from(installed.policy.limits.operations).unwrap_or(i64::MAX).min(pool.logical_limit.get());
        ensure!(
            self.max_claims <= claims && self.max_dispatches <= pool.native_limit.get(),
            WorkQueueDispatchIntentInvalid,
            "the request asks for more than the pool can hold"
        );
        Ok(())
    }
}

/// The parameters of an accepted grant; a checkpoint's receipt keeps them.
///
/// # Errors
/// None for a grant of a validated ledger.
pub(super) fn stored(accepted: &Accepted, scanner: &mut Scanner) -> Result<DispatchParameters, Fault> {
    let missing = || Fault::from(Code::RequestReused);
    let (Source::Commit(text) | Source::Receipt(text)) = &accepted.source;
    let document = scanner.read(text.text())?;
    let root = document.root().object().ok_or_else(missing)?;
    let parameters = match &accepted.source {
        Source::Commit(_) => root.get("request").and_then(Node::object).and_then(|request| request.get("parameters")),
        Source::Receipt(_) => root.get("dispatch_parameters"),
    };
    DispatchParameters::read(parameters.ok_or_else(missing)?, Code::RequestReused)
}

impl<'d> Desk<'d> {
    /// Carries out one request for a grant.
    ///
    /// # Errors
    /// Whatever refuses it before its commit. After the commit, failures are in the receipt.
    pub(super) fn dispatch_next(&mut self, intent: &Intent, who: &Requester) -> Result<Receipt, JobError> {
        tracing::debug!(target: "work-queue:dispatch", "intent.dispatch.start");
        let wanted = Wanted::read(intent, &mut self.scanner)?;
        let id = request_id(&who.actor, intent.intent_id.as_str());
        if let Some(assignment) = self.assignment() {
            let own = wanted.pool == assignment.pool;
            ensure!(own, WorkQueueControlPoolNotAuthorized, Code::WorkQueueControlPoolNotAuthorized.meaning());
        }
        let current = self.ledger.read_present()?;
        let accepted = current.projection.request(id.as_str());
        if self.staged {
            wanted.check(&current.projection)?;
            return Ok(Receipt { dispatches: Some(0), ..preview(intent) });
        }
        tracing::debug!(target: "work-queue:dispatch", prior_request = accepted.is_some(), "intent.dispatch.recovery");
        let generation = current.projection.generation().clone();
        let told = Told { intent, id: &id, wanted: &wanted };
        let Some(accepted) = accepted else {
            wanted.check(&current.projection)?;
            let profiles = self.config.allowed.worker_profiles(&current.projection, &wanted.pool);
            drop(current);
            return self.fresh(&told, who, profiles, &generation);
        };
        let same = accepted.actor.as_ref() == &who.actor && wanted.is_of(&stored(accepted, &mut self.scanner)?);
        ensure!(same, RequestReused, Code::RequestReused.meaning());
        if who.actor.role == Role::Worker && current.projection.continuation(&who.actor).is_err() {
            return self.acknowledged(&told, &current);
        }
        drop(current);
        let credential = self.config.credential(self.connect)?;
        let resumed = self.launching(&credential, who, |launcher| launcher.resume(&id));
        self.conclude(&told, resumed)
    }

    /// A request that is not in the ledger yet.
    fn fresh(
        &mut self,
        told: &Told<'_>,
        who: &Requester,
        worker_profiles: Option<Vec<Identity>>,
        generation: &Generation,
    ) -> Result<Receipt, JobError> {
        let ask = Ask {
            request_id: told.id.clone(),
            actor: who.actor.clone(),
            pool: told.wanted.pool.clone(),
            max_claims: told.wanted.max_claims,
            max_dispatches: told.wanted.max_dispatches,
            worker_profiles,
            run_budget: self.config.budget,
            remaining: self.remaining,
            run_number: who.run_number,
        };
        // Defective protected metadata is refused before anything is committed.
        let credential = self.config.credential(self.connect)?;
        let allowed = &self.config.allowed;
        let deploys = who.actor.role != Role::Worker;
        let readers = Rc::clone(&self.readers);
        let granted = readers.resolve(generation, |resolver: &Resolver<'_>| {
            Ok(self.launching(&credential, who, |launcher| {
                let sender = launcher.sender;
                let mut synchronize = |launcher: &mut Launcher<'_, '_>, pool: &PoolName| {
                    let mut deployer = Deployer {
                        ledger: &mut *launcher.ledger,
                        client: launcher.native,
                        clock: launcher.clock,
                        repository: launcher.repository,
                        actor: sender,
                    };
                    deployer.synchronize(&ask.request_id, std::slice::from_ref(pool), allowed).map(drop)
                };
                let synchronize: Option<Synchronize<'_>> = if deploys { Some(&mut synchronize) } else { None };
                launcher.grant(&ask, Some(resolver), synchronize)
            }))
        });
        self.conclude(told, granted?)
    }

    /// Works with a launcher that sends with its own credential.
    fn launching<T>(
        &mut self,
        credential: &LaunchCredential<'_>,
        who: &Requester,
        work: impl FnOnce(&mut Launcher<'_, '_>) -> T,
    ) -> T {
        let launch = credential.client(self.clock);
        let approval =
            CompiledApproval { client: self.client, repository: self.repository, allowed: self.config.allowed.clone() };
        work(&mut Launcher {
            ledger: &mut *self.ledger,
            native: self.client,
            launch: Some(&launch),
            clock: self.clock,
            repository: self.repository,
            host: self.host,
            sender: &who.sender,
            approval: &approval,
            staged: false,
        })
    }

    /// The receipt of what was granted or found, or of what is known after a failure.
    fn conclude(&mut self, told: &Told<'_>, granted: Result<Granted, LaunchError>) -> Result<Receipt, JobError> {
        let granted = match granted {
            Ok(granted) => granted,
            Err(error) => return self.after_failure(told, error.into()),
        };
        let used = u32::try_from(granted.launches.len()).unwrap_or(u32::MAX);
        if !granted.recovered {
            self.remaining = self.remaining.saturating_sub(used);
        }
        // The launcher itself tells of each launch as it happens.
        let launches = granted.launches.iter().filter(|launch| launch.dispatched).count();
        let assignments = granted.launches.len();
        tracing::debug!(target: "work-queue:dispatch", assignments, launches, "intent.dispatch.complete");
        // What became of the launches is looked at in the ledger; without a read the receipt says less, and no other.
        let current = self.ledger.read_present().ok();
        let control = match &current {
            Some(current) => self.control(&current.projection, told.id)?,
            None => None,
        };
        Ok(told.receipt(&granted, current.as_deref(), control))
    }

    /// A failure that may lie behind a commit: if the request is in the ledger, its ids and reservations are kept.
    fn after_failure(&mut self, told: &Told<'_>, error: JobError) -> Result<Receipt, JobError> {
        let Ok(current) = self.ledger.read_present() else { return Err(error) };
        if current.projection.request(told.id.as_str()).is_none() {
            return Err(error);
        }
        tracing::debug!(target: "work-queue:dispatch", failed = true, http_status = error.status(), "intent.process.blocked");
        let control = self.control(&current.projection, told.id)?;
        let receipt = told.blocked(&current, &error, control);
        self.failed.get_or_insert(error);
        self.remaining = self.remaining.saturating_sub(receipt.dispatches.unwrap_or(0) as u32);
        Ok(receipt)
    }

    /// A worker's request whose authority has closed since: it is confirmed from the ledger, and nothing follows.
    fn acknowledged(&mut self, told: &Told<'_>, current: &crate::ledger::Current) -> Result<Receipt, JobError> {
        let control = self.control(&current.projection, told.id)?;
        Ok(told.acknowledged(&current.projection, control))
    }
}
