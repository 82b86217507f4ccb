//! The approved workers that a dispatcher's compiled workflow carries (jobs.md 5.3.1, operator-cli.md 7.2 point 4).

use std::collections::BTreeSet;

use super::yaml::Yaml;
use super::{Defect, LockFile};
use crate::launch::settings::lenient::{self, Json};

/// The variable with the configuration of the queue's controls.
pub const CONTROL_CONFIG: &str = "GH_AW_WORK_QUEUE_CONTROL_CONFIG";
/// The variable with the configuration of the safe outputs, which may carry the same lists.
pub const HANDLER_CONFIG: &str = "GH_AW_SAFE_OUTPUTS_HANDLER_CONFIG";
/// Where the lists may stand inside it, beside its top level.
const DISPATCH_SECTION: &str = "dispatch_workflow";
/// A worker must be in both lists.
const LISTS: [&str; 2] = ["work_queue_workflows", "aw_context_workflows"];

type Names = BTreeSet<String>;

impl LockFile {
    /// The approved workers, sorted: the one set that both lists name wherever they stand.
    ///
    /// # Errors
    /// `Controls…` of [`Defect`]: malformed, duplicated, missing or ambiguous, looked for in this order. One bad place
    /// spoils the file, whatever others say.
    pub fn approved_workers(&self) -> Result<BTreeSet<String>, Defect> {
        let mut places = Vec::new();
        for (variable, optional) in [(CONTROL_CONFIG, false), (HANDLER_CONFIG, true)] {
            for value in self.variables(variable) {
                places.extend(read_configuration(value, optional)?);
            }
        }
        let mut agreed: Option<Names> = None;
        let mut ambiguous = false;
        for place in places {
            for list in place {
                let names = list.ok_or(Defect::ControlsMissing)?;
                ambiguous |= agreed.as_ref().is_some_and(|known| *known != names);
                agreed = Some(names);
            }
        }
        match agreed {
            _ if ambiguous => Err(Defect::ControlsAmbiguous),
            agreed => agreed.ok_or(Defect::ControlsMissing),
        }
    }

    /// Checks a dispatcher's compiled file against the workers that its source lists (operator-cli.md 7.2 points 3, 4).
    ///
    /// # Errors
    /// [`Defect::DispatchMissing`], [`Defect::AssignmentForbidden`], whatever [`LockFile::approved_workers`] refuses,
    /// and [`Defect::ControlsDrifted`].
    pub fn check_dispatcher(&self, source_workers: &BTreeSet<String>) -> Result<(), Defect> {
        if !self.is_dispatchable() {
            return Err(Defect::DispatchMissing);
        }
        if self.declares_assignment() {
            return Err(Defect::AssignmentForbidden);
        }
        if self.approved_workers()? == *source_workers { Ok(()) } else { Err(Defect::ControlsDrifted) }
    }
}

/// The pairs of lists in one variable. An `optional` configuration without any list counts for nothing.
fn read_configuration(value: &Yaml, optional: bool) -> Result<Vec<[Option<Names>; 2]>, Defect> {
    let text = value.text().ok_or(Defect::ControlsMalformed)?;
    let document = lenient::read(text).map_err(|_| Defect::ControlsMalformed)?;
    let mut places = vec![read_lists(&document)?];
    if optional {
        if let Some(section) = only(&document, DISPATCH_SECTION)? {
            places.push(read_lists(section)?);
        }
        places.retain(|place| place.iter().any(Option::is_some));
    }
    Ok(places)
}

/// The two lists of a configuration of the queue's controls as it stands in a job's environment:
/// `work_queue_workflows`, then `aw_context_workflows`, each none where it is not there.
///
/// # Errors
/// [`Defect::ControlsMalformed`], [`Defect::ControlsDuplicated`].
pub fn compiled_lists(configuration: &str) -> Result<[Option<BTreeSet<String>>; 2], Defect> {
    read_lists(&lenient::read(configuration).map_err(|_| Defect::ControlsMalformed)?)
}

fn read_lists(object: &Json) -> Result<[Option<Names>; 2], Defect> {
    let [first, second] = LISTS;
    Ok([read_list(object, first)?, read_list(object, second)?])
}

fn read_list(object: &Json, name: &str) -> Result<Option<Names>, Defect> {
    let Some(list) = only(object, name)? else { return Ok(None) };
    let Json::Array(items) = list else { return Err(Defect::ControlsMalformed) };
    let mut names = Names::new();
    for item in items {
        let Json::String(worker) = item else { return Err(Defect::ControlsMalformed) };
        if !is_workflow_name(worker) {
            return Err(Defect::ControlsMalformed);
        }
        if !names.insert(worker.clone()) {
            return Err(Defect::ControlsDuplicated);
        }
    }
    Ok(Some(names))
}

/// The member of this name, which must not be repeated.
fn only<'a>(object: &'a Json, name: &str) -> Result<Option<&'a Json>, Defect> {
    let members = object.members().ok_or(Defect::ControlsMalformed)?;
    let mut found = members.iter().filter(|member| member.name == name);
    let first = found.next().map(|member| &member.value);
    if found.next().is_some() { Err(Defect::ControlsDuplicated) } else { Ok(first) }
}

/// True for the base name of a workflow file: no path, no extension of a compiled file, nothing that could leave the
/// folder.
pub(in crate::launch) fn is_workflow_name(name: &str) -> bool {
    let characters = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=128).contains(&name.len())
        && name.bytes().all(characters)
        && name.as_bytes().first().is_some_and(|byte| *byte != b'.')
        && !name.contains("..")
}
