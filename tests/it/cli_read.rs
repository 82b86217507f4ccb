//! The commands that read: from a ledger file, through the binary.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::Value;
use wq_action::protocol::identity::sha256_hex;

use crate::support::cli::{feed, run, wq};
use crate::support::corpus::{conformance, load_case};

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

const GRANT: &str = "c_c6ed3a1e97e7d7a4a5f5bc4eac4293d026499e991f13cbc0424a4be5bf9a957b_1";
const WORK_A: &str = "c26bb3b003984e39a4945d5b9e06e9d67fe7fa15e78b222ab43495857e882f2d";
const WORK_B: &str = "1e74d1b8ad16053d592df448d63b2fe0e6e53f904031a6147a2ff95f9ac32f60";

/// O-294: the replayed state shows native reservations, each Claim, and dependency nodes by type.
#[test]
fn replay_shows_the_state_to_people() {
    let ran = run(&fixtures(), &["replay", "--ledger", "three-commits.jsonl"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_snapshot!(ran.out, @r#"
    3 commits, tip grant, policy epoch initial

    WORK
    1e74d1b8ad16053d592df448d63b2fe0e6e53f904031a6147a2ff95f9ac32f60  available  delivery=none  pool=default priority=3 key="" node=b attempts=0
    c26bb3b003984e39a4945d5b9e06e9d67fe7fa15e78b222ab43495857e882f2d  claimed  delivery=none  pool=default priority=3 key="" node=a attempts=1

    CLAIMS
    claim                                                                 state  handle  work                                                              dispatch
    c_c6ed3a1e97e7d7a4a5f5bc4eac4293d026499e991f13cbc0424a4be5bf9a957b_1  open   h1      c26bb3b003984e39a4945d5b9e06e9d67fe7fa15e78b222ab43495857e882f2d  d_c6ed3a1e97e7d7a4a5f5bc4eac4293d026499e991f13cbc0424a4be5bf9a957b_1

    NATIVE RESERVATIONS
    dispatch                                                              state     profile  claims  run
    d_c6ed3a1e97e7d7a4a5f5bc4eac4293d026499e991f13cbc0424a4be5bf9a957b_1  reserved  default       1  -

    DEPENDENCIES
    none
    "#);
    let lifecycle = run(&fixtures(), &["replay", "--ledger", "lifecycle.jsonl"]);
    let edge = "work  771ea24ec29d2ab889d13ae60f0b4d63e2bdb153a7c18180c20a4a8a5a099aed  \
                2e0f3bc6594db5e215813f02dadda7b38f8e5294925fd418c53e74b2e798d8b0 verified";
    assert!(lifecycle.out.contains(edge), "{}", lifecycle.out);
}

/// A prefix is the state after so many commits; standard input is a file like any other.
#[test]
fn replay_stops_at_a_prefix() {
    let ledger = std::fs::read_to_string(fixtures().join("three-commits.jsonl")).unwrap();
    for (prefix, tip, claims) in [("1", "genesis", 0), ("2", "submit", 0), ("3", "grant", 1), ("4", "grant", 1)] {
        let arguments = ["replay", "--ledger", "-", "--prefix", prefix, "--json"];
        let answer = feed(&fixtures(), &arguments, &ledger).json(0);
        assert_eq!(answer.as_object().unwrap().keys().collect::<Vec<_>>(), ["projection"]);
        assert_eq!(answer["projection"]["tip"], tip);
        assert_eq!(answer["projection"]["claims"].as_object().unwrap().len(), claims);
    }
    assert_eq!(run(&fixtures(), &["replay", "--ledger", "three-commits.jsonl", "--prefix", "0"]).code, 2);
}

/// Ledgers of the corpus that this version supports in full, small enough for a process each.
const LEDGERS: [&str; 6] = ["s002", "s005", "s010", "s020", "s037", "s047"];

/// S-115: the binary prints the projection and the predictions of the corpus byte for byte, digests included.
#[test]
fn replay_agrees_with_the_corpus() {
    let Some(folder) = conformance().map(|folder| folder.join("corpus")) else { return };
    let mut predicted = 0;
    for name in LEDGERS {
        let case = load_case(name).unwrap();
        let file = format!("{name}.jsonl");
        let ran = run(&folder, &["replay", "--ledger", &file, "--json"]);
        let projection = ran.out.strip_prefix(r#"{"projection":"#).and_then(|rest| rest.strip_suffix("}\n")).unwrap();
        assert_eq!(sha256_hex(&[projection]), case.expect["projection_sha256"], "{name}");
        for prediction in case.expect["predictions"].as_array().unwrap() {
            let answer = run(&folder, &question(&file, prediction)).json(0);
            assert_eq!(answer["prediction"]["result"], prediction["result"], "{name}: {prediction}");
            assert_eq!(answer["prediction"]["select"], prediction["select"], "{name}: {prediction}");
            predicted += 1;
        }
    }
    assert!(predicted > 20, "{predicted}");
}

fn question<'a>(file: &'a str, prediction: &'a Value) -> Vec<&'a str> {
    let mut arguments: Vec<&str> = vec!["replay", "--json", "--ledger", file];
    for (flag, member) in [
        ("--prefix", "after_commits"),
        ("--pool", "pool"),
        ("--at", "at"),
        ("--max-claims", "max_claims"),
        ("--max-dispatches", "max_dispatches"),
        ("--max-bytes", "max_bytes"),
        ("--preceding-operations", "preceding_operations"),
        ("--request-id", "request_id"),
        ("--commit-id", "commit_id"),
    ] {
        match &prediction[member] {
            Value::String(text) => arguments.extend([flag, text]),
            // Leaked on purpose: a test's few numbers outlive their arguments.
            Value::Number(number) => arguments.extend([flag, number.to_string().leak()]),
            _ => {}
        }
    }
    for profile in prediction["worker_profiles"].as_array().into_iter().flatten() {
        arguments.extend(["--worker-profile", profile.as_str().unwrap()]);
    }
    arguments
}

/// A sound ledger is `ok` with its counts; a damaged one names the first line at fault, the byte, the code and the
/// sentence, and exits 3.
#[test]
fn verify_names_what_is_wrong() {
    let sound = run(&fixtures(), &["verify", "--ledger", "lifecycle.jsonl"]);
    assert_eq!(sound.code, 0);
    assert_snapshot!(sound.out, @"ok: 7 commits, 2 Work (1 available, 0 claimed, 1 completed, 0 cancelled), 1 Claims, 0 native reservations, 2 graph nodes, 9705 bytes");
    let answer = run(&fixtures(), &["verify", "--ledger", "lifecycle.jsonl", "--json"]).json(0);
    assert_eq!((answer["ok"].as_bool(), answer["transactions"].as_u64()), (Some(true), Some(7)));

    assert_eq!(answer["replaced"], 0);

    let ledger = std::fs::read_to_string(fixtures().join("three-commits.jsonl")).unwrap();
    let first = ledger.find('\n').unwrap() as u64;
    let check = |text: &str| feed(&fixtures(), &["verify", "--ledger", "-", "--json"], text).json(3);
    for (text, code, line, offset) in [
        (ledger.replacen("\"version\":3", "\"version\":2", 1), "unsupported_protocol", Some(1), None),
        (ledger.replacen("\"at\":1,", "\"at\":1.0,", 1), "noncanonical_number", Some(2), None),
        (ledger.replace('\n', "\r\n") + "\n", "ledger_invalid", Some(4), None),
        (format!("<<<<<<< ours\n{ledger}"), "codec_invalid", Some(1), Some(0)),
        (format!("\u{feff}{ledger}"), "codec_invalid", Some(1), Some(0)),
        (ledger.trim_end().to_owned(), "ledger_invalid", None, None),
        (String::new(), "ledger_invalid", None, None),
        (ledger[first as usize + 1..].to_owned(), "ledger_invalid", None, None),
        (ledger.replacen(WORK_A, WORK_B, 3), "request_invalid", Some(2), None),
    ] {
        let answer = check(&text);
        assert_eq!(answer["ok"], false);
        assert_eq!(answer["code"], code, "{answer}");
        if line.is_some() || code == "ledger_invalid" {
            assert_eq!(answer["line"].as_u64(), line, "{answer}");
        }
        if offset.is_some() {
            assert_eq!(answer["offset"].as_u64(), offset, "{answer}");
        }
        assert!(answer["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
    let blank = check(&ledger.replacen('\n', "\n\n", 1));
    assert_eq!((blank["line"].as_u64(), blank["offset"].as_u64()), (Some(2), Some(first + 1)));
    let broken = feed(&fixtures(), &["verify", "--ledger", "-"], &ledger.replacen("\"at\":10,", "\"at\":-0,", 1));
    assert_eq!(broken.code, 3);
    assert!(broken.out.starts_with("not ok: line 3, byte "), "{}", broken.out);
}

/// What cannot be read is a typed failure of the host (exit 7), what is too long a refused ledger (exit 3), whatever
/// is behind the name.
#[test]
fn verify_reads_within_bounds() {
    let here = tempfile::tempdir().unwrap();
    for missing in ["nowhere", "."] {
        assert_eq!(run(here.path(), &["verify", "--ledger", missing, "--json"]).error(7), "io_failed");
    }
    let endless = run(here.path(), &["verify", "--ledger", "/dev/zero", "--json"]).json(3);
    assert_eq!((endless["code"].as_str(), endless["line"].is_null()), (Some("resource_limit"), true));
    let long = std::fs::File::create(here.path().join("long")).unwrap();
    long.set_len(80 * 1024 * 1024 + 1).unwrap();
    assert_eq!(run(here.path(), &["verify", "--ledger", "long", "--json"]).json(3)["code"], "resource_limit");
    let pipe = here.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if made.is_ok_and(|status| status.success()) {
        let ledger = std::fs::read(fixtures().join("three-commits.jsonl")).unwrap();
        let writer = std::thread::spawn(move || std::fs::write(pipe, ledger).unwrap());
        assert_eq!(run(here.path(), &["verify", "--ledger", "pipe", "--json"]).json(0)["ok"], true);
        writer.join().unwrap();
    }
}

/// O-295: stats counts Work by state, Claims, native reservations and graph nodes, and what happened separately.
#[test]
fn stats_counts_each_thing_once() {
    let answer = run(&fixtures(), &["stats", "--ledger", "lifecycle.jsonl", "--json"]).json(0);
    for (name, count) in [
        ("work", 2),
        ("available", 1),
        ("claimed", 0),
        ("completed", 1),
        ("cancelled", 0),
        ("claims", 1),
        ("dispatches", 0),
        ("transactions", 7),
        ("nodes", 2),
        ("held_reservations_total", 0),
    ] {
        assert_eq!(answer[name], count, "{name}: {answer}");
    }
    let metrics = &answer["metrics"];
    for name in ["grants", "launches", "bound_runs", "completions", "results", "releases"] {
        assert_eq!(metrics[name], 1, "{name}: {metrics}");
    }
    assert_eq!(metrics["runner_time"], "unmeasured");
    assert_eq!((answer["tip"].as_str(), answer["sha"].is_null()), (Some("release"), true));
    let held = run(&fixtures(), &["stats", "--ledger", "three-commits.jsonl", "--json"]).json(0);
    assert_eq!(held["held_reservations"][0]["state"], "reserved");
    assert_eq!(held["held_reservations"][0]["granted_at"], 10);
}

/// O-302: explain evaluates a selection or a dependency path, and the ledger stays as it is.
#[test]
fn explain_says_who_is_next_and_why_others_wait() {
    let explain = |ledger: &str, rest: &[&str]| {
        let mut arguments = vec!["explain", "--ledger", ledger, "--json"];
        arguments.extend(rest);
        run(&fixtures(), &arguments)
    };
    let next = explain("three-commits.jsonl", &["--pool", "default", "--at", "10"]).json(0);
    assert_eq!(next["selection"]["work_id"], WORK_B);
    assert_eq!(next["decision"]["work_ids"][0], WORK_B);
    assert_eq!((next["status"].as_str(), next["at"].as_i64()), (Some("snapshot_prediction"), Some(10)));
    let claimed = explain("three-commits.jsonl", &["--work-id", WORK_A]).json(0);
    assert_eq!((claimed["ready"].as_bool(), claimed["reason"].as_str()), (Some(false), Some("ownership_claimed")));
    assert_eq!(claimed["path"], serde_json::json!(["a"]));
    let granted = explain("three-commits.jsonl", &["--claim-id", GRANT]).json(0);
    assert_eq!((granted["work_id"].as_str(), granted["before_tip"].as_str()), (Some(WORK_A), Some("submit")));
    let request = explain("three-commits.jsonl", &["--request-id", "request-grant"]).json(0);
    assert_eq!(
        (request["commit_id"].as_str(), request["claims"][0]["claim_id"].as_str()),
        (Some("grant"), Some(GRANT))
    );
    assert_eq!(explain("three-commits.jsonl", &["--work-id", "none"]).error(2), "work_missing");
    assert_eq!(explain("three-commits.jsonl", &["--claim-id", "none"]).error(2), "claim_missing");
    assert_eq!(explain("three-commits.jsonl", &["--request-id", "none"]).error(2), "request_missing");
    assert_eq!(explain("three-commits.jsonl", &["--pool", "none"]).error(2), "policy_invalid");
    let both = explain("three-commits.jsonl", &["--pool", "default", "--request-id", "request-grant"]);
    assert_eq!(both.error(2), "inspection_invalid");
}

/// Metadata of a Work, its Claim and its dispatch; never a payload or a Result's descriptor.
#[test]
fn inspect_shows_everything_but_payloads() {
    let ran = run(&fixtures(), &["inspect", "--ledger", "three-commits.jsonl", "--claim-id", GRANT, "--json"]);
    let answer = ran.json(0);
    assert_eq!(
        (answer["selection"]["kind"].as_str(), answer["selection"]["id"].as_str()),
        (Some("claim"), Some(GRANT))
    );
    assert_eq!(answer["selection"]["current"], true);
    assert_eq!((answer["work"]["work_id"].as_str(), answer["work"]["state"].as_str()), (Some(WORK_A), Some("claimed")));
    assert_eq!(answer["dispatch"]["claims"][0]["handle"], "h1");
    assert!(answer["details"].as_str().unwrap().contains("native reservation retained: true"));
    let ledger = std::fs::read_to_string(fixtures().join("lifecycle.jsonl")).unwrap();
    let descriptor = ledger.lines().find_map(|line| line.split(r#""descriptor":"#).nth(1)).unwrap();
    let descriptor = &descriptor[..descriptor.find('}').unwrap()];
    for arguments in [
        &["inspect", "--work-id", "2e0f3bc6594db5e215813f02dadda7b38f8e5294925fd418c53e74b2e798d8b0"][..],
        &["stats"],
        &["explain"],
        &["replay"],
    ] {
        for form in [None, Some("--json")].iter().take(if arguments[0] == "replay" { 1 } else { 2 }) {
            let mut arguments = arguments.to_vec();
            arguments.extend(["--ledger", "lifecycle.jsonl"]);
            arguments.extend(*form);
            let ran = run(&fixtures(), &arguments);
            assert_eq!(ran.code, 0, "{ran:?}");
            assert!(!ran.out.contains("\"task\"") && !ran.out.contains(descriptor), "{arguments:?}: {}", ran.out);
        }
    }
    assert_eq!(run(&fixtures(), &["inspect", "--ledger", "three-commits.jsonl", "--json"]).error(2), "usage_invalid");
}

/// O-007, O-287, O-323, O-325, O-375: no storage but Git, no flag that names the Work to claim, no command that
/// finishes one; usage errors are one object with --json and exit 2, and every command's help names its bounds.
#[test]
fn the_command_line_holds_no_back_door() {
    let here = tempfile::tempdir().unwrap();
    let refused: [&[&str]; 8] = [
        &["stats", "--storage", "git"],
        &["--storage", "git", "stats"],
        &["dispatch-next", "--work-id", "x"],
        &["dispatch-next", "--claim-id", "x"],
        &["dispatch-next", "--max-claims", "257"],
        &["claim"],
        &["finish"],
        &["force-release"],
    ];
    for arguments in refused {
        let mut arguments = arguments.to_vec();
        arguments.push("--json");
        assert_eq!(run(here.path(), &arguments).error(2), "usage_invalid", "{arguments:?}");
    }
    let commands = [
        "replay",
        "verify",
        "stats",
        "state",
        "explain",
        "inspect",
        "trace",
        "submit-work",
        "submit-graph",
        "dispatch-next",
        "demo",
    ];
    for command in commands {
        let help = run(here.path(), &[command, "--help"]);
        assert_eq!((help.code, help.err.as_str()), (0, ""));
        assert!(help.out.contains("default: work-queue"), "{}", help.out);
        // Every flag that takes a value says its bounds; only the path of a repository has none.
        let mut flags: Vec<String> = Vec::new();
        for line in help.out.lines() {
            let text = line.trim_start();
            match flags.last_mut() {
                _ if text.starts_with('-') && line.len() - text.len() < 8 => flags.push(text.to_owned()),
                Some(flag) => flag.push_str(text),
                None => {}
            }
        }
        for (name, told) in flags.iter().filter_map(|flag| flag.split_once('>')) {
            assert!(told.bytes().any(|byte| byte.is_ascii_digit()) || name == "--remote <PATH", "{command} {name}");
        }
        assert!(flags.len() > 5, "{flags:?}");
    }
    let alone = run(here.path(), &[]);
    assert!(alone.code == 0 && alone.out.contains("dispatch-next"));
}

/// A reader that goes away is no failure and no panic; a full disk is a typed one.
#[test]
fn output_ends_quietly_or_typed() {
    let mut command = wq(&fixtures());
    command.args(["replay", "--ledger", "lifecycle.jsonl", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
    if Path::new("/dev/full").exists() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = wq(&fixtures());
        let output = command.args(["stats", "--ledger", "lifecycle.jsonl", "--json"]).stdout(full).output().unwrap();
        assert_eq!(crate::support::cli::Ran::of(output).error(7), "io_failed");
    }
}
