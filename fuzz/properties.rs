//! The properties that fuzzing holds the core to. `tests/it/fuzz_seeds.rs` compiles this file too and runs it over the
//! committed seeds, so that plain `cargo test` keeps them.

use super::core::engine::{Projection, replay, replay::replay_prefix};
use super::core::protocol::commit::Commit;
use super::core::protocol::effect_contract::EffectContract;
use super::core::protocol::identity::sha256_hex;
use super::core::protocol::json::{Scanner, parse_bounded};
use super::core::protocol::ledger_text::LedgerText;
use super::core::protocol::resource_scope::{ResourceScope, Target};
use super::core::protocol::{Opaque, Text, Wire as _};

use super::bounded;

pub(crate) const HOST: &str = "github.com";

/// The strict parser and the scanner accept the same texts, with the same code; what they accept encodes canonically,
/// and canonical text is read to itself. Payload readers do not panic on any of it.
pub(crate) fn reader(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    bounded(data.len(), 1 << 16, 256, || {
        let mut scanner = Scanner::new(HOST);
        let shared = Text::from(text);
        let scanned = scanner.read(&shared).map(|document| document.root().raw().to_owned());
        let parsed = parse_bounded(text, text.len().max(1)).and_then(|value| value.encode());
        match (scanned, parsed) {
            (Ok(scanned), Ok(encoded)) => {
                assert_eq!(scanned, encoded, "two readers, two canonical forms");
                let again = parse_bounded(&encoded, encoded.len().max(1)).expect("canonical text is readable");
                assert_eq!(again.encode().expect("and encodes"), encoded);
                let whole = Text::from(encoded.as_str());
                let document = scanner.read(&whole).expect("and scans");
                assert_eq!(document.root().raw(), encoded);
                let payload = Opaque::parse(&mut scanner, &whole).expect("and is a payload");
                let _ = ResourceScope::of_payload(&mut scanner, &payload);
                let _ = EffectContract::of_payload(&mut scanner, &payload);
                if let Ok(target) = Target::parse(&mut scanner, &whole) {
                    assert_eq!(target.canonical(), encoded, "a target writes itself");
                }
            }
            (Err(scanned), Err(parsed)) => assert_eq!(scanned.code(), parsed.code()),
            (scanned, parsed) => panic!("one reader accepts: scanner {}, parser {}", scanned.is_ok(), parsed.is_ok()),
        }
    });
}

/// A commit that reads has a canonical source that reads to the same, and every record in it writes itself.
pub(crate) fn commit(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    bounded(data.len(), 1 << 18, 512, || {
        let mut scanner = Scanner::new(HOST);
        let Ok(commit) = Commit::read(&mut scanner, &Text::from(text)) else { return };
        let source = commit.source.text().clone();
        let again = Commit::read(&mut scanner, &source).expect("a commit's source is a commit");
        assert_eq!(again.source, commit.source);
        assert_eq!(again.operations, commit.operations);
        assert_eq!(commit.ledger_bytes(), source.len() as u64 + 1);
        let document = scanner.read(&source).expect("canonical");
        let root = document.root().object().expect("an object");
        assert_eq!(root.get("actor").expect("required").raw(), commit.actor.canonical());
        let operations = root.get("operations").and_then(|node| node.array()).expect("required");
        for (node, operation) in operations.zip(&commit.operations) {
            assert_eq!(node.raw(), operation.canonical(), "an operation writes itself");
        }
    });
}

/// Makes requests' fingerprints right, so that a mutated ledger gets past the first check. A line `{...}` whose
/// fingerprint is 64 times `f` asks for that.
pub(crate) fn mended(text: &str) -> String {
    text.split_inclusive('\n').map(|line| mend(line).unwrap_or_else(|| line.to_owned())).collect()
}

fn mend(line: &str) -> Option<String> {
    let marker = "f".repeat(64);
    if !line.contains(&marker) {
        return None;
    }
    let mut scanner = Scanner::new(HOST);
    let text = Text::from(line.trim_end_matches('\n'));
    let document = scanner.read(&text).ok()?;
    let root = document.root().object()?;
    let request = root.get("request")?.object()?;
    let (actor, kind, parameters) = (root.get("actor")?, request.get("kind")?, request.get("parameters")?);
    let meaning = format!(r#"{{"actor":{},"kind":{},"parameters":{}}}"#, actor.raw(), kind.raw(), parameters.raw());
    let digest = sha256_hex(&[&meaning]);
    Some(document.root().raw().replacen(&marker, &digest, 1) + "\n")
}

/// Replay does not panic; cold, incremental and cut-off replays agree; line order and duplicates do not matter; a
/// refused commit is refused in every way of getting there.
pub(crate) fn ledger(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let text = mended(text);
    // The bound covers three projections and the serialised forms that are compared.
    bounded(text.len(), 1 << 22, 2048, || {
        let Ok(framed) = LedgerText::new(text.clone().into_bytes()) else { return };
        let mut scanner = Scanner::new(HOST);
        let cold = replay(&framed, &mut scanner);
        let Ok(cold) = cold else {
            let again = replay(&framed, &mut scanner);
            assert_eq!(cold.err(), again.err(), "a refusal is stable");
            return;
        };
        let whole = cold.serialise();
        let length = cold.requests().len();
        // Every prefix, and one commit more, is the next prefix.
        let mut incremental = Projection::empty();
        let sources: Vec<Text> = cold.requests().map(|accepted| accepted.source.text().clone()).collect();
        for (index, source) in sources.iter().enumerate() {
            let commit = Commit::read(&mut scanner, source).expect("an accepted commit reads");
            incremental = incremental.apply(commit).expect("an accepted commit applies");
            if index + 1 == length || index == length / 2 {
                let prefix = replay_prefix(&framed, &mut scanner, index + 1).expect("a prefix of a ledger replays");
                assert_eq!(prefix.serialise(), incremental.serialise(), "prefix {index}");
            }
        }
        assert_eq!(incremental.serialise(), whole);
        // Backwards, and with the first line twice.
        let mut shuffled: Vec<&str> = text.lines().rev().collect();
        shuffled.extend(text.lines().next());
        let shuffled = LedgerText::new((shuffled.join("\n") + "\n").into_bytes()).expect("the same lines");
        let shuffled = replay(&shuffled, &mut scanner).expect("order does not matter");
        assert_eq!(shuffled.serialise(), whole);
    });
}
