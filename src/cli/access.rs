//! The way to the queue branch, and who acts there: a local repository where whoever may write the directory is the
//! authority, or GitHub (operator-cli.md 1, publication.md 1.8).

use std::rc::Rc;

use super::hub::Hub;
use super::{Failure, Global};
use crate::forge::Host;
use crate::jobs::environment;
use crate::launch::confirm::confirm_empty;
use crate::ledger::commit_object::Author;
use crate::ledger::{Bounds, Branch, ConfirmEmpty, Environment, Git, GitTransport, Publisher, Remote, Retries, Setup};
use crate::ports::{SystemClock, SystemEntropy};
use crate::protocol::actor::{Actor, Role};
use crate::protocol::{Decimal, Repository, RepositoryName};

/// Repository of a local queue that names none (design.md 7).
const LOCAL_REPOSITORY: &str = "local/queue";
/// Account that acts on a local queue unless one is named.
const LOCAL_PRINCIPAL: &str = "1";

/// Where the queue is.
enum Place {
    /// A directory on this machine, and the account that is taken to act.
    Local { transport: GitTransport, principal: Decimal },
    /// A repository of a GitHub, the way to its branch, and its word on having none.
    Hosted { hub: Rc<Hub>, transport: GitTransport, confirm: Box<ConfirmEmpty<'static>> },
}

/// A queue branch that can be read and written.
pub(crate) struct Access {
    place: Place,
    branch: Branch,
    name: RepositoryName,
    host: Host,
    /// The repository that actors belong to.
    pub(crate) repository: Repository,
}

impl Access {
    /// Checks the flags and finds git. On GitHub the repository's identity is confirmed; the branch is not read yet.
    pub(crate) fn open(global: &Global) -> Result<Self, Failure> {
        let branch = Branch::new(&global.branch)?;
        let host = host()?;
        let (place, name) = match &global.remote {
            Some(remote) => {
                let name = RepositoryName::new(global.repo.as_deref().unwrap_or(LOCAL_REPOSITORY))?;
                let principal = Decimal::new(global.principal.as_deref().unwrap_or(LOCAL_PRINCIPAL))
                    .map_err(|fault| Failure::flag(&fault, "--principal"))?;
                let remote = Remote::parse(remote.as_os_str())?;
                if !remote.is_local() {
                    return Err(Failure::usage(
                        "--remote takes a repository on this machine, where whoever may write the directory is the authority",
                        "Name a local bare repository, or name a repository on GitHub with --repo OWNER/NAME alone.",
                    ));
                }
                (Place::Local { transport: git()?.transport(remote, None, Bounds::default()), principal }, name)
            }
            None => {
                let hub = Rc::new(Hub::open(global, host.clone())?);
                let (name, transport, asked) = (hub.name.clone(), hub.transport(&git()?)?, Rc::clone(&hub));
                let confirm = Box::new(move || confirm_empty(asked.client(), &asked.name));
                (Place::Hosted { hub, transport, confirm }, name)
            }
        };
        let repository = Repository::new(name.as_str()).map_err(Failure::from)?;
        Ok(Self { place, branch, name, host, repository })
    }

    /// The actor that this command's requests carry: on GitHub the authenticated account, if it may act in this role.
    pub(crate) fn actor(&self, role: Role) -> Result<Actor, Failure> {
        match &self.place {
            Place::Local { principal, .. } => Ok(Actor::new(role, principal.clone(), self.repository.clone())?),
            Place::Hosted { hub, .. } => hub.actor(role),
        }
    }

    /// A publisher with a store of its own.
    pub(crate) fn publisher(&self) -> Result<Publisher<'_>, Failure> {
        let (transport, confirm_empty): (_, Option<&ConfirmEmpty<'_>>) = match &self.place {
            Place::Local { transport, .. } => (transport, None),
            Place::Hosted { transport, confirm, .. } => (transport, Some(&**confirm)),
        };
        Ok(Publisher::new(Setup {
            transport,
            branch: self.branch.clone(),
            repository: self.name.clone(),
            host: self.host.name().to_owned(),
            author: Author::Operator,
            clock: &SystemClock,
            entropy: &SystemEntropy,
            retries: Retries::default(),
            confirm_empty,
        })?)
    }

    /// The repository's name, in the host's spelling.
    pub(crate) fn name(&self) -> &RepositoryName {
        &self.name
    }

    /// GitHub, for a command that has nothing to ask of a local queue.
    pub(crate) fn github(&self) -> Result<&Hub, Failure> {
        self.hub().ok_or_else(|| {
            Failure::usage(
                "this command looks at runs of workflows, and a local repository has none",
                "Name a repository on GitHub with --repo OWNER/NAME, without --remote.",
            )
        })
    }

    /// The host of external resources.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// GitHub, unless the queue is a local one.
    pub(crate) fn hub(&self) -> Option<&Hub> {
        match &self.place {
            Place::Local { .. } => None,
            Place::Hosted { hub, .. } => Some(hub),
        }
    }
}

fn git() -> Result<Git, Failure> {
    Ok(Git::find(Environment::of_process())?)
}

/// The host that the environment names, github.com by default (decision 9).
pub(crate) fn host() -> Result<Host, Failure> {
    Ok(environment::host()?)
}
