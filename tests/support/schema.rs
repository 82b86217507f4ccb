//! JSON Schema, as an outside party reads it: an independent validator over the published files.

use jsonschema::Validator;
use serde_json::Value;

use super::corpus::load;

/// A validator for a schema of the conformance folder; none without the folder.
pub(crate) fn schema(name: &str) -> Option<Validator> {
    Some(compile(&load(name)?))
}

/// A validator for a schema.
pub(crate) fn compile(schema: &Value) -> Validator {
    jsonschema::draft202012::new(schema).unwrap_or_else(|error| panic!("{error}"))
}

/// What the schema says against a value: where, and what; never the value itself.
pub(crate) fn objections(schema: &Validator, value: &Value) -> Vec<String> {
    schema.iter_errors(value).map(|error| format!("{}: {}", error.instance_path(), error.masked())).collect()
}
