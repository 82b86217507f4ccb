//! Reducing git's standard error to a few causes (publication.md 2.5). The text itself goes no further.

use crate::ledger::error::{Class, LedgerError};
use crate::protocol::Code;

/// Why git could not talk to a remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The credential is missing or was refused (HTTP 401, 403).
    Unauthorized(Option<u16>),
    /// The server knows no such repository, or hides it (HTTP 404).
    NotFound(Option<u16>),
    /// The path is there, and is no repository.
    NotRepository,
    /// The file system refused it.
    Permission,
    /// The repository belongs to another user.
    Owner,
    /// Its objects have names of another hash algorithm.
    ObjectFormat,
    /// The reference that was asked for does not exist.
    MissingReference,
    /// An object that was received is malformed.
    Malformed,
    /// The server answered with another status.
    Status(u16),
    /// Anything else: the network, the server, the protocol.
    Other,
}

/// Lines that git itself wrote, lower-cased. What the remote said (`remote: …`) can be written by a hook, and decides
/// nothing.
fn own_lines(stderr: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(stderr)
        .split(['\n', '\r'])
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("remote:"))
        .map(str::to_ascii_lowercase)
        .collect()
}

/// The three digits after a phrase.
fn status_after(line: &str, phrase: &str) -> Option<u16> {
    let rest = &line[line.find(phrase)? + phrase.len()..];
    rest.get(..3)?.parse().ok().filter(|status| (100..600).contains(status))
}

/// The HTTP status that git reported, if any.
pub(super) fn http_status(stderr: &[u8]) -> Option<u16> {
    own_lines(stderr)
        .iter()
        .find_map(|line| status_after(line, "returned error: ").or_else(|| status_after(line, "rpc failed; http ")))
}

/// True when git failed after it had begun to send its request's body, so that the remote may have acted on it.
pub(super) fn after_sending(stderr: &[u8]) -> bool {
    own_lines(stderr).iter().any(|line| line.contains("rpc failed"))
}

/// The most telling cause.
pub(super) fn trouble(stderr: &[u8]) -> Trouble {
    let lines = own_lines(stderr);
    let any = |phrases: &[&str]| lines.iter().any(|line| phrases.iter().any(|phrase| line.contains(phrase)));
    let status = http_status(stderr);
    match status {
        Some(401 | 403) => return Trouble::Unauthorized(status),
        Some(404 | 410) => return Trouble::NotFound(status),
        Some(status) => return Trouble::Status(status),
        None => {}
    }
    if any(&["authentication failed", "could not read username", "could not read password"]) {
        Trouble::Unauthorized(Some(401))
    } else if any(&["dubious ownership"]) {
        Trouble::Owner
    } else if any(&["permission denied"]) {
        Trouble::Permission
    } else if any(&["does not appear to be a git repository", "not a git repository"]) {
        Trouble::NotRepository
    } else if lines.iter().any(|line| line.starts_with("fatal: repository '") && line.ends_with("not found")) {
        Trouble::NotFound(Some(404))
    } else if any(&["mismatched algorithms", "does not support this repository's hash algorithm"]) {
        Trouble::ObjectFormat
    } else if any(&["couldn't find remote ref"]) {
        Trouble::MissingReference
    } else if any(&["fsck error", "fsck failed", "error: object "]) {
        Trouble::Malformed
    } else {
        Trouble::Other
    }
}

impl Trouble {
    /// The HTTP status behind it, where there is one.
    pub(super) fn status(self) -> Option<u16> {
        match self {
            Self::Unauthorized(status) | Self::NotFound(status) => status,
            Self::Status(status) => Some(status),
            _ => None,
        }
    }

    /// The failure of a read.
    pub(super) fn of_read(self) -> LedgerError {
        let unavailable = |class, message: &'static str, action, status| {
            LedgerError::new(Code::RepositoryUnavailable, class, message, action).with_status(status)
        };
        match self {
            Self::Unauthorized(status) => unavailable(
                Class::Denied,
                "the server refused the queue credential",
                "Give the job a queue credential that may read and write this repository's contents.",
                status,
            ),
            Self::NotFound(status) => unavailable(
                Class::Denied,
                "the server knows no such repository, or hides it from this credential",
                "Check the repository's name and what the queue credential may see.",
                status,
            ),
            Self::NotRepository => unavailable(
                Class::Unavailable,
                "the path is not a Git repository",
                "Create one with `git init --bare`, or name another path.",
                None,
            ),
            Self::Permission => unavailable(
                Class::Denied,
                "the file system refused access to the repository",
                "Give this user access to the repository's files.",
                None,
            ),
            Self::Owner => unavailable(
                Class::Denied,
                "the repository's directory belongs to another user",
                "Run as the directory's owner, or change its owner.",
                None,
            ),
            Self::ObjectFormat => LedgerError::new(
                Code::UnsupportedProtocol,
                Class::Invalid,
                "the repository uses SHA-256 object ids, which are not supported",
                "Keep the queue in a repository with SHA-1 object ids.",
            ),
            Self::MissingReference => LedgerError::new(
                Code::LedgerNonextending,
                Class::Invalid,
                "the queue branch vanished while it was read",
                "Find out who deleted the branch before doing anything else.",
            ),
            Self::Malformed => LedgerError::new(
                Code::LedgerInvalid,
                Class::Invalid,
                "the queue branch's history holds a malformed object",
                "Inspect the branch with `git fsck`; nothing was changed.",
            ),
            Self::Status(status) => unavailable(
                Class::Unavailable,
                "the server did not answer the read",
                "Repeat the command later.",
                Some(status),
            ),
            Self::Other => {
                unavailable(Class::Unavailable, "the repository could not be read", "Repeat the command later.", None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Trouble, after_sending, http_status, trouble};

    #[test]
    fn causes_come_from_git_and_not_from_the_remote() {
        let seen = trouble(b"fatal: unable to access 'https://x/': The requested URL returned error: 403\n");
        assert_eq!(seen, Trouble::Unauthorized(Some(403)));
        assert_eq!(trouble(b"remote: fatal: Authentication failed\nfatal: early EOF\n"), Trouble::Other);
        assert_eq!(trouble(b"fatal: Authentication failed for 'https://x/'\n"), Trouble::Unauthorized(Some(401)));
        assert_eq!(trouble(b"fatal: repository 'https://x/' not found\n"), Trouble::NotFound(Some(404)));
        assert_eq!(trouble(b"fatal: couldn't find remote ref refs/heads/q\n"), Trouble::MissingReference);
        assert_eq!(trouble(b"\xff\xfe"), Trouble::Other);
    }

    #[test]
    fn a_failure_after_the_body_is_told_apart() {
        let stderr = b"error: RPC failed; HTTP 500 curl 22 The requested URL returned error: 500\n";
        assert!(after_sending(stderr));
        assert_eq!(http_status(stderr), Some(500));
        assert_eq!(http_status(b"The requested URL returned error: 9"), None);
    }
}
