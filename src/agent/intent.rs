//! Staged intents (jobs.md 4.10, 5.3.2; lifecycle.md 4.1): what an agent asked for, one canonical line each. A line is a
//! proposal; trusted jobs decide what becomes of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::protocol::assignment::Assignment;
use crate::protocol::fault::ensure;
use crate::protocol::json::{Kind, Node, Scanner, Writer};
use crate::protocol::request::Outcome;
use crate::protocol::selector::select;
use crate::protocol::wire::{closed, record, words};
use crate::protocol::{Code, Fault, Handle, Identity, Opaque, Text, Wire as _};

/// Longest file of intents, in bytes.
pub const MAX_INTENT_BYTES: u64 = 4 * 1024 * 1024;
/// Most lines of such a file that are not blank.
pub const MAX_INTENT_LINES: usize = 256;

words! {
    /// What an intent asks for.
    pub enum IntentKind {
        Submit = "submit",
        DispatchNext = "dispatch_next",
        Finish = "finish",
    }
}

/// One intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// `intent:` and a random identity.
    pub intent_id: Identity,
    /// What it asks for.
    pub kind: IntentKind,
    /// Its parameters, an object.
    pub parameters: Opaque,
    /// The Claim for which a worker asks.
    pub claim_handle: Option<Handle>,
}

impl Intent {
    /// The line without its line feed.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut writer = Writer::new();
        writer.object(|members| {
            if let Some(handle) = &self.claim_handle {
                members.name("claim_handle", |w| handle.write(w));
            }
            members.name("intent_id", |w| self.intent_id.write(w));
            members.name("kind", |w| self.kind.write(w));
            members.name("parameters", |w| self.parameters.write(w));
            members.name("version", |w| w.integer(3));
        });
        writer.finish()
    }

    fn read(node: Node<'_>) -> Result<Self, Fault> {
        const CODE: Code = Code::WorkQueueIntentInvalid;
        const NAMES: &[(&str, bool); 5] =
            &[("version", true), ("intent_id", true), ("kind", true), ("parameters", true), ("claim_handle", false)];
        let [Some(version), Some(intent_id), Some(kind), Some(parameters), handle] = closed(node, NAMES, CODE)? else {
            return Err(CODE.into());
        };
        ensure!(version.integer() == Some(3), WorkQueueIntentInvalid, "an intent has version 3");
        ensure!(parameters.kind() == Kind::Object, WorkQueueIntentInvalid, "an intent's parameters are an object");
        Ok(Self {
            intent_id: Identity::read(intent_id, CODE)?,
            kind: IntentKind::read(kind, CODE)?,
            parameters: Opaque::read(parameters, CODE)?,
            claim_handle: handle.map(|handle| Handle::read(handle, CODE)).transpose()?,
        })
    }
}

/// A line that is no intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// From 1, blank lines counted.
    pub line: usize,
    /// Its id, if that could be read.
    pub intent_id: Option<Identity>,
    /// `work_queue_intent_invalid` or `work_queue_intent_conflict`.
    pub code: Code,
}

/// The intents of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Each once, in the order of their first lines.
    pub intents: Vec<Intent>,
    /// In the order of lines.
    pub errors: Vec<LineError>,
}

/// The lines of a file that are not blank, with their numbers from 1.
///
/// # Errors
/// `work_queue_intent_limit` for more than 4 MiB or 256 lines, `work_queue_intent_transport_invalid` unless it is UTF-8.
pub fn lines(bytes: &[u8]) -> Result<Vec<(usize, &str)>, Fault> {
    ensure!(bytes.len() as u64 <= MAX_INTENT_BYTES, WorkQueueIntentLimit, "a file of intents has more than 4 MiB");
    let text = str::from_utf8(bytes).map_err(|_| Fault::from(Code::WorkQueueIntentTransportInvalid))?;
    let lines: Vec<_> = (1..).zip(text.split('\n')).filter(|(_, line)| !line.trim_ascii().is_empty()).collect();
    ensure!(lines.len() <= MAX_INTENT_LINES, WorkQueueIntentLimit, "a file of intents has more than 256 lines");
    Ok(lines)
}

/// Reads a file of intents. A defective line stops none of the others; an id that stands for two intents, or for an
/// intent and a defect, stands for none.
///
/// # Errors
/// As [`lines`].
pub fn parse_batch(bytes: &[u8], scanner: &mut Scanner) -> Result<Batch, Fault> {
    let mut read: Vec<(usize, Option<Identity>, Result<Intent, Code>)> = Vec::new();
    for (number, line) in lines(bytes)? {
        let Ok(document) = scanner.read(&Text::from(line)) else {
            read.push((number, None, Err(Code::WorkQueueIntentInvalid)));
            continue;
        };
        let root = document.root();
        let id = root.object().and_then(|object| object.get("intent_id"));
        let id = id.and_then(|id| Identity::read(id, Code::WorkQueueIntentInvalid).ok());
        read.push((number, id, Intent::read(root).map_err(|_| Code::WorkQueueIntentInvalid)));
    }
    let mut seen: BTreeMap<&Identity, &Result<Intent, Code>> = BTreeMap::new();
    let mut poisoned: BTreeMap<&Identity, Code> = BTreeMap::new();
    for (_, id, intent) in &read {
        let Some(id) = id else { continue };
        let first = *seen.entry(id).or_insert(intent);
        if first.is_ok() && intent.is_ok() && first != intent {
            poisoned.insert(id, Code::WorkQueueIntentConflict);
        } else if intent.is_err() {
            poisoned.entry(id).or_insert(Code::WorkQueueIntentInvalid);
        }
    }
    let mut batch = Batch::default();
    let mut taken: BTreeSet<&Identity> = BTreeSet::new();
    for (line, id, intent) in &read {
        let poison = id.as_ref().and_then(|id| poisoned.get(id)).copied();
        match (intent, poison) {
            (Ok(intent), None) if taken.insert(&intent.intent_id) => batch.intents.push(intent.clone()),
            (Ok(_), None) => {}
            (Ok(_), Some(_)) => {
                let code = Code::WorkQueueIntentConflict;
                batch.errors.push(LineError { line: *line, intent_id: id.clone(), code });
            }
            (Err(code), poison) => {
                let code = poison.unwrap_or(*code);
                batch.errors.push(LineError { line: *line, intent_id: id.clone(), code });
            }
        }
    }
    Ok(batch)
}

record! {
    /// Parameters of a staged finish. `keep_open: false` reads as absent (decision 30).
    pub struct StagedFinish, closed WorkQueueFinishInvalid, check check {
        outcome: Outcome = "outcome" => WorkQueueFinishInvalid;
        keep_open [optional]: bool = "keep_open" => WorkQueueFinishInvalid;
    }
}

impl StagedFinish {
    fn check(&self) -> Result<(), Fault> {
        ensure!(
            self.keep_open != Some(true) || self.outcome == Outcome::Completed,
            WorkQueueFinishInvalid,
            "only a completed Claim can keep its Work open"
        );
        Ok(())
    }
}

/// How a worker means to end one Claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// Id of the last of equal lines.
    pub intent_id: Identity,
    /// How.
    pub outcome: Outcome,
    /// True if the Work is to stay open.
    pub keep_open: bool,
}

/// A finish line that does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishError {
    /// From 1.
    pub line: usize,
    /// Its Claim, if one could be told.
    pub claim_handle: Option<Handle>,
    /// `work_queue_finish_conflict` or `work_queue_finish_scope_invalid`.
    pub code: Code,
}

/// The finishes of a file, against the original assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finishes {
    /// One for each Claim that has an unambiguous one.
    pub by_handle: BTreeMap<Handle, Finish>,
    /// Claims with a contradiction: they stay open.
    pub blocked: BTreeSet<Handle>,
    /// In the order of lines.
    pub errors: Vec<FinishError>,
}

/// Reads a file of finishes (lifecycle.md 4.1). A line that is for no Claim is an error of nobody; lines of one Claim that
/// differ block it.
///
/// # Errors
/// As [`lines`].
pub fn parse_finishes(bytes: &[u8], original: &Assignment, scanner: &mut Scanner) -> Result<Finishes, Fault> {
    let mut found = Finishes::default();
    for (line, text) in lines(bytes)? {
        let (handle, finish) = match finish(text, original, scanner) {
            Ok(read) => read,
            Err(_) => {
                let code = Code::WorkQueueFinishScopeInvalid;
                found.errors.push(FinishError { line, claim_handle: None, code });
                continue;
            }
        };
        match found.by_handle.get_mut(&handle) {
            Some(known) if known.outcome == finish.outcome && known.keep_open == finish.keep_open => {
                known.intent_id = finish.intent_id;
            }
            Some(_) => {
                found.blocked.insert(handle.clone());
                let code = Code::WorkQueueFinishConflict;
                found.errors.push(FinishError { line, claim_handle: Some(handle), code });
            }
            None => drop(found.by_handle.insert(handle, finish)),
        }
    }
    for handle in &found.blocked {
        found.by_handle.remove(handle);
    }
    Ok(found)
}

/// One finish line and its Claim.
fn finish(line: &str, original: &Assignment, scanner: &mut Scanner) -> Result<(Handle, Finish), Fault> {
    let document = scanner.read(&Text::from(line))?;
    let root = document.root();
    let intent = Intent::read(root)?;
    ensure!(intent.kind == IntentKind::Finish, WorkQueueFinishInvalid, "the line is no finish");
    let parameters = root.object().and_then(|object| object.get("parameters"));
    let parameters = parameters.ok_or_else(|| Fault::from(Code::WorkQueueFinishInvalid))?;
    let staged = StagedFinish::read(parameters, Code::WorkQueueFinishInvalid)?;
    let handle = select(root, original)?.handle.clone();
    let keep_open = staged.keep_open == Some(true);
    Ok((handle, Finish { intent_id: intent.intent_id, outcome: staged.outcome, keep_open }))
}
