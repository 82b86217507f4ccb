//! Reading `git push --porcelain` and deciding what it proves (publication.md 2.5).

use super::messages::{Trouble, after_sending, http_status, trouble};
use crate::ledger::error::{Class, LedgerError};
use crate::protocol::Code;

/// What is known after a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// The remote acknowledged that this push moved the reference to our commit.
    Acknowledged,
    /// The reference named our commit before this push. Whether it is ours to claim, only the request id tells.
    UpToDate,
    /// Somebody else moved, made or deleted the reference first.
    Conflict,
    /// The remote refused for good.
    Denied(LedgerError),
    /// The remote may or may not have acted.
    Ambiguous(Ambiguity),
}

/// Why a push's effect is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ambiguity {
    /// The wall clock ran out and git was killed.
    TimedOut,
    /// Git wrote more than it may and was killed.
    TooMuchOutput,
    /// The server answered with this HTTP status.
    Status(u16),
    /// The connection broke, or git ended without a report on our reference.
    NoReport,
    /// Git's report and its exit status contradict each other, or it cannot be read.
    Unreadable,
}

/// The report on one reference: `<flag> TAB <from>:<to> TAB <summary>`.
struct Line<'a> {
    flag: &'a str,
    from: &'a str,
    to: &'a str,
    summary: &'a str,
}

fn parse(line: &str) -> Option<Line<'_>> {
    let mut fields = line.splitn(3, '\t');
    let (flag, names, summary) = (fields.next()?, fields.next()?, fields.next()?);
    let (from, to) = names.split_once(':')?;
    (flag.chars().count() == 1).then_some(Line { flag, from, to, summary })
}

/// Classifies a push of `commit` (hexadecimal) to `reference` that ended by itself.
///
/// # Errors
/// `ledger_invalid` when the remote reports that history was overwritten.
pub(super) fn classify(
    success: bool,
    stdout: &[u8],
    stderr: &[u8],
    commit: &str,
    reference: &str,
) -> Result<PushOutcome, LedgerError> {
    let unreadable = Ok(PushOutcome::Ambiguous(Ambiguity::Unreadable));
    let Ok(text) = std::str::from_utf8(stdout) else { return unreadable };
    let lines: Vec<_> = text.lines().filter_map(parse).collect();
    let line = match lines.as_slice() {
        [] => return Ok(without_report(success, stderr)),
        [line] if line.to == reference && line.from == commit => line,
        _ => return unreadable,
    };
    match (line.flag, success) {
        (" " | "*", true) => Ok(PushOutcome::Acknowledged),
        ("=", true) => Ok(PushOutcome::UpToDate),
        ("+", _) => Err(forced()),
        ("!", false) => Ok(rejected(line.summary, stderr)),
        _ => unreadable,
    }
}

fn forced() -> LedgerError {
    LedgerError::new(
        Code::LedgerInvalid,
        Class::Invalid,
        "the remote reported a forced update of the queue branch",
        "Stop all publishers and inspect the branch's history.",
    )
}

/// No status line: git gave up before, during or after sending.
fn without_report(success: bool, stderr: &[u8]) -> PushOutcome {
    if success {
        return PushOutcome::Ambiguous(Ambiguity::Unreadable);
    }
    let cause = trouble(stderr);
    if cause == Trouble::ObjectFormat {
        return PushOutcome::Denied(cause.of_read());
    }
    let before_any_pack = !after_sending(stderr)
        && matches!(
            cause,
            Trouble::Unauthorized(_)
                | Trouble::NotFound(_)
                | Trouble::NotRepository
                | Trouble::Permission
                | Trouble::Owner
        );
    if before_any_pack {
        return PushOutcome::Denied(denied("the remote refused access before anything was sent", cause.status()));
    }
    PushOutcome::Ambiguous(http_status(stderr).map_or(Ambiguity::NoReport, Ambiguity::Status))
}

fn denied(message: &'static str, status: Option<u16>) -> LedgerError {
    LedgerError::new(
        Code::PublicationDenied,
        Class::Denied,
        message,
        "Check the credential's write permission and the rules and hooks that protect the branch.",
    )
    .with_status(status)
}

fn rejected(summary: &str, stderr: &[u8]) -> PushOutcome {
    let reason = summary.split_once('(').map_or("", |(_, rest)| rest.trim_end_matches(')'));
    let is = |known: &[&str]| known.contains(&reason);
    if summary.starts_with("[rejected]") {
        let stale =
            ["stale info", "non-fast-forward", "fetch first", "already exists", "remote ref updated since checkout"];
        return if is(&stale) { PushOutcome::Conflict } else { PushOutcome::Ambiguous(Ambiguity::Unreadable) };
    }
    if summary.starts_with("[remote rejected]") {
        let race = ["failed to update ref", "reference already exists", "non-fast-forward", "fetch first"];
        // Only the remote can tell that another push held the reference's lock, so its own words count here; at worst
        // they cause a bounded number of further attempts. Where a hook declined, they are the hook's and count for
        // nothing.
        let lock = reason.contains("cannot lock ref") || !reason.ends_with("hook declined") && lost_the_lock(stderr);
        return match is(&race) || lock {
            true => PushOutcome::Conflict,
            false => PushOutcome::Denied(denied(refusal(reason), None)),
        };
    }
    // `[remote failure] (remote failed to report status)` and whatever else git may invent.
    PushOutcome::Ambiguous(Ambiguity::NoReport)
}

fn lost_the_lock(stderr: &[u8]) -> bool {
    String::from_utf8_lossy(stderr)
        .lines()
        .any(|line| line.contains("cannot lock ref") && line.contains(" is at ") && line.contains(" but expected "))
}

/// A sentence of ours for the reasons that are common; the remote's own words are not repeated.
fn refusal(reason: &str) -> &'static str {
    match reason {
        "pre-receive hook declined" | "hook declined" => "a hook of the repository declined the push",
        "protected branch hook declined" => "a branch rule of the repository declined the push",
        "unpacker error" => "the remote could not store the pushed objects",
        _ if reason.to_ascii_lowercase().contains("permission") => "the remote refused the push for lack of permission",
        _ => "the remote refused the push",
    }
}

#[cfg(test)]
mod tests {
    use super::{Ambiguity, PushOutcome, classify};
    use crate::protocol::Code;

    const REF: &str = "refs/heads/work-queue";

    fn outcome(success: bool, flag: &str, summary: &str, stderr: &str) -> PushOutcome {
        let stdout = format!("To /r\n{flag}\tabc:{REF}\t{summary}\nDone\n");
        classify(success, stdout.as_bytes(), stderr.as_bytes(), "abc", REF).expect("not a forced update")
    }

    /// S-251, S-253: each shape of git's report has one class; in doubt it is ambiguous.
    #[test]
    fn every_shape_has_one_class() {
        assert_eq!(outcome(true, " ", "1..2", ""), PushOutcome::Acknowledged);
        assert_eq!(outcome(true, "*", "[new branch]", ""), PushOutcome::Acknowledged);
        assert_eq!(outcome(true, "=", "[up to date]", ""), PushOutcome::UpToDate);
        for reason in ["stale info", "non-fast-forward", "fetch first", "already exists"] {
            assert_eq!(outcome(false, "!", &format!("[rejected] ({reason})"), ""), PushOutcome::Conflict);
        }
        for reason in ["failed to update ref", "reference already exists", "non-fast-forward", "fetch first"] {
            assert_eq!(outcome(false, "!", &format!("[remote rejected] ({reason})"), ""), PushOutcome::Conflict);
        }
        for reason in ["pre-receive hook declined", "protected branch hook declined", "permission denied", "new rule"] {
            let PushOutcome::Denied(error) = outcome(false, "!", &format!("[remote rejected] ({reason})"), "") else {
                panic!("{reason} must be denied");
            };
            assert_eq!(error.code(), Code::PublicationDenied);
        }
        let failure = outcome(false, "!", "[remote failure] (remote failed to report status)", "");
        assert_eq!(failure, PushOutcome::Ambiguous(Ambiguity::NoReport));
        let lock = "remote: error: cannot lock ref 'refs/heads/work-queue': is at 1 but expected 2\n";
        assert_eq!(outcome(false, "!", "[remote rejected] (transaction failed)", lock), PushOutcome::Conflict);
        let hook = outcome(false, "!", "[remote rejected] (hook declined)", lock);
        assert!(matches!(hook, PushOutcome::Denied(_)), "a hook's words are its own");
        assert_eq!(outcome(false, " ", "1..2", ""), PushOutcome::Ambiguous(Ambiguity::Unreadable));
        assert_eq!(outcome(true, "!", "[rejected] (stale info)", ""), PushOutcome::Ambiguous(Ambiguity::Unreadable));
    }

    #[test]
    fn a_forced_update_and_a_foreign_report_are_never_success() {
        let forced = format!("+\tabc:{REF}\t1...2 (forced update)\n");
        assert_eq!(classify(true, forced.as_bytes(), b"", "abc", REF).unwrap_err().code(), Code::LedgerInvalid);
        let other = " \tabc:refs/heads/other\t1..2\n";
        let seen = classify(true, other.as_bytes(), b"", "abc", REF);
        assert_eq!(seen, Ok(PushOutcome::Ambiguous(Ambiguity::Unreadable)));
        assert_eq!(classify(true, b"", b"", "abc", REF), Ok(PushOutcome::Ambiguous(Ambiguity::Unreadable)));
        assert_eq!(classify(true, b"\xff", b"", "abc", REF), Ok(PushOutcome::Ambiguous(Ambiguity::Unreadable)));
    }

    #[test]
    fn without_a_report_only_a_refusal_before_the_pack_is_denied() {
        let before = b"fatal: unable to access 'https://x/': The requested URL returned error: 403\n";
        let seen = classify(false, b"", before, "abc", REF).expect("classified");
        assert!(matches!(seen, PushOutcome::Denied(error) if error.status() == Some(403)));
        let after = b"error: RPC failed; HTTP 403 curl 22 The requested URL returned error: 403\n";
        assert_eq!(classify(false, b"", after, "abc", REF), Ok(PushOutcome::Ambiguous(Ambiguity::Status(403))));
        let hung = b"fatal: the remote end hung up unexpectedly\n";
        assert_eq!(classify(false, b"", hung, "abc", REF), Ok(PushOutcome::Ambiguous(Ambiguity::NoReport)));
    }
}
