//! The first submission (publication.md 3): who may make a queue, what confirms that there is none, and the default
//! branch of a repository that has no branch yet.

use super::error::{Class, LedgerError};
use super::git::PushOutcome;
use super::names::Branch;
use super::publisher::{Publisher, Setup, missing, unconfirmed};
use super::push::Preparation;
use crate::engine::{Decision, Projection};
use crate::protocol::actor::Role;
use crate::protocol::commit::FrozenRequest;
use crate::protocol::json::Scanner;
use crate::protocol::policy::Policy;
use crate::protocol::request::RequestKind;
use crate::protocol::{At, Code, Fault};

/// Asks the service whether the repository, under its exact identity, has no branch at all. Git alone cannot tell that
/// from a server that hides its branches.
pub type ConfirmEmpty<'c> = dyn Fn() -> Result<bool, LedgerError> + 'c;

/// Judges a first submission that was validated in full: the state that it makes holds its Policy and its Work, and
/// nothing else. It is called again on every attempt that would make the queue, because what it verifies can change.
pub type Admit<'a> = dyn Fn(&Projection) -> Result<(), LedgerError> + 'a;

/// What a submission brings for the case that there is no queue yet. On an existing queue only the Policy is looked at
/// (publication.md 3.4).
#[derive(Clone, Copy)]
pub struct Proposal<'p> {
    /// The first Policy.
    pub policy: &'p Policy,
    /// Name of the repository's default branch, as the service tells it. With it, a repository without branches gets
    /// this one first; without it, such a repository on a server is refused.
    pub default_branch: Option<&'p str>,
    /// Verifies the worker routes of the submitted Work; none where whoever may write the directory is the authority.
    pub admit: Option<&'p Admit<'p>>,
}

impl<'p> Proposal<'p> {
    /// A Policy alone: no default branch is made, and nothing beyond the Policy's own rules is verified.
    #[must_use]
    pub fn plain(policy: &'p Policy) -> Self {
        Self { policy, default_branch: None, admit: None }
    }

    /// The caller's own judgement of a validated first submission.
    pub(super) fn judge(&self, next: &Projection) -> Result<(), LedgerError> {
        self.admit.map_or(Ok(()), |admit| admit(next))
    }
}

/// A first submission, if this request may make the queue (publication.md 3.2).
pub(super) fn bootstrap(
    scanner: &mut Scanner,
    request: &FrozenRequest,
    proposal: Option<&Proposal<'_>>,
    at: At,
) -> Result<Decision, LedgerError> {
    match (request.actor.role, request.kind) {
        (Role::Worker, _) => Err(Fault::new(Code::ClaimScopeInvalid, "a worker cannot make a queue").into()),
        (Role::Producer | Role::Dispatcher, RequestKind::Submit) => {
            let proposal = proposal.ok_or_else(|| {
                LedgerError::new(
                    Code::PolicyMissing,
                    Class::Absent,
                    "there is no queue yet, and the submission proposes no Policy",
                    "Submit with a Policy proposal.",
                )
            })?;
            Ok(Projection::bootstrap(scanner, request, &proposal.policy.source, at)?)
        }
        _ => Err(missing()),
    }
}

impl Publisher<'_> {
    /// Everything between a validated first submission and the branch that it makes: the default branch of an empty
    /// repository, then the caller's own judgement.
    pub(super) fn admit_first(&self, proposal: &Proposal<'_>, next: &Projection) -> Result<(), LedgerError> {
        match proposal.default_branch {
            Some(name) if (self.branchless || self.setup.transport.is_local()) && self.is_branchless(name)? => {
                self.prepare(name)?;
            }
            // The first branch of an empty repository becomes its default branch, and that is never the queue.
            None if self.branchless => return Err(unprepared()),
            _ => {}
        }
        proposal.judge(next)
    }

    /// True if the remote shows neither a default branch nor the one of this name, and the service confirms, anew, that
    /// it has none at all.
    fn is_branchless(&self, default_branch: &str) -> Result<bool, LedgerError> {
        let named = Branch::new(default_branch).ok().map(|branch| branch.reference());
        let mut names = vec!["HEAD"];
        names.extend(named.as_deref());
        let shown = self.setup.transport.advertise(self.store.path(), &names)?;
        Ok(shown.is_empty() && (self.setup.transport.is_local() || self.is_confirmed_empty()?))
    }

    /// The service's own word. A server that shows no branch and is not confirmed to be empty is unavailable.
    pub(super) fn is_confirmed_empty(&self) -> Result<bool, LedgerError> {
        match self.setup.confirm_empty {
            Some(confirm) if confirm()? => Ok(true),
            Some(_) => Err(unconfirmed()),
            None => Ok(false),
        }
    }

    /// Makes the default branch of an empty repository (publication.md 3.5). It holds neither Policy nor Work.
    fn prepare(&self, name: &str) -> Result<(), LedgerError> {
        let branch = default_branch(name, &self.setup.branch)?;
        let Setup { transport, author, clock, .. } = &self.setup;
        let report = Preparation::build(&self.store, *author, *clock)?.push(*transport, &self.store, &branch);
        if matches!(report, Ok(PushOutcome::Acknowledged)) {
            return Ok(());
        }
        // The answer may be lost, or somebody else was faster: only a look at the branch tells.
        let reference = branch.reference();
        let shown = self.setup.transport.advertise(self.store.path(), &[&reference]);
        match (shown, report) {
            (Ok(shown), _) if shown.get(&reference).is_some() => Ok(()),
            (_, Err(error) | Ok(PushOutcome::Denied(error))) => Err(error),
            (_, Ok(_)) => Err(LedgerError::new(
                Code::RepositoryUnavailable,
                Class::Unknown,
                "the repository's default branch could not be made, or cannot be read after that",
                "Repeat the same submission; neither a Policy nor Work was published.",
            )),
        }
    }
}

/// A first submission that may make no default branch, in a repository without one.
fn unprepared() -> LedgerError {
    LedgerError::new(
        Code::RepositoryUnavailable,
        Class::Invalid,
        "the repository has no branch yet, and its first one would become the default branch",
        "Push a first commit to the repository's default branch, then repeat the submission.",
    )
}

/// The default branch, which can be neither the queue branch nor stand in its way: Git allows no branch `a` beside a
/// branch `a/b`.
fn default_branch(name: &str, queue: &Branch) -> Result<Branch, LedgerError> {
    let refuse = |message: &'static str, action: &'static str| {
        Err(LedgerError::new(Code::BranchInvalid, Class::Invalid, message, action))
    };
    let Ok(branch) = Branch::new(name) else {
        return refuse(
            "the repository's default branch has a name that is not made here",
            "Push a first commit to the default branch, then repeat the submission.",
        );
    };
    let inside = |outer: &str, inner: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
    let (name, queue) = (branch.as_str(), queue.as_str());
    if name == queue || inside(name, queue) || inside(queue, name) {
        return refuse(
            "the queue branch would be the empty repository's default branch, or stand in its way",
            "Name another queue branch, or give the repository another default branch.",
        );
    }
    Ok(branch)
}
