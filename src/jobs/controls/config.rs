//! The protected configuration of the controls (jobs.md 5.3.1): which workers the caller approves, how many launches its
//! run has, and the credential of launches, which is not touched before something is to be launched.

use std::sync::Arc;

use crate::forge::{Client, Forge};
use crate::launch::approve::Allowlist;
use crate::launch::credential::{CredentialKind, LaunchClient};
use crate::launch::route::CONTROL_CONFIG;
use crate::ports::Clock;
use crate::protocol::{Code, Fault, Token, TokenProvider};

use crate::jobs::error::JobError;
use crate::jobs::readers::Connect;
use crate::jobs::world::World;

/// The launch credential of workflows whose configuration names none: token, kind, and the App's slug.
const LAUNCH_TOKEN: &str = "GH_AW_WORK_QUEUE_LAUNCH_TOKEN";
const LAUNCH_KIND: &str = "GH_AW_WORK_QUEUE_LAUNCH_CREDENTIAL";
const LAUNCH_SLUG: &str = "GH_AW_WORK_QUEUE_LAUNCH_APP_SLUG";

/// The configuration, its credential unread.
pub struct ControlConfig {
    /// The approved workers.
    pub allowed: Allowlist,
    /// Launches that the whole run may make.
    pub budget: u32,
    kind: Option<(String, Option<String>)>,
    token: Option<String>,
}

/// The launch credential in use.
pub struct LaunchCredential<'c> {
    forge: Box<dyn Forge + 'c>,
    kind: Option<CredentialKind>,
    token: Token,
}

impl ControlConfig {
    /// Reads `GH_AW_WORK_QUEUE_CONTROL_CONFIG` and the budget.
    ///
    /// # Errors
    /// `settings_invalid` for a configuration that is missing, malformed or not for the queue; `policy_missing` for lists
    /// of workers that are malformed; `work_queue_dispatch_budget_invalid`.
    pub fn read(world: &World<'_>) -> Result<Self, JobError> {
        let invalid = |message: &'static str| JobError::from(Fault::new(Code::SettingsInvalid, message));
        let text = world.variables.get(CONTROL_CONFIG);
        let text = text.ok_or_else(|| invalid("the configuration of the queue's controls is missing"))?;
        let allowed = Allowlist::compiled(text)?;
        let config: serde_json::Value = serde_json::from_str(text)
            .map_err(|_| invalid("the configuration of the queue's controls is malformed"))?;
        if config.get("work_queue_enabled").and_then(serde_json::Value::as_bool) != Some(true) {
            return Err(invalid("the configuration of the controls is not for the queue"));
        }
        let string = |value: Option<&serde_json::Value>| value.and_then(serde_json::Value::as_str).map(str::to_owned);
        let compiled_max = match config.get("max") {
            None | Some(serde_json::Value::Null) => None,
            Some(serde_json::Value::String(digits)) => Some(digits.parse().unwrap_or(-1)),
            Some(number) => Some(number.as_i64().unwrap_or(-1)),
        };
        let variable = |name| world.variables.get(name).map(str::to_owned);
        let kind = match config.get("work_queue_dispatch_credential") {
            None | Some(serde_json::Value::Null) => variable(LAUNCH_KIND).map(|kind| (kind, variable(LAUNCH_SLUG))),
            Some(credential) => {
                Some((string(credential.get("kind")).unwrap_or_default(), string(credential.get("app_slug"))))
            }
        };
        let token = string(config.get("github-token")).filter(|token| !token.is_empty());
        Ok(Self {
            allowed,
            budget: world.context.dispatch_budget(compiled_max)?,
            kind,
            token: token.or_else(|| variable(LAUNCH_TOKEN)),
        })
    }

    /// Takes the launch credential up: first what protected configuration says about it, then a way of its own to the
    /// host. Nothing was published by then.
    ///
    /// # Errors
    /// As [`CredentialKind::new`]; `work_queue_dispatch_credential_binding_required` without a token,
    /// `work_queue_dispatch_credential_token_invalid`.
    pub fn credential<'c>(&self, connect: &'c dyn Connect) -> Result<LaunchCredential<'c>, JobError> {
        let kind = self.kind.as_ref().map(|(kind, slug)| CredentialKind::new(kind, slug.as_deref())).transpose()?;
        let token = self.token.as_deref().ok_or(Fault::from(Code::WorkQueueDispatchCredentialBindingRequired))?;
        let token = Token::new(token).map_err(|_| Fault::from(Code::WorkQueueDispatchCredentialTokenInvalid))?;
        Ok(LaunchCredential { forge: connect.connect(&token)?, kind, token })
    }
}

impl LaunchCredential<'_> {
    /// The client that sends launches. It is another one than the publisher's, even with one token.
    #[must_use]
    pub fn client<'s>(&'s self, clock: &'s dyn Clock) -> LaunchClient<'s> {
        let token = self.token.clone();
        let selected: TokenProvider = Arc::new(move || Ok(token.clone()));
        LaunchClient::new(Client::new(&*self.forge, clock), self.kind.clone(), Some(selected))
    }
}
