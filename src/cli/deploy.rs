//! `wq deploy`.

use super::access::Access;
use super::publish::Published;
use super::source::{provenance, request_id};
use super::{Failure, Global, Reply};
use crate::launch::deploy::{Deployed, Deployer, Selection, Update};
use crate::ports::{Clock as _, SystemClock};
use crate::protocol::actor::Role;
use crate::protocol::json::Writer;
use crate::protocol::{Code, PoolName, ProfileName, Wire as _};
use crate::report::label;

/// Take the workers of the default branch into use, for future Claims. The queue need not be quiet.
///
/// Each selected worker is looked at on the verified default revision: its source, compiled workflow, contract stamp and
/// registration. One that holds together becomes the current revision; one that does not is paused, and its Work waits.
/// Claims that were granted keep their route, and scheduling stays as it is. A failed look at GitHub publishes nothing.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Take revisions and availability from the default branch; there is no other way.
    #[arg(long)]
    from_config: bool,
    /// Only workers of this pool, 1 to 256 bytes.
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// Only this worker, 1 to 256 bytes.
    #[arg(long, value_name = "PROFILE")]
    worker_profile: Option<String>,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    let pool = args.pool.clone().map(PoolName::new).transpose().map_err(|fault| Failure::flag(&fault, "--pool"))?;
    let profile = args.worker_profile.clone().map(ProfileName::new).transpose();
    let profile = profile.map_err(|fault| Failure::flag(&fault, "--worker-profile"))?;
    if !args.from_config {
        let message = "a deployment takes everything from the default branch, and that is to be said";
        let failure = Failure::new(Code::DeploymentInvalid, message, "Add --from-config.");
        return Err(failure.at_request());
    }
    let id = request_id(global)?;
    let access = Access::open(global)?;
    let hub = access.github()?;
    let actor = hub.actor(Role::Administrator)?;
    let mut publisher = access.publisher()?;
    let deployed = Deployer {
        ledger: &mut publisher,
        client: hub.client(),
        clock: &SystemClock,
        repository: access.name(),
        actor: &actor,
    }
    .deploy(&Selection { pool, worker_profile: profile }, &id)
    .map_err(|error| {
        // Replay names a line; without one it is the selection or the world that is at fault, not the ledger.
        let line = matches!(&error, crate::launch::error::LaunchError::Ledger(error) if error.line().is_some());
        let failure = Failure::from(error);
        if line { failure } else { failure.at_request() }
    })?;
    let Deployed { updates, publication, current } = deployed;
    let published = publication.map(|publication| Published::new(id, publication));
    if !global.json {
        return Ok(Reply::done(text(&updates, published.as_ref())));
    }
    let mut writer = Writer::new();
    writer.object(|members| {
        match &published {
            Some(published) => published.members(members),
            None => {
                members.name("changed", |w| w.bool(false));
                provenance(&current.projection, Some(&current.commit.to_string()), SystemClock.now(), members);
            }
        }
        members.name("status", |w| w.string(if updates.is_empty() { "already_current" } else { "deployed" }));
        members.name("updates", |w| w.array(&updates, |w, update| write(update, w)));
    });
    Ok(Reply::done(writer.finish()))
}

fn write(update: &Update, writer: &mut Writer) {
    writer.object(|members| {
        members.name("activate", |w| w.bool(update.activate));
        members.name("available", |w| w.bool(update.available));
        if let Some(contract) = &update.contract {
            members.name("contract", |w| contract.write(w));
        }
        members.name("pool", |w| update.pool.write(w));
        members.name("ref", |w| update.revision.write(w));
        members.name("worker_profile", |w| update.worker_profile.write(w));
    });
}

fn text(updates: &[Update], published: Option<&Published>) -> String {
    let mut out = String::new();
    for update in updates {
        out.push_str(&format!(
            "{} in {}: {} at {}{}\n",
            label(update.worker_profile.as_str()),
            label(update.pool.as_str()),
            if update.available { "available" } else { "paused" },
            update.revision.as_str(),
            if update.activate { "" } else { ", for Work that is pinned to it" },
        ));
    }
    match published {
        Some(published) => out.push_str(&published.line()),
        None => out.push_str("every selected worker is current already; nothing written\n"),
    }
    out
}
