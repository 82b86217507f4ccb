//! The shape of a message: what is left of it when everything is taken away that no published schema looks at. Two
//! messages of one shape get one verdict, so every message is held against the schemas, and each shape only once in a
//! process; otherwise thousands of simulated days would spend their time on validation.
//!
//! What the schemas look at is known, and `openapi` refuses to compile a schema that looks at more:
//!
//! - Members: all names are kept, and whether a value is absent, null, a truth value, text, a number, a list or an object.
//! - Numbers: the published bounds are few ([`BOUNDS`]). An integer is kept as its place among them.
//! - Text: no published constant holds a digit or is longer than [`CONSTANT`], the constants of GraphQL are upper-case
//!   names, lengths are compared with [`LENGTH`] alone, and formats are dates, moments, addresses and e-mail addresses.
//!   Text that can be none of these is kept as its side of [`LENGTH`]; a moment that is one on the calendar as just
//!   that; an address with plain characters alone as its host. All other text is kept as it is.
//! - Lists: the set of their elements' shapes. Nothing published counts or compares elements.
//!
//! A shape is a hash of 64 bits. That two of the thousands in a process are equal by accident is ruled out in practice.

use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

/// Bounds of numbers in the published schemas, and those of GraphQL's `Int`.
pub(super) const BOUNDS: [i64; 8] = [i32::MIN as i64, 0, 1, 10, 100, 360, 32_767, i32::MAX as i64];

/// The only length that published schemas compare text with, in characters.
pub(super) const LENGTH: u64 = 40;

/// No published constant has more bytes.
pub(super) const CONSTANT: usize = 64;

/// No more shapes than this are remembered; what comes after them is held against the schemas each time.
const MOST: usize = 1 << 16;

static VALID: Mutex<Option<HashSet<u64>>> = Mutex::new(None);
static MESSAGES: AtomicU64 = AtomicU64::new(0);
static HELD: AtomicU64 = AtomicU64::new(0);

/// How many messages this process looked at, and how many of them it held against a schema because no valid message of
/// their shape had been seen.
pub(crate) fn tally() -> (u64, u64) {
    (MESSAGES.load(Ordering::Relaxed), HELD.load(Ordering::Relaxed))
}

/// What is wrong with a message of this shape: nothing if one of its shape was found valid before, else what `hold`
/// finds. Only valid shapes are remembered.
pub(super) fn once(shape: u64, hold: impl FnOnce() -> Vec<String>) -> Vec<String> {
    MESSAGES.fetch_add(1, Ordering::Relaxed);
    if VALID.lock().unwrap().get_or_insert_default().contains(&shape) {
        return Vec::new();
    }
    HELD.fetch_add(1, Ordering::Relaxed);
    let found = hold();
    let mut valid = VALID.lock().unwrap();
    let valid = valid.get_or_insert_default();
    if found.is_empty() && valid.len() < MOST {
        valid.insert(shape);
    }
    found
}

/// One hash of several things.
pub(super) fn hash(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// The shape of a value. `mark` gives the shape of what an abbreviation stands for (see `render`).
pub(super) fn of(value: &Value, mark: &mut dyn FnMut(&str) -> u64) -> u64 {
    match value {
        Value::Null => hash('0'),
        Value::Bool(truth) => hash(('b', truth)),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => hash(('i', place(number))),
            (None, Some(_)) => hash('u'),
            (None, None) => hash(('f', number.to_string())),
        },
        Value::String(text) if text.starts_with('\u{1}') => mark(text),
        Value::String(text) => of_text(text),
        Value::Array(elements) => {
            let shapes: BTreeSet<u64> = elements.iter().map(|element| of(element, mark)).collect();
            hash(('a', shapes))
        }
        Value::Object(members) => {
            let mut hasher = DefaultHasher::new();
            ('o', members.len()).hash(&mut hasher);
            for (name, value) in members {
                (name, of(value, mark)).hash(&mut hasher);
            }
            hasher.finish()
        }
    }
}

/// The shape of a parameter, which a schema may mean as text or as a number.
pub(super) fn of_parameter(text: &str) -> u64 {
    let number = text.parse::<u64>().ok().map(|number| of(&Value::from(number), &mut |_| 0));
    hash((of_text(text), number))
}

/// Where a number lies among the bounds: how many are below it, and whether it is one.
fn place(number: i64) -> (usize, bool) {
    (BOUNDS.iter().filter(|bound| **bound < number).count(), BOUNDS.contains(&number))
}

fn of_text(text: &str) -> u64 {
    let characters = if text.is_ascii() { text.len() } else { text.chars().count() };
    let side = (characters as u64).cmp(&LENGTH);
    if moment(text) {
        return hash('m');
    }
    if let Some(host) = host(text) {
        return hash(('h', host, side));
    }
    if plain(text) { hash(('t', side)) } else { hash(('s', text)) }
}

/// A moment on the calendar, as `2026-09-21T13:33:20Z`.
fn moment(text: &str) -> bool {
    let fits = |(byte, pattern): (u8, u8)| if pattern == b'0' { byte.is_ascii_digit() } else { byte == pattern };
    if text.len() != 20 || !text.bytes().zip(*b"0000-00-00T00:00:00Z").all(fits) {
        return false;
    }
    let number = |from: usize, to: usize| text[from..to].parse::<u32>().unwrap_or(u32::MAX);
    let (year, month) = (number(0, 4), number(5, 7));
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&number(8, 10)) && number(11, 13) < 24 && number(14, 16) < 60 && number(17, 19) < 60
}

/// Scheme and host of an address whose path and query have plain characters alone, which makes them valid.
fn host(text: &str) -> Option<&str> {
    let scheme = ["https://", "http://"].into_iter().find(|scheme| text.starts_with(scheme))?;
    let path = scheme.len() + text[scheme.len()..].find('/')?;
    let tame = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/?=&".contains(&byte);
    text[path..].bytes().all(tame).then_some(&text[..path])
}

/// Text that can be no constant, no e-mail address, no address and no date.
fn plain(text: &str) -> bool {
    let constant = !text.bytes().any(|byte| byte.is_ascii_digit()) && text.len() <= CONSTANT;
    let upper = text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        && !text.starts_with(|first: char| first.is_ascii_digit());
    let scheme = text.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    });
    let date = text.len() > 4 && text.as_bytes()[..4].iter().all(u8::is_ascii_digit) && text.as_bytes()[4] == b'-';
    !constant && !upper && !text.contains('@') && !scheme && !date
}
