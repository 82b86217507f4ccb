//! How often each output type may and must occur, for every Claim by itself (jobs.md 4.13, lifecycle.md 5.5). These are the
//! workflow's configured counts; a Work's effect contract is another, immutable check.

use std::collections::BTreeMap;

use crate::protocol::{Code, Fault};

/// Largest configured count.
const MAX_COUNT: u64 = 4096;

/// Bounds of one output type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Fewest.
    pub min: u64,
    /// Most; none for any number.
    pub max: Option<u64>,
}

/// The configured bounds, by output type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<String, Bounds>);

impl Counts {
    /// Reads a handler configuration: an object whose members that are objects are output types, with `min` and `max` as
    /// integers or their digits; `-1` is no maximum. Other members are left alone.
    ///
    /// # Errors
    /// `settings_invalid`.
    pub fn read(configuration: &str) -> Result<Self, Fault> {
        let invalid = || Fault::new(Code::SettingsInvalid, "the configuration of the safe outputs is malformed");
        let members: BTreeMap<String, serde_json::Value> =
            serde_json::from_str(configuration).map_err(|_| invalid())?;
        let mut counts = BTreeMap::new();
        for (name, value) in &members {
            let Some(value) = value.as_object() else { continue };
            let count = |name: &str| value.get(name).map(|value| read_count(value).ok_or_else(invalid)).transpose();
            let bounds = Bounds { min: count("min")?.flatten().unwrap_or(0), max: count("max")?.flatten() };
            if counts.insert(name.replace('-', "_"), bounds).is_some() {
                return Err(invalid());
            }
        }
        Ok(Self(counts))
    }

    /// The bounds of a type; none where nothing is configured for it.
    #[must_use]
    pub fn of(&self, output: &str) -> Option<Bounds> {
        self.0.get(output).copied()
    }

    /// The types that must occur, with how often.
    pub fn required(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().filter(|(_, bounds)| bounds.min > 0).map(|(name, bounds)| (name.as_str(), bounds.min))
    }
}

/// A count; the inner none is no bound.
fn read_count(value: &serde_json::Value) -> Option<Option<u64>> {
    let number = match value {
        serde_json::Value::Null => return Some(None),
        serde_json::Value::Number(number) => number.as_i64()?,
        serde_json::Value::String(digits) if digits.is_empty() => return Some(None),
        serde_json::Value::String(digits) => digits.parse().ok()?,
        _ => return None,
    };
    if number == -1 {
        return Some(None);
    }
    u64::try_from(number).ok().filter(|number| *number <= MAX_COUNT).map(Some)
}

#[cfg(test)]
mod tests {
    use super::{Bounds, Counts};
    use crate::protocol::Code;

    #[test]
    fn counts_are_read_by_type() {
        let counts = Counts::read(r#"{"add-comment":{"max":3,"min":1},"noop":{"max":"2"},"x":{"max":-1},"y":true}"#);
        let counts = counts.unwrap();
        assert_eq!(counts.of("add_comment"), Some(Bounds { min: 1, max: Some(3) }));
        assert_eq!(counts.of("noop"), Some(Bounds { min: 0, max: Some(2) }));
        assert_eq!(counts.of("x"), Some(Bounds::default()));
        assert_eq!(counts.of("y"), None);
        assert_eq!(counts.required().collect::<Vec<_>>(), [("add_comment", 1)]);
        for text in [
            "",
            "[]",
            r#"{"a":{"max":1.5}}"#,
            r#"{"a":{"min":-2}}"#,
            r#"{"a":{"max":true}}"#,
            r#"{"a":{},"a":{"max":[]}}"#,
            r#"{"a-b":{},"a_b":{}}"#,
        ] {
            assert_eq!(Counts::read(text).map_err(|fault| fault.code()), Err(Code::SettingsInvalid), "{text}");
        }
    }
}
