//! `wq init`, the examples that it wrote, and the contract stamps that it computes (publication.md 4.3, 4.4;
//! jobs.md 1.3, 2; decision 32).

mod agents;
mod stamps;

use std::collections::BTreeMap;
use std::path::Path;

use wq_action::launch::route::{LockFile, SourceFile, resolve, verify_route};

use crate::support::cli::run;
use crate::support::github::OCTO_WIDGETS;
use crate::support::stage::{Stage, lock};
use crate::tree;

/// Where the action is said to be in examples: a commit that nobody has.
const ACTION: &str = "example-org/wq-action@0000000000000000000000000000000000000000";
/// The templates, with their dispatcher and workers.
pub(crate) const TEMPLATES: [(&str, &str, &[&str]); 3] = [
    ("minimal", "dispatcher", &["worker"]),
    ("linter-factory", "linter-factory", &["miner", "monster", "refiner"]),
    (
        "daily-report-portfolio",
        "daily-reports",
        &[
            "report-builds",
            "report-changes",
            "report-coverage",
            "report-dependencies",
            "report-docs",
            "report-flakes",
            "report-issues",
            "report-performance",
            "report-reviews",
            "report-security",
        ],
    ),
];

/// What the command writes with these flags, by path.
fn written(directory: &Path, flags: &[&str]) -> BTreeMap<String, String> {
    let ran = run(directory, &[&["init", "--action-ref", ACTION, "--json"], flags].concat());
    let document = ran.json(0);
    for finding in document["findings"].as_array().unwrap() {
        assert_eq!(finding["level"], "ok", "{finding}");
    }
    let paths = document["files"].as_array().unwrap().iter().map(|path| path.as_str().unwrap().to_owned());
    paths.map(|path| (path.clone(), std::fs::read_to_string(directory.join(&path)).unwrap())).collect()
}

/// The files of an example, as the command writes them.
fn example(template: &str) -> BTreeMap<String, String> {
    let directory = tempfile::tempdir().unwrap();
    written(directory.path(), &["--template", template])
}

/// The examples are what the command writes, and nothing else lies beside them but a read-me.
#[test]
fn examples_in_step() {
    for (template, ..) in TEMPLATES {
        let files = example(template);
        for (path, text) in &files {
            let name = format!("examples/{template}/{path}");
            std::fs::create_dir_all(tree::root().join(&name).parent().unwrap()).unwrap();
            tree::keep_in_step(&name, text);
        }
        for extension in ["md", "yml", "sh", "json"] {
            for (name, _) in tree::files(&format!("examples/{template}"), extension) {
                let path = name.strip_prefix(&format!("examples/{template}/")).unwrap();
                assert!(path == "README.md" || files.contains_key(path), "{name} is not written by wq init");
            }
        }
    }
}

/// O-232, O-416, O-417, O-420: what the command writes is a repository whose workers our own verification of routes
/// accepts: registered, with caller context and the reserved input `work_queue_assignment` in the compiled file and not
/// in the source, and with a stamp that becomes the profile's contract. The linter factory's Policy has the three
/// profiles miner, refiner and monster; each gets one Claim an assignment, which only an explicit Policy can change.
#[test]
fn what_is_written_is_a_route() {
    for (template, dispatcher, workers) in TEMPLATES {
        let files = example(template);
        let stage = Stage::new(&[]);
        for (path, text) in &files {
            stage.put(path, Some(text));
        }
        for name in workers {
            stage.github.workflow(OCTO_WIDGETS, &lock(name), name);
        }
        let resolved = stage.ask(|client| resolve(client, &stage.repository)).unwrap();
        let profiles = &resolved.policy.pools["default"].profiles;
        assert_eq!(profiles.keys().map(|name| name.as_str()).collect::<Vec<_>>(), workers, "{template}");
        for (name, profile) in profiles {
            assert_eq!((profile.max_claims.get(), profile.share_keys), (1, false), "{template}: {}", name.as_str());
            stage.ask(|client| verify_route(client, &stage.repository, profile)).unwrap();
            let source =
                SourceFile::read(files[&format!(".github/workflows/{}.md", name.as_str())].as_bytes()).unwrap();
            let compiled = LockFile::read(files[profile.workflow.as_str()].as_bytes()).unwrap();
            assert_eq!(profile.logical_contract.as_ref(), Some(&source.contract(&[])));
            assert!(source.is_worker() && compiled.declares_assignment() && compiled.findings(true).is_empty());
            assert!(files[profile.workflow.as_str()].contains("\n      aw_context:\n"));
            assert!(!files[&format!(".github/workflows/{}.md", name.as_str())].contains("work_queue_assignment"));
        }
        let source = SourceFile::read(files[&format!(".github/workflows/{dispatcher}.md")].as_bytes()).unwrap();
        let compiled = LockFile::read(files[&format!(".github/workflows/{dispatcher}.lock.yml")].as_bytes()).unwrap();
        compiled.check_dispatcher(&source.check_dispatcher().unwrap()).unwrap();
    }
    // No setting of the settings file reaches the number of Claims.
    let refused = wq_action::launch::settings::parse(br#"{"work_queue":{"max_claims":2}}"#);
    assert!(refused.is_err());
    let explained = std::fs::read_to_string(tree::root().join("examples/linter-factory/README.md")).unwrap();
    assert!(explained.contains("Batching several Claims into one run needs an explicit Policy"));
}

/// S-274, S-655, S-657: the jobs of each workflow: their order, their permissions and no others, the names that other jobs
/// and readers rely on, and the reserved run name of a worker, which carries the dispatch of its assignment (jobs.md 1.3, 2,
/// 3.1, 3.6, 4.1, 5.1, 7.1). Only a worker's activation and the safe_outputs jobs may write the branch; the agent's job, in
/// which producers' text is executed, may read alone, and its step holds no token of GitHub.
#[test]
fn jobs_are_as_the_protocol_has_them() {
    for (template, dispatcher, workers) in TEMPLATES {
        let files = example(template);
        for name in workers.iter().chain([&dispatcher]) {
            let text = &files[&format!(".github/workflows/{name}.lock.yml")];
            let jobs: Vec<&str> =
                text.lines().filter(|line| is_job(line)).map(|line| line.trim().trim_end_matches(':')).collect();
            assert_eq!(jobs, ["activation", "agent", "detection", "safe_outputs", "conclusion"]);
            assert!(text.contains("\npermissions: {}\n"));
            let granted: Vec<(&str, &str)> = text.lines().filter_map(grant).collect();
            let launcher = *name == dispatcher;
            let expected = [
                ("actions", "read"),
                ("contents", if launcher { "read" } else { "write" }),
                ("actions", "read"),
                ("contents", "read"),
                ("contents", "read"),
                ("actions", if launcher { "write" } else { "read" }),
                ("contents", "write"),
                ("actions", "read"),
                ("contents", "read"),
            ];
            assert_eq!(granted, expected, "{name}");
            for part in [
                "id: work_queue_snapshot",
                "id: work_queue_intent_origin",
                "id: agentic_execution",
                "id: redact_secrets",
                "id: work_queue_claim_reconciliation",
                "id: work_queue_controls",
                "id: process_safe_outputs",
                "name: activation\n",
                "name: agent\n",
                "name: agent-output-fallback\n",
                "name: work-queue-receipts\n",
                "work_queue_origin: ${{ steps.work_queue_snapshot.outputs.work_queue_origin }}",
                "GH_AW_WORK_QUEUE_INTENT_ORIGIN: ${{ needs.activation.outputs.work_queue_origin }}",
                "GH_AW_WORK_QUEUE_INTENT_ORIGIN: ${{ needs.agent.outputs.work_queue_origin }}",
                "path: ${{ runner.temp }}/gh-aw-activation\n",
            ] {
                assert!(text.contains(part), "{name}: {part}");
            }
            assert_eq!(
                text.contains("format('gh-aw work-queue {0}', fromJSON(inputs.work_queue_assignment).dispatch_id)"),
                !launcher
            );
            assert!(!text.contains("secrets: inherit") && !text.contains("persist-credentials: true"));
            assert_eq!(text.matches("actions/checkout@").count(), text.matches("persist-credentials: false").count());
            // The agent's own step holds no token of GitHub.
            let agent =
                &text[text.find("id: agentic_execution").unwrap()..text.find("Collect work queue intents").unwrap()];
            assert!(!agent.contains("github.token") && !agent.contains("GITHUB_TOKEN"));
        }
    }
}

fn is_job(line: &str) -> bool {
    line.starts_with("  ") && !line.starts_with("   ") && line.ends_with(':') && {
        let name = line.trim().trim_end_matches(':');
        ["activation", "agent", "detection", "safe_outputs", "conclusion"].contains(&name)
    }
}

/// A permission of a job.
fn grant(line: &str) -> Option<(&str, &str)> {
    let (name, level) = line.strip_prefix("      ")?.split_once(": ")?;
    let level = level.split(" #").next().unwrap();
    (["read", "write"].contains(&level) && !name.starts_with(' ')).then_some((name, level))
}

/// With an App the launch token is minted before the step that launches, with nothing but what a launch needs, and the
/// workflow's own token launches nothing.
#[test]
fn an_app_launches_with_its_own_token() {
    let directory = tempfile::tempdir().unwrap();
    let files = written(directory.path(), &["--app", "--dispatcher", "plan", "--worker", "build"]);
    let text = &files[".github/workflows/plan.lock.yml"];
    let mint = text.find("id: work-queue-dispatch-app-token").unwrap();
    assert!(mint < text.find("id: work_queue_controls").unwrap());
    assert!(text.contains("launch-token: ${{ steps.work-queue-dispatch-app-token.outputs.token }}"));
    assert!(text.contains("permission-actions: write") && text.contains("permission-contents: write"));
    assert_eq!(text.matches("permission-").count(), 2);
    assert!(!text.contains("      actions: write"));
    assert!(!files[".github/workflows/build.lock.yml"].contains("app-token"));
}

/// Nothing is overwritten unless that is asked for, and malformed references, names and labels write nothing.
#[test]
fn nothing_is_overwritten_and_nothing_malformed_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for (flags, status) in [
        (vec!["init"], 2),
        (vec!["init", "--action-ref", "o/n@main"], 2),
        (vec!["init", "--action-ref", "o/n@v1.0.0"], 2),
        (vec!["init", "--action-ref", "o@0000000000000000000000000000000000000000"], 2),
        (vec!["init", "--action-ref", ACTION, "--worker", "../up"], 2),
        (vec!["init", "--action-ref", ACTION, "--worker", "dispatcher"], 2),
        (vec!["init", "--action-ref", ACTION, "--runner", "a b"], 2),
        (vec!["init", "--action-ref", ACTION, "--runner", "${{ vars.X }}"], 2),
        (vec!["init", "--restamp", "--app"], 2),
    ] {
        assert_eq!(run(path, &flags).code, status, "{flags:?}");
        assert!(!path.join(".github").exists(), "{flags:?}");
    }
    written(path, &[]);
    std::fs::write(path.join(".github/workflows/aw.json"), "{}").unwrap();
    assert_eq!(run(path, &["init", "--action-ref", ACTION]).code, 2);
    assert_eq!(std::fs::read_to_string(path.join(".github/workflows/aw.json")).unwrap(), "{}");
    written(path, &["--force"]);
    assert_ne!(std::fs::read_to_string(path.join(".github/workflows/aw.json")).unwrap(), "{}");
}
