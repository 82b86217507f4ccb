//! Moving the queue branch between its remote and a store (design.md 5). The trait is what a native smart-HTTP
//! transport would implement; today the git executable does it.

mod environment;
mod executable;
mod messages;
mod porcelain;
mod process;

use std::path::Path;

pub use gix::ObjectId;

use super::error::LedgerError;
pub use environment::Environment;
pub use executable::{Bounds, Git, GitTransport};
pub use porcelain::{Ambiguity, PushOutcome};

/// One reference as the remote advertised it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// Full name, or `HEAD`.
    pub name: String,
    /// The object that it names.
    pub id: ObjectId,
    /// The reference that it stands for, when it is symbolic.
    pub symbolic: Option<String>,
}

/// The references of a remote that a query asked for, by exact name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertisement(pub(crate) Vec<Advertised>);

impl Advertisement {
    /// The reference of this exact name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Advertised> {
        self.0.iter().find(|reference| reference.name == name)
    }

    /// True when none of the references that were asked for exists.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What moves references and objects between one remote repository and a local store.
///
/// Every call contacts the remote. No call repairs, initializes or remembers anything.
pub trait Transport {
    /// Asks the remote for references by their exact names. Success proves that the repository could be read.
    ///
    /// # Errors
    /// `repository_unavailable` (denied, unavailable) or `git_unavailable`; never an empty answer instead.
    fn advertise(&self, store: &Path, names: &[&str]) -> Result<Advertisement, LedgerError>;

    /// Brings one reference with its complete history into the store, as `destination`.
    ///
    /// # Errors
    /// As [`Transport::advertise`]; `ledger_nonextending` when the reference no longer exists; `ledger_invalid` when
    /// the history holds malformed objects.
    fn fetch(&self, store: &Path, source: &str, destination: &str) -> Result<(), LedgerError>;

    /// Offers one commit of the store for one reference, if the reference still names `expected` (or, with none, does
    /// not exist).
    ///
    /// # Errors
    /// Only when nothing was sent, or the remote reports a forced update, which a checked parent makes impossible.
    fn push(
        &self,
        store: &Path,
        commit: ObjectId,
        reference: &str,
        expected: Option<ObjectId>,
    ) -> Result<PushOutcome, LedgerError>;

    /// True when whoever may write the remote's directory is the authority, so that a repository without references
    /// is an absent queue and needs no confirmation from a service.
    fn is_local(&self) -> bool;
}
