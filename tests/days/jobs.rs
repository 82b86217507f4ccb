//! What the processes do: dispatcher jobs, worker jobs, and the delivery of what workers completed.

use std::sync::Arc;

use serde_json::{Value, json};
use wq_action::forge::{Client, Patience};
use wq_action::launch::bind::{Activation, bind_own};
use wq_action::launch::credential::{CredentialKind, LaunchClient};
use wq_action::launch::error::LaunchError;
use wq_action::launch::grant::Ask;
use wq_action::launch::identity::{intent_id, purpose, request_id};
use wq_action::launch::native::read_repository;
use wq_action::launch::origin::trusted_origin;
use wq_action::launch::publisher::{Scope, authenticate};
use wq_action::launch::reconcile::Reconciler;
use wq_action::launch::report::GroupReport;
use wq_action::launch::start::{Approval, Launcher};
use wq_action::ledger::{Ledger, Outcome, Proposal};
use wq_action::protocol::actor::{Actor, Role};
use wq_action::protocol::assignment::{Assignment, Member, ResultRef};
use wq_action::protocol::commit::FrozenRequest;
use wq_action::protocol::identity::Within;
use wq_action::protocol::policy::{Policy, WorkerProfile};
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{Digest, DispatchId, Handle, Identity, PoolName, RequestId, Token};
use wq_action::runner::Context;

use crate::life::Life;
use crate::stage::{DISPATCHER, LAUNCHER, WEB};
use crate::support::github::OCTO_WIDGETS;
use crate::support::ledger::{canonical, typed};

/// How a process ends: in words, by the code of what stopped it, or with something that must not be.
pub(crate) type End = Result<String, String>;

/// What a dispatcher run is for.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) run: u64,
    pub(crate) attempt: i64,
    pub(crate) number: u64,
    pub(crate) event: &'static str,
    pub(crate) actor: u64,
    pub(crate) pool: String,
    pub(crate) claims: i64,
    pub(crate) dispatches: i64,
    pub(crate) profiles: Vec<String>,
    pub(crate) budget: u32,
    /// How many intents the agent staged.
    pub(crate) intents: u64,
    /// True if bound runs are to be asked to cancel in a sweep of its own.
    pub(crate) cancels: bool,
    /// True if the job takes a token that rotated meanwhile.
    pub(crate) refreshes: bool,
}

impl Order {
    /// What activation of attempt 1 captured.
    fn origin(&self) -> String {
        canonical(
            &json!({"role": "dispatcher", "principal": self.actor.to_string(), "repository": OCTO_WIDGETS,
            "workflow": DISPATCHER, "run_id": self.run.to_string(), "run_attempt": 1})
            .to_string(),
        )
    }
}

fn context(run: u64, attempt: i64, workflow: &str, event: &str, sha: &str, actor: u64, origin: &str) -> Context {
    let variables = [
        ("GITHUB_REPOSITORY", OCTO_WIDGETS.to_owned()),
        ("GITHUB_RUN_ID", run.to_string()),
        ("GITHUB_RUN_ATTEMPT", attempt.to_string()),
        ("GITHUB_WORKFLOW_REF", format!("{OCTO_WIDGETS}/{workflow}")),
        ("GITHUB_SHA", sha.to_owned()),
        ("GITHUB_EVENT_NAME", event.to_owned()),
        ("GITHUB_ACTOR_ID", actor.to_string()),
        ("GH_AW_WORK_QUEUE_INTENT_ORIGIN", origin.to_owned()),
    ];
    Context::new(variables.map(|(name, value)| (name.to_owned(), value)), None).unwrap()
}

/// The caller's allowlists hold every route of the queue.
struct Approved;

impl Approval for Approved {
    fn allows(&self, profile: &WorkerProfile) -> bool {
        profile.workflow.as_str().starts_with(".github/workflows/")
    }

    fn verify(&self, _profile: &WorkerProfile) -> Result<(), LaunchError> {
        Ok(())
    }
}

fn stopped(error: &LaunchError) -> String {
    error.code().as_str().to_owned()
}

fn refused(error: impl Into<LaunchError>) -> String {
    error.into().code().as_str().to_owned()
}

/// A dispatcher job: authenticate, then sweep, grant and launch for each intent that was staged.
pub(crate) fn dispatch(life: &Arc<Life>, order: &Order) -> End {
    let stage = &life.stage;
    life.of_run(order.run);
    let (native, sender) = (life.port(&stage.tokens().job), life.port(&stage.tokens().launch));
    let client = Client::new(&native, &life.clock).with_patience(Patience::Patient);
    let origin = if order.attempt > 1 { order.origin() } else { String::new() };
    let workflow = format!("{DISPATCHER}@refs/heads/main");
    let context = context(order.run, order.attempt, &workflow, order.event, &stage.revision, order.actor, &origin);
    let publisher = match authenticate(client, &context, Role::Dispatcher, &Scope::default()) {
        Ok(publisher) => publisher,
        Err(fault) => return Ok(refused(fault)),
    };
    let origin = match trusted_origin(client, &context, &publisher) {
        Ok(origin) => origin,
        Err(fault) => return Ok(refused(fault)),
    };
    if order.refreshes {
        native.rotate(&stage.tokens().job);
        sender.rotate(&stage.tokens().launch);
    }
    let selected = stage.tokens().launch;
    let launch = LaunchClient::new(
        Client::new(&sender, &life.clock),
        Some(CredentialKind::new("github_app", Some(LAUNCHER)).unwrap()),
        Some(Arc::new(move || Token::new(selected.clone()))),
    );
    let mut ledger = life.ledger(publisher.repository());
    if order.cancels {
        let mut reconciler = Reconciler {
            ledger: &mut ledger,
            client,
            clock: &life.clock,
            repository: publisher.repository(),
            host: WEB,
            actor: publisher.actor(),
            request_cancellation: true,
        };
        match reconciler.sweep(None, 16, order.number) {
            Ok(reports) => tell_reports(life, &reports),
            Err(error) => return Ok(stopped(&error)),
        }
    }
    let mut launcher = Launcher {
        ledger: &mut ledger,
        native: client,
        launch: Some(&launch),
        clock: &life.clock,
        repository: publisher.repository(),
        host: WEB,
        sender: publisher.actor(),
        approval: &Approved,
        staged: false,
    };
    let mut remaining = order.budget;
    let mut end = "nothing staged".to_owned();
    for intent in 0..order.intents {
        let number = intent.to_string();
        let ask = Ask {
            request_id: request_id(origin.actor(), &intent_id(&purpose(&["dispatch_next", &number]))),
            actor: origin.actor().clone(),
            pool: PoolName::new(order.pool.as_str()).unwrap(),
            max_claims: order.claims,
            max_dispatches: order.dispatches,
            worker_profiles: Some(order.profiles.iter().map(|name| Identity::new(name.as_str()).unwrap()).collect()),
            run_budget: order.budget,
            remaining,
            run_number: order.number,
        };
        end = match launcher.grant(&ask, None, None) {
            Ok(granted) => {
                tell_reports(life, &granted.swept);
                tell_reports(life, &granted.launches);
                if let Some(commit) = &granted.commit_id {
                    stage.answer(ask.request_id.as_str(), commit.as_str());
                }
                remaining = remaining.saturating_sub(u32::try_from(granted.launches.len()).unwrap_or(u32::MAX));
                granted.reason.to_owned()
            }
            Err(error) => stopped(&error),
        };
    }
    Ok(end)
}

fn tell_reports(life: &Life, reports: &[GroupReport]) {
    for report in reports {
        let blocked = report.blocked.map_or("", |code| code.as_str());
        life.stage.log(&life.name, &format!("{} is {} {blocked}", report.dispatch_id, report.state.as_str()));
    }
}

/// An operator that looks after one group, or a job that sweeps a pool. The last reports are kept where `reports` is.
pub(crate) fn reconcile(life: &Arc<Life>, token: &str, only: Option<&str>, cancel: bool) -> (End, Vec<GroupReport>) {
    let stage = &life.stage;
    let port = life.port(token);
    let client = Client::new(&port, &life.clock).with_patience(Patience::Patient);
    let operator = match wq_action::launch::operator::authenticate(client, &stage.repository, Role::Reconciler) {
        Ok(operator) => operator,
        Err(fault) => return (Ok(refused(fault)), Vec::new()),
    };
    let mut ledger = life.ledger(operator.repository());
    let mut reconciler = Reconciler {
        ledger: &mut ledger,
        client,
        clock: &life.clock,
        repository: operator.repository(),
        host: WEB,
        actor: operator.actor(),
        request_cancellation: false,
    };
    let done = match only {
        Some(id) => {
            let id: DispatchId = typed(&json!(id).to_string());
            if cancel {
                reconciler.cancel_reserved(&id).map(|_| Vec::new())
            } else {
                reconciler.group(&id, None).map(|report| vec![report])
            }
        }
        None => {
            let mut all = Vec::new();
            let mut end = Ok(());
            let held = stage.branch.current().map_or(0, |current| current.projection.stats().dispatches);
            for part in 0..=held.saturating_sub(1) / 16 {
                match reconciler.sweep(None, 16, 1 + 16 * part) {
                    Ok(reports) => all.extend(reports),
                    Err(error) => end = Err(error),
                }
            }
            end.map(|()| all)
        }
    };
    match done {
        Ok(reports) => {
            tell_reports(life, &reports);
            (Ok("reconciled".to_owned()), reports)
        }
        Err(error) => (Ok(stopped(&error)), Vec::new()),
    }
}

/// How a worker ends one of its Claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    Completed,
    Cancelled,
    Nothing,
}

/// The assignment that a run was started with.
fn assigned(text: &str) -> Assignment {
    let value: Value = serde_json::from_str(text).unwrap();
    let object = |value: &Value| typed(&canonical(&value.to_string()));
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let reference = |one: &Value| ResultRef {
        work_id: typed(&one["work_id"].to_string()),
        result_commit_id: typed(&one["result_commit_id"].to_string()),
        descriptor: object(&one["descriptor"]),
    };
    let member = |one: &Value| Member {
        handle: typed(&one["handle"].to_string()),
        claim_id: typed(&one["claim_id"].to_string()),
        work_id: typed(&one["work_id"].to_string()),
        work: object(&one["work"]),
        result_refs: list(&one["result_refs"]).iter().map(reference).collect(),
    };
    Assignment {
        dispatch_id: typed(&value["dispatch_id"].to_string()),
        request_id: typed(&value["request_id"].to_string()),
        commit_id: typed(&value["commit_id"].to_string()),
        policy_epoch: typed(&value["policy_epoch"].to_string()),
        pool: typed(&value["pool"].to_string()),
        worker_profile: typed(&value["worker_profile"].to_string()),
        claims: list(&value["claims"]).iter().map(member).collect(),
    }
}

/// A worker job: authenticate, bind, work, finish. Only attempt 1 of a launched run may get beyond its activation.
pub(crate) fn work(life: &Arc<Life>, run: u64, attempt: i64, finishes: &[Finish]) -> End {
    let stage = &life.stage;
    life.of_run(run);
    let shown = stage.github.run(run).unwrap();
    let text = shown.assignment.clone().unwrap_or_default();
    let assignment = assigned(&text);
    let port = life.port(&stage.tokens().job);
    let client = Client::new(&port, &life.clock).with_patience(Patience::Patient);
    let context = context(run, attempt, &shown.path, "workflow_dispatch", &shown.head_sha, shown.actor, "");
    let scope = Scope { dispatch_id: Some(assignment.dispatch_id.clone()), claim_handle: None };
    let allowed = attempt == 1 && !stage.is_handmade(run);
    let publisher = match authenticate(client, &context, Role::Worker, &scope) {
        Ok(publisher) => publisher,
        Err(fault) if allowed => return Ok(refused(fault)),
        Err(fault) => {
            stage.tally(|tally| tally.refused += 1);
            return bold(life, &assignment, run, attempt, &refused(fault));
        }
    };
    let native = match read_repository(client, publisher.repository()) {
        Ok(native) => native,
        Err(error) => return Ok(stopped(&error)),
    };
    let contract: Digest = typed(&json!("c".repeat(64)).to_string());
    let activation = Activation {
        assignment: &assignment,
        contract: Some(&contract),
        actor: publisher.actor(),
        run: publisher.run(),
        repository: &native,
        checked_at: wq_action::ports::Clock::now(&life.clock),
    };
    let mut ledger = life.ledger(publisher.repository());
    let mut tries = 0;
    let bound = loop {
        tries += 1;
        match bind_own(&mut ledger, &activation) {
            Err(error) if error.is_transient() && tries < 3 => life.pause(),
            bound => break bound,
        }
    };
    match bound {
        Ok(_) if allowed => {}
        Ok(_) => return Err(format!("attempt {attempt} of run {run} got authority")),
        Err(error) => {
            if !allowed {
                stage.tally(|tally| tally.refused += 1);
            }
            return Ok(stopped(&error));
        }
    }
    let mut end = "worked".to_owned();
    for (member, finish) in assignment.claims.iter().zip(finishes.iter().cycle()) {
        // The agent's work; others go on meanwhile.
        life.pause();
        let outcome = match finish {
            Finish::Completed => "completed",
            Finish::Cancelled => "cancelled",
            Finish::Nothing => continue,
        };
        let handle: &Handle = &member.handle;
        let actor = Actor { claim_handle: Some(handle.clone()), ..publisher.actor().clone() };
        if let Err(code) = finish_claim(life, &mut ledger, &actor, &assignment, handle, outcome) {
            end = code;
        }
    }
    Ok(end)
}

fn finish_claim(
    life: &Life,
    ledger: &mut dyn Ledger,
    actor: &Actor,
    assignment: &Assignment,
    handle: &Handle,
    outcome: &str,
) -> Result<(), String> {
    let parameters = json!({"dispatch_id": assignment.dispatch_id.as_str(), "claim_handle": handle.as_str(),
        "outcome": outcome});
    let id = request_id(actor, &intent_id(&purpose(&["finish", handle.as_str()])));
    let request =
        FrozenRequest::new(id.clone(), RequestKind::Finish, actor.clone(), &canonical(&parameters.to_string()));
    let request = request.map_err(refused)?;
    let published = ledger.publish(&request, None, &mut |projection, scanner, at| {
        projection.decide(scanner, &request, at, &[]).map_err(Into::into)
    });
    let published = published.map_err(|error| error.code().as_str().to_owned())?;
    tell_outcome(life, &id, &published.outcome);
    Ok(())
}

/// Remembers where a request was said to be; what holds already is committed under another id.
fn tell_outcome(life: &Life, id: &RequestId, outcome: &Outcome) {
    if let (Some(commit), false) = (outcome.commit_id(), matches!(outcome, Outcome::Done { .. })) {
        life.stage.answer(id.as_str(), commit.as_str());
    }
}

/// A run without authority that does not ask for any, and writes.
fn bold(life: &Arc<Life>, assignment: &Assignment, run: u64, attempt: i64, code: &str) -> End {
    let stage = &life.stage;
    let Some(member) = assignment.claims.first() else { return Ok(code.to_owned()) };
    let shown = stage.github.run(run).unwrap();
    let mut actor: Actor = typed(&canonical(
        &json!({"role": "worker", "principal": shown.actor.to_string(), "repository": OCTO_WIDGETS,
            "workflow": shown.path.split('@').next(), "run_id": run.to_string(), "run_attempt": 1,
            "dispatch_id": assignment.dispatch_id.as_str(), "claim_handle": member.handle.as_str()})
        .to_string(),
    ));
    actor.run_attempt = Within::new(attempt).ok();
    let mut ledger = life.ledger(&stage.repository);
    match finish_claim(life, &mut ledger, &actor, assignment, &member.handle, "completed") {
        Ok(()) => Err(format!("attempt {attempt} of run {run} completed a Claim")),
        Err(_) => Ok(code.to_owned()),
    }
}

/// What a worker completed and nobody has verified yet.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) work: String,
    pub(crate) claim: String,
    pub(crate) dispatch: String,
    pub(crate) handle: String,
    pub(crate) completion: String,
}

/// A job that verifies deliveries.
pub(crate) fn deliver(life: &Arc<Life>, token: &str, deliveries: &[Delivery]) -> End {
    let stage = &life.stage;
    let port = life.port(token);
    let client = Client::new(&port, &life.clock).with_patience(Patience::Patient);
    let operator = match wq_action::launch::operator::authenticate(client, &stage.repository, Role::Reconciler) {
        Ok(operator) => operator,
        Err(fault) => return Ok(refused(fault)),
    };
    let mut ledger = life.ledger(operator.repository());
    let mut end = "delivered".to_owned();
    for one in deliveries {
        let Ok(current) = ledger.read_present() else { continue };
        let Some(dispatch) = current.projection.dispatch(&one.dispatch) else { continue };
        let Some(run) = dispatch.run.clone() else { continue };
        let at = wq_action::ports::Clock::now(&life.clock).get();
        let evidence = json!({"kind": "delivery", "source": "verified_receipts", "repository": OCTO_WIDGETS,
            "workflow": run.workflow.as_str(), "ref": run.revision.as_str(), "principal": run.principal.as_str(),
            "checked_at": at, "run_id": run.run_id.as_str(), "run_attempt": 1, "receipt": "receipt"});
        let operation = json!({"kind": "Result", "work_id": one.work, "claim_id": one.claim,
            "completion_id": one.completion, "descriptor": {"done": true}, "evidence": evidence});
        drop(current);
        let parts = ["result", one.dispatch.as_str(), one.handle.as_str(), one.completion.as_str()];
        let id = request_id(operator.actor(), &intent_id(&purpose(&parts)));
        if let Err(code) = operate(life, &mut ledger, id, RequestKind::Result, operator.actor(), &[operation]) {
            end = code;
        }
    }
    Ok(end)
}

/// Publishes a request whose parameters are its operations.
pub(crate) fn operate(
    life: &Life,
    ledger: &mut dyn Ledger,
    id: RequestId,
    kind: RequestKind,
    actor: &Actor,
    operations: &[Value],
) -> Result<(), String> {
    let member = if kind == RequestKind::Submit { "nodes" } else { "operations" };
    let parameters = canonical(&json!({ member: operations }).to_string());
    let request = FrozenRequest::new(id.clone(), kind, actor.clone(), &parameters).map_err(refused)?;
    let policy: Policy = typed(&canonical(&life.stage.policy.to_string()));
    let policy = Proposal::plain(&policy);
    let proposal = (kind == RequestKind::Submit).then_some(&policy);
    let published = ledger.publish(&request, proposal, &mut |projection, scanner, at| {
        projection.decide(scanner, &request, at, &[]).map_err(Into::into)
    });
    let published = published.map_err(|error| error.code().as_str().to_owned())?;
    tell_outcome(life, &id, &published.outcome);
    Ok(())
}
