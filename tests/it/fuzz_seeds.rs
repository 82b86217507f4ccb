//! The fuzz targets' properties over their committed seeds: what fuzzing once found stays found, on a stable compiler.

#[path = "../../fuzz/properties.rs"]
mod properties;

use std::path::PathBuf;

use serde_json::Value;
use wq_action::engine::checkpoint::CheckpointInputs;
use wq_action::engine::{Projection, replay};
use wq_action::protocol::commit::Commit;
use wq_action::protocol::compressed::inflate;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::LedgerText;
use wq_action::protocol::{At, Revision, Text};

use crate::support::ledger::{fixture, typed};
use crate::support::tell;
use crate::tree;

mod core {
    pub(crate) use wq_action::{engine, protocol};
}

/// Under fuzzing an allocator counts; here the properties alone are checked.
fn bounded(_input: usize, _base: usize, _factor: usize, check: impl FnOnce()) {
    check();
}

fn seeds(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = tree::root().join("fuzz/seeds").join(target);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Every seed of every target, and every seed cut off or damaged in one byte.
#[test]
fn seeds_keep_the_properties() {
    type Property = fn(&[u8]);
    let targets: [(&str, Property, usize); 4] = [
        ("reader", properties::reader, 1),
        ("commit", properties::commit, 7),
        ("replay", properties::ledger, 601),
        ("checkpoint", properties::checkpoint, 97),
    ];
    for (target, property, step) in targets {
        let seeds = seeds(target);
        let mut inputs = 0;
        for (_, seed) in &seeds {
            property(seed);
            for at in (0..seed.len()).step_by(step) {
                property(&seed[..at]);
                let mut damaged = seed.clone();
                damaged[at] ^= 1 << (at % 7);
                property(&damaged);
                inputs += 2;
            }
        }
        tell!("{target}: {} seeds and {inputs} damaged ones keep their properties", seeds.len());
    }
}

/// Seeds are small, and a ledger seed is accepted once its fingerprints are right.
#[test]
fn seeds_are_small_and_deep() {
    for target in ["reader", "commit", "replay", "checkpoint"] {
        let seeds = seeds(target);
        let bytes: usize = seeds.iter().map(|(_, seed)| seed.len()).sum();
        assert!(!seeds.is_empty() && bytes <= 24 * 1024, "{target}: {bytes} bytes");
    }
    for (path, seed) in seeds("replay") {
        let text = properties::mended(std::str::from_utf8(&seed).unwrap());
        let framed = LedgerText::new(text.into_bytes()).unwrap();
        let refusal = replay(&framed, &mut Scanner::new(properties::HOST)).err();
        assert_eq!(refusal.map(|fault| fault.to_string()), None, "{}", path.display());
    }
}

/// The checkpoint of one of the project's ledgers with its receipts uncompressed, followed by nothing or by another
/// commit. `WQ_BLESS=1` writes the seed anew.
fn open_checkpoint() -> String {
    let text = std::fs::read(fixture("lifecycle.jsonl")).unwrap();
    let mut scanner = Scanner::new(properties::HOST);
    let state = replay(&LedgerText::new(text).unwrap(), &mut scanner).unwrap();
    let inputs = CheckpointInputs {
        prior_git_sha: &Revision::new("a".repeat(40)).unwrap(),
        actor: &typed(r#"{"role":"administrator","principal":"1001","repository":"owner/repo"}"#),
        at: At::new(9_000_000).unwrap(),
    };
    let built = state.checkpoint(&inputs, &mut scanner).unwrap();
    let mut commit: Value = serde_json::from_str(built.commit.as_str()).unwrap();
    let operation = &mut commit["operations"][0];
    let packed = operation["state"].as_object_mut().unwrap().remove("requests_compressed").unwrap();
    let receipts = inflate(packed.as_str().unwrap(), 1 << 20).unwrap();
    operation["state"]["requests"] = serde_json::from_str(&receipts).unwrap();
    operation["state_sha256"] = "e".repeat(64).into();
    commit["request"]["parameters"]["state_sha256"] = "e".repeat(64).into();
    commit["request"]["fingerprint"] = "f".repeat(64).into();
    commit.to_string()
}

/// The open checkpoint seals to one that restores, and is as the engine builds it now.
#[test]
fn the_checkpoint_seed_restores() {
    let open = open_checkpoint();
    let path = tree::root().join("fuzz/seeds/checkpoint/lifecycle");
    if std::env::var_os("WQ_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &open).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), open);
    let sealed = properties::seal(&open).unwrap();
    let mut scanner = Scanner::new(properties::HOST);
    let commit = Commit::read(&mut scanner, &Text::from(sealed)).unwrap();
    Projection::restore(commit, &mut scanner).unwrap();
}
