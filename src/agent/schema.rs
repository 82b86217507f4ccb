//! What a tool takes: one declaration for each argument, from which both the JSON Schema that a client is shown and the
//! check of what it sends follow, so that the two cannot differ.

use crate::protocol::json::{Value, Writer};

/// Longest string of an argument without a bound of its own, in characters.
const MAX_TEXT: usize = 10 * 1024;

/// What a value may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// A string of so many Unicode characters.
    Text { least: usize, most: usize },
    /// Lower-case hexadecimal digits, as many as one of these.
    Hex(&'static [usize]),
    /// One of some words.
    Word(&'static [&'static str]),
    /// A whole number within bounds.
    Integer { least: i64, most: i64 },
    /// `true` or `false`.
    Flag,
    /// Any object.
    Object,
    /// So many values of one shape.
    List { least: usize, most: usize, item: &'static Shape },
    /// An object of these members and no others.
    Closed(&'static [Field]),
}

/// A member of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    /// One sentence for whoever calls.
    pub(crate) about: &'static str,
    pub(crate) shape: Shape,
    /// What stands for it when it is absent, as JSON.
    pub(crate) default: Option<&'static str>,
}

impl Field {
    pub(crate) const fn required(name: &'static str, shape: Shape, about: &'static str) -> Self {
        Self { name, required: true, about, shape, default: None }
    }

    pub(crate) const fn optional(name: &'static str, shape: Shape, about: &'static str) -> Self {
        Self { name, required: false, about, shape, default: None }
    }

    pub(crate) const fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }
}

impl Shape {
    /// Adds the schema's members.
    fn write(self, members: &mut crate::protocol::json::Members<'_>) {
        let count = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        let kind = match self {
            Self::Text { .. } | Self::Hex(_) | Self::Word(_) => "string",
            Self::Integer { .. } => "integer",
            Self::Flag => "boolean",
            Self::Object | Self::Closed(_) => "object",
            Self::List { .. } => "array",
        };
        members.name("type", |w| w.string(kind));
        match self {
            Self::Text { least, most } => {
                members.name("maxLength", |w| w.integer(count(most)));
                if least > 0 {
                    members.name("minLength", |w| w.integer(count(least)));
                }
            }
            Self::Hex(lengths) => members.name("pattern", |w| {
                let forms: Vec<String> = lengths.iter().map(|length| format!("[0-9a-f]{{{length}}}")).collect();
                w.string(&format!("^({})$", forms.join("|")));
            }),
            Self::Word(words) => members.name("enum", |w| w.array(words, |w, word| w.string(word))),
            Self::Integer { least, most } => {
                members.name("maximum", |w| w.integer(most));
                members.name("minimum", |w| w.integer(least));
            }
            Self::Flag | Self::Object => {}
            Self::List { least, most, item } => {
                members.name("items", |w| w.object(|inner| item.write(inner)));
                members.name("maxItems", |w| w.integer(count(most)));
                members.name("minItems", |w| w.integer(count(least)));
            }
            Self::Closed(fields) => write_fields(fields, members),
        }
    }

    /// Whether a value has this shape, but for the least length of a string. The sentence names members and bounds, never
    /// values.
    fn check(self, value: &Value, place: &str, least_too: bool) -> Result<(), String> {
        let refuse = |what: String| Err(format!("{place}: {what}"));
        match (self, value) {
            (Self::Text { most, .. }, Value::String(text)) if text.chars().count() > most => {
                refuse(format!("at most {most} characters are allowed"))
            }
            (Self::Text { least, .. }, Value::String(text)) if least_too && text.chars().count() < least => {
                refuse(format!("at least {least} characters are needed"))
            }
            (Self::Text { .. }, Value::String(_)) | (Self::Flag, Value::Bool(_)) | (Self::Object, Value::Object(_)) => {
                Ok(())
            }
            (Self::Hex(lengths), Value::String(text))
                if lengths.contains(&text.len()) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) =>
            {
                Ok(())
            }
            (Self::Word(words), Value::String(word)) if words.contains(&word.as_str()) => Ok(()),
            (Self::Integer { least, most }, Value::Integer(value)) if (least..=most).contains(value) => Ok(()),
            (Self::List { least, most, item }, Value::Array(items)) => {
                if !(least..=most).contains(&items.len()) {
                    return refuse(format!("a list of {least} to {most} items is expected"));
                }
                let each = |(index, value)| item.check(value, &format!("{place}[{index}]"), least_too);
                items.iter().enumerate().try_for_each(each)
            }
            (Self::Closed(fields), Value::Object(members)) => {
                if let Some((name, _)) = members.iter().find(|(name, _)| fields.iter().all(|field| field.name != name))
                {
                    return refuse(unknown("member", name, fields.iter().map(|field| field.name)));
                }
                for field in fields {
                    match value.get(field.name) {
                        Some(inner) => field.shape.check(inner, &format!("{place}.{}", field.name), least_too)?,
                        None if field.required => return refuse(format!("{} is required", field.name)),
                        None => {}
                    }
                }
                Ok(())
            }
            _ => refuse(self.expected()),
        }
    }

    /// What would have been right.
    fn expected(self) -> String {
        match self {
            Self::Text { .. } => "a string is expected".to_owned(),
            Self::Hex(lengths) => {
                let lengths: Vec<String> = lengths.iter().map(ToString::to_string).collect();
                format!("{} lower-case hexadecimal digits are expected", lengths.join(" or "))
            }
            Self::Word(words) => format!("one of {} is expected", words.join(", ")),
            Self::Integer { least, most } => format!("a whole number from {least} to {most} is expected"),
            Self::Flag => "true or false is expected".to_owned(),
            Self::Object | Self::Closed(_) => "an object is expected".to_owned(),
            Self::List { least, most, .. } => format!("a list of {least} to {most} items is expected"),
        }
    }
}

/// Adds the schema of an object of these members and no others.
fn write_fields(fields: &'static [Field], members: &mut crate::protocol::json::Members<'_>) {
    members.name("additionalProperties", |w| w.bool(false));
    members.name("properties", |w| {
        w.object(|properties| {
            for field in fields {
                properties.name(field.name, |w| {
                    w.object(|inner| {
                        field.shape.write(inner);
                        inner.name("description", |w| w.string(field.about));
                        if let Some(default) = field.default {
                            inner.name("default", |w| w.raw(default));
                        }
                    });
                });
            }
        });
    });
    let required: Vec<_> = fields.iter().filter(|field| field.required).collect();
    if !required.is_empty() {
        members.name("required", |w| w.array(required, |w, field| w.string(field.name)));
    }
}

/// Writes a tool's input schema.
pub(crate) fn write_schema(fields: &'static [Field], writer: &mut Writer) {
    writer.object(|members| Shape::Closed(fields).write(members));
}

/// Checks a tool's arguments, in the order of jobs.md 4.4: unknown names, required ones, strings that are too long, shapes,
/// strings that are too short. `hint` is said to a caller that sends nothing where something is required.
///
/// # Errors
/// A sentence that names arguments and bounds and quotes nothing.
pub(crate) fn check(fields: &'static [Field], arguments: &Value, hint: &str) -> Result<(), String> {
    let Value::Object(members) = arguments else { return Err("the arguments are one JSON object".to_owned()) };
    if let Some((name, _)) = members.iter().find(|(name, _)| fields.iter().all(|field| field.name != name)) {
        return Err(unknown("argument", name, fields.iter().map(|field| field.name)));
    }
    for field in fields.iter().filter(|field| field.required) {
        let blank = match arguments.get(field.name) {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => text.trim().is_empty(),
            Some(_) => false,
        };
        if blank {
            return Err(if members.is_empty() { hint.to_owned() } else { format!("{} is required", field.name) });
        }
    }
    let given = || fields.iter().filter_map(|field| Some((field, arguments.get(field.name)?)));
    for (field, value) in given() {
        let most = if let Shape::Text { most, .. } = field.shape { most } else { MAX_TEXT };
        if value.as_str().is_some_and(|text| text.chars().count() > most) {
            return Err(format!("{}: at most {most} characters are allowed", field.name));
        }
    }
    given().try_for_each(|(field, value)| field.shape.check(value, field.name, false))?;
    given().try_for_each(|(field, value)| field.shape.check(value, field.name, true))
}

/// A sentence about a name that is not known, with the known one that it resembles, or else all of them.
pub(crate) fn unknown(what: &str, name: &str, known: impl Iterator<Item = &'static str> + Clone) -> String {
    match nearest(name, known.clone()) {
        Some(near) => format!("there is no such {what}; did you mean {near}?"),
        None => format!("there is no such {what}; there are {}", known.collect::<Vec<_>>().join(", ")),
    }
}

/// The known name that a given one resembles: a third of its letters may differ.
fn nearest(name: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    // A long text is no slip of the pen, and its distance would take long to count.
    if name.len() > 64 {
        return None;
    }
    let (distance, near) = known.map(|known| (distance(name, known), known)).min()?;
    (distance <= near.len() / 3).then_some(near)
}

/// How many letters one must change, add or take away to turn one text into the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (line, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, to) in b.iter().enumerate() {
            let change = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn near_names_are_found() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "ab"), 2);
        let known = ["work", "pool", "limit"];
        assert_eq!(nearest("wrok", known.into_iter()), None);
        assert_eq!(nearest("limits", known.into_iter()), Some("limit"));
        assert_eq!(nearest("pol", known.into_iter()), Some("pool"));
        assert_eq!(nearest("selector", known.into_iter()), None);
        assert_eq!(nearest(&"limit".repeat(100), known.into_iter()), None);
    }
}
