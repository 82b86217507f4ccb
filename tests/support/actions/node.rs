//! GitHub's own parser of workflows and evaluator of expressions, as one Node process for the whole test process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use serde_json::{Value, json};

/// Folder of the npm packages `@actions/workflow-parser` and `@actions/expressions`.
const PACKAGES: &str = "WQ_ACTIONS_PACKAGES";

struct Process {
    _child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

fn packages() -> Option<PathBuf> {
    let given = std::env::var_os(PACKAGES).map(PathBuf::from);
    let usual = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/actions-packages/node_modules");
    let found = given.or_else(|| usual.join("@actions/expressions").is_dir().then_some(usual));
    assert!(
        found.is_some() || std::env::var_os("CI").is_none(),
        "CI has the packages @actions/workflow-parser and @actions/expressions; {PACKAGES} names their folder"
    );
    found
}

/// Whether workflows can be executed here. Without the packages a test says so and does nothing.
pub(crate) fn available() -> bool {
    packages().is_some()
}

fn ask(request: &Value) -> Value {
    static NODE: OnceLock<Mutex<Process>> = OnceLock::new();
    let node = NODE.get_or_init(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/actions/evaluate.mjs");
        let mut child = Command::new("node")
            .arg(script)
            .arg(packages().expect("the packages are there"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node starts");
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Mutex::new(Process { _child: child, input, output })
    });
    let mut node = node.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    writeln!(node.input, "{request}").unwrap();
    let mut line = String::new();
    node.output.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

fn answered(request: &Value, member: &str) -> Value {
    let reply = ask(request);
    assert!(reply.get("errors").is_none(), "GitHub's packages refuse it: {}\n{request}", reply["errors"]);
    reply[member].clone()
}

/// The tree of a workflow file; an expression is `{"$": text}`.
pub(crate) fn workflow(text: &str) -> Value {
    answered(&json!({"op": "parse", "kind": "workflow", "text": text}), "tree")
}

/// What the parser has against a workflow file.
pub(crate) fn objections(text: &str) -> Vec<String> {
    let reply = ask(&json!({"op": "parse", "kind": "workflow", "text": text}));
    reply["errors"].as_array().into_iter().flatten().map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// The tree of an action file.
pub(crate) fn action(text: &str) -> Value {
    answered(&json!({"op": "parse", "kind": "action", "text": text}), "tree")
}

/// Which of the status functions hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Status {
    pub(crate) success: bool,
    pub(crate) failure: bool,
    pub(crate) cancelled: bool,
}

impl Status {
    fn json(self) -> Value {
        json!({"success": self.success, "failure": self.failure, "cancelled": self.cancelled})
    }
}

/// A tree with its expressions evaluated.
pub(crate) fn evaluate(tree: &Value, contexts: &Value, status: Status) -> Value {
    answered(&json!({"op": "evaluate", "tree": tree, "contexts": contexts, "status": status.json()}), "tree")
}

/// Whether an `if` holds.
pub(crate) fn condition(tree: Option<&Value>, contexts: &Value, status: Status) -> bool {
    let text = match tree {
        None | Some(Value::Null) => "true".to_owned(),
        Some(Value::Object(members)) => members["$"].as_str().unwrap().to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    // An absent condition is success().
    let text = if tree.is_none() { "success()".to_owned() } else { text };
    answered(&json!({"op": "condition", "text": text, "contexts": contexts, "status": status.json()}), "holds") == true
}
