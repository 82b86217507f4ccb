//! The launch of one group (lifecycle.md 1): every check, the snapshot tag, the start marker that elects one sender, one
//! POST, and what is written down about its answer. No path leads to a second POST.

use crate::engine::state::{DispatchPhase, DispatchState};
use crate::forge::{Client, Posted};
use crate::ledger::{Class, LaunchPermit, Ledger};
use crate::ports::Clock;
use crate::protocol::actor::{Actor, Role};
use crate::protocol::assignment::Assignment;
use crate::protocol::evidence::{Evidence, EvidenceKind, EvidenceSource};
use crate::protocol::fault::ensure;
use crate::protocol::identity::sha256_hex;
use crate::protocol::json::Writer;
use crate::protocol::operation::{Dispatch, DispatchStep, Operation};
use crate::protocol::policy::WorkerProfile;
use crate::protocol::request::RequestKind;
use crate::protocol::{Code, Decimal, DispatchId, Fault, Measured, Reason, RepositoryName, Wire as _};

use super::bind::{bind, stored};
use super::credential::LaunchClient;
use super::error::LaunchError;
use super::native::{Expected, WorkerRun, check_run, evidence, read_repository, with_run};
use super::reconcile::Reconciler;
use super::release::{find, release};
use super::report::{GroupReport, GroupState};
use super::step::{in_role, publish_step};
use super::tag::ensure_tag;

/// Longest input of a dispatch call as it is sent, in bytes: the host takes 65,535 characters in all.
const MAX_INPUT_BYTES: usize = 65_000;

/// Which routes a caller may launch, and how it asks whether they still stand.
pub trait Approval {
    /// True if both compiled allowlists of the caller contain the route (lifecycle.md 1.1).
    fn allows(&self, profile: &WorkerProfile) -> bool;

    /// Verifies the route on the host.
    ///
    /// # Errors
    /// `policy_missing`, or the failed call.
    fn verify(&self, profile: &WorkerProfile) -> Result<(), LaunchError>;
}

/// What a launch works with.
pub struct Launcher<'a, 'l> {
    /// The queue.
    pub ledger: &'l mut (dyn Ledger + 'a),
    /// Reads with the job's own token.
    pub native: Client<'a>,
    /// The launch credential; none for jobs that submit alone.
    pub launch: Option<&'a LaunchClient<'a>>,
    /// Time.
    pub clock: &'a dyn Clock,
    /// The repository of queue and workers.
    pub repository: &'a RepositoryName,
    /// The host of external resources, for reading records.
    pub host: &'a str,
    /// The authenticated dispatcher.
    pub sender: &'a Actor,
    /// Which routes it may launch.
    pub approval: &'a dyn Approval,
    /// True in staged mode: everything is checked and nothing is sent.
    pub staged: bool,
}

/// A launch that may begin: who pays for it and where it starts from.
struct Ready {
    principal: Decimal,
    recorded: bool,
    tag: String,
    file: String,
    input: String,
}

impl<'a> Launcher<'a, '_> {
    /// Launches one group of a grant, or reconciles it if anything was begun before.
    ///
    /// # Errors
    /// Whatever a check before the start marker refuses (lifecycle.md 1.2): the group stays reserved, nothing was
    /// sent. After the marker everything is a report.
    pub fn launch(&mut self, assignment: &Assignment) -> Result<GroupReport, LaunchError> {
        let dispatch_id = &assignment.dispatch_id;
        let current = self.ledger.read_present()?;
        let (dispatch, active) = stored(&current.projection, assignment)?;
        tracing::debug!(
            target: "work-queue:dispatch",
            claims = assignment.claims.len(),
            released = dispatch.released,
            reserved = dispatch.phase == DispatchPhase::Reserved,
            staged = self.staged,
            "launch.assignment.checked"
        );
        ensure!(
            active || dispatch.released,
            WorkQueueAssignmentPolicyMismatch,
            "the assignment belongs to a retired epoch"
        );
        if self.staged {
            return Ok(GroupReport::new(dispatch_id, GroupState::StagedPreview));
        }
        if dispatch.released {
            return Ok(GroupReport::new(dispatch_id, GroupState::Released));
        }
        if dispatch.phase != DispatchPhase::Reserved {
            drop(current);
            return self.reconciler().group(dispatch_id, None);
        }
        ensure!(!current.projection.grants_paused(), GrantsPaused, "a launch cannot start while grants are paused");
        let ready = self.prepare(dispatch)?;
        drop(current);
        let permit = match self.elect(dispatch_id, &ready) {
            Ok(Some(permit)) => permit,
            Ok(None) => return self.reconciler().group(dispatch_id, None),
            // The marker may be there, so nobody may say that nothing was begun.
            Err(LaunchError::Ledger(error)) if error.class() == Class::Unknown => {
                return Ok(GroupReport::new(dispatch_id, GroupState::LaunchUnresolved).blocked(error.code()));
            }
            Err(error) => return Err(error),
        };
        let posted = match self.post(permit, dispatch_id, &ready) {
            Ok(posted) => posted,
            Err(error) => {
                return Ok(GroupReport::new(dispatch_id, GroupState::LaunchUnresolved).blocked(error.code()));
            }
        };
        let report = match posted {
            Posted::Accepted { run_id, html_url } => {
                tracing::debug!(target: "work-queue:dispatch", "launch.post.complete");
                let report = self.accepted(dispatch_id, &run_id);
                GroupReport { html_url: Some(html_url), run_id: Some(run_id), ..report }
            }
            Posted::Rejected { status, request_id } => {
                tracing::debug!(
                    target: "work-queue:dispatch",
                    failed = true,
                    http_status = status,
                    "launch.post.definitive_rejection"
                );
                self.rejected(dispatch_id, status, &request_id)
            }
            Posted::Unknown { .. } => {
                tracing::debug!(target: "work-queue:dispatch", failed = true, "launch.post.failed");
                self.doubt(dispatch_id, None, None);
                GroupReport::new(dispatch_id, GroupState::LaunchUnresolved)
            }
        };
        Ok(GroupReport { dispatched: true, ..report })
    }

    /// Everything that must hold before the start marker (lifecycle.md 1.2, steps 9 to 16).
    fn prepare(&self, dispatch: &DispatchState) -> Result<Ready, LaunchError> {
        let profile = &dispatch.profile;
        let null = profile.revision.as_str().bytes().all(|byte| byte == b'0');
        ensure!(!null, PolicyInvalid, "the route names the null revision");
        ensure!(
            self.approval.allows(profile),
            WorkQueueWorkerNotCompilerApproved,
            "the worker route is not in both of the caller's compiled allowlists"
        );
        if profile.logical_contract.is_none() {
            self.approval.verify(profile)?;
        }
        let launch = self.launch.ok_or_else(|| Fault::from(Code::WorkQueueDispatchCredentialValidatorRequired))?;
        let proof = launch.prove(profile)?;
        tracing::debug!(target: "work-queue:dispatch", "launch.credential.checked");
        let principal = proof.principal_for(launch.client(), profile)?.clone();
        // A host that cannot answer with the run's identity is refused before anything is begun (decision 64).
        launch.client().versions()?;
        let tag = ensure_tag(launch.client(), self.repository, &profile.revision)?;
        ensure!(self.sender.role == Role::Dispatcher, ActorUnauthorized, "only a dispatcher launches");
        let workflow = profile.workflow.as_str();
        let input = dispatch.assignment.canonical();
        // Inside the call's JSON its quotes are escaped; what is too long there would be refused after the marker.
        let escaped = crate::protocol::json::escaped_len(&input);
        ensure!(
            escaped <= MAX_INPUT_BYTES,
            AssignmentLimit,
            "the assignment is longer than the host takes as an input"
        );
        Ok(Ready {
            principal,
            recorded: profile.principal.is_none(),
            tag,
            file: workflow.rsplit('/').next().unwrap_or(workflow).to_owned(),
            input,
        })
    }

    /// Publishes the start marker. Only the process whose own write was acknowledged gets a permit.
    fn elect(&mut self, dispatch_id: &DispatchId, ready: &Ready) -> Result<Option<LaunchPermit>, LaunchError> {
        let sender = self.sender.clone();
        let parts = ["start", dispatch_id.as_str()];
        let published = publish_step(&mut *self.ledger, self.sender, RequestKind::Dispatch, &parts, &|projection| {
            ensure!(
                find(projection, dispatch_id)?.phase == DispatchPhase::Reserved,
                DispatchInvalid,
                "a launch of the dispatch was begun before"
            );
            Ok(vec![Operation::Dispatch(Box::new(Dispatch {
                dispatch_id: dispatch_id.clone(),
                reason: None,
                evidence: None,
                run: None,
                sender: Some(sender.clone()),
                state: DispatchStep::Started,
                credential_principal: ready.recorded.then(|| ready.principal.clone()),
            }))])
        });
        match published {
            Ok(stepped) => {
                let elected = stepped.permit.is_some();
                tracing::debug!(target: "work-queue:dispatch", elected, "launch.start_marker.persisted");
                Ok(stepped.permit)
            }
            // Whatever went wrong, a marker may exist: from here on there is only reconciliation.
            Err(error) => match self.ledger.read_present() {
                Ok(current) if find(&current.projection, dispatch_id)?.phase != DispatchPhase::Reserved => Ok(None),
                _ => {
                    tracing::debug!(target: "work-queue:dispatch", failed = true, "launch.start_marker.failed");
                    Err(error)
                }
            },
        }
    }

    /// Sends the one POST. The permit is used up here, and the marker is read back first: it must be this sender's,
    /// without a run and unreleased.
    fn post(&mut self, permit: LaunchPermit, dispatch_id: &DispatchId, ready: &Ready) -> Result<Posted, LaunchError> {
        let launch = self.launch.ok_or_else(|| Fault::from(Code::WorkQueueDispatchCredentialValidatorRequired))?;
        let current = self.ledger.read_present()?;
        let dispatch = find(&current.projection, dispatch_id)?;
        let ours = dispatch.phase == DispatchPhase::Moved(DispatchStep::Started)
            && dispatch.sender.as_ref() == Some(self.sender)
            && dispatch.principal() == Some(&ready.principal)
            && dispatch.run.is_none()
            && !dispatch.released
            && current.projection.knows_commit(permit.commit_id());
        ensure!(ours, LaunchUnresolved, "the start marker is not this sender's any more");
        drop((current, permit));
        tracing::debug!(target: "work-queue:dispatch", "launch.post.start");
        let inputs = [("work_queue_assignment", ready.input.as_str())];
        Ok(launch.client().dispatch(self.repository, &ready.file, &ready.tag, &inputs))
    }

    /// A run was named: it is bound once it passes every check. Reads are repeated while they fail for a while or the
    /// title has no dispatch yet; a run that is another is refused at once.
    fn accepted(&mut self, dispatch_id: &DispatchId, run_id: &Decimal) -> GroupReport {
        let verified = self.verify(dispatch_id, run_id);
        let failed = match verified {
            Ok(run) => {
                let at = self.clock.now();
                match bind(&mut *self.ledger, self.sender, dispatch_id, &run, EvidenceSource::GithubApi, at) {
                    Ok(_) => {
                        tracing::debug!(target: "work-queue:dispatch", "launch.binding.persisted");
                        return GroupReport::new(dispatch_id, GroupState::Bound);
                    }
                    Err(error) => {
                        tracing::debug!(target: "work-queue:dispatch", failed = true, "launch.binding.failed");
                        // The run itself is verified, so it is worth keeping as a hint.
                        self.doubt(dispatch_id, Some(run_id), Some(&run));
                        error
                    }
                }
            }
            Err(error) => {
                self.doubt(dispatch_id, Some(run_id), None);
                error
            }
        };
        tracing::debug!(target: "work-queue:dispatch", failed = true, "launch.unresolved");
        let state = match failed.code() {
            Code::RunBindingConflict => GroupState::RunBindingConflict,
            _ => GroupState::LaunchUnresolved,
        };
        GroupReport::new(dispatch_id, state).blocked(failed.code())
    }

    fn verify(&mut self, dispatch_id: &DispatchId, run_id: &Decimal) -> Result<WorkerRun, LaunchError> {
        let launch = self.launch.ok_or_else(|| Fault::from(Code::WorkQueueDispatchCredentialValidatorRequired))?;
        let begun = self.clock.now();
        let (most, deadline) = self.reconciler().bounds(dispatch_id)?;
        let current = self.ledger.read_present()?;
        let dispatch = find(&current.projection, dispatch_id)?;
        let mut n = 0;
        loop {
            let checked = read_repository(launch.client(), self.repository).and_then(|native| {
                let run = launch.client().run(self.repository, run_id)?;
                let expected = Expected { run_id: Some(run_id), ..Expected::of(dispatch, &native)? };
                Ok(check_run(&run, &expected)?)
            });
            n += 1;
            let late = n >= most || self.clock.now().get() - begun.get() >= deadline;
            match checked {
                Err(error) if error.is_transient() && !late => {
                    self.clock.sleep(std::time::Duration::from_millis((50_u64 << n.min(10)).min(1000)));
                }
                other => return other,
            }
        }
    }

    /// The host refused for good: nothing was launched, and the reservation is freed with that proof.
    fn rejected(&mut self, dispatch_id: &DispatchId, status: u16, request_id: &str) -> GroupReport {
        let report = GroupReport { rejected: true, ..GroupReport::new(dispatch_id, GroupState::Released) };
        match self.record_rejection(dispatch_id, status, request_id) {
            Ok(proof) => GroupReport { evidence: Some(proof), ..report },
            Err(error) => GroupReport {
                rejected: true,
                ..GroupReport::new(dispatch_id, GroupState::LaunchUnresolved).blocked(error.code())
            },
        }
    }

    fn record_rejection(
        &mut self,
        dispatch_id: &DispatchId,
        status: u16,
        request_id: &str,
    ) -> Result<Measured<Evidence>, LaunchError> {
        let current = self.ledger.read_present()?;
        let dispatch = find(&current.projection, dispatch_id)?;
        let receipt = receipt(dispatch, self.repository, status, request_id);
        let spelling = current.projection.repository().ok_or_else(|| Fault::from(Code::PolicyMissing))?;
        let (kind, source) = (EvidenceKind::Nonlaunch, EvidenceSource::GithubApi);
        let mut proof = evidence(dispatch, spelling, kind, source, None, self.clock.now())?;
        proof.receipt = Some(crate::protocol::Identity::new(receipt.clone())?);
        let proof = Measured::new(proof);
        drop(current);
        let parts = ["reject", dispatch_id.as_str(), receipt.as_str()];
        publish_step(&mut *self.ledger, self.sender, RequestKind::Dispatch, &parts, &|projection| {
            let dispatch = find(projection, dispatch_id)?;
            // A sweep may have written its doubt while the host answered. The sender knows better.
            ensure!(
                matches!(
                    dispatch.phase,
                    DispatchPhase::Moved(DispatchStep::Started | DispatchStep::Uncertain | DispatchStep::Unresolved)
                ) && dispatch.run.is_none(),
                DispatchInvalid,
                "the dispatch moved on after its start marker"
            );
            Ok(vec![Operation::Dispatch(Box::new(Dispatch {
                dispatch_id: dispatch_id.clone(),
                reason: None,
                evidence: Some(proof.clone()),
                run: None,
                sender: None,
                state: DispatchStep::Rejected,
                credential_principal: None,
            }))])
        })?;
        let actor = in_role(self.sender, Role::Reconciler);
        release(&mut *self.ledger, &actor, dispatch_id, &proof)?;
        Ok(proof)
    }

    /// Writes down that a run may exist, as far as it can be written: the start marker alone forbids another POST.
    fn doubt(&mut self, dispatch_id: &DispatchId, returned: Option<&Decimal>, verified: Option<&WorkerRun>) {
        let reason = if returned.is_some() { "binding_unconfirmed" } else { "post_response_unconfirmed" };
        let mut parts = vec!["uncertain", dispatch_id.as_str()];
        parts.extend(returned.map(|run_id| run_id.as_str()));
        let at = self.clock.now();
        let written = publish_step(&mut *self.ledger, self.sender, RequestKind::Dispatch, &parts, &|projection| {
            let dispatch = find(projection, dispatch_id)?;
            let spelling = projection.repository().ok_or_else(|| Fault::from(Code::PolicyMissing))?;
            ensure!(dispatch.run.is_none(), DispatchInvalid, "the dispatch is bound");
            let (kind, source) = (EvidenceKind::Reconciliation, EvidenceSource::GithubApi);
            let hint = verified
                .map(|run| evidence(dispatch, spelling, kind, source, None, at).map(|proof| with_run(proof, run)))
                .transpose()?;
            Ok(vec![Operation::Dispatch(Box::new(Dispatch {
                dispatch_id: dispatch_id.clone(),
                reason: Some(Reason::new(reason)?),
                evidence: hint,
                run: None,
                sender: None,
                state: DispatchStep::Uncertain,
                credential_principal: None,
            }))])
        });
        if written.is_err() {
            tracing::debug!(target: "work-queue:dispatch", failed = true, "launch.uncertain_marker.failed");
        }
    }

    pub(super) fn reconciler(&mut self) -> Reconciler<'a, '_> {
        Reconciler {
            ledger: &mut *self.ledger,
            client: self.native,
            clock: self.clock,
            repository: self.repository,
            host: self.host,
            actor: self.sender,
            request_cancellation: false,
        }
    }
}

/// The receipt of a rejection: what was refused, in a digest (lifecycle.md 1.7).
fn receipt(dispatch: &DispatchState, repository: &RepositoryName, status: u16, request_id: &str) -> String {
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("ref", |w| dispatch.profile.revision.write(w));
        members.name("repository", |w| w.string(repository.as_str()));
        members.name("request_id", |w| w.string(request_id));
        members.name("status", |w| w.integer(i64::from(status)));
        members.name("workflow", |w| dispatch.profile.workflow.write(w));
    });
    format!("github_rejection:{}", sha256_hex(&[&writer.finish()]))
}
