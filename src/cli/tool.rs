//! `wq tool`.

use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;

use super::mcp::refused;
use super::{Failure, Reply, output};
use crate::agent::catalog::Tool;
use crate::agent::rpc::MAX_MESSAGE_BYTES;
use crate::jobs::agent::{Setting, random};
use crate::jobs::paths::BASE;
use crate::jobs::tool::{audit, call};
use crate::ports::{Clock as _, SystemClock};
use crate::protocol::json::Writer;
use crate::protocol::{Code, Fault};

/// Exit status of a call that was refused (decision 75).
const REFUSED: u8 = 1;

/// Call one of the agent's tools once, as the MCP server would, and print its JSON answer.
///
/// NAME is work_queue_read, work_queue_explain, work_queue_submit, work_queue_dispatch_next or work_queue_claim_finish; an
/// observer has the first two. `wq tool NAME --help` shows what a tool takes, with bounds and defaults, as its JSON Schema.
///
/// Environment: as of `wq mcp`; GH_AW_MCP_CLI_AUDIT_DIR names the folder of the audit file work-queue.jsonl [default:
/// /tmp/gh-aw/mcp-cli-audit], to which each call adds one line without its arguments, up to 4 MiB.
///
/// Exit status: 0 done; 1 refused, with `Error [CODE]: SENTENCE` on standard error; 2 for a missing or unknown role; 3 for a
/// snapshot that is refused.
#[derive(Clone, Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Name of the tool, in any case and with - for _.
    #[arg(value_name = "NAME", required_unless_present = "help")]
    name: Option<String>,
    /// The arguments as one JSON object of at most 10 MiB (10485760 bytes). Absent or `.`: read from standard input, where
    /// nothing means {}; a terminal is not read.
    #[arg(value_name = "JSON")]
    arguments: Option<String>,
    /// Print help; after NAME, that tool's schema.
    #[arg(short, long)]
    help: bool,
}

pub(crate) fn run(args: &Args) -> Result<Reply, Failure> {
    if args.help {
        return help(args.name.as_deref());
    }
    let setting = Setting::of_process()?;
    let name = args.name.as_deref().unwrap_or_default();
    let arguments = arguments(args.arguments.as_deref())?;
    let mut toolbox = match setting.open(&random) {
        Ok(toolbox) => toolbox,
        Err(fault) => return Ok(refused(&fault)),
    };
    let outcome = call(&mut toolbox, name, &arguments);
    let folder = std::env::var_os("GH_AW_MCP_CLI_AUDIT_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| PathBuf::from(BASE).join("mcp-cli-audit"));
    audit(&folder, SystemClock.now(), name, &outcome);
    match outcome {
        Ok(text) => Ok(Reply::done(text)),
        Err(refusal) => {
            output::note(&format!("Error [{}]: {}", refusal.code, refusal.message));
            Ok(Reply { body: String::new(), exit: REFUSED })
        }
    }
}

/// The arguments' text, from the command line or standard input.
fn arguments(given: Option<&str>) -> Result<String, Failure> {
    if let Some(text) = given.filter(|text| *text != ".") {
        return Ok(text.to_owned());
    }
    let refused = |code, message: &'static str| Failure::input(&Fault::new(code, message), "the arguments");
    let mut bytes = Vec::new();
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        let most = MAX_MESSAGE_BYTES as u64 + 1;
        let read = stdin.lock().take(most).read_to_end(&mut bytes);
        read.map_err(|_| refused(Code::IoFailed, "standard input could not be read"))?;
    }
    if bytes.len() > MAX_MESSAGE_BYTES {
        return Err(refused(Code::ResourceLimit, "longer than 10 MiB"));
    }
    let text = String::from_utf8(bytes).map_err(|_| refused(Code::InvalidUtf8, "not UTF-8"))?;
    Ok(if text.trim().is_empty() { "{}".to_owned() } else { text })
}

/// The command's own help with the list of tools, or one tool's schema.
fn help(name: Option<&str>) -> Result<Reply, Failure> {
    let Some(name) = name else {
        let tools: Vec<String> = Tool::ALL.iter().map(|tool| format!("{}: {}", tool.name(), tool.about())).collect();
        return Ok(Reply::done(format!("{}\nTools:\n{}\n", super::help_of("tool"), tools.join("\n"))));
    };
    let tool = Tool::find(name, crate::protocol::RuntimeRole::Dispatcher)
        .map_err(|sentence| Failure::usage(sentence, "Run wq tool --help to see the tools."))?;
    let mut writer = Writer::new();
    tool.write(&mut writer);
    Ok(Reply::done(writer.finish()))
}
