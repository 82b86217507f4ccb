//! The same over sockets and real Git: the HTTP port and the publisher against the served world. Fewer cells, because
//! each runs Git dozens of times.

use std::sync::Arc;

use wq_action::forge::{Client, Host, HttpForge, Network};
use wq_action::launch::credential::{CredentialKind, LaunchClient};
use wq_action::launch::error::LaunchError;
use wq_action::launch::grant::{Ask, Granted};
use wq_action::launch::start::Launcher;
use wq_action::ledger::commit_object::Author;
use wq_action::ledger::{Bounds, Branch, GitTransport, Publisher, Remote, Retries, Setup};
use wq_action::ports::{SimulatedClock, SystemEntropy};
use wq_action::protocol::commit::FrozenRequest;
use wq_action::protocol::policy::Policy;
use wq_action::protocol::{PoolName, RequestId, Token, TokenProvider};

use crate::support::git::{Bare, NOW, real_git};
use crate::support::github::{Endpoint, Faults, Github, JOB, LAUNCH, Options, Server, Strike};
use crate::support::processes::{Everything, HOST, Shift, Stage, publish};
use crate::support::tell;

/// A served world. The stage beside it makes runs and requests and activates workers in process.
struct Real {
    stage: Stage,
    _bare: Arc<Bare>,
    server: Server,
    clock: SimulatedClock,
}

fn provider(token: &'static str) -> TokenProvider {
    Arc::new(move || Token::new(token.to_owned()))
}

impl Real {
    fn new() -> Self {
        let (github, bare) = Github::standard_with_git();
        bare.git(&["config", "http.receivepack", "true"]);
        let server = github.serve(Options::default());
        github.addresses(server.server_url(), server.api_url());
        Self { stage: Stage::of(github), _bare: bare, server, clock: SimulatedClock::new(NOW) }
    }

    fn transport(&self) -> GitTransport {
        let remote = Remote::server(self.server.server_url(), &self.stage.repository).unwrap();
        real_git().transport(remote, Some(provider(JOB)), Bounds::default())
    }

    fn forge(&self, token: &'static str) -> HttpForge {
        let (server, api, graphql) = (self.server.server_url(), self.server.api_url(), self.server.graphql_url());
        let host = Host::new(Some(server), Some(api), Some(graphql)).unwrap();
        HttpForge::new(host, provider(token), &Network::default()).unwrap()
    }

    /// A fresh process: submits, grants and launches, whatever fails on the way.
    fn process(
        &self,
        shift: &Shift,
        submission: &FrozenRequest,
        policy: &Policy,
        id: &str,
    ) -> Result<Granted, LaunchError> {
        let transport = self.transport();
        let setup = Setup {
            transport: &transport,
            branch: Branch::default(),
            repository: self.stage.repository.clone(),
            host: HOST.to_owned(),
            author: Author::Operator,
            clock: &self.clock,
            entropy: &SystemEntropy,
            retries: Retries::default(),
            confirm_empty: None,
        };
        let mut publisher = Publisher::new(setup).unwrap();
        let _ = publish(&mut publisher, submission, Some(policy));
        let (native, launch) = (self.forge(JOB), self.forge(LAUNCH));
        let kind = CredentialKind::GithubApp("queue-launcher".to_owned());
        let launch = LaunchClient::new(Client::new(&launch, &self.clock), Some(kind), Some(provider(LAUNCH)));
        let mut launcher = Launcher {
            ledger: &mut publisher,
            native: Client::new(&native, &self.clock),
            launch: Some(&launch),
            clock: &self.clock,
            repository: &self.stage.repository,
            host: HOST,
            sender: &shift.actor,
            approval: &Everything,
            staged: false,
        };
        let ask = Ask {
            request_id: RequestId::new(id).unwrap(),
            actor: shift.actor.clone(),
            pool: PoolName::new("default").unwrap(),
            max_claims: 1,
            max_dispatches: 1,
            worker_profiles: None,
            run_budget: 4,
            remaining: 4,
            run_number: shift.number,
        };
        let granted = launcher.grant(&ask, None, None);
        // The stage sees what the branch holds.
        if let Ok(current) = publisher.read_present() {
            self.stage.branch.replace(current.projection.clone());
        }
        granted
    }
}

fn cell(endpoint: Endpoint, nth: u64, strike: &Strike) -> String {
    let real = Real::new();
    let (github, stage) = (&real.stage.github, &real.stage);
    let (shift, submission, policy) = (stage.shift(), stage.submission("day", 1), stage.policy());
    github.faults(Faults::default().and(endpoint, nth, 1, strike.clone()));
    let struck = real.process(&shift, &submission, &policy, "grant-1");
    github.no_faults();
    let said = match &struck {
        Ok(granted) => granted.launches.first().map_or(granted.reason.to_owned(), |report| match report.blocked {
            Some(code) => format!("{}/{code}", report.state.as_str()),
            None => report.state.as_str().to_owned(),
        }),
        Err(error) => error.code().as_str().to_owned(),
    };
    // The same run again, then a later one after the runs have ended.
    real.process(&shift, &submission, &policy, "grant-1").unwrap();
    for id in github.runs() {
        if github.run(id).unwrap().dispatch_id.is_some() {
            github.complete_run(id, "success");
        }
    }
    github.complete_run(shift.run, "success");
    let next = stage.shift();
    real.process(&next, &submission, &policy, "grant-2").unwrap();
    // None where the start marker's acknowledgement was lost: then nobody sends.
    assert!(github.posts().into_values().sum::<u32>() <= 1, "a second POST");
    let queue = stage.queue();
    assert_eq!(queue.projection.claims().len(), 1, "the retry waits for its backoff");
    let dispatch = queue.projection.dispatches().next().unwrap();
    let runs = github.runs_of_dispatch(dispatch.assignment.dispatch_id.as_str()).len();
    assert!(dispatch.released || runs == 0 && dispatch.sender.is_some(), "held although its run has ended");
    assert!(queue.projection.request("grant-1").is_some() && queue.projection.request("day").is_some());
    said
}

/// O-086, S-271: over real sockets and Git, a fault at each kind of call leaves at most one POST, and fresh processes
/// find everything again.
#[test]
fn a_fault_over_sockets_and_git_is_survived() {
    let api = [Strike::Status(500), Strike::Status(422), Strike::DropAfter, Strike::ResetAfter, Strike::HalfBody];
    let git = [Strike::Status(503), Strike::DropAfter, Strike::HalfBody];
    let mut plan: Vec<(Endpoint, u64, &Strike)> = Vec::new();
    for endpoint in [Endpoint::CreateRef, Endpoint::Dispatch, Endpoint::Run] {
        plan.extend(api.iter().map(|strike| (endpoint, 1, strike)));
    }
    for nth in [2, 4, 6] {
        plan.extend(git.iter().map(|strike| (Endpoint::GitPush, nth, strike)));
    }
    plan.extend(git.iter().map(|strike| (Endpoint::GitFetch, 5, strike)));
    let wanted = std::env::var("WQ_CELL").ok();
    let begun = std::time::Instant::now();
    let mut said = std::collections::BTreeMap::new();
    let (mut count, mut bound) = (0, 0);
    for (endpoint, nth, strike) in plan {
        let name = format!("real/{endpoint:?}-{nth}/{strike:?}");
        if wanted.as_ref().is_some_and(|part| !name.contains(part)) {
            continue;
        }
        let shown = std::panic::catch_unwind(|| cell(endpoint, nth, strike));
        let shown = shown.unwrap_or_else(|_| panic!("failed: {name}"));
        bound += usize::from(shown == "bound");
        *said.entry(shown).or_insert(0) += 1;
        count += 1;
    }
    assert!(wanted.is_some() || bound > 0, "no cell launched anything");
    tell!("fault table over sockets and Git: {count} cells in {} s: {said:?}", begun.elapsed().as_secs());
}
