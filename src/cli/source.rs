//! What a command reads: a ledger file or a queue branch, and when.

use std::path::{Path, PathBuf};

use super::access::{self, Access};
use super::failure::sentence;
use super::input::{self, Refused};
use super::{Failure, Global};
use crate::engine::Projection;
use crate::ledger::LedgerError;
use crate::ledger::cold::replay;
use crate::ports::{Clock as _, Entropy as _, SystemClock, SystemEntropy};
use crate::protocol::json::{Members, Scanner};
use crate::protocol::ledger_text::{LedgerFault, LedgerText};
use crate::protocol::limits::MAX_LEDGER_BYTES;
use crate::protocol::{At, Code, Fault, RequestId};
use crate::report::label;

/// The ledger file, for commands that only read.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LedgerArgs {
    /// Read this ledger file instead of a branch, or standard input for `-`. At most 80 MiB.
    #[arg(long, value_name = "FILE", conflicts_with = "remote")]
    pub(crate) ledger: Option<PathBuf>,
}

/// A queue as it was read, and where and when.
pub(crate) struct Loaded {
    pub(crate) projection: Projection,
    /// Git commit of the branch; none for a file.
    pub(crate) sha: Option<String>,
    /// When the question was asked, in Unix milliseconds.
    pub(crate) evaluated_at: At,
}

impl Loaded {
    /// Adds the provenance that every answer carries (decision 46).
    pub(crate) fn provenance(&self, members: &mut Members<'_>) {
        provenance(&self.projection, self.sha.as_deref(), self.evaluated_at, members);
    }

    /// The same for people: a line without its line feed.
    pub(crate) fn stamp(&self) -> String {
        let tip = self.projection.tip().map_or_else(|| "-".to_owned(), |tip| label(tip.as_str()));
        format!("as of tip {tip} at {} ms", self.evaluated_at.get())
    }

    /// Epoch of the installed Policy, empty without one.
    pub(crate) fn epoch(&self) -> &str {
        self.projection.installed().map_or("", |installed| installed.epoch.as_str())
    }

    /// Repository of the queue, empty before the first commit.
    pub(crate) fn repository(&self) -> &str {
        self.projection.repository().map_or("", |repository| repository.as_str())
    }
}

/// Adds `tip`, `sha` and `evaluated_at`.
pub(crate) fn provenance(projection: &Projection, sha: Option<&str>, at: At, members: &mut Members<'_>) {
    members.name("evaluated_at", |w| w.integer(at.get()));
    members.name("sha", |w| match sha {
        Some(sha) => w.string(sha),
        None => w.raw("null"),
    });
    members.name("tip", |w| match projection.tip() {
        Some(tip) => w.string(tip.as_str()),
        None => w.raw("null"),
    });
}

/// Reads the queue that the flags name.
pub(crate) fn load(global: &Global, args: &LedgerArgs) -> Result<Loaded, Failure> {
    let loaded = read(global, args)?;
    let stats = loaded.projection.stats();
    tracing::debug!(
        commits = stats.transactions,
        work = stats.work,
        bytes = loaded.projection.ledger_bytes(),
        "replayed"
    );
    Ok(loaded)
}

fn read(global: &Global, args: &LedgerArgs) -> Result<Loaded, Failure> {
    match &args.ledger {
        Some(path) => {
            let text = frame(path)?.map_err(|fault| Failure::ledger(&fault))?;
            let projection = replay(&text, &mut scanner()?).map_err(|fault| Failure::ledger(&fault))?;
            Ok(Loaded { projection, sha: None, evaluated_at: SystemClock.now() })
        }
        None => {
            let access = Access::open(global)?;
            let current = access.publisher()?.read_present()?;
            let current = std::sync::Arc::unwrap_or_clone(current);
            Ok(Loaded {
                projection: current.projection,
                sha: Some(current.commit.to_string()),
                evaluated_at: SystemClock.now(),
            })
        }
    }
}

/// Reads and frames a ledger file. The outer error is a file that cannot be read, the inner one a ledger that is
/// refused.
pub(crate) fn frame(path: &Path) -> Result<Result<LedgerText, LedgerFault>, Failure> {
    match input::read(path, MAX_LEDGER_BYTES) {
        Ok(bytes) => Ok(LedgerText::new(bytes)),
        Err(Refused::TooLong) => Ok(Err(Fault::new(Code::ResourceLimit, "the ledger is longer than 80 MiB").into())),
        Err(Refused::Unreadable(failure)) => Err(failure),
    }
}

/// A scanner that approves resources of the server that the environment names, `github.com` by default (decision 9).
pub(crate) fn scanner() -> Result<Scanner, Failure> {
    access::host().map(|host| Scanner::new(host.name()))
}

/// The request id that was given, or a random one.
pub(crate) fn request_id(global: &Global) -> Result<RequestId, Failure> {
    let id = match &global.request_id {
        Some(id) => id.clone(),
        None => SystemEntropy.nonce()?,
    };
    RequestId::new(id).map_err(|fault| Failure::flag(&fault, "--request-id"))
}

/// A failure of the ledger room keeps its code, sentence, action and exit status.
impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        let mut message = String::new();
        if let Some(line) = error.line() {
            message.push_str(&format!("line {line}: "));
        }
        message.push_str(&sentence(error.code(), error.message()));
        if let (Some(offset), true) = (error.offset(), error.line().is_some()) {
            message.push_str(&format!(" (at byte {offset})"));
        }
        Self { exit: error.exit(), ..Self::new(error.code(), message, error.action()) }
    }
}
