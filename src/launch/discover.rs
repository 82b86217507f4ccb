//! Candidates for the run of a launch whose answer was lost (lifecycle.md 3.3). Each is checked by its full identity;
//! the latest run, or the only one, is nobody's because of that.

use crate::engine::state::DispatchState;
use crate::forge::{Client, Run, RunFilter};
use crate::protocol::{Decimal, RepositoryName};

use super::error::LaunchError;
use super::native::{Expected, WorkerRun, carries, check_run, read_repository};

/// Pages that a listing may have.
const PAGES: usize = 2;
/// Runs of a full page.
const FULL: usize = 50;

/// What a search found.
#[derive(Debug)]
pub enum Found {
    /// Nothing, which proves nothing.
    None,
    /// One run that passes every check.
    One(WorkerRun),
    /// Several runs, one that carries the dispatch and is another's, or a listing that does not end.
    Inconclusive,
}

/// Searches once: a hint first, then the workflow's runs at the approved revision.
///
/// # Errors
/// A failed read.
pub fn candidates(
    client: Client<'_>,
    repository: &RepositoryName,
    dispatch: &DispatchState,
    hint: Option<&Decimal>,
) -> Result<Found, LaunchError> {
    let native = read_repository(client, repository)?;
    let expected = Expected::of(dispatch, &native)?;
    let mut found: Vec<WorkerRun> = Vec::new();
    if let Some(run_id) = hint {
        // A hint that does not verify helps nobody, and proves nothing either.
        if let Ok(run) = client.run_attempt(repository, run_id, 1) {
            found.extend(check_run(&run, &expected).ok());
        }
    }
    let file = expected.workflow.rsplit('/').next().unwrap_or(expected.workflow);
    for page in 1..=PAGES {
        let runs = client.runs(repository, file, RunFilter { head_sha: expected.revision, page })?;
        let full = runs.len() >= FULL;
        for listed in runs.iter().filter(|run| titled(run, &expected)) {
            if found.iter().any(|known| known.run_id == listed.id) {
                continue;
            }
            let run = client.run_attempt(repository, &listed.id, 1)?;
            match check_run(&run, &Expected { run_id: Some(&listed.id), ..expected }) {
                Ok(run) => found.push(run),
                Err(_) => return Ok(Found::Inconclusive),
            }
        }
        if !full {
            break;
        }
        if page == PAGES {
            return Ok(Found::Inconclusive);
        }
    }
    Ok(match (found.pop(), found.is_empty()) {
        (None, _) => Found::None,
        (Some(run), true) => Found::One(run),
        (Some(_), false) => Found::Inconclusive,
    })
}

fn titled(run: &Run, expected: &Expected<'_>) -> bool {
    run.display_title.as_deref().is_some_and(|title| carries(title, expected.dispatch_id.as_str()))
}
