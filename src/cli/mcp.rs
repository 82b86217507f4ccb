//! `wq mcp`.

use std::io::ErrorKind;

use super::{Failure, Reply, output};
use crate::agent::server::serve;
use crate::jobs::agent::{Setting, random};
use crate::protocol::{Code, Fault};

/// Exit status for a snapshot that is refused (decision 75).
const SNAPSHOT_REFUSED: u8 = 3;

/// Serve the agent's tools over MCP on standard input and output, until the input ends.
///
/// One JSON-RPC 2.0 message a line, at most 10 MiB (10485760 bytes) each; a longer line is passed over. Requests are
/// answered with and without initialize; whatever is no request is passed over in silence. Nothing is written to standard
/// error but one line if the server cannot start. The tools are work_queue_read and work_queue_explain, and for a dispatcher
/// or worker also work_queue_submit, work_queue_dispatch_next and work_queue_claim_finish; `wq tool NAME --help` shows what
/// each takes. The server reads one snapshot of at most 162 MiB, appends to two files of at most 4 MiB and 256 lines each,
/// opens no connection and reads no token.
///
/// Environment: GH_AW_WORK_QUEUE_ROLE, required, one of observer, dispatcher and worker. GH_AW_WORK_QUEUE_SNAPSHOT [default:
/// /tmp/gh-aw/work-queue.snapshot.json]. GH_AW_WORK_QUEUE_INTENTS and GH_AW_WORK_QUEUE_FINISH_INTENT [default:
/// work-queue.intents.jsonl and work-queue.finish.jsonl in gh-aw/safeoutputs/work-queue of RUNNER_TEMP or /tmp].
/// GITHUB_SERVER_URL [default: https://github.com], which a queue on another host needs.
///
/// Exit status: 0 when the input has ended; 2 for a missing or unknown role; 3 for a snapshot that is refused.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args) -> Result<Reply, Failure> {
    let toolbox = Setting::of_process()?.open(&random);
    let mut toolbox = match toolbox {
        Ok(toolbox) => toolbox,
        Err(fault) => return Ok(refused(&fault)),
    };
    let served = serve(&mut toolbox, std::io::stdin().lock(), std::io::stdout().lock());
    match served {
        Ok(()) => Ok(Reply::done(String::new())),
        // The client went away.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reply::done(String::new())),
        Err(_) => Err(Failure::new(
            Code::IoFailed,
            "a standard stream failed",
            "Start the server again with streams that can be read and written.",
        )),
    }
}

/// Says in one line that the snapshot is refused, and why by its code alone.
pub(crate) fn refused(fault: &Fault) -> Reply {
    output::note(&format!("server.start.failed: the activation snapshot is refused ({})", fault.code()));
    Reply { body: String::new(), exit: SNAPSHOT_REFUSED }
}
