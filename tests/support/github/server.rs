//! The world behind loopback HTTP: REST, GraphQL and smart-HTTP Git, one thread a connection.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;

use super::super::http_git::{Request, backend, read_request};
use super::call::{Answer, Call, Transport, echoed};
use super::endpoint::Endpoint;
use super::faults::Strike;
use super::handle::Shared;
use super::journal::Logged;
use super::world::{Area, Edition, Level, Named, World};

/// How to serve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// How long an answer that never comes keeps the connection open.
    pub(crate) hang: Duration,
    /// Whether replies carry this server's addresses, so that a client finds its own host in them; else the world's.
    pub(crate) own_addresses: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { hang: Duration::from_secs(60), own_addresses: true }
    }
}

/// A server of one world. It stops accepting when it is dropped.
pub(crate) struct Server {
    port: u16,
    web: String,
    api: String,
    graphql: String,
    stop: Arc<AtomicBool>,
}

impl Server {
    pub(super) fn start(world: Shared, skew: i64, options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = Arc::new(AtomicBool::new(false));
        let (prefix, edition) = {
            let world = world.lock().unwrap();
            (world.prefix.clone(), world.edition)
        };
        let web = format!("http://127.0.0.1:{port}{prefix}");
        let (api, graphql) = match edition {
            Edition::Dotcom => (web.clone(), format!("{web}/graphql")),
            Edition::Enterprise => (format!("{web}/api/v3"), format!("{web}/api/graphql")),
        };
        let own = options.own_addresses.then(|| (web.clone(), api.clone()));
        let stopped = Arc::clone(&stop);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::SeqCst) {
                    break;
                }
                let (world, own) = (Arc::clone(&world), own.clone());
                std::thread::spawn(move || serve_one(&world, skew, own, options.hang, &stream));
            }
        });
        Self { port, web, api, graphql, stop }
    }

    /// The port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// What `GITHUB_SERVER_URL` would be; Git remotes are `{this}/owner/repo.git`.
    pub(crate) fn server_url(&self) -> &str {
        &self.web
    }

    /// What `GITHUB_API_URL` would be.
    pub(crate) fn api_url(&self) -> &str {
        &self.api
    }

    /// What `GITHUB_GRAPHQL_URL` would be.
    pub(crate) fn graphql_url(&self) -> &str {
        &self.graphql
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the accepting thread, which then ends.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn serve_one(world: &Shared, skew: i64, own: Option<(String, String)>, hang: Duration, stream: &TcpStream) {
    let Some(request) = read_request(stream) else { return };
    let answer = match git_service(&request) {
        Some(service) => git(world, &request, service),
        None => {
            let target = match request.query.is_empty() {
                true => request.path.clone(),
                false => format!("{}?{}", request.path, request.query),
            };
            let call =
                Call { method: &request.method, target: &target, headers: &request.headers, body: &request.body };
            let mut world = world.lock().unwrap();
            if let Some(stored) = world.storage(&request.path, request.header("authorization").is_some()) {
                drop(world);
                return send(stream, &stored, hang);
            }
            let theirs = (world.web.clone(), world.api.clone());
            (world.web, world.api) = own.unwrap_or_else(|| theirs.clone());
            world.spelled.clear();
            let answer = world.call(&call, skew);
            (world.web, world.api) = theirs;
            world.spelled.clear();
            answer
        }
    };
    send(stream, &answer, hang);
}

/// Sends an answer as its fault says.
fn send(mut stream: &TcpStream, answer: &Answer, hang: Duration) {
    let mut head = format!("HTTP/1.1 {} Status\r\nConnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if answer.status != 204 {
        head.push_str(&format!("content-length: {}\r\n", answer.body.len()));
    }
    head.push_str("\r\n");
    let body = match answer.fault {
        Transport::DropBefore | Transport::DropAfter => return,
        Transport::Reset => return drop(stream.write_all(b"HTTP/1.1 2")),
        Transport::Timeout => return std::thread::sleep(hang),
        Transport::Truncate(length) => &answer.body[..length.min(answer.body.len())],
        Transport::Delay(ms) => {
            std::thread::sleep(Duration::from_millis(ms));
            &answer.body[..]
        }
        Transport::Deliver => &answer.body[..],
    };
    // A client that is gone is no failure of the server.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

/// Whether a request is of smart-HTTP Git, and whether it writes.
fn git_service(request: &Request) -> Option<Endpoint> {
    let service = request.query.strip_prefix("service=");
    if request.path.ends_with("/git-receive-pack") || service == Some("git-receive-pack") {
        Some(Endpoint::GitPush)
    } else if request.path.ends_with("/git-upload-pack") || service == Some("git-upload-pack") {
        Some(Endpoint::GitFetch)
    } else {
        None
    }
}

fn plain(status: u16, headers: &[(&str, &str)]) -> Answer {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Answer { status, headers, body: Vec::new(), fault: Transport::Deliver, at: 0 }
}

/// Answers a Git request from the attached repository, to a token that may. The world is not locked meanwhile, as
/// Git has locks of its own.
fn git(world: &Shared, request: &Request, service: Endpoint) -> Answer {
    let (strike, admitted, echo) = {
        let mut world = world.lock().unwrap();
        let strike = world.faults.strike(service);
        let token = request.header("authorization").and_then(basic);
        let admitted = admit(&world, request, service, token.as_deref());
        let account = token.as_ref().and_then(|token| world.tokens.get(token)).map(|token| token.account);
        world.journal.add(Logged {
            method: request.method.clone(),
            endpoint: service,
            target: request.path.clone(),
            status: None,
            handled: u32::from(admitted.is_ok() && strike.as_ref().is_none_or(Strike::acts)),
            account,
            version: None,
            dispatch_id: None,
            fault: strike.as_ref().map(|strike| format!("{strike:?}")),
        });
        (strike, admitted, echoed(token.as_deref()))
    };
    let acts = strike.as_ref().is_none_or(Strike::acts);
    let mut answer = match admitted {
        Err(refusal) => refusal,
        Ok(_) if !acts => plain(500, &[]),
        Ok((bare, rest)) => {
            let inner = Request { path: format!("/queue.git{rest}"), ..request.clone() };
            let (status, headers, body) = backend(bare.around(), &inner);
            let headers = headers.lines().filter_map(|line| line.split_once(": "));
            let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            Answer { status, headers, body, fault: Transport::Deliver, at: 0 }
        }
    };
    match strike {
        None | Some(Strike::Duplicate | Strike::Stale(_)) => {}
        Some(Strike::DropBefore | Strike::DropAfter) => answer.fault = Transport::DropAfter,
        Some(Strike::ResetBefore | Strike::ResetAfter) => answer.fault = Transport::Reset,
        Some(Strike::TimeoutBefore | Strike::TimeoutAfter) => answer.fault = Transport::Timeout,
        Some(Strike::Delay(ms)) => answer.fault = Transport::Delay(ms),
        Some(Strike::HalfBody) => answer.fault = Transport::Truncate(answer.body.len() / 2),
        Some(Strike::Status(status) | Strike::StatusWithoutId(status) | Strike::StatusAfter(status)) => {
            answer = plain(status, &[]);
        }
        Some(Strike::Echo(status)) => {
            answer = plain(status, &[("content-type", "text/plain"), ("x-echo", &echo)]);
            answer.body = echo.into_bytes();
        }
        Some(Strike::SecondaryLimit(_) | Strike::PrimaryLimit(_)) => answer = plain(429, &[("retry-after", "1")]),
        Some(Strike::Garbage | Strike::WrongShape) => answer.body = b"nothing that Git understands".to_vec(),
        Some(Strike::Html) => answer = plain(502, &[("content-type", "text/html")]),
    }
    answer
}

/// The attached repository of a Git request and the path within it, if the token may.
fn admit(
    world: &World,
    request: &Request,
    service: Endpoint,
    token: Option<&str>,
) -> Result<(Arc<super::super::git::Bare>, String), Answer> {
    let challenge = || plain(401, &[("www-authenticate", "Basic realm=\"GitHub\"")]);
    if world.who(token).is_err() {
        return Err(challenge());
    }
    let path = request.path.strip_prefix(&world.prefix).unwrap_or(&request.path);
    let mut parts = path.trim_start_matches('/').splitn(3, '/');
    let owner = parts.next().unwrap_or_default();
    let name = parts.next().unwrap_or_default();
    let rest = format!("/{}", parts.next().unwrap_or_default());
    let found = world.named(&format!("{owner}/{}", name.trim_end_matches(".git")));
    let (Some(Named::Here(id) | Named::Moved(id)), need) = (
        found.filter(|named| matches!(named, Named::Here(id) | Named::Moved(id) if world.sees(token, *id))),
        if service == Endpoint::GitPush { Level::Write } else { Level::Read },
    ) else {
        return Err(if token.is_some() { plain(404, &[]) } else { challenge() });
    };
    if world.level(token, id, Area::Contents) < need {
        return Err(if token.is_some() { plain(403, &[]) } else { challenge() });
    }
    if need == Level::Write && world.repositories[&id].archived {
        return Err(plain(403, &[]));
    }
    let bare = world.repositories[&id].bare.clone();
    bare.map(|bare| (bare, rest)).ok_or_else(|| plain(404, &[]))
}

/// The token of basic authentication as `x-access-token`.
fn basic(header: &str) -> Option<String> {
    let (scheme, given) = header.split_once(' ')?;
    let decoded = base64::engine::general_purpose::STANDARD.decode(given.trim()).ok()?;
    let decoded = String::from_utf8(decoded).ok()?;
    let (_, token) = decoded.strip_prefix("x-access-token").and_then(|rest| rest.split_once(':'))?;
    scheme.eq_ignore_ascii_case("basic").then(|| token.to_owned())
}
