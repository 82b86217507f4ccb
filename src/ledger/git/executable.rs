//! The git executable as a transport: one short-lived process for each call.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use gix::ObjectId;

use super::environment::Environment;
use super::messages::{Trouble, trouble};
use super::porcelain::{Ambiguity, PushOutcome, classify};
use super::process::{Ended, run};
use super::{Advertised, Advertisement, Transport};
use crate::ledger::error::{Class, LedgerError};
use crate::ledger::remote::Remote;
use crate::protocol::Code;
use crate::protocol::TokenProvider;

/// The oldest git that knows everything that is asked of it.
const MINIMUM: (u32, u32) = (2, 31);

/// Configuration of every invocation, on the command line because it holds no secret.
const SETTINGS: [&str; 12] = [
    "core.hooksPath=/dev/null",
    "core.askPass=",
    "credential.helper=",
    "http.followRedirects=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.fsckObjects=true",
    // Whatever is fetched stays the pack that it came as: nothing is compressed a second time.
    "fetch.unpackLimit=1",
    "fetch.writeCommitGraph=false",
    "protocol.version=2",
    "push.default=nothing",
    "push.followTags=false",
];

/// Bounds of one invocation.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Wall clock of a query for references.
    pub query: Duration,
    /// Wall clock of a fetch.
    pub fetch: Duration,
    /// Wall clock of a push.
    pub push: Duration,
    /// Bytes of standard output.
    pub stdout: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { query: seconds(30), fetch: seconds(120), push: seconds(30), stdout: 1024 * 1024 }
    }
}

/// A git executable that is new enough, and the environment that its processes get.
#[derive(Clone)]
pub struct Git {
    program: PathBuf,
    environment: Environment,
    version: (u32, u32),
}

impl Git {
    /// Finds git on the environment's search path and asks its version.
    ///
    /// # Errors
    /// `git_unavailable` when there is none, it does not run, or it is older than 2.31 (with the version found).
    pub fn find(environment: Environment) -> Result<Self, LedgerError> {
        let program = environment.find("git").ok_or_else(|| unavailable("the git executable was not found".into()))?;
        let mut command = Command::new(&program);
        environment.apply(&mut command, Path::new("/"), "none");
        command.arg("version").current_dir("/");
        let ended = run(command, Duration::from_secs(10), 4096);
        let Ok(Ended::Exited { status, stdout, .. }) = ended else {
            return Err(unavailable("the git executable does not run".into()));
        };
        let version = parse_version(&stdout).filter(|_| status.success());
        let Some(version) = version else {
            return Err(unavailable("the git executable does not tell its version".into()));
        };
        if version < MINIMUM {
            let (major, minor) = version;
            return Err(unavailable(format!("git {major}.{minor} is older than 2.31")));
        }
        Ok(Self { program, environment, version })
    }

    /// Major and minor version.
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// A transport to one remote. The provider is asked for the credential before each invocation; a local remote
    /// never asks.
    #[must_use]
    pub fn transport(&self, remote: Remote, credential: Option<TokenProvider>, bounds: Bounds) -> GitTransport {
        GitTransport { git: self.clone(), remote, credential, bounds }
    }
}

impl fmt::Debug for Git {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Git({}.{})", self.version.0, self.version.1)
    }
}

fn unavailable(message: String) -> LedgerError {
    LedgerError::new(Code::GitUnavailable, Class::Unavailable, message, "Install git 2.31 or newer and put it on PATH.")
}

/// Reads `git version 2.47.3`, with whatever a vendor appends.
fn parse_version(stdout: &[u8]) -> Option<(u32, u32)> {
    let text = std::str::from_utf8(stdout).ok()?;
    let mut numbers = text.strip_prefix("git version ")?.split(|byte: char| !byte.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// One remote, reached through the git executable.
#[derive(Clone)]
pub struct GitTransport {
    git: Git,
    remote: Remote,
    credential: Option<TokenProvider>,
    bounds: Bounds,
}

impl fmt::Debug for GitTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitTransport").field("git", &self.git).field("remote", &self.remote).finish_non_exhaustive()
    }
}

impl GitTransport {
    fn command(&self, store: &Path, subcommand: &str) -> Result<Command, LedgerError> {
        let mut command = Command::new(&self.git.program);
        self.git.environment.apply(&mut command, store, self.remote.protocol());
        if let (Some(scope), Some(provider)) = (self.remote.scope(), &self.credential) {
            authorize(&mut command, scope, &provider()?.basic_header());
        }
        let mut directory = OsString::from("--git-dir=");
        directory.push(store);
        command.current_dir(store).arg(directory);
        for setting in SETTINGS {
            command.arg("-c").arg(setting);
        }
        command.arg(subcommand);
        Ok(command)
    }

    /// Runs a read to its end and returns its output.
    fn read(&self, command: Command, wall: Duration) -> Result<Vec<u8>, LedgerError> {
        match run(command, wall, self.bounds.stdout) {
            Ok(Ended::Exited { status, stdout, .. }) if status.success() => Ok(stdout),
            Ok(Ended::Exited { stderr, .. }) => Err(trouble(&stderr).of_read()),
            Ok(Ended::TimedOut) => Err(LedgerError::new(
                Code::RepositoryUnavailable,
                Class::Unavailable,
                "the repository did not answer in time",
                "Repeat the command later.",
            )),
            Ok(Ended::TooLarge) => Err(LedgerError::new(
                Code::ResourceLimit,
                Class::Unavailable,
                "the repository's answer is too large",
                "Check that the remote is the queue's repository.",
            )),
            Err(_) => Err(unavailable("the git executable does not run".into())),
        }
    }

    /// Looks at a path remote before git does: git's words for a missing directory and for one that is no repository
    /// are the same.
    fn check_directory(&self) -> Result<(), LedgerError> {
        let Some(path) = self.remote.directory() else { return Ok(()) };
        let refuse = |class, message: &'static str, action| {
            Err(LedgerError::new(Code::RepositoryUnavailable, class, message, action))
        };
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => Ok(()),
            Ok(_) => refuse(Class::Unavailable, "the path is not a directory", "Name a Git repository's directory."),
            Err(cause) if cause.kind() == std::io::ErrorKind::PermissionDenied => refuse(
                Class::Denied,
                "the file system refused access to the repository",
                "Give this user access to it.",
            ),
            Err(_) => refuse(
                Class::Unavailable,
                "there is no directory at the path",
                "Create a repository there with `git init --bare`, or name another path.",
            ),
        }
    }
}

/// Passes a header for one exact origin through per-process configuration, after clearing any other header: the
/// secret is in no argument, no file and no store (publication.md 1.6).
fn authorize(command: &mut Command, scope: &str, header: &str) {
    let exact = format!("http.{scope}.extraheader");
    let pairs = [("http.extraheader", ""), (exact.as_str(), ""), (exact.as_str(), header)];
    command.env("GIT_CONFIG_COUNT", pairs.len().to_string());
    for (index, (key, value)) in pairs.iter().enumerate() {
        command.env(format!("GIT_CONFIG_KEY_{index}"), key).env(format!("GIT_CONFIG_VALUE_{index}"), value);
    }
}

impl Transport for GitTransport {
    fn advertise(&self, store: &Path, names: &[&str]) -> Result<Advertisement, LedgerError> {
        self.check_directory()?;
        let mut command = self.command(store, "ls-remote")?;
        command.arg("--symref").arg("--end-of-options").arg(self.remote.address()).args(names);
        let stdout = self.read(command, self.bounds.query)?;
        advertisement(&stdout, names)
    }

    fn fetch(&self, store: &Path, source: &str, destination: &str) -> Result<(), LedgerError> {
        self.check_directory()?;
        let mut command = self.command(store, "fetch")?;
        command
            .args(["--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"])
            .args(["--no-recurse-submodules", "--refmap=", "--end-of-options"])
            .arg(self.remote.address())
            .arg(format!("+{source}:{destination}"));
        self.read(command, self.bounds.fetch).map(drop)
    }

    fn push(
        &self,
        store: &Path,
        commit: ObjectId,
        reference: &str,
        expected: Option<ObjectId>,
    ) -> Result<PushOutcome, LedgerError> {
        self.check_directory()?;
        let commit = commit.to_string();
        // An empty expectation means that the reference must not exist.
        let lease = format!("{reference}:{}", expected.map(|id| id.to_string()).unwrap_or_default());
        let mut command = self.command(store, "push")?;
        command
            .args(["--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no"])
            .arg(format!("--force-with-lease={lease}"))
            .arg("--end-of-options")
            .arg(self.remote.address())
            .arg(format!("{commit}:{reference}"));
        match run(command, self.bounds.push, self.bounds.stdout) {
            Ok(Ended::Exited { status, stdout, stderr }) => {
                classify(status.success(), &stdout, &stderr, &commit, reference)
            }
            Ok(Ended::TimedOut) => Ok(PushOutcome::Ambiguous(Ambiguity::TimedOut)),
            Ok(Ended::TooLarge) => Ok(PushOutcome::Ambiguous(Ambiguity::TooMuchOutput)),
            // Spawning failed, or waiting did: only the former is sure to have sent nothing.
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
                Err(unavailable("the git executable does not run".into()))
            }
            Err(_) => Ok(PushOutcome::Ambiguous(Ambiguity::NoReport)),
        }
    }

    fn is_local(&self) -> bool {
        self.remote.is_local()
    }
}

/// Reads `ls-remote --symref`: lines of `<id> TAB <name>` and `ref: <target> TAB <name>`. Patterns match the tails of
/// names, so only exact names are kept.
fn advertisement(stdout: &[u8], names: &[&str]) -> Result<Advertisement, LedgerError> {
    let unreadable = |message| {
        LedgerError::new(Code::RepositoryUnavailable, Class::Unavailable, message, "Repeat the command later.")
    };
    let text = std::str::from_utf8(stdout).map_err(|_| unreadable("the list of references cannot be read"))?;
    let mut symbolic: Vec<(&str, &str)> = Vec::new();
    let mut found: Vec<Advertised> = Vec::new();
    for line in text.lines() {
        let (value, name) = line.split_once('\t').ok_or_else(|| unreadable("the list of references cannot be read"))?;
        if !names.contains(&name) {
            continue;
        }
        if let Some(target) = value.strip_prefix("ref: ") {
            symbolic.push((name, target));
            continue;
        }
        if value.len() == 64 {
            return Err(Trouble::ObjectFormat.of_read());
        }
        let id = ObjectId::from_hex(value.as_bytes()).map_err(|_| unreadable("a reference has no object id"))?;
        if found.iter().any(|reference| reference.name == name) {
            return Err(unreadable("a reference was listed twice"));
        }
        found.push(Advertised { name: name.to_owned(), id, symbolic: None });
    }
    for (name, target) in symbolic {
        if let Some(reference) = found.iter_mut().find(|reference| reference.name == name) {
            reference.symbolic = Some(target.to_owned());
        }
    }
    Ok(Advertisement(found))
}

#[cfg(test)]
mod tests {
    use super::{advertisement, parse_version};
    use crate::protocol::Code;

    #[test]
    fn versions_of_all_vendors_are_read() {
        assert_eq!(parse_version(b"git version 2.47.3\n"), Some((2, 47)));
        assert_eq!(parse_version(b"git version 2.39.5 (Apple Git-154)\n"), Some((2, 39)));
        assert_eq!(parse_version(b"git version 2.45.1.windows.1\n"), Some((2, 45)));
        assert_eq!(parse_version(b"git version 3\n"), None);
        assert_eq!(parse_version(b"hello\n"), None);
    }

    #[test]
    fn only_exact_names_are_kept() {
        let id = "0123456789012345678901234567890123456789";
        let text = format!("ref: refs/heads/main\tHEAD\n{id}\tHEAD\n{id}\trefs/x/refs/heads/q\n{id}\trefs/heads/q\n");
        let seen = advertisement(text.as_bytes(), &["HEAD", "refs/heads/q"]).expect("readable");
        assert_eq!(seen.0.len(), 2);
        assert_eq!(seen.get("HEAD").and_then(|head| head.symbolic.as_deref()), Some("refs/heads/main"));
        let twice = format!("{id}\tHEAD\n{id}\tHEAD\n");
        assert_eq!(advertisement(twice.as_bytes(), &["HEAD"]).unwrap_err().code(), Code::RepositoryUnavailable);
        let sha256 = format!("{id}012345678901234567890123\tHEAD\n");
        assert_eq!(advertisement(sha256.as_bytes(), &["HEAD"]).unwrap_err().code(), Code::UnsupportedProtocol);
    }
}
