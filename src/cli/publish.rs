//! What the publishing commands share: who asks, under which request id, and how a publication's end is told.

use std::path::Path;

use super::access::Access;
use super::gates::Readers;
use super::hub::Hub;
use super::source::{provenance, request_id};
use super::{Failure, Global, input};
use crate::engine::Projection;
use crate::engine::submission::{Defaults, parameters};
use crate::launch::bootstrap::FirstSubmission;
use crate::launch::error::LaunchError;
use crate::ledger::proposal::{Worker, default_policy, read_policy};
use crate::ledger::{Class, LedgerError, Outcome, Proposal, Publication, Publisher, Queue};
use crate::ports::{Clock as _, SystemClock};
use crate::protocol::actor::{Actor, Role};
use crate::protocol::commit::FrozenRequest;
use crate::protocol::json::{Members, Value};
use crate::protocol::policy::Policy;
use crate::protocol::request::RequestKind;
use crate::protocol::{At, Code, Fault, ProfileName, RequestId, Revision};
use crate::report::label;

/// The one worker of a local queue's default Policy, `.github/workflows/worker.lock.yml`. There is no GitHub to ask
/// for a revision, so the route names the null revision: grants work, and nothing could be launched from it.
const LOCAL_WORKER: &str = "worker";

/// How often a submission is completed anew because the queue changed under it.
const RECOMPLETIONS: usize = 4;

/// A publication that ended well, with the id of its request.
pub(crate) struct Published {
    pub(crate) id: RequestId,
    pub(crate) publication: Publication,
}

impl Published {
    /// Keeps a publication with its request's id.
    pub(crate) fn new(id: RequestId, publication: Publication) -> Self {
        let now = matches!(publication.outcome, Outcome::PublishedNow { .. });
        tracing::debug!(published_now = now, lost_attempts = publication.lost.len(), "request ended");
        Self { id, publication }
    }

    /// Adds what every publishing command tells: request, commit, what this call did, and provenance.
    pub(crate) fn members(&self, members: &mut Members<'_>) {
        let Publication { outcome, current, evaluated_at, lost } = &self.publication;
        let published_now = matches!(outcome, Outcome::PublishedNow { .. });
        members.name("changed", |w| w.bool(published_now));
        members.name("commit_id", |w| match outcome.commit_id() {
            Some(commit) => w.string(commit.as_str()),
            None => w.raw("null"),
        });
        members.name("genesis", |w| w.bool(self.is_genesis()));
        members.name("idempotent", |w| {
            w.bool(matches!(
                outcome,
                Outcome::Done { .. } | Outcome::Recovered { .. } | Outcome::AlreadyCommitted { .. }
            ));
        });
        members.name("lost_attempts", |w| w.integer(lost.len() as i64));
        members.name("published_now", |w| w.bool(published_now));
        members.name("recovered", |w| w.bool(matches!(outcome, Outcome::Recovered { .. })));
        members.name("replayed", |w| w.bool(matches!(outcome, Outcome::AlreadyCommitted { .. })));
        members.name("request_id", |w| w.string(self.id.as_str()));
        provenance(&current.projection, Some(&current.commit.to_string()), *evaluated_at, members);
    }

    /// True if this call made the queue.
    fn is_genesis(&self) -> bool {
        let published = matches!(self.publication.outcome, Outcome::PublishedNow { .. });
        published && self.publication.current.projection.requests().len() == 1
    }

    /// A line about the commit, and one more where it made the queue, for people.
    pub(crate) fn line(&self) -> String {
        let id = label(self.id.as_str());
        let commit = |commit: Option<&crate::protocol::CommitId>| {
            commit.map_or_else(|| "nothing".to_owned(), |commit| format!("commit {}", label(commit.as_str())))
        };
        let outcome = &self.publication.outcome;
        let told = commit(outcome.commit_id());
        match outcome {
            Outcome::PublishedNow { .. } if self.is_genesis() => format!(
                "{told}, request={id}\na new queue: if there was an earlier branch, its requests, reservations and evidence are \
                 not in it\n"
            ),
            Outcome::PublishedNow { .. } => format!("{told}, request={id}\n"),
            Outcome::Recovered { .. } => format!("{told}, found after an uncertain push, request={id}\n"),
            Outcome::AlreadyCommitted { .. } => format!("{told}, committed before; nothing written, request={id}\n"),
            Outcome::Done { .. } => format!("{told}, unchanged; nothing written, request={id} stays unused\n"),
            Outcome::Nothing { .. } => format!("nothing written, request={id} stays unused\n"),
        }
    }
}

/// What a first submission proposes.
enum First<'a> {
    /// On a local queue: the file's Policy, or the default one with one placeholder route.
    Given(Box<Policy>),
    /// On GitHub: what the default branch holds, asked only if there is no queue yet.
    Repository(&'a Hub, Option<Box<FirstSubmission<'a>>>),
}

impl<'a> First<'a> {
    fn of(access: &'a Access, file: Option<&Path>) -> Result<Self, Failure> {
        match (access.hub(), file) {
            (Some(_), Some(_)) => Err(Failure::usage(
                "--policy is for a local repository; on GitHub the first Policy comes from the default branch",
                "Leave out --policy; put settings into .github/workflows/aw.json, or install another Policy later with policy.",
            )),
            (Some(hub), None) => Ok(Self::Repository(hub, None)),
            (None, Some(path)) => Ok(Self::Given(Box::new(policy_file(path)?))),
            (None, None) => {
                let (name, revision) = (ProfileName::new(LOCAL_WORKER)?, Revision::new("0".repeat(40))?);
                let policy = default_policy(access.name(), &[Worker { name, revision, contract: None }])?;
                Ok(Self::Given(Box::new(policy)))
            }
        }
    }

    /// The Policy, for a queue that is not there yet.
    fn policy(&mut self) -> Result<&Policy, Failure> {
        match self {
            Self::Given(policy) => Ok(policy),
            Self::Repository(hub, found) => match found {
                Some(found) => Ok(found.policy()),
                None => {
                    let resolved = FirstSubmission::resolved(hub.client(), &hub.name).map_err(without_branch)?;
                    Ok(found.insert(Box::new(resolved)).policy())
                }
            },
        }
    }

    /// Publishes a submission. The routes that a first one relies on are verified before the branch is made.
    fn publish(&self, publisher: &mut Publisher<'_>, request: &FrozenRequest) -> Result<Publication, LedgerError> {
        match self {
            Self::Given(policy) => publisher.publish_request(request, Some(policy)),
            Self::Repository(_, None) => publisher.publish_request(request, None),
            Self::Repository(_, Some(found)) => {
                let admit = |next: &Projection| found.admit(next);
                let proposal = Proposal { policy: found.policy(), default_branch: None, admit: Some(&admit) };
                publisher.publish(request, Some(&proposal), &mut |projection, scanner, at| {
                    projection.decide(scanner, request, at, &[]).map_err(LedgerError::from)
                })
            }
        }
    }
}

/// A repository without any branch answers for its default branch with a conflict (publication.md 3.1).
fn without_branch(error: LaunchError) -> Failure {
    if error.code() != Code::ApiConflict {
        return error.into();
    }
    let message = "the repository has no branch yet, so there is no revision to take workers from";
    let next = "Push a first commit with the workers to the default branch, then repeat the same submission.";
    Failure::new(Code::RepositoryUnavailable, message, next)
}

/// Reads a Policy file of at most 4 MiB.
pub(crate) fn policy_file(path: &Path) -> Result<Policy, Failure> {
    read_policy(&input::text(path)?).map_err(|error| at_input(&error))
}

/// A defect of an input file exits 2, whatever its code means in a ledger.
fn at_input(error: &LedgerError) -> Failure {
    let mut fault = Fault::new(error.code(), error.message().to_owned());
    if let Some(offset) = error.offset() {
        fault = fault.at(offset);
    }
    Failure::input(&fault, "the Policy file")
}

/// Submits nodes as a producer. Defaults are filled from the queue as it stands; when the queue changes so that they
/// would be others (the same Work admitted meanwhile, another first Policy), they are filled again.
pub(crate) fn submit(global: &Global, nodes: &[Value], policy: Option<&Path>) -> Result<Published, Failure> {
    let access = Access::open(global)?;
    let mut first = First::of(&access, policy)?;
    let (id, actor) = (request_id(global)?, access.actor(Role::Producer)?);
    let mut publisher = access.publisher()?;
    // One time for all completions: a refusal is final unless the queue itself makes the submission another one.
    let at = SystemClock.now();
    let mut refused: Option<(String, LedgerError)> = None;
    for _ in 0..RECOMPLETIONS {
        let text = match (completed(&access, &mut publisher, nodes, &mut first, at), refused.take()) {
            (Ok(text), Some((before, error))) if before == text => return Err(refusal(error)),
            (Ok(text), _) => text,
            (Err(_), Some((_, error))) => return Err(refusal(error)),
            (Err(failure), None) => return Err(failure),
        };
        let request = freeze(&id, RequestKind::Submit, &actor, &text)?;
        match first.publish(&mut publisher, &request) {
            Ok(publication) => return Ok(Published::new(id, publication)),
            Err(error) if matches!(error.class(), Class::Invalid | Class::Denied) => refused = Some((text, error)),
            Err(error) => return Err(error.into()),
        }
    }
    Err(match refused {
        Some((_, error)) => refusal(error),
        None => Fault::from(Code::Internal).into(),
    })
}

/// A refused submission. The ledger was read before, so what replay would not accept is the submission's.
fn refusal(error: LedgerError) -> Failure {
    let asked = error.line().is_none();
    let failure = Failure::from(error);
    if asked { failure.at_request() } else { failure }
}

/// The submission's canonical parameters, completed on what the queue holds now. Without a queue the first Policy is
/// resolved, once.
fn completed(
    access: &Access,
    publisher: &mut Publisher<'_>,
    nodes: &[Value],
    first: &mut First<'_>,
    at: At,
) -> Result<String, Failure> {
    let queue = publisher.read()?;
    let projection = match &queue {
        Queue::Present(current) => Some(&current.projection),
        Queue::Absent | Queue::EmptyRepository => None,
    };
    let installed = projection.and_then(|projection| projection.installed());
    let policy = match installed {
        Some(installed) => &installed.policy,
        None => first.policy()?,
    };
    let defaults = Defaults { projection, policy, at };
    // Which Issues and pull requests a node means, the host says.
    let resolved = match Readers::of(access)? {
        Some(readers) => readers.resolve_nodes(nodes, projection, access.host().name())?,
        None => nodes.to_vec(),
    };
    parameters(&resolved, &defaults).map_err(|fault| Failure::input(&fault, "the submission"))
}

/// Fixes a request for all attempts.
pub(crate) fn freeze(
    id: &RequestId,
    kind: RequestKind,
    actor: &Actor,
    parameters: &str,
) -> Result<FrozenRequest, Failure> {
    FrozenRequest::new(id.clone(), kind, actor.clone(), parameters)
        .map_err(|fault| Failure::input(&fault, "the request"))
}
