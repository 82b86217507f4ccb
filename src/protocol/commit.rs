//! The QueueCommit (engine.md 2.1).

use std::sync::Arc;

use super::actor::Actor;
use super::fault::ensure;
use super::identity::{At, CommitId, Epoch, Identity, Opaque, Within};
use super::json::{Document, Node, Scanner, Writer};
use super::limits::{MAX_ATTEMPT, MAX_COMMIT_BYTES, MAX_OPERATIONS, MAX_TRACE_BYTES};
use super::operation::Operation;
use super::request::{Parameters, Request, RequestKind, fingerprint, fingerprinted};
use super::wire::{Wire, closed, record};
use super::{Code, Digest, Fault, RequestId, Text};

record! {
    /// Diagnostic correlation; never an input to a decision (engine.md 2.10).
    pub struct Trace, closed LedgerInvalid {
        trace_id [optional]: Identity = "trace_id";
        span_id [optional]: Identity = "span_id";
        publisher_attempt [optional]: Within<1, MAX_ATTEMPT> = "publisher_attempt";
    }
}

/// One validated record of the ledger.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Canonical text, without the line feed. What bytes are counted and compared.
    pub source: Opaque,
    /// Id.
    pub id: CommitId,
    /// Predecessor; none for the root.
    pub previous: Option<CommitId>,
    /// Request.
    pub request: Request,
    /// Actor, shared with everything that remembers it.
    pub actor: Arc<Actor>,
    /// Epoch that the commit was decided under.
    pub policy_epoch: Epoch,
    /// Time of the decision.
    pub at: At,
    /// Operations, 1 to 256.
    pub operations: Vec<Operation>,
}

/// Actors that were read lately. A ledger names few of them over and over, word for word: equal text is an equal
/// actor, and need not be read or kept twice.
#[derive(Debug, Default)]
pub(crate) struct Actors {
    /// The one used last comes first.
    recent: Vec<(Text, Arc<Actor>)>,
}

impl Actors {
    /// A dispatcher and a reconciler stay in view while a batch of workers goes by.
    const MOST: usize = 6;

    fn read(&mut self, node: Node<'_>) -> Result<Arc<Actor>, Fault> {
        let raw = node.raw();
        if let Some(place) = self.recent.iter().position(|(text, _)| text.as_str() == raw) {
            self.recent[..=place].rotate_right(1);
        } else {
            let actor = Arc::new(Actor::read(node, Code::LedgerInvalid)?);
            self.recent.truncate(Self::MOST - 1);
            self.recent.insert(0, (node.text(), actor));
        }
        Ok(Arc::clone(&self.recent[0].1))
    }
}

/// What a writer supplies for a new commit; the rest follows.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    /// Id.
    pub id: &'a CommitId,
    /// Predecessor.
    pub previous: Option<&'a CommitId>,
    /// The request as frozen for all attempts.
    pub request: &'a FrozenRequest,
    /// Epoch.
    pub policy_epoch: &'a Epoch,
    /// Time of the decision.
    pub at: At,
    /// Canonical operations in order.
    pub operations: &'a [Opaque],
}

/// A request whose identity, meaning and origin stay the same over every attempt to publish it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenRequest {
    /// Id.
    pub id: RequestId,
    /// Kind.
    pub kind: RequestKind,
    /// Canonical parameters.
    pub parameters: Opaque,
    /// Fingerprint.
    pub fingerprint: Digest,
    /// Actor.
    pub actor: Actor,
}

impl FrozenRequest {
    /// Fixes a request. `parameters` is canonical text.
    ///
    /// # Errors
    /// A codec code if the parameters are not JSON of the wire profile.
    pub fn new(id: RequestId, kind: RequestKind, actor: Actor, parameters: &str) -> Result<Self, Fault> {
        let mut scanner = Scanner::new("");
        let text = Text::from(parameters);
        let document = scanner.read(&text)?;
        let parameters = Opaque::checked(document.root().text());
        let fingerprint = fingerprint(&actor.canonical(), kind, parameters.as_str());
        Ok(Self { id, kind, parameters, fingerprint, actor })
    }

    fn write(&self, writer: &mut Writer) {
        writer.object(|members| {
            members.name("fingerprint", |w| self.fingerprint.write(w));
            members.name("id", |w| self.id.write(w));
            members.name("kind", |w| self.kind.write(w));
            members.name("parameters", |w| self.parameters.write(w));
        });
    }
}

impl Candidate<'_> {
    /// The commit's canonical text.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut writer = Writer::new();
        writer.object(|members| {
            members.name("actor", |w| self.request.actor.write(w));
            members.name("at", |w| self.at.write(w));
            members.name("id", |w| self.id.write(w));
            members.name("operations", |w| w.array(self.operations, |w, operation| operation.write(w)));
            members.name("policy_epoch", |w| self.policy_epoch.write(w));
            members.name("previous", |w| match self.previous {
                Some(previous) => previous.write(w),
                None => w.raw("null"),
            });
            members.name("request", |w| self.request.write(w));
            members.name("version", |w| w.integer(3));
        });
        writer.finish()
    }
}

impl Commit {
    /// Reads one commit from text, canonical or not.
    ///
    /// # Errors
    /// A codec code, or the first structural defect in the order of engine.md 2.1.
    pub fn read(scanner: &mut Scanner, text: &Text) -> Result<Self, Fault> {
        Self::read_among(scanner, text, &mut Actors::default())
    }

    /// As [`Commit::read`], for one of many commits that have actors in common.
    ///
    /// # Errors
    /// As [`Commit::read`].
    pub(crate) fn read_among(scanner: &mut Scanner, text: &Text, actors: &mut Actors) -> Result<Self, Fault> {
        let document = scanner.read(text)?;
        let base = text.parts().1 as usize;
        Self::decode(&document, actors).map_err(|fault| match fault.offset() {
            // Offsets inside a shared buffer count from its start; callers want them from the commit's.
            Some(offset) if offset >= base => fault.without_offset().at(offset - base),
            _ => fault,
        })
    }

    fn decode(document: &Document<'_>, actors: &mut Actors) -> Result<Self, Fault> {
        const NAMES: &[(&str, bool); 9] = &[
            // Required too; a record without it is of another protocol.
            ("version", false),
            ("id", true),
            ("previous", true),
            ("policy_epoch", true),
            ("at", true),
            ("actor", true),
            ("request", true),
            ("operations", true),
            ("trace", false),
        ];
        let root = document.root();
        let unsupported = |place: Node<'_>| Err(place.fault(Code::UnsupportedProtocol, "only version 3 is supported"));
        // Before the members: another version may have others, and its number says best what is wrong.
        if let Some(version) = root.object().and_then(|object| object.get("version"))
            && version.integer() != Some(3)
        {
            return unsupported(version);
        }
        let slots = closed(root, NAMES, Code::LedgerInvalid)?;
        if slots[0].is_none() {
            return unsupported(root);
        }
        let slot = |index: usize| slots[index].ok_or_else(|| Fault::from(Code::LedgerInvalid));
        let id = CommitId::read(slot(1)?, Code::LedgerInvalid)?;
        let previous = slot(2)?;
        let previous = if previous.is_null() { None } else { Some(CommitId::read(previous, Code::LedgerInvalid)?) };
        let policy_epoch = Epoch::read(slot(3)?, Code::LedgerInvalid)?;
        let at = At::read(slot(4)?, Code::LedgerInvalid)?;
        let actor = actors.read(slot(5)?)?;
        let carried = slot(7)?;
        let (request, asked) = read_request(slot(6)?, slot(5)?, carried)?;
        ensure!(actor.role.may_issue(request.kind), ActorUnauthorized, "the role may not issue this kind of request");
        let count = carried.array_len();
        if !(1..=MAX_OPERATIONS).contains(&count) {
            return Err(carried.fault(Code::ResourceLimit, "a commit carries 1 to 256 operations"));
        }
        if let Some(trace) = slots[8] {
            Trace::read(trace, Code::LedgerInvalid)?;
            ensure!(trace.raw().len() <= MAX_TRACE_BYTES, ResourceLimit, "a trace is longer than 1024 bytes");
        }
        let operations = read_operations(carried, asked, &request, &actor)?;
        let source = Opaque::checked(root.text());
        ensure!(source.len() <= MAX_COMMIT_BYTES, ResourceLimit, "a commit is longer than 8 MiB");
        Ok(Self { source, id, previous, request, actor, policy_epoch, at, operations })
    }

    /// Bytes that this commit takes in the ledger: canonical text and line feed.
    #[must_use]
    pub fn ledger_bytes(&self) -> u64 {
        self.source.len() as u64 + 1
    }
}

/// The operations that a request's parameters list, and the text of that list.
struct Asked<'a> {
    node: Node<'a>,
    operations: Vec<Operation>,
}

fn read_request<'a>(node: Node<'a>, actor: Node<'a>, carried: Node<'a>) -> Result<(Request, Option<Asked<'a>>), Fault> {
    let names = [("id", true), ("kind", true), ("parameters", true), ("fingerprint", true)];
    let slots = closed(node, &names, Code::LedgerInvalid)?;
    let slot = |index: usize| slots[index].ok_or_else(|| Fault::from(Code::LedgerInvalid));
    let id = RequestId::read(slot(0)?, Code::LedgerInvalid)?;
    let kind = RequestKind::read(slot(1)?, Code::RequestInvalid)?;
    let given = Digest::read(slot(3)?, Code::RequestInvalid)?;
    let body = slot(2)?;
    if !given.is_of(&fingerprinted(actor.raw(), kind, body.raw())) {
        return Err(slot(3)?.fault(Code::RequestInvalid, "the fingerprint is not the request's"));
    }
    let mut asked = None;
    let parameters = match kind {
        RequestKind::DispatchNext => Parameters::Dispatch(Wire::read(body, Code::LedgerInvalid)?),
        RequestKind::Finish => Parameters::Finish(Wire::read(body, Code::LedgerInvalid)?),
        RequestKind::Checkpoint => Parameters::Checkpoint(Wire::read(body, Code::CheckpointInvalid)?),
        RequestKind::Submit => {
            let nodes = read_asked(body, "nodes", carried)?;
            let works = nodes.operations.iter().all(|operation| matches!(operation, Operation::Work(_)));
            asked = Some(nodes);
            if works { Parameters::Nodes } else { Parameters::Operations }
        }
        _ => {
            asked = Some(read_asked(body, "operations", carried)?);
            Parameters::Operations
        }
    };
    Ok((Request { id, kind, parameters, fingerprint: given }, asked))
}

fn read_asked<'a>(body: Node<'a>, member: &'static str, carried: Node<'a>) -> Result<Asked<'a>, Fault> {
    let slots = closed(body, &[(member, true)], Code::LedgerInvalid)?;
    let node = slots[0].ok_or_else(|| Fault::from(Code::LedgerInvalid))?;
    let items = node.array().ok_or_else(|| node.fault(Code::RequestInvalid, "a request lists its operations"))?;
    if !(1..=MAX_OPERATIONS).contains(&node.array_len()) {
        return Err(node.fault(Code::RequestInvalid, "a request lists 1 to 256 operations"));
    }
    // The commit almost always repeats the list word for word; then the commit's own copy is read, whose
    // spans sit together, and the request's is not.
    let twin = if node.repeats(carried) { carried.array() } else { None };
    let operations = match twin {
        Some(items) => items.map(|item| Operation::read(item, Code::LedgerInvalid)).collect::<Result<Vec<_>, _>>(),
        None => items.map(|item| Operation::read(item, Code::LedgerInvalid)).collect(),
    }?;
    Ok(Asked { node, operations })
}

/// Reads the commit's operations, reusing what the request already gave, and checks kinds and the relation of
/// engine.md 2.1 between the two lists.
fn read_operations(
    carried: Node<'_>,
    asked: Option<Asked<'_>>,
    request: &Request,
    actor: &Actor,
) -> Result<Vec<Operation>, Fault> {
    let allowed = |operation: &Operation| -> Result<(), Fault> {
        let kind = operation.kind();
        ensure!(
            kind.fits(request.kind) && kind.permitted(actor.role),
            UnauthorizedOperation,
            "the operation is not allowed for this request and role"
        );
        Ok(())
    };
    let (asked_text, mut reuse) = match asked {
        Some(asked) => (Some(asked.node), asked.operations),
        None => (None, Vec::new()),
    };
    if asked_text.is_some_and(|node| node.repeats(carried)) {
        reuse.iter().try_for_each(allowed)?;
        return Ok(reuse);
    }
    let mut operations = Vec::with_capacity(carried.array_len());
    let items = carried.array().ok_or_else(|| carried.fault(Code::ResourceLimit, "operations are an array"))?;
    for item in items {
        let operation = Operation::read(item, Code::LedgerInvalid)?;
        allowed(&operation)?;
        operations.push(operation);
    }
    match (request.kind, asked_text) {
        (RequestKind::Submit, Some(asked)) => {
            let (first, rest) = carried.array().map(|mut items| (items.next(), items)).unzip();
            let policy = first.flatten().is_some() && matches!(operations.first(), Some(Operation::Policy(_)));
            let same = rest
                .is_some_and(|rest| asked.array().is_some_and(|asked| rest.map(Node::raw).eq(asked.map(Node::raw))));
            let works = operations.iter().skip(1).all(|operation| matches!(operation, Operation::Work(_)));
            ensure!(policy && works && same, RequestInvalid, "the operations are not the submitted nodes");
            reuse.clear();
        }
        (RequestKind::Checkpoint, _) => check_checkpoint(request, &operations)?,
        (RequestKind::DispatchNext | RequestKind::Finish, _) => {}
        _ => return Err(Fault::new(Code::RequestInvalid, "the operations are not the requested ones")),
    }
    Ok(operations)
}

fn check_checkpoint(request: &Request, operations: &[Operation]) -> Result<(), Fault> {
    let (Parameters::Checkpoint(asked), [Operation::Checkpoint(operation)]) = (&request.parameters, operations) else {
        return Err(Fault::new(Code::CheckpointInvalid, "a checkpoint is one operation"));
    };
    let same = asked.prior_git_sha == operation.prior_git_sha
        && asked.prior_tip == operation.prior_tip
        && asked.history_sha256 == operation.history_sha256
        && asked.state_sha256 == operation.state_sha256;
    ensure!(same, CheckpointInvalid, "a checkpoint's operation differs from its request");
    Ok(())
}
