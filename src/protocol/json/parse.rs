//! The strict reader of any JSON text (engine.md 1.2). It names the first defect in reading order.

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::value::Value;
use crate::protocol::limits::{MAX_ARRAY, MAX_DEPTH, MAX_INTEGER, MAX_LEDGER_BYTES, MAX_READER_BYTES};
use crate::protocol::{Code, Fault};

/// Reads one value from text of at most 80 MiB.
///
/// # Errors
/// `resource_limit`, `codec_invalid`, `noncanonical_number`, `invalid_unicode` or `duplicate_key`, with the byte
/// offset.
pub fn parse(text: &str) -> Result<Value, Fault> {
    parse_bounded(text, MAX_LEDGER_BYTES)
}

/// Reads one value from text of at most `ceiling` bytes, which must lie in 1..=161 MiB.
///
/// # Errors
/// As [`parse`]; also `resource_limit` for a ceiling out of range.
pub fn parse_bounded(text: &str, ceiling: usize) -> Result<Value, Fault> {
    if ceiling == 0 || ceiling > MAX_READER_BYTES || text.len() > ceiling {
        return Err(Fault::new(Code::ResourceLimit, "the text is longer than its bound"));
    }
    let mut parser = Parser { text, bytes: text.as_bytes(), at: 0 };
    let value = parser.value(0)?;
    parser.space();
    if parser.at < parser.bytes.len() {
        return Err(parser.syntax("text follows the value"));
    }
    Ok(value)
}

/// The keys of one object so far: few are compared one by one, many are looked up by a hash that is seeded at random.
#[derive(Default)]
struct Seen {
    seed: DefaultHashBuilder,
    /// Indexes of members, once there are more than [`Seen::FEW`].
    table: HashTable<usize>,
}

impl Seen {
    const FEW: usize = 16;

    /// True if a member has this key. Catches up with the members that were read since the last call.
    fn holds(&mut self, members: &[(String, Value)], key: &str) -> bool {
        if members.len() < Self::FEW {
            return members.iter().any(|(known, _)| known == key);
        }
        let hash = |key: &str| self.seed.hash_one(key);
        let rehash = |index: &usize| members.get(*index).map_or(0, |(key, _)| hash(key));
        for (index, (known, _)) in members.iter().enumerate().skip(self.table.len()) {
            self.table.insert_unique(hash(known), index, rehash);
        }
        self.table.find(hash(key), |index| members[*index].0 == key).is_some()
    }
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn fault(&self, code: Code, message: &'static str) -> Fault {
        Fault::new(code, message).at(self.at)
    }

    fn syntax(&self, message: &'static str) -> Fault {
        self.fault(Code::CodecInvalid, message)
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Fault> {
        if depth > MAX_DEPTH {
            return Err(self.fault(Code::ResourceLimit, "values nest deeper than 64 levels"));
        }
        self.space();
        match self.bytes.get(self.at) {
            Some(b'"') => self.string().map(Value::String),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Value, Fault> {
        for (word, value) in [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)] {
            if self.bytes[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.syntax("a value was expected"))
    }

    /// Takes the longest prefix that the JSON grammar calls a number, then asks whether its spelling is canonical.
    fn number(&mut self) -> Result<Value, Fault> {
        let start = self.at;
        let mut end = start + usize::from(self.bytes[start] == b'-');
        let digits = |mut at: usize| {
            while self.bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        match self.bytes.get(end) {
            Some(b'0') => end += 1,
            Some(b'1'..=b'9') => end = digits(end),
            _ => return Err(self.syntax("a number has no digits")),
        }
        let integer_end = end;
        if self.bytes.get(end) == Some(&b'.') && digits(end + 1) > end + 1 {
            end = digits(end + 1);
        }
        if let Some(b'e' | b'E') = self.bytes.get(end) {
            let sign = usize::from(matches!(self.bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = end + 1 + sign;
            if digits(exponent) > exponent {
                end = digits(exponent);
            }
        }
        let token = &self.text[start..end];
        let value = if end == integer_end && token != "-0" { token.parse::<i64>().ok() } else { None };
        match value.filter(|value| value.abs() <= MAX_INTEGER) {
            Some(value) => {
                self.at = end;
                Ok(Value::Integer(value))
            }
            None => Err(self.fault(Code::NoncanonicalNumber, "a number is not spelled as a safe integer")),
        }
    }

    fn string(&mut self) -> Result<String, Fault> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let clean = self.at;
            while self.bytes.get(self.at).is_some_and(|byte| !matches!(byte, b'"' | b'\\' | 0..0x20)) {
                self.at += 1;
            }
            out.push_str(&self.text[clean..self.at]);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(_) => return Err(self.syntax("a string holds a raw control character")),
                None => return Err(self.syntax("a string is not closed")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        let start = self.at;
        self.at += 2;
        let simple = match self.bytes.get(start + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(start),
            _ => {
                self.at = start;
                return Err(self.syntax("a string holds an unknown escape"));
            }
        };
        Ok(simple)
    }

    fn unicode(&mut self, start: usize) -> Result<char, Fault> {
        let high = self.hex4()?;
        let lone = |parser: &Self| {
            Fault::new(Code::InvalidUnicode, "a string holds a lone surrogate").at(start.min(parser.bytes.len()))
        };
        match high {
            0xD800..0xDC00 => {
                if !self.bytes[self.at..].starts_with(b"\\u") {
                    return Err(lone(self));
                }
                self.at += 2;
                let low = self.hex4()?;
                if !(0xDC00..0xE000).contains(&low) {
                    return Err(lone(self));
                }
                char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)).ok_or_else(|| lone(self))
            }
            _ => char::from_u32(high).ok_or_else(|| lone(self)),
        }
    }

    fn hex4(&mut self) -> Result<u32, Fault> {
        let digits = self.bytes.get(self.at..self.at + 4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits else {
            return Err(self.syntax("a unicode escape needs four hexadecimal digits"));
        };
        let value = digits.iter().fold(0, |value, digit| value * 16 + char::from(*digit).to_digit(16).unwrap_or(0));
        self.at += 4;
        Ok(value)
    }

    fn array(&mut self, depth: usize) -> Result<Value, Fault> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.bytes.get(self.at) == Some(&b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            if items.len() == MAX_ARRAY {
                return Err(self.fault(Code::ResourceLimit, "an array has more than 16384 members"));
            }
            items.push(self.value(depth + 1)?);
            self.space();
            match self.bytes.get(self.at) {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(items));
                }
                _ => return Err(self.syntax("an array wants a comma or its end")),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, Fault> {
        self.at += 1;
        let mut members: Vec<(String, Value)> = Vec::new();
        let mut seen = Seen::default();
        self.space();
        if self.bytes.get(self.at) == Some(&b'}') {
            self.at += 1;
            return Ok(Value::Object(members));
        }
        loop {
            self.space();
            let start = self.at;
            if self.bytes.get(self.at) != Some(&b'"') {
                return Err(self.syntax("an object wants a key"));
            }
            let key = self.string()?;
            if seen.holds(&members, &key) {
                return Err(Fault::new(Code::DuplicateKey, "an object repeats a key").at(start));
            }
            self.space();
            if self.bytes.get(self.at) != Some(&b':') {
                return Err(self.syntax("a key wants a colon"));
            }
            self.at += 1;
            let value = self.value(depth + 1)?;
            members.push((key, value));
            self.space();
            match self.bytes.get(self.at) {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(members));
                }
                _ => return Err(self.syntax("an object wants a comma or its end")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::protocol::Code;

    /// A repeated key is found at its second place, in objects of few keys and of many, escaped or not.
    #[test]
    fn a_repeated_key_is_found_in_objects_of_any_size() {
        for keys in [1_u32, 15, 16, 17, 18, 100, 5000] {
            let members: Vec<String> = (0..keys).map(|key| format!("\"k{}\":{key}", keys - key)).collect();
            let text = format!("{{{}}}", members.join(","));
            assert!(parse(&text).is_ok(), "{keys}");
            for (repeated, spelled) in [(1, "k1"), (keys, "\\u006b"), (keys.div_ceil(2), "k")] {
                let key = if spelled == "k1" { spelled.to_owned() } else { format!("{spelled}{repeated}") };
                let defect = format!("{},\"{key}\":0,\"{key}\":0}}", &text[..text.len() - 1]);
                let fault = parse(&defect).unwrap_err();
                assert_eq!((fault.code(), fault.offset()), (Code::DuplicateKey, Some(text.len())), "{keys} {key}");
            }
        }
    }
}
