//! From a template to files. Texts stand in `templates/`; marks such as `@@NAME@@` stand for what differs.

use super::{Failure, Template, portfolio};
use crate::launch::route::SourceFile;
use crate::protocol::{Code, Digest};

/// Other actions that the workflows use, each at one commit.
const ACTIONS: [(&str, &str); 4] = [
    ("CHECKOUT", "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1"),
    ("UPLOAD", "actions/upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f # v7.0.0"),
    ("DOWNLOAD", "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c # v8.0.1"),
    ("MINTER", "actions/create-github-app-token@1b10c78c7865c340bc4f6099eb2f838309f1e8c3 # v3.1.1"),
];

const LOCK: &str = include_str!("templates/workflow.lock.yml");
const WORKER_SCRIPT: &str = include_str!("templates/worker.sh");
const DETECT_SCRIPT: &str = include_str!("templates/detect.sh");

const WORKER_HEAD: &str = "\
run-name: >-
  ${{ github.event_name == 'workflow_dispatch' && inputs.work_queue_assignment != ''
  && format('gh-aw work-queue {0}', fromJSON(inputs.work_queue_assignment).dispatch_id)
  || 'gh-aw work-queue unassigned' }}

on:
  workflow_dispatch:
    inputs:
      aw_context:
        description: The caller's context, for correlation alone
        type: string
        required: false
        default: \"\"
      work_queue_assignment:
        description: The assignment, written by the dispatcher
        type: string
        required: true
";
const MINT: &str = "      - name: Mint the launch token
        id: work-queue-dispatch-app-token
        if: env.GH_AW_SAFE_OUTPUTS_STAGED != 'true'
        uses: @@MINTER@@
        with:
          client-id: ${{ vars.WQ_APP_CLIENT_ID }}
          private-key: ${{ secrets.WQ_APP_PRIVATE_KEY }}
          permission-actions: write # to launch
          permission-contents: write # to tag a launch
";
const LAUNCH_APP: &str = "          launch-token: ${{ steps.work-queue-dispatch-app-token.outputs.token }}
          launch-credential: github_app
          launch-app-slug: ${{ steps.work-queue-dispatch-app-token.outputs.app-slug }}
";
const LAUNCH_TOKEN: &str = "          launch-token: ${{ github.token }}
          launch-credential: github_token
";

/// What was asked for, checked.
pub(super) struct Options {
    /// `OWNER/NAME@COMMIT`.
    pub(super) action: String,
    pub(super) template: Template,
    pub(super) dispatcher: String,
    pub(super) worker: String,
    pub(super) runner: String,
    pub(super) app: bool,
}

/// A file to write, its path from the root of the repository with forward slashes.
pub(super) struct Written {
    pub(super) path: String,
    pub(super) text: String,
}

/// A workflow with its source and the script of its agent.
pub(super) struct Workflow {
    pub(super) name: String,
    pub(super) source: String,
    pub(super) script: String,
}

/// A dispatcher, its workers in the order of their names, and the settings.
pub(super) struct Set {
    pub(super) dispatcher: Workflow,
    pub(super) workers: Vec<Workflow>,
    /// When the dispatcher starts by itself.
    pub(super) cron: &'static str,
    /// Most launches of one run.
    pub(super) budget: u32,
    pub(super) settings: &'static str,
}

/// Every file of a template, the settings last.
pub(super) fn render(options: &Options) -> Result<Vec<Written>, Failure> {
    let set = match options.template {
        Template::Minimal => minimal(options),
        Template::LinterFactory => linter_factory(),
        Template::DailyReportPortfolio => portfolio::set(),
    };
    let names: Vec<&str> = set.workers.iter().map(|worker| worker.name.as_str()).collect();
    let mut written = Vec::new();
    dispatcher(options, &set, &names, &mut written);
    for worker in &set.workers {
        let stamp = stamp(worker.source.as_bytes())?;
        let lock = worker_lock(options, &worker.name, &stamp);
        put(worker, lock, &mut written);
    }
    let script = ".github/work-queue/detect.sh".to_owned();
    written.push(Written { path: script, text: DETECT_SCRIPT.to_owned() });
    written.push(Written { path: ".github/workflows/aw.json".to_owned(), text: set.settings.to_owned() });
    Ok(written)
}

fn put(workflow: &Workflow, lock: String, written: &mut Vec<Written>) {
    let name = &workflow.name;
    let mut add = |path: String, text: String| written.push(Written { path, text });
    add(format!(".github/workflows/{name}.md"), workflow.source.clone());
    add(format!(".github/workflows/{name}.lock.yml"), lock);
    add(format!(".github/work-queue/{name}.sh"), workflow.script.clone());
}

/// The stamp of a source of ours, which imports nothing.
fn stamp(source: &[u8]) -> Result<Digest, Failure> {
    let source = SourceFile::read(source).map_err(|defect| {
        Failure::new(Code::Internal, defect.sentence(), "Report this: a template of ours is broken.")
    })?;
    Ok(source.contract(&[]))
}

fn dispatcher(options: &Options, set: &Set, workers: &[&str], written: &mut Vec<Written>) {
    let name = &set.dispatcher.name;
    let list = workers.iter().map(|worker| format!("\"{worker}\"")).collect::<Vec<_>>().join(",");
    let config = format!(
        "          GH_AW_WORK_QUEUE_CONTROL_CONFIG: '{{\"aw_context_workflows\":[{list}],\"max\":{budget},\
         \"work_queue_enabled\":true,\"work_queue_workflows\":[{list}]}}'\n",
        budget = set.budget
    );
    let head = format!("\non:\n  schedule:\n    - cron: \"{}\"\n  workflow_dispatch:\n", set.cron);
    let environment = format!("  GH_AW_WORK_QUEUE_DISPATCH_BUDGET: \"{}\"\n", set.budget);
    let (mint, launch, actions) = if options.app {
        (MINT, LAUNCH_APP, "read # to authenticate this run")
    } else {
        ("", LAUNCH_TOKEN, "write # to launch workers")
    };
    let lock = fill(
        options,
        &[
            ("HEAD", &head),
            ("NAME", name),
            ("ROLE", "dispatcher"),
            ("ENV", &environment),
            ("ACTIVATION_CONTENTS", "read # to read the queue branch"),
            ("SAFE_ACTIONS", actions),
            ("SAFE_CONTENTS", "write # to publish to the queue branch, and to tag a launch"),
            ("MINT", mint),
            ("LAUNCH", launch),
            ("CONTROLS", &config),
        ],
    );
    put(&set.dispatcher, lock, written);
}

fn worker_lock(options: &Options, name: &str, stamp: &Digest) -> String {
    let environment = format!("  GH_AW_WORK_QUEUE_CONTRACT: \"{}\"\n", stamp.as_str());
    fill(
        options,
        &[
            ("HEAD", WORKER_HEAD),
            ("NAME", name),
            ("ROLE", "worker"),
            ("ENV", &environment),
            ("ACTIVATION_CONTENTS", "write # to publish the binding of this run"),
            ("SAFE_ACTIONS", "read # to authenticate this run"),
            ("SAFE_CONTENTS", "write # to publish to the queue branch"),
            ("MINT", ""),
            ("LAUNCH", ""),
            ("CONTROLS", ""),
        ],
    )
}

/// Fills the compiled workflow. A line that is one mark alone takes a block of lines, or goes away for an empty one.
fn fill(options: &Options, values: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for line in LOCK.split_inclusive('\n') {
        let mark = line.trim().strip_prefix("@@").and_then(|rest| rest.strip_suffix("@@"));
        match mark.and_then(|mark| values.iter().find(|(name, _)| *name == mark)) {
            Some((_, block)) => out.push_str(block),
            None => out.push_str(line),
        }
    }
    let own = [("ACTION", options.action.as_str()), ("RUNNER", options.runner.as_str())];
    for (name, value) in values.iter().copied().chain(ACTIONS).chain(own) {
        out = out.replace(&format!("@@{name}@@"), value);
    }
    out
}

fn minimal(options: &Options) -> Set {
    let rename = |text: &str| text.replace("workflows: [worker]", &format!("workflows: [{}]", options.worker));
    Set {
        dispatcher: Workflow {
            name: options.dispatcher.clone(),
            source: rename(include_str!("templates/minimal/dispatcher.md")),
            script: include_str!("templates/minimal/dispatcher.sh").to_owned(),
        },
        workers: vec![Workflow {
            name: options.worker.clone(),
            source: include_str!("templates/minimal/worker.md").to_owned(),
            script: WORKER_SCRIPT.to_owned(),
        }],
        cron: "17 * * * *",
        budget: 1,
        settings: include_str!("templates/minimal/aw.json"),
    }
}

fn linter_factory() -> Set {
    let worker = |name: &str, source: &str| worker(name, source.to_owned());
    Set {
        dispatcher: Workflow {
            name: "linter-factory".to_owned(),
            source: include_str!("templates/linter-factory/linter-factory.md").to_owned(),
            script: include_str!("templates/linter-factory/linter-factory.sh").to_owned(),
        },
        workers: vec![
            worker("miner", include_str!("templates/linter-factory/miner.md")),
            worker("monster", include_str!("templates/linter-factory/monster.md")),
            worker("refiner", include_str!("templates/linter-factory/refiner.md")),
        ],
        cron: "23 4 * * *",
        budget: 3,
        settings: include_str!("templates/linter-factory/aw.json"),
    }
}

/// A worker whose agent is still to be filled in.
pub(super) fn worker(name: &str, source: String) -> Workflow {
    Workflow { name: name.to_owned(), source, script: WORKER_SCRIPT.to_owned() }
}
