//! Compaction on real repositories: what it keeps, and what it does when others write at the same time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use wq_action::ledger::{
    Ambiguity, Class, Compacted, Compaction, CompactionPlan, Current, LedgerError, Outcome, PushOutcome, Transport,
};
use wq_action::protocol::actor::Role;
use wq_action::protocol::commit::FrozenRequest;
use wq_action::protocol::identity::sha256_hex;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{Code, Revision};

use crate::support::git::Bare;
use crate::support::history::{History, Story, control, version};
use crate::support::ledger::HOST;
use crate::support::queue::{Meddling, World, actor, dispatch, node, policy, request, submission, submit};

type Ended = Result<(Compaction, Arc<Current>), LedgerError>;

fn compact_by<T: Transport>(world: &World<T>, role: Role, plan: Option<&CompactionPlan>) -> Ended {
    let compacted = world.publisher().compact(&actor(role), plan);
    compacted.map(|(compaction, current, _)| (compaction, current))
}

fn compact<T: Transport>(world: &World<T>) -> Ended {
    compact_by(world, Role::Administrator, None)
}

fn done(ended: Ended) -> Compacted {
    match ended.unwrap().0 {
        Compaction::Done(compacted) => compacted,
        other => panic!("{other:?}"),
    }
}

fn publish(bare: &Bare, request: &FrozenRequest) {
    let world = World::new(bare.transport());
    let publication = world.publisher().publish_request(request, Some(&policy())).unwrap();
    assert!(matches!(publication.outcome, Outcome::PublishedNow { .. }), "{:?}", publication.outcome);
}

fn read(bare: &Bare) -> Arc<Current> {
    World::new(bare.transport()).publisher().read_present().unwrap()
}

fn head(bare: &Bare) -> String {
    bare.resolve("refs/heads/work-queue").unwrap()
}

/// `first` makes the queue with Policy and two Works, `second` admits another, `grant` grants the first.
fn seeded() -> Bare {
    let bare = Bare::new();
    publish(&bare, &first());
    for request in [submit("second"), dispatch("grant"), control("calm")] {
        publish(&bare, &request);
    }
    bare
}

fn first() -> FrozenRequest {
    submission("first", Role::Producer, &[node("g", "a", r#"{"task":"a"}"#), node("g", "b", "{}")])
}

/// The serialised projection without what a compaction changes: the form of the chain, and receipts for requests.
fn kept(current: &Current) -> Value {
    let mut value: Value = serde_json::from_str(&current.projection.serialise()).unwrap();
    let members = value.as_object_mut().unwrap();
    for member in ["requests", "ledger_bytes", "tip"] {
        members.remove(member).unwrap();
    }
    members["stats"].as_object_mut().unwrap().remove("transactions");
    value
}

/// S-058, S-059, S-066, O-305: a compaction is one more commit whose ledger is one checkpoint. It names the commit that
/// held the ledger and the digest of its lines, that ledger stays readable there, and the state is the same.
#[test]
fn a_compaction_is_an_ordinary_commit() {
    let bare = seeded();
    let (ledger, before, current) = (bare.ledger(), head(&bare), read(&bare));
    let compacted = done(compact(&World::new(bare.transport())));
    let expected = Compacted {
        changed: true,
        recovered: false,
        duplicates_removed: 0,
        bytes_before: ledger.len() as u64,
        bytes_after: bare.ledger().len() as u64,
    };
    assert_eq!(compacted, expected);
    assert_eq!(bare.resolve("refs/heads/work-queue^"), Some(before.clone()));
    assert_eq!(bare.git(&["show", &format!("{before}:work-queue.jsonl")]), ledger.trim_end());
    let text = bare.ledger();
    assert_eq!(text.lines().count(), 1);
    let line: Value = serde_json::from_str(text.trim_end()).unwrap();
    assert_eq!((&line["version"], &line["previous"]), (&Value::from(3), &Value::Null));
    let operation = &line["operations"][0];
    assert_eq!(operation["prior_git_sha"], before.as_str());
    assert_eq!(operation["history_sha256"], sha256_hex(&[&ledger]).as_str());
    assert_eq!(operation["prior_tip"], current.projection.tip().unwrap().as_str());
    let state = current.projection.snapshot(&mut Scanner::new(HOST)).unwrap();
    assert_eq!(operation["state_sha256"], state.digest().as_str());
    assert_eq!(kept(&read(&bare)), kept(&current));
    bare.git(&["fsck", "--strict"]);
}

/// Every other file of the branch stays as it was.
#[test]
fn a_compaction_replaces_the_ledger_alone() {
    let bare = seeded();
    let journal = bare.blob(b"{}\n");
    let folder = bare.tree(&[("100644", "journal.json", &journal)]);
    let ledger = bare.blob(bare.ledger().as_bytes());
    let tree = bare.tree(&[("040000", ".gh-aw", &folder), ("100644", "work-queue.jsonl", &ledger)]);
    let base = bare.commit("work-queue", &tree, &[&head(&bare)]);
    assert!(done(compact(&World::new(bare.transport()))).changed);
    let changed = bare.git(&["diff", "--name-only", &base, "refs/heads/work-queue"]);
    assert_eq!(changed, "work-queue.jsonl");
}

/// S-061, S-062, O-109: through repeated compaction, with and without commits between, every request that
/// was ever accepted is answered with its own commit, the one that made the queue included; its id with another meaning
/// is refused; grants, explanations and positions stay.
#[test]
fn every_request_is_known_after_every_compaction() {
    let bare = seeded();
    let mut accepted = vec![first(), submit("second"), dispatch("grant"), control("calm")];
    let original = kept(&read(&bare));
    let commits: Vec<_> = read(&bare).projection.requests().map(|request| request.commit_id.clone()).collect();
    for round in 0..3 {
        assert!(done(compact(&World::new(bare.transport()))).changed);
        let written = head(&bare);
        let world = World::new(bare.transport());
        let mut publisher = world.publisher();
        for request in &accepted {
            let publication = publisher.publish_request(request, Some(&policy())).unwrap();
            assert!(matches!(publication.outcome, Outcome::AlreadyCommitted { .. }), "{:?}", publication.outcome);
            let mut other = FrozenRequest::clone(request);
            other = FrozenRequest::new(other.id, RequestKind::Control, actor(Role::Administrator), CONTROL).unwrap();
            let error = publisher.publish_request(&other, None).unwrap_err();
            assert_eq!((error.code(), error.exit()), (Code::RequestReused, 2));
        }
        assert_eq!(compact(&world).unwrap().0, Compaction::AlreadyCompact);
        assert_eq!(head(&bare), written, "and nothing was written");
        let current = publisher.read_present().unwrap();
        let known: Vec<_> = current.projection.requests().map(|request| request.commit_id.clone()).collect();
        assert_eq!(known[..commits.len()], commits, "each keeps its commit");
        assert_eq!(current.projection.granted(current.projection.request("grant").unwrap()).len(), 1);
        let positions = current.projection.works().take(2).map(|work| (work.position.commit, work.position.operation));
        assert_eq!(positions.collect::<Vec<_>>(), [(0, 1), (0, 2)]);
        if round == 0 {
            assert_eq!(kept(&current), original);
        }
        for request in [submit(&format!("more-{round}")), control(&format!("calm-{round}"))] {
            publish(&bare, &request);
            accepted.push(request);
        }
    }
    assert_eq!(bare.git(&["rev-list", "--count", "--first-parent", "refs/heads/work-queue"]), "13");
    assert!(include_str!("../../docs/NON-GUARANTEES.md").contains("A checkpoint cannot restore a deleted branch"));
}

/// Another meaning for any request id.
const CONTROL: &str =
    r#"{"operations":[{"control":"admission_paused","kind":"Control","reason":"other","value":true}]}"#;

/// A grant goes on where it was: the rest of the Work is granted in the same order as without a compaction.
#[test]
fn grants_go_on_after_a_compaction() {
    let (plain, compacted) = (seeded(), seeded());
    done(compact(&World::new(compacted.transport())));
    for id in ["next", "last"] {
        let granted = [&plain, &compacted].map(|bare| {
            publish(bare, &dispatch(id));
            let current = read(bare);
            let claims = current.projection.granted(current.projection.request(id).unwrap());
            claims.iter().map(|claim| claim.claim.work_id.to_string()).collect::<Vec<_>>()
        });
        assert_eq!(granted[0], granted[1]);
    }
}

/// A commit of another publisher just before each of the first pushes.
fn contended(bare: &Bare, rivals: usize) -> Meddling<'_> {
    let mut meddling = Meddling::new(bare.transport());
    meddling.before_push = Box::new(move |number| {
        if number < rivals {
            publish(bare, &submit(&format!("rival-{number}")));
        }
    });
    meddling
}

/// S-065: a commit that lands between the compactor's read and its push is never lost, in whichever attempt; when every
/// attempt loses, the compaction is put off and has written nothing.
#[test]
fn publication_17_a_concurrent_commit_is_never_lost() {
    for rivals in 1..=6 {
        let bare = seeded();
        let world = World::new(contended(&bare, rivals));
        let (compaction, current) = compact(&world).unwrap();
        for rival in 0..rivals {
            assert!(current.projection.request(&format!("rival-{rival}")).is_some(), "{rival} of {rivals}");
        }
        let pushes = *world.transport.pushes.borrow();
        if rivals < 6 {
            assert!(matches!(compaction, Compaction::Done(Compacted { changed: true, .. })), "{compaction:?}");
            assert_eq!((pushes, bare.ledger().lines().count()), (rivals + 1, 1));
        } else {
            assert_eq!((compaction, pushes), (Compaction::Deferred, 6));
            assert_eq!(bare.ledger().lines().count(), 10);
        }
        assert_eq!(kept(&read(&bare)), kept(&current));
        assert_eq!(bare.git(&["rev-list", "--min-parents=2", "--count", "refs/heads/work-queue"]), "0");
    }
}

/// S-065: a publisher that had read before a compaction publishes after it, whatever was appended around it.
#[test]
fn a_reader_of_the_replaced_chain_publishes_after_it() {
    let bare = seeded();
    let disturb = |round: &str| {
        publish(&bare, &submit(&format!("before-{round}")));
        done(compact(&World::new(bare.transport())));
        publish(&bare, &submit(&format!("after-{round}")));
    };
    let mut meddling = Meddling::new(bare.transport());
    meddling.before_push = Box::new(|number| {
        if number == 0 {
            disturb("push");
            disturb("again");
        }
    });
    let world = World::new(meddling);
    let mut publisher = world.publisher();
    publisher.read_present().unwrap();
    disturb("read");
    let publication = publisher.publish_request(&submit("mine"), None).unwrap();
    assert!(matches!(publication.outcome, Outcome::PublishedNow { .. }), "{:?}", publication.outcome);
    assert_eq!(publication.lost.len(), 1);
    let current = read(&bare);
    for id in ["before-read", "after-read", "before-push", "after-push", "before-again", "after-again", "mine"] {
        assert!(current.projection.request(id).is_some(), "{id}");
    }
}

/// A push whose answer was lost is found by its receipt after somebody compacted.
#[test]
fn a_lost_answer_is_found_behind_a_checkpoint() {
    let bare = seeded();
    let mut meddling = Meddling::new(bare.transport());
    meddling.report = Box::new(|_, outcome| {
        assert_eq!(outcome, PushOutcome::Acknowledged);
        done(compact(&World::new(bare.transport())));
        PushOutcome::Ambiguous(Ambiguity::NoReport)
    });
    let world = World::new(meddling);
    let publication = world.publisher().publish_request(&dispatch("mine"), None).unwrap();
    assert!(matches!(publication.outcome, Outcome::Recovered { .. }), "{:?}", publication.outcome);
    assert_eq!(*world.transport.pushes.borrow(), 1);
    assert_eq!(bare.ledger().lines().count(), 1);
}

/// Of two compactors at one version one is acknowledged; the other finds the work done.
#[test]
fn publication_17_two_compactors_make_one_checkpoint() {
    let bare = seeded();
    let mut meddling = Meddling::new(bare.transport());
    meddling.before_push = Box::new(|_| {
        let other = World::new(bare.transport());
        other.clock.advance(Duration::from_secs(1));
        assert!(done(compact(&other)).changed);
        publish(&bare, &submit("on-top"));
    });
    let compacted = done(compact(&World::new(meddling)));
    assert!(!compacted.changed && !compacted.recovered);
    assert_eq!(bare.ledger().lines().count(), 2);
    assert_eq!(bare.git(&["rev-list", "--count", "refs/heads/work-queue"]), "6");
}

/// When the answer to the push is lost, the checkpoint is found and reported as this call's.
#[test]
fn a_lost_acknowledgement_of_a_compaction_is_recovered() {
    let bare = seeded();
    let mut meddling = Meddling::new(bare.transport());
    meddling.report = Box::new(|_, _| PushOutcome::Ambiguous(Ambiguity::NoReport));
    let world = World::new(meddling);
    let compacted = done(compact(&world));
    assert!(!compacted.changed && compacted.recovered);
    assert_eq!((*world.transport.pushes.borrow(), bare.ledger().lines().count()), (1, 1));

    let bare = seeded();
    bare.hook("update", "#!/bin/sh\ngit update-ref \"$1\" \"$3\" \"$2\"\nexit 1\n");
    let compacted = done(compact(&World::new(bare.transport())));
    assert!(!compacted.changed && compacted.recovered, "a hook may accept and then decline");
}

/// An outcome that cannot be known is not called contention, and a failing read does not hide what came before.
#[test]
fn doubt_and_denial_are_told() {
    let told = |hook: Option<&str>, blind: bool| {
        let bare = seeded();
        let before = bare.contents();
        if let Some(hook) = hook {
            bare.hook("pre-receive", hook);
        }
        let mut meddling = Meddling::new(bare.transport());
        meddling.blind = Box::new(move |read| blind && read > 0);
        if hook.is_none() {
            meddling.report = Box::new(|_, _| PushOutcome::Ambiguous(Ambiguity::NoReport));
        }
        let error = compact(&World::new(meddling)).unwrap_err();
        if let Some(hook) = hook {
            std::fs::remove_file(bare.path().join("hooks/pre-receive")).unwrap();
            assert!(bare.ledger().lines().count() == 4, "{hook}");
            assert_eq!(head(&bare), String::from_utf8(branch(&before)).unwrap().trim());
        }
        (error.code(), error.class(), error.exit())
    };
    let denied = (Code::PublicationDenied, Class::Denied, 4);
    let unknown = (Code::PublicationUnresolved, Class::Unknown, 5);
    assert_eq!(told(Some("#!/bin/sh\nexit 1\n"), false), denied);
    assert_eq!(told(Some("#!/bin/sh\nexit 1\n"), true), denied);
    assert_eq!(told(Some("#!/bin/sh\nkill -9 $PPID\n"), false), unknown);
    assert_eq!(told(None, true), unknown);
}

fn branch(contents: &[(std::path::PathBuf, Vec<u8>)]) -> Vec<u8> {
    contents.iter().find(|(path, _)| path.ends_with("refs/heads/work-queue")).unwrap().1.clone()
}

/// A branch that nobody moves and that cannot be moved is a fault of the repository, not contention.
#[test]
fn a_locked_branch_is_not_contention() {
    let bare = seeded();
    std::fs::write(bare.path().join("refs/heads/work-queue.lock"), "").unwrap();
    let error = compact(&World::new(bare.transport())).unwrap_err();
    assert_eq!((error.code(), error.class()), (Code::PublicationUnresolved, Class::Conflict));
    assert!(error.message().contains("would not move the branch"), "{error}");
}

/// Only an administrator of the repository compacts, there must be a queue, and a refusal writes nothing.
#[test]
fn who_may_not_compact() {
    let bare = seeded();
    let before = bare.contents();
    let world = World::new(Meddling::new(bare.transport()));
    for role in [Role::Producer, Role::Dispatcher, Role::Reconciler] {
        let error = compact_by(&world, role, None).unwrap_err();
        assert_eq!((error.code(), error.exit()), (Code::ActorUnauthorized, 4));
        assert_eq!(world.publisher().plan_compaction(&actor(role)).unwrap_err().code(), Code::ActorUnauthorized);
    }
    let mut foreign = actor(Role::Administrator);
    foreign.repository = wq_action::protocol::Repository::new("other/queue").unwrap();
    assert_eq!(world.publisher().compact(&foreign, None).unwrap_err().code(), Code::ActorUnauthorized);
    assert_eq!(*world.transport.pushes.borrow(), 0);
    assert_eq!(bare.contents(), before);
    let empty = Bare::new();
    let before = empty.contents();
    let error = compact(&World::new(empty.transport())).unwrap_err();
    assert_eq!((error.code(), error.exit()), (Code::QueueMissing, 4));
    assert_eq!(empty.contents(), before);
}

/// A clock that is behind the last commit compacts all the same, at that commit's time.
#[test]
fn a_slow_clock_compacts() {
    let bare = seeded();
    let world = World::new(bare.transport());
    world.clock.advance(Duration::from_secs(3600));
    world.publisher().publish_request(&submit("late"), None).unwrap();
    let late = read(&bare).projection.requests().last().unwrap().at;
    assert!(done(compact(&World::new(bare.transport()))).changed);
    assert_eq!(read(&bare).projection.requests().last().unwrap().at, late);
}

/// Repeated lines and any order of lines are read; a compaction drops the repetitions and counts them.
#[test]
fn repeated_lines_are_dropped_and_counted() {
    let bare = seeded();
    let ledger = bare.ledger();
    let lines: Vec<&str> = ledger.lines().collect();
    let shuffled =
        [lines[3], lines[0], lines[3], lines[2], lines[1], lines[0]].map(|line| format!("{line}\n")).concat();
    version(&bare, &shuffled, &[&head(&bare)]);
    let compacted = done(compact(&World::new(bare.transport())));
    assert_eq!((compacted.duplicates_removed, compacted.bytes_before), (2, shuffled.len() as u64));
    let line: Value = serde_json::from_str(bare.ledger().trim_end()).unwrap();
    assert_eq!(line["operations"][0]["history_sha256"], sha256_hex(&[&ledger]).as_str(), "of the chain, not the file");
    assert_eq!(read(&bare).projection.requests().len(), 5);
}

fn planned(bare: &Bare) -> CompactionPlan {
    let world = World::new(bare.transport());
    let plan = world.publisher().plan_compaction(&actor(Role::Administrator)).unwrap().unwrap();
    assert_eq!(CompactionPlan::read(&plan.text()), Ok(plan.clone()));
    plan
}

fn apply(bare: &Bare, plan: &CompactionPlan) -> Ended {
    compact_by(&World::new(bare.transport()), Role::Administrator, Some(plan))
}

/// S-065: a plan is revalidated against the queue as it is. Of the current version it must give the same digests, of an
/// earlier one it gives way to what was appended, and it never brings back a history that is gone.
#[test]
fn publication_17_a_plan_is_revalidated() {
    let bare = seeded();
    let before = bare.contents();
    let plan = planned(&bare);
    assert_eq!(bare.contents(), before, "planning writes nothing");
    assert_eq!((plan.base_git_sha.as_str(), plan.transactions), (head(&bare).as_str(), 4));
    let other = planned(&{
        let other = seeded();
        publish(&other, &submit("other"));
        other
    });
    let tampered = [
        CompactionPlan { base_tip: other.base_tip.clone(), ..plan.clone() },
        CompactionPlan { history_sha256: other.history_sha256.clone(), ..plan.clone() },
        CompactionPlan { state_sha256: other.state_sha256.clone(), ..plan.clone() },
        CompactionPlan { branch: "elsewhere".into(), ..plan.clone() },
        CompactionPlan { repository: "other/queue".into(), ..plan.clone() },
    ];
    for plan in &tampered {
        let error = apply(&bare, plan).unwrap_err();
        assert_eq!((error.code(), error.exit()), (Code::CheckpointInvalid, 3));
    }
    for sha in [other.base_git_sha.as_str(), &"0".repeat(40), &"a".repeat(64)] {
        let foreign = CompactionPlan { base_git_sha: Revision::new(sha).unwrap(), ..plan.clone() };
        let error = apply(&bare, &foreign).unwrap_err();
        assert_eq!((error.code(), error.exit()), (Code::LedgerNonextending, 3));
    }
    assert_eq!(bare.contents(), before);

    publish(&bare, &submit("meanwhile"));
    assert!(done(apply(&bare, &plan)).changed, "the queue moved on, and the checkpoint is of the queue as it is");
    assert!(read(&bare).projection.request("meanwhile").is_some());
    assert_eq!(apply(&bare, &plan).unwrap().0, Compaction::AlreadyCompact, "applied twice, written once");
    for plan in &tampered[3..] {
        assert_eq!(apply(&bare, plan).unwrap_err().code(), Code::CheckpointInvalid, "of a compact queue too");
    }
    let world = World::new(bare.transport());
    assert_eq!(world.publisher().plan_compaction(&actor(Role::Administrator)), Ok(None));
}

/// S-065: a plan of the current version holds through a lost race.
#[test]
fn a_plan_survives_a_race() {
    let bare = seeded();
    let plan = planned(&bare);
    let world = World::new(contended(&bare, 2));
    let compacted = done(compact_by(&world, Role::Administrator, Some(&plan)));
    assert!(compacted.changed);
    assert!(read(&bare).projection.request("rival-1").is_some());
}

/// A plan whose base is still in the history, but whose requests were taken out of the ledger, is refused; so is one of
/// a branch that was rewritten.
#[test]
fn a_plan_of_a_rewritten_history_is_refused() {
    let bare = seeded();
    let plan = planned(&bare);
    let shorter: String = bare.ledger().lines().take(2).map(|line| format!("{line}\n")).collect();
    version(&bare, &shorter, &[&head(&bare)]);
    assert_eq!(apply(&bare, &plan).unwrap_err().code(), Code::LedgerNonextending);
    version(&bare, &shorter, &[]);
    assert_eq!(apply(&bare, &plan).unwrap_err().code(), Code::LedgerNonextending);
    let mut story = Story::open(&policy());
    story.publish(&control("unlike"));
    let mut other = History::new(&Bare::new());
    let sha = other.version(&story.ledger());
    story.compact(&sha);
    let before = head(&bare);
    let first = version(&bare, &story.ledger().replace("unlike", "unlikely"), &[]);
    assert!(apply(&bare, &plan).is_err());
    assert_eq!(head(&bare), first, "and nothing was written over {before}");
}

/// What the plan's reader refuses.
#[test]
fn plans_are_closed_objects() {
    let bare = seeded();
    let text = planned(&bare).text();
    let code = |text: &str| CompactionPlan::read(text).unwrap_err().code();
    assert_eq!(code(&text.replace("\"version\":3", "\"version\":2")), Code::CheckpointInvalid);
    assert_eq!(code(&text.replace("compaction_plan", "plan")), Code::CheckpointInvalid);
    assert_eq!(code(&text.replace("\"branch\"", "\"bough\"")), Code::CheckpointInvalid);
    assert_eq!(code(&text.replace("\"transactions\":4", "\"transactions\":-4")), Code::CheckpointInvalid);
    assert_eq!(code(&text.replacen('{', r#"{"more":1,"#, 1)), Code::CheckpointInvalid);
    assert_eq!(code(&format!("{text}{}", " ".repeat(4096))), Code::ResourceLimit);
    let request = request("q", RequestKind::Control, Role::Administrator, CONTROL);
    assert_ne!(code(request.parameters.as_str()), Code::Internal);
}
