//! The simulated GitHub as a [`Forge`]: the same typed calls as in production, without a network.

use std::sync::Mutex;
use std::time::Duration;

use wq_action::forge::endpoint::Interface;
use wq_action::forge::{Body, Broken, Forge, Headers, Host, Request, Response};
use wq_action::ports::SimulatedClock;
use wq_action::protocol::{At, Token};

use super::call::{Call, Transport};
use super::handle::Github;

/// A way to the simulated world with one credential.
pub(crate) struct Port<'a> {
    github: Github,
    token: Mutex<String>,
    host: Host,
    clock: &'a SimulatedClock,
}

impl<'a> Port<'a> {
    /// Calls with this token. Waiting for an answer that does not come moves the clock.
    pub(crate) fn new(github: &Github, token: &str, clock: &'a SimulatedClock) -> Self {
        let (web, api, graphql) = github.own_addresses();
        let host = Host::new(Some(&web), Some(&api), Some(&graphql)).expect("a simulated GitHub has valid addresses");
        Self { github: github.clone(), token: Mutex::new(token.to_owned()), host, clock }
    }

    /// The same way to another host.
    pub(crate) fn on(self, host: Host) -> Self {
        Self { host, ..self }
    }

    /// Another token from now on.
    pub(crate) fn rotate(&self, token: &str) {
        token.clone_into(&mut self.token.lock().unwrap());
    }
}

impl Forge for Port<'_> {
    fn send(&self, request: &Request) -> Result<Response, Broken> {
        let target = match request.endpoint().interface {
            Interface::Rest => format!("{}{}", self.github.rest_path(), request.target()),
            Interface::Graphql => self.github.graphql_path(),
        };
        let token = self.token.lock().unwrap().clone();
        let mut headers = vec![("authorization".to_owned(), format!("Bearer {token}"))];
        if request.is_versioned() {
            headers.push(("x-github-api-version".to_owned(), wq_action::forge::endpoint::API_VERSION.to_owned()));
        }
        let answer = self.github.handle(&Call {
            method: request.endpoint().method.as_str(),
            target: &target,
            headers: &headers,
            body: request.body().unwrap_or("").as_bytes(),
        });
        match answer.fault {
            Transport::Deliver => {}
            Transport::Delay(ms) => self.clock.advance(Duration::from_millis(ms)),
            Transport::Timeout => {
                self.clock.advance(Duration::from_secs(request.endpoint().seconds));
                return Err(Broken::Timeout);
            }
            Transport::DropBefore | Transport::DropAfter | Transport::Reset | Transport::Truncate(_) => {
                return Err(Broken::Interrupted);
            }
        }
        let number = |name: &str| answer.header(name).and_then(|text| text.parse().ok());
        let text = |name: &str| answer.header(name).filter(|text| !text.is_empty()).map(str::to_owned);
        let below = |location: &str| location.strip_prefix(self.host.api()).map(str::to_owned);
        Ok(Response {
            status: answer.status,
            headers: Headers {
                request_id: text("x-github-request-id"),
                retry_after: number("retry-after"),
                rate_remaining: number("x-ratelimit-remaining"),
                rate_reset: number("x-ratelimit-reset"),
                date: At::new(answer.at).ok(),
                location: text("location").as_deref().and_then(below),
                elsewhere: text("location").filter(|location| !location.starts_with(self.host.api())),
                accepted_permissions: text("x-accepted-github-permissions"),
                oauth_scopes: text("x-oauth-scopes"),
            },
            body: Body(answer.body),
        })
    }

    fn fetch(&self, address: &str, most: u64) -> Result<Option<Vec<u8>>, Broken> {
        let stored = self.github.store(address).ok_or(Broken::Unreachable)?;
        let most = usize::try_from(most).unwrap_or(usize::MAX).saturating_add(1);
        Ok((stored.status == 200).then(|| stored.body[..stored.body.len().min(most)].to_vec()))
    }

    fn host(&self) -> &Host {
        &self.host
    }

    fn holds(&self, token: &Token) -> Option<bool> {
        Token::new(self.token.lock().unwrap().clone()).ok().map(|own| own == *token)
    }
}
