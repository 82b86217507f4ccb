//! Holds requests and replies against what GitHub publishes.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock};

use apollo_compiler::ast::Type;
use apollo_compiler::executable::{Selection, SelectionSet};
use apollo_compiler::schema::ExtendedType;
use apollo_compiler::validation::Valid;
use apollo_compiler::{ExecutableDocument, Schema};
use serde_json::{Value, json};

use super::endpoint::Endpoint;
use super::openapi::{Description, packages};
use super::rest::Request;
use super::shape;
use super::world::Edition;

/// Endpoints of which a reply with status 2xx, or 302 where that is success, was found valid.
static COVERED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Whether the schemas are installed.
pub(crate) fn available() -> bool {
    packages().is_some()
}

/// The endpoints that were answered successfully and validly in this process so far.
pub(crate) fn covered() -> BTreeSet<String> {
    COVERED.lock().unwrap().clone()
}

/// What is wrong with a request.
pub(super) fn request(edition: Edition, method: &str, request: &Request) -> Vec<String> {
    if !available() {
        return Vec::new();
    }
    let parameters: Vec<u64> = request.parameters.iter().map(|text| shape::of_parameter(text)).collect();
    let query: Vec<_> = request.query.iter().map(|(name, text)| (name, shape::of_parameter(text))).collect();
    let body = request.body.as_ref().map(|body| shape::of(body, &mut |_| 0));
    let shape = shape::hash((edition, method, request.endpoint, parameters, query, body, asked(request)));
    shape::once(shape, || inspect_request(edition, method, request))
}

/// The query of a GraphQL request, of which every character counts.
fn asked(request: &Request) -> Option<&str> {
    if request.endpoint != Endpoint::GraphQl {
        return None;
    }
    request.body.as_ref()?["query"].as_str()
}

fn inspect_request(edition: Edition, method: &str, request: &Request) -> Vec<String> {
    let endpoint = request.endpoint;
    if endpoint == Endpoint::Unknown {
        return vec![format!("a {method} request to an endpoint that is not simulated")];
    }
    if endpoint == Endpoint::GraphQl {
        return operation(request).err().unwrap_or_default();
    }
    let (Some(description), name) = (Description::of(edition), endpoint.name()) else { return Vec::new() };
    let Some(operation) = description.operation(method, endpoint.template()) else {
        // Enterprise Server lacks some; it answers 404.
        return Vec::new();
    };
    let mut found = Vec::new();
    let parameters: Vec<&Value> =
        operation["parameters"].as_array().into_iter().flatten().map(|one| description.resolve(one)).collect();
    let declared = |place: &str, name: &str| {
        parameters.iter().find(|one| one["in"] == place && one["name"] == name).map(|one| &one["schema"])
    };
    let in_path = endpoint.template().split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let given = in_path.zip(&request.parameters).map(|(key, value)| ("path", key, value.as_str()));
    let asked = request.query.iter().map(|(key, value)| ("query", key.as_str(), value.as_str()));
    for (place, key, value) in given.chain(asked) {
        match declared(place, key) {
            None => found.push(format!("{name}: there is no {place} parameter `{key}`")),
            Some(schema) => {
                let cached = format!("{name} {place} {key}");
                let against = description.objections(&cached, schema, &typed(description, schema, value));
                found.extend(against.into_iter().map(|what| format!("{name}: {place} parameter `{key}`: {what}")));
            }
        }
    }
    match (&operation["requestBody"]["content"]["application/json"]["schema"], &request.body) {
        (Value::Null, None) => {}
        (Value::Null, Some(_)) => found.push(format!("{name}: takes no body")),
        (schema, Some(body)) => {
            let against = description.objections(&format!("{name} body"), schema, body);
            found.extend(against.into_iter().map(|what| format!("{name}: request body: {what}")));
        }
        (_, None) if operation["requestBody"]["required"] == json!(true) => {
            found.push(format!("{name}: needs a body"));
        }
        (_, None) => {}
    }
    found
}

/// A parameter's text as the value that its schema means.
fn typed(description: &Description, schema: &Value, text: &str) -> Value {
    let schema = description.resolve(schema);
    let wants = |kind: &str| schema["type"] == kind || schema["oneOf"].to_string().contains(kind);
    match text.parse::<u64>() {
        Ok(number) if wants("integer") => json!(number),
        _ if wants("boolean") && ["true", "false"].contains(&text) => json!(text == "true"),
        _ => json!(text),
    }
}

/// What is wrong with a reply, whose body has this shape; `body` gives the body itself.
pub(super) fn reply(
    edition: Edition,
    request: &Request,
    status: u16,
    shape: Option<u64>,
    body: impl FnOnce() -> Option<Value>,
) -> Vec<String> {
    if request.endpoint == Endpoint::Unknown || !available() {
        return Vec::new();
    }
    let shape = shape::hash((edition, "reply", request.endpoint, status, shape, asked(request)));
    shape::once(shape, || inspect_reply(edition, request, status, body().as_ref()))
}

/// What is wrong with a reply that a test made up.
pub(crate) fn found_in_reply(method: &str, path: &str, query: Option<&str>, status: u16, body: &Value) -> Vec<String> {
    let (endpoint, parameters) = match query {
        Some(_) => (Endpoint::GraphQl, Vec::new()),
        None => Endpoint::find(method, path),
    };
    let asked = query.map(|query| json!({"query": query}));
    let version = String::new();
    let request = Request { endpoint, parameters, query: Vec::new(), body: asked, token: None, version, stale: 0 };
    let shape = shape::of(body, &mut |_| 0);
    reply(Edition::Dotcom, &request, status, Some(shape), || Some(body.clone()))
}

fn inspect_reply(edition: Edition, request: &Request, status: u16, body: Option<&Value>) -> Vec<String> {
    let endpoint = request.endpoint;
    let name = endpoint.name();
    let found = match (endpoint, status) {
        (Endpoint::GraphQl, 200) => graphql_reply(request, body.unwrap_or(&Value::Null)),
        (Endpoint::GraphQl, _) => Vec::new(),
        _ => {
            let Some(description) = Description::of(edition) else { return Vec::new() };
            rest_reply(description, endpoint, status, body)
        }
    };
    if found.is_empty() && (status < 300 || status == 302) {
        COVERED.lock().unwrap().insert(name.clone());
    }
    found.into_iter().map(|what| format!("{name}: reply {status}: {what}")).collect()
}

fn rest_reply(description: &Description, endpoint: Endpoint, status: u16, body: Option<&Value>) -> Vec<String> {
    let method = endpoint.name().split(' ').next().unwrap_or_default().to_owned();
    let operation = description.operation(&method, endpoint.template());
    let listed = operation.and_then(|operation| operation["responses"].get(status.to_string()));
    let null = Value::Null;
    match listed.map(|listed| description.resolve(listed)) {
        Some(response) => match (&response["content"]["application/json"]["schema"], body) {
            (Value::Null, None) => Vec::new(),
            (Value::Null, Some(_)) => vec!["no body is described".to_owned()],
            (schema, body) => {
                description.objections(&format!("{} {status}", endpoint.name()), schema, body.unwrap_or(&null))
            }
        },
        // GitHub describes few of the errors that every operation can give.
        None if status >= 400 || status == 301 => {
            let schema = json!({"$ref": "#/components/schemas/basic-error"});
            description.objections("basic-error", &schema, body.unwrap_or(&null))
        }
        None => vec!["the status is not described".to_owned()],
    }
}

/// The published GraphQL schema.
fn schema() -> Option<&'static Valid<Schema>> {
    static SCHEMA: OnceLock<Option<Valid<Schema>>> = OnceLock::new();
    SCHEMA
        .get_or_init(|| {
            let path = packages()?.join("@octokit/graphql-schema/schema.graphql");
            let text = std::fs::read_to_string(path).expect("the package holds the schema");
            // GitHub published a type with two fields twice; the schema without the copies is what is meant.
            let schema = Schema::parse(text, "schema.graphql").unwrap_or_else(|error| error.partial);
            assert!(schema.types.values().all(constants_are_upper_case), "`shape` relies on it");
            Some(Valid::assume_valid(schema))
        })
        .as_ref()
}

fn constants_are_upper_case(ty: &ExtendedType) -> bool {
    let upper =
        |name: &str| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    // Those of introspection itself are upper-case too.
    ty.as_enum().is_none_or(|ty| ty.values.keys().all(|name| upper(name)))
}

/// The operation of a request, valid against the schema; none without the schema.
fn operation(request: &Request) -> Result<Option<Valid<ExecutableDocument>>, Vec<String>> {
    let Some(schema) = schema() else { return Ok(None) };
    let body = request.body.as_ref().unwrap_or(&Value::Null);
    let query = body["query"].as_str().unwrap_or_default();
    let document = ExecutableDocument::parse_and_validate(schema, query, "query.graphql")
        .map_err(|error| vec![format!("GraphQL: {}", error.errors)])?;
    let mut found = Vec::new();
    for operation in document.operations.iter() {
        for variable in &operation.variables {
            let value = &body["variables"][variable.name.as_str()];
            let fits = match &*variable.ty {
                Type::NonNullNamed(name) => scalar(name, value),
                Type::Named(name) => value.is_null() || scalar(name, value),
                _ => true,
            };
            if !fits && variable.default_value.is_none() {
                found.push(format!("GraphQL: variable `{}` has no fitting value", variable.name));
            }
        }
    }
    if found.is_empty() { Ok(Some(document)) } else { Err(found) }
}

fn scalar(name: &str, value: &Value) -> bool {
    match name {
        "Int" => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
        "Float" => value.is_number(),
        "Boolean" => value.is_boolean(),
        _ => value.is_string(),
    }
}

fn graphql_reply(request: &Request, body: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let errors = body["errors"].as_array();
    for error in errors.into_iter().flatten() {
        if !error["message"].is_string() {
            found.push("an error without a message".to_owned());
        }
    }
    let Ok(Some(document)) = operation(request) else { return found };
    let Some(operation) = document.operations.iter().next() else { return found };
    match &body["data"] {
        Value::Null if errors.is_some() => {}
        data => shape(&document, &operation.selection_set, data, "data", &mut found),
    }
    found
}

/// Whether an object has the selected members, each of its type, and no others.
fn shape(document: &ExecutableDocument, set: &SelectionSet, value: &Value, at: &str, found: &mut Vec<String>) {
    let Some(members) = value.as_object() else {
        found.push(format!("{at} is no object"));
        return;
    };
    let mut known = BTreeSet::new();
    fields(document, set, members, at, true, &mut known, found);
    for name in members.keys().filter(|name| !known.contains(*name)) {
        found.push(format!("{at}.{name} was not selected"));
    }
}

fn fields(
    document: &ExecutableDocument,
    set: &SelectionSet,
    members: &serde_json::Map<String, Value>,
    at: &str,
    must: bool,
    known: &mut BTreeSet<String>,
    found: &mut Vec<String>,
) {
    for selection in &set.selections {
        match selection {
            Selection::Field(field) => {
                let key = field.response_key().to_string();
                match members.get(&key) {
                    Some(value) => {
                        typed_as(document, field.ty(), &field.selection_set, value, &format!("{at}.{key}"), found)
                    }
                    None if must => found.push(format!("{at}.{key} is missing")),
                    None => {}
                }
                known.insert(key);
            }
            Selection::InlineFragment(fragment) => {
                fields(document, &fragment.selection_set, members, at, false, known, found);
            }
            Selection::FragmentSpread(spread) => {
                if let Some(fragment) = document.fragments.get(&spread.fragment_name) {
                    fields(document, &fragment.selection_set, members, at, false, known, found);
                }
            }
        }
    }
}

fn typed_as(
    document: &ExecutableDocument,
    ty: &Type,
    set: &SelectionSet,
    value: &Value,
    at: &str,
    found: &mut Vec<String>,
) {
    match (ty, value) {
        (Type::Named(_) | Type::List(_), Value::Null) => {}
        (Type::List(inner) | Type::NonNullList(inner), Value::Array(values)) => {
            for (index, value) in values.iter().enumerate() {
                typed_as(document, inner, set, value, &format!("{at}[{index}]"), found);
            }
        }
        (Type::Named(_) | Type::NonNullNamed(_), _) if !set.selections.is_empty() => {
            shape(document, set, value, at, found);
        }
        (Type::Named(name) | Type::NonNullNamed(name), _) => {
            let values = schema().and_then(|schema| schema.types.get(name)).and_then(|ty| match ty {
                ExtendedType::Enum(ty) => Some(&ty.values),
                _ => None,
            });
            let fits = match (values, value) {
                (Some(values), Value::String(text)) => values.contains_key(text.as_str()),
                (Some(_), _) => false,
                (None, value) => scalar(name, value),
            };
            if !fits {
                found.push(format!("{at} is no {name}"));
            }
        }
        _ => found.push(format!("{at} is no list")),
    }
}
