//! A scripted GitHub: an answer for each target, and a log of what was asked.

use std::cell::RefCell;
use std::collections::HashMap;

use serde_json::{Value, json};
use wq_action::forge::{Body, Broken, Client, Forge, Headers, Host, Request, Response};
use wq_action::launch::observe::{Clients, Resolver, Scope, Scopes};
use wq_action::ports::SimulatedClock;
use wq_action::protocol::{Generation, RepositoryName};

/// The time at which the tests look.
pub(super) const NOW: i64 = 50_000;
/// The revision that merges become.
pub(super) const MERGE: &str = "abababababababababababababababababababab";

pub(super) type Answer = Result<(u16, Headers, String), Broken>;

/// One credential's way to the host.
pub(super) struct Fake {
    host: Host,
    answers: RefCell<HashMap<String, Answer>>,
    log: RefCell<Vec<String>>,
}

impl Fake {
    /// A host that shows `owner/repo` with id 9 and nothing in it.
    pub(super) fn new() -> Self {
        let host = Host::new(None, None, None).unwrap();
        let fake = Self { host, answers: RefCell::default(), log: RefCell::default() };
        fake.show("/repos/owner/repo", &repository("owner/repo", 9));
        fake
    }

    pub(super) fn set(&self, target: &str, answer: Answer) {
        self.answers.borrow_mut().insert(target.to_owned(), answer);
    }

    pub(super) fn show(&self, target: &str, body: &Value) {
        self.set(target, Ok((200, Headers::default(), body.to_string())));
    }

    pub(super) fn status(&self, target: &str, status: u16) {
        self.set(target, Ok((status, Headers::default(), "{}".to_owned())));
    }

    /// Shows an Issue of `owner/repo` whose id is its number.
    pub(super) fn issue(&self, number: u64, change: &Value) {
        let mut issue = json!({"id": number, "number": number, "state": "closed", "state_reason": "completed",
            "updated_at": "1970-01-01T00:00:01Z"});
        merge(&mut issue, change);
        self.show(&format!("/repos/owner/repo/issues/{number}"), &issue);
    }

    /// Shows a pull request of `owner/repo`, merged, whose id is its number, and what GraphQL says of it.
    pub(super) fn pull(&self, number: u64, change: &Value, graphql: &Value) {
        let mut pull = json!({"id": number, "number": number, "state": "closed", "merged": true,
            "merged_at": "1970-01-01T00:00:02Z", "updated_at": "1970-01-01T00:00:02Z",
            "base": {"repo": {"id": 9, "full_name": "owner/repo"}}});
        merge(&mut pull, change);
        self.show(&format!("/repos/owner/repo/pulls/{number}"), &pull);
        let mut answer = json!({"fullDatabaseId": number.to_string(), "merged": true, "mergeCommit": {"oid": MERGE}});
        merge(&mut answer, graphql);
        let data = json!({"repository": {"nameWithOwner": "owner/repo", "pullRequest": answer}});
        self.show(&format!("graphql {number}"), &json!({ "data": data }));
    }

    /// What was asked so far, and forgets it.
    pub(super) fn asked(&self) -> Vec<String> {
        self.log.take()
    }
}

impl Forge for Fake {
    fn send(&self, request: &Request) -> Result<Response, Broken> {
        let target = match request.body() {
            None => request.target().to_owned(),
            Some(body) => {
                let body: Value = serde_json::from_str(body).unwrap();
                format!("graphql {}", body["variables"]["number"])
            }
        };
        self.log.borrow_mut().push(target.clone());
        let missing = || Ok((404, Headers::default(), "{}".to_owned()));
        let (status, headers, body) = self.answers.borrow().get(&target).cloned().unwrap_or_else(missing)?;
        Ok(Response { status, headers, body: Body(body.into_bytes()) })
    }

    fn host(&self) -> &Host {
        &self.host
    }
}

pub(super) fn repository(name: &str, id: u64) -> Value {
    json!({"id": id, "full_name": name, "default_branch": "main"})
}

fn merge(into: &mut Value, change: &Value) {
    for (name, value) in change.as_object().unwrap() {
        into[name] = value.clone();
    }
}

pub(super) fn name(name: &str) -> RepositoryName {
    RepositoryName::new(name).unwrap()
}

pub(super) fn scopes(repositories: &[&str], generation: &str) -> Scopes {
    let host = Host::new(None, None, None).unwrap();
    let scope = |repository: &&str| Scope {
        host: "github.com".to_owned(),
        repository: name(repository),
        access_generation: Generation::new(generation).unwrap(),
    };
    Scopes::new(&host, repositories.iter().map(scope).collect()).unwrap()
}

/// Calls with a resolver over one fake, which may read `owner/repo` as generation `initial`, at [`NOW`].
pub(super) fn with_resolver<T>(fake: &Fake, call: impl FnOnce(&Resolver<'_>) -> T) -> T {
    with_scopes(fake, &scopes(&["owner/repo"], "initial"), call)
}

/// As [`with_resolver`], with other scopes, all read through the one fake.
pub(super) fn with_scopes<T>(fake: &Fake, scopes: &Scopes, call: impl FnOnce(&Resolver<'_>) -> T) -> T {
    let clock = SimulatedClock::new(NOW);
    let client = Client::new(fake, &clock);
    let entries = scopes.list().iter().map(|scope| (scope.repository.clone(), client)).collect();
    let clients = Clients::new(scopes, entries).unwrap();
    call(&Resolver::new(scopes, &clients, &clock))
}
