//! Whether evidence speaks of a dispatch (engine.md 3.5).

use super::state::{DispatchPhase, DispatchState, Projection};
use crate::engine::mutation::mutated;
use crate::protocol::evidence::{Evidence, EvidenceKind, EvidenceSource};
use crate::protocol::fault::ensure;
use crate::protocol::{At, Fault, Measured};

impl Projection {
    /// `cb(evidence) <= evidence_bytes`, which every operation with evidence checks before anything else.
    pub(crate) fn check_evidence_size(&self, evidence: &Measured<Evidence>) -> Result<(), Fault> {
        let installed = self.rules()?;
        ensure!(
            evidence.bytes() <= installed.policy.limits.evidence_bytes,
            ResourceLimit,
            "the evidence exceeds its limit"
        );
        Ok(())
    }

    pub(crate) fn match_evidence(
        &self,
        dispatch: &DispatchState,
        evidence: &Measured<Evidence>,
        at: At,
        kind: EvidenceKind,
    ) -> Result<(), Fault> {
        self.check_evidence_size(evidence)?;
        let repository = self.repository.as_ref().map_or("", |repository| repository.as_str());
        let profile = &dispatch.profile;
        let scoped = evidence.kind == kind
            && (evidence.checked_at <= at || mutated!(EvidenceFromTheFuture))
            && evidence.repository.as_str() == repository
            && evidence.workflow == profile.workflow
            && evidence.revision == profile.revision
            && match dispatch.principal() {
                Some(principal) => evidence.principal == *principal,
                None => {
                    self.installed.as_ref().is_some_and(|installed| installed.policy.aw)
                        && dispatch.phase == DispatchPhase::Reserved
                        && kind == EvidenceKind::Prelaunch
                }
            };
        ensure!(scoped, EvidenceInvalid, "the evidence is out of the dispatch's scope");
        let run = dispatch.run.as_ref();
        let fits = match kind {
            EvidenceKind::TerminalRun | EvidenceKind::Delivery => {
                let bound = run
                    .is_some_and(|run| evidence.run_id.as_ref() == Some(&run.run_id) || mutated!(TerminalOfAnyRun))
                    && evidence.run_attempt.is_some();
                let proven = if kind == EvidenceKind::TerminalRun {
                    evidence.source == EvidenceSource::GithubApi
                        && evidence.status.is_some()
                        && evidence.conclusion.is_some()
                } else {
                    evidence.source == EvidenceSource::VerifiedReceipts && evidence.receipt.is_some()
                };
                bound && proven
            }
            EvidenceKind::Prelaunch => {
                ((dispatch.phase == DispatchPhase::Reserved && dispatch.sender.is_none())
                    || mutated!(PrelaunchAfterStart))
                    && run.is_none()
                    && evidence.source == EvidenceSource::TrustedPublisher
            }
            EvidenceKind::Nonlaunch => {
                (run.is_none() || mutated!(NonlaunchDespiteRun))
                    && evidence.source == EvidenceSource::GithubApi
                    && evidence.receipt.is_some()
            }
            EvidenceKind::Reconciliation => true,
        };
        ensure!(fits, EvidenceInvalid, "the evidence does not prove what it is for");
        Ok(())
    }
}
