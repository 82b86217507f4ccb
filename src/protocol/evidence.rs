//! Evidence and run bindings (engine.md 2.6, 2.7).

use super::Fault;
use super::fault::ensure;
use super::identity::{At, Decimal, FirstAttempt, Identity, Revision, Within};
use super::limits::MAX_ATTEMPT;
use super::wire::{record, words};

words! {
    /// What a piece of evidence shows.
    pub enum EvidenceKind {
        Prelaunch = "prelaunch",
        Nonlaunch = "nonlaunch",
        TerminalRun = "terminal_run",
        Delivery = "delivery",
        Reconciliation = "reconciliation",
    }
}

words! {
    /// Who vouches for it.
    pub enum EvidenceSource {
        TrustedPublisher = "trusted_publisher",
        GithubApi = "github_api",
        TrustedActivation = "trusted_activation",
        VerifiedReceipts = "verified_receipts",
    }
}

words! {
    /// What is known of a failed delivery's effects.
    pub enum Effects {
        None = "none",
        Partial = "partial",
        Unknown = "unknown",
    }
}

words! {
    /// The only run status that evidence may carry.
    pub enum RunStatus {
        Completed = "completed",
    }
}

record! {
    /// Proof carried by a lifecycle operation. Its canonical size is bounded by the Policy's `evidence_bytes`.
    pub struct Evidence, closed LedgerInvalid {
        kind: EvidenceKind = "kind" => EvidenceInvalid;
        source: EvidenceSource = "source" => EvidenceInvalid;
        repository: Identity = "repository";
        workflow: Identity = "workflow";
        revision [identity]: Revision = "ref" => EvidenceInvalid;
        principal [identity]: Decimal = "principal" => EvidenceInvalid;
        conclusion [optional]: Identity = "conclusion";
        receipt [optional]: Identity = "receipt";
        checked_at: At = "checked_at";
        run_id [optional]: Decimal = "run_id";
        run_attempt [optional]: FirstAttempt = "run_attempt" => EvidenceInvalid;
        attempts [optional]: Within<1, MAX_ATTEMPT> = "attempts";
        effects [optional]: Effects = "effects" => EvidenceInvalid;
        status [optional]: RunStatus = "status" => EvidenceInvalid;
    }
}

record! {
    /// The native run that a dispatch is bound to.
    pub struct RunBinding, closed LedgerInvalid, check check {
        run_id: Decimal = "run_id";
        run_attempt: FirstAttempt = "run_attempt" => RunBindingConflict;
        repository: Identity = "repository";
        workflow: Identity = "workflow";
        revision [identity]: Revision = "ref" => RunBindingConflict;
        principal [identity]: Decimal = "principal" => RunBindingConflict;
        event: Identity = "event";
    }
}

impl RunBinding {
    fn check(&self) -> Result<(), Fault> {
        ensure!(
            self.event.as_str() == "workflow_dispatch",
            RunBindingConflict,
            "a worker run comes from workflow_dispatch"
        );
        Ok(())
    }
}
