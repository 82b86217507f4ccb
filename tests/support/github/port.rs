//! The simulated implementation of the port `Forge`: the same world, in process, with one token.

use std::sync::Mutex;

use wq_action::forge::endpoint::{API_VERSION, Interface};
use wq_action::forge::{Body, Broken, Forge, Headers, Host, Request, Response};
use wq_action::protocol::At;

use super::call::{Answer, Call, Transport};
use super::handle::Github;

/// A way into a simulated GitHub with one token.
pub(crate) struct SimForge {
    github: Github,
    host: Host,
    token: Mutex<String>,
}

impl SimForge {
    /// Goes on with another token, as after a rotation.
    pub(crate) fn use_token(&self, token: &str) {
        token.clone_into(&mut self.token.lock().unwrap());
    }

    /// The world behind it.
    pub(crate) fn github(&self) -> &Github {
        &self.github
    }
}

impl Github {
    /// A way into this world with a token.
    pub(crate) fn forge(&self, token: &str) -> SimForge {
        let (web, api, graphql) = {
            let world = self.world();
            (world.web.clone(), world.api.clone(), world.graphql_address())
        };
        let host = Host::new(Some(&web), Some(&api), Some(&graphql)).expect("a simulated GitHub has valid addresses");
        SimForge { github: self.clone(), host, token: Mutex::new(token.to_owned()) }
    }
}

impl Forge for SimForge {
    fn send(&self, request: &Request) -> Result<Response, Broken> {
        let endpoint = request.endpoint();
        let target = match endpoint.interface {
            Interface::Rest => format!("{}{}", self.github.rest_path(), request.target()),
            Interface::Graphql => self.github.graphql_path(),
        };
        let mut headers = vec![("authorization".to_owned(), format!("Bearer {}", self.token.lock().unwrap()))];
        if endpoint.interface == Interface::Rest {
            headers.push(("x-github-api-version".to_owned(), API_VERSION.to_owned()));
        }
        let body = request.body().unwrap_or_default().as_bytes();
        let call = Call { method: endpoint.method.as_str(), target: &target, headers: &headers, body };
        let answer = self.github.handle(&call);
        match answer.fault {
            Transport::Deliver => Ok(self.response(answer)),
            Transport::Delay(ms) => {
                self.github.delay(ms);
                Ok(self.response(answer))
            }
            Transport::Timeout => Err(Broken::Timeout),
            Transport::DropBefore | Transport::DropAfter | Transport::Reset | Transport::Truncate(_) => {
                Err(Broken::Interrupted)
            }
        }
    }

    fn host(&self) -> &Host {
        &self.host
    }
}

impl SimForge {
    fn response(&self, answer: Answer) -> Response {
        let text = |name: &str| answer.header(name).map(str::to_owned);
        let number = |name: &str| answer.header(name).and_then(|value| value.parse().ok());
        let headers = Headers {
            request_id: text("x-github-request-id"),
            retry_after: number("retry-after"),
            rate_remaining: number("x-ratelimit-remaining"),
            rate_reset: number("x-ratelimit-reset"),
            date: At::new(answer.at.div_euclid(1000) * 1000).ok(),
            location: answer.header("location").and_then(|to| to.strip_prefix(self.host.api())).map(str::to_owned),
            accepted_permissions: text("x-accepted-github-permissions"),
            oauth_scopes: text("x-oauth-scopes"),
        };
        Response { status: answer.status, headers, body: Body(answer.body) }
    }
}
