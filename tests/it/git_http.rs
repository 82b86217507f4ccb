//! Reading and publishing over smart HTTP with a token.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use wq_action::ledger::{
    Ambiguity, Bounds, Branch, Class, GitTransport, Head, LedgerError, PushOutcome, Store, read_head,
};
use wq_action::protocol::Code;
use wq_action::protocol::{Token, TokenProvider};

use crate::support::git::{Bare, Writer, real_git};
use crate::support::http_git::{At, Fault, HttpGit};

const TOKEN: &str = "ghs_therighttoken";

fn provider(token: &str) -> TokenProvider {
    let token = Token::new(token).unwrap();
    Arc::new(move || Ok(token.clone()))
}

fn server() -> (Bare, HttpGit) {
    let bare = Bare::new();
    bare.git(&["config", "http.receivepack", "true"]);
    let server = HttpGit::serve(bare.around(), TOKEN);
    (bare, server)
}

fn transport(server: &HttpGit, token: Option<&str>) -> GitTransport {
    let bounds = Bounds { push: Duration::from_secs(10), ..Bounds::default() };
    real_git().transport(server.remote("queue.git"), token.map(provider), bounds)
}

fn read_error(server: &HttpGit, token: Option<&str>) -> LedgerError {
    read_head(&transport(server, token), &Store::new().unwrap(), &Branch::default()).expect_err("refused")
}

/// O-002, O-005: reads and publications work over HTTP with a token for each invocation, and ask for it each time.
#[test]
fn a_queue_behind_a_token_is_read_and_written() {
    let (bare, server) = server();
    bare.commit("main", &bare.tree(&[("100644", "README", &bare.blob(b"x"))]), &[]);
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let counting: TokenProvider = Arc::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        Token::new(TOKEN)
    });
    let transport = real_git().transport(server.remote("queue.git"), Some(counting), Bounds::default());
    let publisher = Writer::new(transport);
    assert_eq!(publisher.read(), Head::Absent);
    assert_eq!(publisher.push(None, b"one\n"), PushOutcome::Acknowledged);
    let base = publisher.snapshot();
    assert_eq!(publisher.push(Some(&base), b"one\ntwo\n"), PushOutcome::Acknowledged);
    let other = Writer::new(self::transport(&server, Some(TOKEN)));
    assert_eq!(other.snapshot().ledger, b"one\ntwo\n");
    assert_eq!(publisher.push(Some(&base), b"one\n2\n"), PushOutcome::Conflict);
    assert_eq!(bare.ledger(), "one\ntwo\n");
    assert_eq!(asked.load(Ordering::Relaxed), 5, "two reads without a fetch and three pushes");
    // A body of several megabytes goes in pieces.
    let base = publisher.snapshot();
    let mut state = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8
    })
    .take(3_000_000)
    .collect();
    assert_eq!(publisher.push(Some(&base), &noise), PushOutcome::Acknowledged);
    assert_eq!(other.snapshot().ledger, noise);
}

/// O-047: a wrong or missing token is a denial on reads and on pushes, without the token or the server's words.
#[test]
fn a_wrong_token_is_denied() {
    let (bare, server) = server();
    let head = bare.seed(b"one\n");
    for token in [Some("ghs_thewrongtoken"), None] {
        let error = read_error(&server, token);
        assert_eq!(
            (error.code(), error.class(), error.status()),
            (Code::RepositoryUnavailable, Class::Denied, Some(401))
        );
        assert_eq!(error.exit(), 4);
        let publisher = Writer::new(transport(&server, token));
        let PushOutcome::Denied(error) = publisher.push(None, b"other\n") else { panic!("denied") };
        assert_eq!((error.code(), error.class()), (Code::PublicationDenied, Class::Denied));
        assert!(!format!("{error:?}").contains("token"), "{error:?}");
    }
    assert_eq!(bare.resolve("refs/heads/work-queue"), Some(head));
}

/// A repository without a default branch is told apart from an absent queue: the service has to confirm it.
#[test]
fn an_empty_repository_behind_a_server_is_not_yet_an_absent_queue() {
    let (_bare, server) = server();
    assert_eq!(Writer::new(transport(&server, Some(TOKEN))).read(), Head::EmptyRepository);
}

/// O-047: statuses of a read are typed, and none of them is an absent queue.
#[test]
fn publication_07_statuses_of_a_read_are_typed() {
    let (bare, server) = server();
    bare.seed(b"one\n");
    let cases = [(403, Class::Denied), (404, Class::Denied), (429, Class::Unavailable), (500, Class::Unavailable)];
    for (status, class) in cases {
        server.fail_next(At::ReadAdvertisement, Fault::Status(status));
        let error = read_error(&server, Some(TOKEN));
        assert_eq!((error.code(), error.class(), error.status()), (Code::RepositoryUnavailable, class, Some(status)));
        assert!(!format!("{error:?}").contains("nobody may print"));
    }
    for at in [At::ReadAdvertisement, At::Read] {
        server.fail_next(at, Fault::DropBefore);
        let error = read_error(&server, Some(TOKEN));
        assert_eq!((error.code(), error.class()), (Code::RepositoryUnavailable, Class::Unavailable));
    }
    let other = real_git().transport(server.remote("nowhere.git"), Some(provider(TOKEN)), Bounds::default());
    let error = read_head(&other, &Store::new().unwrap(), &Branch::default()).unwrap_err();
    assert_eq!((error.code(), error.class()), (Code::RepositoryUnavailable, Class::Denied));
}

/// S-251, S-253, S-622: a refusal before anything was sent is a denial; every other failure of a push is unknown.
#[test]
fn failures_of_a_push_are_told_apart() {
    let (bare, server) = server();
    let head = bare.seed(b"one\n");
    let publisher = Writer::new(transport(&server, Some(TOKEN)));
    let base = publisher.snapshot();
    for status in [403, 404] {
        server.fail_next(At::PushAdvertisement, Fault::Status(status));
        let outcome = publisher.push(Some(&base), b"one\ntwo\n");
        assert!(matches!(&outcome, PushOutcome::Denied(error) if error.status() == Some(status)), "{outcome:?}");
    }
    for (at, status) in [(At::PushAdvertisement, 500), (At::PushAdvertisement, 429), (At::Push, 500), (At::Push, 403)] {
        server.fail_next(at, Fault::Status(status));
        let outcome = publisher.push(Some(&base), b"one\ntwo\n");
        assert_eq!(outcome, PushOutcome::Ambiguous(Ambiguity::Status(status)), "{at:?}");
    }
    server.fail_next(At::PushAdvertisement, Fault::DropBefore);
    let outcome = publisher.push(Some(&base), b"one\ntwo\n");
    assert!(matches!(outcome, PushOutcome::Ambiguous(_)), "{outcome:?}");
    assert_eq!(bare.resolve("refs/heads/work-queue"), Some(head));
}

/// S-242: answers that are lost after the server accepted the push leave the outcome unknown, and the commit there.
#[test]
fn a_lost_acknowledgement_is_ambiguous() {
    for fault in [Fault::DropAfter, Fault::StatusAfter(500), Fault::StatusAfter(502), Fault::HalfAnswer] {
        let (bare, server) = server();
        bare.seed(b"one\n");
        let publisher = Writer::new(transport(&server, Some(TOKEN)));
        let base = publisher.snapshot();
        server.fail_next(At::Push, fault);
        let outcome = publisher.push(Some(&base), b"one\ntwo\n");
        assert!(matches!(outcome, PushOutcome::Ambiguous(_)), "{fault:?}: {outcome:?}");
        assert_eq!(bare.ledger(), "one\ntwo\n", "{fault:?}");
        assert_eq!(publisher.snapshot().ledger, b"one\ntwo\n");
    }
}

/// S-254, S-456, O-002: everything that is asked of the server is Git's own protocol.
#[test]
fn only_the_git_protocol_is_spoken() {
    let (bare, server) = server();
    bare.seed(b"one\n");
    let publisher = Writer::new(transport(&server, Some(TOKEN)));
    let base = publisher.snapshot();
    assert_eq!(publisher.push(Some(&base), b"one\ntwo\n"), PushOutcome::Acknowledged);
    // Neither Issues, pull requests nor the repository's rules are read or written.
    for request in server.seen() {
        assert!(
            request.contains("/queue.git/info/refs?service=git-") || request.contains("/queue.git/git-"),
            "{request}"
        );
    }
}
