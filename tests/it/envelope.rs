//! The operating envelope on real repositories: queues of the size that a busy team has after some weeks, with nested
//! checkpoints, and what a command costs there. Cost is counted in Git processes and objects, never in time.

use std::cell::RefCell;
use std::path::Path;

use serde_json::{Value, json};
use wq_action::engine::Projection;
use wq_action::engine::checkpoint::CheckpointInputs;
use wq_action::ledger::commit_object::Author;
use wq_action::ledger::git::{Advertisement, ObjectId};
use wq_action::ledger::{
    Branch, Compaction, GitTransport, LedgerError, Outcome, Publisher, PushOutcome, Retries, Setup, Transport,
};
use wq_action::ports::SimulatedClock;
use wq_action::ports::SystemEntropy;
use wq_action::protocol::RepositoryName;
use wq_action::protocol::actor::Actor;
use wq_action::protocol::commit::{Commit, FrozenRequest};
use wq_action::protocol::json::Scanner;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{Code, Revision, Text};

use crate::support::built::{ADMINISTRATOR, Grant, Node, PRODUCER, Queue, RECONCILER, aw_policy, frozen};
use crate::support::git::{Bare, NOW};
use crate::support::history::{History, forged, replayed, version};
use crate::support::ledger::{HOST, typed};

/// A queue of the envelope.
#[derive(Clone, Copy)]
struct Shape {
    works: usize,
    requests: usize,
    profiles: usize,
    commits: usize,
    checkpoints: usize,
}

const SMALL: Shape = Shape { works: 15, requests: 100, profiles: 1, commits: 8, checkpoints: 1 };
const MIDDLE: Shape = Shape { works: 21, requests: 200, profiles: 3, commits: 32, checkpoints: 3 };
const LARGE: Shape = Shape { works: 27, requests: 300, profiles: 3, commits: 64, checkpoints: 8 };

/// Bytes of text in a payload: fifteen of them fill 200 KiB.
const PAYLOAD: usize = 14_500;

fn revision(digit: char) -> String {
    digit.to_string().repeat(40)
}

fn task(key: usize, profiles: usize) -> Node {
    let profile = ["default", "second", "third"][key % profiles];
    let words = format!("task {key} ").repeat(PAYLOAD / 7 + 1);
    let node = Node::new(&format!("n{key}")).profile(profile).priority(key as i64 % 5 + 1);
    // Some are pinned to the revision that is about to be replaced.
    let node = if key % 4 == 3 { node.with("execution_ref", revision('0')) } else { node };
    node.with("payload", json!({"text": &words[..PAYLOAD]}))
}

/// A queue with every kind of ending: delivered, given up by its worker, kept open, cancelled, waiting for its delivery,
/// and a launch in doubt whose run was seen. Its generation was rotated, its routes deployed, its admission paused.
fn story(shape: Shape) -> Queue {
    let mut policy = aw_policy();
    let profiles = &mut policy["pools"]["default"]["profiles"];
    for name in ["second", "third"].iter().take(shape.profiles - 1) {
        profiles[*name] = profiles["default"].clone();
    }
    let mut queue = Queue::open(&policy, &[task(0, shape.profiles)]);
    for key in 1..shape.works {
        queue.submit(PRODUCER, 1000 + key as i64, &[task(key, shape.profiles)]).unwrap();
    }
    let mut at = 2000;
    for end in 0..shape.works - 4 {
        let grant = queue.grant(at, 1, 1).unwrap().remove(0);
        settle(&mut queue, &grant, end, at + 1);
        at += 100;
    }
    queue.control("credential_generation", &json!("g2"), at).unwrap();
    for profile in ["default", "second", "third"].iter().take(shape.profiles) {
        let mut deployed = policy["pools"]["default"]["profiles"][*profile].clone();
        deployed["ref"] = revision('e').into();
        let operation = json!({"kind": "Deployment", "pool": "default", "worker_profile": profile,
            "expected_ref": revision('0'), "expected_contract": "c".repeat(64), "available": true,
            "reason": "worker_deployed", "profile": deployed});
        queue.operate(RequestKind::Deployment, ADMINISTRATOR, at + 1, &[operation]).unwrap();
    }
    let unwanted =
        queue.state.works().find(|work| work.state() == "available").unwrap().work.work_id.as_str().to_owned();
    queue.cancel_work(ADMINISTRATOR, &unwanted, at + 2).unwrap();
    while queue.state.requests().len() < shape.requests - shape.checkpoints {
        at += 10;
        queue.control("admission_paused", &json!(true), at).unwrap();
    }
    queue
}

/// Ends one attempt in one of the ways.
fn settle(queue: &mut Queue, grant: &Grant, end: usize, at: i64) {
    match end {
        1 => {
            queue.start(grant, at).unwrap();
            let hint = grant.evidence("reconciliation", "github_api", at + 1, &json!({}));
            let doubt = json!({"kind": "Dispatch", "dispatch_id": grant.dispatch, "state": "uncertain",
                "reason": "binding_unpublished", "evidence": hint});
            queue.operate(RequestKind::Dispatch, RECONCILER, at + 1, &[doubt]).unwrap();
        }
        2 => {
            queue.start(grant, at).unwrap();
            queue.bind(grant, at + 1).unwrap();
            queue.finish(grant, "cancelled", at + 2).unwrap();
            queue.release(grant, at + 3).unwrap();
        }
        3 => {
            queue.start(grant, at).unwrap();
            queue.bind(grant, at + 1).unwrap();
            let parameters = json!({"dispatch_id": grant.dispatch, "claim_handle": grant.handle,
                "outcome": "completed", "keep_open": true});
            queue.request(RequestKind::Finish, &grant.worker(), at + 2, &parameters).unwrap();
            queue.result(grant, at + 3).unwrap();
            queue.release(grant, at + 4).unwrap();
        }
        4 => queue.complete(grant, at).unwrap(),
        _ => queue.deliver(grant, at).unwrap(),
    }
}

/// A queue branch made of a story's commits, in versions, some of which are checkpoints of the version before.
struct Made {
    bare: Bare,
    shas: Vec<String>,
    ledgers: Vec<String>,
    /// Versions that are checkpoints.
    checkpoints: Vec<usize>,
    state: Projection,
}

/// Makes the branch. `forge` names a checkpoint, counted from 0, that is made to say something else about the state; what
/// follows is built on it in good faith.
fn make(story: &Queue, shape: Shape, forge: Option<usize>) -> Made {
    let lines: Vec<Text> = story.text.lines().map(Text::from).collect();
    let bare = Bare::new();
    // Every object a file of its own, so that a test can lose one.
    bare.git(&["config", "receive.unpackLimit", "100000"]);
    let mut history = History::new(&bare);
    let mut scanner = Scanner::new(HOST);
    let mut made =
        Made { bare, shas: Vec::new(), ledgers: Vec::new(), checkpoints: Vec::new(), state: Projection::empty() };
    let steps = shape.commits - shape.checkpoints;
    let mut next = 0;
    for step in 0..steps {
        for line in &lines[next..lines.len() * (step + 1) / steps] {
            let mut commit: Value = serde_json::from_str(line.as_str()).unwrap();
            commit["previous"] = made.state.tip().map_or(Value::Null, |tip| tip.as_str().into());
            let commit = Commit::read(&mut scanner, &Text::from(commit.to_string())).unwrap();
            made.state = std::mem::replace(&mut made.state, Projection::empty()).follow(commit, &mut scanner).unwrap();
        }
        next = lines.len() * (step + 1) / steps;
        made.push(&mut history);
        let due = (made.checkpoints.len() + 1) * steps / (shape.checkpoints + 1);
        if step + 1 == due && made.checkpoints.len() < shape.checkpoints {
            let inputs = CheckpointInputs {
                prior_git_sha: &Revision::new(made.shas.last().unwrap().as_str()).unwrap(),
                actor: &typed::<Actor>(ADMINISTRATOR),
                at: made.state.requests().last().unwrap().at,
            };
            made.state = made.state.checkpoint(&inputs, &mut scanner).unwrap().projection;
            if forge == Some(made.checkpoints.len()) {
                let line = made.state.active().next().unwrap();
                let line = forged(line.as_str(), |operation| {
                    let paused = &mut operation["state"]["admission_paused"];
                    *paused = (!paused.as_bool().unwrap()).into();
                });
                made.state = replayed(&(line + "\n")).unwrap();
            }
            made.checkpoints.push(made.shas.len());
            made.push(&mut history);
        }
    }
    history.send();
    made
}

impl Made {
    fn push(&mut self, history: &mut History) {
        let ledger: String = self.state.active().map(|line| [line.as_str(), "\n"].concat()).collect();
        self.shas.push(history.version(&ledger));
        self.ledgers.push(ledger);
    }
}

/// A transport that counts its Git processes and does something just before its first push.
struct Counting<'m> {
    inner: GitTransport,
    calls: RefCell<[u32; 3]>,
    before_push: Box<dyn Fn() + 'm>,
}

impl<'m> Counting<'m> {
    fn new(bare: &Bare) -> Self {
        Self { inner: bare.transport(), calls: RefCell::default(), before_push: Box::new(|| {}) }
    }

    /// Queries, fetches and pushes since the last time.
    fn taken(&self) -> [u32; 3] {
        self.calls.replace([0; 3])
    }
}

impl Transport for Counting<'_> {
    fn advertise(&self, store: &Path, names: &[&str]) -> Result<Advertisement, LedgerError> {
        self.calls.borrow_mut()[0] += 1;
        self.inner.advertise(store, names)
    }

    fn fetch(&self, store: &Path, source: &str, destination: &str) -> Result<(), LedgerError> {
        self.calls.borrow_mut()[1] += 1;
        self.inner.fetch(store, source, destination)
    }

    fn push(
        &self,
        store: &Path,
        commit: ObjectId,
        reference: &str,
        expected: Option<ObjectId>,
    ) -> Result<PushOutcome, LedgerError> {
        let first = self.calls.borrow()[2] == 0;
        self.calls.borrow_mut()[2] += 1;
        if first {
            (self.before_push)();
        }
        self.inner.push(store, commit, reference, expected)
    }

    fn is_local(&self) -> bool {
        self.inner.is_local()
    }
}

fn publisher<'a>(transport: &'a dyn Transport, clock: &'a SimulatedClock) -> Publisher<'a> {
    let setup = Setup {
        transport,
        branch: Branch::default(),
        repository: RepositoryName::new("owner/repo").unwrap(),
        host: HOST.into(),
        author: Author::Operator,
        clock,
        entropy: &SystemEntropy,
        retries: Retries::default(),
        confirm_empty: None,
    };
    Publisher::new(setup).unwrap()
}

fn pause(id: &str) -> FrozenRequest {
    let operation = json!({"kind": "Control", "control": "admission_paused", "value": true, "reason": "test"});
    frozen(id, RequestKind::Control, ADMINISTRATOR, &json!({"operations": [operation]}))
}

/// The state without the form of the chain: receipts, bytes, tip, and the ordinals that checkpoints take.
fn kept(state: &Projection) -> Value {
    let mut value: Value = serde_json::from_str(&state.serialise()).unwrap();
    let members = value.as_object_mut().unwrap();
    for member in ["requests", "ledger_bytes", "tip"] {
        members.remove(member).unwrap();
    }
    members["stats"].as_object_mut().unwrap().remove("transactions");
    let taken: Vec<u64> = (0_u64..)
        .zip(state.requests())
        .filter(|(_, request)| request.kind == RequestKind::Checkpoint)
        .map(|(at, _)| at)
        .collect();
    for work in members["works"].as_object_mut().unwrap().values_mut() {
        let at = work["position"]["commit"].as_u64().unwrap();
        let before = taken.iter().filter(|taken| **taken < at).count() as u64;
        work["position"]["commit"] = (at - before).into();
    }
    value
}

/// Reads, repeats, publishes and loses a race at bounded cost, and compacts once more without a change of state.
fn holds(shape: Shape) {
    let story = story(shape);
    let made = make(&story, shape, None);
    let checkpoint = *made.checkpoints.last().unwrap();
    let bytes = made.ledgers[checkpoint].len();
    let (requests, works) = (made.state.requests().len(), made.state.works().len());
    crate::support::tell!(
        "{bytes} bytes of checkpoint, {works} Work, {requests} requests, {} commits, {} checkpoints",
        made.shas.len(),
        made.checkpoints.len()
    );
    assert!(bytes >= 200 * 1024 && (15..=27).contains(&works) && (100..=300).contains(&requests));
    assert!(made.shas.len() == shape.commits && made.checkpoints.len() == shape.checkpoints);

    let (transport, clock) = (Counting::new(&made.bare), SimulatedClock::new(NOW));
    let mut publisher = publisher(&transport, &clock);
    let mut before = 0;
    let mut cost = |publisher: &Publisher<'_>| {
        let objects = publisher.store().reads() - before;
        before = publisher.store().reads();
        (transport.taken(), objects)
    };
    let current = publisher.read_present().unwrap();
    assert_eq!(kept(&current.projection), kept(&story.state));
    let (calls, objects) = cost(&publisher);
    assert_eq!(calls, [1, 1, 0]);
    assert!(objects <= 5 * shape.commits as u64 + 8, "{objects} objects for {} commits", shape.commits);
    publisher.read_present().unwrap();
    let (calls, objects) = cost(&publisher);
    assert!(calls == [1, 0, 0] && objects <= 4, "{objects}: what was verified is not verified again");

    assert!(matches!(publisher.publish_request(&pause("new"), None).unwrap().outcome, Outcome::PublishedNow { .. }));
    let (calls, objects) = cost(&publisher);
    assert!(calls == [1, 0, 1] && objects <= 12, "{objects} objects to publish");
    let again = publisher.publish_request(&pause("new"), None).unwrap();
    assert!(matches!(again.outcome, Outcome::AlreadyCommitted { .. }));
    assert!(matches!(cost(&publisher), ([1, 0, 0], objects) if objects <= 4));
    races(&made.bare);

    let (compaction, current, _) = publisher.compact(&typed(ADMINISTRATOR), None).unwrap();
    assert!(matches!(compaction, Compaction::Done(_)));
    let cold = self::publisher(&transport, &clock).read_present().unwrap();
    assert_eq!(kept(&cold.projection), kept(&current.projection));
    assert_eq!(made.bare.ledger().lines().count(), 1);
}

/// One lost race costs one more read and one more push, not another walk through the history.
fn races(bare: &Bare) {
    let clock = SimulatedClock::new(NOW);
    let mut transport = Counting::new(bare);
    transport.before_push = Box::new(|| {
        let rival = bare.transport();
        publisher(&rival, &clock).publish_request(&pause("rival"), None).unwrap();
    });
    let mut publisher = publisher(&transport, &clock);
    publisher.read_present().unwrap();
    let before = publisher.store().reads();
    transport.taken();
    let publication = publisher.publish_request(&pause("loser"), None).unwrap();
    assert_eq!(publication.lost.len(), 1);
    let objects = publisher.store().reads() - before;
    let calls = transport.taken();
    assert!(calls[0] <= 3 && calls[1] <= 1 && calls[2] == 2, "{calls:?}");
    assert!(objects <= 40, "{objects} objects for a lost race");
}

/// The smallest shape: one profile, one checkpoint, eight Git commits.
#[test]
fn the_small_shape_holds() {
    holds(SMALL);
}

/// The middle shape: three profiles, nested checkpoints, 32 Git commits.
#[test]
fn the_middle_shape_holds() {
    holds(MIDDLE);
}

/// S-060, S-063, O-250, O-306, O-330: the largest shape: eight nested checkpoints in 64 Git commits. Owners, attempts and
/// clocks, settled deliveries and the round of kept-open Work, pauses and generations, bindings and releases, revisions
/// and pins, and the hint of a run in doubt are what the same requests give without a compaction.
#[test]
fn the_large_shape_holds() {
    holds(LARGE);
    let story = story(LARGE);
    let made = make(&story, LARGE, None);
    let document: Value = serde_json::from_str(&made.state.serialise()).unwrap();
    let claims = document["claims"].as_object().unwrap();
    assert_eq!(claims.values().filter(|claim| claim["keep_open"] == true).count(), 1);
    assert_eq!(document["credential_generation"], "g2");
    let receipts = document["requests"].as_object().unwrap().values();
    let events = receipts.filter_map(|receipt| receipt["checkpoint_events"].as_array()).flatten();
    let hints: Vec<_> = events.filter(|event| event["state"] == "uncertain").collect();
    let [hint] = hints[..] else { panic!("{hints:?}") };
    assert_eq!(hint["evidence"]["kind"], "reconciliation");
    assert!(hint["evidence"]["run_id"].is_string() && hint["evidence"].get("receipt").is_none());
}

/// A checkpoint that lies is refused at whatever depth it stands, although everything above was built on it in good faith.
#[test]
fn damaged_checkpoints_fail_closed() {
    let story = story(MIDDLE);
    for forge in 0..MIDDLE.checkpoints {
        let made = make(&story, MIDDLE, Some(forge));
        fails(&made.bare, Code::CheckpointInvalid);
    }
    let made = make(&story, MIDDLE, None);
    let checkpoint = *made.checkpoints.last().unwrap();
    let lie = made.ledgers[checkpoint].replacen("\"grants_paused\":false", "\"grants_paused\":true", 1);
    assert_ne!(lie, made.ledgers[checkpoint]);
    let commit = version(&made.bare, &lie, &[&made.shas[checkpoint - 1]]);
    fails(&made.bare, Code::CheckpointInvalid);
    version(&made.bare, &made.ledgers[checkpoint + 1], &[&commit]);
    fails(&made.bare, Code::CheckpointInvalid);
    version(&made.bare, made.ledgers.last().unwrap(), &[]);
    fails(&made.bare, Code::CheckpointInvalid);
}

fn fails(bare: &Bare, code: Code) {
    let before = bare.contents();
    let (transport, clock) = (bare.transport(), SimulatedClock::new(NOW));
    let read = publisher(&transport, &clock).read_present().unwrap_err();
    let written = publisher(&transport, &clock).publish_request(&pause("lost"), None).unwrap_err();
    assert_eq!((read.code(), written.code()), (code, code));
    assert_eq!(bare.contents(), before);
}

/// Whatever version of the history is lost, the queue is neither read nor written.
#[test]
fn lost_ancestry_fails_closed() {
    let story = story(MIDDLE);
    let made = make(&story, MIDDLE, None);
    for lost in [0, made.checkpoints[0] - 1, made.checkpoints[1], made.shas.len() - 2] {
        for what in ["", ":work-queue.jsonl"] {
            let object = made.bare.resolve(&format!("{}{what}", made.shas[lost])).unwrap();
            let path = made.bare.path().join("objects").join(&object[..2]).join(&object[2..]);
            let bytes = std::fs::read(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            let before = made.bare.contents();
            let (transport, clock) = (made.bare.transport(), SimulatedClock::new(NOW));
            let error = publisher(&transport, &clock).read_present().unwrap_err();
            assert!(matches!(error.exit(), 3 | 7), "{error}");
            assert!(publisher(&transport, &clock).publish_request(&pause("lost"), None).is_err());
            assert_eq!(made.bare.contents(), before);
            std::fs::write(&path, bytes).unwrap();
        }
    }
    let (transport, clock) = (made.bare.transport(), SimulatedClock::new(NOW));
    publisher(&transport, &clock).read_present().unwrap();
}
