//! `wq demo`: a small repository moves to the queue, on a temporary bare repository with real git and real processes.
//! Only the native runs are simulated: what they would have done is published by the roles that would have.

mod script;
mod stage;
mod story;
mod turns;
mod workers;

use super::{Failure, Global, Reply};
use stage::Stage;
use story::Story;

/// Play a migration on a temporary repository: who got each turn and why, and what became of it.
///
/// A graph of four tasks of one account stands beside ten checks of another with equal weights. Several dispatcher
/// processes compete for turns; a batch worker completes one Claim, cancels one and omits one; a lost run is
/// reconciled; Results release successors; the ledger is verified at the end. Git and the processes are real, native
/// runs are simulated. Takes under 20 seconds.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Keep the repository afterwards and say where it is, so that the other commands can look at it with --remote.
    #[arg(long)]
    keep: bool,
    /// Dispatcher processes that compete in each round, 1 to 8.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=8))]
    dispatchers: u8,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    if global.remote.is_some() {
        return Err(Failure::usage("the demo makes a repository of its own", "Leave out --remote."));
    }
    let mut story = Story::new(global.json);
    let stage = Stage::new()?;
    script::play(&stage, &mut story, args.dispatchers)?;
    let body = story.end(&stage)?;
    if args.keep {
        let path = stage.keep();
        if !global.json {
            return Ok(Reply::done(format!("{body}The repository stays: try wq replay --remote {}\n", path.display())));
        }
    }
    Ok(Reply::done(body))
}
