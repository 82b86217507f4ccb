//! `wq safe-outputs`.

use super::{Failure, Global, Reply};
use crate::jobs::perform;
use crate::jobs::safe_outputs::{PHASES, Phase, run as run_phases};

/// End the Claims of a worker, publish staged queue controls, and settle what was delivered (the safe_outputs job).
///
/// Reads the run, the role, the credentials and the paths from the job's environment, and the files that the agent's job
/// collected: at most 4 MiB and 256 lines of finishes and of intents each, 16 MiB and 4096 messages of outputs. Without
/// GH_AW_WORK_QUEUE_ENABLED=true it does nothing. With GH_AW_SAFE_OUTPUTS_STAGED=true everything is checked and nothing
/// published, launched or settled. Sets claim_authorizations (settle), work_queue_requests and
/// work_queue_controls_status (controls, at most 256 receipts and 1 MiB, also in work-queue.receipts.json), and
/// work_queue_outcome, claim_results and claim_scope_errors (deliver). No output that needs a writer is executed.
///
/// Variables, beside the runner's own: GH_AW_WORK_QUEUE_ROLE (observer, dispatcher or worker; by default worker with an
/// assignment and dispatcher without one), GH_AW_WORK_QUEUE_TOKEN, else GH_TOKEN, else GITHUB_TOKEN (at most 16,384
/// characters), GH_AW_WORK_QUEUE_SNAPSHOT, GH_AW_WORK_QUEUE_INTENTS and GH_AW_WORK_QUEUE_FINISH_INTENT (by default
/// work-queue.snapshot.json, work-queue.intents.jsonl and work-queue.finish.jsonl in /tmp/gh-aw), GH_AW_AGENT_OUTPUT (a path;
/// without it there are no ordinary outputs), GH_AW_WORK_QUEUE_INTENT_ORIGIN (at most 4 KiB; needed from attempt 2 on),
/// GH_AW_WORK_QUEUE_DISPATCH_BUDGET (0 to 4096, by default the compiled max, else 1), GH_AW_WORK_QUEUE_CONTROL_CONFIG (JSON
/// of the approved workers), GH_AW_WORK_QUEUE_LAUNCH_TOKEN with _LAUNCH_CREDENTIAL (github_token, github_app or
/// authenticated) and _LAUNCH_APP_SLUG, and GH_AW_WORK_QUEUE_DEPENDENCY_READ_CREDENTIALS (at most 64 repositories).
///
/// Exit 2 for a wrong environment or intents, 3 for an invalid queue, 4 if something is denied, 5 if an outcome is not known,
/// 6 if something is left that a person or a later run must look after, 7 if the host cannot be reached.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The only phase to run [default: all of them, in this order].
    #[arg(long, value_name = "PHASE")]
    phase: Option<Named>,
}

/// A phase by its name.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Named {
    /// End each Claim as its worker asked; an open Claim without a finish is cancelled.
    Settle,
    /// Publish staged submissions and grants, and launch what was granted.
    Controls,
    /// Attribute and count outputs, and publish the Results that can be proven.
    Deliver,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    let phases = match args.phase {
        None => PHASES.to_vec(),
        Some(Named::Settle) => vec![Phase::Settle],
        Some(Named::Controls) => vec![Phase::Controls],
        Some(Named::Deliver) => vec![Phase::Deliver],
    };
    perform(&global.branch, |process, world| run_phases(world, process, &phases))?;
    let text = "the safe outputs of the queue are done\n".to_owned();
    Ok(Reply::done(if global.json { r#"{"status":"done"}"#.to_owned() } else { text }))
}
