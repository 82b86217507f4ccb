//! Settings of `.github/workflows/aw.json`, the Policy that they make, and its way through the environment
//! (publication.md 6).

mod transport;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wq_action::launch::settings::{
    ApprovedWorker, IssueSettings, MAX_FILE_BYTES, Settings, SettingsError, apply, parse, resolve_policy,
};
use wq_action::protocol::RepositoryName;
use wq_action::protocol::policy::{Mode, Policy};
use wq_action::protocol::{Code, Digest, ProfileName, Revision};

use crate::support::built::aw_policy;
use crate::support::ledger::typed;

/// The section as settings.
fn section(section: &Value) -> Result<Settings, SettingsError> {
    parse(json!({ "work_queue": section }).to_string().as_bytes())
}

fn accepted(value: &Value) -> Settings {
    section(value).unwrap_or_else(|error| panic!("{error}: {value}"))
}

/// The property that a section is refused for.
fn property(value: &Value) -> String {
    raw_property(&json!({ "work_queue": value }).to_string())
}

/// The property that a file is refused for; checks the fixed parts of the sentence.
fn raw_property(text: &str) -> String {
    let error = parse(text.as_bytes()).expect_err(text);
    assert_eq!(error.code(), Code::SettingsInvalid);
    let sentence = error.to_string();
    assert!(sentence.starts_with(&format!("{}: ", error.property())), "{sentence}");
    assert!(sentence.ends_with("; update .github/workflows/aw.json"), "{sentence}");
    error.property().to_owned()
}

/// A section whose member at this path has this value.
fn with(path: &[&str], value: Value) -> Value {
    path.iter().rev().fold(value, |value, name| json!({ *name: value }))
}

fn repository() -> RepositoryName {
    RepositoryName::new("owner/repo").unwrap()
}

fn worker(name: &str) -> ApprovedWorker {
    ApprovedWorker { name: ProfileName::new(name).unwrap(), contract: Some(Digest::new("a".repeat(64)).unwrap()) }
}

fn resolved(settings: &Settings) -> Policy {
    let revision = Revision::new("f".repeat(40)).unwrap();
    resolve_policy(&repository(), &revision, &[worker("worker")], settings).unwrap()
}

/// S-189, O-052, O-058, O-059: a missing section and `{}` are the defaults that hold without a file: weighted-priority, the pool
/// `default`, concurrency 16, `pending_limit` 4096, one Claim per worker, 3 attempts, 30 s backoff.
#[test]
fn nothing_set_means_the_defaults() {
    let absent = Settings::default();
    let no_section = parse(br#"{"other": {"any": 1.5, "thing": null}}"#).unwrap();
    let mut empty = accepted(&json!({}));
    assert!(empty.given.section && !absent.given.section);
    empty.given = absent.given;
    assert_eq!((&no_section, &empty), (&absent, &absent));
    assert_eq!((absent.mode, absent.concurrency.get(), absent.pending_limit.get()), (Mode::WeightedPriority, 16, 4096));
    assert_eq!((absent.retry.max_attempts.get(), absent.retry.backoff_seconds.get()), (3, 30));
    let policy = resolved(&absent);
    assert_eq!(policy.pools.keys().map(|name| name.as_str()).collect::<Vec<_>>(), ["default"]);
    let pool = policy.pools.values().next().unwrap();
    assert_eq!((pool.logical_limit.get(), pool.native_limit.get(), pool.per_account_limit), (16, 16, None));
    assert_eq!((pool.retry.max_attempts.get(), pool.retry.backoff_ms.get()), (3, 30_000));
    assert!(pool.profiles.values().all(|profile| profile.max_claims.get() == 1 && !profile.share_keys));
    assert_eq!(policy.limits.pending_nodes, 4096);
}

/// S-190: what settings leave out names no other repository than the queue's own and switches nothing off; the outcome
/// is the published default Policy, byte for byte.
#[test]
fn publication_14_the_default_policy_has_its_published_digest() {
    for settings in [Settings::default(), accepted(&json!({}))] {
        let policy = resolved(&settings);
        assert_eq!(policy.source.len(), 954);
        let digest = Digest::of(&[policy.source.as_str()]);
        assert_eq!(digest.as_str(), "c2da57e2d4b797f574c5902e5acfef081191676549354e6b8f20a1a1f9b020ac");
        let pool = policy.pools.values().next().unwrap();
        assert_eq!(pool.allowed_repositories.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["owner/repo"]);
    }
}

/// O-054, O-057, O-058, O-059, S-191: each integer is accepted at both bounds and refused beyond them, as a fraction, an
/// exponent, text, a boolean and `null`, under the path of its property.
#[test]
fn publication_14_integers_keep_to_their_bounds() {
    for (path, most) in [
        (&["concurrency"][..], 4096),
        (&["pending_limit"], 4096),
        (&["retry", "max_attempts"], 16),
        (&["retry", "backoff_seconds"], 3600),
        (&["pools", "build", "concurrency"], 4096),
        (&["pools", "build", "per_account_limit"], 4096),
        (&["pools", "build", "retry", "max_attempts"], 16),
        (&["pools", "build", "retry", "backoff_seconds"], 3600),
        (&["accounting_weights", "team"], 1000),
    ] {
        let name = format!("work_queue.{}", path.join("."));
        for value in [1, most] {
            accepted(&with(path, json!(value)));
        }
        for value in
            [json!(0), json!(-1), json!(most + 1), json!("16"), json!(true), json!(null), json!([1]), json!({})]
        {
            assert_eq!(property(&with(path, value.clone())), name, "{value}");
        }
        for spelled in ["1.5", "1e1", "1.0", "-0", "99999999999999999999", "9007199254740992"] {
            let text = json!({ "work_queue": with(path, json!("@")) }).to_string().replace("\"@\"", spelled);
            assert_eq!(raw_property(&text), name, "{spelled}");
        }
    }
}

/// O-060: the mode is `weighted-priority` unless it is `strict-priority`; nothing else is one.
#[test]
fn publication_14_there_are_two_modes() {
    assert_eq!(accepted(&json!({"mode": "strict-priority"})).mode, Mode::StrictPriority);
    assert_eq!(accepted(&json!({"mode": "weighted-priority"})).mode, Mode::WeightedPriority);
    for value in [json!("fifo"), json!(""), json!(null), json!(1), json!(["strict-priority"])] {
        assert_eq!(property(&json!({ "mode": value })), "work_queue.mode");
    }
}

/// O-061: class weights are `[8,4,2,1,1]` or exactly five integers of 1..1000.
#[test]
fn publication_14_class_weights_are_five() {
    assert_eq!(Settings::default().class_weights.map(|weight| weight.get()), [8, 4, 2, 1, 1]);
    let chosen = accepted(&json!({"class_weights": [1, 1000, 1, 1000, 1]}));
    assert_eq!(chosen.class_weights.map(|weight| weight.get()), [1, 1000, 1, 1000, 1]);
    for value in [json!([1, 1, 1, 1]), json!([1, 1, 1, 1, 1, 1]), json!([]), json!({}), json!(null), json!(8)] {
        assert_eq!(property(&json!({ "class_weights": value })), "work_queue.class_weights");
    }
    for index in 0..5 {
        for bad in [json!(0), json!(1001), json!("8"), json!(null), json!(1.5)] {
            let mut weights = vec![json!(1); 5];
            weights[index] = bad;
            assert_eq!(property(&json!({ "class_weights": weights })), format!("work_queue.class_weights[{index}]"));
        }
    }
}

/// O-062: accounting weights are `{"":1}`, also for `{}`; other keys join the empty one, which always weighs 1. With it
/// they are at most 1,024, each of at most 128 bytes.
#[test]
fn publication_14_accounting_keys_join_the_empty_one() {
    let weights = |settings: &Settings| -> BTreeMap<String, i64> {
        settings.accounting_weights.iter().map(|(key, weight)| (key.as_str().to_owned(), weight.get())).collect()
    };
    let only_empty = BTreeMap::from([(String::new(), 1)]);
    assert_eq!(weights(&Settings::default()), only_empty);
    assert_eq!(weights(&accepted(&json!({"accounting_weights": {}}))), only_empty);
    assert_eq!(weights(&accepted(&json!({"accounting_weights": {"": 1}}))), only_empty);
    let named = weights(&accepted(&json!({"accounting_weights": {"team": 1000}})));
    assert_eq!(named, BTreeMap::from([(String::new(), 1), ("team".to_owned(), 1000)]));

    let refused = |key: &str, weight: i64| property(&json!({"accounting_weights": {key: weight}}));
    assert_eq!(refused("", 2), "work_queue.accounting_weights.");
    accepted(&json!({"accounting_weights": {"é".repeat(64): 1}}));
    let long = "é".repeat(64) + "x";
    assert_eq!(refused(&long, 1), format!("work_queue.accounting_weights.{long}"));
    assert_eq!(refused("a\nb", 1), "work_queue.accounting_weights.a\\u{a}b");
    assert_eq!(refused("a\u{85}b", 1), "work_queue.accounting_weights.a\\u{85}b");

    let keys = |count: usize| -> Value { (0..count).map(|key| (key.to_string(), json!(1))).collect() };
    assert_eq!(accepted(&json!({"accounting_weights": keys(1023)})).accounting_weights.len(), 1024);
    assert_eq!(property(&json!({"accounting_weights": keys(1024)})), "work_queue.accounting_weights");
    // Names in order of the text would blame `z` first.
    assert_eq!(
        raw_property(r#"{"work_queue":{"accounting_weights":{"z":0,"b":0}}}"#),
        "work_queue.accounting_weights.b"
    );
}

/// O-063, O-064: pools are one `default` pool, also for `{}`, or up to 64 named objects of `concurrency`, `retry` and
/// `per_account_limit` alone, with the approved routes and one-Claim assignments of `default`.
#[test]
fn publication_14_pools_are_named_objects() {
    assert!(accepted(&json!({"pools": {}})).pools.is_empty());
    for value in [json!(null), json!([]), json!("build"), json!(3)] {
        assert_eq!(property(&json!({ "pools": value })), "work_queue.pools");
        assert_eq!(property(&json!({"pools": {"build": value}})), "work_queue.pools.build");
    }
    for member in ["profiles", "allowed_repositories", "default_profile", "producers", "logical_limit", "mode"] {
        assert_eq!(property(&json!({"pools": {"build": {member: {}}}})), format!("work_queue.pools.build.{member}"));
    }
    let pools = |count: usize| -> Value { (0..count).map(|pool| (format!("p{pool}"), json!({}))).collect() };
    accepted(&json!({"pools": pools(64)}));
    assert_eq!(property(&json!({"pools": pools(65)})), "work_queue.pools");
    accepted(&json!({"pools": {"é".repeat(128): {}}}));
    let long = "é".repeat(128) + "x";
    assert_eq!(property(&json!({"pools": {long.clone(): {}}})), format!("work_queue.pools.{long}"));
    assert_eq!(property(&json!({"pools": {"": {}}})), "work_queue.pools.");
    assert_eq!(property(&json!({"pools": {"a\u{1b}[31m": {}}})), "work_queue.pools.a\\u{1b}[31m");

    let policy = resolved(&accepted(&json!({"pools": {"build": {"concurrency": 2}}})));
    let [build, default] = ["build", "default"].map(|name| &policy.pools[name]);
    assert_eq!((build.logical_limit.get(), build.native_limit.get(), default.native_limit.get()), (2, 2, 16));
    assert_eq!(build.profiles, default.profiles);
    assert!(build.profiles.values().all(|profile| profile.max_claims.get() == 1));
}

/// Decision 37: at most 64 pools in the Policy, `default` included.
#[test]
fn a_policy_has_at_most_64_pools() {
    let pools = |count: usize| -> Value { (0..count).map(|pool| (format!("p{pool}"), json!({}))).collect() };
    let policy = resolved(&Settings::default());
    assert_eq!(apply(&accepted(&json!({"pools": pools(63)})), &policy).unwrap().pools.len(), 64);
    let fault = apply(&accepted(&json!({"pools": pools(64)})), &policy).unwrap_err();
    assert_eq!(fault.code(), Code::SettingsInvalid);
    assert!(fault.message().starts_with("work_queue.pools: "), "{fault}");
    assert!(fault.message().ends_with("; update .github/workflows/aw.json"), "{fault}");
}

/// S-193: `issues` is one global value: a boolean selects the defaults or disables the projection, an object may supply
/// `label`; whatever else is refused.
#[test]
fn publication_14_issues_are_on_off_or_described() {
    let issues = |value: Value| accepted(&json!({ "issues": value })).issues;
    assert_eq!(accepted(&json!({})).issues, None);
    assert_eq!(issues(json!(false)), None);
    assert_eq!(issues(json!(true)), Some(IssueSettings::default()));
    assert_eq!(issues(json!({})), issues(json!({"label": "work"})));
    let chosen = issues(json!({"label": " ops ", "title_prefix": "ops:"})).unwrap();
    assert_eq!((chosen.label.as_str(), chosen.title_prefix.as_str()), (" ops ", "ops:"));
    for (value, most) in [("label", 33), ("title_prefix", 80)] {
        let name = format!("work_queue.issues.{value}");
        accepted(&json!({"issues": {value: "x"}}));
        accepted(&json!({"issues": {value: "x".repeat(most)}}));
        for bad in ["x".repeat(most + 1), String::new(), "  ".into(), "a\u{7}".into(), "${{ github.actor }}".into()] {
            assert_eq!(property(&json!({"issues": {value: bad}})), name);
        }
        assert_eq!(property(&json!({"issues": {value: null}})), name);
        assert_eq!(property(&json!({"issues": {value: 1}})), name);
    }
    // 33 bytes, not characters.
    assert_eq!(property(&json!({"issues": {"label": "é".repeat(17)}})), "work_queue.issues.label");
    for bad in [json!(null), json!(1), json!("work"), json!([])] {
        assert_eq!(property(&json!({ "issues": bad })), "work_queue.issues");
    }
    assert_eq!(property(&json!({"issues": {"repository": "o/r"}})), "work_queue.issues.repository");
    // No Policy knows of it.
    assert_eq!(resolved(&accepted(&json!({"issues": {"label": "ops"}}))), resolved(&Settings::default()));
}

/// O-053, O-055, S-188: an unknown member is refused by its path wherever it stands; for producers, principals, trust
/// domains, credentials and routes the sentence says who supplies them.
#[test]
fn unknown_members_are_refused_with_a_hint() {
    for member in [
        "producers",
        "principal",
        "trust_domain",
        "credential_scope",
        "credentials",
        "github-token",
        "profiles",
        "workflows",
        "routes",
        "projectors",
        "authorization",
        "limits",
        "storage",
        "modes",
        "Mode",
    ] {
        for (value, name) in [
            (json!({member: {}}), format!("work_queue.{member}")),
            (json!({"retry": {member: 1}}), format!("work_queue.retry.{member}")),
            (json!({"pools": {"build": {member: 1}}}), format!("work_queue.pools.build.{member}")),
            (json!({"pools": {"build": {"retry": {member: 1}}}}), format!("work_queue.pools.build.retry.{member}")),
            (json!({"issues": {member: 1}}), format!("work_queue.issues.{member}")),
        ] {
            let error = section(&value).unwrap_err();
            assert_eq!(error.property(), name);
            for word in ["identities", "routes", "trust", "credentials", "producers", "AW", "declarations"] {
                assert!(error.message().contains(word), "{error}");
            }
        }
    }
}

/// O-051, O-054: the section is an object in a file that is an object; a file that cannot be read is no empty file.
#[test]
fn the_file_and_its_section_are_objects() {
    for text in [
        "",
        " ",
        "null",
        "[]",
        "1",
        "\"x\"",
        "{",
        "{}x",
        "{\"work_queue\":}",
        "{'work_queue':{}}",
        "\u{feff}{}",
        "{\"other\":1,\"other\":2}",
        "{\"work_queue\":{},\"work_queue\":{}}",
        "{\"a\":01}",
        "{\"a\":\"\t\"}",
    ] {
        assert_eq!(raw_property(text), "work_queue");
        let error = parse(text.as_bytes()).unwrap_err();
        assert!(error.message().starts_with("cannot read scheduling configuration: "), "{text}: {error}");
    }
    assert!(parse(&[b'{', 0xff, b'}']).unwrap_err().message().contains("UTF-8"));
    for value in [json!(null), json!([]), json!("x"), json!(true), json!(0)] {
        assert_eq!(property(&value), "work_queue");
    }
    let mut file = b"{}".to_vec();
    file.resize(MAX_FILE_BYTES, b' ');
    assert_eq!(parse(&file).unwrap(), Settings::default());
    file.push(b' ');
    assert!(parse(&file).unwrap_err().message().contains("1 MiB"));
    let deep = format!("{{\"x\":{}{}}}", "[".repeat(500_000), "]".repeat(500_000));
    assert_eq!(raw_property(&deep), "work_queue");
}

/// S-191: a repeated member is refused by its path at every level, whether or not the values agree and however its name
/// is escaped.
#[test]
fn repeated_members_are_refused() {
    for (text, name) in [
        (r#"{"mode":"strict-priority","mode":"strict-priority"}"#, "mode"),
        (r#"{"mode":"strict-priority","\u006dode":1}"#, "mode"),
        (r#"{"retry":{"max_attempts":1,"max_attempts":1}}"#, "retry.max_attempts"),
        (r#"{"accounting_weights":{"team":1,"team":1}}"#, "accounting_weights.team"),
        (r#"{"pools":{"build":{},"build":{}}}"#, "pools.build"),
        (r#"{"pools":{"build":{"retry":{},"retry":{}}}}"#, "pools.build.retry"),
        (r#"{"pools":{"b":{"retry":{"backoff_seconds":1,"backoff_seconds":1}}}}"#, "pools.b.retry.backoff_seconds"),
        (r#"{"issues":{"label":"a","label":"a"}}"#, "issues.label"),
    ] {
        assert_eq!(raw_property(&format!("{{\"work_queue\":{text}}}")), format!("work_queue.{name}"));
    }
}

/// The order of publication.md 6.3: members of the section first, then the values in the order of the table; what only
/// the strict reader refuses comes last.
#[test]
fn the_first_defect_in_the_published_order_is_named() {
    let order =
        ["mode", "concurrency", "pending_limit", "class_weights", "accounting_weights", "retry", "pools", "issues"];
    for from in 0..order.len() {
        // Written backwards, so the order of the text is not what decides.
        let members: Vec<_> = order[from..].iter().rev().map(|name| format!("\"{name}\":null")).collect();
        let text = format!("{{\"work_queue\":{{{}}}}}", members.join(","));
        assert_eq!(raw_property(&text), format!("work_queue.{}", order[from]));
    }
    assert_eq!(raw_property(r#"{"work_queue":{"mode":null,"zzz":1}}"#), "work_queue.zzz");
    assert_eq!(raw_property(r#"{"work_queue":{"mode":null,"mode":null}}"#), "work_queue.mode");
    let lone = r#"{"work_queue":{"pools":{"a\ud800":{}}}}"#;
    assert_eq!(parse(lone.as_bytes()).unwrap_err().message(), "must be valid scheduling JSON");
    assert_eq!(raw_property(lone), "work_queue");
    assert_eq!(raw_property(r#"{"work_queue":{"pools":{"a\ud800":{}},"concurrency":0}}"#), "work_queue.concurrency");
    // Outside the section it is somebody else's.
    assert!(parse(br#"{"other":"\ud800","work_queue":{}}"#).is_ok());
}

/// O-057: concurrency is 16 or the given one, and both the logical and the native capacity of each pool. Pools inherit
/// the resolved top-level values, wherever in the file these stand; each member of retry by itself.
#[test]
fn publication_14_inheritance_does_not_depend_on_order() {
    let pools = r#""pools":{"a":{},"b":{"concurrency":7,"retry":{"max_attempts":2}},"c":{"per_account_limit":5,"retry":{"backoff_seconds":9}},"default":{"retry":{}}}"#;
    let retry = r#""retry":{"max_attempts":16,"backoff_seconds":600}"#;
    let concurrency = r#""concurrency":100"#;
    for members in [[pools, retry, concurrency], [concurrency, retry, pools], [retry, pools, concurrency]] {
        let settings = parse(format!("{{\"work_queue\":{{{}}}}}", members.join(",")).as_bytes()).unwrap();
        let policy = resolved(&settings);
        let seen: Vec<_> = policy
            .pools
            .iter()
            .map(|(name, pool)| {
                let per_account = pool.per_account_limit.map(|limit| limit.get());
                let retry = (pool.retry.max_attempts.get(), pool.retry.backoff_ms.get());
                (name.as_str(), pool.logical_limit.get(), pool.native_limit.get(), per_account, retry)
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("a", 100, 100, None, (16, 600_000)),
                ("b", 7, 7, None, (2, 600_000)),
                ("c", 100, 100, Some(5), (16, 9_000)),
                ("default", 100, 100, None, (16, 600_000)),
            ]
        );
    }
}

/// S-192: settings change modes, weights, capacities and retry, and no route, repository, producer or identity. The
/// Policy that they are applied to stays as it is, and applying twice changes nothing more.
#[test]
fn publication_14_settings_change_scheduling_alone() {
    let mut before = aw_policy();
    let pool = &mut before["pools"]["default"];
    pool["per_account_limit"] = json!(3);
    pool["allowed_repositories"] = json!(["owner/repo", "owner/other"]);
    let route = pool["default_profile"].as_str().unwrap().to_owned();
    pool["profiles"][&route]["max_claims"] = json!(4);
    pool["profiles"][&route]["share_keys"] = json!(true);
    let policy: Policy = typed(&before.to_string());
    let kept = policy.source.as_str().to_owned();
    let settings = accepted(&json!({"mode": "strict-priority", "class_weights": [5, 4, 3, 2, 1], "pending_limit": 9,
        "accounting_weights": {"team": 2}, "concurrency": 4, "pools": {"build": {"per_account_limit": 1}}}));
    let after = apply(&settings, &policy).unwrap();
    assert_eq!(policy.source.as_str(), kept);
    assert_eq!(apply(&settings, &after).unwrap(), after);

    let mut expected = before;
    expected["mode"] = json!("strict-priority");
    expected["class_weights"] = json!([5, 4, 3, 2, 1]);
    expected["accounting_weights"] = json!({"": 1, "team": 2});
    expected["limits"]["pending_nodes"] = json!(9);
    let pool = &mut expected["pools"]["default"];
    pool.as_object_mut().unwrap().remove("per_account_limit");
    pool["logical_limit"] = json!(4);
    pool["native_limit"] = json!(4);
    pool["retry"] = json!({"max_attempts": 3, "backoff_ms": 30_000});
    for (_, profile) in pool["profiles"].as_object_mut().unwrap() {
        profile["max_claims"] = json!(1);
        profile["share_keys"] = json!(false);
    }
    let mut build = pool.clone();
    build["per_account_limit"] = json!(1);
    expected["pools"]["build"] = build;
    assert_eq!(serde_json::from_str::<Value>(after.source.as_str()).unwrap(), expected);
}

/// A new pool needs the pool `default` to copy.
#[test]
fn a_new_pool_needs_a_default_one() {
    let mut policy = aw_policy();
    let pool = policy["pools"]["default"].take();
    policy["pools"] = json!({ "only": pool });
    let policy: Policy = typed(&policy.to_string());
    assert!(apply(&accepted(&json!({"pools": {"only": {"concurrency": 2}}})), &policy).is_ok());
    let fault = apply(&accepted(&json!({"pools": {"build": {}, "only": {}}})), &policy).unwrap_err();
    assert_eq!(fault.code(), Code::SettingsInvalid);
    assert!(fault.message().starts_with("work_queue.pools.build: "), "{fault}");
}

/// The workers that declare themselves become the routes at the verified revision, the smallest name first
/// whatever the order; a worker without a valid stamp has no contract. None is `policy_missing`, more than 256 are
/// `policy_invalid`.
#[test]
fn routes_come_from_the_declared_workers() {
    let revision = Revision::new("e".repeat(40)).unwrap();
    let resolve = |workers: &[ApprovedWorker]| resolve_policy(&repository(), &revision, workers, &Settings::default());
    let mut unstamped = worker("b-worker");
    unstamped.contract = None;
    let policy = resolve(&[worker("worker"), unstamped.clone(), worker("Zeta")]).unwrap();
    let pool = &policy.pools["default"];
    assert_eq!(pool.default_profile.as_str(), "Zeta");
    for (name, profile) in &pool.profiles {
        assert_eq!(profile.workflow.as_str(), format!(".github/workflows/{name}.lock.yml"));
        assert_eq!((profile.revision.as_str(), profile.effect_scope.as_str()), ("e".repeat(40).as_str(), "owner/repo"));
        assert_eq!(profile.logical_contract.is_some(), name.as_str() != "b-worker");
    }
    assert!(policy.aw && policy.producers.is_empty());

    let many = |count: usize| -> Vec<_> { (0..count).map(|index| worker(&format!("w{index}"))).collect() };
    assert_eq!(resolve(&[]).unwrap_err().code(), Code::PolicyMissing);
    assert_eq!(resolve(&many(256)).unwrap().pools["default"].profiles.len(), 256);
    assert_eq!(resolve(&many(257)).unwrap_err().code(), Code::PolicyInvalid);
    assert_eq!(resolve(&[unstamped.clone(), unstamped]).unwrap_err().code(), Code::PolicyInvalid);
    let zero = Revision::new("0".repeat(40)).unwrap();
    let refused = resolve_policy(&repository(), &zero, &[worker("w")], &Settings::default());
    assert_eq!(refused.unwrap_err().code(), Code::PolicyInvalid);
    // The largest Policy there can be is still one.
    let pools: Value = (0..63).map(|pool| (format!("p{pool}"), json!({}))).collect();
    let largest = resolve_policy(&repository(), &revision, &many(256), &accepted(&json!({ "pools": pools }))).unwrap();
    assert_eq!(largest.pools.len(), 64);
}
