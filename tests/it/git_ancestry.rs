//! What a checkpoint is worth: the Git history behind it, and the one defect of older writers that readers mend.

use serde_json::{Value, json};
use wq_action::engine::checkpoint::CheckpointInputs;
use wq_action::ledger::{Current, LedgerError, Outcome, Queue};
use wq_action::protocol::actor::Role;
use wq_action::protocol::compressed::{deflate, inflate};
use wq_action::protocol::json::Scanner;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{Code, Revision};

use crate::support::git::{Bare, git_command};
use crate::support::history::{
    History, Story, changed, control, deployed_policy, deployment, forged, replayed, version,
};
use crate::support::ledger::{HOST, canonical};
use crate::support::queue::{World, actor, dispatch, node, policy, request, submission, submit};

fn read(bare: &Bare) -> Result<std::sync::Arc<Current>, LedgerError> {
    World::new(bare.transport()).publisher().read_present()
}

/// Reading and publishing fail with one code, and neither writes.
fn refused(bare: &Bare) -> Code {
    let before = bare.contents();
    let world = World::new(bare.transport());
    let error = read(bare).unwrap_err();
    let written = world.publisher().publish_request(&submit("refused"), Some(&policy())).unwrap_err();
    let compacted = world.publisher().compact(&actor(Role::Administrator), None).unwrap_err();
    assert_eq!((written.code(), compacted.code()), (error.code(), error.code()));
    assert_eq!(bare.contents(), before);
    assert_eq!(error.line().filter(|line| *line != 1), None, "{error}: a line of another version");
    error.code()
}

fn publish(bare: &Bare, id: &str) {
    let publication = World::new(bare.transport()).publisher().publish_request(&submit(id), None).unwrap();
    assert!(matches!(publication.outcome, Outcome::PublishedNow { .. }), "{:?}", publication.outcome);
}

/// A name, and a change of a Checkpoint operation.
type Change<'a> = (&'a str, &'a dyn Fn(&mut Value));

/// A checkpoint of two commits with one commit on top, version by version: `open`, `two`, `checkpoint`, `top`.
struct Told {
    bare: Bare,
    shas: Vec<String>,
    ledgers: Vec<String>,
}

fn told() -> Told {
    let bare = Bare::new();
    let mut history = History::new(&bare);
    let mut story = Story::open(&policy());
    let (mut shas, mut ledgers) = (vec![history.version(&story.ledger())], vec![story.ledger()]);
    for step in 0..3 {
        match step {
            0 => story.publish(&submit("two")),
            1 => story.compact(&shas[1]),
            _ => story.publish(&control("top")),
        }
        ledgers.push(story.ledger());
        shas.push(history.version(&story.ledger()));
    }
    history.send();
    assert_eq!(read(&bare).unwrap().projection.requests().len(), 4);
    Told { bare, shas, ledgers }
}

/// S-064: a checkpoint counts only on top of the very commit, chain, tip and state that it stands for. A record that is
/// sound in itself is refused where its history differs in a single one of them, at the head and further down.
#[test]
fn a_checkpoint_is_worth_its_history() {
    let Told { bare, shas, ledgers } = told();
    let line = ledgers[2].trim_end();
    let changes: [Change<'_>; 5] = [
        ("history", &|operation| operation["history_sha256"] = "0".repeat(64).into()),
        ("older commit", &|operation| operation["prior_git_sha"] = shas[0].as_str().into()),
        ("no commit", &|operation| operation["prior_git_sha"] = "0".repeat(40).into()),
        ("tip", &|operation| {
            operation["prior_tip"] = "q_other".into();
            operation["state"]["tip"] = "q_other".into();
        }),
        ("state", &|operation| operation["state"]["grants_paused"] = true.into()),
    ];
    assert_eq!(forged(line, |_| {}), line, "the forgery changes nothing of itself");
    for (name, change) in changes {
        let forged = forged(line, change) + "\n";
        replayed(&forged).unwrap_or_else(|code| panic!("{name}: {code}"));
        let commit = version(&bare, &forged, &[&shas[1]]);
        assert_eq!(refused(&bare), Code::CheckpointInvalid, "{name}");
        let mut story = Story::open(&policy());
        story.state = replayed(&forged).unwrap();
        story.publish(&control("top"));
        version(&bare, &story.ledger(), &[&commit]);
        assert_eq!(refused(&bare), Code::CheckpointInvalid, "{name}, under a commit");
    }
    let mut other = Story::open(&policy());
    other.publish(&submit("another"));
    let parent = version(&bare, &other.ledger(), &[&shas[0]]);
    version(&bare, &ledgers[2], &[&parent]);
    assert_eq!(refused(&bare), Code::CheckpointInvalid, "another ledger before it");
}

/// A checkpoint of a ledger that has none, here for its deep payload, stands for nothing, whatever it says.
#[test]
fn a_ledger_without_a_checkpoint_has_no_forged_one() {
    let bare = Bare::new();
    let mut deep = Story::open(&policy());
    let payload = format!(r#"{{"deep":{}{}}}"#, "[".repeat(59), "]".repeat(59));
    deep.publish(&submission("deep", Role::Producer, &[node("deep", "n", &payload)]));
    let parent = version(&bare, &deep.ledger(), &[]);
    let (sha, administrator) = (Revision::new(parent.as_str()).unwrap(), actor(Role::Administrator));
    let at = deep.state.requests().last().unwrap().at;
    let inputs = CheckpointInputs { prior_git_sha: &sha, actor: &administrator, at };
    let none = deep.state.checkpoint(&inputs, &mut Scanner::new(HOST)).unwrap_err();
    assert_eq!(none.code(), Code::ResourceLimit);
    let mut other = Story::open(&policy());
    other.compact(&parent);
    let forged = forged(other.ledger().trim_end(), |operation| {
        operation["history_sha256"] = wq_action::protocol::identity::sha256_hex(&[&deep.ledger()]).into();
        operation["prior_tip"] = deep.state.tip().unwrap().as_str().into();
        operation["state"]["tip"] = operation["prior_tip"].clone();
    });
    version(&bare, &(forged + "\n"), &[&parent]);
    assert_eq!(refused(&bare), Code::CheckpointInvalid);
}

/// Every commit down to the replaced ledger has one parent.
#[test]
fn publication_16_a_compacted_history_is_linear() {
    let Told { bare, shas, ledgers } = told();
    for parents in [&[][..], &[shas[1].as_str(), shas[0].as_str()]] {
        version(&bare, &ledgers[2], parents);
        assert_eq!(refused(&bare), Code::CheckpointInvalid, "at the checkpoint");
    }
    for parents in [&[][..], &[shas[2].as_str(), shas[1].as_str()]] {
        version(&bare, &ledgers[3], parents);
        assert_eq!(refused(&bare), Code::CheckpointInvalid, "above it");
    }
}

/// A damaged version anywhere above the replaced ledger is refused, and so is a checkpoint that was changed after
/// it was made, even into another sound one.
#[test]
fn publication_16_damaged_versions_are_refused() {
    let Told { bare, shas, ledgers } = told();
    let later = changed(ledgers[2].trim_end(), |line| line["at"] = (line["at"].as_i64().unwrap() + 1).into()) + "\n";
    replayed(&later).unwrap();
    let repacked = changed(ledgers[2].trim_end(), |line| {
        let packed = &mut line["operations"][0]["state"]["requests_compressed"];
        let requests = inflate(packed.as_str().unwrap(), 1 << 26).unwrap();
        *packed = format!("{} ", deflate(&requests)).into();
    });
    let cut = &ledgers[3][..ledgers[3].len() - 9];
    for between in [later.as_str(), "garbage\n", "", cut, &(repacked + "\n")] {
        let commit = version(&bare, between, &[&shas[2]]);
        version(&bare, &ledgers[3], &[&commit]);
        assert_eq!(refused(&bare), Code::CheckpointInvalid, "{between:.20}");
    }
    version(&bare, &later, &[&shas[2]]);
    assert_eq!(refused(&bare), Code::CheckpointInvalid, "the head itself");
    let other = bare.tree(&[("100644", "README.md", &bare.blob(b"no ledger\n"))]);
    let commit = bare.commit("work-queue", &other, &[&shas[2]]);
    version(&bare, &ledgers[3], &[&commit]);
    assert_eq!(refused(&bare), Code::LedgerInvalid, "a version without a ledger");
}

/// Where ancestry is missing, nothing is taken on trust: a lost object and a shallow repository fail.
#[test]
fn publication_16_missing_ancestry_fails_closed() {
    for revision in [1, 2] {
        for what in ["", "^{tree}", ":work-queue.jsonl"] {
            let Told { bare, shas, .. } = told();
            let object = bare.resolve(&format!("{}{what}", shas[revision])).unwrap();
            std::fs::remove_file(bare.path().join("objects").join(&object[..2]).join(&object[2..])).unwrap();
            let before = bare.contents();
            let error = read(&bare).unwrap_err();
            assert!(matches!(error.exit(), 3 | 7), "{error}");
            assert_eq!(bare.contents(), before);
        }
    }
    let Told { bare, .. } = told();
    for depth in ["1", "2", "3"] {
        let url = format!("file://{}", bare.path().display());
        let clone = Bare::new();
        std::fs::remove_dir_all(clone.path()).unwrap();
        let mut command = git_command(bare.around());
        command
            .args(["clone", "--quiet", "--bare", "--depth", depth, "--branch", "work-queue", &url])
            .arg(clone.path());
        assert!(command.output().unwrap().status.success());
        assert_eq!(read(&clone).unwrap_err().exit(), 3, "depth {depth}");
    }
}

/// Commits that change nothing, or other files alone, stand between versions without harm.
#[test]
fn unchanged_versions_are_passed_over() {
    let bare = Bare::new();
    let mut story = Story::open(&policy());
    let open = version(&bare, &story.ledger(), &[]);
    let same = version(&bare, &story.ledger(), &[&open]);
    story.compact(&same);
    let mut head = version(&bare, &story.ledger(), &[&same]);
    for _ in 0..2 {
        head = version(&bare, &story.ledger(), &[&head]);
        let journal = bare.blob(head.as_bytes());
        let ledger = bare.blob(story.ledger().as_bytes());
        let tree = bare.tree(&[("100644", "journal.json", &journal), ("100644", "work-queue.jsonl", &ledger)]);
        head = bare.commit("work-queue", &tree, &[&head]);
    }
    assert_eq!(read(&bare).unwrap().commit.to_string(), head);
    publish(&bare, "on-top");
    assert_eq!(read(&bare).unwrap().projection.requests().len(), 3);
}

/// Seventy nested checkpoints, with and without commits between, are verified down to the first Policy.
#[test]
fn publication_16_nested_checkpoints_are_verified() {
    const NESTED: usize = 70;
    let bare = Bare::new();
    let mut history = History::new(&bare);
    let mut story = Story::open(&policy());
    let mut sha = history.version(&story.ledger());
    for round in 0..NESTED {
        if round % 3 != 1 {
            story.publish(&control(&format!("control-{round}")));
            sha = history.version(&story.ledger());
        }
        story.compact(&sha);
        sha = history.version(&story.ledger());
    }
    history.send();
    let current = read(&bare).unwrap();
    assert_eq!(current.projection.requests().len(), 1 + NESTED + (NESTED - NESTED / 3));
    publish(&bare, "on-top");
    let world = World::new(bare.transport());
    let again = world.publisher().publish_request(&submit("first"), Some(&policy())).unwrap();
    assert!(matches!(again.outcome, Outcome::AlreadyCommitted { .. }));
    assert!(read(&bare).unwrap().projection.request("on-top").is_some());
}

/// A branch with the known defect at its head: a Deployment after a checkpoint that an older writer put into the
/// checkpoint as well.
struct Aliased {
    bare: Bare,
    /// The version before, and the one before that, which is the checkpoint alone.
    parents: [String; 2],
    /// The ledgers of the version before and of the head, as they should be.
    good: [String; 2],
    damaged: String,
    story: Story,
}

fn aliased() -> Aliased {
    let bare = Bare::new();
    let mut history = History::new(&bare);
    let mut story = Story::open(&deployed_policy());
    story.publish(&submit("second"));
    let prior = history.version(&story.ledger());
    story.compact(&prior);
    let checkpoint = history.version(&story.ledger());
    story.publish(&dispatch("grant"));
    let parent = history.version(&story.ledger());
    let before = story.ledger();
    story.publish(&deployment("deploy", 'f', 'e'));
    let damaged = alias(&story.ledger(), &story.state.deployments());
    assert_eq!(replayed(&damaged).unwrap_err(), "checkpoint_invalid");
    history.version(&damaged);
    history.send();
    let good = [before, story.ledger()];
    Aliased { bare, parents: [parent, checkpoint], good, damaged, story }
}

/// The ledger with another registry in its checkpoint, under the old digest.
fn alias(ledger: &str, deployments: &str) -> String {
    let (root, rest) = ledger.split_once('\n').unwrap();
    let registry: Value = serde_json::from_str(deployments).unwrap();
    changed(root, |line| line["operations"][0]["state"]["deployments"] = registry) + "\n" + rest
}

/// O-166, O-168, O-169: the defect is mended while reading, which writes nothing; the next publication puts the checkpoint as it
/// was made and every request on the branch, as one more commit; later reads verify through the damaged version.
#[test]
fn publication_16_the_aliased_deployment_is_mended() {
    let Aliased { bare, good, damaged, story, .. } = aliased();
    let before = bare.contents();
    let current = read(&bare).unwrap();
    assert!(current.recovered);
    assert_eq!(current.projection.serialise(), story.state.serialise());
    assert_eq!(bare.contents(), before, "reading writes nothing");
    assert_eq!(bare.ledger(), damaged);

    let world = World::new(bare.transport());
    let mut witness = world.publisher();
    assert!(witness.read_present().unwrap().recovered);
    publish(&bare, "after");
    assert!(bare.ledger().starts_with(&good[1]), "the good record and all requests");
    assert_eq!(bare.git(&["rev-list", "--count", "refs/heads/work-queue"]), "5");
    let Ok(Queue::Present(seen)) = witness.read() else { panic!("the branch is extended") };
    assert!(!seen.recovered, "the version that is read now is not damaged");
    assert!(!read(&bare).unwrap().recovered);

    let world = World::new(bare.transport());
    world.publisher().compact(&actor(Role::Administrator), None).unwrap();
    publish(&bare, "last");
    let current = read(&bare).unwrap();
    assert!(!current.recovered);
    assert_eq!(current.projection.deployments(), story.state.deployments());
    for id in ["first", "second", "grant", "deploy", "after", "last"] {
        assert!(current.projection.request(id).is_some(), "{id}");
    }
}

/// O-166: a publisher that had read the version before goes on over the damaged one; a compaction mends as well.
#[test]
fn the_defect_disturbs_no_publisher() {
    let Aliased { bare, parents, good, damaged, .. } = aliased();
    let damaged_head = bare.resolve("refs/heads/work-queue").unwrap();
    bare.git(&["update-ref", "refs/heads/work-queue", &parents[0]]);
    let world = World::new(bare.transport());
    let mut publisher = world.publisher();
    publisher.read_present().unwrap();
    bare.git(&["update-ref", "refs/heads/work-queue", &damaged_head]);
    publisher.publish_request(&control("mine"), None).unwrap();
    assert!(bare.ledger().starts_with(&good[1]));

    bare.git(&["update-ref", "refs/heads/work-queue", &damaged_head]);
    World::new(bare.transport()).publisher().compact(&actor(Role::Administrator), None).unwrap();
    let line: Value = serde_json::from_str(bare.ledger().trim_end()).unwrap();
    let digest = wq_action::protocol::identity::sha256_hex(&[&good[1]]);
    assert_eq!(line["operations"][0]["history_sha256"], digest.as_str(), "of the good chain, not of {}", damaged.len());
    assert!(read(&bare).unwrap().projection.request("deploy").is_some());
}

/// O-167: the recovery takes the direct parent's own, sound checkpoint and accepts what its valid retained requests give;
/// everything else stays refused.
#[test]
fn publication_16_other_damage_stays_refused() {
    let Aliased { bare, parents: [parent, checkpoint], good: [before, good], damaged, story } = aliased();
    let refuse = |ledger: &str, parents: &[&str], what: &str| {
        version(&bare, ledger, parents);
        assert_eq!(refused(&bare), Code::CheckpointInvalid, "{what}");
    };
    let (root, rest) = damaged.split_once('\n').unwrap();
    let state =
        |change: &dyn Fn(&mut Value)| changed(root, |line| change(&mut line["operations"][0]["state"])) + "\n" + rest;
    refuse(&state(&|state| state["grants_paused"] = true.into()), &[&parent], "another member");
    refuse(&state(&|state| drop(state.as_object_mut().unwrap().remove("clocks"))), &[&parent], "a member less");
    refuse(&state(&|state| state["more"] = json!({})), &[&parent], "a member more");
    let receipts = state(&|state| {
        let requests = inflate(state["requests_compressed"].as_str().unwrap(), 1 << 26).unwrap();
        state["requests_compressed"] = deflate(&requests.replace("\"at\":", "\"at\":1")).into();
    });
    refuse(&receipts, &[&parent], "the receipts");
    let time = changed(root, |line| line["at"] = (line["at"].as_i64().unwrap() + 1).into()) + "\n" + rest;
    refuse(&time, &[&parent], "the record around the state");
    let elsewhere = alias(&good, &story.state.deployments().replace(&"e".repeat(40), &"d".repeat(40)));
    refuse(&elsewhere, &[&parent], "another registry than the requests give");
    let absent = state(&|state| drop(state.as_object_mut().unwrap().remove("deployments")));
    refuse(&absent, &[&parent], "no registry");
    refuse(&alias(&before, &story.state.deployments()), &[&checkpoint], "no Deployment among the retained requests");
    refuse(&damaged, &[], "no parent");
    refuse(&damaged, &[&parent, &checkpoint], "two parents");
    let first = version(&bare, &damaged, &[&parent]);
    refuse(&damaged, &[&first], "a damaged parent");
    let mut aside = story.clone();
    aside.state = replayed(&before).unwrap();
    aside.publish(&control("aside"));
    let other = version(&bare, &aside.ledger(), &[&parent]);
    refuse(&damaged, &[&other], "a parent with other requests");
    let empty = bare.commit("work-queue", &bare.tree(&[("100644", "README.md", &bare.blob(b"none\n"))]), &[]);
    refuse(&damaged, &[&empty], "a parent without a ledger");
    version(&bare, &damaged, &[&parent]);
    assert!(read(&bare).unwrap().recovered, "the one that is mended");
}

/// A state of more than 8 MiB and a history of more than 16,384 requests have no checkpoint; nothing is written.
#[test]
fn what_no_checkpoint_can_hold_is_refused() {
    let bare = Bare::new();
    let mut story = Story::open(&policy());
    let payload = format!(r#"{{"task":"{}"}}"#, "x".repeat(14_000));
    for batch in 0..3 {
        let nodes: Vec<_> = (0..200).map(|key| node(&format!("big-{batch}"), &format!("n{key}"), &payload)).collect();
        story.publish(&submission(&format!("big-{batch}"), Role::Producer, &nodes));
        // Cancelled, so that no reserve for their settlement fills the ledger.
        let ids = story.state.works().skip(1 + batch * 200).map(|work| work.work.work_id.as_str());
        let cancelled: Vec<_> =
            ids.map(|id| json!({"kind": "WorkCancellation", "reason": "big", "work_id": id})).collect();
        let parameters = canonical(&json!({"operations": cancelled}).to_string());
        story.publish(&request(&format!("cancel-{batch}"), RequestKind::CancelWork, Role::Administrator, &parameters));
    }
    version(&bare, &story.ledger(), &[]);
    let before = bare.contents();
    let world = World::new(bare.transport());
    let error = world.publisher().compact(&actor(Role::Administrator), None).unwrap_err();
    assert_eq!((error.code(), error.exit()), (Code::ResourceLimit, 3));
    assert_eq!(world.publisher().plan_compaction(&actor(Role::Administrator)).unwrap_err().code(), Code::ResourceLimit);
    assert_eq!(bare.contents(), before);
}

/// The receipts are one array, so a history of more than 16,384 requests has no checkpoint. It replays all the same.
#[test]
fn no_checkpoint_holds_more_requests_than_an_array() {
    let mut story = Story::open(&policy());
    for serial in 1..16_384 {
        story.publish(&control(&format!("c{serial}")));
    }
    let (sha, administrator) = (Revision::new("0".repeat(40)).unwrap(), actor(Role::Administrator));
    let build = |story: &Story| {
        let at = story.state.requests().last().unwrap().at;
        let inputs = CheckpointInputs { prior_git_sha: &sha, actor: &administrator, at };
        story.state.checkpoint(&inputs, &mut Scanner::new(HOST)).map(|built| built.projection.requests().len())
    };
    assert_eq!(build(&story), Ok(16_385));
    story.publish(&control("one-more"));
    assert_eq!(build(&story).unwrap_err().code(), Code::ResourceLimit);
    assert!(replayed(&story.ledger()).is_ok());
}
