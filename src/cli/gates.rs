//! Reading the Issues and pull requests that Work names or waits for: the queue's own repository with the operator's
//! token, others with the read credential that the environment gives for each (lifecycle.md 7.1).

use super::Failure;
use super::access::Access;
use super::hub::{Hub, another};
use crate::engine::Projection;
use crate::forge::{Client, Forge, Patience};
use crate::launch::observe::{self, Admission, Clients, Resolver, Scopes, read_credentials, resolve_nodes};
use crate::ledger::LedgerError;
use crate::ports::SystemClock;
use crate::protocol::actor::Role;
use crate::protocol::json::Value;
use crate::protocol::operation::Observation;
use crate::protocol::request::DispatchParameters;
use crate::protocol::{Fault, Generation, RepositoryName};

/// The repositories that may be read, and the way to each.
pub(crate) struct Readers<'a> {
    hub: &'a Hub,
    credentials: Vec<observe::ReadCredential>,
    foreign: Vec<(RepositoryName, Box<dyn Forge>)>,
}

impl<'a> Readers<'a> {
    /// The operator's repository and those that the environment has a read credential for; none on a local queue.
    pub(crate) fn of(access: &'a Access) -> Result<Option<Self>, Failure> {
        let Some(hub) = access.hub() else { return Ok(None) };
        let variables: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let pairs = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let credentials = read_credentials(pairs)?;
        let mut foreign = Vec::new();
        for credential in &credentials {
            let own = credential.repository.as_str().eq_ignore_ascii_case(hub.name.as_str());
            if let (Some(token), false) = (&credential.token, own) {
                foreign.push((credential.repository.clone(), another(access.host().clone(), token)?));
            }
        }
        Ok(Some(Self { hub, credentials, foreign }))
    }

    /// Calls with a resolver for this credential generation.
    fn resolve<T>(
        &self,
        generation: &Generation,
        ask: impl FnOnce(&Resolver<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let own = self.hub.client();
        let scopes = Scopes::of_queue(own.host(), &self.hub.name, &self.credentials, generation)?;
        let others = self
            .foreign
            .iter()
            .map(|(name, forge)| (name.clone(), Client::new(&**forge, &SystemClock).with_patience(Patience::Patient)));
        let clients = Clients::new(&scopes, std::iter::once((self.hub.name.clone(), own)).chain(others).collect())?;
        ask(&Resolver::new(&scopes, &clients, &SystemClock))
    }

    /// The nodes with every Issue and pull request that they name proven and filled in.
    pub(crate) fn resolve_nodes(
        &self,
        nodes: &[Value],
        projection: Option<&Projection>,
        host: &str,
    ) -> Result<Vec<Value>, Fault> {
        let initial = Projection::empty();
        self.resolve(projection.unwrap_or(&initial).generation(), |resolver| {
            resolve_nodes(nodes, &Admission { projection, resolver: Some(resolver), host })
        })
    }

    /// What the gates that are due for this grant look like now.
    pub(crate) fn refresh(
        &self,
        projection: &Projection,
        asked: &DispatchParameters,
        role: Role,
    ) -> Result<Vec<Observation>, LedgerError> {
        let seen =
            self.resolve(projection.generation(), |resolver| observe::refresh(projection, resolver, asked, role))?;
        Ok(seen)
    }
}
