//! Every command on GitHub with a token that is looked for afterwards wherever it could have gone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use serde_json::Value;

use super::Desk;
use super::dispatch::prepared;
use crate::support::cli::{Ran, run};
use crate::support::git::executable;
use crate::support::github::{Access, Endpoint, Faults, Issued, Kind, NewRun, OCTO_WIDGETS, Role, Strike};

const CANARY: &str = "canary-token-5f2b77c1";

/// Every endpoint that a command may call.
const ENDPOINTS: [Endpoint; 14] = [
    Endpoint::User,
    Endpoint::Repository,
    Endpoint::GetRef,
    Endpoint::CreateRef,
    Endpoint::Contents,
    Endpoint::Workflow,
    Endpoint::Dispatch,
    Endpoint::Run,
    Endpoint::BranchRules,
    Endpoint::ActionsPermissions,
    Endpoint::RateLimit,
    Endpoint::GraphQl,
    Endpoint::GitFetch,
    Endpoint::GitPush,
];

/// The token as it is and as it travels; the latter holds the encoding of the token alone, as what comes before it has 15
/// bytes.
fn forms() -> [String; 2] {
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let forms = [CANARY.to_owned(), encode(CANARY)];
    assert!(encode(&format!("x-access-token:{CANARY}")).ends_with(&forms[1]));
    forms
}

/// A desk whose person's token is looked for, in directories of its own.
struct Watch {
    desk: Desk,
    root: tempfile::TempDir,
    /// A search path that leads to a git that notes what it was called with.
    path: String,
    /// Commands that were run.
    commands: BTreeSet<String>,
    /// For each endpoint the last command that called it.
    callers: Vec<(Endpoint, Vec<String>)>,
    /// Failing runs: how many, and their statuses.
    failed: usize,
    seen: String,
    /// The runner's variables, while modes are run.
    job: Vec<(&'static str, String)>,
}

impl Watch {
    fn new() -> Self {
        let desk = Desk::new();
        prepared(&desk);
        desk.github.account("cat", Kind::User);
        desk.github.token(CANARY, "cat", Issued::Classic("repo"));
        desk.github.grant(CANARY, OCTO_WIDGETS, Access::ALL);
        desk.github.role(OCTO_WIDGETS, "cat", Role::Admin);
        let root = tempfile::tempdir().unwrap();
        for name in ["home", "tmp", "work", "bin"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        let search = std::env::var("PATH").unwrap();
        let real = search.split(':').map(|path| Path::new(path).join("git")).find(|path| path.is_file()).unwrap();
        // It looks into the store as well, after each call, while the store is still there.
        let [plain, encoded] = forms();
        let script = format!(
            "#!/bin/sh\n\
             {{ printf 'argv'; printf ' <%s>' \"$@\"; printf '\\n'; env | sed 's/^/env /'; }} >>'{log}'\n\
             '{real}' \"$@\"\ncode=$?\n\
             if grep -rqaF -e '{plain}' -e '{encoded}' \"$TMPDIR\"; then echo leak >>'{log}'; fi\nexit $code\n",
            log = root.path().join("git.log").display(),
            real = real.display(),
        );
        executable(&root.path().join("bin"), "git", &script);
        let path = format!("{}:{search}", root.path().join("bin").display());
        let (commands, callers) = (BTreeSet::new(), Vec::new());
        Self { desk, root, path, commands, callers, failed: 0, seen: String::new(), job: Vec::new() }
    }

    fn directory(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.directory("work").join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs a command with everything that makes programs talk, and keeps what it said.
    fn run(&mut self, arguments: &[&str]) -> Ran {
        let mut command = self.desk.command(CANARY, arguments);
        if arguments[0] != "verify" {
            command.args(["--repo", OCTO_WIDGETS]);
        }
        command.current_dir(self.directory("work")).env("HOME", self.directory("home"));
        command.env("TMPDIR", self.directory("tmp")).env("PATH", &self.path);
        for (name, value) in [
            ("WQ_LOG", "trace"),
            ("RUST_LOG", "trace"),
            ("DEBUG", "*"),
            ("RUNNER_DEBUG", "1"),
            ("ACTIONS_STEP_DEBUG", "true"),
            ("RUST_BACKTRACE", "full"),
            ("GIT_TRACE", "1"),
            ("GIT_CURL_VERBOSE", "1"),
            ("GIT_TRACE_REDACT", "0"),
        ] {
            command.env(name, value);
        }
        command.env("GIT_TRACE_CURL", self.directory("work").join("curl.log"));
        command.envs(self.job.iter().map(|(name, value)| (*name, value.as_str())));
        let ran = Ran::of(command.output().unwrap());
        self.seen.push_str(&ran.out);
        self.seen.push_str(&ran.err);
        self.commands.insert(arguments[0].to_owned());
        ran
    }

    /// Runs every mode of the Action as a dispatcher's job, and then while the host answers everything with the token.
    fn modes(&mut self) {
        let actor = self.desk.github.account_id("cat");
        let run = self.desk.github.new_run(&NewRun {
            repository: OCTO_WIDGETS,
            workflow: "dispatcher.lock.yml",
            event: "workflow_dispatch",
            reference: "main",
            actor,
            title: None,
        });
        self.desk.github.start_run(run);
        let shown = self.desk.github.run(run).unwrap();
        let work = self.directory("work");
        let place = |name: &str| work.join(name).to_str().unwrap().to_owned();
        self.job = vec![
            ("GITHUB_REPOSITORY", OCTO_WIDGETS.to_owned()),
            ("GITHUB_RUN_ID", run.to_string()),
            ("GITHUB_RUN_ATTEMPT", "1".to_owned()),
            ("GITHUB_WORKFLOW_REF", format!("{OCTO_WIDGETS}/{}", shown.path)),
            ("GITHUB_SHA", shown.head_sha.clone()),
            ("GITHUB_EVENT_NAME", shown.event.clone()),
            ("GITHUB_ACTOR_ID", actor.to_string()),
            ("GH_AW_WORK_QUEUE_ENABLED", "true".to_owned()),
            ("GH_AW_WORK_QUEUE_ROLE", "dispatcher".to_owned()),
            ("GH_AW_WORK_QUEUE_SNAPSHOT", place("snapshot.json")),
            ("GH_AW_WORK_QUEUE_LAUNCH_TOKEN", CANARY.to_owned()),
            ("GH_AW_WORK_QUEUE_LAUNCH_CREDENTIAL", "authenticated".to_owned()),
            ("GITHUB_AW_OTEL_TRACE_ID", "1".repeat(32)),
            ("RUNNER_TEMP", place("runner")),
        ];
        for name in ["GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_STEP_SUMMARY"] {
            let file = self.file(name, "");
            self.job.push((name, file));
        }
        let modes: [&[&str]; 7] = [
            &["activation"],
            &["origin"],
            &["mcp"],
            &["tool", "work_queue_read", "{}"],
            &["collect"],
            &["safe-outputs"],
            &["conclusion"],
        ];
        for arguments in modes {
            let ran = self.run(arguments);
            assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        }
        for arguments in modes {
            self.fails(arguments, Faults::default().outage(1, 99, self.status()));
        }
        self.job.clear();
        let action = format!("octo/wq-action@{}", "a".repeat(40));
        assert_eq!(self.run(&["init", "--action-ref", &action, "--dir", "."]).code, 0);
    }

    fn counts(&self) -> Vec<u64> {
        ENDPOINTS.iter().map(|endpoint| self.desk.calls(&[*endpoint])).collect()
    }

    /// Runs a command that must succeed, and then once more while the host answers everything with the token.
    fn works(&mut self, arguments: &[&str]) -> Value {
        let before = self.counts();
        let mut all = arguments.to_vec();
        all.push("--json");
        let ran = self.run(&all);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        for (index, after) in self.counts().into_iter().enumerate().filter(|(index, after)| *after > before[*index]) {
            let _ = after;
            self.callers.retain(|(endpoint, _)| *endpoint != ENDPOINTS[index]);
            self.callers.push((ENDPOINTS[index], arguments.iter().map(|one| (*one).to_owned()).collect()));
        }
        if arguments[0] != "verify" {
            let faults = Faults::default().outage(1, 99, self.status());
            self.fails(arguments, faults);
        }
        serde_json::from_str(&ran.out).unwrap()
    }

    /// The next status of a failing run.
    fn status(&self) -> Strike {
        Strike::Echo([401, 403, 500][self.failed % 3])
    }

    fn fails(&mut self, arguments: &[&str], faults: Faults) {
        self.desk.github.faults(faults);
        self.run(arguments);
        self.desk.github.no_faults();
        self.failed += 1;
    }

    /// Each endpoint that was called fails alone, so that commands come to what is behind the first.
    fn endpoints_fail(&mut self) {
        for (endpoint, arguments) in std::mem::take(&mut self.callers) {
            let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            // A new request, where the old one would be found answered.
            let id = format!("again-{}", self.failed);
            if let Some(at) = arguments.iter().position(|argument| *argument == "--request-id") {
                arguments[at + 1] = &id;
            }
            self.fails(&arguments, Faults::default().and(endpoint, 1, 99, self.status()));
        }
    }

    /// Looks everywhere.
    fn search(&self) {
        let forms = forms();
        let holds = |text: &[u8]| forms.iter().any(|form| text.windows(form.len()).any(|part| part == form.as_bytes()));
        assert!(!holds(self.seen.as_bytes()), "output");
        let modes = PathBuf::from("/tmp/gh-aw");
        for directory in [self.directory("home"), self.directory("tmp"), self.directory("work"), modes] {
            let mut left = vec![directory];
            while let Some(path) = left.pop() {
                assert!(!holds(path.as_os_str().as_encoded_bytes()), "a name");
                match std::fs::read_dir(&path) {
                    Ok(entries) => left.extend(entries.map(|entry| entry.unwrap().path())),
                    // Tests beside this one may take away what is below `/tmp/gh-aw`.
                    Err(_) => assert!(!holds(&std::fs::read(&path).unwrap_or_default()), "{}", path.display()),
                }
            }
        }
        assert_eq!(std::fs::read_dir(self.directory("tmp")).unwrap().count(), 0, "every store is gone");
        assert!(!holds(self.desk.bare.ledger().as_bytes()), "the ledger");
        assert!(!holds(self.desk.bare.git(&["log", "-p", "--all", "--format=fuller"]).as_bytes()), "its history");
        let log = std::fs::read_to_string(self.directory("git.log")).unwrap();
        assert!(!log.contains(&forms[0]), "it is never plain in git's environment or arguments");
        assert!(!log.lines().any(|line| line == "leak"), "the store");
        let mut carried = 0;
        for line in log.lines().filter(|line| line.contains(&forms[1])) {
            assert!(line.starts_with("env GIT_CONFIG_VALUE_"), "only git's environment carries it");
            carried += 1;
        }
        assert!(carried > 20, "{carried}");
    }
}

/// The commands that `wq --help` lists and that can be pointed at GitHub.
fn every_command() -> BTreeSet<String> {
    let help = run(Path::new("/"), &["--help"]).out;
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = list.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    // The demo makes a repository of its own, and neither has use for a token.
    names
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .filter(|name| name != "demo" && name != "help")
        .collect()
}

/// S-658: a token never shows itself in arguments, output, diagnostics at their loudest, files, the store or the ledger,
/// whatever the command and however it ends, also where the host's error repeats it; git alone gets it, through its
/// environment, for the host's origin.
#[test]
fn publication_18_the_token_stays_where_it_belongs() {
    let mut watch = Watch::new();
    let node =
        |key: &str| format!(r#"{{"graph_id":"g","node_key":"{key}","payload":{{"task":"{key}"}},"depends_on":[]}}"#);
    let graph = watch.file("graph.json", &format!("[{},{},{}]", node("a"), node("b"), node("c")));
    let task = watch.file("task.json", r#"{"task":"t"}"#);
    watch.works(&["submit-graph", "--file", &graph, "--request-id", "graph"]);
    let submitted = watch.works(&["submit-work", "--file", &task, "--request-id", "task"]);
    let last = submitted["work_id"].as_str().unwrap().to_owned();
    let granted = watch.works(&["dispatch-next", "--request-id", "grant"]);
    let text = |member: &str| granted["claims"][0][member].as_str().unwrap().to_owned();
    let (claim, work, dispatch) = (text("claim_id"), text("work_id"), text("dispatch_id"));

    for arguments in [
        &["stats"][..],
        &["state"],
        &["replay"],
        &["explain", "--work-id", &work],
        &["inspect", "--claim-id", &claim],
        &["trace", "--request-id", "grant"],
    ] {
        watch.works(arguments);
        watch.run(arguments);
    }
    let ledger = watch.file("copy.jsonl", &watch.desk.bare.ledger());
    watch.works(&["verify", "--ledger", &ledger]);
    watch.run(&["doctor"]);
    watch.fails(&["doctor"], Faults::default().outage(1, 99, Strike::Echo(403)));
    watch.run(&["stats", "--branch", "other"]);

    watch.works(&["dispatch", "dispatcher", "--dry-run"]);
    watch.works(&["dispatch", "dispatcher"]);
    watch.works(&["evidence", "--dispatch-id", &dispatch]);
    watch.run(&["reconcile", "--dispatch-id", &dispatch]);
    watch.fails(&["reconcile", "--dispatch-id", &dispatch], Faults::default().outage(1, 99, Strike::Echo(401)));
    watch.desk.github.commit(OCTO_WIDGETS, "main", &[("README.md", Some("# More\n"))]);
    watch.works(&["deploy", "--from-config", "--request-id", "deploy"]);
    watch.works(&["reprioritize", "--work-id", &last, "--priority", "1", "--reason", "r", "--request-id", "first"]);
    watch.works(&["control", "pause", "grants", "--reason", "r", "--request-id", "pause"]);
    watch.works(&["cancel-work", "--work-id", &last, "--reason", "r", "--request-id", "cancel"]);
    watch.works(&["cancel-claim", "--claim-id", &claim, "--reason", "r", "--request-id", "revoke"]);
    watch.run(&["policy", "--from-config", "--epoch", "second", "--request-id", "policy"]);
    watch.fails(&["policy", "--from-config", "--epoch", "second"], Faults::default().outage(1, 99, Strike::Echo(500)));
    watch.works(&["compact"]);
    watch.modes();
    watch.endpoints_fail();

    assert_eq!(watch.commands, every_command());
    assert!(watch.failed > 25, "{} failing runs", watch.failed);
    watch.search();
}
