//! Checkpoints: the published digests, compaction at every prefix, nesting, and tampering.

use serde_json::Value;
use wq_action::engine::checkpoint::{BuiltCheckpoint, CheckpointInputs};
use wq_action::engine::state::DispatchState;
use wq_action::engine::{Decision, Projection};
use wq_action::protocol::actor::Actor;
use wq_action::protocol::commit::{Commit, FrozenRequest};
use wq_action::protocol::compressed::{deflate, inflate};
use wq_action::protocol::json::{Scanner, Writer};
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{At, Code, Fault, RequestId, Revision, Text};

use super::corpus_replay::first_difference;
use crate::support::corpus::{CorpusCase, load, load_corpus};
use crate::support::ledger::{fixture, typed};

/// The commits of a corpus ledger, in order.
fn commits(case: &CorpusCase) -> (Scanner, Vec<Text>) {
    let text = String::from_utf8(case.text.clone()).unwrap();
    let lines = text.lines().map(Text::from).collect();
    (Scanner::new(case.expect["host"].as_str().unwrap()), lines)
}

fn follow(state: Projection, scanner: &mut Scanner, line: &Text) -> Result<Projection, Fault> {
    let commit = Commit::read(scanner, line)?;
    state.follow(commit, scanner)
}

fn build(
    state: &Projection,
    scanner: &mut Scanner,
    sha: &str,
    actor: &Value,
    at: i64,
) -> Result<BuiltCheckpoint, Fault> {
    let inputs = CheckpointInputs {
        prior_git_sha: &typed::<Revision>(&Value::from(sha).to_string()),
        actor: &typed::<Actor>(&actor.to_string()),
        at: At::new(at).unwrap(),
    };
    state.checkpoint(&inputs, scanner)
}

/// The logical snapshot of every prefix of every ledger digests as published, and so does the checkpoint of the whole.
#[test]
fn snapshots_and_checkpoints_digest_as_published() {
    let mut wrong = Vec::new();
    let (mut snapshots, mut checkpoints) = (0, 0);
    for case in load_corpus() {
        let (mut scanner, lines) = commits(&case);
        let digests = case.expect["prefix_snapshot_sha256"].as_array();
        let mut state = Projection::empty();
        for (index, line) in lines.iter().enumerate() {
            state = match follow(state, &mut scanner, line) {
                Ok(next) => next,
                Err(fault) => {
                    wrong.push(format!("{} line {}: {fault}", case.name, index + 1));
                    break;
                }
            };
            let last = index + 1 == lines.len();
            let expected = match digests {
                Some(digests) => &digests[index],
                None if last => &case.expect["snapshot_sha256"],
                None => continue,
            };
            snapshots += 1;
            let snapshot = state.snapshot(&mut scanner).unwrap();
            if snapshot.digest().as_str() != *expected {
                wrong.push(format!("{} snapshot of prefix {}", case.name, index + 1));
                break;
            }
            if last {
                checkpoints += 1;
                check_built(&case, &state, &mut scanner, &mut wrong);
            }
        }
    }
    crate::support::tell!("{snapshots} snapshots and {checkpoints} checkpoints compared");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn check_built(case: &CorpusCase, state: &Projection, scanner: &mut Scanner, wrong: &mut Vec<String>) {
    let expect = &case.expect["checkpoint"];
    let sha = expect["prior_git_sha"].as_str().unwrap();
    let built = build(state, scanner, sha, &expect["actor"], expect["at"].as_i64().unwrap());
    match (built, expect["error"].as_str()) {
        (Err(fault), Some(code)) if fault.code().as_str() == code => {}
        (Ok(built), None) => {
            let commit: Value = serde_json::from_str(built.commit.as_str()).unwrap();
            let parameters = &commit["request"]["parameters"];
            for (name, actual) in [
                ("id", &commit["id"]),
                ("request_id", &commit["request"]["id"]),
                ("fingerprint", &commit["request"]["fingerprint"]),
                ("history_sha256", &parameters["history_sha256"]),
                ("state_sha256", &parameters["state_sha256"]),
            ] {
                if *actual != expect[name] {
                    wrong.push(format!("{} checkpoint: {name} is {actual}, not {}", case.name, expect[name]));
                }
            }
        }
        (built, expected) => {
            wrong.push(format!(
                "{} checkpoint: {:?}, not {expected:?}",
                case.name,
                built.map(|built| built.state_sha256)
            ));
        }
    }
}

/// The public checkpoint fixture: both checkpoints replay, and building them again gives the same digests and ids.
#[test]
fn the_checkpoint_fixture_holds() {
    let Some(fixture) = load("checkpoint.json") else { return };
    let sha = fixture["prior_git_sha"].as_str().unwrap();
    let mut scanner = Scanner::new("github.com");
    let mut state = Projection::empty();
    for (index, commit) in fixture["history"].as_array().unwrap().iter().enumerate() {
        state = follow(state, &mut scanner, &Text::from(commit.to_string())).unwrap();
        let published = match index {
            0 => &fixture["genesis_checkpoint"],
            2 => &fixture["checkpoint"],
            _ => continue,
        };
        let published = &published[0];
        let at = published["at"].as_i64().unwrap();
        let built = build(&state, &mut scanner, sha, &published["actor"], at).unwrap();
        let own: Value = serde_json::from_str(built.commit.as_str()).unwrap();
        for pointer in ["/id", "/request", "/actor", "/policy_epoch", "/at", "/previous"] {
            assert_eq!(own.pointer(pointer), published.pointer(pointer), "{pointer}");
        }
        let theirs = follow(Projection::empty(), &mut scanner, &Text::from(published.to_string())).unwrap();
        // Another compressor, another length.
        let [own, theirs] = [&built.projection, &theirs].map(|state| {
            let mut snapshot: Value = serde_json::from_str(&state.snapshot(&mut scanner).unwrap().text()).unwrap();
            snapshot.as_object_mut().unwrap().remove("ledger_bytes");
            snapshot
        });
        assert_eq!(own, theirs);
    }
}

/// The serialised projection as it would be without compaction: receipts become nothing, and ordinals after the
/// checkpoint count one less.
fn without_compaction(state: &Projection, replaced: u64) -> Value {
    let mut value: Value = serde_json::from_str(&state.serialise()).unwrap();
    let members = value.as_object_mut().unwrap();
    members.remove("requests");
    members.remove("ledger_bytes");
    members["stats"].as_object_mut().unwrap().remove("transactions");
    for work in members["works"].as_object_mut().unwrap().values_mut() {
        let ordinal = work["position"]["commit"].as_u64().unwrap();
        if ordinal > replaced {
            work["position"]["commit"] = (ordinal - 1).into();
        }
    }
    value
}

/// Compaction at every prefix of every ledger, followed by the rest, ends in the projection of the ledger as it was.
#[test]
fn compaction_at_every_prefix_of_short_ledgers_changes_nothing() {
    check_compaction(|name| !name.starts_with("sL"));
}

/// As above, for one half of the long ledgers.
#[test]
fn compaction_at_every_prefix_of_long_ledgers_changes_nothing() {
    check_compaction(|name| ["sL1", "sL2", "sL3"].contains(&name));
}

/// As above, for the other half.
#[test]
fn compaction_at_every_prefix_of_the_other_long_ledgers_changes_nothing() {
    check_compaction(|name| ["sL4", "sL5", "sL6"].contains(&name));
}

/// Every prefix, or every so many of them for time (`WQ_CUTS`), and always those at both ends.
fn step() -> usize {
    std::env::var("WQ_CUTS").map_or(1, |step| step.parse().ok().filter(|step| *step > 0).expect("WQ_CUTS is a number"))
}

/// How a ledger went on after it was compacted.
enum After {
    Same,
    /// A checkpoint of a young chain is longer than the chain; then the ledger's byte budget ends sooner.
    OutOfBytes,
    Wrong(String),
}

fn check_compaction(chosen: impl Fn(&str) -> bool) {
    let mut wrong = Vec::new();
    let (mut compared, mut refused, mut out_of_bytes) = (0, 0, 0);
    let step = step();
    for case in load_corpus().into_iter().filter(|case| chosen(&case.name)) {
        let (mut scanner, lines) = commits(&case);
        let commits: Vec<Commit> = lines.iter().map(|line| Commit::read(&mut scanner, line).unwrap()).collect();
        let mut states = vec![Projection::empty()];
        for commit in &commits {
            let last = states.last().unwrap().clone();
            states.push(last.follow(commit.clone(), &mut scanner).unwrap());
        }
        let expected = without_compaction(states.last().unwrap(), u64::MAX);
        for cut in (1..=commits.len()).filter(|cut| cut % step == 0 || *cut < 4 || cut + 4 > commits.len()) {
            let state = &states[cut];
            let at = state.requests().last().unwrap().at.get();
            match build(state, &mut scanner, &"b".repeat(40), &administrator(state), at) {
                Ok(built) => match continue_after(built.projection, &commits, cut, &states, &expected) {
                    After::Same => compared += 1,
                    After::OutOfBytes => out_of_bytes += 1,
                    After::Wrong(what) => wrong.push(format!("{} cut {cut}: {what}", case.name)),
                },
                Err(fault) => {
                    assert_eq!(fault.code(), Code::CheckpointInvalid, "{} at {cut}: {fault}", case.name);
                    assert!(cannot_be_kept(state), "{} at {cut}: {fault}", case.name);
                    refused += 1;
                }
            }
        }
    }
    crate::support::tell!(
        "{compared} compactions end in the same projection, {out_of_bytes} out of bytes, {refused} states that the \
         format cannot keep"
    );
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(30)].join("\n"));
}

fn continue_after(
    mut state: Projection,
    commits: &[Commit],
    cut: usize,
    states: &[Projection],
    expected: &Value,
) -> After {
    let replaced = states[cut].requests().len() as u64;
    for (index, commit) in commits.iter().enumerate().skip(cut) {
        let mut commit = commit.clone();
        commit.previous = state.tip().cloned();
        let bytes = state.ledger_bytes();
        match state.apply(commit) {
            Ok(next) => state = next,
            Err(fault) if fault.code() == Code::LedgerLimit && bytes > states[index].ledger_bytes() => {
                return After::OutOfBytes;
            }
            Err(fault) => return After::Wrong(format!("line {}: {fault}", index + 1)),
        }
    }
    let mut actual = without_compaction(&state, replaced);
    if cut == commits.len() {
        actual["tip"] = expected["tip"].clone();
    }
    first_difference("", &actual, expected).map_or(After::Same, After::Wrong)
}

/// The two states that the format cannot keep (engine.md 3.12.5): a reservation of a historical Policy whose route has a
/// contract, and a submission that repeated a node among new ones.
fn cannot_be_kept(state: &Projection) -> bool {
    let aw = state.installed().unwrap().policy.aw;
    let routed = |dispatch: &DispatchState| !dispatch.released && dispatch.profile.logical_contract.is_some();
    let mixed = state.requests().enumerate().any(|(ordinal, accepted)| {
        let Some(text) = accepted.source.commit() else { return false };
        let commit: Value = serde_json::from_str(text.as_str()).unwrap();
        let operations = commit["operations"].as_array().unwrap();
        let listed = operations.iter().filter(|operation| operation["kind"] == "Work").count();
        listed != state.works().filter(|work| work.position.commit as usize == ordinal).count()
    });
    mixed || (!aw && state.dispatches().any(routed))
}

/// A state with some of everything, from the project's own ledgers.
fn rich_state(scanner: &mut Scanner) -> Projection {
    let text = std::fs::read_to_string(fixture("lifecycle.jsonl")).unwrap();
    text.lines().fold(Projection::empty(), |state, line| follow(state, scanner, &Text::from(line)).unwrap())
}

fn administrator(state: &Projection) -> Value {
    serde_json::json!({"principal": "77", "repository": state.repository().unwrap().as_str(), "role": "administrator"})
}

/// Seventy checkpoints, each the root of the next one's history, with a control between every two: positions, receipts,
/// explanations and answers stay, and each checkpoint keeps one receipt more for itself.
#[test]
fn seventy_nested_checkpoints_keep_everything() {
    let mut scanner = Scanner::new("github.com");
    let mut state = rich_state(&mut scanner);
    let first = state.clone();
    let actor = administrator(&state);
    for round in 0..70 {
        let at = state.requests().last().unwrap().at.get();
        let built = build(&state, &mut scanner, &format!("{round:040x}"), &actor, at).unwrap();
        assert_eq!(built.projection.requests().len(), state.requests().len() + 1);
        assert_eq!(built.projection.replaced(), state.requests().len());
        // The checkpoint read back from its text is the one that was built.
        let read = follow(Projection::empty(), &mut scanner, built.commit.text()).unwrap();
        assert_eq!(read.serialise(), built.projection.serialise());
        state = control(built.projection, &mut scanner, round, &actor);
    }
    for before in first.requests() {
        let after = state.request(before.request_id.as_str()).unwrap();
        assert_eq!((&after.fingerprint, &after.commit_id), (&before.fingerprint, &before.commit_id));
        assert!(after.source.commit().is_none(), "only a receipt is left");
    }
    let mut replaced: Value = serde_json::from_str(&state.serialise()).unwrap();
    let mut whole: Value = serde_json::from_str(&first.serialise()).unwrap();
    for value in [&mut replaced, &mut whole] {
        for member in ["requests", "ledger_bytes", "stats", "tip", "grants_paused"] {
            value.as_object_mut().unwrap().remove(member);
        }
    }
    assert_eq!(first_difference("", &replaced, &whole), None);
    for (before, after) in first.claims().zip(state.claims()) {
        let told = |state: &Projection, claim| {
            let mut writer = Writer::new();
            state.write_claim_explanation(claim, &mut writer);
            let mut value: Value = serde_json::from_str(&writer.finish()).unwrap();
            value["tip"].take();
            value
        };
        assert_eq!(told(&first, before), told(&state, after));
    }
}

/// Appends a control, so that there is something to compact.
fn control(state: Projection, scanner: &mut Scanner, round: usize, actor: &Value) -> Projection {
    let operation = serde_json::json!({
        "kind": "Control", "control": "grants_paused", "value": round.is_multiple_of(2), "reason": "round"
    });
    let parameters = serde_json::json!({ "operations": [operation] }).to_string();
    let id = RequestId::new(format!("control-{round}")).unwrap();
    let request = FrozenRequest::new(id, RequestKind::Control, typed(&actor.to_string()), &parameters).unwrap();
    let at = state.requests().last().unwrap().at;
    match state.decide(scanner, &request, at, &[]).unwrap() {
        Decision::Publish(generated) => generated.next,
        other => panic!("{other:?}"),
    }
}

/// Every value of a document, as a pointer to it.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(members) => {
            members.iter().map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Value::Array(items) => items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (key, child) in children {
        let place = format!("{at}/{key}");
        places(child, &place, found);
        found.push(place);
    }
}

/// The document with one value changed, and with one value taken out.
fn damages(document: &Value, place: &str) -> [Value; 2] {
    let mut changed = document.clone();
    let value = changed.pointer_mut(place).unwrap();
    *value = match value.take() {
        Value::Bool(value) => Value::Bool(!value),
        Value::Number(number) => (number.as_i64().unwrap() + 1).into(),
        Value::String(text) => format!("{text}0").into(),
        Value::Null => "0".into(),
        Value::Array(mut items) => {
            items.push(0.into());
            items.into()
        }
        Value::Object(mut members) => {
            members.insert("added".to_owned(), 0.into());
            members.into()
        }
    };
    let mut removed = document.clone();
    let (parent, key) = place.rsplit_once('/').unwrap();
    match removed.pointer_mut(parent).unwrap() {
        Value::Object(members) => drop(members.remove(&key.replace("~1", "/").replace("~0", "~"))),
        Value::Array(items) => drop(items.remove(key.parse().unwrap())),
        _ => {}
    }
    [changed, removed]
}

/// Every single value of a checkpoint, the inflated receipts included, changed or taken out under the old digests: each
/// is refused. The ids and the time of the commit are no part of the state; Git's history fixes those.
#[test]
fn every_single_change_to_a_checkpoint_is_refused() {
    let mut scanner = Scanner::new("github.com");
    let state = rich_state(&mut scanner);
    let at = state.requests().last().unwrap().at.get();
    let built = build(&state, &mut scanner, &"c".repeat(40), &administrator(&state), at).unwrap();
    let commit: Value = serde_json::from_str(built.commit.as_str()).unwrap();
    let mut tried = 0;
    let mut accepted = Vec::new();
    let mut attempt = |scanner: &mut Scanner, place: &str, damaged: &Value| {
        tried += 1;
        if follow(Projection::empty(), scanner, &Text::from(damaged.to_string())).is_ok() {
            accepted.push(place.to_owned());
        }
    };
    let mut found = Vec::new();
    places(&commit, "", &mut found);
    for place in &found {
        for damaged in damages(&commit, place) {
            attempt(&mut scanner, place, &damaged);
        }
    }
    let packed = "/operations/0/state/requests_compressed";
    let receipts = inflate(commit.pointer(packed).unwrap().as_str().unwrap(), 1 << 26).unwrap();
    let receipts: Value = serde_json::from_str(&receipts).unwrap();
    let mut found = Vec::new();
    places(&receipts, "", &mut found);
    for place in &found {
        for damaged in damages(&receipts, place) {
            let mut whole = commit.clone();
            *whole.pointer_mut(packed).unwrap() = deflate(&damaged.to_string()).into();
            attempt(&mut scanner, &format!("receipts{place}"), &whole);
        }
    }
    crate::support::tell!("{tried} damaged checkpoints");
    assert!(tried > 1000, "{tried}");
    accepted.dedup();
    assert_eq!(accepted, ["/at", "/id", "/request/id"]);
}
