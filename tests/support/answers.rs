//! A GitHub that gives prepared answers: one body for each target, and a list of what was asked.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::Value;
use wq_action::forge::{Body, Broken, Client, Forge, Headers, Host, Request, Response};
use wq_action::ports::SimulatedClock;
use wq_action::protocol::Token;

/// Answers by target; whatever else is asked for is not there.
pub(crate) struct Answers {
    host: Host,
    clock: SimulatedClock,
    /// Status and body of each target.
    pub(crate) by_target: BTreeMap<String, (u16, Value)>,
    /// The token that the calls carry, if it can be told.
    pub(crate) token: Option<Token>,
    asked: RefCell<Vec<String>>,
}

impl Answers {
    pub(crate) fn new() -> Self {
        Self {
            host: Host::new(None, None, None).unwrap(),
            clock: SimulatedClock::new(0),
            by_target: BTreeMap::new(),
            token: None,
            asked: RefCell::default(),
        }
    }

    /// The same with one more answer of status 200.
    pub(crate) fn with(mut self, target: &str, body: Value) -> Self {
        self.by_target.insert(target.to_owned(), (200, body));
        self
    }

    pub(crate) fn client(&self) -> Client<'_> {
        Client::new(self, &self.clock)
    }

    /// What was asked since the last look.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.take()
    }
}

impl Forge for Answers {
    fn send(&self, request: &Request) -> Result<Response, Broken> {
        self.asked.borrow_mut().push(request.target().to_owned());
        let (status, body) = self.by_target.get(request.target()).cloned().unwrap_or((404, Value::Null));
        if status == 0 {
            return Err(Broken::Timeout);
        }
        Ok(Response { status, headers: Headers::default(), body: Body(body.to_string().into_bytes()) })
    }

    fn host(&self) -> &Host {
        &self.host
    }

    fn holds(&self, token: &Token) -> Option<bool> {
        self.token.as_ref().map(|own| own == token)
    }
}
