//! The environment of a git invocation: empty, plus a short list (publication.md 1.5).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variables that git needs to find its helpers and to pass a proxy. None of them begins with `GIT_`.
const ALLOWED: [&str; 9] = [
    "TMPDIR",
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// What git's children may see of the surrounding process: a search path of absolute directories, and a proxy's and
/// certificate store's names. Everything else stays outside, `GIT_*`, `SSH_*` and `HOME` included.
#[derive(Clone, Default)]
pub struct Environment {
    search: Vec<PathBuf>,
    others: Vec<(&'static str, OsString)>,
}

impl Environment {
    /// Takes the allowed variables of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let others = ALLOWED.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))).collect();
        Self { others, ..Self::with_path(&std::env::var_os("PATH").unwrap_or_default()) }
    }

    /// An environment with nothing but a search path. Relative directories are dropped: what is found there depends
    /// on where the program happens to run, a checkout perhaps.
    #[must_use]
    pub fn with_path(path: &OsStr) -> Self {
        let search = std::env::split_paths(path).filter(|directory| directory.is_absolute()).collect();
        Self { search, others: Vec::new() }
    }

    /// The same environment with one more directory, absolute, at the front of the search path.
    #[must_use]
    pub fn with_first(mut self, directory: &Path) -> Self {
        if directory.is_absolute() {
            self.search.insert(0, directory.to_owned());
        }
        self
    }

    /// Where an executable of this name is, if anywhere.
    pub(super) fn find(&self, name: &str) -> Option<PathBuf> {
        self.search.iter().map(|directory| directory.join(name)).find(|path| is_executable(path))
    }

    /// Empties a command's environment and fills in the fixed variables. `home` is a private directory: without one,
    /// libcurl would look for credentials in the user's own.
    pub(super) fn apply(&self, command: &mut Command, home: &Path, protocol: &str) {
        command.env_clear().envs(self.others.iter().map(|(name, value)| (name, value)));
        if let Ok(path) = std::env::join_paths(&self.search) {
            command.env("PATH", path);
        }
        command
            .env("HOME", home)
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_ALLOW_PROTOCOL", protocol);
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
