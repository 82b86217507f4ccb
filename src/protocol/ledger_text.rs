//! The ledger file: framing, and its lines as commits (engine.md 1.6).

use std::ops::Range;
use std::sync::Arc;

use super::commit::{Actors, Commit};
use super::identity::is_js_space;
use super::json::Scanner;
use super::limits::{MAX_COMMIT_BYTES, MAX_COMMITS, MAX_LEDGER_BYTES};
use super::text::Buffer;
use super::{Code, Fault, Text};

/// Name of the ledger file at the root of the queue branch.
pub const LEDGER_FILE: &str = "work-queue.jsonl";

/// A refusal of a ledger file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerFault {
    /// Why.
    pub fault: Fault,
    /// The line at fault, from 1; none where no single line is.
    pub line: Option<usize>,
    /// Byte offset in the file, where one is known.
    pub offset: Option<usize>,
}

impl LedgerFault {
    fn whole(code: Code, message: &'static str) -> Self {
        Self { fault: Fault::new(code, message), line: None, offset: None }
    }
}

impl From<Fault> for LedgerFault {
    fn from(fault: Fault) -> Self {
        Self { fault, line: None, offset: None }
    }
}

impl std::fmt::Display for LedgerFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.fault),
            None => self.fault.fmt(f),
        }
    }
}

impl std::error::Error for LedgerFault {}

/// A framed ledger: non-empty lines of UTF-8, each at most 8 MiB.
#[derive(Clone, Debug)]
pub struct LedgerText {
    text: Arc<String>,
    /// The handle of [`LedgerText::text`] whose count the spans of this value share.
    buffer: Arc<Buffer>,
    /// Start and end of each line, without its line feed.
    lines: Vec<(u32, u32)>,
}

impl LedgerText {
    /// Takes a whole file of at most 80 MiB.
    ///
    /// # Errors
    /// `resource_limit` for the file or a line, `ledger_invalid` for framing and for bytes that are not UTF-8.
    pub fn new(bytes: Vec<u8>) -> Result<Self, LedgerFault> {
        if bytes.len() > MAX_LEDGER_BYTES {
            return Err(LedgerFault::whole(Code::ResourceLimit, "the ledger is longer than 80 MiB"));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let line = error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
            let fault = Fault::new(Code::LedgerInvalid, "the ledger is not UTF-8");
            LedgerFault { fault, line: Some(line), offset: Some(valid) }
        })?;
        if !text.ends_with('\n') {
            let message = if text.is_empty() { "the ledger is empty" } else { "the ledger's last line is not ended" };
            return Err(LedgerFault::whole(Code::LedgerInvalid, message));
        }
        let mut lines = Vec::new();
        let mut start = 0;
        let mut long = None;
        for (index, end) in memchr::memchr_iter(b'\n', text.as_bytes()).enumerate() {
            let line = &text[start..end];
            let refusal = |code, message| {
                let fault = Fault::new(code, message);
                LedgerFault { fault, line: Some(index + 1), offset: Some(start) }
            };
            // A blank line anywhere comes before a long one.
            if line.chars().all(is_js_space) {
                return Err(refusal(Code::LedgerInvalid, "a ledger line is blank"));
            }
            if line.len() > MAX_COMMIT_BYTES && long.is_none() {
                long = Some(refusal(Code::ResourceLimit, "a ledger line is longer than 8 MiB"));
            }
            // A file of more lines than a chain may have commits is refused; its lines need no index.
            if index <= MAX_COMMITS {
                lines.push((start as u32, end as u32));
            }
            start = end + 1;
        }
        match long {
            Some(fault) => Err(fault),
            None => {
                let text = Arc::new(text);
                Ok(Self { buffer: Arc::new(Buffer::Part(Arc::clone(&text))), text, lines })
            }
        }
    }

    /// Number of lines, counted up to one more than a chain may have commits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Never true: a framed ledger has a line.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The whole file.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Splits the lines into runs of about `bytes` bytes each, in order.
    pub(crate) fn runs(&self, bytes: usize) -> Vec<Range<usize>> {
        let mut runs = Vec::with_capacity(self.text.len() / bytes + 1);
        let mut first = 0;
        while first < self.lines.len() {
            let bound = self.lines[first].0 as usize + bytes;
            let count = self.lines[first..].partition_point(|(_, end)| (*end as usize) < bound);
            let next = (first + count.max(1)).min(self.lines.len());
            runs.push(first..next);
            first = next;
        }
        runs
    }

    /// Bytes from the start of the first to the end of the last of some lines.
    pub(crate) fn extent(&self, lines: &Range<usize>) -> usize {
        let bounds = self.lines.get(lines.clone()).and_then(|lines| Some((lines.first()?.0, lines.last()?.1)));
        bounds.map_or(0, |(start, end)| (end - start) as usize)
    }

    /// The text of line `index` (from 0), without its line feed.
    #[must_use]
    pub fn line(&self, index: usize) -> Option<Text> {
        self.lines.get(index).map(|(start, end)| Text::span(&self.buffer, *start, *end))
    }

    /// Reads line `index` (from 0) as a commit.
    ///
    /// # Errors
    /// The commit's fault with line and file offset.
    pub fn commit(&self, scanner: &mut Scanner, index: usize) -> Result<Commit, LedgerFault> {
        self.reader().commit(scanner, index)
    }

    /// A reader of many lines. What it reads shares one count with every other span of this value.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader { text: self, buffer: Arc::clone(&self.buffer), actors: Actors::default() }
    }

    /// A reader whose commits share a count of their own, so that whoever holds them does not disturb who reads other
    /// lines in another thread.
    pub(crate) fn reader_apart(&self) -> Reader<'_> {
        Reader { buffer: Arc::new(Buffer::Part(Arc::clone(&self.text))), ..self.reader() }
    }

    /// Reads every line as a commit, in file order. Codec faults of any line come before shape faults of an earlier
    /// one, as when the steps of engine.md 1.6 run over the whole file one after another.
    ///
    /// # Errors
    /// The first fault of the first step that refuses.
    pub fn commits(&self, scanner: &mut Scanner) -> Result<Vec<Commit>, LedgerFault> {
        let mut commits = Vec::with_capacity(self.len());
        let mut reader = self.reader();
        for index in 0..self.len() {
            match reader.commit(scanner, index) {
                Ok(commit) => commits.push(commit),
                Err(shape) => return Err(self.codec_fault(scanner, index + 1).unwrap_or(shape)),
            }
        }
        Ok(commits)
    }

    /// The first codec fault at or after line `from` (from 0), for a ledger that is refused anyway.
    fn codec_fault(&self, scanner: &mut Scanner, from: usize) -> Option<LedgerFault> {
        let mut start = self.lines.get(from)?.0 as usize;
        // Not over the index, which ends where a chain's bound does.
        for (index, line) in self.text[start..self.text.len() - 1].split('\n').enumerate() {
            if let Err(fault) = scanner.read(&Text::span(&self.buffer, start as u32, (start + line.len()) as u32)) {
                let offset = Some(start + fault.offset().unwrap_or(0));
                return Some(LedgerFault { offset, line: Some(from + index + 1), fault });
            }
            start += line.len() + 1;
        }
        None
    }
}

/// Reads lines of one ledger as commits, and lets them share what they have in common.
pub(crate) struct Reader<'a> {
    text: &'a LedgerText,
    buffer: Arc<Buffer>,
    actors: Actors,
}

impl Reader<'_> {
    /// Reads line `index` (from 0) as a commit.
    ///
    /// # Errors
    /// As [`LedgerText::commit`].
    pub(crate) fn commit(&mut self, scanner: &mut Scanner, index: usize) -> Result<Commit, LedgerFault> {
        let (start, end) = self.text.lines[index];
        let line = Text::span(&self.buffer, start, end);
        Commit::read_among(scanner, &line, &mut self.actors).map_err(|fault| LedgerFault {
            offset: Some(start as usize + fault.offset().unwrap_or(0)),
            line: Some(index + 1),
            fault,
        })
    }
}
