//! Claims of a checkpoint (engine.md 3.12.5 step 11), in order of their grants.

use hashbrown::HashMap;

use super::receipts::History;
use super::{Parts, damaged, entries, intact, intact_option};
use crate::engine::state::{ClaimIx, ClaimState, ClaimStatus, CommentOwner, DispatchIx, Projection, Round};
use crate::protocol::fault::ensure;
use crate::protocol::identity::CommentId;
use crate::protocol::json::Node;
use crate::protocol::operation::{Claim, ClaimCancellation, ResultOperation};
use crate::protocol::wire::closed;
use crate::protocol::{At, Code, CommitId, DispatchId, Fault, Reason, Text};

/// Dispatches in order of their first Claims.
pub(super) type Openings = Vec<DispatchId>;

const NAMES: &[(&str, bool); 15] = &[
    ("kind", true),
    ("work_id", true),
    ("claim_id", true),
    ("dispatch_id", true),
    ("handle", true),
    ("observations", true),
    ("state", true),
    ("commit_id", true),
    ("request_id", true),
    ("terminal_commit_id", false),
    ("cancellation_reason", false),
    ("retry_not_before", false),
    ("issue_comment", false),
    ("keep_open", false),
    ("result_commit_id", false),
];

impl Projection {
    /// Restores every Claim. The works are known by id, and not restored yet.
    pub(super) fn restore_claims(
        &mut self,
        parts: &Parts<'_>,
        history: &History<'_>,
        cancellations: &HashMap<Text, Node<'_>>,
        barriers: &mut HashMap<Text, Node<'_>>,
    ) -> Result<Openings, Fault> {
        let mut stored = entries(parts.claims)?;
        let mut dispatches: HashMap<DispatchId, DispatchIx> = HashMap::new();
        let mut openings = Openings::new();
        for grant in &history.grants {
            let node = stored.remove(grant.claim_id.text()).ok_or_else(|| damaged("a granted Claim is missing"))?;
            let slots = closed(node, NAMES, Code::CheckpointInvalid)?;
            let slot = |index: usize| slots[index].ok_or_else(|| damaged("a Claim lacks a member"));
            ensure!(slot(0)?.plain() == Some("Claim"), CheckpointInvalid, "a Claim is of another kind");
            let claim = Claim {
                work_id: intact(slot(1)?)?,
                claim_id: intact(slot(2)?)?,
                dispatch_id: intact(slot(3)?)?,
                handle: intact(slot(4)?)?,
                observations: intact(slot(5)?)?,
            };
            ensure!(claim.claim_id == grant.claim_id, CheckpointInvalid, "a Claim has another id than its key");
            let work = self.work_ids.get(&claim.work_id).copied();
            let work = work.ok_or_else(|| damaged("a Claim's Work is missing"))?;
            let status = read_status(slot(6)?, &claim, cancellations, (slots[9], slots[10], slots[11]))?;
            let status = keep_round(status, (slots[13], slots[14]), barriers.remove(claim.claim_id.text()))?;
            let issue_comment: Option<CommentId> = intact_option(slots[12])?;
            let ix = ClaimIx(self.claims.len() as u32);
            if let Some(comment) = &issue_comment {
                self.comments.insert(comment.clone(), CommentOwner::Claim(ix));
            }
            let next = DispatchIx(openings.len() as u32);
            let dispatch = *dispatches.entry(claim.dispatch_id.clone()).or_insert_with(|| {
                openings.push(claim.dispatch_id.clone());
                next
            });
            self.claim_ids.insert(claim.claim_id.clone(), ix);
            self.claims.push(ClaimState {
                commit_id: intact(slot(7)?)?,
                request_id: intact(slot(8)?)?,
                explanation: Box::new(grant.explanation.clone()),
                claim,
                status,
                issue_comment,
                work,
                dispatch,
            });
        }
        ensure!(stored.is_empty(), CheckpointInvalid, "a Claim was never granted");
        Ok(openings)
    }
}

fn read_status(
    state: Node<'_>,
    claim: &Claim,
    cancellations: &HashMap<Text, Node<'_>>,
    (terminal, reason, boundary): (Option<Node<'_>>, Option<Node<'_>>, Option<Node<'_>>),
) -> Result<ClaimStatus, Fault> {
    let commit_id: Option<CommitId> = intact_option(terminal)?;
    let reason: Option<Reason> = intact_option(reason)?;
    let boundary: Option<At> = intact_option(boundary)?;
    let recorded = cancellations.get(claim.claim_id.text()).copied();
    match (state.plain(), commit_id, reason, boundary, recorded) {
        (Some("open"), None, None, None, None) => Ok(ClaimStatus::Open),
        (Some("completed"), Some(commit_id), None, None, None) => Ok(ClaimStatus::Completed { commit_id, round: None }),
        (Some("cancelled"), Some(commit_id), Some(reason), None, None) => {
            Ok(ClaimStatus::WorkCancelled { reason, commit_id })
        }
        (Some("cancelled"), Some(commit_id), Some(reason), Some(boundary), Some(recorded)) => {
            let operation: ClaimCancellation = intact(recorded)?;
            let same = operation.claim_id == claim.claim_id
                && operation.work_id == claim.work_id
                && operation.reason == reason
                && operation.retry_not_before == boundary;
            ensure!(same, CheckpointInvalid, "a Claim's cancellation is not the recorded one");
            Ok(ClaimStatus::Cancelled { operation, commit_id })
        }
        _ => Err(damaged("a Claim's state and its members do not fit together")),
    }
}

/// The round of a Claim that kept its Work open, with the Result that settled it (engine.md 3.13).
fn keep_round(
    status: ClaimStatus,
    (keep_open, result): (Option<Node<'_>>, Option<Node<'_>>),
    settled: Option<Node<'_>>,
) -> Result<ClaimStatus, Fault> {
    let keep_open = intact_option::<bool>(keep_open)?.unwrap_or(false);
    match (status, keep_open, result, settled) {
        (status, false, None, None) => Ok(status),
        (ClaimStatus::Completed { commit_id, .. }, true, None, None) => {
            Ok(ClaimStatus::Completed { commit_id, round: Some(Box::default()) })
        }
        (ClaimStatus::Completed { commit_id, .. }, true, Some(result), Some(settled)) => {
            let settled = Some((Box::new(intact::<ResultOperation>(settled)?), intact::<CommitId>(result)?));
            Ok(ClaimStatus::Completed { commit_id, round: Some(Box::new(Round { settled })) })
        }
        _ => Err(damaged("a Claim's round and its settlement do not fit together")),
    }
}
