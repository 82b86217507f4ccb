//! `action.yml` and its launcher `dist/run.sh`: which binary runs, with which arguments, and with which environment.
//! The binary here is a stand-in that tells both; the shells are those that runners and containers have.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::support::cli::Ran;
use crate::tree;

/// What stands in for the binary: each argument on a line, then the environment, one variable a record.
const BINARY: &str = "#!/bin/sh\nfor argument in \"$@\"; do printf 'argument %s\\n' \"$argument\"; done\nexec env -0\n";

/// A copy of the action as a release has it.
struct Action {
    directory: tempfile::TempDir,
}

/// What the binary was started with.
#[derive(Debug)]
struct Started {
    arguments: Vec<String>,
    variables: BTreeMap<String, String>,
}

impl Action {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let dist = directory.path().join("dist");
        std::fs::create_dir(&dist).unwrap();
        std::fs::create_dir(directory.path().join("temp")).unwrap();
        std::fs::copy(tree::root().join("dist/run.sh"), dist.join("run.sh")).unwrap();
        for name in ["wq-linux-x64", "wq-linux-arm64"] {
            std::fs::write(dist.join(name), BINARY).unwrap();
            std::fs::set_permissions(dist.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let action = Self { directory };
        action.seal();
        action
    }

    /// Writes the checksums of the binaries that are there.
    fn seal(&self) {
        let status = Command::new("sh")
            .args(["-c", "sha256sum wq-linux-* >SHA256SUMS"])
            .current_dir(self.dist())
            .status()
            .unwrap();
        assert!(status.success());
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn dist(&self) -> std::path::PathBuf {
        self.path().join("dist")
    }

    fn command(&self, shell: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(shell[0]);
        command.args(&shell[1..]).arg(self.dist().join("run.sh")).current_dir("/").env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("RUNNER_OS", "Linux").env("RUNNER_ARCH", "X64");
        command.env("RUNNER_TEMP", self.path().join("temp")).envs(variables.iter().copied());
        command
    }

    fn run(&self, variables: &[(&str, &str)]) -> Ran {
        Ran::of(self.command(&["sh"], variables).output().unwrap())
    }

    fn start(&self, variables: &[(&str, &str)]) -> Started {
        started(self.run(variables))
    }
}

fn started(ran: Ran) -> Started {
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    let mut arguments = Vec::new();
    let mut rest = ran.out.as_str();
    while let Some(line) = rest.strip_prefix("argument ") {
        let (argument, after) = line.split_once('\n').unwrap();
        arguments.push(argument.to_owned());
        rest = after;
    }
    let records = rest.split('\0').filter(|record| !record.is_empty());
    let variables = records.map(|record| record.split_once('=').unwrap());
    Started { arguments, variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect() }
}

impl Started {
    fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Names, without those that every shell sets.
    fn names(&self) -> BTreeSet<&str> {
        let shells = ["PWD", "OLDPWD", "SHLVL", "_"];
        self.variables.keys().map(String::as_str).filter(|name| !shells.contains(name)).collect()
    }
}

/// The shells of runners and containers that are there, each as it is started.
fn shells() -> Vec<Vec<&'static str>> {
    let all = [vec!["sh"], vec!["dash"], vec!["bash"], vec!["bash", "--posix"], vec!["busybox", "sh"]];
    all.into_iter().filter(|shell| Command::new(shell[0]).args(["-c", "true"]).output().is_ok()).collect()
}

const TRUSTED: [(&str, &str); 7] = [
    ("WQ_INPUT_MODE", "activation"),
    ("WQ_INPUT_TOKEN", "publisher"),
    ("GITHUB_RUN_ID", "42"),
    ("GITHUB_OUTPUT", "/dev/null"),
    ("GH_AW_WORK_QUEUE_ROLE", "worker"),
    ("GH_AW_WORK_QUEUE_POLICY_0", "{"),
    ("GH_AW_WORK_QUEUE_DEPENDENCY_READ_TOKEN_3", "foreign"),
];

/// The environment of a trusted mode is what the job names of a fixed list, and the inputs; no ambient token, secret,
/// loader or shell variable comes along, whatever its name or value looks like, in any shell.
#[test]
fn only_named_variables_arrive() {
    let action = Action::new();
    let hostile = [
        ("GITHUB_TOKEN", "ambient"),
        ("GH_AW_WORK_QUEUE_TOKEN", "ambient"),
        ("GH_AW_WORK_QUEUE_LAUNCH_TOKEN", "ambient"),
        ("ACTIONS_RUNTIME_TOKEN", "ambient"),
        ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ambient"),
        ("LD_PRELOAD_", "x"),
        ("GIT_DIR", "/elsewhere"),
        ("GIT_CONFIG_GLOBAL", "/elsewhere"),
        ("NPM_TOKEN", "ambient"),
        ("INPUT_MY-INPUT", "odd name"),
        ("with.dot", "odd name"),
        ("BASH_FUNC_helper%%", "() { echo taken; }"),
        ("MULTILINE", "a\nGITHUB_SHA=forged\nexport PATH=/forged\ndeclare -x HOME=\"/forged\""),
        ("GH_AW_WORK_QUEUE_POLICY_0x", "no number"),
        ("GH_AW_WORK_QUEUE_STORAGE", "issues"),
        ("SHELLOPTS", "braceexpand"),
    ];
    let expected = BTreeSet::from([
        "PATH",
        "RUNNER_OS",
        "RUNNER_ARCH",
        "RUNNER_TEMP",
        "GITHUB_RUN_ID",
        "GITHUB_OUTPUT",
        "GH_TOKEN",
        "GH_AW_WORK_QUEUE_ENABLED",
        "GH_AW_WORK_QUEUE_ROLE",
        "GH_AW_WORK_QUEUE_POLICY_0",
        "GH_AW_WORK_QUEUE_DEPENDENCY_READ_TOKEN_3",
    ]);
    for shell in shells() {
        let output = action.command(&shell, &[&TRUSTED[..], &hostile[..]].concat()).output().unwrap();
        let started = started(Ran::of(output));
        assert_eq!(started.names(), expected, "{shell:?}");
        assert_eq!(started.get("GH_TOKEN"), Some("publisher"));
        assert_eq!(started.get("GH_AW_WORK_QUEUE_ENABLED"), Some("true"));
        assert_eq!(started.get("PATH"), std::env::var("PATH").ok().as_deref());
        assert_eq!(started.arguments, ["activation"]);
    }
}

/// Values arrive as they are, whatever is in them: quotes, line breaks, expressions of a shell, long texts.
#[test]
fn values_are_never_read() {
    let action = Action::new();
    let long = "x".repeat(100_000);
    for value in ["a'b\"c", "$(touch /tmp/never) `id` ${HOME}", "two\nlines\n", "-n", "* ?", "\\n", " ", &long] {
        let started = action.start(&[
            ("WQ_INPUT_MODE", "activation"),
            ("WQ_INPUT_POLICY", value),
            ("DEBUG", value),
            ("GITHUB_REF", value),
        ]);
        for name in ["GH_AW_WORK_QUEUE_POLICY", "DEBUG", "GITHUB_REF"] {
            assert_eq!(started.get(name), Some(value), "{name}");
        }
    }
}

/// Each input has one variable, an empty one leaves the job's own, and a given one wins over it.
#[test]
fn every_input_has_its_variable() {
    let action = Action::new();
    let controls = [("WQ_INPUT_MODE", "safe-outputs"), ("WQ_INPUT_PHASE", "controls")];
    for (input, variable) in [
        ("ROLE", "GH_AW_WORK_QUEUE_ROLE"),
        ("TOKEN", "GH_TOKEN"),
        ("LAUNCH_TOKEN", "GH_AW_WORK_QUEUE_LAUNCH_TOKEN"),
        ("LAUNCH_CREDENTIAL", "GH_AW_WORK_QUEUE_LAUNCH_CREDENTIAL"),
        ("LAUNCH_APP_SLUG", "GH_AW_WORK_QUEUE_LAUNCH_APP_SLUG"),
        ("READ_CREDENTIALS", "GH_AW_WORK_QUEUE_DEPENDENCY_READ_CREDENTIALS"),
        ("CONTRACT", "GH_AW_WORK_QUEUE_CONTRACT"),
        ("DISPATCH_BUDGET", "GH_AW_WORK_QUEUE_DISPATCH_BUDGET"),
        ("POLICY", "GH_AW_WORK_QUEUE_POLICY"),
        ("ORIGIN", "GH_AW_WORK_QUEUE_INTENT_ORIGIN"),
        ("SNAPSHOT", "GH_AW_WORK_QUEUE_SNAPSHOT"),
        ("VISIBLE_WORK", "GH_AW_WORK_QUEUE_VISIBLE_WORK"),
        ("STAGED", "GH_AW_SAFE_OUTPUTS_STAGED"),
        ("BRANCH", "GH_AW_WORK_QUEUE_BRANCH"),
        ("REQUIRE_ASSIGNMENT", "GH_AW_WORK_QUEUE_REQUIRE_ASSIGNMENT"),
        ("ISSUES", "GH_AW_WORK_QUEUE_ISSUES"),
        ("JOB_RESULTS", "GH_AW_WORK_QUEUE_JOB_RESULTS"),
    ] {
        let (value, own) = if input == "STAGED" { ("false", "true") } else { ("given", "job's") };
        let input = format!("WQ_INPUT_{input}");
        let given = action.start(&[&controls[..], &[(&input, value), (variable, own)]].concat());
        assert_eq!(given.get(variable), Some(value), "{input}");
        assert_eq!(given.arguments[..3], ["safe-outputs", "--phase", "controls"]);
        assert_eq!(
            given.arguments.get(3).map(String::as_str),
            (input == "WQ_INPUT_BRANCH").then_some("--branch=given")
        );
        let absent = action.start(&[&controls[..], &[(&input, ""), (variable, own)]].concat());
        let credential = variable.contains("LAUNCH") || variable == "GH_TOKEN";
        assert_eq!(absent.get(variable), if credential { None } else { Some(own) }, "{input}");
        assert_eq!(absent.get(&input), None);
    }
    let listed = action.start(&[&controls[..], &[("WQ_INPUT_WORKFLOWS", "worker, reviewer\n b.2 ")]].concat());
    let lists = "[\"worker\",\"reviewer\",\"b.2\"]";
    let config =
        format!("{{\"aw_context_workflows\":{lists},\"work_queue_enabled\":true,\"work_queue_workflows\":{lists}}}");
    assert_eq!(listed.get("GH_AW_WORK_QUEUE_CONTROL_CONFIG"), Some(config.as_str()));
    for bad in ["a\"b", "../a", "a/b", "*", "$(id)"] {
        let ran = action.run(&[&controls[..], &[("WQ_INPUT_WORKFLOWS", bad)]].concat());
        assert_eq!(ran.code, 2, "{bad}: {ran:?}");
        assert!(!ran.err.contains(bad));
    }
    let both = [("WQ_INPUT_WORKFLOWS", "a"), ("GH_AW_WORK_QUEUE_CONTROL_CONFIG", "{}")];
    assert_eq!(action.run(&[&controls[..], &both[..]].concat()).code, 2);
}

/// S-435, S-655, S-663: the modes of the agent's side get no token, no repository and no event, whatever the step gives them; the
/// launch credential reaches the controls phase alone, and no preview.
#[test]
fn credentials_stay_where_they_belong() {
    let action = Action::new();
    let credentials = [
        ("WQ_INPUT_TOKEN", "publisher"),
        ("WQ_INPUT_LAUNCH_TOKEN", "launcher"),
        ("GH_AW_WORK_QUEUE_DEPENDENCY_READ_TOKEN_0", "foreign"),
        ("GH_TOKEN", "ambient"),
        ("GITHUB_EVENT_PATH", "/event"),
    ];
    let mode = |name: &'static str, more: &[(&str, &str)]| {
        action.start(&[&credentials[..], &[("WQ_INPUT_MODE", name)], more].concat())
    };
    for name in ["mcp", "collect"] {
        let started = mode(name, &[]);
        assert_eq!(started.arguments, [name]);
        let held: Vec<_> = started
            .variables
            .values()
            .filter(|value| ["publisher", "launcher", "foreign", "ambient"].contains(&value.as_str()))
            .collect();
        assert!(held.is_empty(), "{name}: {held:?}");
    }
    assert_eq!(mode("mcp", &[]).get("GITHUB_EVENT_PATH"), None);
    let tool = mode("tool", &[("WQ_INPUT_TOOL", "work_queue_read"), ("WQ_INPUT_ARGUMENTS", "{\"limit\":1}")]);
    assert_eq!(tool.arguments, ["tool", "work_queue_read", "{\"limit\":1}"]);
    assert_eq!(mode("tool", &[("WQ_INPUT_TOOL", "work_queue_read")]).arguments, ["tool", "work_queue_read", "{}"]);

    let launcher = |mode_name: &'static str, more: &[(&str, &str)]| {
        mode(mode_name, more).get("GH_AW_WORK_QUEUE_LAUNCH_TOKEN").map(str::to_owned)
    };
    assert_eq!(launcher("safe-outputs", &[("WQ_INPUT_PHASE", "controls")]).as_deref(), Some("launcher"));
    assert_eq!(launcher("safe-outputs", &[]).as_deref(), Some("launcher"), "all phases in one step");
    for phase in ["settle", "deliver"] {
        assert_eq!(launcher("safe-outputs", &[("WQ_INPUT_PHASE", phase)]), None);
    }
    for name in ["activation", "origin", "conclusion"] {
        assert_eq!(launcher(name, &[]), None);
    }
    for staged in ["WQ_INPUT_STAGED", "GH_AW_SAFE_OUTPUTS_STAGED"] {
        assert_eq!(launcher("safe-outputs", &[("WQ_INPUT_PHASE", "controls"), (staged, "true")]), None);
    }
}

/// No variable of the job, and no line of one that looks like a variable, changes what a step does: names that the
/// launcher uses itself are let go before it begins.
#[test]
fn variables_of_the_job_change_no_step() {
    let action = Action::new();
    let names =
        ["phase", "mode", "token", "role", "keep", "trusted", "binary", "staged", "launch_token", "own", "OPTIND"];
    let lines: String = names.iter().map(|name| format!("{name}=1\n")).collect();
    let mut job = vec![("BODY", lines.as_str())];
    job.extend(names.iter().map(|name| (*name, "1")));
    for variables in [&job[..1], &job[..]] {
        let mut all = variables.to_vec();
        all.extend([
            ("WQ_INPUT_MODE", "safe-outputs"),
            ("WQ_INPUT_PHASE", "settle"),
            ("WQ_INPUT_LAUNCH_TOKEN", "launcher"),
        ]);
        let started = action.start(&all);
        assert_eq!(started.arguments, ["safe-outputs", "--phase", "settle"]);
        assert_eq!(started.get("GH_AW_WORK_QUEUE_LAUNCH_TOKEN"), None);
        assert_eq!((started.get("phase"), started.get("launch_token")), (None, None));
    }
    let refused = action.run(&[("WQ_INPUT_MODE", "safe-outputs"), ("WQ_INPUT_STAGED", "TRUE")]);
    assert!(refused.code == 2 && refused.err.contains("neither true nor false"), "{refused:?}");
}

/// A binary that is not the released one, an absent one, an unknown machine and a wrong input are refused with one
/// annotation that says what to do, and nothing is started.
#[test]
fn what_is_wrong_is_refused() {
    let refused = |action: &Action, variables: &[(&str, &str)], words: &str| {
        let ran = action.run(variables);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        assert!(ran.err.starts_with("::error title=Work queue::") && ran.err.lines().count() == 1, "{ran:?}");
        assert!(ran.err.contains(words), "{ran:?}");
    };
    let action = Action::new();
    refused(&action, &[], "The input mode is missing.");
    refused(&action, &[("WQ_INPUT_MODE", "stats")], "The input mode is not known.");
    refused(&action, &[("WQ_INPUT_MODE", "activation; id")], "The input mode is not known.");
    refused(&action, &[("WQ_INPUT_MODE", "activation"), ("WQ_INPUT_PHASE", "settle")], "belongs to mode safe-outputs");
    refused(&action, &[("WQ_INPUT_MODE", "safe-outputs"), ("WQ_INPUT_PHASE", "all")], "none of settle, controls");
    refused(&action, &[("WQ_INPUT_MODE", "activation"), ("RUNNER_OS", "Windows")], "Linux runners");
    refused(&action, &[("WQ_INPUT_MODE", "activation"), ("RUNNER_ARCH", "X86")], "no binary for this processor");
    std::fs::write(action.dist().join("wq-linux-x64"), format!("{BINARY}\n# changed\n")).unwrap();
    refused(&action, &[("WQ_INPUT_MODE", "activation")], "not the one that was released");
    assert_eq!(action.start(&[("WQ_INPUT_MODE", "activation"), ("RUNNER_ARCH", "ARM64")]).arguments, ["activation"]);
    std::fs::write(action.dist().join("SHA256SUMS"), "").unwrap();
    refused(&action, &[("WQ_INPUT_MODE", "activation"), ("RUNNER_ARCH", "ARM64")], "not the one that was released");
    std::fs::remove_file(action.dist().join("SHA256SUMS")).unwrap();
    refused(&action, &[("WQ_INPUT_MODE", "activation")], "holds no binaries");
}

/// It starts under another user, from files that this user cannot change or execute, in any directory, without HOME.
#[test]
fn another_user_can_start_it() {
    let action = Action::new();
    std::fs::set_permissions(action.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(action.path().join("temp"), std::fs::Permissions::from_mode(0o1777)).unwrap();
    for modes in [0o755, 0o644] {
        for name in ["wq-linux-x64", "run.sh"] {
            std::fs::set_permissions(action.dist().join(name), std::fs::Permissions::from_mode(modes)).unwrap();
        }
        let mut command = action.command(&["sh"], &[("WQ_INPUT_MODE", "conclusion")]);
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        assert_eq!(started(Ran::of(command.output().unwrap())).arguments, ["conclusion"], "{modes:o}");
    }
}

/// Mode install puts the verified binary, and the agent's command line for its tools, where the agent finds both.
#[test]
fn install_gives_the_agent_its_tools() {
    let action = Action::new();
    let file = |name: &str| action.path().join(name);
    let (output, path) = (file("output"), file("path"));
    let variables = [
        ("WQ_INPUT_MODE", "install"),
        ("WQ_INPUT_TOKEN", "publisher"),
        ("GITHUB_OUTPUT", output.to_str().unwrap()),
        ("GITHUB_PATH", path.to_str().unwrap()),
    ];
    for _ in 0..2 {
        assert_eq!(action.run(&variables).code, 0);
    }
    let base = file("temp").join("gh-aw");
    let installed = base.join("bin/wq");
    assert_eq!(std::fs::read_to_string(&installed).unwrap(), BINARY);
    assert_eq!(std::fs::metadata(&installed).unwrap().permissions().mode() & 0o777, 0o555);
    let told = std::fs::read_to_string(&output).unwrap();
    assert!(told.starts_with(&format!("wq-path={}\n", installed.display())));
    let added = std::fs::read_to_string(&path).unwrap();
    assert!(added.starts_with(&format!("{}\n{}\n", base.join("bin").display(), base.join("mcp-cli/bin").display())));
    let mut command = Command::new(base.join("mcp-cli/bin/work-queue"));
    let called = command.args(["work_queue_read", "{\"a\": \"b c\"}"]).env_clear().output().unwrap();
    assert!(
        String::from_utf8_lossy(&called.stdout)
            .starts_with("argument tool\nargument work_queue_read\nargument {\"a\": \"b c\"}\n")
    );
}

/// What `dist/build.sh` made, where `WQ_DIST` names its folder: the sums hold, the binary of this machine is at most 10 MB,
/// asks for no loader of libraries, and tells its version within 10 ms.
#[test]
fn a_built_binary_is_small_static_and_quick() {
    let Some(folder) = std::env::var_os("WQ_DIST").map(std::path::PathBuf::from) else {
        println!("skipped: WQ_DIST is not set");
        return;
    };
    let sums =
        Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(&folder).output().unwrap();
    assert!(sums.status.success());
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let binary = folder.join(format!("wq-linux-{machine}"));
    let bytes = std::fs::read(&binary).unwrap();
    assert!(bytes.len() <= 10_000_000, "{} bytes", bytes.len());
    // The program headers of a 64-bit little-endian ELF file: none names an interpreter (type 3).
    let word = |at: usize, width: usize| {
        bytes[at..at + width].iter().rev().fold(0_usize, |value, byte| value << 8 | usize::from(*byte))
    };
    assert_eq!(&bytes[..6], b"\x7fELF\x02\x01");
    let (start, size, count) = (word(32, 8), word(54, 2), word(56, 2));
    assert!(count > 0 && (0..count).all(|header| word(start + header * size, 4) != 3), "it needs a loader");
    let quickest = (0..20).map(|_| {
        let started = std::time::Instant::now();
        let output = Command::new(&binary).arg("--version").env_clear().output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("wq {}\n", env!("CARGO_PKG_VERSION")));
        started.elapsed()
    });
    let quickest = quickest.min().unwrap();
    assert!(quickest.as_millis() <= 10, "{quickest:?}");
}

/// The build script says what it takes, and refuses what it does not know before it does anything.
#[test]
fn the_build_script_says_what_it_takes() {
    let script = tree::root().join("dist/build.sh");
    let help = Ran::of(Command::new("bash").arg(&script).arg("--help").output().unwrap());
    assert_eq!(help.code, 0);
    for word in ["--target", "x86_64|aarch64|all", "--offline", "--musl-only", "SHA256SUMS", "rustup"] {
        assert!(help.out.contains(word), "{word}");
    }
    for wrong in [vec!["--target", "riscv"], vec!["--target"], vec!["--now"]] {
        let ran = Ran::of(Command::new("bash").arg(&script).args(&wrong).output().unwrap());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{wrong:?}");
    }
}

/// The action's text: every input is mapped by hand in `env`, none stands in what the shell reads, and the outputs are
/// the protocol's (jobs.md 8).
#[test]
fn inputs_reach_the_shell_through_the_environment_alone() {
    let text = std::fs::read_to_string(tree::root().join("action.yml")).unwrap();
    let section = |from: &str, to: &str| {
        let start = text.find(from).unwrap();
        let end = text[start..].find(to).map_or(text.len(), |end| start + end);
        &text[start..end]
    };
    let names = |section: &str| -> BTreeSet<String> {
        let keys =
            section.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ") && line.ends_with(':'));
        keys.map(|line| line.trim().trim_end_matches(':').to_owned()).collect()
    };
    let inputs = names(section("\ninputs:", "\noutputs:"));
    let mut mapped = BTreeSet::new();
    for line in section("\n      env:", "\nnothing").lines() {
        let Some((variable, value)) = line.trim().split_once(": ${{ ") else { continue };
        let value = value.strip_suffix(" }}").unwrap();
        // The tokens alone depend on the mode: the agent's modes have none, not even the launcher's shell.
        let guarded = value.split_once(" && ").map(|(guard, rest)| (guard, rest.strip_suffix(" || ''").unwrap()));
        let value = match guarded {
            Some((guard, token)) => {
                assert!(
                    guard.contains("inputs.mode") && !guard.contains("collect") && token.ends_with("token"),
                    "{line}"
                );
                token
            }
            None => value,
        };
        assert_eq!(guarded.is_some(), value.ends_with("token"), "{line}");
        let input = value.strip_prefix("inputs.").unwrap();
        assert_eq!(variable, format!("WQ_INPUT_{}", input.to_uppercase().replace('-', "_")));
        mapped.insert(input.to_owned());
    }
    assert_eq!(inputs, mapped);
    assert_eq!(section("\nruns:", "\nnothing").matches("${{ ").count(), mapped.len());
    let run = text.lines().find_map(|line| line.trim().strip_prefix("run: ")).unwrap();
    assert_eq!(run, "exec sh \"$GITHUB_ACTION_PATH/dist/run.sh\"");
    for output in [
        "work_queue_origin",
        "claim_authorizations",
        "work_queue_requests",
        "work_queue_controls_status",
        "work_queue_outcome",
        "claim_results",
        "claim_scope_errors",
        "work_queue_prompt",
        "wq-path",
    ] {
        assert!(names(section("\noutputs:", "\nruns:")).contains(output), "{output}");
        assert!(text.contains(&format!("value: ${{{{ steps.wq.outputs.{output} }}}}")));
    }
    let launcher = std::fs::read_to_string(tree::root().join("dist/run.sh")).unwrap();
    let read = |input: &String| launcher.contains(&format!("WQ_INPUT_{}:-", input.to_uppercase().replace('-', "_")));
    assert!(inputs.iter().all(read));
    // docs/ACTION.md names each of them.
    let guide = std::fs::read_to_string(tree::root().join("docs/ACTION.md")).unwrap();
    assert!(inputs.iter().all(|input| guide.contains(&format!("`{input}`"))));
}
