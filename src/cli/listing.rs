//! What the listings share: checks of selectors and pages before anything is read, and the frame of a page.

use super::Failure;
use crate::protocol::json::Members;
use crate::protocol::{Code, Identity};
use crate::report::{MAX_ROWS, Page};

/// A selector or a page that is out of bounds.
pub(crate) fn invalid(message: &'static str) -> Failure {
    Failure::new(Code::InspectionInvalid, message, "Run the command with --help to see its selectors and bounds.")
}

/// Refuses a selector that can name nothing.
pub(crate) fn identity(flag: &'static str, value: Option<&str>) -> Result<(), Failure> {
    match value.map(Identity::new) {
        Some(Err(fault)) => Err(Failure::new(
            Code::InspectionInvalid,
            format!("{flag}: {}", fault.message()),
            "Name 1 to 256 bytes without control characters, as another command printed them.",
        )),
        _ => Ok(()),
    }
}

/// The wanted rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) offset: usize,
    pub(crate) limit: usize,
}

impl Bounds {
    /// Checks `--offset` and `--limit`.
    pub(crate) fn of(offset: i64, limit: i64) -> Result<Self, Failure> {
        if !(0..=9_007_199_254_740_991).contains(&offset) {
            return Err(invalid("--offset is 0 to 2^53-1"));
        }
        let limit = usize::try_from(limit).unwrap_or(0);
        if !(1..=MAX_ROWS).contains(&limit) {
            return Err(invalid("--limit is 1 to 256"));
        }
        // On a machine with short addresses an offset beyond them is beyond every listing too.
        Ok(Self { offset: usize::try_from(offset).unwrap_or(usize::MAX), limit })
    }
}

/// Adds `offset`, `next_offset` where there is more, and the rows under a name.
pub(crate) fn page_members(page: &Page, rows: &'static str, members: &mut Members<'_>) {
    if let Some(next) = page.next_offset() {
        members.name("next_offset", |w| w.integer(next as i64));
    }
    members.name("offset", |w| w.integer(page.offset as i64));
    members.name(rows, |w| w.array(&page.lines, |w, line| w.raw(&line.json)));
}

/// Adds the rows for people.
pub(crate) fn page_lines(page: &Page, out: &mut String) {
    for line in &page.lines {
        out.push_str(&line.text);
        out.push('\n');
    }
}

/// Says where the next page begins.
pub(crate) fn continuation(page: &Page, out: &mut String) {
    if let Some(next) = page.next_offset() {
        out.push_str(&format!("more: continue with --offset {next}\n"));
    }
}
