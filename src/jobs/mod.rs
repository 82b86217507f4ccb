//! The jobs of a workflow (jobs.md 2.1): each mode is a function over a [`world::World`] that calls the rooms below in
//! order. A mode either does its work, or ends with a [`error::JobError`] that is annotated once.

pub mod activation;
pub mod agent;
pub mod collect;
pub mod conclusion;
pub mod controls;
pub mod deliver;
pub(crate) mod environment;
pub mod error;
pub mod given;
pub mod log;
pub mod origin;
pub mod own_run;
pub mod paths;
pub mod readers;
pub mod safe_outputs;
pub mod settle;
pub mod summary;
pub mod tool;
pub mod trace;
pub mod world;

pub use environment::Variables;
pub use error::JobError;
pub use paths::Paths;
pub use world::{Process, World};

use crate::runner::output::{Outputs as _, RunnerOutputs};

/// Runs one mode in this process's surroundings. Whatever goes wrong is annotated once.
///
/// # Errors
/// As [`Process::open`], or as the mode itself.
pub fn perform<T>(
    branch: &str,
    mode: impl FnOnce(&Process, &mut World<'_>) -> Result<T, JobError>,
) -> Result<T, JobError> {
    let mut outputs = RunnerOutputs::of_process(Box::new(std::io::stdout()));
    let done = Process::open(branch).and_then(|process| process.run(&mut outputs, |world| mode(&process, world)));
    if let Err(error) = &done {
        error.annotate(&mut outputs);
    }
    done
}

/// Hides a secret in the log of this step and of the later ones.
pub fn mask(secret: &str) {
    RunnerOutputs::of_process(Box::new(std::io::stdout())).mask(secret);
}
