//! The demo's stage: a temporary bare repository, the processes that play on it, and a publisher for simulated runs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::super::access::Access;
use super::super::{Failure, Global};
use crate::protocol::Code;

/// The account that every actor of the demo has.
pub(super) const PRINCIPAL: &str = "1";

/// A temporary repository and what is needed to play on it.
pub(super) struct Stage {
    directory: tempfile::TempDir,
    program: PathBuf,
    global: Global,
}

impl Stage {
    /// Makes the repository. Fails as every command does when git is not there.
    pub(super) fn new() -> Result<Self, Failure> {
        let directory = tempfile::Builder::new().prefix("wq-demo-").tempdir().map_err(|error| io(&error))?;
        let program = std::env::current_exe().map_err(|error| io(&error))?;
        let global = Global {
            repo: None,
            branch: crate::ledger::Branch::default().to_string(),
            remote: Some(directory.path().join("queue.git")),
            json: true,
            request_id: None,
            principal: Some(PRINCIPAL.to_owned()),
        };
        let stage = Self { directory, program, global };
        // Asks for git and its version first, so that their absence is told by the usual sentence.
        stage.access()?;
        let made = stage
            .scrubbed("git")
            .args(["init", "--quiet", "--bare", "--initial-branch=main"])
            .arg(stage.repository())
            .output()
            .map_err(|error| io(&error))?;
        if made.status.success() { Ok(stage) } else { Err(Failure::new(Code::GitUnavailable, BROKEN, NEXT)) }
    }

    pub(super) fn repository(&self) -> PathBuf {
        self.directory.path().join("queue.git")
    }

    /// Access for publications of simulated runs.
    pub(super) fn access(&self) -> Result<Access, Failure> {
        Access::open(&self.global)
    }

    /// Writes an input file and returns where it is.
    pub(super) fn file(&self, name: &str, content: &str) -> Result<PathBuf, Failure> {
        let path = self.directory.path().join(name);
        std::fs::write(&path, content).map_err(|error| io(&error))?;
        Ok(path)
    }

    fn scrubbed(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(["PATH", "TMPDIR"].iter().filter_map(|name| Some((*name, std::env::var_os(name)?))))
            .env("HOME", self.directory.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }

    /// This program with other arguments, on the demo's repository unless they name a ledger file.
    pub(super) fn wq(&self, arguments: &[&str], remote: bool) -> Command {
        let mut command = self.scrubbed(&self.program);
        command.args(arguments).arg("--json");
        if remote {
            command.arg("--remote").arg(self.repository());
        }
        command
    }

    /// Starts all commands at once and waits for every one.
    pub(super) fn together(&self, commands: Vec<Command>) -> Result<Vec<Output>, Failure> {
        let mut children = Vec::new();
        for mut command in commands {
            children.push(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|error| io(&error))?);
        }
        children.into_iter().map(|child| child.wait_with_output().map_err(|error| io(&error))).collect()
    }

    /// The ledger as the branch holds it, written to a file beside the repository.
    pub(super) fn ledger_file(&self) -> Result<PathBuf, Failure> {
        let shown = self
            .scrubbed("git")
            .arg("--git-dir")
            .arg(self.repository())
            .args(["cat-file", "blob", "refs/heads/work-queue:work-queue.jsonl"])
            .output()
            .map_err(|error| io(&error))?;
        let path = self.directory.path().join("work-queue.jsonl");
        std::fs::write(&path, shown.stdout).map_err(|error| io(&error))?;
        Ok(path)
    }

    /// Leaves the directory where it is.
    pub(super) fn keep(self) -> PathBuf {
        let directory = self.directory.keep();
        Path::new(&directory).join("queue.git")
    }
}

const BROKEN: &str = "git could not make a bare repository";
const NEXT: &str = "Check the temporary directory's space and permissions, and that git runs.";

fn io(error: &std::io::Error) -> Failure {
    Failure::new(Code::IoFailed, format!("the demo's directory or a process of it failed ({})", error.kind()), NEXT)
}
