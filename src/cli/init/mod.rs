//! `wq init`: writes the workflows of a dispatcher and its workers, the scripts that their agents are filled into, and
//! the repository's settings. What it writes passes the workflow checks and our own route verification.

mod files;
mod portfolio;
mod restamp;

use std::path::{Path, PathBuf};

use super::doctor::{Findings, local};
use super::{Failure, Global, Reply};
use crate::protocol::Code;
use crate::protocol::json::Writer;
use files::{Options, Written};

/// Write the workflow files of a dispatcher and its workers, with settings, or stamp them again after an edit.
///
/// Writes .github/workflows/NAME.md and NAME.lock.yml for each workflow, .github/workflows/aw.json, and scripts under
/// .github/work-queue, which say what is to be filled in. Merge them into the default branch; the first submission makes
/// the queue. Needs no network and no token.
///
/// Exit 2 if a file is there already (see --force), a name or reference is malformed, or the checks of `doctor
/// --workflows` refuse the result.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Root of the repository's checkout.
    #[arg(long, value_name = "PATH", default_value = ".")]
    dir: PathBuf,
    /// The action, as OWNER/NAME@COMMIT: the commit of a release, 40 lower-case hexadecimal digits.
    #[arg(long, value_name = "OWNER/NAME@COMMIT", required_unless_present = "restamp")]
    action_ref: Option<String>,
    /// What to write: a dispatcher with a worker, three kinds of workers, or ten reports of which three are written a day.
    #[arg(long, value_enum, default_value = "minimal")]
    template: Template,
    /// Name of the minimal dispatcher, 1 to 100 characters of [A-Za-z0-9_-].
    #[arg(long, value_name = "NAME", default_value = "dispatcher")]
    dispatcher: String,
    /// Name of the minimal worker, 1 to 100 characters of [A-Za-z0-9_-].
    #[arg(long, value_name = "NAME", default_value = "worker")]
    worker: String,
    /// Label of the runners, 1 to 100 characters of [A-Za-z0-9_.-]. They run Linux, x64 or arm64.
    #[arg(long, value_name = "LABEL", default_value = "ubuntu-latest")]
    runner: String,
    /// Launch workers with a GitHub App: adds the step that mints its token, from the variable WQ_APP_CLIENT_ID and the
    /// secret WQ_APP_PRIVATE_KEY. Without it the workflow's own token launches.
    #[arg(long)]
    app: bool,
    /// Replace files that are there.
    #[arg(long)]
    force: bool,
    /// Write nothing new: compute the contract stamps of the workers that this command once wrote, and correct them.
    #[arg(long, conflicts_with_all = ["action_ref", "template", "dispatcher", "worker", "runner", "app", "force"])]
    restamp: bool,
}

/// The sets of workflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum Template {
    /// One dispatcher, one worker.
    Minimal,
    /// One dispatcher, three kinds of workers without dependencies.
    LinterFactory,
    /// One dispatcher, ten reporting workers, three of them a day.
    DailyReportPortfolio,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    let written = if args.restamp {
        restamp::run(&args.dir)?
    } else {
        let written = files::render(&options(args)?)?;
        save(&args.dir, &written, args.force)?;
        written
    };
    let mut findings = Findings::default();
    local::look(&args.dir, &mut findings)?;
    let exit = if findings.refuses() { Code::UsageInvalid.exit() } else { 0 };
    let body = if global.json { json(&written, &findings) } else { text(args, &written, &findings) };
    Ok(Reply { body, exit })
}

fn options(args: &Args) -> Result<Options, Failure> {
    let action = args.action_ref.clone().unwrap_or_default();
    let sound = action.split_once('@').is_some_and(|(name, commit)| {
        crate::protocol::RepositoryName::new(name).is_ok()
            && commit.len() == 40
            && commit.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    });
    if !sound {
        return Err(Failure::usage(
            "--action-ref is not OWNER/NAME@COMMIT with the 40 lower-case hexadecimal digits of a commit",
            "Name the commit of a release; a tag or branch can be moved.",
        ));
    }
    for name in [&args.dispatcher, &args.worker, &args.runner] {
        let characters = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let dotted = !std::ptr::eq(name, &args.runner) && name.contains('.');
        if !(1..=100).contains(&name.len()) || !name.bytes().all(characters) || dotted || name.starts_with('-') {
            return Err(Failure::usage(
                "a name of --dispatcher, --worker or --runner is empty, too long, or holds other characters",
                "Use 1 to 100 characters of [A-Za-z0-9_-].",
            ));
        }
    }
    if args.dispatcher == args.worker {
        return Err(Failure::usage("dispatcher and worker have the same name", "Give them two names."));
    }
    Ok(Options {
        action,
        template: args.template,
        dispatcher: args.dispatcher.clone(),
        worker: args.worker.clone(),
        runner: args.runner.clone(),
        app: args.app,
    })
}

/// Writes the files, or none of them if one is in the way.
fn save(root: &Path, files: &[Written], force: bool) -> Result<(), Failure> {
    let failed = |_| {
        Failure::new(Code::IoFailed, "a file could not be written", "Name a directory that can be written with --dir.")
    };
    if !force && files.iter().any(|file| root.join(&file.path).symlink_metadata().is_ok()) {
        return Err(Failure::usage(
            "a file that would be written is there already; nothing was written",
            "Move it away, choose other names, or replace it with --force.",
        ));
    }
    for file in files {
        let path = root.join(&file.path);
        std::fs::create_dir_all(path.parent().unwrap_or(root)).map_err(failed)?;
        std::fs::write(&path, &file.text).map_err(failed)?;
    }
    Ok(())
}

fn text(args: &Args, written: &[Written], findings: &Findings) -> String {
    let mut out = String::new();
    let verb = if args.restamp { "stamped" } else { "wrote" };
    for file in written {
        out.push_str(&format!("{verb} {}\n", crate::report::plain(&file.path)));
    }
    if written.is_empty() {
        out.push_str("every stamp is current\n");
    }
    out.push_str(&super::doctor::text(findings));
    if !args.restamp {
        out.push_str(
            "next: fill in the agents under .github/work-queue, set the variable WQ_AGENT_COMMAND, merge everything into\n\
             the default branch, and start the dispatcher. Its first submission makes the queue.\n",
        );
        if args.app {
            out.push_str(
                "next: set the variable WQ_APP_CLIENT_ID and the secret WQ_APP_PRIVATE_KEY of an App that may write actions\n\
                 and contents.\n",
            );
        }
    }
    out
}

fn json(written: &[Written], findings: &Findings) -> String {
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("files", |w| w.array(written, |w, file| w.string(&file.path)));
        members.name("findings", |w| w.raw(&super::doctor::list(findings)));
    });
    writer.finish()
}
