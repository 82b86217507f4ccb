//! The canonical writer (engine.md 1.3).

use crate::protocol::Text;

/// Appends canonical JSON to one string. Objects are written through [`Members`], which puts keys in order.
#[derive(Debug, Default)]
pub struct Writer {
    out: String,
}

impl Writer {
    /// An empty writer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The text written so far.
    #[must_use]
    pub fn finish(self) -> String {
        self.out
    }

    /// Bytes written so far.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    /// Text that is canonical JSON already, or punctuation.
    pub fn raw(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// A string with the canonical escapes.
    pub fn string(&mut self, text: &str) {
        self.out.push('"');
        let mut clean = 0;
        for (at, byte) in text.bytes().enumerate() {
            let width = escape_width(byte);
            if width == 1 {
                continue;
            }
            self.out.push_str(&text[clean..at]);
            clean = at + 1;
            match byte {
                b'"' => self.out.push_str("\\\""),
                b'\\' => self.out.push_str("\\\\"),
                8 => self.out.push_str("\\b"),
                9 => self.out.push_str("\\t"),
                10 => self.out.push_str("\\n"),
                12 => self.out.push_str("\\f"),
                13 => self.out.push_str("\\r"),
                other => {
                    self.out.push_str("\\u00");
                    self.out.push_str(&hex(&[other]));
                }
            }
        }
        self.out.push_str(&text[clean..]);
        self.out.push('"');
    }

    /// An integer in plain decimal.
    pub fn integer(&mut self, value: i64) {
        self.out.push_str(&value.to_string());
    }

    /// `true` or `false`.
    pub fn bool(&mut self, value: bool) {
        self.out.push_str(if value { "true" } else { "false" });
    }

    /// An array of everything that `items` yields.
    pub fn array<T>(&mut self, items: impl IntoIterator<Item = T>, mut each: impl FnMut(&mut Self, T)) {
        self.out.push('[');
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            each(self, item);
        }
        self.out.push(']');
    }

    /// An object whose members are added in any order and written in key order.
    pub fn object(&mut self, fill: impl FnOnce(&mut Members<'_>)) {
        let start = self.out.len();
        let mut members = Members { writer: self, spans: Vec::new() };
        fill(&mut members);
        let Members { spans, .. } = members;
        self.order(start, spans);
    }

    /// Rewrites `out[start..]`, a run of members, as an object with sorted keys.
    fn order(&mut self, start: usize, mut spans: Vec<Span>) {
        if spans.windows(2).all(|pair| pair[0].key < pair[1].key) {
            if spans.is_empty() {
                self.out.push_str("{}");
            } else {
                self.out.push('}');
            }
            return;
        }
        spans.sort_by(|a, b| a.key.cmp(&b.key));
        let run = self.out.split_off(start);
        for (index, span) in spans.iter().enumerate() {
            self.out.push(if index == 0 { '{' } else { ',' });
            self.out.push_str(&run[span.start - start..span.end - start]);
        }
        self.out.push('}');
    }
}

#[derive(Debug)]
struct Span {
    key: Key,
    start: usize,
    end: usize,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KeyText {
    Name(&'static str),
    Text(Text),
}

/// Compares by the string alone, whichever way it is held.
#[derive(Debug)]
struct Key(KeyText);

impl Key {
    fn as_str(&self) -> &str {
        match &self.0 {
            KeyText::Name(name) => name,
            KeyText::Text(text) => text.as_str(),
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

/// The members of one object under construction. Keys must be distinct.
#[derive(Debug)]
pub struct Members<'a> {
    writer: &'a mut Writer,
    spans: Vec<Span>,
}

impl Members<'_> {
    /// A member whose key is a name of the protocol.
    pub fn name(&mut self, key: &'static str, value: impl FnOnce(&mut Writer)) {
        self.member(Key(KeyText::Name(key)), value);
    }

    /// A member whose key is data.
    pub fn text(&mut self, key: &Text, value: impl FnOnce(&mut Writer)) {
        self.member(Key(KeyText::Text(key.clone())), value);
    }

    fn member(&mut self, key: Key, value: impl FnOnce(&mut Writer)) {
        // The separator stands before the span, so that members can be cut out and reordered.
        self.writer.out.push(if self.spans.is_empty() { '{' } else { ',' });
        let start = self.writer.out.len();
        self.writer.string(key.as_str());
        self.writer.raw(":");
        value(self.writer);
        let end = self.writer.out.len();
        self.spans.push(Span { key, start, end });
    }
}

/// Bytes that the canonical form of one byte of a string takes.
const fn escape_width(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | 8 | 9 | 10 | 12 | 13 => 2,
        0..0x20 => 6,
        _ => 1,
    }
}

/// Bytes of the canonical form of a string's body, without the quotes.
#[must_use]
pub fn escaped_len(text: &str) -> usize {
    // Nearly every text is free of escapes; this first look runs on whole vectors.
    let plain = text.bytes().fold(true, |plain, byte| plain & (byte >= 0x20) & (byte != b'"') & (byte != b'\\'));
    if plain { text.len() } else { text.bytes().map(escape_width).sum() }
}

/// Bytes of the canonical form of a string, quotes included.
#[must_use]
pub fn encoded_len(text: &str) -> usize {
    escaped_len(text) + 2
}

/// Lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    out
}
