//! The one way to write the queue branch (design.md 5, publication.md 2 and 3): read, replay, decide on the pure
//! projection, publish once under a lease, and after any doubt look for the request before doing anything else.

use std::sync::Arc;

use gix::ObjectId;

use super::bootstrap::{ConfirmEmpty, Proposal};
use super::commit_object::Author;
use super::current::{Current, nonextending};
use super::error::{Class, LedgerError};
use super::git::{Ambiguity, PushOutcome, Transport};
use super::head::{Head, Snapshot, read_head};
use super::names::Branch;
use super::push::Candidate;
use super::register::{Means, Register};
use super::retry::Retries;
use super::store::Store;
use crate::engine::schedule::explain::SelectionView;
use crate::engine::{Decision, Projection};
use crate::ports::{Clock, Entropy};
use crate::protocol::RepositoryName;
use crate::protocol::commit::FrozenRequest;
use crate::protocol::json::Scanner;
use crate::protocol::policy::Policy;
use crate::protocol::{At, Code, CommitId};

/// What a publisher works with.
pub struct Setup<'a> {
    /// The way to the remote.
    pub transport: &'a dyn Transport,
    /// The queue branch.
    pub branch: Branch,
    /// The repository that every actor must belong to.
    pub repository: RepositoryName,
    /// The host of external resources, such as `github.com` (decision 9).
    pub host: String,
    /// Who the Git commits are by.
    pub author: Author,
    /// Time.
    pub clock: &'a dyn Clock,
    /// Chance.
    pub entropy: &'a dyn Entropy,
    /// Attempts.
    pub retries: Retries,
    /// What confirms that a server's repository without a branch is empty; without it such a repository is unavailable.
    pub confirm_empty: Option<&'a ConfirmEmpty<'a>>,
}

/// The queue as a read found it.
#[derive(Clone, Debug)]
pub enum Queue {
    /// There is a queue.
    Present(Arc<Current>),
    /// There is none yet.
    Absent,
    /// The server shows an empty repository, and there is nothing to ask for confirmation; see
    /// [`Head::EmptyRepository`].
    EmptyRepository,
}

/// The permission to launch what a publication granted. There is one for each acknowledged publication and none for
/// any other outcome; the launch takes it by value.
#[derive(Debug)]
#[must_use]
pub struct LaunchPermit {
    commit_id: CommitId,
}

impl LaunchPermit {
    /// Only the acknowledgement of a write makes one.
    pub(super) fn new(commit_id: CommitId) -> Self {
        Self { commit_id }
    }

    /// The ledger commit whose grants may be launched.
    #[must_use]
    pub fn commit_id(&self) -> &CommitId {
        &self.commit_id
    }
}

/// How a publication ended. Everything but `PublishedNow` may only be reconciled, never launched.
#[derive(Debug)]
pub enum Outcome {
    /// The remote acknowledged this call's write.
    PublishedNow {
        /// Permission for the first launch of what it grants.
        permit: LaunchPermit,
        /// What ended the fair prefix, for a dispatch request.
        stopped: Option<(&'static str, SelectionView)>,
    },
    /// The write's acknowledgement was lost or contradicted, and the request was then found committed.
    Recovered {
        /// The request's ledger commit.
        commit_id: CommitId,
    },
    /// The request had been committed before this call wrote anything.
    AlreadyCommitted {
        /// The request's ledger commit.
        commit_id: CommitId,
    },
    /// What the request asks for holds already; nothing was written.
    Done {
        /// `already_submitted` or `already_finished`.
        reason: &'static str,
        /// The ledger commit that made it so.
        commit_id: Option<CommitId>,
    },
    /// There is nothing to grant; nothing was written and the request id stays unused.
    Nothing {
        /// Why.
        reason: &'static str,
        /// The selection that stands first.
        next: SelectionView,
    },
}

impl Outcome {
    /// The request's ledger commit, when it has one.
    #[must_use]
    pub fn commit_id(&self) -> Option<&CommitId> {
        match self {
            Self::PublishedNow { permit, .. } => Some(permit.commit_id()),
            Self::Recovered { commit_id } | Self::AlreadyCommitted { commit_id } => Some(commit_id),
            Self::Done { commit_id, .. } => commit_id.as_ref(),
            Self::Nothing { .. } => None,
        }
    }
}

/// One attempt that did not publish, for diagnostics alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Number, from 1.
    pub number: u32,
    /// The version that it was decided on; none for an absent queue.
    pub observed: Option<ObjectId>,
    /// What the push reported.
    pub result: PushOutcome,
}

/// The end of a publication, with the queue as it stands then.
#[derive(Debug)]
pub struct Publication {
    /// How it ended.
    pub outcome: Outcome,
    /// The queue after it.
    pub current: Arc<Current>,
    /// When the last decision was made, in Unix milliseconds.
    pub evaluated_at: At,
    /// Attempts that were lost before.
    pub lost: Vec<Attempt>,
}

/// Decides a request on the current state. It is called again from scratch after every lost attempt, so it keeps
/// nothing from an earlier call. The time that it gets is the time at which it is called: a decision that reads the world
/// first reads the clock again after that (publication.md 2.2 g).
pub type Decide<'d> = dyn FnMut(&Projection, &mut Scanner, At) -> Result<Decision, LedgerError> + 'd;

/// Reads and writes one queue branch, with a private store of its own for as long as it lives.
pub struct Publisher<'a> {
    pub(super) setup: Setup<'a>,
    pub(super) store: Store,
    pub(super) scanner: Scanner,
    /// What was read last; every later read must extend it.
    pub(super) last: Option<Arc<Current>>,
    /// True if the last read was of a repository that a server shows without any branch.
    pub(super) branchless: bool,
}

impl<'a> Publisher<'a> {
    /// A publisher with an empty store.
    ///
    /// # Errors
    /// `io_failed` when the store cannot be made.
    pub fn new(setup: Setup<'a>) -> Result<Self, LedgerError> {
        let scanner = Scanner::new(&setup.host);
        Ok(Self { setup, store: Store::new()?, scanner, last: None, branchless: false })
    }

    /// The private store, to look at: what was read, what it holds.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Reads, replays and checks the queue. Always asks the remote, never writes to it.
    ///
    /// # Errors
    /// As [`read_head`] and [`Current::replay`]; `ledger_nonextending` when the branch does not extend what this
    /// publisher read before; `repository_unavailable` when a server shows no branch and the service does not confirm
    /// that there is none.
    pub fn read(&mut self) -> Result<Queue, LedgerError> {
        let head = read_head(self.setup.transport, &self.store, &self.setup.branch)?;
        self.branchless = head == Head::EmptyRepository;
        match head {
            Head::Present(snapshot) => {
                let current = match self.last.take() {
                    Some(last) => {
                        let (store, repository) = (&self.store, &self.setup.repository);
                        Arc::unwrap_or_clone(last).extend(snapshot, store, repository, &mut self.scanner)?
                    }
                    None => Current::replay(snapshot, &self.store, &self.setup.repository, &mut self.scanner)?,
                };
                let current = Arc::new(current);
                self.last = Some(Arc::clone(&current));
                Ok(Queue::Present(current))
            }
            Head::Absent | Head::EmptyRepository if self.last.is_some() => Err(nonextending()),
            Head::Absent => Ok(Queue::Absent),
            Head::EmptyRepository if self.is_confirmed_empty()? => Ok(Queue::Absent),
            Head::EmptyRepository => Ok(Queue::EmptyRepository),
        }
    }

    /// Reads a queue that must be there.
    ///
    /// # Errors
    /// `queue_missing` on an absent queue; `repository_unavailable` when a server's repository is not known to be
    /// empty; otherwise as [`Publisher::read`].
    pub fn read_present(&mut self) -> Result<Arc<Current>, LedgerError> {
        match self.read()? {
            Queue::Present(current) => Ok(current),
            Queue::Absent => Err(missing()),
            Queue::EmptyRepository => Err(unconfirmed()),
        }
    }

    /// Publishes a request as the engine decides it. `proposal` is the Policy of a first submission.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    pub fn publish_request(
        &mut self,
        request: &FrozenRequest,
        proposal: Option<&Policy>,
    ) -> Result<Publication, LedgerError> {
        self.publish(request, proposal.map(Proposal::plain).as_ref(), &mut |projection, scanner, at| {
            projection.decide(scanner, request, at, &[]).map_err(LedgerError::from)
        })
    }

    /// Publishes a request: decides it on the state that is read, appends it by compare-and-swap, and repeats from
    /// the read after a lost race. The request id makes the whole call idempotent. `proposal` is what a first submission
    /// brings.
    ///
    /// # Errors
    /// By class: *denied* (`publication_denied`, `actor_unauthorized`, …), *invalid* (whatever replay would raise,
    /// `request_reused`, `ledger_nonextending`, …), *absent* (`queue_missing`), *unavailable*; `publication_unresolved`
    /// as *conflict* when every attempt lost a race, as *unknown* when it cannot be told whether one landed.
    pub fn publish(
        &mut self,
        request: &FrozenRequest,
        proposal: Option<&Proposal<'_>>,
        decide: &mut Decide<'_>,
    ) -> Result<Publication, LedgerError> {
        super::register::publish(self, request, proposal, decide)
    }

    /// Offers the ledger of a decided state. Returns the report and the version that it makes.
    pub(super) fn offer(
        &mut self,
        base: Option<&Current>,
        next: Projection,
    ) -> Result<(PushOutcome, Current), LedgerError> {
        let ledger = render(&next)?;
        let base = base.map(|current| Snapshot {
            commit: current.commit,
            parents: Vec::new(),
            tree: current.tree.clone(),
            ledger: Vec::new(),
        });
        let Setup { transport, branch, author, clock, entropy, .. } = &self.setup;
        let candidate = Candidate::build(&self.store, base.as_ref(), &ledger, *author, *clock, *entropy)?;
        let result = candidate.push(*transport, &self.store, branch, base.as_ref(), &ledger)?;
        let (commit, tree) = (candidate.commit, candidate.into_tree());
        let next = Current { commit, projection: next, recovered: false, tree };
        Ok((result, next))
    }
}

impl Register for Publisher<'_> {
    fn read(&mut self) -> Result<Queue, LedgerError> {
        Publisher::read(self)
    }

    fn offer(&mut self, base: Option<&Current>, next: Projection) -> Result<(PushOutcome, Current), LedgerError> {
        Publisher::offer(self, base, next)
    }

    fn admit_first(&mut self, proposal: &Proposal<'_>, next: &Projection) -> Result<(), LedgerError> {
        Publisher::admit_first(self, proposal, next)
    }

    fn adopt(&mut self, current: &Arc<Current>) {
        self.last = Some(Arc::clone(current));
    }

    fn means(&mut self) -> Means<'_> {
        let Setup { repository, clock, entropy, retries, .. } = &self.setup;
        Means { repository, clock: *clock, entropy: *entropy, retries: *retries, scanner: &mut self.scanner }
    }
}

/// The ledger's bytes: one canonical commit for each line, in causal order, every line ended.
fn render(projection: &Projection) -> Result<Vec<u8>, LedgerError> {
    let size = usize::try_from(projection.ledger_bytes()).unwrap_or(0);
    let mut bytes = Vec::with_capacity(size);
    for line in projection.active() {
        bytes.extend_from_slice(line.as_str().as_bytes());
        bytes.push(b'\n');
    }
    if bytes.len() == size { Ok(bytes) } else { Err(LedgerError::internal("the ledger's bytes were miscounted")) }
}

pub(super) fn missing() -> LedgerError {
    LedgerError::new(
        Code::QueueMissing,
        Class::Absent,
        "there is no queue on this branch",
        "Check the branch's name if there should be a queue. The first submission makes a new one, which knows none of the \
         requests, reservations and evidence of an earlier branch.",
    )
}

pub(super) fn unconfirmed() -> LedgerError {
    LedgerError::new(
        Code::RepositoryUnavailable,
        Class::Unavailable,
        "the server shows no default branch, and nothing confirms that the repository is empty",
        "Push a first commit to the repository's default branch, then repeat the command.",
    )
}

/// True if an attempt's effect is not known. A lost race is known: the look at the branch that follows it decides.
pub(super) fn doubtful(lost: &[Attempt]) -> bool {
    lost.iter().any(|attempt| attempt.result != PushOutcome::Conflict)
}

/// True if the branch stood still while every attempt at it was reported as a lost race: nobody was faster, so the
/// reference itself cannot be written. A killed push leaves its lock behind; a branch `a` excludes a branch `a/b`.
pub(super) fn stuck(lost: &[Attempt]) -> bool {
    lost.len() > 1 && lost.windows(2).all(|pair| pair[0].observed == pair[1].observed)
}

/// The attempts are used up, or the branch could not be read after one.
pub(super) fn unresolved(lost: &[Attempt], refresh: Option<&LedgerError>) -> LedgerError {
    let status = lost.iter().rev().find_map(|attempt| match &attempt.result {
        PushOutcome::Ambiguous(Ambiguity::Status(status)) => Some(*status),
        _ => None,
    });
    let attempts = lost.len();
    let lost_race = matches!(lost.last(), Some(Attempt { result: PushOutcome::Conflict, .. }));
    let (class, message) = match refresh {
        Some(error) if error.class() == Class::Invalid => {
            let message = format!("{}; whether the request was published is unknown", error.message());
            let class = if lost_race { Class::Invalid } else { Class::Unknown };
            return LedgerError::new(error.code(), class, message, error.action());
        }
        Some(error) => {
            let code = error.code();
            (Class::Unknown, format!("the push's outcome is unknown, and the branch could not be read again ({code})"))
        }
        None if doubtful(lost) => (Class::Unknown, format!("the outcome is unknown after {attempts} attempts")),
        None if stuck(lost) => {
            let message = format!("the repository would not move the branch {attempts} times, and nobody else did");
            let action = "Look in the repository for a leftover lock of the branch, for a branch whose name begins or \
                          goes on like this one's, and for a rule that hides it; nothing was published.";
            return LedgerError::new(Code::PublicationUnresolved, Class::Conflict, message, action);
        }
        None => (Class::Conflict, format!("other publishers were faster {attempts} times")),
    };
    LedgerError::new(
        Code::PublicationUnresolved,
        class,
        message,
        "Repeat the same command with the same request id; it publishes at most once.",
    )
    .with_status(status)
}
