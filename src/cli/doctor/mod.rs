//! `wq doctor` (decision 34): looks at everything that the queue depends on and says what to do about it. It reads,
//! and nothing ever waits for it.

mod host;
pub(super) mod local;
mod queue;
mod workflows;

use std::path::PathBuf;

use super::hub::{Caller, Hub};
use super::{Failure, Global, Reply, access};
use crate::ledger::{Environment, Git};
use crate::ports::{Clock as _, SystemClock};
use crate::protocol::Code;
use crate::protocol::json::Writer;
use crate::report::plain;

/// Look for what would keep the queue from working, and say how to mend it. Reads alone.
///
/// Looks at git, the host's API version and clock, what the token is shown to be good for, rules that would refuse a
/// push to the queue branch, settings and workflows of the default branch, and the queue's ledger. With --remote PATH
/// only git and the ledger are there to look at. GitHub decides about each write when it is made: a finding predicts,
/// and no command depends on one.
///
/// With --workflows only the settings and workflow files of a directory are looked at, without network and token: retired
/// members, a worker without the assignment input or with a foreign run name, stamps, and lists of workers.
///
/// Exit 0 whatever was found, so that a finding is read and not tripped over; another status if nothing could be looked
/// at (usage, or no token). With --workflows, which is for scripts, exit 2 if a finding is an error.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Look at the workflow files of a directory alone: at most 1,000 sources of at most 1 MiB each.
    #[arg(long)]
    workflows: bool,
    /// Root of the checkout whose .github/workflows is looked at.
    #[arg(long, value_name = "PATH", default_value = ".", requires = "workflows")]
    dir: PathBuf,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) enum Level {
    /// Looked at and in order.
    Ok,
    /// Worth knowing.
    Note,
    /// Something will not work for somebody.
    Warning,
    /// The queue cannot work.
    Error,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One thing that was looked at.
pub(super) struct Finding {
    level: Level,
    /// Stable: one of the protocol's codes where one fits, else a word of this command.
    code: &'static str,
    message: String,
    /// What to do; empty where nothing is to be done.
    fix: String,
}

/// What was found so far.
#[derive(Default)]
pub(in crate::cli) struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, code: &'static str, message: impl Into<String>) {
        self.add(Level::Ok, code, message, "");
    }

    fn add(&mut self, level: Level, code: &'static str, message: impl Into<String>, fix: impl Into<String>) {
        self.0.push(Finding { level, code, message: message.into(), fix: fix.into() });
    }

    /// A failure, with its own next action.
    fn failed(&mut self, level: Level, failure: &Failure) {
        self.add(level, failure.code.as_str(), failure.message.clone(), failure.next.clone());
    }

    /// True if something was found that cannot work.
    pub(in crate::cli) fn refuses(&self) -> bool {
        self.worst() == Level::Error
    }

    fn worst(&self) -> Level {
        self.0.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
    }
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    let mut findings = Findings::default();
    if args.workflows {
        local::look(&args.dir, &mut findings)?;
        let exit = if findings.refuses() { Code::UsageInvalid.exit() } else { 0 };
        return Ok(Reply { exit, ..reply(global, &findings) });
    }
    match Git::find(Environment::of_process()) {
        Ok(git) => {
            let (major, minor) = git.version();
            findings.ok("git", format!("git {major}.{minor}"));
        }
        Err(error) => findings.failed(Level::Error, &error.into()),
    }
    if global.remote.is_some() {
        queue::look(global, &mut findings);
        return Ok(reply(global, &findings));
    }
    let caller = Caller::of_environment(global, access::host()?)?;
    host::look(&caller, &mut findings);
    match Hub::identify(caller) {
        Ok(hub) => {
            host::permissions(&hub, &global.branch, &mut findings);
            workflows::look(&hub, &mut findings);
            queue::look(global, &mut findings);
        }
        Err(failure) => findings.failed(Level::Error, &failure),
    }
    Ok(reply(global, &findings))
}

fn reply(global: &Global, findings: &Findings) -> Reply {
    Reply::done(if global.json { json(findings) } else { text(findings) })
}

fn json(findings: &Findings) -> String {
    let mut writer = Writer::new();
    writer.object(|members| {
        members.name("evaluated_at", |w| w.integer(SystemClock.now().get()));
        members.name("findings", |w| w.raw(&list(findings)));
        members.name("worst", |w| w.string(findings.worst().as_str()));
    });
    writer.finish()
}

/// The findings as a JSON array.
pub(super) fn list(findings: &Findings) -> String {
    let mut writer = Writer::new();
    writer.array(&findings.0, |w, finding| {
        w.object(|members| {
            members.name("code", |w| w.string(finding.code));
            members.name("fix", |w| w.string(&finding.fix));
            members.name("level", |w| w.string(finding.level.as_str()));
            members.name("message", |w| w.string(&finding.message));
        });
    });
    writer.finish()
}

pub(super) fn text(findings: &Findings) -> String {
    let mut out = String::new();
    for Finding { level, code, message, fix } in &findings.0 {
        out.push_str(&format!("{:<7} {code}: {}\n", level.as_str(), plain(message)));
        if !fix.is_empty() {
            out.push_str(&format!("        {}\n", plain(fix)));
        }
    }
    out
}
