//! Reading gates within a budget, each repository and each resource once, and proving that they are the ones that are
//! meant (lifecycle.md 7.3, 7.4).

use std::collections::{HashMap, HashSet};

use super::reading::{ReadStatus, Seen};
use super::scope::{Access, Scope, Scopes, same};
use crate::forge::{Client, ForgeError, Issue, Patience, Pull, PullMerge};
use crate::ports::Clock;
use crate::protocol::fault::ensure;
use crate::protocol::resource::{Condition, Resource, ResourceKind};
use crate::protocol::{At, Decimal, Fault, Generation, Identity, Repository, RepositoryName};

/// How much one refresh may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    gates: usize,
    reads: usize,
}

impl Budget {
    /// Most distinct gates of any budget.
    pub const MAX_GATES: usize = 256;
    /// Most reads of any budget.
    pub const MAX_READS: usize = 512;

    /// A budget of its own.
    ///
    /// # Errors
    /// `external_resolver_budget_exceeded` above 256 gates or 512 reads.
    pub fn new(gates: usize, reads: usize) -> Result<Self, Fault> {
        ensure!(
            gates <= Self::MAX_GATES && reads <= Self::MAX_READS,
            ExternalResolverBudgetExceeded,
            "a refresh has at most 256 gates and 512 reads"
        );
        Ok(Self { gates, reads })
    }
}

impl Default for Budget {
    /// 128 gates, 256 reads.
    fn default() -> Self {
        Self { gates: 128, reads: 256 }
    }
}

/// A resource as somebody names it. Ids that are not given are those that the host shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Issue or pull request.
    pub kind: ResourceKind,
    /// The host.
    pub host: String,
    /// `owner/name`, in any case.
    pub repository: String,
    /// Its number.
    pub number: Decimal,
    /// The repository's numeric id, where it is known.
    pub repository_id: Option<Decimal>,
    /// The resource's numeric id, where it is known.
    pub resource_id: Option<Decimal>,
}

impl From<&Resource> for Target {
    fn from(resource: &Resource) -> Self {
        Self {
            kind: resource.kind,
            host: resource.host.as_str().to_owned(),
            repository: resource.repository.as_str().to_owned(),
            number: resource.number.clone(),
            repository_id: Some(resource.repository_id.clone()),
            resource_id: Some(resource.resource_id.clone()),
        }
    }
}

/// Reads gates through the clients of scopes.
#[derive(Clone, Copy)]
pub struct Resolver<'a> {
    scopes: &'a Scopes,
    access: &'a dyn Access,
    clock: &'a dyn Clock,
    budget: Budget,
}

impl<'a> Resolver<'a> {
    /// A resolver with the default budget.
    #[must_use]
    pub fn new(scopes: &'a Scopes, access: &'a dyn Access, clock: &'a dyn Clock) -> Self {
        Self { scopes, access, clock, budget: Budget::default() }
    }

    /// The same resolver with another budget.
    #[must_use]
    pub fn with_budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// The scopes.
    #[must_use]
    pub fn scopes(&self) -> &'a Scopes {
        self.scopes
    }

    /// Its clock.
    pub(super) fn clock(&self) -> &'a dyn Clock {
        self.clock
    }

    /// Looks at gates under the queue's current credential generation. Returns what was seen of each, in order, and when
    /// its read began: what was seen held at that time or after it.
    ///
    /// # Errors
    /// `external_resolver_budget_exceeded` for more distinct gates than the budget has. Failed reads are no errors.
    pub(super) fn look(
        &self,
        gates: &[(Target, Condition)],
        generation: &Generation,
    ) -> Result<Vec<(Seen, At)>, Fault> {
        let distinct: HashSet<_> = gates.iter().collect();
        self.afford(distinct.len())?;
        let mut session = Session::new(*self, generation);
        Ok(gates.iter().map(|(target, condition)| session.look(target, *condition)).collect())
    }

    /// Proves which resources targets are, under the queue's current credential generation, in order.
    ///
    /// # Errors
    /// `external_resolver_budget_exceeded` for more distinct resources than the budget has gates.
    pub(super) fn identify(
        &self,
        targets: &[Target],
        generation: &Generation,
    ) -> Result<Vec<Result<Resource, ReadStatus>>, Fault> {
        let distinct: HashSet<_> = targets.iter().collect();
        self.afford(distinct.len())?;
        let mut session = Session::new(*self, generation);
        Ok(targets.iter().map(|target| session.identify(target)).collect())
    }

    fn afford(&self, gates: usize) -> Result<(), Fault> {
        ensure!(
            gates <= self.budget.gates,
            ExternalResolverBudgetExceeded,
            "more Issues and pull requests are asked for than one refresh reads"
        );
        Ok(())
    }
}

/// A repository that was found and may be read.
#[derive(Clone)]
struct Found {
    id: Decimal,
    name: RepositoryName,
}

/// A resource as it was answered, with its identity proven against itself.
#[derive(Clone)]
enum Facts {
    Issue(Issue),
    Pull(Box<Pull>),
}

impl Facts {
    fn id(&self) -> &Decimal {
        match self {
            Self::Issue(issue) => &issue.id,
            Self::Pull(pull) => &pull.id,
        }
    }

    fn number(&self) -> &Decimal {
        match self {
            Self::Issue(issue) => &issue.number,
            Self::Pull(pull) => &pull.number,
        }
    }
}

/// When a resource was read, and what came of it.
type Read = (At, Result<Facts, ReadStatus>);

/// One refresh: what it has read already, so that nothing is read twice.
struct Session<'a> {
    resolver: Resolver<'a>,
    generation: &'a Generation,
    reads: usize,
    /// By scope, as lower-case name.
    repositories: HashMap<String, Result<Found, ReadStatus>>,
    /// By scope, kind and number.
    resources: HashMap<(String, ResourceKind, Decimal), Read>,
    /// By scope and number.
    merges: HashMap<(String, Decimal), Result<PullMerge, ReadStatus>>,
}

impl<'a> Session<'a> {
    fn new(resolver: Resolver<'a>, generation: &'a Generation) -> Self {
        Self {
            resolver,
            generation,
            reads: 0,
            repositories: HashMap::new(),
            resources: HashMap::new(),
            merges: HashMap::new(),
        }
    }

    /// The client of a target's scope, if it may be read at all. Nothing is sent before this holds.
    fn admit(&self, target: &Target) -> Result<(String, &'a Scope, Client<'a>), ReadStatus> {
        let scopes = self.resolver.scopes;
        let scope = scopes.find(&target.host, &target.repository).ok_or(ReadStatus::NotAllowlisted)?;
        if scope.access_generation != *self.generation {
            return Err(ReadStatus::AccessGenerationMismatch);
        }
        let client = self.resolver.access.client(scope).ok_or(ReadStatus::CredentialsMissing)?;
        Ok((target.repository.to_ascii_lowercase(), scope, client.with_patience(Patience::Once)))
    }

    /// One call, within the budget.
    fn call<T>(&mut self, call: impl FnOnce() -> Result<T, ForgeError>) -> Result<T, ReadStatus> {
        if self.reads >= self.resolver.budget.reads {
            return Err(ReadStatus::ReadBudgetExhausted);
        }
        self.reads += 1;
        call().map_err(|error| ReadStatus::of(&error))
    }

    fn repository(&mut self, key: &str, scope: &Scope, client: Client<'_>) -> Result<Found, ReadStatus> {
        if let Some(known) = self.repositories.get(key) {
            return known.clone();
        }
        let found = self.call(|| client.repository(&scope.repository)).and_then(|answer| {
            let landed = self.resolver.scopes.find(&scope.host, &answer.full_name);
            if landed.is_none_or(|landed| landed.access_generation != scope.access_generation) {
                return Err(ReadStatus::RedirectNotAllowlisted);
            }
            let name = RepositoryName::new(&answer.full_name).map_err(|_| ReadStatus::Unavailable)?;
            Ok(Found { id: answer.id, name })
        });
        self.repositories.insert(key.to_owned(), found.clone());
        found
    }

    fn resource(&mut self, key: &str, target: &Target, found: &Found, client: Client<'_>) -> Read {
        let entry = (key.to_owned(), target.kind, target.number.clone());
        if let Some(known) = self.resources.get(&entry) {
            return known.clone();
        }
        let at = self.resolver.clock.now();
        let moved = |error: ForgeError| match error.failure() {
            // The name is the current one, so a redirect is a transfer: what is there now is another resource.
            crate::forge::Failure::Moved => ReadStatus::IdentityMismatch,
            _ => ReadStatus::of(&error),
        };
        let facts = self.call(|| {
            Ok(match target.kind {
                ResourceKind::Issue => client.issue(&found.name, &target.number).map(Facts::Issue),
                ResourceKind::PullRequest => {
                    client.pull(&found.name, &target.number).map(|pull| Facts::Pull(Box::new(pull)))
                }
            })
        });
        let facts = facts.and_then(|answer| answer.map_err(moved));
        self.resources.insert(entry, (at, facts.clone()));
        (at, facts)
    }

    /// The resource, proven to be the one that the target names.
    fn facts(&mut self, target: &Target) -> Result<(At, Found, Facts), ReadStatus> {
        let (key, scope, client) = self.admit(target)?;
        let found = self.repository(&key, scope, client)?;
        if target.repository_id.as_ref().is_some_and(|id| *id != found.id) {
            return Err(ReadStatus::IdentityMismatch);
        }
        let (at, facts) = self.resource(&key, target, &found, client);
        let facts = facts?;
        let other = target.resource_id.as_ref().is_some_and(|id| id != facts.id());
        if other || *facts.number() != target.number {
            return Err(ReadStatus::IdentityMismatch);
        }
        let right = match &facts {
            Facts::Issue(issue) => !issue.is_pull,
            Facts::Pull(pull) => pull.base.repo.id == found.id,
        };
        if right { Ok((at, found, facts)) } else { Err(ReadStatus::ResourceTypeMismatch) }
    }

    fn identify(&mut self, target: &Target) -> Result<Resource, ReadStatus> {
        let (_, found, facts) = self.facts(target)?;
        let resource = || -> Result<Resource, Fault> {
            Ok(Resource {
                kind: target.kind,
                host: Identity::new(target.host.as_str())?,
                repository: Repository::new(found.name.as_str())?,
                repository_id: found.id.clone(),
                resource_id: facts.id().clone(),
                number: facts.number().clone(),
            })
        };
        resource().map_err(|_| ReadStatus::Unavailable)
    }

    fn look(&mut self, target: &Target, condition: Condition) -> (Seen, At) {
        let begun = self.resolver.clock.now();
        match self.facts(target) {
            Err(status) => (Seen::failed(status), begun),
            Ok((at, _, Facts::Issue(issue))) => (Seen::issue(&issue, condition), at),
            Ok((at, found, Facts::Pull(pull))) => {
                let merge = (pull.merged == Some(true)).then(|| self.merge(target, &found));
                match merge {
                    // Two answers about two pull requests are no evidence about either.
                    Some(Ok(PullMerge { id: Some(id), .. })) if id != pull.id => {
                        (Seen::failed(ReadStatus::IdentityMismatch), at)
                    }
                    merge => (Seen::pull(&pull, merge.as_ref()), at),
                }
            }
        }
    }

    fn merge(&mut self, target: &Target, found: &Found) -> Result<PullMerge, ReadStatus> {
        let (key, _, client) = self.admit(target)?;
        let entry = (key, target.number.clone());
        if let Some(known) = self.merges.get(&entry) {
            return known.clone();
        }
        let merge = self.call(|| client.pull_merge(&found.name, &target.number));
        self.merges.insert(entry, merge.clone());
        merge
    }
}

/// True if a target that somebody names is this stored resource: by its ids where both are given, by its name and number
/// otherwise.
pub(super) fn names(target: &Target, stored: &Resource) -> bool {
    let given = |id: &Option<Decimal>, stored: &Decimal| id.as_ref().is_none_or(|id| id == stored);
    let by_id = target.repository_id.is_some() && target.resource_id.is_some();
    let by_name = same(&target.repository, stored.repository.as_str()) && target.number == stored.number;
    target.kind == stored.kind
        && target.host == stored.host.as_str()
        && given(&target.repository_id, &stored.repository_id)
        && given(&target.resource_id, &stored.resource_id)
        && (by_id || by_name)
}
