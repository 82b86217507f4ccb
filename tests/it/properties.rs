//! Properties of the reader and the writer, over made-up text and over disturbed lines of the corpus.

use proptest::prelude::*;
use wq_action::protocol::Text;
use wq_action::protocol::commit::Commit;
use wq_action::protocol::json::{Scanner, Value, parse};

use crate::support::corpus::load_case;
use crate::support::ledger::HOST;

/// What the reader of records makes of a text: its canonical form and whether it was canonical as given.
fn read(text: &str) -> Result<String, &'static str> {
    let text = Text::from(text);
    let mut scanner = Scanner::new(HOST);
    scanner.read(&text).map(|document| document.root().raw().to_owned()).map_err(|fault| fault.code().as_str())
}

fn strict(text: &str) -> Result<String, &'static str> {
    parse(text).and_then(|value| value.encode()).map_err(|fault| fault.code().as_str())
}

/// Both readers agree on a text, and what they make of it is a fixed point.
fn agree(text: &str) -> Result<String, &'static str> {
    let (one, other) = (read(text), strict(text));
    assert_eq!(one, other, "{text:?}");
    if let Ok(canonical) = &one {
        assert_eq!(read(canonical).as_ref(), Ok(canonical));
        assert_eq!(strict(canonical).as_ref(), Ok(canonical));
        // A third opinion: the common library reads the same value, and writes sorted maps compactly.
        let value: serde_json::Value = serde_json::from_str(canonical).unwrap();
        assert_eq!(&value.to_string(), canonical);
    }
    one
}

fn number() -> impl Strategy<Value = i64> {
    const MAX: i64 = 9_007_199_254_740_991;
    prop_oneof![Just(0), Just(MAX), Just(-MAX), -9i64..10, -MAX..=MAX]
}

fn string() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]{0,3}",
        "\\PC{0,6}",
        proptest::collection::vec(any::<char>(), 0..6).prop_map(|chars| chars.into_iter().collect::<String>()),
        proptest::collection::vec(0u8..0x80, 0..6)
            .prop_map(|bytes| bytes.into_iter().map(char::from).collect::<String>()),
        Just("payload".to_owned()),
        Just("descriptor".to_owned()),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number().prop_map(Value::Integer),
        string().prop_map(Value::String),
    ];
    leaf.prop_recursive(6, 48, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            proptest::collection::btree_map(string(), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// The same value with its members in key order, which is how a canonical text reads.
fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            members.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
            Value::Object(members)
        }
        other => other,
    }
}

/// A small stream of choices drawn from bytes, so that one seed disturbs a text in one way.
struct Choices<'a>(std::iter::Cycle<std::slice::Iter<'a, u8>>);

impl<'a> Choices<'a> {
    fn new(seed: &'a [u8]) -> Self {
        Self(seed.iter().cycle())
    }

    fn next(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }
}

/// Writes a value with members turned, blanks between tokens and letters escaped.
fn disturb(value: &Value, choices: &mut Choices<'_>, out: &mut String) {
    let blank = |choices: &mut Choices<'_>, out: &mut String| {
        out.push_str(["", "", "", " ", "\t", "\r", "  ", " \r\t"][usize::from(choices.next() % 8)]);
    };
    let quote = |text: &str, choices: &mut Choices<'_>, out: &mut String| {
        out.push('"');
        for letter in text.chars() {
            match choices.next() % 8 {
                0 => letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
                1 => letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04X}"))),
                _ if letter == '/' && choices.next() < 128 => out.push_str("\\/"),
                _ => out.push_str(serde_json::to_string(&letter.to_string()).unwrap().trim_matches('"')),
            }
        }
        out.push('"');
    };
    blank(choices, out);
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(&value.to_string()),
        Value::Integer(value) => out.push_str(&value.to_string()),
        Value::String(text) if text.contains('"') => out.push_str(&serde_json::to_string(text).unwrap()),
        Value::String(text) => quote(text, choices, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                disturb(item, choices, out);
            }
            blank(choices, out);
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            let turn = usize::from(choices.next());
            if !members.is_empty() {
                let middle = turn % members.len();
                members.rotate_left(middle);
            }
            out.push('{');
            for (index, (key, value)) in members.into_iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                blank(choices, out);
                if key.contains('"') {
                    out.push_str(&serde_json::to_string(key).unwrap());
                } else {
                    quote(key, choices, out);
                }
                blank(choices, out);
                out.push(':');
                disturb(value, choices, out);
            }
            blank(choices, out);
            out.push('}');
        }
    }
    blank(choices, out);
}

/// Pieces of JSON that meet in unlucky ways.
fn piece() -> impl Strategy<Value = String> {
    let fixed = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"a\"",
        "\"b\"",
        "\"\\u0061\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\\/\"",
        "\"\\u000a\"",
        "\"\\n\"",
        "\"\\u001f\"",
        "\"\\u001F\"",
        "\"\\u0020\"",
        "\"\\x\"",
        "\"\u{2028}\"",
        "\"\u{7f}\"",
        "\"\u{1}\"",
        "0",
        "-0",
        "01",
        "-01",
        "1.",
        "1.0",
        "1e400",
        "1E+3",
        "-",
        "+1",
        "9007199254740991",
        "9007199254740992",
        "-9007199254740992",
        "true",
        "false",
        "null",
        "tru",
        "NaN",
        " ",
        "\n",
        "\r\n",
        "\u{feff}",
        "\u{a0}",
        "//",
        "\"payload\":{\"x\":[1]}",
        "\"payload\":",
        "\"descriptor\":",
    ];
    proptest::sample::select(fixed.map(str::to_owned).to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_reads_the_same_both_ways(text in "\\PC{0,24}") {
        let _ = agree(&text);
    }

    #[test]
    fn json_like_text_reads_the_same_both_ways(pieces in proptest::collection::vec(piece(), 0..12)) {
        let text = pieces.concat();
        let _ = agree(&text);
        let _ = agree(&format!("[{}]", pieces.join(",")));
        let _ = agree(&format!("{{\"a\":{},\"payload\":[{}]}}", pieces.join(""), pieces.join(",")));
    }

    /// S-012, S-014: what is written reads back whole, and is its own canonical form.
    #[test]
    fn values_survive_encoding(value in value()) {
        let text = value.encode().unwrap();
        prop_assert_eq!(agree(&text), Ok(text.clone()));
        prop_assert_eq!(parse(&text).unwrap(), sorted(value));
    }

    #[test]
    fn spelling_does_not_matter(value in value(), seed in proptest::collection::vec(any::<u8>(), 1..64)) {
        let mut text = String::new();
        disturb(&value, &mut Choices::new(&seed), &mut text);
        prop_assert_eq!(agree(&text), Ok(value.encode().unwrap()), "{}", text);
    }
}

/// Lines of the corpus with every kind of operation, or the project's own without the corpus.
fn lines() -> Vec<String> {
    let texts: Vec<Vec<u8>> = match load_case("s051") {
        Some(_) => {
            ["s001", "s006", "s034", "s038", "s049", "s051"].iter().map(|n| load_case(n).unwrap().text).collect()
        }
        None => vec![std::fs::read(crate::support::ledger::fixture("three-commits.jsonl")).unwrap()],
    };
    let text = String::from_utf8(texts.concat()).unwrap();
    text.lines().filter(|line| line.len() < 20_000).map(str::to_owned).collect()
}

fn commit(line: &str) -> Result<Commit, &'static str> {
    Commit::read(&mut Scanner::new(HOST), &Text::from(line)).map_err(|fault| fault.code().as_str())
}

/// Blanks, order of members and escapes of a line change nothing of its commit.
#[test]
fn disturbed_lines_read_as_the_same_commit() {
    for (index, line) in lines().iter().enumerate() {
        let value = parse(line).unwrap();
        let plain = commit(line).unwrap_or_else(|code| panic!("line {index}: {code}"));
        for seed in [[7, 1, 90, 33, 4, 121], [0, 8, 16, 3, 250, 11], [5, 5, 2, 77, 1, 9]] {
            let mut text = String::new();
            disturb(&value, &mut Choices::new(&seed), &mut text);
            let other = commit(&text).unwrap_or_else(|code| panic!("line {index}: {code}: {text}"));
            assert_eq!(other.source.as_str(), plain.source.as_str());
            assert_eq!(format!("{other:?}"), format!("{plain:?}"));
        }
    }
}

/// Whatever one byte becomes, a line is read or refused, the same both ways; nothing panics.
#[test]
fn damaged_bytes_never_panic() {
    let (mut read, mut refused) = (0, 0);
    for (index, line) in lines().iter().enumerate() {
        for at in (index % 3..line.len()).step_by(3) {
            let replacements: &[u8] = if (at + index) % 5 == 0 { b"\"\\{}[],:0-a\x00\x7f \n" } else { b"\"\\0}" };
            let replacement = replacements[(at * 7 + index) % replacements.len()];
            let mut bytes = line.clone().into_bytes();
            bytes[at] = replacement;
            let Ok(text) = String::from_utf8(bytes) else { continue };
            match commit(&text) {
                Ok(commit) => {
                    assert_eq!(strict(&text).as_deref(), Ok(commit.source.as_str()));
                    read += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    println!("{read} damaged lines read, {refused} refused");
    assert!(refused > read);
}

/// Every truncation of a line is refused.
#[test]
fn truncated_lines_are_refused() {
    for line in lines() {
        for at in (0..line.len()).filter(|at| line.is_char_boundary(*at)).step_by(7) {
            assert_eq!(commit(&line[..at]).unwrap_err(), "codec_invalid", "{}", &line[..at]);
        }
    }
}

/// S-008, S-009: plain integers in range and nothing else.
#[test]
fn numbers_have_one_spelling() {
    let refused = |text: &str, code: &'static str| {
        assert_eq!(agree(text), Err(code), "{text}");
        assert_eq!(agree(&format!("[{text}]")), Err(code), "{text}");
        assert_eq!(agree(&format!("{{\"x\":{text}}}")), Err(code), "{text}");
    };
    for text in ["0", "-1", "10", "9007199254740991", "-9007199254740991"] {
        assert_eq!(agree(text), Ok(text.to_owned()));
    }
    for text in [
        "-0",
        "1.0",
        "0.0",
        "-0.5",
        "1e3",
        "1E3",
        "1e+3",
        "1e-3",
        "1e400",
        "-01",
        "9007199254740992",
        "-9007199254740992",
        "9223372036854775807",
        "9223372036854775808",
        "123456789012345678901234567890",
    ] {
        refused(text, "noncanonical_number");
    }
    for text in ["01", "00", "1.", ".5", "+1", "-", "--1", "0x10", "1_000", "1e", "1e+", "Infinity", "NaN", "१"] {
        refused(text, "codec_invalid");
    }
}

/// S-020: also inside payloads, which are not looked into otherwise.
#[test]
fn depth_and_arrays_have_their_bounds() {
    let nested = |open: &str, close: &str, count: usize, inner: &str| {
        format!("{}{inner}{}", open.repeat(count), close.repeat(count))
    };
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("{\"payload\":", "}"), ("[{\"payload\":[", "]}]")] {
        let step = open.matches(['[', '{']).count();
        // A scalar below 64 levels of containers has depth 64.
        if 64 % step == 0 {
            assert!(agree(&nested(open, close, 64 / step, "1")).is_ok(), "{open}");
        }
        assert_eq!(agree(&nested(open, close, 65usize.div_ceil(step), "1")), Err("resource_limit"), "{open}");
    }
    assert!(agree(&nested("[", "]", 65, "")).is_ok());
    assert_eq!(agree(&nested("[", "]", 66, "")), Err("resource_limit"));
    assert_eq!(agree(&"[".repeat(100)), Err("resource_limit"));
    for (count, fits) in [(16_384, true), (16_385, false)] {
        let list = format!("[{}]", vec!["0"; count].join(","));
        for text in
            [list.clone(), format!("[{{\"payload\":{list}}}]"), format!("[{{\"descriptor\":{{\"x\":{list}}}}}]")]
        {
            let read = agree(&text);
            assert_eq!(read.is_ok(), fits);
            assert!(fits || read == Err("resource_limit"));
        }
    }
}

/// S-020: the writer has the same bounds.
#[test]
fn writing_has_the_same_bounds() {
    let deep = |levels: usize, array: bool| {
        (0..levels).fold(Value::Integer(1), |inner, _| match array {
            true => Value::Array(vec![inner]),
            false => Value::Object(vec![("a".to_owned(), inner)]),
        })
    };
    let code = |value: Value| value.encode().map(|_| ()).map_err(|fault| fault.code().as_str());
    for array in [true, false] {
        assert_eq!(code(deep(64, array)), Ok(()));
        assert_eq!(code(deep(65, array)), Err("resource_limit"));
    }
    assert_eq!(code(Value::Array(vec![Value::Null; 16_384])), Ok(()));
    assert_eq!(code(Value::Array(vec![Value::Null; 16_385])), Err("resource_limit"));
    assert_eq!(code(Value::Integer(9_007_199_254_740_992)), Err("noncanonical_number"));
    let twice = Value::Object(vec![("a".to_owned(), Value::Null), ("a".to_owned(), Value::Null)]);
    assert_eq!(code(twice), Err("duplicate_key"));
}

/// S-015, S-018: all of the basic plane, and every letter after a backslash.
#[test]
fn every_escape_has_one_canonical_form() {
    for code in 0..=0xffff_u32 {
        let lower = format!("\"\\u{code:04x}\"");
        match char::from_u32(code) {
            Some(letter) => {
                let canonical = serde_json::to_string(&letter.to_string()).unwrap();
                assert_eq!(agree(&lower), Ok(canonical.clone()));
                assert_eq!(agree(&lower.to_uppercase().replace("\\U", "\\u")), Ok(canonical));
            }
            None => assert_eq!(agree(&lower), Err("invalid_unicode"), "{lower}"),
        }
    }
    for byte in 0..=0x7f_u8 {
        let text = format!("\"\\{}\"", char::from(byte));
        match byte {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => assert!(agree(&text).is_ok(), "{text}"),
            _ => assert_eq!(agree(&text), Err("codec_invalid"), "{text}"),
        }
        let raw = format!("\"{}\"", char::from(byte));
        assert_eq!(agree(&raw).is_ok(), byte >= 0x20 && byte != b'"' && byte != b'\\', "{byte}");
    }
    for text in [r#""\ud83d""#, r#""\ude00\ud83d""#, r#""\ud83d\ud83d\ude00""#, r#""\ud83da""#, r#"{"\ud800":1}"#] {
        assert_eq!(agree(text), Err("invalid_unicode"), "{text}");
    }
    assert_eq!(agree(r#""\ud83d\ude00""#), Ok("\"😀\"".to_owned()));
}

/// S-013, S-016, S-019.
#[test]
fn keys_are_unique_and_in_utf8_order() {
    for text in [
        r#"{"x":1,"x":2}"#,
        r#"{"x":1,"\u0078":2}"#,
        r#"{"a":{"b":1,"b":1}}"#,
        r#"[{"payload":{"k":1,"\u006b":2}}]"#,
        r#"{"\n":1,"\u000a":2}"#,
        r#"{"é":1,"\u00e9":2}"#,
        r#"{"😀":1,"\ud83d\ude00":2}"#,
    ] {
        assert_eq!(agree(text), Err("duplicate_key"), "{text}");
    }
    let keys = ["", "\u{1}", "\n", "\"", "\\", "]", "a", "a\u{1}", "ab", "\u{7f}", "é", "\u{ffff}", "\u{10000}"];
    let mut sorted = keys;
    sorted.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    let value = Value::Object(keys.iter().rev().map(|key| ((*key).to_owned(), Value::Null)).collect());
    let text = value.encode().unwrap();
    assert_eq!(agree(&text), Ok(text.clone()));
    let Value::Object(members) = parse(&text).unwrap() else { panic!("an object") };
    assert_eq!(members.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), sorted);
    // Decomposed letters stay as they are.
    assert_eq!(agree("\"e\u{301}\""), Ok("\"e\u{301}\"".to_owned()));
}

/// Strings are searched eight bytes at a time; where the end or an escape stands in a group must not matter.
#[test]
fn strings_end_where_they_end() {
    for filler in ["a", "~", "\u{7f}", " ", "#", "]", "é", "\u{10ffff}", "\u{80}"] {
        for length in 0..20 {
            for (inner, fits) in
                [("", true), ("\\n", true), ("\\\"", true), ("\n", false), ("\u{0}", false), ("\u{1f}", false)]
            {
                let text = format!("\"{}{inner}{}\"", filler.repeat(length), filler.repeat(19 - length));
                assert_eq!(agree(&text).is_ok(), fits, "{text:?}");
                assert_eq!(agree(&text[..text.len() - 1]), Err("codec_invalid"));
            }
        }
    }
}
