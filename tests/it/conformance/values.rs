//! Values, numbers and identities: `canonical*.json`, `identity-validation.json`, `reason-validation.json`.

use serde_json::Value as Json;
use wq_action::protocol::json::{Scanner, Value, parse};
use wq_action::protocol::{CommitId, Decimal, Reason, Text};

use crate::support::corpus::load;

fn cases(value: &Json) -> &Vec<Json> {
    value.as_array().expect("a list")
}

fn text<'a>(case: &'a Json, member: &str) -> &'a str {
    case[member].as_str().expect("a string")
}

/// Reads text both ways: the strict parser and the reader of records must agree.
fn canonical(input: &str) -> Result<String, &'static str> {
    let strict = parse(input).and_then(|value| value.encode()).map_err(|fault| fault.code().as_str());
    let mut scanner = Scanner::new("github.com");
    let text = Text::from(input);
    let read = scanner.read(&text).map(|document| document.root().raw().to_owned());
    assert_eq!(read.map_err(|fault| fault.code().as_str()), strict, "{input}");
    strict
}

/// S-008, S-009, S-011, S-013, S-015, S-016, S-018, S-019, S-024.
#[test]
fn canonical_texts() {
    let Some(data) = load("canonical.json") else { return };
    for case in cases(&data["valid"]) {
        assert_eq!(canonical(text(case, "input")), Ok(text(case, "expected").to_owned()), "{}", case["name"]);
        assert_eq!(canonical(text(case, "expected")), Ok(text(case, "expected").to_owned()), "{}", case["name"]);
    }
    for input in cases(&data["invalid"]) {
        assert!(canonical(input.as_str().unwrap()).is_err(), "{input}");
    }
    for case in cases(&data["error_codes"]) {
        assert_eq!(canonical(text(case, "input")), Err(text(case, "code")), "{}", case["name"]);
    }
    for case in cases(&data["typed_number_rejections"]) {
        let number: f64 = text(case, "input").parse().unwrap();
        assert_eq!(Value::number(number).unwrap_err().code().as_str(), text(case, "code"), "{}", case["name"]);
    }
    let known = ["valid", "invalid", "error_codes", "typed_number_rejections"];
    assert!(data.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "a group is not tested");
}

fn contain(container: &str, value: Value) -> Value {
    let object = |members: Vec<(&str, Value)>| {
        Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    };
    match container {
        "root" => value,
        "object" => object(vec![("value", value)]),
        "array" => Value::Array(vec![value]),
        "nested" => {
            let sentinel = Value::String("9007199254740993".to_owned());
            object(vec![("payload", object(vec![("numbers", Value::Array(vec![value])), ("sentinel", sentinel)]))])
        }
        other => panic!("container {other} is unknown"),
    }
}

/// S-010, S-024: numbers from memory are refused before anything is written.
#[test]
fn typed_numbers() {
    let Some(data) = load("canonical-typed.json") else { return };
    for case in cases(&data["cases"]) {
        let number: f64 = text(case, "literal").parse().unwrap();
        let encoded = Value::number(number).and_then(|value| contain(text(case, "container"), value).encode());
        match case["code"].as_str() {
            Some(code) => assert_eq!(encoded.unwrap_err().code().as_str(), code, "{}", case["name"]),
            None => assert_eq!(encoded.unwrap(), text(case, "expected"), "{}", case["name"]),
        }
    }
}

/// S-022, S-023, S-024: bytes count, not letters.
#[test]
fn identities_and_decimals() {
    let Some(data) = load("identity-validation.json") else { return };
    for case in cases(&data["identity"]) {
        let identity = text(case, "text").repeat(case["repeat"].as_u64().unwrap() as usize);
        assert_eq!(identity.len() as u64, case["expected_utf8_bytes"].as_u64().unwrap());
        assert_eq!(CommitId::new(identity).is_ok(), case["valid"].as_bool().unwrap(), "{}", case["name"]);
    }
    for case in cases(&data["decimal"]) {
        let decimal = "9".repeat(case["digits"].as_u64().unwrap() as usize);
        assert_eq!(Decimal::new(decimal).is_ok(), case["valid"].as_bool().unwrap(), "{}", case["name"]);
    }
}

/// S-024.
#[test]
fn reasons() {
    let Some(data) = load("reason-validation.json") else { return };
    for case in cases(&data["cases"]) {
        let reason = Reason::new(text(case, "reason"));
        assert_eq!(reason.is_ok(), case["valid"].as_bool().unwrap(), "{}", case["name"]);
        if let Err(fault) = reason {
            assert_eq!(fault.code().as_str(), "reason_invalid");
        }
    }
}
