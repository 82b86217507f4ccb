//! One call: route, authenticate, strike, check, answer.

use serde_json::{Value, json};

use super::check;
use super::endpoint::{Endpoint, decode};
use super::faults::Strike;
use super::journal::Logged;
use super::rest::{Reply, Request};
use super::shape;
use super::time::http_date;
use super::world::{Edition, World};
use super::{actions, graphql};

/// A request as the transport received it.
pub(crate) struct Call<'a> {
    pub(crate) method: &'a str,
    /// Path and query.
    pub(crate) target: &'a str,
    pub(crate) headers: &'a [(String, String)],
    pub(crate) body: &'a [u8],
}

impl Call<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// What the transport does with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Delivers it.
    Deliver,
    /// Ends the connection without an answer; the world did not act.
    DropBefore,
    /// Ends the connection without an answer; the world acted.
    DropAfter,
    /// Breaks the connection within the status line.
    Reset,
    /// Never answers.
    Timeout,
    /// Announces the whole body and sends so many bytes of it.
    Truncate(usize),
    /// Delivers it so many milliseconds late.
    Delay(u64),
}

/// An answer, and what happens to it on its way.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) fault: Transport,
    /// The server's clock when it answered, in Unix milliseconds.
    pub(crate) at: i64,
}

impl Answer {
    /// A header's value; names in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON, null if it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

impl World {
    /// The path within the REST API, or none for GraphQL; an error for anything outside the API.
    fn inside<'a>(&self, path: &'a str) -> Result<Option<&'a str>, Reply> {
        let path = path.strip_prefix(&self.prefix).ok_or_else(Reply::not_found)?;
        match self.edition {
            Edition::Dotcom if path == "/graphql" => Ok(None),
            Edition::Dotcom => Ok(Some(path)),
            Edition::Enterprise if path == "/api/graphql" => Ok(None),
            Edition::Enterprise => path.strip_prefix("/api/v3").map(Some).ok_or_else(Reply::not_found),
        }
    }

    /// Answers one call. `skew` is what the server's clock is off, in milliseconds.
    pub(super) fn call(&mut self, call: &Call<'_>, skew: i64) -> Answer {
        let (path, query) = call.target.split_once('?').unwrap_or((call.target, ""));
        let inside = self.inside(path);
        let (endpoint, parameters) = match &inside {
            Ok(None) => (Endpoint::GraphQl, Vec::new()),
            Ok(Some(path)) => {
                let path = self.by_number(path);
                Endpoint::find(call.method, &path)
            }
            Err(_) => (Endpoint::Unknown, Vec::new()),
        };
        let body = (!call.body.is_empty()).then(|| serde_json::from_slice(call.body));
        let garbled = matches!(body, Some(Err(_)));
        let mut request = Request {
            endpoint,
            parameters,
            query: pairs(query),
            body: body.and_then(Result::ok),
            token: call.header("authorization").and_then(bearer),
            version: call.header("x-github-api-version").unwrap_or(&self.versions[0]).to_owned(),
            stale: 0,
        };
        let strike = self.faults.strike(endpoint);
        if let Some(Strike::Stale(changes)) = &strike {
            request.stale = *changes;
        }
        let acts = strike.as_ref().is_none_or(Strike::acts);
        self.journal.add(Logged {
            method: call.method.to_owned(),
            endpoint,
            target: call.target.strip_prefix(&self.prefix).unwrap_or(call.target).to_owned(),
            status: None,
            handled: 0,
            account: request.token.as_ref().and_then(|token| self.tokens.get(token)).map(|token| token.account),
            version: call.header("x-github-api-version").map(str::to_owned),
            dispatch_id: asked_dispatch(&request),
            fault: strike.as_ref().map(|strike| format!("{strike:?}")),
        });
        let found = check::request(self.edition, call.method, &request);
        self.violations.extend(found);
        let reply = if acts { self.act(&request, garbled, strike.as_ref()) } else { Reply::not_found() };
        let answer = self.deliver(&request, reply, strike, skew);
        if let Some(last) = self.journal.calls.last_mut() {
            let heard = matches!(answer.fault, Transport::Deliver | Transport::Truncate(_) | Transport::Delay(_));
            last.status = heard.then_some(answer.status);
        }
        answer
    }

    /// Lets the world act, twice if struck so, and holds the reply against the schemas.
    fn act(&mut self, request: &Request, garbled: bool, strike: Option<&Strike>) -> Reply {
        let once = |world: &mut Self| {
            if let Some(last) = world.journal.calls.last_mut() {
                last.handled += 1;
            }
            world.reply(request, garbled)
        };
        let reply = once(self);
        if strike == Some(&Strike::Duplicate) {
            once(self);
        }
        self.hold(request, &reply);
        reply
    }

    /// Holds a reply against the schemas.
    fn hold(&mut self, request: &Request, reply: &Reply) {
        if !check::available() {
            return;
        }
        let body = reply.body.as_ref();
        let shape = body.map(|body| shape::of(body, &mut |mark| self.spelled(mark).1));
        let edition = self.edition;
        let found = check::reply(edition, request, reply.status, shape, || {
            body.map(|body| serde_json::from_str(&self.spell(body)).expect("what is spelled out is JSON"))
        });
        self.violations.extend(found);
    }

    fn reply(&mut self, request: &Request, garbled: bool) -> Reply {
        if !self.spend(request.token.as_deref()) {
            return Reply::error(403, "API rate limit exceeded");
        }
        if request.endpoint == Endpoint::Unknown {
            return Reply::not_found();
        }
        if request.endpoint != Endpoint::GraphQl && !self.versions.contains(&request.version) {
            return Reply::error(400, "The given API version is not supported.");
        }
        if garbled {
            return Reply::error(400, "Problems parsing JSON");
        }
        match request.endpoint {
            Endpoint::GraphQl => graphql::answer(self, request),
            _ => self.rest(request),
        }
    }

    /// `/repositories/{id}/…`, where redirects lead, as `/repos/{owner}/{repo}/…`.
    fn by_number(&self, path: &str) -> String {
        let rest = path.strip_prefix("/repositories/");
        let split = rest.map(|rest| rest.split_once('/').map_or((rest, ""), |(id, rest)| (id, rest)));
        let found = split.and_then(|(id, rest)| Some((self.repositories.get(&id.parse().ok()?)?, rest)));
        match found {
            Some((repository, "")) => format!("/repos/{}", self.full_name(repository)),
            Some((repository, rest)) => format!("/repos/{}/{rest}", self.full_name(repository)),
            None => path.to_owned(),
        }
    }

    /// Headers, bytes, and what the fault does to them.
    fn deliver(&mut self, request: &Request, reply: Reply, strike: Option<Strike>, skew: i64) -> Answer {
        let mut reply = reply;
        let (mut fault, mut with_id, mut raw) = (Transport::Deliver, true, None);
        let now = self.now() + skew;
        // An error of a fault plan is one that GitHub could give, so it is held against the schemas too.
        let planned = matches!(
            strike,
            Some(Strike::Status(_) | Strike::Echo(_) | Strike::StatusAfter(_) | Strike::StatusWithoutId(_))
                | Some(Strike::SecondaryLimit(_) | Strike::PrimaryLimit(_))
        );
        match strike {
            None | Some(Strike::Duplicate | Strike::Stale(_)) => {}
            Some(Strike::DropBefore) => fault = Transport::DropBefore,
            Some(Strike::DropAfter) => fault = Transport::DropAfter,
            Some(Strike::ResetBefore | Strike::ResetAfter) => fault = Transport::Reset,
            Some(Strike::TimeoutBefore | Strike::TimeoutAfter) => fault = Transport::Timeout,
            Some(Strike::Delay(ms)) => fault = Transport::Delay(ms),
            Some(Strike::Status(status) | Strike::StatusAfter(status)) => reply = struck(status),
            Some(Strike::Echo(status)) => {
                let text = echoed(request.token.as_deref());
                reply = Reply::error(status, &text).header("x-echo", text);
            }
            Some(Strike::StatusWithoutId(status)) => {
                reply = struck(status);
                with_id = false;
            }
            Some(Strike::SecondaryLimit(seconds)) => {
                let message =
                    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
                reply = Reply::error(403, message).header("retry-after", seconds.to_string());
            }
            Some(Strike::PrimaryLimit(seconds)) => {
                let reset = now.div_euclid(1000) + i64::try_from(seconds).unwrap_or(i64::MAX);
                reply = Reply::error(403, "API rate limit exceeded")
                    .header("x-ratelimit-remaining", "0")
                    .header("x-ratelimit-reset", reset.to_string());
            }
            Some(Strike::HalfBody) => fault = Transport::Truncate(0),
            Some(Strike::Garbage) => raw = Some(b"{\"id\": nothing that is JSON".to_vec()),
            Some(Strike::WrongShape) => reply.body = Some(json!([{"unexpected": true}])),
            Some(Strike::Html) => {
                reply = Reply { status: 502, body: None, headers: vec![("content-type", "text/html".to_owned())] };
                raw = Some(b"<html><body><h1>502 Bad Gateway</h1></body></html>".to_vec());
                with_id = false;
            }
        }
        if planned && reply.status >= 400 {
            self.hold(request, &reply);
        }
        let body = match (raw, &reply.body) {
            (Some(raw), _) => raw,
            (None, Some(body)) => self.spell(body).into_bytes(),
            (None, None) => Vec::new(),
        };
        if fault == Transport::Truncate(0) {
            fault = Transport::Truncate(body.len() / 2);
        }
        let headers = self.headers(request, &reply, with_id, now);
        Answer { status: reply.status, headers, body, fault, at: now }
    }

    fn headers(&self, request: &Request, reply: &Reply, with_id: bool, now: i64) -> Vec<(String, String)> {
        let token = request.token.as_deref();
        let (limit, used, reset) = self.usage(token);
        let mut headers: Vec<(&str, String)> = vec![("date", http_date(now))];
        let mut own = reply.headers.clone();
        let mut default = |name: &'static str, value: String| {
            if !own.iter().any(|(given, _)| *given == name) {
                own.push((name, value));
            }
        };
        default("x-ratelimit-limit", limit.to_string());
        default("x-ratelimit-used", used.to_string());
        default("x-ratelimit-remaining", (limit - used).to_string());
        default("x-ratelimit-reset", reset.to_string());
        default(
            "x-ratelimit-resource",
            if request.endpoint == Endpoint::GraphQl { "graphql" } else { "core" }.to_owned(),
        );
        if reply.body.is_some() {
            default("content-type", "application/json; charset=utf-8".to_owned());
        }
        if request.endpoint != Endpoint::GraphQl && self.versions.contains(&request.version) {
            default("x-github-api-version-selected", request.version.clone());
        }
        if let Some(super::world::Issued::Classic(scopes)) =
            token.and_then(|token| self.tokens.get(token)).map(|token| token.issued)
        {
            default("x-oauth-scopes", scopes.to_owned());
        }
        if with_id {
            default("x-github-request-id", format!("SIM0:{:04X}", self.journal.total));
        }
        headers.extend(own);
        headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// A token in every form that it travels in.
pub(super) fn echoed(token: Option<&str>) -> String {
    use base64::Engine as _;
    let token = token.unwrap_or("nobody");
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("x-access-token:{token}"));
    format!("fatal: denied to {token} (Bearer {token}, Basic {encoded})")
}

/// A planned error, worded as the host would.
fn struck(status: u16) -> Reply {
    let reply = Reply::error(status, "A planned fault of the simulated GitHub");
    if status == 429 { reply.header("retry-after", "1") } else { reply }
}

/// The name and value pairs of a query, decoded.
fn pairs(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| decode(&text.replace('+', " "));
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

/// The token of an `Authorization` header.
fn bearer(header: &str) -> Option<String> {
    let (scheme, token) = header.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token")).then(|| token.trim().to_owned())
}

/// The dispatch id of the assignment that a dispatch carries, even if the call never reaches the world.
fn asked_dispatch(request: &Request) -> Option<String> {
    if request.endpoint != Endpoint::Dispatch {
        return None;
    }
    actions::dispatch_id(request.body.as_ref()?["inputs"]["work_queue_assignment"].as_str()?)
}
