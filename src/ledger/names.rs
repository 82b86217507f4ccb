//! Names of branches (publication.md 1.1, 1.2). Only a validated name reaches a command line.

use std::fmt;

use super::error::{Class, LedgerError};
use crate::protocol::Code;

/// The queue branch that is used unless another one is named.
pub const DEFAULT_BRANCH: &str = "work-queue";
/// The authoritative file, at the root of the queue branch's tree.
pub const LEDGER_FILE: &str = "work-queue.jsonl";
/// Branches of retired protocols. They are never adopted.
pub const RETIRED_BRANCHES: [&str; 2] = ["dispatch-coordinator", "gh-aw-work-queue"];
/// The log file of a retired protocol. A tree that holds it is not ours.
pub const RETIRED_FILE: &str = "dispatch-work-coordinator.jsonl";

/// Longest branch name, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// A queue branch. Naming another branch names another authority; nothing moves between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Branch(String);

impl Branch {
    /// Validates the short name of a branch: 1 to 256 bytes, `[A-Za-z0-9][A-Za-z0-9._/-]*`, and what Git forbids.
    ///
    /// # Errors
    /// `unsupported_protocol` for a retired branch, `branch_invalid` for any other name that is not allowed.
    pub fn new(name: &str) -> Result<Self, LedgerError> {
        if RETIRED_BRANCHES.contains(&name) {
            return Err(LedgerError::new(
                Code::UnsupportedProtocol,
                Class::Invalid,
                "this branch name belongs to a retired protocol",
                "Choose another branch; the retired one is never read or migrated.",
            ));
        }
        if !is_branch(name) {
            return Err(LedgerError::new(
                Code::BranchInvalid,
                Class::Invalid,
                "the queue branch is not a legal branch name",
                "Use letters, digits, '.', '_', '-' and '/' as Git permits them.",
            ));
        }
        Ok(Self(name.to_owned()))
    }

    /// The short name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The full reference name, `refs/heads/<name>`.
    #[must_use]
    pub fn reference(&self) -> String {
        format!("refs/heads/{}", self.0)
    }

    /// True for `work-queue`, beside which the retired branches are looked for.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.0 == DEFAULT_BRANCH
    }
}

impl Default for Branch {
    fn default() -> Self {
        Self(DEFAULT_BRANCH.to_owned())
    }
}

impl fmt::Display for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_branch(name: &str) -> bool {
    let characters = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'/' | b'-');
    let part =
        |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with('.') && !part.ends_with(".lock");
    name.len() <= MAX_NAME_BYTES
        && name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
        && name.bytes().all(characters)
        && !name.contains("..")
        && name.split('/').all(part)
}
