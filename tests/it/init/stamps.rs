//! Contract stamps (publication.md 4.4, decision 32).

use std::path::Path;

use wq_action::launch::route::SourceFile;

use super::written;
use crate::support::cli::run;

const WORKER: &str = "---
on:
  workflow_dispatch:
    inputs:
      depth: {type: number, default: 3}
engine: one
permissions:
  contents: read
imports: [shared/reviewer.md]
network: {allowed: [defaults]}
tools:
  work-queue: {worker: true}
mcp-scripts:
  look:
    description: looks
    inputs: {path: {type: string}}
    run: ls
safe-outputs:
  github-token: one
  add-comment: {max: 2}
---

# Do it
";
const IMPORT: &str = "---\ntools: {web-fetch: }\n---\nBe kind.\n";

fn stamp(source: &str, imports: &[&str]) -> String {
    let read = |text: &str| SourceFile::read(text.as_bytes()).unwrap();
    let imports: Vec<SourceFile> = imports.iter().map(|text| read(text)).collect();
    read(source).contract(&imports).as_str().to_owned()
}

/// O-074, O-075, S-215: the stamp covers declared inputs, permissions, tools, output and resource capabilities, and the
/// same of imports: each change of one gives another stamp. Prompt text, engine, comments, order and style of the front
/// matter, tokens and the text of scripts leave it unchanged, in the worker and in what it imports.
#[test]
fn a_stamp_is_what_a_worker_may_do() {
    let base = stamp(WORKER, &[IMPORT]);
    let same = |from: &str, to: &str| {
        assert!(WORKER.contains(from), "{from}");
        assert_eq!(stamp(&WORKER.replace(from, to), &[IMPORT]), base, "{to}");
    };
    same("# Do it", "# Do something else entirely");
    same("engine: one", "engine: {id: two, model: large}");
    same("permissions:\n", "# why\npermissions: # because\n");
    same("network: {allowed: [defaults]}\n", "network:\n  allowed:\n    - 'defaults'\n");
    same("  github-token: one\n", "  github-token: ${{ secrets.TWO }}\n");
    same("run: ls", "run: ls -l");
    same("description: looks", "description: looks closer");
    same("engine: one\npermissions:\n  contents: read\n", "permissions:\n  contents: read\nengine: one\n");
    assert_eq!(stamp(WORKER, &[&IMPORT.replace("kind", "brief")]), base);
    assert_eq!(stamp(WORKER, &[&IMPORT.replace("tools", "engine: three\ntools")]), base);

    let mut seen = vec![base.clone()];
    for (from, to) in [
        ("depth: {type: number, default: 3}", "depth: {type: number, default: 4}"),
        ("depth: {type: number, default: 3}", "depth: {type: number, default: \"3\"}"),
        ("contents: read", "contents: write"),
        ("contents: read", "contents: read\n  issues: read"),
        ("{worker: true}", "{worker: true}\n  bash: [ls]"),
        ("add-comment: {max: 2}", "add-comment: {max: 3}"),
        ("add-comment: {max: 2}", "add-comment: {max: 2, target-repo: a/b}"),
        ("add-comment: {max: 2}", "add-comment: {max: 2}\n  create-issue:"),
        ("[defaults]", "[defaults, node]"),
        ("path: {type: string}", "path: {type: string}, all: {type: boolean}"),
        ("engine: one", "checkout: false"),
        ("engine: one", "sandbox: {agent: false}"),
        ("engine: one", "mcp-servers: {a: {command: b}}"),
    ] {
        assert!(WORKER.contains(from), "{from}");
        seen.push(stamp(&WORKER.replacen(from, to, 1), &[IMPORT]));
    }
    seen.push(stamp(WORKER, &[]));
    seen.push(stamp(WORKER, &[&IMPORT.replace("web-fetch", "web-search")]));
    seen.push(stamp(WORKER, &[IMPORT, "---\npermissions: {issues: write}\n---\n"]));
    let different: std::collections::BTreeSet<&String> = seen.iter().collect();
    assert_eq!(different.len(), seen.len());
}

fn doctor(path: &Path) -> (i32, Vec<String>) {
    let ran = run(path, &["doctor", "--workflows", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let errors = document["findings"].as_array().unwrap().iter().filter(|finding| finding["level"] == "error");
    (ran.code, errors.map(|finding| finding["message"].as_str().unwrap().to_owned()).collect())
}

/// O-074, O-075: a given stamp is verified as the literal that it is; the stamp of a worker that `wq init` wrote is
/// compared with its source, imports included, and computed again on request. A changed prompt needs neither.
#[test]
fn stamps_follow_their_source() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    written(path, &[]);
    let source = path.join(".github/workflows/worker.md");
    let lock = path.join(".github/workflows/worker.lock.yml");
    let edit = |from: &str, to: &str| {
        let text = std::fs::read_to_string(&source).unwrap();
        assert!(text.contains(from));
        std::fs::write(&source, text.replace(from, to)).unwrap();
    };
    assert_eq!(doctor(path), (0, vec![]));
    edit("# Worker", "# Somebody");
    edit("on:\n", "engine: other\non:\n");
    assert_eq!(doctor(path), (0, vec![]));
    let outdated = vec!["worker: the contract stamp is not the approved one".to_owned()];
    edit("contents: read\n", "contents: read\n  issues: read\n");
    assert_eq!(doctor(path), (2, outdated.clone()));
    let before = std::fs::read_to_string(&lock).unwrap();
    let ran = run(path, &["init", "--restamp"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("stamped .github/workflows/worker.lock.yml"));
    assert_eq!(doctor(path), (0, vec![]));
    let after = std::fs::read_to_string(&lock).unwrap();
    let changed = before.lines().zip(after.lines()).filter(|(before, after)| before != after).count();
    assert_eq!((changed, before.lines().count()), (1, after.lines().count()));
    assert!(run(path, &["init", "--restamp"]).out.contains("every stamp is current"));

    // An import is part of the contract; one that lies elsewhere cannot be known here.
    std::fs::create_dir(path.join(".github/workflows/shared")).unwrap();
    std::fs::write(path.join(".github/workflows/shared/tools.md"), "---\ntools: {web-fetch: }\n---\n").unwrap();
    edit("engine: other\n", "imports: [shared/tools.md]\n");
    assert_eq!(doctor(path), (2, outdated));
    assert_eq!(run(path, &["init", "--restamp"]).code, 0);
    assert_eq!(doctor(path), (0, vec![]));
    edit("shared/tools.md", "other/repository/tools.md@main");
    assert_eq!(run(path, &["init", "--restamp"]).code, 2);

    // A stamp that somebody else's compiler wrote is a literal.
    let foreign = std::fs::read_to_string(&lock).unwrap().replacen("# Written by wq init", "# Compiled", 1);
    std::fs::write(&lock, foreign).unwrap();
    assert_eq!(doctor(path), (0, vec![]));
}
