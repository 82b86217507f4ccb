//! The port to GitHub over plain HTTP on loopback: what is sent, what each way of failing means, and that nothing is
//! sent twice.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use wq_action::forge::endpoint::{CANCEL_RUN, Endpoint, Interface, Method, REPOSITORY};
use wq_action::forge::{Broken, Client, Failure, Forge as _, Host, HttpForge, Network, Posted, Request, Response};
use wq_action::ports::SimulatedClock;
use wq_action::protocol::{At, Code, Decimal, Fault, RepositoryName, Revision, Token, TokenProvider};

use crate::support::wire::{Seen, Step, Wire, answer, kept};

/// A token that must show up nowhere.
pub(crate) const TOKEN: &str = "ghs_canary0123456789";

/// A read and a write that do not make a test wait.
static READ: Endpoint = quick(Method::Get, true);
static WRITE: Endpoint = quick(Method::Post, false);

const fn quick(method: Method, safe: bool) -> Endpoint {
    Endpoint {
        name: "quick",
        method,
        path: "/x",
        interface: Interface::Rest,
        permission: "none",
        purpose: "A call of a test.",
        safe,
        seconds: 1,
    }
}

pub(crate) fn credential() -> TokenProvider {
    Arc::new(|| Token::new(TOKEN))
}

fn forge(port: u16) -> HttpForge {
    let host = Host::new(Some(&format!("http://127.0.0.1:{port}")), None, None).unwrap();
    HttpForge::new(host, credential(), &Network::default()).unwrap()
}

fn read() -> Request {
    Request::new(&READ, "/x".to_owned())
}

fn write() -> Request {
    Request::new(&WRITE, "/x".to_owned()).with_body("{}".to_owned())
}

pub(crate) fn name() -> RepositoryName {
    RepositoryName::new("octo/queue").unwrap()
}

/// An accepted request sends its identity once: the credential, the pinned version and the forms of both bodies.
#[test]
fn a_request_says_what_it_is() {
    let wire = Wire::plain(|_| answer(200, &[], "{}"));
    let forge = forge(wire.port());
    for request in [read(), write(), Request::new(&CANCEL_RUN, "/repos/o/r/actions/runs/7/cancel".to_owned())] {
        assert_eq!(forge.send(&request).unwrap().status, 200);
    }
    let seen = wire.seen();
    let lines: Vec<_> = seen.iter().map(|seen| seen.line.as_str()).collect();
    assert_eq!(
        lines,
        ["GET /api/v3/x HTTP/1.1", "POST /api/v3/x HTTP/1.1", "POST /api/v3/repos/o/r/actions/runs/7/cancel HTTP/1.1"]
    );
    for seen in &seen {
        assert_eq!(seen.header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
        assert_eq!(seen.header("accept"), Some("application/vnd.github+json"));
        assert_eq!(seen.header("x-github-api-version"), Some("2026-03-10"));
        assert_eq!(seen.header("user-agent"), Some(concat!("wq-action/", env!("CARGO_PKG_VERSION"))));
        assert_eq!(seen.header("accept-encoding"), None);
        assert_eq!(seen.header("cookie"), None);
    }
    let form = |index: usize| (seen[index].header("content-type"), seen[index].header("content-length"));
    assert_eq!(form(0), (None, None));
    assert_eq!((form(1), seen[1].body.as_slice()), ((Some("application/json"), Some("2")), b"{}".as_slice()));
    assert_eq!(form(2), (None, Some("0")));
}

/// Tokens rotate: each request asks for the credential again, and without one nothing is sent. A new token costs no
/// further call.
#[test]
fn the_credential_is_asked_for_each_time() {
    let wire = Wire::plain(|_| answer(200, &[], "{}"));
    let asked = AtomicUsize::new(0);
    let provider: TokenProvider = Arc::new(move || match asked.fetch_add(1, Ordering::SeqCst) {
        2 => Err(Fault::new(Code::SettingsInvalid, "no credential")),
        number => Token::new(format!("token{number}")),
    });
    let host = Host::new(Some(&format!("http://127.0.0.1:{}", wire.port())), None, None).unwrap();
    let forge = HttpForge::new(host, provider, &Network::default()).unwrap();
    forge.send(&read()).unwrap();
    forge.send(&read()).unwrap();
    assert!(matches!(forge.send(&read()), Err(Broken::Credential(fault)) if fault.code() == Code::SettingsInvalid));
    let seen = wire.seen();
    let tokens: Vec<_> = seen.iter().map(|seen| seen.header("authorization").unwrap()).collect();
    assert_eq!(tokens, ["Bearer token0", "Bearer token1"]);
}

/// Headers that a server sends.
type Sent = &'static [(&'static str, &'static str)];

fn repository_error(status: u16, headers: Sent, body: &'static str) -> wq_action::forge::ForgeError {
    let wire = Wire::plain(move |_| answer(status, headers, body));
    let forge = forge(wire.port());
    let clock = SimulatedClock::new(0);
    let error = Client::new(&forge, &clock).repository(&name()).unwrap_err();
    // A read that a host refuses with 400 is asked once more in the host's own API version (decision 64).
    let versions: Vec<_> =
        wire.seen().iter().map(|seen| seen.header("x-github-api-version").map(str::to_owned)).collect();
    let pinned = Some(wq_action::forge::endpoint::API_VERSION.to_owned());
    let expected = if status == 400 { vec![pinned, None] } else { vec![pinned] };
    assert_eq!(versions, expected, "status {status}");
    error
}

/// Each status is a failure of its own with a code of its own; a refusal names the permission; nothing that the host
/// wrote is repeated.
#[test]
fn every_status_means_something() {
    let says = r#"{"message":"echo ghs_canary0123456789","documentation_url":"https://evil.example"}"#;
    for (status, failure, code) in [
        (400, Failure::Unprocessable, Code::ApiUnprocessable),
        (401, Failure::Unauthenticated, Code::ApiUnauthenticated),
        (403, Failure::Forbidden, Code::ApiForbidden),
        (404, Failure::NotFound, Code::ApiNotFound),
        (408, Failure::Server, Code::ApiUnavailable),
        (409, Failure::Conflict, Code::ApiConflict),
        (410, Failure::Gone, Code::ApiGone),
        (418, Failure::Status, Code::ApiReplyInvalid),
        (422, Failure::Unprocessable, Code::ApiUnprocessable),
        (429, Failure::RateLimited(None), Code::ApiRateLimited),
        (500, Failure::Server, Code::ApiUnavailable),
        (502, Failure::Server, Code::ApiUnavailable),
        (503, Failure::Server, Code::ApiUnavailable),
        (599, Failure::Server, Code::ApiUnavailable),
        (201, Failure::Status, Code::ApiReplyInvalid),
        (202, Failure::Status, Code::ApiReplyInvalid),
        (302, Failure::Moved, Code::ApiReplyInvalid),
        (304, Failure::Moved, Code::ApiReplyInvalid),
    ] {
        let body = if status == 304 { "" } else { says };
        let error = repository_error(status, &[], body);
        assert_eq!((error.failure(), error.code(), error.status()), (&failure, code, Some(status)));
        let text = format!("{error} {error:?} {} {}", error.message(), error.action());
        assert!(!text.contains("canary") && !text.contains("evil"), "{text}");
        assert!(error.message().contains(&format!("HTTP {status}")));
        let names = error.message().contains(REPOSITORY.permission);
        assert_eq!(names, matches!(failure, Failure::Forbidden | Failure::NotFound), "{text}");
    }
    let error = repository_error(403, &[("x-accepted-github-permissions", "contents=write; actions=write")], says);
    assert!(error.message().contains("the call accepts contents=write; actions=write"), "{}", error.message());
    let error = repository_error(403, &[("x-accepted-github-permissions", "Sesame, open!")], says);
    assert!(error.message().contains("metadata: read") && !error.message().contains("Sesame"));
}

/// Both kinds of rate limit tell when to come back, by `retry-after` or by the reset on the host's own clock.
#[test]
fn rate_limits_say_when() {
    const DATE: (&str, &str) = ("date", "Mon, 30 Nov 2026 12:00:00 GMT");
    let cases: [(u16, Sent, &str, Failure); 9] = [
        (429, &[("retry-after", "7")], "{}", Failure::RateLimited(Some(7))),
        (403, &[("retry-after", "60")], "{}", Failure::RateLimited(Some(60))),
        (
            403,
            &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1796040090"), DATE],
            "{}",
            Failure::RateLimited(Some(90)),
        ),
        (
            429,
            &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1796039999"), DATE],
            "{}",
            Failure::RateLimited(Some(0)),
        ),
        (403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1796040090")], "{}", Failure::RateLimited(None)),
        (403, &[("x-ratelimit-remaining", "41"), ("x-ratelimit-reset", "1796040090"), DATE], "{}", Failure::Forbidden),
        (403, &[], r#"{"message":"You have exceeded a secondary rate limit."}"#, Failure::RateLimited(None)),
        // Longer numbers than any host sends count as absent.
        (429, &[("retry-after", "999999999999")], "{}", Failure::RateLimited(Some(999_999_999_999))),
        (429, &[("retry-after", "1000000000000")], "{}", Failure::RateLimited(None)),
    ];
    for (status, headers, body, failure) in cases {
        assert_eq!(repository_error(status, headers, body).failure(), &failure, "{headers:?}");
    }
    for odd in ["-1", "+7", "7.0", "0x7", " ", "soon", "Mon, 30 Nov 2026 12:00:00 GMT"] {
        let wire = Wire::plain(move |_| answer(429, &[("retry-after", odd)], "{}"));
        assert_eq!(forge(wire.port()).send(&read()).unwrap().headers.retry_after, None, "{odd}");
    }
}

/// Headers are read with bounds: what does not fit counts as absent, and the rest of the answer stands.
#[test]
fn headers_have_bounds() {
    let send = |headers: Vec<(&'static str, String)>| -> Response {
        let wire = Wire::plain(move |_| {
            let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            answer(200, &headers, "{}")
        });
        forge(wire.port()).send(&read()).unwrap()
    };
    let id = |text: String| send(vec![("x-github-request-id", text)]).headers.request_id;
    assert_eq!(id("A".repeat(256)), Some("A".repeat(256)));
    assert_eq!(id("A".repeat(257)), None);
    assert_eq!(id(String::new()), None);
    assert_eq!(id("a b".to_owned()), None);
    assert_eq!(id("caf\u{e9}".to_owned()), None);
    let place = |length: usize| format!("/api/v3/{}", "a".repeat(length - 8));
    let location = |length: usize| send(vec![("location", place(length))]).headers.location;
    assert_eq!(location(2048).map(|text| text.len()), Some(2048 - 7));
    assert_eq!(location(2049), None);
    let date = send(vec![("date", "Mon, 30 Nov 2026 12:00:00 GMT".to_owned())]).headers.date;
    assert_eq!(date.map(At::get), Some(1_796_040_000_000));
    assert_eq!(
        send(vec![("x-oauth-scopes", "repo, workflow".to_owned())]).headers.oauth_scopes.unwrap(),
        "repo, workflow"
    );
}

fn head(extra: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{extra}\r\n").into_bytes()
}

/// Every way in which an answer can fail to be whole, and what it is called.
fn breakages() -> Vec<(&'static str, Vec<Step>, Broken)> {
    let send = |bytes: &[u8]| vec![Step::Send(bytes.to_vec())];
    let many: String = (0..200).map(|number| format!("x-{number}: y\r\n")).collect();
    vec![
        ("closed without a word", vec![], Broken::Interrupted),
        ("silence", vec![Step::Pause(2_500)], Broken::Timeout),
        (
            "silence after half of the headers",
            [send(b"HTTP/1.1 200 OK\r\nda"), vec![Step::Pause(2_500)]].concat(),
            Broken::Timeout,
        ),
        (
            "silence after the headers",
            [send(&head("content-length: 2\r\n")), vec![Step::Pause(2_500)]].concat(),
            Broken::Timeout,
        ),
        ("dripping headers", vec![Step::Drip(head("content-length: 0\r\n"), 100)], Broken::Timeout),
        (
            "a dripping body",
            vec![Step::Send(head("content-length: 90\r\n")), Step::Drip(vec![b'1'; 90], 100)],
            Broken::Timeout,
        ),
        ("half a status line", send(b"HTTP/1.1 2"), Broken::Interrupted),
        ("half of the headers", send(b"HTTP/1.1 200 OK\r\ndate: Mon"), Broken::Interrupted),
        ("half a body", send(&[head("content-length: 10\r\n"), b"[1,2".to_vec()].concat()), Broken::Interrupted),
        (
            "half a chunk",
            send(&[head("transfer-encoding: chunked\r\n"), b"a\r\n[1,2".to_vec()].concat()),
            Broken::Interrupted,
        ),
        (
            "no last chunk",
            send(&[head("transfer-encoding: chunked\r\n"), b"2\r\n[]\r\n".to_vec()].concat()),
            Broken::Interrupted,
        ),
        (
            "a chunk without a size",
            send(&[head("transfer-encoding: chunked\r\n"), b"zz\r\n[]\r\n0\r\n\r\n".to_vec()].concat()),
            Broken::Malformed,
        ),
        ("garbage", send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), Broken::Malformed),
        ("a page without HTTP", send(b"<html>no</html>\r\n\r\n"), Broken::Malformed),
        ("another version", send(b"HTTP/9.9 200 OK\r\n\r\n"), Broken::Malformed),
        ("a length that is none", send(&head("content-length: many\r\n")), Broken::Malformed),
        ("two lengths", send(&head("content-length: 1\r\ncontent-length: 2\r\n")), Broken::Malformed),
        ("two hundred headers", send(&head(&many)), Broken::Malformed),
        ("a header of 70 KB", send(&head(&format!("x: {}\r\n", "y".repeat(70_000)))), Broken::Malformed),
        (
            "headers without an end",
            send(format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(200_000)).as_bytes()),
            Broken::Malformed,
        ),
        ("a body one byte too large", oversize(), Broken::Malformed),
        ("a chunked body that does not end", endless(), Broken::Malformed),
    ]
}

const LIMIT: usize = 8 * 1024 * 1024;

fn oversize() -> Vec<Step> {
    answer(200, &[], vec![b' '; LIMIT + 1])
}

fn endless() -> Vec<Step> {
    let chunk = [b"100000\r\n".to_vec(), vec![b' '; 0x0010_0000], b"\r\n".to_vec()].concat();
    let mut steps = vec![Step::Send(head("transfer-encoding: chunked\r\n"))];
    steps.extend(std::iter::repeat_n(Step::Send(chunk), 20));
    steps
}

/// S-272, O-086: whatever becomes of the answer, a request leaves once: reads and writes alike are not repeated below the
/// client, and each breakage is told apart. A launch whose answer breaks is unknown, never repeated.
#[test]
fn a_broken_answer_is_told_apart_and_nothing_is_sent_twice() {
    let cases = breakages();
    let count = cases.len();
    std::thread::scope(|scope| {
        for (what, steps, expected) in cases {
            scope.spawn(move || {
                let wire = Wire::plain(move |_| steps.clone());
                let forge = forge(wire.port());
                let start = Instant::now();
                assert_eq!(forge.send(&read()), Err(expected.clone()), "{what}");
                assert!(start.elapsed() < Duration::from_secs(2), "{what} took {:?}", start.elapsed());
                assert_eq!(wire.seen().len(), 1, "{what}");
                assert_eq!(forge.send(&write()), Err(expected), "{what}");
                assert_eq!(wire.seen().len(), 2, "{what}");
            });
        }
    });
    assert_eq!(count, 22);
}

/// A body of exactly the bound is whole; so is one in chunks, an empty one, and one that ends with the connection.
#[test]
fn whole_answers_are_taken() {
    for (steps, length) in [
        (answer(200, &[], vec![b' '; LIMIT]), LIMIT),
        (vec![Step::Send([head("transfer-encoding: chunked\r\n"), b"2\r\n[]\r\n0\r\n\r\n".to_vec()].concat())], 2),
        (vec![Step::Send([head(""), b"[]".to_vec()].concat())], 2),
        (vec![Step::Send(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec())], 0),
        (vec![Step::Send([b"HTTP/1.1 103 Early\r\n\r\n".to_vec(), head("content-length: 0\r\n")].concat())], 0),
    ] {
        let wire = Wire::plain(move |_| steps.clone());
        let answer = forge(wire.port()).send(&read()).unwrap();
        assert_eq!(answer.body.0.len(), length);
    }
}

/// A client tells whether a token is the one that its calls carry, and nothing more; a provider without one cannot tell.
#[test]
fn a_client_tells_its_own_token_from_another() {
    let forge = forge(1);
    assert_eq!(forge.holds(&Token::new(TOKEN).unwrap()), Some(true));
    assert_eq!(forge.holds(&Token::new("another").unwrap()), Some(false));
    let none: TokenProvider = Arc::new(|| Err(Fault::new(Code::SettingsInvalid, "no credential")));
    let without = HttpForge::new(Host::new(None, None, None).unwrap(), none, &Network::default()).unwrap();
    assert_eq!(without.holds(&Token::new(TOKEN).unwrap()), None);
}

/// Nobody listens, or the name does not exist: nothing was sent.
#[test]
fn an_absent_host_is_unreachable() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert_eq!(forge(port).send(&read()), Err(Broken::Unreachable));
    let host = Host::new(Some("https://github.invalid"), None, None).unwrap();
    let forge = HttpForge::new(host, credential(), &Network::default()).unwrap();
    assert_eq!(forge.send(&read()), Err(Broken::Unreachable));
    let clock = SimulatedClock::new(0);
    let error = Client::new(&forge, &clock).user().unwrap_err();
    assert_eq!((error.code(), error.is_transient()), (Code::ApiUnreachable, true));
}

/// Reads may share a connection; a write always has one of its own, so that none dies with an old connection.
#[test]
fn writes_get_a_fresh_connection() {
    let keep = |seen: &Seen| {
        let mut steps = kept(200, &[], "{}");
        // The second read finds a connection that the server has given up without a word.
        if seen.line.contains("/last") {
            steps.pop();
        }
        steps
    };
    let wire = Wire::plain(keep);
    let forge = forge(wire.port());
    for request in [read(), read(), write(), write(), read()] {
        forge.send(&request).unwrap();
    }
    let connections: Vec<_> = wire.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections[0], connections[1], "reads share");
    for index in [2, 3] {
        assert!(!connections[..index].contains(&connections[index]), "{connections:?}");
    }
    forge.send(&Request::new(&READ, "/last".to_owned())).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    forge.send(&read()).unwrap();
    forge.send(&write()).unwrap();
    assert_eq!(wire.seen().len(), 8, "each request arrived once");
}

/// Reads follow redirects inside the API, three at most; a redirect out of it is not followed and the token goes
/// nowhere else; writes follow none.
#[test]
fn redirects_are_followed_inside_the_api_alone() {
    let stranger = Wire::plain(|_| answer(200, &[], "{}"));
    let outside = format!("http://127.0.0.1:{}/api/v3/repos/octo/queue", stranger.port());
    let wire = Wire::plain(move |seen| {
        let path = seen.line.split(' ').nth(1).unwrap();
        match path.rsplit('/').next().unwrap().parse::<usize>() {
            Ok(0) => answer(200, &[], r#"{"id":7,"full_name":"octo/queue","default_branch":"main"}"#),
            Ok(more) => answer(301, &[("location", &format!("/api/v3/repositories/{}", more - 1))], ""),
            Err(_) if path.contains("out") => answer(302, &[("location", &outside)], ""),
            Err(_) if path.contains("git/refs") => answer(307, &[("location", "/api/v3/repositories/0")], "{}"),
            Err(_) => answer(301, &[], ""),
        }
    });
    let forge = forge(wire.port());
    let clock = SimulatedClock::new(0);
    let client = Client::new(&forge, &clock);
    let get = |path: &str| client.repository(&RepositoryName::new(path).unwrap());
    assert_eq!(get("octo/3").unwrap().id.as_str(), "7");
    assert_eq!(wire.seen().len(), 4);
    assert_eq!(get("octo/4").unwrap_err().failure(), &Failure::Moved);
    assert_eq!(wire.seen().len(), 8);
    assert_eq!(get("octo/out").unwrap_err().failure(), &Failure::Moved);
    assert_eq!(get("octo/nowhere").unwrap_err().failure(), &Failure::Moved);
    assert_eq!(wire.seen().len(), 10);
    let sha = Revision::new("a".repeat(40)).unwrap();
    let error = client.create_reference(&name(), "refs/tags/x", &sha).unwrap_err();
    assert_eq!((error.failure(), wire.seen().len()), (&Failure::Moved, 11));
    assert_eq!(stranger.seen().len(), 0);
}

/// Ids come exactly from the JSON token; what is no positive integer is a reply that cannot be used.
#[test]
fn ids_are_exact_integers() {
    let ask = |id: &'static str| {
        let wire = Wire::plain(move |_| {
            answer(200, &[], format!(r#"{{"id":{id},"full_name":"octo/queue","default_branch":null}}"#))
        });
        let forge = forge(wire.port());
        let clock = SimulatedClock::new(0);
        Client::new(&forge, &clock).repository(&name()).map(|found| found.id.as_str().to_owned())
    };
    for id in ["1", "9007199254740991", "9007199254740993", "18446744073709551615"] {
        assert_eq!(ask(id).unwrap(), id);
    }
    for id in [
        "0",
        "-1",
        "1.0",
        "1.5",
        "1e3",
        "9007199254740993.0",
        "18446744073709551616",
        "\"7\"",
        "null",
        "[7]",
        "true",
        "07",
    ] {
        let error = ask(id).unwrap_err();
        assert_eq!((error.failure(), error.code()), (&Failure::Reply, Code::ApiReplyInvalid), "{id}");
    }
}

/// Hostile bodies are replies that cannot be used: too deep, not JSON, another shape, compressed although nobody
/// asked, duplicate members.
#[test]
fn hostile_bodies_are_refused() {
    let deep = format!(
        r#"{{"id":7,"full_name":"o/r","default_branch":null,"x":{}1{}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let deep_list = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let zip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xab, 0xae, 5, 0, 0x43, 0xbf, 0xa6, 0xa3, 2, 0, 0, 0];
    let plain = |text: &str| text.as_bytes().to_vec();
    for body in [
        deep_list.into_bytes(),
        zip,
        plain(""),
        plain("null"),
        plain("[]"),
        plain("{}"),
        plain("<html>"),
        plain("{\"id\":7,\"full_name\":\"o/r\",\"default_branch\":null"),
        plain("{\"id\":7,\"id\":8,\"full_name\":\"o/r\",\"default_branch\":null}"),
        vec![0xff, 0xfe, b'{', b'}'],
    ] {
        let wire = Wire::plain(move |_| answer(200, &[("content-encoding", "gzip")], &body));
        let forge = forge(wire.port());
        let clock = SimulatedClock::new(0);
        assert_eq!(Client::new(&forge, &clock).repository(&name()).unwrap_err().failure(), &Failure::Reply);
    }
    // What nothing depends on is skipped, however deep; it ends no process.
    let wire = Wire::plain(move |_| answer(200, &[], &deep));
    let forge = forge(wire.port());
    let clock = SimulatedClock::new(0);
    let _ = Client::new(&forge, &clock).repository(&name());
}

/// O-086: one POST and no other form of it, whatever the answer; only status 200 with the run's identity in the form
/// of the pinned version is acceptance, and only a refusal with a request id proves that nothing was launched.
#[test]
fn a_launch_is_one_post() {
    let page = "/octo/queue/actions/runs/9";
    let run = move |port: u16, id: &str, page: &str| {
        let at = format!("http://127.0.0.1:{port}");
        format!(r#"{{"workflow_run_id":{id},"run_url":"{at}/api/v3/repos{page}","html_url":"{at}{page}"}}"#)
    };
    let proof: Sent = &[("x-github-request-id", "AB:1")];
    let launch = |status: u16, headers: Sent, id: &'static str, page: &'static str| {
        let wire = Wire::plain(move |seen| {
            let port = seen.header("host").unwrap().rsplit(':').next().unwrap().parse().unwrap();
            let body = if status == 204 { String::new() } else { run(port, id, page) };
            answer(status, headers, body)
        });
        let forge = forge(wire.port());
        let clock = SimulatedClock::new(0);
        let posted = Client::new(&forge, &clock).dispatch(&name(), "w.lock.yml", "refs/tags/t", &[("a", "b")]);
        let seen = wire.seen();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].line, "POST /api/v3/repos/octo/queue/actions/workflows/w.lock.yml/dispatches HTTP/1.1");
        assert_eq!(seen[0].body, br#"{"inputs":{"a":"b"},"ref":"refs/tags/t"}"#);
        posted
    };
    let Posted::Accepted { run_id, .. } = launch(200, proof, "9", page) else { panic!("not accepted") };
    assert_eq!(run_id, Decimal::new("9").unwrap());
    for (status, id, page) in [
        (204, "9", page),
        (201, "9", page),
        (202, "9", page),
        (200, "8", page),
        (200, "9.0", page),
        (200, "\"9\"", page),
        (200, "9", "/octo/other/actions/runs/9"),
        (307, "9", page),
        (408, "9", page),
        (409, "9", page),
        (500, "9", page),
    ] {
        assert_eq!(launch(status, proof, id, page), Posted::Unknown { status: Some(status) });
    }
    for status in [400, 401, 403, 404, 422, 429] {
        assert_eq!(launch(status, proof, "9", page), Posted::Rejected { status, request_id: "AB:1".to_owned() });
        assert_eq!(launch(status, &[], "9", page), Posted::Unknown { status: Some(status) });
    }
    let wire = Wire::plain(|_| vec![]);
    let forge = forge(wire.port());
    let clock = SimulatedClock::new(0);
    assert_eq!(
        Client::new(&forge, &clock).dispatch(&name(), "w.yml", "refs/tags/t", &[]),
        Posted::Unknown { status: None }
    );
    assert_eq!(wire.seen().len(), 1);
}
