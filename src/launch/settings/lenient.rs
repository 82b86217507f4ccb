//! A forgiving reader of JSON that other hands wrote: it keeps repeated members, the spelling of numbers and lone
//! surrogates, so that the caller can name the property that is wrong (publication.md 6.3). Whatever is accepted in the
//! end is read again by the strict reader.

use std::ops::Range;

/// Deepest nesting that is read; files that a person writes have a handful of levels.
const MAX_DEPTH: usize = 128;

/// A JSON value as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// The number's own spelling.
    Number(String),
    /// Unescaped; a lone surrogate became U+FFFD.
    String(String),
    Array(Vec<Json>),
    /// In the order of the text, repeated names included.
    Object(Vec<Member>),
}

/// One member of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) value: Json,
    /// Where the value stands in the text, in bytes.
    pub(crate) span: Range<usize>,
}

impl Json {
    /// The members, if this is an object.
    pub(crate) fn members(&self) -> Option<&[Member]> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }
}

/// Reads one value and nothing after it. The error says what was expected, never what was found.
pub(crate) fn read(text: &str) -> Result<Json, &'static str> {
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0 };
    let value = reader.value(0)?;
    reader.space();
    if reader.at < reader.bytes.len() { Err("text follows the JSON value") } else { Ok(value) }
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json, &'static str> {
        if depth > MAX_DEPTH {
            return Err("the JSON nests too deeply");
        }
        self.space();
        match self.bytes.get(self.at) {
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Json, &'static str> {
        for (word, value) in [("true", Json::Bool(true)), ("false", Json::Bool(false)), ("null", Json::Null)] {
            if self.bytes[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err("a JSON value is missing or malformed")
    }

    fn digits(&mut self) -> bool {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        self.at > start
    }

    fn number(&mut self) -> Result<Json, &'static str> {
        const MALFORMED: &str = "a JSON number is malformed";
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') && !self.digits() {
            return Err(MALFORMED);
        }
        if self.take(b'.') && !self.digits() {
            return Err(MALFORMED);
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if !self.take(b'+') {
                self.take(b'-');
            }
            if !self.digits() {
                return Err(MALFORMED);
            }
        }
        Ok(Json::Number(self.text[start..self.at].to_owned()))
    }

    fn string(&mut self) -> Result<String, &'static str> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let clean = self.at;
            while self.bytes.get(self.at).is_some_and(|byte| !matches!(byte, b'"' | b'\\' | 0..0x20)) {
                self.at += 1;
            }
            out.push_str(&self.text[clean..self.at]);
            if self.take(b'"') {
                return Ok(out);
            }
            if !self.take(b'\\') {
                return Err("a JSON string is not closed or holds a control character");
            }
            out.push(self.escape()?);
        }
    }

    fn escape(&mut self) -> Result<char, &'static str> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        match byte {
            Some(b'"') => Ok('"'),
            Some(b'\\') => Ok('\\'),
            Some(b'/') => Ok('/'),
            Some(b'b') => Ok('\u{8}'),
            Some(b'f') => Ok('\u{c}'),
            Some(b'n') => Ok('\n'),
            Some(b'r') => Ok('\r'),
            Some(b't') => Ok('\t'),
            Some(b'u') => {
                let high = self.hex4()?;
                if (0xD800..0xDC00).contains(&high) && self.bytes[self.at..].starts_with(b"\\u") {
                    let resume = self.at;
                    self.at += 2;
                    let low = self.hex4()?;
                    if (0xDC00..0xE000).contains(&low) {
                        let code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                        return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    self.at = resume;
                }
                Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER))
            }
            _ => Err("a JSON string holds an unknown escape"),
        }
    }

    fn hex4(&mut self) -> Result<u32, &'static str> {
        let digits = self.bytes.get(self.at..self.at + 4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.ok_or("a unicode escape needs four hexadecimal digits")?;
        self.at += 4;
        Ok(digits.iter().fold(0, |value, digit| value * 16 + char::from(*digit).to_digit(16).unwrap_or(0)))
    }

    fn array(&mut self, depth: usize) -> Result<Json, &'static str> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.take(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            if self.take(b']') {
                return Ok(Json::Array(items));
            }
            if !self.take(b',') {
                return Err("a JSON array wants a comma or its end");
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, &'static str> {
        self.at += 1;
        let mut members = Vec::new();
        self.space();
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            if self.bytes.get(self.at) != Some(&b'"') {
                return Err("a JSON object wants a name");
            }
            let name = self.string()?;
            self.space();
            if !self.take(b':') {
                return Err("a JSON name wants a colon");
            }
            self.space();
            let start = self.at;
            let value = self.value(depth + 1)?;
            members.push(Member { name, value, span: start..self.at });
            self.space();
            if self.take(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.take(b',') {
                return Err("a JSON object wants a comma or its end");
            }
        }
    }
}
