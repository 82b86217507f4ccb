//! `wq doctor`: what is looked at, and that nothing but looking happens.

use serde_json::{Value, json};

use super::Desk;
use crate::support::cli::{Ran, run};
use crate::support::github::{
    Endpoint, Faults, JOB, NOTHING, OCTO_WIDGETS, READER, Strike, WRITER, worker_lock, worker_source,
};

fn findings(answer: &Value) -> Vec<(String, String)> {
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap().to_owned();
    answer["findings"].as_array().unwrap().iter().map(|one| (text(one, "level"), text(one, "code"))).collect()
}

/// The finding of this code at this level, with a fix.
fn found<'a>(answer: &'a Value, level: &str, code: &str) -> &'a Value {
    let all = answer["findings"].as_array().unwrap();
    let one = all.iter().find(|one| one["code"] == code && one["level"] == level);
    let one = one.unwrap_or_else(|| panic!("{level} {code}: {:?}", findings(answer)));
    assert!(!one["message"].as_str().unwrap().is_empty());
    assert!(level == "ok" || !one["fix"].as_str().unwrap().is_empty(), "{one}");
    one
}

fn sound_dispatcher(desk: &Desk) {
    let source = "---\nname: Dispatcher\ntools:\n  work-queue:\n    issues: false\nsafe-outputs:\n  dispatch-workflow:\n    \
                  workflows: [worker]\n---\n";
    let lock = "name: Dispatcher\non:\n  workflow_dispatch:\njobs:\n  conclusion:\n    runs-on: ubuntu-latest\n    steps:\n      \
                - env:\n          GH_AW_WORK_QUEUE_CONTROL_CONFIG: \
                '{\"work_queue_workflows\":[\"worker\"],\"aw_context_workflows\":[\"worker\"]}'\n        run: \"true\"\n";
    desk.github.commit(
        OCTO_WIDGETS,
        "main",
        &[(".github/workflows/dispatcher.md", Some(source)), (".github/workflows/dispatcher.lock.yml", Some(lock))],
    );
}

/// O-089, O-046: an installation that holds together has nothing to mend, both permissions of the launch credential
/// among what was looked at; nothing is written, whatever is found.
#[test]
fn a_sound_installation_has_nothing_to_mend() {
    let desk = Desk::with_work(&["alpha"]);
    sound_dispatcher(&desk);
    let head = desk.head();
    let answer = desk.wq(&["doctor"]).json(0);
    for code in [
        "git",
        "api_version",
        "clock",
        "account",
        "administration",
        "contents_write",
        "actions_write",
        "contents_read",
        "actions_read",
        "branch_rules",
        "settings",
        "workflow",
        "ledger",
    ] {
        found(&answer, "ok", code);
    }
    // `tools.work-queue.issues` is deprecated, and said so.
    let bad: Vec<_> = findings(&answer).into_iter().filter(|(level, _)| level == "error").collect();
    assert_eq!(bad, [] as [(String, String); 0], "{answer}");
    assert_eq!((desk.head(), desk.writes()), (head, 0));
    let text = desk.text(&["doctor"]);
    assert!(text.lines().any(|line| line.starts_with("ok") && line.contains("ledger: the ledger is valid")), "{text}");
}

/// O-089, O-046: what the token lacks, what rules refuse and what the host does not offer is told with its fix, and is
/// advice: a submission does not ask for it.
#[test]
fn tokens_rules_and_hosts_are_looked_at() {
    let desk = Desk::with_work(&["alpha"]);
    let writer = desk.with(WRITER, &["doctor"]).json(0);
    found(&writer, "note", "administration");
    // Of a fine-grained token no read shows what it may write.
    found(&writer, "note", "contents_write");
    found(&writer, "note", "actions_write");
    found(&desk.with(READER, &["doctor"]).json(0), "warning", "contents_write");
    found(&desk.with(JOB, &["doctor"]).json(0), "warning", "api_forbidden");
    desk.github.rules(
        OCTO_WIDGETS,
        ["pull_request", "required_signatures", "deletion", "non_fast_forward"]
            .map(|kind| json!({"type": kind, "ruleset_source_type": "Repository", "ruleset_source": OCTO_WIDGETS, "ruleset_id": 5}))
            .to_vec(),
    );
    let ruled = desk.wq(&["doctor"]).json(0);
    let rules = findings(&ruled).into_iter().filter(|(_, code)| code == "branch_rule").count();
    assert_eq!(rules, 2, "{ruled}");
    let asked = desk.calls(&[Endpoint::BranchRules]);
    desk.submit("beta", &[]).json(0);
    assert_eq!(desk.calls(&[Endpoint::BranchRules]), asked, "publishing looks at no rules");
    desk.github.versions(&["2022-11-28"]);
    let old = desk.wq(&["doctor"]).json(0);
    found(&old, "warning", "host_unsupported");
    // Decision 64: reading, submitting and granting work there all the same.
    desk.submit("gamma", &[]).json(0);
    desk.wq(&["stats"]).json(0);
    desk.wq(&["dispatch-next"]).json(0);
}

/// A clock that is off is told, and is no reason for anything else.
#[test]
fn a_clock_that_is_off_is_told() {
    let desk = Desk::with_work(&["alpha"]);
    desk.github.set_now(desk.github.now() - 600_000);
    found(&desk.wq(&["doctor"]).json(0), "warning", "clock_drift");
    desk.wq(&["stats"]).json(0);
}

/// Missing, broken and inactive workflow pieces, broken settings, a group that all runs of a worker share, and a
/// dispatcher's worker that is none are told one by one.
#[test]
fn workflow_traps_are_named() {
    let desk = Desk::with_work(&["alpha"]);
    let contract = "c".repeat(64);
    let shared = worker_lock("Shared", &contract)
        .replace("permissions: {}\n", "permissions: {}\nconcurrency:\n  group: \"gh-aw-${{ github.workflow }}\"\n");
    let own = worker_lock("Own", &contract).replace(
        "permissions: {}\n",
        "permissions: {}\nconcurrency:\n  group: \"gh-aw-${{ github.workflow }}-${{ github.run_id }}\"\n",
    );
    sound_dispatcher(&desk);
    let path = |name: &str, extension: &str| format!(".github/workflows/{name}.{extension}");
    let lister = "---\nname: Lister\ntools:\n  work-queue:\n    issues: false\nsafe-outputs:\n  dispatch-workflow:\n    workflows: [nobody]\n---\n";
    let source = worker_source("x");
    desk.github.commit(
        OCTO_WIDGETS,
        "main",
        &[
            (path("shared", "md").as_str(), Some(source.as_str())),
            (path("shared", "lock.yml").as_str(), Some(shared.as_str())),
            (path("own", "md").as_str(), Some(source.as_str())),
            (path("own", "lock.yml").as_str(), Some(own.as_str())),
            (path("uncompiled", "md").as_str(), Some(source.as_str())),
            (path("stampless", "md").as_str(), Some(source.as_str())),
            (path("stampless", "lock.yml").as_str(), Some("on: workflow_dispatch\njobs: {}\n")),
            (path("lister", "md").as_str(), Some(lister)),
            (".github/workflows/aw.json", Some(r#"{"work_queue":{"concurrency":0}}"#)),
            ("src/unrelated.md", Some("no front matter")),
        ],
    );
    for name in ["shared", "own"] {
        desk.github.workflow(OCTO_WIDGETS, &path(name, "lock.yml"), name);
    }
    desk.github.workflow_state(OCTO_WIDGETS, &path("worker", "lock.yml"), Some("disabled_manually"));
    let answer = desk.wq(&["doctor"]).json(0);
    let shared = found(&answer, "warning", "worker_concurrency");
    assert!(shared["message"].as_str().unwrap().starts_with("shared:"), "{shared}");
    assert_eq!(findings(&answer).iter().filter(|(_, code)| code == "worker_concurrency").count(), 1);
    for (code, name) in [
        ("workflow_missing", "lister:"),
        ("workflow_unregistered", "stampless:"),
        ("workflow_unusable", "stampless:"),
        ("workflow_inactive", "worker:"),
        ("settings_invalid", "work_queue.concurrency"),
    ] {
        let all = answer["findings"].as_array().unwrap();
        let one = all.iter().any(|one| {
            one["code"] == code && one["level"] == "error" && one["message"].as_str().unwrap().starts_with(name)
        });
        assert!(one, "{code} {name}: {answer}");
    }
    found(&answer, "warning", "dispatcher_worker_missing");
    assert_eq!(desk.writes(), 0);
}

/// The queue is looked at as every command reads it: absent, paused, or defective.
#[test]
fn the_ledger_is_looked_at() {
    let desk = Desk::new();
    found(&desk.wq(&["doctor"]).json(0), "note", "queue_missing");
    let queue = Desk::with_work(&["alpha"]);
    queue.wq(&["control", "pause", "grants", "--reason", "r"]).json(0);
    found(&queue.wq(&["doctor"]).json(0), "note", "paused");
    desk.bare.seed(b"not a ledger\n");
    let broken = desk.wq(&["doctor"]).json(0);
    assert_eq!(broken["worst"], "error", "{broken}");
    // A local queue has git and a ledger.
    let directory = queue.bare.path();
    let local = run(
        queue.bare.around(),
        &["doctor", "--remote", directory.to_str().unwrap(), "--repo", OCTO_WIDGETS, "--json"],
    )
    .json(0);
    let codes: Vec<String> = findings(&local).into_iter().map(|(_, code)| code).collect();
    assert_eq!(codes, ["git", "ledger", "paused"]);
}

/// Exit 0 whatever was found; what cannot be looked at at all is a failure.
#[test]
fn only_what_cannot_run_fails() {
    let desk = Desk::with_work(&["alpha"]);
    let mut command = desk.command("", &["doctor", "--json", "--repo", OCTO_WIDGETS]);
    assert_eq!(Ran::of(command.output().unwrap()).error(4), "api_unauthenticated");
    assert_eq!(desk.wq(&["doctor", "--principal", "7"]).error(2), "usage_invalid");
    assert_eq!(desk.wq(&["doctor", "extra"]).error(2), "usage_invalid");
    desk.github.make_private(OCTO_WIDGETS);
    found(&desk.with(NOTHING, &["doctor"]).json(0), "error", "repository_unavailable");
    desk.github.faults(Faults::default().outage(1, 9999, Strike::Status(503)));
    let dark = desk.wq(&["doctor"]).json(0);
    assert_eq!(dark["worst"], "error", "{dark}");
}
