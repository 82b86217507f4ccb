//! Reading the Issues and pull requests that Work names or waits for (jobs.md 8, lifecycle.md 7.1): the queue's own
//! repository with the job's credential, every other one with the read credential that the environment gives for it.

use crate::engine::Projection;
use crate::forge::{Client, Forge, Patience};
use crate::launch::observe::{Admission, Clients, ReadCredential, Resolver, Scopes, read_credentials, resolve_nodes};
use crate::ports::Clock;
use crate::protocol::json::Value;
use crate::protocol::{Fault, Generation, RepositoryName, Token};

use super::error::JobError;
use super::world::World;

/// Makes ways to the host, each with one credential.
pub trait Connect {
    /// A way that carries this token and nothing else.
    ///
    /// # Errors
    /// `settings_invalid` for surroundings in which none can be made.
    fn connect<'s>(&'s self, token: &Token) -> Result<Box<dyn Forge + 's>, JobError>;
}

impl Connect for super::world::Process {
    fn connect<'s>(&'s self, token: &Token) -> Result<Box<dyn Forge + 's>, JobError> {
        super::environment::forge(self.host().clone(), token)
    }
}

/// The repositories that may be read, and the way to each.
pub struct Readers<'a> {
    own: Client<'a>,
    clock: &'a dyn Clock,
    repository: &'a RepositoryName,
    host: &'a str,
    credentials: Vec<ReadCredential>,
    foreign: Vec<(RepositoryName, Box<dyn Forge + 'a>)>,
}

impl<'a> Readers<'a> {
    /// The job's repository and those that the environment has a read credential for.
    ///
    /// # Errors
    /// As [`read_credentials`], and as a connection.
    pub fn of<'w: 'a>(world: &World<'w>, connect: &'a dyn Connect) -> Result<Self, JobError> {
        let credentials = read_credentials(world.variables.iter())?;
        let mut foreign = Vec::new();
        for credential in &credentials {
            let own = credential.repository.as_str().eq_ignore_ascii_case(world.repository.as_str());
            if let (Some(token), false) = (&credential.token, own) {
                foreign.push((credential.repository.clone(), connect.connect(token)?));
            }
        }
        let (own, clock, repository, host) = (world.client, world.clock, world.repository, world.host);
        Ok(Self { own, clock, repository, host, credentials, foreign })
    }

    /// Calls with a resolver for this credential generation.
    ///
    /// # Errors
    /// As [`Scopes::of_queue`] and [`Clients::new`], or as what is asked.
    pub fn resolve<T>(
        &self,
        generation: &Generation,
        ask: impl FnOnce(&Resolver<'_>) -> Result<T, JobError>,
    ) -> Result<T, JobError> {
        let scopes = Scopes::of_queue(self.own.host(), self.repository, &self.credentials, generation)?;
        let others = self
            .foreign
            .iter()
            .map(|(name, forge)| (name.clone(), Client::new(&**forge, self.clock).with_patience(Patience::Patient)));
        let clients = std::iter::once((self.repository.clone(), self.own)).chain(others).collect();
        let clients = Clients::new(&scopes, clients)?;
        ask(&Resolver::new(&scopes, &clients, self.clock))
    }

    /// The nodes with every Issue and pull request that they name proven and filled in.
    ///
    /// # Errors
    /// As [`resolve_nodes`].
    pub fn nodes(&self, nodes: &[Value], projection: Option<&Projection>) -> Result<Vec<Value>, JobError> {
        let initial = Projection::empty();
        self.resolve(projection.unwrap_or(&initial).generation(), |resolver| {
            Ok(resolve_nodes(nodes, &Admission { projection, resolver: Some(resolver), host: self.host })?)
        })
    }
}

/// The same question without any way to read: nodes that are admitted already are given back as they were stored.
///
/// # Errors
/// As [`resolve_nodes`].
pub fn stored_nodes(nodes: &[Value], projection: &Projection, host: &str) -> Result<Vec<Value>, Fault> {
    resolve_nodes(nodes, &Admission { projection: Some(projection), resolver: None, host })
}
