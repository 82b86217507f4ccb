//! Refreshing inside a publication: once for each attempt, and the clock after it.

use std::cell::Cell;
use std::time::Duration;

use serde_json::json;
use wq_action::forge::Client;
use wq_action::launch::observe::{Clients, Resolver, refresh};
use wq_action::ledger::{LedgerError, Outcome};
use wq_action::ports::{Clock as _, SimulatedClock};
use wq_action::protocol::actor::Role;
use wq_action::protocol::json::{Scanner, parse};
use wq_action::protocol::operation::Operation;
use wq_action::protocol::request::DispatchParameters;
use wq_action::protocol::{At, commit::Commit};

use super::fake::{Fake, name, repository, scopes};
use crate::support::git::{Bare, NOW};
use crate::support::ledger::{HOST, typed};
use crate::support::queue::{Meddling, REPOSITORY, World, dispatch, node, policy, submission, submit};

const ASKED: &str = r#"{"max_bytes":49152,"max_claims":1,"max_dispatches":1,"pool":"default"}"#;

fn gated() -> String {
    let edge = json!([{"kind": "issue", "condition": "closed", "resource": {"kind": "issue", "host": HOST,
        "repository": REPOSITORY, "repository_id": "9", "resource_id": "5", "number": "5"}}]);
    let text = node("gated", "n", r#"{"task":"t"}"#).replace(r#""depends_on":[]"#, &format!(r#""depends_on":{edge}"#));
    parse(&text).unwrap().encode().unwrap()
}

fn queue_with(text: String) -> Bare {
    let bare = Bare::new();
    let world = World::new(bare.transport());
    world.publisher().publish_request(&submission("first", Role::Producer, &[text]), Some(&policy())).unwrap();
    bare
}

fn fake() -> Fake {
    let fake = Fake::new();
    fake.show(&format!("/repos/{REPOSITORY}"), &repository(REPOSITORY, 9));
    fake.show(&format!("/repos/{REPOSITORY}/issues/5"), &json!({"id": 5, "number": 5, "state": "closed"}));
    fake
}

/// Publishes a grant that refreshes on every attempt. A refresh takes `ms` on the clock.
fn grant<T: wq_action::ledger::Transport>(
    world: &World<T>,
    fake: &Fake,
    ms: u64,
) -> (wq_action::ledger::Publication, u32) {
    let clock: &SimulatedClock = &world.clock;
    let scopes = scopes(&[REPOSITORY], "initial");
    let clients = Clients::new(&scopes, vec![(name(REPOSITORY), Client::new(fake, clock))]).unwrap();
    let resolver = Resolver::new(&scopes, &clients, clock);
    let asked: DispatchParameters = typed(ASKED);
    let (request, rounds) = (dispatch("grant"), Cell::new(0));
    let publication = world.publisher().publish(&request, None, &mut |projection, scanner, _| {
        rounds.set(rounds.get() + 1);
        let seen = refresh(projection, &resolver, &asked, Role::Dispatcher)?;
        clock.advance(Duration::from_millis(ms));
        projection.decide(scanner, &request, clock.now(), &seen).map_err(LedgerError::from)
    });
    (publication.unwrap(), rounds.get())
}

/// S-443, S-447: the time of a grant is read after the reads that it rests on; what is reported is that time.
#[test]
fn the_clock_is_read_after_the_reads() {
    let bare = queue_with(gated());
    let world = World::new(bare.transport());
    let (publication, rounds) = grant(&world, &fake(), 1500);
    assert_eq!(rounds, 1);
    assert!(matches!(publication.outcome, Outcome::PublishedNow { .. }));
    let line = publication.current.projection.active().last().unwrap().clone();
    let commit = Commit::read(&mut Scanner::new(HOST), line.text()).unwrap();
    let later = At::new(NOW + 1500).unwrap();
    assert_eq!((commit.at, publication.evaluated_at), (later, later));
    let [Operation::Observation(seen), Operation::Claim(_)] = &commit.operations[..] else { panic!("{commit:?}") };
    assert_eq!(seen.observed_at.get(), NOW);
}

/// S-491: without a grant the branch stays as it is, and the answer has the time of its decision.
#[test]
fn zero_grants_write_nothing() {
    let bare = queue_with(gated());
    let before = bare.git(&["rev-parse", "refs/heads/work-queue"]);
    let fake = fake();
    fake.show(&format!("/repos/{REPOSITORY}/issues/5"), &json!({"id": 5, "number": 5, "state": "open"}));
    let world = World::new(bare.transport());
    for _ in 0..2 {
        let (publication, _) = grant(&world, &fake, 700);
        assert!(matches!(publication.outcome, Outcome::Nothing { .. }));
        assert_eq!(publication.evaluated_at, world.clock.now());
    }
    assert_eq!(bare.git(&["rev-parse", "refs/heads/work-queue"]), before);
    assert_eq!(fake.asked().len(), 4, "each poll reads anew");
}

/// S-447: who loses the race throws its observations away and looks again, at what there is now.
#[test]
fn a_lost_race_refreshes_again() {
    let bare = queue_with(gated());
    let fake = fake();
    let winner = World::new(bare.transport());
    let mut meddling = Meddling::new(bare.transport());
    meddling.before_push = Box::new(|number| {
        if number == 0 {
            // Between the two attempts other Work arrives, and the Issue is opened again.
            winner.publisher().publish_request(&submit("meanwhile"), None).unwrap();
            fake.show(&format!("/repos/{REPOSITORY}/issues/5"), &json!({"id": 5, "number": 5, "state": "open"}));
        }
    });
    let world = World::new(meddling);
    let (publication, rounds) = grant(&world, &fake, 0);
    assert_eq!((rounds, publication.lost.len()), (2, 1));
    let projection = &publication.current.projection;
    let granted = projection.granted(projection.request("grant").unwrap());
    assert_eq!(projection.work_of(&granted[0]).work.graph_id.as_str(), "graph-meanwhile");
    let line = projection.active().last().unwrap();
    assert!(line.as_str().contains(r#""read_status":"external_reopened""#), "what was seen last is what is written");
    assert!(!projection.active().any(|line| line.as_str().contains(r#""state":"ready""#)));
    assert_eq!(fake.asked().len(), 4);
}
