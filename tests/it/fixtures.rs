//! The project's own small ledgers: written by the project's own writer, kept in `fixtures/`, read back.
//!
//! `WQ_BLESS=1` writes the files anew after a change that is meant.

use serde_json::{Value, json};
use wq_action::protocol::identity::sha256_hex;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::ledger_text::LedgerText;
use wq_action::protocol::operation::OperationKind;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::{RequestId, Wire as _};

use crate::support::ledger::{Chain, HOST, canonical, fixture, granted, policy, read, work, work_id};

const ADMINISTRATOR: &str = r#"{"role":"administrator","principal":"1001","repository":"owner/repo"}"#;
const PRODUCER: &str = r#"{"role":"producer","principal":"1001","repository":"owner/repo"}"#;
const DISPATCHER: &str = r#"{"role":"dispatcher","principal":"1001","repository":"owner/repo",
    "workflow":".github/workflows/dispatcher.lock.yml","run_id":"100","run_attempt":1}"#;
const RECONCILER: &str = r#"{"role":"reconciler","principal":"1001","repository":"owner/repo"}"#;
const PROJECTOR: &str = r#"{"role":"projector","principal":"1001","repository":"owner/repo"}"#;

fn policy_operation(epoch: &str, aw: bool) -> String {
    canonical(&format!(r#"{{"kind":"Policy","epoch":"{epoch}","policy":{}}}"#, policy(aw)))
}

fn claim(request: &str, work: &str) -> String {
    let (claim, dispatch) = granted(request);
    format!(
        r#"{{"kind":"Claim","work_id":"{work}","claim_id":"{claim}","dispatch_id":"{dispatch}","handle":"h1","observations":[]}}"#
    )
}

/// The ledger of engine.md 11.3.
fn three_commits() -> String {
    let mut chain = Chain::new("initial");
    chain.plain("genesis", RequestKind::Policy, ADMINISTRATOR, 0, &[policy_operation("initial", false)]);
    chain.plain("submit", RequestKind::Submit, PRODUCER, 1, &[work("graph", "a", 1, &[]), work("graph", "b", 1, &[])]);
    let parameters = r#"{"pool":"default","max_claims":1,"max_dispatches":1,"max_bytes":49152}"#;
    let claims = [claim("request-grant", &work_id("graph", "a"))];
    chain.commit("grant", RequestKind::DispatchNext, DISPATCHER, 10, parameters, &claims);
    chain.text
}

fn evidence(kind: &str, source: &str, at: i64, more: &str) -> String {
    format!(
        r#"{{"kind":"{kind}","source":"{source}","repository":"owner/repo","workflow":".github/workflows/worker.lock.yml",
        "ref":"{}","principal":"1001","checked_at":{at}{more}}}"#,
        "0".repeat(40)
    )
}

const RUN: &str = r#""run_id":"700","run_attempt":1"#;

fn binding() -> String {
    format!(
        r#"{{{RUN},"repository":"owner/repo","workflow":".github/workflows/worker.lock.yml","ref":"{}",
        "principal":"1001","event":"workflow_dispatch"}}"#,
        "0".repeat(40)
    )
}

fn worker(dispatch: &str) -> String {
    format!(
        r#"{{"role":"worker","principal":"1001","repository":"owner/repo","workflow":".github/workflows/worker.lock.yml",
        {RUN},"dispatch_id":"{dispatch}","claim_handle":"h1"}}"#
    )
}

/// One Work from its first submission to its verified Result and the release of its run.
fn lifecycle() -> String {
    let mut chain = Chain::new("epoch_one");
    let (claim_id, dispatch) = granted("request-grant");
    let first = work_id("travel", "first");
    let nodes = [work("travel", "first", 5, &[]), work("travel", "second", 5, &["first"])];
    let mut operations = vec![policy_operation("epoch_one", true)];
    operations.extend(nodes.iter().cloned());
    chain.commit(
        "boot",
        RequestKind::Submit,
        PRODUCER,
        10,
        &format!("{{\"nodes\":[{}]}}", nodes.join(",")),
        &operations,
    );
    let parameters =
        r#"{"pool":"default","max_claims":4,"max_dispatches":2,"max_bytes":49152,"worker_profiles":["default"]}"#;
    chain.commit("grant", RequestKind::DispatchNext, DISPATCHER, 20, parameters, &[claim("request-grant", &first)]);
    let started = format!(
        r#"{{"kind":"Dispatch","dispatch_id":"{dispatch}","state":"started","sender":{DISPATCHER},"credential_principal":"1001"}}"#
    );
    chain.plain("start", RequestKind::Dispatch, DISPATCHER, 30, &[started]);
    let seen = evidence("reconciliation", "trusted_activation", 39, &format!(",{RUN}"));
    let bound = format!(
        r#"{{"kind":"Dispatch","dispatch_id":"{dispatch}","state":"bound","run":{},"evidence":{seen}}}"#,
        binding()
    );
    let worker = worker(&dispatch);
    chain.plain("bind", RequestKind::Dispatch, &worker, 40, &[bound]);
    let completion = format!(
        r#"{{"kind":"Completion","work_id":"{first}","claim_id":"{claim_id}","dispatch_id":"{dispatch}","claim_handle":"h1",{RUN}}}"#
    );
    let parameters = format!(r#"{{"dispatch_id":"{dispatch}","claim_handle":"h1","outcome":"completed"}}"#);
    chain.commit("finish", RequestKind::Finish, &worker, 50, &parameters, &[completion]);
    let delivered = evidence("delivery", "verified_receipts", 59, &format!(r#",{RUN},"receipt":"receipt-1""#));
    let result = format!(
        r#"{{"kind":"Result","work_id":"{first}","claim_id":"{claim_id}","completion_id":"finish",
        "descriptor":{{"text":"a \"quoted\" answer – ✓","parts":[1,-2,{{"nested":null}}]}},"evidence":{delivered}}}"#
    );
    chain.plain("result", RequestKind::Result, RECONCILER, 60, &[result]);
    let ended = format!(r#",{RUN},"status":"completed","conclusion":"success""#);
    let ended = evidence("terminal_run", "github_api", 69, &ended);
    let release = format!(r#"{{"kind":"Release","dispatch_id":"{dispatch}","evidence":{ended}}}"#);
    chain.plain("release", RequestKind::Release, RECONCILER, 70, &[release]);
    chain.text
}

/// The operations that [`lifecycle`] has none of, each in a commit of its own. The chain is for reading, not for
/// replay.
fn records() -> String {
    let mut chain = Chain::new("epoch_one");
    let (claim_id, dispatch) = granted("request-grant");
    let work = work_id("travel", "first");
    let sha = "0".repeat(40);
    let issue = r#"{"kind":"issue","host":"github.com","repository":"owner/repo","repository_id":"1","resource_id":"2","number":"3"}"#;
    let pull = issue.replace("issue", "pull_request");
    let mut add = |id: &str, kind: RequestKind, actor: &str, operations: &[String]| {
        chain.plain(id, kind, actor, 1_700_000_000_000, operations);
    };
    let profile: Value = serde_json::from_str(&policy(true)).unwrap();
    let profile = &profile["pools"]["default"]["profiles"]["default"];
    let deployment = |more: &str| {
        format!(
            r#"{{"kind":"Deployment","pool":"default","worker_profile":"default","expected_ref":"{sha}",
            "expected_contract":"{}","profile":{profile},"available":true,"reason":"rollout"{more}}}"#,
            "c".repeat(64)
        )
    };
    add("deploy", RequestKind::Deployment, PRODUCER, &[deployment(""), deployment(r#","activate":false"#)]);
    add(
        "control",
        RequestKind::Control,
        ADMINISTRATOR,
        &[
            r#"{"kind":"Control","control":"admission_paused","value":true,"reason":"maintenance"}"#.to_owned(),
            r#"{"kind":"Control","control":"grants_paused","value":false,"reason":"maintenance"}"#.to_owned(),
            r#"{"kind":"Control","control":"credential_generation","value":"g2","reason":"rotated"}"#.to_owned(),
            format!(
                r#"{{"kind":"WorkPriority","work_id":"{work}","priority":1,"expected_priority":3,"reason":"urgent"}}"#
            ),
        ],
    );
    add(
        "observe",
        RequestKind::Observe,
        DISPATCHER,
        &[
            format!(
                r#"{{"kind":"Observation","observation_id":"o1","resource":{issue},"condition":"completed","state":"ready",
            "observed_at":5,"source_updated_at":4,"state_reason":"completed","resource_state":"closed",
            "credential_generation":"initial","read_status":"ok"}}"#
            ),
            format!(
                r#"{{"kind":"Observation","observation_id":"o2","resource":{pull},"condition":"merged","state":"ready",
            "observed_at":5,"merged":true,"merge_commit":"{sha}","credential_generation":"initial","read_status":"ok"}}"#
            ),
        ],
    );
    let failed = evidence(
        "terminal_run",
        "github_api",
        9,
        r#","attempts":5,"effects":"unknown","status":"completed","conclusion":"failure""#,
    );
    add(
        "failure",
        RequestKind::DeliveryFailure,
        RECONCILER,
        &[format!(
            r#"{{"kind":"DeliveryFailure","work_id":"{work}","claim_id":"{claim_id}","completion_id":"finish",
        "reason":"delivery.lost","disposition":"unknown","evidence":{failed}}}"#
        )],
    );
    add(
        "cancel",
        RequestKind::CancelClaim,
        RECONCILER,
        &[
            format!(
                r#"{{"kind":"ClaimCancellation","work_id":"{work}","claim_id":"{claim_id}","reason":"operator_revoked","retry_not_before":99}}"#
            ),
            format!(r#"{{"kind":"WorkCancellation","work_id":"{work}","reason":"attempts_exhausted"}}"#),
        ],
    );
    let unlaunched = evidence("nonlaunch", "github_api", 9, r#","receipt":"r""#);
    add(
        "moves",
        RequestKind::Dispatch,
        DISPATCHER,
        &[
            format!(r#"{{"kind":"Dispatch","dispatch_id":"{dispatch}","state":"uncertain","reason":"timeout"}}"#),
            format!(r#"{{"kind":"Dispatch","dispatch_id":"{dispatch}","state":"rejected","evidence":{unlaunched}}}"#),
        ],
    );
    add(
        "links",
        RequestKind::IssueLink,
        PROJECTOR,
        &[
            format!(
                r#"{{"kind":"IssueLink","work_id":"{work}","claim_id":"{claim_id}","resource":{issue},"projector_ref":"{sha}"}}"#
            ),
            format!(
                r#"{{"kind":"IssueComment","work_id":"{work}","comment_id":"77","authority_claim_id":"{claim_id}","projector_ref":"{sha}"}}"#
            ),
        ],
    );
    let digests = format!(
        r#""prior_git_sha":"{sha}","prior_tip":"links","history_sha256":"{}","state_sha256":"{}""#,
        "a".repeat(64),
        "b".repeat(64)
    );
    let checkpoint = format!(r#"{{"kind":"Checkpoint",{digests},"state":{{"works":{{}}}}}}"#);
    let parameters = format!("{{{digests}}}");
    chain.commit("checkpoint", RequestKind::Checkpoint, ADMINISTRATOR, 1_700_000_000_000, &parameters, &[checkpoint]);
    chain.text
}

/// What is kept beside a ledger.
fn expectation(text: &str) -> Value {
    let commits = read(text.as_bytes(), HOST).unwrap_or_else(|fault| panic!("{fault}"));
    let lines: Vec<Value> = commits
        .iter()
        .map(|commit| {
            let kinds: Vec<&str> = commit.operations.iter().map(|operation| operation.kind().as_str()).collect();
            json!({
                "id": commit.id.as_str(), "bytes": commit.ledger_bytes(), "request": commit.request.kind.as_str(),
                "fingerprint": commit.request.fingerprint.as_str(), "operations": kinds,
            })
        })
        .collect();
    json!({
        "commits": commits.len(), "tip": commits.last().unwrap().id.as_str(), "ledger_bytes": text.len(),
        "ledger_sha256": sha256_hex(&[text]), "lines": lines,
    })
}

fn check(name: &str, text: &str) {
    let expected = expectation(text);
    let (ledger, beside) = (fixture(&format!("{name}.jsonl")), fixture(&format!("{name}.expect.json")));
    if std::env::var_os("WQ_BLESS").is_some() {
        std::fs::write(&ledger, text).unwrap();
        std::fs::write(&beside, format!("{expected:#}\n")).unwrap();
    }
    assert_eq!(std::fs::read_to_string(ledger).unwrap(), text, "{name}: what is written now is not what is kept");
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(beside).unwrap()).unwrap();
    assert_eq!(kept, expected, "{name}");
    for commit in read(text.as_bytes(), HOST).unwrap() {
        let value: Value = serde_json::from_str(commit.source.as_str()).unwrap();
        assert_eq!(value["actor"].to_string(), commit.actor.canonical());
        for (operation, source) in commit.operations.iter().zip(value["operations"].as_array().unwrap()) {
            assert_eq!(operation.canonical(), source.to_string(), "{name}");
        }
    }
}

/// S-025: the published three-commit ledger comes out of our writer byte for byte, fingerprints included.
#[test]
fn the_three_commit_ledger_is_the_published_one() {
    let text = three_commits();
    let sizes: Vec<usize> = text.lines().map(|line| line.len() + 1).collect();
    assert_eq!(sizes, [2308, 1465, 766]);
    assert_eq!(sha256_hex(&[&text]), "eea10ee905b3e70dbcfaf2d20ffb6ba60f3e3a58824792c51047096306c95a30");
    let fingerprints: Vec<String> =
        read(text.as_bytes(), HOST).unwrap().iter().map(|c| c.request.fingerprint.as_str().to_owned()).collect();
    assert_eq!(
        fingerprints,
        [
            "c879d664ad7fc8d39d1a15353a4fa8d893d5171a1b3e97b34e592be6b6379648",
            "32903ab0abc20d63dca201930057401d0acb127098ccb9e02794e3a6b39098a1",
            "2c2671c61e68a6c5690b308c7c53e6b7f59ef7c16abac2a881e24a09222297c3",
        ]
    );
    let digests: Vec<String> = text
        .lines()
        .map(|line| {
            let value: Value = serde_json::from_str(line).unwrap();
            sha256_hex(&[&value["request"]["parameters"].to_string()])
        })
        .collect();
    assert_eq!(
        digests,
        [
            "216c5eac490357b494a21580d0070aa3083a6906dcdcd32e19b46a06b57eb929",
            "6ed95047a2d094bed60b753318d81d3f6db57d7875d2925d8483c01c552cc64a",
            "32a2b265e7c2e527a89b86ebf8af0f5970c3582e4ea38b97e550ff9ac8d3a39a",
        ]
    );
    check("three-commits", &text);
}

#[test]
fn a_whole_lifecycle_is_read_as_written() {
    check("lifecycle", &lifecycle());
}

fn replayed(text: &str) -> Result<usize, (&'static str, Option<usize>)> {
    let text = LedgerText::new(text.as_bytes().to_vec()).unwrap();
    wq_action::engine::replay(&text, &mut Scanner::new(HOST))
        .map(|_| text.len())
        .map_err(|fault| (fault.fault.code().as_str(), fault.line))
}

/// The two ledgers that are whole histories replay.
#[test]
fn whole_histories_replay() {
    assert_eq!(replayed(&three_commits()), Ok(3));
    assert_eq!(replayed(&lifecycle()), Ok(7));
}

/// S-052: a first submission that lists the Policy among its nodes reads, but is no combined genesis.
#[test]
fn a_listed_policy_is_no_genesis() {
    let policy = policy_operation("epoch_one", true);
    let mut chain = Chain::new("epoch_one");
    chain.plain("boot", RequestKind::Submit, PRODUCER, 10, &[policy.clone(), work("g", "n", 5, &[])]);
    assert_eq!(read(chain.text.as_bytes(), HOST).unwrap().len(), 1);
    assert_eq!(replayed(&chain.text), Err(("policy_missing", Some(1))));
    let mut chain = Chain::new("epoch_one");
    chain.plain("boot", RequestKind::Submit, ADMINISTRATOR, 10, &[policy]);
    assert_eq!(replayed(&chain.text), Err(("policy_missing", Some(1))));
}

/// S-005: every operation kind has its reader and its writer, and what the one reads the other writes.
#[test]
fn every_operation_is_read_as_written() {
    check("records", &records());
    let text = lifecycle() + &records();
    let seen: Vec<OperationKind> = read(text.as_bytes(), HOST)
        .unwrap()
        .iter()
        .flat_map(|commit| commit.operations.iter().map(|operation| operation.kind()))
        .collect();
    let missing: Vec<&OperationKind> = OperationKind::ALL.iter().filter(|kind| !seen.contains(kind)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Identities derive from what they name (engine.md 11.2).
#[test]
fn identities_are_the_published_ones() {
    let graph = sha256_hex(&[&canonical(r#"{"b":2,"a":1}"#)]);
    assert_eq!(graph, "43258cff783fe7036d8a43033f830adfc60ec037382473548ac742b888292777");
    for (graph, node, id) in [
        (graph.as_str(), "root", "e41927adc7ede48a4d9ebae45074bbfd55f7714af750a3fe5b3734bc6c1ed62e"),
        ("graph", "a", "c26bb3b003984e39a4945d5b9e06e9d67fe7fa15e78b222ab43495857e882f2d"),
        ("graph", "b", "1e74d1b8ad16053d592df448d63b2fe0e6e53f904031a6147a2ff95f9ac32f60"),
    ] {
        assert_eq!(work_id(graph, node), id);
    }
    assert_eq!(sha256_hex(&["request-grant"]), "c6ed3a1e97e7d7a4a5f5bc4eac4293d026499e991f13cbc0424a4be5bf9a957b");
    let checkpoint = format!("checkpoint_{}", sha256_hex(&["grant\n", &"a".repeat(40)]));
    assert_eq!(checkpoint, "checkpoint_1bc7d47b8b7501907d1cb10e879de6eae2f23d8a74cb6e4b8e73a20e2f747a6f");
    assert_eq!(sha256_hex(&[&checkpoint]), "7db09b8a3f5f5835bed15afa150271d760b2da0a791d14d9bc4ac1416d6bce10");
    let submit = RequestId::new("submit").unwrap();
    assert_eq!(sha256_hex(&[submit.as_str()]), "75490bd7b93e6fa7d18cfdea90cc6bcb983d5f3ea326249d2709ca6c94bc07ba");
}
