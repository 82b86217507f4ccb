//! Whose Issues and pull requests may be read, and with which credential (lifecycle.md 7.1, 8.1; jobs.md 8).

use crate::forge::{Client, Host};
use crate::protocol::fault::ensure;
use crate::protocol::json::{Value, parse};
use crate::protocol::{Code, Fault, Generation, RepositoryName, Token};

/// The variable that maps foreign repositories to the variables of their tokens.
pub const CREDENTIALS_VARIABLE: &str = "GH_AW_WORK_QUEUE_DEPENDENCY_READ_CREDENTIALS";
/// What the variable of a token begins with; a number without leading zeros follows.
pub const TOKEN_VARIABLE: &str = "GH_AW_WORK_QUEUE_DEPENDENCY_READ_TOKEN_";
/// Most foreign repositories.
const MAX_CREDENTIALS: usize = 64;

/// One repository that may be read. It permits no write and no dispatch there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The host, as [`Host::name`] has it.
    pub host: String,
    /// The repository; names are compared without regard to ASCII case.
    pub repository: RepositoryName,
    /// The credential generation that its credential belongs to.
    pub access_generation: Generation,
}

/// Every repository that may be read, each once, all on the server's host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scopes {
    host: String,
    list: Vec<Scope>,
}

impl Scopes {
    /// Checks a list of scopes.
    ///
    /// # Errors
    /// `work_queue_dependency_host_invalid` for another host than the server's,
    /// `work_queue_dependency_credentials_conflict` for a repository that is there twice.
    pub fn new(host: &Host, list: Vec<Scope>) -> Result<Self, Fault> {
        for (index, scope) in list.iter().enumerate() {
            ensure!(
                scope.host == host.name(),
                WorkQueueDependencyHostInvalid,
                "a read scope is of another host than the server's"
            );
            let twice =
                list[..index].iter().any(|earlier| same(earlier.repository.as_str(), scope.repository.as_str()));
            ensure!(!twice, WorkQueueDependencyCredentialsConflict, "a repository has two read scopes");
        }
        Ok(Self { host: host.name().to_owned(), list })
    }

    /// The queue's own repository and the foreign ones that have a credential, all of the generation that was current
    /// when the credentials were read. A credential that names the queue's repository is for that repository.
    ///
    /// # Errors
    /// As [`Scopes::new`].
    pub fn of_queue(
        host: &Host,
        queue: &RepositoryName,
        foreign: &[ReadCredential],
        generation: &Generation,
    ) -> Result<Self, Fault> {
        let scope = |repository: &RepositoryName| Scope {
            host: host.name().to_owned(),
            repository: repository.clone(),
            access_generation: generation.clone(),
        };
        let others = foreign.iter().filter(|other| !same(other.repository.as_str(), queue.as_str()));
        let list = std::iter::once(scope(queue)).chain(others.map(|other| scope(&other.repository)));
        Self::new(host, list.collect())
    }

    /// The one host.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The scopes.
    #[must_use]
    pub fn list(&self) -> &[Scope] {
        &self.list
    }

    /// The scope of a repository, by host and name.
    #[must_use]
    pub fn find(&self, host: &str, repository: &str) -> Option<&Scope> {
        self.list.iter().find(|scope| scope.host == host && same(scope.repository.as_str(), repository))
    }
}

/// Names of repositories are compared without regard to ASCII case.
pub(super) fn same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// Gives the client of a scope. A scope gets its own client or none, never that of another repository.
pub trait Access {
    /// The client that holds the scope's credential; none if there is none.
    fn client(&self, scope: &Scope) -> Option<Client<'_>>;
}

/// One client for each scope that has a credential.
pub struct Clients<'a> {
    entries: Vec<(RepositoryName, Client<'a>)>,
}

impl<'a> Clients<'a> {
    /// Assigns clients to the repositories of scopes.
    ///
    /// # Errors
    /// `work_queue_dependency_client_scope_invalid` for a client of another host, or for a repository that is no scope
    /// or has a client already.
    pub fn new(scopes: &Scopes, entries: Vec<(RepositoryName, Client<'a>)>) -> Result<Self, Fault> {
        for (index, (repository, client)) in entries.iter().enumerate() {
            let twice = entries[..index].iter().any(|(earlier, _)| same(earlier.as_str(), repository.as_str()));
            ensure!(
                !twice && scopes.find(client.host().name(), repository.as_str()).is_some(),
                WorkQueueDependencyClientScopeInvalid,
                "a read client is not for one of the read scopes"
            );
        }
        Ok(Self { entries })
    }
}

impl Access for Clients<'_> {
    fn client(&self, scope: &Scope) -> Option<Client<'_>> {
        let own =
            |(repository, _): &&(RepositoryName, Client<'_>)| same(repository.as_str(), scope.repository.as_str());
        self.entries.iter().find(own).map(|(_, client)| *client).filter(|client| client.host().name() == scope.host)
    }
}

/// A foreign repository and the token that may read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadCredential {
    /// The repository.
    pub repository: RepositoryName,
    /// The token; none where its variable is absent or empty, as that of a secret which does not exist.
    pub token: Option<Token>,
}

/// The foreign read credentials of an environment, given as pairs of name and value. Other pairs are ignored. The map is
/// a JSON object of at most 64 members, `owner/repo` to the name of the token's variable.
///
/// # Errors
/// `work_queue_dependency_credentials_invalid` for a map, a variable's name or a token that is malformed,
/// `work_queue_dependency_repository_invalid` for a key that names no repository,
/// `work_queue_dependency_credentials_conflict` for keys that differ in case alone.
pub fn read_credentials<'e>(pairs: impl IntoIterator<Item = (&'e str, &'e str)>) -> Result<Vec<ReadCredential>, Fault> {
    let (mut map, mut tokens) = (None, Vec::new());
    for (name, value) in pairs {
        if name == CREDENTIALS_VARIABLE {
            map = Some(value).filter(|value| !value.is_empty());
        } else if name.starts_with(TOKEN_VARIABLE) && !value.is_empty() {
            tokens.push((name, value));
        }
    }
    let Some(map) = map else { return Ok(Vec::new()) };
    let invalid = |message: &'static str| Fault::new(Code::WorkQueueDependencyCredentialsInvalid, message);
    // The map's text is not quoted in a refusal.
    let parsed = parse(map).map_err(|_| invalid("the map of dependency read credentials is not JSON"))?;
    let Value::Object(members) = parsed else {
        return Err(invalid("the map of dependency read credentials is not an object"));
    };
    ensure!(
        members.len() <= MAX_CREDENTIALS,
        WorkQueueDependencyCredentialsInvalid,
        "there are more than 64 dependency read credentials"
    );
    let mut credentials: Vec<ReadCredential> = Vec::with_capacity(members.len());
    for (name, variable) in &members {
        let repository = RepositoryName::new(name).map_err(|_| {
            let message = "a dependency read credential is for no owner/name";
            Fault::new(Code::WorkQueueDependencyRepositoryInvalid, message)
        })?;
        let twice = credentials.iter().any(|earlier| same(earlier.repository.as_str(), name));
        ensure!(!twice, WorkQueueDependencyCredentialsConflict, "a repository has two dependency read credentials");
        let variable = variable.as_str().filter(|variable| names_token(variable));
        let variable = variable.ok_or_else(|| invalid("a dependency read credential names no token variable"))?;
        let token = tokens.iter().find(|(name, _)| *name == variable).map(|(_, value)| Token::new(*value));
        let token = token.transpose().map_err(|_| invalid("a dependency read token is not one line of characters"))?;
        credentials.push(ReadCredential { repository, token });
    }
    Ok(credentials)
}

/// True for the variable of a token: its number is decimal without leading zeros.
fn names_token(variable: &str) -> bool {
    let number = variable.strip_prefix(TOKEN_VARIABLE).unwrap_or("");
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    digits && (number == "0" || !number.starts_with('0'))
}
