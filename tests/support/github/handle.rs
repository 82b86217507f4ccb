//! [`Github`]: the handle that tests hold. What a person or a runner would do on the real host is a method here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::super::git::{Bare, NOW};
use super::super::tell;
use super::call::{Answer, Call};
use super::endpoint::Endpoint;
use super::faults::Faults;
use super::journal::Logged;
use super::repository::{Repository, Role, Workflow};
use super::run::Run;
use super::server::{Options, Server};
use super::world::{
    Access, Account, Area, Edition, Entry, Issue, Issued, Kind, Level, Named, Pull, Rule, Token, World,
};

/// What a server needs of a world.
pub(super) type Shared = Arc<Mutex<World>>;

/// One simulated GitHub. Clones share it.
#[derive(Clone)]
pub(crate) struct Github {
    world: Shared,
    /// Goes with the last clone; servers do not hold it.
    _verdict: Arc<Verdict>,
    skew: i64,
}

/// Fails the test if a message was against the published schemas, and names the seed of a failing fault plan.
struct Verdict(Shared);

impl Drop for Verdict {
    fn drop(&mut self) {
        let Ok(world) = self.0.lock() else { return };
        if std::thread::panicking() {
            if let Some(seed) = world.faults.seed() {
                tell!("the simulated GitHub's fault plan had the seed {seed}");
            }
        } else if !world.violations.is_empty() {
            let found = world.violations.join("\n");
            drop(world);
            panic!("messages against GitHub's published schemas:\n{found}");
        }
    }
}

/// A run that nobody dispatched through the API, such as the dispatcher's own.
pub(crate) struct NewRun<'a> {
    pub(crate) repository: &'a str,
    /// The base name of the workflow file.
    pub(crate) workflow: &'a str,
    pub(crate) event: &'a str,
    /// A branch or a tag, in full or short.
    pub(crate) reference: &'a str,
    pub(crate) actor: u64,
    /// The run's title; none for the workflow's name.
    pub(crate) title: Option<&'a str>,
}

impl Github {
    /// An empty GitHub at a fixed moment.
    pub(crate) fn new() -> Self {
        let world = Arc::new(Mutex::new(World::new(NOW)));
        Self { _verdict: Arc::new(Verdict(Arc::clone(&world))), world, skew: 0 }
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// Answers a request in process.
    pub(crate) fn handle(&self, call: &Call<'_>) -> Answer {
        self.world().call(call, self.skew)
    }

    /// The path before REST targets.
    pub(super) fn rest_path(&self) -> String {
        let world = self.world();
        let path = if world.edition == Edition::Enterprise { "/api/v3" } else { "" };
        format!("{}{path}", world.prefix)
    }

    /// Where this world says that it is: web pages, REST, GraphQL.
    pub(super) fn own_addresses(&self) -> (String, String, String) {
        let world = self.world();
        (world.web.clone(), world.api.clone(), world.graphql_address())
    }

    /// The path of GraphQL.
    pub(super) fn graphql_path(&self) -> String {
        let world = self.world();
        let path = if world.edition == Edition::Enterprise { "/api/graphql" } else { "/graphql" };
        format!("{}{path}", world.prefix)
    }

    /// Lets time pass, if the clock is the world's own.
    pub(super) fn delay(&self, ms: u64) {
        let mut world = self.world();
        world.now = world.now.map(|now| now.saturating_add_unsigned(ms));
    }

    /// The same world seen through a server whose clock is off by so many milliseconds.
    pub(crate) fn skewed(&self, ms: i64) -> Self {
        Self { skew: ms, ..self.clone() }
    }

    /// Puts this world behind loopback HTTP.
    pub(crate) fn serve(&self, options: Options) -> Server {
        Server::start(Arc::clone(&self.world), self.skew, options)
    }

    // The host.

    /// Makes it a GitHub Enterprise Server under a path prefix (empty for none), with addresses of this host.
    pub(crate) fn enterprise(self, web: &str, prefix: &str) -> Self {
        {
            let mut world = self.world();
            world.edition = Edition::Enterprise;
            world.prefix = prefix.to_owned();
            world.web = format!("{web}{prefix}");
            world.api = format!("{web}{prefix}/api/v3");
            world.versions = vec!["2022-11-28".to_owned()];
        }
        self
    }

    /// The addresses that replies carry, such as `https://acme.ghe.com` and `https://api.acme.ghe.com`.
    pub(crate) fn addresses(&self, web: &str, api: &str) {
        let mut world = self.world();
        world.web = web.to_owned();
        world.api = api.to_owned();
        world.spelled.clear();
    }

    /// The API versions that the host serves, the default first.
    pub(crate) fn versions(&self, versions: &[&str]) {
        self.world().versions = versions.iter().map(|version| (*version).to_owned()).collect();
    }

    /// Sets the clock, in Unix milliseconds.
    pub(crate) fn set_now(&self, ms: i64) {
        self.world().now = Some(ms);
    }

    /// Lets the clock follow the machine's.
    pub(crate) fn follow_system_clock(&self) {
        self.world().now = None;
    }

    /// The time, in Unix milliseconds.
    pub(crate) fn now(&self) -> i64 {
        self.world().now()
    }

    /// Lets `ms` milliseconds pass.
    pub(crate) fn advance(&self, ms: i64) {
        let mut world = self.world();
        world.now = Some(world.now() + ms);
    }

    /// How many reads of a new run show its title unpopulated.
    pub(crate) fn title_lag(&self, reads: u32) {
        self.world().title_lag = reads;
    }

    /// Refuses more calls per token and hour.
    pub(crate) fn rate_limit(&self, calls: u64) {
        self.world().rate_limit = Some(calls);
    }

    /// Adds to the fault plan.
    pub(crate) fn faults(&self, faults: Faults) {
        self.world().faults.extend(faults);
    }

    /// Forgets the fault plan.
    pub(crate) fn no_faults(&self) {
        self.world().faults = Faults::default();
    }

    /// What was against the schemas so far; taking it makes the test forgive it.
    pub(crate) fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.world().violations)
    }

    // Accounts and tokens.

    /// Adds an account and returns its id.
    pub(crate) fn account(&self, login: &str, kind: Kind) -> u64 {
        let mut world = self.world();
        if let Some(account) = world.account_named(login) {
            return account.id;
        }
        let id = world.fresh(1000);
        world.accounts.insert(id, Account { id, login: login.to_owned(), kind });
        id
    }

    /// The id of an account.
    pub(crate) fn account_id(&self, login: &str) -> u64 {
        self.world().account_named(login).expect("there is such an account").id
    }

    /// Adds a token of an account without any access.
    pub(crate) fn token(&self, text: &str, login: &str, issued: Issued) {
        let account = self.account_id(login);
        let token =
            Token { account, issued, access: BTreeMap::new(), expires_at: None, revoked: false, window: (0, 0) };
        self.world().tokens.insert(text.to_owned(), token);
    }

    /// Gives a token access to a repository, or replaces it.
    pub(crate) fn grant(&self, token: &str, repository: &str, access: Access) {
        let mut world = self.world();
        let id = world.repository(repository).id;
        world.tokens.get_mut(token).expect("there is such a token").access.insert(id, access);
    }

    /// Takes a token's access to a repository away.
    pub(crate) fn withdraw(&self, token: &str, repository: &str) {
        let mut world = self.world();
        let id = world.repository(repository).id;
        world.tokens.get_mut(token).expect("there is such a token").access.remove(&id);
    }

    /// Makes a token worthless.
    pub(crate) fn revoke(&self, token: &str) {
        self.world().tokens.get_mut(token).expect("there is such a token").revoked = true;
    }

    /// Lets a token end at a moment, in Unix milliseconds.
    pub(crate) fn expire(&self, token: &str, at: i64) {
        self.world().tokens.get_mut(token).expect("there is such a token").expires_at = Some(at);
    }

    /// Replaces a token's text: the old one is worthless, the new one may what the old one might.
    pub(crate) fn rotate(&self, old: &str, new: &str) {
        let mut world = self.world();
        let token = world.tokens.remove(old).expect("there is such a token");
        world.tokens.insert(new.to_owned(), token);
    }

    /// Shows an account with a role in the repository record.
    pub(crate) fn role(&self, repository: &str, login: &str, role: Role) {
        let account = self.account_id(login);
        self.world().repository(repository).roles.insert(account, role);
    }

    // Repositories.

    /// Adds a public repository without any branch, and its owner if needed; returns its id.
    pub(crate) fn add_repository(&self, full_name: &str) -> u64 {
        let (owner, name) = full_name.split_once('/').expect("owner/name");
        let owner = self.account(owner, Kind::Organization);
        let mut world = self.world();
        let id = world.fresh(700_000);
        let now = world.now();
        world.repositories.insert(id, Repository::new(id, owner, name, now));
        world.names.insert(full_name.to_ascii_lowercase(), Named::Here(id));
        id
    }

    /// The id of a repository.
    pub(crate) fn repository_id(&self, full_name: &str) -> u64 {
        self.world().repository(full_name).id
    }

    /// Changes anything about a repository.
    pub(crate) fn change<T>(&self, full_name: &str, change: impl FnOnce(&mut Repository) -> T) -> T {
        change(self.world().repository(full_name))
    }

    /// Hides a repository from everyone without access.
    pub(crate) fn make_private(&self, full_name: &str) {
        self.change(full_name, |repository| repository.private = true);
    }

    /// Renames or transfers a repository; the old name redirects.
    pub(crate) fn rename(&self, old: &str, new: &str) {
        let (owner, name) = new.split_once('/').expect("owner/name");
        let owner = self.account(owner, Kind::Organization);
        let mut world = self.world();
        let repository = world.repository(old);
        repository.owner = owner;
        repository.name = name.to_owned();
        let id = repository.id;
        world.names.insert(old.to_ascii_lowercase(), Named::Moved(id));
        world.names.insert(new.to_ascii_lowercase(), Named::Here(id));
    }

    /// Deletes a repository; another may take its name.
    pub(crate) fn delete_repository(&self, full_name: &str) {
        self.world().names.remove(&full_name.to_ascii_lowercase());
    }

    /// Keeps a repository's refs and commits in a real bare repository from now on.
    pub(crate) fn attach(&self, full_name: &str, bare: &Arc<Bare>) {
        self.change(full_name, |repository| repository.bare = Some(Arc::clone(bare)));
    }

    /// Commits files to a branch, on top of what is there; none removes a file. Returns the commit.
    pub(crate) fn commit(&self, full_name: &str, branch: &str, files: &[(&str, Option<&str>)]) -> String {
        let entry = |text: &str| Entry::File(text.as_bytes().into());
        let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.map(entry))).collect();
        self.commit_entries(full_name, branch, &files)
    }

    /// Commits files and links.
    pub(crate) fn commit_entries(&self, full_name: &str, branch: &str, files: &[(&str, Option<Entry>)]) -> String {
        let mut world = self.world();
        let now = world.now();
        world.repository(full_name).commit(branch, files, now)
    }

    /// The commit of a branch or tag.
    pub(crate) fn head(&self, full_name: &str, reference: &str) -> Option<String> {
        self.change(full_name, |repository| repository.find_ref(reference).map(|(_, sha)| sha))
    }

    /// Points a full ref at a commit, or removes it: what others may do behind one's back.
    pub(crate) fn move_ref(&self, full_name: &str, reference: &str, sha: Option<&str>) {
        self.change(full_name, |repository| repository.move_ref(reference, sha));
    }

    /// Puts an annotated tag (short name) on a commit.
    pub(crate) fn annotate(&self, full_name: &str, tag: &str, sha: &str) {
        self.change(full_name, |repository| repository.annotate(tag, sha));
    }

    /// Registers a workflow file as active and returns the workflow's id.
    pub(crate) fn workflow(&self, full_name: &str, path: &str, name: &str) -> u64 {
        let mut world = self.world();
        let id = world.fresh(50_000_000);
        let workflow =
            Workflow { id, name: name.to_owned(), path: path.to_owned(), state: "active".to_owned(), runs: 0 };
        world.repository(full_name).workflows.push(workflow);
        id
    }

    /// Sets a workflow's state, such as `disabled_manually`; none forgets the registration.
    pub(crate) fn workflow_state(&self, full_name: &str, path: &str, state: Option<&str>) {
        self.change(full_name, |repository| match state {
            None => repository.workflows.retain(|workflow| workflow.path != path),
            Some(state) => {
                for workflow in repository.workflows.iter_mut().filter(|workflow| workflow.path == path) {
                    workflow.state = state.to_owned();
                }
            }
        });
    }

    /// Adds an open issue and returns its id.
    pub(crate) fn issue(&self, full_name: &str, number: u64) -> u64 {
        let mut world = self.world();
        let id = world.fresh(3_000_000_000);
        let author = world.repository(full_name).owner;
        let issue = Issue {
            id,
            title: format!("Issue {number}"),
            state: "open".to_owned(),
            state_reason: None,
            author,
            closed_at: None,
            status: super::Lifecycle::Here,
        };
        world.repository(full_name).issues.insert(number, issue);
        id
    }

    /// Changes an issue.
    pub(crate) fn change_issue(&self, full_name: &str, number: u64, change: impl FnOnce(&mut Issue)) {
        self.change(full_name, |repository| {
            change(repository.issues.get_mut(&number).expect("there is such an issue"))
        });
    }

    /// Adds an open pull request and returns its id.
    pub(crate) fn pull(&self, full_name: &str, number: u64) -> u64 {
        let mut world = self.world();
        let id = world.fresh(4_000_000_000);
        let author = world.repository(full_name).owner;
        let pull = Pull {
            id,
            title: format!("Pull request {number}"),
            state: "open".to_owned(),
            merged: false,
            merged_at: None,
            merge_commit: None,
            author,
            base_repository: None,
        };
        world.repository(full_name).pulls.insert(number, pull);
        id
    }

    /// Changes a pull request.
    pub(crate) fn change_pull(&self, full_name: &str, number: u64, change: impl FnOnce(&mut Pull)) {
        self.change(full_name, |repository| change(repository.pulls.get_mut(&number).expect("there is such a pull")));
    }

    /// Merges a pull request with this merge commit.
    pub(crate) fn merge(&self, full_name: &str, number: u64, commit: &str) {
        let now = self.now();
        self.change_pull(full_name, number, |pull| {
            pull.state = "closed".to_owned();
            pull.merged = true;
            pull.merged_at = Some(now);
            pull.merge_commit = Some(commit.to_owned());
        });
    }

    /// The rules that a branch has, the same for each branch.
    pub(crate) fn rules(&self, full_name: &str, rules: Vec<Rule>) {
        self.change(full_name, |repository| repository.rules = rules);
    }

    // Runs.

    /// Adds a run and returns its id.
    pub(crate) fn new_run(&self, new: &NewRun<'_>) -> u64 {
        let mut world = self.world();
        let now = world.now();
        let repository = world.repository(new.repository);
        let (reference, sha) = repository.find_ref(new.reference).expect("there is such a ref");
        let fits = |workflow: &&Workflow| workflow.path.ends_with(&format!("/{}", new.workflow));
        let workflow = repository.workflows.iter().find(fits).expect("there is such a workflow");
        let short = reference.splitn(3, '/').nth(2).map(str::to_owned);
        let run = Run {
            id: 0,
            repository: repository.id,
            workflow: workflow.id,
            number: 0,
            event: new.event.to_owned(),
            head_sha: sha,
            head_branch: short,
            path: format!("{}@{reference}", workflow.path),
            actor: new.actor,
            title: new.title.unwrap_or(&workflow.name).to_owned(),
            name: workflow.name.clone(),
            created_at: now,
            attempts: Vec::new(),
            cancel_requested: false,
            assignment: None,
            dispatch_id: None,
        };
        world.enqueue(run)
    }

    /// A run as it is.
    pub(crate) fn run(&self, id: u64) -> Option<Arc<Run>> {
        self.world().run(id, 0)
    }

    /// The ids of all runs, oldest first.
    pub(crate) fn runs(&self) -> Vec<u64> {
        self.world().runs.keys().copied().collect()
    }

    /// The runs that were started for a dispatch, oldest first.
    pub(crate) fn runs_of_dispatch(&self, dispatch: &str) -> Vec<u64> {
        let world = self.world();
        let fits = |id: &&u64| world.run(**id, 0).is_some_and(|run| run.dispatch_id.as_deref() == Some(dispatch));
        world.runs.keys().filter(fits).copied().collect()
    }

    /// Changes anything about a run.
    pub(crate) fn change_run(&self, id: u64, change: impl FnOnce(&mut Run)) {
        self.world().change_run(id, |run, _| change(run));
    }

    /// Lets the newest attempt start.
    pub(crate) fn start_run(&self, id: u64) {
        self.set_attempt(id, "in_progress", None);
    }

    /// Lets the newest attempt end with a conclusion.
    pub(crate) fn complete_run(&self, id: u64, conclusion: &str) {
        self.set_attempt(id, "completed", Some(conclusion));
    }

    /// Sets the newest attempt's status and conclusion to anything.
    pub(crate) fn set_attempt(&self, id: u64, status: &str, conclusion: Option<&str>) {
        self.change_run(id, |run| {
            let attempt = run.attempts.last_mut().expect("a run has an attempt");
            attempt.status = status.to_owned();
            attempt.conclusion = conclusion.map(str::to_owned);
        });
    }

    /// Starts another attempt in the name of an account.
    pub(crate) fn rerun(&self, id: u64, by: u64) {
        self.world().rerun(id, by);
    }

    /// Populates a run's title now.
    pub(crate) fn populate_title(&self, id: u64) {
        self.world().runs.get_mut(&id).expect("there is such a run").untitled = 0;
    }

    // The journal.

    /// The calls so far, oldest first.
    pub(crate) fn log(&self) -> Vec<Logged> {
        self.world().journal.calls.clone()
    }

    /// Keeps about so many of the newest calls in full; counters know all.
    pub(crate) fn keep_calls(&self, calls: usize) {
        self.world().journal.keep = Some(calls);
    }

    /// How many calls of an endpoint arrived, struck or not.
    pub(crate) fn calls(&self, endpoint: Endpoint) -> u64 {
        self.world().journal.by_endpoint.get(&endpoint).copied().unwrap_or(0)
    }

    /// How many calls arrived at all.
    pub(crate) fn all_calls(&self) -> u64 {
        self.world().journal.total
    }

    /// How many calls the fault plan struck.
    pub(crate) fn struck(&self) -> u64 {
        self.world().journal.struck
    }

    /// How many POSTs carried the assignment of a dispatch, whatever became of them.
    pub(crate) fn posts_of_dispatch(&self, dispatch: &str) -> u32 {
        self.world().journal.posts.get(dispatch).copied().unwrap_or(0)
    }

    /// The same for every dispatch that was ever sent.
    pub(crate) fn posts(&self) -> BTreeMap<String, u32> {
        self.world().journal.posts.clone()
    }

    /// What a token may do, for assertions.
    pub(crate) fn level(&self, token: &str, repository: &str, area: Area) -> Level {
        let mut world = self.world();
        let id = world.repository(repository).id;
        world.level(Some(token), id, area)
    }
}
