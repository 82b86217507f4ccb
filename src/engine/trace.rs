//! Which events of the history belong to one request or one Claim (operator-cli.md 4.6, engine.md 4.7).
//!
//! An event is built from an operation by a list of the members that it may keep, the same list that compaction
//! stores in receipts (engine.md 3.12.2). So no payload, descriptor, receipt or parameter can reach it, and a trace reads
//! the same before and after compaction.

use std::sync::Arc;

use hashbrown::HashSet;

use super::state::{Accepted, ClaimState, Position, Projection, Source};
use crate::protocol::actor::Actor;
use crate::protocol::json::{Kind, Node, Scanner, Writer};
use crate::protocol::operation::OperationKind;
use crate::protocol::request::RequestKind;
use crate::protocol::{At, Code, CommitId, DispatchId, Epoch, Fault, Handle, RequestId, Text, Wire as _};

/// Members that an event keeps of its operation if they are strings, integers or booleans.
const KEPT: [&str; 18] = [
    "work_id",
    "logical_contract",
    "execution_ref",
    "claim_id",
    "dispatch_id",
    "credential_principal",
    "claim_handle",
    "completion_id",
    "state",
    "reason",
    "disposition",
    "control",
    "value",
    "observation_id",
    "run_id",
    "run_attempt",
    "keep_open",
    "kind",
];
/// Members of a run binding.
const RUN: [&str; 7] = ["run_id", "run_attempt", "repository", "workflow", "ref", "principal", "event"];
/// Members of evidence: all but its receipt.
const EVIDENCE: [&str; 13] = [
    "kind",
    "source",
    "checked_at",
    "repository",
    "workflow",
    "ref",
    "principal",
    "run_id",
    "run_attempt",
    "status",
    "conclusion",
    "effects",
    "attempts",
];
/// Members of correlation data.
const TRACE: [&str; 3] = ["trace_id", "span_id", "publisher_attempt"];
/// What a Deployment keeps beside [`KEPT`].
const DEPLOYMENT: [&str; 6] = ["pool", "worker_profile", "expected_ref", "expected_contract", "available", "activate"];
/// What is kept of the route that a Deployment installs.
const ROUTE: [&str; 3] = ["workflow", "ref", "logical_contract"];

/// One operation of the history, without what people and logs must not see.
#[derive(Clone, Debug)]
pub struct Event {
    kind: OperationKind,
    work: Option<Text>,
    claim: Option<Text>,
    dispatch: Option<Text>,
    observation: Option<Text>,
    state: Option<Text>,
    /// Pool and profile of a Deployment.
    target: Option<(Text, Text)>,
    /// Kept members as canonical text, by name.
    members: Vec<(&'static str, Text)>,
    /// True if correlation data names a trace.
    correlated: bool,
}

impl Event {
    /// Builds an event from an operation of a commit or from an event of a receipt: both have the same members, and
    /// building one from an event that was built before changes nothing.
    ///
    /// # Errors
    /// `ledger_invalid` for anything but an object with a known `kind`.
    pub fn of(node: Node<'_>) -> Result<Self, Fault> {
        let invalid = || node.fault(Code::LedgerInvalid, "an event is an object with a known kind");
        let object = node.object().ok_or_else(invalid)?;
        let kind = object.get("kind").and_then(Node::plain).and_then(OperationKind::parse).ok_or_else(invalid)?;
        let deployment = kind == OperationKind::Deployment;
        let mut event = Self {
            kind,
            work: None,
            claim: None,
            dispatch: None,
            observation: None,
            state: None,
            target: None,
            members: Vec::new(),
            correlated: false,
        };
        for (key, value) in object.members() {
            let Some(key) = key.plain() else { continue };
            let own = KEPT.iter().chain(DEPLOYMENT.iter().filter(|_| deployment)).find(|name| **name == key);
            match (key, own) {
                (_, Some(name)) => event.members.extend(scalar(value).map(|text| (*name, text))),
                ("run", _) => event.keep("run", pick(value, &RUN)),
                ("evidence", _) => event.keep("evidence", pick(value, &EVIDENCE)),
                ("trace", _) => event.trace(value),
                ("observations", _) => event.keep("observations", strings(value)),
                ("profile", _) if deployment => event.keep("profile", pick(value, &ROUTE)),
                _ => {}
            }
        }
        let string = |name: &str| object.get(name).and_then(Node::string);
        event.work = string("work_id");
        event.claim = string("claim_id");
        event.dispatch = string("dispatch_id");
        event.observation = string("observation_id");
        event.state = string("state");
        event.target = if deployment { string("pool").zip(string("worker_profile")) } else { None };
        Ok(event)
    }

    fn keep(&mut self, name: &'static str, value: Option<String>) {
        self.members.extend(value.map(|text| (name, Text::from(text))));
    }

    /// Adds a commit's correlation data.
    fn trace(&mut self, node: Node<'_>) {
        self.correlated |= node.object().is_some_and(|object| object.get("trace_id").is_some());
        self.members.retain(|(name, _)| *name != "trace");
        self.keep("trace", pick(node, &TRACE));
    }
}

/// The text of a string, integer or boolean; anything else is dropped.
fn scalar(node: Node<'_>) -> Option<Text> {
    (!matches!(node.kind(), Kind::Array | Kind::Object | Kind::Null)).then(|| node.text())
}

/// The scalar members of an object that a list names.
fn pick(node: Node<'_>, names: &[&'static str]) -> Option<String> {
    let object = node.object()?;
    let mut writer = Writer::new();
    writer.object(|members| {
        for name in names {
            if let Some(text) = object.get(name).and_then(scalar) {
                members.name(name, |w| w.raw(text.as_str()));
            }
        }
    });
    Some(writer.finish())
}

/// The strings of a nonempty array.
fn strings(node: Node<'_>) -> Option<String> {
    let items: Vec<Text> = node.array()?.filter(|item| item.kind() == Kind::String).map(Node::text).collect();
    let mut writer = Writer::new();
    writer.array(&items, |w, text| w.raw(text.as_str()));
    (!items.is_empty()).then(|| writer.finish())
}

/// One commit of the history, whether it still stands in the ledger or only its receipt does.
#[derive(Clone, Debug)]
pub struct HistoricalCommit {
    /// Ordinal in the logical chain, from 0; compaction does not change it (engine.md 3.2).
    pub ordinal: u32,
    /// Id.
    pub commit_id: CommitId,
    /// Predecessor; none for a root.
    pub previous: Option<Text>,
    /// Request.
    pub request_id: RequestId,
    /// Its kind.
    pub kind: RequestKind,
    /// Epoch that it was decided under.
    pub policy_epoch: Epoch,
    /// Time of the decision.
    pub at: At,
    /// Who acted.
    pub actor: Arc<Actor>,
    /// One event for each operation, in order.
    pub events: Vec<Event>,
}

impl HistoricalCommit {
    /// Reads a commit that stands in the ledger, or the receipt that a checkpoint keeps of it.
    fn read(ordinal: u32, accepted: &Accepted, scanner: &mut Scanner) -> Result<Self, Fault> {
        let (text, list) = match &accepted.source {
            Source::Commit(text) => (text, "operations"),
            Source::Receipt(text) => (text, "events"),
        };
        let document = scanner.read(text.text())?;
        let malformed = || Fault::new(Code::LedgerInvalid, "a commit or receipt holds a list of operations");
        let root = document.root().object().ok_or_else(malformed)?;
        let operations = root.get(list).and_then(Node::array).ok_or_else(malformed)?;
        let mut events = operations.map(Event::of).collect::<Result<Vec<_>, _>>()?;
        if let Some(trace) = root.get("trace") {
            events.iter_mut().for_each(|event| event.trace(trace));
        }
        Ok(Self {
            ordinal,
            commit_id: accepted.commit_id.clone(),
            previous: root.get("previous").and_then(Node::string),
            request_id: accepted.request_id.clone(),
            kind: accepted.kind,
            policy_epoch: accepted.policy_epoch.clone(),
            at: accepted.at,
            actor: Arc::clone(&accepted.actor),
            events,
        })
    }
}

/// What a trace is about.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// Everything around a committed request.
    Request(&'a str),
    /// Everything around a Claim.
    Claim(&'a str),
}

/// A matching event with its place.
#[derive(Clone, Debug)]
pub struct TraceEvent {
    commit: Arc<HistoricalCommit>,
    operation: u32,
    /// Dispatch and handle of the Claim that the event names.
    member: Option<(DispatchId, Handle)>,
}

/// Every event that belongs to a subject, in causal order.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The events.
    pub events: Vec<TraceEvent>,
    /// True if any of them carries a trace id.
    pub correlated: bool,
}

impl Trace {
    /// `correlated` or `ledger_only`.
    #[must_use]
    pub fn availability(&self) -> &'static str {
        if self.correlated { "correlated" } else { "ledger_only" }
    }
}

impl TraceEvent {
    /// Where the event stands.
    #[must_use]
    pub fn position(&self) -> Position {
        Position { commit: self.commit.ordinal, operation: self.operation }
    }

    /// The commit that it belongs to.
    #[must_use]
    pub fn commit(&self) -> &HistoricalCommit {
        &self.commit
    }

    /// The operation's name.
    #[must_use]
    pub fn kind(&self) -> OperationKind {
        self.event().kind
    }

    /// Work, Claim, dispatch and state that the event names, as far as it does.
    #[must_use]
    pub fn names(&self) -> [Option<&str>; 4] {
        let event = self.event();
        let dispatch = event.dispatch.as_ref().map(Text::as_str);
        let member = self.member.as_ref().map(|(dispatch, _)| dispatch.as_str());
        [
            event.work.as_ref().map(Text::as_str),
            event.claim.as_ref().map(Text::as_str),
            dispatch.or(member),
            event.state.as_ref().map(Text::as_str),
        ]
    }

    fn event(&self) -> &Event {
        &self.commit.events[self.operation as usize]
    }

    /// Writes the event: its place, its commit's identity, time and actor, and what the lists above keep.
    pub fn write(&self, writer: &mut Writer) {
        let (commit, event) = (&*self.commit, self.event());
        let has = |name: &str| event.members.iter().any(|(kept, _)| *kept == name);
        writer.object(|members| {
            members.name("actor", |w| commit.actor.write(w));
            members.name("at", |w| commit.at.write(w));
            members.name("commit_id", |w| commit.commit_id.write(w));
            members.name("policy_epoch", |w| commit.policy_epoch.write(w));
            members.name("position", |w| super::schedule::explain::write_position(self.position(), w));
            members.name("previous", |w| match &commit.previous {
                Some(previous) => w.string(previous.as_str()),
                None => w.raw("null"),
            });
            members.name("request_id", |w| commit.request_id.write(w));
            members.name("request_kind", |w| commit.kind.write(w));
            for (name, text) in &event.members {
                members.name(name, |w| w.raw(text.as_str()));
            }
            if let Some((dispatch, handle)) = &self.member {
                if !has("dispatch_id") {
                    members.name("dispatch_id", |w| dispatch.write(w));
                }
                if !has("claim_handle") {
                    members.name("claim_handle", |w| handle.write(w));
                }
            }
        });
    }
}

/// Everything that a trace looks for.
#[derive(Debug, Default)]
struct Scope {
    /// The request's own commit, all of whose events belong.
    own: Option<u32>,
    works: HashSet<Text>,
    claims: HashSet<Text>,
    dispatches: HashSet<Text>,
    observations: HashSet<Text>,
    epochs: HashSet<Text>,
    /// Pools and profiles of the Work.
    targets: HashSet<(Text, Text)>,
}

impl Scope {
    fn matches(&self, commit: &HistoricalCommit, event: &Event) -> bool {
        let named = |set: &HashSet<Text>, id: &Option<Text>| id.as_ref().is_some_and(|id| set.contains(id));
        if self.own == Some(commit.ordinal) || named(&self.claims, &event.claim) {
            return true;
        }
        match event.kind {
            OperationKind::Work | OperationKind::WorkCancellation | OperationKind::WorkPriority => {
                named(&self.works, &event.work)
            }
            OperationKind::Dispatch | OperationKind::Release => named(&self.dispatches, &event.dispatch),
            OperationKind::Observation => named(&self.observations, &event.observation),
            OperationKind::Policy => self.epochs.contains(commit.policy_epoch.text()),
            OperationKind::Control => !self.works.is_empty(),
            OperationKind::Deployment => event.target.as_ref().is_some_and(|target| self.targets.contains(target)),
            _ => false,
        }
    }

    fn add_work(&mut self, projection: &Projection, id: &Text) {
        self.works.insert(id.clone());
        if let Some(state) = projection.work(id.as_str()) {
            self.targets.insert((state.work.pool.text().clone(), state.work.worker_profile.text().clone()));
        }
    }

    fn add_claim(&mut self, projection: &Projection, claim: &ClaimState) {
        self.claims.insert(claim.claim.claim_id.text().clone());
        self.dispatches.insert(claim.claim.dispatch_id.text().clone());
        self.observations.extend(claim.claim.observations.0.iter().map(|id| id.text().clone()));
        self.epochs.insert(projection.dispatch_of(claim).assignment.policy_epoch.text().clone());
        self.add_work(projection, claim.claim.work_id.text());
    }

    /// What a request's operations name, the members of its dispatches, and every Claim of their Work.
    fn of_request(projection: &Projection, commit: &HistoricalCommit) -> Self {
        let mut scope = Self { own: Some(commit.ordinal), ..Self::default() };
        scope.epochs.insert(commit.policy_epoch.text().clone());
        for event in &commit.events {
            if let Some(id) = &event.work {
                scope.add_work(projection, id);
            }
            scope.dispatches.extend(event.dispatch.clone());
            scope.observations.extend(event.observation.clone());
            scope.targets.extend(event.target.clone());
            if let Some(claim) = event.claim.as_ref().and_then(|id| projection.claim(id.as_str())) {
                scope.add_claim(projection, claim);
            }
        }
        let named: Vec<Text> = scope.dispatches.iter().cloned().collect();
        for dispatch in named.iter().filter_map(|id| projection.dispatch(id.as_str())) {
            for member in &dispatch.assignment.claims {
                scope.add_work(projection, member.work_id.text());
            }
        }
        for claim in projection.claims() {
            if scope.works.contains(claim.claim.work_id.text()) {
                scope.add_claim(projection, claim);
            }
        }
        scope
    }
}

impl Projection {
    /// One commit of the history by its ordinal.
    fn historical(&self, ordinal: u32, scanner: &mut Scanner) -> Result<HistoricalCommit, Fault> {
        let accepted = self.requests.get(ordinal as usize).ok_or_else(|| Fault::from(Code::Internal))?;
        HistoricalCommit::read(ordinal, accepted, scanner)
    }

    /// Every event that belongs to a request or a Claim, in causal order. Reads the whole history once.
    ///
    /// # Errors
    /// `request_missing` or `claim_missing` for an unknown id.
    pub fn trace(&self, subject: Subject<'_>, scanner: &mut Scanner) -> Result<Trace, Fault> {
        let scope = match subject {
            Subject::Claim(id) => {
                let missing = || Fault::new(Code::ClaimMissing, "the queue has no Claim of this id");
                let claim = self.claim(id).ok_or_else(missing)?;
                let mut scope = Scope::default();
                scope.add_claim(self, claim);
                scope
            }
            Subject::Request(id) => {
                let missing = || Fault::new(Code::RequestMissing, "the queue has no request of this id");
                let ordinal = *self.request_ids.get(id).ok_or_else(missing)?;
                Scope::of_request(self, &self.historical(ordinal, scanner)?)
            }
        };
        let mut trace = Trace { events: Vec::new(), correlated: false };
        for ordinal in 0..self.requests.len() as u32 {
            let commit = Arc::new(self.historical(ordinal, scanner)?);
            for (index, event) in commit.events.iter().enumerate() {
                if !scope.matches(&commit, event) {
                    continue;
                }
                trace.correlated |= event.correlated;
                let claim = event.claim.as_ref().and_then(|id| self.claim(id.as_str()));
                let member = claim.map(|claim| (claim.claim.dispatch_id.clone(), claim.claim.handle.clone()));
                trace.events.push(TraceEvent { commit: Arc::clone(&commit), operation: index as u32, member });
            }
        }
        Ok(trace)
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, HistoricalCommit, Scope};
    use crate::protocol::actor::{Actor, Role};
    use crate::protocol::json::{Scanner, Writer};
    use crate::protocol::request::RequestKind;
    use crate::protocol::{At, CommitId, Decimal, Epoch, Repository, RequestId, Text};

    fn event(json: &str) -> Event {
        Event::of(Scanner::new("").read(&Text::from(json)).unwrap().root()).unwrap()
    }

    /// The kept members, as a receipt would hold them.
    fn kept(event: &Event) -> String {
        let mut writer = Writer::new();
        writer.object(|members| {
            event.members.iter().for_each(|(name, text)| members.name(name, |w| w.raw(text.as_str())))
        });
        writer.finish()
    }

    #[test]
    fn an_event_keeps_what_the_lists_name_and_is_its_own_receipt() {
        let digest = "d".repeat(64);
        for (operation, expected) in [
            (r#"{"kind":"Policy","epoch":"e","policy":{"mode":"x"}}"#.to_owned(), r#"{"kind":"Policy"}"#.to_owned()),
            (
                r#"{"kind":"Work","payload":{"claim_id":"x"},"work_id":"w","depends_on":[{"work_id":"v"}]}"#.to_owned(),
                r#"{"kind":"Work","work_id":"w"}"#.to_owned(),
            ),
            (
                r#"{"kind":"Checkpoint","state":{"works":{}},"state_sha256":"x"}"#.to_owned(),
                r#"{"kind":"Checkpoint"}"#.to_owned(),
            ),
            (
                r#"{"kind":"Control","control":"grants_paused","value":true,"reason":"r"}"#.to_owned(),
                r#"{"control":"grants_paused","kind":"Control","reason":"r","value":true}"#.to_owned(),
            ),
            (
                r#"{"kind":"Claim","claim_id":"c","observations":[],"handle":"h1"}"#.to_owned(),
                r#"{"claim_id":"c","kind":"Claim"}"#.to_owned(),
            ),
            (
                r#"{"kind":"Release","dispatch_id":"d","evidence":{"kind":"delivery","receipt":"secret","run_id":"7"}}"#
                    .to_owned(),
                r#"{"dispatch_id":"d","evidence":{"kind":"delivery","run_id":"7"},"kind":"Release"}"#.to_owned(),
            ),
            (
                format!(
                    r#"{{"kind":"Deployment","pool":"p","worker_profile":"w","available":true,"expected_ref":"r",
                    "profile":{{"credential_scope":"s","logical_contract":"{digest}","ref":"r2"}},"reason":"deployed"}}"#
                ),
                format!(
                    r#"{{"available":true,"expected_ref":"r","kind":"Deployment","pool":"p","profile":{{"logical_contract":"{digest}","ref":"r2"}},"reason":"deployed","worker_profile":"w"}}"#
                ),
            ),
        ] {
            let event = event(&operation);
            assert_eq!(kept(&event), expected);
            assert_eq!(kept(&self::event(&expected)), expected, "as of the receipt");
        }
        let unknown = Text::from(r#"{"kind":"Theft"}"#);
        assert!(Event::of(Scanner::new("").read(&unknown).unwrap().root()).is_err());
    }

    /// A Deployment belongs to the Work of its pool and profile, and to its own request.
    #[test]
    fn deployments_belong_to_their_route() {
        let commit = HistoricalCommit {
            ordinal: 3,
            commit_id: CommitId::new("q").unwrap(),
            previous: None,
            request_id: RequestId::new("r").unwrap(),
            kind: RequestKind::Deployment,
            policy_epoch: Epoch::new("e").unwrap(),
            at: At::new(1).unwrap(),
            actor: std::sync::Arc::new(
                Actor::new(Role::Administrator, Decimal::new("1").unwrap(), Repository::new("a/b").unwrap()).unwrap(),
            ),
            events: vec![
                event(r#"{"kind":"Deployment","pool":"p","worker_profile":"w"}"#),
                event(r#"{"kind":"Deployment","pool":"p","worker_profile":"v"}"#),
            ],
        };
        let mut scope = Scope::default();
        scope.targets.insert((Text::from("p"), Text::from("w")));
        let matches = |scope: &Scope| commit.events.iter().map(|one| scope.matches(&commit, one)).collect::<Vec<_>>();
        assert_eq!(matches(&scope), [true, false]);
        scope.own = Some(3);
        assert_eq!(matches(&scope), [true, true]);
    }
}
