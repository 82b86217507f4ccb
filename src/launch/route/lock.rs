//! What a compiled workflow says about itself (publication.md 4.4).

use std::rc::Rc;

use super::Defect;
use super::yaml::Yaml;
use crate::launch::settings::MAX_FILE_BYTES;
use crate::protocol::Digest;

/// The dispatch input that carries a worker's assignment.
pub const ASSIGNMENT_INPUT: &str = "work_queue_assignment";
/// The variable that carries a worker's contract stamp.
pub const CONTRACT_VARIABLE: &str = "GH_AW_WORK_QUEUE_CONTRACT";

/// A compiled workflow (`.lock.yml`), read once and asked several times.
#[derive(Debug)]
pub struct LockFile {
    pub(super) root: Rc<Yaml>,
}

impl LockFile {
    /// Reads the bytes of a compiled workflow, at most 1 MiB of UTF-8: one YAML 1.2 document, a mapping with unique
    /// keys, merge keys allowed, at most 100 alias expansions and 64 levels.
    ///
    /// # Errors
    /// The first of these that does not hold.
    pub fn read(bytes: &[u8]) -> Result<Self, Defect> {
        if bytes.len() > MAX_FILE_BYTES {
            return Err(Defect::TooLong);
        }
        let root = Yaml::read(std::str::from_utf8(bytes).map_err(|_| Defect::NotUtf8)?)?;
        if root.mapping().is_none() {
            return Err(Defect::NotYaml);
        }
        Ok(Self { root })
    }

    /// Whether the workflow can be dispatched, however `on` is written.
    #[must_use]
    pub fn is_dispatchable(&self) -> bool {
        triggers_dispatch(self.root.get("on"))
    }

    fn assignment(&self) -> Option<&Yaml> {
        self.root.at(&["on", "workflow_dispatch", "inputs", ASSIGNMENT_INPUT])
    }

    /// Whether the workflow declares the assignment input at all.
    #[must_use]
    pub fn declares_assignment(&self) -> bool {
        self.assignment().is_some()
    }

    /// Checks that the workflow takes an assignment: the input exists with `type: string`, required or not.
    ///
    /// # Errors
    /// [`Defect::DispatchMissing`], [`Defect::AssignmentMissing`] or [`Defect::AssignmentType`].
    pub fn check_assignment(&self) -> Result<(), Defect> {
        if !self.is_dispatchable() {
            return Err(Defect::DispatchMissing);
        }
        let input = self.assignment().ok_or(Defect::AssignmentMissing)?;
        if input.get("type").and_then(Yaml::text) == Some("string") { Ok(()) } else { Err(Defect::AssignmentType) }
    }

    /// The contract stamp: [`CONTRACT_VARIABLE`] in the `env` of the workflow, of each job and of each step. All
    /// occurrences are the same literal digest. The name anywhere else means nothing.
    ///
    /// # Errors
    /// [`Defect::StampMissing`], [`Defect::StampMalformed`] or [`Defect::StampsDiffer`].
    pub fn contract(&self) -> Result<Digest, Defect> {
        let mut stamp: Option<Digest> = None;
        let mut differ = false;
        for value in self.variables(CONTRACT_VARIABLE) {
            let found = value.text().and_then(|text| Digest::new(text).ok()).ok_or(Defect::StampMalformed)?;
            differ |= stamp.as_ref().is_some_and(|known| *known != found);
            stamp = Some(found);
        }
        match stamp {
            _ if differ => Err(Defect::StampsDiffer),
            stamp => stamp.ok_or(Defect::StampMissing),
        }
    }

    /// Checks everything that a worker route needs of its compiled file (publication.md 4.4 points 5 and 6).
    /// `approved` is the profile's contract; a profile without one asks for no stamp.
    ///
    /// # Errors
    /// As [`LockFile::check_assignment`] and [`LockFile::contract`]; [`Defect::StampUnexpected`].
    pub fn check_worker(&self, approved: Option<&Digest>) -> Result<(), Defect> {
        self.check_assignment()?;
        match approved {
            Some(approved) if self.contract()? != *approved => Err(Defect::StampUnexpected),
            _ => Ok(()),
        }
    }

    /// Every value of a variable in the `env` of the workflow, of its jobs and of their steps.
    pub(super) fn variables(&self, name: &str) -> Vec<&Yaml> {
        let mut owners: Vec<&Yaml> = vec![self.root.as_ref()];
        if let Some(jobs) = self.root.get("jobs").and_then(Yaml::mapping) {
            for job in jobs.values() {
                owners.push(job);
                let steps = job.get("steps").and_then(Yaml::sequence).unwrap_or_default();
                owners.extend(steps.iter().map(Rc::as_ref));
            }
        }
        owners.into_iter().filter_map(|owner| owner.at(&["env", name])).collect()
    }
}

/// Whether a value of `on` lets a person or a program start the workflow.
pub(super) fn triggers_dispatch(on: Option<&Yaml>) -> bool {
    const TRIGGER: &str = "workflow_dispatch";
    match on {
        Some(Yaml::Text(trigger)) => trigger == TRIGGER,
        Some(Yaml::Sequence(triggers)) => triggers.iter().any(|trigger| trigger.text() == Some(TRIGGER)),
        Some(Yaml::Mapping(triggers)) => triggers.contains_key(TRIGGER),
        _ => false,
    }
}
