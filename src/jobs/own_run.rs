//! A worker's own run: authenticated, validated against its assignment, and bound (lifecycle.md 2.3, 2.6, 4.2, 5.4). The
//! same question is asked at every step that rests on it.

use std::sync::Arc;

use crate::forge::Client;
use crate::launch::bind::{Activation, assigned, bind_own};
use crate::launch::error::LaunchError;
use crate::launch::native::{Expected, NativeRepository, binding, check_run};
use crate::launch::publisher::{Authenticated, Scope, authenticate};
use crate::ledger::{Current, Ledger};
use crate::ports::Clock;
use crate::protocol::actor::{Actor, Role};
use crate::protocol::assignment::Assignment;
use crate::protocol::evidence::RunBinding;
use crate::protocol::fault::ensure;
use crate::protocol::{Code, Digest, Fault, Handle, Repository};
use crate::runner::Context;

/// What asks: one run with one assignment.
#[derive(Clone, Copy)]
pub struct OwnRun<'a> {
    /// GitHub with the publisher credential.
    pub client: Client<'a>,
    /// What the job's environment says.
    pub context: &'a Context,
    /// Time.
    pub clock: &'a dyn Clock,
    /// The original assignment.
    pub assignment: &'a Assignment,
}

/// A run that is shown to be the assignment's, and bound.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The worker with its dispatch, and with one Claim where one was asked for.
    pub actor: Actor,
    /// The durable binding, or in a preview the one that would be.
    pub run: RunBinding,
    /// The run as the host confirmed it.
    pub authenticated: Authenticated,
}

impl OwnRun<'_> {
    /// Authenticates this run as the assignment's worker, for one Claim of it if a handle is given.
    ///
    /// # Errors
    /// As [`authenticate`]; `rerun_not_authorized` beyond attempt 1.
    pub fn authenticate(&self, handle: Option<&Handle>) -> Result<Authenticated, LaunchError> {
        let scope = Scope { dispatch_id: Some(self.assignment.dispatch_id.clone()), claim_handle: handle.cloned() };
        authenticate(self.client, self.context, Role::Worker, &scope)
    }

    fn contract(&self) -> Result<Option<Digest>, Fault> {
        let stamp = self.context.contract().map(Digest::new).transpose();
        stamp.map_err(|_| Fault::from(Code::WorkQueueWorkerContractMismatch))
    }

    /// Binds the run, or verifies that it is bound: a lost activation is made good here.
    ///
    /// # Errors
    /// As [`bind_own`].
    pub fn bind(&self, ledger: &mut dyn Ledger) -> Result<Bound, LaunchError> {
        let authenticated = self.authenticate(None)?;
        let (repository, contract) = (native(&authenticated)?, self.contract()?);
        let activation = Activation {
            assignment: self.assignment,
            contract: contract.as_ref(),
            actor: authenticated.actor(),
            run: authenticated.run(),
            repository: &repository,
            checked_at: self.clock.now(),
        };
        let (_, run) = bind_own(ledger, &activation)?;
        Ok(Bound { actor: authenticated.actor().clone(), run, authenticated })
    }

    /// Verifies on one fresh read that this run is the bound run of its dispatch. Writes nothing.
    ///
    /// # Errors
    /// As [`assigned`], [`authenticate`] and [`check_run`]; `work_queue_binding_not_durable`.
    pub fn verify(&self, ledger: &mut dyn Ledger, handle: &Handle) -> Result<(Arc<Current>, Bound), LaunchError> {
        let current = ledger.read_present()?;
        let bound = self.verify_on(&current, handle, true)?;
        Ok((current, bound))
    }

    /// The same on a read that was made just now. A preview, in which nobody publishes a binding, asks for none.
    ///
    /// # Errors
    /// As [`OwnRun::verify`].
    pub fn verify_on(&self, current: &Current, handle: &Handle, durable: bool) -> Result<Bound, LaunchError> {
        let contract = self.contract()?;
        let dispatch = assigned(current, self.assignment, contract.as_ref())?;
        let authenticated = self.authenticate(Some(handle))?;
        let repository = native(&authenticated)?;
        let run = check_run(authenticated.run(), &Expected::of(dispatch, &repository)?)?;
        let spelling = current.projection.repository().ok_or_else(|| Fault::from(Code::PolicyMissing))?;
        let own = binding(dispatch, spelling, &run)?;
        let bound = dispatch.run.as_ref();
        let fits = if durable { bound == Some(&own) } else { bound.is_none_or(|bound| *bound == own) };
        if !fits {
            return Err(Fault::from(Code::WorkQueueBindingNotDurable).into());
        }
        Ok(Bound { actor: authenticated.actor().clone(), run: own, authenticated })
    }

    /// Reads attempt 1 of the bound run once more and validates it.
    ///
    /// # Errors
    /// As [`authenticate`]; `run_binding_conflict` for another run.
    pub fn revalidate(&self, run: &RunBinding) -> Result<(), LaunchError> {
        let authenticated = self.authenticate(None)?;
        let same = authenticated.run().id == run.run_id;
        if !same {
            return Err(Fault::from(Code::RunBindingConflict).into());
        }
        Ok(())
    }
}

/// The repository as the host told it when the run was authenticated.
fn native(authenticated: &Authenticated) -> Result<NativeRepository, Fault> {
    let name = Repository::new(authenticated.repository().as_str())?;
    let id = authenticated.repository_id().clone();
    ensure!(name.is_strict(), NativeRepositoryIdentityMismatch, Code::NativeRepositoryIdentityMismatch.meaning());
    Ok(NativeRepository { name, id, default_branch: None })
}
