//! `wq collect`.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::cli::{Ran, wq};

const INTENTS: &str = "work-queue.intents.jsonl";
const FINISH: &str = "work-queue.finish.jsonl";

struct Room {
    folder: TempDir,
}

impl Room {
    fn new() -> Self {
        let room = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(room.source("")).unwrap();
        std::fs::create_dir_all(room.destination("")).unwrap();
        room
    }

    fn source(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("temp/gh-aw/safeoutputs/work-queue").join(name)
    }

    fn destination(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("shared").join(name)
    }

    fn write(&self, path: &Path, text: &str) {
        std::fs::write(path, text).unwrap();
    }

    fn run(&self) -> Ran {
        let mut command = wq(self.folder.path());
        command.args(["collect", "--destination"]).arg(self.destination(""));
        Ran::of(command.env("RUNNER_TEMP", self.folder.path().join("temp")).output().unwrap())
    }

    /// Name, status and reason of each entry, after a status of the process.
    fn collect(&self, code: i32) -> Vec<(String, String, Option<String>)> {
        let told = self.run().json(code);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let files = told["files"].as_array().unwrap();
        files
            .iter()
            .map(|file| (text(&file["name"]).unwrap(), text(&file["status"]).unwrap(), text(&file["reason"])))
            .collect()
    }
}

fn entry(name: &str, reason: Option<&str>) -> (String, String, Option<String>) {
    let status = if reason.is_some() { "rejected" } else { "collected" };
    (name.to_owned(), status.to_owned(), reason.map(str::to_owned))
}

/// Bytes are copied as they are, whatever they say; a second step replaces what the first one left, also by nothing.
#[test]
fn both_files_are_copied() {
    let room = Room::new();
    let odd = "not json\n\n\r\nlast line without an end";
    room.write(&room.source(INTENTS), odd);
    room.write(&room.source(FINISH), "");
    room.write(&room.source("other.jsonl"), "left alone");
    assert_eq!(room.collect(0), [entry(INTENTS, None), entry(FINISH, None)]);
    assert_eq!(std::fs::read_to_string(room.destination(INTENTS)).unwrap(), odd);
    assert_eq!(std::fs::read_to_string(room.destination(FINISH)).unwrap(), "");
    assert!(!room.destination("other.jsonl").exists());
    std::fs::remove_file(room.source(INTENTS)).unwrap();
    assert_eq!(room.collect(0), [entry(FINISH, None)]);
    assert!(!room.destination(INTENTS).exists(), "a stale file passes for collected");
    std::fs::remove_dir_all(room.folder.path().join("temp")).unwrap();
    assert_eq!(room.collect(0), []);
    assert!(!room.destination(FINISH).exists());
}

/// jobs.md 12, number 10: links, folders, pipes, long files and occupied destinations are rejected, nothing is left or
/// followed, the sibling is collected all the same, and the step fails.
#[test]
fn jobs_10_what_is_not_collected() {
    type Prepare = fn(&Room);
    let cases: [(&str, Prepare); 11] = [
        ("source_not_plain", |room| {
            room.write(&room.destination("secret"), "secret");
            symlink(room.destination("secret"), room.source(INTENTS)).unwrap();
        }),
        ("source_not_plain", |room| symlink("/nowhere", room.source(INTENTS)).unwrap()),
        ("source_not_plain", |room| std::fs::create_dir(room.source(INTENTS)).unwrap()),
        ("source_not_plain", |room| {
            rustix::fs::mkfifoat(rustix::fs::CWD, room.source(INTENTS), rustix::fs::Mode::from_raw_mode(0o644))
                .unwrap();
        }),
        ("source_not_plain", |room| {
            room.write(&room.source("twin"), "x");
            std::fs::hard_link(room.source("twin"), room.source(INTENTS)).unwrap();
        }),
        ("source_too_long", |room| room.write(&room.source(INTENTS), &"x".repeat(4 * 1024 * 1024 + 1))),
        ("source_too_many_lines", |room| room.write(&room.source(INTENTS), &"x\n".repeat(257))),
        ("destination_not_plain", |room| {
            room.write(&room.source(INTENTS), "x");
            room.write(&room.destination("twin"), "old");
            std::fs::hard_link(room.destination("twin"), room.destination(INTENTS)).unwrap();
        }),
        ("destination_not_plain", |room| {
            room.write(&room.source(INTENTS), "x");
            room.write(&room.destination("target"), "old");
            symlink(room.destination("target"), room.destination(INTENTS)).unwrap();
        }),
        ("destination_not_plain", |room| {
            room.write(&room.source(INTENTS), "x");
            std::fs::create_dir(room.destination(INTENTS)).unwrap();
        }),
        ("destination_not_plain", |room| symlink(room.source("nowhere"), room.destination(INTENTS)).unwrap()),
    ];
    for (reason, prepare) in cases {
        let room = Room::new();
        prepare(&room);
        room.write(&room.source(FINISH), "good\n");
        assert_eq!(room.collect(2), [entry(INTENTS, Some(reason)), entry(FINISH, None)], "{reason}");
        let left = room.destination(INTENTS).symlink_metadata();
        assert!(left.is_err() || left.unwrap().is_dir(), "{reason}: no later step takes it for what was collected");
        assert_eq!(std::fs::read_to_string(room.destination(FINISH)).unwrap(), "good\n");
        for kept in ["twin", "target"] {
            if let Ok(text) = std::fs::read_to_string(room.destination(kept)) {
                assert_eq!(text, "old");
            }
        }
        if reason.starts_with("source") {
            assert!(!room.destination(INTENTS).exists());
        }
    }
    let room = Room::new();
    room.write(&room.source(INTENTS), &"x\n".repeat(256));
    room.write(&room.source(FINISH), &"x".repeat(4 * 1024 * 1024));
    assert_eq!(room.collect(0).len(), 2);
}

/// Without a temporary folder nothing is touched.
#[test]
fn collection_needs_a_runner() {
    let room = Room::new();
    room.write(&room.destination(INTENTS), "old");
    for value in [None, Some("")] {
        let mut command = wq(room.folder.path());
        command.args(["collect", "--json", "--destination"]).arg(room.destination(""));
        if let Some(value) = value {
            command.env("RUNNER_TEMP", value);
        }
        let ran = Ran::of(command.output().unwrap());
        assert_eq!(ran.error(2), "work_queue_collection_runner_temp_missing");
    }
    assert_eq!(std::fs::read_to_string(room.destination(INTENTS)).unwrap(), "old");
}
