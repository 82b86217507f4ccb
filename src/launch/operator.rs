//! A person at the command line (operator-cli.md 1, publication.md 1.8). Who that is and what it may do, the host says;
//! flags, Git's author names and a runner's variables shape nothing here.

use super::error::LaunchError;
use crate::forge::Client;
use crate::protocol::actor::{Actor, Role};
use crate::protocol::{Code, Decimal, Fault, Repository, RepositoryName};

/// An operator as the host confirmed it. Only [`authenticate`] makes one.
#[derive(Clone, Debug)]
pub struct Operator {
    actor: Actor,
    repository: RepositoryName,
    repository_id: Decimal,
    default_branch: Option<String>,
}

impl Operator {
    /// Who publishes: role, principal and repository, and no workflow or run.
    #[must_use]
    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    /// The repository in the host's spelling.
    #[must_use]
    pub fn repository(&self) -> &RepositoryName {
        &self.repository
    }

    /// Its numeric id.
    #[must_use]
    pub fn repository_id(&self) -> &Decimal {
        &self.repository_id
    }

    /// Name of its default branch.
    #[must_use]
    pub fn default_branch(&self) -> Option<&str> {
        self.default_branch.as_deref()
    }
}

/// Authenticates the account behind the credential for a role in a repository.
///
/// # Errors
/// `actor_unauthorized` for a role that is no operator's, a repository of another name, or an account that may not
/// push (or, as an administrator, not administer); or as the host fails to answer.
pub fn authenticate(client: Client<'_>, repository: &RepositoryName, role: Role) -> Result<Operator, LaunchError> {
    let operator = matches!(role, Role::Administrator | Role::Producer | Role::Reconciler);
    let refuse = |message: &'static str| Err(Fault::new(Code::ActorUnauthorized, message).into());
    if !operator {
        return refuse("an operator acts as administrator, producer or reconciler");
    }
    let account = client.user()?;
    let found = client.repository(repository)?;
    let name = RepositoryName::new(&found.full_name)
        .ok()
        .filter(|name| name.as_str().eq_ignore_ascii_case(repository.as_str()))
        .ok_or_else(|| Fault::new(Code::ActorUnauthorized, "the host answers with another repository"))?;
    if !found.permissions.push {
        return refuse("the account may not push to the repository");
    }
    if role == Role::Administrator && !found.permissions.admin {
        return refuse("the account may not administer the repository");
    }
    let actor = Actor::new(role, account.id, Repository::new(name.as_str())?)?;
    Ok(Operator { actor, repository: name, repository_id: found.id, default_branch: found.default_branch })
}
