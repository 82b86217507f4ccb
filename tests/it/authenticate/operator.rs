//! A person at the command line (operator-cli.md 1).

use serde_json::{Value, json};
use wq_action::launch::operator::{Operator, authenticate};
use wq_action::protocol::actor::Role;
use wq_action::protocol::{Code, RepositoryName, Wire as _};

use crate::support::answers::Answers;

fn account(push: bool, admin: bool) -> Answers {
    let permissions = json!({"admin": admin, "push": push, "pull": true, "maintain": true});
    let repository = json!({"id": 99, "full_name": "Octo/Queue", "default_branch": "main", "permissions": permissions});
    let user = json!({"id": 7, "login": "monalisa", "type": "User"});
    Answers::new().with("/user", user).with("/repos/octo/queue", repository)
}

fn operator(host: &Answers, role: Role) -> Result<Operator, Code> {
    let repository = RepositoryName::new("octo/queue").unwrap();
    authenticate(host.client(), &repository, role).map_err(|fault| fault.code())
}

/// S-652, O-380: an operator is the account behind the credential, in the host's spelling of the repository, without a
/// workflow or run; the only inputs are the repository's name and the command's role, so no flag and no variable of a
/// runner can add one. The role that workers have is refused before anything is asked.
#[test]
fn an_operator_is_the_account_behind_the_credential() {
    let host = account(true, true);
    let found = operator(&host, Role::Administrator).unwrap();
    assert_eq!(found.actor().canonical(), r#"{"principal":"7","repository":"Octo/Queue","role":"administrator"}"#);
    assert_eq!((found.repository().as_str(), found.repository_id().as_str()), ("Octo/Queue", "99"));
    assert_eq!(found.default_branch(), Some("main"));
    host.asked();
    for role in [Role::Worker, Role::Dispatcher, Role::Projector] {
        assert_eq!(operator(&host, role).map(drop), Err(Code::ActorUnauthorized), "{role:?}");
    }
    assert_eq!(host.asked(), [""; 0]);
}

/// Producers and reconcilers push; an administrator also administers.
#[test]
fn a_role_needs_its_permission() {
    let refused = Err(Code::ActorUnauthorized);
    for role in [Role::Producer, Role::Reconciler] {
        assert_eq!(operator(&account(true, false), role).map(drop), Ok(()));
        assert_eq!(operator(&account(false, true), role).map(drop), refused);
    }
    assert_eq!(operator(&account(true, false), Role::Administrator).map(drop), refused);
    assert_eq!(operator(&account(false, true), Role::Administrator).map(drop), refused);
    let untold = json!({"id": 99, "full_name": "Octo/Queue", "default_branch": "main"});
    let host = account(true, true).with("/repos/octo/queue", untold);
    assert_eq!(operator(&host, Role::Producer).map(drop), refused, "permissions that are not told are none");
}

/// Another repository's answer and a host that does not answer are told apart.
#[test]
fn a_renamed_repository_is_another_one() {
    let mut host = account(true, true);
    host.by_target.get_mut("/repos/octo/queue").unwrap().1["full_name"] = json!("octo/renamed");
    assert_eq!(operator(&host, Role::Producer).map(drop), Err(Code::ActorUnauthorized));
    for (status, code) in [(401, Code::ApiUnauthenticated), (403, Code::ApiForbidden), (404, Code::ApiNotFound)] {
        for target in ["/user", "/repos/octo/queue"] {
            let mut host = account(true, true);
            host.by_target.insert(target.to_owned(), (status, Value::Null));
            assert_eq!(operator(&host, Role::Producer).map(drop), Err(code), "{target}");
        }
    }
}
