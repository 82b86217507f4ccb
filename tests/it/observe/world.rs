//! The same on the simulated GitHub, whose answers are held against the published schemas: from a name and a number to a
//! grant, with one credential for each repository.

use serde_json::json;
use wq_action::forge::{Client, Host};
use wq_action::launch::observe::{Admission, Clients, ReadCredential, Resolver, Scopes, refresh, resolve_nodes};
use wq_action::ports::SimulatedClock;
use wq_action::protocol::actor::Role;
use wq_action::protocol::json::parse;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{Generation, Token};

use super::fake::{MERGE, NOW, name};
use super::mapping::asked;
use crate::support::built::{DISPATCHER, Node, PRODUCER, Queue, aw_policy, frozen, grant_parameters, nodes};
use crate::support::github::{Access, Github, Issued, JOB, Kind, Lifecycle, Port};

const OWN: &str = "owner/repo";
const FOREIGN: &str = "other/lib";
const READER: &str = "token-of-the-foreign-reader";

/// The queue's repository, and a private foreign one that only its own reader sees.
fn world() -> Github {
    let github = Github::new().repository(OWN);
    github.add_repository(FOREIGN);
    github.make_private(FOREIGN);
    github.account("lib-reader[bot]", Kind::Bot);
    github.token(READER, "lib-reader[bot]", Issued::Installation);
    github.grant(READER, FOREIGN, Access::READ);
    github
}

/// Calls with a resolver that reads each repository with its own token.
fn with_both<T>(github: &Github, call: impl FnOnce(&Resolver<'_>) -> T) -> T {
    let clock = SimulatedClock::new(NOW);
    let (own, foreign) = (Port::new(github, JOB, &clock), Port::new(github, READER, &clock));
    let credential = ReadCredential { repository: name(FOREIGN), token: Some(Token::new(READER).unwrap()) };
    let (host, initial) = (Host::new(None, None, None).unwrap(), Generation::new("initial").unwrap());
    let scopes = Scopes::of_queue(&host, &name(OWN), &[credential], &initial).unwrap();
    let entries = vec![(name(OWN), Client::new(&own, &clock)), (name(FOREIGN), Client::new(&foreign, &clock))];
    let clients = Clients::new(&scopes, entries).unwrap();
    call(&Resolver::new(&scopes, &clients, &clock))
}

fn states(queue: &Queue, github: &Github) -> Vec<String> {
    let seen = with_both(github, |resolver| refresh(&queue.state, resolver, &asked(), Role::Dispatcher)).unwrap();
    seen.iter().map(|seen| format!("{} {}", seen.state, seen.read_status)).collect()
}

/// A queue whose one node waits for Issue 5 of its own repository and pull request 6 of the foreign one, named by their
/// numbers.
fn admitted(github: &Github) -> Queue {
    let mut policy = aw_policy();
    policy["pools"]["default"]["allowed_repositories"] = json!([OWN, FOREIGN]);
    let mut queue = Queue::open(&policy, &[Node::new("first")]);
    queue.grant(1500, 1, 1).unwrap();
    let node = Node::new("a").with(
        "depends_on",
        json!([
            {"kind": "issue", "condition": "completed", "resource": {"repository": OWN, "number": 5}},
            {"kind": "pull_request", "condition": "merged", "resource": {"repository": FOREIGN, "number": 6}},
        ]),
    );
    let submitted = parse(&node.value().to_string()).unwrap();
    let resolved = with_both(github, |resolver| {
        let admission = Admission { projection: Some(&queue.state), resolver: Some(resolver), host: "github.com" };
        resolve_nodes(&[submitted], &admission)
    });
    let text = resolved.unwrap()[0].encode().unwrap();
    let resolved: serde_json::Value = serde_json::from_str(&text).unwrap();
    queue.submit(PRODUCER, 2000, &[node.with("depends_on", resolved["depends_on"].clone())]).unwrap();
    queue
}

/// S-421, S-426, S-432, S-443, O-252, O-312: from coordinates to ids, from waiting to a grant.
#[test]
fn a_graph_waits_for_two_repositories() {
    let github = world();
    let (issue, pull) = (github.issue(OWN, 5), github.pull(FOREIGN, 6));
    let mut queue = admitted(&github);
    let edges = queue.work("a")["depends_on"].clone();
    assert_eq!(edges[0]["resource"]["resource_id"], issue.to_string());
    assert_eq!(edges[0]["resource"]["repository_id"], github.repository_id(OWN).to_string());
    assert_eq!(edges[1]["resource"]["resource_id"], pull.to_string());
    assert_eq!(edges[1]["resource"]["repository_id"], github.repository_id(FOREIGN).to_string());
    assert_eq!(states(&queue, &github), ["waiting external_reopened", "waiting ok"]);
    github.merge(FOREIGN, 6, MERGE);
    github.change_issue(OWN, 5, |issue| {
        issue.state = "closed".to_owned();
        issue.state_reason = Some("not_planned".to_owned());
        issue.closed_at = Some(NOW);
    });
    assert_eq!(states(&queue, &github), ["failed external_closed_not_completed", "ready ok"]);
    github.change_issue(OWN, 5, |issue| issue.state_reason = Some("completed".to_owned()));
    let seen = with_both(&github, |resolver| refresh(&queue.state, resolver, &asked(), Role::Dispatcher)).unwrap();
    let request = frozen("grant", RequestKind::DispatchNext, DISPATCHER, &grant_parameters("default", 9, 9));
    let decision = queue.decide_frozen(&request, NOW, &seen).unwrap();
    queue.publish(decision).unwrap();
    assert_eq!(nodes(&queue.last_grants()), ["a"]);
}

/// S-428, S-437: a transfer, a deletion, a rename, a lost permission and an expired token, as GitHub
/// answers them.
#[test]
fn what_became_of_a_resource_is_told_by_name() {
    let github = world();
    github.issue(OWN, 5);
    github.pull(FOREIGN, 6);
    let queue = admitted(&github);
    let elsewhere = github.repository_id(FOREIGN);
    github.issue(FOREIGN, 9);
    github.change_issue(OWN, 5, |issue| issue.status = Lifecycle::Transferred(elsewhere, 9));
    assert_eq!(states(&queue, &github)[0], "failed external_identity_mismatch");
    github.change_issue(OWN, 5, |issue| issue.status = Lifecycle::Deleted);
    assert_eq!(states(&queue, &github)[0], "unknown external_unavailable");
    github.withdraw(READER, FOREIGN);
    assert_eq!(states(&queue, &github)[1], "unknown external_not_found");
    github.grant(READER, FOREIGN, Access::READ);
    github.rename(FOREIGN, "other/moved");
    assert_eq!(states(&queue, &github)[1], "failed external_redirect_not_allowlisted");
    github.revoke(READER);
    assert_eq!(states(&queue, &github)[1], "unknown external_access_denied");
}
