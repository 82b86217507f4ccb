//! The one-pass reader of canonical text.

use std::sync::Arc;

use super::node::Node;
use super::parse::parse_bounded;
use crate::protocol::limits::{MAX_ARRAY, MAX_DEPTH, MAX_INTEGER};
use crate::protocol::text::Buffer;
use crate::protocol::{Fault, Text};

/// What a token stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Null,
    True,
    False,
    Integer,
    /// A string without escapes; the span lies between the quotes.
    Plain,
    /// A string with escapes; the span lies between the quotes.
    Escaped,
    Array,
    Object,
    /// An object or array whose inside was checked but not indexed.
    OpaqueArray,
    OpaqueObject,
    /// An array that repeats the record's operations word for word: its members are at [`Document::carried`].
    Repeat,
}

/// One value or key. Sixteen bytes; a container's `next` skips its inside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) tag: Tag,
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) next: u32,
}

/// Why canonical scanning stopped: the text is not canonical, or not valid at all. The strict parser tells which.
struct Irregular;

/// Reads documents one after another and reuses its index.
#[derive(Debug)]
pub struct Scanner {
    host: String,
    tokens: Vec<Token>,
    /// Token of the record's operations.
    carried: u32,
    /// Refuses text that is not canonical instead of encoding it anew.
    strict: bool,
}

/// A checked document: canonical text and the index of its typed part.
#[derive(Debug)]
pub struct Document<'a> {
    pub(super) buffer: Arc<Buffer>,
    pub(super) tokens: &'a [Token],
    pub(super) carried: u32,
    pub(super) host: &'a str,
    /// True if the text was canonical as given, so that offsets are offsets of the input.
    pub(super) verbatim: bool,
}

impl Scanner {
    /// A scanner for records whose external resources live on `host` (decision 9), such as `github.com`.
    #[must_use]
    pub fn new(host: &str) -> Self {
        Self { host: host.to_owned(), tokens: Vec::new(), carried: 0, strict: false }
    }

    /// A scanner that refuses whatever is not canonical, however valid, with a code that says nothing: for reading
    /// ahead, where a tree of a long line would take much memory.
    pub(crate) fn strict(host: &str) -> Self {
        Self { strict: true, ..Self::new(host) }
    }

    /// The approved host of external resources.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Checks one document.
    ///
    /// `text` is at most 4 GiB in a buffer that [`crate::protocol::limits`] bounds far below. Canonical text is
    /// indexed in place; other text is parsed strictly, encoded canonically and indexed in a buffer of its own.
    ///
    /// # Errors
    /// `codec_invalid`, `noncanonical_number`, `invalid_unicode`, `duplicate_key` or `resource_limit`, with the
    /// byte offset in `text`.
    pub fn read(&mut self, text: &Text) -> Result<Document<'_>, Fault> {
        let (buffer, start, end) = text.parts();
        if self.index(&buffer.as_bytes()[..end as usize], start).is_ok() {
            return Ok(self.document(Arc::clone(buffer), true));
        }
        if self.strict {
            return Err(Fault::from(crate::protocol::Code::CodecInvalid));
        }
        let value = parse_bounded(text.as_str(), text.len().max(1))?;
        let canonical = Arc::new(Buffer::Own(value.encode()?));
        drop(value);
        if self.index(canonical.as_bytes(), 0).is_err() {
            return Err(Fault::new(crate::protocol::Code::Internal, "canonical text was not read as canonical"));
        }
        Ok(self.document(canonical, false))
    }

    fn document(&self, buffer: Arc<Buffer>, verbatim: bool) -> Document<'_> {
        Document { buffer, tokens: &self.tokens, carried: self.carried, host: &self.host, verbatim }
    }

    fn index(&mut self, bytes: &[u8], start: u32) -> Result<(), Irregular> {
        self.tokens.clear();
        let mut pass = Pass { bytes, at: start as usize, tokens: &mut self.tokens, deepest: 0, carried: None };
        pass.value(0, true, false)?;
        let complete = pass.at == bytes.len();
        self.carried = pass.carried.map_or(0, |carried| carried.token);
        if complete { Ok(()) } else { Err(Irregular) }
    }
}

impl Document<'_> {
    /// The root value.
    #[must_use]
    pub fn root(&self) -> Node<'_> {
        Node::new(self, 0)
    }
}

struct Pass<'a> {
    bytes: &'a [u8],
    at: usize,
    tokens: &'a mut Vec<Token>,
    /// Deepest value since the start of the record's operations.
    deepest: usize,
    /// The record's operations, once they were read.
    carried: Option<Carried>,
}

/// The list under `operations` of a record: its token, and how many levels its deepest value lies below it.
#[derive(Clone, Copy)]
struct Carried {
    token: u32,
    levels: usize,
}

/// Bytes that end the plain run of a string: controls, the quote and the backslash.
const STOPS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = true;
        byte += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table
};

/// How many of eight bytes come before the first one of [`STOPS`], found with arithmetic on all eight at once.
fn stop_free(chunk: [u8; 8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let word = u64::from_le_bytes(chunk);
    // A byte below n sets its high bit in `word - n * ONES` if it has none itself; a borrow can only disturb bytes
    // above the first hit, which is all that is asked for.
    let below = |word: u64, bound: u64| word.wrapping_sub(bound * ONES) & !word & HIGHS;
    let hits =
        below(word, 0x20) | below(word ^ (u64::from(b'"') * ONES), 1) | below(word ^ (u64::from(b'\\') * ONES), 1);
    hits.trailing_zeros() as usize / 8
}

/// Span of a string between its quotes.
#[derive(Clone, Copy)]
struct Run {
    start: usize,
    end: usize,
    escaped: bool,
}

/// True if none of the bytes ends the plain run of a string. Without an early exit it runs on whole vectors.
fn is_plain(block: &[u8]) -> bool {
    block.iter().fold(true, |plain, byte| plain & (*byte >= 0x20) & (*byte != b'"') & (*byte != b'\\'))
}

impl Pass<'_> {
    fn peek(&self) -> Result<u8, Irregular> {
        self.bytes.get(self.at).copied().ok_or(Irregular)
    }

    fn expect(&mut self, text: &[u8]) -> Result<(), Irregular> {
        if self.bytes[self.at..].starts_with(text) {
            self.at += text.len();
            Ok(())
        } else {
            Err(Irregular)
        }
    }

    fn expect_byte(&mut self, byte: u8) -> Result<(), Irregular> {
        if self.peek()? == byte {
            self.at += 1;
            Ok(())
        } else {
            Err(Irregular)
        }
    }

    fn push(&mut self, tag: Tag, start: usize, emit: bool) {
        if emit {
            let next = self.tokens.len() as u32 + 1;
            self.tokens.push(Token { tag, start: start as u32, end: self.at as u32, next });
        }
    }

    fn value(&mut self, depth: usize, emit: bool, listed: bool) -> Result<(), Irregular> {
        if depth > MAX_DEPTH {
            return Err(Irregular);
        }
        self.deepest = self.deepest.max(depth);
        let start = self.at;
        match self.peek()? {
            b'"' => {
                let run = self.string()?;
                self.push_string(run, emit);
                Ok(())
            }
            b'{' => self.object(depth, emit, listed),
            b'[' => self.array(depth, emit),
            b't' => self.expect(b"true").map(|()| self.push(Tag::True, start, emit)),
            b'f' => self.expect(b"false").map(|()| self.push(Tag::False, start, emit)),
            b'n' => self.expect(b"null").map(|()| self.push(Tag::Null, start, emit)),
            b'-' | b'0'..=b'9' => self.integer().map(|()| self.push(Tag::Integer, start, emit)),
            _ => Err(Irregular),
        }
    }

    fn push_string(&mut self, run: Run, emit: bool) {
        if emit {
            let tag = if run.escaped { Tag::Escaped } else { Tag::Plain };
            let next = self.tokens.len() as u32 + 1;
            self.tokens.push(Token { tag, start: run.start as u32, end: run.end as u32, next });
        }
    }

    fn integer(&mut self) -> Result<(), Irregular> {
        let negative = self.bytes[self.at] == b'-';
        if negative {
            self.at += 1;
        }
        let start = self.at;
        let mut value: i64 = 0;
        while let Some(digit @ b'0'..=b'9') = self.bytes.get(self.at) {
            value = value * 10 + i64::from(digit - b'0');
            self.at += 1;
            if self.at - start > 16 {
                return Err(Irregular);
            }
        }
        let digits = self.at - start;
        let canonical = digits > 0 && (self.bytes[start] != b'0' || (digits == 1 && !negative));
        if canonical && value <= MAX_INTEGER { Ok(()) } else { Err(Irregular) }
    }

    fn string(&mut self) -> Result<Run, Irregular> {
        self.expect_byte(b'"')?;
        let start = self.at;
        let mut escaped = false;
        loop {
            // Most strings end within a few words; one that does not is worth looking at in blocks.
            let mut words = 0;
            while let Some(chunk) = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk) {
                let free = stop_free(*chunk);
                self.at += free;
                if free < 8 {
                    break;
                }
                words += 1;
                if words == 4 {
                    words = 0;
                    while self.bytes.get(self.at..self.at + 32).is_some_and(is_plain) {
                        self.at += 32;
                    }
                }
            }
            while !STOPS[self.peek()? as usize] {
                self.at += 1;
            }
            match self.bytes[self.at] {
                b'"' => {
                    let run = Run { start, end: self.at, escaped };
                    self.at += 1;
                    return Ok(run);
                }
                b'\\' => {
                    escaped = true;
                    self.at += 1;
                    self.escape()?;
                }
                _ => return Err(Irregular),
            }
        }
    }

    /// Accepts exactly the escapes that the canonical writer uses.
    fn escape(&mut self) -> Result<(), Irregular> {
        let byte = self.peek()?;
        self.at += 1;
        match byte {
            b'"' | b'\\' | b'b' | b't' | b'n' | b'f' | b'r' => Ok(()),
            b'u' => {
                self.expect(b"00")?;
                let (high, low) = (self.peek()?, self.bytes.get(self.at + 1).copied().ok_or(Irregular)?);
                let low = match low {
                    b'0'..=b'9' => low - b'0',
                    b'a'..=b'f' => low - b'a' + 10,
                    _ => return Err(Irregular),
                };
                let code = match high {
                    b'0' => low,
                    b'1' => 16 + low,
                    _ => return Err(Irregular),
                };
                self.at += 2;
                if matches!(code, 8 | 9 | 10 | 12 | 13) { Err(Irregular) } else { Ok(()) }
            }
            _ => Err(Irregular),
        }
    }

    fn array(&mut self, depth: usize, emit: bool) -> Result<(), Irregular> {
        let start = self.at;
        let slot = self.open(Tag::Array, start, emit);
        self.at += 1;
        if self.peek()? == b']' {
            self.at += 1;
            self.close(slot);
            return Ok(());
        }
        let mut members = 0;
        loop {
            members += 1;
            if members > MAX_ARRAY {
                return Err(Irregular);
            }
            self.value(depth + 1, emit, true)?;
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    self.close(slot);
                    return Ok(());
                }
                _ => return Err(Irregular),
            }
        }
    }

    fn object(&mut self, depth: usize, emit: bool, listed: bool) -> Result<(), Irregular> {
        let start = self.at;
        let slot = self.open(Tag::Object, start, emit);
        self.at += 1;
        if self.peek()? == b'}' {
            self.at += 1;
            self.close(slot);
            return Ok(());
        }
        let mut previous: Option<Run> = None;
        loop {
            let key = self.string()?;
            if let Some(previous) = previous {
                self.ascending(previous, key)?;
            }
            previous = Some(key);
            self.push_string(key, emit);
            self.expect_byte(b':')?;
            match &self.bytes[key.start..key.end] {
                b"payload" | b"descriptor" if emit && listed => self.opaque(depth + 1)?,
                b"operations" if emit && depth == 0 => self.operations()?,
                b"operations" | b"nodes" if emit && depth == 2 => self.repeated(depth + 1)?,
                _ => self.value(depth + 1, emit, false)?,
            }
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    self.close(slot);
                    return Ok(());
                }
                _ => return Err(Irregular),
            }
        }
    }

    /// Reads the operations of a record and remembers them, because its request mostly repeats them.
    fn operations(&mut self) -> Result<(), Irregular> {
        let token = self.tokens.len();
        self.deepest = 0;
        self.value(1, true, false)?;
        if self.tokens[token].tag == Tag::Array {
            self.carried = Some(Carried { token: token as u32, levels: self.deepest - 1 });
        }
        Ok(())
    }

    /// A list that repeats the record's operations needs no second look: equal text is equally canonical, unless it
    /// lies too deep here.
    fn repeated(&mut self, depth: usize) -> Result<(), Irregular> {
        if let Some(Carried { token, levels }) = self.carried {
            let first = self.tokens[token as usize];
            let text = &self.bytes[first.start as usize..first.end as usize];
            if depth + levels <= MAX_DEPTH && self.bytes[self.at..].starts_with(text) {
                let start = self.at;
                self.at += text.len();
                self.push(Tag::Repeat, start, true);
                return Ok(());
            }
        }
        self.value(depth, true, false)
    }

    /// Members of listed objects (operations, nodes) named `payload` or `descriptor` stay opaque: the protocol never
    /// looks inside them. Names of pools and profiles are data and stand in objects that no list holds.
    ///
    /// A container is one token; its inside is checked and not indexed. A scalar is indexed as ever.
    fn opaque(&mut self, depth: usize) -> Result<(), Irregular> {
        let start = self.at;
        let tag = match self.peek()? {
            b'{' => Tag::OpaqueObject,
            b'[' => Tag::OpaqueArray,
            _ => return self.value(depth, true, false),
        };
        self.value(depth, false, false)?;
        self.push(tag, start, true);
        Ok(())
    }

    fn open(&mut self, tag: Tag, start: usize, emit: bool) -> Option<usize> {
        emit.then(|| {
            self.tokens.push(Token { tag, start: start as u32, end: 0, next: 0 });
            self.tokens.len() - 1
        })
    }

    fn close(&mut self, slot: Option<usize>) {
        if let Some(slot) = slot {
            let next = self.tokens.len() as u32;
            let token = &mut self.tokens[slot];
            token.end = self.at as u32;
            token.next = next;
        }
    }

    /// Keys must grow strictly in UTF-8 order, which also excludes duplicates.
    fn ascending(&self, previous: Run, key: Run) -> Result<(), Irregular> {
        let (a, b) = (&self.bytes[previous.start..previous.end], &self.bytes[key.start..key.end]);
        // Most neighbours differ in their first byte.
        if let ([x, ..], [y, ..]) = (a, b)
            && x < y
            && *x != b'\\'
            && *y != b'\\'
        {
            return Ok(());
        }
        let grows = if previous.escaped || key.escaped { unescape_bytes(a) < unescape_bytes(b) } else { a < b };
        if grows { Ok(()) } else { Err(Irregular) }
    }
}

/// The bytes that a canonical string body stands for.
pub(super) fn unescape_bytes(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len());
    let mut at = 0;
    while at < body.len() {
        let byte = body[at];
        at += 1;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let escape = body[at];
        at += 1;
        out.push(match escape {
            b'b' => 8,
            b't' => 9,
            b'n' => 10,
            b'f' => 12,
            b'r' => 13,
            b'u' => {
                let high = body[at + 2] - b'0';
                let low = body[at + 3];
                at += 4;
                high * 16 + if low.is_ascii_digit() { low - b'0' } else { low - b'a' + 10 }
            }
            other => other,
        });
    }
    out
}
