//! What the host shows of a worker route (publication.md 4.4, 4.5): its source, its compiled file, its registration.
//!
//! What is wrong with these files is a fact about one worker. What is wrong with the lookups is a failure of all of it:
//! a denied, limited, failing or silent host is never taken for a missing file.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;

use super::allowlist::is_workflow_name;
use super::default_revision::is_null;
use super::select::Route;
use super::{Defect, LockFile, SourceFile};
use crate::forge::{Client, Unusable};
use crate::launch::error::LaunchError;
use crate::launch::settings::MAX_FILE_BYTES;
use crate::protocol::fault::ensure;
use crate::protocol::policy::{Policy, WorkerProfile};
use crate::protocol::{Code, Digest, Fault, Identity, RepositoryName, Revision};

/// Where workflows live.
pub const WORKFLOWS: &str = ".github/workflows";

/// Which of a route's files or records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The source workflow, `.md`.
    Source,
    /// The compiled workflow, `.lock.yml`.
    Compiled,
    /// The registration with Actions.
    Registration,
}

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// It is not there.
    Missing,
    /// The file cannot be used at all.
    File(Unusable),
    /// The file does not say what it must.
    Content(Defect),
    /// The registration is of another path.
    OtherPath,
    /// The registration is not `active`.
    Inactive,
}

/// The first thing that makes a route unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Where.
    pub part: Part,
    /// What.
    pub flaw: Flaw,
}

impl Problem {
    /// One sentence without names or values.
    #[must_use]
    pub fn sentence(self) -> Cow<'static, str> {
        let part = match self.part {
            Part::Source => "the source workflow",
            Part::Compiled => "the compiled workflow",
            Part::Registration => "the workflow's registration with Actions",
        };
        match self.flaw {
            Flaw::Content(defect) => defect.sentence().into(),
            Flaw::Missing => format!("{part} is missing").into(),
            Flaw::File(Unusable::NotRegular) => format!("{part} is no regular file at its path").into(),
            Flaw::File(Unusable::TooLarge) => format!("{part} is longer than 1 MiB").into(),
            Flaw::File(Unusable::Undecodable) => format!("{part} came without readable content").into(),
            Flaw::OtherPath => format!("{part} is of another path").into(),
            Flaw::Inactive => format!("{part} is not active").into(),
        }
    }
}

/// An unusable route is `policy_missing`; the same submission passes once the worker is deployed.
impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        let sentence = problem.sentence();
        Fault::new(Code::PolicyMissing, format!("{sentence}; deploy the worker, then retry the same submission"))
    }
}

/// What one inspection of a worker found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// The contract stamp, if source and compiled file are both as they must be.
    pub contract: Option<Digest>,
    /// Why the worker cannot run; none if it can.
    pub problem: Option<Problem>,
}

impl Inspected {
    /// True if the worker can run at that revision.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.problem.is_none()
    }
}

/// Inspects workers of one repository. What it saw it keeps for as long as it lives, which is one attempt: every
/// attempt makes a new one.
pub struct Inspector<'a> {
    client: Client<'a>,
    repository: &'a RepositoryName,
    seen: RefCell<BTreeMap<(Identity, Revision), Inspected>>,
}

impl<'a> Inspector<'a> {
    /// An inspector that has seen nothing yet.
    #[must_use]
    pub fn new(client: Client<'a>, repository: &'a RepositoryName) -> Self {
        Self { client, repository, seen: RefCell::default() }
    }

    /// Inspects the worker of a compiled workflow's path at a revision: declaration in the source, assignment input and
    /// contract stamp in the compiled file, then the registration. A path of no workflow and the all-zero revision have
    /// no source.
    ///
    /// # Errors
    /// Whatever a lookup fails with, unchanged.
    pub fn inspect(&self, workflow: &Identity, revision: &Revision) -> Result<Inspected, LaunchError> {
        let key = (workflow.clone(), revision.clone());
        if let Some(seen) = self.seen.borrow().get(&key) {
            return Ok(seen.clone());
        }
        let found = self.look(workflow, revision)?;
        tracing::debug!(available = found.is_available(), stamped = found.contract.is_some(), "worker inspected");
        self.seen.borrow_mut().insert(key, found.clone());
        Ok(found)
    }

    fn look(&self, workflow: &Identity, revision: &Revision) -> Result<Inspected, LaunchError> {
        let broken = |part, flaw| Inspected { contract: None, problem: Some(Problem { part, flaw }) };
        let Ok(name) = checked_name(workflow, revision) else { return Ok(broken(Part::Source, Flaw::Missing)) };
        let source = match self.file(revision, &format!("{WORKFLOWS}/{name}.md"), SourceFile::read)? {
            Ok(source) => source,
            Err(flaw) => return Ok(broken(Part::Source, flaw)),
        };
        if !source.is_worker() {
            return Ok(broken(Part::Source, Flaw::Content(Defect::NotWorker)));
        }
        let lock = match self.file(revision, workflow.as_str(), LockFile::read)? {
            Ok(lock) => lock,
            Err(flaw) => return Ok(broken(Part::Compiled, flaw)),
        };
        match stamp(&lock) {
            Ok(contract) => Ok(Inspected { contract: Some(contract), problem: self.registration(workflow)? }),
            Err(defect) => Ok(broken(Part::Compiled, Flaw::Content(defect))),
        }
    }

    /// A file, read; the inner error where there is none that can be used.
    fn file<T>(
        &self,
        revision: &Revision,
        path: &str,
        read: impl FnOnce(&[u8]) -> Result<T, Defect>,
    ) -> Result<Result<T, Flaw>, LaunchError> {
        Ok(match self.client.file(self.repository, revision, path, MAX_FILE_BYTES as u64)? {
            None => Err(Flaw::Missing),
            Some(Err(unusable)) => Err(Flaw::File(unusable)),
            Some(Ok(bytes)) => read(&bytes).map_err(Flaw::Content),
        })
    }

    /// What is wrong with the registration, if anything.
    fn registration(&self, workflow: &Identity) -> Result<Option<Problem>, LaunchError> {
        let file = workflow.as_str().rsplit('/').next().unwrap_or_default();
        let flaw = match self.client.workflow(self.repository, file)? {
            None => Some(Flaw::Missing),
            Some(found) if found.path != workflow.as_str() => Some(Flaw::OtherPath),
            Some(found) if found.state != "active" => Some(Flaw::Inactive),
            Some(_) => None,
        };
        Ok(flaw.map(|flaw| Problem { part: Part::Registration, flaw }))
    }
}

/// The stamp of a compiled worker.
pub(super) fn stamp(lock: &LockFile) -> Result<Digest, Defect> {
    lock.check_assignment()?;
    lock.contract()
}

/// The base name of a compiled workflow's path: `worker` for `.github/workflows/worker.lock.yml`; none for any other
/// path.
#[must_use]
pub fn workflow_name(workflow: &str) -> Option<&str> {
    let name = workflow.strip_prefix(WORKFLOWS)?.strip_prefix('/')?.strip_suffix(".lock.yml")?;
    is_workflow_name(name).then_some(name)
}

fn checked_name<'w>(workflow: &'w Identity, revision: &Revision) -> Result<&'w str, Fault> {
    ensure!(!is_null(revision), PolicyInvalid, "a worker route has the all-zero revision");
    workflow_name(workflow.as_str())
        .ok_or_else(|| Fault::new(Code::PolicyInvalid, "a worker route names no compiled workflow"))
}

/// Verifies a worker route at its own revision (publication.md 4.4): compiled file, assignment input, the profile's
/// contract if it has one, and an active registration of exactly that path.
///
/// # Errors
/// `policy_invalid` for a malformed route, `policy_missing` for one that cannot be used, which says what is wrong and
/// what to do; whatever a lookup fails with, unchanged.
pub fn verify_route(
    client: Client<'_>,
    repository: &RepositoryName,
    profile: &WorkerProfile,
) -> Result<(), LaunchError> {
    verify(client, repository, &Route::of(profile)?)
}

/// Verifies routes that were selected, one after the other; the first that cannot be used ends it.
///
/// # Errors
/// As [`verify_route`].
pub fn verify_routes(client: Client<'_>, repository: &RepositoryName, routes: &[Route]) -> Result<(), LaunchError> {
    routes.iter().try_for_each(|route| verify(client, repository, route))
}

/// Verifies what a Policy needs verified that is to replace another one: every route of a historical Policy, none of an
/// AW Policy, whose routes are asked about when Work needs them.
///
/// # Errors
/// As [`verify_route`].
pub fn verify_policy(client: Client<'_>, repository: &RepositoryName, policy: &Policy) -> Result<(), LaunchError> {
    verify_routes(client, repository, &super::routes_to_verify(super::Admission::PolicyUpdate, policy)?)
}

fn verify(client: Client<'_>, repository: &RepositoryName, route: &Route) -> Result<(), LaunchError> {
    checked_name(&route.workflow, &route.revision)?;
    let inspector = Inspector::new(client, repository);
    let broken = |flaw| LaunchError::Refused(Problem { part: Part::Compiled, flaw }.into());
    let lock = inspector.file(&route.revision, route.workflow.as_str(), LockFile::read)?.map_err(broken)?;
    lock.check_worker(route.contract.as_ref()).map_err(|defect| broken(Flaw::Content(defect)))?;
    inspector.registration(&route.workflow)?.map_or(Ok(()), |problem| Err(LaunchError::Refused(problem.into())))
}
