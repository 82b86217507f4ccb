//! One call of one tool, for an agent that has a shell and no MCP (jobs.md 4.11): the same handler as the server's.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use crate::agent::catalog::Tool;
use crate::agent::rpc::Refusal;
use crate::agent::server::read_arguments;
use crate::agent::tools::Toolbox;
use crate::protocol::json::Writer;
use crate::protocol::{At, Wire as _};

/// Name of the audit file.
const AUDIT_FILE: &str = "work-queue.jsonl";
/// Longest audit file, in bytes; nothing is added beyond.
const MAX_AUDIT_BYTES: u64 = 4 * 1024 * 1024;

/// Runs a tool with the JSON object of its arguments. Returns the JSON object that it answers with.
///
/// # Errors
/// The refusals of `tools/call`.
pub fn call(toolbox: &mut Toolbox<'_>, name: &str, arguments: &str) -> Result<String, Refusal> {
    let tool = Tool::find(name, toolbox.role()).map_err(|message| Refusal { code: Refusal::NOT_FOUND, message })?;
    toolbox.call(tool, &read_arguments(arguments)?)
}

/// Appends one line to the audit file in this folder: when, which tool, how it ended. No arguments and no answers, and no
/// name that is not a tool's. What cannot be written is left out: the call's own outcome stands.
pub fn audit(folder: &Path, at: At, name: &str, outcome: &Result<String, Refusal>) {
    let tool = Tool::ALL.iter().find(|tool| tool.name() == name.replace('-', "_").to_lowercase());
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("at", |w| at.write(w));
        if let Err(refusal) = outcome {
            members.name("code", |w| w.integer(refusal.code));
        }
        members.name("event", |w| w.string("tool_call"));
        members.name("status", |w| w.string(if outcome.is_ok() { "ok" } else { "error" }));
        members.name("tool", |w| match tool {
            Some(tool) => w.string(tool.name()),
            None => w.raw("null"),
        });
    });
    let mut line = writer.finish();
    line.push('\n');
    let path = folder.join(AUDIT_FILE);
    // A link or a pipe in its place is no audit file.
    let usable = std::fs::symlink_metadata(&path).map_or(true, |at| at.is_file() && at.len() < MAX_AUDIT_BYTES);
    if usable && std::fs::create_dir_all(folder).is_ok() {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}
