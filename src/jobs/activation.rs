//! Activation (jobs.md 3.2 to 3.6, lifecycle.md 2.6): before any agent runs, protected code checks what the run is, binds
//! a worker's run, and captures the queue in one file that later jobs read. Everything is checked before anything is
//! written here, and nothing but a worker's own binding is written to the queue.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::JobError;
use super::trace::Phase;
use super::world::World;
use crate::agent::file::read_bounded;
use crate::agent::prompt::{MAX_PROMPT_BYTES, prompt};
use crate::agent::snapshot::Snapshot;
use crate::launch::bind::{Activation, assigned, bind_own};
use crate::launch::native::{Expected, NativeRepository, check_run};
use crate::launch::publisher::{Authenticated, Scope, authenticate};
use crate::launch::settings::read_proposal;
use crate::ledger::{Current, Queue};
use crate::protocol::actor::Role;
use crate::protocol::assignment::Assignment;
use crate::protocol::fault::ensure;
use crate::protocol::policy::Policy;
use crate::protocol::{Code, Digest, Fault, Repository, Revision, RuntimeRole, Wire as _, WorkId, json};
use crate::runner::Runtime;

/// Variables by which older workflows asked activation to seed a queue; nothing does that any more.
const SEEDING: [&str; 3] =
    ["GH_AW_WORK_QUEUE_SEED", "GH_AW_WORK_QUEUE_INITIALIZE", "GH_AW_WORK_QUEUE_INITIALIZATION_CONTEXT"];
/// A JSON list of the only Work that the agent's reads may show (decision 58).
const VISIBLE: &str = "GH_AW_WORK_QUEUE_VISIBLE_WORK";
/// True where the workflow requires an assignment.
const REQUIRE: &str = "GH_AW_WORK_QUEUE_REQUIRE_ASSIGNMENT";
/// Longest list of visible Work, in bytes.
const MAX_VISIBLE_BYTES: usize = 128 * 1024;
/// Name of the file with a worker's prompt blocks, beside the snapshot.
pub const PROMPT_NAME: &str = "work-queue.prompt.md";
/// The prompt's files that hold its user part, at their end.
const PROMPT_FILES: [&str; 2] = ["user.txt", "prompt.txt"];
/// Longest prompt file that is extended, in bytes.
const MAX_PROMPT_FILE: u64 = 16 * 1024 * 1024;

/// What activation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activated {
    /// The resolved role.
    pub role: RuntimeRole,
    /// Commits in the captured queue; none for an absent one.
    pub commits: Option<usize>,
    /// Length of the snapshot, in bytes.
    pub bytes: usize,
}

/// Checks, binds and captures. On any failure no file is written and no output set.
///
/// # Errors
/// In the order of jobs.md 3.2: as [`Runtime::resolve`]; `work_queue_observer_read_only` or
/// `work_queue_standalone_seeding_unsupported` for a workflow that asks for seeding;
/// `work_queue_ledger_repository_mismatch`, `work_queue_policy_missing` or another defect of the queue;
/// `settings_invalid`, `work_queue_policy_proposal_limit`, `policy_invalid` or `work_queue_policy_proposal_mismatch` for a
/// proposal; as [`assigned`], [`authenticate`], [`check_run`] and [`bind_own`] for a worker; `ledger_limit` or
/// `work_queue_snapshot_invalid` for a snapshot that is too large; `io_failed`.
pub fn run(world: &mut World<'_>) -> Result<Activated, JobError> {
    let runtime = Runtime::resolve(world.context, world.variables.is_true(REQUIRE))?;
    refuse_seeding(world, runtime.role())?;
    let visible = visible(world)?;
    let queue = read(world)?;
    check_proposal(world, queue.as_deref())?;
    let (authenticated, captured) = match runtime.assignment() {
        Some(assignment) => bind(world, assignment, queue)?,
        None => capture(world, runtime.role(), queue.is_some())?,
    };
    let snapshot = Snapshot {
        sha: captured.as_ref().map(|current| Revision::new(current.commit.to_string())).transpose()?,
        log: captured.as_deref().map(log).unwrap_or_default(),
        worker: runtime.assignment().cloned(),
        captured_at: world.clock.now(),
        origin: authenticated.actor().clone(),
        role: Some(runtime.role()),
        visible,
    };
    let text = snapshot.encode()?;
    let commits = captured.map(|current| current.projection.requests().len());
    write(world, &text, &authenticated.actor().canonical(), runtime.assignment())?;
    tell(world, runtime.role(), commits);
    Ok(Activated { role: runtime.role(), commits, bytes: text.len() })
}

fn refuse_seeding(world: &World<'_>, role: RuntimeRole) -> Result<(), Fault> {
    let asked = SEEDING.iter().any(|name| world.variables.get(name).is_some());
    ensure!(!asked || role != RuntimeRole::Observer, WorkQueueObserverReadOnly, "an observer seeds no queue");
    ensure!(!asked, WorkQueueStandaloneSeedingUnsupported, Code::WorkQueueStandaloneSeedingUnsupported.meaning());
    Ok(())
}

/// The protected read filter, if there is one.
fn visible(world: &World<'_>) -> Result<Option<Vec<WorkId>>, Fault> {
    let Some(text) = world.variables.get(VISIBLE) else { return Ok(None) };
    let refused = |_| Fault::new(Code::SettingsInvalid, "the list of visible Work is no JSON list of identities");
    let json::Value::Array(items) = json::parse_bounded(text, MAX_VISIBLE_BYTES).map_err(refused)? else {
        return Err(refused(Code::SettingsInvalid.into()));
    };
    let id = |item: &json::Value| match item {
        json::Value::String(id) => WorkId::new(id.to_string()).map_err(refused),
        _ => Err(refused(Code::SettingsInvalid.into())),
    };
    items.iter().map(id).collect::<Result<_, _>>().map(Some)
}

/// Reads the queue and checks that it is this repository's and has its Policy.
fn read(world: &mut World<'_>) -> Result<Option<Arc<Current>>, JobError> {
    let queue = world.ledger.read().map_err(|error| match error.code() {
        // A checked store finds a foreign genesis itself.
        Code::ActorUnauthorized => JobError::from(error).recoded(Code::WorkQueueLedgerRepositoryMismatch),
        Code::PolicyMissing => JobError::from(error).recoded(Code::WorkQueuePolicyMissing),
        _ => error.into(),
    })?;
    let current = match queue {
        Queue::Present(current) => current,
        Queue::Absent => return Ok(None),
        Queue::EmptyRepository => {
            let message = "the repository shows no branch, and nothing confirmed that it is empty";
            return Err(JobError::new(Code::RepositoryUnavailable, message));
        }
    };
    let ours = |recorded: &Repository| world.repository.is(recorded);
    let own = current.projection.repository().is_none_or(ours)
        && current.projection.requests().all(|accepted| ours(&accepted.actor.repository));
    ensure!(own, WorkQueueLedgerRepositoryMismatch, Code::WorkQueueLedgerRepositoryMismatch.meaning());
    ensure!(
        current.projection.installed().is_some(),
        WorkQueuePolicyMissing,
        "the queue branch exists and has no Policy; that is no absent queue"
    );
    Ok(Some(current))
}

/// A proposal of the compiled workflow is validated, compared with the installed Policy unless AW manages the queue, and
/// never installed.
fn check_proposal(world: &World<'_>, queue: Option<&Current>) -> Result<(), JobError> {
    let proposal = read_proposal(world.variables.iter()).map_err(|error| match error.code() {
        // It is the proposal that lacks something, not the ledger.
        Code::LedgerInvalid => JobError::from(error).recoded(Code::PolicyInvalid),
        _ => error.into(),
    })?;
    let Some(proposal) = proposal else { return Ok(()) };
    let installed = queue.and_then(|current| current.projection.installed());
    let same = |policy: &Policy| policy.source == proposal.policy.source;
    let fits = proposal.policy.aw || installed.is_none_or(|installed| same(&installed.policy));
    ensure!(fits, WorkQueuePolicyProposalMismatch, Code::WorkQueuePolicyProposalMismatch.meaning());
    Ok(())
}

type Captured = (Authenticated, Option<Arc<Current>>);

/// Authenticates a run that holds no assignment, and reads the queue again.
fn capture(world: &mut World<'_>, role: RuntimeRole, present: bool) -> Result<Captured, JobError> {
    let role = if role == RuntimeRole::Observer { Role::Producer } else { Role::Dispatcher };
    let authenticated = authenticate(world.client, world.context, role, &Scope::default())?;
    let captured = read(world)?;
    ensure!(
        captured.is_some() || !present,
        LedgerNonextending,
        "the queue branch was deleted while this run was activated"
    );
    Ok((authenticated, captured))
}

/// Binds a worker's run, or in a preview checks that it could be bound.
fn bind(world: &mut World<'_>, assignment: &Assignment, queue: Option<Arc<Current>>) -> Result<Captured, JobError> {
    let Some(queue) = queue else {
        return Err(JobError::new(Code::WorkQueuePolicyMissing, "a worker has an assignment, and there is no queue"));
    };
    let contract = world.context.contract().and_then(|stamp| Digest::new(stamp).ok());
    assigned(&queue, assignment, contract.as_ref())?;
    let scope = Scope { dispatch_id: Some(assignment.dispatch_id.clone()), claim_handle: None };
    let authenticated = authenticate(world.client, world.context, Role::Worker, &scope)?;
    let repository = NativeRepository {
        name: Repository::new(authenticated.repository().as_str())?,
        id: authenticated.repository_id().clone(),
        default_branch: None,
    };
    if world.staged {
        let current = read(world)?.ok_or_else(|| Fault::from(Code::LedgerNonextending))?;
        let dispatch = assigned(&current, assignment, contract.as_ref())?;
        check_run(authenticated.run(), &Expected::of(dispatch, &repository)?)?;
        return Ok((authenticated, Some(current)));
    }
    drop(queue);
    let activation = Activation {
        assignment,
        contract: contract.as_ref(),
        actor: authenticated.actor(),
        run: authenticated.run(),
        repository: &repository,
        checked_at: world.clock.now(),
    };
    let phase = Phase::start(world, "work-queue.reconcile.run");
    let bound = bind_own(world.ledger, &activation);
    phase.end(world, bound.as_ref().map_or_else(|error| error.code().as_str(), |_| "bound"), Some(assignment));
    let (current, _) = bound?;
    Ok((authenticated, Some(current)))
}

/// The ledger's canonical text.
fn log(current: &Current) -> String {
    let mut text = String::with_capacity(usize::try_from(current.projection.ledger_bytes()).unwrap_or(0));
    for commit in current.projection.active() {
        text.push_str(commit.as_str());
        text.push('\n');
    }
    text
}

/// Writes what the later jobs need, all of it or nothing, and then sets the outputs.
fn write(world: &mut World<'_>, snapshot: &str, origin: &str, assignment: Option<&Assignment>) -> Result<(), JobError> {
    let target = world.paths.snapshot.clone();
    let block = target.with_file_name(PROMPT_NAME);
    let mut staged = Vec::new();
    let mut outputs = vec![("work_queue_origin", origin.to_owned())];
    if let Some(assignment) = assignment {
        let text = prompt(assignment);
        ensure!(text.len() <= MAX_PROMPT_BYTES, ResourceLimit, "the prompt's blocks are longer than 512 KiB");
        staged.push(Staged::new(&block, &text)?);
        staged.extend(extended(&world.paths.prompts, &text)?);
        outputs.push(("work_queue_prompt", block.to_string_lossy().into_owned()));
    }
    staged.push(Staged::new(&target, snapshot)?);
    // Files that are not there are what is wanted.
    let remove = || drop([&target, &block].map(std::fs::remove_file));
    for file in staged {
        file.persist().inspect_err(|_| remove())?;
    }
    let pairs: Vec<(&str, &str)> = outputs.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Ok(world.outputs.set_all(&pairs).inspect_err(|_| remove())?)
}

/// The prompt's files that exist, with the blocks at the end of their user part.
fn extended(folder: &Path, blocks: &str) -> Result<Vec<Staged>, Fault> {
    let mut staged = Vec::new();
    for name in PROMPT_FILES {
        let path = folder.join(name);
        let unreadable = |_| Fault::new(Code::IoFailed, "a file of the prompt is no plain file of at most 16 MiB");
        let Some(bytes) = read_bounded(&path, MAX_PROMPT_FILE).map_err(unreadable)? else { continue };
        let text = String::from_utf8(bytes)
            .map_err(|_| Fault::new(Code::IoFailed, "a file of the prompt is no UTF-8 text"))?;
        if !text.ends_with(blocks) {
            staged.push(Staged::keeping(&path, &format!("{}\n\n{blocks}", text.trim_end_matches('\n')))?);
        }
    }
    Ok(staged)
}

/// A file that is written beside its place and takes it in one step.
struct Staged {
    file: tempfile::NamedTempFile,
    target: PathBuf,
}

impl Staged {
    /// Writes a file that nobody may change afterwards.
    fn new(target: &Path, text: &str) -> Result<Self, Fault> {
        Self::with_mode(target, text, 0o444)
    }

    /// Writes a file with the mode of the one that it replaces.
    fn keeping(target: &Path, text: &str) -> Result<Self, Fault> {
        let mode = std::fs::metadata(target).map_or(0o644, |found| found.permissions().mode() & 0o777);
        Self::with_mode(target, text, mode)
    }

    fn with_mode(target: &Path, text: &str, mode: u32) -> Result<Self, Fault> {
        let failed = |_| Fault::new(Code::IoFailed, "a file of the activation could not be written");
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(failed)?;
        let mut file = tempfile::Builder::new().prefix(".work-queue-").tempfile_in(folder).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        file.as_file().set_permissions(std::fs::Permissions::from_mode(mode)).map_err(failed)?;
        Ok(Self { file, target: target.to_owned() })
    }

    fn persist(self) -> Result<(), Fault> {
        let done = self.file.persist(&self.target).map(drop);
        done.map_err(|_| Fault::new(Code::IoFailed, "a file of the activation could not take its place"))
    }
}

/// What a person reads in the step's log: counts alone.
fn tell(world: &mut World<'_>, role: RuntimeRole, commits: Option<usize>) {
    tracing::debug!(
        target: "work-queue:store",
        absent = commits.is_none(),
        commits = commits.unwrap_or(0),
        staged = world.staged,
        "snapshot.capture.complete"
    );
    if role == RuntimeRole::Observer {
        world.outputs.note("This run is a read-only observer of the work queue.");
    }
    match commits {
        Some(commits) => world.outputs.note(&format!("The work queue was captured with {commits} commits.")),
        None => world.outputs.note(
            "The protected queue branch is absent. The first submission makes a new queue; if there was an earlier one, \
             its requests, reservations and delivery evidence are not known any more.",
        ),
    }
    if world.staged {
        world.outputs.note("This is a preview: nothing was written to the work queue.");
    }
}
