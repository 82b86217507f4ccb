//! Requests and their parameters (engine.md 2.3).

use super::fault::ensure;
use super::identity::{Digest, DispatchId, Handle, Identity, PoolName, RequestId, Revision, Within};
use super::json::{Node, Writer};
use super::limits::{MAX_ASSIGNMENT_BYTES, MAX_PROFILES};
use super::wire::{Wire, closed, list, record, words};
use super::{Code, CommitId, Fault};

words! {
    /// The fifteen kinds of request.
    pub enum RequestKind {
        Policy = "policy",
        Deployment = "deployment",
        Control = "control",
        Submit = "submit",
        DispatchNext = "dispatch_next",
        Finish = "finish",
        Observe = "observe",
        Dispatch = "dispatch",
        Release = "release",
        Result = "result",
        DeliveryFailure = "delivery_failure",
        CancelWork = "cancel_work",
        CancelClaim = "cancel_claim",
        Checkpoint = "checkpoint",
        IssueLink = "issue_link",
    }
}

words! {
    /// How a worker ends its Claim.
    pub enum Outcome {
        Completed = "completed",
        Cancelled = "cancelled",
    }
}

/// Most bytes that an assignment may take, as a wire integer.
pub type AssignmentBytes = Within<1, { MAX_ASSIGNMENT_BYTES as i64 }>;

/// Parameters of `dispatch_next`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatchParameters {
    /// The pool to grant from.
    pub pool: PoolName,
    /// Most Claims.
    pub max_claims: Within<1, 256>,
    /// Most dispatches.
    pub max_dispatches: Within<1, 256>,
    /// Most canonical bytes of each assignment.
    pub max_bytes: AssignmentBytes,
    /// Approved worker profiles; absent approves all, empty none.
    pub worker_profiles: Option<Vec<Identity>>,
}

impl Wire for DispatchParameters {
    fn read(node: Node<'_>, _code: Code) -> Result<Self, Fault> {
        const NAMES: &[(&str, bool); 5] = &[
            ("pool", true),
            ("max_claims", true),
            ("max_dispatches", true),
            ("max_bytes", true),
            ("worker_profiles", false),
        ];
        let slots = closed(node, NAMES, Code::LedgerInvalid)?;
        let slot = |index: usize| slots[index].ok_or_else(|| Fault::from(Code::LedgerInvalid));
        let parameters = Self {
            pool: PoolName::read(slot(0)?, Code::LedgerInvalid)?,
            max_claims: Within::read(slot(1)?, Code::LedgerInvalid)?,
            max_dispatches: Within::read(slot(2)?, Code::LedgerInvalid)?,
            max_bytes: Within::read(slot(3)?, Code::LedgerInvalid)?,
            worker_profiles: slots[4].map(|node| list(node, 0, MAX_PROFILES, Code::RequestInvalid)).transpose()?,
        };
        let mut sorted = parameters.worker_profiles.clone().unwrap_or_default();
        sorted.sort_unstable();
        ensure!(sorted.windows(2).all(|pair| pair[0] != pair[1]), RequestInvalid, "worker_profiles repeats a profile");
        Ok(parameters)
    }

    fn write(&self, writer: &mut Writer) {
        writer.object(|members| {
            members.name("max_bytes", |w| self.max_bytes.write(w));
            members.name("max_claims", |w| self.max_claims.write(w));
            members.name("max_dispatches", |w| self.max_dispatches.write(w));
            members.name("pool", |w| self.pool.write(w));
            if let Some(profiles) = &self.worker_profiles {
                members.name("worker_profiles", |w| w.array(profiles, |w, profile| profile.write(w)));
            }
        });
    }
}

record! {
    /// Parameters of `finish`. `keep_open: false` reads as absent (decision 30).
    pub struct FinishParameters, closed LedgerInvalid, check check {
        dispatch_id: DispatchId = "dispatch_id";
        claim_handle: Handle = "claim_handle";
        outcome: Outcome = "outcome" => RequestInvalid;
        keep_open [optional]: bool = "keep_open" => RequestInvalid;
    }
}

impl FinishParameters {
    fn check(&self) -> Result<(), Fault> {
        ensure!(
            !self.keeps_open() || self.outcome == Outcome::Completed,
            RequestInvalid,
            "only a completed Claim can keep its Work open"
        );
        Ok(())
    }

    /// True if the Work is to stay open after this round.
    #[must_use]
    pub fn keeps_open(&self) -> bool {
        self.keep_open == Some(true)
    }
}

record! {
    /// Parameters of `checkpoint`.
    pub struct CheckpointParameters, closed CheckpointInvalid {
        prior_git_sha: Revision = "prior_git_sha" => CheckpointInvalid;
        prior_tip: CommitId = "prior_tip" => CheckpointInvalid;
        history_sha256: Digest = "history_sha256" => CheckpointInvalid;
        state_sha256: Digest = "state_sha256" => CheckpointInvalid;
    }
}

/// A request's parameters. Those that only repeat the commit's operations are not kept twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameters {
    /// `submit`: the nodes are the commit's Work operations.
    Nodes,
    /// `dispatch_next`.
    Dispatch(DispatchParameters),
    /// `finish`.
    Finish(FinishParameters),
    /// `checkpoint`.
    Checkpoint(CheckpointParameters),
    /// Every other kind, and a submission that lists something else than Work: the parameters are the commit's
    /// operations. Such a submission is no bootstrap.
    Operations,
}

/// A validated request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Stable id.
    pub id: RequestId,
    /// Kind.
    pub kind: RequestKind,
    /// Parameters.
    pub parameters: Parameters,
    /// SHA-256 of the canonical `{actor, kind, parameters}`.
    pub fingerprint: Digest,
}

/// The fingerprint of a request (engine.md 1.7) from canonical texts.
#[must_use]
pub fn fingerprint(actor: &str, kind: RequestKind, parameters: &str) -> Digest {
    Digest::of(&fingerprinted(actor, kind, parameters))
}

/// The text that a fingerprint is the digest of, in parts.
pub(crate) fn fingerprinted<'a>(actor: &'a str, kind: RequestKind, parameters: &'a str) -> [&'a str; 7] {
    ["{\"actor\":", actor, ",\"kind\":\"", kind.as_str(), "\",\"parameters\":", parameters, "}"]
}
