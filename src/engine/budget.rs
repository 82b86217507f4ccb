//! The ledger's byte budget and the recovery reserve (engine.md 6.3).

use super::state::Projection;
use crate::engine::mutation::mutated;
use crate::protocol::Fault;
use crate::protocol::fault::ensure;

impl Projection {
    /// Checks a commit of `candidate` bytes after its operations were applied.
    pub(crate) fn check_budget(&self, candidate: u64, admission: bool, optional: bool) -> Result<(), Fault> {
        let installed = self.rules()?;
        let limits = &installed.policy.limits;
        let (ordinary, recovery) = (limits.ledger_bytes, limits.recovery_bytes);
        let total = self.ledger_bytes + candidate;
        ensure!(total <= ordinary + recovery, LedgerLimit, "the ledger's budget and reserve are used up");
        ensure!(
            self.headroom <= ordinary + recovery - total || mutated!(IgnoreReserve),
            LedgerLimit,
            "the ledger would leave too little room to settle what is open"
        );
        ensure!(!optional || total <= ordinary, LedgerLimit, "the ledger's ordinary budget is used up");
        ensure!(
            !admission || (total <= ordinary && (self.headroom <= recovery || mutated!(IgnoreReserve))),
            LedgerLimit,
            "the ledger has no room to admit or grant more Work"
        );
        Ok(())
    }

    /// Bytes that settling everything open may still take (engine.md 6.2).
    #[must_use]
    pub fn headroom(&self) -> u64 {
        self.headroom
    }

    /// How many gates a dispatch may refresh (engine.md 4.9). `requested` is 0 to 255.
    ///
    /// # Errors
    /// `ledger_invalid` for `requested` out of bounds, `policy_missing` without a Policy.
    pub fn observation_refresh_budget(&self, requested: i64) -> Result<u64, Fault> {
        let installed = self.rules()?;
        refresh_budget(
            self.grants_paused,
            self.ledger_bytes,
            installed.policy.limits.ledger_bytes,
            installed.policy.limits.operations,
            requested,
        )
    }
}

/// The rule behind [`Projection::observation_refresh_budget`].
///
/// # Errors
/// `ledger_invalid` for `requested` out of 0..=255.
pub fn refresh_budget(
    grants_paused: bool,
    ledger_bytes: u64,
    ledger_limit: u64,
    operations: u64,
    requested: i64,
) -> Result<u64, Fault> {
    let valid = u64::try_from(requested).ok().filter(|requested| *requested <= 255);
    let requested =
        valid.ok_or_else(|| Fault::new(crate::protocol::Code::LedgerInvalid, "a refresh budget is 0 to 255"))?;
    if grants_paused || ledger_bytes >= ledger_limit {
        return Ok(0);
    }
    Ok(requested.min(operations.saturating_sub(1)))
}
