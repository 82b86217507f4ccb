//! `wq replay --run-id`: the snapshot that a run has left.

use serde_json::{Value, json};

use super::Desk;
use crate::support::github::{ADMIN, Endpoint, NewRun, OCTO_WIDGETS, Packed, READER, zip};

const NAME: &str = "work-queue.snapshot.json";
const MIB: usize = 1024 * 1024;

/// A queue of one Work, and a run of the dispatcher.
fn prepared() -> (Desk, u64) {
    let desk = Desk::with_work(&["alpha"]);
    let run = desk.github.new_run(&NewRun {
        repository: OCTO_WIDGETS,
        workflow: "dispatcher.lock.yml",
        event: "workflow_dispatch",
        reference: "main",
        actor: desk.github.account_id("ada"),
        title: None,
    });
    (desk, run)
}

/// The snapshot that an attempt of a run of the dispatcher captures.
fn captured(desk: &Desk, run: u64, attempt: u64) -> Value {
    json!({"version": 3, "sha": desk.head(), "transactionLog": desk.bare.ledger(), "worker": null,
        "captured_at": 1_900_000_000_000_i64, "role": "dispatcher",
        "origin": {"role": "dispatcher", "principal": "1", "repository": OCTO_WIDGETS,
            "workflow": ".github/workflows/dispatcher.lock.yml", "run_id": run.to_string(), "run_attempt": attempt}})
}

fn packed(snapshot: &Value) -> Vec<u8> {
    zip(&[Packed::new("aw_info.json", b"{}"), Packed::new(NAME, format!("{snapshot}\n").as_bytes())])
}

fn replay(desk: &Desk, run: u64, more: &[&str]) -> crate::support::cli::Ran {
    let run = run.to_string();
    desk.with(READER, &[&["replay", "--run-id", &run], more].concat())
}

/// O-333, O-334, O-335, O-340, O-341: of the artifacts that the run still has, those of activations are looked through for the
/// snapshot of repository, workflow, run and current attempt; it is replayed for the moment of its capture, and shown by
/// metadata and counts. O-339, O-342: nothing is written anywhere, and what is asked of the host is the run and its artifacts
/// alone; the artifact's storage gets no token.
#[test]
fn a_run_is_replayed_from_its_artifact() {
    let (desk, run) = prepared();
    let own = captured(&desk, run, 1);
    let mut expired = own.clone();
    expired["captured_at"] = json!(1);
    let gone = desk.github.upload(run, "activation", packed(&expired));
    desk.github.change_artifact(gone, |artifact| artifact.expired = true);
    for n in 0..120 {
        desk.github.upload(run, &format!("agent-{n}"), Vec::new());
    }
    desk.github.upload(run, "called-activation", zip(&[Packed::new("prompt.txt", b"hello")]));
    let mut foreign = own.clone();
    foreign["origin"]["run_id"] = json!("7");
    desk.github.upload(run, "other-activation", packed(&foreign));
    let id = desk.github.upload(run, "activation", packed(&own));
    desk.github.upload(run, "agent", b"no archive at all".to_vec());

    let before = (desk.head(), desk.writes());
    let told = replay(&desk, run, &["--pool", "default", "--max-claims", "5", "--max-dispatches", "5"]).json(0);
    let ledger = desk.ledger();
    for (name, value) in [
        ("status", json!("snapshot_replay")),
        (
            "source",
            json!({"kind": "artifact", "run_id": run.to_string(), "run_attempt": 1, "artifact_id": id.to_string(),
                "artifact_name": "activation"}),
        ),
        ("role", json!("dispatcher")),
        ("repository", json!(OCTO_WIDGETS)),
        ("workflow", json!(".github/workflows/dispatcher.lock.yml")),
        ("sha", json!(desk.head())),
        ("policy_installed", json!(true)),
        ("captured_at", json!(1_900_000_000_000_i64)),
        ("commit_count", json!(ledger.len())),
        ("tip", ledger.last().unwrap()["id"].clone()),
        ("grants_paused", json!(false)),
    ] {
        assert_eq!(told[name], value, "{name}");
    }
    assert_eq!((&told["stats"]["work"], &told["stats"]["available"]), (&json!(1), &json!(1)));
    let prediction = &told["prediction"];
    assert_eq!((&prediction["claims"], &prediction["dispatches"]), (&json!(1), &json!(1)));
    assert_eq!((&prediction["at"], &prediction["status"]), (&told["captured_at"], &json!("snapshot_prediction")));
    assert!(!told.to_string().contains("\"task\""), "a payload is shown");
    assert_eq!((desk.head(), desk.writes()), before);
    assert_eq!(desk.github.downloads(), [false; 3]);
    let asked = [
        Endpoint::Repository,
        Endpoint::Run,
        Endpoint::Artifacts,
        Endpoint::ArtifactZip,
        Endpoint::GitPush,
        Endpoint::GitFetch,
    ];
    let seen = desk.github.log();
    assert!(seen.iter().all(|call| asked.contains(&call.endpoint)));
    assert_eq!(desk.calls(&[Endpoint::Artifacts]), 2, "both pages");
    let text = desk.text(&["replay", "--run-id", &run.to_string()]);
    assert!(
        text.contains("1 Work: 1 available") && text.contains("It proves no credential, no launch and no completion.")
    );
}

/// O-336: no snapshot of the current attempt, several, and a defective candidate each are an error of their own; a defective one
/// is an error beside a good one too.
#[test]
fn ambiguity_is_refused() {
    let (desk, run) = prepared();
    assert_eq!(replay(&desk, run, &[]).error(2), "snapshot_missing");
    let first = desk.github.upload(run, "activation", packed(&captured(&desk, run, 1)));
    replay(&desk, run, &[]).json(0);
    let second = desk.github.upload(run, "called-activation", packed(&captured(&desk, run, 1)));
    assert_eq!(replay(&desk, run, &[]).error(3), "snapshot_ambiguous");
    let expire = |id: u64| desk.github.change_artifact(id, |artifact| artifact.expired = true);
    expire(second);
    let mut defective = captured(&desk, run, 1);
    defective["origin"]["run_id"] = json!("7");
    let cases: [(Vec<u8>, &str); 8] = [
        (packed(&json!({"version": 2})), "work_queue_snapshot_invalid"),
        (b"PK no archive".to_vec(), "codec_invalid"),
        (zip(&[Packed { mode: 0o120_777, ..Packed::new(NAME, b"/etc/passwd") }]), "codec_invalid"),
        (zip(&[Packed::new(&format!("../{NAME}"), b"{}")]), "codec_invalid"),
        (zip(&[Packed::new(&format!("/{NAME}"), b"{}")]), "codec_invalid"),
        (zip(&[Packed::new(&format!("a\\..\\x/{NAME}"), b"{}")]), "codec_invalid"),
        (zip(&[Packed { mode: 0o040_755, ..Packed::new(&format!("a/{NAME}"), b"") }]), "codec_invalid"),
        (
            {
                defective["transactionLog"] = json!(desk.bare.ledger().replacen("task", "tusk", 1));
                packed(&defective)
            },
            "request_invalid",
        ),
    ];
    for (archive, code) in cases {
        let bad = desk.github.upload(run, "activation", archive);
        assert_eq!(replay(&desk, run, &[]).error(3), code);
        expire(bad);
    }
    let two = zip(&[
        Packed::new(NAME, captured(&desk, run, 1).to_string().as_bytes()),
        Packed {
            deflated: false,
            ..Packed::new(&format!("copy/{NAME}"), captured(&desk, run, 1).to_string().as_bytes())
        },
    ]);
    expire(first);
    let both = desk.github.upload(run, "activation", two);
    assert_eq!(replay(&desk, run, &[]).error(3), "snapshot_ambiguous");
    expire(both);
    // A rerun has a snapshot of its own, or none; the first attempt's is not taken for it.
    desk.github.upload(run, "activation", packed(&captured(&desk, run, 1)));
    replay(&desk, run, &[]).json(0);
    desk.github.complete_run(run, "failure");
    desk.github.rerun(run, desk.github.account_id("ada"));
    assert_eq!(replay(&desk, run, &[]).error(2), "snapshot_missing");
    desk.github.upload(run, "activation", packed(&captured(&desk, run, 2)));
    assert_eq!(replay(&desk, run, &[]).json(0)["source"]["run_attempt"], 2);
    assert_eq!(replay(&desk, 1, &[]).error(4), "api_not_found");
    assert_eq!(desk.with(ADMIN, &["replay", "--run-id", "x"]).code, 2);
}

/// O-337: all downloads together stay within 162 MiB, by what the listing says and by what arrives, and all snapshots together
/// within another 162 MiB, by what the archives say and by what they hold.
#[test]
fn downloads_and_reads_are_bounded() {
    let (desk, run) = prepared();
    let over = |desk: &Desk| assert_eq!(replay(desk, run, &[]).error(3), "resource_limit");
    let expire = |id: u64| desk.github.change_artifact(id, |artifact| artifact.expired = true);
    let big = desk.github.upload(run, "activation", packed(&captured(&desk, run, 1)));
    desk.github.change_artifact(big, |artifact| artifact.said = Some(162 * MIB as u64 + 1));
    over(&desk);
    assert_eq!(desk.github.downloads().len(), 0);
    // What arrives is longer than what was said.
    desk.github.change_artifact(big, |artifact| {
        artifact.archive = vec![0; 162 * MIB + 1].into();
        artifact.said = Some(10);
    });
    over(&desk);
    // Each fits, both do not.
    let half: std::sync::Arc<[u8]> =
        zip(&[Packed { deflated: false, ..Packed::new("filler", &vec![0; 82 * MIB]) }]).into();
    desk.github.change_artifact(big, |artifact| {
        artifact.archive = half.clone();
        artifact.said = None;
    });
    let second = desk.github.upload(run, "more-activation", Vec::new());
    desk.github.change_artifact(second, |artifact| artifact.archive = half);
    over(&desk);
    expire(big);
    expire(second);
    // A small archive of a huge file, by its own word and against it.
    let huge = zip(&[Packed::new(NAME, &vec![b' '; 162 * MIB + 1])]);
    assert!(huge.len() < 2 * MIB);
    let bomb = desk.github.upload(run, "activation", huge.clone());
    over(&desk);
    let mut lying = huge;
    let at = lying.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
    lying[at + 24..at + 28].copy_from_slice(&10_u32.to_le_bytes());
    desk.github.change_artifact(bomb, |artifact| artifact.archive = lying.into());
    assert_eq!(replay(&desk, run, &[]).error(3), "codec_invalid");
}
