//! The properties that fuzzing holds the core to. `tests/it/fuzz_seeds.rs` compiles this file too and runs it over the
//! committed seeds, so that plain `cargo test` keeps them.

use super::core::engine::checkpoint::CheckpointInputs;
use super::core::engine::{Projection, replay, replay::replay_prefix};
use super::core::protocol::commit::Commit;
use super::core::protocol::compressed::{deflate, inflate};
use super::core::protocol::effect_contract::EffectContract;
use super::core::protocol::identity::sha256_hex;
use super::core::protocol::json::{Scanner, parse_bounded};
use super::core::protocol::ledger_text::LedgerText;
use super::core::protocol::limits::MAX_RECEIPT_BYTES;
use super::core::protocol::resource_scope::{ResourceScope, Target};
use super::core::protocol::{At, Opaque, Revision, Text, Wire as _};

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
        // Every prefix, and one commit more, is the next prefix.
        let mut incremental = Projection::empty();
        let sources: Vec<Text> = cold
            .requests()
            .filter_map(|accepted| accepted.source.commit())
            .map(|source| source.text().clone())
            .collect();
        let length = sources.len();
        for (index, source) in sources.iter().enumerate() {
            let commit = Commit::read(&mut scanner, source).expect("an accepted commit reads");
            incremental = incremental.follow(commit, &mut scanner).expect("an accepted commit applies");
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

/// The longest text that the inflation property lets out, in bytes.
const CEILING: usize = 1 << 20;

/// Compressed text never inflates beyond its ceiling, whatever it claims, and what inflates compresses and inflates to
/// itself. A checkpoint restores without a panic or is refused; restored twice it is the same state, its snapshot is
/// stable, its own checkpoint restores, and decisions can be asked of it.
pub(crate) fn checkpoint(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // What was inflated, and beside it a buffer that doubles: for a moment that holds its old and its new half.
    bounded(data.len(), 3 * CEILING + (1 << 18), 16, || {
        if let Ok(inflated) = inflate(text, CEILING) {
            assert!(inflated.len() <= CEILING, "longer than its ceiling");
            assert_eq!(inflate(&deflate(&inflated), inflated.len()).as_ref(), Ok(&inflated));
            assert!(inflated.is_empty() || inflate(text, inflated.len() - 1).is_err(), "a byte less is too few");
        }
    });
    let mut lines = text.lines();
    let Some(sealed) = lines.next().and_then(seal) else { return };
    // Receipts may be a thousand times longer than their compressed text; what they inflate to is what is counted.
    let inflated = receipts(&sealed).map_or(0, |text| text.len());
    bounded(text.len() + inflated, 1 << 23, 1024, || restored(&sealed, lines));
}

fn receipts(line: &str) -> Option<String> {
    let (_, rest) = line.split_once(r#""requests_compressed":""#)?;
    inflate(rest.split_once('"')?.0, MAX_RECEIPT_BYTES).ok()
}

fn restored<'a>(sealed: &str, rest: impl Iterator<Item = &'a str>) {
    let mut scanner = Scanner::new(HOST);
    let read = |scanner: &mut Scanner| Commit::read(scanner, &Text::from(sealed));
    let Ok(commit) = read(&mut scanner) else { return };
    let Ok(state) = Projection::restore(commit, &mut scanner) else { return };
    let again = read(&mut scanner).and_then(|commit| Projection::restore(commit, &mut scanner));
    assert_eq!(again.map(|state| state.serialise()), Ok(state.serialise()), "a checkpoint is one state");
    for pool in ["default", "other"] {
        let _ = state.explain_pool(pool, At::default());
    }
    if let Ok(snapshot) = state.snapshot(&mut scanner) {
        let digest = state.snapshot(&mut scanner).map(|snapshot| snapshot.digest());
        assert_eq!(digest, Ok(snapshot.digest()), "a snapshot is stable");
    }
    let administrator = state.requests().last().map(|last| (last.actor.clone(), last.at));
    if let (Some((actor, at)), Ok(sha)) = (administrator, Revision::new("a".repeat(40))) {
        let inputs = CheckpointInputs { prior_git_sha: &sha, actor: &actor, at };
        if let Ok(built) = state.checkpoint(&inputs, &mut scanner) {
            let again = Commit::read(&mut scanner, built.commit.text()).expect("what was built reads");
            let again = Projection::restore(again, &mut scanner).expect("and restores");
            assert_eq!(again.serialise(), built.projection.serialise());
        }
    }
    let mut state = Some(state);
    for line in rest {
        let line = mend(line).unwrap_or_else(|| line.to_owned());
        let Ok(commit) = Commit::read(&mut scanner, &Text::from(line.trim_end())) else { break };
        let Some(Ok(next)) = state.take().map(|state| state.follow(commit, &mut scanner)) else { break };
        let _ = next.serialise();
        state = Some(next);
    }
}

/// Makes a checkpoint whole: an open state, with `requests` in place of `requests_compressed`, is compressed, its digest
/// put where 64 times `e` stands, and the fingerprint where 64 times `f` stands.
pub(crate) fn seal(line: &str) -> Option<String> {
    let mut line = parse_bounded(line, line.len().max(1)).ok()?.encode().ok()?;
    if let Some((before, state, after)) = state_of(&line) {
        let digest = sha256_hex(&[state]);
        let sealed = match member_of(state, r#""requests":"#) {
            Some((first, requests, last)) => {
                format!(r#"{first}"requests_compressed":"{}"{last}"#, deflate(requests))
            }
            None => state.to_owned(),
        };
        line = format!("{before}{sealed}{after}").replace(&"e".repeat(64), &digest);
    }
    Some(mend(&line).map_or(line, |mended| mended.trim_end().to_owned()))
}

/// The state of a checkpoint operation, and what stands around it.
fn state_of(line: &str) -> Option<(&str, &str, &str)> {
    member_of(line, r#""state":"#).map(|(before, state, after)| {
        let key = before.len() + r#""state":"#.len();
        (&line[..key], state, after)
    })
}

/// A container after the first occurrence of a key, and what stands around key and value.
fn member_of<'a>(text: &'a str, key: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let at = text.find(key)?;
    let start = at + key.len();
    let (mut depth, mut quoted, mut escaped) = (0_u32, false, false);
    for (index, byte) in text.bytes().enumerate().skip(start) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some((&text[..at], &text[start..=index], &text[index + 1..]));
                }
            }
            _ if depth == 0 && !quoted => return None,
            _ => {}
        }
    }
    None
}
