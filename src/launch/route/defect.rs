//! What makes a workflow file unusable as a route (publication.md 4.5, operator-cli.md 7.2).

use std::fmt;

use crate::protocol::{Code, Fault};

/// Why a file is not what a route needs. Each is local to its worker: the others stay usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Defect {
    /// Longer than 1 MiB.
    TooLong,
    /// Not UTF-8.
    NotUtf8,
    /// Not one YAML 1.2 document with unique text keys and known tags.
    NotYaml,
    /// More than 100 alias expansions, 64 levels or 262,144 nodes.
    YamlTooComplex,
    /// The source does not begin with front matter.
    FrontMatterMissing,
    /// The compiled file cannot be dispatched by hand.
    DispatchMissing,
    /// The compiled file takes no assignment.
    AssignmentMissing,
    /// The assignment input is not of type `string`.
    AssignmentType,
    /// A dispatcher's compiled file takes an assignment.
    AssignmentForbidden,
    /// No contract stamp where stamps are looked for.
    StampMissing,
    /// A contract stamp that is not literally 64 lower-case hexadecimal digits.
    StampMalformed,
    /// Two different contract stamps.
    StampsDiffer,
    /// The contract stamp is another one than the profile's.
    StampUnexpected,
    /// A compiled control list is missing.
    ControlsMissing,
    /// A compiled control list cannot be read.
    ControlsMalformed,
    /// A compiled control list, or its member, is repeated.
    ControlsDuplicated,
    /// Two places of the compiled file hold different control lists.
    ControlsAmbiguous,
    /// The compiled control lists are not the source's list of workers.
    ControlsDrifted,
    /// The source does not use the work queue.
    NoQueue,
    /// The source is a worker where a dispatcher is wanted.
    IsWorker,
    /// The source is not declared as a worker.
    NotWorker,
    /// The source names no workers, or not as a list of workflow names.
    WorkersMissing,
}

impl Defect {
    /// One sentence without names or values.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::TooLong => "the workflow file is longer than 1 MiB",
            Self::NotUtf8 => "the workflow file is not UTF-8",
            Self::NotYaml => "the workflow file is not one YAML 1.2 document with unique text keys",
            Self::YamlTooComplex => "the workflow file nests or repeats too much",
            Self::FrontMatterMissing => "the source workflow has no front matter",
            Self::DispatchMissing => "the compiled workflow has no workflow_dispatch trigger",
            Self::AssignmentMissing => "the compiled workflow has no input work_queue_assignment",
            Self::AssignmentType => "the input work_queue_assignment is not of type string",
            Self::AssignmentForbidden => "a dispatcher must not declare the input work_queue_assignment",
            Self::StampMissing => "the compiled workflow has no contract stamp",
            Self::StampMalformed => "a contract stamp is not 64 lower-case hexadecimal digits",
            Self::StampsDiffer => "the compiled workflow has different contract stamps",
            Self::StampUnexpected => "the contract stamp is not the approved one",
            Self::ControlsMissing => "the compiled workflow lacks a list of approved workers",
            Self::ControlsMalformed => "a compiled list of approved workers is malformed",
            Self::ControlsDuplicated => "a compiled list of approved workers repeats itself",
            Self::ControlsAmbiguous => "the compiled workflow has several different lists of approved workers",
            Self::ControlsDrifted => "the compiled lists of approved workers are not the source's",
            Self::NoQueue => "the source workflow does not use tools.work-queue",
            Self::IsWorker => "the workflow is a worker, not a dispatcher",
            Self::NotWorker => "the source workflow does not declare tools.work-queue.worker: true",
            Self::WorkersMissing => "the source lists no workers in safe-outputs.dispatch-workflow.workflows",
        }
    }

    /// What a person should do about it.
    #[must_use]
    pub const fn action(self) -> &'static str {
        match self {
            Self::FrontMatterMissing | Self::NoQueue | Self::IsWorker | Self::NotWorker | Self::WorkersMissing => {
                "Correct the source workflow, compile it and merge both files."
            }
            _ => "Compile the workflow again and merge the result.",
        }
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

impl std::error::Error for Defect {}

/// An unusable route is `policy_missing` (publication.md 4.4).
impl From<Defect> for Fault {
    fn from(defect: Defect) -> Self {
        Fault::new(Code::PolicyMissing, defect.sentence())
    }
}
