//! Every ledger of the corpus replays to the published projection at every prefix; predictions and explanations agree
//! with the reference.

use serde_json::Value;
use wq_action::engine::Projection;
use wq_action::engine::schedule::{Plan, PlanInputs, plan};
use wq_action::protocol::identity::sha256_hex;
use wq_action::protocol::json::{Scanner, Writer};
use wq_action::protocol::ledger_text::LedgerText;
use wq_action::protocol::request::DispatchParameters;
use wq_action::protocol::{At, CommitId, Fault, RequestId, Wire as _};

use crate::support::corpus::{CorpusCase, load_corpus};
use crate::support::ledger::typed;

/// The state after each prefix.
pub(super) fn prefixes(case: &CorpusCase, wrong: &mut Vec<String>) -> Vec<Projection> {
    let text = LedgerText::new(case.text.clone()).unwrap();
    let mut scanner = Scanner::new(case.expect["host"].as_str().unwrap());
    let mut states: Vec<Projection> = Vec::new();
    let mut projection = Projection::empty();
    for (index, commit) in text.commits(&mut scanner).unwrap().into_iter().enumerate() {
        match projection.follow(commit, &mut scanner) {
            Ok(next) => projection = next,
            Err(fault) => {
                wrong.push(format!("{} line {}: {fault}", case.name, index + 1));
                break;
            }
        }
        states.push(projection.clone());
    }
    states
}

pub(super) fn first_difference(path: &str, actual: &Value, expected: &Value) -> Option<String> {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => {
            let names: std::collections::BTreeSet<&String> = actual.keys().chain(expected.keys()).collect();
            names.into_iter().find_map(|name| {
                let nothing = Value::String("<absent>".to_owned());
                let (a, e) = (actual.get(name).unwrap_or(&nothing), expected.get(name).unwrap_or(&nothing));
                first_difference(&format!("{path}/{name}"), a, e)
            })
        }
        _ if actual == expected => None,
        _ => Some(format!("{path}: {actual}, not {expected}").chars().take(600).collect()),
    }
}

/// S-033, S-034, S-048: replay is exact at every prefix of every ledger, to the byte of the serialised projection.
#[test]
fn every_prefix_serialises_to_the_published_digest() {
    let mut wrong = Vec::new();
    let (mut whole, mut compared) = (0, 0);
    for case in load_corpus() {
        let states = prefixes(&case, &mut wrong);
        let digests = case.expect["prefix_projection_sha256"].as_array();
        for (index, state) in states.iter().enumerate() {
            let text = state.serialise();
            let Some(expected) = digests.map(|digests| &digests[index]) else { continue };
            compared += 1;
            if sha256_hex(&[&text]) != *expected {
                let detail = if index + 1 == states.len() {
                    first_difference("", &serde_json::from_str(&text).unwrap(), &case.expect["projection"])
                } else {
                    None
                };
                wrong.push(format!("{} prefix {}: {detail:?}", case.name, index + 1));
                break;
            }
        }
        let Some(last) = states.last().filter(|_| states.len() as u64 == case.expect["commits"]) else { continue };
        whole += 1;
        check_whole(&case, last, &mut wrong);
    }
    crate::support::tell!("{whole} ledgers replayed whole, {compared} prefixes compared");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn check_whole(case: &CorpusCase, last: &Projection, wrong: &mut Vec<String>) {
    let text = last.serialise();
    let expect = &case.expect;
    let mut check = |what: &str, holds: bool| {
        if !holds {
            wrong.push(format!("{}: {what} differs", case.name));
        }
    };
    check("projection_sha256", sha256_hex(&[&text]) == expect["projection_sha256"]);
    check("tip", last.tip().unwrap().as_str() == expect["tip"]);
    check("ledger_bytes", last.ledger_bytes() == expect["ledger_bytes"]);
    let actual: Value = serde_json::from_str(&text).unwrap();
    check("stats", actual["stats"] == expect["stats"]);
    if let Some(expected) = expect.get("projection") {
        check("projection", actual == *expected);
    }
}

fn json(write: impl FnOnce(&mut Writer)) -> Value {
    let mut writer = Writer::new();
    write(&mut writer);
    serde_json::from_str(&writer.finish()).unwrap()
}

fn error(fault: &Fault) -> Value {
    serde_json::json!({ "error": fault.code().as_str() })
}

fn array_digest<T>(items: &[T], write: impl Fn(&T, &mut Writer)) -> Value {
    let mut writer = Writer::new();
    writer.array(items, |w, item| write(item, w));
    Value::String(sha256_hex(&[&writer.finish()]))
}

/// The reference's form of a plan.
fn plan_result(state: &Projection, plan: &Plan, inputs: &PlanInputs<'_>, digests: bool) -> Value {
    let mut result = serde_json::Map::new();
    let work_ids: Vec<&str> = plan.claims.iter().map(|planned| planned.work_id().as_str()).collect();
    let groups: Vec<&Vec<usize>> = plan.groups.iter().map(|group| &group.claims).collect();
    result.insert("work_ids".to_owned(), serde_json::json!(work_ids));
    result.insert("groups".to_owned(), serde_json::json!(groups));
    result.insert("reason".to_owned(), plan.reason.into());
    result.insert("next".to_owned(), json(|w| plan.next.write(w)));
    let observations: Vec<Vec<&str>> =
        plan.claims.iter().map(|planned| planned.claim.observations.0.iter().map(|id| id.as_str()).collect()).collect();
    if observations.iter().any(|list| !list.is_empty()) {
        result.insert("observations".to_owned(), serde_json::json!(observations));
    }
    if digests {
        let operations = array_digest(&plan.claims, |planned, w| planned.claim.write(w));
        result.insert("operations_sha256".to_owned(), operations);
        let assignments = state.planned_assignments(plan, inputs).unwrap();
        result.insert("assignments_sha256".to_owned(), array_digest(&assignments, |one, w| w.raw(&one.canonical())));
    }
    Value::Object(result)
}

pub(super) fn predict(state: &Projection, prediction: &Value) -> Value {
    let mut parameters = serde_json::Map::new();
    for name in ["pool", "max_claims", "max_dispatches", "max_bytes", "worker_profiles"] {
        if let Some(value) = prediction.get(name) {
            parameters.insert(name.to_owned(), value.clone());
        }
    }
    let parameters: DispatchParameters = typed(&Value::Object(parameters).to_string());
    let id = prediction["request_id"].as_str();
    let inputs = PlanInputs {
        parameters: &parameters,
        request_id: &RequestId::new(id.unwrap_or("r")).unwrap(),
        commit_id: &CommitId::new(prediction["commit_id"].as_str().unwrap_or("q")).unwrap(),
        at: At::new(prediction["at"].as_i64().unwrap()).unwrap(),
        preceding_operations: prediction["preceding_operations"].as_u64().unwrap_or(0) as usize,
    };
    match plan(state, &inputs) {
        Ok(plan) => plan_result(state, &plan, &inputs, id.is_some()),
        Err(fault) => error(&fault),
    }
}

/// S-115, S-528: predictions are the planner's own answers and agree with the reference in winners, groups, stop reason,
/// next selection, Claims and assignments.
#[test]
fn predictions_and_explanations_agree() {
    let mut wrong = Vec::new();
    let mut counts = [0; 2];
    for case in load_corpus() {
        let states = prefixes(&case, &mut wrong);
        let state = |entry: &Value| states.get(entry["after_commits"].as_u64().unwrap() as usize - 1);
        for prediction in case.expect["predictions"].as_array().unwrap() {
            let Some(state) = state(prediction) else {
                wrong.push(format!("{}: a prediction has no state", case.name));
                continue;
            };
            counts[0] += 1;
            let at = At::new(prediction["at"].as_i64().unwrap()).unwrap();
            let selected = match state.explain_pool(prediction["pool"].as_str().unwrap(), at) {
                Ok(view) => json(|w| view.write(w)),
                Err(fault) => error(&fault),
            };
            for (what, actual, expected) in [
                ("select", selected, &prediction["select"]),
                ("result", predict(state, prediction), &prediction["result"]),
            ] {
                if let Some(difference) = first_difference("", &actual, expected) {
                    wrong.push(format!("{} after {} {what} {difference}", case.name, prediction["after_commits"]));
                }
            }
        }
        for entry in case.expect["eligibility"].as_array().unwrap() {
            let Some(state) = state(entry) else {
                wrong.push(format!("{}: an explanation has no state", case.name));
                continue;
            };
            counts[1] += 1;
            let at = At::new(entry["at"].as_i64().unwrap()).unwrap();
            let work = state.work(entry["work_id"].as_str().unwrap()).unwrap();
            let actual = match state.explain_work(work, at) {
                Ok(explanation) => json(|w| state.write_work_explanation(&explanation, w)),
                Err(fault) => error(&fault),
            };
            if let Some(difference) = first_difference("", &actual, &entry["result"]) {
                wrong.push(format!("{} after {} work {difference}", case.name, entry["after_commits"]));
            }
        }
    }
    crate::support::tell!("{} predictions and {} explanations compared", counts[0], counts[1]);
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
