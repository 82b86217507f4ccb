//! Reading ledgers in tests.

use wq_action::protocol::commit::Commit;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::{LedgerFault, LedgerText};

/// The host that most test ledgers use.
pub(crate) const HOST: &str = "github.com";

/// Reads a ledger file to its commits.
pub(crate) fn read(bytes: &[u8], host: &str) -> Result<Vec<Commit>, LedgerFault> {
    LedgerText::new(bytes.to_vec())?.commits(&mut Scanner::new(host))
}

/// Code and line of a ledger that is refused.
pub(crate) fn refusal(bytes: &[u8]) -> (&'static str, Option<usize>) {
    let fault = read(bytes, HOST).expect_err("the ledger is refused");
    (fault.fault.code().as_str(), fault.line)
}
