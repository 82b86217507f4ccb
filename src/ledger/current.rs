//! The queue as it stands: a version of the branch, parsed and replayed once (publication.md 1.7).

use gix::ObjectId;

use super::error::{Class, LedgerError};
use super::head::Snapshot;
use super::names::RepositoryName;
use super::store::Store;
use super::tree::RootTree;
use crate::engine::Projection;
use crate::protocol::commit::Commit;
use crate::protocol::json::Scanner;
use crate::protocol::ledger_text::LedgerText;
use crate::protocol::{Code, Text};

/// A validated version of the queue.
#[derive(Clone, Debug)]
pub struct Current {
    /// The branch's commit.
    pub commit: ObjectId,
    /// Everything that its ledger says.
    pub projection: Projection,
    pub(super) tree: RootTree,
}

impl Current {
    /// Parses and replays a version that was read, in full.
    ///
    /// # Errors
    /// The first refusal of framing, codec, chain or replay; `actor_unauthorized` when the chain belongs to another
    /// repository.
    pub fn replay(snapshot: Snapshot, repository: &RepositoryName, scanner: &mut Scanner) -> Result<Self, LedgerError> {
        let text = LedgerText::new(snapshot.ledger)?;
        let projection = super::cold::replay(&text, scanner)?;
        let own = projection.repository().is_some_and(|recorded| repository.is(recorded));
        if !own {
            return Err(LedgerError::new(
                Code::ActorUnauthorized,
                Class::Invalid,
                "the ledger belongs to another repository",
                "Name the repository that the ledger was written for.",
            ));
        }
        Ok(Self { commit: snapshot.commit, projection, tree: snapshot.tree })
    }

    /// Replays a later version of the same operation. The branch and the chain must both extend this one; what was
    /// replayed already is not replayed again.
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
        let Snapshot { commit, parents, tree, ledger } = snapshot;
        let text = LedgerText::new(ledger)?;
        let known: Vec<_> = self.projection.active().cloned().collect();
        let literal = known.len() <= text.len()
            && known
                .iter()
                .enumerate()
                .all(|(index, source)| text.line(index).is_some_and(|line| line.as_str() == source.as_str()));
        if literal && let Some(projection) = append_tail(self.projection, &text, known.len(), scanner) {
            return Ok(Self { commit, projection, tree });
        }
        let ledger = text.as_str().as_bytes().to_vec();
        let later = Self::replay(Snapshot { commit, parents, tree, ledger }, repository, scanner)?;
        let mut active = later.projection.active();
        let extends = known.iter().all(|source| active.next() == Some(source));
        drop(active);
        if extends { Ok(later) } else { Err(nonextending()) }
    }
}

/// Applies the lines from `from` on, if they are the next commits of the chain in causal order. Each line is copied,
/// so that a few new lines do not keep a whole second ledger in memory.
fn append_tail(
    mut projection: Projection,
    text: &LedgerText,
    from: usize,
    scanner: &mut Scanner,
) -> Option<Projection> {
    for index in from..text.len() {
        let line = Text::from(text.line(index)?.as_str());
        let commit = Commit::read(scanner, &line).ok()?;
        if commit.previous.as_ref() != projection.tip() || projection.knows_commit(&commit.id) {
            return None;
        }
        projection = projection.apply(commit).ok()?;
    }
    Some(projection)
}

pub(super) fn nonextending() -> LedgerError {
    LedgerError::new(
        Code::LedgerNonextending,
        Class::Invalid,
        "the queue branch no longer extends what this command read before",
        "Find out who deleted or rewrote the branch before doing anything else.",
    )
}
