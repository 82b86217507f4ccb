//! What GitHub shows of a repository and of a run, compared with what was approved (lifecycle.md 2.1, 2.2), and the
//! evidence that follows from it.

use crate::engine::state::DispatchState;
use crate::forge::{Client, Run};
use crate::protocol::evidence::{Evidence, EvidenceKind, EvidenceSource, RunBinding, RunStatus};
use crate::protocol::fault::ensure;
use crate::protocol::identity::FirstAttempt;
use crate::protocol::{At, Code, Decimal, DispatchId, Fault, Identity, Measured, Repository, RepositoryName, Revision};

use super::error::LaunchError;

/// The repository as GitHub names it. Its spelling is used everywhere after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeRepository {
    /// `owner/name` in the host's spelling.
    pub name: Repository,
    /// Numeric id.
    pub id: Decimal,
    /// Name of the default branch, if the host tells one.
    pub default_branch: Option<String>,
}

/// Reads the repository and checks that it is the one that was asked for.
///
/// # Errors
/// `native_repository_identity_mismatch` for another repository; a failed call as it is.
pub fn read_repository(client: Client<'_>, name: &RepositoryName) -> Result<NativeRepository, LaunchError> {
    let found = client.repository(name)?;
    let same = found.full_name.eq_ignore_ascii_case(name.as_str());
    ensure_same(same)?;
    Ok(NativeRepository {
        name: Repository::new(found.full_name).map_err(|_| mismatch())?,
        id: found.id,
        default_branch: found.default_branch.filter(|branch| !branch.is_empty()),
    })
}

fn ensure_same(same: bool) -> Result<(), Fault> {
    if same { Ok(()) } else { Err(mismatch()) }
}

fn mismatch() -> Fault {
    Fault::from(Code::NativeRepositoryIdentityMismatch)
}

/// What a worker run must be.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'e> {
    /// The repository.
    pub repository: &'e NativeRepository,
    /// Frozen workflow path.
    pub workflow: &'e str,
    /// Frozen revision.
    pub revision: &'e Revision,
    /// The dispatch that its title carries.
    pub dispatch_id: &'e DispatchId,
    /// Launch principal.
    pub principal: &'e Decimal,
    /// The run, where one is known.
    pub run_id: Option<&'e Decimal>,
}

impl<'e> Expected<'e> {
    /// What the run of a dispatch must be, whose launch principal is known.
    ///
    /// # Errors
    /// `run_principal_mismatch` before a launch principal is recorded.
    pub fn of(dispatch: &'e DispatchState, repository: &'e NativeRepository) -> Result<Self, Fault> {
        let unknown = || Fault::new(Code::RunPrincipalMismatch, "the dispatch records no launch principal");
        Ok(Self {
            repository,
            workflow: dispatch.profile.workflow.as_str(),
            revision: &dispatch.profile.revision,
            dispatch_id: &dispatch.assignment.dispatch_id,
            principal: dispatch.principal().ok_or_else(unknown)?,
            run_id: dispatch.run.as_ref().map(|run| &run.run_id),
        })
    }
}

/// A run that passed every check: attempt 1 of the launched worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRun {
    /// Its id.
    pub run_id: Decimal,
    /// The conclusion, once it is completed with one.
    pub conclusion: Option<Identity>,
}

/// Compares a run with what was approved, in the order of lifecycle.md 2.1. The title correlates and proves nothing
/// alone; the revision is the approved one, so a run of any other can never have authority.
///
/// # Errors
/// `run_binding_conflict`, `rerun_not_authorized`, `run_repository_mismatch`, `run_repository_identity_mismatch`,
/// `run_event_mismatch`, `run_ref_mismatch`, `run_workflow_mismatch`, `run_principal_mismatch`,
/// `run_correlation_mismatch`.
pub fn check_run(run: &Run, expected: &Expected<'_>) -> Result<WorkerRun, Fault> {
    ensure!(
        expected.run_id.is_none_or(|known| *known == run.id),
        RunBindingConflict,
        "the host answers with another run"
    );
    ensure!(run.run_attempt == Some(1), RerunNotAuthorized, "only attempt 1 of a run can be bound");
    ensure!(
        run.repository.full_name.eq_ignore_ascii_case(expected.repository.name.as_str()),
        RunRepositoryMismatch,
        "the run belongs to another repository"
    );
    ensure!(
        run.repository.id == expected.repository.id,
        RunRepositoryIdentityMismatch,
        "the run's repository has another numeric id"
    );
    ensure!(run.event == "workflow_dispatch", RunEventMismatch, "the run was not started by workflow_dispatch");
    ensure!(run.head_sha == *expected.revision, RunRefMismatch, "the run is at another revision than the approved one");
    ensure!(workflow_path(&run.path) == expected.workflow, RunWorkflowMismatch, "the run is of another workflow");
    let principal = expected.principal;
    let actor = run.actor.as_ref().is_some_and(|actor| actor.id == *principal);
    let triggered = run.triggering_actor.as_ref().is_none_or(|actor| actor.id == *principal);
    ensure!(actor && triggered, RunPrincipalMismatch, "the run acts for another account than the one that launched");
    let titled = run.display_title.as_deref().is_some_and(|title| carries(title, expected.dispatch_id.as_str()));
    ensure!(titled, RunCorrelationMismatch, "the run's title does not carry the dispatch");
    let checked = WorkerRun { run_id: run.id.clone(), conclusion: ended(run) };
    tracing::debug!(target: "work-queue:native", terminal = checked.conclusion.is_some(), "run.validate.complete");
    Ok(checked)
}

/// A run's workflow path, without the reference that some answers put after it.
#[must_use]
pub fn workflow_path(path: &str) -> &str {
    path.split('@').next().unwrap_or(path)
}

/// The conclusion of a run that has ended: completed, and with a conclusion.
#[must_use]
pub fn ended(run: &Run) -> Option<Identity> {
    let conclusion = run.conclusion.as_deref().filter(|_| run.status.as_deref() == Some("completed"))?;
    Identity::new(conclusion.to_owned()).ok()
}

/// True if a title carries an id as a token of its own: no letter, digit or underscore before or after it, so that
/// `d_1` is not found in `d_10`.
#[must_use]
pub fn carries(title: &str, id: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let (title_bytes, length) = (title.as_bytes(), id.len());
    title.match_indices(id).any(|(at, _)| {
        let before = at.checked_sub(1).map(|at| title_bytes[at]);
        let after = title_bytes.get(at + length).copied();
        !before.is_some_and(word) && !after.is_some_and(word)
    })
}

/// Evidence about a dispatch, with what every kind has (lifecycle.md 0.4). `repository` is the ledger's spelling, which
/// replay compares exactly; it equals the host's but for case.
///
/// # Errors
/// `run_principal_mismatch` for a dispatch without a launch principal, unless `principal` is given.
pub fn evidence(
    dispatch: &DispatchState,
    repository: &Repository,
    kind: EvidenceKind,
    source: EvidenceSource,
    principal: Option<&Decimal>,
    checked_at: At,
) -> Result<Evidence, Fault> {
    let unknown = || Fault::new(Code::RunPrincipalMismatch, "the dispatch records no launch principal");
    let principal = dispatch.principal().or(principal).ok_or_else(unknown)?.clone();
    Ok(Evidence {
        kind,
        source,
        repository: Identity::new(repository.as_str().to_owned())?,
        workflow: dispatch.profile.workflow.clone(),
        revision: dispatch.profile.revision.clone(),
        principal,
        conclusion: None,
        receipt: None,
        checked_at,
        run_id: None,
        run_attempt: None,
        attempts: None,
        effects: None,
        status: None,
    })
}

/// Evidence that names a run, and its end if it has ended.
#[must_use]
pub fn with_run(evidence: Evidence, run: &WorkerRun) -> Measured<Evidence> {
    let terminal = evidence.kind == EvidenceKind::TerminalRun;
    Measured::new(Evidence {
        run_id: Some(run.run_id.clone()),
        run_attempt: Some(FirstAttempt),
        status: terminal.then_some(RunStatus::Completed),
        conclusion: run.conclusion.clone().filter(|_| terminal),
        ..evidence
    })
}

/// The binding of a dispatch to a run that passed every check (lifecycle.md 2.4).
///
/// # Errors
/// As [`evidence`].
pub fn binding(dispatch: &DispatchState, repository: &Repository, run: &WorkerRun) -> Result<RunBinding, Fault> {
    let unknown = || Fault::new(Code::RunPrincipalMismatch, "the dispatch records no launch principal");
    Ok(RunBinding {
        run_id: run.run_id.clone(),
        run_attempt: FirstAttempt,
        repository: Identity::new(repository.as_str().to_owned())?,
        workflow: dispatch.profile.workflow.clone(),
        revision: dispatch.profile.revision.clone(),
        principal: dispatch.principal().ok_or_else(unknown)?.clone(),
        event: Identity::new("workflow_dispatch")?,
    })
}

#[cfg(test)]
mod tests {
    use super::carries;

    /// lifecycle.md 11, test 6: the title of group 10 does not satisfy group 1.
    #[test]
    fn lifecycle_06_a_title_carries_whole_ids_alone() {
        for (title, found) in [
            ("gh-aw work-queue d_1", true),
            ("d_1", true),
            ("(d_1)", true),
            ("x d_1: again d_10", true),
            ("gh-aw work-queue d_10", false),
            ("xd_1", false),
            ("d_1_", false),
            ("D_1", false),
            ("", false),
        ] {
            assert_eq!(carries(title, "d_1"), found, "{title}");
        }
    }
}
