//! `wq dispatch`.

use super::hub::Hub;
use super::{Failure, Global, Reply, access};
use crate::launch::dispatcher::{
    Dispatcher, DispatcherError, Started, start_dispatcher, verify_dispatcher, wait_for_dispatcher,
};
use crate::ledger::names::DEFAULT_BRANCH;
use crate::ports::{Clock as _, SystemClock};
use crate::protocol::Code;
use crate::protocol::json::Writer;

/// Where the effects of a dispatcher show; a run that was started is none of them.
const NEXT: &str = "A dispatcher that was started is no Claim, launch or Result: look at the ledger with wq state, wq trace \
                    and wq stats.";

/// Start one verified dispatcher workflow at the default branch's present revision. It assigns nothing itself.
///
/// Source, compiled workflow, control lists and registration are verified at one revision before anything is written.
/// Then the snapshot tag of that revision is made or found, one request is sent, and the run that the answer names is
/// compared with what was verified. Nothing is sent a second time. The token needs actions: write, and contents: write
/// where the tag is not there yet. Whoever may move tags of the repository is trusted: the comparison comes after the
/// run was started and cannot undo it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The dispatcher's name: that of .github/workflows/NAME.md, 1 to 128 of [A-Za-z0-9_.-].
    #[arg(value_name = "DISPATCHER")]
    dispatcher: String,
    /// Wait until the dispatcher's run has ended, not its workers. A conclusion other than success exits 6.
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// Verify, say what would be started, and write nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    check_flags(global)?;
    let hub = Hub::open(global, access::host()?)?;
    let client = hub.client();
    let dispatcher = verify_dispatcher(client, &hub.name, &args.dispatcher)?;
    let mut started = None;
    let mut exit = 0;
    if !args.dry_run {
        let mut run = start_dispatcher(client, &SystemClock, &hub.name, &dispatcher)?;
        if args.wait {
            wait_for_dispatcher(client, &SystemClock, &hub.name, &mut run)?;
            exit = if run.conclusion.as_deref() == Some("success") { 0 } else { 6 };
        }
        started = Some(run);
    }
    let body = if global.json {
        json(&hub, &args.dispatcher, &dispatcher, started.as_ref())
    } else {
        text(&args.dispatcher, &dispatcher, started.as_ref())
    };
    Ok(Reply { body, exit })
}

/// Flags of other commands that would seem to steer what a dispatcher does.
fn check_flags(global: &Global) -> Result<(), Failure> {
    let refused = |flag: &str| {
        Failure::usage(
            format!("{flag} does not go with dispatch, which starts a workflow and writes no queue"),
            "Leave it out; the dispatcher's own workflow decides which queue it serves.",
        )
    };
    if global.request_id.is_some() {
        return Err(refused("--request-id"));
    }
    if global.branch != DEFAULT_BRANCH {
        return Err(refused("another --branch"));
    }
    if global.remote.is_some() {
        return Err(refused("--remote"));
    }
    Ok(())
}

/// A failure names the accepted run's page, where there is one.
impl From<DispatcherError> for Failure {
    fn from(error: DispatcherError) -> Self {
        let DispatcherError { code, message, action, accepted } = error;
        let next = match accepted {
            Some(page) => format!("Inspect the accepted run at {page}. {action}").into(),
            None => action,
        };
        let exit = if code == Code::UsageInvalid { 2 } else { code.exit() };
        Self { exit, ..Self::new(code, message, next) }
    }
}

fn json(hub: &Hub, name: &str, dispatcher: &Dispatcher, started: Option<&Started>) -> String {
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("activated", |w| w.bool(started.is_some()));
        if let Some(conclusion) = started.and_then(|started| started.conclusion.as_deref()) {
            members.name("conclusion", |w| w.string(conclusion));
        }
        members.name("dry_run", |w| w.bool(started.is_none()));
        members.name("evaluated_at", |w| w.integer(SystemClock.now().get()));
        members.name("next", |w| w.string(NEXT));
        members.name("ref", |w| w.string(started.map_or(&dispatcher.branch, |started| &started.tag)));
        members.name("repository", |w| w.string(hub.name.as_str()));
        if let Some(started) = started {
            members.name("run_id", |w| w.string(started.run_id.as_str()));
            members.name("run_url", |w| w.string(&started.html_url));
        }
        members.name("sha", |w| w.string(dispatcher.revision.as_str()));
        if let Some(status) = started.and_then(|started| started.status.as_deref()) {
            members.name("status", |w| w.string(status));
        }
        members.name("workflow", |w| w.string(name));
        members.name("workflow_path", |w| w.string(&dispatcher.path));
    });
    writer.finish()
}

fn text(name: &str, dispatcher: &Dispatcher, started: Option<&Started>) -> String {
    let sha = dispatcher.revision.as_str();
    let Some(started) = started else {
        return format!("verified, not started: {name} at {sha} of {}\n", dispatcher.branch);
    };
    let state = match (&started.conclusion, &started.status) {
        (Some(conclusion), _) => conclusion.as_str(),
        (None, Some(status)) => status.as_str(),
        (None, None) => "accepted",
    };
    format!("started: {name} at {sha}, run {}, {state}\n{}\n{NEXT}\n", started.run_id.as_str(), started.html_url)
}
