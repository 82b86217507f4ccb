//! GitHub as the commands reach it: one host, one token, one repository whose identity is confirmed before anything
//! else is asked (publication.md 1.8, 9.1).

use std::sync::Arc;

use super::{Failure, Global};
use crate::forge::{self, Client, Forge, ForgeError, Host, Patience};
use crate::jobs::environment::{self, variable};
use crate::launch::error::LaunchError;
use crate::launch::operator::authenticate;
use crate::ledger::{Bounds, Git, GitTransport, Remote};
use crate::ports::SystemClock;
use crate::protocol::actor::{Actor, Role};
use crate::protocol::{Code, RepositoryName, Token, TokenProvider};

/// Variables that may name the repository, for a command line that does not.
const REPOSITORIES: [&str; 2] = ["GH_REPO", "GITHUB_REPOSITORY"];

/// A repository of a GitHub, with the credential of the operator.
pub(crate) struct Hub {
    forge: Box<dyn Forge>,
    token: Token,
    /// The repository as the host described it.
    pub(crate) record: forge::Repository,
    /// Its name in the host's spelling.
    pub(crate) name: RepositoryName,
}

/// Host, token and the repository that was asked for, before anything was asked of the host.
pub(crate) struct Caller {
    forge: Box<dyn Forge>,
    token: Token,
    asked: RepositoryName,
}

impl Caller {
    /// Takes token and repository from flags and environment.
    pub(crate) fn of_environment(global: &Global, host: Host) -> Result<Self, Failure> {
        if global.principal.is_some() {
            return Err(Failure::usage(
                "--principal is for a local repository; on GitHub the account behind the token acts",
                "Leave out --principal, or name a local bare repository with --remote PATH.",
            ));
        }
        let asked = repository(global)?;
        let token = environment::token()?;
        Ok(Self { forge: another(host, &token)?, token, asked })
    }

    /// Typed calls, for what is no repository's.
    pub(crate) fn client(&self) -> Client<'_> {
        client(&*self.forge)
    }
}

impl Hub {
    /// Takes token and repository from flags and environment, and confirms the repository's identity.
    pub(crate) fn open(global: &Global, host: Host) -> Result<Self, Failure> {
        Self::identify(Caller::of_environment(global, host)?)
    }

    /// Confirms the repository's identity: the host must answer with the one that was named.
    pub(crate) fn identify(caller: Caller) -> Result<Self, Failure> {
        let Caller { forge, token, asked } = caller;
        let record = client(&*forge).repository(&asked).map_err(unidentified)?;
        let name = RepositoryName::new(&record.full_name).ok().filter(|name| same(name, &asked)).ok_or_else(|| {
            Failure::new(
                Code::RepositoryUnavailable,
                "the host answers with another repository than the one that was named",
                "The repository was probably renamed or transferred: name it as it is called now.",
            )
        })?;
        Ok(Self { forge, token, record, name })
    }

    /// Typed calls with the operator's credential; reads are repeated after transient failures.
    pub(crate) fn client(&self) -> Client<'_> {
        client(&*self.forge)
    }

    /// The way that git takes to the repository, with the same token.
    pub(crate) fn transport(&self, git: &Git) -> Result<GitTransport, Failure> {
        let remote = Remote::server(self.client().host().server(), &self.name)?;
        let token = self.token.clone();
        let provider: TokenProvider = Arc::new(move || Ok(token.clone()));
        Ok(git.transport(remote, Some(provider), Bounds::default()))
    }

    /// The authenticated account as an actor, if it has the permission that the role asks for (operator-cli.md 1).
    pub(crate) fn actor(&self, role: Role) -> Result<Actor, Failure> {
        match authenticate(self.client(), &self.name, role) {
            Ok(operator) => Ok(operator.actor().clone()),
            Err(error) => {
                let next = match (error.code(), role) {
                    (Code::ActorUnauthorized, Role::Administrator) => {
                        "Ask for admin permission to the repository, or let an administrator run this; nothing was changed."
                    }
                    (Code::ActorUnauthorized, _) => "Ask for write permission to the repository; nothing was changed.",
                    (Code::ApiUnauthenticated | Code::ApiForbidden, _) => {
                        "Give the token of a person who may do this, then repeat the command; nothing was changed."
                    }
                    _ => error.action(),
                };
                Err(Failure::new(error.code(), error.message().into_owned(), next))
            }
        }
    }
}

fn client(forge: &dyn Forge) -> Client<'_> {
    Client::new(forge, &SystemClock).with_patience(Patience::Patient)
}

fn same(name: &RepositoryName, asked: &RepositoryName) -> bool {
    name.as_str().eq_ignore_ascii_case(asked.as_str())
}

/// The repository that the flag or the environment names.
fn repository(global: &Global) -> Result<RepositoryName, Failure> {
    if let Some(repo) = &global.repo {
        return Ok(RepositoryName::new(repo)?);
    }
    let (variable_name, value) = REPOSITORIES
        .iter()
        .find_map(|name| Some((*name, variable(name)?)))
        .ok_or_else(|| {
            Failure::usage(
                "no queue is named",
                "Name a repository on GitHub with --repo OWNER/NAME or a local bare repository with --remote PATH; commands \
                 that only read also take --ledger FILE.",
            )
        })?;
    RepositoryName::new(&value).map_err(|fault| {
        let message = format!("{variable_name}: {}", fault.message());
        Failure::new(fault.code(), message, "Set it to OWNER/NAME, or name the repository with --repo.")
    })
}

/// A repository that could not be looked up, whatever the reason: never an absent queue (publication.md 1.8).
fn unidentified(error: ForgeError) -> Failure {
    let message = format!("the repository could not be identified: {}", error.message());
    Failure { exit: error.code().exit(), ..Failure::new(Code::RepositoryUnavailable, message, error.action()) }
}

/// A failed service keeps its code, sentence, next action and exit status.
impl From<LaunchError> for Failure {
    fn from(error: LaunchError) -> Self {
        Self { exit: error.exit(), ..Self::new(error.code(), error.message().into_owned(), error.action()) }
    }
}

/// A call that failed keeps its code, sentence and next action.
impl From<ForgeError> for Failure {
    fn from(error: ForgeError) -> Self {
        Self::new(error.code(), error.message(), error.action())
    }
}

/// A way to the host with one credential.
pub(super) fn another(host: Host, token: &Token) -> Result<Box<dyn Forge>, Failure> {
    Ok(environment::forge(host, token)?)
}
