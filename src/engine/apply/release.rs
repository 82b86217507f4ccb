//! Release: capacity is freed by evidence alone.

use crate::engine::mutation::mutated;
use crate::engine::state::{Context, Projection};
use crate::protocol::evidence::EvidenceKind;
use crate::protocol::fault::ensure;
use crate::protocol::operation::Release;
use crate::protocol::{Code, Fault};

impl Projection {
    pub(super) fn apply_release(&mut self, release: &Release, context: &Context<'_>) -> Result<(), Fault> {
        let evidence = &release.evidence;
        self.check_evidence_size(evidence)?;
        let missing = || Fault::new(Code::ReleaseInvalid, "the dispatch is missing or released");
        let ix = self.dispatch_ids.get(&release.dispatch_id).copied().ok_or_else(missing)?;
        let dispatch = self.dispatch_at(ix);
        if dispatch.released && !mutated!(ReleaseTwice) {
            return Err(missing());
        }
        self.match_evidence(dispatch, evidence, context.at, evidence.kind)?;
        ensure!(
            matches!(evidence.kind, EvidenceKind::Prelaunch | EvidenceKind::Nonlaunch | EvidenceKind::TerminalRun)
                || mutated!(ReleaseOnReconciliation),
            ReleaseInvalid,
            "this kind of evidence frees nothing"
        );
        let open = dispatch.members.iter().any(|claim| self.claim_at(*claim).status.is_open());
        ensure!(!open || mutated!(ReleaseWithOpenClaims), ReleaseInvalid, "a member Claim is still open");
        self.change_dispatch(ix, |dispatch| dispatch.released = true);
        Ok(())
    }
}
