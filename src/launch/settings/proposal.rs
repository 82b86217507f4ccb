//! The Policy proposal that a compiled workflow carries in its environment (publication.md 6.5, jobs.md 3.5,
//! decision 49).

use std::collections::BTreeMap;

use crate::ledger::LedgerError;
use crate::ledger::proposal::read_policy;
use crate::protocol::policy::Policy;
use crate::protocol::{Code, Fault};

/// The variable that holds a whole proposal; the names of its parts begin with it.
pub const POLICY_VARIABLE: &str = "GH_AW_WORK_QUEUE_POLICY";
const PARTS_SUFFIX: &str = "_PARTS";
/// Most bytes of one written variable.
pub const WRITTEN_CHUNK_BYTES: usize = 12_288;
/// Most bytes of one part that is read.
pub const MAX_CHUNK_BYTES: usize = 128 * 1024;
/// Most parts.
pub const MAX_PARTS: usize = 256;
/// Most bytes of a proposal, whole or joined.
const MAX_PROPOSAL_BYTES: usize = 4 * 1024 * 1024;

/// A proposal as it was carried: its exact text, and the Policy in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The text, byte for byte.
    pub text: String,
    /// The validated Policy.
    pub policy: Policy,
}

/// Reads the proposal out of environment variables, given as pairs of name and value in any order. Other variables are
/// passed over. None means that nothing is proposed.
///
/// # Errors
/// `settings_invalid` for parts that are missing, extra, misnumbered, empty, beside a whole value, or more
/// than 256; `work_queue_policy_proposal_limit` above 128 KiB a part or 4 MiB; whatever
/// [`read_policy`] refuses. All of them before any access to the queue.
pub fn read_proposal<N, V>(variables: impl IntoIterator<Item = (N, V)>) -> Result<Option<Proposal>, LedgerError>
where
    N: AsRef<str>,
    V: Into<String>,
{
    let Some(text) = Carried::collect(variables)?.text()? else { return Ok(None) };
    if text.len() > MAX_PROPOSAL_BYTES {
        return Err(limit("the Policy proposal is longer than 4 MiB").into());
    }
    let policy = read_policy(&text)?;
    Ok(Some(Proposal { text, policy }))
}

fn refused(message: &'static str) -> Fault {
    Fault::new(Code::SettingsInvalid, message)
}

fn limit(message: &'static str) -> Fault {
    Fault::new(Code::WorkQueuePolicyProposalLimit, message)
}

/// The variables that carry a proposal.
#[derive(Default)]
struct Carried {
    whole: Option<String>,
    count: Option<String>,
    /// By the digits of their names, as spelled.
    parts: BTreeMap<String, String>,
}

impl Carried {
    fn collect<N, V>(variables: impl IntoIterator<Item = (N, V)>) -> Result<Self, Fault>
    where
        N: AsRef<str>,
        V: Into<String>,
    {
        let mut carried = Self::default();
        for (name, value) in variables {
            let Some(suffix) = name.as_ref().strip_prefix(POLICY_VARIABLE) else { continue };
            let before = if suffix.is_empty() {
                carried.whole.replace(value.into())
            } else if suffix == PARTS_SUFFIX {
                carried.count.replace(value.into())
            } else {
                let digits = suffix.strip_prefix('_').filter(|digits| is_number(digits));
                let Some(digits) = digits else { continue };
                carried.parts.insert(digits.to_owned(), value.into())
            };
            if before.is_some() {
                return Err(refused("a variable of the Policy proposal is set twice"));
            }
        }
        Ok(carried)
    }

    fn text(mut self) -> Result<Option<String>, Fault> {
        let Some(count) = self.count else {
            return match self.whole {
                _ if !self.parts.is_empty() => {
                    Err(refused("parts of a Policy proposal lack GH_AW_WORK_QUEUE_POLICY_PARTS"))
                }
                Some(whole) if whole.is_empty() => Err(refused("GH_AW_WORK_QUEUE_POLICY is empty")),
                whole => Ok(whole),
            };
        };
        if self.whole.is_some() {
            return Err(refused("a whole Policy proposal stands beside parts of one"));
        }
        let count = part_count(&count)?;
        if self.parts.len() != count {
            return Err(refused("the parts of the Policy proposal are not as many as its count"));
        }
        let mut text = String::new();
        for index in 0..count {
            let part = self.parts.remove(&index.to_string()).unwrap_or_default();
            if part.is_empty() {
                return Err(refused("a part of the Policy proposal is missing, misnumbered or empty"));
            }
            if part.len() > MAX_CHUNK_BYTES {
                return Err(limit("a part of the Policy proposal is longer than 128 KiB"));
            }
            if text.len() + part.len() > MAX_PROPOSAL_BYTES {
                return Err(limit("the Policy proposal is longer than 4 MiB"));
            }
            text.push_str(&part);
        }
        Ok(Some(text))
    }
}

fn is_number(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn part_count(count: &str) -> Result<usize, Fault> {
    if !is_number(count) || count.starts_with('0') {
        return Err(refused("GH_AW_WORK_QUEUE_POLICY_PARTS is not a plain decimal number"));
    }
    match count.parse::<usize>() {
        Ok(count) if count <= MAX_PARTS => Ok(count),
        _ => Err(refused("GH_AW_WORK_QUEUE_POLICY_PARTS is more than 256")),
    }
}

/// The variables that carry this JSON text: one up to 12,288 bytes, else the count and the parts. A part ends right
/// after a comma outside every string, so expressions and characters stay whole, and holds at most 12,288 bytes unless
/// a single string is longer.
///
/// # Errors
/// `work_queue_policy_proposal_limit` above 4 MiB or 256 parts, and for a part that no reader would take.
pub fn policy_variables(text: &str) -> Result<Vec<(String, String)>, Fault> {
    if text.len() <= WRITTEN_CHUNK_BYTES {
        return Ok(vec![(POLICY_VARIABLE.to_owned(), text.to_owned())]);
    }
    if text.len() > MAX_PROPOSAL_BYTES {
        return Err(limit("the Policy proposal is longer than 4 MiB"));
    }
    let parts = split(text);
    if parts.len() > MAX_PARTS {
        return Err(limit("the Policy proposal has more than 256 parts"));
    }
    if parts.iter().any(|part| part.len() > MAX_CHUNK_BYTES) {
        return Err(limit("a part of the Policy proposal is longer than 128 KiB"));
    }
    let mut variables = vec![(format!("{POLICY_VARIABLE}{PARTS_SUFFIX}"), parts.len().to_string())];
    variables.extend(
        parts.into_iter().enumerate().map(|(index, part)| (format!("{POLICY_VARIABLE}_{index}"), part.to_owned())),
    );
    Ok(variables)
}

/// Cuts after the last comma outside strings that keeps a part within its bound, or after the next one if none does.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut comma) = (0, 0);
    let (mut inside, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        if at + 1 - start > WRITTEN_CHUNK_BYTES && comma > start {
            parts.push(&text[start..comma]);
            start = comma;
        }
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            b',' if !inside => comma = at + 1,
            _ => {}
        }
    }
    if start < text.len() {
        parts.push(&text[start..]);
    }
    parts
}
