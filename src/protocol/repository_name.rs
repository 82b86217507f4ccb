//! The name of the repository that holds a queue (publication.md 1.2). Only a validated name reaches a command line or a
//! request's path.

use std::fmt;

use super::{Code, Fault, Repository};

/// Longest name, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// The repository that holds the queue, as `owner/name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RepositoryName(String);

impl RepositoryName {
    /// Validates `owner/name`: both of `[A-Za-z0-9_.-]+`, neither `.` nor `..`, at most 256 bytes together.
    ///
    /// # Errors
    /// `repository_invalid` for anything else.
    pub fn new(name: &str) -> Result<Self, Fault> {
        let part = |part: &str| {
            !matches!(part, "" | "." | "..")
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
        };
        match name.split_once('/') {
            Some((owner, rest)) if name.len() <= MAX_NAME_BYTES && part(owner) && part(rest) => {
                Ok(Self(name.to_owned()))
            }
            _ => Err(Fault::new(Code::RepositoryInvalid, "the repository is not named owner/name")),
        }
    }

    /// The name as `owner/name`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Owner and name.
    #[must_use]
    pub fn parts(&self) -> (&str, &str) {
        self.0.split_once('/').unwrap_or((&self.0, ""))
    }

    /// True when a recorded repository is this one: names are compared without regard to ASCII case.
    #[must_use]
    pub fn is(&self, recorded: &Repository) -> bool {
        self.0.eq_ignore_ascii_case(recorded.as_str())
    }
}

impl fmt::Display for RepositoryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
