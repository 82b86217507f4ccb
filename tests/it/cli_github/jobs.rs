//! The modes of a job as the binary: environment in, files and exit status out.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::Desk;
use crate::support::cli::Ran;
use crate::support::github::{Endpoint, JOB, NewRun, OCTO_WIDGETS};

/// A job of a dispatcher's run, with the runner's files.
struct Step<'d> {
    desk: &'d Desk,
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl<'d> Step<'d> {
    fn new(desk: &'d Desk, role: &str) -> Self {
        let run = desk.github.new_run(&NewRun {
            repository: OCTO_WIDGETS,
            workflow: "dispatcher.lock.yml",
            event: "schedule",
            reference: "main",
            actor: desk.github.account_id("wim"),
            title: None,
        });
        desk.github.start_run(run);
        let shown = desk.github.run(run).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let event = json!({"repository": {"id": desk.github.repository_id(OCTO_WIDGETS)}});
        std::fs::write(folder.path().join("event.json"), event.to_string()).unwrap();
        for name in ["output", "env", "summary"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let variables = [
            ("GITHUB_REPOSITORY", OCTO_WIDGETS.to_owned()),
            ("GITHUB_RUN_ID", run.to_string()),
            ("GITHUB_RUN_ATTEMPT", "1".to_owned()),
            ("GITHUB_WORKFLOW_REF", format!("{OCTO_WIDGETS}/{}", shown.path)),
            ("GITHUB_SHA", shown.head_sha.clone()),
            ("GITHUB_EVENT_NAME", "schedule".to_owned()),
            ("GITHUB_EVENT_PATH", path("event.json")),
            ("GITHUB_OUTPUT", path("output")),
            ("GITHUB_ENV", path("env")),
            ("GITHUB_STEP_SUMMARY", path("summary")),
            ("RUNNER_TEMP", path("runner")),
            ("GH_AW_WORK_QUEUE_SNAPSHOT", path("snapshot.json")),
            ("GH_AW_WORK_QUEUE_ROLE", role.to_owned()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Self { desk, folder, variables }
    }

    fn set(&mut self, name: &str, value: &str) -> &mut Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn run(&self, mode: &str) -> Ran {
        let mut command = self.desk.command(JOB, &[mode]);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        Ran::of(command.output().unwrap())
    }

    /// A failure with this code and status, one annotation, and nothing left behind.
    fn refused(&self, mode: &str, exit: i32, code: &str) {
        let ran = self.run(mode);
        assert_eq!(ran.code, exit, "{ran:?}");
        assert!(ran.err.starts_with(&format!("{code}: ")), "{ran:?}");
        assert_eq!(ran.out.lines().filter(|line| line.starts_with("::error title=Work queue")).count(), 1, "{ran:?}");
        assert_eq!(ran.out.lines().filter(|line| line.starts_with("::")).count(), 1, "{ran:?}");
        assert!(ran.out.contains(&format!("({code})")), "{ran:?}");
        assert!(!self.path("snapshot.json").exists());
        if self.path("output").is_file() {
            assert_eq!(self.read("output") + &self.read("env"), "");
        }
    }
}

/// S-498, S-522, O-032: activation, origin and conclusion of one run, over real Git and loopback HTTP: the snapshot is the
/// branch's ledger and the host's run, the conclusion reads the branch as it is by then, and nothing is written to it.
///
/// O-194, O-198, O-211: with `DEBUG` the lines have time, namespace, event and interval, and neither they nor anything
/// else holds the token or the repository's name.
#[test]
fn three_jobs_of_a_run() {
    let desk = Desk::with_work(&["alpha"]);
    let mut step = Step::new(&desk, "dispatcher");
    step.set("DEBUG", "work-queue:*");
    let (head, before) = (desk.head(), desk.bare.ledger());
    let activated = step.run("activation");
    assert_eq!(activated.code, 0, "{activated:?}");
    let snapshot: Value = serde_json::from_str(&step.read("snapshot.json")).unwrap();
    assert_eq!(snapshot["transactionLog"], before);
    assert_eq!(snapshot["sha"].as_str(), head.as_deref());
    assert_eq!(snapshot["origin"]["role"], "dispatcher");
    let origin = |name: &str, variable: &str| {
        let text = step.read(name);
        let (first, rest) = text.split_once('\n').unwrap();
        let delimiter = first.strip_prefix(&format!("{variable}<<")).unwrap();
        rest.strip_suffix(&format!("\n{delimiter}\n")).unwrap().to_owned()
    };
    let stated: Value = serde_json::from_str(&origin("output", "work_queue_origin")).unwrap();
    assert_eq!(stated, snapshot["origin"]);
    for line in activated.err.lines() {
        assert!(line.starts_with('[') && line.contains("] [work-queue:") && line.ends_with("ms"), "{line}");
    }
    assert!(activated.err.contains("[work-queue:native] publisher.authenticate.start +0ms"), "{activated:?}");
    std::fs::write(step.path("output"), "").unwrap();
    let captured = step.run("origin");
    assert_eq!(captured.code, 0, "{captured:?}");
    assert_eq!(origin("output", "work_queue_origin"), stated.to_string());
    assert_eq!(origin("env", "GH_AW_WORK_QUEUE_INTENT_ORIGIN"), stated.to_string());
    desk.submit("beta", &[]).json(0);
    let concluded = step.run("conclusion");
    assert_eq!(concluded.code, 0, "{concluded:?}");
    assert!(step.read("summary").contains("2 Work in the queue; 1 new commits since activation."));
    for ran in [activated, captured, concluded] {
        for hidden in [JOB, "octo", "refs/", "/tmp"] {
            assert!(!ran.out.contains(hidden) && !ran.err.contains(hidden), "{hidden}: {ran:?}");
        }
    }
    assert_eq!(desk.ledger().len(), 2, "one line each of the two submissions");
}

/// Every trusted mode ends with its own status and one annotation, and leaves nothing: without a run, with an event that is
/// too long or no object, where the runner's files cannot be written, without a token, and on a queue of another
/// repository, before the API is asked anything.
#[test]
fn refused_jobs_leave_nothing() {
    let desk = Desk::with_work(&["alpha"]);
    let mut step = Step::new(&desk, "dispatcher");
    step.set("GITHUB_RUN_ID", "no run");
    step.refused("activation", 2, "publisher_repository_context_missing");
    let step = Step::new(&desk, "dispatcher");
    std::fs::write(step.path("event.json"), format!("{{{}}}", " ".repeat(32 * 1024 * 1024))).unwrap();
    for mode in ["activation", "origin"] {
        step.refused(mode, 2, "settings_invalid");
    }
    std::fs::write(step.path("event.json"), "[]").unwrap();
    step.refused("activation", 2, "settings_invalid");
    let mut step = Step::new(&desk, "dispatcher");
    std::fs::remove_file(step.path("output")).unwrap();
    std::fs::create_dir(step.path("output")).unwrap();
    step.refused("activation", 7, "io_failed");
    step.set("GITHUB_OUTPUT", "");
    step.refused("activation", 7, "io_failed");
    step.set("GH_AW_WORK_QUEUE_TOKEN", "");
    step.refused("activation", 4, "api_unauthenticated");
    let mut step = Step::new(&desk, "observer");
    step.refused("origin", 4, "work_queue_observer_read_only");
    step.set("GH_AW_WORK_QUEUE_BRANCH", "a..b");
    step.refused("activation", 2, "branch_invalid");
    let other = "octo/other";
    desk.github.add_repository(other);
    desk.github.grant(JOB, other, crate::support::github::Access::ALL);
    desk.github.attach(other, &desk.bare);
    let mut step = Step::new(&desk, "dispatcher");
    step.set("GITHUB_REPOSITORY", other);
    let asked = |desk: &Desk| desk.calls(&[Endpoint::Repository, Endpoint::Run, Endpoint::GraphQl]);
    let calls = asked(&desk);
    step.refused("activation", 3, "work_queue_ledger_repository_mismatch");
    assert_eq!(asked(&desk), calls);
}
