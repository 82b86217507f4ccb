//! The operator's command line: one file per command, each an `Args` whose doc comments are the help, and one `run`.
//! Commands read their inputs, call the rooms below in order, and say what came out.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

mod access;
mod activation;
mod administer;
mod cancel_claim;
mod cancel_work;
mod cancellation;
mod captured;
mod collect;
mod compact;
mod conclusion;
mod control;
mod demo;
mod deploy;
mod dispatch;
mod dispatch_next;
mod doctor;
mod evidence;
mod explain;
mod failure;
mod gates;
mod hub;
mod init;
mod input;
mod inspect;
mod listing;
mod mcp;
mod origin;
mod output;
mod policy;
mod prediction;
mod publish;
mod recall;
mod reconcile;
mod replay;
mod reprioritize;
mod safe_outputs;
mod source;
mod state;
mod stats;
mod submit_graph;
mod submit_work;
mod targets;
mod telemetry;
mod tool;
mod trace;
mod verify;
mod work_view;

pub(crate) use failure::Failure;
pub(crate) use output::Reply;

/// A fair, incorruptible work queue in one file on a Git branch.
///
/// Every command reads the whole ledger, checks it from its first line and replays it. Commands that write publish
/// one commit by compare-and-swap; a repeated --request-id returns the first outcome and writes nothing.
///
/// Exit status: 0 done, or nothing to grant; 2 usage, configuration or input file; 3 ledger invalid or unsupported,
/// nothing changed; 4 denied; 5 outcome unknown, repeat the same command with the same --request-id; 6 recovery
/// required; 7 host, network or service unavailable; 70 a bug of ours.
#[derive(Debug, Parser)]
#[command(name = "wq", version, max_term_width = 100, subcommand_required = false)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Option<Command>,
}

/// Flags that every command takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Global {
    /// Repository that the queue belongs to, as OWNER/NAME: 3 to 256 characters of [A-Za-z0-9_.-] around one slash. Alone
    /// it names a repository on GitHub; the token is taken from GH_AW_WORK_QUEUE_TOKEN, GH_TOKEN or GITHUB_TOKEN
    /// [default: GH_REPO, GITHUB_REPOSITORY, or local/queue beside --remote].
    #[arg(long, global = true, value_name = "OWNER/NAME", help_heading = "Queue")]
    repo: Option<String>,
    /// Branch that holds the queue, 1 to 256 bytes. Another branch is another queue; nothing moves between them.
    #[arg(long, global = true, value_name = "NAME", default_value = "work-queue", help_heading = "Queue")]
    branch: String,
    /// Local bare repository that holds the branch. Whoever may write the directory is the authority: no GitHub, no
    /// token.
    #[arg(long, global = true, value_name = "PATH", help_heading = "Queue")]
    remote: Option<PathBuf>,
    /// Print one JSON object; ids are never shortened there.
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
    /// Stable name of one request, 1 to 256 bytes without control characters. A repeat with the same meaning returns
    /// the first outcome; with another meaning it is refused. Random when absent.
    #[arg(long, global = true, value_name = "ID", help_heading = "Queue")]
    request_id: Option<String>,
    /// Decimal account id that acts on a local repository, 1 to 256 digits [default: 1]. On GitHub the account behind the
    /// token acts.
    #[arg(long, global = true, value_name = "ID", help_heading = "Queue")]
    principal: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(visible_alias = "read")]
    Replay(replay::Args),
    Verify(verify::Args),
    Stats(stats::Args),
    State(state::Args),
    Explain(explain::Args),
    Inspect(inspect::Args),
    Trace(trace::Args),
    SubmitWork(submit_work::Args),
    SubmitGraph(submit_graph::Args),
    DispatchNext(dispatch_next::Args),
    Dispatch(dispatch::Args),
    Compact(compact::Args),
    Control(control::Args),
    CancelWork(cancel_work::Args),
    CancelClaim(cancel_claim::Args),
    Reprioritize(reprioritize::Args),
    Policy(policy::Args),
    Deploy(deploy::Args),
    Evidence(evidence::Args),
    Reconcile(reconcile::Args),
    SafeOutputs(safe_outputs::Args),
    Doctor(doctor::Args),
    Init(init::Args),
    Mcp(mcp::Args),
    Tool(tool::Args),
    Collect(collect::Args),
    Demo(demo::Args),
    Activation(activation::Args),
    Origin(origin::Args),
    Conclusion(conclusion::Args),
}

impl Command {
    fn run(&self, global: &Global) -> Result<Reply, Failure> {
        match self {
            Self::Replay(args) => replay::run(global, args),
            Self::Verify(args) => verify::run(global, args),
            Self::Stats(args) => stats::run(global, args),
            Self::Explain(args) => explain::run(global, args),
            Self::State(args) => state::run(global, args),
            Self::Inspect(args) => inspect::run(global, args),
            Self::Trace(args) => trace::run(global, args),
            Self::SubmitWork(args) => submit_work::run(global, args),
            Self::SubmitGraph(args) => submit_graph::run(global, args),
            Self::DispatchNext(args) => dispatch_next::run(global, args),
            Self::Dispatch(args) => dispatch::run(global, args),
            Self::Compact(args) => compact::run(global, args),
            Self::Control(args) => control::run(global, args),
            Self::CancelWork(args) => cancel_work::run(global, args),
            Self::CancelClaim(args) => cancel_claim::run(global, args),
            Self::Reprioritize(args) => reprioritize::run(global, args),
            Self::Policy(args) => policy::run(global, args),
            Self::Deploy(args) => deploy::run(global, args),
            Self::Evidence(args) => evidence::run(global, args),
            Self::Reconcile(args) => reconcile::run(global, args),
            Self::SafeOutputs(args) => safe_outputs::run(global, args),
            Self::Doctor(args) => doctor::run(global, args),
            Self::Init(args) => init::run(global, args),
            Self::Mcp(args) => mcp::run(args),
            Self::Tool(args) => tool::run(args),
            Self::Collect(args) => collect::run(args),
            Self::Demo(args) => demo::run(global, args),
            Self::Activation(args) => activation::run(global, args),
            Self::Origin(args) => origin::run(global, args),
            Self::Conclusion(args) => conclusion::run(global, args),
        }
    }
}

/// Parses the process's arguments, runs the command and prints what came out. Returns the exit status.
#[must_use]
pub fn main() -> u8 {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // Known before parsing, so that a usage error answers in the form that was asked for.
    let json = arguments.iter().skip(1).take_while(|argument| *argument != "--").any(|argument| argument == "--json");
    failure::on_panic(json);
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return output::usage(&error, json),
    };
    telemetry::start(matches!(cli.command, Some(Command::Mcp(_))));
    let Some(command) = &cli.command else { return output::help::<Cli>() };
    let exit = match command.run(&cli.global) {
        Ok(reply) => output::reply(&reply, json),
        Err(failure) => output::failure(&failure, json),
    };
    tracing::debug!(exit, "command ended");
    exit
}

/// The long help of one command.
pub(crate) fn help_of(name: &str) -> String {
    use clap::CommandFactory as _;
    let mut command = Cli::command();
    command.build();
    command.find_subcommand_mut(name).map_or_else(String::new, |command| command.render_long_help().to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    /// The declarations hold together: no flag is named twice, every default parses.
    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
