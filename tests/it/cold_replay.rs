//! Replay on several threads gives what replay on one gives.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use wq_action::engine::replay;
use wq_action::ledger::cold;
use wq_action::ledger::extension::extend;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::{LedgerFault, LedgerText};

use crate::support::corpus::load_corpus;
use crate::support::ledger::HOST;
use generator::{Shape, ledger};

#[allow(dead_code, reason = "benches use the rest")]
#[path = "../../benches/support/generator.rs"]
mod generator;

/// State and tip, or the refusal with its place.
fn outcome(bytes: &[u8], threads: Option<usize>) -> Result<String, LedgerFault> {
    let text = LedgerText::new(bytes.to_vec())?;
    let mut scanner = Scanner::new(HOST);
    let state = match threads {
        Some(threads) => cold::replay_with(&text, &mut scanner, threads)?,
        None => replay(&text, &mut scanner)?,
    };
    Ok(state.serialise())
}

fn agree(bytes: &[u8]) {
    let expected = outcome(bytes, None);
    for threads in [1, 2, 3, 4, 9] {
        let found = outcome(bytes, Some(threads));
        assert!(found == expected, "{threads} threads: {:?} instead of {:?}", found.err(), expected.err());
    }
}

/// Every ledger of the corpus and a large one, with several times more runs than may lie ahead.
#[test]
fn threads_change_no_projection() {
    for case in load_corpus() {
        agree(&case.text);
    }
    let large = ledger(Shape::default(), 3 << 20);
    agree(large.as_bytes());
    // Some lines of more than a mebibyte, and one that is not canonical.
    let long = ledger(Shape { nodes: 64, payload: 12_000, controls: 200, ..Shape::default() }, 6 << 20);
    assert!(long.lines().filter(|line| line.len() > 1 << 20).count() > 2);
    agree(long.as_bytes());
    agree(large.replacen(r#""version":3}"#, r#""version":3 }"#, 9).as_bytes());
    let text = LedgerText::new(large.into_bytes()).unwrap();
    let state = cold::replay(&text, &mut Scanner::new(HOST)).unwrap();
    assert_eq!(state.serialise(), replay(&text, &mut Scanner::new(HOST)).unwrap().serialise());
}

/// One damage to a ledger of a few hundred lines.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// A byte becomes another.
    Byte(usize, u8),
    /// The file ends early.
    Cut(usize),
    /// Two lines change places.
    Swap(usize, usize),
    /// A line is missing.
    Drop(usize),
    /// A line comes twice.
    Repeat(usize),
}

fn damaged(text: &str, damage: Damage) -> Vec<u8> {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let count = lines.len();
    match damage {
        Damage::Byte(at, byte) => {
            let mut bytes = text.as_bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            return bytes;
        }
        Damage::Cut(at) => return text.as_bytes()[..at % text.len()].to_vec(),
        Damage::Swap(a, b) => lines.swap(a % count, b % count),
        Damage::Drop(at) => drop(lines.remove(at % count)),
        Damage::Repeat(at) => lines.insert((at / 7) % count, lines[at % count]),
    }
    lines.concat().into_bytes()
}

/// A damaged ledger is refused with the same code, line and offset, and one in another order still reads the same.
#[test]
fn threads_change_no_refusal() {
    let text = ledger(Shape { payload: 40, ..Shape::default() }, 700 << 10);
    let damage = prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        any::<usize>().prop_map(Damage::Cut),
        (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Damage::Swap(a, b)),
        any::<usize>().prop_map(Damage::Drop),
        any::<usize>().prop_map(Damage::Repeat),
    ];
    let mut runner = TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
    runner
        .run(&damage, |damage| {
            agree(&damaged(&text, damage));
            Ok(())
        })
        .unwrap();
}

/// A ledger that goes on where the known one ends is read from there, by however many threads compare what came
/// before; one that differs in any byte before is not taken for its continuation.
#[test]
fn extension_needs_every_known_byte() {
    let text = ledger(Shape::default(), 9 << 20);
    let scanner = || Scanner::new(HOST);
    let whole = LedgerText::new(text.clone().into_bytes()).unwrap();
    let expected = replay(&whole, &mut scanner()).unwrap();
    let cuts: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    for cut in [cuts[0], cuts[cuts.len() / 2], cuts[cuts.len() - 2], text.len()] {
        let known = LedgerText::new(text.as_bytes()[..cut].to_vec()).unwrap();
        let known = replay(&known, &mut scanner()).unwrap();
        let extended = extend(known.clone(), text.as_bytes(), &mut scanner()).unwrap();
        assert_eq!(extended.tip(), expected.tip());
        assert!(extended.serialise() == expected.serialise(), "extended from byte {cut}");
        let mut runner = TestRunner::new(Config { cases: 30, failure_persistence: None, ..Config::default() });
        let damage = (0..cut, 1_u8..);
        runner
            .run(&damage, |(at, by)| {
                let mut bytes = text.as_bytes().to_vec();
                bytes[at] = bytes[at].wrapping_add(by);
                let lines = extend(known.clone(), &bytes, &mut scanner()).unwrap_err();
                prop_assert!(lines.iter().eq(known.active()));
                Ok(())
            })
            .unwrap();
        assert!(extend(known, &text.as_bytes()[..cut - 1], &mut scanner()).is_err(), "shorter by a byte");
    }
}
