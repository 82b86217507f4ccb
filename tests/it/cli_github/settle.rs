//! `wq evidence` and `wq reconcile`: what GitHub shows of a run, and what follows from it.

use serde_json::{Value, json};
use wq_action::ledger::{Branch, Outcome};
use wq_action::ports::{Clock as _, SimulatedClock, SystemClock};
use wq_action::protocol::RequestId;
use wq_action::protocol::actor::Actor;
use wq_action::protocol::commit::FrozenRequest;
use wq_action::protocol::request::RequestKind;

use super::Desk;
use crate::support::cli::{Ran, run, wq};
use crate::support::git::feed;
use crate::support::github::{Endpoint, Faults, LAUNCH, NewRun, OCTO_WIDGETS, READER, Strike, WRITER};
use crate::support::ledger::{canonical, typed};
use crate::support::queue::World;

const WORKER: &str = ".github/workflows/worker.lock.yml";
const DISPATCHER: &str = ".github/workflows/dispatcher.lock.yml";

/// A granted Claim.
struct Turn {
    work: String,
    dispatch: String,
    handle: String,
}

/// A queue whose worker's route is the default branch's revision, with one Work for each name.
struct Stage {
    desk: Desk,
    sha: String,
    /// Account of the launch credential.
    launcher: String,
}

impl Stage {
    fn new(names: &[&str]) -> Self {
        let desk = Desk::new();
        let sha = desk.github.head(OCTO_WIDGETS, "refs/heads/main").unwrap();
        let launcher = desk.github.account_id("queue-launcher[bot]").to_string();
        let stage = Self { desk, sha, launcher };
        let policy = stage.desk.file("policy.json", &stage.policy());
        let directory = stage.desk.bare.path().to_str().unwrap().to_owned();
        for name in names {
            let mut command = wq(stage.desk.bare.around());
            command.args(["submit-work", "--file", "-", "--graph-id", name, "--remote", &directory, "--policy"]);
            command.arg(&policy).args(["--repo", OCTO_WIDGETS, "--json"]);
            Ran::of(feed(command, format!(r#"{{"task":"{name}"}}"#).as_bytes())).json(0);
        }
        stage
    }

    fn policy(&self) -> String {
        let profile = json!({"credential_scope": "repository", "effect_scope": OCTO_WIDGETS, "max_claims": 1,
            "logical_contract": "c".repeat(64), "ref": self.sha, "share_keys": false, "trust_domain": "default",
            "workflow": WORKER});
        json!({"accounting_weights": {"": 1}, "authorization": "aw", "class_weights": [8, 4, 2, 1, 1],
            "limits": {"assignment_bytes": 49152, "evidence_bytes": 1024, "graph_nodes": 4096, "ledger_bytes": 67_108_864,
                "observation_writes": 4096, "operations": 256, "payload_bytes": 16384, "pending_nodes": 4096,
                "predecessors": 64, "recovery_bytes": 16_777_216, "result_bytes": 4096},
            "mode": "weighted-priority",
            "pools": {"default": {"allowed_repositories": [OCTO_WIDGETS], "default_profile": "worker",
                "logical_limit": 16, "max_observation_age_ms": 60000, "native_limit": 16, "profiles": {"worker": profile},
                "reconciliation": {"deadline_ms": 300_000, "max_attempts": 2},
                "retry": {"backoff_ms": 30000, "max_attempts": 3}}},
            "producers": {}})
        .to_string()
    }

    /// A role of a run that the host knows.
    fn in_run(&self, role: &str, workflow: &str, run: u64, principal: &str) -> Value {
        let _ = self;
        json!({"role": role, "principal": principal, "repository": OCTO_WIDGETS, "workflow": workflow,
            "run_id": run.to_string(), "run_attempt": 1})
    }

    /// Publishes a request as somebody else would.
    fn publish(&self, kind: RequestKind, actor: &Value, parameters: &Value) {
        let mut world = World::new(self.desk.bare.transport());
        world.clock = SimulatedClock::new(SystemClock.now().get());
        let id = RequestId::new(format!("library-{}", self.desk.bare.ledger().lines().count())).unwrap();
        let actor = typed::<Actor>(&canonical(&actor.to_string()));
        let request = FrozenRequest::new(id, kind, actor, &canonical(&parameters.to_string())).unwrap();
        let published = world.publisher_of(Branch::default(), OCTO_WIDGETS).publish_request(&request, None).unwrap();
        assert!(matches!(published.outcome, Outcome::PublishedNow { .. }), "{:?}", published.outcome);
    }

    fn turns(&self) -> Vec<Turn> {
        let projection = self.desk.wq(&["replay"]).json(0)["projection"].take();
        let claims = projection["claims"].as_object().unwrap().values();
        let text = |claim: &Value, name: &str| {
            let value = claim.get(name).or_else(|| claim["claim"].get(name)).unwrap_or_else(|| panic!("{claim}"));
            value.as_str().unwrap().to_owned()
        };
        claims
            .map(|claim| Turn {
                work: text(claim, "work_id"),
                dispatch: text(claim, "dispatch_id"),
                handle: text(claim, "handle"),
            })
            .collect()
    }

    /// One grant of an administrator, who has no run.
    fn granted(&self) -> Turn {
        self.desk.wq(&["dispatch-next"]).json(0);
        self.turns().pop().unwrap()
    }

    /// The start marker of a launch.
    fn start(&self, turn: &Turn) {
        let sender = self.in_run("dispatcher", DISPATCHER, 77, &self.launcher);
        let started = json!({"kind": "Dispatch", "dispatch_id": turn.dispatch, "state": "started", "sender": sender,
            "credential_principal": self.launcher});
        self.publish(RequestKind::Dispatch, &sender, &json!({"operations": [started]}));
    }

    /// A run of the worker, as the host started it for this dispatch.
    fn run_of(&self, turn: &Turn) -> u64 {
        let tag = format!("refs/tags/gh-aw/work-queue/{}", self.sha);
        self.desk.github.move_ref(OCTO_WIDGETS, &tag, Some(&self.sha));
        let assignment = json!({"dispatch_id": turn.dispatch}).to_string();
        let body = json!({"ref": tag, "inputs": {"work_queue_assignment": assignment}});
        let target = "/repos/octo/widgets/actions/workflows/worker.lock.yml/dispatches";
        let answer = self.desk.github.post(LAUNCH, target, &body);
        assert_eq!(answer.status, 200, "{}", answer.json());
        answer.json()["workflow_run_id"].as_u64().unwrap()
    }

    fn reconcile(&self, turn: &Turn) -> Ran {
        self.desk.with(WRITER, &["reconcile", "--dispatch-id", &turn.dispatch])
    }

    fn evidence(&self, turn: &Turn) -> Ran {
        self.desk.with(READER, &["evidence", "--dispatch-id", &turn.dispatch])
    }

    fn dispatch(&self, turn: &Turn) -> Value {
        self.desk.wq(&["replay"]).json(0)["projection"]["dispatches"][&turn.dispatch].take()
    }
}

/// O-321: evidence is what the exact first attempt of the bound run shows, by anybody who may read; it is never written
/// down, whatever it says. A run that is not the dispatch's, or cannot be read, is an error.
#[test]
fn evidence_is_shown_and_not_written() {
    let stage = Stage::new(&["alpha"]);
    let turn = stage.granted();
    let unbound = stage.evidence(&turn).json(0);
    assert_eq!((unbound["reason"].as_str(), unbound["state"].as_str()), (Some("launch_unresolved"), Some("reserved")));
    assert_eq!(unbound.get("evidence"), None);
    assert_eq!(stage.desk.calls(&[Endpoint::Attempt, Endpoint::Run]), 0);
    stage.start(&turn);
    let run = stage.run_of(&turn);
    assert_eq!(stage.reconcile(&turn).json(0)["reason"], "native_run_nonterminal");
    let head = stage.desk.head();
    let active = stage.evidence(&turn).json(0);
    assert_eq!((active["reason"].as_str(), active["state"].as_str()), (Some("reconciliation"), Some("bound")));
    assert_eq!(active["evidence"]["run_id"], run.to_string());
    stage.desk.github.complete_run(run, "failure");
    // A second attempt changes nothing about the first.
    stage.desk.github.rerun(run, stage.desk.github.account_id("ada"));
    let ended = stage.evidence(&turn).json(0);
    assert_eq!((ended["reason"].as_str(), ended["released"].as_bool()), (Some("terminal_run"), Some(false)));
    assert_eq!(
        (ended["evidence"]["conclusion"].as_str(), ended["evidence"]["run_attempt"].as_i64()),
        (Some("failure"), Some(1))
    );
    assert_eq!(ended["evidence"].get("receipt"), None);
    let ledger = stage.desk.bare.ledger();
    stage.desk.github.faults(Faults::default().and(Endpoint::Attempt, 1, 3, Strike::Status(404)));
    assert_eq!(stage.evidence(&turn).error(4), "api_not_found");
    stage.desk.github.no_faults();
    stage.desk.github.change_run(run, |run| run.head_sha = "b".repeat(40));
    assert_eq!(stage.evidence(&turn).error(4), "run_ref_mismatch");
    let unknown = stage.desk.with(READER, &["evidence", "--dispatch-id", "d_unknown"]);
    assert_eq!(unknown.error(2), "dispatch_missing");
    assert_eq!((stage.desk.head(), stage.desk.bare.ledger()), (head, ledger));
}

/// O-322, O-332: a lost launch is bound to the one run that proves itself by token, attempt, principal, workflow,
/// revision and repository; its end frees the reservation and leaves the Work to its retry; each repetition is told and
/// writes nothing.
#[test]
fn exact_termination_settles_a_dispatch() {
    let stage = Stage::new(&["alpha"]);
    let turn = stage.granted();
    stage.start(&turn);
    let run = stage.run_of(&turn);
    let bound = stage.reconcile(&turn).json(0);
    assert_eq!((bound["reason"].as_str(), bound["state"].as_str()), (Some("native_run_nonterminal"), Some("started")));
    assert_eq!((bound["changed"].as_bool(), bound["released"].as_bool()), (Some(true), Some(false)));
    let wim = stage.desk.github.account_id("wim").to_string();
    let last = stage.desk.ledger().pop().unwrap();
    assert_eq!(last["actor"], json!({"principal": wim, "repository": OCTO_WIDGETS, "role": "reconciler"}));
    assert_eq!(stage.dispatch(&turn)["run"]["run_id"], run.to_string());
    let again = stage.reconcile(&turn).json(0);
    assert_eq!((again["reason"].as_str(), again["changed"].as_bool()), (Some("native_run_nonterminal"), Some(false)));
    stage.desk.github.complete_run(run, "cancelled");
    let released = stage.reconcile(&turn).json(0);
    assert_eq!(released["reason"], "native_released_delivery_independent");
    assert_eq!(released["evidence"]["conclusion"], "cancelled");
    assert_eq!((released["changed"].as_bool(), released["released"].as_bool()), (Some(true), Some(true)));
    let done = stage.reconcile(&turn).json(0);
    assert_eq!((done["reason"].as_str(), done["changed"].as_bool()), (Some("already_released"), Some(false)));
    let work = stage.desk.wq(&["explain", "--work-id", &turn.work]).json(0);
    assert_eq!(work["state"], "available");
    // Neither command of this test ever launched or cancelled anything.
    assert_eq!((stage.desk.calls(&[Endpoint::Dispatch]), stage.desk.calls(&[Endpoint::Cancel])), (1, 0));
}

/// O-322: no run, several runs, a run of somebody else and an unreadable host keep the reservation, and each is told as
/// what it is.
#[test]
fn uncertainty_keeps_the_reservation() {
    let stage = Stage::new(&["alpha"]);
    let turn = stage.granted();
    stage.start(&turn);
    let lost = stage.reconcile(&turn);
    let answer: Value = serde_json::from_str(&lost.out).unwrap();
    assert_eq!((lost.code, answer["reason"].as_str()), (6, Some("launch_unresolved")));
    assert_eq!((answer["released"].as_bool(), answer["attempts"].as_i64()), (Some(false), Some(2)));
    assert!(answer["next_action"].as_str().is_some_and(|next| next.contains("reservation is kept")), "{answer}");
    stage.desk.github.faults(Faults::default().and(Endpoint::WorkflowRuns, 1, 99, Strike::Status(500)));
    assert_eq!(stage.reconcile(&turn).code, 6);
    stage.desk.github.no_faults();
    let first = stage.run_of(&turn);
    let ledger = stage.desk.bare.ledger();
    stage.run_of(&turn);
    assert_eq!(stage.reconcile(&turn).error(4), "run_binding_conflict");
    assert_eq!(stage.desk.bare.ledger(), ledger);
    // A run of another account under the same title is no candidate to be skipped.
    let stranger = stage.desk.github.account_id("ada");
    stage.desk.github.change_run(first, |run| run.actor = stranger);
    assert_eq!(stage.reconcile(&turn).error(4), "run_binding_conflict");
    assert_eq!(stage.desk.bare.ledger(), ledger);
    assert_ne!(stage.dispatch(&turn)["state"], "released");
    let projection = stage.desk.wq(&["stats"]).json(0);
    assert_eq!(projection["dispatches"], 1);
}

/// A never-started reservation is freed only when the exact attempt that granted it has ended; an administrator's grant
/// has none, so nothing shows that it will not be launched. A start marker always wins.
#[test]
fn reservations_are_cancelled_with_proof_alone() {
    let stage = Stage::new(&["alpha", "beta", "gamma"]);
    let operators = stage.granted();
    for flags in [&[][..], &["--cancel-reserved"]] {
        let arguments = [&["reconcile", "--dispatch-id", &operators.dispatch], flags].concat();
        let kept = stage.desk.with(WRITER, &arguments).json(0);
        assert_eq!((kept["reason"].as_str(), kept["changed"].as_bool()), (Some("reserved_not_started"), Some(false)));
    }
    let launcher = stage.desk.github.account_id("queue-launcher[bot]");
    let origin = stage.desk.github.new_run(&NewRun {
        repository: OCTO_WIDGETS,
        workflow: "dispatcher.lock.yml",
        event: "schedule",
        reference: "refs/heads/main",
        actor: launcher,
        title: None,
    });
    let actor = stage.in_run("dispatcher", DISPATCHER, origin, &launcher.to_string());
    let ask = json!({"max_bytes": 49152, "max_claims": 2, "max_dispatches": 2, "pool": "default"});
    stage.publish(RequestKind::DispatchNext, &actor, &ask);
    let turns: Vec<Turn> = stage.turns().into_iter().filter(|turn| turn.dispatch != operators.dispatch).collect();
    assert_eq!(turns.len(), 2);
    let cancel =
        |turn: &Turn| stage.desk.with(WRITER, &["reconcile", "--dispatch-id", &turn.dispatch, "--cancel-reserved"]);
    let active = cancel(&turns[0]).json(0);
    assert_eq!(active["reason"], "reserved_not_started");
    assert_eq!(active["blocked"], "nonlaunch_evidence_required");
    stage.desk.github.complete_run(origin, "failure");
    stage.start(&turns[1]);
    let started = cancel(&turns[1]);
    assert_eq!(started.code, 6);
    assert!(started.out.contains("launch_unresolved"), "{started:?}");
    let freed = cancel(&turns[0]).json(0);
    assert_eq!((freed["reason"].as_str(), freed["released"].as_bool()), (Some("prelaunch_cancelled"), Some(true)));
    assert_eq!(freed["evidence"]["kind"], "prelaunch");
    assert_eq!(freed["state"], "reserved");
    assert_eq!(stage.desk.wq(&["stats"]).json(0)["dispatches"], 2);
}

/// A delivery is never settled from the command line: without a verifier it stays pending, and nothing is written.
#[test]
fn deliveries_wait_for_a_verifier() {
    let stage = Stage::new(&["alpha"]);
    let turn = stage.granted();
    let reconcile = |turn: &Turn| stage.desk.with(WRITER, &["reconcile", "--work-id", &turn.work]);
    assert_eq!(reconcile(&turn).error(2), "result_invalid");
    stage.start(&turn);
    let run = stage.run_of(&turn);
    stage.reconcile(&turn).json(0);
    let mut worker = stage.in_run("worker", WORKER, run, &stage.launcher);
    (worker["dispatch_id"], worker["claim_handle"]) = (turn.dispatch.clone().into(), turn.handle.clone().into());
    let finish = json!({"dispatch_id": turn.dispatch, "claim_handle": turn.handle, "outcome": "completed"});
    stage.publish(RequestKind::Finish, &worker, &finish);
    stage.desk.github.complete_run(run, "success");
    let ledger = stage.desk.bare.ledger();
    let pending = reconcile(&turn);
    let answer: Value = serde_json::from_str(&pending.out).unwrap();
    assert_eq!((pending.code, answer["reason"].as_str()), (6, Some("delivery_unresolved")));
    assert_eq!(
        (answer["blocked"].as_str(), answer["attempts"].as_i64()),
        (Some("delivery_verifier_required"), Some(0))
    );
    assert_eq!(stage.desk.bare.ledger(), ledger);
    // The reservation is another matter.
    assert_eq!(stage.reconcile(&turn).json(0)["reason"], "native_released_delivery_independent");
    assert_eq!(reconcile(&turn).code, 6);
    let missing = stage.desk.with(WRITER, &["reconcile", "--work-id", &"0".repeat(64)]);
    assert_eq!(missing.error(2), "work_missing");
}

/// Who may not push reconciles nothing, one subject is named, and a local repository has no runs.
#[test]
fn reconciliation_asks_for_its_role_and_subject() {
    let stage = Stage::new(&["alpha"]);
    let turn = stage.granted();
    let id = turn.dispatch.as_str();
    assert_eq!(stage.desk.with(READER, &["reconcile", "--dispatch-id", id]).error(4), "actor_unauthorized");
    for arguments in [
        &["reconcile"][..],
        &["reconcile", "--dispatch-id", id, "--work-id", "w"],
        &["reconcile", "--work-id", "w", "--cancel-reserved"],
        &["reconcile", "--cancel-reserved"],
        &["reconcile", "--dispatch-id", id, "--request-id", "r"],
        &["reconcile", "--dispatch-id", id, "--run-id", "1"],
        &["evidence"],
        &["evidence", "--dispatch-id", ""],
    ] {
        assert_eq!(stage.desk.wq(arguments).error(2), "usage_invalid", "{arguments:?}");
    }
    for command in ["reconcile", "evidence"] {
        let arguments = [command, "--dispatch-id", id, "--remote", "queue.git", "--repo", OCTO_WIDGETS, "--json"];
        assert_eq!(run(stage.desk.bare.around(), &arguments).error(2), "usage_invalid");
    }
    let missing = stage.desk.with(WRITER, &["reconcile", "--dispatch-id", "d_unknown"]);
    assert_eq!(missing.error(2), "dispatch_missing");
    assert_eq!(stage.desk.calls(&[Endpoint::GitPush]), 2, "the grant's advertisement and push");
}
