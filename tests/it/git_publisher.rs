//! The publication loop on real repositories: bootstrap, races, lost answers, recovery by request id.

use std::collections::HashSet;

use wq_action::ledger::{Ambiguity, Class, LedgerError, Outcome, PushOutcome, Queue, Retries};
use wq_action::ports::Clock as _;
use wq_action::protocol::Code;
use wq_action::protocol::actor::Role;
use wq_action::protocol::request::RequestKind;

use crate::support::git::Bare;
use crate::support::queue::{Meddling, World, actor, dispatch, node, policy, request, submission, submit};

fn published(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::PublishedNow { .. })
}

fn seeded() -> Bare {
    let bare = Bare::new();
    let world = World::new(bare.transport());
    let publication = world.publisher().publish_request(&submit("first"), Some(&policy())).unwrap();
    assert!(published(&publication.outcome));
    bare
}

fn request_ids(bare: &Bare) -> Vec<String> {
    let current = World::new(bare.transport()).publisher().read_present().unwrap();
    current.projection.requests().map(|accepted| accepted.request_id.to_string()).collect()
}

/// S-176, S-177, S-179, S-201, O-027, O-028: the first submission makes the branch with one commit, Policy then Work,
/// under its own request and actor.
#[test]
fn the_first_submission_makes_the_queue() {
    for role in [Role::Producer, Role::Dispatcher] {
        let bare = Bare::new();
        let world = World::new(bare.transport());
        let mut publisher = world.publisher();
        assert!(matches!(publisher.read(), Ok(Queue::Absent)));
        let first = submission("submit", role, &[node("g", "a", "{}"), node("g", "b", "{}")]);
        let publication = publisher.publish_request(&first, Some(&policy())).unwrap();
        assert!(published(&publication.outcome) && publication.lost.is_empty());
        let seed = "75490bd7b93e6fa7d18cfdea90cc6bcb983d5f3ea326249d2709ca6c94bc07ba";
        assert_eq!(publication.outcome.commit_id().unwrap().as_str(), format!("q_{seed}"));
        let ledger = bare.ledger();
        assert_eq!(ledger.lines().count(), 1);
        assert!(ledger.ends_with("}\n"));
        assert!(ledger.contains(&format!(r#""policy_epoch":"epoch_{seed}","previous":null"#)));
        let current = World::new(bare.transport()).publisher().read_present().unwrap();
        let accepted = current.projection.request("submit").unwrap();
        assert_eq!((accepted.fingerprint.clone(), &*accepted.actor), (first.fingerprint.clone(), &actor(role)));
        let positions: Vec<_> = current.projection.works().map(|work| work.position.operation).collect();
        assert_eq!(positions, [1, 2]);
        assert_eq!(Some(current.commit.to_string()), bare.resolve("refs/heads/work-queue"));
    }
}

/// S-182, S-183, O-026, O-034: nobody but a producer's or dispatcher's submission makes a queue.
#[test]
fn nothing_else_makes_a_queue() {
    let bare = Bare::new();
    let before = bare.contents();
    let world = World::new(bare.transport());
    let refusal = |request: &_, proposal| world.publisher().publish_request(request, proposal).unwrap_err();
    let policy = policy();
    let error = refusal(&submit("a"), None);
    assert_eq!((error.code(), error.exit()), (Code::PolicyMissing, 2));
    let administrator = submission("b", Role::Administrator, &[node("g", "a", "{}")]);
    assert_eq!(refusal(&administrator, Some(&policy)).code(), Code::QueueMissing);
    let error = refusal(&dispatch("c"), Some(&policy));
    assert_eq!((error.code(), error.class(), error.exit()), (Code::QueueMissing, Class::Absent, 4));
    let control = r#"{"operations":[{"control":"grants_paused","kind":"Control","value":true}]}"#;
    let control = request("d", RequestKind::Control, Role::Administrator, control);
    assert_eq!(refusal(&control, Some(&policy)).code(), Code::QueueMissing);
    let empty = request("e", RequestKind::Submit, Role::Producer, r#"{"nodes":[]}"#);
    assert_eq!(refusal(&empty, Some(&policy)).code(), Code::RequestInvalid);
    let error = world.publisher().read_present().unwrap_err();
    assert_eq!(error.code(), Code::QueueMissing);
    assert_eq!(bare.contents(), before, "and nothing was written");
}

/// S-236, S-237, S-244, S-246: a committed request is answered with its own outcome and never written again; its id with
/// another meaning is refused.
#[test]
fn a_request_id_is_used_once() {
    let bare = seeded();
    let world = World::new(bare.transport());
    let mut publisher = world.publisher();
    assert!(published(&publisher.publish_request(&dispatch("grant"), None).unwrap().outcome));
    let head = bare.resolve("refs/heads/work-queue");
    for id in ["first", "grant"] {
        let again = if id == "first" { submit(id) } else { dispatch(id) };
        let publication = World::new(bare.transport()).publisher().publish_request(&again, None).unwrap();
        assert!(matches!(publication.outcome, Outcome::AlreadyCommitted { .. }), "{:?}", publication.outcome);
    }
    let current = publisher.read_present().unwrap();
    let accepted = current.projection.request("grant").unwrap();
    assert_eq!(current.projection.granted(accepted).len(), 1);
    let other = r#"{"max_bytes":49152,"max_claims":2,"max_dispatches":1,"pool":"default"}"#;
    let other = request("grant", RequestKind::DispatchNext, Role::Dispatcher, other);
    assert_eq!(publisher.publish_request(&other, None).unwrap_err().code(), Code::RequestReused);
    assert_eq!(bare.resolve("refs/heads/work-queue"), head);
}

/// S-136: an evaluation without a grant writes nothing and leaves its request id unused.
#[test]
fn nothing_to_grant_writes_nothing() {
    let bare = seeded();
    let world = World::new(bare.transport());
    let mut publisher = world.publisher();
    assert!(published(&publisher.publish_request(&dispatch("one"), None).unwrap().outcome));
    let before = bare.contents();
    let publication = publisher.publish_request(&dispatch("two"), None).unwrap();
    assert!(matches!(publication.outcome, Outcome::Nothing { .. }), "{:?}", publication.outcome);
    let again = submission("again", Role::Producer, &[node("graph-first", "n", r#"{"task":"t"}"#)]);
    let publication = publisher.publish_request(&again, None).unwrap();
    assert!(matches!(publication.outcome, Outcome::Done { reason: "already_submitted", commit_id: Some(_) }));
    assert_eq!(bare.contents(), before);
    assert!(published(&publisher.publish_request(&submit("more"), None).unwrap().outcome));
    assert!(published(&publisher.publish_request(&dispatch("two"), None).unwrap().outcome), "the id was unused");
}

/// S-093, S-240, S-241, S-247, S-577: the loser of a race decides again on the winner's state and takes the next Work.
#[test]
fn publication_02_the_loser_of_a_race_takes_the_next_work() {
    let bare = seeded();
    let setup = World::new(bare.transport());
    assert!(published(&setup.publisher().publish_request(&submit("second"), None).unwrap().outcome));
    let winner = World::new(bare.transport());
    let mut meddling = Meddling::new(bare.transport());
    meddling.before_push = Box::new(|number| {
        if number == 0 {
            assert!(published(&winner.publisher().publish_request(&dispatch("winner"), None).unwrap().outcome));
        }
    });
    let world = World::new(meddling);
    let publication = world.publisher().publish_request(&dispatch("loser"), None).unwrap();
    assert!(published(&publication.outcome));
    assert_eq!(publication.lost.len(), 1);
    assert_eq!((publication.lost[0].number, &publication.lost[0].result), (1, &PushOutcome::Conflict));
    assert!(publication.lost[0].observed.is_some_and(|seen| seen != publication.current.commit));
    let projection = &publication.current.projection;
    let works: Vec<_> = ["winner", "loser"]
        .iter()
        .map(|id| projection.granted(projection.request(id).unwrap())[0].claim.work_id.to_string())
        .collect();
    let fifo: Vec<_> = projection.works().map(|work| work.work.work_id.to_string()).collect();
    assert_eq!(works, fifo, "each its own, in order");
    assert_eq!(bare.git(&["rev-list", "--count", "refs/heads/work-queue"]), "4");
    assert!((50..100).contains(&world.clock.slept()), "one pause");
}

/// S-187, S-195, O-048, O-066: two first submissions with different proposals land both, under the winner's Policy.
#[test]
fn publication_10_concurrent_first_submissions_share_the_winners_policy() {
    let bare = Bare::new();
    let winner = World::new(bare.transport());
    let mut meddling = Meddling::new(bare.transport());
    meddling.before_push = Box::new(|number| {
        if number == 0 {
            let publication = winner.publisher().publish_request(&submit("winner"), Some(&policy())).unwrap();
            assert!(published(&publication.outcome));
        }
    });
    let other = policy().source.as_str().replace("[8,4,2,1,1]", "[1,1,1,1,1]");
    let other = wq_action::ledger::proposal::read_policy(&other).unwrap();
    let world = World::new(meddling);
    let publication = world.publisher().publish_request(&submit("loser"), Some(&other)).unwrap();
    assert!(published(&publication.outcome));
    let projection = &publication.current.projection;
    assert_eq!(projection.works().len(), 2);
    assert_eq!(projection.installed().unwrap().policy.source, policy().source);
    assert_eq!(request_ids(&bare), ["winner", "loser"]);
}

/// S-242, S-252: a lost acknowledgement is answered by looking for the request, on the first and on the last attempt,
/// and the grant is charged once; also on the last of several, all others of which lost a race.
#[test]
fn publication_03_a_lost_acknowledgement_recovers_once() {
    for retries in [5, 0] {
        let bare = seeded();
        let mut meddling = Meddling::new(bare.transport());
        meddling.report = Box::new(|_, _| PushOutcome::Ambiguous(Ambiguity::NoReport));
        let mut world = World::new(meddling);
        world.retries = Retries::new(retries).unwrap();
        let publication = world.publisher().publish_request(&dispatch("grant"), None).unwrap();
        assert!(matches!(publication.outcome, Outcome::Recovered { .. }), "{:?}", publication.outcome);
        assert_eq!(*world.transport.pushes.borrow(), 1);
        assert_eq!(request_ids(&bare), ["first", "grant"]);
        assert_eq!(publication.current.projection.claims().len(), 1);
    }
    let bare = seeded();
    let mut last = Meddling::new(bare.transport());
    last.before_push = Box::new(|number| {
        if number < 2 {
            let other = submit(&format!("other-{number}"));
            assert!(published(
                &World::new(bare.transport()).publisher().publish_request(&other, None).unwrap().outcome
            ));
        }
    });
    last.report = Box::new(|number, outcome| match number {
        2 => PushOutcome::Ambiguous(Ambiguity::NoReport),
        _ => outcome,
    });
    let mut world = World::new(last);
    world.retries = Retries::new(2).unwrap();
    let publication = world.publisher().publish_request(&dispatch("grant"), None).unwrap();
    assert!(matches!(publication.outcome, Outcome::Recovered { .. }), "{:?}", publication.outcome);
    assert_eq!((*world.transport.pushes.borrow(), publication.lost.len()), (3, 3));
    assert_eq!(request_ids(&bare), ["first", "other-0", "other-1", "grant"]);
    assert_eq!(publication.current.projection.claims().len(), 1);
}

/// One request that is published by several within the same second, one after the other or while another pushes, is
/// published by exactly one of them; the others are told what it came to.
#[test]
fn publication_04_the_same_request_is_published_now_once_a_second() {
    let bare = seeded();
    let ask = |id: &str| {
        let world = World::new(bare.transport());
        let publication = world.publisher().publish_request(&dispatch(id), None).unwrap();
        (publication.outcome, world.clock.now().get())
    };
    let answers = [ask("one"), ask("one"), ask("one")];
    assert!(answers.iter().all(|(_, at)| at / 1000 == answers[0].1 / 1000), "all in one second");
    assert_eq!(answers.iter().filter(|(outcome, _)| published(outcome)).count(), 1);
    assert!(matches!(answers[2].0, Outcome::AlreadyCommitted { .. }), "{:?}", answers[2].0);
    publish_more(&bare);

    let theirs = std::cell::RefCell::new(None);
    let mut meddling = Meddling::new(bare.transport());
    meddling.before_push = Box::new(|number| {
        if number == 0 {
            *theirs.borrow_mut() = Some(ask("two").0);
        }
    });
    let world = World::new(meddling);
    let ours = world.publisher().publish_request(&dispatch("two"), None).unwrap();
    let theirs = theirs.take().unwrap();
    assert!(published(&theirs) && !published(&ours.outcome), "{theirs:?} and {:?}", ours.outcome);
    assert_eq!(request_ids(&bare), ["first", "one", "more", "two"]);
    assert_eq!(ours.current.projection.claims().len(), 2);
}

/// Work for one more grant.
fn publish_more(bare: &Bare) {
    let world = World::new(bare.transport());
    assert!(published(&world.publisher().publish_request(&submit("more"), None).unwrap().outcome));
}

/// S-242: whatever git calls the failure, a request that is found is recovered: a hook that accepts and then declines,
/// a server that dies, a push that was up to date.
#[test]
fn a_declining_hook_that_accepted_is_recovered() {
    let hooks = [
        ("update", "#!/bin/sh\ngit update-ref \"$1\" \"$3\" \"$2\"\nexit 1\n"),
        ("reference-transaction", "#!/bin/sh\nif [ \"$1\" = committed ]; then kill -9 $PPID; fi\n"),
    ];
    for (name, script) in hooks {
        let bare = seeded();
        bare.hook(name, script);
        let world = World::new(bare.transport());
        let publication = world.publisher().publish_request(&submit("second"), None).unwrap();
        assert!(matches!(publication.outcome, Outcome::Recovered { .. }), "{name}: {:?}", publication.outcome);
        assert_eq!(request_ids(&bare), ["first", "second"]);
    }
    let bare = seeded();
    let mut meddling = Meddling::new(bare.transport());
    meddling.report = Box::new(|_, _| PushOutcome::UpToDate);
    let world = World::new(meddling);
    let publication = world.publisher().publish_request(&submit("second"), None).unwrap();
    assert!(matches!(publication.outcome, Outcome::Recovered { .. }));
}

/// S-253, O-047: a refusal for good is raised at once, without a second push.
#[test]
fn a_denial_is_raised_at_once() {
    let bare = seeded();
    bare.hook("pre-receive", "#!/bin/sh\nexit 1\n");
    let world = World::new(Meddling::new(bare.transport()));
    let error = world.publisher().publish_request(&submit("second"), None).unwrap_err();
    assert_eq!((error.code(), error.class(), error.exit()), (Code::PublicationDenied, Class::Denied, 4));
    assert_eq!(*world.transport.pushes.borrow(), 1);
    assert_eq!(world.clock.slept(), 0);
    assert_eq!(request_ids(&bare), ["first"]);
}

/// S-236, S-251: lost races end after six attempts with increasing pauses, as a conflict that exits with 5.
#[test]
fn contention_is_bounded() {
    let bare = seeded();
    std::fs::write(bare.path().join("refs/heads/work-queue.lock"), "").unwrap();
    let world = World::new(Meddling::new(bare.transport()));
    let error = world.publisher().publish_request(&submit("second"), None).unwrap_err();
    assert_eq!((error.code(), error.class(), error.exit()), (Code::PublicationUnresolved, Class::Conflict, 5));
    assert_eq!(*world.transport.pushes.borrow(), 6);
    assert_eq!(*world.transport.reads.borrow(), 12, "each attempt reads, and each failure reads again");
    assert!((1550..1800).contains(&world.clock.slept()), "{}", world.clock.slept());
    std::fs::remove_file(bare.path().join("refs/heads/work-queue.lock")).unwrap();
    assert!(published(&world.publisher().publish_request(&submit("second"), None).unwrap().outcome));
}

/// S-243: an unknown outcome that is not found stays unknown, and repeating the request is safe.
#[test]
fn an_unknown_outcome_stays_unknown() {
    let bare = seeded();
    let nothing_lands = |error: &LedgerError| {
        assert_eq!((error.code(), error.class(), error.exit()), (Code::PublicationUnresolved, Class::Unknown, 5));
    };
    // The server dies before it accepts anything, each time.
    bare.hook("pre-receive", "#!/bin/sh\nkill -9 $PPID\n");
    let mut world = World::new(Meddling::new(bare.transport()));
    world.retries = Retries::new(2).unwrap();
    nothing_lands(&world.publisher().publish_request(&submit("second"), None).unwrap_err());
    assert_eq!(*world.transport.pushes.borrow(), 3);
    std::fs::remove_file(bare.path().join("hooks/pre-receive")).unwrap();

    // The push lands, its report is lost, and the branch cannot be read again.
    let mut meddling = Meddling::new(bare.transport());
    meddling.report = Box::new(|_, _| PushOutcome::Ambiguous(Ambiguity::TimedOut));
    meddling.blind = Box::new(|number| number == 1);
    let world = World::new(meddling);
    let error = world.publisher().publish_request(&submit("second"), None).unwrap_err();
    nothing_lands(&error);
    assert!(error.message().contains("repository_unavailable"), "{error}");
    assert_eq!(request_ids(&bare), ["first", "second"]);
    let publication = World::new(bare.transport()).publisher().publish_request(&submit("second"), None).unwrap();
    assert!(matches!(publication.outcome, Outcome::AlreadyCommitted { .. }));
}

/// S-239: a branch that is deleted or rewritten between the read and the push is left alone, and said to be so.
#[test]
fn a_vanished_or_rewritten_branch_stops_the_publication() {
    for delete in [true, false] {
        let bare = seeded();
        let stranger = seeded();
        let mut meddling = Meddling::new(bare.transport());
        meddling.before_push = Box::new(|_| {
            bare.git(&["update-ref", "-d", "refs/heads/work-queue"]);
            if !delete {
                bare.seed(stranger.ledger().as_bytes());
            }
        });
        let world = World::new(meddling);
        let error = world.publisher().publish_request(&submit("second"), None).unwrap_err();
        assert_eq!((error.code(), error.exit()), (Code::LedgerNonextending, 3), "{error}");
        assert!(error.message().contains("unknown"), "{error}");
        assert_eq!(*world.transport.pushes.borrow(), 1);
        assert_eq!(bare.resolve("refs/heads/work-queue").is_none(), delete);
    }
}

/// S-238: what replay would refuse is never offered to the remote: the candidate is replayed first.
#[test]
fn a_candidate_is_replayed_before_it_is_sent() {
    let bare = seeded();
    let world = World::new(Meddling::new(bare.transport()));
    let before = bare.contents();
    let nodes = [
        node("g", "n", "{}").replace(r#""pool":"default""#, r#""pool":"missing""#),
        node("g", "n", "{}").replace(
            r#""depends_on":[]"#,
            &format!(r#""depends_on":[{{"kind":"work","work_id":"{}"}}]"#, "0".repeat(64)),
        ),
        node("graph-first", "n", r#"{"task":"other"}"#),
    ];
    for (text, code) in nodes.into_iter().zip([Code::PolicyInvalid, Code::DependencyInvalid, Code::WorkConflict]) {
        let error = world.publisher().publish_request(&submission("bad", Role::Producer, &[text]), None).unwrap_err();
        assert_eq!(error.code(), code);
    }
    assert_eq!(*world.transport.pushes.borrow(), 0);
    assert_eq!(bare.contents(), before);
}

/// What can be refused without Git is refused before Git is touched.
#[test]
fn a_wrong_request_never_reaches_git() {
    let bare = seeded();
    let world = World::new(Meddling::new(bare.transport()));
    let code = |request: &_| world.publisher().publish_request(request, None).unwrap_err().code();
    let mut foreign = submit("a");
    foreign.actor.repository = wq_action::protocol::Repository::new("other/queue").unwrap();
    assert_eq!(code(&foreign), Code::ActorUnauthorized);
    let mut forged = submit("b");
    forged.id = submit("c").id;
    forged.parameters = submit("c").parameters;
    assert_eq!(code(&forged), Code::RequestInvalid);
    assert_eq!(code(&submission("d", Role::Reconciler, &[node("g", "n", "{}")])), Code::ActorUnauthorized);
    assert_eq!(*world.transport.reads.borrow(), 0);
}

/// S-049, S-050, O-049, O-224, O-293: a defective ledger is refused with its line and left byte for byte, whoever
/// comes.
#[test]
fn a_defective_ledger_is_left_alone() {
    let good = seeded().ledger();
    let cases = [
        ("", Code::LedgerInvalid),
        ("\n", Code::LedgerInvalid),
        (&good[..good.len() - 1], Code::LedgerInvalid),
        ("<<<<<<< ours\n", Code::CodecInvalid),
        (r#"{"version":2}"#, Code::LedgerInvalid),
        (&format!("\u{feff}{good}"), Code::CodecInvalid),
        (&format!("{good}\n"), Code::LedgerInvalid),
        (&format!("{good}{}", good.replace("\"at\":1", "\"at\":2")), Code::LedgerInvalid),
    ];
    for (text, code) in cases {
        let bare = Bare::new();
        bare.seed(text.as_bytes());
        let before = bare.contents();
        let world = World::new(bare.transport());
        let read = world.publisher().read().unwrap_err();
        let written = world.publisher().publish_request(&submit("a"), Some(&policy())).unwrap_err();
        assert_eq!((read.code(), read.exit()), (code, 3), "{text:?}: {read}");
        assert_eq!(read, written);
        assert_eq!(bare.contents(), before);
    }
    let bare = Bare::new();
    bare.seed(good.replace("local/queue", "other/queue").as_bytes());
    let error = World::new(bare.transport()).publisher().read().unwrap_err();
    assert!(matches!(error.code(), Code::RequestInvalid | Code::ActorUnauthorized), "{error}");
}

/// Decisions 5, 6, 53 and 62: what replay would accept and our publishers refuse.
#[test]
fn publishers_are_stricter_than_replay() {
    let bare = seeded();
    let world = World::new(bare.transport());
    let mut publisher = world.publisher();
    let mut code = |request: &_| publisher.publish_request(request, None).map(drop).map_err(|error| error.code());
    let known = node("graph-first", "n", r#"{"task":"t"}"#);
    let mixed = submission("mixed", Role::Producer, &[known, node("graph-first", "m", "{}")]);
    assert_eq!(code(&mixed), Err(Code::RequestInvalid));
    let nested = |levels: usize| format!("{}{}", r#"{"a":"#.repeat(levels - 1) + "{}", "}".repeat(levels - 1));
    assert_eq!(code(&submission("deep", Role::Producer, &[node("d", "n", &nested(55))])), Err(Code::ResourceLimit));
    assert_eq!(code(&submission("fits", Role::Producer, &[node("d", "n", &nested(54))])), Ok(()));
    assert_eq!(request_ids(&bare), ["first", "fits"]);
}

/// Decision 62: a descriptor that is nested too deeply to stand in a checkpoint is refused, the deepest one that fits is
/// published, and the queue can be compacted with it.
#[test]
fn descriptors_stay_shallow_enough_for_a_checkpoint() {
    let nested = |levels: usize| (1..levels).fold(serde_json::json!({}), |inner, _| serde_json::json!({ "a": inner }));
    let desk = crate::support::operator::Desk::new(&["a"]);
    let turn = desk.grant(1).remove(0);
    desk.start(&turn);
    desk.finish(&turn, "completed").unwrap();
    let before = desk.bare.ledger();
    assert_eq!(desk.settle(&turn, &nested(53)), Err(Code::ResourceLimit));
    assert_eq!(desk.bare.ledger(), before);
    assert_eq!(desk.settle(&turn, &nested(52)), Ok(()));
    desk.compact();
    assert_eq!(desk.projection()["works"][&turn.work]["barrier"], "verified");
}

/// S-244, S-624: many publishers at once: one linear chain, every request exactly once, every grant its own
/// Work.
#[test]
fn many_publishers_share_one_chain() {
    const THREADS: usize = 4;
    let bare = Bare::new();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let bare = &bare;
            scope.spawn(move || {
                for round in 0..2 {
                    let requests = [submit(&format!("s{thread}-{round}")), dispatch(&format!("d{thread}-{round}"))];
                    for request in requests {
                        // A command that ends unresolved is repeated, as its sentence says.
                        for _ in 0..20 {
                            match World::new(bare.transport()).publisher().publish_request(&request, Some(&policy())) {
                                Ok(_) => break,
                                Err(error) => assert_eq!(error.exit(), 5, "{error}"),
                            }
                        }
                    }
                }
            });
        }
    });
    let current = World::new(bare.transport()).publisher().read_present().unwrap();
    let projection = &current.projection;
    let ids: Vec<_> = projection.requests().map(|accepted| accepted.request_id.to_string()).collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    assert_eq!(ids.iter().filter(|id| id.starts_with('s')).count(), THREADS * 2);
    assert_eq!(projection.works().len(), THREADS * 2);
    let owners: HashSet<_> = projection.claims().map(|claim| claim.claim.work_id.to_string()).collect();
    assert_eq!(owners.len(), projection.claims().len());
    assert_eq!(bare.git(&["rev-list", "--min-parents=2", "--count", "refs/heads/work-queue"]), "0");
    assert_eq!(bare.git(&["rev-list", "--count", "refs/heads/work-queue"]), ids.len().to_string());
    assert_eq!(bare.ledger().lines().count(), ids.len());
}
