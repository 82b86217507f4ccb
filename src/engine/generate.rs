//! What a request becomes on the current state (engine.md 3.15). Pure: the publisher supplies time and ids.

use super::schedule::explain::SelectionView;
use super::schedule::{Plan, PlanInputs, plan};
use super::state::{ClaimStatus, Context, Projection};
use crate::protocol::actor::{Actor, Role};
use crate::protocol::commit::{Candidate, Commit, FrozenRequest};
use crate::protocol::fault::ensure;
use crate::protocol::identity::{FirstAttempt, sha256_hex};
use crate::protocol::json::{Node, Scanner};
use crate::protocol::operation::{ClaimCancellation, Completion, Observation, Operation, WorkCancellation};
use crate::protocol::policy::later;
use crate::protocol::request::{DispatchParameters, FinishParameters, Outcome, Parameters, RequestKind};
use crate::protocol::{At, Code, CommitId, Epoch, Fault, Measured, Opaque, Reason, RequestId, Text, Wire as _};

/// A commit to publish, checked by appending it.
#[derive(Debug)]
pub struct Generated {
    /// The commit.
    pub commit: Commit,
    /// The state after it.
    pub next: Projection,
    /// What ended the fair prefix, for a dispatch request.
    pub stopped: Option<(&'static str, SelectionView)>,
}

/// The engine's answer to a request.
#[derive(Debug)]
pub enum Decision {
    /// Publish this commit.
    Publish(Box<Generated>),
    /// Nothing to grant; writes nothing and leaves the request id unused.
    Nothing {
        /// Why.
        reason: &'static str,
        /// The selection that stands first.
        next: SelectionView,
        /// When that was so. A decision that reads the world first has a later time than it was asked with.
        at: At,
    },
    /// The wanted state holds already; writes nothing.
    Done {
        /// `already_submitted` or `already_finished`.
        reason: &'static str,
        /// The commit that made it so.
        commit_id: Option<CommitId>,
    },
}

/// The id of the commit that would carry a request on a tip (engine.md 1.7).
///
/// # Panics
/// Never: `q_` and a digest are an identity.
#[must_use]
pub fn candidate_id(tip: Option<&CommitId>, request: &RequestId) -> CommitId {
    let hash = match tip {
        Some(tip) => sha256_hex(&[tip.as_str(), "\n", request.as_str()]),
        None => sha256_hex(&[request.as_str()]),
    };
    CommitId::new(format!("q_{hash}")).expect("a prefix and 64 hexadecimal digits are an identity")
}

/// The epoch of a Policy that a submission installs at genesis.
///
/// # Panics
/// Never: `epoch_` and a digest are an identity.
#[must_use]
pub fn bootstrap_epoch(request: &RequestId) -> Epoch {
    Epoch::new(format!("epoch_{}", sha256_hex(&[request.as_str()]))).expect("a prefix and a digest are an identity")
}

/// Parameters of a request, and the texts of the operations that they list.
struct Asked {
    parameters: Parameters,
    listed: Vec<Opaque>,
}

impl Asked {
    fn read(scanner: &mut Scanner, request: &FrozenRequest) -> Result<Self, Fault> {
        let document = scanner.read(request.parameters.text())?;
        let root = document.root();
        let list = |name: &str| -> Result<Vec<Opaque>, Fault> {
            let node = root.object().and_then(|object| object.get(name)).and_then(Node::array);
            let items = node.ok_or_else(|| Fault::new(Code::RequestInvalid, "the request lists no operations"))?;
            items.map(|item| Opaque::read(item, Code::RequestInvalid)).collect()
        };
        let (parameters, listed) = match request.kind {
            RequestKind::DispatchNext => {
                (Parameters::Dispatch(DispatchParameters::read(root, Code::LedgerInvalid)?), Vec::new())
            }
            RequestKind::Finish => (Parameters::Finish(FinishParameters::read(root, Code::LedgerInvalid)?), Vec::new()),
            RequestKind::Submit => (Parameters::Nodes, list("nodes")?),
            _ => (Parameters::Operations, list("operations")?),
        };
        Ok(Self { parameters, listed })
    }
}

impl Projection {
    /// Decides a request on this state at time `at`. Observations, freshly read, count for `dispatch_next` alone.
    ///
    /// # Errors
    /// Whatever replay would raise for the commit; nothing is changed.
    pub fn decide(
        &self,
        scanner: &mut Scanner,
        request: &FrozenRequest,
        at: At,
        observations: &[Observation],
    ) -> Result<Decision, Fault> {
        ensure!(
            request.actor.role.may_issue(request.kind),
            ActorUnauthorized,
            "the role may not issue this kind of request"
        );
        let installed = self.rules()?;
        let asked = Asked::read(scanner, request)?;
        let commit_id = candidate_id(self.tip.as_ref(), &request.id);
        let mut stopped = None;
        let operations = match &asked.parameters {
            Parameters::Dispatch(parameters) => {
                let inputs = PlanInputs {
                    parameters,
                    request_id: &request.id,
                    commit_id: &commit_id,
                    at,
                    preceding_operations: observations.len(),
                };
                let (plan, operations) = self.plan_request(&inputs, observations, &request.actor)?;
                if plan.claims.is_empty() {
                    return Ok(Decision::Nothing { reason: plan.reason, next: plan.next, at });
                }
                stopped = Some((plan.reason, plan.next));
                operations
            }
            Parameters::Finish(finish) => {
                let operations = self.finish_operations(finish, &request.actor, at)?;
                if operations.is_empty() {
                    return Ok(Decision::Done { reason: "already_finished", commit_id: self.finished_by(finish) });
                }
                operations.iter().map(encode).collect()
            }
            Parameters::Nodes => match self.already_submitted(scanner, &asked.listed, &request.actor)? {
                Some(commit_id) => {
                    return Ok(Decision::Done { reason: "already_submitted", commit_id: Some(commit_id) });
                }
                None => asked.listed,
            },
            _ => asked.listed,
        };
        let candidate = Candidate {
            id: &commit_id,
            previous: self.tip.as_ref(),
            request,
            policy_epoch: &self.epoch_of(scanner, &operations)?.unwrap_or_else(|| installed.epoch.clone()),
            at,
            operations: &operations,
        };
        self.check(scanner, &candidate, stopped)
    }

    /// Decides a first submission: Policy and Work in one genesis commit (publication.md 3.3). `policy` is the
    /// proposed Policy as canonical text.
    ///
    /// # Errors
    /// Whatever replay would raise for the genesis commit.
    pub fn bootstrap(
        scanner: &mut Scanner,
        request: &FrozenRequest,
        policy: &Opaque,
        at: At,
    ) -> Result<Decision, Fault> {
        ensure!(
            request.actor.role.may_issue(request.kind),
            ActorUnauthorized,
            "the role may not issue this kind of request"
        );
        let asked = Asked::read(scanner, request)?;
        ensure!(!asked.listed.is_empty(), RequestInvalid, "a first submission admits at least one Work");
        let epoch = bootstrap_epoch(&request.id);
        let commit_id = candidate_id(None, &request.id);
        let first = format!(r#"{{"epoch":"{}","kind":"Policy","policy":{}}}"#, epoch.as_str(), policy.as_str());
        let mut operations = vec![Opaque::checked(Text::from(first))];
        operations.extend(asked.listed);
        let candidate =
            Candidate { id: &commit_id, previous: None, request, policy_epoch: &epoch, at, operations: &operations };
        Self::empty().check(scanner, &candidate, None)
    }

    /// Appends a candidate to this state: the same validation and replay that every reader will do.
    fn check(
        &self,
        scanner: &mut Scanner,
        candidate: &Candidate<'_>,
        stopped: Option<(&'static str, SelectionView)>,
    ) -> Result<Decision, Fault> {
        ensure!(
            self.requests.len() < crate::protocol::limits::MAX_COMMITS,
            ResourceLimit,
            "the chain has 1000000 commits"
        );
        let commit = Commit::read(scanner, &Text::from(candidate.encode()))?;
        ensure!(!self.commit_ids.contains_key(&commit.id), LedgerInvalid, "the commit id is used already");
        let next = self.clone().apply(commit.clone())?;
        Ok(Decision::Publish(Box::new(Generated { commit, next, stopped })))
    }

    fn epoch_of(&self, scanner: &mut Scanner, operations: &[Opaque]) -> Result<Option<Epoch>, Fault> {
        for operation in operations {
            if !operation.as_str().contains("\"kind\":\"Policy\"") {
                continue;
            }
            let document = scanner.read(operation.text())?;
            if let Operation::Policy(policy) = Operation::read(document.root(), Code::LedgerInvalid)? {
                return Ok(Some(policy.epoch));
            }
        }
        Ok(None)
    }

    fn plan_request(
        &self,
        inputs: &PlanInputs<'_>,
        observations: &[Observation],
        actor: &Actor,
    ) -> Result<(Plan, Vec<Opaque>), Fault> {
        let parameters = Parameters::Dispatch(inputs.parameters.clone());
        if actor.role == Role::Worker {
            self.worker_control(RequestKind::DispatchNext, &parameters, &[], actor)?;
        }
        let mut operations: Vec<Opaque> = Vec::new();
        let plan = if observations.is_empty() {
            plan(self, inputs)?
        } else {
            let mut scratch = self.clone();
            let shared = std::sync::Arc::new(actor.clone());
            let context = Context {
                commit_id: inputs.commit_id,
                request_id: inputs.request_id,
                kind: RequestKind::DispatchNext,
                parameters: &parameters,
                actor: &shared,
                at: inputs.at,
                ordinal: self.requests.len() as u32,
            };
            for observation in observations {
                operations.push(Opaque::checked(Text::from(observation.canonical())));
                scratch.apply_observation(Measured::new(observation.clone()), &context)?;
            }
            plan(&scratch, inputs)?
        };
        operations.extend(plan.claims.iter().map(|planned| Opaque::checked(Text::from(planned.claim.canonical()))));
        Ok((plan, operations))
    }

    /// The commit that admitted the first of the nodes, if every node is admitted already with the same definition.
    fn already_submitted(
        &self,
        scanner: &mut Scanner,
        listed: &[Opaque],
        actor: &Actor,
    ) -> Result<Option<CommitId>, Fault> {
        let mut operations = Vec::with_capacity(listed.len());
        for node in listed {
            let document = scanner.read(node.text())?;
            operations.push(Operation::read(document.root(), Code::LedgerInvalid)?);
        }
        let known = operations.iter().all(|operation| match operation {
            Operation::Work(node) => self.work_ids.contains_key(&node.work_id),
            _ => false,
        });
        if !known {
            return Ok(None);
        }
        self.validate_nodes(&operations, actor)?;
        let first = operations.first().and_then(|operation| match operation {
            Operation::Work(node) => self.work(node.work_id.as_str()),
            _ => None,
        });
        Ok(first.map(|state| self.requests[state.position.commit as usize].commit_id.clone()))
    }

    fn finished_by(&self, finish: &FinishParameters) -> Option<CommitId> {
        let claim = self.member_claim(finish.dispatch_id.as_str(), finish.claim_handle.as_str())?;
        match &self.claim_at(claim).status {
            ClaimStatus::Open => None,
            ClaimStatus::Completed { commit_id, .. }
            | ClaimStatus::Cancelled { commit_id, .. }
            | ClaimStatus::WorkCancelled { commit_id, .. } => Some(commit_id.clone()),
        }
    }

    /// The operations of a finish request; empty if the Claim stands as asked already.
    pub(crate) fn finish_operations(
        &self,
        finish: &FinishParameters,
        actor: &Actor,
        at: At,
    ) -> Result<Vec<Operation>, Fault> {
        let scope = || Fault::new(Code::ClaimScopeInvalid, "no member of the dispatch has this handle");
        let ix = self.member_claim(finish.dispatch_id.as_str(), finish.claim_handle.as_str()).ok_or_else(scope)?;
        self.binding(ix, actor)?;
        let claim = self.claim_at(ix);
        let done = match finish.outcome {
            Outcome::Completed => "completed",
            Outcome::Cancelled => "cancelled",
        };
        if claim.status.as_str() == done {
            ensure!(
                claim.status.round().is_some() == finish.keeps_open(),
                ClaimIneffective,
                "the Claim was completed with the other choice of keep_open"
            );
            return Ok(Vec::new());
        }
        self.claim_authority(ix, actor, false)?;
        let operation = claim.claim.clone();
        let run = self.dispatch_of(claim).run.as_ref().ok_or_else(|| Fault::from(Code::ClaimIneffective))?;
        if finish.outcome == Outcome::Completed {
            return Ok(vec![Operation::Completion(Completion {
                work_id: operation.work_id,
                claim_id: operation.claim_id,
                dispatch_id: operation.dispatch_id,
                claim_handle: operation.handle,
                run_id: run.run_id.clone(),
                run_attempt: FirstAttempt,
                keep_open: finish.keeps_open().then_some(true),
            })]);
        }
        let installed = self.rules()?;
        let state = self.work_of(claim);
        let pool = installed.policy.pools.get(&state.work.pool);
        let retry = pool.map(|pool| &pool.retry).ok_or_else(|| Fault::from(Code::PolicyInvalid))?;
        let boundary = later(at, retry.backoff_ms.get());
        let mut operations = vec![Operation::ClaimCancellation(ClaimCancellation {
            work_id: operation.work_id.clone(),
            claim_id: operation.claim_id,
            reason: Reason::new("worker_cancelled")?,
            retry_not_before: boundary.ok_or_else(|| Fault::from(Code::RetryInvalid))?,
        })];
        if i64::from(state.attempts) >= retry.max_attempts.get() {
            operations.push(Operation::WorkCancellation(WorkCancellation {
                work_id: operation.work_id,
                claim_id: None,
                reason: Reason::new("attempts_exhausted")?,
            }));
        }
        Ok(operations)
    }
}

/// True if a commit carries the computed operations. A Completion's `keep_open: false` counts as absent (decision 30).
pub(crate) fn same_operations(computed: &[Operation], carried: &[Operation]) -> bool {
    let same = |computed: &Operation, carried: &Operation| match (computed, carried) {
        (Operation::Completion(computed), Operation::Completion(carried)) if carried.keep_open == Some(false) => {
            *computed == Completion { keep_open: None, ..carried.clone() }
        }
        _ => computed == carried,
    };
    computed.len() == carried.len() && computed.iter().zip(carried).all(|(computed, carried)| same(computed, carried))
}

fn encode(operation: &Operation) -> Opaque {
    Opaque::checked(Text::from(operation.canonical()))
}
