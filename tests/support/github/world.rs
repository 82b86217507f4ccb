//! What the simulated GitHub knows. Plain data and lookups; `rest` and `graphql` answer from it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::faults::Faults;
use super::journal::Journal;
use super::repository::Repository;
use super::run::Record;

/// What kind of account it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    User,
    Bot,
    Organization,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::User => "User",
            Kind::Bot => "Bot",
            Kind::Organization => "Organization",
        }
    }
}

/// An account.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) id: u64,
    pub(crate) login: String,
    pub(crate) kind: Kind,
}

/// How much of an area a token may touch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    #[default]
    None,
    Read,
    Write,
}

/// A permission by area, as tokens carry them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    Metadata,
    Actions,
    Contents,
    Issues,
    PullRequests,
    Administration,
}

impl Area {
    /// The spelling in `x-accepted-github-permissions`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Area::Metadata => "metadata",
            Area::Actions => "actions",
            Area::Contents => "contents",
            Area::Issues => "issues",
            Area::PullRequests => "pull_requests",
            Area::Administration => "administration",
        }
    }
}

/// What a token may do in one repository. Metadata is readable wherever there is an entry at all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Access {
    pub(crate) actions: Level,
    pub(crate) contents: Level,
    pub(crate) issues: Level,
    pub(crate) pull_requests: Level,
    pub(crate) administration: Level,
}

impl Access {
    /// Everything.
    pub(crate) const ALL: Self = Self {
        actions: Level::Write,
        contents: Level::Write,
        issues: Level::Write,
        pull_requests: Level::Write,
        administration: Level::Write,
    };
    /// Everything may be read.
    pub(crate) const READ: Self = Self {
        actions: Level::Read,
        contents: Level::Read,
        issues: Level::Read,
        pull_requests: Level::Read,
        administration: Level::None,
    };

    pub(super) fn level(&self, area: Area) -> Level {
        match area {
            Area::Metadata => Level::Read,
            Area::Actions => self.actions,
            Area::Contents => self.contents,
            Area::Issues => self.issues,
            Area::PullRequests => self.pull_requests,
            Area::Administration => self.administration,
        }
    }
}

/// Where a token comes from; GitHub words its refusals by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Issued {
    /// The job token or an App's installation token.
    Installation,
    /// A fine-grained personal token.
    FineGrained,
    /// A classic personal token with scopes.
    Classic(&'static str),
}

/// A token.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) account: u64,
    pub(crate) issued: Issued,
    /// By repository id.
    pub(crate) access: BTreeMap<u64, Access>,
    /// Unix milliseconds.
    pub(crate) expires_at: Option<i64>,
    pub(crate) revoked: bool,
    /// The hour of the current rate-limit window, and the calls in it.
    pub(super) window: (i64, u64),
}

/// Which GitHub it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Edition {
    /// REST under `/`, GraphQL under `/graphql`.
    Dotcom,
    /// REST under `/api/v3`, GraphQL under `/api/graphql`; API version 2022-11-28 alone and no run details.
    Enterprise,
}

/// Where a name leads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Named {
    Here(u64),
    /// Renamed or transferred away: GitHub redirects.
    Moved(u64),
}

/// The whole world.
pub(crate) struct World {
    /// Unix milliseconds; none follows the machine's clock.
    pub(super) now: Option<i64>,
    pub(super) edition: Edition,
    /// A path before everything else, such as `/github`; empty for none.
    pub(super) prefix: String,
    /// `https://github.com`, for addresses in replies.
    pub(super) web: String,
    /// `https://api.github.com`, for addresses in replies.
    pub(super) api: String,
    /// The API versions that the host serves; the first is the default.
    pub(super) versions: Vec<String>,
    pub(super) accounts: BTreeMap<u64, Account>,
    pub(super) tokens: HashMap<String, Token>,
    pub(super) repositories: BTreeMap<u64, Repository>,
    pub(super) names: HashMap<String, Named>,
    pub(super) runs: BTreeMap<u64, Record>,
    pub(super) artifacts: Vec<super::artifacts::Artifact>,
    /// Whether each download from the storage came with a token.
    pub(super) downloads: Vec<bool>,
    /// Counts changes of runs.
    pub(super) version: u64,
    /// How many reads of a new run show its title unpopulated.
    pub(super) title_lag: u32,
    /// Calls per hour and token; none counts but never refuses.
    pub(super) rate_limit: Option<u64>,
    pub(super) faults: Faults,
    pub(super) journal: Journal,
    pub(super) violations: Vec<String>,
    /// What abbreviations stand for (see `render`), as text and as a shape, while nothing changes it.
    pub(super) spelled: HashMap<(char, u64), (String, u64)>,
    next: u64,
}

impl World {
    pub(super) fn new(now: i64) -> Self {
        Self {
            now: Some(now),
            edition: Edition::Dotcom,
            prefix: String::new(),
            web: "https://github.com".to_owned(),
            api: "https://api.github.com".to_owned(),
            versions: vec!["2022-11-28".to_owned(), "2026-03-10".to_owned()],
            accounts: BTreeMap::new(),
            tokens: HashMap::new(),
            repositories: BTreeMap::new(),
            names: HashMap::new(),
            runs: BTreeMap::new(),
            artifacts: Vec::new(),
            downloads: Vec::new(),
            version: 0,
            title_lag: 0,
            rate_limit: None,
            faults: Faults::default(),
            journal: Journal::default(),
            violations: Vec::new(),
            spelled: HashMap::new(),
            next: 0,
        }
    }

    /// The time of the world, in Unix milliseconds.
    pub(super) fn now(&self) -> i64 {
        self.now.unwrap_or_else(|| {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
        })
    }

    /// The address of GraphQL, for addresses in replies.
    pub(super) fn graphql_address(&self) -> String {
        match self.edition {
            Edition::Dotcom => format!("{}/graphql", self.api),
            Edition::Enterprise => format!("{}/api/graphql", self.web),
        }
    }

    /// A number that was not given before: ids grow from `base`.
    pub(super) fn fresh(&mut self, base: u64) -> u64 {
        self.next += 1;
        base + self.next
    }

    pub(super) fn account_named(&self, login: &str) -> Option<&Account> {
        self.accounts.values().find(|account| account.login.eq_ignore_ascii_case(login))
    }

    pub(super) fn named(&self, full_name: &str) -> Option<Named> {
        self.names.get(&full_name.to_ascii_lowercase()).copied()
    }

    /// A repository by name; a test names only what exists.
    pub(super) fn repository(&mut self, full_name: &str) -> &mut Repository {
        let id = match self.named(full_name) {
            Some(Named::Here(id) | Named::Moved(id)) => id,
            None => panic!("the simulated GitHub has no repository of that name"),
        };
        self.spelled.clear();
        self.repositories.get_mut(&id).unwrap()
    }

    pub(super) fn full_name(&self, repository: &Repository) -> String {
        format!("{}/{}", self.accounts[&repository.owner].login, repository.name)
    }
}

/// An issue.
#[derive(Clone, Debug)]
pub(crate) struct Issue {
    pub(crate) id: u64,
    pub(crate) title: String,
    pub(crate) state: String,
    pub(crate) state_reason: Option<String>,
    pub(crate) author: u64,
    pub(crate) closed_at: Option<i64>,
    pub(crate) status: Lifecycle,
}

/// Whether an issue can still be read under its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    Here,
    /// 410.
    Deleted,
    /// 301 to another repository and number.
    Transferred(u64, u64),
}

/// A pull request; its number is an issue number too.
#[derive(Clone, Debug)]
pub(crate) struct Pull {
    pub(crate) id: u64,
    pub(crate) title: String,
    pub(crate) state: String,
    pub(crate) merged: bool,
    pub(crate) merged_at: Option<i64>,
    pub(crate) merge_commit: Option<String>,
    pub(crate) author: u64,
    /// Another base repository than the one it is read in, to show that a client looks.
    pub(crate) base_repository: Option<u64>,
}

/// A branch rule as GitHub lists it, such as `{"type": "deletion"}`.
pub(crate) type Rule = Value;

/// The files of one revision.
pub(crate) type Files = BTreeMap<String, Entry>;

/// One file.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    File(Arc<[u8]>),
    Link(String),
}
