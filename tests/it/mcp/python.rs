//! The Python package `mcp`, as a client of ours.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::desk::{Desk, absent, dispatcher, worker};
use crate::support::tell;

/// A Python that has the package: `WQ_PYTHON_MCP`, or the one that `.ci/run` installs.
fn python() -> Option<PathBuf> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/target/python-mcp/bin/python");
    let python = std::env::var_os("WQ_PYTHON_MCP").map_or_else(|| PathBuf::from(own), PathBuf::from);
    let imports = Command::new(&python).args(["-c", "import mcp"]).stderr(Stdio::null()).status();
    if imports.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    assert!(std::env::var_os("CI").is_none(), "there is no Python with the package mcp");
    tell!("skipped: there is no Python with the package mcp; set WQ_PYTHON_MCP or run .ci/run");
    None
}

fn talk(python: &PathBuf, desk: &Desk, calls: &Value) -> Value {
    let mut command = desk.command(&[]);
    let variables: Vec<_> =
        command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
    command = Command::new(python);
    command.envs(variables).arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/client.py"));
    let output = command.arg(env!("CARGO_BIN_EXE_wq")).arg(calls.to_string()).output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{err}");
    serde_json::from_str(&out).unwrap()
}

/// S-510, O-215, O-216: a real client initializes, lists and calls every tool of each role.
#[test]
fn the_python_client_lists_and_calls_all_tools() {
    let Some(python) = python() else { return };
    let reads = json!([["work_queue_read", {}], ["work_queue_explain", {"work": "nothing"}]]);
    let writes = json!([
        ["work_queue_submit", {"nodes": [{"payload": {"task": "é😀"}, "node_key": "child"}]}],
        ["work_queue_dispatch_next", {"pool": "default", "max_claims": 1, "max_dispatches": 1}],
        ["work_queue_claim_finish", {"outcome": "completed"}],
    ]);
    let all = json!([reads.as_array().unwrap().as_slice(), writes.as_array().unwrap().as_slice()].concat());
    for (role, snapshot, finishes) in [
        ("observer", dispatcher(), false),
        ("observer", absent("observer"), false),
        ("dispatcher", dispatcher(), false),
        ("worker", worker(1).0, true),
    ] {
        let desk = Desk::new(role, &snapshot);
        let told = talk(&python, &desk, if role == "observer" { &reads } else { &all });
        let answers = told["answers"].as_array().unwrap();
        assert_eq!(told["tools"].as_array().unwrap().len(), answers.len());
        for (index, answer) in answers.iter().enumerate() {
            assert_eq!(answer["name"], told["tools"][index]);
            let staged = index >= 2;
            if staged && (index < 4 || finishes) {
                assert_eq!(answer["answer"]["status"], "staged", "{answer}");
            } else if staged {
                assert!(answer["error"].as_str().unwrap().contains("work_queue_assignment_required"), "{answer}");
            } else {
                assert_eq!(answer["answer"]["view"], "activation_snapshot", "{answer}");
            }
        }
    }
}
