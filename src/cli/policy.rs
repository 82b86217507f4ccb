//! `wq policy`.

use std::path::PathBuf;

use super::access::Access;
use super::administer::publish;
use super::publish::{Published, policy_file};
use super::{Failure, Global, Reply};
use crate::launch::route::{resolve, verify_policy};
use crate::protocol::json::Writer;
use crate::protocol::operation::{Operation, PolicyOperation};
use crate::protocol::policy::Policy;
use crate::protocol::request::RequestKind;
use crate::protocol::{Code, Digest, Epoch, Fault, Wire as _};
use crate::report::label;

/// Install another Policy in a quiet queue, for future Work only.
///
/// Quiet means: no Work waits or runs, no delivery is pending, and no native reservation is held. Scheduling starts
/// anew under the new Policy; everything that was recorded stays. A first Policy comes with a first submission.
///
/// On GitHub the routes of a Policy that is not AW-managed are verified before it is installed; those of an AW-managed
/// one when Work needs them.
#[derive(Clone, Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("origin").required(true).args(["file", "from_config"])))]
pub(crate) struct Args {
    /// The Policy, a JSON file of at most 4 MiB, or `-` for standard input.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Make the Policy of the settings and workers on the default branch of the repository on GitHub.
    #[arg(long)]
    from_config: bool,
    /// Name of the new epoch, 1 to 256 bytes, never used in this queue before.
    #[arg(long, value_name = "EPOCH")]
    epoch: String,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    let epoch = Epoch::new(args.epoch.clone()).map_err(|fault| Failure::flag(&fault, "--epoch"))?;
    if args.from_config && global.remote.is_some() {
        return Err(Failure::usage(
            "--from-config reads the default branch of a repository on GitHub, and a local queue has none",
            "Give the Policy with --file, or name a repository on GitHub with --repo OWNER/NAME alone.",
        ));
    }
    let file = args.file.as_deref().map(policy_file).transpose()?;
    let (published, operation) = publish(global, RequestKind::Policy, |access, committed| {
        let policy = match (file, committed) {
            // What was accepted is not verified again.
            (Some(policy), Some(_)) => policy,
            (Some(policy), None) => verified(access, policy)?,
            // A repeated request means what it meant then, wherever the default branch is now.
            (None, Some(Operation::Policy(known))) if known.epoch == epoch => known.policy,
            (None, _) => {
                let hub = access.github()?;
                resolve(hub.client(), &hub.name)?.policy
            }
        };
        Ok(Operation::Policy(Box::new(PolicyOperation { epoch: epoch.clone(), policy })))
    })?;
    let Operation::Policy(installed) = &operation else { return Err(Fault::from(Code::Internal).into()) };
    let digest = Digest::of(&[installed.policy.source.as_str()]);
    Ok(Reply::done(if global.json { json(&published, &epoch, &digest) } else { text(&published, &epoch) }))
}

/// A Policy whose routes were looked at, where the kind of the Policy asks for it.
fn verified(access: &Access, policy: Policy) -> Result<Policy, Failure> {
    if let Some(hub) = access.hub() {
        verify_policy(hub.client(), &hub.name, &policy)?;
    }
    Ok(policy)
}

fn json(published: &Published, epoch: &Epoch, digest: &Digest) -> String {
    let installed = published.publication.current.projection.installed();
    let mut writer = Writer::new();
    writer.object(|members| {
        published.members(members);
        members.name("epoch", |w| epoch.write(w));
        // As it stands now, which a repeated request may find changed again.
        members.name("policy_epoch", |w| w.string(installed.map_or("", |installed| installed.epoch.as_str())));
        members.name("policy_sha256", |w| digest.write(w));
        members.name("status", |w| w.string("installed"));
    });
    writer.finish()
}

fn text(published: &Published, epoch: &Epoch) -> String {
    let (epoch, line) = (label(epoch.as_str()), published.line());
    format!("Policy installed under epoch {epoch}; it holds for future Work, and scheduling starts anew\n{line}")
}
