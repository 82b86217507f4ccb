//! Agent-side modes open no connection, start no program, and give away nothing of their environment.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::json;

use super::desk::{Desk, dispatcher, line};
use crate::support::git::feed;
use crate::support::tell;

/// Variables that may hold a credential in a job.
const TOKENS: [&str; 12] = [
    "GH_AW_WORK_QUEUE_TOKEN",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_AW_WORK_QUEUE_DISPATCH_TOKEN",
    "ACTIONS_RUNTIME_TOKEN",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    "GH_AW_WORK_QUEUE_DEPENDENCY_READ_TOKEN_0",
    "GITHUB_MCP_SERVER_TOKEN",
    "SSH_AUTH_SOCK",
    "HTTPS_PROXY",
    "GIT_ASKPASS",
    "GH_ENTERPRISE_TOKEN",
];

fn conversation() -> Vec<u8> {
    let call = |id: i64, name: &str, arguments: serde_json::Value| {
        line(id, "tools/call", &json!({"name": name, "arguments": arguments}))
    };
    [
        line(0, "initialize", &json!({})),
        "garbage\n".to_owned(),
        line(1, "tools/list", &json!({})),
        call(2, "work_queue_read", json!({})),
        call(3, "work_queue_explain", json!({"work": "nothing"})),
        call(4, "work_queue_submit", json!({"nodes": [{"payload": {"task": "t"}}]})),
        call(5, "work_queue_dispatch_next", json!({"pool": "default", "max_claims": 1, "max_dispatches": 1})),
        call(6, "work_queue_claim_finish", json!({"outcome": "completed"})),
        call(7, "work_queue_read", json!({"pool": "elsewhere"})),
    ]
    .concat()
    .into_bytes()
}

/// True if system calls can be traced here. Where CI is set they must be.
pub(super) fn can_trace() -> bool {
    let traced = Command::new("strace").args(["-f", "-e", "trace=network", "true"]).output();
    let can = traced.is_ok_and(|output| output.status.success());
    assert!(can || std::env::var_os("CI").is_none(), "strace is missing or may not trace");
    if !can {
        tell!("skipped: strace is missing or may not trace, so no system call was seen");
    }
    can
}

/// O-006, S-506: traced over a whole conversation and over single calls, in an environment full of credentials and with
/// debug lines on, `mcp` and `tool` make no network call and run no other program; the only files that they open beyond the
/// system's are the snapshot, and for writing the staged files and the audit. No credential is in any output or file.
#[test]
fn agent_modes_stay_inside() {
    let secret = "sEcReT-credential-0123456789";
    let runs: [(&[&str], Vec<u8>); 4] = [
        (&["mcp"], conversation()),
        (&["tool", "work_queue_read", "{}"], Vec::new()),
        (&["tool", "work_queue_submit", r#"{"nodes":[{"payload":{"task":"t"}}]}"#], Vec::new()),
        (&["tool", "work_queue_claim_finish", r#"{"outcome":"completed"}"#], Vec::new()),
    ];
    let trace = can_trace();
    for (arguments, input) in runs {
        let desk = Desk::new("dispatcher", &dispatcher());
        let plain = desk.command(arguments);
        let log = desk.path().join("trace");
        let mut command = if trace {
            let mut command = Command::new("strace");
            command.args(["-f", "-qq", "-e", "trace=%network,%file,%process", "-o"]).arg(&log).arg(plain.get_program());
            command.args(plain.get_args()).current_dir(desk.path()).env_clear();
            command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command
        } else {
            plain
        };
        command.envs(TOKENS.map(|name| (name, secret))).env("DEBUG", "*").env("WQ_LOG", "trace");
        let output = feed(command, &input);
        for (what, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            assert!(!String::from_utf8_lossy(bytes).contains(secret), "{what} of {arguments:?}");
        }
        if trace {
            judge(&desk, &std::fs::read_to_string(&log).unwrap(), arguments);
            std::fs::remove_file(log).unwrap();
        }
        let mut folders = vec![desk.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                } else {
                    let bytes = std::fs::read(entry.path()).unwrap();
                    assert!(!String::from_utf8_lossy(&bytes).contains(secret), "{:?}", entry.path());
                }
            }
        }
    }
}

/// Looks at every traced call.
fn judge(desk: &Desk, log: &str, arguments: &[&str]) {
    const NETWORK: [&str; 9] =
        ["socket(", "socketpair(", "connect(", "bind(", "listen(", "accept", "sendto(", "sendmsg(", "recvfrom("];
    let mut programs = 0;
    let mut opened: BTreeSet<String> = BTreeSet::new();
    for call in log.lines() {
        let call = call
            .split_once(' ')
            .map_or(call, |(pid, rest)| if pid.parse::<u32>().is_ok() { rest.trim_start() } else { call });
        assert!(!NETWORK.iter().any(|name| call.starts_with(name)), "{arguments:?}: {call}");
        if call.starts_with("execve(") {
            programs += 1;
        }
        assert!(!call.starts_with("fork(") && !call.starts_with("vfork("), "{call}");
        if call.starts_with("open") && !call.contains("ENOENT") {
            let path = call.split('"').nth(1).unwrap_or_default();
            let system = ["/etc/ld.so", "/lib", "/usr/lib", "/proc/self", "/sys/", "/dev/"]
                .iter()
                .any(|at| path.starts_with(at));
            if !system {
                opened.insert(path.to_owned());
            }
        }
    }
    assert_eq!(programs, 1, "{arguments:?}: a program was started");
    let own = [desk.snapshot(), desk.intents(), desk.finish(), desk.path().join("audit/work-queue.jsonl")]
        .map(|path| path.display().to_string());
    let foreign: Vec<_> = opened.iter().filter(|path| !own.contains(path)).collect();
    assert!(foreign.is_empty(), "{arguments:?}: {foreign:?}");
    assert!(opened.contains(&own[0]), "the snapshot was not seen: {opened:?}");
}
