//! GitHub's published description of its REST API, one operation compiled at a time.
//!
//! OpenAPI 3.0 is not quite JSON Schema: `nullable` becomes an alternative, examples and defaults are left out, and the
//! components that an operation reaches are put beside it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use jsonschema::{Draft, Validator};
use serde_json::{Map, Value, json};

use super::super::{schema::objections, tell};
use super::shape;
use super::world::Edition;

/// The installed packages: the directory that `WQ_GITHUB_SCHEMAS` names, else `target/github-schemas/node_modules`.
/// Without them nothing is checked, which is said once; where `CI` is set it is a failure.
pub(super) fn packages() -> Option<&'static PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let directory = match std::env::var_os("WQ_GITHUB_SCHEMAS") {
            Some(directory) => PathBuf::from(directory),
            None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/github-schemas/node_modules"),
        };
        if directory.join("@octokit/openapi/generated").is_dir() {
            return Some(directory);
        }
        tell!("GitHub's published schemas are not installed (see CONTRIBUTING.md): messages are not held against them");
        None
    });
    assert!(
        found.is_some() || std::env::var_os("CI").is_none_or(|value| value != "true"),
        "GitHub's published schemas must be installed where CI is set"
    );
    found.as_ref()
}

/// One description.
pub(super) struct Description {
    document: Value,
    compiled: Mutex<HashMap<String, Arc<Validator>>>,
}

impl Description {
    /// The description of an edition; none if the packages are not installed.
    pub(super) fn of(edition: Edition) -> Option<&'static Self> {
        static DOTCOM: OnceLock<Option<Description>> = OnceLock::new();
        static ENTERPRISE: OnceLock<Option<Description>> = OnceLock::new();
        let (cell, name) = match edition {
            Edition::Dotcom => (&DOTCOM, "api.github.com.json"),
            Edition::Enterprise => (&ENTERPRISE, "ghes-3.19.json"),
        };
        cell.get_or_init(|| {
            let path = packages()?.join("@octokit/openapi/generated").join(name);
            let text = std::fs::read(path).expect("the package holds the description");
            let document = serde_json::from_slice(&text).expect("the description is JSON");
            Some(Self { document, compiled: Mutex::default() })
        })
        .as_ref()
    }

    /// The operation of a template.
    pub(super) fn operation(&self, method: &str, template: &str) -> Option<&Value> {
        self.document["paths"].get(template)?.get(method.to_ascii_lowercase())
    }

    /// Follows a reference to a component.
    pub(super) fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
            Some(pointer) => self.document.pointer(pointer).expect("references lead somewhere"),
            None => value,
        }
    }

    /// What a schema of the description says against a value. `key` names the schema in the cache.
    pub(super) fn objections(&self, key: &str, schema: &Value, value: &Value) -> Vec<String> {
        let known = self.compiled.lock().unwrap().get(key).map(Arc::clone);
        let validator = known.unwrap_or_else(|| {
            let made = Arc::new(self.compile(schema));
            self.compiled.lock().unwrap().insert(key.to_owned(), Arc::clone(&made));
            made
        });
        if validator.is_valid(value) { Vec::new() } else { objections(&validator, value) }
    }

    fn compile(&self, schema: &Value) -> Validator {
        let mut wanted = BTreeSet::new();
        let root = convert(schema, &mut wanted);
        let mut components = BTreeMap::new();
        while let Some(name) = wanted.pop_first() {
            if components.contains_key(&name) {
                continue;
            }
            let found = self.document["components"]["schemas"].get(&name).expect("components are there");
            let mut inner = BTreeSet::new();
            let mut schema = convert(found, &mut inner);
            if name == "pull-request" {
                forgive(&mut schema);
            }
            wanted.extend(inner);
            components.insert(name, schema);
        }
        let whole = json!({"allOf": [root], "components": {"schemas": components}});
        let mut options = jsonschema::options().with_draft(Draft::Draft4).should_validate_formats(true);
        options = options.with_pattern_options(jsonschema::PatternOptions::regex());
        options.build(&whole).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// The published description is of API version 2022-11-28. 2026-03-10 took `merge_commit_sha` off pull requests.
fn forgive(pull: &mut Value) {
    if let Some(required) = pull["required"].as_array_mut() {
        required.retain(|name| name != "merge_commit_sha");
    }
}

/// Whether `shape` keeps everything that a schema looks at: its keywords, bounds, constants and formats.
fn assert_known(members: &Map<String, Value>) {
    for (key, value) in members {
        let known = match key.as_str() {
            "minimum" | "maximum" => value.as_i64().is_some_and(|bound| shape::BOUNDS.contains(&bound)),
            "minLength" | "maxLength" => value.as_u64() == Some(shape::LENGTH),
            "format" => ["date", "date-time", "email", "int64", "timestamp", "uri"].iter().any(|known| value == known),
            "enum" => value.as_array().into_iter().flatten().all(|constant| match constant {
                Value::String(text) => text.len() <= shape::CONSTANT && !text.bytes().any(|byte| byte.is_ascii_digit()),
                other => other.is_null() || other.is_boolean(),
            }),
            "type"
            | "properties"
            | "required"
            | "items"
            | "additionalProperties"
            | "allOf"
            | "anyOf"
            | "oneOf"
            | "not"
            | "$ref"
            | "maxProperties"
            | "nullable" => true,
            "example" | "examples" | "default" | "description" | "title" | "discriminator" | "readOnly"
            | "deprecated" | "externalDocs" => true,
            other => other.starts_with("x-"),
        };
        assert!(known, "a published schema looks at `{key}`: {value}, which shapes leave out");
    }
}

/// Makes JSON Schema of an OpenAPI schema, and notes the components it refers to.
fn convert(schema: &Value, wanted: &mut BTreeSet<String>) -> Value {
    let Value::Object(members) = schema else { return schema.clone() };
    assert_known(members);
    let mut out = Map::new();
    for (key, value) in members {
        let value = match (key.as_str(), value) {
            ("nullable" | "example" | "examples" | "default" | "description" | "title" | "discriminator", _) => {
                continue;
            }
            ("properties", Value::Object(properties)) => {
                properties.iter().map(|(name, schema)| (name.clone(), convert(schema, wanted))).collect()
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => {
                schemas.iter().map(|schema| convert(schema, wanted)).collect()
            }
            ("items" | "additionalProperties" | "not", value) => convert(value, wanted),
            ("$ref", Value::String(reference)) => {
                let name = reference.strip_prefix("#/components/schemas/").expect("references name components");
                wanted.insert(name.to_owned());
                value.clone()
            }
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    let schema = Value::Object(out);
    if members.get("nullable") == Some(&Value::Bool(true)) {
        return json!({"anyOf": [schema, {"type": "null"}]});
    }
    schema
}
