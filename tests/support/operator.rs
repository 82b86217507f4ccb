//! An operator at a real bare repository, and the runs that work on what was granted.

use serde_json::{Value, json};
use wq_action::ledger::Outcome;
use wq_action::ports::SimulatedClock;
use wq_action::ports::{Clock as _, SystemClock};
use wq_action::protocol::Code;
use wq_action::protocol::actor::Actor;
use wq_action::protocol::commit::FrozenRequest;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{Fault, RequestId};

use super::cli::{Ran, feed, run};
use super::git::Bare;
use super::ledger::{canonical, typed};
use super::queue::{REPOSITORY, World};

const WORKFLOW: &str = ".github/workflows/worker.lock.yml";

/// A moment before everything that the binary does, by more than the default Policy's backoff.
fn earlier() -> i64 {
    static STARTED: std::sync::LazyLock<i64> = std::sync::LazyLock::new(|| SystemClock.now().get());
    *STARTED - 40_000
}

/// A queue on a bare repository, with the default Policy.
pub(crate) struct Desk {
    pub(crate) bare: Bare,
}

/// One granted Claim.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) work: String,
    pub(crate) claim: String,
    pub(crate) dispatch: String,
    handle: String,
}

impl Desk {
    /// A queue with one Work for each name.
    pub(crate) fn new(names: &[&str]) -> Self {
        let desk = Self { bare: Bare::new() };
        for name in names {
            desk.submit(name, &[]).json(0);
        }
        desk
    }

    /// Runs a command on the queue.
    pub(crate) fn wq(&self, arguments: &[&str]) -> Ran {
        let mut all = arguments.to_vec();
        all.extend(["--remote", "queue.git", "--json"]);
        run(self.bare.around(), &all)
    }

    /// Runs a command on the queue for a person.
    pub(crate) fn text(&self, arguments: &[&str]) -> String {
        let mut all = arguments.to_vec();
        all.extend(["--remote", "queue.git"]);
        let ran = run(self.bare.around(), &all);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
        ran.out
    }

    /// Submits a Work whose graph has this name.
    pub(crate) fn submit(&self, name: &str, rest: &[&str]) -> Ran {
        let mut all = vec!["submit-work", "--file", "-", "--remote", "queue.git", "--json", "--graph-id", name];
        all.extend(rest);
        feed(self.bare.around(), &all, &format!(r#"{{"task":"{name}"}}"#))
    }

    /// Grants up to this many Work, each a reservation of its own.
    pub(crate) fn grant(&self, most: usize) -> Vec<Turn> {
        let most = most.to_string();
        let granted = self.wq(&["dispatch-next", "--max-claims", &most, "--max-dispatches", &most]).json(0);
        let text = |claim: &Value, member: &str| claim[member].as_str().unwrap().to_owned();
        let claims = granted["claims"].as_array().unwrap().iter();
        claims
            .map(|claim| Turn {
                work: text(claim, "work_id"),
                claim: text(claim, "claim_id"),
                dispatch: text(claim, "dispatch_id"),
                handle: text(claim, "handle"),
            })
            .collect()
    }

    /// The serialised projection.
    pub(crate) fn projection(&self) -> Value {
        self.wq(&["replay"]).json(0)["projection"].take()
    }

    /// The last commit of the ledger.
    pub(crate) fn last(&self) -> Value {
        serde_json::from_str(self.bare.ledger().lines().last().unwrap()).unwrap()
    }

    /// Publishes a request with the library, as another role would.
    pub(crate) fn publish(&self, kind: RequestKind, actor: &Value, parameters: &Value) -> Result<(), Code> {
        let mut world = World::new(self.bare.transport());
        world.clock = SimulatedClock::new(earlier());
        let id = format!("library-{}", self.bare.ledger().lines().count());
        let actor = typed::<Actor>(&canonical(&actor.to_string()));
        let frozen = |id| FrozenRequest::new(id, kind, actor, &canonical(&parameters.to_string()));
        let request = RequestId::new(id).and_then(frozen).map_err(|fault: Fault| fault.code())?;
        let published = world.publisher().publish_request(&request, None).map_err(|error| error.code())?;
        assert!(matches!(published.outcome, Outcome::PublishedNow { .. }), "{:?}", published.outcome);
        Ok(())
    }

    /// The launch of a turn that is started and then not known to have happened.
    pub(crate) fn lose(&self, turn: &Turn) {
        let dispatcher = dispatcher();
        let started = json!({"kind": "Dispatch", "dispatch_id": turn.dispatch, "state": "started",
            "sender": dispatcher, "credential_principal": "1"});
        self.operate(RequestKind::Dispatch, &dispatcher, &started);
        let uncertain = json!({"kind": "Dispatch", "dispatch_id": turn.dispatch, "state": "uncertain",
            "reason": "no_answer"});
        self.operate(RequestKind::Dispatch, &dispatcher, &uncertain);
    }

    /// Replaces the history by a checkpoint.
    pub(crate) fn compact(&self) {
        assert_eq!(self.wq(&["compact"]).json(0)["changed"], true);
    }

    fn operate(&self, kind: RequestKind, actor: &Value, operation: &Value) {
        self.publish(kind, actor, &json!({"operations": [operation]})).unwrap();
    }

    /// A run takes the turn: start marker and binding.
    pub(crate) fn start(&self, turn: &Turn) {
        let dispatcher = dispatcher();
        let started = json!({"kind": "Dispatch", "dispatch_id": turn.dispatch, "state": "started",
            "sender": dispatcher, "credential_principal": "1"});
        self.operate(RequestKind::Dispatch, &dispatcher, &started);
        let bound = json!({"kind": "Dispatch", "dispatch_id": turn.dispatch, "state": "bound",
            "run": {"run_id": turn.run(), "run_attempt": 1, "repository": REPOSITORY, "workflow": WORKFLOW,
                "ref": "0".repeat(40), "principal": "1", "event": "workflow_dispatch"},
            "evidence": turn.evidence("reconciliation", "trusted_activation")});
        self.operate(RequestKind::Dispatch, &turn.worker(), &bound);
    }

    /// The run completes its Claim, or gives it back for another attempt.
    pub(crate) fn finish(&self, turn: &Turn, outcome: &str) -> Result<(), Code> {
        let parameters = json!({"dispatch_id": turn.dispatch, "claim_handle": turn.handle, "outcome": outcome});
        self.publish(RequestKind::Finish, &turn.worker(), &parameters)
    }

    /// The delivery of a completed turn is verified, with this descriptor.
    pub(crate) fn settle(&self, turn: &Turn, descriptor: &Value) -> Result<(), Code> {
        let mut evidence = turn.evidence("delivery", "verified_receipts");
        evidence["receipt"] = "receipt".into();
        let completion = self.projection()["works"][&turn.work]["completion_id"].take();
        let result = json!({"kind": "Result", "work_id": turn.work, "claim_id": turn.claim,
            "completion_id": completion, "descriptor": descriptor, "evidence": evidence});
        self.publish(RequestKind::Result, &reconciler(), &json!({"operations": [result]}))
    }

    /// The run has ended, and its reservation is released.
    pub(crate) fn release(&self, turn: &Turn) {
        let mut evidence = turn.evidence("terminal_run", "github_api");
        (evidence["status"], evidence["conclusion"]) = ("completed".into(), "success".into());
        let release = json!({"kind": "Release", "dispatch_id": turn.dispatch, "evidence": evidence});
        self.operate(RequestKind::Release, &reconciler(), &release);
    }

    /// Runs these commands, once, between the decision of the next push and its arrival: another operator is faster.
    pub(crate) fn overtake(&self, commands: &[&[&str]]) {
        let mut script = "#!/bin/sh\nmkdir \"$GIT_DIR/overtaken\" 2>/dev/null || exit 0\n".to_owned();
        script.push_str(&format!("cd '{}' || exit 1\n", self.bare.around().display()));
        for command in commands {
            let words: Vec<String> = command.iter().map(|word| format!("'{word}'")).collect();
            script.push_str(&format!(
                "env -i PATH='{}' '{}' {} --remote queue.git --json >overtaking.out 2>overtaking.err </dev/null\n",
                std::env::var("PATH").unwrap(),
                env!("CARGO_BIN_EXE_wq"),
                words.join(" "),
            ));
        }
        script.push_str("exit 0\n");
        let _ = std::fs::remove_dir(self.bare.path().join("overtaken"));
        self.bare.hook("pre-receive", &script);
    }

    /// What the last of the overtaking commands answered.
    pub(crate) fn overtaken(&self) -> Value {
        let read = |name: &str| std::fs::read_to_string(self.bare.around().join(name)).unwrap();
        assert_eq!(read("overtaking.err"), "");
        serde_json::from_str(&read("overtaking.out")).unwrap()
    }
}

fn dispatcher() -> Value {
    json!({"role": "dispatcher", "principal": "1", "repository": REPOSITORY,
        "workflow": ".github/workflows/dispatcher.lock.yml", "run_id": "100", "run_attempt": 1})
}

fn reconciler() -> Value {
    json!({"role": "reconciler", "principal": "1", "repository": REPOSITORY})
}

impl Turn {
    fn run(&self) -> String {
        let digits: u64 = self.dispatch.bytes().fold(7, |sum, byte| (sum * 31 + u64::from(byte)) % 1_000_000_007);
        (digits + 1).to_string()
    }

    fn worker(&self) -> Value {
        json!({"role": "worker", "principal": "1", "repository": REPOSITORY, "workflow": WORKFLOW,
            "run_id": self.run(), "run_attempt": 1, "dispatch_id": self.dispatch, "claim_handle": self.handle})
    }

    fn evidence(&self, kind: &str, source: &str) -> Value {
        json!({"kind": kind, "source": source, "repository": REPOSITORY, "workflow": WORKFLOW,
            "ref": "0".repeat(40), "principal": "1", "checked_at": earlier(), "run_id": self.run(), "run_attempt": 1})
    }
}
