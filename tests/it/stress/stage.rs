//! One bare repository, a temporary directory of its own, and processes of the real binary that can be killed.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::cli::wq;
use crate::support::git::Bare;

/// Longest life of one command before the test gives up on it.
const PATIENCE: Duration = Duration::from_secs(100);

/// Where processes compete.
pub(super) struct Stage {
    pub(super) bare: Bare,
    temporary: PathBuf,
}

/// When a process is killed with SIGKILL.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kill {
    pub(super) after: Duration,
    /// The git process that it waits for dies with it.
    pub(super) with_git: bool,
}

/// How one process ended.
#[derive(Debug)]
pub(super) struct Try {
    /// None after SIGKILL.
    pub(super) exit: Option<i32>,
    /// The object on stdout, if it is whole: what a process said before it was killed counts.
    pub(super) answer: Option<Value>,
    /// The object on stderr.
    pub(super) error: Option<Value>,
    pub(super) took: Duration,
}

impl Try {
    fn of(status: ExitStatus, stdout: &[u8], stderr: &[u8], took: Duration) -> Self {
        let object = |bytes: &[u8]| serde_json::from_slice(bytes).ok().filter(Value::is_object);
        Self { exit: status.code(), answer: object(stdout), error: object(stderr), took }
    }

    /// Code of the failure.
    pub(super) fn code(&self) -> &str {
        self.error.as_ref().and_then(|error| error["error"]["code"].as_str()).unwrap_or("")
    }
}

impl Stage {
    pub(super) fn new() -> Self {
        let bare = Bare::new();
        let temporary = bare.around().join("tmp");
        std::fs::create_dir(&temporary).unwrap();
        Self { bare, temporary }
    }

    /// A file beside the repository.
    pub(super) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.bare.around().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// The binary, with a search path and a temporary directory as its whole environment.
    pub(super) fn wq<S: AsRef<str>>(&self, arguments: &[S]) -> Command {
        let mut command = wq(self.bare.around());
        command.env("TMPDIR", &self.temporary).args(arguments.iter().map(AsRef::as_ref)).arg("--json");
        command
    }

    /// As [`Stage::wq`], on the repository.
    pub(super) fn on_queue<S: AsRef<str>>(&self, arguments: &[S]) -> Command {
        let mut command = self.wq(arguments);
        command.args(["--remote", "queue.git", "--repo", "owner/repo", "--principal", "1001"]);
        command
    }

    /// Runs a command that must end well.
    pub(super) fn answer(&self, mut command: Command) -> Value {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Directories of object stores in the temporary directory.
    pub(super) fn stores(&self) -> usize {
        self.temporaries().iter().filter(|name| name.starts_with("wq-store-")).count()
    }

    /// Everything in the temporary directory.
    pub(super) fn temporaries(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.temporary).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Bytes below the temporary directory.
    pub(super) fn temporary_bytes(&self) -> u64 {
        fn below(directory: &Path) -> u64 {
            let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
            let sizes = entries.flatten().map(|entry| match entry.metadata() {
                Ok(meta) if meta.is_dir() => below(&entry.path()),
                Ok(meta) => meta.len(),
                Err(_) => 0,
            });
            sizes.sum()
        }
        below(&self.temporary)
    }
}

/// Runs a process to its end, or kills it on the way.
pub(super) fn attempt(mut command: Command, kill: Option<Kill>) -> Try {
    let start = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = kill.map_or(PATIENCE, |kill| kill.after);
    let mut killed = false;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if !killed && start.elapsed() >= deadline {
            killed = true;
            let git = if kill.is_some_and(|kill| kill.with_git) { children(child.id()) } else { Vec::new() };
            child.kill().unwrap();
            for pid in git {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let took = start.elapsed();
    let output = child.wait_with_output().unwrap();
    assert!(kill.is_some() || status.code().is_some(), "a process hung, or something else killed it");
    Try::of(status, &output.stdout, &output.stderr, took)
}

/// The children that a process has right now, where the system tells.
fn children(pid: u32) -> Vec<Pid> {
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}
