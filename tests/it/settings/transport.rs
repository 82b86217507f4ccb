//! The Policy proposal in the environment (publication.md 6.5, decision 49).

use serde_json::{Value, json};
use wq_action::launch::settings::{
    MAX_CHUNK_BYTES, MAX_PARTS, Proposal, WRITTEN_CHUNK_BYTES, policy_variables, read_proposal,
};
use wq_action::ledger::LedgerError;
use wq_action::protocol::Code;

use crate::support::built::aw_policy;

type Variables = Vec<(String, String)>;

fn read(variables: &[(String, String)]) -> Result<Option<Proposal>, LedgerError> {
    read_proposal(variables.iter().map(|(name, value)| (name.as_str(), value.as_str())))
}

fn refusal(variables: &[(String, String)]) -> Code {
    read(variables).expect_err("the proposal is refused").code()
}

/// A Policy of this many profiles, whose names hold commas, quotes, backslashes and characters of several bytes, and
/// whose revisions and scopes are expressions where `expressions` says so.
fn policy(profiles: usize, expressions: bool) -> String {
    let mut policy = aw_policy();
    let pool = &mut policy["pools"]["default"];
    let name = pool["default_profile"].as_str().unwrap().to_owned();
    let mut template = pool["profiles"][&name].clone();
    if expressions {
        template["ref"] = json!("${{ github.sha }}");
        template["effect_scope"] = json!("${{ format('{0},{1}', github.repository, 'a') }}");
    }
    for index in 0..profiles {
        pool["profiles"][format!("wörker, \"{index}\" \\ 工,作 🛠")] = template.clone();
    }
    policy.to_string()
}

/// The same text with blanks behind its last brace, so that it has exactly this many bytes.
fn padded(mut text: String, bytes: usize) -> String {
    assert!(text.len() <= bytes, "{} bytes", text.len());
    text.push_str(&" ".repeat(bytes - text.len()));
    text
}

fn set(variables: &mut Variables, name: &str, value: impl Into<String>) {
    variables.retain(|(known, _)| known != name);
    variables.push((name.to_owned(), value.into()));
}

/// S-199, S-200: a proposal is rebuilt byte for byte from its parts, in whatever order the variables come, with every
/// route of it.
#[test]
fn a_proposal_survives_its_transport() {
    for profiles in [0, 40, 256 - 1] {
        let text = policy(profiles, false);
        let mut variables = policy_variables(&text).unwrap();
        variables.reverse();
        set(&mut variables, "PATH", "/bin");
        set(&mut variables, "GH_AW_WORK_QUEUE_POLICY_FILE", "ignored");
        let proposal = read(&variables).unwrap().unwrap();
        assert_eq!(proposal.text, text);
        assert_eq!(proposal.policy.pools["default"].profiles.len(), profiles + 1);
    }
    assert_eq!(read(&[]).unwrap(), None);
}

/// 12,288 bytes travel in one variable, one byte more in parts.
#[test]
fn publication_15_parts_begin_above_their_bound() {
    let text = policy(10, false);
    let whole = policy_variables(&padded(text.clone(), WRITTEN_CHUNK_BYTES)).unwrap();
    assert_eq!(whole.len(), 1);
    assert_eq!(whole[0].0, "GH_AW_WORK_QUEUE_POLICY");
    let parts = policy_variables(&padded(text, WRITTEN_CHUNK_BYTES + 1)).unwrap();
    let names: Vec<_> = parts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["GH_AW_WORK_QUEUE_POLICY_PARTS", "GH_AW_WORK_QUEUE_POLICY_0", "GH_AW_WORK_QUEUE_POLICY_1"]);
    assert_eq!(parts[0].1, "2");
    assert!(read(&whole).unwrap().is_some() && read(&parts).unwrap().is_some());
}

/// Decision 49: no written part is longer than 12,288 bytes; each but the last ends after a comma outside strings, so
/// expressions and characters of several bytes stay whole.
#[test]
fn publication_15_parts_end_between_values() {
    let text = policy(200, true);
    let variables = policy_variables(&text).unwrap();
    let parts: Vec<_> = variables[1..].iter().map(|(_, part)| part.as_str()).collect();
    assert!(parts.len() > 4, "{}", parts.len());
    assert_eq!(parts.concat(), text);
    for (index, part) in parts.iter().enumerate() {
        assert!(part.len() <= WRITTEN_CHUNK_BYTES && part.len() > 1000);
        assert!(index + 1 == parts.len() || part.ends_with(','));
        assert_eq!(
            part.matches("${{").count(),
            part.matches("}}\"").count() - part.matches("}}}}\"").count(),
            "{index}"
        );
        let quotes = part.replace("\\\\", "").replace("\\\"", "").matches('"').count();
        assert_eq!(quotes % 2, 0, "part {index} ends inside a string");
    }
    // A string that is longer than a part goes whole.
    let long = json!({"a": "x,".repeat(10_000), "b": 1, "c": "y".repeat(13_000)}).to_string();
    let parts = policy_variables(&long).unwrap();
    assert_eq!(parts.len(), 4);
    assert_eq!(parts[1..].iter().map(|(_, part)| part.as_str()).collect::<String>(), long);
    assert_eq!(policy_variables(&json!(["x".repeat(MAX_CHUNK_BYTES), 1]).to_string()).unwrap_err().code(), LIMIT);
}

const LIMIT: Code = Code::WorkQueuePolicyProposalLimit;

/// S-199: parts that are missing, extra, zero-padded, empty, uncounted, miscounted or beside a whole value are refused.
#[test]
fn publication_15_malformed_parts_are_refused() {
    let sound = policy_variables(&policy(40, false)).unwrap();
    let count = sound.len() - 1;
    assert!(count >= 2 && read(&sound).is_ok());
    let part = |index: usize| format!("GH_AW_WORK_QUEUE_POLICY_{index}");
    let changed = |change: &dyn Fn(&mut Variables)| {
        let mut variables = sound.clone();
        change(&mut variables);
        refusal(&variables)
    };
    let remove = |name: String| changed(&|variables| variables.retain(|(known, _)| *known != name));
    let put = |name: &str, value: &str| changed(&|variables| set(variables, name, value));
    for index in 0..count {
        assert_eq!(remove(part(index)), Code::SettingsInvalid);
        assert_eq!(put(&part(index), ""), Code::SettingsInvalid);
    }
    assert_eq!(put(&part(count), "x"), Code::SettingsInvalid);
    assert_eq!(put("GH_AW_WORK_QUEUE_POLICY_00", "x"), Code::SettingsInvalid);
    assert_eq!(put("GH_AW_WORK_QUEUE_POLICY", "{}"), Code::SettingsInvalid);
    assert_eq!(put("GH_AW_WORK_QUEUE_POLICY", ""), Code::SettingsInvalid);
    assert_eq!(remove("GH_AW_WORK_QUEUE_POLICY_PARTS".to_owned()), Code::SettingsInvalid);
    for bad in ["", "0", "-1", "+2", "02", "2 ", "2.0", "0x2", "two", "1", "3", "256"] {
        let bad = if bad == count.to_string() { "99" } else { bad };
        assert_eq!(put("GH_AW_WORK_QUEUE_POLICY_PARTS", bad), Code::SettingsInvalid, "{bad}");
    }
    // One part under a padded name: as many as counted, but not the right ones.
    let padded_name = changed(&|variables| {
        let text = variables.iter().find(|(name, _)| *name == part(1)).unwrap().1.clone();
        variables.retain(|(name, _)| *name != part(1));
        set(variables, "GH_AW_WORK_QUEUE_POLICY_01", text);
    });
    assert_eq!(padded_name, Code::SettingsInvalid);
    let twice = changed(&|variables| variables.push((part(0), "x".to_owned())));
    assert_eq!(twice, Code::SettingsInvalid);
    assert_eq!(refusal(&[("GH_AW_WORK_QUEUE_POLICY".into(), String::new())]), Code::SettingsInvalid);
}

/// S-200: whatever its transport, a proposal is validated in full: a Policy that is no Policy, a repeated key and a part
/// out of its place are refused.
#[test]
fn transport_weakens_no_validation() {
    let whole = |text: String| refusal(&[("GH_AW_WORK_QUEUE_POLICY".to_owned(), text)]);
    assert_eq!(whole("{".to_owned()), Code::CodecInvalid);
    assert_eq!(whole(r#"{"mode":"x","mode":"x"}"#.to_owned()), Code::DuplicateKey);
    let mut broken: Value = serde_json::from_str(&policy(40, false)).unwrap();
    broken["pools"]["default"]["default_profile"] = json!("nobody");
    let code = whole(broken.to_string());
    assert_eq!(code, Code::PolicyInvalid);
    assert_eq!(refusal(&policy_variables(&broken.to_string()).unwrap()), code);
    let mut swapped = policy_variables(&policy(80, false)).unwrap();
    let (first, second) = (swapped[1].1.clone(), swapped[2].1.clone());
    (swapped[1].1, swapped[2].1) = (second, first);
    assert!(read(&swapped).is_err());
}

/// 256 parts of at most 128 KiB, 4 MiB together, are read; one more of anything is
/// `work_queue_policy_proposal_limit`.
#[test]
fn publication_15_the_bounds_of_a_proposal() {
    let parts = |lengths: &[usize]| -> Variables {
        let total: usize = lengths.iter().sum();
        let text = padded(policy(1, false), total);
        let mut variables = vec![("GH_AW_WORK_QUEUE_POLICY_PARTS".to_owned(), lengths.len().to_string())];
        let mut rest = text.as_bytes();
        for (index, length) in lengths.iter().enumerate() {
            let (part, after) = rest.split_at(*length);
            variables.push((format!("GH_AW_WORK_QUEUE_POLICY_{index}"), String::from_utf8(part.to_vec()).unwrap()));
            rest = after;
        }
        variables
    };
    let most = 4 * 1024 * 1024;
    assert!(read(&parts(&[most / MAX_PARTS; MAX_PARTS])).unwrap().is_some());
    assert!(read(&parts(&[MAX_CHUNK_BYTES; 32])).unwrap().is_some());
    assert_eq!(refusal(&parts(&[MAX_CHUNK_BYTES + 1])), LIMIT);
    let mut lengths = [MAX_CHUNK_BYTES; 33];
    lengths[32] = 1;
    assert_eq!(refusal(&parts(&lengths)), LIMIT);
    assert_eq!(refusal(&parts(&[4096; MAX_PARTS + 1])), Code::SettingsInvalid);
    let whole = |bytes: usize| vec![("GH_AW_WORK_QUEUE_POLICY".to_owned(), padded(policy(1, false), bytes))];
    assert!(read(&whole(most)).unwrap().is_some());
    assert_eq!(refusal(&whole(most + 1)), LIMIT);
    assert_eq!(policy_variables(&padded(policy(1, false), most + 1)).unwrap_err().code(), LIMIT);
}
