//! A day at the simulated GitHub: the queue branch in memory, runs of the dispatcher and of the worker, and processes
//! that can be counted step by step, struck at any step, and replaced by fresh ones.

use std::sync::Arc;
use std::time::Duration;

use wq_action::engine::Projection;
use wq_action::engine::checkpoint::CheckpointInputs;
use wq_action::engine::state::DispatchPhase;
use wq_action::forge::Client;
use wq_action::launch::bind::{Activation, bind_own};
use wq_action::launch::credential::{CredentialKind, LaunchClient};
use wq_action::launch::error::LaunchError;
use wq_action::launch::grant::{Ask, Granted};
use wq_action::launch::native::read_repository;
use wq_action::launch::observe::{Clients, Resolver, Scopes};
use wq_action::launch::reconcile::Reconciler;
use wq_action::launch::report::GroupReport;
use wq_action::launch::start::{Approval, Launcher};
use wq_action::ledger::proposal::{Worker, default_policy};
use wq_action::ledger::simulated::{SimulatedBranch, SimulatedLedger, Step, Trouble};
use wq_action::ledger::{Current, Ledger, LedgerError, Proposal, Publication};
use wq_action::ports::{Clock as _, SimulatedClock, SimulatedEntropy};
use wq_action::protocol::actor::{Actor, Role};
use wq_action::protocol::assignment::Assignment;
use wq_action::protocol::commit::FrozenRequest;
use wq_action::protocol::identity::Within;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::policy::{Policy, WorkerProfile};
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::work::derive_work_id;
use wq_action::protocol::{
    Decimal, Digest, DispatchId, Generation, GraphId, Identity, NodeKey, PoolName, ProfileName, Repository,
    RepositoryName, RequestId, Revision, Token,
};

use super::git::NOW;
use super::github::{Github, JOB, LAUNCH, NewRun, OCTO_WIDGETS, Port};
use super::probe::{Fault, Kind, Probe, Wire};

/// The host of external resources.
pub(crate) const HOST: &str = "github.com";
/// The worker's compiled workflow.
pub(crate) const WORKER: &str = ".github/workflows/worker.lock.yml";
/// The dispatcher's.
pub(crate) const DISPATCHER: &str = ".github/workflows/dispatcher.lock.yml";

/// Approves every route.
pub(crate) struct Everything;

impl Approval for Everything {
    fn allows(&self, _profile: &WorkerProfile) -> bool {
        true
    }

    fn verify(&self, _profile: &WorkerProfile) -> Result<(), LaunchError> {
        Ok(())
    }
}

/// A run of the dispatcher.
#[derive(Clone, Debug)]
pub(crate) struct Shift {
    /// The run's id.
    pub(crate) run: u64,
    /// Its number.
    pub(crate) number: u64,
    /// The authenticated dispatcher.
    pub(crate) actor: Actor,
}

/// The world of a test.
pub(crate) struct Stage {
    pub(crate) github: Github,
    pub(crate) clock: Arc<SimulatedClock>,
    pub(crate) branch: SimulatedBranch,
    pub(crate) repository: RepositoryName,
    pub(crate) revision: Revision,
    pub(crate) contract: Digest,
    entropy: SimulatedEntropy,
}

impl Stage {
    /// The standard world, without a queue.
    pub(crate) fn new() -> Self {
        Self::of(Github::standard())
    }

    /// Any world that has the standard repository.
    pub(crate) fn of(github: Github) -> Self {
        let revision = Revision::new(github.head(OCTO_WIDGETS, "main").unwrap()).unwrap();
        Self {
            github,
            clock: Arc::new(SimulatedClock::new(NOW)),
            branch: SimulatedBranch::new(),
            repository: RepositoryName::new(OCTO_WIDGETS).unwrap(),
            revision,
            contract: Digest::new("c".repeat(64)).unwrap(),
            entropy: SimulatedEntropy::new(7),
        }
    }

    /// The standard world with this many Works in the queue.
    pub(crate) fn with_works(count: usize) -> Self {
        let stage = Self::new();
        let shift = stage.shift();
        stage.process(&shift).submit(&stage.submission("first", count)).unwrap();
        stage
    }

    /// The Policy that a first submission proposes.
    pub(crate) fn policy(&self) -> Policy {
        let worker = Worker {
            name: ProfileName::new("worker").unwrap(),
            revision: self.revision.clone(),
            contract: Some(self.contract.clone()),
        };
        default_policy(&self.repository, &[worker]).unwrap()
    }

    /// A new run of the dispatcher, under way.
    pub(crate) fn shift(&self) -> Shift {
        let actor = self.github.account_id("wim");
        let run = self.github.new_run(&NewRun {
            repository: OCTO_WIDGETS,
            workflow: "dispatcher.lock.yml",
            event: "schedule",
            reference: "main",
            actor,
            title: None,
        });
        self.github.start_run(run);
        let number = self.github.run(run).unwrap().number;
        Shift { run, number, actor: self.actor(Role::Dispatcher, run, DISPATCHER, 1, None) }
    }

    /// The same run again, as its next attempt.
    pub(crate) fn again(&self, shift: &Shift) -> Shift {
        self.github.complete_run(shift.run, "failure");
        self.github.rerun(shift.run, self.github.account_id("wim"));
        self.github.start_run(shift.run);
        let attempts = self.github.run(shift.run).unwrap().attempts.len() as i64;
        Shift { actor: self.actor(Role::Dispatcher, shift.run, DISPATCHER, attempts, None), ..shift.clone() }
    }

    fn actor(
        &self,
        role: Role,
        run: u64,
        workflow: &str,
        attempt: i64,
        member: Option<(&DispatchId, Option<&str>)>,
    ) -> Actor {
        let principal = Decimal::new(self.github.run(run).unwrap().actor.to_string()).unwrap();
        let actor = Actor {
            role,
            principal,
            repository: Repository::new(OCTO_WIDGETS).unwrap(),
            workflow: Some(Identity::new(workflow.to_owned()).unwrap()),
            run_id: Some(Decimal::new(run.to_string()).unwrap()),
            run_attempt: Some(Within::new(attempt).unwrap()),
            dispatch_id: member.map(|(dispatch, _)| dispatch.clone()),
            claim_handle: member
                .and_then(|(_, handle)| handle)
                .map(|handle| wq_action::protocol::Handle::new(handle.to_owned()).unwrap()),
        };
        actor.check().unwrap();
        actor
    }

    /// The worker of a run, with its dispatch and perhaps one Claim of it.
    pub(crate) fn worker(&self, run: u64, dispatch: &DispatchId, handle: Option<&str>) -> Actor {
        self.actor(Role::Worker, run, WORKER, 1, Some((dispatch, handle)))
    }

    /// A fresh process of a dispatcher's run.
    pub(crate) fn process(&self, shift: &Shift) -> Process<'_> {
        self.process_with(shift, &Probe::default())
    }

    /// A fresh process that reads with another token.
    pub(crate) fn process_as(&self, shift: &Shift, token: &str) -> Process<'_> {
        let process = self.process(shift);
        process.native.port.rotate(token);
        process
    }

    /// The same, counted and perhaps struck.
    pub(crate) fn process_with(&self, shift: &Shift, probe: &Probe) -> Process<'_> {
        let wire = |token| Wire {
            port: Port::new(&self.github, token, &self.clock),
            github: self.github.clone(),
            probe: probe.clone(),
        };
        Process {
            stage: self,
            ledger: self.ledger(probe),
            native: wire(JOB),
            launch: wire(LAUNCH),
            shift: shift.clone(),
        }
    }

    /// A process at the queue branch, counted and perhaps struck.
    pub(crate) fn ledger(&self, probe: &Probe) -> SimulatedLedger<'_> {
        let probe = probe.clone();
        let ledger = SimulatedLedger::new(&self.branch, &self.repository, HOST, &*self.clock, &self.entropy);
        ledger.with_plan(Box::new(move |step| {
            let kind = if step == Step::Read { Kind::Read } else { Kind::Push };
            match probe.step(kind) {
                Err(()) | Ok(Some(Fault::CrashBefore)) => Some(Trouble::CrashBefore),
                Ok(None | Some(Fault::Api(_))) => None,
                Ok(Some(Fault::Ledger(trouble))) => Some(trouble),
                Ok(Some(Fault::CrashAfter)) => Some(Trouble::CrashAfter),
            }
        }))
    }

    /// The queue as it stands.
    pub(crate) fn queue(&self) -> Arc<Current> {
        self.branch.current().unwrap()
    }

    /// The ledger's text.
    pub(crate) fn text(&self) -> String {
        let queue = self.queue();
        queue.projection.active().map(|commit| format!("{}\n", commit.as_str())).collect()
    }

    /// A producer's submission of `count` independent nodes.
    pub(crate) fn submission(&self, id: &str, count: usize) -> FrozenRequest {
        let graph = format!("graph-{id}");
        let nodes: Vec<String> = (1..=count)
            .map(|number| {
                let key = format!("n{number}");
                let work = derive_work_id(&GraphId::new(graph.clone()).unwrap(), &NodeKey::new(key.clone()).unwrap());
                format!(
                    r#"{{"batch_trust_domain":"default","depends_on":[],"enqueued":{NOW},"fairness_key":"","graph_id":"{graph}","kind":"Work","node_key":"{key}","payload":{{"task":"{key}"}},"pool":"default","priority":3,"work_id":"{work}","worker_profile":"worker"}}"#
                )
            })
            .collect();
        let principal = Decimal::new(self.github.account_id("wim").to_string()).unwrap();
        let actor = Actor::new(Role::Producer, principal, Repository::new(OCTO_WIDGETS).unwrap()).unwrap();
        let parameters = format!(r#"{{"nodes":[{}]}}"#, nodes.join(","));
        FrozenRequest::new(RequestId::new(id).unwrap(), RequestKind::Submit, actor, &parameters).unwrap()
    }

    /// The same two nodes, of which the first waits for Issue 5, which is closed as completed.
    pub(crate) fn gated_submission(&self, id: &str) -> FrozenRequest {
        let issue = self.github.issue(OCTO_WIDGETS, 5);
        self.github.change_issue(OCTO_WIDGETS, 5, |issue| {
            issue.state = "closed".to_owned();
            issue.state_reason = Some("completed".to_owned());
        });
        let plain = self.submission(id, 2);
        let repository = self.github.repository_id(OCTO_WIDGETS);
        let gate = format!(
            r#""depends_on":[{{"condition":"completed","kind":"issue","resource":{{"host":"{HOST}","kind":"issue","number":"5","repository":"{OCTO_WIDGETS}","repository_id":"{repository}","resource_id":"{issue}"}}}}]"#
        );
        let parameters = plain.parameters.as_str().replacen(r#""depends_on":[]"#, &gate, 1);
        FrozenRequest::new(plain.id, plain.kind, plain.actor, &parameters).unwrap()
    }

    /// A dispatcher's request for so many groups.
    pub(crate) fn dispatch_next(&self, shift: &Shift, id: &str, groups: usize) -> FrozenRequest {
        let parameters =
            format!(r#"{{"max_bytes":49152,"max_claims":{groups},"max_dispatches":{groups},"pool":"default"}}"#);
        let id = RequestId::new(id).unwrap();
        FrozenRequest::new(id, RequestKind::DispatchNext, shift.actor.clone(), &parameters).unwrap()
    }

    /// The assignments of a committed grant, in order.
    pub(crate) fn assignments(&self, request: &str) -> Vec<Assignment> {
        assignments(&self.queue().projection, request)
    }

    /// Publishes as any actor, without faults.
    pub(crate) fn publish(&self, request: &FrozenRequest) -> Result<Publication, LedgerError> {
        publish(&mut self.ledger(&Probe::default()), request, None)
    }

    /// A worker's activation in its run: protected code binds the run before any agent.
    pub(crate) fn activate(&self, run: u64, probe: &Probe) -> Result<(), LaunchError> {
        let assignment = self.assignment_of(run);
        let actor = self.worker(run, &assignment.dispatch_id, None);
        self.activate_as(run, &assignment, &actor, probe)
    }

    /// The same with an assignment and an actor of the test's choice.
    pub(crate) fn activate_as(
        &self,
        run: u64,
        assignment: &Assignment,
        actor: &Actor,
        probe: &Probe,
    ) -> Result<(), LaunchError> {
        let wire =
            Wire { port: Port::new(&self.github, JOB, &self.clock), github: self.github.clone(), probe: probe.clone() };
        let client = Client::new(&wire, &*self.clock);
        let repository = read_repository(client, &self.repository)?;
        let shown = client.run(&self.repository, &Decimal::new(run.to_string()).unwrap())?;
        let activation = Activation {
            assignment,
            contract: Some(&self.contract),
            actor,
            run: &shown,
            repository: &repository,
            checked_at: self.clock.now(),
        };
        bind_own(&mut self.ledger(probe), &activation).map(|_| ())
    }

    /// The assignment that a run was started with.
    pub(crate) fn assignment_of(&self, run: u64) -> Assignment {
        let run = self.github.run(run).unwrap();
        let dispatch = run.dispatch_id.clone().unwrap();
        self.queue().projection.dispatch(&dispatch).unwrap().assignment.clone()
    }

    /// A worker's finish of its members; returns what the queue said about each.
    pub(crate) fn finish(&self, run: u64, outcome: &str, probe: &Probe) -> Vec<Result<Publication, LedgerError>> {
        let assignment = self.assignment_of(run);
        let finish = |handle: &str| {
            let actor = self.worker(run, &assignment.dispatch_id, Some(handle));
            let parameters = format!(
                r#"{{"claim_handle":"{handle}","dispatch_id":"{}","outcome":"{outcome}"}}"#,
                assignment.dispatch_id.as_str()
            );
            let id = RequestId::new(format!("finish-{run}-{handle}")).unwrap();
            let request = FrozenRequest::new(id, RequestKind::Finish, actor, &parameters).unwrap();
            publish(&mut self.ledger(probe), &request, None)
        };
        assignment.claims.iter().map(|member| finish(member.handle.as_str())).collect()
    }

    /// Now, in Unix milliseconds.
    pub(crate) fn clock_now(&self) -> i64 {
        self.clock.now().get()
    }

    /// Sets a control as an administrator.
    pub(crate) fn control(&self, name: &str, value: &str) {
        let principal = Decimal::new(self.github.account_id("ada").to_string()).unwrap();
        let actor = Actor::new(Role::Administrator, principal, Repository::new(OCTO_WIDGETS).unwrap()).unwrap();
        let parameters = format!(
            r#"{{"operations":[{{"control":"{name}","kind":"Control","reason":"planned_work","value":{value}}}]}}"#
        );
        let id = RequestId::new(format!("control-{name}-{value}")).unwrap();
        let request = FrozenRequest::new(id, RequestKind::Control, actor, &parameters).unwrap();
        self.publish(&request).unwrap();
    }

    /// Starts a run for an assignment without the queue, as a POST would that was thought lost.
    pub(crate) fn launch_by_hand(&self, assignment: &Assignment) -> u64 {
        let body = serde_json::json!({
            "ref": format!("refs/tags/gh-aw/work-queue/{}", self.revision.as_str()),
            "inputs": {"work_queue_assignment": assignment.canonical()},
        });
        let target = format!("/repos/{OCTO_WIDGETS}/actions/workflows/worker.lock.yml/dispatches");
        let answer = self.github.post(LAUNCH, &target, &body);
        assert_eq!(answer.status, 200);
        answer.json()["workflow_run_id"].as_u64().unwrap()
    }

    /// Replaces the ledger by its checkpoint, as a compaction would.
    pub(crate) fn compact(&self) {
        let principal = Decimal::new(self.github.account_id("ada").to_string()).unwrap();
        let actor = Actor::new(Role::Administrator, principal, Repository::new(OCTO_WIDGETS).unwrap()).unwrap();
        let queue = self.queue();
        let sha = Revision::new(queue.commit.to_string()).unwrap();
        let inputs = CheckpointInputs { prior_git_sha: &sha, actor: &actor, at: self.clock.now() };
        let built = queue.projection.checkpoint(&inputs, &mut Scanner::new(HOST)).unwrap();
        self.branch.replace(built.projection);
    }

    /// Lets `ms` milliseconds pass everywhere.
    pub(crate) fn wait(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
        self.github.set_now(self.clock.now().get());
    }

    /// How a dispatch stands, in one word.
    pub(crate) fn phase(&self, dispatch: &DispatchId) -> &'static str {
        let queue = self.queue();
        let dispatch = queue.projection.dispatch(dispatch.as_str()).unwrap();
        match &dispatch.phase {
            _ if dispatch.released => "released",
            DispatchPhase::Reserved => "reserved",
            DispatchPhase::Moved(step) => step.as_str(),
        }
    }
}

/// The assignments of a committed grant, in order.
pub(crate) fn assignments(projection: &Projection, request: &str) -> Vec<Assignment> {
    let fits = |assignment: &&Assignment| assignment.request_id.as_str() == request;
    projection.dispatches().map(|dispatch| &dispatch.assignment).filter(fits).cloned().collect()
}

/// Publishes what the engine decides.
pub(crate) fn publish(
    ledger: &mut dyn Ledger,
    request: &FrozenRequest,
    proposal: Option<&Policy>,
) -> Result<Publication, LedgerError> {
    ledger.publish(
        request,
        proposal.map(Proposal::plain).as_ref(),
        &mut |projection: &Projection, scanner: &mut Scanner, at| {
            projection.decide(scanner, request, at, &[]).map_err(LedgerError::from)
        },
    )
}

/// One process of a dispatcher's run.
pub(crate) struct Process<'s> {
    stage: &'s Stage,
    pub(crate) ledger: SimulatedLedger<'s>,
    native: Wire<'s>,
    launch: Wire<'s>,
    pub(crate) shift: Shift,
}

impl Process<'_> {
    /// Submits, with the Policy that a first submission needs.
    pub(crate) fn submit(&mut self, request: &FrozenRequest) -> Result<Publication, LedgerError> {
        let proposal = self.stage.policy();
        publish(&mut self.ledger, request, Some(&proposal))
    }

    /// Launches with another token from now on.
    pub(crate) fn rotate_launch(&self, token: &str) {
        self.launch.port.rotate(token);
    }

    /// Launches one group, or reconciles it.
    pub(crate) fn launch(&mut self, assignment: &Assignment) -> Result<GroupReport, LaunchError> {
        self.launching(|launcher| launcher.launch(assignment))
    }

    /// Everything that a dispatcher does for one request: sweep, grant, launch.
    pub(crate) fn dispatch(&mut self, id: &str, origin: &Actor, groups: i64) -> Result<Granted, LaunchError> {
        let ask = Ask {
            request_id: RequestId::new(id).unwrap(),
            actor: origin.clone(),
            pool: PoolName::new("default").unwrap(),
            max_claims: groups,
            max_dispatches: groups,
            worker_profiles: None,
            run_budget: 16,
            remaining: 16,
            run_number: self.shift.number,
        };
        // Gates are looked at with the job's own token; without a gate nothing is asked.
        let stage = self.stage;
        let wire = Wire {
            port: Port::new(&stage.github, JOB, &stage.clock),
            github: stage.github.clone(),
            probe: self.native.probe.clone(),
        };
        let client = Client::new(&wire, &*stage.clock);
        let generation = Generation::new("initial").unwrap();
        let scopes = Scopes::of_queue(client.host(), &stage.repository, &[], &generation).unwrap();
        let clients = Clients::new(&scopes, vec![(stage.repository.clone(), client)]).unwrap();
        let resolver = Resolver::new(&scopes, &clients, &*stage.clock);
        self.launching(|launcher| launcher.grant(&ask, Some(&resolver), None))
    }

    /// Works with a launcher of this process.
    pub(crate) fn launching<T>(&mut self, work: impl FnOnce(&mut Launcher<'_, '_>) -> T) -> T {
        let stage = self.stage;
        let selected = || Token::new(LAUNCH.to_owned());
        let kind = CredentialKind::GithubApp("queue-launcher".to_owned());
        let client = Client::new(&self.launch, &*stage.clock);
        let launch = LaunchClient::new(client, Some(kind), Some(Arc::new(selected)));
        let mut launcher = Launcher {
            ledger: &mut self.ledger,
            native: Client::new(&self.native, &*stage.clock),
            launch: Some(&launch),
            clock: &*stage.clock,
            repository: &stage.repository,
            host: HOST,
            sender: &self.shift.actor,
            approval: &Everything,
            staged: false,
        };
        work(&mut launcher)
    }

    /// Works with a reconciler of this process.
    pub(crate) fn reconciling<T>(&mut self, work: impl FnOnce(&mut Reconciler<'_, '_>) -> T) -> T {
        let stage = self.stage;
        work(&mut Reconciler {
            ledger: &mut self.ledger,
            client: Client::new(&self.native, &*stage.clock),
            clock: &*stage.clock,
            repository: &stage.repository,
            host: HOST,
            actor: &self.shift.actor,
            request_cancellation: false,
        })
    }

    /// Reconciles one group.
    pub(crate) fn reconcile(&mut self, dispatch: &DispatchId) -> Result<GroupReport, LaunchError> {
        self.reconciling(|reconciler| reconciler.group(dispatch, None))
    }

    /// Reconciles the pool.
    pub(crate) fn sweep(&mut self) -> Result<Vec<GroupReport>, LaunchError> {
        let number = self.shift.number;
        self.reconciling(|reconciler| reconciler.sweep(Some("default"), 16, number))
    }
}
