//! What payloads say about effects: `effect-contract.json`, `resource-scope.json`, and the schemas of both.

use serde_json::{Value, json};
use wq_action::protocol::effect_contract::EffectContract;
use wq_action::protocol::json::Scanner;
use wq_action::protocol::resource_scope::{ResourceScope, Target};
use wq_action::protocol::{Code, Opaque, Text};

use crate::support::corpus::load;
use crate::support::ledger::{HOST, typed};
use crate::support::schema::{objections, schema};

fn contract(value: &Value) -> Result<Option<EffectContract>, Code> {
    let payload: Opaque = typed(&json!({ "effect_contract": value }).to_string());
    EffectContract::of_payload(&mut Scanner::new(HOST), &payload).map_err(|fault| fault.code())
}

fn scope(value: &Value) -> Result<Option<ResourceScope>, Code> {
    let payload: Opaque = typed(&json!({ "resource_scope": value }).to_string());
    ResourceScope::of_payload(&mut Scanner::new(HOST), &payload).map_err(|fault| fault.code())
}

/// Both verdicts of every published case: the schema's by a validator that is not ours, the runtime's by our reader.
#[test]
fn effect_contracts() {
    let (Some(data), Some(schema)) = (load("effect-contract.json"), schema("effect-contract.schema.json")) else {
        return;
    };
    let cases = data["cases"].as_array().unwrap();
    for case in cases {
        let complaints = objections(&schema, &case["contract"]);
        assert_eq!(complaints.is_empty(), case["schema_valid"] == true, "{}: {complaints:?}", case["name"]);
        let read = contract(&case["contract"]);
        assert_eq!(read.is_ok(), case["valid"] == true, "{}: {read:?}", case["name"]);
        if let Err(code) = read {
            assert_eq!(code, Code::EffectContractInvalid, "{}", case["name"]);
        }
    }
    crate::support::tell!("{} effect contracts judged by schema and reader", cases.len());
}

/// The reader refuses whatever the schema refuses, and beyond it only repeated types and inverted ranges.
#[test]
fn the_contract_reader_is_never_laxer_than_the_schema() {
    let Some(schema) = schema("effect-contract.schema.json") else { return };
    let output = |more: &Value| {
        let mut output = json!({"type": "custom", "min": 0, "max": 1});
        for (name, value) in more.as_object().unwrap() {
            output[name] = value.clone();
        }
        json!({"version": 1, "outputs": [output]})
    };
    let verification =
        |id: &Value, expected: &Value| output(&json!({"verification": {"verifier_id": id, "expected": expected}}));
    let distinct = |count: usize| -> Value {
        (0..count).map(|index| json!({"type": format!("t{index}"), "min": 0, "max": 128})).collect()
    };
    let cases = [
        json!(null),
        json!([]),
        json!("none"),
        json!({}),
        json!({"kind": "None"}),
        json!({"kind": null}),
        json!({"kind": "none", "version": 1, "outputs": [], "no_writes": true}),
        json!({"version": true, "outputs": [], "no_writes": true}),
        json!({"version": 1, "outputs": {}, "no_writes": true}),
        json!({"version": 1, "outputs": null}),
        json!({"version": 1, "outputs": [], "no_writes": false}),
        json!({"version": 1, "outputs": [], "no_writes": null}),
        json!({"version": 1, "outputs": [null]}),
        json!({"version": 1, "outputs": distinct(128)}),
        json!({"version": 1, "outputs": distinct(129)}),
        output(&json!({})),
        output(&json!({"type": ""})),
        output(&json!({"type": 7})),
        output(&json!({"type": "\u{1f600}\n"})),
        output(&json!({"min": null})),
        output(&json!({"max": 128})),
        output(&json!({"max": "1"})),
        output(&json!({"verification": null})),
        output(&json!({"adapter": "x"})),
        verification(&json!("v".repeat(128)), &json!({"payload": {"operations": [1, null]}})),
        verification(&json!("v".repeat(129)), &json!({})),
        verification(&json!(""), &json!({})),
        verification(&json!("\u{e9}"), &json!({})),
        verification(&json!("v1"), &json!([])),
        verification(&json!("v1"), &json!(null)),
    ];
    for case in cases {
        let complaints = objections(&schema, &case);
        assert_eq!(complaints.is_empty(), contract(&case).is_ok(), "{case}: {complaints:?}");
    }
}

/// A contract is absent, or says no writes in two ways, or counts each declared type.
#[test]
fn contracts_count_outputs() {
    let absent: Opaque = typed(r#"{"task":"a"}"#);
    assert_eq!(EffectContract::of_payload(&mut Scanner::new(HOST), &absent).unwrap(), None);
    for none in [json!({"kind": "none"}), json!({"version": 1, "outputs": [], "no_writes": true})] {
        let none = contract(&none).unwrap().unwrap();
        assert!(none.forbids_writes());
        assert!(none.check_counts(&[("noop", 1), ("missing_tool", 3), ("report_incomplete", 1)]).is_ok());
        assert!(none.check_counts(&[("noop", 1), ("create_issue", 1)]).is_err());
        assert!(none.check_counts(&[]).is_ok());
    }
    let some = json!({"version": 1, "no_writes": false, "outputs": [
        {"type": "create_issue", "min": 1, "max": 2},
        {"type": "custom", "min": 0, "max": 0, "verification": {"verifier_id": "v1", "expected": {"a": 1}}},
    ]});
    let some = contract(&some).unwrap().unwrap();
    assert!(!some.forbids_writes());
    assert_eq!(some.expected("custom").unwrap().verification.as_ref().unwrap().expected.as_str(), r#"{"a":1}"#);
    assert!(some.expected("noop").is_none());
    for (produced, fits) in [
        (&[("create_issue", 1)][..], true),
        (&[("create_issue", 1), ("create_issue", 1), ("custom", 0)], true),
        (&[("create_issue", 1), ("create_issue", 2)], false),
        (&[("create_issue", 1), ("custom", 1)], false),
        (&[("create_issue", 1), ("noop", 1)], false),
        (&[], false),
        (&[("create_issue", u64::MAX), ("create_issue", 2)], false),
    ] {
        assert_eq!(some.check_counts(produced).is_ok(), fits, "{produced:?}");
    }
}

/// The shape of every published scope, by schema and by reader; what targets they permit is shown with whole queues.
#[test]
fn resource_scopes() {
    let (Some(data), Some(schema)) = (load("resource-scope.json"), schema("resource-scope.schema.json")) else {
        return;
    };
    let groups = ["cases", "ancestor_cases"].map(|group| data[group].as_array().unwrap());
    let mut judged = 0;
    for case in groups.into_iter().flatten() {
        let ancestors = case["ancestors"].as_array().into_iter().flatten();
        for holder in std::iter::once(case).chain(ancestors) {
            let Some(given) = holder.get("scope") else { continue };
            let expected = holder["scope_schema_valid"] != false;
            let complaints = objections(&schema, given);
            assert_eq!(complaints.is_empty(), expected, "{}: {complaints:?}", case["name"]);
            assert_eq!(scope(given).is_ok(), expected, "{}", case["name"]);
            judged += 1;
        }
    }
    crate::support::tell!("{judged} resource scopes judged by schema and reader");
}

/// O-130: a data-residency host takes the place of `github.com` in targets and selectors.
#[test]
fn the_approved_host_is_the_servers() {
    let on = |host: &str| json!({"repository": "owner/repo", "host": host}).to_string();
    for (server, accepted, refused) in
        [("github.com", "github.com", "corp.ghe.com"), ("corp.ghe.com", "corp.ghe.com", "github.com")]
    {
        let mut scanner = Scanner::new(server);
        assert!(Target::parse(&mut scanner, &Text::from(on(accepted))).is_ok());
        for other in [on(refused), on("GitHub.com"), on("")] {
            let fault = Target::parse(&mut scanner, &Text::from(other)).unwrap_err();
            assert_eq!(fault.code(), Code::ClaimScopeInvalid);
        }
        let payload = |host: &str| -> Opaque {
            typed(&format!(r#"{{"resource_scope":{{"version":1,"resources":[{}]}}}}"#, on(host)))
        };
        assert!(ResourceScope::of_payload(&mut scanner, &payload(accepted)).is_ok());
        assert!(ResourceScope::of_payload(&mut scanner, &payload(refused)).is_err());
    }
}

/// Every bound and shape of a target, at its edge.
#[test]
fn targets_are_exact() {
    let parse = |value: &Value| Target::parse(&mut Scanner::new(HOST), &Text::from(value.to_string()));
    let with = |member: &str, value: Value| {
        let mut target = json!({"repository": "owner/repo"});
        target[member] = value;
        target
    };
    let long = |letters: usize| json!("a".repeat(letters));
    for (target, fits) in [
        (json!({"repository": "a.b-c_D/e"}), true),
        (json!({"repository": "a b/e"}), false),
        (json!({"repository": "a/b/c"}), false),
        (json!({"repository": "\u{e9}/b"}), false),
        (json!({"kind": "issue"}), false),
        (json!([]), false),
        (json!("owner/repo"), false),
        (with("kind", json!("discussion")), false),
        (with("number", json!(7)), false),
        (with("number", json!("0")), false),
        (with("number", json!("9".repeat(256))), true),
        (with("number", json!("9".repeat(257))), false),
        (with("comment_id", json!("12")), true),
        (with("ref", long(256)), true),
        (with("ref", long(257)), false),
        (with("ref", json!("\u{1f600}".repeat(64))), true),
        (with("ref", json!("\u{1f600}".repeat(65))), false),
        (with("ref", json!("")), false),
        (with("ref", json!(null)), false),
        (with("ref", json!("a\u{7f}")), false),
        (with("ref", json!("a\u{85}")), true),
        (with("path", json!("a/b.c/...d")), true),
        (with("path", json!("/a")), false),
        (with("path", json!("a/")), false),
        (with("path", json!("a//b")), false),
        (with("path", json!("./a")), false),
        (with("path", json!("a/..")), false),
        (with("path", json!("a\\b")), false),
        (with("run", json!("7")), false),
    ] {
        let read = parse(&target);
        assert_eq!(read.is_ok(), fits, "{target}");
        if let Err(fault) = read {
            assert_eq!(fault.code(), Code::ClaimScopeInvalid, "{target}");
        }
    }
    let selectors =
        |count: usize| -> Value { (1..=count).map(|number| with("number", json!(number.to_string()))).collect() };
    assert!(scope(&json!({"version": 1, "resources": selectors(128)})).is_ok());
    assert_eq!(scope(&json!({"version": 1, "resources": selectors(129)})), Err(Code::ClaimScopeInvalid));
}
