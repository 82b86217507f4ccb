//! `docs/SECURITY.md`: what is called on GitHub with which permission, and what is trusted; and the places in the code
//! that a token's text can come from.

use std::fmt::Write as _;

use wq_action::forge::endpoint::{ENDPOINTS, Interface, Method};

use crate::tree;

const INTRODUCTION: &str = include_str!("security/introduction.md");

fn document() -> String {
    let mut text = INTRODUCTION.to_owned();
    for endpoint in ENDPOINTS {
        let call = match endpoint.interface {
            Interface::Rest => format!("`{} {}`", endpoint.method.as_str(), endpoint.path),
            Interface::Graphql => format!("GraphQL query `{}`", endpoint.path),
        };
        let kind = if endpoint.safe { "read" } else { "write" };
        writeln!(text, "| {call} | {kind} | {} | {} |", endpoint.permission, endpoint.purpose).unwrap();
    }
    text
}

/// Every call that the code can make stands in the document with the permission that it needs.
#[test]
fn security_document_in_step() {
    tree::keep_in_step("docs/SECURITY.md", &document());
}

/// S-433, O-107, O-350: the document says who is trusted, and which credential should read foreign repositories.
#[test]
fn the_security_page_warns() {
    let text = document().split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in [
        "Anyone with direct write access to the repository can replace the ledger or delete it",
        "Writers who can move tags stay trusted",
        "the later check of the run's revision cannot undo what it already executed",
        "foreign private repositories should be read with a read-only App credential scoped to those repositories",
    ] {
        assert!(text.contains(sentence), "{sentence}");
    }
}

/// Only reads are repeated: whatever writes is a POST that is marked so, and queries are the only POSTs that are not.
#[test]
fn writes_are_marked() {
    for endpoint in ENDPOINTS {
        let write = endpoint.method == Method::Post && endpoint.interface == Interface::Rest;
        assert_eq!(endpoint.safe, !write, "{}", endpoint.name);
        assert!(endpoint.purpose.ends_with('.') && !endpoint.permission.is_empty());
    }
}

/// O-282: no call reads commits, trees or comparisons, so whatever the token is or becomes, Git's ancestry is never
/// walked through the API.
#[test]
fn no_call_walks_history() {
    for endpoint in ENDPOINTS {
        for walk in ["commits", "compare", "git/trees", "git/blobs", "branches/"] {
            let rules = endpoint.path == "/repos/{owner}/{repo}/rules/branches/{branch}";
            assert!(!endpoint.path.contains(walk) || rules, "{}", endpoint.name);
        }
    }
}

/// O-205: what an account may do in a repository is looked at for operators, who are told, and by nothing that a workflow
/// job runs: there the host's answer to the real call decides.
#[test]
fn roles_are_looked_at_for_operators_alone() {
    let readers: Vec<_> = tree::files("src", "rs")
        .into_iter()
        .filter(|(_, text)| text.contains("permissions.push") || text.contains("permissions.admin"))
        .map(|(path, _)| path)
        .collect();
    assert_eq!(readers, ["src/cli/doctor/host.rs", "src/launch/operator.rs"]);
    let users: Vec<_> = tree::files("src", "rs")
        .into_iter()
        .filter(|(path, text)| text.contains("operator::authenticate") && !path.starts_with("src/cli/"))
        .map(|(path, _)| path)
        .collect();
    assert_eq!(users, [""; 0]);
}

/// A token's text has two ways out, the header for git and the header for the API, and each is used in one place. The
/// type has no other trait that would give it away.
#[test]
fn a_token_has_two_ways_out() {
    let sources = tree::files("src", "rs");
    let places = |words: &str| -> Vec<&str> {
        sources.iter().filter(|(_, text)| text.contains(words)).map(|(path, _)| path.as_str()).collect()
    };
    assert_eq!(places(".basic_header()"), ["src/ledger/git/executable.rs"]);
    assert_eq!(places(".bearer()"), ["src/forge/http.rs"]);
    let (_, token) = sources.iter().find(|(path, _)| path == "src/protocol/token.rs").unwrap();
    let code: Vec<_> = token.lines().map(str::trim).filter(|line| !line.starts_with("//")).collect();
    let with = |words: &str| code.iter().filter(|line| line.contains(words)).copied().collect::<Vec<_>>();
    assert_eq!(with("self.0").len(), 2, "{:?}", with("self.0"));
    let implemented: Vec<_> = code.iter().filter(|line| line.starts_with("impl ")).copied().collect();
    assert_eq!(implemented, ["impl Token {", "impl fmt::Debug for Token {"]);
    assert_eq!(with("derive("), ["#[derive(Clone, PartialEq, Eq)]"]);
    assert_eq!(with("pub struct"), ["pub struct Token(String);"]);
    for other in ["for Token {", "From<Token>", "Serialize for Token"] {
        let found = places(other);
        assert!(found.is_empty() || found == ["src/protocol/token.rs"], "{other}: {found:?}");
    }
}
