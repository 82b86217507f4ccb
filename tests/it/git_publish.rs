//! Publishing to real repositories by compare-and-swap.

use std::sync::Barrier;

use wq_action::ledger::commit_object::Author;
use wq_action::ledger::push::Candidate;
use wq_action::ledger::{Ambiguity, Branch, Class, Head, PushOutcome, Store, read_head};
use wq_action::ports::{SimulatedClock, SimulatedEntropy};
use wq_action::protocol::Code;

use crate::support::git::{Bare, NOW, Writer};

/// S-239: the first publication makes an orphan branch with one commit.
#[test]
fn a_first_version_creates_the_branch() {
    let bare = Bare::new();
    let publisher = Writer::new(bare.transport());
    assert_eq!(publisher.read(), Head::Absent);
    assert_eq!(publisher.push(None, b"one\n"), PushOutcome::Acknowledged);
    assert_eq!(bare.ledger(), "one\n");
    assert_eq!(bare.git(&["rev-list", "--count", "refs/heads/work-queue"]), "1");
    assert_eq!(bare.git(&["ls-tree", "-r", "refs/heads/work-queue"]).lines().count(), 1);
    assert!(bare.git(&["ls-tree", "refs/heads/work-queue"]).starts_with("100644 blob "));
    bare.git(&["fsck", "--strict"]);
    let commit = bare.git(&["cat-file", "commit", "refs/heads/work-queue"]);
    assert!(commit.contains("author gh-aw-work-queue <gh-aw-work-queue@users.noreply.github.com> 1790000000 +0000"));
    assert!(commit.contains("\n\nPublish checked fair work queue request\n\nPublisher-Nonce: "), "{commit}");
    let nonce = commit.rsplit(' ').next().unwrap();
    assert!(nonce.len() == 32 && nonce.bytes().all(|byte| byte.is_ascii_hexdigit()));

    let snapshot = publisher.snapshot();
    assert!(snapshot.parents.is_empty());
    let before = bare.resolve("refs/heads/work-queue");
    let late = Writer::new(bare.transport());
    assert_eq!(late.push(None, b"other\n"), PushOutcome::Conflict, "the branch must not exist yet");
    assert_eq!(bare.resolve("refs/heads/work-queue"), before);
}

/// S-239, O-011: an update is one commit on the expected one, and every other file stays as it was.
#[test]
fn publication_01_an_update_replaces_the_ledger_alone() {
    let bare = Bare::new();
    let blob = bare.blob(b"#!/bin/sh\n");
    let folder = bare.tree(&[("100755", "run", &blob), ("120000", "link", &blob)]);
    let tree = bare.tree(&[
        ("100644", ".first", &blob),
        ("040000", "folder", &folder),
        ("100755", "script", &blob),
        ("100644", "work-queue.jsonl", &bare.blob(b"one\n")),
        ("120000", "zlink", &blob),
    ]);
    let first = bare.commit("work-queue", &tree, &[]);
    let publisher = Writer::new(bare.transport());
    let mut ledger = b"one\n".to_vec();
    let others = |revision: &str| {
        let text = bare.git(&["ls-tree", "-r", "-t", revision]);
        text.lines().filter(|line| !line.ends_with("\twork-queue.jsonl")).map(str::to_owned).collect::<Vec<_>>()
    };
    for round in 0..3 {
        let base = publisher.snapshot();
        ledger.extend_from_slice(format!("round {round}\n").as_bytes());
        assert_eq!(publisher.push(Some(&base), &ledger), PushOutcome::Acknowledged);
        assert_eq!(bare.resolve("refs/heads/work-queue^"), Some(base.commit.to_string()));
        assert_eq!(bare.ledger().as_bytes(), ledger);
        assert_eq!(others("refs/heads/work-queue"), others(&first));
    }
    bare.git(&["fsck", "--strict"]);
    assert_eq!(bare.git(&["rev-list", "--count", "refs/heads/work-queue"]), "4");
}

/// S-241: of two publishers on one version one is acknowledged, the other conflicts and changes nothing.
#[test]
fn a_stale_lease_is_a_conflict() {
    let bare = Bare::new();
    bare.seed(b"one\n");
    let (left, right) = (Writer::new(bare.transport()), Writer::new(bare.transport()));
    let (left_base, right_base) = (left.snapshot(), right.snapshot());
    assert_eq!(left.push(Some(&left_base), b"one\nleft\n"), PushOutcome::Acknowledged);
    assert_eq!(right.push(Some(&right_base), b"one\nright\n"), PushOutcome::Conflict);
    assert_eq!(bare.ledger(), "one\nleft\n");
    let base = right.snapshot();
    assert_eq!(right.push(Some(&base), b"one\nleft\nright\n"), PushOutcome::Acknowledged);
    assert_eq!(bare.git(&["rev-list", "--count", "refs/heads/work-queue"]), "3");
}

/// S-239: a branch that was deleted meanwhile is not made again, and one that was rewritten is not forced.
#[test]
fn publication_05_a_deleted_or_rewritten_branch_is_left_alone() {
    let bare = Bare::new();
    bare.seed(b"one\n");
    let publisher = Writer::new(bare.transport());
    let base = publisher.snapshot();
    bare.git(&["update-ref", "-d", "refs/heads/work-queue"]);
    assert_eq!(publisher.push(Some(&base), b"one\ntwo\n"), PushOutcome::Conflict);
    assert_eq!(bare.resolve("refs/heads/work-queue"), None);

    let other = bare.seed(b"rewritten\n");
    assert_eq!(publisher.push(Some(&base), b"one\ntwo\n"), PushOutcome::Conflict);
    assert_eq!(bare.resolve("refs/heads/work-queue"), Some(other));
}

/// S-239: a candidate that is not exactly one step on from its base, or not what was validated, is never sent.
#[test]
fn an_unsound_candidate_is_never_sent() {
    let bare = Bare::new();
    bare.seed(b"one\n");
    let publisher = Writer::new(bare.transport());
    let base = publisher.snapshot();
    let head = bare.resolve("refs/heads/work-queue");
    let push = |candidate: &Candidate, base, validated: &[u8]| {
        candidate.push(&publisher.transport, &publisher.store, &publisher.branch, base, validated)
    };
    let candidate = publisher.candidate(Some(&base), b"one\ntwo\n");
    assert_eq!(push(&candidate, Some(&base), b"one\n2\n").unwrap_err().code(), Code::Internal);
    assert_eq!(push(&candidate, None, b"one\ntwo\n").unwrap_err().code(), Code::Internal);
    let mut forged = publisher.candidate(None, b"one\ntwo\n");
    forged.expected = Some(base.commit);
    assert_eq!(push(&forged, Some(&base), b"one\ntwo\n").unwrap_err().code(), Code::Internal, "a forced push");
    assert_eq!(bare.resolve("refs/heads/work-queue"), head);
    assert_eq!(push(&candidate, Some(&base), b"one\ntwo\n"), Ok(PushOutcome::Acknowledged));
}

/// S-251, S-253, O-047: a hook's refusal is a denial, with a sentence of ours and none of the hook's.
#[test]
fn publication_06_a_declining_hook_denies() {
    let cases = ["pre-receive", "update"];
    for hook in cases {
        let bare = Bare::new();
        let head = bare.seed(b"one\n");
        bare.hook(hook, "#!/bin/sh\necho 'secret-text fatal: Authentication failed' >&2\nexit 1\n");
        let publisher = Writer::new(bare.transport());
        let base = publisher.snapshot();
        let PushOutcome::Denied(error) = publisher.push(Some(&base), b"one\ntwo\n") else { panic!("{hook}") };
        assert_eq!((error.code(), error.class(), error.exit()), (Code::PublicationDenied, Class::Denied, 4));
        assert!(!format!("{error:?}").contains("secret-text"));
        assert_eq!(bare.resolve("refs/heads/work-queue"), Some(head));
    }
}

/// S-242: when the server dies after it moved the branch, the outcome is unknown and the commit is there.
#[test]
fn a_server_that_dies_after_accepting_is_ambiguous() {
    let bare = Bare::new();
    bare.seed(b"one\n");
    bare.hook("reference-transaction", "#!/bin/sh\nif [ \"$1\" = committed ]; then kill -9 $PPID; fi\nexit 0\n");
    let publisher = Writer::new(bare.transport());
    let base = publisher.snapshot();
    let outcome = publisher.push(Some(&base), b"one\ntwo\n");
    assert_eq!(outcome, PushOutcome::Ambiguous(Ambiguity::NoReport));
    assert_eq!(bare.ledger(), "one\ntwo\n");
}

/// S-243: when the server dies before it moved the branch, the outcome is just as unknown, and nothing is there.
#[test]
fn a_server_that_dies_before_accepting_is_ambiguous() {
    let bare = Bare::new();
    bare.seed(b"one\n");
    bare.hook("pre-receive", "#!/bin/sh\nkill -9 $PPID\n");
    let publisher = Writer::new(bare.transport());
    let base = publisher.snapshot();
    let outcome = publisher.push(Some(&base), b"one\ntwo\n");
    assert!(matches!(outcome, PushOutcome::Ambiguous(_)), "{outcome:?}");
    assert_eq!(bare.ledger(), "one\n");
}

/// A failing post-receive hook comes after the report: the push is acknowledged or unknown, and never a denial.
#[test]
fn a_failing_post_receive_hook_does_not_undo_an_acknowledgement() {
    let bare = Bare::new();
    bare.seed(b"one\n");
    let publisher = Writer::new(bare.transport());
    bare.hook("post-receive", "#!/bin/sh\nexit 1\n");
    let base = publisher.snapshot();
    assert_eq!(publisher.push(Some(&base), b"one\ntwo\n"), PushOutcome::Acknowledged);
    bare.hook("post-receive", "#!/bin/sh\nkill -9 $PPID\n");
    let base = publisher.snapshot();
    let outcome = publisher.push(Some(&base), b"one\ntwo\nthree\n");
    assert!(matches!(outcome, PushOutcome::Acknowledged | PushOutcome::Ambiguous(_)), "{outcome:?}");
    assert_eq!(bare.ledger(), "one\ntwo\nthree\n");
}

/// S-242: a hook can move the branch itself and then decline. The push is then a denial in form; only a look at the
/// branch tells the truth.
#[test]
fn a_hook_that_accepts_and_then_declines_is_seen_by_the_next_read() {
    let bare = Bare::new();
    bare.seed(b"one\n");
    bare.hook("update", "#!/bin/sh\ngit update-ref \"$1\" \"$3\" \"$2\"\nexit 1\n");
    let publisher = Writer::new(bare.transport());
    let base = publisher.snapshot();
    let outcome = publisher.push(Some(&base), b"one\ntwo\n");
    assert!(matches!(outcome, PushOutcome::Denied(_)), "{outcome:?}");
    assert_eq!(publisher.snapshot().ledger, b"one\ntwo\n");
}

/// A lock that another push holds on the server is a conflict, not a denial.
#[test]
fn publication_06_a_locked_reference_is_a_conflict() {
    let bare = Bare::new();
    let head = bare.seed(b"one\n");
    let publisher = Writer::new(bare.transport());
    let base = publisher.snapshot();
    std::fs::write(bare.path().join("refs/heads/work-queue.lock"), "").unwrap();
    assert_eq!(publisher.push(Some(&base), b"one\ntwo\n"), PushOutcome::Conflict);
    assert_eq!(bare.resolve("refs/heads/work-queue"), Some(head));
}

/// A branch that moves on the server between the advertisement and the update is a conflict.
#[test]
fn publication_06_a_race_on_the_server_is_a_conflict() {
    let bare = Bare::new();
    let head = bare.seed(b"one\n");
    let tree = bare.tree(&[("100644", "work-queue.jsonl", &bare.blob(b"one\nother\n"))]);
    let other = bare.commit("other", &tree, &[&head]);
    bare.hook(
        "pre-receive",
        &format!("#!/bin/sh\nenv -u GIT_QUARANTINE_PATH git update-ref refs/heads/work-queue {other}\n"),
    );
    let publisher = Writer::new(bare.transport());
    let base = publisher.snapshot();
    let outcome = publisher.push(Some(&base), b"one\ntwo\n");
    assert_eq!(outcome, PushOutcome::Conflict);
    assert_eq!(bare.resolve("refs/heads/work-queue"), Some(other));
}

/// A commit that the remote has already is not ours to claim.
#[test]
fn an_identical_commit_is_up_to_date_and_not_acknowledged() {
    let bare = Bare::new();
    bare.seed(b"one\n");
    let (left, right) = (Writer::new(bare.transport()), Writer::new(bare.transport()));
    let send = |publisher: &Writer| {
        let base = publisher.snapshot();
        (
            Candidate::build(
                &publisher.store,
                Some(&base),
                b"one\ntwo\n",
                Author::Runtime,
                &SimulatedClock::new(NOW),
                &SimulatedEntropy::new(7),
            )
            .unwrap(),
            base,
        )
    };
    let ((first, base), (second, _)) = (send(&left), send(&right));
    assert_eq!(first.commit, second.commit, "one nonce, one commit");
    let push = |candidate: &Candidate, by: &Writer| {
        candidate.push(&by.transport, &by.store, &by.branch, Some(&base), b"one\ntwo\n").unwrap()
    };
    assert_eq!(push(&first, &left), PushOutcome::Acknowledged);
    assert_eq!(push(&second, &right), PushOutcome::UpToDate);
    let nonces = [left.candidate(None, b"x\n").commit, right.candidate(None, b"x\n").commit];
    assert_ne!(nonces[0], nonces[1], "real nonces differ");
}

/// S-241, S-624: publishers that start together each land exactly once, in one linear history.
#[test]
fn competing_publishers_make_one_linear_history() {
    const PUBLISHERS: usize = 6;
    let bare = Bare::new();
    bare.seed(b"start\n");
    let barrier = Barrier::new(PUBLISHERS);
    let denials: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..PUBLISHERS)
            .map(|index| {
                let (bare, barrier) = (&bare, &barrier);
                scope.spawn(move || {
                    let publisher = Writer::new(bare.transport());
                    barrier.wait();
                    loop {
                        let base = publisher.snapshot();
                        let ledger = [base.ledger.as_slice(), format!("line {index}\n").as_bytes()].concat();
                        match publisher.push(Some(&base), &ledger) {
                            PushOutcome::Acknowledged => return 0,
                            PushOutcome::Conflict => {}
                            other => {
                                eprintln!("{other:?}");
                                return 1;
                            }
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(denials, 0, "a race is a conflict, never a denial");
    let ledger = bare.ledger();
    let mut lines: Vec<_> = ledger.lines().skip(1).collect();
    lines.sort_unstable();
    assert_eq!(lines, (0..PUBLISHERS).map(|index| format!("line {index}")).collect::<Vec<_>>());
    assert_eq!(bare.git(&["rev-list", "--min-parents=2", "--count", "refs/heads/work-queue"]), "0");
    assert_eq!(bare.git(&["rev-list", "--count", "refs/heads/work-queue"]), (PUBLISHERS + 1).to_string());
}

/// A reader that already has objects follows the branch, and refuses one that no longer descends from what it saw.
#[test]
fn the_store_follows_the_branch() {
    let bare = Bare::new();
    bare.seed(b"one\n");
    let (reader, writer) = (Writer::new(bare.transport()), Writer::new(bare.transport()));
    let before = reader.snapshot();
    let base = writer.snapshot();
    assert_eq!(writer.push(Some(&base), b"one\ntwo\n"), PushOutcome::Acknowledged);
    let after = reader.snapshot();
    assert_eq!(after.ledger, b"one\ntwo\n");
    assert!(reader.store.descends(after.commit, before.commit).unwrap());
    assert!(!reader.store.descends(before.commit, after.commit).unwrap());
    let rewritten = bare.seed(b"rewritten\n");
    let again = reader.snapshot();
    assert_eq!(again.commit.to_string(), rewritten);
    assert!(!reader.store.descends(again.commit, after.commit).unwrap());
}

/// O-004: a store is gone when its owner is, after a panic too, and one that a killed process left is swept away.
#[test]
fn publication_18_stores_do_not_outlive_their_owners() {
    let parent = tempfile::tempdir().unwrap();
    let children = || std::fs::read_dir(parent.path()).unwrap().count();
    let store = Store::in_directory(parent.path()).unwrap();
    assert_eq!(children(), 1);
    drop(store);
    assert_eq!(children(), 0);
    let panicked = std::panic::catch_unwind(|| {
        let _store = Store::in_directory(parent.path()).unwrap();
        panic!("on purpose");
    });
    assert!(panicked.is_err());
    assert_eq!(children(), 0);

    let directory = |name: &str| {
        let path = parent.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    };
    let dead = directory("wq-store-dead");
    std::fs::write(dead.join("alive"), "").unwrap();
    std::fs::create_dir(dead.join("objects.git")).unwrap();
    // Killed at its birth: before it made its lock, and before it gave the lock its name.
    let (empty, unnamed) = (directory("wq-store-empty"), directory("wq-store-unnamed"));
    std::fs::write(unnamed.join("pending"), "").unwrap();
    // A git that outlived its process made the directories of a removed store again.
    let revived = directory("wq-store-revived");
    std::fs::create_dir_all(revived.join("objects.git/objects/pack")).unwrap();
    let newborn = directory("wq-store-newborn");
    let lock = std::fs::File::create(newborn.join("pending")).unwrap();
    lock.lock().unwrap();
    let strange = directory("wq-store-strange");
    std::fs::write(strange.join("something"), "").unwrap();
    let first = Store::in_directory(parent.path()).unwrap();
    assert!(!dead.exists() && !empty.exists() && !unnamed.exists() && !revived.exists(), "nobody holds their locks");
    assert!(newborn.exists(), "somebody is about to name its lock");
    assert!(strange.exists(), "without a lock only an empty directory goes");
    let second = Store::in_directory(parent.path()).unwrap();
    assert!(first.directory().exists() && second.directory().exists(), "live stores stay");
}

/// A branch that is read for the first time after a push from here needs no fetch, and is still asked for.
#[test]
fn a_pushed_commit_is_read_back() {
    let bare = Bare::new();
    let publisher = Writer::new(bare.transport());
    assert_eq!(publisher.push(None, b"one\n"), PushOutcome::Acknowledged);
    assert_eq!(publisher.snapshot().ledger, b"one\n");
    let elsewhere = Store::new().unwrap();
    let head = read_head(&publisher.transport, &elsewhere, &Branch::default()).unwrap();
    assert!(matches!(head, Head::Present(snapshot) if snapshot.ledger == b"one\n"));
}
