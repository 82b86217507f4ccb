//! A JSON tree, for input that is not a ledger line and for text that is not canonical.

use super::write::Writer;
use crate::protocol::limits::{MAX_ARRAY, MAX_DEPTH, MAX_INTEGER};
use crate::protocol::{Code, Fault};

/// A value of the wire profile. Members keep the order in which they were read; encoding sorts them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// An integer; encoding refuses one beyond ±(2^53 - 1).
    Integer(i64),
    /// A string
    String(String),
    /// An array; encoding refuses more than 16,384 members.
    Array(Vec<Value>),
    /// An object; encoding refuses a repeated key.
    Object(Vec<(String, Value)>),
}

impl Value {
    /// A typed number (engine.md 1.1): integral and within ±(2^53 - 1), never rounded.
    ///
    /// # Errors
    /// `noncanonical_number` for anything else, negative zero included.
    pub fn number(value: f64) -> Result<Self, Fault> {
        let exact = value.is_finite() && value.fract() == 0.0 && value.abs() <= MAX_INTEGER as f64;
        if !exact || (value == 0.0 && value.is_sign_negative()) {
            return Err(Fault::new(Code::NoncanonicalNumber, "a number is not a safe integer"));
        }
        Ok(Self::Integer(value as i64))
    }

    /// The member under a key, if this is an object that has it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Self::Object(members) => members.iter().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The string, if this is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The integer, if this is one.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The canonical text (engine.md 1.3).
    ///
    /// # Errors
    /// `resource_limit` for depth or array size, `noncanonical_number`, `duplicate_key`.
    pub fn encode(&self) -> Result<String, Fault> {
        let mut writer = Writer::new();
        self.write(&mut writer, 0)?;
        Ok(writer.finish())
    }

    fn write(&self, writer: &mut Writer, depth: usize) -> Result<(), Fault> {
        if depth > MAX_DEPTH {
            return Err(Fault::new(Code::ResourceLimit, "values nest deeper than 64 levels"));
        }
        match self {
            Self::Null => writer.raw("null"),
            Self::Bool(value) => writer.bool(*value),
            Self::Integer(value) => {
                if value.abs() > MAX_INTEGER {
                    return Err(Fault::new(Code::NoncanonicalNumber, "a number is not a safe integer"));
                }
                writer.integer(*value);
            }
            Self::String(text) => writer.string(text),
            Self::Array(items) => {
                if items.len() > MAX_ARRAY {
                    return Err(Fault::new(Code::ResourceLimit, "an array has more than 16384 members"));
                }
                writer.raw("[");
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        writer.raw(",");
                    }
                    item.write(writer, depth + 1)?;
                }
                writer.raw("]");
            }
            Self::Object(members) => {
                let mut sorted: Vec<&(String, Value)> = members.iter().collect();
                sorted.sort_by(|a, b| a.0.cmp(&b.0));
                if sorted.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                    return Err(Fault::new(Code::DuplicateKey, "an object repeats a key"));
                }
                writer.raw("{");
                for (index, (key, value)) in sorted.into_iter().enumerate() {
                    if index > 0 {
                        writer.raw(",");
                    }
                    writer.string(key);
                    writer.raw(":");
                    value.write(writer, depth + 1)?;
                }
                writer.raw("}");
            }
        }
        Ok(())
    }
}
