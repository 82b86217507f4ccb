//! The standard world: `octo/widgets` with a worker and a dispatcher, and a token for every role.

use std::sync::Arc;

use super::super::git::Bare;
use super::handle::Github;
use super::repository::Role;
use super::world::{Access, Issued, Kind, Level};

/// The standard repository.
pub(crate) const OCTO_WIDGETS: &str = "octo/widgets";

/// The job token of `github-actions[bot]`: actions read, contents write.
pub(crate) const JOB: &str = "token-of-the-job";
/// The launch credential, an App's: actions write, contents write.
pub(crate) const LAUNCH: &str = "token-of-the-launcher";
/// A person who administers the repository.
pub(crate) const ADMIN: &str = "token-of-an-administrator";
/// A person who may push.
pub(crate) const WRITER: &str = "token-of-a-writer";
/// A person who may read.
pub(crate) const READER: &str = "token-of-a-reader";
/// A known account without access.
pub(crate) const NOTHING: &str = "token-without-access";

/// A compiled worker with this contract stamp.
pub(crate) fn worker_lock(name: &str, contract: &str) -> String {
    format!(
        "name: {name}\n\
         run-name: \"gh-aw work-queue ${{{{ fromJSON(inputs.work_queue_assignment).dispatch_id }}}}\"\n\
         on:\n  workflow_dispatch:\n    inputs:\n      work_queue_assignment:\n        description: One assignment\n        \
         required: true\n        type: string\n\
         permissions: {{}}\n\
         env:\n  GH_AW_WORK_QUEUE_CONTRACT: {contract}\n\
         jobs:\n  agent:\n    runs-on: ubuntu-latest\n    steps:\n      - run: \"true\"\n"
    )
}

/// A worker's source, approved for the queue.
pub(crate) fn worker_source(name: &str) -> String {
    format!(
        "---\nname: {name}\non:\n  workflow_dispatch:\ntools:\n  work-queue:\n    worker: true\n---\n\nDo the work.\n"
    )
}

/// A compiled dispatcher.
pub(crate) fn dispatcher_lock(name: &str) -> String {
    format!(
        "name: {name}\non:\n  workflow_dispatch:\n  schedule:\n    - cron: \"*/5 * * * *\"\npermissions: {{}}\n\
         jobs:\n  agent:\n    runs-on: ubuntu-latest\n    steps:\n      - run: \"true\"\n"
    )
}

impl Github {
    /// The standard world, in memory.
    pub(crate) fn standard() -> Self {
        Self::new().repository(OCTO_WIDGETS).with_workflows(OCTO_WIDGETS)
    }

    /// The standard world with a real repository behind it.
    pub(crate) fn standard_with_git() -> (Self, Arc<Bare>) {
        let bare = Arc::new(Bare::new());
        let github = Self::new().repository(OCTO_WIDGETS);
        github.attach(OCTO_WIDGETS, &bare);
        (github.with_workflows(OCTO_WIDGETS), bare)
    }

    /// Adds a repository and gives the standard accounts and tokens their access to it. It has no branch yet.
    pub(crate) fn repository(self, full_name: &str) -> Self {
        self.add_repository(full_name);
        let write = Access { contents: Level::Write, issues: Level::Write, actions: Level::Write, ..Access::READ };
        let job = Access { actions: Level::Read, contents: Level::Write, ..Access::READ };
        let launch = Access { actions: Level::Write, contents: Level::Write, ..Access::default() };
        for (text, login, kind, issued, access, role) in [
            (JOB, "github-actions[bot]", Kind::Bot, Issued::Installation, Some(job), Role::None),
            (LAUNCH, "queue-launcher[bot]", Kind::Bot, Issued::Installation, Some(launch), Role::None),
            (ADMIN, "ada", Kind::User, Issued::Classic("repo, workflow"), Some(Access::ALL), Role::Admin),
            (WRITER, "wim", Kind::User, Issued::FineGrained, Some(write), Role::Write),
            (READER, "rea", Kind::User, Issued::FineGrained, Some(Access::READ), Role::Read),
            (NOTHING, "nil", Kind::User, Issued::FineGrained, None, Role::None),
        ] {
            self.account(login, kind);
            if !self.world().tokens.contains_key(text) {
                self.token(text, login, issued);
            }
            if let Some(access) = access {
                self.grant(text, full_name, access);
            }
            if role != Role::None {
                self.role(full_name, login, role);
            }
        }
        self
    }

    /// Commits a worker and a dispatcher to the default branch and registers them.
    pub(crate) fn with_workflows(self, full_name: &str) -> Self {
        let contract = "c".repeat(64);
        self.commit(
            full_name,
            "main",
            &[
                ("README.md", Some("# Widgets\n")),
                (".github/workflows/worker.md", Some(&worker_source("Worker"))),
                (".github/workflows/worker.lock.yml", Some(&worker_lock("Worker", &contract))),
                (
                    ".github/workflows/dispatcher.md",
                    Some("---\nname: Dispatcher\ntools:\n  work-queue:\n    dispatcher: true\n---\n"),
                ),
                (".github/workflows/dispatcher.lock.yml", Some(&dispatcher_lock("Dispatcher"))),
            ],
        );
        self.workflow(full_name, ".github/workflows/worker.lock.yml", "Worker");
        self.workflow(full_name, ".github/workflows/dispatcher.lock.yml", "Dispatcher");
        self
    }
}
