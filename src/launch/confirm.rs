//! The service's word on an empty repository (publication.md 3.1), for [`crate::ledger::Setup::confirm_empty`].

use crate::forge::{Client, Failure};
use crate::ledger::{Class, LedgerError};
use crate::protocol::{Code, RepositoryName};

/// True if the service, asked for exactly this repository, says that it has no branch at all.
///
/// # Errors
/// `repository_unavailable` when it does not say, or answers for another repository.
pub fn confirm_empty(client: Client<'_>, repository: &RepositoryName) -> Result<bool, LedgerError> {
    client.is_empty(repository).map_err(|error| {
        let class = match error.failure() {
            Failure::Unauthenticated | Failure::Forbidden | Failure::NotFound => Class::Denied,
            _ => Class::Unavailable,
        };
        let message = "the service did not confirm that the repository is empty";
        LedgerError::new(Code::RepositoryUnavailable, class, message, error.action()).with_status(error.status())
    })
}
