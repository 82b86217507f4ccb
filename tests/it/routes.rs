//! Worker routes over GitHub: the verified default revision, what an inspection finds, and which failure is whose
//! (publication.md 4; its checklist items 11, 12 and 14).

use wq_action::launch::error::LaunchError;
use wq_action::launch::route::{
    DefaultRevision, Defect, Flaw, Inspected, Inspector, Part, Problem, default_revision, resolve, verify_route,
};
use wq_action::protocol::policy::WorkerProfile;
use wq_action::protocol::{Code, Digest, Identity, Revision};

use crate::support::github::{Endpoint, Faults, OCTO_WIDGETS, Strike, worker_lock, worker_source};
use crate::support::stage::{Stage, lock, source, stamp};

pub(crate) fn revision(text: &str) -> Revision {
    Revision::new(text).unwrap()
}

fn default(stage: &Stage) -> Result<DefaultRevision, LaunchError> {
    stage.ask(|client| default_revision(client, &stage.repository))
}

fn inspect(stage: &Stage, name: &str, at: &str) -> Result<Inspected, LaunchError> {
    let workflow = Identity::new(lock(name)).unwrap();
    stage.ask(|client| Inspector::new(client, &stage.repository).inspect(&workflow, &revision(at)))
}

fn profile(name: &str, at: &str, contract: Option<&str>) -> WorkerProfile {
    let contract = contract.map_or(String::new(), |letter| format!(r#""logical_contract":"{}","#, stamp(letter)));
    let text = format!(
        r#"{{"credential_scope":"repository","effect_scope":"{OCTO_WIDGETS}",{contract}"max_claims":1,"ref":"{at}",
        "share_keys":false,"trust_domain":"default","workflow":"{}"}}"#,
        lock(name)
    );
    let policy = format!(
        r#"{{"accounting_weights":{{"":1}},"authorization":"aw","class_weights":[8,4,2,1,1],"limits":{{
        "assignment_bytes":49152,"evidence_bytes":1024,"graph_nodes":4096,"ledger_bytes":67108864,
        "observation_writes":4096,"operations":256,"payload_bytes":16384,"pending_nodes":4096,"predecessors":64,
        "recovery_bytes":16777216,"result_bytes":4096}},"mode":"weighted-priority","pools":{{"default":{{
        "allowed_repositories":["{OCTO_WIDGETS}"],"default_profile":"w","logical_limit":16,
        "max_observation_age_ms":60000,"native_limit":16,"profiles":{{"w":{text}}},
        "reconciliation":{{"deadline_ms":300000,"max_attempts":5}},
        "retry":{{"backoff_ms":30000,"max_attempts":3}}}}}},"producers":{{}}}}"#
    );
    let policy = wq_action::ledger::proposal::read_policy(&policy).unwrap();
    (**policy.pools["default"].profiles.values().next().unwrap()).clone()
}

fn verify(stage: &Stage, profile: &WorkerProfile) -> Result<(), LaunchError> {
    stage.ask(|client| verify_route(client, &stage.repository, profile))
}

/// A name, what is done to a good worker, and what an inspection says then.
type Broken = (&'static str, Box<dyn Fn(&Stage)>, Problem, bool);

/// What is done to a good worker, and what an inspection says then: the problem, and whether its contract is known.
fn flaws() -> Vec<Broken> {
    fn case(what: &'static str, act: impl Fn(&Stage) + 'static, part: Part, flaw: Flaw) -> Broken {
        (what, Box::new(act), Problem { part, flaw }, part == Part::Registration)
    }
    fn content(what: &'static str, text: String, defect: Defect) -> Broken {
        let act = move |stage: &Stage| drop(stage.put(&lock("worker"), Some(&text)));
        case(what, act, Part::Compiled, Flaw::Content(defect))
    }
    let good = worker_lock("worker", &stamp("c"));
    let (c, d) = (stamp("c"), stamp("d"));
    vec![
        case("no source", |s| drop(s.put(&source("worker"), None)), Part::Source, Flaw::Missing),
        case(
            "an unopened source",
            |s| drop(s.put(&source("worker"), Some("# Worker\n"))),
            Part::Source,
            Flaw::Content(Defect::FrontMatterMissing),
        ),
        case(
            "a declaration of another type",
            |s| drop(s.put(&source("worker"), Some(&worker_source("w").replace("true", "\"true\"")))),
            Part::Source,
            Flaw::Content(Defect::NotWorker),
        ),
        case("no compiled file", |s| drop(s.put(&lock("worker"), None)), Part::Compiled, Flaw::Missing),
        case(
            "a folder in its place",
            |s| {
                s.put(&lock("worker"), None);
                s.put(&format!("{}/x", lock("worker")), Some("x"));
            },
            Part::Compiled,
            Flaw::File(wq_action::forge::Unusable::NotRegular),
        ),
        case(
            "a long compiled file",
            |s| drop(s.put(&lock("worker"), Some(&"#".repeat(1_048_577)))),
            Part::Compiled,
            Flaw::File(wq_action::forge::Unusable::TooLarge),
        ),
        content("broken YAML", "on: [".to_owned(), Defect::NotYaml),
        content("an input of another type", good.replace("type: string", "type: number"), Defect::AssignmentType),
        content("no input", good.replace("work_queue_assignment:", "other:"), Defect::AssignmentMissing),
        content("an expression for a stamp", good.replace(&c, "${{ vars.CONTRACT }}"), Defect::StampMalformed),
        content("a stamp outside of env", good.replace("env:\n  GH_AW", "defaults:\n  GH_AW"), Defect::StampMissing),
        content(
            "two stamps",
            good.replace("    steps:", &format!("    env:\n      GH_AW_WORK_QUEUE_CONTRACT: {d}\n    steps:")),
            Defect::StampsDiffer,
        ),
        case("no registration", |s| s.register("worker", None), Part::Registration, Flaw::Missing),
        case(
            "a disabled registration",
            |s| s.register("worker", Some("disabled_manually")),
            Part::Registration,
            Flaw::Inactive,
        ),
    ]
}

/// S-180, S-232, O-041, O-103: an available revision needs the worker's declaration, the assignment input, one literal
/// stamp and the exact active registration; each thing that is amiss is found, said, and means this worker alone.
/// Verification says `policy_missing`, what is wrong, and what to do. An input that is not required is fine.
#[test]
fn publication_12_every_flaw_of_a_worker_is_its_own() {
    let stage = Stage::new(&["worker"]);
    let found = inspect(&stage, "worker", &stage.head()).unwrap();
    assert_eq!(found, Inspected { contract: Some(Digest::new(stamp("c")).unwrap()), problem: None });
    verify(&stage, &profile("worker", &stage.head(), Some("c"))).unwrap();
    stage.put(&lock("worker"), Some(&worker_lock("worker", &stamp("c")).replace("required: true", "required: false")));
    assert!(inspect(&stage, "worker", &stage.head()).unwrap().is_available());
    for (what, act, problem, known) in flaws() {
        let stage = Stage::new(&["worker", "other"]);
        let before = stage.head();
        act(&stage);
        let found = inspect(&stage, "worker", &stage.head()).unwrap();
        assert_eq!(found.problem, Some(problem), "{what}");
        assert_eq!(found.contract.is_some(), known, "{what}");
        assert!(inspect(&stage, "other", &stage.head()).unwrap().is_available(), "{what}");
        if problem.part != Part::Source {
            let error = verify(&stage, &profile("worker", &stage.head(), Some("c"))).unwrap_err();
            assert_eq!(error.code(), Code::PolicyMissing, "{what}");
            let told = format!("{}; deploy the worker, then retry the same submission", problem.sentence());
            assert_eq!(error.message(), told, "{what}");
        }
        if problem.part != Part::Registration {
            assert!(inspect(&stage, "worker", &before).unwrap().is_available(), "{what}: an older revision stays");
        }
    }
}

/// S-216: a worker whose authority or interface changed carries another stamp, and a route that was approved with the
/// old one is not verified by it. A route without a contract asks for no stamp, and the null revision is no route.
#[test]
fn another_contract_is_another_approval() {
    let stage = Stage::new(&["worker"]);
    let error = verify(&stage, &profile("worker", &stage.head(), Some("d"))).unwrap_err();
    assert_eq!(error.code(), Code::PolicyMissing);
    assert!(error.message().starts_with(Defect::StampUnexpected.sentence()));
    stage.put(&lock("worker"), Some(&worker_lock("worker", "none")));
    verify(&stage, &profile("worker", &stage.head(), None)).unwrap();
    let calls = stage.lookups();
    let null = verify(&stage, &profile("worker", &"0".repeat(40), None)).unwrap_err();
    assert_eq!((null.code(), stage.lookups()), (Code::PolicyInvalid, calls));
}

/// A registration under the same base name but another path is not the route's.
#[test]
fn publication_12_a_registration_of_another_path_is_none() {
    let stage = Stage::new(&["worker"]);
    stage.github.change(OCTO_WIDGETS, |repository| {
        repository.workflows[0].path = ".github/workflows/old/worker.lock.yml".to_owned();
    });
    let found = inspect(&stage, "worker", &stage.head()).unwrap();
    assert_eq!(found.problem, Some(Problem { part: Part::Registration, flaw: Flaw::OtherPath }));
}

/// Strikes of a lookup, and the code that comes of each.
fn outages() -> [(Strike, Code); 8] {
    [
        (Strike::Status(401), Code::ApiUnauthenticated),
        (Strike::Status(403), Code::ApiForbidden),
        (Strike::Status(429), Code::ApiRateLimited),
        (Strike::SecondaryLimit(5), Code::ApiRateLimited),
        (Strike::Status(500), Code::ApiUnavailable),
        (Strike::Status(503), Code::ApiUnavailable),
        (Strike::TimeoutBefore, Code::ApiUnreachable),
        (Strike::DropBefore, Code::ApiUnreachable),
    ]
}

/// S-232, O-105: a denied, limited, failing or silent lookup of repository, reference, source, compiled file or
/// registration is raised as it is, and is no property of a worker.
#[test]
fn publication_12_a_failed_lookup_is_nobodys_flaw() {
    let stage = Stage::new(&["worker"]);
    let head = stage.head();
    for (strike, code) in outages() {
        for at in [Endpoint::Repository, Endpoint::GetRef] {
            stage.github.faults(Faults::next(at, strike.clone()));
            assert_eq!(default(&stage).unwrap_err().code(), code, "{at:?} {strike:?}");
        }
        for (at, nth) in [(Endpoint::Contents, 1), (Endpoint::Contents, 2), (Endpoint::Workflow, 1)] {
            stage.github.faults(Faults::default().and(at, nth, 1, strike.clone()));
            let error = inspect(&stage, "worker", &head).unwrap_err();
            assert_eq!(error.code(), code, "{at:?} {nth} {strike:?}");
        }
        for at in [Endpoint::Contents, Endpoint::Workflow] {
            stage.github.faults(Faults::next(at, strike.clone()));
            let error = verify(&stage, &profile("worker", &head, Some("c"))).unwrap_err();
            assert_eq!(error.code(), code, "{at:?} {strike:?}");
        }
    }
    assert!(inspect(&stage, "worker", &head).unwrap().is_available());
}

/// S-227, O-101: the default revision is the head of the default branch by its exact name, and nothing else is taken
/// for it: another repository's record, a name that is no branch, a reference of another name or to no commit.
#[test]
fn the_default_revision_is_the_branch_and_nothing_else() {
    let stage = Stage::new(&["worker"]);
    let found = default(&stage).unwrap();
    assert_eq!((found.branch.as_str(), found.revision.as_str()), ("main", stage.head().as_str()));
    for name in ["", "-x", "a..b", ".hidden", "a b", "a\u{e9}"] {
        stage.github.change(OCTO_WIDGETS, |repository| name.clone_into(&mut repository.default_branch));
        let contents = stage.lookups();
        let error = default(&stage).unwrap_err();
        assert_eq!(error.code(), Code::PolicyInvalid, "{name:?}");
        assert_eq!(stage.lookups()[1..], contents[1..], "{name:?}");
    }
    stage.github.change(OCTO_WIDGETS, |repository| repository.default_branch = "gone".to_owned());
    assert_eq!(default(&stage).unwrap_err().code(), Code::ApiNotFound);
    stage.github.change(OCTO_WIDGETS, |repository| repository.default_branch = "main".to_owned());
    stage.github.move_ref(OCTO_WIDGETS, "refs/heads/main", Some(&"0".repeat(40)));
    assert_eq!(default(&stage).unwrap_err().code(), Code::PolicyInvalid);
    stage.github.take_violations();
    stage.github.rename(OCTO_WIDGETS, "octo/renamed");
    assert_eq!(default(&stage).unwrap_err().code(), Code::PolicyInvalid);
}

/// One inspection of a revision reads its files once, however often it is asked.
#[test]
fn an_inspector_looks_once() {
    let stage = Stage::new(&["worker"]);
    let (workflow, head) = (Identity::new(lock("worker")).unwrap(), revision(&stage.head()));
    stage.ask(|client| {
        let inspector = Inspector::new(client, &stage.repository);
        let first = inspector.inspect(&workflow, &head).unwrap();
        assert_eq!(inspector.inspect(&workflow, &head).unwrap(), first);
    });
    assert_eq!(stage.lookups(), [0, 0, 2, 1]);
}

fn resolved(stage: &Stage) -> Result<wq_action::launch::route::Resolved, LaunchError> {
    stage.ask(|client| resolve(client, &stage.repository))
}

fn settings(stage: &Stage, text: &str) {
    stage.put(".github/workflows/aw.json", Some(text));
}

/// S-185, O-030, O-056, O-101: settings and workers are those of the default branch's head; every declared worker is in
/// the Policy at that revision with its stamp, the smallest name first, registered or not; other workflows and texts
/// are not. Another branch's files count for nothing.
#[test]
fn a_policy_is_resolved_from_the_default_branch() {
    let stage = Stage::new(&["worker", "builder"]);
    stage.put(".github/workflows/README.md", Some("# How we work\n"));
    stage.put(".github/workflows/plan.md", Some("---\ntools:\n  work-queue:\n---\n"));
    stage.put(".github/workflows/deep/down.md", Some(&worker_source("down")));
    stage.put(&lock("builder"), Some("on: ["));
    stage.register("worker", None);
    settings(&stage, r#"{"work_queue":{"concurrency":3,"pools":{"slow":{"concurrency":1}}}}"#);
    let head = stage.head();
    stage.github.move_ref(OCTO_WIDGETS, "refs/heads/feature", Some(&head));
    stage.github.commit(OCTO_WIDGETS, "feature", &[(&source("evil"), Some(&worker_source("evil")))]);
    let found = resolved(&stage).unwrap();
    assert_eq!((found.default.branch.as_str(), found.default.revision.as_str()), ("main", head.as_str()));
    let names: Vec<_> = found.workers.iter().map(|worker| (worker.name.as_str(), worker.contract.is_some())).collect();
    assert_eq!(names, [("builder", false), ("worker", true)]);
    let policy = &found.policy;
    assert_eq!(policy.pools.len(), 2);
    for (name, capacity) in [("default", 3), ("slow", 1)] {
        let pool = &policy.pools[name];
        assert_eq!((pool.default_profile.as_str(), pool.native_limit.get()), ("builder", capacity));
        for (name, profile) in &pool.profiles {
            assert_eq!(profile.workflow.as_str(), lock(name.as_str()));
            assert_eq!(profile.revision.as_str(), head);
            assert_eq!(profile.logical_contract.is_some(), name.as_str() == "worker");
        }
    }
    assert_eq!(stage.github.calls(Endpoint::Workflow), 0);
}

/// S-184: resolving reads repository, reference and contents, with a token that may read alone.
#[test]
fn resolving_needs_no_administrator() {
    let stage = Stage::new(&["worker"]);
    let read = crate::support::github::Access {
        contents: crate::support::github::Level::Read,
        ..crate::support::github::Access::default()
    };
    stage.github.grant(crate::support::github::JOB, OCTO_WIDGETS, read);
    assert_eq!(resolved(&stage).unwrap().workers.len(), 1);
    assert!(stage.github.log().iter().all(|call| call.method == "GET"));
}

/// S-232: what cannot be resolved is refused with its own code; a file that is not there is no failure of the host.
#[test]
fn what_cannot_be_resolved_is_refused() {
    let refused = |act: &dyn Fn(&Stage)| {
        let stage = Stage::new(&["worker"]);
        act(&stage);
        resolved(&stage).unwrap_err()
    };
    let none = refused(&|stage| drop(stage.put(&source("worker"), None)));
    assert_eq!(none.code(), Code::PolicyMissing);
    let nothing = refused(&|stage| {
        stage.put(&source("worker"), None);
        stage.put(&lock("worker"), None);
    });
    assert_eq!(nothing.code(), Code::PolicyMissing);
    let broken = refused(&|stage| drop(stage.put(&source("bad"), Some("---\na: [\n---\n"))));
    assert_eq!((broken.code(), broken.message().contains("bad.md")), (Code::PolicyMissing, true));
    let unclosed = refused(&|stage| drop(stage.put(&source("bad"), Some("---\na: b\n"))));
    assert_eq!(unclosed.code(), Code::PolicyMissing);
    let long = refused(&|stage| drop(stage.put(&source("bad"), Some(&"#".repeat(1_048_577)))));
    assert_eq!(long.code(), Code::PolicyMissing);
    let setting = refused(&|stage| settings(stage, r#"{"work_queue":{"concurrency":0}}"#));
    assert_eq!(setting.code(), Code::SettingsInvalid);
    assert!(setting.message().starts_with("work_queue.concurrency: "));
    let folder = refused(&|stage| drop(stage.put(".github/workflows/aw.json/x", Some("x"))));
    assert_eq!(folder.code(), Code::PolicyMissing);
    let named = refused(&|stage| drop(stage.put(&source("a b"), Some(&worker_source("a b")))));
    assert_eq!(named.code(), Code::PolicyInvalid);
    let failed = refused(&|stage| stage.github.faults(Faults::next(Endpoint::Contents, Strike::Status(503))));
    assert_eq!(failed.code(), Code::ApiUnavailable);
    assert!(failed.message().starts_with(".github/workflows/aw.json: "));
}

/// A folder of workflows that may not be listed in full is not trusted, and at most 256 workers make a Policy.
#[test]
fn too_much_is_refused() {
    let stage = Stage::new(&["worker"]);
    let text = worker_source("many");
    let fill = |from: usize, to: usize, ending: &str, text: &str| {
        let paths: Vec<String> = (from..to).map(|n| format!(".github/workflows/n{n}{ending}")).collect();
        let files: Vec<(&str, Option<&str>)> = paths.iter().map(|path| (path.as_str(), Some(text))).collect();
        stage.github.commit(OCTO_WIDGETS, "main", &files);
    };
    fill(0, 255, ".md", &text);
    let most = resolved(&stage).unwrap();
    assert_eq!(most.workers.len(), 256);
    fill(255, 256, ".md", &text);
    assert_eq!(resolved(&stage).unwrap_err().code(), Code::PolicyInvalid);
    fill(256, 1000, ".txt", "");
    assert_eq!(resolved(&stage).unwrap_err().code(), Code::PolicyMissing);
}
