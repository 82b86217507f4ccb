//! What GitHub answers, as far as anything here depends on it. Ids are read from the JSON token, never through a
//! floating-point number (lifecycle.md 0.2).

use serde::{Deserialize, Deserializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::protocol::{At, Decimal, Revision};

/// A positive id from a JSON integer, as decimal text.
pub(super) fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Decimal, D::Error> {
    let number = u64::deserialize(deserializer)?;
    Decimal::new(number.to_string()).map_err(|_| serde::de::Error::custom("an id is a positive integer"))
}

fn some_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Decimal>, D::Error> {
    let number = Option::<u64>::deserialize(deserializer)?;
    let read = |number: u64| {
        Decimal::new(number.to_string()).map_err(|_| serde::de::Error::custom("an id is a positive integer"))
    };
    number.map(read).transpose()
}

fn revision<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Revision, D::Error> {
    let text = String::deserialize(deserializer)?;
    Revision::new(text).map_err(|_| serde::de::Error::custom("a revision is 40 or 64 hexadecimal digits"))
}

/// A moment such as `2026-11-30T12:00:00Z`; none where it is absent or no such text.
fn moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<At>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.as_deref().and_then(instant))
}

/// A string; none where the member is absent or anything else. What a predicate needs then counts as not known.
fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(serde_json::Value::deserialize(deserializer)?.as_str().map(str::to_owned))
}

/// True or false; none where the member is absent or anything else.
fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    Ok(serde_json::Value::deserialize(deserializer)?.as_bool())
}

/// True where a member is there and not null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::<serde::de::IgnoredAny>::deserialize(deserializer)?.is_some())
}

/// Unix milliseconds of an RFC 3339 text.
fn instant(text: &str) -> Option<At> {
    let parsed = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    i64::try_from(parsed.unix_timestamp_nanos() / 1_000_000).ok().and_then(|millis| At::new(millis).ok())
}

/// A person, a bot or an organization.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Account {
    /// Numeric id: the principal.
    #[serde(deserialize_with = "id")]
    pub id: Decimal,
    /// Login, for comparison with a login that was asked for.
    pub login: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: AccountKind,
}

/// Kinds of accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum AccountKind {
    /// A person.
    User,
    /// An App's or the workflow's own account.
    Bot,
    /// An organization, or whatever else there is.
    #[serde(other)]
    Other,
}

/// A repository.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Repository {
    /// Numeric id.
    #[serde(deserialize_with = "id")]
    pub id: Decimal,
    /// `owner/name` in the host's spelling.
    pub full_name: String,
    /// Name of the default branch, which a branchless repository has too.
    pub default_branch: Option<String>,
    /// What the account behind the credential may do, where the host tells.
    #[serde(default)]
    pub permissions: Permissions,
}

/// Permissions of an account. They are the operator's, and never predict what a workflow's token may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Permissions {
    /// May administer.
    pub admin: bool,
    /// May push.
    pub push: bool,
}

/// The repository that a run or pull request belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Owner {
    /// Numeric id.
    #[serde(deserialize_with = "id")]
    pub id: Decimal,
    /// `owner/name` in the host's spelling.
    pub full_name: String,
}

/// An account inside another record.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Principal {
    /// Numeric id.
    #[serde(deserialize_with = "id")]
    pub id: Decimal,
}

/// A workflow run, or one attempt of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Run {
    /// Numeric id.
    #[serde(deserialize_with = "id")]
    pub id: Decimal,
    /// Attempt, from 1.
    #[serde(default)]
    pub run_attempt: Option<u64>,
    /// Number of the run among those of its workflow.
    #[serde(default)]
    pub run_number: Option<u64>,
    /// The repository.
    pub repository: Owner,
    /// What triggered it.
    pub event: String,
    /// The revision that it runs at.
    #[serde(deserialize_with = "revision")]
    pub head_sha: Revision,
    /// Its workflow.
    #[serde(default, deserialize_with = "some_id")]
    pub workflow_id: Option<Decimal>,
    /// Path of its workflow, with `@ref` after it in some answers.
    pub path: String,
    /// Who it runs for.
    pub actor: Option<Principal>,
    /// Who started this attempt.
    pub triggering_actor: Option<Principal>,
    /// Its title: a hint, never proof.
    #[serde(default)]
    pub display_title: Option<String>,
    /// `queued`, `in_progress`, `completed`, …
    pub status: Option<String>,
    /// How it ended.
    pub conclusion: Option<String>,
    /// When it was created.
    #[serde(default, deserialize_with = "moment")]
    pub created_at: Option<At>,
}

/// One page of a listing of runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RunPage {
    /// The runs.
    pub workflow_runs: Vec<Run>,
}

/// A registered workflow.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Workflow {
    /// Numeric id.
    #[serde(deserialize_with = "id")]
    pub id: Decimal,
    /// Its path.
    pub path: String,
    /// `active`, or why it is not.
    pub state: String,
}

/// A reference and the object that it names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Tag {
    /// Full name.
    #[serde(rename = "ref")]
    pub name: String,
    /// The object.
    pub object: Object,
}

/// An object that a reference names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Object {
    /// `commit`, `tag`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Its name.
    #[serde(deserialize_with = "revision")]
    pub sha: Revision,
}

/// An Issue, or a pull request under its Issue's coordinates.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Issue {
    /// Numeric id.
    #[serde(deserialize_with = "id")]
    pub id: Decimal,
    /// Number.
    #[serde(deserialize_with = "id")]
    pub number: Decimal,
    /// `open` or `closed`.
    #[serde(default, deserialize_with = "word")]
    pub state: Option<String>,
    /// Why.
    #[serde(default, deserialize_with = "word")]
    pub state_reason: Option<String>,
    /// When it changed last.
    #[serde(default, deserialize_with = "moment")]
    pub updated_at: Option<At>,
    /// True for a pull request.
    #[serde(default, rename = "pull_request", deserialize_with = "present")]
    pub is_pull: bool,
}

/// A pull request's identity and state.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Pull {
    /// Numeric id.
    #[serde(deserialize_with = "id")]
    pub id: Decimal,
    /// Number.
    #[serde(deserialize_with = "id")]
    pub number: Decimal,
    /// `open` or `closed`.
    #[serde(default, deserialize_with = "word")]
    pub state: Option<String>,
    /// Whether it was merged.
    #[serde(default, deserialize_with = "flag")]
    pub merged: Option<bool>,
    /// When.
    #[serde(default, deserialize_with = "moment")]
    pub merged_at: Option<At>,
    /// When it changed last.
    #[serde(default, deserialize_with = "moment")]
    pub updated_at: Option<At>,
    /// What it is to be merged into.
    pub base: Base,
}

/// What a pull request is to be merged into.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Base {
    /// The repository.
    pub repo: Owner,
}

/// Whether a pull request was merged, and as what (decision 63).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullMerge {
    /// Whether it was merged.
    pub merged: bool,
    /// Numeric id of the pull request.
    pub id: Option<Decimal>,
    /// The merge commit.
    pub commit: Option<Revision>,
}
