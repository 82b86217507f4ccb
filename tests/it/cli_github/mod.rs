//! The command line on GitHub: the binary as a person runs it, against the simulated host over loopback HTTP, Git
//! included.

mod access;
mod canary;
mod config;
mod dispatch;
mod doctor;
mod gates;
mod jobs;
mod replay;
mod settle;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;

use crate::support::cli::{Ran, wq};
use crate::support::git::{Bare, feed};
use crate::support::github::{ADMIN, Endpoint, Github, OCTO_WIDGETS, Options, Server, WRITER};

/// A host with `octo/widgets` behind a server, and a person at a command line.
struct Desk {
    github: Github,
    bare: Arc<Bare>,
    server: Server,
}

impl Desk {
    /// The standard repository, without a queue.
    fn new() -> Self {
        let (github, bare) = Github::standard_with_git();
        Self::serving(github, bare)
    }

    /// This world behind a server, at the machine's time.
    fn serving(github: Github, bare: Arc<Bare>) -> Self {
        github.follow_system_clock();
        let server = github.serve(Options::default());
        github.addresses(server.server_url(), server.api_url());
        Self { github, bare, server }
    }

    /// The same with a queue of one Work for each name.
    fn with_work(names: &[&str]) -> Self {
        let desk = Self::new();
        let directory = desk.bare.path().to_str().unwrap().to_owned();
        for name in names {
            let mut command = wq(desk.bare.around());
            command.args(["submit-work", "--file", "-", "--graph-id", name, "--remote", &directory]);
            command.args(["--repo", OCTO_WIDGETS, "--json"]);
            Ran::of(feed(command, format!(r#"{{"task":"{name}"}}"#).as_bytes())).json(0);
        }
        desk
    }

    /// The binary with this host and token in its environment.
    fn command(&self, token: &str, arguments: &[&str]) -> Command {
        let mut command = wq(self.bare.around());
        command
            .env("GITHUB_SERVER_URL", self.server.server_url())
            .env("GITHUB_API_URL", self.server.api_url())
            .env("GITHUB_GRAPHQL_URL", self.server.graphql_url())
            .env("GH_AW_WORK_QUEUE_TOKEN", token)
            .args(arguments);
        command
    }

    /// Runs a command on `octo/widgets` with a token, as JSON.
    fn with(&self, token: &str, arguments: &[&str]) -> Ran {
        let mut all = arguments.to_vec();
        all.extend(["--repo", OCTO_WIDGETS, "--json"]);
        Ran::of(self.command(token, &all).output().unwrap())
    }

    /// The same as the administrator.
    fn wq(&self, arguments: &[&str]) -> Ran {
        self.with(ADMIN, arguments)
    }

    /// The same for a person.
    fn text(&self, arguments: &[&str]) -> String {
        let mut all = arguments.to_vec();
        all.extend(["--repo", OCTO_WIDGETS]);
        let ran = Ran::of(self.command(ADMIN, &all).output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
        ran.out
    }

    /// Submits a Work as somebody who may push.
    fn submit(&self, name: &str, rest: &[&str]) -> Ran {
        let mut all = vec!["submit-work", "--file", "-", "--graph-id", name, "--repo", OCTO_WIDGETS, "--json"];
        all.extend(rest);
        Ran::of(feed(self.command(WRITER, &all), format!(r#"{{"task":"{name}"}}"#).as_bytes()))
    }

    /// The queue branch's head, if there is a queue.
    fn head(&self) -> Option<String> {
        self.github.head(OCTO_WIDGETS, "refs/heads/work-queue")
    }

    /// Lines of the ledger, as records.
    fn ledger(&self) -> Vec<Value> {
        self.bare.ledger().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// How many calls of these endpoints arrived.
    fn calls(&self, endpoints: &[Endpoint]) -> u64 {
        endpoints.iter().map(|endpoint| self.github.calls(*endpoint)).sum()
    }

    /// How many writes of any kind arrived: pushes, references, dispatches, cancellations.
    fn writes(&self) -> usize {
        let writing = |method: &str, endpoint| {
            method == "POST" && endpoint != Endpoint::GraphQl && endpoint != Endpoint::GitFetch
        };
        self.github.log().iter().filter(|call| writing(&call.method, call.endpoint)).count()
    }

    /// A file beside the repository.
    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.bare.around().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}
