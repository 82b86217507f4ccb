//! Checkpoints: the published digests, compaction at every prefix, nesting, and tampering.

use serde_json::Value;
use wq_action::engine::Projection;
use wq_action::engine::checkpoint::{BuiltCheckpoint, CheckpointInputs};
use wq_action::protocol::actor::Actor;
use wq_action::protocol::commit::Commit;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::{At, Code, Fault, Revision, Text};

use super::corpus_replay::first_difference;
use crate::support::corpus::{CorpusCase, load, load_corpus};
use crate::support::ledger::typed;

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
fn compaction_at_every_prefix_changes_nothing() {
    let mut wrong = Vec::new();
    let (mut compared, mut refused) = (0, 0);
    for case in load_corpus() {
        let (mut scanner, lines) = commits(&case);
        let mut states = vec![Projection::empty()];
        for line in &lines {
            let last = states.last().unwrap().clone();
            states.push(follow(last, &mut scanner, line).unwrap());
        }
        let expected = without_compaction(states.last().unwrap(), u64::MAX);
        // Long ledgers would be quadratic: their prefixes are taken a few apart.
        let step = lines.len().div_ceil(60);
        for cut in (1..=lines.len()).step_by(step) {
            let actor = serde_json::json!({
                "principal": "77", "repository": states[cut].repository().unwrap().as_str(), "role": "administrator"
            });
            let at = states[cut].requests().last().unwrap().at.get();
            let built = match build(&states[cut], &mut scanner, &"b".repeat(40), &actor, at) {
                Ok(built) => built,
                Err(fault) => {
                    assert_eq!(fault.code(), Code::CheckpointInvalid, "{} at {cut}: {fault}", case.name);
                    assert!(
                        case.expect["checkpoint"]["error"].is_string() || refusable(&case),
                        "{} {fault}",
                        case.name
                    );
                    refused += 1;
                    continue;
                }
            };
            let mut state = built.projection;
            let mut failed = None;
            for (index, line) in lines[cut..].iter().enumerate() {
                let mut commit: Value = serde_json::from_str(line.as_str()).unwrap();
                if index == 0 {
                    commit["previous"] = state.tip().unwrap().as_str().into();
                }
                match follow(state.clone(), &mut scanner, &Text::from(commit.to_string())) {
                    Ok(next) => state = next,
                    Err(fault) => {
                        failed = Some(format!("{} cut {cut} line {}: {fault}", case.name, cut + index + 1));
                        break;
                    }
                }
            }
            if let Some(failed) = failed {
                wrong.push(failed);
                continue;
            }
            compared += 1;
            let replaced = states[cut].requests().len() as u64;
            let mut actual = without_compaction(&state, replaced);
            if cut == lines.len() {
                actual["tip"] = expected["tip"].clone();
            }
            if let Some(difference) = first_difference("", &actual, &expected) {
                wrong.push(format!("{} cut {cut}: {difference}", case.name));
            }
        }
    }
    crate::support::tell!("{compared} compactions compared, {refused} states that the format cannot keep");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(30)].join("\n"));
}

/// True for a ledger that passes through a state which the format cannot keep, by what its notes say.
fn refusable(case: &CorpusCase) -> bool {
    case.features.iter().any(|feature| feature.contains("mixed") || feature.contains("contract"))
}
