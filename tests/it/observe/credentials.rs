//! Which credential reads which repository: lifecycle.md 7.1, 8.1.

use serde_json::json;
use wq_action::forge::{Client, Host};
use wq_action::launch::observe::{Clients, Resolver, Scope, Scopes, read_credentials, refresh};
use wq_action::ports::SimulatedClock;
use wq_action::protocol::actor::Role;
use wq_action::protocol::{Code, Generation, Token};

use super::fake::{Fake, NOW, name, repository, scopes};
use super::mapping::asked;
use crate::support::built::{Node, Queue, aw_policy};

const MAP: &str = "GH_AW_WORK_QUEUE_DEPENDENCY_READ_CREDENTIALS";

fn token(n: &str) -> String {
    format!("GH_AW_WORK_QUEUE_DEPENDENCY_READ_TOKEN_{n}")
}

fn host() -> Host {
    Host::new(None, None, None).unwrap()
}

/// S-432, S-434, S-436: a foreign repository is read with its own credential, through its own client; without one
/// it is not read at all, not even with the queue's. The queue's own Issues are read with the queue's client. Reads are
/// all that is sent, and no token stands in an Observation.
#[test]
fn foreign_repositories_need_their_own_credential() {
    let mut policy = aw_policy();
    policy["pools"]["default"]["allowed_repositories"] = json!(["owner/repo", "other/lib"]);
    let mut foreign = crate::support::built::issue(7);
    foreign["repository"] = "other/lib".into();
    foreign["repository_id"] = "70".into();
    let edge = json!([{"kind": "issue", "condition": "closed", "resource": foreign}]);
    let queue = Queue::open(&policy, &[Node::new("a").gate(5, "closed"), Node::new("b").with("depends_on", edge)]);
    let (own, other) = (Fake::new(), Fake::new());
    own.issue(5, &json!({}));
    // Were the queue's credential used, it could read the foreign Issue.
    for fake in [&own, &other] {
        fake.show("/repos/other/lib", &repository("other/lib", 70));
        fake.show("/repos/other/lib/issues/7", &json!({"id": 7, "number": 7, "state": "closed"}));
    }
    let pairs = [(MAP, r#"{"other/lib":"GH_AW_WORK_QUEUE_DEPENDENCY_READ_TOKEN_0"}"#), (&token("0"), "secret")];
    let credentials = read_credentials(pairs).unwrap();
    let initial = Generation::new("initial").unwrap();
    let scopes = Scopes::of_queue(&host(), &name("owner/repo"), &credentials, &initial).unwrap();
    let clock = SimulatedClock::new(NOW);
    let look = |entries| {
        let clients = Clients::new(&scopes, entries).unwrap();
        let seen =
            refresh(&queue.state, &Resolver::new(&scopes, &clients, &clock), &asked(), Role::Dispatcher).unwrap();
        seen.iter().map(|seen| format!("{} {}", seen.state, seen.read_status)).collect::<Vec<_>>()
    };
    let queue_client = (name("owner/repo"), Client::new(&own, &clock));
    assert_eq!(look(vec![queue_client.clone()]), ["ready ok", "unknown external_read_credentials_missing"]);
    assert_eq!(own.asked(), ["/repos/owner/repo", "/repos/owner/repo/issues/5"]);
    let both = vec![queue_client, (name("Other/Lib"), Client::new(&other, &clock))];
    assert_eq!(look(both), ["ready ok", "ready ok"]);
    assert_eq!(own.asked(), ["/repos/owner/repo", "/repos/owner/repo/issues/5"]);
    assert_eq!(other.asked(), ["/repos/other/lib", "/repos/other/lib/issues/7"]);
}

/// S-432: the map names at most 64 repositories, each once whatever its case, each with the variable of a token.
#[test]
fn the_map_of_credentials_is_checked() {
    assert_eq!(read_credentials([("PATH", "/bin")]).unwrap(), []);
    assert_eq!(read_credentials([(MAP, ""), (&token("0"), "t")]).unwrap(), []);
    assert_eq!(read_credentials([(MAP, "{}")]).unwrap(), []);
    let good = format!(r#"{{"a/b":"{}","c/d":"{}","e/f":"{}"}}"#, token("0"), token("12"), token("2"));
    let read = read_credentials([(&*token("0"), "zero"), (MAP, &good), (&token("12"), "twelve"), (&token("2"), "")]);
    let read = read.unwrap();
    let names: Vec<_> = read.iter().map(|credential| credential.repository.as_str()).collect();
    assert_eq!(names, ["a/b", "c/d", "e/f"]);
    let tokens: Vec<_> = read.iter().map(|credential| credential.token.clone()).collect();
    assert_eq!(tokens, [Some(Token::new("zero").unwrap()), Some(Token::new("twelve").unwrap()), None]);
    assert!(!format!("{read:?}").contains("zero"));
    let many = |count: usize| {
        let members: Vec<String> = (0..count).map(|n| format!(r#""o/r{n}":"{}""#, token(&n.to_string()))).collect();
        format!("{{{}}}", members.join(","))
    };
    assert_eq!(read_credentials([(MAP, &*many(64))]).unwrap().len(), 64);
    for (map, code) in [
        ("[]".to_owned(), Code::WorkQueueDependencyCredentialsInvalid),
        ("{".to_owned(), Code::WorkQueueDependencyCredentialsInvalid),
        (many(65), Code::WorkQueueDependencyCredentialsInvalid),
        (r#"{"a/b":1}"#.to_owned(), Code::WorkQueueDependencyCredentialsInvalid),
        (r#"{"a/b":"GITHUB_TOKEN"}"#.to_owned(), Code::WorkQueueDependencyCredentialsInvalid),
        (format!(r#"{{"a/b":"{}"}}"#, token("")), Code::WorkQueueDependencyCredentialsInvalid),
        (format!(r#"{{"a/b":"{}"}}"#, token("01")), Code::WorkQueueDependencyCredentialsInvalid),
        (format!(r#"{{"a/b":"{}"}}"#, token("1x")), Code::WorkQueueDependencyCredentialsInvalid),
        (format!(r#"{{"a":"{}"}}"#, token("0")), Code::WorkQueueDependencyRepositoryInvalid),
        (format!(r#"{{"a/b/c":"{}"}}"#, token("0")), Code::WorkQueueDependencyRepositoryInvalid),
        (format!(r#"{{"a/b":"{}","A/B":"{}"}}"#, token("0"), token("1")), Code::WorkQueueDependencyCredentialsConflict),
    ] {
        assert_eq!(read_credentials([(MAP, &*map)]).unwrap_err().code(), code, "{map}");
    }
    let split = [(MAP, &*format!(r#"{{"a/b":"{}"}}"#, token("0"))), (&token("0"), "two\nlines")];
    assert_eq!(read_credentials(split).unwrap_err().code(), Code::WorkQueueDependencyCredentialsInvalid);
}

/// Scopes are of the server's host, each repository once; a client belongs to a scope of its own host.
#[test]
fn scopes_and_clients_fit_together() {
    let scope = |host: &str, repository: &str| Scope {
        host: host.to_owned(),
        repository: name(repository),
        access_generation: Generation::new("g").unwrap(),
    };
    let code = |list| Scopes::new(&host(), list).unwrap_err().code();
    assert_eq!(code(vec![scope("ghe.example", "a/b")]), Code::WorkQueueDependencyHostInvalid);
    let twice = vec![scope("github.com", "a/b"), scope("github.com", "A/b")];
    assert_eq!(code(twice), Code::WorkQueueDependencyCredentialsConflict);
    let read = scopes(&["a/b"], "g");
    let fake = Fake::new();
    let clock = SimulatedClock::new(NOW);
    let client = Client::new(&fake, &clock);
    for entries in [vec![(name("a/c"), client)], vec![(name("a/b"), client), (name("A/B"), client)]] {
        let refused = Clients::new(&read, entries).err().unwrap();
        assert_eq!(refused.code(), Code::WorkQueueDependencyClientScopeInvalid);
    }
}
