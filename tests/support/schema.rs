//! JSON Schema, as an outside party reads it: an independent validator over the published files.
//!
//! The published schemas bound identities in bytes and forbid controls by keywords of their own (`x-...`); these are
//! part of what they say, so they are checked too.

use std::sync::OnceLock;

use jsonschema::{Keyword, ValidationError, Validator};
use serde_json::Value;
use wq_action::engine::Projection;

use super::corpus::load;
use super::ledger::{HOST, read};

/// A validator for a schema of the conformance folder; none without the folder.
pub(crate) fn schema(name: &str) -> Option<Validator> {
    Some(compile(&load(name)?))
}

/// A validator for a schema.
pub(crate) fn compile(schema: &Value) -> Validator {
    let mut options = jsonschema::options();
    for name in Own::NAMES {
        options = options.with_keyword(name, move |_, bound, _| Ok(Box::new(Own::new(name, bound)) as Box<_>));
    }
    options.build(schema).unwrap_or_else(|error| panic!("{error}"))
}

/// A keyword of the published schemas that the standard does not know: a bound on text, on the value or on its keys.
struct Own {
    bound: usize,
    keys: bool,
    fits: fn(&str, usize) -> bool,
}

impl Own {
    const NAMES: [&'static str; 5] = [
        "x-forbid-ascii-controls",
        "x-utf8-max-bytes",
        "x-forbid-key-ascii-controls",
        "x-key-utf8-max-bytes",
        "x-key-min-utf8-bytes",
    ];

    fn new(name: &str, bound: &Value) -> Self {
        let fits: fn(&str, usize) -> bool = if name.ends_with("controls") {
            assert_eq!(bound, &Value::Bool(true));
            |text, _| !text.bytes().any(|byte| byte < 0x20 || byte == 0x7f)
        } else if name.ends_with("max-bytes") {
            |text, most| text.len() <= most
        } else {
            |text, least| text.len() >= least
        };
        Self { bound: bound.as_u64().unwrap_or(0) as usize, keys: name.contains("key"), fits }
    }
}

impl<'i> Keyword<'i> for Own {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        if self.is_valid(instance) { Ok(()) } else { Err(ValidationError::custom("text is out of its bounds")) }
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        match instance {
            Value::Object(members) if self.keys => members.keys().all(|key| (self.fits)(key, self.bound)),
            Value::String(text) if !self.keys => (self.fits)(text, self.bound),
            _ => true,
        }
    }
}

/// What the schema says against a value: where, and what; never the value itself.
pub(crate) fn objections(schema: &Validator, value: &Value) -> Vec<String> {
    schema.iter_errors(value).map(|error| format!("{}: {}", error.instance_path(), error.masked())).collect()
}

fn published(name: &'static str, cell: &'static OnceLock<Option<Validator>>) -> Option<&'static Validator> {
    cell.get_or_init(|| schema(&format!("schema/{name}.json"))).as_ref()
}

/// The published schema of commits; none without the conformance folder.
pub(crate) fn commit_schema() -> Option<&'static Validator> {
    static SCHEMA: OnceLock<Option<Validator>> = OnceLock::new();
    published("QueueCommit", &SCHEMA)
}

/// The published schema of assignments; none without the conformance folder.
pub(crate) fn assignment_schema() -> Option<&'static Validator> {
    static SCHEMA: OnceLock<Option<Validator>> = OnceLock::new();
    published("WorkQueueAssignment", &SCHEMA)
}

/// A commit without the one extension that the published schema does not have yet: `keep_open: true` in the parameters
/// of a finish and in its Completion. Nothing else is forgiven.
pub(crate) fn without_extension(mut commit: Value) -> Value {
    let drop = |holder: Option<&mut Value>| {
        if let Some(holder) = holder.and_then(Value::as_object_mut)
            && holder.get("keep_open") == Some(&Value::Bool(true))
        {
            holder.remove("keep_open");
        }
    };
    if commit["request"]["kind"] == "finish" {
        drop(commit.pointer_mut("/request/parameters"));
        for operation in commit["operations"].as_array_mut().into_iter().flatten() {
            if operation["kind"] == "Completion" {
                drop(Some(operation));
            }
        }
    }
    commit
}

/// Stops a test whose commit the published schema refuses. Called for every commit that the tests see written.
pub(crate) fn check_commit(line: &str) {
    let Some(schema) = commit_schema() else { return };
    let commit = without_extension(serde_json::from_str(line).expect("a commit is JSON"));
    if !schema.is_valid(&commit) {
        panic!("the published schema refuses a commit: {:?}", objections(schema, &commit));
    }
}

/// The same for every line of a ledger, if it is one: tests also put damaged files on branches.
pub(crate) fn check_ledger(text: &str) {
    if read(text.as_bytes(), HOST).is_ok() {
        text.lines().for_each(check_commit);
    }
}

/// The same for the assignments that the last commit of a projection granted.
pub(crate) fn check_last_assignments(state: &Projection) {
    let (Some(schema), Some(last)) = (assignment_schema(), state.requests().last()) else { return };
    for claim in state.granted(last) {
        let text = state.dispatch_of(claim).assignment.canonical();
        let assignment = serde_json::from_str(&text).expect("an assignment is JSON");
        if !schema.is_valid(&assignment) {
            panic!("the published schema refuses an assignment: {:?}", objections(schema, &assignment));
        }
    }
}
