//! What a publisher keeps between two reads is bound to its branch, its repository and the versions that it validated;
//! anything else is validated anew or refused.

use std::collections::BTreeSet;

use serde_json::Value;
use wq_action::ledger::{Branch, Publisher};
use wq_action::protocol::Code;
use wq_action::protocol::request::RequestKind;

use crate::support::git::Bare;
use crate::support::queue::{REPOSITORY, World, dispatch, policy, submit};

/// A queue with these submissions.
fn queue(ids: &[&str]) -> Bare {
    let bare = Bare::new();
    let world = World::new(bare.transport());
    for id in ids {
        world.publisher().publish_request(&submit(id), Some(&policy())).unwrap();
    }
    bare
}

/// Puts a ledger on top of the branch, or in place of its history.
fn put(bare: &Bare, ledger: &str, on_top: bool) -> String {
    let parent = bare.resolve("refs/heads/work-queue").unwrap();
    let tree = bare.tree(&[("100644", "work-queue.jsonl", &bare.blob(ledger.as_bytes()))]);
    if on_top {
        return bare.commit("work-queue", &tree, &[&parent]);
    }
    let commit = bare.git(&["commit-tree", &tree, "-m", "made anew"]);
    bare.git(&["update-ref", "refs/heads/work-queue", &commit]);
    commit
}

/// What a fresh reader makes of the branch.
fn cold(bare: &Bare) -> Result<String, Code> {
    let world = World::new(bare.transport());
    let read = world.publisher().read_present();
    read.map(|current| current.projection.serialise()).map_err(|error| error.code())
}

fn again(publisher: &mut Publisher<'_>) -> Result<String, Code> {
    publisher.read_present().map(|current| current.projection.serialise()).map_err(|error| error.code())
}

/// S-067: a publisher is made for one branch of one repository, and what it keeps names the Git version that it
/// validated; its projection names the repository, the tip and the epoch; and every line is of the one protocol version.
#[test]
fn what_is_kept_says_what_it_is_of() {
    let bare = queue(&["a", "b"]);
    let world = World::new(bare.transport());
    let current = world.publisher().read_present().unwrap();
    let lines: Vec<Value> = bare.ledger().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(Some(current.commit.to_string()), bare.resolve("refs/heads/work-queue"));
    assert_eq!(current.projection.repository().unwrap().as_str(), REPOSITORY);
    assert_eq!(current.projection.tip().unwrap().as_str(), lines[1]["id"]);
    assert_eq!(current.projection.installed().unwrap().epoch.as_str(), lines[1]["policy_epoch"]);
    assert!(lines.iter().all(|line| line["version"] == 3));

    // The same objects under another repository's name, or the same repository's other branch, are other queues.
    let mut foreign = world.publisher_of(Branch::default(), "local/other");
    assert_eq!(again(&mut foreign).unwrap_err(), Code::ActorUnauthorized);
    let tree = bare.tree(&[("100644", "work-queue.jsonl", &bare.blob(queue(&["c"]).ledger().as_bytes()))]);
    bare.commit("elsewhere", &tree, &[]);
    let mut elsewhere = world.publisher_of(Branch::new("elsewhere").unwrap(), REPOSITORY);
    let (own, other) = (cold(&bare).unwrap(), again(&mut elsewhere).unwrap());
    assert_ne!(own, other);
}

/// S-068: a refresh takes the new lines on top of all the old ones, each in its order, and ends where a cold replay does.
#[test]
fn a_refresh_applies_every_new_commit_in_order() {
    let bare = queue(&["a"]);
    let world = World::new(bare.transport());
    let mut publisher = world.publisher();
    let first = publisher.read_present().unwrap();
    for id in ["b", "c"] {
        World::new(bare.transport()).publisher().publish_request(&submit(id), None).unwrap();
    }
    World::new(bare.transport()).publisher().publish_request(&dispatch("grant"), None).unwrap();
    let after = publisher.read_present().unwrap();
    let ids: Vec<&str> = after.projection.requests().map(|accepted| accepted.request_id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c", "grant"]);
    assert_eq!(first.projection.requests().len(), 1, "what was handed out does not change");
    assert_eq!(after.projection.serialise(), cold(&bare).unwrap());
    // A line that stands on an earlier one than the last forks the chain.
    let text = bare.ledger();
    let mut lines: Vec<&str> = text.lines().collect();
    let grown = queue(&["a", "b", "c", "d"]).ledger();
    lines.push(grown.lines().last().unwrap());
    put(&bare, &(lines.join("\n") + "\n"), true);
    assert_eq!(again(&mut publisher).unwrap_err(), Code::LedgerInvalid);
}

/// S-069, S-071: history that was deleted or rewritten is refused, though its file is the same to the byte or longer; a
/// version that no longer begins with what was validated is refused as well.
#[test]
fn rewritten_and_shorter_history_is_refused() {
    let longer = {
        let bare = queue(&["a", "b"]);
        World::new(bare.transport()).publisher().publish_request(&submit("c"), None).unwrap();
        bare
    };
    let text = longer.ledger();
    let two: String = text.lines().take(2).map(|line| format!("{line}\n")).collect();
    let one: String = text.lines().take(1).map(|line| format!("{line}\n")).collect();
    let other = queue(&["x", "y"]).ledger();
    for (name, ledger, on_top) in [
        ("the same file, another history", &two, false),
        ("a longer file, another history", &text, false),
        ("another queue, another history", &other, false),
        ("a shorter file on top", &one, true),
        ("another queue on top", &other, true),
    ] {
        let bare = Bare::new();
        bare.seed(two.as_bytes());
        let world = World::new(bare.transport());
        let mut publisher = world.publisher();
        publisher.read_present().unwrap();
        put(&bare, ledger, on_top);
        let before = bare.contents();
        assert_eq!(again(&mut publisher).unwrap_err(), Code::LedgerNonextending, "{name}");
        assert_eq!(bare.contents(), before);
        assert!(cold(&bare).is_ok(), "{name}: each is a valid queue to who never saw the other");
    }
    let bare = queue(&["a"]);
    let world = World::new(bare.transport());
    let mut publisher = world.publisher();
    publisher.read_present().unwrap();
    bare.git(&["update-ref", "-d", "refs/heads/work-queue"]);
    assert!(publisher.read().is_err_and(|error| error.code() == Code::LedgerNonextending));
}

/// S-069: a foreign queue on top, an epoch or Policy that does not belong there, another protocol version and text that is
/// no JSON each end in the code that a cold reader gives; lines in another order or another spelling are validated cold
/// and give the same state.
#[test]
fn whatever_does_not_extend_is_validated_cold() {
    let grown = queue(&["a", "b"]);
    let two = grown.ledger();
    let one: String = two.lines().take(1).map(|line| format!("{line}\n")).collect();
    let last = two.lines().nth(1).unwrap().to_owned();
    let foreign = two.replace(REPOSITORY, "local/other");
    let epoch = serde_json::from_str::<Value>(&last).unwrap()["policy_epoch"].as_str().unwrap().to_owned();
    let spaced: String = two.replace("\":", "\": ");
    let turned = two.lines().rev().map(|line| format!("{line}\n")).collect::<String>();
    let twice = format!("{two}{}\n", two.lines().next().unwrap());
    let cases = [
        ("a foreign queue", foreign),
        ("a foreign epoch", format!("{one}{}\n", last.replace(&epoch, "epoch_other"))),
        ("another version", format!("{one}{}\n", last.replace(r#""version":3"#, r#""version":4"#))),
        ("no JSON", format!("{one}not json\n")),
        ("no end", format!("{one}{last}")),
        ("another spelling", spaced),
        ("another order", turned),
        ("a repetition", twice),
        ("as it is", two.clone()),
    ];
    let mut codes = BTreeSet::new();
    for (name, ledger) in cases {
        let bare = Bare::new();
        bare.seed(one.as_bytes());
        let world = World::new(bare.transport());
        let mut publisher = world.publisher();
        publisher.read_present().unwrap();
        put(&bare, &ledger, true);
        let outcome = again(&mut publisher);
        assert_eq!(outcome, cold(&bare), "{name}");
        match outcome {
            Ok(state) => assert_eq!(state, cold(&grown).unwrap(), "{name}"),
            Err(code) => drop(codes.insert(code.as_str())),
        }
    }
    assert!(codes.contains("policy_invalid"), "{codes:?}");
    // A Policy in a queue that is not quiet.
    let bare = Bare::new();
    bare.seed(one.as_bytes());
    let world = World::new(bare.transport());
    let mut publisher = world.publisher();
    let current = publisher.read_present().unwrap();
    put(&bare, &format!("{one}{}\n", installed_again(&current.projection)), true);
    assert_eq!(again(&mut publisher).unwrap_err(), Code::PolicyNotQuiescent);
}

/// A Policy commit on top of a state, as a dishonest administrator would write it.
fn installed_again(state: &wq_action::engine::Projection) -> String {
    use wq_action::protocol::commit::Candidate;
    use wq_action::protocol::{At, CommitId, Epoch, Opaque};
    let policy = state.installed().unwrap().policy.source.clone();
    let operation = format!(r#"{{"epoch":"second","kind":"Policy","policy":{}}}"#, policy.as_str());
    let parameters = format!(r#"{{"operations":[{operation}]}}"#);
    let role = wq_action::protocol::actor::Role::Administrator;
    let request = crate::support::queue::request("install", RequestKind::Policy, role, &parameters);
    let operations: Vec<Opaque> = vec![crate::support::ledger::typed(&operation)];
    Candidate {
        id: &CommitId::new("q_second").unwrap(),
        previous: state.tip(),
        request: &request,
        policy_epoch: &Epoch::new("second").unwrap(),
        at: At::new(crate::support::git::NOW).unwrap(),
        operations: &operations,
    }
    .encode()
}
