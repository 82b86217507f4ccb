//! What a git process sees of its surroundings.

use std::process::Command;
use std::sync::Arc;

use wq_action::ledger::{Bounds, Branch, Environment, Git, Remote, Store, read_head};
use wq_action::protocol::Token;

use crate::support::git::{Bare, executable, real_git};

const SECRET: &str = "ghs_averysecrettoken0123456789";

/// Writes what it was given into files beside itself, then refuses to work.
const SPY: &str = "#!/bin/sh\nif [ \"$1\" = version ]; then echo git version 2.47.3; exit 0; fi\n\
    here=${0%/*}\n\
    env > \"$here/environment\"\nprintf '%s\\n' \"$@\" > \"$here/arguments\"\npwd > \"$here/directory\"\nexit 1\n";

struct Seen {
    environment: String,
    arguments: String,
    directory: String,
}

fn spy(environment: impl FnOnce(&str) -> Environment, remote: Remote, token: Option<&str>) -> Seen {
    let directory = tempfile::tempdir().unwrap();
    executable(directory.path(), "git", SPY);
    let environment = environment(&format!("{}:/usr/bin:/bin", directory.path().display()));
    let credential = token.map(|token| {
        let token = Token::new(token).unwrap();
        Arc::new(move || Ok(token.clone())) as wq_action::protocol::TokenProvider
    });
    let transport = Git::find(environment).unwrap().transport(remote, credential, Bounds::default());
    let store = Store::new().unwrap();
    let error = read_head(&transport, &store, &Branch::default()).unwrap_err();
    assert!(!format!("{transport:?} {error:?} {error}").contains(SECRET));
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    for entry in walk(store.directory()) {
        assert!(!String::from_utf8_lossy(&std::fs::read(entry).unwrap()).contains(SECRET), "nothing in the store");
    }
    Seen { environment: read("environment"), arguments: read("arguments"), directory: read("directory") }
}

fn walk(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(directory)
        .unwrap()
        .flat_map(|entry| {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path) } else { vec![path] }
        })
        .collect()
}

fn value<'a>(environment: &'a str, name: &str) -> Option<&'a str> {
    environment.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// O-005: the environment is empty but for the fixed variables, and a local remote never sees a credential.
#[test]
fn the_environment_is_the_fixed_list() {
    let bare = Bare::new();
    let seen = spy(|path| Environment::with_path(path.as_ref()), bare.remote(), Some(SECRET));
    let mut names: Vec<_> = seen.environment.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.retain(|name| !matches!(*name, "PWD" | "SHLVL" | "_" | "OLDPWD"));
    names.sort_unstable();
    let expected = [
        "GIT_ALLOW_PROTOCOL",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_NO_LAZY_FETCH",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OPTIONAL_LOCKS",
        "GIT_TERMINAL_PROMPT",
        "HOME",
        "LC_ALL",
        "PATH",
    ];
    assert_eq!(names, expected);
    assert_eq!(value(&seen.environment, "GIT_ALLOW_PROTOCOL"), Some("file"));
    assert_eq!(value(&seen.environment, "GIT_CONFIG_GLOBAL"), Some("/dev/null"));
    let home = value(&seen.environment, "HOME").unwrap();
    assert_eq!(home, seen.directory.trim(), "git runs and lives in the store");
    assert!(home.contains("wq-store-"));
    for setting in ["core.hooksPath=/dev/null", "credential.helper=", "http.followRedirects=false", "gc.auto=0"] {
        assert!(seen.arguments.lines().any(|line| line == setting), "{setting}");
    }
}

/// O-005, S-658: the token is in the per-process configuration of an invocation to its exact host, base64-coded, and
/// in no argument.
#[test]
fn the_token_is_scoped_to_the_host() {
    let remote = Remote::url("https://git.example.com:8443/octo/queue.git").unwrap();
    let seen = spy(|path| Environment::with_path(path.as_ref()), remote, Some(SECRET));
    use base64::Engine as _;
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("x-access-token:{SECRET}"));
    assert!(!seen.arguments.contains(&pair) && !seen.arguments.contains(SECRET));
    assert_eq!(value(&seen.environment, "GIT_ALLOW_PROTOCOL"), Some("https"));
    let of = |name: &str| value(&seen.environment, name).unwrap().to_owned();
    assert_eq!(of("GIT_CONFIG_COUNT"), "3");
    assert_eq!((of("GIT_CONFIG_KEY_0"), of("GIT_CONFIG_VALUE_0")), ("http.extraheader".into(), String::new()));
    let exact = "http.https://git.example.com:8443/.extraheader";
    assert_eq!((of("GIT_CONFIG_KEY_1"), of("GIT_CONFIG_VALUE_1")), (exact.into(), String::new()));
    assert_eq!(
        (of("GIT_CONFIG_KEY_2"), of("GIT_CONFIG_VALUE_2")),
        (exact.into(), format!("AUTHORIZATION: basic {pair}"))
    );
    let count = seen.environment.matches(&pair).count();
    assert_eq!(count, 1);
}

/// O-005: nothing that the surrounding process has for git, ssh or a home directory gets through. The test runs itself
/// as a child, because the variables of a running process cannot be set safely.
#[test]
fn inherited_variables_stay_outside() {
    const INNER: &str = "WQ_TEST_INNER";
    if std::env::var_os(INNER).is_none() {
        let hostile = [
            "GIT_DIR",
            "GIT_WORK_TREE",
            "GIT_SSH",
            "GIT_SSH_COMMAND",
            "GIT_ASKPASS",
            "SSH_ASKPASS",
            "GIT_CONFIG_PARAMETERS",
            "GIT_OBJECT_DIRECTORY",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES",
            "GIT_TRACE_CURL",
            "GIT_EXEC_PATH",
            "GITHUB_TOKEN",
            "GH_TOKEN",
            "XDG_CONFIG_HOME",
            "GIT_CONFIG_SYSTEM",
            "GIT_PROXY_COMMAND",
            "GIT_TEMPLATE_DIR",
            "LD_LIBRARY_PATH_X",
        ];
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "git_environment::inherited_variables_stay_outside", "--nocapture"]);
        command.env(INNER, "1").env("HTTPS_PROXY", "http://proxy.invalid:1").env("GIT_CONFIG_COUNT", "1");
        command.env("GIT_CONFIG_KEY_0", "core.sshCommand").env("GIT_CONFIG_VALUE_0", "hostile-value");
        command.envs(hostile.iter().map(|name| (name, "hostile-value")));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    // The same allow-list as a real command's, with the spy first on the path.
    let environment = |path: &str| Environment::of_process().with_first(path.split(':').next().unwrap().as_ref());
    let seen = spy(environment, Bare::new().remote(), None);
    assert!(!seen.environment.contains("hostile-value"), "{}", seen.environment);
    assert_eq!(value(&seen.environment, "HTTPS_PROXY"), Some("http://proxy.invalid:1"));

    // And with the real git, a read works in spite of them.
    let bare = Bare::new();
    bare.seed(b"one\n");
    let transport = real_git().transport(bare.remote(), None, Bounds::default());
    read_head(&transport, &Store::new().unwrap(), &Branch::default()).expect("unharmed");
}

/// S-658: a token is one line of visible characters, and never shows itself.
#[test]
fn a_token_never_shows_itself() {
    let token = Token::new(SECRET).unwrap();
    assert!(!format!("{token:?}").contains(SECRET));
    for bad in ["", "a b", "a\nb", "ä", &"x".repeat(16 * 1024 + 1)] {
        assert!(Token::new(bad).is_err());
    }
}
