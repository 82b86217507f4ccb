//! An agent's desk: a snapshot that it reads, a folder that it stages in, and the tools in between.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use wq_action::agent::server::serve;
use wq_action::agent::tools::Toolbox;
use wq_action::jobs::agent::Setting;
use wq_action::protocol::Fault;

use crate::support::built::{DISPATCHER, Grant, Node, PRODUCER, Queue, aw_policy};
use crate::support::cli::Ran;
use crate::support::git::feed;

/// When the snapshots of these tests were captured.
pub(super) const CAPTURED: i64 = 5_000;

/// The usual Policy with a second accounting key and room for two Claims in one dispatch.
pub(super) fn policy() -> Value {
    let mut policy = aw_policy();
    policy["accounting_weights"] = json!({"": 1, "team": 3});
    policy["pools"]["default"]["profiles"]["default"]["max_claims"] = 2.into();
    policy
}

/// A queue with Work of every kind of waiting: `a` is ready, `b` waits for it, `c` for an Issue, `d` is urgent and of
/// another key.
pub(super) fn queue() -> Queue {
    let nodes = [Node::new("a"), Node::new("b").after("a"), Node::new("c").gate(7, "completed")];
    let mut queue = Queue::open(&policy(), &nodes);
    let urgent = Node::new("d").graph("other").priority(1).account("team").with("enqueued", 9);
    queue.submit(PRODUCER, 1_100, &[urgent]).unwrap();
    queue
}

/// A snapshot of a queue.
pub(super) fn snapshot(queue: &Queue, origin: &str, worker: Option<&Grant>) -> Value {
    let assignment = worker.map(|grant| queue.state.dispatch(&grant.dispatch).unwrap().assignment.canonical());
    let assignment = assignment.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap());
    json!({"version": 3, "sha": "1".repeat(40), "transactionLog": queue.text, "worker": assignment,
        "captured_at": CAPTURED, "origin": serde_json::from_str::<Value>(origin).unwrap()})
}

/// A dispatcher's snapshot of [`queue`].
pub(super) fn dispatcher() -> Value {
    snapshot(&queue(), DISPATCHER, None)
}

/// The snapshot of a worker of this many Claims in one dispatch, bound, and its grants.
pub(super) fn worker(claims: usize) -> (Value, Vec<Grant>) {
    let nodes: Vec<Node> = ["a", "e"][..claims].iter().map(|key| Node::new(key)).collect();
    let mut queue = Queue::open(&policy(), &nodes);
    let grants = queue.grant(2_000, u32::try_from(claims).unwrap(), 1).unwrap();
    assert_eq!(grants.len(), claims);
    queue.start(&grants[0], 2_001).unwrap();
    queue.bind(&grants[0], 2_002).unwrap();
    (snapshot(&queue, &origin(&grants[0]), Some(&grants[0])), grants)
}

/// The origin of a worker's run: no Claim of it in particular.
pub(super) fn origin(grant: &Grant) -> String {
    let mut origin: Value = serde_json::from_str(&grant.worker()).unwrap();
    origin.as_object_mut().unwrap().remove("claim_handle");
    origin.to_string()
}

/// A snapshot of an absent queue.
pub(super) fn absent(role: &str) -> Value {
    let origin = if role == "observer" { PRODUCER } else { DISPATCHER };
    json!({"version": 3, "sha": null, "transactionLog": "", "worker": null, "captured_at": CAPTURED,
        "origin": serde_json::from_str::<Value>(origin).unwrap(), "role": role})
}

/// The desk.
pub(super) struct Desk {
    folder: TempDir,
    role: &'static str,
    next: Cell<u8>,
}

/// What a call came to: the tool's answer, or JSON-RPC code and message.
pub(super) type Called = Result<Value, (i64, String)>;

impl Desk {
    pub(super) fn new(role: &'static str, snapshot: &Value) -> Self {
        let desk = Self { folder: tempfile::tempdir().unwrap(), role, next: Cell::new(0) };
        std::fs::write(desk.snapshot(), format!("{snapshot}\n")).unwrap();
        desk
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn snapshot(&self) -> PathBuf {
        self.path().join("snapshot.json")
    }

    /// Folder of the staged files.
    pub(super) fn staging(&self) -> PathBuf {
        self.path().join("gh-aw/safeoutputs/work-queue")
    }

    pub(super) fn intents(&self) -> PathBuf {
        self.staging().join("work-queue.intents.jsonl")
    }

    pub(super) fn finish(&self) -> PathBuf {
        self.staging().join("work-queue.finish.jsonl")
    }

    /// The variables of the server's container.
    fn variables(&self) -> [(&'static str, String); 3] {
        [
            ("GH_AW_WORK_QUEUE_ROLE", self.role.to_owned()),
            ("RUNNER_TEMP", self.path().display().to_string()),
            ("GH_AW_WORK_QUEUE_SNAPSHOT", self.snapshot().display().to_string()),
        ]
    }

    fn setting(&self) -> Setting {
        let variables = self.variables();
        let lookup = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
        Setting::of(&lookup).unwrap()
    }

    /// Opens the tools as they would open in a new process, and does something with them.
    pub(super) fn open<T>(&self, act: impl FnOnce(&mut Toolbox<'_>) -> T) -> Result<T, Fault> {
        // Ids count up, so that transcripts are the same on every run.
        let random = |buffer: &mut [u8]| {
            buffer.fill(self.next.get());
            self.next.set(self.next.get().wrapping_add(1));
            Ok(())
        };
        let mut toolbox = self.setting().open(&random)?;
        Ok(act(&mut toolbox))
    }

    /// What the server writes for this input.
    pub(super) fn serve(&self, input: &[u8]) -> String {
        let mut output = Vec::new();
        self.open(|toolbox| serve(toolbox, input, &mut output).unwrap()).unwrap();
        String::from_utf8(output).unwrap()
    }

    /// Each answer of the server.
    pub(super) fn answers(&self, input: &[u8]) -> Vec<Value> {
        self.serve(input).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Calls a tool through the server.
    pub(super) fn call(&self, tool: &str, arguments: &Value) -> Called {
        self.call_text(tool, &arguments.to_string())
    }

    /// The same with arguments of any spelling.
    pub(super) fn call_text(&self, tool: &str, arguments: &str) -> Called {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
        );
        let answers = self.answers(format!("{line}\n").as_bytes());
        let [answer] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!((&answer["id"], &answer["jsonrpc"]), (&json!(1), &json!("2.0")));
        if let Some(error) = answer.get("error") {
            return Err((error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned()));
        }
        assert_eq!(answer["result"]["isError"], false);
        let [content] = &answer["result"]["content"].as_array().unwrap()[..] else { panic!("{answer}") };
        assert_eq!(content["type"], "text");
        Ok(serde_json::from_str(content["text"].as_str().unwrap()).unwrap())
    }

    /// A call that succeeds.
    pub(super) fn ask(&self, tool: &str, arguments: &Value) -> Value {
        self.call(tool, arguments).unwrap_or_else(|error| panic!("{tool} {arguments}: {error:?}"))
    }

    /// A call that is refused: its JSON-RPC code and the word at the front of its message.
    pub(super) fn refused(&self, tool: &str, arguments: &Value) -> (i64, String) {
        match self.call(tool, arguments) {
            Ok(answer) => panic!("{tool} {arguments}: {answer}"),
            Err((code, message)) => (code, message.split(':').next().unwrap().to_owned()),
        }
    }

    /// The lines of a staged file.
    pub(super) fn staged(&self, path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The binary in the environment of the server's container.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = crate::support::cli::wq(self.path());
        command.args(arguments).envs(self.variables()).env("GH_AW_MCP_CLI_AUDIT_DIR", self.path().join("audit"));
        command
    }

    /// Runs the binary to the end of this input.
    pub(super) fn run(&self, arguments: &[&str], input: &[u8]) -> Ran {
        Ran::of(feed(self.command(arguments), input))
    }
}

/// A request as a line.
pub(super) fn line(id: i64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string() + "\n"
}
