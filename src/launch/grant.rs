//! A dispatcher's request (lifecycle.md 1.1, jobs.md 5.3.5): free what has ended, look at gates, commit a fair prefix
//! within the run's budget and the caller's approval, and launch its groups one by one. Granting and launching are made
//! idempotent apart: a repeated request walks the same groups and never relaunches one.

use std::collections::BTreeSet;

use crate::engine::schedule::explain::SelectionView;
use crate::engine::{Decision, Projection};
use crate::ledger::{Attempt, LedgerError, Outcome};
use crate::protocol::actor::{Actor, Role};
use crate::protocol::assignment::Assignment;
use crate::protocol::commit::FrozenRequest;
use crate::protocol::fault::ensure;
use crate::protocol::identity::Within;
use crate::protocol::request::{DispatchParameters, RequestKind};
use crate::protocol::{At, Code, CommitId, Fault, Identity, PoolName, RequestId, Wire as _};

use super::error::LaunchError;
use super::observe::{Resolver, held_back, refresh};
use super::reconcile::MAX_SWEEP;
use super::report::{GroupReport, GroupState};
use super::start::Launcher;

/// What a dispatcher asks for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Stable id of the request, made from its trusted origin.
    pub request_id: RequestId,
    /// The logical requester.
    pub actor: Actor,
    /// The pool.
    pub pool: PoolName,
    /// Most Claims, 1 to 256.
    pub max_claims: i64,
    /// Most dispatches, 1 to 256.
    pub max_dispatches: i64,
    /// The caller's approved profiles, sorted; none approves all.
    pub worker_profiles: Option<Vec<Identity>>,
    /// Dispatches that the whole run may grant (decision 8).
    pub run_budget: u32,
    /// Dispatches that are left of the job's batch.
    pub remaining: u32,
    /// Number of the run among those of its workflow, which rotates the sweep.
    pub run_number: u64,
}

/// What became of it.
#[derive(Debug)]
pub struct Granted {
    /// The request's ledger commit; none without a grant.
    pub commit_id: Option<CommitId>,
    /// True if the request was committed before this call.
    pub recovered: bool,
    /// Why the prefix ended, or why there is none.
    pub reason: &'static str,
    /// The selection that stands first, where a decision was made now.
    pub next: Option<SelectionView>,
    /// What became of each group, in order. A group that a check kept back is reserved, with its code.
    pub launches: Vec<GroupReport>,
    /// What the sweep before the grant did.
    pub swept: Vec<GroupReport>,
    /// Attempts to publish that were lost before, for diagnostics alone.
    pub lost: Vec<Attempt>,
    /// When the decision was made.
    pub evaluated_at: At,
}

impl Granted {
    /// True if the job may end well with it: nothing is left that a person or a later run must look after.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.launches.iter().all(GroupReport::is_settled)
    }
}

/// What is done before a request that is new: worker revisions are brought up to date in the pool that it names.
pub type Synchronize<'s> = &'s mut dyn FnMut(&mut Launcher<'_, '_>, &PoolName) -> Result<(), LaunchError>;

impl Launcher<'_, '_> {
    /// Grants and launches.
    ///
    /// # Errors
    /// Before the grant: `queue_missing` (nothing is ever initialized here), `request_reused`,
    /// `work_queue_dispatch_budget_exceeded`, `work_queue_worker_not_compiler_approved`, or whatever the engine
    /// refuses; nothing is granted then. After it, failures are in the reports.
    pub fn grant(
        &mut self,
        ask: &Ask,
        resolver: Option<&Resolver<'_>>,
        synchronize: Option<Synchronize<'_>>,
    ) -> Result<Granted, LaunchError> {
        ensure!(self.sender.role == Role::Dispatcher, ActorUnauthorized, "only a dispatcher grants and launches");
        let current = self.ledger.read_present()?;
        let fresh = current.projection.request(ask.request_id.as_str()).is_none();
        drop(current);
        let mut swept = Vec::new();
        // Staged mode writes nothing, whatever it would have brought up to date.
        if fresh && !self.staged {
            if let Some(synchronize) = synchronize {
                synchronize(self, &ask.pool)?;
            }
            // A worker looks after its own Claim alone.
            if ask.actor.role != Role::Worker {
                swept = self.sweep(&ask.pool, ask.run_number)?;
            }
        }
        let parameters = self.parameters(ask, fresh)?;
        let request = FrozenRequest::new(
            ask.request_id.clone(),
            RequestKind::DispatchNext,
            ask.actor.clone(),
            &parameters.canonical(),
        )?;
        if self.staged {
            let (launches, next) = (Vec::new(), None);
            let reason = GroupState::StagedPreview.as_str();
            let (lost, evaluated_at) = (Vec::new(), self.clock.now());
            return Ok(Granted {
                commit_id: None,
                recovered: false,
                reason,
                next,
                launches,
                swept,
                lost,
                evaluated_at,
            });
        }
        let (granted, opened) = self.commit(ask, &request, &parameters, resolver)?;
        Ok(Granted { launches: self.launch_all(&opened), swept, ..granted })
    }

    /// Frees what has ended in a pool before anything new is granted there.
    fn sweep(&mut self, pool: &PoolName, run_number: u64) -> Result<Vec<GroupReport>, LaunchError> {
        self.reconciler().sweep(Some(pool.as_str()), MAX_SWEEP, run_number)
    }

    /// The parameters of the request. Those of an accepted one are compared by its fingerprint.
    fn parameters(&mut self, ask: &Ask, fresh: bool) -> Result<DispatchParameters, LaunchError> {
        let current = self.ledger.read_present()?;
        let installed = current.projection.installed().ok_or_else(|| Fault::from(Code::PolicyMissing))?;
        let (pool, limits) = (installed.policy.pools.get(&ask.pool), &installed.policy.limits);
        let pool = pool.ok_or_else(|| Fault::from(Code::PolicyInvalid))?;
        if fresh {
            let claims = i64::try_from(limits.operations).unwrap_or(i64::MAX).min(pool.logical_limit.get());
            ensure!(
                ask.max_claims <= claims && ask.max_dispatches <= pool.native_limit.get(),
                RequestInvalid,
                "the request asks for more than the pool can hold"
            );
            within_budget(&current.projection, ask, ask.max_dispatches)?;
        }
        let invalid = |_| Fault::new(Code::RequestInvalid, "a request asks for 1 to 256 Claims and dispatches");
        Ok(DispatchParameters {
            pool: ask.pool.clone(),
            max_claims: Within::new(ask.max_claims).map_err(invalid)?,
            max_dispatches: Within::new(ask.max_dispatches).map_err(invalid)?,
            max_bytes: Within::new(i64::try_from(limits.assignment_bytes).unwrap_or(i64::MAX))?,
            worker_profiles: ask.worker_profiles.clone(),
        })
    }

    /// Commits the fair prefix; returns what was granted, with nothing launched yet, and its groups. Every attempt looks at the gates anew, decides anew, and checks approval and budget on
    /// what it decided: the whole prefix is refused, never a winner dropped to keep the rest.
    fn commit(
        &mut self,
        ask: &Ask,
        request: &FrozenRequest,
        parameters: &DispatchParameters,
        resolver: Option<&Resolver<'_>>,
    ) -> Result<(Granted, Vec<Assignment>), LaunchError> {
        let (approval, clock) = (self.approval, self.clock);
        let mut held = None;
        let publication = self.ledger.publish(request, None, &mut |projection, scanner, at| {
            let observations = match resolver {
                Some(resolver) => refresh(projection, resolver, parameters, ask.actor.role)?,
                None => Vec::new(),
            };
            held = held_back(&observations);
            let at = if resolver.is_some() { clock.now() } else { at };
            let decision = projection.decide(scanner, request, at, &observations)?;
            if let Decision::Publish(generated) = &decision {
                let opened = groups(&generated.next, &request.id);
                let approved = opened.iter().all(|assignment| {
                    let dispatch = generated.next.dispatch(assignment.dispatch_id.as_str());
                    dispatch.is_some_and(|dispatch| approval.allows(&dispatch.profile))
                });
                if !approved {
                    return Err(LedgerError::from(Fault::from(Code::WorkQueueWorkerNotCompilerApproved)));
                }
                within_budget(projection, ask, opened.len() as i64)?;
            }
            Ok(decision)
        })?;
        let capacity_blocked = matches!(&publication.outcome, Outcome::Nothing { reason, .. } if reason.ends_with("_blocked"))
            || matches!(&publication.outcome, Outcome::PublishedNow { stopped: Some((reason, _)), .. } if reason.ends_with("_blocked"));
        // Taken from the publication itself: what was granted is known even if the queue cannot be read any more.
        let opened = groups(&publication.current.projection, &request.id);
        let (lost, evaluated_at) = (publication.lost, publication.evaluated_at);
        let (commit_id, reason, next, recovered) = match publication.outcome {
            Outcome::PublishedNow { permit, stopped } => {
                let (reason, next) = stopped.map_or(("granted", None), |(reason, next)| (reason, Some(next)));
                (Some(permit.commit_id().clone()), reason, next, false)
            }
            Outcome::Recovered { commit_id } | Outcome::AlreadyCommitted { commit_id } => {
                (Some(commit_id), "request_replayed", None, true)
            }
            Outcome::Nothing { reason, next } => {
                let reason = held.filter(|_| reason == "no_eligible_work").unwrap_or(reason);
                (None, reason, Some(next), false)
            }
            Outcome::Done { reason, commit_id } => (commit_id, reason, None, true),
        };
        let claims: usize = opened.iter().map(|assignment| assignment.claims.len()).sum();
        tracing::debug!(
            target: "work-queue:scheduler",
            assignments = opened.len(),
            claims,
            capacity_blocked,
            "pack.complete"
        );
        tracing::debug!(
            target: "work-queue:dispatch",
            assignments = opened.len(),
            recovered,
            "intent.dispatch.published"
        );
        let (launches, swept) = (Vec::new(), Vec::new());
        Ok((Granted { commit_id, recovered, reason, next, launches, swept, lost, evaluated_at }, opened))
    }

    /// Walks the groups of a request that is committed already: what was never begun is launched, everything else is
    /// reconciled. Nothing is decided anew.
    ///
    /// # Errors
    /// `request_missing` for a request that is not in the ledger; a read that failed.
    pub fn resume(&mut self, request_id: &RequestId) -> Result<Granted, LaunchError> {
        ensure!(self.sender.role == Role::Dispatcher, ActorUnauthorized, "only a dispatcher grants and launches");
        let current = self.ledger.read_present()?;
        let accepted = current.projection.request(request_id.as_str());
        let accepted = accepted.ok_or_else(|| Fault::from(Code::RequestMissing))?;
        let commit_id = Some(accepted.commit_id.clone());
        let opened = groups(&current.projection, request_id);
        drop(current);
        let (reason, next, swept, lost) = ("request_replayed", None, Vec::new(), Vec::new());
        let evaluated_at = self.clock.now();
        let launches = self.launch_all(&opened);
        Ok(Granted { commit_id, recovered: true, reason, next, launches, swept, lost, evaluated_at })
    }

    /// Launches every group of a request, in order. One that cannot be launched stops none of the others.
    fn launch_all(&mut self, assignments: &[Assignment]) -> Vec<GroupReport> {
        assignments
            .iter()
            .map(|assignment| {
                let id = &assignment.dispatch_id;
                let kept = |error: LaunchError| GroupReport::new(id, GroupState::Reserved).blocked(error.code());
                self.launch(assignment).unwrap_or_else(kept)
            })
            .collect()
    }
}

/// The assignments that a request opened, in order.
fn groups(projection: &Projection, request_id: &RequestId) -> Vec<Assignment> {
    let dispatches = projection.dispatches().map(|dispatch| &dispatch.assignment);
    dispatches.filter(|assignment| assignment.request_id == *request_id).cloned().collect()
}

/// The budget of the whole run: what its origin was granted before counts, under whatever request.
///
/// # Errors
/// `work_queue_dispatch_budget_exceeded`. A request above what remains is refused, never cut down.
fn within_budget(projection: &Projection, ask: &Ask, wanted: i64) -> Result<(), Fault> {
    let origin = |actor: &Actor| {
        actor.principal == ask.actor.principal
            && actor.repository == ask.actor.repository
            && actor.workflow == ask.actor.workflow
            && actor.run_id == ask.actor.run_id
            && actor.run_attempt == ask.actor.run_attempt
    };
    let requests = projection.requests().filter(|accepted| {
        accepted.kind == RequestKind::DispatchNext && accepted.request_id != ask.request_id && origin(&accepted.actor)
    });
    let dispatches = |accepted| -> BTreeSet<&str> {
        projection.granted(accepted).iter().map(|claim| claim.claim.dispatch_id.as_str()).collect()
    };
    let granted: usize = requests.map(|accepted| dispatches(accepted).len()).sum();
    let left = u64::from(ask.run_budget).saturating_sub(granted as u64).min(u64::from(ask.remaining));
    ensure!(
        u64::try_from(wanted).is_ok_and(|wanted| wanted <= left),
        WorkQueueDispatchBudgetExceeded,
        "the run's dispatch budget is used up"
    );
    Ok(())
}
