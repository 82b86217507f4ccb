//! The causal chain: one root, one successor each, nothing left over (engine.md 3.1).

use hashbrown::HashMap;

use crate::protocol::commit::Commit;
use crate::protocol::limits::MAX_COMMITS;
use crate::protocol::{Code, CommitId, Fault};

/// Orders commits causally. Exact duplicates collapse.
///
/// # Errors
/// `resource_limit` beyond 1,000,000 commits; `ledger_invalid` for different commits with one id, for anything but
/// one root, for a missing predecessor, a fork, or commits that the root does not reach.
pub fn order(commits: Vec<Commit>) -> Result<Vec<Commit>, Fault> {
    if commits.len() > MAX_COMMITS {
        return Err(Fault::new(Code::ResourceLimit, "the chain is longer than 1000000 commits"));
    }
    let broken = |message: &'static str| Fault::new(Code::LedgerInvalid, message);
    let mut by_id: HashMap<CommitId, usize> = HashMap::with_capacity(commits.len());
    let mut distinct: Vec<Option<Commit>> = Vec::with_capacity(commits.len());
    for commit in commits {
        match by_id.get(&commit.id) {
            Some(known) => {
                let same = distinct[*known].as_ref().is_some_and(|known| known.source == commit.source);
                if !same {
                    return Err(broken("two commits have one id"));
                }
            }
            None => {
                by_id.insert(commit.id.clone(), distinct.len());
                distinct.push(Some(commit));
            }
        }
    }
    let mut root = None;
    let mut successor: HashMap<usize, usize> = HashMap::with_capacity(distinct.len());
    for (index, commit) in distinct.iter().enumerate() {
        let previous = commit.as_ref().and_then(|commit| commit.previous.as_ref());
        match previous {
            None if root.is_some() => return Err(broken("the chain has two roots")),
            None => root = Some(index),
            Some(previous) => {
                let known = by_id.get(previous).ok_or_else(|| broken("a commit's predecessor is missing"))?;
                if successor.insert(*known, index).is_some() {
                    return Err(broken("two commits have one predecessor"));
                }
            }
        }
    }
    if distinct.is_empty() {
        return Ok(Vec::new());
    }
    let mut at = Some(root.ok_or_else(|| broken("the chain has no root"))?);
    let mut ordered = Vec::with_capacity(distinct.len());
    while let Some(index) = at {
        ordered.push(distinct[index].take().ok_or_else(|| broken("the chain returns to itself"))?);
        at = successor.get(&index).copied();
    }
    if ordered.len() < distinct.len() {
        return Err(broken("the root does not reach every commit"));
    }
    Ok(ordered)
}
