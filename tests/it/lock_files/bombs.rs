//! YAML that is hostile, ambiguous or merely unusual (publication.md 4.4 points 3 and 4).

use std::time::{Duration, Instant};

use wq_action::launch::route::{Defect, LockFile};

use super::{lock, stamp, workflow};

/// The defect of a text that is refused.
fn defect(text: &str) -> Defect {
    lock(text).expect_err(&text[..text.len().min(80)])
}

/// One mapping, one document, unique text keys; anything else is refused.
#[test]
fn a_file_is_one_mapping() {
    for text in [
        "",
        "# nothing\n",
        "text\n",
        "- a\n",
        "a: 1\n---\nb: 2\n",
        "---\n",
        "a: 1\na: 2\n",
        "a: 1\n\"a\": 2\n",
        "x: {a: 1, a: 2}\n",
        "? [a]\n: 1\n",
        "? {a: 1}\n: 1\n",
        "a: !x 1\n",
        "a: !!binary AAAA\n",
        "a: !!set {b}\n",
        "!x\na: 1\n",
        "a: *nobody\n",
        "a: &a [*a]\n",
        "a: &a {b: *a}\n",
        "%YAML 1.1\n---\non: push\n",
        "# x\n%YAML 1.2\n---\na: 1\n",
        "%TAG ! tag:x\n---\na: 1\n",
        "a: [1\n",
        "a: 'x\n",
        "a: b: c\n",
        "a: 1\n b: 2\n",
        "x: {<<: 1}\n",
        "x: {<<: [1]}\n",
        "a: &a {b: 1}\nx: {<<: *a, <<: *a}\n",
        "a: !!int x\n",
        "a: !!str {b: 1}\n",
        "a: !!seq {b: 1}\n",
    ] {
        assert_eq!(defect(text), Defect::NotYaml, "{text:?}");
    }
    for text in [
        "a: 1\n",
        "---\na: 1\n",
        "---\na: 1\n...\n",
        "{a: 1}\n",
        "\"a\": 'b'\n",
        "a: !!str 1\n",
        "a: !!map {b: !!int 1}\n",
        "a: &a {b: 1}\nx: {<<: *a, c: 2}\n",
        "? a\n: 1\n",
        "a: &a k\n*a : 1\n",
        "a: !local\n".trim_end_matches("!local\n"),
    ] {
        assert!(lock(text).is_ok(), "{text:?}: {:?}", lock(text).err());
    }
    assert_eq!(LockFile::read(b"a: \xff\n").unwrap_err(), Defect::NotUtf8);
}

/// Merge keys bring what the mapping lacks: its own members win, then earlier sources.
#[test]
fn merge_keys_are_understood() {
    let (a, b) = ("a".repeat(64), "b".repeat(64));
    let name = "GH_AW_WORK_QUEUE_CONTRACT";
    for env in [
        "<<: *one".to_owned(),
        "<<: [*one, *two]".to_owned(),
        format!("<<: *two, {name}: {a}"),
        format!("{name}: {a}, <<: [*two]"),
    ] {
        let text = format!("x: [&one {{{name}: {a}}}, &two {{{name}: {b}}}]\nenv: {{{env}}}\n");
        assert_eq!(lock(&text).unwrap().contract(), Ok(stamp()), "{env}");
    }
    // Quoted, it is a name like others.
    let quoted = format!("x: &one {{{name}: {a}}}\nenv: {{'<<': *one}}\n");
    assert_eq!(lock(&quoted).unwrap().contract(), Err(Defect::StampMissing));
}

/// 100 alias expansions are followed and 101 are not; an expansion inside an expanded node counts every time.
#[test]
fn aliases_are_counted() {
    let uses = |count: usize| format!("a: &a x\nb: [{}]\n", vec!["*a"; count].join(", "));
    assert!(lock(&uses(100)).is_ok());
    assert_eq!(defect(&uses(101)), Defect::YamlTooComplex);
    // b costs 9, each use of it 10 more: 9 + 9 * 10 = 99, and one more use is too much.
    let nested =
        |count: usize| format!("a: &a x\nb: &b [{}]\nc: [{}]\n", ["*a"; 9].join(", "), vec!["*b"; count].join(", "));
    assert!(lock(&nested(9)).is_ok());
    assert_eq!(defect(&nested(10)), Defect::YamlTooComplex);
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        laughs += &format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 10].join(", "));
    }
    assert_eq!(defect(&laughs), Defect::YamlTooComplex);
    // Few expansions of a large node.
    let large = format!("a: &a [{}]\nb: [{}]\n", "x, ".repeat(100_000), ["*a"; 3].join(", "));
    assert_eq!(defect(&large), Defect::YamlTooComplex);
    let merges = format!(
        "a: &a {{{}}}\nb: [{}]\n",
        (0..5000).map(|key| format!("k{key}: 1, ")).collect::<String>(),
        ["{<<: *a}"; 60].join(", ")
    );
    assert_eq!(defect(&merges), Defect::YamlTooComplex);
}

/// 64 levels are read and 65 are not, in flow and in blocks.
#[test]
fn depth_is_bounded() {
    let flow = |levels: usize| format!("a: {}{}\n", "[".repeat(levels - 1), "]".repeat(levels - 1));
    assert!(lock(&flow(64)).is_ok());
    assert_eq!(defect(&flow(65)), Defect::YamlTooComplex);
    let block = |levels: usize| (0..levels).map(|level| format!("{}a:\n", " ".repeat(level))).collect::<String>();
    assert!(lock(&block(64)).is_ok());
    assert_eq!(defect(&block(65)), Defect::YamlTooComplex);
    assert_eq!(defect(&format!("a: {}", "- ".repeat(200))), Defect::NotYaml);
    assert_eq!(defect(&format!("a:\n  {}x\n", "- ".repeat(200))), Defect::YamlTooComplex);
}

/// 1 MiB is read and one byte more is not.
#[test]
fn size_is_bounded() {
    let mut text = workflow("worker.lock.yml");
    let missing = 1024 * 1024 - text.len();
    text += &format!("#{}\n", "x".repeat(missing - 2));
    assert_eq!(text.len(), 1024 * 1024);
    lock(&text).unwrap().check_worker(Some(&stamp())).unwrap();
    text.push('\n');
    assert_eq!(defect(&text), Defect::TooLong);
}

/// The longest hostile texts that fit are answered in moments, with an answer and not a crash.
#[test]
fn hostile_text_is_answered_quickly() {
    const SIZE: usize = 1024 * 1024 - 16;
    let pieces = [
        "[",
        "{",
        "- ",
        "? ",
        "a: ",
        "&a ",
        "*a ",
        "!x ",
        "\"",
        "'",
        "a: &a\n",
        "- - ",
        "{a: ",
        "[[],",
        "%",
        "|\n",
        ">\n",
        "\\",
        ":",
        ",",
        "a,",
        "#",
        "\t",
        "\u{feff}",
        "---\n",
        "...\n",
        "a: 1\n",
        " ",
        "\n",
        "\r",
        "\0",
        "<<: ",
        "- &a *a\n",
        "🛠",
        "\u{85}",
    ];
    let start = Instant::now();
    for piece in pieces {
        for prefix in ["", "a: ", "a: [", "a:\n  "] {
            let text = format!("{prefix}{}", piece.repeat((SIZE - prefix.len()) / piece.len()));
            let before = Instant::now();
            _ = lock(&text);
            assert!(before.elapsed() < Duration::from_secs(10), "{prefix:?} {piece:?}: {:?}", before.elapsed());
        }
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

/// Whatever is cut off or altered in a compiled file, reading it ends with an answer.
#[test]
fn damaged_files_do_not_crash() {
    let text = workflow("worker.lock.yml").into_bytes();
    for at in 0..text.len() {
        _ = LockFile::read(&text[..at]);
        for byte in [b'\n', b'&', b'{', b'"', b':', b'-', b' ', 0, 0xff] {
            let mut damaged = text.clone();
            damaged[at] = byte;
            if let Ok(file) = LockFile::read(&damaged) {
                _ = file.check_worker(Some(&stamp()));
            }
        }
    }
}
