//! The first submission on GitHub (publication.md 3.4, 4.3; decision 43): which Policy it proposes, and what must be
//! verified before the queue branch is made.

use crate::engine::Projection;
use crate::forge::{Client, Failure};
use crate::ledger::LedgerError;
use crate::protocol::json::{Scanner, Value, parse};
use crate::protocol::policy::Policy;
use crate::protocol::{Code, Fault, RepositoryName, Revision, Text};

use super::error::LaunchError;
use super::route::{Route, default_branch, default_revision, resolve, routes_of_genesis, verify_routes};

/// What a first submission proposes, and the judgement of it. It is a caller's for one publication.
///
/// ```text
/// let first = FirstSubmission::resolved(client, &repository)?;
/// let admit = |next: &Projection| first.admit(next);
/// ledger.publish(&request, Some(&Proposal { policy: first.policy(), default_branch: None, admit: Some(&admit) }), …)
/// ```
pub struct FirstSubmission<'a> {
    client: Client<'a>,
    repository: &'a RepositoryName,
    policy: Policy,
    default_branch: String,
    /// The revision that AW routes were set to; none while the repository has no branch.
    revision: Option<Revision>,
}

impl<'a> FirstSubmission<'a> {
    /// The Policy of the repository's own files.
    ///
    /// # Errors
    /// As [`resolve`].
    pub fn resolved(client: Client<'a>, repository: &'a RepositoryName) -> Result<Self, LaunchError> {
        let found = resolve(client, repository)?;
        let (default_branch, revision) = (found.default.branch, Some(found.default.revision));
        Ok(Self { client, repository, policy: found.policy, default_branch, revision })
    }

    /// A Policy that the caller brings, instead of the repository's files. The workers of an AW Policy are taken from
    /// the verified default revision, whatever the proposal says about it; a historical Policy keeps its own routes.
    ///
    /// A repository without any branch has no such revision yet. Its proposal stays as it is, and
    /// [`FirstSubmission::admit`] holds it against the revision that stands by then.
    ///
    /// # Errors
    /// As [`default_revision`]; `policy_invalid` if the outcome is no Policy.
    pub fn proposed(
        client: Client<'a>,
        repository: &'a RepositoryName,
        proposal: &Policy,
    ) -> Result<Self, LaunchError> {
        match default_revision(client, repository) {
            Ok(default) => {
                let policy = if proposal.aw { at_revision(proposal, &default.revision)? } else { proposal.clone() };
                let (default_branch, revision) = (default.branch, Some(default.revision));
                Ok(Self { client, repository, policy, default_branch, revision })
            }
            Err(LaunchError::Forge(error))
                if matches!(error.failure(), Failure::Conflict | Failure::NotFound)
                    && client.is_empty(repository)? =>
            {
                let default_branch = default_branch(client, repository)?;
                Ok(Self { client, repository, policy: proposal.clone(), default_branch, revision: None })
            }
            Err(error) => Err(error),
        }
    }

    /// The first Policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Name of the repository's default branch.
    #[must_use]
    pub fn default_branch(&self) -> &str {
        &self.default_branch
    }

    /// Verifies what the submission relies on, before the queue branch is made: the routes of its Work under an AW
    /// Policy, every route of a historical one. `next` is the state that the submission makes.
    ///
    /// # Errors
    /// `policy_missing` for a route that cannot be used; whatever a lookup fails with.
    pub fn admit(&self, next: &Projection) -> Result<(), LedgerError> {
        Ok(self.verify(&routes_of_genesis(next)?)?)
    }

    fn verify(&self, routes: &[Route]) -> Result<(), LaunchError> {
        if self.revision.is_some() || !self.policy.aw {
            return verify_routes(self.client, self.repository, routes);
        }
        let default = default_revision(self.client, self.repository)?;
        let there = |route: &Route| Route { revision: default.revision.clone(), ..route.clone() };
        verify_routes(self.client, self.repository, &routes.iter().map(there).collect::<Vec<_>>())?;
        if routes.iter().all(|route| route.revision == default.revision) {
            return Ok(());
        }
        let message = "the worker was deployed while this submission was made; retry the same submission";
        Err(Fault::new(Code::PolicyMissing, message).into())
    }
}

/// The same AW Policy with every worker at one revision.
fn at_revision(policy: &Policy, revision: &Revision) -> Result<Policy, Fault> {
    let mut document = parse(policy.source.as_str())?;
    each(&mut document, "pools", &mut |pool| {
        each(pool, "profiles", &mut |profile| {
            if let Value::Object(members) = profile {
                for (_, value) in members.iter_mut().filter(|(name, _)| name == "ref") {
                    *value = Value::String(revision.as_str().to_owned());
                }
            }
        });
    });
    let text = Text::from(document.encode()?.as_str());
    // No member of a Policy names a resource, so no host is needed.
    let mut scanner = Scanner::new("");
    let document = scanner.read(&text)?;
    crate::protocol::Wire::read(document.root(), Code::PolicyInvalid)
}

/// Does something to every value of an object that is a member of another.
fn each(object: &mut Value, member: &str, act: &mut dyn FnMut(&mut Value)) {
    let Value::Object(members) = object else { return };
    for (_, value) in members.iter_mut().filter(|(name, _)| name == member) {
        if let Value::Object(inner) = value {
            inner.iter_mut().for_each(|(_, value)| act(value));
        }
    }
}
