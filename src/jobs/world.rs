//! What a trusted job works with: its run, the queue branch, GitHub and the runner, as arguments. So every mode is a
//! function over a [`World`], in a workflow as in a test.

use std::sync::Arc;

use super::environment::{self, Variables};
use super::error::JobError;
use super::paths::Paths;
use super::summary::summarized;
use super::trace::Tracer;
use crate::forge::{Client, Forge, Host, Patience};
use crate::launch::confirm::confirm_empty;
use crate::ledger::commit_object::Author;
use crate::ledger::{Bounds, Branch, Environment, Git, GitTransport, Ledger, Publisher, Remote, Retries, Setup};
use crate::ports::{Clock, Entropy, SystemClock, SystemEntropy};
use crate::protocol::json::Scanner;
use crate::protocol::{RepositoryName, Token, TokenProvider};
use crate::runner::Context;
use crate::runner::output::Outputs;

/// The surroundings of one job.
pub struct World<'a> {
    /// What the job's environment says about its run. Not proof: see [`crate::launch::publisher`].
    pub context: &'a Context,
    /// GitHub with the job's publisher credential.
    pub client: Client<'a>,
    /// The queue branch.
    pub ledger: &'a mut dyn Ledger,
    /// Time.
    pub clock: &'a dyn Clock,
    /// Chance.
    pub entropy: &'a dyn Entropy,
    /// What the step gives.
    pub outputs: &'a mut dyn Outputs,
    /// Files.
    pub paths: &'a Paths,
    /// What the compiled workflow put into the environment.
    pub variables: &'a Variables,
    /// True in a preview: everything is checked, nothing is written to the queue and nothing launched.
    pub staged: bool,
    /// The host of external resources, such as `github.com`.
    pub host: &'a str,
    /// The job's repository, as the runner spells it.
    pub repository: &'a RepositoryName,
}

impl World<'_> {
    /// A reader of records that approves resources of this host.
    #[must_use]
    pub fn scanner(&self) -> Scanner {
        Scanner::new(self.host)
    }

    /// Where spans go.
    #[must_use]
    pub fn tracer(&self) -> Tracer<'_> {
        Tracer { variables: self.variables, file: &self.paths.spans, clock: self.clock, entropy: self.entropy }
    }
}

/// True where the variables ask for a preview.
#[must_use]
pub fn is_staged(variables: &Variables) -> bool {
    variables.is_true("GH_AW_SAFE_OUTPUTS_STAGED")
}

/// The surroundings of this process. Nothing was asked of the host or the branch yet.
pub struct Process {
    context: Context,
    variables: Variables,
    paths: Paths,
    host: Host,
    token: Token,
    forge: Box<dyn Forge>,
    transport: GitTransport,
    branch: Branch,
}

impl Process {
    /// Takes them from the environment: the run, the host, and the token of `GH_AW_WORK_QUEUE_TOKEN`, `GH_TOKEN` or
    /// `GITHUB_TOKEN`. `GH_AW_WORK_QUEUE_BRANCH` stands before the branch that is given.
    ///
    /// # Errors
    /// As [`Context::of_process`]; `branch_invalid`; `api_unauthenticated` without a token; `settings_invalid` for a
    /// host, token or proxy that is malformed; `git_unavailable`.
    pub fn open(branch: &str) -> Result<Self, JobError> {
        let variables = Variables::of_process();
        let branch = Branch::new(variables.get("GH_AW_WORK_QUEUE_BRANCH").unwrap_or(branch))?;
        let (context, host) = (Context::of_process()?, environment::host()?);
        let token = environment::token()?;
        let forge = environment::forge(host.clone(), &token)?;
        let remote = Remote::server(host.server(), context.repository())?;
        let credential = token.clone();
        let provider: TokenProvider = Arc::new(move || Ok(credential.clone()));
        let transport = Git::find(Environment::of_process())?.transport(remote, Some(provider), Bounds::default());
        let paths = Paths::of_process();
        Ok(Self { context, variables, paths, host, token, forge, transport, branch })
    }

    /// The publisher credential, for a job that needs it as another client's.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Does a job's work in these surroundings. Reads of the API are repeated within bounds; the queue's commits are by
    /// the runtime.
    ///
    /// # Errors
    /// `io_failed` where no store can be made; otherwise as the work itself.
    pub fn run<T>(
        &self,
        outputs: &mut dyn Outputs,
        work: impl FnOnce(&mut World<'_>) -> Result<T, JobError>,
    ) -> Result<T, JobError> {
        let client = Client::new(&*self.forge, &SystemClock).with_patience(Patience::Patient);
        let repository = self.context.repository();
        let confirm = || confirm_empty(client, repository);
        let mut publisher = Publisher::new(Setup {
            transport: &self.transport,
            branch: self.branch.clone(),
            repository: repository.clone(),
            host: self.host.name().to_owned(),
            author: Author::Runtime,
            clock: &SystemClock,
            entropy: &SystemEntropy,
            retries: Retries::default(),
            confirm_empty: Some(&confirm),
        })?;
        let mut world = World {
            context: &self.context,
            client,
            ledger: &mut publisher,
            clock: &SystemClock,
            entropy: &SystemEntropy,
            outputs,
            paths: &self.paths,
            variables: &self.variables,
            staged: is_staged(&self.variables),
            host: self.host.name(),
            repository,
        };
        summarized(&mut world, work)
    }
}
