//! Which room may reach which: the table of docs/ARCHITECTURE.md, enforced on the source text.
//!
//! Paths are read from code alone (comments, strings and test modules are left out), use-trees are flattened, and each
//! path is judged by the room its file lives in.

mod lexer;

use lexer::{Found, paths};

use crate::tree;

/// What a room may reach. Whatever is not listed is refused.
struct Room {
    name: &'static str,
    /// Other rooms.
    rooms: &'static [&'static str],
    /// Capabilities of [`CAPABILITIES`].
    may: &'static [&'static str],
    /// True for the rooms that compute from their arguments alone; they get only the crates of [`PURE_CRATES`].
    pure: bool,
}

const WORLD: &[&str] = &["clock", "env", "fs", "net", "process", "random", "thread", "streams"];
const LOCAL: &[&str] = &["clock", "env", "fs", "process", "random", "thread"];

const ROOMS: &[Room] = &[
    Room { name: "protocol", rooms: &[], may: &[], pure: true },
    Room { name: "engine", rooms: &["protocol"], may: &[], pure: true },
    Room { name: "ports", rooms: &["protocol"], may: &["clock", "random", "thread"], pure: false },
    Room { name: "ledger", rooms: &["engine", "ports", "protocol"], may: WORLD, pure: false },
    Room { name: "forge", rooms: &["ports", "protocol"], may: WORLD, pure: false },
    Room { name: "runner", rooms: &["protocol"], may: LOCAL, pure: false },
    Room {
        name: "launch",
        rooms: &["ledger", "forge", "runner", "engine", "ports", "protocol"],
        may: LOCAL,
        pure: false,
    },
    Room { name: "delivery", rooms: &["ledger", "forge", "engine", "ports", "protocol"], may: LOCAL, pure: false },
    Room { name: "mirror", rooms: &["ledger", "forge", "engine", "ports", "protocol"], may: LOCAL, pure: false },
    Room { name: "agent", rooms: &["engine", "protocol"], may: &["fs", "streams"], pure: false },
    Room { name: "report", rooms: &["engine", "protocol"], may: &[], pure: false },
    Room {
        name: "jobs",
        rooms: &[
            "protocol", "engine", "ports", "ledger", "forge", "runner", "launch", "delivery", "mirror", "agent",
            "report",
        ],
        may: &["clock", "env", "fs", "net", "process", "random", "thread", "streams", "print"],
        pure: false,
    },
    Room {
        name: "cli",
        rooms: &[
            "protocol", "engine", "ports", "ledger", "forge", "runner", "launch", "delivery", "mirror", "agent",
            "report", "jobs",
        ],
        may: &["clock", "env", "fs", "net", "process", "random", "thread", "streams", "print"],
        pure: false,
    },
    // The two crate roots: one declares the rooms, the other hands over to the command line.
    Room { name: "lib.rs", rooms: &[], may: &[], pure: true },
    Room { name: "main.rs", rooms: &["cli"], may: &["process", "env"], pure: false },
];

/// Crates that a pure room may use beside `std`.
const PURE_CRATES: &[&str] = &["base64", "hashbrown", "memchr", "miniz_oxide", "num_bigint", "sha2", "thiserror"];

/// Crates that only some rooms may use.
const RESERVED: &[(&str, &[&str])] = &[
    ("gix", &["ledger"]),
    ("ureq", &["forge"]),
    ("rustls", &["forge"]),
    ("webpki_root_certs", &["forge"]),
    ("clap", &["cli", "main.rs"]),
    ("rustix", &["agent", "ledger", "cli"]),
];

/// Paths and names that stand for a capability. A path matches if it begins with the given segments; a name that
/// begins with `*` matches any segment.
const CAPABILITIES: &[(&str, &[&str])] = &[
    ("clock", &["std::time::SystemTime", "std::time::Instant", "std::time::UNIX_EPOCH", "*SystemTime", "*Instant"]),
    ("env", &["std::env", "*args_os", "*var_os"]),
    ("fs", &["std::fs", "std::path::Path::exists", "*OpenOptions", "tempfile"]),
    ("net", &["std::net", "*TcpStream", "*TcpListener", "*UdpSocket"]),
    ("process", &["std::process", "std::os"]),
    ("random", &["getrandom", "rand", "fastrand", "*RandomState"]),
    ("thread", &["std::thread", "std::sync::mpsc"]),
    ("streams", &["*stdin", "*stdout", "*stderr"]),
    ("print", &["println!", "print!", "eprintln!", "eprint!", "dbg!"]),
];

/// A file of `src/`, and the room it belongs to.
struct Source<'a> {
    path: &'a str,
    room: &'a str,
}

impl<'a> Source<'a> {
    fn new(path: &'a str) -> Self {
        let inside = path.strip_prefix("src/").unwrap_or(path);
        Self { path, room: inside.split('/').next().unwrap_or(inside) }
    }

    /// How many `super` lead from this file's module to the crate root.
    fn depth(&self) -> usize {
        let segments = self.path.trim_end_matches(".rs").split('/').count() - 1;
        if self.path.ends_with("/mod.rs") { segments - 1 } else { segments }
    }

    /// The room that a path leads to, if it leads out of this file's room.
    fn other_room<'p>(&self, path: &'p [String]) -> Option<&'p str> {
        let first = path.first()?.as_str();
        let next = match first {
            "crate" | "wq_action" => path.get(1)?,
            "super" => {
                let supers = path.iter().take_while(|segment| *segment == "super").count();
                if supers < self.depth() {
                    return None;
                }
                path.get(supers)?
            }
            _ => return None,
        };
        let known = ROOMS.iter().any(|room| room.name == *next);
        (known && next != self.room).then_some(next)
    }
}

fn matches(pattern: &str, path: &[String]) -> bool {
    if let Some(name) = pattern.strip_prefix('*') {
        return path.iter().any(|segment| segment == name);
    }
    let wanted: Vec<_> = pattern.split("::").collect();
    path.len() >= wanted.len() && wanted.iter().zip(path).all(|(wanted, segment)| wanted == segment)
}

/// Every place where a file reaches what its room may not, as `path:line: sentence`.
fn violations(path: &str, text: &str, crates: &[String]) -> Vec<String> {
    let source = Source::new(path);
    if path.ends_with("/tests.rs") || path.contains("/tests/") {
        return Vec::new();
    }
    let Some(room) = ROOMS.iter().find(|room| room.name == source.room) else {
        return vec![format!("{path}:1: `{}` is not a room of the table in tests/it/rooms.rs", source.room)];
    };
    let mut found = Vec::new();
    for Found { line, path: segments } in paths(text) {
        let mut refuse = |sentence: String| found.push(format!("{path}:{line}: {sentence}"));
        let written = segments.join("::");
        if let Some(other) = source.other_room(&segments).filter(|other| !room.rooms.contains(other)) {
            refuse(format!("`{}` must not use `{other}` (`{written}`)", room.name));
        }
        for (capability, patterns) in CAPABILITIES {
            if !room.may.contains(capability) && patterns.iter().any(|pattern| matches(pattern, &segments)) {
                refuse(format!("`{}` must not touch {capability} (`{written}`)", room.name));
            }
        }
        // Only the first segment of a path of several can be a crate; a lone word is a name in scope.
        let head = segments[0].as_str();
        if segments.len() > 1 && crates.iter().any(|name| name == head) {
            let reserved = RESERVED.iter().find(|(name, _)| *name == head);
            if room.pure && !PURE_CRATES.contains(&head) {
                refuse(format!("`{}` is pure and must not use the crate `{head}`", room.name));
            } else if reserved.is_some_and(|(_, rooms)| !rooms.contains(&room.name)) {
                refuse(format!("`{}` must not use the crate `{head}`", room.name));
            }
        }
        if matches!(head, "todo!" | "unimplemented!") {
            refuse("unfinished code".to_owned());
        }
    }
    found.dedup();
    found
}

/// The crates that Cargo.toml names, as they are written in paths.
fn dependencies() -> Vec<String> {
    let manifest = std::fs::read_to_string(tree::root().join("Cargo.toml")).unwrap();
    let mut inside = false;
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.contains("dependencies]");
        } else if let (true, Some((name, _))) = (inside, line.split_once('=')) {
            names.push(name.trim().replace('-', "_"));
        }
    }
    names
}

/// No room reaches where the table says never. So nothing that replays, decides or explains can read a clock, a
/// file, the environment, a network, a process or chance: what it answers depends on the records alone.
///
/// S-448: replay has no way to a network, whatever it decides about gates.
#[test]
fn rooms_keep_to_their_table() {
    let crates = dependencies();
    let sources = tree::files("src", "rs");
    assert!(sources.len() > 10, "the sources were not found");
    let found: Vec<_> = sources.iter().flat_map(|(path, text)| violations(path, text, &crates)).collect();
    assert!(found.is_empty(), "{} forbidden reaches:\n{}", found.len(), found.join("\n"));
}

/// S-235: one place in the code builds a candidate and sends it, and one runs `git push`; every command goes through
/// the publisher that does.
#[test]
fn there_is_one_way_to_write() {
    let sources = tree::files("src", "rs");
    let places = |words: &str| -> Vec<&str> {
        sources.iter().filter(|(_, text)| text.contains(words)).map(|(path, _)| path.as_str()).collect()
    };
    assert_eq!(places("\"push\""), ["src/ledger/git/executable.rs"]);
    assert_eq!(places("transport.push("), ["src/ledger/push.rs"]);
    assert_eq!(places("Candidate::build("), ["src/ledger/publisher.rs"]);
    for other in ["\"update-ref\"", "\"send-pack\"", "edit_reference", "\"commit-tree\""] {
        assert_eq!(places(other), [""; 0], "{other}");
    }
    assert!(places(".publish_request(").iter().all(|path| path.starts_with("src/cli/")));
}

/// Files stay short enough to read at one sitting.
#[test]
fn files_stay_short() {
    let long: Vec<_> = ["src", "tests", "benches", "fuzz"]
        .iter()
        .flat_map(|folder| tree::files(folder, "rs"))
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > 600)
        .collect();
    assert!(long.is_empty(), "longer than 600 lines: {long:?}");
}

mod tests {
    use super::violations;

    fn check(path: &str, text: &str) -> Vec<String> {
        let crates = ["gix", "sha2", "serde_json", "clap"].map(str::to_owned);
        violations(path, text, &crates)
    }

    #[test]
    fn a_forbidden_room_is_named_with_file_and_line() {
        let text = "//! Doc.\nuse crate::{engine::{state::Projection, plan}, protocol::Code};\n";
        let found = check("src/protocol/x.rs", text);
        assert_eq!(
            found,
            [
                "src/protocol/x.rs:2: `protocol` must not use `engine` (`crate::engine::state::Projection`)",
                "src/protocol/x.rs:2: `protocol` must not use `engine` (`crate::engine::plan`)",
            ]
        );
    }

    #[test]
    fn every_way_to_the_world_is_seen() {
        for (line, what) in [
            ("use std::{fmt, fs};", "fs"),
            ("fn f() { let _ = std::env::var(\"X\"); }", "env"),
            ("use std::time::{Duration, SystemTime};", "clock"),
            ("fn f() { let _ = time::Instant::now(); }", "clock"),
            ("use std::net::TcpStream;", "net"),
            ("fn f() -> std::process::ExitCode { x }", "process"),
            ("fn f() { getrandom::fill(&mut x); }", "random"),
            ("fn f() { println!(\"x\"); }", "print"),
            ("fn f() { std::thread::sleep(x); }", "thread"),
            ("fn f() { let _ = io::stdin(); }", "streams"),
        ] {
            let found = check("src/engine/x.rs", line);
            assert!(found.iter().any(|found| found.contains(&format!("must not touch {what} "))), "{line}: {found:?}");
        }
    }

    #[test]
    fn relative_paths_out_of_a_room_are_seen() {
        assert_eq!(check("src/engine/apply/work.rs", "use super::super::super::ledger::Store;").len(), 1);
        assert_eq!(check("src/engine/mod.rs", "use super::ledger::Store;").len(), 1);
        assert_eq!(check("src/engine/apply/work.rs", "use super::super::ledger::Bytes;").len(), 0);
        assert_eq!(check("src/engine/state.rs", "use super::super::protocol::Code;").len(), 0);
        assert_eq!(check("src/main.rs", "fn main() { wq_action::ledger::go() }").len(), 1);
    }

    #[test]
    fn crates_belong_to_their_rooms() {
        assert_eq!(check("src/cli/x.rs", "use gix::ObjectId;").len(), 1);
        assert_eq!(check("src/engine/x.rs", "use serde_json::Value;").len(), 1);
        assert_eq!(check("src/engine/x.rs", "use sha2::Digest;").len(), 0);
        assert_eq!(check("src/ledger/x.rs", "use gix::ObjectId;").len(), 0);
    }

    #[test]
    fn comments_strings_and_test_modules_are_left_out() {
        let text = "/// Unlike std::fs.\nfn f<'a>(x: &'a str) -> char { /* std::env /* nested */ */ g(\"std::net\", r#\"std::fs\"#, b'\\''); '\"' }\n\
                    #[cfg(test)]\nmod tests {\n    use std::fs;\n    fn f() { println!(\"{{\") }\n}\n";
        assert_eq!(check("src/engine/x.rs", text), [""; 0]);
        assert_eq!(check("src/engine/x/tests.rs", "use std::fs;"), [""; 0]);
        let after = format!("{text}use std::fs;\n");
        assert_eq!(check("src/engine/x.rs", &after).len(), 1);
    }

    #[test]
    fn unfinished_code_and_unknown_rooms_are_refused() {
        assert_eq!(check("src/cli/x.rs", "fn f() { todo!() }"), ["src/cli/x.rs:1: unfinished code"]);
        assert_eq!(check("src/cellar/x.rs", "").len(), 1);
    }
}
