//! A staged `submit` (jobs.md 5.3.5): completed from the queue as it stands, held against what the caller approves, and
//! admitted in one commit. The first one installs the Policy beside its Work.

use crate::agent::intent::{Intent, IntentKind};
use crate::delivery::inventory::control_of;
use crate::engine::Projection;
use crate::engine::submission::{Defaults, complete, identity, parameters};
use crate::launch::bootstrap::FirstSubmission;
use crate::launch::deploy::Deployer;
use crate::launch::identity::request_id;
use crate::ledger::{Class, Current, LedgerError, Proposal, Publication, Queue};
use crate::protocol::actor::{Actor, Role};
use crate::protocol::assignment::Assignment;
use crate::protocol::commit::FrozenRequest;
use crate::protocol::fault::ensure;
use crate::protocol::json::{Scanner, Value, parse};
use crate::protocol::policy::Policy;
use crate::protocol::request::RequestKind;
use crate::protocol::{At, Code, Digest, Fault, PoolName, RequestId, Wire as _};
use crate::report::receipt::{Receipt, Status};

use super::desk::{Desk, Requester};
use super::preview;
use crate::jobs::error::JobError;
use crate::jobs::readers::stored_nodes;

/// How often a submission is completed anew because the queue changed under it.
const RECOMPLETIONS: usize = 4;
/// Most nodes of one submission.
const MAX_NODES: usize = 256;

impl<'d> Desk<'d> {
    /// Carries out one submission.
    ///
    /// # Errors
    /// Whatever refuses it; nothing was admitted then.
    pub(super) fn submit(&mut self, intent: &Intent, who: &Requester) -> Result<Receipt, JobError> {
        let nodes = nodes_of(intent)?;
        let id = request_id(&who.actor, intent.intent_id.as_str());
        if self.staged {
            nodes.iter().try_for_each(|node| identity(node).map(drop))?;
            return Ok(preview(intent));
        }
        let mut first: Option<FirstSubmission<'d>> = None;
        let (mut synchronized, mut refused): (bool, Option<(String, JobError)>) = (false, None);
        for _ in 0..RECOMPLETIONS {
            let mut current = self.present()?;
            if let (Some(known), false) = (&current, synchronized) {
                synchronized = true;
                if known.projection.request(id.as_str()).is_none() {
                    let pools = pools_of(&nodes, self.assignment());
                    current = None;
                    self.synchronize(&id, &pools, who)?;
                    current = self.present()?.or(current);
                }
            }
            let text = match self.completed(&nodes, current.as_deref(), &mut first, &id, who) {
                Ok(text) => text,
                Err(error) => return Err(refused.map_or(error, |(_, refused)| refused)),
            };
            drop(current);
            if let Some((before, error)) = refused.take_if(|(before, _)| *before == text) {
                drop(before);
                return Err(error);
            }
            let request = FrozenRequest::new(id.clone(), RequestKind::Submit, who.actor.clone(), &text)?;
            match self.publish_submission(&request, first.as_ref()) {
                Ok(publication) => return self.submitted(intent, &id, &publication),
                Err(error) if matches!(error.class(), Class::Invalid | Class::Denied) => {
                    refused = Some((text, error.into()));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(refused.map_or_else(|| Fault::from(Code::Internal).into(), |(_, error)| error))
    }

    fn present(&mut self) -> Result<Option<std::sync::Arc<Current>>, LedgerError> {
        Ok(match self.ledger.read()? {
            Queue::Present(current) => Some(current),
            Queue::Absent | Queue::EmptyRepository => None,
        })
    }

    /// Worker revisions are brought up to date before a new request; a worker deploys nothing.
    fn synchronize(&mut self, id: &RequestId, pools: &[PoolName], who: &Requester) -> Result<(), JobError> {
        if who.actor.role == Role::Worker {
            return Ok(());
        }
        let mut deployer = Deployer {
            ledger: &mut *self.ledger,
            client: self.client,
            clock: self.clock,
            repository: self.repository,
            actor: &who.sender,
        };
        deployer.synchronize(id, pools, &self.config.allowed)?;
        Ok(())
    }

    /// The canonical parameters, on what the queue holds now.
    fn completed(
        &mut self,
        nodes: &[Value],
        current: Option<&Current>,
        first: &mut Option<FirstSubmission<'d>>,
        id: &RequestId,
        who: &Requester,
    ) -> Result<String, JobError> {
        let projection = current.map(|current| &current.projection);
        if let Some(projection) = projection
            && projection.request(id.as_str()).is_some()
        {
            return Ok(reconstructed(nodes, projection, self.assignment(), &who.actor, self.host)?);
        }
        let at = who.created_at.ok_or_else(|| Fault::from(Code::PublisherOriginTimeMissing))?;
        let inherited = inherit(nodes, projection, self.assignment(), &who.actor)?;
        let resolved = self.readers.nodes(&inherited, projection)?;
        let policy = match projection {
            Some(projection) => &projection.installed().ok_or_else(|| Fault::from(Code::PolicyMissing))?.policy,
            None => self.first_policy(first, &who.actor)?,
        };
        let defaults = Defaults { projection, policy, at };
        self.check_approval(&resolved, &defaults)?;
        Ok(parameters(&resolved, &defaults)?)
    }

    /// The Policy of a queue that is not there yet: what the compiled workflow proposes, otherwise what the default branch
    /// holds (decision 20).
    fn first_policy<'f>(
        &self,
        first: &'f mut Option<FirstSubmission<'d>>,
        actor: &Actor,
    ) -> Result<&'f Policy, JobError> {
        if actor.role == Role::Worker {
            return Err(Fault::new(Code::ClaimScopeInvalid, "a worker makes no queue").into());
        }
        if first.is_none() {
            *first = Some(match &self.proposal {
                Some(proposal) => FirstSubmission::proposed(self.client, self.repository, &proposal.policy)?,
                None => FirstSubmission::resolved(self.client, self.repository)?,
            });
        }
        first.as_ref().map(FirstSubmission::policy).ok_or_else(|| Fault::from(Code::Internal).into())
    }

    /// Every node's worker must be one that the caller approves: approval narrows, and never widens or moves.
    fn check_approval(&self, nodes: &[Value], defaults: &Defaults<'_>) -> Result<(), Fault> {
        for node in nodes {
            let node = complete(node, defaults)?;
            let text = |name: &str| node.get(name).and_then(Value::as_str).unwrap_or_default();
            let pool = defaults.policy.pools.get(text("pool"));
            let profile = pool.and_then(|pool| pool.profiles.get(text("worker_profile")));
            let approved = profile.is_some_and(|profile| self.config.allowed.allows(profile));
            ensure!(approved, WorkQueueWorkerNotCompilerApproved, Code::WorkQueueWorkerNotCompilerApproved.meaning());
        }
        Ok(())
    }

    fn publish_submission(
        &mut self,
        request: &FrozenRequest,
        first: Option<&FirstSubmission<'_>>,
    ) -> Result<Publication, LedgerError> {
        let admit = first.map(|first| move |next: &Projection| first.admit(next));
        let proposal = first.zip(admit.as_ref()).map(|(first, admit)| Proposal {
            policy: first.policy(),
            default_branch: None,
            admit: Some(admit),
        });
        self.ledger.publish(request, proposal.as_ref(), &mut |projection, scanner, at| {
            projection.decide(scanner, request, at, &[]).map_err(LedgerError::from)
        })
    }

    fn submitted(&mut self, intent: &Intent, id: &RequestId, publication: &Publication) -> Result<Receipt, JobError> {
        use crate::ledger::Outcome;
        let recovered = !matches!(publication.outcome, Outcome::PublishedNow { .. });
        tracing::debug!(target: "work-queue:dispatch", recovered, "intent.submit.persisted");
        let control = self.control(&publication.current.projection, id)?;
        Ok(Receipt {
            request_id: Some(id.clone()),
            commit_id: publication.outcome.commit_id().cloned(),
            recovered,
            control,
            ..Receipt::new(Some(intent.intent_id.as_str().to_owned()), Status::Durable)
        })
    }

    /// The control receipt of a worker's committed request.
    pub(super) fn control(&mut self, projection: &Projection, id: &RequestId) -> Result<Option<String>, JobError> {
        let Some(accepted) = projection.request(id.as_str()) else { return Ok(None) };
        let (Some(dispatch), Some(handle)) = (&accepted.actor.dispatch_id, &accepted.actor.claim_handle) else {
            return Ok(None);
        };
        let member =
            projection.dispatch(dispatch.as_str()).and_then(|dispatch| dispatch.assignment.member(handle.as_str()));
        let claim = member.and_then(|member| projection.claim(member.claim_id.as_str()));
        let claim = claim.ok_or_else(|| Fault::from(Code::WorkQueueControlReceiptScopeInvalid))?;
        let control = control_of(projection, claim, accepted, &mut self.scanner)?;
        Ok(Some(control.receipt.as_str().to_owned()))
    }
}

/// The nodes of an intent: `{"nodes": [...]}` and nothing else, 1 to 256.
fn nodes_of(intent: &Intent) -> Result<Vec<Value>, Fault> {
    let invalid = || Fault::new(Code::RequestInvalid, "a submission is 1 to 256 nodes and nothing else");
    let Value::Object(members) = parse(intent.parameters.as_str())? else { return Err(invalid()) };
    match <[_; 1]>::try_from(members) {
        Ok([(name, Value::Array(nodes))]) if name == "nodes" && (1..=MAX_NODES).contains(&nodes.len()) => Ok(nodes),
        _ => Err(invalid()),
    }
}

/// The pools that nodes name; those that name none mean the parent's, or the default one.
fn pools_of(nodes: &[Value], assignment: Option<&Assignment>) -> Vec<PoolName> {
    let default = assignment.map_or("default", |assignment| assignment.pool.as_str());
    let mut pools: Vec<PoolName> = nodes
        .iter()
        .filter_map(|node| PoolName::new(node.get("pool").and_then(Value::as_str).unwrap_or(default)).ok())
        .collect();
    pools.sort_unstable();
    pools.dedup();
    pools
}

/// A worker's follow-up takes graph, pool, priority and accounting key of its own Work where it names none.
fn inherit(
    nodes: &[Value],
    projection: Option<&Projection>,
    assignment: Option<&Assignment>,
    actor: &Actor,
) -> Result<Vec<Value>, Fault> {
    let (Some(assignment), Some(handle)) = (assignment, &actor.claim_handle) else { return Ok(nodes.to_vec()) };
    let member = assignment.member(handle.as_str()).ok_or_else(|| Fault::from(Code::ClaimScopeInvalid))?;
    let parent = projection.and_then(|projection| projection.work(member.work_id.as_str()));
    let parent = &parent.ok_or_else(|| Fault::from(Code::ClaimScopeInvalid))?.work;
    let text = |text: &str| Value::String(text.to_owned());
    let inherited = [
        ("graph_id", text(parent.graph_id.as_str())),
        ("pool", text(parent.pool.as_str())),
        ("priority", Value::Integer(parent.priority.get())),
        ("fairness_key", text(parent.fairness_key.as_str())),
    ];
    let one = |node: &Value| match node {
        Value::Object(members) => {
            let mut members = members.clone();
            for (name, value) in &inherited {
                if !members.iter().any(|(known, _)| known == name) {
                    members.push(((*name).to_owned(), value.clone()));
                }
            }
            Value::Object(members)
        }
        other => other.clone(),
    };
    Ok(nodes.iter().map(one).collect())
}

/// The parameters that the nodes of an accepted request had when it was accepted: what is stored of them is taken, and
/// nothing is looked up or decided anew.
fn reconstructed(
    nodes: &[Value],
    projection: &Projection,
    assignment: Option<&Assignment>,
    actor: &Actor,
    host: &str,
) -> Result<String, Fault> {
    let installed = projection.installed().ok_or_else(|| Fault::from(Code::PolicyMissing))?;
    let nodes = inherit(nodes, Some(projection), assignment, actor)?;
    let nodes = stored_nodes(&nodes, projection, host)?;
    parameters(&nodes, &Defaults { projection: Some(projection), policy: &installed.policy, at: At::default() })
}

/// The request that a worker's staged control must have become, with its fingerprint.
///
/// # Errors
/// `claim_control_delivery_invalid` for an intent that is no control; `queue_control_not_committed` for a request that is
/// not in the ledger; whatever makes its parameters another request's.
pub fn expected(
    intent: &Intent,
    actor: &Actor,
    assignment: &Assignment,
    projection: &Projection,
    scanner: &mut Scanner,
) -> Result<(RequestId, Digest), Fault> {
    let id = request_id(actor, intent.intent_id.as_str());
    let accepted = projection.request(id.as_str()).ok_or_else(|| Fault::from(Code::QueueControlNotCommitted))?;
    let (kind, parameters) = match intent.kind {
        IntentKind::Finish => return Err(Code::ClaimControlDeliveryInvalid.into()),
        IntentKind::Submit => {
            let nodes = nodes_of(intent)?;
            let text = reconstructed(&nodes, projection, Some(assignment), actor, scanner.host())?;
            (RequestKind::Submit, text)
        }
        IntentKind::DispatchNext => {
            let wanted = super::dispatch::Wanted::read(intent, scanner)?;
            let stored = super::dispatch::stored(accepted, scanner)?;
            ensure!(wanted.is_of(&stored), QueueControlRequestMismatch, Code::QueueControlRequestMismatch.meaning());
            (RequestKind::DispatchNext, stored.canonical())
        }
    };
    Ok((id, crate::protocol::request::fingerprint(&actor.canonical(), kind, &parameters)))
}
