//! The queue as it stands: a version of the branch, parsed and replayed once (publication.md 1.7).

use gix::ObjectId;

use super::ancestry::{Ancestry, Found};
use super::error::{Class, LedgerError};
use super::extension::extend;
use super::head::Snapshot;
use super::store::Store;
use super::tree::RootTree;
use crate::engine::Projection;
use crate::protocol::RepositoryName;
use crate::protocol::json::Scanner;
use crate::protocol::{Code, Opaque};

/// A validated version of the queue.
#[derive(Clone, Debug)]
pub struct Current {
    /// The branch's commit.
    pub commit: ObjectId,
    /// Everything that its ledger says.
    pub projection: Projection,
    /// True if the checkpoint at the root of the ledger was damaged in the one way that readers mend (publication.md
    /// 1.10) and was taken from the version before. The next publication writes it back.
    pub recovered: bool,
    pub(super) tree: RootTree,
}

impl Current {
    /// Parses and replays a version that was read, in full, and verifies the history behind its checkpoint, if its
    /// chain begins with one.
    ///
    /// # Errors
    /// The first refusal of framing, codec, chain or replay; `actor_unauthorized` when the chain belongs to another
    /// repository; `checkpoint_invalid` when a checkpoint is not what its Git ancestry gives.
    pub fn replay(
        snapshot: Snapshot,
        store: &Store,
        repository: &RepositoryName,
        scanner: &mut Scanner,
    ) -> Result<Self, LedgerError> {
        Self::replay_seeking(snapshot, store, repository, scanner, &[]).map(|(current, _)| current)
    }

    /// As [`Current::replay`]; also says whether this chain, or one that a checkpoint behind it replaced, begins with
    /// `sought`.
    fn replay_seeking(
        snapshot: Snapshot,
        store: &Store,
        repository: &RepositoryName,
        scanner: &mut Scanner,
        sought: &[Opaque],
    ) -> Result<(Self, Found), LedgerError> {
        let Snapshot { commit, tree, ledger, .. } = snapshot;
        let mut ancestry = Ancestry::new(store, scanner, None);
        let replayed = ancestry.replay(commit, ledger)?;
        let projection = replayed.projection;
        let own = projection.repository().is_some_and(|recorded| repository.is(recorded));
        if !own {
            return Err(LedgerError::new(
                Code::ActorUnauthorized,
                Class::Invalid,
                "the ledger belongs to another repository",
                "Name the repository that the ledger was written for.",
            ));
        }
        let found = ancestry.verify(commit, &projection, sought)?;
        Ok((Self { commit, projection, recovered: replayed.recovered, tree }, found))
    }

    /// Replays a later version of the same operation. The branch and the chain must both extend this one; what was
    /// replayed already is not replayed again. A chain that was compacted meanwhile extends this one if a chain that a
    /// checkpoint replaced does.
    ///
    /// # Errors
    /// `ledger_nonextending` when history was deleted or rewritten; otherwise as [`Current::replay`].
    pub fn extend(
        self,
        snapshot: Snapshot,
        store: &Store,
        repository: &RepositoryName,
        scanner: &mut Scanner,
    ) -> Result<Self, LedgerError> {
        if snapshot.commit == self.commit {
            return Ok(self);
        }
        if !store.descends(snapshot.commit, self.commit)? {
            return Err(nonextending());
        }
        let trusted = self.commit;
        let known = match extend(self.projection, &snapshot.ledger, scanner) {
            Ok(projection) => {
                let Snapshot { commit, tree, .. } = snapshot;
                // Behind a checkpoint every version counts; those before the one that was read last were walked then.
                Ancestry::new(store, scanner, Some(trusted)).verify(commit, &projection, &[])?;
                // A ledger that holds the known lines as they are has no damaged root, whatever the version before had.
                return Ok(Self { commit, projection, recovered: false, tree });
            }
            Err(known) => known,
        };
        let (later, found) = Self::replay_seeking(snapshot, store, repository, scanner, &known)?;
        if found == Found::Extends { Ok(later) } else { Err(nonextending()) }
    }
}

pub(super) fn nonextending() -> LedgerError {
    LedgerError::new(
        Code::LedgerNonextending,
        Class::Invalid,
        "the queue branch no longer extends what this command read before",
        "Find out who deleted or rewrote the branch before doing anything else.",
    )
}
