//! Plain calls in process, for tests of the simulator and for what a person would do with `curl`.

use serde_json::Value;

use super::call::{Answer, Call};
use super::handle::Github;

/// The API version of the queue's own calls.
pub(crate) const VERSION: &str = "2026-03-10";

impl Github {
    /// `GET` with a token, or none if it is empty.
    pub(crate) fn get(&self, token: &str, target: &str) -> Answer {
        self.ask("GET", token, target, None, VERSION)
    }

    /// `POST` of a JSON body, or of none for null.
    pub(crate) fn post(&self, token: &str, target: &str, body: &Value) -> Answer {
        self.ask("POST", token, target, (!body.is_null()).then_some(body), VERSION)
    }

    /// Any call of any API version.
    pub(crate) fn ask(&self, method: &str, token: &str, target: &str, body: Option<&Value>, version: &str) -> Answer {
        let mut headers = vec![("X-GitHub-Api-Version".to_owned(), version.to_owned())];
        if !token.is_empty() {
            headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
        }
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        self.handle(&Call { method, target, headers: &headers, body: &body })
    }
}
