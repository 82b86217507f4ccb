//! Who a commit says it is from (engine.md 2.2).

use super::Fault;
use super::fault::ensure;
use super::identity::{Decimal, DispatchId, Handle, Identity, Repository, Within};
use super::limits::MAX_ATTEMPT;
use super::wire::{record, words};

words! {
    /// The six roles.
    pub enum Role {
        Administrator = "administrator",
        Producer = "producer",
        Dispatcher = "dispatcher",
        Worker = "worker",
        Reconciler = "reconciler",
        Projector = "projector",
    }
}

record! {
    /// Provenance asserted by the trusted boundary. The engine compares it and does not authenticate it.
    pub struct Actor, closed UnsupportedProtocol, check check {
        role: Role = "role" => ActorUnauthorized;
        principal: Decimal = "principal" => ActorUnauthorized;
        workflow [optional]: Identity = "workflow";
        dispatch_id [optional]: DispatchId = "dispatch_id";
        claim_handle [optional]: Handle = "claim_handle";
        repository [identity]: Repository = "repository" => ActorUnauthorized;
        run_id [optional]: Decimal = "run_id";
        run_attempt [optional]: Within<1, MAX_ATTEMPT> = "run_attempt";
    }
}

impl Actor {
    /// An actor with the three members that every actor has.
    ///
    /// # Errors
    /// `actor_unauthorized` for a worker, which needs its run and dispatch.
    pub fn new(role: Role, principal: Decimal, repository: Repository) -> Result<Self, Fault> {
        let actor = Self {
            role,
            principal,
            repository,
            workflow: None,
            run_id: None,
            run_attempt: None,
            dispatch_id: None,
            claim_handle: None,
        };
        actor.check()?;
        Ok(actor)
    }

    /// The rules that tie members together.
    ///
    /// # Errors
    /// `actor_unauthorized`.
    pub fn check(&self) -> Result<(), Fault> {
        ensure!(
            self.run_id.is_some() == self.run_attempt.is_some(),
            ActorUnauthorized,
            "run_id and run_attempt come together"
        );
        if self.role == Role::Worker {
            ensure!(
                self.workflow.is_some() && self.run_id.is_some() && self.dispatch_id.is_some(),
                ActorUnauthorized,
                "a worker names its workflow, run and dispatch"
            );
            ensure!(
                self.run_attempt.is_some_and(|attempt| attempt.get() == 1),
                ActorUnauthorized,
                "a worker has run attempt 1"
            );
        }
        Ok(())
    }
}
