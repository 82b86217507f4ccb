//! Compiled workflows, their sources and the routes that they make (publication.md 4, operator-cli.md 7.2).

mod bombs;
mod dispatchers;

use std::collections::BTreeSet;

use serde_json::json;
use wq_action::launch::route::{Admission, Defect, Finding, LockFile, Route, SourceFile, routes_to_verify};
use wq_action::launch::settings::{ApprovedWorker, Given, Settings, parse, resolve_policy};
use wq_action::protocol::RepositoryName;
use wq_action::protocol::policy::Policy;
use wq_action::protocol::work::WorkDraft;
use wq_action::protocol::{Code, Digest, Fault, ProfileName, Revision};

use crate::support::built::{Node, aw_policy};
use crate::support::ledger::{fixture, policy, typed};

/// The text of a fixture.
fn workflow(name: &str) -> String {
    std::fs::read_to_string(fixture("workflows").join(name)).unwrap()
}

fn lock(text: &str) -> Result<LockFile, Defect> {
    LockFile::read(text.as_bytes())
}

/// The worker's compiled file with one piece replaced, which must be there.
fn changed(from: &str, to: &str) -> String {
    let text = workflow("worker.lock.yml");
    assert!(text.contains(from), "the fixture holds no {from:?}");
    text.replace(from, to)
}

fn stamp() -> Digest {
    Digest::new("a".repeat(64)).unwrap()
}

/// O-040: a worker's compiled file is a route only if it takes the dispatch input `work_queue_assignment` of type
/// `string`, required or not. The key `on` is text, quoted or not.
#[test]
fn a_worker_takes_an_assignment() {
    let sound = lock(&workflow("worker.lock.yml")).unwrap();
    assert!(sound.is_dispatchable() && sound.declares_assignment());
    sound.check_worker(Some(&stamp())).unwrap();
    let optional =
        changed("        required: true\n        type: string", "        required: false\n        type: 'string'");
    lock(&optional).unwrap().check_worker(Some(&stamp())).unwrap();
    lock(&changed("\non:\n", "\n\"on\":\n")).unwrap().check_worker(Some(&stamp())).unwrap();

    let declared = "required: true\n        type: string";
    for (from, to, defect) in [
        (declared, "required: true\n        type: number", Defect::AssignmentType),
        (declared, "required: true\n        type: choice\n        options: [string]", Defect::AssignmentType),
        (declared, "required: true\n        type: [string]", Defect::AssignmentType),
        (declared, "required: true\n        type: String", Defect::AssignmentType),
        (declared, "required: true\n        type: ${{ 'string' }}", Defect::AssignmentType),
        (declared, "required: true", Defect::AssignmentType),
        ("work_queue_assignment:", "Work_queue_assignment:", Defect::AssignmentMissing),
        ("inputs:", "outputs:", Defect::AssignmentMissing),
        ("  workflow_dispatch:", "  workflow_call:", Defect::DispatchMissing),
        ("\non:\n", "\ntrue:\n", Defect::DispatchMissing),
        ("\non:\n", "\nOn:\n", Defect::DispatchMissing),
    ] {
        assert_eq!(lock(&changed(from, to)).unwrap().check_worker(Some(&stamp())), Err(defect), "{to}");
    }
    for (on, dispatchable) in [
        ("workflow_dispatch", true),
        ("[push, workflow_dispatch]", true),
        ("push", false),
        ("[push]", false),
        ("{workflow_dispatch: }", true),
        ("", false),
    ] {
        let file = lock(&format!("on: {on}\n")).unwrap();
        assert_eq!(file.is_dispatchable(), dispatchable, "{on}");
        assert!(file.check_assignment().is_err());
    }
}

/// The contract stamp (publication.md 4.4): literal digests in the `env` of the workflow, jobs and steps, all equal, at
/// least one. One malformed occurrence spoils the file; the name anywhere else means nothing.
#[test]
fn the_contract_stamp_is_literal_and_one() {
    let name = "GH_AW_WORK_QUEUE_CONTRACT";
    let a = "a".repeat(64);
    let in_env = |level: usize, value: &str| -> String {
        let env = |at: usize, indent: &str| match at == level {
            true => format!("env:\n{indent}  {name}: {value}"),
            false => "env: {}".to_owned(),
        };
        let (top, job, step) = (env(0, ""), env(1, "    "), env(2, "        "));
        format!("{top}\njobs:\n  j:\n    {job}\n    steps:\n      - run: x\n        {step}\n")
    };
    let contract = |text: &str| lock(text).unwrap().contract();
    assert_eq!(contract(&workflow("worker.lock.yml")), Ok(stamp()));
    for level in 0..3 {
        assert_eq!(contract(&in_env(level, &a)), Ok(stamp()));
        assert_eq!(contract(&in_env(level, &format!("'{a}'"))), Ok(stamp()));
        // Numbers in the core schema: what a program compares is no string.
        let (digits, float) = ("1".repeat(64), format!("{}e{}", "1".repeat(31), "1".repeat(32)));
        for bad in [
            "${{ vars.STAMP }}",
            "''",
            "",
            "null",
            "true",
            &a[1..],
            &a.to_uppercase(),
            &format!("\" {a}\""),
            &digits,
            &float,
            &format!("[{a}]"),
            &format!("{{x: {a}}}"),
        ] {
            assert_eq!(contract(&in_env(level, bad)), Err(Defect::StampMalformed), "{level} {bad}");
        }
        assert!(contract(&in_env(level, &format!("'{digits}'"))).is_ok());
    }
    let b = "b".repeat(64);
    let two = format!("{}env: {{{name}: {b}}}\n", in_env(1, &a).replacen("env: {}\n", "", 1));
    assert_eq!(contract(&two), Err(Defect::StampsDiffer));
    let malformed_beside = two.replace(&b, "'${{ github.sha }}'");
    assert_eq!(contract(&malformed_beside), Err(Defect::StampMalformed));
    // Outside env: an input, a step's own member, an action's inputs, a script, an env of something else.
    for elsewhere in [
        format!("{name}: {a}\n"),
        format!("on: {{workflow_dispatch: {{inputs: {{{name}: {a}}}}}}}\n"),
        format!("jobs: {{j: {{{name}: {a}}}}}\n"),
        format!("jobs: {{j: {{steps: [{{with: {{{name}: {a}}}}}, {{run: 'export {name}={a}'}}]}}}}\n"),
        format!("jobs: {{j: {{container: {{env: {{{name}: {a}}}}}, services: {{s: {{env: {{{name}: {a}}}}}}}}}}}\n"),
        format!("defaults: {{env: {{{name}: {a}}}}}\n"),
        format!("env: {{x: '{name}: {a}', gh_aw_work_queue_contract: {a}}}\n"),
    ] {
        assert_eq!(contract(&elsewhere), Err(Defect::StampMissing), "{elsewhere}");
    }
    for odd in ["env: text", "jobs: []", "jobs: {j: null}", "jobs: {j: {steps: text}}", "jobs: {j: {steps: [1, null]}}"]
    {
        assert_eq!(contract(&format!("{odd}\n")), Err(Defect::StampMissing), "{odd}");
    }
}

/// A profile's contract must be the stamp; a profile without one asks for none. Every defect is `policy_missing`.
#[test]
fn the_stamp_is_the_approved_one() {
    let sound = lock(&workflow("worker.lock.yml")).unwrap();
    let other = Digest::new("b".repeat(64)).unwrap();
    assert_eq!(sound.check_worker(Some(&other)), Err(Defect::StampUnexpected));
    let unstamped = lock(&workflow("worker.lock.yml").replace("GH_AW_WORK_QUEUE_CONTRACT", "OTHER")).unwrap();
    assert_eq!(unstamped.check_worker(Some(&stamp())), Err(Defect::StampMissing));
    assert_eq!(unstamped.check_worker(None), Ok(()));
    assert_eq!(Fault::from(Defect::StampMissing).code(), Code::PolicyMissing);
}

/// O-056: the routes of the Policy are the workflows that declare themselves workers, and a dispatcher may launch what
/// its `safe-outputs.dispatch-workflow.workflows` names.
#[test]
fn sources_declare_workers_and_who_launches_them() {
    let sources =
        [("worker", workflow("worker.md")), ("reviewer", workflow("worker.md")), ("d", workflow("dispatcher.md"))];
    let stamp = lock(&workflow("worker.lock.yml")).unwrap().contract().ok();
    let workers: Vec<_> = sources
        .iter()
        .filter(|(_, text)| SourceFile::read(text.as_bytes()).unwrap().is_worker())
        .map(|(name, _)| ApprovedWorker { name: ProfileName::new(*name).unwrap(), contract: stamp.clone() })
        .collect();
    let revision = Revision::new("e".repeat(40)).unwrap();
    let repository = RepositoryName::new("owner/repo").unwrap();
    let policy = resolve_policy(&repository, &revision, &workers, &Settings::default()).unwrap();
    let routes: BTreeSet<_> = policy.pools["default"].profiles.keys().map(|name| name.as_str().to_owned()).collect();
    let dispatcher = SourceFile::read(sources[2].1.as_bytes()).unwrap();
    assert!(dispatcher.uses_queue() && !dispatcher.is_worker());
    assert_eq!(dispatcher.check_dispatcher().unwrap(), routes);
    assert!(policy.pools["default"].profiles.values().all(|profile| profile.logical_contract == stamp));
}

/// A worker says so with the boolean `true` and nothing else.
#[test]
fn a_worker_is_exactly_true() {
    let worker = |value: &str| {
        let text = format!("---\ntools:\n  work-queue:\n    worker: {value}\n---\n");
        SourceFile::read(text.as_bytes()).unwrap().is_worker()
    };
    assert!(worker("true"));
    for value in
        ["false", "'true'", "\"true\"", "!!str true", "yes", "on", "1", "null", "[true]", "{a: true}", "${{ true }}"]
    {
        assert!(!worker(value), "{value}");
    }
    for front in [
        "tools: true",
        "tools: {work-queue: true}",
        "tools: {work_queue: {worker: true}}",
        "worker: true",
        "work-queue: {worker: true}",
        "tools: [work-queue]",
        "tools: {x: {work-queue: {worker: true}}}",
    ] {
        assert!(!SourceFile::read(format!("---\n{front}\n---\n").as_bytes()).unwrap().is_worker(), "{front}");
    }
}

/// Front matter that is missing, open, no mapping or hostile is refused; what follows it is never read.
#[test]
fn front_matter_is_read_strictly() {
    let read = |text: &str| SourceFile::read(text.as_bytes()).map(|source| source.is_worker());
    let worker = "tools: {work-queue: {worker: true}}";
    assert_eq!(read(&format!("---\n{worker}\n---\n{{{{ : - not: yaml\n---\nx: &a *a\n")), Ok(true));
    assert_eq!(read(&format!("---\r\n{worker}\r\n---\r\nText")), Ok(true));
    assert_eq!(read(&format!("---\n{worker}\n---")), Ok(true));
    for (text, defect) in [
        (String::new(), Defect::FrontMatterMissing),
        (format!("{worker}\n"), Defect::FrontMatterMissing),
        (format!("\n---\n{worker}\n---\n"), Defect::FrontMatterMissing),
        (format!("---\n{worker}\n"), Defect::FrontMatterMissing),
        (format!("---\n{worker}\n----\n"), Defect::FrontMatterMissing),
        (format!("----\n{worker}\n---\n"), Defect::FrontMatterMissing),
        ("---\n- worker\n---\n".to_owned(), Defect::FrontMatterMissing),
        ("---\n---\n".to_owned(), Defect::NotYaml),
        (format!("---\n{worker}\n{worker}\n---\n"), Defect::NotYaml),
        (format!("---\n{worker}\n...\nx: 1\n---\n"), Defect::NotYaml),
        ("---\ntools: {work-queue: {worker: true, worker: false}}\n---\n".to_owned(), Defect::NotYaml),
        ("---\ntools: [\n---\n".to_owned(), Defect::NotYaml),
        ("---\ntools: !!python/object {work-queue: {worker: true}}\n---\n".to_owned(), Defect::NotYaml),
        ("---\n%YAML 1.1\ntools: {}\n---\n".to_owned(), Defect::NotYaml),
        (format!("---\nx: {}\n---\n", "[".repeat(100_000)), Defect::NotYaml),
        (format!("---\nx: {}1{}\n---\n", "[".repeat(100), "]".repeat(100)), Defect::YamlTooComplex),
    ] {
        assert_eq!(read(&text), Err(defect), "{}", &text[..text.len().min(60)]);
    }
    assert_eq!(SourceFile::read(b"---\nx: \xff\n---\n").unwrap_err(), Defect::NotUtf8);
    let long = format!("---\n{worker}\n---\n{}", "x".repeat(1024 * 1024));
    assert_eq!(read(&long), Err(Defect::TooLong));
}

fn findings(front: &str, given: Given) -> Vec<(bool, &'static str)> {
    let source = SourceFile::read(format!("---\n{front}\n---\n").as_bytes()).unwrap();
    source.findings(given).into_iter().map(|Finding { error, property, .. }| (error, property)).collect()
}

/// O-069: `work-queue-policy` draws a deprecation warning, and is an error beside any `work_queue` section, `{}`
/// included. `tools.work-queue.issues` likewise beside `work_queue.issues`.
#[test]
fn deprecated_members_conflict_with_the_settings() {
    let given = |text: &str| parse(text.as_bytes()).unwrap().given;
    for policy in ["work-queue-policy: {}", "work-queue-policy:", "work-queue-policy: {mode: x}"] {
        assert_eq!(findings(policy, Given::default()), [(false, "work-queue-policy")]);
        assert_eq!(findings(policy, given("{\"other\":{}}")), [(false, "work-queue-policy")]);
        for section in ["{}", "{\"concurrency\":1}"] {
            let given = given(&format!("{{\"work_queue\":{section}}}"));
            assert_eq!(findings(policy, given), [(true, "work-queue-policy")]);
        }
    }
    let issues = "tools: {work-queue: {issues: true}}";
    assert_eq!(findings(issues, given("{\"work_queue\":{}}")), [(false, "tools.work-queue.issues")]);
    for value in ["false", "true", "{}"] {
        let given = given(&format!("{{\"work_queue\":{{\"issues\":{value}}}}}"));
        assert_eq!(findings(issues, given), [(true, "tools.work-queue.issues")]);
    }
}

/// `tools.work-queue.storage` is refused with any value, scheduling cannot be switched off, and a worker cannot do
/// without its assignment.
#[test]
fn no_member_selects_a_backend() {
    for value in ["git", "actions", "null", "''", "{}", "false"] {
        let front = format!("tools: {{work-queue: {{storage: {value}}}}}");
        assert_eq!(findings(&front, Given::default()), [(true, "tools.work-queue.storage")]);
    }
    assert_eq!(findings("tools: {work-queue: false}", Given::default()), [(true, "tools.work-queue")]);
    let lax = "on: workflow_dispatch\ntools: {work-queue: {worker: true, require-assignment: false}}";
    assert_eq!(findings(lax, Given::default()), [(true, "tools.work-queue.require-assignment")]);
    for fine in [
        "tools: {work-queue: true}",
        "on: workflow_dispatch\ntools: {work-queue: {worker: true, require-assignment: true}}",
        "on: push",
    ] {
        assert_eq!(findings(fine, Given::default()), []);
    }
}

/// S-186: an AW bootstrap asks for the distinct routes of the submitted Work alone; a historical Policy asks for all of
/// its routes; updates of an AW Policy, ordinary requests and recoveries ask for none.
#[test]
fn only_used_routes_are_verified() {
    let drafts = |profiles: &[&str]| -> Vec<WorkDraft> {
        let node =
            |(index, profile): (usize, &&str)| Node::new(&index.to_string()).profile(profile).value().to_string();
        profiles.iter().enumerate().map(node).map(|node| typed(&node)).collect()
    };
    let mut document = aw_policy();
    document["pools"]["default"]["profiles"]["default"]["ref"] = json!("e".repeat(40));
    let template = document["pools"]["default"]["profiles"]["default"].clone();
    for index in 0..31 {
        let mut profile = template.clone();
        profile["workflow"] = json!(format!(".github/workflows/w{index}.lock.yml"));
        document["pools"]["default"]["profiles"][format!("w{index}")] = profile;
    }
    let mut twin = document["pools"]["default"]["profiles"]["w1"].clone();
    document["pools"]["default"]["profiles"]["twin"] = twin.clone();
    twin["ref"] = json!("0".repeat(40));
    document["pools"]["default"]["profiles"]["zero"] = twin;
    let aw: Policy = typed(&document.to_string());
    let names =
        |routes: Vec<Route>| -> Vec<String> { routes.iter().map(|route| route.workflow.as_str().to_owned()).collect() };
    let select = |admission: Admission<'_>| routes_to_verify(admission, &aw);
    let work = drafts(&["w2", "w1", "twin", "w2", "nobody"]);
    assert_eq!(
        names(select(Admission::Bootstrap(&work)).unwrap()),
        [".github/workflows/w1.lock.yml", ".github/workflows/w2.lock.yml"]
    );
    assert_eq!(select(Admission::Bootstrap(&drafts(&["zero"]))).unwrap_err().code(), Code::PolicyInvalid);
    for none in [Admission::PolicyUpdate, Admission::Ordinary, Admission::Recovery, Admission::Bootstrap(&[])] {
        assert_eq!(select(none).unwrap(), []);
    }
    let text = policy(false);
    let unborn: Policy = typed(&text);
    assert_eq!(routes_to_verify(Admission::PolicyUpdate, &unborn).unwrap_err().code(), Code::PolicyInvalid);
    let historical: Policy = typed(&text.replace(&"0".repeat(40), &"e".repeat(40)));
    let all = historical.pools.values().map(|pool| pool.profiles.len()).sum::<usize>();
    for every in [Admission::Bootstrap(&[]), Admission::PolicyUpdate] {
        let routes = routes_to_verify(every, &historical).unwrap();
        assert!(!routes.is_empty() && routes.len() <= all);
    }
    assert_eq!(routes_to_verify(Admission::Ordinary, &historical).unwrap(), []);
}
