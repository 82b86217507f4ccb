//! Who asked (jobs.md 5.3.4, lifecycle.md 2.3). Intents that an agent staged are published by a later job, perhaps in
//! a later attempt of the run. The request keeps the attempt that staged it, so it is the same request every time.

use super::error::LaunchError;
use super::publisher::{Authenticated, Home, Scope};
use crate::forge::Client;
use crate::protocol::actor::{Actor, Role};
use crate::protocol::fault::ensure;
use crate::protocol::identity::Within;
use crate::protocol::json::Scanner;
use crate::protocol::{Code, Fault, Text, Wire as _};
use crate::runner::Context;

/// Longest origin, in bytes.
const MAX_ORIGIN_BYTES: usize = 4096;

/// The logical requester of this job's intents, and the attempt that publishes them.
#[derive(Clone, Debug)]
pub struct Origin {
    actor: Actor,
    publisher_attempt: i64,
}

impl Origin {
    /// The actor of the requests.
    #[must_use]
    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    /// The attempt that publishes, for diagnostics alone: it is in no actor, fingerprint or ledger.
    #[must_use]
    pub fn publisher_attempt(&self) -> i64 {
        self.publisher_attempt
    }
}

/// The trusted origin of what an authenticated job publishes: the one that the environment carries, if the host
/// confirms it, or the job's own run.
///
/// # Errors
/// `work_queue_intent_origin_required` for a later attempt without one, `work_queue_intent_origin_limit` above 4,096
/// bytes, `work_queue_intent_origin_mismatch` for one that is malformed or of another run,
/// `work_queue_intent_origin_read_failed` when its attempt cannot be read; otherwise as
/// [`super::publisher::authenticate`].
pub fn trusted_origin(client: Client<'_>, context: &Context, publisher: &Authenticated) -> Result<Origin, LaunchError> {
    let current = &publisher.actor;
    let publisher_attempt = attempt(current).ok_or_else(mismatch)?;
    let Some(text) = context.intent_origin() else {
        let own = publisher_attempt == 1 || current.role == Role::Worker;
        if !own {
            return Err(Fault::from(Code::WorkQueueIntentOriginRequired).into());
        }
        return Ok(Origin { actor: current.clone(), publisher_attempt });
    };
    let stated = read(text)?;
    let earlier = attempt(&stated).filter(|attempt| *attempt <= publisher_attempt).ok_or_else(mismatch)?;
    let same_run = stated.role == current.role
        && stated.principal == current.principal
        && stated.repository == current.repository
        && stated.workflow == current.workflow
        && stated.run_id == current.run_id;
    if !same_run {
        return Err(mismatch().into());
    }
    let actor = if earlier == publisher_attempt {
        current.clone()
    } else {
        let run = client.run_attempt(publisher.repository(), context.run_id(), earlier).map_err(|error| {
            let message = format!("the attempt that the intent origin names could not be read: {}", error.message());
            Fault::new(Code::WorkQueueIntentOriginReadFailed, message)
        })?;
        let scope = Scope { dispatch_id: current.dispatch_id.clone(), claim_handle: current.claim_handle.clone() };
        Home::of(publisher).verify(run, context, earlier, current.role, &scope)?.actor
    };
    // The origin may have been captured before a Claim was meant.
    let mut compared = actor.clone();
    if stated.claim_handle.is_none() {
        compared.claim_handle = None;
    }
    if compared != stated {
        return Err(mismatch().into());
    }
    tracing::debug!(publisher_attempt, origin_attempt = earlier, "origin confirmed");
    Ok(Origin { actor, publisher_attempt })
}

/// Strict JSON of a closed actor.
fn read(text: &str) -> Result<Actor, Fault> {
    ensure!(text.len() <= MAX_ORIGIN_BYTES, WorkQueueIntentOriginLimit, Code::WorkQueueIntentOriginLimit.meaning());
    let malformed = |_| Fault::new(Code::WorkQueueIntentOriginMismatch, "the intent origin is no actor of a run");
    // An actor holds no resource, so no host is approved here.
    let mut scanner = Scanner::new("");
    let document = scanner.read(&Text::from(text)).map_err(malformed)?;
    let actor = Actor::read(document.root(), Code::WorkQueueIntentOriginMismatch).map_err(malformed)?;
    actor.check().map_err(malformed)?;
    Ok(actor)
}

fn attempt(actor: &Actor) -> Option<i64> {
    actor.run_attempt.map(Within::get)
}

fn mismatch() -> Fault {
    Code::WorkQueueIntentOriginMismatch.into()
}
