//! GraphQL: the query is really parsed, and the selected fields alone are answered.

use apollo_compiler::ast::{Definition, Document, Field, OperationType, Selection, Value as Literal};
use serde_json::{Map, Value, json};

use super::rest::{Reply, Request};
use super::time::rfc3339;
use super::world::{Area, Level, Named, World};

/// Something that fields can be selected of.
#[derive(Clone, Debug)]
enum Object {
    Query,
    Repository(u64),
    Pull(u64, u64),
    Issue(u64, u64),
    Branch(u64, String),
    Commit(String),
    Account(u64),
    RateLimit,
}

impl Object {
    fn type_name(&self, world: &World) -> &'static str {
        match self {
            Object::Query => "Query",
            Object::Repository(_) => "Repository",
            Object::Pull(..) => "PullRequest",
            Object::Issue(..) => "Issue",
            Object::Branch(..) => "Ref",
            Object::Commit(_) => "Commit",
            Object::Account(id) => world.accounts[id].kind.name(),
            Object::RateLimit => "RateLimit",
        }
    }
}

/// What a field gives.
enum Given {
    Leaf(Value),
    One(Object),
    Null,
    /// Null, and an entry among the errors.
    Error(&'static str, String),
    /// GitHub has no such field, or the simulator does not know it.
    NoField,
}

/// One execution.
struct Run<'a> {
    world: &'a World,
    token: Option<&'a str>,
    document: &'a Document,
    variables: &'a Value,
    errors: Vec<Value>,
    /// A validation error: nothing is executed.
    refused: Option<Value>,
}

/// Answers `POST /graphql`.
pub(super) fn answer(world: &mut World, request: &Request) -> Reply {
    let token = request.token.as_deref();
    match world.who(token) {
        Ok(Some(_)) => {}
        Ok(None) => return Reply::error(401, "This endpoint requires you to be authenticated."),
        Err(refusal) => return refusal,
    }
    let Some(query) = request.body.as_ref().and_then(|body| body["query"].as_str()) else {
        return Reply::ok(
            json!({"errors": [{"message": "A query attribute must be specified and must be a string."}]}),
        );
    };
    let Ok(document) = Document::parse(query, "query.graphql") else {
        return Reply::ok(json!({"errors": [{"message": "Parse error on the query"}]}));
    };
    let operation = document.definitions.iter().find_map(|definition| match definition {
        Definition::OperationDefinition(operation) => Some(operation),
        _ => None,
    });
    let Some(operation) = operation.filter(|operation| operation.operation_type == OperationType::Query) else {
        return Reply::ok(json!({"errors": [{"message": "The simulator answers queries alone"}]}));
    };
    let body = request.body.as_ref().unwrap_or(&Value::Null);
    let mut run =
        Run { world, token, document: &document, variables: &body["variables"], errors: Vec::new(), refused: None };
    let mut path = Vec::new();
    let data = run.select(&Object::Query, &operation.selection_set, &mut path);
    match (run.refused, run.errors) {
        (Some(refused), _) => Reply::ok(json!({"errors": [refused]})),
        (None, errors) if errors.is_empty() => Reply::ok(json!({"data": data})),
        (None, errors) => Reply::ok(json!({"data": data, "errors": errors})),
    }
}

impl Run<'_> {
    fn select(&mut self, object: &Object, selections: &[Selection], path: &mut Vec<String>) -> Value {
        let mut members = Map::new();
        self.collect(object, selections, path, &mut members);
        Value::Object(members)
    }

    fn collect(
        &mut self,
        object: &Object,
        selections: &[Selection],
        path: &mut Vec<String>,
        members: &mut Map<String, Value>,
    ) {
        let type_name = object.type_name(self.world);
        // Interfaces are not resolved: a fragment applies to its own type, to nodes and to actors.
        let applies = |condition: &str| condition == type_name || ["Node", "Actor", "GitObject"].contains(&condition);
        for selection in selections {
            match selection {
                Selection::Field(field) => {
                    let key = field.alias.as_ref().unwrap_or(&field.name).to_string();
                    path.push(key.clone());
                    let value = self.field(object, field, path);
                    path.pop();
                    members.insert(key, value);
                }
                Selection::InlineFragment(fragment) => {
                    if fragment.type_condition.as_ref().is_none_or(|condition| applies(condition)) {
                        self.collect(object, &fragment.selection_set, path, members);
                    }
                }
                Selection::FragmentSpread(spread) => {
                    let fragment = self.document.definitions.iter().find_map(|definition| match definition {
                        Definition::FragmentDefinition(fragment) if fragment.name == spread.fragment_name => {
                            Some(fragment)
                        }
                        _ => None,
                    });
                    if let Some(fragment) = fragment.filter(|fragment| applies(&fragment.type_condition)) {
                        self.collect(object, &fragment.selection_set, path, members);
                    }
                }
            }
        }
    }

    fn field(&mut self, object: &Object, field: &Field, path: &mut Vec<String>) -> Value {
        if field.name == "__typename" {
            return json!(object.type_name(self.world));
        }
        match self.give(object, field) {
            Given::Leaf(value) => value,
            Given::Null => Value::Null,
            Given::One(inner) => self.select(&inner, &field.selection_set, path),
            Given::Error(kind, message) => {
                self.errors.push(json!({
                    "type": kind, "path": path, "locations": [{"line": 1, "column": 1}], "message": message,
                }));
                Value::Null
            }
            Given::NoField => {
                let type_name = object.type_name(self.world);
                let mut at = vec!["query".to_owned()];
                at.extend(path.iter().cloned());
                self.refused.get_or_insert_with(|| {
                    json!({
                        "path": at, "locations": [{"line": 1, "column": 1}],
                        "extensions": {
                            "code": "undefinedField", "typeName": type_name, "fieldName": field.name.as_str(),
                        },
                        "message": format!("Field '{}' doesn't exist on type '{type_name}'", field.name),
                    })
                });
                Value::Null
            }
        }
    }

    /// An argument, with variables put in.
    fn argument(&self, field: &Field, name: &str) -> Value {
        let given = field.arguments.iter().find(|argument| argument.name == name);
        match given.map(|argument| &*argument.value) {
            Some(Literal::Variable(variable)) => self.variables[variable.as_str()].clone(),
            Some(Literal::String(text)) => json!(text),
            Some(Literal::Int(number)) => number.as_str().parse::<i64>().map_or(Value::Null, |number| json!(number)),
            Some(Literal::Boolean(value)) => json!(value),
            _ => Value::Null,
        }
    }

    fn give(&self, object: &Object, field: &Field) -> Given {
        let name = field.name.as_str();
        match object {
            Object::Query => self.of_query(field, name),
            Object::Repository(id) => self.of_repository(*id, field, name),
            Object::Pull(repository, number) => self.of_pull(*repository, *number, name),
            Object::Issue(repository, number) => self.of_issue(*repository, *number, name),
            Object::Branch(repository, full) => self.of_branch(*repository, full, name),
            Object::Commit(sha) => match name {
                "oid" => Given::Leaf(json!(sha)),
                "id" => Given::Leaf(json!(format!("C_{sha}"))),
                "abbreviatedOid" => Given::Leaf(json!(sha[..7])),
                _ => Given::NoField,
            },
            Object::Account(id) => {
                let account = &self.world.accounts[id];
                match name {
                    "login" => Given::Leaf(json!(account.login)),
                    "databaseId" => Given::Leaf(json!(account.id)),
                    "id" => Given::Leaf(json!(format!("U_sim{id}"))),
                    _ => Given::NoField,
                }
            }
            Object::RateLimit => {
                let (limit, used, reset) = self.world.usage(self.token);
                match name {
                    "limit" => Given::Leaf(json!(limit)),
                    "used" => Given::Leaf(json!(used)),
                    "remaining" => Given::Leaf(json!(limit - used)),
                    "cost" => Given::Leaf(json!(1)),
                    "resetAt" => Given::Leaf(json!(rfc3339(reset * 1000))),
                    _ => Given::NoField,
                }
            }
        }
    }

    fn of_query(&self, field: &Field, name: &str) -> Given {
        match name {
            "viewer" => self
                .token
                .and_then(|token| self.world.tokens.get(token))
                .map_or(Given::Null, |token| Given::One(Object::Account(token.account))),
            "rateLimit" => Given::One(Object::RateLimit),
            "repository" => {
                let (owner, repository) = (self.argument(field, "owner"), self.argument(field, "name"));
                let full =
                    format!("{}/{}", owner.as_str().unwrap_or_default(), repository.as_str().unwrap_or_default());
                let follow = self.argument(field, "followRenames") != json!(false);
                let found = match self.world.named(&full) {
                    Some(Named::Here(id)) => Some(id),
                    Some(Named::Moved(id)) if follow => Some(id),
                    _ => None,
                };
                match found.filter(|id| self.world.sees(self.token, *id)) {
                    Some(id) => Given::One(Object::Repository(id)),
                    None => {
                        let message = format!("Could not resolve to a Repository with the name '{full}'.");
                        Given::Error("NOT_FOUND", message)
                    }
                }
            }
            _ => Given::NoField,
        }
    }

    fn of_repository(&self, id: u64, field: &Field, name: &str) -> Given {
        let repository = &self.world.repositories[&id];
        let number = || self.argument(field, "number").as_u64().unwrap_or(0);
        let allowed = |area| self.world.level(self.token, id, area) >= Level::Read;
        let refused = || Given::Error("FORBIDDEN", "Resource not accessible by integration".to_owned());
        let missing = |kind: &str, number: u64| {
            Given::Error("NOT_FOUND", format!("Could not resolve to {kind} with the number of {number}."))
        };
        let branch = |full: String| match repository.reference(&full) {
            Some(_) => Given::One(Object::Branch(id, full)),
            None => Given::Null,
        };
        match name {
            "id" => Given::Leaf(json!(format!("R_sim{id}"))),
            "databaseId" => Given::Leaf(json!(id)),
            "name" => Given::Leaf(json!(repository.name)),
            "nameWithOwner" => Given::Leaf(json!(self.world.full_name(repository))),
            "isEmpty" => Given::Leaf(json!(repository.is_empty())),
            "isArchived" => Given::Leaf(json!(repository.archived)),
            "isPrivate" => Given::Leaf(json!(repository.private)),
            "owner" => Given::One(Object::Account(repository.owner)),
            "defaultBranchRef" => branch(format!("refs/heads/{}", repository.default_branch)),
            "ref" => branch(self.argument(field, "qualifiedName").as_str().unwrap_or_default().to_owned()),
            "pullRequest" if !allowed(Area::PullRequests) => refused(),
            "pullRequest" => match repository.pulls.contains_key(&number()) {
                true => Given::One(Object::Pull(id, number())),
                false => missing("a PullRequest", number()),
            },
            "issue" if !allowed(Area::Issues) => refused(),
            "issue" => match repository.issues.contains_key(&number()) {
                true => Given::One(Object::Issue(id, number())),
                false => missing("an Issue", number()),
            },
            _ => Given::NoField,
        }
    }

    fn of_pull(&self, repository: u64, number: u64, name: &str) -> Given {
        let pull = &self.world.repositories[&repository].pulls[&number];
        let state = if pull.merged { "MERGED".to_owned() } else { pull.state.to_ascii_uppercase() };
        match name {
            "id" => Given::Leaf(json!(format!("PR_sim{}", pull.id))),
            // A GraphQL Int has 32 bits, too few for newer ids.
            "databaseId" => Given::Leaf(i32::try_from(pull.id).map_or(Value::Null, |id| json!(id))),
            "fullDatabaseId" => Given::Leaf(json!(pull.id.to_string())),
            "number" => Given::Leaf(json!(number)),
            "title" => Given::Leaf(json!(pull.title)),
            "state" => Given::Leaf(json!(state)),
            "closed" => Given::Leaf(json!(pull.state == "closed")),
            "merged" => Given::Leaf(json!(pull.merged)),
            "mergedAt" => Given::Leaf(json!(pull.merged_at.map(rfc3339))),
            "mergeCommit" => pull.merge_commit.clone().map_or(Given::Null, |sha| Given::One(Object::Commit(sha))),
            "repository" => Given::One(Object::Repository(repository)),
            "baseRepository" => Given::One(Object::Repository(pull.base_repository.unwrap_or(repository))),
            _ => Given::NoField,
        }
    }

    fn of_issue(&self, repository: u64, number: u64, name: &str) -> Given {
        let issue = &self.world.repositories[&repository].issues[&number];
        match name {
            "id" => Given::Leaf(json!(format!("I_sim{}", issue.id))),
            "fullDatabaseId" => Given::Leaf(json!(issue.id.to_string())),
            "number" => Given::Leaf(json!(number)),
            "title" => Given::Leaf(json!(issue.title)),
            "state" => Given::Leaf(json!(issue.state.to_ascii_uppercase())),
            "stateReason" => Given::Leaf(json!(issue.state_reason.as_ref().map(|reason| reason.to_ascii_uppercase()))),
            "closed" => Given::Leaf(json!(issue.state == "closed")),
            "repository" => Given::One(Object::Repository(repository)),
            _ => Given::NoField,
        }
    }

    fn of_branch(&self, repository: u64, full: &str, name: &str) -> Given {
        let target = self.world.repositories[&repository].find_ref(full);
        match name {
            "id" => Given::Leaf(json!(format!("REF_sim{repository}"))),
            "name" => Given::Leaf(json!(full.splitn(3, '/').nth(2))),
            "prefix" => {
                Given::Leaf(json!(full.splitn(3, '/').take(2).map(|part| format!("{part}/")).collect::<String>()))
            }
            "target" => target.map_or(Given::Null, |(_, sha)| Given::One(Object::Commit(sha))),
            _ => Given::NoField,
        }
    }
}
