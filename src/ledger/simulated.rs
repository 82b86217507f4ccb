//! The simulated ledger: one register in memory, any number of processes that read and publish through the publisher's
//! own loop, and a fault for each operation on demand. Nothing of it is used by the binary.

use std::sync::{Arc, Mutex, PoisonError};

use gix::ObjectId;

use super::bootstrap::Proposal;
use super::current::Current;
use super::error::{Class, LedgerError};
use super::git::{Ambiguity, PushOutcome};
use super::port::Ledger;
use super::publisher::{Decide, Publication, Queue, missing};
use super::register::{Means, Register, publish};
use super::retry::Retries;
use super::tree::RootTree;
use crate::engine::Projection;
use crate::ports::{Clock, Entropy};
use crate::protocol::commit::FrozenRequest;
use crate::protocol::identity::sha256_hex;
use crate::protocol::json::Scanner;
use crate::protocol::{Code, RepositoryName};

/// What happens to one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A read fails; a push fails before anything was sent.
    Unavailable,
    /// A read is denied; a push is denied for good.
    Denied,
    /// A push lands, and its answer is lost.
    LostAnswer,
    /// A push does not land, and its answer is lost.
    LostPush,
    /// A push is reported as a lost race, although nobody was faster.
    FalseConflict,
    /// The process ends here: every later operation fails too, whatever it is. A push of it did not land.
    CrashBefore,
    /// As before, but a push had landed.
    CrashAfter,
}

/// Which operation a plan is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A read.
    Read,
    /// A push.
    Push,
}

/// Decides what happens to each operation.
pub type Plan = Box<dyn FnMut(Step) -> Option<Trouble> + Send>;

/// The versions of one queue branch, shared by all processes.
#[derive(Clone, Default)]
pub struct SimulatedBranch(Arc<Mutex<Option<Arc<Current>>>>);

impl SimulatedBranch {
    /// A branch that does not exist yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The version that stands.
    #[must_use]
    pub fn current(&self) -> Option<Arc<Current>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a version in place of the last, as a compaction would: what its readers make of it is theirs to check.
    pub fn replace(&self, projection: Projection) {
        let current = version(projection);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(current));
    }

    /// Appends a version, if the one that it rests on still stands.
    fn swap(&self, base: Option<ObjectId>, next: &Current) -> bool {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stands = kept.as_ref().map(|current| current.commit) == base;
        if stands {
            *kept = Some(Arc::new(next.clone()));
        }
        stands
    }
}

/// A version under a name that follows from its last commit and its size.
fn version(projection: Projection) -> Current {
    let tip = projection.tip().map_or("", |tip| tip.as_str());
    let name = sha256_hex(&[tip, "\n", &projection.ledger_bytes().to_string()]);
    let commit = ObjectId::from_hex(&name.as_bytes()[..40]).unwrap_or_else(|_| ObjectId::null(gix::hash::Kind::Sha1));
    Current { commit, projection, recovered: false, tree: RootTree::default() }
}

/// One process at a simulated branch.
pub struct SimulatedLedger<'a> {
    branch: SimulatedBranch,
    repository: RepositoryName,
    clock: &'a dyn Clock,
    entropy: &'a dyn Entropy,
    retries: Retries,
    scanner: Scanner,
    plan: Option<Plan>,
    crashed: bool,
}

impl<'a> SimulatedLedger<'a> {
    /// A process without faults.
    #[must_use]
    pub fn new(
        branch: &SimulatedBranch,
        repository: &RepositoryName,
        host: &str,
        clock: &'a dyn Clock,
        entropy: &'a dyn Entropy,
    ) -> Self {
        Self {
            branch: branch.clone(),
            repository: repository.clone(),
            clock,
            entropy,
            retries: Retries::default(),
            scanner: Scanner::new(host),
            plan: None,
            crashed: false,
        }
    }

    /// The same process with faults.
    #[must_use]
    pub fn with_plan(self, plan: Plan) -> Self {
        Self { plan: Some(plan), ..self }
    }

    /// True once the plan ended the process.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        self.crashed
    }

    fn trouble(&mut self, step: Step) -> Result<Option<Trouble>, LedgerError> {
        if self.crashed {
            return Err(down(Class::Unavailable));
        }
        let trouble = self.plan.as_mut().and_then(|plan| plan(step));
        self.crashed = matches!(trouble, Some(Trouble::CrashBefore | Trouble::CrashAfter));
        Ok(trouble)
    }

    fn read_now(&mut self) -> Result<Queue, LedgerError> {
        match self.trouble(Step::Read)? {
            Some(Trouble::Denied) => Err(down(Class::Denied)),
            Some(_) => Err(down(Class::Unavailable)),
            None => Ok(self.branch.current().map_or(Queue::Absent, Queue::Present)),
        }
    }
}

fn down(class: Class) -> LedgerError {
    let code = Code::RepositoryUnavailable;
    LedgerError::new(code, class, "a planned fault of the simulated branch", "Repeat the command.")
}

impl Register for SimulatedLedger<'_> {
    fn read(&mut self) -> Result<Queue, LedgerError> {
        self.read_now()
    }

    fn offer(
        &mut self,
        base: Option<&Current>,
        next: Projection,
    ) -> Result<(super::git::PushOutcome, Current), LedgerError> {
        let next = version(next);
        let trouble = self.trouble(Step::Push)?;
        let lands = !matches!(
            trouble,
            Some(
                Trouble::Unavailable
                    | Trouble::Denied
                    | Trouble::LostPush
                    | Trouble::FalseConflict
                    | Trouble::CrashBefore
            )
        );
        let won = lands && self.branch.swap(base.map(|base| base.commit), &next);
        let lost = PushOutcome::Ambiguous(Ambiguity::NoReport);
        let outcome = match trouble {
            None if won => PushOutcome::Acknowledged,
            None | Some(Trouble::FalseConflict) => PushOutcome::Conflict,
            Some(Trouble::Denied) => PushOutcome::Denied(down(Class::Denied)),
            Some(_) => lost,
        };
        Ok((outcome, next))
    }

    fn adopt(&mut self, _current: &Arc<Current>) {}

    fn means(&mut self) -> Means<'_> {
        let Self { repository, clock, entropy, retries, scanner, .. } = self;
        Means { repository, clock: *clock, entropy: *entropy, retries: *retries, scanner }
    }
}

impl Ledger for SimulatedLedger<'_> {
    fn read(&mut self) -> Result<Queue, LedgerError> {
        self.read_now()
    }

    fn read_present(&mut self) -> Result<Arc<Current>, LedgerError> {
        match self.read_now()? {
            Queue::Present(current) => Ok(current),
            Queue::Absent | Queue::EmptyRepository => Err(missing()),
        }
    }

    fn publish(
        &mut self,
        request: &FrozenRequest,
        proposal: Option<&Proposal<'_>>,
        decide: &mut Decide<'_>,
    ) -> Result<Publication, LedgerError> {
        publish(self, request, proposal, decide)
    }
}
