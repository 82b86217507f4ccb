//! What the tools do: answer from the snapshot, or stage an intent. Both handlers of calls, the MCP server and `wq tool`,
//! come through [`Toolbox::call`].

mod explain;
mod read;
mod stage;

use std::path::PathBuf;

use hashbrown::HashSet;

use super::catalog::Tool;
use super::rpc::Refusal;
use super::schema::check;
use super::snapshot::SnapshotView;
use crate::engine::WorkView;
use crate::protocol::json::{Members, Scanner, Value};
use crate::protocol::{Code, Fault, RuntimeRole, Wire as _};

/// Fills a buffer with random bytes.
pub type Random<'a> = &'a dyn Fn(&mut [u8]) -> Result<(), Fault>;

/// The files that an agent's intents are staged in.
#[derive(Clone, Debug)]
pub struct Staged {
    /// Submissions and dispatches.
    pub intents: PathBuf,
    /// Finishes.
    pub finish: PathBuf,
}

/// Everything that the tools have: one immutable snapshot, two files, and chance for the ids of intents.
pub struct Toolbox<'a> {
    role: RuntimeRole,
    view: SnapshotView,
    visible: Option<HashSet<String>>,
    staged: Staged,
    random: Random<'a>,
    scanner: Scanner,
}

impl<'a> Toolbox<'a> {
    /// Takes a snapshot that was checked for this protected role; `host` is that of external resources.
    #[must_use]
    pub fn new(role: RuntimeRole, mut view: SnapshotView, staged: Staged, random: Random<'a>, host: &str) -> Self {
        // The replayed queue holds all that is asked for.
        view.snapshot.log = String::new();
        let visible = view.snapshot.visible.as_ref();
        let visible = visible.map(|ids| ids.iter().map(|id| id.as_str().to_owned()).collect());
        Self { role, view, visible, staged, random, scanner: Scanner::new(host) }
    }

    /// The protected role.
    #[must_use]
    pub fn role(&self) -> RuntimeRole {
        self.role
    }

    /// Checks the arguments and runs the tool. Returns one JSON object.
    ///
    /// # Errors
    /// `-32602` for arguments that the tool does not take, `-32603` with a stable code at the front of the message where the
    /// tool refuses.
    pub fn call(&mut self, tool: Tool, arguments: &Value) -> Result<String, Refusal> {
        check(tool.fields(), arguments, tool.hint())
            .map_err(|sentence| Refusal::new(Refusal::INVALID_PARAMS, format!("{}: {sentence}", tool.name())))?;
        let told = match tool {
            Tool::Read => self.read(arguments),
            Tool::Explain => self.explain(arguments),
            Tool::Submit => self.submit(arguments),
            Tool::DispatchNext => self.dispatch_next(arguments),
            Tool::ClaimFinish => self.claim_finish(arguments),
        };
        told.map_err(|fault| Refusal::new(Refusal::HANDLER, fault.to_string()))
    }

    /// True if reads may show this Work.
    fn shows(&self, work_id: &str) -> bool {
        self.visible.as_ref().is_none_or(|visible| visible.contains(work_id))
    }

    /// Takes out of a view what names Work that may not be shown. Counts stay.
    fn redact(&self, view: &mut WorkView) {
        view.unresolved.retain(|(kind, id, _)| *kind != "work" || self.shows(id));
        view.blocking_path.retain(|id| self.shows(id.as_str()));
    }

    /// Adds where an answer comes from (decision 73).
    fn provenance(&self, members: &mut Members<'_>) {
        members.name("captured_at", |w| self.view.snapshot.captured_at.write(w));
        let tip = self.view.projection.as_ref().and_then(|projection| projection.tip());
        members.name("queue_tip", |w| match tip {
            Some(tip) => tip.write(w),
            None => w.raw("null"),
        });
        members.name("snapshot_sha", |w| match &self.view.snapshot.sha {
            Some(sha) => sha.write(w),
            None => w.raw("null"),
        });
        members.name("view", |w| w.string("activation_snapshot"));
    }
}

/// An argument that is an identity, if it was given.
fn named<T>(arguments: &Value, name: &str, of: impl Fn(String) -> Result<T, Fault>) -> Result<Option<T>, Fault> {
    let refused = |_| Fault::new(Code::RequestInvalid, format!("{name} is 1 to 256 bytes without control characters"));
    text(arguments, name).map(|text| of(text.to_owned()).map_err(refused)).transpose()
}

/// A string argument.
fn text<'v>(arguments: &'v Value, name: &str) -> Option<&'v str> {
    arguments.get(name).and_then(Value::as_str)
}
