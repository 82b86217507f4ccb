//! Selectors of the commands that act on named Work or Claims, and the reason that each of them records.

use super::Failure;
use crate::protocol::{Code, Fault, Reason};
use crate::report::label;

/// Most targets of one request: as many as a commit carries operations.
pub(crate) const MAX_TARGETS: usize = 256;

/// The identities that a repeated or comma-separated flag names: 1 to 256, all different, in order of their bytes, so
/// that the order in which they were given means nothing.
///
/// # Errors
/// `usage_invalid` for a value that is no identity, for one given twice, and for too few or too many.
pub(crate) fn distinct<T: Ord>(
    flag: &'static str,
    given: &[String],
    identity: fn(String) -> Result<T, Fault>,
) -> Result<Vec<T>, Failure> {
    const NEXT: &str = "Name 1 to 256 different ids, by repeating the flag or with commas.";
    if given.is_empty() || given.len() > MAX_TARGETS {
        return Err(Failure::usage(format!("{flag} names {} ids", given.len()), NEXT));
    }
    let ids = given.iter().map(|id| identity(id.clone())).collect::<Result<Vec<_>, _>>();
    let mut ids = ids.map_err(|fault| Failure::usage(format!("{flag}: {}", fault.message()), NEXT))?;
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Failure::usage(format!("{flag} names an id twice"), NEXT));
    }
    Ok(ids)
}

/// The fault of a target that the queue does not have.
pub(crate) fn absent(code: Code, what: &'static str, id: &str) -> Failure {
    let next = "Compare the id with what replay or inspect show; nothing was changed.";
    Failure::new(code, format!("the queue has no {what} {}", label(id)), next)
}

/// A reason code from a flag.
///
/// # Errors
/// `reason_invalid`.
pub(crate) fn reason(given: &str) -> Result<Reason, Failure> {
    Reason::new(given.to_owned()).map_err(|fault| {
        let next = "Give 1 to 128 of [A-Za-z0-9_.:-], the first a letter or digit, such as operator_cancelled.";
        Failure::new(fault.code(), format!("--reason: {}", fault.message()), next)
    })
}

#[cfg(test)]
mod tests {
    use super::distinct;
    use crate::protocol::WorkId;

    fn ids(given: &[&str]) -> Option<Vec<String>> {
        let given: Vec<String> = given.iter().map(|&id| id.to_owned()).collect();
        let ids = distinct("--work-id", &given, WorkId::new).ok()?;
        Some(ids.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn targets_are_distinct_and_sorted() {
        assert_eq!(ids(&["b", "a"]).unwrap(), ["a", "b"]);
        let many: Vec<String> = (0..257).map(|number| format!("w{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(ids(&many[..256]).unwrap().len(), 256);
        for given in [&[][..], &[""], &["a", ""], &["a", "b", "a"], &["a\n"], &many] {
            assert_eq!(ids(given), None, "{given:?}");
        }
    }
}
