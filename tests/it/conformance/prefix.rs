//! The seventeen-commit ledger of `canonical-prefix.json`: its bytes and its assignment.

use serde_json::Value;
use wq_action::protocol::assignment::{Assignment, Member, size};
use wq_action::protocol::operation::Operation;
use wq_action::protocol::{PoolName, ProfileName, Text};

use crate::support::corpus::load;
use crate::support::ledger::{HOST, canonical, read, typed};

#[test]
fn the_ledger_is_the_canonical_form_of_its_commits() {
    let Some(data) = load("canonical-prefix.json") else { return };
    let text = data["canonical"].as_str().unwrap();
    let written: String =
        data["commits"].as_array().unwrap().iter().map(|commit| canonical(&commit.to_string()) + "\n").collect();
    assert_eq!(written, text);
    let commits = read(text.as_bytes(), HOST).unwrap();
    assert_eq!(commits.len(), 17);
    assert_eq!(commits.iter().map(|commit| commit.ledger_bytes()).sum::<u64>(), text.len() as u64);
    for (commit, prefix) in commits.iter().zip(data["prefixes"].as_array().unwrap()) {
        assert_eq!(commit.id.as_str(), prefix["tip"].as_str().unwrap());
    }
    // The file's members in any order and spacing give the same commits.
    let pretty: Vec<String> = data["commits"].as_array().unwrap().iter().map(|c| format!("{c:#}")).collect();
    let pretty: String = pretty.iter().map(|commit| commit.replace('\n', "\r") + "\n").collect();
    let sources = |bytes: &[u8]| -> Vec<String> {
        read(bytes, HOST).unwrap().iter().map(|commit| commit.source.as_str().to_owned()).collect()
    };
    assert_eq!(sources(pretty.as_bytes()), sources(text.as_bytes()));
}

/// The assignment that the ledger's grant gives, member by member from its records.
#[test]
fn the_assignment_is_the_published_one() {
    let Some(data) = load("canonical-prefix.json") else { return };
    let commits = read(data["canonical"].as_str().unwrap().as_bytes(), HOST).unwrap();
    let dispatch = data["assignment"]["dispatch_id"].as_str().unwrap();
    let payload = |id: &str| {
        let source = commits.iter().flat_map(|commit| &commit.operations).find_map(|operation| match operation {
            Operation::Work(work) if work.work_id.as_str() == id => Some(work.source.as_str()),
            _ => None,
        });
        let work: Value = serde_json::from_str(source.unwrap()).unwrap();
        typed(&work["payload"].to_string())
    };
    let claims = |operations: &[Operation]| -> Vec<Member> {
        operations
            .iter()
            .filter_map(|operation| match operation {
                Operation::Claim(claim) if claim.dispatch_id.as_str() == dispatch => Some(Member {
                    handle: claim.handle.clone(),
                    claim_id: claim.claim_id.clone(),
                    work_id: claim.work_id.clone(),
                    work: payload(claim.work_id.as_str()),
                    result_refs: Vec::new(),
                }),
                _ => None,
            })
            .collect()
    };
    let grant = commits.iter().find(|commit| !claims(&commit.operations).is_empty()).unwrap();
    let operations = &grant.operations;
    let assignment = Assignment {
        dispatch_id: typed(&data["assignment"]["dispatch_id"].to_string()),
        request_id: grant.request.id.clone(),
        commit_id: grant.id.clone(),
        policy_epoch: grant.policy_epoch.clone(),
        pool: PoolName::new(Text::from("default")).unwrap(),
        worker_profile: ProfileName::new(data["assignment"]["worker_profile"].as_str().unwrap()).unwrap(),
        claims: claims(operations),
    };
    let text = assignment.canonical();
    assert_eq!(text, canonical(&data["assignment"].to_string()));
    let header = size::Header {
        dispatch_id: dispatch,
        request_id: grant.request.id.as_str(),
        commit_id: grant.id.as_str(),
        policy_epoch: grant.policy_epoch.as_str(),
        pool: "default",
        worker_profile: assignment.worker_profile.as_str(),
    };
    let members: u64 = assignment
        .claims
        .iter()
        .map(|m| {
            let references = size::references(std::iter::empty());
            size::member(m.handle.as_str(), m.claim_id.as_str(), m.work_id.as_str(), m.work.len(), references)
        })
        .sum();
    assert_eq!(size::envelope(&header) + members + assignment.claims.len() as u64 - 1, text.len() as u64);
}
