//! `wq dispatch`: one verified dispatcher, one request, one run.

use std::cell::Cell;
use std::path::Path;

use serde_json::Value;
use wq_action::forge::{Broken, Client, Forge, Host, Request, Response, endpoint};
use wq_action::launch::dispatcher::{start_dispatcher, verify_dispatcher};
use wq_action::ports::SimulatedClock;
use wq_action::protocol::{Code, RepositoryName};

use super::Desk;
use crate::support::cli::{Ran, run};
use crate::support::git::NOW;
use crate::support::github::{
    ADMIN, Access, Endpoint, Faults, Github, Issued, Kind, LAUNCH, Level, OCTO_WIDGETS, Port, Role, Strike,
};

const SOURCE: &str = ".github/workflows/dispatcher.md";
const LOCK: &str = ".github/workflows/dispatcher.lock.yml";

/// A dispatcher's source with this list of workers.
fn source(workers: &str) -> String {
    format!(
        "---\nname: Dispatcher\non:\n  schedule: daily\ntools:\n  work-queue:\n    issues: false\n\
         safe-outputs:\n  dispatch-workflow:\n    workflows: {workers}\n---\n\nDispatch.\n"
    )
}

/// Its compiled workflow with these inputs and this control configuration.
fn lock(inputs: &str, controls: &str) -> String {
    format!(
        "name: Dispatcher\non:\n  workflow_dispatch:{inputs}\npermissions: {{}}\njobs:\n  conclusion:\n    \
         runs-on: ubuntu-latest\n    steps:\n      - env:\n          {controls}\n        run: \"true\"\n"
    )
}

fn controls(queue: &str, context: &str) -> String {
    format!(
        "GH_AW_WORK_QUEUE_CONTROL_CONFIG: '{{\"work_queue_workflows\":{queue},\"aw_context_workflows\":{context}}}'"
    )
}

fn sound() -> String {
    lock("", &controls(r#"["worker"]"#, r#"["worker"]"#))
}

/// The standard repository with a dispatcher that holds together. Returns its revision.
pub(super) fn prepared(desk: &Desk) -> String {
    desk.github.commit(OCTO_WIDGETS, "main", &[(SOURCE, Some(&source("[worker]"))), (LOCK, Some(&sound()))])
}

fn tag(sha: &str) -> String {
    format!("refs/tags/gh-aw/work-queue/{sha}")
}

/// Nothing was written: no reference, no run, no push.
fn untouched(desk: &Desk) {
    assert_eq!(desk.calls(&[Endpoint::CreateRef, Endpoint::Dispatch, Endpoint::GitPush, Endpoint::Cancel]), 0);
    assert_eq!(desk.github.runs().len(), 0);
}

/// O-344, O-345, O-346, O-347, O-351, O-359, O-361: one dispatcher starts at the default branch's revision, by its
/// snapshot tag, and the run that the answer names is compared with what was verified; no Claim is assigned, no queue is
/// even read, and the answer says where effects show. An existing tag is reused.
#[test]
fn one_verified_dispatcher_is_started() {
    let desk = Desk::with_work(&["alpha"]);
    let sha = prepared(&desk);
    let (ledger, head) = (desk.bare.ledger(), desk.head());
    for round in 1..=2 {
        let started = desk.wq(&["dispatch", "dispatcher"]).json(0);
        assert_eq!(started["activated"], true);
        assert_eq!(started["dry_run"], false);
        assert_eq!(started["ref"], tag(&sha));
        assert_eq!(started["repository"], OCTO_WIDGETS);
        assert_eq!(started["sha"], sha);
        assert_eq!(started["workflow"], "dispatcher");
        assert_eq!(started["workflow_path"], LOCK);
        let id: u64 = started["run_id"].as_str().unwrap().parse().unwrap();
        assert_eq!(started["run_url"], format!("{}/octo/widgets/actions/runs/{id}", desk.server.server_url()));
        assert!(started["next"].as_str().unwrap().contains("wq state"), "{started}");
        let run = desk.github.run(id).unwrap();
        assert_eq!((run.event.as_str(), run.head_sha.as_str()), ("workflow_dispatch", sha.as_str()));
        assert_eq!(run.path, format!("{LOCK}@{}", tag(&sha)));
        assert_eq!(run.assignment, None);
        assert_eq!(desk.calls(&[Endpoint::Dispatch]), round);
        assert_eq!(desk.calls(&[Endpoint::CreateRef]), 1);
    }
    assert_eq!(desk.github.head(OCTO_WIDGETS, &tag(&sha)), Some(sha));
    assert_eq!((desk.bare.ledger(), desk.head()), (ledger, head));
    assert_eq!(desk.calls(&[Endpoint::GitFetch, Endpoint::GitPush]), 0);
    let text = desk.text(&["dispatch", "dispatcher"]);
    assert!(text.starts_with("started: dispatcher at ") && text.contains("is no Claim, launch or Result"), "{text}");
}

/// O-358, O-359: a preview verifies the whole route and names the default branch; it makes no tag and starts nothing.
#[test]
fn a_preview_writes_nothing() {
    let desk = Desk::new();
    let sha = prepared(&desk);
    let preview = desk.wq(&["dispatch", "dispatcher", "--dry-run"]).json(0);
    assert_eq!((preview["activated"].as_bool(), preview["dry_run"].as_bool()), (Some(false), Some(true)));
    assert_eq!((preview["ref"].as_str(), preview["sha"].as_str()), (Some("main"), Some(sha.as_str())));
    for absent in ["run_id", "run_url", "status", "conclusion"] {
        assert_eq!(preview.get(absent), None, "{absent}");
    }
    untouched(&desk);
    desk.github.commit(OCTO_WIDGETS, "main", &[(LOCK, Some(&lock("", &controls(r#"["other"]"#, r#"["other"]"#))))]);
    assert_eq!(desk.wq(&["dispatch", "dispatcher", "--dry-run"]).error(2), "dispatcher_invalid");
    assert_eq!(desk.wq(&["dispatch", "dispatcher", "--dry-run", "--wait"]).error(2), "usage_invalid");
    untouched(&desk);
}

/// O-345, O-354, O-355, O-356, O-357: whatever does not hold together at the one revision is refused before any write,
/// and the command mends nothing: it enables no workflow, uploads no file, supplies no input.
#[test]
fn what_does_not_hold_together_is_refused_before_any_write() {
    let desk = Desk::new();
    let assignment = "\n    inputs:\n      work_queue_assignment:\n        type: string";
    let [one, two] = [r#"["worker"]"#, r#"["worker","other"]"#];
    let good_source = source("[worker]");
    let worker = good_source.replace("issues: false", "worker: true");
    let requiring = good_source.replace("issues: false", "require-assignment: true");
    let queueless = good_source.replace("work-queue:\n    issues: false", "bash: [ls]");
    for (what, source, lock) in [
        ("a worker", &worker, sound()),
        ("a workflow that requires an assignment", &requiring, sound()),
        ("a workflow without the queue", &queueless, sound()),
        ("no list of workers", &good_source.replace("workflows: [worker]", "max: 1"), sound()),
        ("an empty list of workers", &source("[]"), sound()),
        ("an assignment input", &good_source, lock(assignment, &controls(one, one))),
        ("no trigger", &good_source, sound().replace("workflow_dispatch:", "push:")),
        ("no controls", &good_source, lock("", "OTHER: x")),
        (
            "one list alone",
            &good_source,
            lock("", "GH_AW_WORK_QUEUE_CONTROL_CONFIG: '{\"work_queue_workflows\":[\"worker\"]}'"),
        ),
        ("drifted lists", &good_source, lock("", &controls(two, two))),
        ("lists that differ", &good_source, lock("", &controls(one, two))),
        ("a source that lists more", &source("[worker, other]"), sound()),
        ("a malformed list", &good_source, lock("", &controls(r#""worker""#, one))),
        ("a repeated worker", &good_source, lock("", &controls(r#"["worker","worker"]"#, one))),
        ("controls that are no JSON", &good_source, lock("", "GH_AW_WORK_QUEUE_CONTROL_CONFIG: 'x'")),
        ("no YAML", &good_source, "a: [".to_owned()),
    ] {
        desk.github.commit(OCTO_WIDGETS, "main", &[(SOURCE, Some(source)), (LOCK, Some(&lock))]);
        let refused = desk.wq(&["dispatch", "dispatcher"]);
        assert_eq!(refused.error(2), "dispatcher_invalid", "{what}");
        assert!(refused.err.to_lowercase().contains("compile"), "{what}: {refused:?}");
    }
    for (source, lock) in [(None, Some(sound())), (Some(good_source.clone()), None)] {
        desk.github.commit(OCTO_WIDGETS, "main", &[(SOURCE, source.as_deref()), (LOCK, lock.as_deref())]);
        assert_eq!(desk.wq(&["dispatch", "dispatcher"]).error(2), "dispatcher_invalid");
    }
    prepared(&desk);
    for state in [Some("disabled_manually"), None] {
        desk.github.workflow_state(OCTO_WIDGETS, LOCK, state);
        let refused = desk.wq(&["dispatch", "dispatcher"]);
        assert_eq!(refused.error(2), "dispatcher_invalid", "{state:?}");
    }
    for name in ["../dispatcher", ".github/workflows/dispatcher.md", "dispatcher.md", "dispatcher.lock.yml", "", "a b"]
    {
        assert_eq!(desk.wq(&["dispatch", name]).error(2), "usage_invalid", "{name:?}");
    }
    untouched(&desk);
}

/// O-362: flags that would seem to steer Claims, routes or the queue are refused with `dispatch`.
#[test]
fn dispatch_takes_no_steering() {
    let desk = Desk::new();
    prepared(&desk);
    for flags in [
        &["--claim-id", "c"][..],
        &["--work-id", "w"],
        &["--worker-profile", "worker"],
        &["--ref", "main"],
        &["--branch", "other"],
        &["--request-id", "r"],
        &["--remote", "queue.git"],
        &["--principal", "7"],
        &["second"],
    ] {
        let arguments = [&["dispatch", "dispatcher"], flags].concat();
        assert_eq!(desk.wq(&arguments).error(2), "usage_invalid", "{flags:?}");
    }
    assert_eq!(desk.github.all_calls(), 0);
}

/// O-348, O-349: a tag that is another, a missing permission and an uncertain creation stop it before the run is asked
/// for; what was made stays. `contents: write` is needed only where the tag is not there yet.
#[test]
fn without_the_exact_tag_nothing_is_started() {
    let desk = Desk::new();
    let other = desk.github.commit(OCTO_WIDGETS, "main", &[("OTHER", Some("x"))]);
    let sha = prepared(&desk);
    desk.github.move_ref(OCTO_WIDGETS, &tag(&sha), Some(&other));
    assert_eq!(desk.wq(&["dispatch", "dispatcher"]).error(4), "snapshot_tag_mismatch");
    assert_eq!(desk.github.head(OCTO_WIDGETS, &tag(&sha)), Some(other), "it is not moved");
    desk.github.move_ref(OCTO_WIDGETS, &tag(&sha), None);
    desk.github.annotate(OCTO_WIDGETS, &format!("gh-aw/work-queue/{sha}"), &sha);
    assert_eq!(desk.wq(&["dispatch", "dispatcher"]).error(4), "snapshot_tag_mismatch");
    desk.github.move_ref(OCTO_WIDGETS, &tag(&sha), None);
    untouched(&desk);
    // Who may start workflows and not write contents.
    desk.github.account("act", Kind::User);
    desk.github.token("actions-alone", "act", Issued::FineGrained);
    let access = Access { actions: Level::Write, contents: Level::Read, ..Access::READ };
    desk.github.grant("actions-alone", OCTO_WIDGETS, access);
    desk.github.role(OCTO_WIDGETS, "act", Role::Write);
    let refused = desk.with("actions-alone", &["dispatch", "dispatcher"]);
    assert_eq!(refused.error(4), "api_forbidden");
    assert!(refused.err.contains("contents"), "{refused:?}");
    for strike in [Strike::Status(500), Strike::DropBefore, Strike::Html] {
        desk.github.faults(Faults::next(Endpoint::CreateRef, strike));
        desk.wq(&["dispatch", "dispatcher"]).error(7);
    }
    assert_eq!(desk.calls(&[Endpoint::Dispatch]), 0);
    // An answer that was lost is no failure: the tag is read back.
    desk.github.faults(Faults::next(Endpoint::CreateRef, Strike::DropAfter));
    desk.wq(&["dispatch", "dispatcher"]).json(0);
    desk.with("actions-alone", &["dispatch", "dispatcher"]).json(0);
    assert_eq!(desk.calls(&[Endpoint::Dispatch]), 2);
    assert_eq!(desk.github.head(OCTO_WIDGETS, &tag(&sha)), Some(sha));
}

/// O-352, O-353, O-363: after a request whose answer is lost, names no run, or whose run cannot be read, the command
/// fails explicitly, advises to inspect the accepted run, sends nothing a second time, and looks at no listing of runs.
#[test]
fn an_unclear_start_is_told_and_never_repeated() {
    let desk = Desk::with_work(&["alpha"]);
    prepared(&desk);
    let ledger = desk.bare.ledger();
    let mut sent = 0;
    for strike in [
        Strike::DropAfter,
        Strike::HalfBody,
        Strike::Garbage,
        Strike::WrongShape,
        Strike::Status(500),
        Strike::Status(409),
        Strike::StatusAfter(502),
        Strike::StatusWithoutId(422),
    ] {
        desk.github.faults(Faults::next(Endpoint::Dispatch, strike.clone()));
        let unclear = desk.wq(&["dispatch", "dispatcher"]);
        assert_eq!(unclear.error(5), "dispatch_unverified", "{strike:?}");
        assert!(unclear.err.contains("before starting it again"), "{unclear:?}");
        sent += 1;
        assert_eq!(desk.calls(&[Endpoint::Dispatch]), sent, "{strike:?}");
    }
    // A refusal that proves itself is told as one.
    for (strike, code) in [(Strike::Status(422), "api_unprocessable"), (Strike::Status(403), "api_forbidden")] {
        desk.github.faults(Faults::next(Endpoint::Dispatch, strike));
        let refused = desk.wq(&["dispatch", "dispatcher"]);
        assert_eq!(refused.error(if code == "api_forbidden" { 4 } else { 7 }), code);
        assert!(refused.err.contains("no run was started"), "{refused:?}");
        sent += 1;
    }
    let before = desk.github.runs().len();
    desk.github.faults(Faults::default().and(Endpoint::Run, 1, 99, Strike::Status(403)));
    let unread = desk.wq(&["dispatch", "dispatcher"]);
    assert_eq!(unread.error(5), "dispatch_unverified");
    let accepted = *desk.github.runs().last().unwrap();
    assert_eq!(desk.github.runs().len(), before + 1);
    assert!(unread.err.contains(&format!("actions/runs/{accepted}")), "{unread:?}");
    assert_eq!(desk.calls(&[Endpoint::Dispatch]), sent + 1);
    assert_eq!(desk.calls(&[Endpoint::WorkflowRuns]), 0);
    assert_eq!(desk.bare.ledger(), ledger);
}

/// A way to GitHub on which something happens right before the request is sent.
struct Before<'a> {
    inner: Port<'a>,
    act: &'a dyn Fn(),
    posts: Cell<u32>,
}

impl Forge for Before<'_> {
    fn send(&self, request: &Request) -> Result<Response, Broken> {
        if request.endpoint().path == endpoint::DISPATCH.path {
            self.posts.set(self.posts.get() + 1);
            (self.act)();
        }
        self.inner.send(request)
    }

    fn host(&self) -> &Host {
        self.inner.host()
    }
}

/// O-351, O-352, O-353: a run at another revision than the verified one, because somebody moved the tag in between, is
/// refused after its activation, by its own page; it is the one run that is looked at, and the one request.
#[test]
fn a_run_at_another_revision_is_told_after_its_start() {
    let github = Github::standard();
    github.commit(OCTO_WIDGETS, "main", &[(SOURCE, Some(&source("[worker]"))), (LOCK, Some(&sound()))]);
    let name = RepositoryName::new(OCTO_WIDGETS).unwrap();
    let (moved, clock) = (Cell::new(None), SimulatedClock::new(NOW));
    let act = || {
        let sha = github.head(OCTO_WIDGETS, "refs/heads/main").unwrap();
        let other = github.commit(OCTO_WIDGETS, "other", &[(LOCK, Some(&sound()))]);
        github.move_ref(OCTO_WIDGETS, &tag(&sha), Some(&other));
        moved.set(Some(other));
    };
    let forge = Before { inner: Port::new(&github, LAUNCH, &clock), act: &act, posts: Cell::new(0) };
    let client = Client::new(&forge, &clock);
    let dispatcher = verify_dispatcher(client, &name, "dispatcher").unwrap();
    let error = start_dispatcher(client, &clock, &name, &dispatcher).unwrap_err();
    assert_eq!(error.code, Code::DispatchUnverified);
    let run = *github.runs().last().unwrap();
    assert_eq!(github.run(run).unwrap().head_sha, moved.take().unwrap());
    assert!(error.accepted.unwrap().ends_with(&format!("/actions/runs/{run}")));
    assert_eq!((forge.posts.get(), github.runs().len()), (1, 1));
    assert_eq!(github.calls(Endpoint::WorkflowRuns), 0);
}

/// O-360: waiting ends with the dispatcher's own run, whatever its workers do, and its conclusion decides the exit
/// status; the answer is given all the same.
#[test]
fn waiting_is_for_the_dispatcher_alone() {
    let desk = Desk::new();
    prepared(&desk);
    for (conclusion, exit) in [("success", 0), ("failure", 6)] {
        let mut command = desk.command(ADMIN, &["dispatch", "dispatcher", "--wait", "--repo", OCTO_WIDGETS, "--json"]);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        // The read of the run that follows the start is slow, so that the run has ended before the first look at it.
        let known = desk.github.runs().len();
        desk.github.faults(Faults::next(Endpoint::Run, Strike::Delay(1500)));
        let child = command.spawn().unwrap();
        while desk.github.runs().len() == known {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let run = *desk.github.runs().last().unwrap();
        desk.github.complete_run(run, conclusion);
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!(ran.code, exit, "{ran:?}");
        let answer: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((answer["status"].as_str(), answer["conclusion"].as_str()), (Some("completed"), Some(conclusion)));
        assert_eq!(answer["run_id"], run.to_string());
    }
    assert_eq!(desk.calls(&[Endpoint::Dispatch]), 2);
    desk.github.faults(Faults::default().and(Endpoint::Attempt, 1, 9, Strike::Status(403)));
    let blind = desk.wq(&["dispatch", "dispatcher", "--wait"]);
    assert_eq!(blind.error(4), "api_forbidden");
    let run = *desk.github.runs().last().unwrap();
    assert!(blind.err.contains(&format!("actions/runs/{run}")), "{blind:?}");
    assert_eq!(desk.calls(&[Endpoint::Dispatch]), 3);
}

/// O-350: the help says whom the tag trusts, and what the comparison afterwards cannot do.
#[test]
fn the_help_says_whom_a_tag_trusts() {
    let help = run(Path::new("/"), &["dispatch", "--help"]);
    let words = help.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Whoever may move tags of the repository is trusted"), "{words}");
    assert!(words.contains("cannot undo it"), "{words}");
}
