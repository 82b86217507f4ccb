//! Damaged ledgers and unusable repositories, through the binary: every command that meets one says what is wrong with
//! its code, line and exit status, and the repository stays as it was.

use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::support::cli::{Ran, run, wq};
use crate::support::git::{Bare, executable, feed};

const MIB: usize = 1024 * 1024;

/// Address space that a command and its git processes may use each, in KiB: enough to read the largest ledger, and no
/// room for twice the work.
const ROOM: &str = "786432";

/// Reads and publications of a queue branch. Each would succeed on an undamaged ledger.
const COMMANDS: [&[&str]; 9] = [
    &["submit-work", "--file", "-", "--request-id", "another"],
    &["submit-graph", "--file", "-", "--request-id", "another"],
    &["dispatch-next", "--request-id", "another"],
    &["stats"],
    &["replay"],
    &["explain"],
    &["inspect", "--work-id", "x"],
    &["state"],
    &["trace", "--request-id", "grant"],
];

/// What a command that reads standard input finds there.
fn input(arguments: &[&str]) -> &'static [u8] {
    if arguments[0] == "submit-graph" { br#"[{"payload":{"task":"x"}}]"# } else { br#"{"task":"x"}"# }
}

/// Runs a command against the repository beside it, within bounded memory.
fn on(bare: &Bare, arguments: &[&str]) -> Ran {
    let mut all = arguments.to_vec();
    all.extend(["--remote", "queue.git", "--json"]);
    bounded(bare, &all, input(arguments))
}

fn bounded(bare: &Bare, arguments: &[&str], input: &[u8]) -> Ran {
    let plain = wq(bare.around());
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v \"$0\" && exec \"$@\"", ROOM]).arg(plain.get_program()).args(arguments);
    command.current_dir(bare.around()).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    Ran::of(feed(command, input))
}

/// Three submissions and a grant, one commit a line.
fn lines() -> Vec<String> {
    static LEDGER: OnceLock<String> = OnceLock::new();
    let ledger = LEDGER.get_or_init(|| {
        let bare = Bare::new();
        for task in ["a", "b", "c"] {
            let mut command = wq(bare.around());
            command.args(["submit-work", "--file", "-", "--remote", "queue.git", "--json", "--request-id", task]);
            Ran::of(feed(command, format!(r#"{{"task":"{task}"}}"#).as_bytes())).json(0);
        }
        on(&bare, &["dispatch-next", "--request-id", "grant"]).json(0);
        bare.ledger()
    });
    ledger.lines().map(str::to_owned).collect()
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

/// The third line with one member more.
fn with_member(value: &str) -> Vec<u8> {
    third(|line| format!("{},\"z\":{value}}}", &line[..line.len() - 1]))
}

fn inserted(at: usize, line: &str) -> Vec<u8> {
    let mut lines = lines();
    lines.insert(at, line.to_owned());
    join(&lines)
}

/// Puts a damaged ledger on the queue branch and runs commands over it that submit, grant and read.
fn refused(what: &str, ledger: &[u8], code: &str, line: Option<u64>) {
    refused_by(&[COMMANDS[0], COMMANDS[2], COMMANDS[3]], what, ledger, code, line);
}

fn refused_by(commands: &[&[&str]], what: &str, ledger: &[u8], code: &str, line: Option<u64>) {
    let bare = Bare::new();
    bare.seed(ledger);
    let before = bare.contents();
    let checked = bounded(&bare, &["verify", "--ledger", "-", "--json"], ledger).json(3);
    assert_eq!((checked["ok"].as_bool(), checked["code"].as_str()), (Some(false), Some(code)), "{what}");
    assert_eq!(checked["line"].as_u64(), line, "{what}: {checked}");
    for arguments in commands {
        let ran = on(&bare, arguments);
        assert_eq!(ran.error(3), code, "{what}: {arguments:?}");
        let error: Value = serde_json::from_str(&ran.err).unwrap();
        let message = error["error"]["message"].as_str().unwrap();
        let told = message.strip_prefix("line ").and_then(|rest| rest.split(':').next()?.parse().ok());
        assert_eq!(told, line, "{what}: {message}");
    }
    assert!(bare.contents() == before, "{what}: the repository changed");
}

/// The ledger that the other tests damage is sound, and each command does its work on it.
#[test]
fn the_undamaged_ledger_serves_every_command() {
    for arguments in COMMANDS {
        let bare = Bare::new();
        bare.seed(&join(&lines()));
        let ran = on(&bare, arguments);
        if arguments[0] == "inspect" {
            assert_eq!(ran.error(2), "work_missing");
        } else {
            assert_eq!(ran.code, 0, "{ran:?}");
        }
        let sound = bounded(&bare, &["verify", "--ledger", "-"], bare.ledger().as_bytes());
        assert_eq!((sound.code, &sound.out[..3]), (0, "ok:"), "{arguments:?}");
    }
}

/// S-002, S-016, S-555, O-292, O-377: what people, merges and editors do to a file, and other versions.
#[test]
fn damaged_text_is_refused_with_its_line() {
    let text = String::from_utf8(join(&lines())).unwrap();
    for marker in ["<<<<<<< HEAD", "=======", ">>>>>>> theirs"] {
        refused_by(&COMMANDS, marker, &inserted(2, marker), "codec_invalid", Some(3));
    }
    refused(
        "carriage returns and a blank line",
        &(text.replace('\n', "\r\n") + "\r\n").into_bytes(),
        "ledger_invalid",
        Some(5),
    );
    refused("carriage returns alone", &text.replace('\n', "\r").into_bytes(), "ledger_invalid", None);
    refused("byte order mark", format!("\u{feff}{text}").as_bytes(), "codec_invalid", Some(1));
    refused("no last line feed", &text.as_bytes()[..text.len() - 1], "ledger_invalid", None);
    refused("half a file", &text.as_bytes()[..text.len() / 2], "ledger_invalid", None);
    refused("half a line", &third(|line| line[..line.len() / 2].to_owned()), "codec_invalid", Some(3));
    refused("blank line", &inserted(1, ""), "ledger_invalid", Some(2));
    refused("line of spaces", &inserted(1, " \t "), "ledger_invalid", Some(2));
    refused("empty file", b"", "ledger_invalid", None);
    refused(
        "repeated key",
        &third(|line| line.replacen("\"actor\":", "\"actor\":1,\"actor\":", 1)),
        "duplicate_key",
        Some(3),
    );
    refused(
        "escaped key",
        &third(|line| line.replacen("\"actor\":", "\"\\u0061ctor\":1,\"actor\":", 1)),
        "duplicate_key",
        Some(3),
    );
    refused("not UTF-8", &[&text.as_bytes()[..9], b"\xff", &text.as_bytes()[9..]].concat(), "ledger_invalid", Some(1));
    for version in ["2", "4", "\"3\"", "null"] {
        let other = third(|line| line.replacen("\"version\":3", &format!("\"version\":{version}"), 1));
        refused("another version", &other, "unsupported_protocol", Some(3));
    }
    refused("no version", &third(|line| line.replacen(",\"version\":3", "", 1)), "unsupported_protocol", Some(3));
    refused("a version-2 record", &inserted(0, r#"{"version":2,"kind":"Work"}"#), "unsupported_protocol", Some(1));
}

/// S-008, S-009, S-018: values outside the wire profile.
#[test]
fn values_outside_the_profile_are_refused_with_their_line() {
    for surrogate in [r#""\ud800""#, r#""\udfff""#, r#"{"\ud800":1}"#] {
        refused(surrogate, &with_member(surrogate), "invalid_unicode", Some(3));
    }
    for number in ["1.0", "-0", "9007199254740992", "1e3"] {
        refused(number, &with_member(number), "noncanonical_number", Some(3));
    }
}

/// S-020, S-487: depth, arrays, a line and a file at one more than their bound. Memory is bounded, so what is too large
/// is refused before it is held twice.
#[test]
fn sizes_beyond_their_bound_are_refused_in_bounded_memory() {
    refused("65 levels", &with_member(&format!("{}{}", "[".repeat(65), "]".repeat(65))), "resource_limit", Some(3));
    let array = format!("[{}]", vec!["0"; 16_385].join(","));
    refused("16,385 members", &with_member(&array), "resource_limit", Some(3));
    let long = format!("{{\"x\":\"{}\"}}", "a".repeat(8 * MIB + 1 - 8));
    assert_eq!(long.len(), 8 * MIB + 1);
    refused("a line of 8 MiB and one byte", &third(|_| long), "resource_limit", Some(3));
    let mut file = join(&lines());
    file.resize(80 * MIB + 1, b' ');
    refused("a file of 80 MiB and one byte", &file, "resource_limit", None);
}

/// S-036, S-037, S-041, S-044, S-049: chains and decisions that do not hold, at the line that breaks them.
#[test]
fn broken_histories_are_refused() {
    let all = lines();
    refused("the first commit is missing", &join(&all[1..]), "ledger_invalid", None);
    refused("a commit in the middle is missing", &join(&[&all[..1], &all[2..]].concat()), "ledger_invalid", None);
    let forked = [all.clone(), vec![all[3].replacen("\"at\":1", "\"at\":2", 1)]].concat();
    refused("one id, two commits", &join(&forked), "ledger_invalid", None);
    // The grant of another Work than the scheduler's, in every place that names it.
    let work = |index: usize| -> String {
        let commit: Value = serde_json::from_str(&all[index]).unwrap();
        commit["operations"].as_array().unwrap().last().unwrap()["work_id"].as_str().unwrap().to_owned()
    };
    let stolen = [&all[..3], &[all[3].replace(&work(0), &work(1))]].concat();
    refused("another winner", &join(&stolen), "selection_invalid", Some(4));
}

/// O-047, O-292, S-255, S-557: a place that is missing, no repository, a file, or closed to this user is an error of
/// its own for every command, never an empty queue, and nothing takes its place.
#[test]
fn unreadable_places_are_never_empty_queues() {
    let bare = Bare::new();
    std::fs::create_dir(bare.around().join("plain")).unwrap();
    std::fs::write(bare.around().join("file"), "x").unwrap();
    let listing = |bare: &Bare| std::fs::read_dir(bare.around()).unwrap().count();
    let before = listing(&bare);
    for place in ["nowhere", "plain", "file", "nowhere/below"] {
        for arguments in COMMANDS {
            let mut all = arguments.to_vec();
            all.extend(["--remote", place, "--json"]);
            let ran = bounded(&bare, &all, input(arguments));
            assert_eq!(ran.error(7), "repository_unavailable", "{place}: {arguments:?}");
            assert!(!ran.err.contains(place) && !ran.err.contains("queue_missing"), "{}", ran.err);
        }
    }
    assert_eq!(listing(&bare), before, "nothing is made");
    assert_eq!(std::fs::read_dir(bare.around().join("plain")).unwrap().count(), 0);
}

/// O-047: a repository that this user may not open is a denial. Root may open everything, so there another owner's
/// directory, which git itself refuses, plays that part.
#[test]
fn a_closed_repository_is_denied() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let bare = Bare::new();
    bare.seed(&join(&lines()));
    if std::fs::metadata(bare.path()).unwrap().uid() == 0 {
        if std::os::unix::fs::chown(bare.path(), Some(65_534), Some(65_534)).is_err() {
            eprintln!("skipped: the owner of a directory cannot be changed here");
            return;
        }
    } else {
        std::fs::set_permissions(bare.path(), std::fs::Permissions::from_mode(0o000)).unwrap();
    }
    let told: Vec<String> = COMMANDS.iter().map(|arguments| on(&bare, arguments).error(4)).collect();
    std::fs::set_permissions(bare.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    assert!(told.iter().all(|code| code == "repository_unavailable"), "{told:?}");
}

/// O-047, S-184, S-253, S-557: a hook that declines is a denial after one push, also for the submission that would make
/// the queue; an ordinary writer needs nothing beyond the push.
#[test]
fn a_declined_push_is_a_denial_without_a_second_try() {
    for seeded in [true, false] {
        let bare = Bare::new();
        if seeded {
            bare.seed(&join(&lines()));
        }
        let head = bare.resolve("refs/heads/work-queue");
        bare.hook("pre-receive", "#!/bin/sh\necho call >> \"$GIT_DIR/calls\"\necho secret words >&2\nexit 1\n");
        let publishing = if seeded { &COMMANDS[..3] } else { &COMMANDS[..2] };
        for arguments in publishing {
            let ran = on(&bare, arguments);
            assert_eq!(ran.error(4), "publication_denied", "{arguments:?}");
            assert!(!ran.err.contains("secret"), "{}", ran.err);
        }
        let calls = std::fs::read_to_string(bare.path().join("calls")).unwrap();
        assert_eq!(calls.lines().count(), publishing.len());
        assert_eq!(bare.resolve("refs/heads/work-queue"), head);
        std::fs::remove_file(bare.path().join("hooks/pre-receive")).unwrap();
        assert_eq!(on(&bare, COMMANDS[0]).code, 0);
    }
}

/// S-557, S-243: attempts that are used up, and a server that dies over every push, end as unknown with status 5; the
/// same command may be repeated and publishes once.
#[test]
fn an_unproven_publication_is_unknown_and_repeatable() {
    let bare = Bare::new();
    bare.seed(&join(&lines()));
    let ledger = bare.ledger();
    std::fs::write(bare.path().join("refs/heads/work-queue.lock"), "").unwrap();
    let ran = on(&bare, COMMANDS[0]);
    assert_eq!(ran.error(5), "publication_unresolved");
    assert!(ran.err.contains("nobody else did"), "{}", ran.err);
    std::fs::remove_file(bare.path().join("refs/heads/work-queue.lock")).unwrap();
    bare.hook("pre-receive", "#!/bin/sh\nkill -9 $PPID\n");
    let ran = on(&bare, COMMANDS[0]);
    assert_eq!(ran.error(5), "publication_unresolved");
    assert!(ran.err.contains("same request id"), "{}", ran.err);
    assert_eq!(bare.ledger(), ledger);
    std::fs::remove_file(bare.path().join("hooks/pre-receive")).unwrap();
    assert_eq!(on(&bare, COMMANDS[0]).json(0)["published_now"], true);
    assert_eq!(on(&bare, COMMANDS[0]).json(0)["replayed"], true);
    assert_eq!(bare.ledger().lines().count(), ledger.lines().count() + 1);
}

/// S-242: a hook that moves the branch and then reports a failure; the request is found and told as recovered, once.
#[test]
fn an_accepted_push_that_reports_failure_is_recovered() {
    let bare = Bare::new();
    bare.seed(&join(&lines()));
    bare.hook("update", "#!/bin/sh\ngit update-ref \"$1\" \"$3\" \"$2\"\nexit 1\n");
    let first = on(&bare, COMMANDS[2]).json(0);
    assert_eq!((first["recovered"].as_bool(), first["published_now"].as_bool()), (Some(true), Some(false)));
    let again = on(&bare, COMMANDS[2]).json(0);
    assert_eq!((again["replayed"].as_bool(), &again["claims"]), (Some(true), &first["claims"]));
    assert_eq!(bare.ledger().lines().count(), lines().len() + 1);
}

/// Without git, with one that is too old, that fails, or that talks nonsense: typed, exit 7, for every command.
#[test]
fn an_unusable_git_is_unavailable() {
    let bare = Bare::new();
    bare.seed(&join(&lines()));
    let scripts = [
        (None, "git_unavailable"),
        (Some("#!/bin/sh\necho git version 2.30.9\n"), "git_unavailable"),
        (Some("#!/bin/sh\nexit 1\n"), "git_unavailable"),
        (
            Some("#!/bin/sh\nif [ \"$1\" = version ]; then echo git version 2.47.3; exit 0; fi\necho nonsense\n"),
            "repository_unavailable",
        ),
    ];
    for (script, code) in scripts {
        let path = tempfile::tempdir().unwrap();
        if let Some(script) = script {
            executable(path.path(), "git", script);
        }
        for arguments in COMMANDS {
            let mut command = wq(bare.around());
            command.args(arguments).args(["--remote", "queue.git", "--json"]).env("PATH", path.path());
            let ran = Ran::of(feed(command, input(arguments)));
            assert_eq!(ran.error(7), code, "{script:?} {arguments:?}");
        }
    }
    assert_eq!(bare.ledger().lines().count(), lines().len());
    assert_eq!(run(bare.around(), &["verify", "--ledger", "nowhere", "--json"]).error(7), "io_failed");
}
