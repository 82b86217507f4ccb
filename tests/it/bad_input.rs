//! Ledger files that people and tools damage in the usual ways: each is refused with its code and its line.

use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::LedgerText;

use crate::support::ledger::{HOST, fixture, read, refusal};

const MIB: usize = 1024 * 1024;

fn lines() -> Vec<String> {
    let text = std::fs::read_to_string(fixture("lifecycle.jsonl")).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn join(lines: &[String]) -> Vec<u8> {
    lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes()
}

/// The ledger with another third line.
fn third(change: impl FnOnce(&str) -> String) -> Vec<u8> {
    let mut lines = lines();
    lines[2] = change(&lines[2]);
    join(&lines)
}

/// The third line with one member more, whose value is given.
fn with_member(value: &str) -> Vec<u8> {
    third(|line| format!("{},\"z\":{value}}}", &line[..line.len() - 1]))
}

#[test]
fn the_undamaged_ledger_reads() {
    assert_eq!(read(&join(&lines()), HOST).unwrap().len(), 7);
}

#[test]
fn merge_conflicts() {
    for marker in ["<<<<<<< HEAD", "||||||| base", "=======", ">>>>>>> other"] {
        let mut lines = lines();
        lines.insert(3, marker.to_owned());
        assert_eq!(refusal(&join(&lines)), ("codec_invalid", Some(4)), "{marker}");
    }
}

/// Carriage returns before line feeds are white space to every reader; what they make blank is refused, and without
/// any line feed there is no ledger.
#[test]
fn carriage_returns() {
    let crlf = String::from_utf8(join(&lines())).unwrap().replace('\n', "\r\n");
    let plain: Vec<String> =
        read(&join(&lines()), HOST).unwrap().iter().map(|commit| commit.source.as_str().to_owned()).collect();
    let read: Vec<String> =
        read(crlf.as_bytes(), HOST).unwrap().iter().map(|commit| commit.source.as_str().to_owned()).collect();
    assert_eq!(read, plain);
    assert_eq!(refusal(format!("{crlf}\r\n").as_bytes()), ("ledger_invalid", Some(8)));
    assert_eq!(refusal(crlf.replace('\n', "").as_bytes()), ("ledger_invalid", None));
}

#[test]
fn byte_order_marks() {
    let text = join(&lines());
    assert_eq!(refusal(&[b"\xef\xbb\xbf", text.as_slice()].concat()), ("codec_invalid", Some(1)));
    assert_eq!(refusal(&third(|line| format!("\u{feff}{line}"))), ("codec_invalid", Some(3)));
    // Alone on its line it is white space to the reference.
    assert_eq!(refusal(&third(|_| "\u{feff}".to_owned())), ("ledger_invalid", Some(3)));
    assert_eq!(refusal(&third(|_| "\u{85}".to_owned())), ("codec_invalid", Some(3)));
    let wide: Vec<u8> = String::from_utf8(text).unwrap().encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(refusal(&[b"\xff\xfe", wide.as_slice()].concat()), ("ledger_invalid", Some(1)));
}

#[test]
fn missing_ends() {
    let text = join(&lines());
    assert_eq!(refusal(&text[..text.len() - 1]), ("ledger_invalid", None));
    assert_eq!(refusal(&text[..text.len() / 2]), ("ledger_invalid", None));
    assert_eq!(refusal(b""), ("ledger_invalid", None));
    assert_eq!(refusal(b"\n"), ("ledger_invalid", Some(1)));
    assert_eq!(refusal(&third(|line| line[..line.len() - 9].to_owned())), ("codec_invalid", Some(3)));
}

/// Every truncation of the file fails, except after a whole line.
#[test]
fn every_truncation_fails_or_is_a_prefix() {
    let text = join(&lines());
    for at in 0..text.len() {
        match read(&text[..at], HOST) {
            Ok(commits) => assert_eq!(commits.len(), text[..at].iter().filter(|byte| **byte == b'\n').count()),
            Err(fault) => {
                assert_eq!(fault.fault.code().as_str(), "ledger_invalid");
                // A letter cut in two is seen first, and on its line.
                assert_eq!(fault.line.is_some(), std::str::from_utf8(&text[..at]).is_err());
            }
        }
    }
}

#[test]
fn blank_lines() {
    for blank in ["", " ", "\t", "\r", " \t \r", "\u{a0}", "\u{3000}"] {
        let mut lines = lines();
        lines.insert(4, blank.to_owned());
        assert_eq!(refusal(&join(&lines)), ("ledger_invalid", Some(5)), "{blank:?}");
    }
    // Framing is judged before any line is read, and blank lines before long ones.
    let mut lines = lines();
    lines[0] = "no JSON".to_owned();
    lines[1] = "x".repeat(8 * MIB + 1);
    lines[5].clear();
    assert_eq!(refusal(&join(&lines)), ("ledger_invalid", Some(6)));
}

/// S-016: also when one of the keys is written with an escape, at any depth.
#[test]
fn duplicate_keys() {
    for (from, to) in [
        ("\"at\":30", "\"at\":30,\"at\":30"),
        ("\"at\":30", "\"at\":30,\"\\u0061t\":30"),
        ("\"role\":", "\"role\":\"worker\",\"r\\u006fle\":"),
    ] {
        let text = third(|line| line.replacen(from, to, 1));
        assert_eq!(refusal(&text), ("duplicate_key", Some(3)), "{to}");
    }
}

/// S-018.
#[test]
fn lone_surrogates() {
    for value in [r#""\ud800""#, r#""\udfff""#, r#""\ude00\ud83d""#, r#"{"\ud800":1}"#, r#"["\ud83dx"]"#] {
        assert_eq!(refusal(&with_member(value)), ("invalid_unicode", Some(3)), "{value}");
    }
}

/// S-017: bytes that are not UTF-8 are refused, surrogates among them, never replaced.
#[test]
fn bytes_that_are_not_text() {
    for bytes in [b"\xff".as_slice(), b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"] {
        let mut text = join(&lines()[..2]);
        text.extend_from_slice(b"{\"x\":\"");
        text.extend_from_slice(bytes);
        text.extend_from_slice(b"\"}\n");
        text.extend_from_slice(&join(&lines()[2..]));
        assert_eq!(refusal(&text), ("ledger_invalid", Some(3)), "{bytes:?}");
    }
}

/// S-008, S-009.
#[test]
fn numbers_outside_the_profile() {
    for number in ["1.0", "-0", "9007199254740992", "-9007199254740992", "1e3", "0.5", "1e400"] {
        let text = third(|line| line.replacen("\"at\":30", &format!("\"at\":{number}"), 1));
        assert_eq!(refusal(&text), ("noncanonical_number", Some(3)), "{number}");
        assert_eq!(refusal(&with_member(number)), ("noncanonical_number", Some(3)), "{number}");
    }
    for number in ["01", "+1", "1.", "NaN", "0x1"] {
        assert_eq!(refusal(&with_member(number)), ("codec_invalid", Some(3)), "{number}");
    }
    // In range for the codec, not for a time.
    let text = third(|line| line.replacen("\"at\":30", "\"at\":-1", 1));
    assert_eq!(refusal(&text), ("ledger_invalid", Some(3)));
}

/// S-020.
#[test]
fn depth_and_array_size() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    // The member's value has depth 1, so 64 brackets reach depth 64 and one more goes beyond.
    assert_eq!(refusal(&with_member(&nested(65))), ("resource_limit", Some(3)));
    assert_eq!(refusal(&with_member(&nested(64))), ("ledger_invalid", Some(3)));
    let list = |members: usize| format!("[{}]", vec!["0"; members].join(","));
    assert_eq!(refusal(&with_member(&list(16_385))), ("resource_limit", Some(3)));
    assert_eq!(refusal(&with_member(&list(16_384))), ("ledger_invalid", Some(3)));
}

/// A payload at the greatest depth of the commit lies two levels deeper in the request, where it is too deep, though
/// the text is the same.
#[test]
fn depth_counts_where_a_list_is_repeated() {
    let text = String::from_utf8(join(&lines())).unwrap();
    let payload = r#"{"task":"first"}"#;
    for (levels, code) in
        [(58, "request_invalid"), (59, "resource_limit"), (60, "resource_limit"), (61, "resource_limit")]
    {
        let deep = format!("{{\"task\":{}1{}}}", "[".repeat(levels), "]".repeat(levels));
        let text = text.replace(payload, &deep);
        // 58 lists below depth 6 of the request end at depth 64; then only the fingerprint is wrong.
        assert_eq!(refusal(text.as_bytes()), (code, Some(1)), "{levels}");
    }
}

#[test]
fn sizes() {
    let long = format!("{{\"x\":\"{}\"}}", "a".repeat(8 * MIB - 8));
    assert_eq!(long.len(), 8 * MIB);
    assert_eq!(refusal(&third(|_| long.clone())), ("ledger_invalid", Some(3)));
    assert_eq!(refusal(&third(|_| format!("{long} "))), ("resource_limit", Some(3)));
    let mut file = join(&lines());
    file.resize(80 * MIB, b' ');
    assert_eq!(refusal(&file), ("ledger_invalid", None));
    file.push(b' ');
    assert_eq!(refusal(&file), ("resource_limit", None));
}

/// The step over the whole file that comes first names the fault, wherever its line stands.
#[test]
fn steps_run_one_after_another() {
    let mut lines = lines();
    lines[1] = lines[1].replacen("\"version\":3", "\"version\":2", 1);
    assert_eq!(refusal(&join(&lines)), ("unsupported_protocol", Some(2)));
    lines[4] = lines[4].replacen("\"at\":50", "\"at\":5.0", 1);
    assert_eq!(refusal(&join(&lines)), ("noncanonical_number", Some(5)));
    lines[2].push('}');
    assert_eq!(refusal(&join(&lines)), ("codec_invalid", Some(3)));
}

#[test]
fn offsets_point_at_the_defect() {
    let good = join(&lines());
    let text = third(|line| line.replacen("\"at\":30", "\"at\":1.5", 1));
    let fault = read(&text, HOST).unwrap_err();
    assert_eq!(fault.offset, Some(good.windows(8).position(|w| w == b"\"at\":30,").unwrap() + 5));
    // The request is judged before the operations, and its fingerprint first.
    let text = third(|line| line.replace("\"state\":\"started\"", "\"state\":\"stopped\""));
    let fault = read(&text, HOST).unwrap_err();
    assert_eq!(fault.fault.code().as_str(), "request_invalid");
    assert!(text[fault.offset.unwrap() - 14..].starts_with(b"\"fingerprint\":\""));
    let text = third(|line| line.replacen("\"state\":\"started\"", "\"state\":\"stopped\"", 1));
    let fault = read(&text, HOST).unwrap_err();
    assert_eq!(fault.fault.code().as_str(), "dispatch_invalid");
    assert!(text[fault.offset.unwrap()..].starts_with(b"\"stopped\""));
}

/// S-002, S-003, S-005, S-006: other and missing versions, unknown and missing members, unknown operations.
#[test]
fn other_protocols() {
    for (from, to, code) in [
        ("\"version\":3", "\"version\":2", "unsupported_protocol"),
        ("\"version\":3", "\"version\":\"3\"", "unsupported_protocol"),
        ("\"version\":3", "\"version\":null", "unsupported_protocol"),
        (",\"version\":3", "", "unsupported_protocol"),
        ("\"version\":3", "\"version\":3,\"zeal\":1", "ledger_invalid"),
        ("\"at\":30,", "", "ledger_invalid"),
        ("\"at\":30", "\"at\":null", "ledger_invalid"),
        ("\"previous\":\"grant\"", "\"previous\":\"\"", "ledger_invalid"),
        ("\"previous\":\"grant\"", "\"previous\":3", "invalid_unicode"),
        ("\"actor\":{", "\"actor\":{\"alias\":1,", "unsupported_protocol"),
        ("\"kind\":\"Dispatch\"", "\"kind\":\"Launch\"", "unsupported_protocol"),
        ("\"kind\":\"Dispatch\"", "\"hint\":1,\"kind\":\"Dispatch\"", "unsupported_protocol"),
    ] {
        let text = third(|line| {
            assert!(line.contains(from), "{from}");
            line.replacen(from, to, 1)
        });
        assert_eq!(refusal(&text), (code, Some(3)), "{to}");
    }
}

/// One scanner reads any number of ledgers, also after it refused one.
#[test]
fn a_scanner_is_reusable() {
    let mut scanner = Scanner::new(HOST);
    let good = LedgerText::new(join(&lines())).unwrap();
    let bad = LedgerText::new(third(|line| line[..40].to_owned())).unwrap();
    for _ in 0..3 {
        assert_eq!(good.commits(&mut scanner).unwrap().len(), 7);
        assert!(bad.commits(&mut scanner).is_err());
    }
}
