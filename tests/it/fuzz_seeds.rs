//! The fuzz targets' properties over their committed seeds: what fuzzing once found stays found, on a stable compiler.

#[path = "../../fuzz/properties.rs"]
mod properties;

use std::path::PathBuf;

use wq_action::engine::replay;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::LedgerText;

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
    let targets: [(&str, fn(&[u8]), usize); 3] =
        [("reader", properties::reader, 1), ("commit", properties::commit, 7), ("replay", properties::ledger, 601)];
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
    for target in ["reader", "commit", "replay"] {
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
