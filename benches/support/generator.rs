//! Makes valid ledgers of a wanted size: whole lives of Work, from submission to release, under one AW Policy.

use wq_action::engine::schedule::{PlanInputs, plan};
use wq_action::engine::{Projection, generate};
use wq_action::protocol::actor::{Actor, Role};
use wq_action::protocol::commit::{Candidate, Commit, FrozenRequest};
use wq_action::protocol::json::Scanner;
use wq_action::protocol::request::{DispatchParameters, RequestKind};
use wq_action::protocol::work::derive_work_id;
use wq_action::protocol::{
    At, DispatchId, Epoch, GraphId, Handle, Identity, NodeKey, Opaque, PoolName, Repository, RequestId, Text,
    Wire as _, identity::Within,
};

/// What the generated Work looks like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Accounting keys `k0`, `k1`, … beside the empty one.
    pub(crate) keys: usize,
    /// Nodes of each submission.
    pub(crate) nodes: usize,
    /// Bytes of text in each payload.
    pub(crate) payload: usize,
    /// Claims of each dispatch.
    pub(crate) batch: i64,
    /// Plain controls after each round, the cheapest record there is.
    pub(crate) controls: usize,
}

impl Default for Shape {
    fn default() -> Self {
        Self { keys: 8, nodes: 4, payload: 700, batch: 2, controls: 1 }
    }
}

const REF: &str = "0123456789abcdef0123456789abcdef01234567";
const REPOSITORY: &str = "owner/repo";
const WORKER: &str = ".github/workflows/worker.lock.yml";
const DISPATCHER: &str = ".github/workflows/dispatcher.lock.yml";
const PRINCIPAL: &str = "41898282";

/// A ledger under construction, kept as text and as state.
pub(crate) struct Generator {
    shape: Shape,
    scanner: Scanner,
    state: Option<Projection>,
    text: String,
    epoch: Epoch,
    at: i64,
    serial: u64,
}

fn actor(role: Role) -> Actor {
    let mut actor = Actor {
        role,
        principal: wq_action::protocol::Decimal::new(PRINCIPAL).unwrap(),
        repository: Repository::new(REPOSITORY).unwrap(),
        workflow: None,
        run_id: None,
        run_attempt: None,
        dispatch_id: None,
        claim_handle: None,
    };
    if role == Role::Dispatcher {
        actor.workflow = Some(Identity::new(DISPATCHER).unwrap());
        actor.run_id = Some(wq_action::protocol::Decimal::new("1000").unwrap());
        actor.run_attempt = Some(Within::new(1).unwrap());
    }
    actor
}

fn worker(dispatch: &DispatchId, run: &str, handle: Option<&Handle>) -> Actor {
    let mut worker = actor(Role::Producer);
    worker.role = Role::Worker;
    worker.workflow = Some(Identity::new(WORKER).unwrap());
    worker.run_id = Some(wq_action::protocol::Decimal::new(run).unwrap());
    worker.run_attempt = Some(Within::new(1).unwrap());
    worker.dispatch_id = Some(dispatch.clone());
    worker.claim_handle = handle.cloned();
    worker
}

/// A Policy with `keys` accounting keys, one pool and one route.
pub(crate) fn policy(keys: usize, batch: i64) -> String {
    let mut accounting: Vec<String> = (0..keys).map(|key| format!(r#""k{key}":{}"#, key % 7 + 1)).collect();
    accounting.sort();
    accounting.insert(0, r#""":1"#.to_owned());
    let accounting = accounting.join(",");
    format!(
        concat!(
            r#"{{"accounting_weights":{{{accounting}}},"authorization":"aw","class_weights":[8,4,2,1,1],"limits":"#,
            r#"{{"assignment_bytes":49152,"evidence_bytes":1024,"graph_nodes":4096,"ledger_bytes":67108864,"#,
            r#""observation_writes":4096,"operations":256,"payload_bytes":16384,"pending_nodes":4096,"predecessors":64,"#,
            r#""recovery_bytes":16777216,"result_bytes":4096}},"mode":"weighted-priority","pools":{{"default":{{"#,
            r#""allowed_repositories":["owner/repo"],"default_profile":"worker","logical_limit":4096,"#,
            r#""max_observation_age_ms":60000,"native_limit":4096,"profiles":{{"worker":{{"#,
            r#""credential_scope":"repository","effect_scope":"owner/repo","max_claims":{batch},"ref":"{reference}","#,
            r#""share_keys":true,"trust_domain":"default","workflow":"{worker}"}}}},"#,
            r#""reconciliation":{{"deadline_ms":300000,"max_attempts":5}},"#,
            r#""retry":{{"backoff_ms":30000,"max_attempts":3}}}}}},"producers":{{}}}}"#
        ),
        accounting = accounting,
        batch = batch,
        reference = REF,
        worker = WORKER
    )
}

impl Generator {
    /// Starts a ledger with its bootstrap commit.
    pub(crate) fn new(shape: Shape) -> Self {
        let mut generator = Self {
            shape,
            scanner: Scanner::new("github.com"),
            state: Some(Projection::empty()),
            text: String::new(),
            epoch: Epoch::new("epoch").unwrap(),
            at: 1_700_000_000_000,
            serial: 0,
        };
        let nodes = generator.nodes();
        let operation = format!(
            r#"{{"epoch":"epoch","kind":"Policy","policy":{}}}"#,
            policy(generator.shape.keys, generator.shape.batch)
        );
        let parameters = format!(r#"{{"nodes":[{}]}}"#, nodes.join(","));
        let mut operations = vec![operation];
        operations.extend(nodes);
        generator.push(RequestKind::Submit, &actor(Role::Producer), &parameters, &operations, true);
        generator
    }

    /// The text so far.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The state so far.
    pub(crate) fn state(&self) -> &Projection {
        self.state.as_ref().unwrap()
    }

    fn nodes(&mut self) -> Vec<String> {
        let count = self.shape.nodes;
        (0..count).map(|_| self.node()).collect()
    }

    fn node(&mut self) -> String {
        self.serial += 1;
        let serial = self.serial;
        let graph = GraphId::new(format!("graph-{}", serial / 64)).unwrap();
        let key = NodeKey::new(format!("node-{serial}")).unwrap();
        let id = derive_work_id(&graph, &key);
        let account =
            if self.shape.keys == 0 { String::new() } else { format!("k{}", serial as usize % self.shape.keys) };
        let words =
            "review the changed files and report what breaks, with file and line \\u2014 ".replace("\\u2014", "—");
        let mut task = words.repeat(self.shape.payload / words.len() + 1);
        task.truncate(self.shape.payload);
        while !task.is_char_boundary(task.len()) {
            task.pop();
        }
        format!(
            concat!(
                r#"{{"batch_trust_domain":"default","depends_on":[],"enqueued":{at},"fairness_key":"{account}","#,
                r#""graph_id":"{graph}","kind":"Work","node_key":"{key}","#,
                r#""payload":{{"attempt":{serial},"labels":["a","b"],"task":"{task}"}},"#,
                r#""pool":"default","priority":{priority},"work_id":"{id}","worker_profile":"worker"}}"#
            ),
            at = self.at,
            account = account,
            graph = graph,
            key = key,
            serial = serial,
            task = task,
            priority = serial % 5 + 1,
            id = id
        )
    }

    /// Appends a commit. `budgeted` is false only for sizes that the recovery reserve rules out.
    fn push(&mut self, kind: RequestKind, actor: &Actor, parameters: &str, operations: &[String], budgeted: bool) {
        self.at += 17;
        let id = RequestId::new(format!("request-{:08}", self.text.len())).unwrap();
        let request = FrozenRequest::new(id, kind, actor.clone(), parameters).unwrap();
        let state = self.state.take().unwrap();
        let commit_id = generate::candidate_id(state.tip(), &request.id);
        let operations: Vec<Opaque> = operations
            .iter()
            .map(|operation| {
                let text = Text::from(operation.as_str());
                Opaque::parse(&mut self.scanner, &text).unwrap()
            })
            .collect();
        let candidate = Candidate {
            id: &commit_id,
            previous: state.tip(),
            request: &request,
            policy_epoch: &self.epoch,
            at: At::new(self.at).unwrap(),
            operations: &operations,
        };
        let line = candidate.encode();
        self.text.push_str(&line);
        self.text.push('\n');
        let commit = Commit::read(&mut self.scanner, &Text::from(line)).unwrap();
        let next = if budgeted { state.apply(commit) } else { state.apply_unbudgeted(commit) };
        self.state = Some(next.unwrap());
    }

    fn push_operations(&mut self, kind: RequestKind, actor: &Actor, operations: &[String]) {
        let parameters = format!(r#"{{"operations":[{}]}}"#, operations.join(","));
        self.push(kind, actor, &parameters, operations, true);
    }

    /// Submits one batch of nodes.
    pub(crate) fn submit(&mut self, budgeted: bool) {
        let nodes = self.nodes();
        let parameters = format!(r#"{{"nodes":[{}]}}"#, nodes.join(","));
        self.push(RequestKind::Submit, &actor(Role::Producer), &parameters, &nodes, budgeted);
    }

    /// Grants all that is available and takes every Claim through its whole life.
    pub(crate) fn drain(&mut self) {
        let parameters = DispatchParameters {
            pool: PoolName::new("default").unwrap(),
            max_claims: Within::new(16).unwrap(),
            max_dispatches: Within::new(16).unwrap(),
            max_bytes: Within::new(49152).unwrap(),
            worker_profiles: None,
        };
        while self.state().stats().counts.available > 0 {
            let before = self.state().dispatches().len();
            self.grant(&parameters);
            let after = self.state().dispatches().len();
            for index in before..after {
                self.live(index);
            }
        }
        for _ in 0..self.shape.controls {
            self.control();
        }
    }

    /// Appends the cheapest record there is.
    pub(crate) fn control(&mut self) {
        let operation = r#"{"control":"grants_paused","kind":"Control","reason":"measured","value":false}"#.to_owned();
        self.push_operations(RequestKind::Control, &actor(Role::Administrator), &[operation]);
    }

    fn grant(&mut self, parameters: &DispatchParameters) {
        let dispatcher = actor(Role::Dispatcher);
        let id = RequestId::new(format!("request-{:08}", self.text.len())).unwrap();
        let commit_id = generate::candidate_id(self.state().tip(), &id);
        let inputs = PlanInputs {
            parameters,
            request_id: &id,
            commit_id: &commit_id,
            at: At::new(self.at + 17).unwrap(),
            preceding_operations: 0,
        };
        let planned = plan(self.state(), &inputs).unwrap();
        let claims: Vec<String> = planned.claims.iter().map(|planned| planned.claim.canonical()).collect();
        self.push(RequestKind::DispatchNext, &dispatcher, &parameters.canonical(), &claims, true);
    }

    fn evidence(&self, kind: &str, source: &str, run: &str, rest: &str) -> String {
        format!(
            concat!(
                r#"{{"checked_at":{at},"kind":"{kind}","principal":"{principal}","ref":"{reference}","#,
                r#""repository":"{repository}","run_attempt":1,"run_id":"{run}","source":"{source}","#,
                r#""workflow":"{worker}"{rest}}}"#
            ),
            at = self.at,
            kind = kind,
            principal = PRINCIPAL,
            reference = REF,
            repository = REPOSITORY,
            run = run,
            source = source,
            worker = WORKER,
            rest = rest
        )
    }

    fn live(&mut self, index: usize) {
        let dispatcher = actor(Role::Dispatcher);
        let reconciler = actor(Role::Reconciler);
        let dispatch = self.state().dispatches().nth(index).unwrap().assignment.clone();
        let id = dispatch.dispatch_id.clone();
        let run = (5_000_000 + index).to_string();
        let start = format!(
            r#"{{"credential_principal":"{PRINCIPAL}","dispatch_id":"{id}","kind":"Dispatch","sender":{},"state":"started"}}"#,
            dispatcher.canonical()
        );
        self.push_operations(RequestKind::Dispatch, &dispatcher, &[start]);
        let evidence = self.evidence("reconciliation", "github_api", &run, "");
        let bind = format!(
            concat!(
                r#"{{"dispatch_id":"{id}","evidence":{evidence},"kind":"Dispatch","run":{{"event":"workflow_dispatch","#,
                r#""principal":"{principal}","ref":"{reference}","repository":"{repository}","run_attempt":1,"#,
                r#""run_id":"{run}","workflow":"{worker}"}},"state":"bound"}}"#
            ),
            id = id,
            evidence = evidence,
            principal = PRINCIPAL,
            reference = REF,
            repository = REPOSITORY,
            run = run,
            worker = WORKER
        );
        self.push_operations(RequestKind::Dispatch, &worker(&id, &run, None), &[bind]);
        for member in &dispatch.claims {
            let by = worker(&id, &run, Some(&member.handle));
            let parameters =
                format!(r#"{{"claim_handle":"{}","dispatch_id":"{id}","outcome":"completed"}}"#, member.handle);
            let completion = format!(
                concat!(
                    r#"{{"claim_handle":"{handle}","claim_id":"{claim}","dispatch_id":"{id}","kind":"Completion","#,
                    r#""run_attempt":1,"run_id":"{run}","work_id":"{work}"}}"#
                ),
                handle = member.handle,
                claim = member.claim_id,
                id = id,
                run = run,
                work = member.work_id
            );
            self.push(RequestKind::Finish, &by, &parameters, &[completion], true);
            let completed = self.state().tip().unwrap().clone();
            let evidence = self.evidence("delivery", "verified_receipts", &run, "");
            let evidence = evidence.replacen("\"ref\"", "\"receipt\":\"receipt-1\",\"ref\"", 1);
            let result = format!(
                concat!(
                    r#"{{"claim_id":"{claim}","completion_id":"{completed}","descriptor":{{"findings":3,"status":"done"}},"#,
                    r#""evidence":{evidence},"kind":"Result","work_id":"{work}"}}"#
                ),
                claim = member.claim_id,
                completed = completed,
                evidence = evidence,
                work = member.work_id
            );
            self.push_operations(RequestKind::Result, &reconciler, &[result]);
        }
        let evidence = self
            .evidence("terminal_run", "github_api", &run, "")
            .replacen("\"kind\"", "\"conclusion\":\"success\",\"kind\"", 1)
            .replacen("\"workflow\"", "\"status\":\"completed\",\"workflow\"", 1);
        let release = format!(r#"{{"dispatch_id":"{id}","evidence":{evidence},"kind":"Release"}}"#);
        self.push_operations(RequestKind::Release, &reconciler, &[release]);
    }
}

/// Where lives of Work end, short of the ordinary budget of 64 MiB: only what settles or controls goes on behind it.
const LIVES: usize = (64 << 20) - (1 << 16);

/// A ledger of at least `bytes` bytes. Behind the ordinary budget it is controls that fill the recovery reserve: one
/// of nearly 80 MiB is the largest that there is.
pub(crate) fn ledger(shape: Shape, bytes: usize) -> String {
    let mut generator = Generator::new(shape);
    while generator.text().len() < bytes.min(LIVES) {
        generator.drain();
        generator.submit(true);
    }
    if bytes > LIVES {
        generator.drain();
    }
    while generator.text().len() < bytes {
        generator.control();
    }
    generator.text
}
