//! The binary, run as a person would run it, in an environment that holds a search path and nothing else.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The binary in a directory.
pub(crate) fn wq(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wq"));
    command.current_dir(directory).env_clear().env("PATH", std::env::var_os("PATH").unwrap()).stdin(Stdio::null());
    command
}

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().expect("it was not killed"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The one object on stdout, after a status.
    pub(crate) fn json(&self, code: i32) -> Value {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.err, "", "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Code of the one error object on stderr, after a status; stdout is empty.
    pub(crate) fn error(&self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.out, "", "{self:?}");
        let error: Value = serde_json::from_str(&self.err).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        let error = &error["error"];
        for member in ["code", "message", "next"] {
            assert!(error[member].as_str().is_some_and(|text| !text.is_empty()), "{error}");
        }
        error["code"].as_str().unwrap().to_owned()
    }
}

/// Runs the binary to its end.
pub(crate) fn run(directory: &Path, arguments: &[&str]) -> Ran {
    Ran::of(wq(directory).args(arguments).output().unwrap())
}

/// Runs the binary with something on its standard input.
pub(crate) fn feed(directory: &Path, arguments: &[&str], input: &str) -> Ran {
    let mut command = wq(directory);
    command.args(arguments);
    Ran::of(super::git::feed(command, input.as_bytes()))
}
