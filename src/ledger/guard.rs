//! What our publishers refuse although replay would accept it (decisions 5, 6, 7, 53, 60, 62; operator-cli.md 14 and 1
//! for controls beside priorities and for who revokes Claims): existing ledgers stay readable, and new ones stay out of
//! corners that the format leaves open.

use std::collections::HashMap;

use crate::engine::mutation::mutated;
use crate::engine::state::{Delivery, Ownership, WorkState};
use crate::engine::{Generated, Projection};
use crate::protocol::Fault;
use crate::protocol::actor::Role;
use crate::protocol::evidence::Effects;
use crate::protocol::fault::ensure;
use crate::protocol::operation::{DispatchStep, Operation};
use crate::protocol::policy::Policy;

/// Deepest payload, in nested objects and arrays: one deeper could not stand inside a checkpoint.
const MAX_PAYLOAD_DEPTH: usize = 54;
/// Deepest Result descriptor, for the same reason.
const MAX_DESCRIPTOR_DEPTH: usize = 52;

/// A proposal beside an installed Policy (publication.md 3.4): an AW-managed one is ignored, an explicit historical
/// one must be the installed one.
///
/// # Errors
/// `policy_proposal_mismatch`.
pub(super) fn check_proposal(projection: &Projection, proposal: Option<&Policy>) -> Result<(), Fault> {
    let Some(proposed) = proposal else { return Ok(()) };
    let same = projection.installed().is_some_and(|installed| installed.policy.source == proposed.source);
    ensure!(same || proposed.aw, PolicyProposalMismatch, "the proposed Policy differs from the installed one");
    Ok(())
}

/// A decided commit, against the state before it (none at genesis).
///
/// # Errors
/// `request_invalid` for a submission of known and new Work together and for controls beside priorities,
/// `resource_limit` for the queue-wide count of pending nodes and for depth, `admission_unauthorized` for a graph under
/// two accounting keys, `remediation_verifier_required`, `observation_invalid` for a time before the gate's current one,
/// `unauthorized_operation` for another role than an administrator that cancels Work by its Claim, and
/// `run_binding_conflict` for a worker that moves anything but its own dispatch to `bound`.
pub(super) fn check_admission(before: Option<&Projection>, generated: &Generated) -> Result<(), Fault> {
    let (commit, next) = (&generated.commit, &generated.next);
    let (mut new, mut known) = (Vec::new(), 0_usize);
    let (mut controls, mut priorities) = (0_usize, 0_usize);
    for operation in &commit.operations {
        match operation {
            Operation::Work(node) if before.is_some_and(|before| before.work(node.work_id.as_str()).is_some()) => {
                known += 1;
            }
            Operation::Work(node) => new.extend(next.work(node.work_id.as_str())),
            Operation::Observation(observation) => {
                let earlier = before.and_then(|before| before.observations.get(&observation.gate()));
                ensure!(
                    earlier.is_none_or(|earlier| earlier.observed_at <= observation.observed_at),
                    ObservationInvalid,
                    "the gate was observed later than that already"
                );
            }
            Operation::Dispatch(dispatch) if commit.actor.role == Role::Worker => {
                let own = commit.actor.dispatch_id.as_ref() == Some(&dispatch.dispatch_id);
                ensure!(
                    own && dispatch.state == DispatchStep::Bound,
                    RunBindingConflict,
                    "a worker binds its own dispatch and moves no other"
                );
            }
            Operation::WorkCancellation(cancellation) if cancellation.claim_id.is_some() => {
                ensure!(
                    commit.actor.role == Role::Administrator,
                    UnauthorizedOperation,
                    "revoking a Claim is an administrator's"
                );
            }
            Operation::Control(_) => controls += 1,
            Operation::WorkPriority(_) => priorities += 1,
            Operation::Result(result) => {
                let depth = depth(result.descriptor.0.as_str());
                ensure!(depth <= MAX_DESCRIPTOR_DEPTH, ResourceLimit, "the descriptor is nested too deeply");
            }
            _ => {}
        }
    }
    ensure!(
        known == 0 || new.is_empty(),
        RequestInvalid,
        "the submission mixes admitted and new Work; submit the new Work alone"
    );
    ensure!(controls == 0 || priorities == 0, RequestInvalid, "a request changes controls or priorities, not both");
    check_new(before, next, &new, commit.actor.role)
}

fn check_new(before: Option<&Projection>, next: &Projection, new: &[&WorkState], role: Role) -> Result<(), Fault> {
    if new.is_empty() {
        return Ok(());
    }
    let installed = next.policy()?;
    ensure!(
        u64::from(next.active_works) <= installed.policy.limits.pending_nodes,
        ResourceLimit,
        "the queue has too many pending nodes"
    );
    // The first node of each graph that the submission touches, in order of admission.
    let mut keys: HashMap<&str, &str> = HashMap::new();
    for state in new {
        keys.entry(state.work.graph_id.as_str()).or_insert("");
    }
    for state in next.works() {
        if let Some(key) = keys.get_mut(state.work.graph_id.as_str())
            && key.is_empty()
        {
            *key = state.work.fairness_key.as_str();
        }
    }
    for state in new {
        let work = &state.work;
        ensure!(depth(work.payload.as_str()) <= MAX_PAYLOAD_DEPTH, ResourceLimit, "the payload is nested too deeply");
        let first = keys.get(work.graph_id.as_str()).copied().unwrap_or_default();
        ensure!(
            role == Role::Administrator || first == work.fairness_key.as_str(),
            AdmissionUnauthorized,
            "a graph keeps the accounting key of its first node"
        );
        if let Some(replaced) = &work.replacement_of {
            let failed = before.and_then(|before| before.work(replaced.work_id.as_str()));
            let doubtful = failed.is_some_and(|failed| match &failed.ownership {
                Ownership::Completed { delivery: Delivery::Failed(failure), .. } => {
                    failure.disposition != Effects::None
                }
                _ => false,
            });
            ensure!(
                !doubtful || mutated!(ReplaceUnremedied),
                RemediationVerifierRequired,
                "the replaced Work may have had effects, and nothing here can verify their remediation"
            );
        }
    }
    Ok(())
}

/// How many objects and arrays of canonical JSON stand inside each other at most.
fn depth(text: &str) -> usize {
    let (mut open, mut deepest, mut string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if string => escaped = true,
            b'"' => string = !string,
            _ if string => {}
            b'{' | b'[' => {
                open += 1;
                deepest = deepest.max(open);
            }
            b'}' | b']' => open = open.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::depth;

    #[test]
    fn depth_counts_brackets_outside_strings() {
        assert_eq!(depth("1"), 0);
        assert_eq!(depth(r#"{"a":[1,[2]],"b":{}}"#), 3);
        assert_eq!(depth(r#"{"[[[":"\"]{{{\\"}"#), 1);
    }
}
