//! Everything about one Work or one Claim but its payload, as text in blocks (operator-cli.md 4.4). ASCII only.

use super::quote;
use crate::engine::Projection;
use crate::engine::state::{ClaimState, ClaimStatus, Delivery, DispatchState, Ownership, WorkState};
use crate::protocol::At;
use crate::protocol::resource::Edge;

/// Longest text, in bytes; what goes beyond is cut at a line and said to be missing.
const MAX_DETAILS: usize = 65_280;
/// Most Claims that the ownership block lists; all are counted.
pub const MAX_ATTEMPTS: usize = 64;

/// What was selected: a Work, and the selected Claim or the Work's current or last one.
#[derive(Clone, Copy, Debug)]
pub struct Details<'a> {
    /// The state.
    pub projection: &'a Projection,
    /// The time of evaluation.
    pub at: At,
    /// The Work.
    pub work: &'a WorkState,
    /// The Claim, where there is one.
    pub claim: Option<&'a ClaimState>,
}

/// Commit, reason and retry boundary that ended a Claim.
#[must_use]
pub fn terminal(status: &ClaimStatus) -> (Option<&str>, Option<&str>, Option<At>) {
    match status {
        ClaimStatus::Open => (None, None, None),
        ClaimStatus::Completed { commit_id, .. } => (Some(commit_id.as_str()), None, None),
        ClaimStatus::Cancelled { operation, commit_id } => {
            (Some(commit_id.as_str()), Some(operation.reason.as_str()), Some(operation.retry_not_before))
        }
        ClaimStatus::WorkCancelled { reason, commit_id } => (Some(commit_id.as_str()), Some(reason.as_str()), None),
    }
}

impl Details<'_> {
    /// The blocks in their fixed order, one blank line between.
    #[must_use]
    pub fn text(&self) -> String {
        let tip = self.projection.tip().map_or("", |tip| tip.as_str());
        let epoch = self.projection.installed().map_or("", |installed| installed.epoch.as_str());
        let mut blocks = vec![
            format!("Tip: {}\nPolicy: {}\nEvaluated at: {}", quote(tip), quote(epoch), self.at.get()),
            self.work_block(),
        ];
        if let Some(claim) = self.claim {
            blocks.push(self.claim_block(claim));
            blocks.push(self.dispatch_block(self.projection.dispatch_of(claim)));
        }
        blocks.extend([self.ownership_block(), self.dependency_block()]);
        blocks.push(
            "Cancellation is final. A reservation is freed by evidence alone. Payloads are not shown here.".to_owned(),
        );
        let mut text = blocks.join("\n\n");
        if text.len() > MAX_DETAILS {
            // Everything above is ASCII, so any byte is a boundary.
            let cut = text[..MAX_DETAILS].rfind('\n').unwrap_or(MAX_DETAILS);
            text.truncate(cut);
            text.push_str("\n(the rest is left out)");
        }
        text
    }

    fn work_block(&self) -> String {
        let (state, work) = (self.work, &self.work.work);
        let view = self.projection.view_work(state, self.at, None);
        let mut lines = vec![
            format!("WORK {}", quote(work.node_key.as_str())),
            format!("ID: {}", quote(work.work_id.as_str())),
            format!("Graph: {}", quote(work.graph_id.as_str())),
            format!("Pool: {}", quote(work.pool.as_str())),
            format!(
                "Priority: {} (admitted {}; policy-weighted class)",
                state.scheduling_priority().get(),
                work.priority.get()
            ),
            format!("Fairness key: {}", quote(work.fairness_key.as_str())),
            format!("Worker profile: {}", quote(work.worker_profile.as_str())),
            format!("State: {} | scheduling: {} (snapshot)", state.state(), view.reason),
            format!("Label: {}", view.label),
            format!("Position: {}/{} | attempts: {}", state.position.commit, state.position.operation, state.attempts),
            format!("Retry not before: {}", state.retry_not_before.get()),
        ];
        if let Some(pin) = &work.execution_ref {
            lines.push(format!("Execution pin: {}", quote(pin.as_str())));
        }
        if let Some(contract) = &state.admission_contract {
            lines.push(format!("Admission contract: {}", quote(contract.as_str())));
        }
        if let Some(owner) = self.projection.owner_of(state) {
            lines.push(format!("Current/last Claim: {}", quote(owner.claim.claim_id.as_str())));
        }
        self.delivery_lines(&mut lines);
        if !view.blocking_path.is_empty() {
            let path: Vec<String> = view.blocking_path.iter().map(|id| quote(id.as_str())).collect();
            lines.push(format!("Blocked by: {}", path.join(" <- ")));
        }
        lines.join("\n")
    }

    fn delivery_lines(&self, lines: &mut Vec<String>) {
        let barrier = self.work.barrier().as_str();
        match &self.work.ownership {
            Ownership::Completed { completion_id, delivery, keep_open, .. } => {
                lines.push(match delivery {
                    Delivery::Failed(failure) => {
                        format!("Delivery: {barrier} | disposition: {}", quote(failure.disposition.as_str()))
                    }
                    _ => format!("Delivery: {barrier}"),
                });
                lines.push(format!("Completion: {}", quote(completion_id.as_str())));
                if let Delivery::Verified { commit_id, .. } = delivery {
                    lines.push(format!("Result commit: {}", quote(commit_id.as_str())));
                }
                if *keep_open {
                    lines.push("Kept open: a verified delivery makes the Work available again".to_owned());
                }
            }
            Ownership::Cancelled { operation, commit_id, .. } => {
                let (reason, commit) = (quote(operation.reason.as_str()), quote(commit_id.as_str()));
                lines.push(format!("Delivery: {barrier}"));
                lines.push(format!("Cancellation: {reason} in {commit}"));
            }
            Ownership::Available | Ownership::Claimed(_) => lines.push(format!("Delivery: {barrier}")),
        }
    }

    fn claim_block(&self, claim: &ClaimState) -> String {
        let mut lines = vec![
            format!("CLAIM {}", quote(claim.claim.claim_id.as_str())),
            format!("State: {} | current: {}", claim.status.as_str(), self.projection.is_current(claim)),
            format!("Handle: {}", quote(claim.claim.handle.as_str())),
            format!("Grant commit: {}", quote(claim.commit_id.as_str())),
            format!("Request: {}", quote(claim.request_id.as_str())),
        ];
        let (commit, reason, retry) = terminal(&claim.status);
        lines.extend(commit.map(|commit| format!("Terminal commit: {}", quote(commit))));
        lines.extend(reason.map(|reason| format!("Reason: {}", quote(reason))));
        lines.extend(retry.map(|retry| format!("Retry not before: {}", retry.get())));
        lines.join("\n")
    }

    fn dispatch_block(&self, dispatch: &DispatchState) -> String {
        let assignment = &dispatch.assignment;
        let mut lines = vec![
            format!("DISPATCH {}", quote(assignment.dispatch_id.as_str())),
            format!("State: {} | native reservation retained: {}", dispatch.phase.as_str(), !dispatch.released),
            format!("Launch started: {} | run bound: {}", dispatch.sender.is_some(), dispatch.run.is_some()),
            format!("Original assignment: {} Claims (immutable)", assignment.claims.len()),
            format!("Profile: {}", quote(assignment.worker_profile.as_str())),
        ];
        if let Some(run) = &dispatch.run {
            lines.push(format!("Run: {} attempt 1", quote(run.run_id.as_str())));
            lines.push(format!("Workflow: {}", quote(run.workflow.as_str())));
            lines.push(format!("Revision: {}", quote(run.revision.as_str())));
            lines.push(format!("Principal: {}", quote(run.principal.as_str())));
        }
        for member in &assignment.claims {
            let claim = self.projection.claim(member.claim_id.as_str());
            let work = self.projection.work(member.work_id.as_str());
            lines.push(format!(
                "  member: {} -> Work {} handle={} [{} delivery={}]",
                quote(member.claim_id.as_str()),
                quote(member.work_id.as_str()),
                quote(member.handle.as_str()),
                claim.map_or("unknown", |claim| claim.status.as_str()),
                work.map_or("unknown", |work| work.barrier().as_str()),
            ));
        }
        lines.join("\n")
    }

    /// Every Claim that the Work ever had, the current or last one first.
    fn ownership_block(&self) -> String {
        let attempts = self.projection.attempts_of(self.work);
        let mut lines = vec![format!("OWNERSHIP ({} Claims)", attempts.len())];
        if attempts.is_empty() {
            lines.push("None".to_owned());
        }
        for claim in attempts.iter().take(MAX_ATTEMPTS) {
            let mut line = format!(
                "  C {} [{} {}] handle={} dispatch={}",
                quote(claim.claim.claim_id.as_str()),
                claim.status.as_str(),
                if self.projection.is_current(claim) { "current" } else { "history" },
                quote(claim.claim.handle.as_str()),
                quote(claim.claim.dispatch_id.as_str()),
            );
            if let Some(round) = claim.status.round() {
                let result = round
                    .settled
                    .as_ref()
                    .map_or_else(String::new, |(_, commit)| format!(" result={}", quote(commit.as_str())));
                line.push_str(&format!(" kept-open{result}"));
            }
            let (commit, reason, _) = terminal(&claim.status);
            if let Some(commit) = commit {
                line.push_str(&format!(" ended={}", quote(commit)));
            }
            if let Some(reason) = reason {
                line.push_str(&format!(" reason={}", quote(reason)));
            }
            lines.push(line);
        }
        if attempts.len() > MAX_ATTEMPTS {
            lines.push(format!("  and {} earlier", attempts.len() - MAX_ATTEMPTS));
        }
        lines.join("\n")
    }

    fn dependency_block(&self) -> String {
        let edges = &self.work.work.depends_on;
        let mut lines = vec![format!("DEPENDENCIES ({})", edges.len())];
        if edges.is_empty() {
            lines.push("None".to_owned());
        }
        let mut latest = Vec::new();
        for edge in edges {
            lines.push(match edge {
                Edge::Work(id) => match self.projection.work(id.as_str()) {
                    Some(work) => format!(
                        "  Work {} {}: {} delivery={}",
                        quote(id.as_str()),
                        quote(work.work.node_key.as_str()),
                        work.state(),
                        work.barrier().as_str()
                    ),
                    None => format!("  Work {}: not admitted", quote(id.as_str())),
                },
                Edge::Gate(gate) => {
                    let view = self.projection.gate_view(self.work, gate, self.at);
                    latest.extend(view.observation.map(|seen| seen.observation_id.clone()));
                    let word = view.reason;
                    format!(
                        "  {} {} #{}: requires {} ({word})",
                        gate.resource.kind,
                        quote(gate.resource.repository.as_str()),
                        quote(gate.resource.number.as_str()),
                        gate.condition
                    )
                }
            });
        }
        // A Claim rests on what was seen when it was granted, whatever was seen since.
        let seen = self.claim.map_or(latest, |claim| claim.claim.observations.0.clone());
        lines.extend(seen.iter().map(|id| format!("Observation: {}", quote(id.as_str()))));
        lines.join("\n")
    }
}
