//! Debug lines of the queue (jobs.md 6.4): which namespaces are on, and how one event is written. Pure: time is an
//! argument.

use std::collections::BTreeMap;

use crate::protocol::At;
use crate::protocol::limits::MAX_INTEGER;

/// Target of a tracing event is this and a namespace.
pub const TARGET_PREFIX: &str = "work-queue:";

/// Every namespace.
pub const NAMESPACES: [&str; 12] = [
    "claims",
    "delivery",
    "dispatch",
    "effects",
    "intents",
    "mcp",
    "memory",
    "native",
    "reconciler",
    "replay",
    "scheduler",
    "store",
];

/// Longest name of an event or field that is written, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// The namespace of a tracing target, if it is one of the queue's.
#[must_use]
pub fn namespace(target: &str) -> Option<&'static str> {
    let name = target.strip_prefix(TARGET_PREFIX)?;
    NAMESPACES.into_iter().find(|known| *known == name)
}

/// Events that are written whatever is switched on: blocked controls, failed launches and failed starts.
#[must_use]
pub fn is_always_visible(namespace: &str, event: &str) -> bool {
    match namespace {
        "dispatch" => {
            matches!(event, "controls.blocked" | "intent.process.blocked" | "launch.unresolved")
                || event == "launch.post.definitive_rejection"
                || (event.starts_with("launch.") && event.ends_with(".failed"))
        }
        "claims" => matches!(event, "claim.finish.blocked" | "claims.reconcile.failed"),
        "mcp" => event == "server.start.failed",
        _ => false,
    }
}

/// What is switched on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    everything: bool,
    included: Vec<String>,
    excluded: Vec<String>,
}

impl Switches {
    /// Reads `ACTIONS_RUNNER_DEBUG`, `RUNNER_DEBUG` and `DEBUG`. Either of the runner's switches everything on;
    /// otherwise `DEBUG` is a list of patterns, separated by commas or white space, in which `*` stands for anything and
    /// a leading `-` excludes. An exclusion wins wherever it stands.
    #[must_use]
    pub fn new(actions_runner_debug: Option<&str>, runner_debug: Option<&str>, debug: Option<&str>) -> Self {
        let mut switches = Self { everything: actions_runner_debug == Some("true"), ..Self::default() };
        switches.everything |= runner_debug == Some("1");
        let separated = |character: char| character == ',' || character.is_whitespace();
        for pattern in debug.unwrap_or_default().split(separated).filter(|pattern| !pattern.is_empty()) {
            match pattern.strip_prefix('-') {
                Some(excluded) => switches.excluded.push(excluded.to_owned()),
                None => switches.included.push(pattern.to_owned()),
            }
        }
        switches
    }

    /// True if the events of a target such as `work-queue:store` are written.
    #[must_use]
    pub fn enables(&self, target: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, target));
        self.everything || (any(&self.included) && !any(&self.excluded))
    }
}

/// True if a pattern in which `*` stands for any run of characters matches the whole text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

/// Whole milliseconds since the previous written event of each namespace.
#[derive(Debug, Default)]
pub struct Stopwatch(BTreeMap<&'static str, u64>);

impl Stopwatch {
    /// What has passed in a namespace at a monotonic time, 0 at first; the next interval begins there.
    pub fn lap(&mut self, namespace: &'static str, now_ms: u64) -> u64 {
        self.0.insert(namespace, now_ms).map_or(0, |before| now_ms.saturating_sub(before))
    }
}

/// A value that may stand in a debug line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// A flag.
    Flag(bool),
    /// A count, a delay or a status.
    Count(u64),
}

/// True for a static name of an event or field; anything else is not written.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_');
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.bytes().all(allowed)
}

/// One line, without its line feed. Fields that are no flag or exact count are left out by whoever collects them;
/// counts beyond 2^53 - 1 are left out here.
#[must_use]
pub fn debug_line(at: At, namespace: &str, event: &str, fields: &[(&str, Field)], elapsed_ms: u64) -> String {
    let mut line = format!("[{}] [{TARGET_PREFIX}{namespace}] {event}", iso8601(at));
    for (name, field) in fields {
        match field {
            Field::Flag(value) => line.push_str(&format!(" {name}={value}")),
            Field::Count(value) if *value <= MAX_INTEGER as u64 => line.push_str(&format!(" {name}={value}")),
            Field::Count(_) => {}
        }
    }
    line.push_str(&format!(" +{elapsed_ms}ms"));
    line
}

/// A time as `2026-10-08T12:34:56.789Z`.
#[must_use]
pub fn iso8601(at: At) -> String {
    let millis = at.get();
    let (days, in_day) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    // Days since 0000-03-01, so that the leap day ends a year of the calculation.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
    let (second, milli) = (in_day / 1000 % 60, in_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

#[cfg(test)]
mod tests {
    use super::{Stopwatch, iso8601, matches};
    use crate::protocol::At;

    #[test]
    fn times_are_written_in_utc() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_123, "2000-02-29T00:00:00.123Z"),
            (1_791_462_896_789, "2026-10-08T12:34:56.789Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso8601(At::new(millis).unwrap()), text);
        }
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text, found) in [
            ("*", "work-queue:store", true),
            ("work-queue:*", "work-queue:store", true),
            ("work-queue:st*e", "work-queue:store", true),
            ("*:s*r*", "work-queue:store", true),
            ("work-queue", "work-queue:store", false),
            ("work.queue:*", "work-queue:store", false),
            ("a*ab", "ab", false),
            ("*store*store", "work-queue:store", false),
        ] {
            assert_eq!(matches(pattern, text), found, "{pattern}");
        }
    }

    #[test]
    fn each_namespace_has_an_interval_of_its_own() {
        let mut watch = Stopwatch::default();
        assert_eq!(
            [watch.lap("store", 5), watch.lap("mcp", 7), watch.lap("store", 9), watch.lap("mcp", 6)],
            [0, 0, 4, 0]
        );
    }
}
