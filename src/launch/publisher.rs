//! A trusted job authenticates its own run before it publishes anything (jobs.md 3.4, lifecycle.md 2.2, 2.3). The
//! environment says which run it is; the host's answers say whether that is so, and for whom it runs.

use super::error::LaunchError;
use crate::forge::{Client, Run};
use crate::protocol::actor::{Actor, Role};
use crate::protocol::fault::ensure;
use crate::protocol::identity::Within;
use crate::protocol::{At, Code, Decimal, DispatchId, Fault, Handle, Identity, Repository, RepositoryName};
use crate::runner::{Context, WorkflowRef};

/// What an actor is narrowed to: a worker's dispatch, and one Claim of it where one is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The dispatch.
    pub dispatch_id: Option<DispatchId>,
    /// The Claim.
    pub claim_handle: Option<Handle>,
}

/// A job's run as the host confirmed it. Only [`authenticate`] makes one.
#[derive(Clone, Debug)]
pub struct Authenticated {
    pub(super) actor: Actor,
    repository: RepositoryName,
    repository_id: Decimal,
    reference: String,
    run: Run,
}

impl Authenticated {
    /// Who publishes: the role that was asked for, and everything else as the host tells it.
    #[must_use]
    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    /// The repository in the host's spelling, to be used everywhere afterwards.
    #[must_use]
    pub fn repository(&self) -> &RepositoryName {
        &self.repository
    }

    /// Its numeric id.
    #[must_use]
    pub fn repository_id(&self) -> &Decimal {
        &self.repository_id
    }

    /// The reference that the workflow was taken from, such as `refs/heads/main`.
    #[must_use]
    pub fn reference(&self) -> &str {
        &self.reference
    }

    /// The run, or the attempt of it, as it was read.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// When the run was created: the admission time of what it submits, the same in every attempt.
    ///
    /// # Errors
    /// `publisher_origin_time_missing` when the host tells none.
    pub fn created_at(&self) -> Result<At, Fault> {
        self.run.created_at.ok_or_else(|| Code::PublisherOriginTimeMissing.into())
    }
}

/// Reads the job's repository and run and compares them with its environment, in the order of jobs.md 3.4.
///
/// # Errors
/// `rerun_not_authorized` for a worker beyond attempt 1, `native_repository_identity_mismatch`,
/// `publisher_native_context_mismatch`, `publisher_workflow_context_missing`,
/// `publisher_repository_identity_mismatch`, `publisher_principal_mismatch`; `actor_unauthorized` for a worker without
/// a dispatch; or as the host fails to answer.
pub fn authenticate(
    client: Client<'_>,
    context: &Context,
    role: Role,
    scope: &Scope,
) -> Result<Authenticated, LaunchError> {
    tracing::debug!(target: "work-queue:native", "publisher.authenticate.start");
    first_attempt(role, context.run_attempt())?;
    let home = Home::read(client, context)?;
    tracing::debug!(target: "work-queue:native", "repository.fetch.verified");
    let run = client.run(&home.name, context.run_id())?;
    let authenticated = home.verify(run, context, context.run_attempt(), role, scope)?;
    tracing::debug!(target: "work-queue:native", "publisher.authenticate.complete");
    Ok(authenticated)
}

/// Authority as a worker ends with attempt 1 of the run.
fn first_attempt(role: Role, attempt: i64) -> Result<(), Fault> {
    ensure!(role != Role::Worker || attempt == 1, RerunNotAuthorized, Code::RerunNotAuthorized.meaning());
    Ok(())
}

/// The job's repository as the host tells it.
pub(super) struct Home {
    name: RepositoryName,
    id: Decimal,
}

impl Home {
    fn read(client: Client<'_>, context: &Context) -> Result<Self, LaunchError> {
        let asked = context.repository();
        let found = client.repository(asked)?;
        // After a rename the host answers with the new name.
        match RepositoryName::new(&found.full_name) {
            Ok(name) if name.as_str().eq_ignore_ascii_case(asked.as_str()) => Ok(Self { name, id: found.id }),
            _ => Err(Fault::from(Code::NativeRepositoryIdentityMismatch).into()),
        }
    }

    /// The repository of a run that is authenticated already.
    pub(super) fn of(known: &Authenticated) -> Self {
        Self { name: known.repository.clone(), id: known.repository_id.clone() }
    }

    /// Compares a run that was read with the environment; `attempt` is the attempt that it must be.
    pub(super) fn verify(
        &self,
        run: Run,
        context: &Context,
        attempt: i64,
        role: Role,
        scope: &Scope,
    ) -> Result<Authenticated, Fault> {
        let here = run.repository.full_name.eq_ignore_ascii_case(self.name.as_str()) && run.repository.id == self.id;
        ensure!(here, PublisherNativeContextMismatch, "the run belongs to another repository than the job's");
        let seen = run.run_attempt.and_then(|attempt| i64::try_from(attempt).ok());
        first_attempt(role, seen.unwrap_or(0))?;
        ensure!(seen == Some(attempt), PublisherNativeContextMismatch, "the host shows another attempt of the run");
        let workflow = self.workflow(context)?;
        ensure!(matches(&run, context, &workflow), PublisherNativeContextMismatch, MISMATCH);
        let event_here = context.payload_repository_id().is_none_or(|id| *id == run.repository.id);
        ensure!(event_here, PublisherRepositoryIdentityMismatch, Code::PublisherRepositoryIdentityMismatch.meaning());
        let principal = self.principal(&run, context)?;
        let actor = Actor {
            role,
            principal,
            workflow: Some(Identity::new(workflow.path)?),
            dispatch_id: scope.dispatch_id.clone(),
            claim_handle: scope.claim_handle.clone(),
            repository: Repository::new(self.name.as_str())?,
            run_id: Some(run.id.clone()),
            run_attempt: Some(Within::new(attempt)?),
        };
        actor.check()?;
        let (repository, repository_id) = (self.name.clone(), self.id.clone());
        Ok(Authenticated { actor, repository, repository_id, reference: workflow.reference, run })
    }

    /// The job's workflow, which must be one of this repository.
    fn workflow(&self, context: &Context) -> Result<WorkflowRef, Fault> {
        let ours = |found: &WorkflowRef| found.repository.as_str().eq_ignore_ascii_case(self.name.as_str());
        context.workflow().filter(ours).ok_or_else(|| Code::PublisherWorkflowContextMissing.into())
    }

    fn principal(&self, run: &Run, context: &Context) -> Result<Decimal, Fault> {
        let principal = run.actor.as_ref().map(|actor| &actor.id);
        let agreed = |id: &&Decimal| context.actor_id().is_none_or(|stated| stated == id.as_str());
        principal.filter(agreed).cloned().ok_or_else(|| Code::PublisherPrincipalMismatch.into())
    }
}

const MISMATCH: &str = "the run's id, workflow, revision or event is not the one that the job claims";

/// The run id, the workflow's path, the revision and the event are the job's.
fn matches(run: &Run, context: &Context, workflow: &WorkflowRef) -> bool {
    let path = run.path.split('@').next().unwrap_or(&run.path);
    run.id == *context.run_id()
        && path == workflow.path
        && context.sha().as_ref() == Some(&run.head_sha)
        && context.event_name() == Some(run.event.as_str())
}
