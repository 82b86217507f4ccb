//! The queue branch on the simulated GitHub: everything about the ledger goes through Git. No call of the API is made for
//! reads, checkpoint verification, recovery or lost races, and every read asks the host again.

use std::sync::Arc;

use wq_action::ledger::{Bounds, Class, GitTransport, Outcome, PushOutcome, Remote};
use wq_action::protocol::actor::Role;
use wq_action::protocol::{RepositoryName, Token, TokenProvider};

use crate::support::git::{Bare, real_git};
use crate::support::github::{Endpoint, Github, JOB, OCTO_WIDGETS, Options, Server};
use crate::support::queue::{Meddling, World};

fn provider(token: &'static str) -> TokenProvider {
    Arc::new(move || Token::new(token.to_owned()))
}

/// The served world with its repository, and how often its API was called.
struct Served {
    github: Github,
    _bare: Arc<Bare>,
    server: Server,
}

impl Served {
    fn new() -> Self {
        let (github, bare) = Github::standard_with_git();
        bare.git(&["config", "http.receivepack", "true"]);
        let server = github.serve(Options::default());
        Self { github, _bare: bare, server }
    }

    fn transport(&self) -> GitTransport {
        let name = RepositoryName::new(OCTO_WIDGETS).unwrap();
        let remote = Remote::server(self.server.server_url(), &name).unwrap();
        real_git().transport(remote, Some(provider(JOB)), Bounds::default())
    }

    /// Calls that were no Git.
    fn api(&self) -> usize {
        let git = |endpoint| matches!(endpoint, Endpoint::GitFetch | Endpoint::GitPush);
        self.github.log().iter().filter(|call| !git(call.endpoint)).count()
    }
}

/// A submission of one node, of the standard repository.
fn submit(id: &str) -> wq_action::protocol::commit::FrozenRequest {
    crate::support::processes::Stage::new().submission(id, 1)
}

/// O-282: reads, checkpoints, recovery and conflicts make no call of the API.
#[test]
fn the_ledger_needs_git_alone() {
    let served = Served::new();
    let policy = crate::support::processes::Stage::new().policy();
    let world = World::new(served.transport());
    let own = || world.publisher_of(wq_action::ledger::Branch::default(), OCTO_WIDGETS);
    own().publish_request(&submit("one"), Some(&policy)).unwrap();
    // A checkpoint, one on top of it, and their verification by a fresh reader.
    let administrator = wq_action::protocol::actor::Actor::new(
        Role::Administrator,
        wq_action::protocol::Decimal::new("1").unwrap(),
        wq_action::protocol::Repository::new(OCTO_WIDGETS).unwrap(),
    )
    .unwrap();
    for id in ["two", "three"] {
        own().compact(&administrator, None).unwrap();
        own().publish_request(&submit(id), None).unwrap();
    }
    assert_eq!(own().read_present().unwrap().projection.stats().work, 3);
    // An acknowledgement that is lost, and a race that is lost.
    let rival = served.transport();
    let mut lost = Meddling::new(served.transport());
    lost.report =
        Box::new(
            |number, outcome| {
                if number == 0 { PushOutcome::Ambiguous(wq_action::ledger::Ambiguity::NoReport) } else { outcome }
            },
        );
    let lossy = World {
        transport: lost,
        clock: wq_action::ports::SimulatedClock::new(crate::support::git::NOW),
        retries: world.retries,
    };
    let recovered = lossy
        .publisher_of(wq_action::ledger::Branch::default(), OCTO_WIDGETS)
        .publish_request(&submit("four"), None)
        .unwrap();
    assert!(matches!(recovered.outcome, Outcome::Recovered { .. }));
    let second = World::new(rival);
    let mut raced = Meddling::new(served.transport());
    raced.before_push = Box::new(|number| {
        if number == 0 {
            second
                .publisher_of(wq_action::ledger::Branch::default(), OCTO_WIDGETS)
                .publish_request(&submit("rival"), None)
                .unwrap();
        }
    });
    let racing = World {
        transport: raced,
        clock: wq_action::ports::SimulatedClock::new(crate::support::git::NOW),
        retries: world.retries,
    };
    let published = racing
        .publisher_of(wq_action::ledger::Branch::default(), OCTO_WIDGETS)
        .publish_request(&submit("five"), None)
        .unwrap();
    assert_eq!((published.lost.len(), served.api()), (1, 0));
}

/// A reader whose store has every object still asks the host: a token that is revoked between two reads is a denial.
#[test]
fn access_is_asked_for_again_although_every_object_is_there() {
    let served = Served::new();
    let policy = crate::support::processes::Stage::new().policy();
    served.github.make_private(OCTO_WIDGETS);
    let world = World::new(served.transport());
    let mut publisher = world.publisher_of(wq_action::ledger::Branch::default(), OCTO_WIDGETS);
    publisher.publish_request(&submit("one"), Some(&policy)).unwrap();
    publisher.read_present().unwrap();
    served.github.revoke(JOB);
    let refused = publisher.read_present().unwrap_err();
    assert_eq!((refused.class(), refused.exit()), (Class::Denied, 4));
    assert_eq!(served.api(), 0);
}
