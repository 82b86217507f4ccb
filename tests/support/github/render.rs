//! The JSON of GitHub's replies.

use base64::Engine as _;
use serde_json::{Map, Value, json};

use super::repository::{Repository, Role, Target, Workflow, object_id};
use super::run::Run;
use super::shape;
use super::time::rfc3339;
use super::world::{Account, Entry, Files, Issue, Kind, Pull, World};

const USER_LINKS: &[(&str, &str)] = &[
    ("events_url", "/events{/privacy}"),
    ("followers_url", "/followers"),
    ("following_url", "/following{/other_user}"),
    ("gists_url", "/gists{/gist_id}"),
    ("organizations_url", "/orgs"),
    ("received_events_url", "/received_events"),
    ("repos_url", "/repos"),
    ("starred_url", "/starred{/owner}{/repo}"),
    ("subscriptions_url", "/subscriptions"),
    ("url", ""),
];

const REPOSITORY_LINKS: &[(&str, &str)] = &[
    ("archive_url", "/{archive_format}{/ref}"),
    ("assignees_url", "/assignees{/user}"),
    ("blobs_url", "/git/blobs{/sha}"),
    ("branches_url", "/branches{/branch}"),
    ("collaborators_url", "/collaborators{/collaborator}"),
    ("comments_url", "/comments{/number}"),
    ("commits_url", "/commits{/sha}"),
    ("compare_url", "/compare/{base}...{head}"),
    ("contents_url", "/contents/{+path}"),
    ("contributors_url", "/contributors"),
    ("deployments_url", "/deployments"),
    ("downloads_url", "/downloads"),
    ("events_url", "/events"),
    ("forks_url", "/forks"),
    ("git_commits_url", "/git/commits{/sha}"),
    ("git_refs_url", "/git/refs{/sha}"),
    ("git_tags_url", "/git/tags{/sha}"),
    ("hooks_url", "/hooks"),
    ("issue_comment_url", "/issues/comments{/number}"),
    ("issue_events_url", "/issues/events{/number}"),
    ("issues_url", "/issues{/number}"),
    ("keys_url", "/keys{/key_id}"),
    ("labels_url", "/labels{/name}"),
    ("languages_url", "/languages"),
    ("merges_url", "/merges"),
    ("milestones_url", "/milestones{/number}"),
    ("notifications_url", "/notifications{?since,all,participating}"),
    ("pulls_url", "/pulls{/number}"),
    ("releases_url", "/releases{/id}"),
    ("stargazers_url", "/stargazers"),
    ("statuses_url", "/statuses/{sha}"),
    ("subscribers_url", "/subscribers"),
    ("subscription_url", "/subscription"),
    ("tags_url", "/tags"),
    ("teams_url", "/teams"),
    ("trees_url", "/git/trees{/sha}"),
    ("url", ""),
];

/// Adds the members of `more`.
fn with(mut value: Value, more: Value) -> Value {
    if let (Value::Object(members), Value::Object(more)) = (&mut value, more) {
        members.extend(more);
    }
    value
}

/// Adds members that are moved in whole; `json!` would build nested ones a second time.
pub(super) fn put<const N: usize>(mut value: Value, more: [(&str, Value); N]) -> Value {
    if let Value::Object(members) = &mut value {
        members.extend(more.into_iter().map(|(name, value)| (name.to_owned(), value)));
    }
    value
}

fn links(base: &str, links: &[(&str, &str)]) -> Map<String, Value> {
    links.iter().map(|(name, tail)| ((*name).to_owned(), Value::String(format!("{base}{tail}")))).collect()
}

fn node(kind: &str, id: u64) -> String {
    format!("{kind}_sim{id}")
}

impl World {
    fn user_web(&self, account: &Account) -> String {
        match account.kind {
            Kind::Bot => format!("{}/apps/{}", self.web, account.login.trim_end_matches("[bot]")),
            _ => format!("{}/{}", self.web, account.login),
        }
    }

    pub(super) fn simple_user(&self, id: u64) -> Value {
        let account = &self.accounts[&id];
        let mut members = links(&format!("{}/users/{}", self.api, encode(&account.login)), USER_LINKS);
        for (name, value) in [
            ("avatar_url", json!(format!("https://avatars.githubusercontent.com/u/{id}?v=4"))),
            ("gravatar_id", json!("")),
            ("html_url", json!(self.user_web(account))),
            ("id", json!(id)),
            ("login", json!(account.login)),
            ("node_id", json!(node("U", id))),
            ("site_admin", json!(false)),
            ("type", json!(account.kind.name())),
            ("user_view_type", json!("public")),
        ] {
            members.insert(name.to_owned(), value);
        }
        Value::Object(members)
    }

    pub(super) fn public_user(&self, id: u64) -> Value {
        let more = json!({
            "bio": null, "blog": "", "company": null, "email": null, "followers": 0, "following": 0, "hireable": null,
            "location": null, "name": null, "public_gists": 0, "public_repos": 1, "twitter_username": null,
            "created_at": "2020-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
        });
        with(self.simple_user(id), more)
    }

    fn repository_api(&self, repository: &Repository) -> String {
        format!("{}/repos/{}", self.api, self.full_name(repository))
    }

    pub(super) fn minimal_repository(&self, repository: &Repository) -> Value {
        let full_name = self.full_name(repository);
        let mut members = links(&self.repository_api(repository), REPOSITORY_LINKS);
        for (name, value) in [
            ("description", Value::Null),
            ("fork", json!(false)),
            ("html_url", json!(format!("{}/{full_name}", self.web))),
            ("full_name", json!(full_name)),
            ("id", json!(repository.id)),
            ("name", json!(repository.name)),
            ("node_id", json!(node("R", repository.id))),
            ("owner", self.simple_user(repository.owner)),
            ("private", json!(repository.private)),
        ] {
            members.insert(name.to_owned(), value);
        }
        Value::Object(members)
    }

    /// The long form, with what the reader's account may do.
    pub(super) fn full_repository(&self, repository: &Repository, reader: Option<u64>) -> Value {
        let web = format!("{}/{}", self.web, self.full_name(repository));
        let role = reader.and_then(|id| repository.roles.get(&id)).copied().unwrap_or(Role::None);
        let pull = role >= Role::Read || !repository.private;
        let time = rfc3339(repository.created_at);
        let size = u64::from(!repository.is_empty());
        let more = json!({
            "clone_url": format!("{web}.git"), "default_branch": repository.default_branch, "forks": 0,
            "forks_count": 0, "git_url": format!("git:{}.git", web.trim_start_matches("https:")), "has_issues": true,
            "has_projects": true, "has_wiki": true, "has_pages": false, "has_discussions": false,
            "has_downloads": true, "homepage": null, "language": null, "archived": repository.archived,
            "disabled": repository.disabled, "mirror_url": null, "open_issues": 0, "open_issues_count": 0,
            "license": null, "pushed_at": time, "size": size, "ssh_url": format!("git@github.com:{}.git",
            self.full_name(repository)), "stargazers_count": 0, "svn_url": web, "watchers": 0, "watchers_count": 0,
            "created_at": time, "updated_at": time, "network_count": 0, "subscribers_count": 0,
            "visibility": if repository.private { "private" } else { "public" },
            "permissions": {
                "admin": role >= Role::Admin, "maintain": role >= Role::Maintain, "push": role >= Role::Write,
                "triage": role >= Role::Triage, "pull": pull,
            },
        });
        with(self.minimal_repository(repository), more)
    }

    pub(super) fn git_ref(&self, repository: &Repository, name: &str, target: &Target) -> Value {
        let base = self.repository_api(repository);
        let kind = if target.kind == "tag" { "tags" } else { "commits" };
        json!({
            "ref": name, "node_id": node("REF", repository.id), "url": format!("{base}/git/{name}"),
            "object": {
                "sha": target.sha, "type": target.kind, "url": format!("{base}/git/{kind}/{}", target.sha),
            },
        })
    }

    pub(super) fn workflow(&self, repository: &Repository, workflow: &Workflow) -> Value {
        let web = format!("{}/{}", self.web, self.full_name(repository));
        let time = rfc3339(repository.created_at);
        json!({
            "id": workflow.id, "node_id": node("W", workflow.id), "name": workflow.name, "path": workflow.path,
            "state": workflow.state, "created_at": time, "updated_at": time,
            "url": format!("{}/actions/workflows/{}", self.repository_api(repository), workflow.id),
            "html_url": format!("{web}/blob/{}/{}", repository.default_branch, workflow.path),
            "badge_url": format!("{web}/workflows/{}/badge.svg", encode(&workflow.name)),
        })
    }

    /// An account (`u`) or a repository (`r`) within a run, as an abbreviation that [`World::spell`] replaces. Most of
    /// a run's text is in these, and a simulated day reads many runs.
    fn brief(kind: char, id: u64) -> Value {
        Value::String(format!("\u{1}{kind}{id}\u{1}"))
    }

    /// What an abbreviation stands for, as text and as a shape.
    pub(super) fn spelled(&mut self, mark: &str) -> &(String, u64) {
        let mark = mark.trim_matches('\u{1}');
        let key = (if mark.starts_with('u') { 'u' } else { 'r' }, mark[1..].parse().unwrap_or(0));
        if !self.spelled.contains_key(&key) {
            let full = match key {
                ('u', id) => self.simple_user(id),
                (_, id) => self.minimal_repository(&self.repositories[&id]),
            };
            let shape = shape::of(&full, &mut |_| 0);
            self.spelled.insert(key, (full.to_string(), shape));
        }
        &self.spelled[&key]
    }

    /// The text of a reply.
    pub(super) fn spell(&mut self, body: &Value) -> String {
        const MARK: &str = "\\u0001";
        let text = body.to_string();
        if !text.contains(MARK) {
            return text;
        }
        let mut out = String::with_capacity(4 * text.len());
        // Outside and inside of marks in turn, each mark within quotes of its own.
        for (index, part) in text.split(MARK).enumerate() {
            if index % 2 == 0 {
                let part = if index > 0 { part.strip_prefix('"').unwrap_or(part) } else { part };
                out.push_str(part);
                continue;
            }
            out.pop();
            out.push_str(&self.spelled(part).0);
        }
        out
    }

    /// A run as its `attempt` (counted from 1) shows it.
    pub(super) fn render_run(&self, run: &Run, attempt: usize, title: &str) -> Value {
        let repository = &self.repositories[&run.repository];
        let (base, full_name) = (self.repository_api(repository), self.full_name(repository));
        let url = format!("{base}/actions/runs/{}", run.id);
        let state = &run.attempts[attempt - 1];
        let previous = (attempt > 1).then(|| format!("{url}/attempts/{}", attempt - 1));
        let shown = json!({
            "id": run.id, "name": title, "node_id": node("WFR", run.id), "head_branch": run.head_branch,
            "head_sha": run.head_sha, "path": run.path, "display_title": title, "run_number": run.number,
            "event": run.event, "status": state.status, "conclusion": state.conclusion, "workflow_id": run.workflow,
            "check_suite_id": run.id + 1, "check_suite_node_id": node("CS", run.id + 1), "url": url,
            "html_url": format!("{}/{full_name}/actions/runs/{}", self.web, run.id), "pull_requests": [],
            "created_at": rfc3339(run.created_at), "updated_at": rfc3339(state.updated_at),
            "run_started_at": rfc3339(state.started_at),
            "run_attempt": attempt, "referenced_workflows": [],
            "jobs_url": format!("{url}/jobs"),
            "logs_url": format!("{url}/logs"), "check_suite_url": format!("{base}/check-suites/{}", run.id + 1),
            "artifacts_url": format!("{url}/artifacts"), "cancel_url": format!("{url}/cancel"),
            "rerun_url": format!("{url}/rerun"), "previous_attempt_url": previous,
            "workflow_url": format!("{base}/actions/workflows/{}", run.workflow),
            "head_commit": {
                "id": run.head_sha, "tree_id": run.head_sha, "message": "made by a test",
                "timestamp": rfc3339(run.created_at),
                "author": {"name": "somebody", "email": "somebody@example.invalid"},
                "committer": {"name": "somebody", "email": "somebody@example.invalid"},
            },
        });
        let nested = [
            ("actor", Self::brief('u', run.actor)),
            ("triggering_actor", Self::brief('u', state.triggering_actor)),
            ("repository", Self::brief('r', run.repository)),
            ("head_repository", Self::brief('r', run.repository)),
        ];
        put(shown, nested)
    }

    pub(super) fn render_issue(&self, repository: &Repository, number: u64, issue: &Issue) -> Value {
        let base = self.repository_api(repository);
        let url = format!("{base}/issues/{number}");
        let time = rfc3339(repository.created_at);
        json!({
            "id": issue.id, "node_id": node("I", issue.id), "number": number, "title": issue.title,
            "state": issue.state, "state_reason": issue.state_reason, "locked": false, "comments": 0, "labels": [],
            "assignee": null, "assignees": [], "milestone": null, "closed_at": issue.closed_at.map(rfc3339),
            "created_at": time, "updated_at": time, "author_association": "NONE", "body": null,
            "user": self.simple_user(issue.author), "url": url, "repository_url": base,
            "comments_url": format!("{url}/comments"), "events_url": format!("{url}/events"),
            "labels_url": format!("{url}/labels{{/name}}"),
            "html_url": format!("{}/{}/issues/{number}", self.web, self.full_name(repository)),
        })
    }

    /// A pull request as the issues endpoint shows it.
    pub(super) fn pull_as_issue(&self, repository: &Repository, number: u64, pull: &Pull) -> Value {
        let issue = Issue {
            id: pull.id + 1,
            title: pull.title.clone(),
            state: pull.state.clone(),
            state_reason: None,
            author: pull.author,
            closed_at: pull.merged_at,
            status: super::world::Lifecycle::Here,
        };
        let web = format!("{}/{}/pull/{number}", self.web, self.full_name(repository));
        let member = json!({
            "url": format!("{}/pulls/{number}", self.repository_api(repository)), "html_url": web,
            "diff_url": format!("{web}.diff"), "patch_url": format!("{web}.patch"),
            "merged_at": pull.merged_at.map(rfc3339),
        });
        with(self.render_issue(repository, number, &issue), json!({"pull_request": member}))
    }

    /// `merge_commit_sha` went away with API version 2026-03-10.
    pub(super) fn render_pull(&self, repository: &Repository, number: u64, pull: &Pull, provenance: bool) -> Value {
        let base_repository = pull.base_repository.map_or(repository, |id| &self.repositories[&id]);
        let base = self.repository_api(repository);
        let (url, issue) = (format!("{base}/pulls/{number}"), format!("{base}/issues/{number}"));
        let web = format!("{}/{}/pull/{number}", self.web, self.full_name(repository));
        let time = rfc3339(repository.created_at);
        let sha = "1".repeat(40);
        let user = self.simple_user(pull.author);
        let side = |repository: &Repository, branch: &str| {
            let label = format!("{}:{branch}", self.accounts[&repository.owner].login);
            let shown = self.full_repository(repository, None);
            json!({"label": label, "ref": branch, "sha": sha, "user": user, "repo": shown})
        };
        let value = json!({
            "id": pull.id, "node_id": node("PR", pull.id), "number": number, "title": pull.title, "body": null,
            "state": pull.state, "locked": false, "merged": pull.merged, "merged_at": pull.merged_at.map(rfc3339),
            "closed_at": pull.merged_at.map(rfc3339), "created_at": time, "updated_at": time, "url": url,
            "html_url": web, "diff_url": format!("{web}.diff"), "patch_url": format!("{web}.patch"),
            "issue_url": issue, "comments_url": format!("{issue}/comments"),
            "commits_url": format!("{url}/commits"), "review_comments_url": format!("{url}/comments"),
            "review_comment_url": format!("{base}/pulls/comments{{/number}}"),
            "statuses_url": format!("{base}/statuses/{sha}"), "assignee": null, "labels": [], "milestone": null,
        });
        let more = json!({
            "author_association": "NONE", "auto_merge": null, "additions": 1, "changed_files": 1, "comments": 0,
            "commits": 1, "deletions": 0, "mergeable": null, "mergeable_state": "unknown",
            "maintainer_can_modify": false, "merged_by": null, "review_comments": 0, "user": user, "draft": false,
            "head": side(repository, "topic"), "base": side(base_repository, &base_repository.default_branch),
            "_links": {
                "self": {"href": url}, "html": {"href": web}, "issue": {"href": issue},
                "comments": {"href": format!("{issue}/comments")},
                "review_comments": {"href": format!("{url}/comments")},
                "review_comment": {"href": format!("{base}/pulls/comments{{/number}}")},
                "commits": {"href": format!("{url}/commits")},
                "statuses": {"href": format!("{base}/statuses/{sha}")},
            },
        });
        let value = with(value, more);
        if provenance { with(value, json!({"merge_commit_sha": pull.merge_commit})) } else { value }
    }

    fn content_links(&self, repository: &Repository, path: &str, sha: &str, kind: &str, revision: &str) -> Value {
        let url = format!("{}/contents/{}?ref={revision}", self.repository_api(repository), encode_path(path));
        let what = if kind == "dir" { "tree" } else { "blob" };
        let git = format!("{}/git/{what}s/{sha}", self.repository_api(repository));
        let web = format!("{}/{}/{what}/{revision}/{}", self.web, self.full_name(repository), encode_path(path));
        let raw = (kind != "dir").then(|| format!("{web}?raw=true"));
        json!({
            "name": path.rsplit('/').next(), "path": path, "sha": sha, "type": kind, "url": url, "git_url": git,
            "html_url": web, "download_url": raw, "_links": {"self": url, "git": git, "html": web},
        })
    }

    /// One file; above 1 MiB GitHub leaves the content out.
    pub(super) fn content(&self, repository: &Repository, path: &str, entry: &Entry, revision: &str) -> Value {
        let (kind, bytes): (_, &[u8]) = match entry {
            Entry::File(bytes) => ("file", bytes),
            Entry::Link(target) => ("symlink", target.as_bytes()),
        };
        let shown = self.content_links(repository, path, &object_id(&[b"blob", bytes]), kind, revision);
        let more = match entry {
            Entry::Link(target) => json!({"size": target.len(), "target": target}),
            Entry::File(bytes) if bytes.len() > 1 << 20 => {
                json!({"size": bytes.len(), "content": "", "encoding": "none"})
            }
            Entry::File(bytes) => {
                let text = base64::engine::general_purpose::STANDARD.encode(bytes);
                let lines: Vec<_> = text.as_bytes().chunks(60).map(String::from_utf8_lossy).collect();
                let content = if lines.is_empty() { String::new() } else { lines.join("\n") + "\n" };
                json!({"size": bytes.len(), "content": content, "encoding": "base64"})
            }
        };
        with(shown, more)
    }

    /// The entries directly in a directory, at most 1,000; none if there is no such directory.
    pub(super) fn directory(
        &self,
        repository: &Repository,
        path: &str,
        files: &Files,
        revision: &str,
    ) -> Option<Value> {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let mut entries: Vec<(String, &str, usize)> = Vec::new();
        for (name, entry) in files.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix)) {
            let rest = &name[prefix.len()..];
            let (child, kind, size) = match (rest.split_once('/'), entry) {
                (Some((directory, _)), _) => (format!("{prefix}{directory}"), "dir", 0),
                (None, Entry::File(bytes)) => (name.clone(), "file", bytes.len()),
                (None, Entry::Link(target)) => (name.clone(), "symlink", target.len()),
            };
            if entries.last().is_none_or(|(last, _, _)| *last != child) {
                entries.push((child, kind, size));
            }
        }
        let shown = entries.iter().take(1000).map(|(name, kind, size)| {
            let sha = object_id(&[kind.as_bytes(), name.as_bytes(), revision.as_bytes()]);
            with(self.content_links(repository, name, &sha, kind, revision), json!({"size": size}))
        });
        (!entries.is_empty()).then(|| Value::Array(shown.collect()))
    }
}

/// Percent-encodes what a path segment may not hold.
fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

fn encode_path(path: &str) -> String {
    path.split('/').map(encode).collect::<Vec<_>>().join("/")
}
