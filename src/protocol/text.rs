//! Shared text: a span of a larger buffer, or a buffer of its own.
//!
//! A ledger is read into one buffer. Every identity, payload and line of it stays a span of that buffer, so a
//! million short strings cost a million 16-byte handles and no allocation. Cloning counts a reference.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Bytes that spans share, with a count of who shares them.
#[derive(Debug)]
pub(crate) enum Buffer {
    /// A buffer of its own.
    Own(String),
    /// A handle to a file that has other handles too, each with its own count: threads that read different parts of
    /// one file do not take turns at one counter.
    Part(Arc<String>),
}

impl Buffer {
    fn as_str(&self) -> &str {
        match self {
            Self::Own(text) => text,
            Self::Part(text) => text,
        }
    }
}

impl std::ops::Deref for Buffer {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

/// An immutable UTF-8 string that shares its bytes with the buffer it was read from.
///
/// The buffer is at most 4 GiB; readers bound their input far below that (see [`crate::protocol::limits`]).
#[derive(Clone)]
pub struct Text {
    buffer: Arc<Buffer>,
    start: u32,
    end: u32,
}

impl Text {
    /// The bytes `start..end` of `buffer`, which must lie on character boundaries inside it.
    pub(crate) fn span(buffer: &Arc<Buffer>, start: u32, end: u32) -> Self {
        debug_assert!(buffer.get(start as usize..end as usize).is_some());
        Self { buffer: Arc::clone(buffer), start, end }
    }

    /// The whole of a string, which every reader's bound keeps under 4 GiB.
    fn whole(text: String) -> Self {
        let end = u32::try_from(text.len()).expect("readers bound their input to 161 MiB");
        Self { buffer: Arc::new(Buffer::Own(text)), start: 0, end }
    }

    /// The bytes `start..end` of this text, which must lie on character boundaries inside it.
    pub(crate) fn part(&self, start: u32, end: u32) -> Self {
        Self::span(&self.buffer, self.start + start, self.start + end)
    }

    /// The string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.buffer[self.start as usize..self.end as usize]
    }

    /// Length in UTF-8 bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// True for the empty string.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The string's bytes, without the check for character boundaries that [`Text::as_str`] makes.
    fn bytes(&self) -> &[u8] {
        &self.buffer.as_bytes()[self.start as usize..self.end as usize]
    }

    /// The buffer and the bounds of this span in it.
    pub(crate) fn parts(&self) -> (&Arc<Buffer>, u32, u32) {
        (&self.buffer, self.start, self.end)
    }
}

impl From<String> for Text {
    fn from(value: String) -> Self {
        Self::whole(value)
    }
}

impl From<&str> for Text {
    fn from(value: &str) -> Self {
        Self::from(value.to_owned())
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Text {}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
