//! Reading the `work_queue` section (publication.md 6.1 to 6.3).

use std::collections::{BTreeMap, BTreeSet};

use super::error::{SettingsError, child};
use super::lenient::{self, Json, Member};
use super::{Capacity, Given, IssueSettings, MAX_FILE_BYTES, PoolSettings, RetrySettings, Settings};
use crate::protocol::identity::Within;
use crate::protocol::limits::{MAX_ACCOUNTING_KEYS, MAX_POOLS, MAX_WEIGHT};
use crate::protocol::policy::{Mode, Weight};
use crate::protocol::{FairnessKey, PoolName, json};

const SECTION: &str = "work_queue";
const MEMBERS: &[&str] =
    &["mode", "class_weights", "accounting_weights", "concurrency", "pending_limit", "retry", "pools", "issues"];
const UNKNOWN: &str = "is not a scheduling property; identities, routes, trust, credentials and producers are managed \
                       by AW and come from the workflows' own declarations";
/// Longest label, in UTF-8 bytes: with the longest suffix it still fits GitHub's label limit.
const MAX_LABEL_BYTES: usize = 33;
const MAX_TITLE_PREFIX_BYTES: usize = 80;
const MAX_POOL_NAME_BYTES: usize = 256;
const MAX_KEY_BYTES: usize = 128;

type Read<T> = Result<T, SettingsError>;

/// Reads the bytes of `.github/workflows/aw.json`. Without a file there is nothing to read:
/// [`Settings::default`] holds, as it does for a file without the section and for an empty section.
///
/// # Errors
/// The first defect in the order of publication.md 6.3. Nothing is defaulted or clamped.
pub fn parse(bytes: &[u8]) -> Result<Settings, SettingsError> {
    if bytes.len() > MAX_FILE_BYTES {
        return Err(SettingsError::outer("the file is longer than 1 MiB"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| SettingsError::outer("the file is not UTF-8"))?;
    let document = lenient::read(text).map_err(SettingsError::outer)?;
    let members = document.members().ok_or_else(|| SettingsError::outer("the file must hold a JSON object"))?;
    let mut names = BTreeSet::new();
    for Member { name, .. } in members {
        if !names.insert(name) {
            return Err(SettingsError::outer("the file repeats a property"));
        }
    }
    let Some(section) = members.iter().find(|member| member.name == SECTION) else {
        return Ok(Settings::default());
    };
    let settings = read_section(&section.value)?;
    // Last, so that a property's own error wins: what the strict reader alone refuses, such as a lone surrogate.
    json::parse(&text[section.span.clone()])
        .map_err(|_| SettingsError::new(SECTION, "must be valid scheduling JSON"))?;
    Ok(settings)
}

/// The values that hold where nothing is set.
pub(super) fn defaults() -> Settings {
    let accounting_weights =
        BTreeMap::from([(FairnessKey::new("").expect("the empty fairness key is legal"), within(1))]);
    Settings {
        mode: Mode::WeightedPriority,
        class_weights: [8, 4, 2, 1, 1].map(within),
        accounting_weights,
        concurrency: within(16),
        pending_limit: within(4096),
        retry: RetrySettings { max_attempts: within(3), backoff_seconds: within(30) },
        pools: BTreeMap::new(),
        issues: None,
        given: Given::default(),
    }
}

/// A value that the caller has bounded already.
fn within<const MIN: i64, const MAX: i64>(value: i64) -> Within<MIN, MAX> {
    Within::new(value).expect("the value was checked against these bounds")
}

fn read_section(section: &Json) -> Read<Settings> {
    let fields = Fields::closed(section, SECTION, MEMBERS)?;
    let mut settings = defaults();
    settings.given = Given { section: true, issues: fields.get("issues").is_some() };
    if let Some(mode) = fields.get("mode") {
        settings.mode = read_mode(mode)?;
    }
    if let Some(value) = fields.get("concurrency") {
        settings.concurrency = integer(value, &fields.path("concurrency"))?;
    }
    if let Some(value) = fields.get("pending_limit") {
        settings.pending_limit = integer(value, &fields.path("pending_limit"))?;
    }
    if let Some(value) = fields.get("class_weights") {
        settings.class_weights = read_class_weights(value)?;
    }
    if let Some(value) = fields.get("accounting_weights") {
        read_accounting(value, &mut settings.accounting_weights)?;
    }
    if let Some(value) = fields.get("retry") {
        settings.retry = read_retry(value, &fields.path("retry"), settings.retry)?;
    }
    if let Some(value) = fields.get("pools") {
        settings.pools = read_pools(value, &settings)?;
    }
    if let Some(value) = fields.get("issues") {
        settings.issues = read_issues(value)?;
    }
    Ok(settings)
}

/// The members of one object, none of them repeated.
struct Fields<'a> {
    path: &'a str,
    members: &'a [Member],
}

impl<'a> Fields<'a> {
    /// An object of any names.
    fn open(value: &'a Json, path: &'a str) -> Read<Self> {
        let members = value.members().ok_or_else(|| SettingsError::new(path, "must be an object"))?;
        let mut names = BTreeSet::new();
        for Member { name, .. } in members {
            if !names.insert(name) {
                return Err(SettingsError::new(&child(path, name), "is a duplicate property"));
            }
        }
        Ok(Self { path, members })
    }

    /// An object of these names alone.
    fn closed(value: &'a Json, path: &'a str, known: &[&str]) -> Read<Self> {
        let fields = Self::open(value, path)?;
        match fields.members.iter().find(|member| !known.contains(&member.name.as_str())) {
            Some(member) => Err(SettingsError::new(&child(path, &member.name), UNKNOWN)),
            None => Ok(fields),
        }
    }

    fn get(&self, name: &str) -> Option<&'a Json> {
        self.members.iter().find(|member| member.name == name).map(|member| &member.value)
    }

    fn path(&self, name: &str) -> String {
        child(self.path, name)
    }

    /// Members in the order of their names.
    fn sorted(&self) -> Vec<&'a Member> {
        let mut members: Vec<_> = self.members.iter().collect();
        members.sort_by(|a, b| a.name.cmp(&b.name));
        members
    }
}

/// A plain integer of `MIN..=MAX`: no fraction, exponent, text or `null`.
fn integer<const MIN: i64, const MAX: i64>(value: &Json, path: &str) -> Read<Within<MIN, MAX>> {
    let number = match value {
        Json::Number(spelled) if spelled != "-0" => spelled.parse::<i64>().ok(),
        _ => None,
    };
    number
        .and_then(|number| Within::new(number).ok())
        .ok_or_else(|| SettingsError::new(path, format!("must be an integer in {MIN}..{MAX}")))
}

fn read_mode(value: &Json) -> Read<Mode> {
    match value {
        Json::String(mode) if mode == "weighted-priority" => Ok(Mode::WeightedPriority),
        Json::String(mode) if mode == "strict-priority" => Ok(Mode::StrictPriority),
        _ => Err(SettingsError::new("work_queue.mode", "must be weighted-priority or strict-priority")),
    }
}

fn read_class_weights(value: &Json) -> Read<[Weight; 5]> {
    const PATH: &str = "work_queue.class_weights";
    let refused = || SettingsError::new(PATH, format!("must be exactly five weights in 1..{MAX_WEIGHT}"));
    let Json::Array(items) = value else { return Err(refused()) };
    if items.len() != 5 {
        return Err(refused());
    }
    let mut weights = [within(1); 5];
    for (index, (weight, item)) in weights.iter_mut().zip(items).enumerate() {
        *weight = integer(item, &format!("{PATH}[{index}]"))?;
    }
    Ok(weights)
}

fn read_accounting(value: &Json, weights: &mut BTreeMap<FairnessKey, Weight>) -> Read<()> {
    const PATH: &str = "work_queue.accounting_weights";
    let fields = Fields::open(value, PATH)?;
    let named = fields.members.iter().filter(|member| !member.name.is_empty()).count();
    // The empty key counts, given or not.
    if named + 1 > MAX_ACCOUNTING_KEYS {
        let message = format!("has more than {MAX_ACCOUNTING_KEYS} keys, the empty key among them");
        return Err(SettingsError::new(PATH, message));
    }
    for Member { name, value, .. } in fields.sorted() {
        let path = fields.path(name);
        let key = name_within(name, 0, MAX_KEY_BYTES).then(|| FairnessKey::new(name.as_str()).ok()).flatten();
        let Some(key) = key else {
            let message = format!("must be a key of at most {MAX_KEY_BYTES} UTF-8 bytes without control characters");
            return Err(SettingsError::new(&path, message));
        };
        let weight: Weight = integer(value, &path)?;
        if name.is_empty() && weight.get() != 1 {
            return Err(SettingsError::new(&path, "is the default accounting key, whose weight is 1"));
        }
        weights.insert(key, weight);
    }
    Ok(())
}

fn name_within(name: &str, least: usize, most: usize) -> bool {
    (least..=most).contains(&name.len()) && !name.chars().any(char::is_control)
}

fn read_retry(value: &Json, path: &str, inherited: RetrySettings) -> Read<RetrySettings> {
    let fields = Fields::closed(value, path, &["max_attempts", "backoff_seconds"])?;
    let mut retry = inherited;
    if let Some(value) = fields.get("max_attempts") {
        retry.max_attempts = integer(value, &fields.path("max_attempts"))?;
    }
    if let Some(value) = fields.get("backoff_seconds") {
        retry.backoff_seconds = integer(value, &fields.path("backoff_seconds"))?;
    }
    Ok(retry)
}

/// Named pools. `resolved` holds the top-level values already, wherever in the file they stand.
fn read_pools(value: &Json, resolved: &Settings) -> Read<BTreeMap<PoolName, PoolSettings>> {
    const PATH: &str = "work_queue.pools";
    let fields = Fields::open(value, PATH)?;
    if fields.members.len() > MAX_POOLS {
        return Err(SettingsError::new(PATH, format!("has more than {MAX_POOLS} pools")));
    }
    let mut pools = BTreeMap::new();
    for Member { name, value, .. } in fields.sorted() {
        let path = fields.path(name);
        let pool = name_within(name, 1, MAX_POOL_NAME_BYTES).then(|| PoolName::new(name.as_str()).ok()).flatten();
        let Some(pool) = pool else {
            let message = format!("must be named with 1 to {MAX_POOL_NAME_BYTES} UTF-8 bytes, no control characters");
            return Err(SettingsError::new(&path, message));
        };
        pools.insert(pool, read_pool(value, &path, resolved)?);
    }
    Ok(pools)
}

fn read_pool(value: &Json, path: &str, resolved: &Settings) -> Read<PoolSettings> {
    let fields = Fields::closed(value, path, &["concurrency", "per_account_limit", "retry"])?;
    let capacity = |name: &str| -> Read<Option<Capacity>> {
        fields.get(name).map(|value| integer(value, &fields.path(name))).transpose()
    };
    let concurrency = capacity("concurrency")?.unwrap_or(resolved.concurrency);
    let per_account_limit = capacity("per_account_limit")?;
    let retry = match fields.get("retry") {
        Some(value) => read_retry(value, &fields.path("retry"), resolved.retry)?,
        None => resolved.retry,
    };
    Ok(PoolSettings { concurrency, per_account_limit, retry })
}

fn read_issues(value: &Json) -> Read<Option<IssueSettings>> {
    const PATH: &str = "work_queue.issues";
    match value {
        Json::Bool(false) => Ok(None),
        Json::Bool(true) => Ok(Some(IssueSettings::default())),
        Json::Object(_) => {
            let fields = Fields::closed(value, PATH, &["label", "title_prefix"])?;
            let mut issues = IssueSettings::default();
            if let Some(value) = fields.get("label") {
                issues.label = literal(value, &fields.path("label"), MAX_LABEL_BYTES)?;
            }
            if let Some(value) = fields.get("title_prefix") {
                issues.title_prefix = literal(value, &fields.path("title_prefix"), MAX_TITLE_PREFIX_BYTES)?;
            }
            Ok(Some(issues))
        }
        _ => Err(SettingsError::new(PATH, "must be true, false or an object")),
    }
}

/// Text that stands for itself: kept as given, untrimmed.
fn literal(value: &Json, path: &str, most: usize) -> Read<String> {
    match value {
        Json::String(text) if name_within(text, 1, most) && !text.trim().is_empty() && !text.contains("${{") => {
            Ok(text.clone())
        }
        _ => {
            let message = format!(
                "must be a nonblank literal of at most {most} UTF-8 bytes without control characters or expressions"
            );
            Err(SettingsError::new(path, message))
        }
    }
}
