//! Records by themselves: which value is refused, and with which code.

use serde_json::{Value, json};
use wq_action::protocol::actor::{Actor, Role};
use wq_action::protocol::evidence::{Evidence, RunBinding};
use wq_action::protocol::json::Scanner;
use wq_action::protocol::operation::{Operation, OperationKind};
use wq_action::protocol::policy::Policy;
use wq_action::protocol::request::RequestKind;
use wq_action::protocol::resource::{Edge, Resource};
use wq_action::protocol::{Code, Text, Wire};

use crate::support::ledger::{HOST, policy, typed};

fn code<T: Wire>(value: &Value, host: &str) -> Result<T, &'static str> {
    let text = Text::from(value.to_string());
    let mut scanner = Scanner::new(host);
    let document = scanner.read(&text).map_err(|fault| fault.code().as_str())?;
    T::read(document.root(), Code::LedgerInvalid).map_err(|fault| fault.code().as_str())
}

fn codes<T: Wire>(base: &Value, cases: &[(&str, Value, &str)]) {
    assert_eq!(code::<T>(base, HOST).map(|value| value.canonical()), Ok(base.to_string()));
    for (path, value, expected) in cases {
        let (parent, last) = path.rsplit_once('/').unwrap();
        let mut changed = base.clone();
        match changed.pointer_mut(parent).unwrap() {
            Value::Object(members) if *value == json!("REMOVE") => drop(members.remove(last)),
            Value::Object(members) => drop(members.insert(last.to_owned(), value.clone())),
            Value::Array(items) => items[last.parse::<usize>().unwrap()] = value.clone(),
            other => panic!("{other}"),
        }
        let outcome = code::<T>(&changed, HOST).map_or_else(|code| code, |_| "ok");
        assert_eq!(outcome, *expected, "{path} = {value}");
    }
}

fn base(aw: bool) -> Value {
    serde_json::from_str(&policy(aw)).unwrap()
}

/// S-148: modes, weights and bounds of a Policy.
#[test]
fn policies() {
    let profile = "/pools/default/profiles/default";
    let at = |member: &str| format!("{profile}/{member}");
    let many = |count: usize| Value::Object((0..count).map(|n| (format!("p{n}"), json!(1))).collect());
    codes::<Policy>(
        &base(false),
        &[
            ("/authorization", json!("aw"), "policy_invalid"),
            ("/authorization", json!("AW"), "policy_invalid"),
            ("/authorization", json!(null), "policy_invalid"),
            ("/projectors", json!([]), "policy_invalid"),
            ("/mode", json!("fifo"), "policy_invalid"),
            ("/mode", json!("strict-priority"), "ok"),
            ("/class_weights", json!([8, 4, 2, 1]), "policy_invalid"),
            ("/class_weights/2", json!(0), "ledger_invalid"),
            ("/class_weights/2", json!(1001), "ledger_invalid"),
            ("/accounting_weights", json!({}), "policy_invalid"),
            ("/accounting_weights", json!([]), "policy_invalid"),
            ("/accounting_weights/", json!(2), "policy_invalid"),
            ("/accounting_weights/", json!(0), "policy_invalid"),
            ("/accounting_weights/a", json!(0), "ledger_invalid"),
            ("/accounting_weights/a", json!(1000), "ok"),
            ("/accounting_weights/a\n", json!(1), "ledger_invalid"),
            ("/accounting_weights", many(1025), "policy_invalid"),
            ("/pools", json!({}), "policy_invalid"),
            ("/producers/x", json!({}), "policy_invalid"),
            ("/producers/1001/pools", json!([]), "policy_invalid"),
            ("/producers/1001/pools/0", json!("other"), "policy_invalid"),
            ("/producers/1001/pools/0", json!(7), "policy_invalid"),
            ("/producers/1001/priorities/0", json!(6), "ledger_invalid"),
            ("/producers/1001/fairness_keys/0", json!("x".repeat(300)), "policy_invalid"),
            ("/producers/1001/extra", json!(1), "ledger_invalid"),
            ("/limits/operations", json!(2), "policy_invalid"),
            ("/limits/operations", json!(3), "ok"),
            ("/limits/operations", json!(null), "policy_invalid"),
            ("/limits/operations", json!("x"), "ledger_invalid"),
            ("/limits/operations", json!(257), "ledger_invalid"),
            ("/limits/operations", json!("REMOVE"), "ledger_invalid"),
            ("/limits/more", json!(1), "resource_limit"),
            ("/limits/ledger_bytes", json!(0), "ledger_invalid"),
            ("/pools/default/default_profile", json!("other"), "policy_invalid"),
            ("/pools/default/per_account_limit", json!(4096), "ok"),
            ("/pools/default/per_account_limit", json!(null), "ledger_invalid"),
            ("/pools/default/allowed_repositories", json!({}), "policy_invalid"),
            ("/pools/default/allowed_repositories", json!([]), "ok"),
            (&at("principal"), json!("REMOVE"), "policy_invalid"),
            (&at("principal"), json!("01"), "policy_invalid"),
            (&at("ref"), json!("ABC"), "policy_invalid"),
            (&at("ref"), json!(1), "invalid_unicode"),
            (&at("workflow"), json!(".github/workflows/../x.lock.yml"), "policy_invalid"),
            (&at("workflow"), json!(""), "ledger_invalid"),
            (&at("max_claims"), json!(17), "ledger_invalid"),
            (&at("share_keys"), json!("true"), "policy_invalid"),
            (&at("more"), json!(1), "ledger_invalid"),
            (&at("trust_domain"), json!("team"), "ok"),
        ],
    );
    codes::<Policy>(
        &base(true),
        &[
            ("/producers/1001", json!({}), "policy_invalid"),
            (&at("trust_domain"), json!("team"), "policy_invalid"),
            (&at("credential_scope"), json!("org"), "policy_invalid"),
            (&at("effect_scope"), json!("owner"), "policy_invalid"),
            (&at("effect_scope"), json!(format!("o/{}", "r".repeat(300))), "ledger_invalid"),
            (&at("effect_scope"), json!("o/r\u{feff}"), "policy_invalid"),
            (&at("effect_scope"), json!("o/r\u{85}"), "ok"),
            (&at("logical_contract"), json!("C".repeat(64)), "policy_invalid"),
            (&at("logical_contract"), json!("REMOVE"), "ok"),
        ],
    );
}

/// Names are data: a pool or a profile may bear the name of a member that is opaque elsewhere.
#[test]
fn pools_and_profiles_of_any_name() {
    let mut policy = base(false);
    let pool = policy["pools"]["default"].clone();
    for name in ["payload", "descriptor", "operations", "nodes", "__proto__", "é \"quoted\""] {
        policy["pools"][name] = pool.clone();
        policy["pools"][name]["profiles"][name] = pool["profiles"]["default"].clone();
        policy["accounting_weights"][name] = json!(5);
    }
    let read: Policy = typed(&policy.to_string());
    assert_eq!(read.pools.len(), 7);
    assert_eq!(read.accounting.len(), 7);
    assert!(read.pools.iter().all(|(name, pool)| name.as_str() == "default" || pool.profiles.len() == 2));
    let operation = json!([{"kind": "Policy", "epoch": "e", "policy": policy}]);
    let text = Text::from(operation.to_string());
    let mut scanner = Scanner::new(HOST);
    let document = scanner.read(&text).unwrap();
    let node = document.root().array().unwrap().next().unwrap();
    assert!(Operation::read(node, Code::LedgerInvalid).is_ok());
}

/// S-023: ids are decimal strings.
#[test]
fn actors() {
    let worker = json!({
        "role": "worker", "principal": "1", "repository": "o/r", "workflow": "w", "run_id": "5", "run_attempt": 1,
        "dispatch_id": "d", "claim_handle": "h1",
    });
    codes::<Actor>(
        &worker,
        &[
            ("/role", json!("owner"), "actor_unauthorized"),
            ("/role", json!(null), "actor_unauthorized"),
            ("/principal", json!(1), "actor_unauthorized"),
            ("/principal", json!("0"), "actor_unauthorized"),
            ("/repository", json!("o r/x"), "actor_unauthorized"),
            ("/repository", json!(""), "ledger_invalid"),
            ("/repository", json!("a/b/c"), "actor_unauthorized"),
            ("/workflow", json!(null), "invalid_unicode"),
            ("/workflow", json!("REMOVE"), "actor_unauthorized"),
            ("/run_id", json!("REMOVE"), "actor_unauthorized"),
            ("/run_id", json!("x"), "ledger_invalid"),
            ("/run_attempt", json!(2), "actor_unauthorized"),
            ("/run_attempt", json!(4097), "ledger_invalid"),
            ("/dispatch_id", json!("REMOVE"), "actor_unauthorized"),
            ("/claim_handle", json!("REMOVE"), "ok"),
            ("/claim_handle", json!(""), "ledger_invalid"),
            ("/more", json!(1), "unsupported_protocol"),
        ],
    );
}

#[test]
fn evidence_and_runs() {
    let sha = "a".repeat(40);
    let evidence = json!({
        "kind": "terminal_run", "source": "github_api", "repository": "o/r", "workflow": "w", "ref": sha,
        "principal": "1", "checked_at": 0, "run_id": "5", "run_attempt": 1, "status": "completed",
        "conclusion": "success", "receipt": "r", "attempts": 4096, "effects": "partial",
    });
    codes::<Evidence>(
        &evidence,
        &[
            ("/kind", json!("guess"), "evidence_invalid"),
            ("/source", json!("me"), "evidence_invalid"),
            ("/ref", json!("A".repeat(40)), "evidence_invalid"),
            ("/ref", json!(["a".repeat(40)]), "invalid_unicode"),
            ("/principal", json!("-1"), "evidence_invalid"),
            ("/checked_at", json!(-1), "ledger_invalid"),
            ("/run_id", json!(5), "ledger_invalid"),
            ("/run_attempt", json!(2), "evidence_invalid"),
            ("/attempts", json!(0), "ledger_invalid"),
            ("/effects", json!("some"), "evidence_invalid"),
            ("/status", json!("queued"), "evidence_invalid"),
            ("/receipt", json!(null), "invalid_unicode"),
            ("/conclusion", json!(""), "ledger_invalid"),
            ("/more", json!(1), "ledger_invalid"),
        ],
    );
    let run = json!({
        "run_id": "5", "run_attempt": 1, "repository": "o/r", "workflow": "w", "ref": "b".repeat(64),
        "principal": "1", "event": "workflow_dispatch",
    });
    codes::<RunBinding>(
        &run,
        &[
            ("/run_attempt", json!(2), "run_binding_conflict"),
            ("/event", json!("push"), "run_binding_conflict"),
            ("/event", json!(1), "invalid_unicode"),
            ("/ref", json!("b".repeat(41)), "run_binding_conflict"),
            ("/principal", json!("x"), "run_binding_conflict"),
            ("/run_id", json!("0"), "ledger_invalid"),
            ("/event", json!("REMOVE"), "ledger_invalid"),
        ],
    );
}

#[test]
fn resources_and_edges() {
    let issue = json!({
        "kind": "issue", "host": "github.com", "repository": "o/r", "repository_id": "1", "resource_id": "2",
        "number": "3",
    });
    codes::<Resource>(
        &issue,
        &[
            ("/kind", json!("commit"), "resource_invalid"),
            ("/host", json!("GitHub.com"), "resource_unauthorized"),
            ("/host", json!(""), "ledger_invalid"),
            ("/repository", json!("o"), "resource_unauthorized"),
            ("/repository_id", json!(1), "resource_invalid"),
            ("/number", json!("01"), "resource_invalid"),
            ("/resource_id", json!("REMOVE"), "ledger_invalid"),
        ],
    );
    assert!(code::<Resource>(&issue, "contoso.ghe.com").is_err());
    let mut other = issue.clone();
    other["host"] = json!("contoso.ghe.com");
    assert!(code::<Resource>(&other, "contoso.ghe.com").is_ok());
    codes::<Edge>(
        &json!({"kind": "issue", "resource": issue, "condition": "completed"}),
        &[
            ("/condition", json!("closed"), "ok"),
            ("/condition", json!("merged"), "dependency_invalid"),
            ("/condition", json!("REMOVE"), "ledger_invalid"),
            ("/kind", json!("pull_request"), "dependency_invalid"),
            ("/kind", json!("gate"), "dependency_invalid"),
            ("/resource/kind", json!("pull_request"), "dependency_invalid"),
        ],
    );
    codes::<Edge>(
        &json!({"kind": "work", "work_id": "w"}),
        &[("/work_id", json!(""), "ledger_invalid"), ("/condition", json!("completed"), "ledger_invalid")],
    );
    let gate = |value: &Value| match typed(&value.to_string()) {
        Edge::Gate(gate) => gate.key,
        Edge::Work(_) => panic!("a gate"),
    };
    let one = json!({"kind": "issue", "resource": issue, "condition": "completed"});
    let mut renamed = one.clone();
    renamed["resource"]["repository"] = json!("new/name");
    renamed["resource"]["number"] = json!("44");
    assert_eq!(gate(&one), gate(&renamed));
    renamed["condition"] = json!("closed");
    assert_ne!(gate(&one), gate(&renamed));
}

#[test]
fn operations() {
    let claim = json!({
        "kind": "Claim", "work_id": "w", "claim_id": "c", "dispatch_id": "d", "handle": "h1", "observations": ["o1", "o2"],
    });
    codes::<Operation>(
        &claim,
        &[
            ("/observations", json!(["o1", "o1"]), "claim_invalid"),
            ("/observations", json!(null), "claim_invalid"),
            ("/observations", Value::Array((0..65).map(|n| json!(format!("o{n}"))).collect()), "claim_invalid"),
            ("/observations", Value::Array((0..64).map(|n| json!(format!("o{n}"))).collect()), "ok"),
            ("/kind", json!("claim"), "unsupported_protocol"),
            ("/kind", json!({}), "unsupported_protocol"),
            ("/handle", json!("REMOVE"), "unsupported_protocol"),
            ("/handle", json!(1), "invalid_unicode"),
            ("/reason", json!("x"), "unsupported_protocol"),
        ],
    );
    let completion = json!({
        "kind": "Completion", "work_id": "w", "claim_id": "c", "dispatch_id": "d", "claim_handle": "h1",
        "run_id": "5", "run_attempt": 1,
    });
    codes::<Operation>(
        &completion,
        &[
            ("/run_attempt", json!(2), "run_binding_conflict"),
            ("/run_id", json!(5), "ledger_invalid"),
            ("/keep_open", json!(true), "ok"),
            ("/keep_open", json!(false), "ok"),
            ("/keep_open", json!(null), "request_invalid"),
        ],
    );
    let observation = json!({
        "kind": "Observation", "observation_id": "o", "condition": "merged", "state": "ready", "observed_at": 5,
        "credential_generation": "g", "read_status": "ok", "merged": true, "merge_commit": "m",
        "resource": {"kind": "pull_request", "host": "github.com", "repository": "o/r", "repository_id": "1",
            "resource_id": "2", "number": "3"},
    });
    codes::<Operation>(
        &observation,
        &[
            ("/merged", json!(false), "observation_invalid"),
            ("/merge_commit", json!("REMOVE"), "observation_invalid"),
            ("/merge_commit", json!(""), "ledger_invalid"),
            ("/read_status", json!("denied"), "observation_invalid"),
            ("/condition", json!("closed"), "observation_invalid"),
            ("/state", json!("waiting"), "ok"),
            ("/resource/kind", json!("issue"), "observation_invalid"),
            ("/state_reason", json!("duplicate"), "observation_invalid"),
        ],
    );
    let dispatch = json!({"kind": "Dispatch", "dispatch_id": "d", "state": "started", "credential_principal": "7"});
    codes::<Operation>(
        &dispatch,
        &[
            ("/state", json!("uncertain"), "run_binding_conflict"),
            ("/state", json!("done"), "dispatch_invalid"),
            ("/credential_principal", json!("x"), "run_binding_conflict"),
            ("/sender", json!({}), "unsupported_protocol"),
            ("/reason", json!("bad reason"), "reason_invalid"),
        ],
    );
}

/// S-042, S-046: the three matrices of engine.md 2.4 agree on something for every operation, and only
/// `dispatch_next` carries Claims.
#[test]
fn matrices() {
    for kind in OperationKind::ALL {
        let carried = RequestKind::ALL
            .iter()
            .filter(|request| kind.fits(**request))
            .any(|request| Role::ALL.iter().any(|role| role.may_issue(*request) && kind.permitted(*role)));
        assert!(carried, "{kind}");
    }
    let claims: Vec<_> = RequestKind::ALL.iter().filter(|request| OperationKind::Claim.fits(**request)).collect();
    assert_eq!(claims, [&RequestKind::DispatchNext]);
    let pairs = Role::ALL.iter().flat_map(|role| RequestKind::ALL.iter().filter(|kind| role.may_issue(**kind))).count();
    assert_eq!(pairs, 8 + 3 + 5 + 5 + 7 + 1);
}

/// Every code has its own word, snake_case, in order.
#[test]
fn codes_are_distinct_words() {
    let words: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert!(words.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(words.iter().all(|word| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b == b'8')));
}
