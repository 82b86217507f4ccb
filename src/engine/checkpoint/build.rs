//! Building the checkpoint that replaces a chain (engine.md 3.12.4).

use crate::engine::state::Projection;
use crate::protocol::actor::{Actor, Role};
use crate::protocol::commit::{Candidate, Commit, FrozenRequest};
use crate::protocol::fault::ensure;
use crate::protocol::json::{Scanner, Writer};
use crate::protocol::request::RequestKind;
use crate::protocol::{
    At, Code, CommitId, Digest, Fault, Opaque, RequestId, Revision, Text, Wire as _, identity::sha256_hex,
};

/// What a checkpoint takes from outside.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointInputs<'a> {
    /// The Git commit that holds exactly the chain that is replaced.
    pub prior_git_sha: &'a Revision,
    /// An administrator of the queue's repository.
    pub actor: &'a Actor,
    /// Time of the decision; not before the last commit's.
    pub at: At,
}

/// A checkpoint, and the state after replaying it alone.
#[derive(Clone, Debug)]
pub struct BuiltCheckpoint {
    /// The commit: the whole new chain.
    pub commit: Opaque,
    /// Its request.
    pub request: FrozenRequest,
    /// The state that it restores.
    pub projection: Projection,
    /// Digest of the logical snapshot.
    pub state_sha256: Digest,
}

impl Projection {
    /// Digest of the active chain as a writer leaves it: every line with its line feed.
    #[must_use]
    pub fn history_sha256(&self) -> Digest {
        let mut parts = Vec::with_capacity(2 * self.requests.len());
        for line in self.active() {
            parts.extend([line.as_str(), "\n"]);
        }
        Digest::of(&parts)
    }

    /// Builds the checkpoint that stands for this whole chain, and replays it.
    ///
    /// # Errors
    /// `actor_unauthorized` for anyone but an administrator of this repository, `checkpoint_invalid` for a time before
    /// the last commit's; otherwise what replaying the checkpoint refuses, which names states that the format cannot
    /// keep (engine.md 3.12.5): `resource_limit` for more than 8 MiB or for too deep payloads, `checkpoint_invalid` for
    /// submissions that mixed new and known nodes.
    pub fn checkpoint(&self, inputs: &CheckpointInputs<'_>, scanner: &mut Scanner) -> Result<BuiltCheckpoint, Fault> {
        let actor = inputs.actor;
        let administers = actor.role == Role::Administrator && self.repository.as_ref() == Some(&actor.repository);
        ensure!(administers, ActorUnauthorized, "a checkpoint is made by an administrator of the queue's repository");
        let last = self.requests.last().map(|last| last.at);
        ensure!(
            last.is_some_and(|last| inputs.at >= last),
            CheckpointInvalid,
            "a checkpoint is not older than history"
        );
        let tip = self.tip.as_ref().ok_or_else(|| Fault::from(Code::PolicyMissing))?;
        let installed = self.rules()?;
        let snapshot = self.snapshot(scanner)?;
        let state_sha256 = snapshot.digest();
        let mut parameters = Writer::new();
        let mut operation = Writer::new();
        for (writer, whole) in [(&mut parameters, false), (&mut operation, true)] {
            writer.object(|members| {
                members.name("history_sha256", |w| self.history_sha256().write(w));
                if whole {
                    members.name("kind", |w| w.string("Checkpoint"));
                }
                members.name("prior_git_sha", |w| inputs.prior_git_sha.write(w));
                members.name("prior_tip", |w| tip.write(w));
                if whole {
                    members.name("state", |w| snapshot.write(w));
                }
                members.name("state_sha256", |w| state_sha256.write(w));
            });
        }
        let id = checkpoint_request_id(tip, inputs.prior_git_sha);
        let commit_id = CommitId::new(format!("q_{}", sha256_hex(&[id.as_str()])))?;
        let request = FrozenRequest::new(id, RequestKind::Checkpoint, actor.clone(), &parameters.finish())?;
        let candidate = Candidate {
            id: &commit_id,
            previous: None,
            request: &request,
            policy_epoch: &installed.epoch,
            at: inputs.at,
            operations: &[Opaque::checked(Text::from(operation.finish()))],
        };
        let commit = Commit::read(scanner, &Text::from(candidate.encode()))?;
        let text = commit.source.clone();
        let projection = Self::restore(commit, scanner)?;
        Ok(BuiltCheckpoint { commit: text, request, projection, state_sha256 })
    }
}

/// The request id of the checkpoint that replaces a chain (engine.md 1.7).
///
/// # Panics
/// Never: a word and a digest are an identity.
#[must_use]
pub fn checkpoint_request_id(tip: &CommitId, prior_git_sha: &Revision) -> RequestId {
    let digest = sha256_hex(&[tip.as_str(), "\n", prior_git_sha.as_str()]);
    RequestId::new(format!("checkpoint_{digest}")).expect("a word and a digest are an identity")
}
