//! The workflow checks: ours, on a directory without a network (`doctor --workflows`), and those of others on every
//! workflow that the repository holds or writes.

mod linters;

use std::path::Path;

use serde_json::Value;

use crate::support::cli::run;
use crate::tree;

/// A directory with a dispatcher and a worker that hold together.
fn sound() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let action = "o/n@0000000000000000000000000000000000000000";
    assert_eq!(run(directory.path(), &["init", "--action-ref", action]).code, 0);
    directory
}

/// Replaces a piece of a workflow file, which must be there.
fn edit(directory: &Path, file: &str, from: &str, to: &str) {
    let path = directory.join(".github/workflows").join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{file} holds no {from:?}");
    std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
}

/// Exit status, and the level, message and advice of each finding that is not in order.
fn findings(directory: &Path) -> (i32, Vec<(String, String, String)>) {
    let ran = run(directory, &["doctor", "--workflows", "--json"]);
    let document: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
    let text = |finding: &Value, member: &str| finding[member].as_str().unwrap().to_owned();
    let all = document["findings"].as_array().unwrap().iter().filter(|finding| finding["level"] != "ok");
    (ran.code, all.map(|finding| (text(finding, "level"), text(finding, "message"), text(finding, "fix"))).collect())
}

/// What one edit leads to: status, and one finding with these words.
fn one(file: &str, from: &str, to: &str, status: i32, words: &str) {
    let directory = sound();
    edit(directory.path(), file, from, to);
    // A changed source of ours would also have an outdated stamp; that is another test.
    edit(directory.path(), "worker.lock.yml", "# Written by wq init", "# Compiled");
    let (code, found) = findings(directory.path());
    assert_eq!(code, status, "{to}: {found:?}");
    let matching = found.iter().filter(|(_, message, fix)| format!("{message}: {fix}").contains(words));
    assert_eq!(matching.count(), 1, "{to}: {found:?}");
}

/// Files that hold together pass, whatever else lies in the folder, and the exit status says so.
#[test]
fn sound_workflows_pass() {
    let directory = sound();
    assert_eq!(findings(directory.path()), (0, vec![]));
    std::fs::write(directory.path().join(".github/workflows/README.md"), "# Ours\n").unwrap();
    std::fs::write(directory.path().join(".github/workflows/ci.yml"), "on: [").unwrap();
    assert_eq!(findings(directory.path()), (0, vec![]));
    let empty = tempfile::tempdir().unwrap();
    let (code, found) = findings(empty.path());
    assert_eq!((code, found.len(), found[0].0.as_str()), (0, 1, "warning"));
    // Elsewhere, by name; without --workflows the directory means nothing.
    let path = directory.path().to_str().unwrap();
    assert_eq!(run(empty.path(), &["doctor", "--workflows", "--dir", path]).code, 0);
    assert_eq!(run(empty.path(), &["doctor", "--dir", path]).code, 2);
}

/// S-194: `work-queue-policy` and `tools.work-queue.issues` of a workflow are deprecated, and beside the repository's
/// definition they fail.
#[test]
fn workflow_level_settings_are_deprecated() {
    let policy = ("tools:", "work-queue-policy: {}\ntools:");
    one("dispatcher.md", policy.0, policy.1, 2, "work-queue-policy: work_queue in .github/workflows/aw.json replaced");
    let issues = ("work-queue: true", "work-queue: {issues: true}");
    one("dispatcher.md", issues.0, issues.1, 0, "tools.work-queue.issues: deprecated");
    let directory = sound();
    edit(directory.path(), "dispatcher.md", policy.0, policy.1);
    edit(directory.path(), "dispatcher.md", issues.0, issues.1);
    std::fs::write(directory.path().join(".github/workflows/aw.json"), "{}").unwrap();
    let (code, found) = findings(directory.path());
    assert_eq!((code, found.len()), (0, 2), "{found:?}");
    assert!(found.iter().all(|(level, _, fix)| level == "warning" && fix.starts_with("deprecated")));
    std::fs::write(directory.path().join(".github/workflows/aw.json"), "{\"work_queue\":{\"issues\":false}}").unwrap();
    let (code, found) = findings(directory.path());
    assert_eq!((code, found.len()), (2, 2), "{found:?}");
    assert!(found.iter().all(|(level, ..)| level == "error"));
    std::fs::write(directory.path().join(".github/workflows/aw.json"), "").unwrap();
    assert_eq!(findings(directory.path()).0, 2);
}

/// O-001: no setting selects a backend. A storage selector is refused whatever it says, the queue cannot be switched off,
/// no flag of the command line chooses one, and variables of retired storages and transports change nothing.
#[test]
fn nothing_selects_a_backend() {
    for value in ["git", "issues", "true", "false", "null", "{kind: git}", "[]", "1"] {
        let to = format!("work-queue: {{storage: {value}}}");
        one("dispatcher.md", "work-queue: true", &to, 2, "tools.work-queue.storage: the queue is kept in Git");
        let to = format!("worker: true\n    storage: {value}");
        one("worker.md", "worker: true", &to, 2, "tools.work-queue.storage: the queue is kept in Git");
    }
    one("dispatcher.md", "work-queue: true", "work-queue: false", 2, "scheduling cannot be disabled");
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(run(directory.path(), &["stats", "--storage", "git"]).code, 2);
    let queue = |variables: &[(&str, &str)]| {
        let mut command = crate::support::cli::wq(directory.path());
        command.args(["stats", "--remote", "absent.git", "--json"]).envs(variables.iter().copied());
        let output = command.output().unwrap();
        (output.status.code(), output.stdout, output.stderr)
    };
    let retired = [
        ("GH_AW_WORK_QUEUE_STORAGE", "issues"),
        ("GH_AW_WORK_QUEUE_BACKEND", "memory"),
        ("GH_AW_WORK_QUEUE_TRANSPORT", "rest"),
        ("GH_AW_WORK_QUEUE_CHECKED_TRANSPORT", "true"),
    ];
    assert_eq!(queue(&retired), queue(&[]));
    let launcher = std::fs::read_to_string(tree::root().join("dist/run.sh")).unwrap();
    assert!(retired.iter().all(|(name, _)| !launcher.contains(name)), "the launcher passes on a retired variable");
    assert!(!std::fs::read_to_string(tree::root().join("action.yml")).unwrap().contains("storage:"));
}

/// O-373: inputs that seeded a queue are refused by name wherever they stand, in source and compiled file; the action
/// has none; and the migration guide names the first submission as their replacement.
#[test]
fn seeding_inputs_are_refused() {
    for name in ["initializeWorkQueue", "initializationContext"] {
        let inputs = format!("workflow_dispatch:\n    inputs:\n      {name}: {{type: string}}\n");
        one(
            "dispatcher.md",
            "workflow_dispatch:\n",
            &inputs,
            2,
            "a queue is not seeded any more: the first submission",
        );
        one("dispatcher.lock.yml", "workflow_dispatch:\n", &inputs, 2, "a queue is not seeded any more");
        let with = format!("mode: activation\n          {name}: \"true\"");
        one("worker.lock.yml", "mode: activation", &with, 2, "a queue is not seeded any more");
        assert!(!std::fs::read_to_string(tree::root().join("action.yml")).unwrap().contains(name));
    }
    let guide = std::fs::read_to_string(tree::root().join("docs/MIGRATION.md")).unwrap();
    assert!(
        guide.contains(
            "`initializeWorkQueue`\n   and `initializationContext`; their replacement is the first submission"
        )
    );
}

/// O-232: the assignment input is the compiler's; an author who declares it is refused, and so is a compiled worker
/// without it. Caller context is missed where it is not declared.
#[test]
fn the_assignment_input_is_reserved() {
    for file in ["worker.md", "dispatcher.md"] {
        let declared = "workflow_dispatch:\n    inputs:\n      work_queue_assignment: {type: string}\n";
        one(file, "workflow_dispatch:\n", declared, 2, "work_queue_assignment is reserved");
    }
    one(
        "worker.lock.yml",
        "      work_queue_assignment:\n",
        "      assignment:\n",
        2,
        "no input work_queue_assignment",
    );
    one("worker.lock.yml", "      aw_context:\n", "      context:\n", 0, "aw_context");
    let declared = "workflow_dispatch:\n    inputs:\n      work_queue_assignment:\n        type: string\n";
    one("dispatcher.lock.yml", "workflow_dispatch:\n", declared, 2, "a dispatcher must not declare");
}

/// The run name part of jobs.md 1.3: an author cannot set a worker's run name, and a compiled one that does not carry the
/// dispatch is refused.
#[test]
fn the_run_name_is_reserved() {
    one("worker.md", "permissions:\n", "run-name: mine\npermissions:\n", 2, "run-name: the run name of a worker");
    let carries = "format('gh-aw work-queue {0}', fromJSON(inputs.work_queue_assignment).dispatch_id)";
    one("worker.lock.yml", carries, "'nightly'", 2, "run-name: the run name does not carry the dispatch");
    let directory = sound();
    edit(directory.path(), "dispatcher.md", "permissions:\n", "run-name: mine\npermissions:\n");
    assert_eq!(findings(directory.path()), (0, vec![]), "a dispatcher may have a name of its own");
}

/// The rest of jobs.md 1.3, each shape with its own words.
#[test]
fn other_shapes_are_refused() {
    let worker = |from: &str, to: &str, words: &str| one("worker.md", from, to, 2, words);
    worker("worker: true", "worker: true\n    require-assignment: false", "a worker always needs an assignment");
    worker("workflow_dispatch:", "workflow_call:", "a worker is started by workflow_dispatch");
    worker("tools:", "status-comment: true\ntools:", "a status comment belongs to no Claim");
    for output in
        ["linear_issue", "jira-comment", "ado_work_item", "call-workflow", "dispatch_repository", "repo-memory"]
    {
        worker("tools:", &format!("safe-outputs: {{{output}: {{}}}}\ntools:"), "an output that no Claim bounds");
    }
    let reference = "needs a literal target-ref";
    worker("tools:", "safe-outputs: {create-code-scanning-alert: {target-ref: main}}\ntools:", reference);
    worker(
        "tools:",
        "safe-outputs: {create-code-scanning-alert: {target-ref: '${{ github.ref }}'}}\ntools:",
        reference,
    );
    one(
        "dispatcher.md",
        "  dispatch-workflow:",
        "  claim-adapters: {x: {}}\n  dispatch-workflow:",
        2,
        "only a worker has Claims",
    );
    one("dispatcher.md", "[worker]", "[worker, other]", 2, "may launch other, which has no source");
    one(
        "dispatcher.lock.yml",
        "\"work_queue_workflows\":[\"worker\"]",
        "\"work_queue_workflows\":[]",
        2,
        "several different",
    );
    one("worker.lock.yml", "jobs:\n", "concurrency: all\njobs:\n", 0, "share a concurrency group");
    one("worker.lock.yml", "GH_AW_WORK_QUEUE_CONTRACT: \"", "GH_AW_WORK_QUEUE_CONTRACT: \"x", 2, "not 64 lower-case");
    one(
        "worker.lock.yml",
        "  conclusion:\n",
        "  other:\n    secrets: inherit\n  conclusion:\n",
        2,
        "inherits every secret",
    );
    let directory = sound();
    std::fs::remove_file(directory.path().join(".github/workflows/worker.lock.yml")).unwrap();
    assert_eq!(findings(directory.path()).0, 2);

    // An adapter, and a literal reference, make an output fine.
    let directory = sound();
    let fine = "safe-outputs:\n  linear_issue: {}\n  claim-adapters: {linear-issue: {}}\n  create-code-scanning-alert: {target-ref: refs/heads/main}\ntools:";
    edit(directory.path(), "worker.md", "tools:", fine);
    edit(directory.path(), "worker.lock.yml", "# Written by wq init", "# Compiled");
    assert_eq!(findings(directory.path()), (0, vec![]));
}
