//! `wq policy`.

use std::path::PathBuf;

use super::administer::publish;
use super::publish::{Published, policy_file};
use super::{Failure, Global, Reply};
use crate::protocol::json::Writer;
use crate::protocol::operation::{Operation, PolicyOperation};
use crate::protocol::request::RequestKind;
use crate::protocol::{Digest, Epoch, Wire as _};
use crate::report::label;

/// Install another Policy in a quiet queue, for future Work only.
///
/// Quiet means: no Work waits or runs, no delivery is pending, and no native reservation is held. Scheduling starts
/// anew under the new Policy; everything that was recorded stays. A first Policy comes with a first submission.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The Policy, a JSON file of at most 4 MiB, or `-` for standard input.
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Name of the new epoch, 1 to 256 bytes, never used in this queue before.
    #[arg(long, value_name = "EPOCH")]
    epoch: String,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    let epoch = Epoch::new(args.epoch.clone()).map_err(|fault| Failure::flag(&fault, "--epoch"))?;
    let policy = policy_file(&args.file)?;
    let digest = Digest::of(&[policy.source.as_str()]);
    let operation = Operation::Policy(Box::new(PolicyOperation { epoch: epoch.clone(), policy }));
    let published = publish(global, RequestKind::Policy, operation)?;
    Ok(Reply::done(if global.json { json(&published, &epoch, &digest) } else { text(&published, &epoch) }))
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
