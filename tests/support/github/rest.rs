//! The REST endpoints: who may ask, and what is answered. `actions` has those about workflows and runs.

use serde_json::{Value, json};

use super::endpoint::Endpoint;
use super::time::rfc3339;
use super::world::{Area, Edition, Entry, Issued, Level, Lifecycle, Named, World};

/// A request, taken apart.
pub(super) struct Request {
    pub(super) endpoint: Endpoint,
    /// The path's parameters, decoded, in order.
    pub(super) parameters: Vec<String>,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Option<Value>,
    pub(super) token: Option<String>,
    /// The API version that applies.
    pub(super) version: String,
    /// Runs are shown as so many changes ago.
    pub(super) stale: u64,
}

impl Request {
    pub(super) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The `index`-th parameter; the router gives as many as the template has.
    pub(super) fn parameter(&self, index: usize) -> &str {
        &self.parameters[index]
    }
}

/// A reply before headers that every reply has.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// None for an empty body.
    pub(super) body: Option<Value>,
    pub(super) headers: Vec<(&'static str, String)>,
}

impl Reply {
    pub(super) fn ok(body: Value) -> Self {
        Self { status: 200, body: Some(body), headers: Vec::new() }
    }

    /// An error in GitHub's shape.
    pub(super) fn error(status: u16, message: &str) -> Self {
        let body = json!({
            "message": message, "documentation_url": "https://docs.github.com/rest", "status": status.to_string(),
        });
        Self { status, body: Some(body), headers: Vec::new() }
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn not_found() -> Self {
        Self::error(404, "Not Found")
    }
}

impl World {
    /// The account behind a request; an error for a token that is none.
    pub(super) fn who(&self, token: Option<&str>) -> Result<Option<u64>, Reply> {
        let Some(token) = token else { return Ok(None) };
        match self.tokens.get(token) {
            Some(known) if !known.revoked && known.expires_at.is_none_or(|at| self.now() < at) => {
                Ok(Some(known.account))
            }
            _ => Err(Reply::error(401, "Bad credentials")),
        }
    }

    /// What a token may do in an area of a repository. The world may read what is public.
    pub(super) fn level(&self, token: Option<&str>, repository: u64, area: Area) -> Level {
        let access = token.and_then(|token| self.tokens.get(token)).and_then(|token| token.access.get(&repository));
        let private = self.repositories[&repository].private;
        let open = if private || area == Area::Administration { Level::None } else { Level::Read };
        access.map_or(Level::None, |access| access.level(area)).max(open)
    }

    /// Whether a repository may be known at all.
    pub(super) fn sees(&self, token: Option<&str>, repository: u64) -> bool {
        self.level(token, repository, Area::Metadata) >= Level::Read
    }

    /// The refusal of a permission, in the words that GitHub has for the kind of token.
    pub(super) fn refusal(&self, token: Option<&str>, area: Area, level: Level) -> Reply {
        let issued = token.and_then(|token| self.tokens.get(token)).map(|token| token.issued);
        let message = match issued {
            Some(Issued::Installation) => "Resource not accessible by integration",
            Some(Issued::FineGrained) => "Resource not accessible by personal access token",
            Some(Issued::Classic(_)) => "Must have admin rights to Repository.",
            None => return Reply::error(401, "Requires authentication"),
        };
        let word = if level == Level::Write { "write" } else { "read" };
        Reply::error(403, message).header("x-accepted-github-permissions", format!("{}={word}", area.name()))
    }

    /// The repository that `owner/repo` of a path leads to, if the token may do what the endpoint needs.
    fn admit(&self, request: &Request) -> Result<u64, Reply> {
        let name = format!("{}/{}", request.parameter(0), request.parameter(1));
        let token = request.token.as_deref();
        let id = match self.named(&name) {
            Some(Named::Here(id)) if self.sees(token, id) => id,
            Some(Named::Moved(id)) if self.sees(token, id) => {
                let rest = request.endpoint.template().trim_start_matches("/repos/{owner}/{repo}");
                let mut path = rest.to_owned();
                for parameter in &request.parameters[2..] {
                    if let (Some(start), Some(end)) = (path.find('{'), path.find('}')) {
                        path.replace_range(start..=end, parameter);
                    }
                }
                let query: Vec<_> = request.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
                return Err(moved(&format!("{}/repositories/{id}{path}{query}", self.api)));
            }
            _ => return Err(Reply::not_found()),
        };
        let Some((area, level)) = request.endpoint.needs() else { return Ok(id) };
        if self.level(token, id, area) < level {
            return Err(self.refusal(token, area, level));
        }
        if level == Level::Write && self.repositories[&id].archived {
            return Err(Reply::error(403, "Repository was archived so is read-only."));
        }
        Ok(id)
    }

    /// Answers a request of the REST API.
    pub(super) fn rest(&mut self, request: &Request) -> Reply {
        self.answer(request).unwrap_or_else(|refusal| refusal)
    }

    fn answer(&mut self, request: &Request) -> Result<Reply, Reply> {
        let account = self.who(request.token.as_deref())?;
        match request.endpoint {
            Endpoint::User => {
                let id = account.ok_or_else(|| Reply::error(401, "Requires authentication"))?;
                // An installation has no user; GitHub refuses it here.
                match self.tokens[request.token.as_deref().unwrap_or_default()].issued {
                    Issued::Installation => Err(Reply::error(403, "Resource not accessible by integration")),
                    _ => Ok(Reply::ok(self.public_user(id))),
                }
            }
            Endpoint::Account => {
                let found = self.account_named(request.parameter(0)).map(|account| account.id);
                found.map(|id| Reply::ok(self.public_user(id))).ok_or_else(Reply::not_found)
            }
            Endpoint::Versions => match self.edition {
                Edition::Dotcom => Ok(Reply::ok(json!(self.versions))),
                Edition::Enterprise => Err(Reply::not_found()),
            },
            Endpoint::Meta => Ok(Reply::ok(self.meta())),
            Endpoint::RateLimit => Ok(Reply::ok(self.limits(request.token.as_deref()))),
            Endpoint::GraphQl | Endpoint::GitFetch | Endpoint::GitPush | Endpoint::Unknown => Err(Reply::not_found()),
            _ => {
                let id = self.admit(request)?;
                self.in_repository(request, id, account)
            }
        }
    }

    fn in_repository(&mut self, request: &Request, id: u64, account: Option<u64>) -> Result<Reply, Reply> {
        match request.endpoint {
            Endpoint::Repository => Ok(Reply::ok(self.full_repository(&self.repositories[&id], account))),
            Endpoint::GetRef => self.get_ref(request, id),
            Endpoint::CreateRef => self.create_ref(request, id),
            Endpoint::Contents => self.contents(request, id),
            Endpoint::Issue => self.get_issue(request, id),
            Endpoint::Pull => self.get_pull(request, id),
            Endpoint::BranchRules => Ok(Reply::ok(Value::Array(self.repositories[&id].rules.clone()))),
            Endpoint::ActionsPermissions => {
                let enabled = self.repositories[&id].actions_enabled;
                Ok(Reply::ok(json!({"enabled": enabled, "allowed_actions": "all"})))
            }
            _ => self.actions(request, id, account),
        }
    }

    fn get_ref(&mut self, request: &Request, id: u64) -> Result<Reply, Reply> {
        let repository = &self.repositories[&id];
        if repository.is_empty() {
            return Err(Reply::error(409, "Git Repository is empty."));
        }
        let name = format!("refs/{}", request.parameter(2));
        let target = repository.reference(&name).ok_or_else(Reply::not_found)?;
        Ok(Reply::ok(self.git_ref(repository, &name, &target)))
    }

    fn create_ref(&mut self, request: &Request, id: u64) -> Result<Reply, Reply> {
        let text = |name: &str| request.body.as_ref().and_then(|body| body[name].as_str()).map(str::to_owned);
        let (Some(name), Some(sha)) = (text("ref"), text("sha")) else {
            return Err(invalid("Invalid request.\n\n\"ref\", \"sha\" weren't supplied."));
        };
        let repository = self.repositories.get_mut(&id).expect("it was admitted");
        if repository.is_empty() {
            return Err(Reply::error(409, "Git Repository is empty."));
        }
        if !name.starts_with("refs/") || name.matches('/').count() < 2 {
            return Err(invalid("Reference name is invalid."));
        }
        if !repository.knows(&sha) {
            return Err(invalid("Object does not exist"));
        }
        if repository.create_ref(&name, &sha).is_none() {
            return Err(invalid("Reference already exists"));
        }
        let repository = &self.repositories[&id];
        let target = repository.reference(&name).ok_or_else(Reply::not_found)?;
        let body = self.git_ref(repository, &name, &target);
        let location = body["url"].as_str().unwrap_or_default().to_owned();
        Ok(Reply { status: 201, body: Some(body), headers: vec![("location", location)] })
    }

    fn contents(&mut self, request: &Request, id: u64) -> Result<Reply, Reply> {
        let repository = self.repositories.get_mut(&id).expect("it was admitted");
        if repository.is_empty() {
            return Err(Reply::error(404, "This repository is empty."));
        }
        let wanted = request.query("ref").unwrap_or(&repository.default_branch).to_owned();
        let Some(sha) = repository.commit_of(&wanted) else {
            return Err(Reply::error(404, "No commit found for the ref"));
        };
        let files = repository.files(&sha).ok_or_else(Reply::not_found)?;
        let repository = &self.repositories[&id];
        let path = request.parameter(2).trim_matches('/');
        let shown = match files.get(path) {
            // GitHub follows a link to a file of the repository.
            Some(Entry::Link(target)) => {
                let target = beside(path, target);
                match files.get(&target) {
                    Some(file @ Entry::File(_)) => self.content(repository, &target, file, &wanted),
                    _ => self.content(repository, path, &files[path], &wanted),
                }
            }
            Some(file) => self.content(repository, path, file, &wanted),
            None => self.directory(repository, path, &files, &wanted).ok_or_else(Reply::not_found)?,
        };
        Ok(Reply::ok(shown))
    }

    fn get_issue(&mut self, request: &Request, id: u64) -> Result<Reply, Reply> {
        let number: u64 = request.parameter(2).parse().map_err(|_| Reply::not_found())?;
        let repository = &self.repositories[&id];
        if let Some(pull) = repository.pulls.get(&number) {
            return Ok(Reply::ok(self.pull_as_issue(repository, number, pull)));
        }
        let issue = repository.issues.get(&number).ok_or_else(Reply::not_found)?;
        match issue.status {
            Lifecycle::Here => Ok(Reply::ok(self.render_issue(repository, number, issue))),
            Lifecycle::Deleted => Err(Reply::error(410, "This issue was deleted")),
            Lifecycle::Transferred(other, number) => {
                let there = &self.repositories[&other];
                Err(moved(&format!("{}/repos/{}/issues/{number}", self.api, self.full_name(there))))
            }
        }
    }

    fn get_pull(&mut self, request: &Request, id: u64) -> Result<Reply, Reply> {
        let number: u64 = request.parameter(2).parse().map_err(|_| Reply::not_found())?;
        let repository = &self.repositories[&id];
        let pull = repository.pulls.get(&number).ok_or_else(Reply::not_found)?;
        let provenance = request.version.as_str() < "2026-03-10";
        Ok(Reply::ok(self.render_pull(repository, number, pull, provenance)))
    }

    fn meta(&self) -> Value {
        match self.edition {
            Edition::Dotcom => json!({"verifiable_password_authentication": false}),
            Edition::Enterprise => json!({"verifiable_password_authentication": true, "installed_version": "3.19.0"}),
        }
    }

    fn limits(&self, token: Option<&str>) -> Value {
        let (limit, used, reset) = self.usage(token);
        let rate = json!({"limit": limit, "used": used, "remaining": limit - used, "reset": reset});
        json!({"resources": {"core": rate, "search": rate, "graphql": rate}, "rate": rate})
    }

    /// Limit, used calls and reset (Unix seconds) of a token's hour.
    pub(super) fn usage(&self, token: Option<&str>) -> (u64, u64, i64) {
        let hour = self.now().div_euclid(3_600_000);
        let used = token
            .and_then(|token| self.tokens.get(token))
            .filter(|token| token.window.0 == hour)
            .map_or(0, |token| token.window.1);
        let limit = self.rate_limit.unwrap_or(15_000);
        (limit, used.min(limit), (hour + 1) * 3600)
    }

    /// Counts a call; false when the hour's calls are spent.
    pub(super) fn spend(&mut self, token: Option<&str>) -> bool {
        let hour = self.now().div_euclid(3_600_000);
        let limit = self.rate_limit;
        let Some(token) = token.and_then(|token| self.tokens.get_mut(token)) else { return true };
        if token.window.0 != hour {
            token.window = (hour, 0);
        }
        token.window.1 += 1;
        limit.is_none_or(|limit| token.window.1 <= limit)
    }
}

/// 301, as for renamed repositories and transferred issues.
fn moved(to: &str) -> Reply {
    let mut reply = Reply::error(301, "Moved Permanently").header("location", to);
    if let Some(Value::Object(body)) = &mut reply.body {
        body.insert("url".to_owned(), json!(to));
    }
    reply
}

/// 422.
pub(super) fn invalid(message: &str) -> Reply {
    Reply::error(422, message)
}

/// A link's target, seen from the directory of the link.
fn beside(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// The moment of a run for the `created` filter and for tests.
pub(super) fn created(ms: i64) -> String {
    rfc3339(ms)
}
