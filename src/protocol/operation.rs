//! The seventeen operations (engine.md 2.5).

use super::actor::Actor;
use super::evidence::{Effects, Evidence, RunBinding};
use super::fault::ensure;
use super::identity::{
    At, ClaimId, CommentId, CommitId, Decimal, Digest, DispatchId, Epoch, FirstAttempt, Generation, Handle, Identity,
    ObservationId, Opaque, Priority, Reason, Revision, WorkId,
};
use super::json::{Kind, Node, Writer};
use super::limits::MAX_CLAIM_OBSERVATIONS;
use super::policy::{Policy, WorkerProfile};
use super::resource::{Condition, GateKey, Resource, ResourceKind};
use super::wire::{Measured, Wire, closed, list, record, words};
use super::work::WorkDraft;
use super::{Code, Fault};

words! {
    /// Names of the operations.
    pub enum OperationKind {
        Policy = "Policy",
        Deployment = "Deployment",
        Control = "Control",
        Work = "Work",
        WorkPriority = "WorkPriority",
        Claim = "Claim",
        Completion = "Completion",
        Result = "Result",
        DeliveryFailure = "DeliveryFailure",
        Observation = "Observation",
        ClaimCancellation = "ClaimCancellation",
        WorkCancellation = "WorkCancellation",
        Dispatch = "Dispatch",
        Release = "Release",
        Checkpoint = "Checkpoint",
        IssueLink = "IssueLink",
        IssueComment = "IssueComment",
    }
}

words! {
    /// The states that a Dispatch operation moves a dispatch to.
    pub enum DispatchStep {
        Started = "started",
        Bound = "bound",
        Rejected = "rejected",
        Uncertain = "uncertain",
        Unresolved = "unresolved",
    }
}

words! {
    /// State of an observed gate.
    pub enum GateState {
        Ready = "ready",
        Waiting = "waiting",
        Failed = "failed",
        Unknown = "unknown",
    }
}

words! {
    /// Why an Issue is closed or open.
    pub enum StateReason {
        Completed = "completed",
        NotPlanned = "not_planned",
        Reopened = "reopened",
    }
}

words! {
    /// Native state of an Issue or pull request.
    pub enum ResourceState {
        Open = "open",
        Closed = "closed",
    }
}

record! {
    /// Installs a Policy under a new epoch.
    pub struct PolicyOperation, closed UnsupportedProtocol, kind "Policy" {
        epoch: Epoch = "epoch";
        policy: Policy = "policy";
    }
}

/// A switch of the queue as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Stops or resumes admission of new Work.
    AdmissionPaused(bool),
    /// Stops or resumes grants.
    GrantsPaused(bool),
    /// Makes a credential generation the current one.
    CredentialGeneration(Generation),
}

/// Changes one [`Switch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// The change.
    pub switch: Switch,
    /// Why.
    pub reason: Reason,
}

impl Wire for Control {
    fn read(node: Node<'_>, _code: Code) -> Result<Self, Fault> {
        let names = [("kind", true), ("control", true), ("value", true), ("reason", true)];
        let slots = closed(node, &names, Code::UnsupportedProtocol)?;
        let slot = |index: usize| slots[index].ok_or_else(|| Fault::from(Code::UnsupportedProtocol));
        let reason = Reason::read(slot(3)?, Code::ReasonInvalid)?;
        let value = slot(2)?;
        let switch = match slot(1)?.plain() {
            Some("admission_paused") => Switch::AdmissionPaused(bool::read(value, Code::ControlInvalid)?),
            Some("grants_paused") => Switch::GrantsPaused(bool::read(value, Code::ControlInvalid)?),
            Some("credential_generation") => {
                Switch::CredentialGeneration(Generation::read(value, Code::LedgerInvalid)?)
            }
            _ => return Err(node.fault(Code::ControlInvalid, "an unknown control")),
        };
        Ok(Self { switch, reason })
    }

    fn write(&self, writer: &mut Writer) {
        let name = match &self.switch {
            Switch::AdmissionPaused(_) => "admission_paused",
            Switch::GrantsPaused(_) => "grants_paused",
            Switch::CredentialGeneration(_) => "credential_generation",
        };
        writer.object(|members| {
            members.name("control", |w| w.string(name));
            members.name("kind", |w| w.string("Control"));
            members.name("reason", |w| self.reason.write(w));
            members.name("value", |w| match &self.switch {
                Switch::AdmissionPaused(value) | Switch::GrantsPaused(value) => w.bool(*value),
                Switch::CredentialGeneration(generation) => generation.write(w),
            });
        });
    }
}

record! {
    /// Changes the priority of available Work for future selections.
    pub struct WorkPriority, closed UnsupportedProtocol, kind "WorkPriority" {
        work_id: WorkId = "work_id";
        reason: Reason = "reason" => ReasonInvalid;
        priority: Priority = "priority";
        expected_priority: Priority = "expected_priority";
    }
}

/// Observations that a Claim rests on: at most 64, all different, in edge order.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Observations(pub Vec<ObservationId>);

impl Wire for Observations {
    fn read(node: Node<'_>, code: Code) -> Result<Self, Fault> {
        let ids: Vec<ObservationId> = list(node, 0, MAX_CLAIM_OBSERVATIONS, code)?;
        let mut sorted: Vec<&ObservationId> = ids.iter().collect();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(node.fault(code, "a Claim repeats an observation"));
        }
        Ok(Self(ids))
    }

    fn write(&self, writer: &mut Writer) {
        writer.array(&self.0, |w, id| id.write(w));
    }
}

record! {
    /// Grants one Work to a dispatch.
    pub struct Claim, closed UnsupportedProtocol, kind "Claim" {
        work_id: WorkId = "work_id";
        claim_id: ClaimId = "claim_id";
        dispatch_id: DispatchId = "dispatch_id";
        handle: Handle = "handle";
        observations: Observations = "observations" => ClaimInvalid;
    }
}

record! {
    /// A worker says that its Claim is done. `keep_open: false` reads as absent (decision 30).
    pub struct Completion, closed UnsupportedProtocol, kind "Completion" {
        work_id: WorkId = "work_id";
        claim_id: ClaimId = "claim_id";
        dispatch_id: DispatchId = "dispatch_id";
        claim_handle: Handle = "claim_handle";
        run_id: Decimal = "run_id";
        run_attempt: FirstAttempt = "run_attempt" => RunBindingConflict;
        keep_open [optional]: bool = "keep_open" => RequestInvalid;
    }
}

impl Completion {
    /// True if the Work is to stay open after this round.
    #[must_use]
    pub fn keeps_open(&self) -> bool {
        self.keep_open == Some(true)
    }
}

/// A Result's descriptor: any object, kept as canonical text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor(pub Opaque);

impl Wire for Descriptor {
    fn read(node: Node<'_>, code: Code) -> Result<Self, Fault> {
        if node.kind() == Kind::Object {
            Opaque::read(node, code).map(Self)
        } else {
            Err(node.fault(code, "an object was expected"))
        }
    }

    fn write(&self, writer: &mut Writer) {
        self.0.write(writer);
    }
}

record! {
    /// Verified delivery of a completed Claim.
    pub struct ResultOperation, closed UnsupportedProtocol, kind "Result" {
        work_id: WorkId = "work_id";
        claim_id: ClaimId = "claim_id";
        completion_id: CommitId = "completion_id";
        evidence: Measured<Evidence> = "evidence";
        descriptor: Descriptor = "descriptor" => ResultInvalid;
    }
}

record! {
    /// Delivery that reconciliation gave up.
    pub struct DeliveryFailure, closed UnsupportedProtocol, kind "DeliveryFailure" {
        work_id: WorkId = "work_id";
        claim_id: ClaimId = "claim_id";
        completion_id: CommitId = "completion_id";
        reason: Reason = "reason" => ReasonInvalid;
        evidence: Measured<Evidence> = "evidence";
        disposition: Effects = "disposition" => EvidenceInvalid;
    }
}

record! {
    /// What was seen of one gate.
    pub struct Observation, closed UnsupportedProtocol, kind "Observation", check check {
        observation_id: ObservationId = "observation_id";
        credential_generation: Generation = "credential_generation";
        read_status: Identity = "read_status";
        resource: Resource = "resource";
        condition: Condition = "condition" => ObservationInvalid;
        state: GateState = "state" => ObservationInvalid;
        observed_at: At = "observed_at";
        source_updated_at [optional]: At = "source_updated_at";
        state_reason [optional]: StateReason = "state_reason" => ObservationInvalid;
        resource_state [optional]: ResourceState = "resource_state" => ObservationInvalid;
        merged [optional]: bool = "merged" => ObservationInvalid;
        merge_commit [optional]: Identity = "merge_commit";
    }
}

impl Observation {
    fn check(&self) -> Result<(), Fault> {
        let issue = self.resource.kind == ResourceKind::Issue;
        ensure!(
            issue == (self.condition != Condition::Merged),
            ObservationInvalid,
            "the condition does not fit the resource's kind"
        );
        ensure!(
            !issue || (self.merged.is_none() && self.merge_commit.is_none()),
            ObservationInvalid,
            "an Issue has no merge"
        );
        ensure!(
            self.state != GateState::Ready || self.satisfies(),
            ObservationInvalid,
            "a ready observation does not satisfy its predicate"
        );
        Ok(())
    }

    /// The gate's predicate (engine.md 2.8).
    #[must_use]
    pub fn satisfies(&self) -> bool {
        self.state == GateState::Ready
            && self.read_status.as_str() == "ok"
            && match self.resource.kind {
                ResourceKind::Issue => {
                    self.resource_state == Some(ResourceState::Closed)
                        && (self.condition == Condition::Closed || self.state_reason == Some(StateReason::Completed))
                }
                ResourceKind::PullRequest => {
                    self.condition == Condition::Merged && self.merged == Some(true) && self.merge_commit.is_some()
                }
            }
    }

    /// The gate observed.
    #[must_use]
    pub fn gate(&self) -> GateKey {
        self.resource.gate(self.condition)
    }
}

record! {
    /// Gives a Claim up; its Work may be granted again after the boundary.
    pub struct ClaimCancellation, closed UnsupportedProtocol, kind "ClaimCancellation" {
        work_id: WorkId = "work_id";
        claim_id: ClaimId = "claim_id";
        reason: Reason = "reason" => ReasonInvalid;
        retry_not_before: At = "retry_not_before";
    }
}

record! {
    /// Ends Work for good. With `claim_id` only while that Claim owns it.
    pub struct WorkCancellation, closed UnsupportedProtocol, kind "WorkCancellation" {
        work_id: WorkId = "work_id";
        claim_id [optional]: ClaimId = "claim_id";
        reason: Reason = "reason" => ReasonInvalid;
    }
}

record! {
    /// Moves a dispatch through its lifecycle.
    pub struct Dispatch, closed UnsupportedProtocol, kind "Dispatch", check check {
        dispatch_id: DispatchId = "dispatch_id";
        reason [optional]: Reason = "reason" => ReasonInvalid;
        evidence [optional]: Measured<Evidence> = "evidence";
        run [optional]: RunBinding = "run";
        sender [optional]: Actor = "sender";
        state: DispatchStep = "state" => DispatchInvalid;
        credential_principal [optional]: Decimal = "credential_principal" => RunBindingConflict;
    }
}

impl Dispatch {
    fn check(&self) -> Result<(), Fault> {
        ensure!(
            self.credential_principal.is_none() || self.state == DispatchStep::Started,
            RunBindingConflict,
            "only a start marker names its credential's principal"
        );
        Ok(())
    }
}

record! {
    /// Frees a dispatch's reservation on evidence.
    pub struct Release, closed UnsupportedProtocol, kind "Release" {
        dispatch_id: DispatchId = "dispatch_id";
        evidence: Measured<Evidence> = "evidence";
    }
}

/// Changes the revision that future Claims of one profile run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// Pool, unchecked here: replay refuses one that is not installed.
    pub pool: Opaque,
    /// Profile, unchecked likewise.
    pub worker_profile: Opaque,
    /// Revision that must be current.
    pub expected_ref: Revision,
    /// Contract that must be current.
    pub expected_contract: Digest,
    /// The route.
    pub profile: WorkerProfile,
    /// False pauses the Work that runs this revision.
    pub available: bool,
    /// False changes availability alone.
    pub activate: Option<bool>,
    /// Why.
    pub reason: Reason,
}

impl Wire for Deployment {
    fn read(node: Node<'_>, _code: Code) -> Result<Self, Fault> {
        const NAMES: &[(&str, bool); 9] = &[
            ("kind", true),
            ("pool", true),
            ("worker_profile", true),
            ("expected_ref", true),
            ("expected_contract", true),
            ("profile", true),
            ("available", true),
            ("reason", true),
            ("activate", false),
        ];
        let slots = closed(node, NAMES, Code::UnsupportedProtocol)?;
        let slot = |index: usize| slots[index].ok_or_else(|| Fault::from(Code::UnsupportedProtocol));
        let reason = Reason::read(slot(7)?, Code::ReasonInvalid)?;
        let profile = WorkerProfile::read(slot(5)?, true)?;
        ensure!(profile.logical_contract.is_some(), DeploymentInvalid, "a deployed profile has a contract");
        Ok(Self {
            pool: Opaque::read(slot(1)?, Code::DeploymentInvalid)?,
            worker_profile: Opaque::read(slot(2)?, Code::DeploymentInvalid)?,
            expected_ref: Revision::read(slot(3)?, Code::DeploymentInvalid)?,
            expected_contract: Digest::read(slot(4)?, Code::DeploymentInvalid)?,
            profile,
            available: bool::read(slot(6)?, Code::DeploymentInvalid)?,
            activate: slots[8].map(|node| bool::read(node, Code::DeploymentInvalid)).transpose()?,
            reason,
        })
    }

    fn write(&self, writer: &mut Writer) {
        writer.object(|members| {
            if let Some(activate) = self.activate {
                members.name("activate", |w| w.bool(activate));
            }
            members.name("available", |w| w.bool(self.available));
            members.name("expected_contract", |w| self.expected_contract.write(w));
            members.name("expected_ref", |w| self.expected_ref.write(w));
            members.name("kind", |w| w.string("Deployment"));
            members.name("pool", |w| self.pool.write(w));
            members.name("profile", |w| self.profile.write(w));
            members.name("reason", |w| self.reason.write(w));
            members.name("worker_profile", |w| self.worker_profile.write(w));
        });
    }
}

record! {
    /// Replaces the history of a ledger by its state.
    pub struct Checkpoint, closed UnsupportedProtocol, kind "Checkpoint" {
        prior_git_sha: Revision = "prior_git_sha" => CheckpointInvalid;
        prior_tip: CommitId = "prior_tip" => CheckpointInvalid;
        history_sha256: Digest = "history_sha256" => CheckpointInvalid;
        state_sha256: Digest = "state_sha256" => CheckpointInvalid;
        state: Descriptor = "state" => CheckpointInvalid;
    }
}

record! {
    /// Binds Work to its Issue.
    pub struct IssueLink, closed UnsupportedProtocol, kind "IssueLink" {
        work_id: WorkId = "work_id";
        claim_id [optional]: ClaimId = "claim_id";
        projector_ref: Revision = "projector_ref" => ProjectionUnauthorized;
        resource: Resource = "resource";
    }
}

record! {
    /// Records a comment that the projector wrote.
    pub struct IssueComment, closed UnsupportedProtocol, kind "IssueComment" {
        work_id: WorkId = "work_id";
        claim_id [optional]: ClaimId = "claim_id";
        comment_id: CommentId = "comment_id";
        authority_claim_id [optional]: ClaimId = "authority_claim_id";
        projector_ref: Revision = "projector_ref" => ProjectionUnauthorized;
    }
}

/// Declares the operation enum and its dispatch by kind from one list.
macro_rules! operations {
    ($($variant:ident($type:ty),)*) => {
        /// One operation of a commit.
        #[allow(missing_docs, reason = "variants are the protocol's own words")]
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Operation { $($variant($type),)* }

        impl Operation {
            /// The operation's name.
            #[must_use]
            pub fn kind(&self) -> OperationKind {
                match self { $(Self::$variant(_) => OperationKind::$variant,)* }
            }
        }

        impl Wire for Operation {
            fn read(node: Node<'_>, _code: Code) -> Result<Self, Fault> {
                let kind = node.object().and_then(|object| object.get("kind")).and_then(Node::plain);
                match kind.and_then(OperationKind::parse) {
                    $(Some(OperationKind::$variant) => {
                        <$type as Wire>::read(node, Code::LedgerInvalid).map(Self::$variant)
                    })*
                    None => Err(node.fault(Code::UnsupportedProtocol, "an unknown operation")),
                }
            }

            fn write(&self, writer: &mut Writer) {
                match self { $(Self::$variant(operation) => operation.write(writer),)* }
            }
        }
    };
}

operations! {
    Policy(Box<PolicyOperation>),
    Deployment(Box<Deployment>),
    Control(Control),
    Work(Box<WorkDraft>),
    WorkPriority(WorkPriority),
    Claim(Claim),
    Completion(Completion),
    Result(Box<ResultOperation>),
    DeliveryFailure(Box<DeliveryFailure>),
    Observation(Box<Measured<Observation>>),
    ClaimCancellation(ClaimCancellation),
    WorkCancellation(WorkCancellation),
    Dispatch(Box<Dispatch>),
    Release(Box<Release>),
    Checkpoint(Box<Checkpoint>),
    IssueLink(Box<IssueLink>),
    IssueComment(Box<IssueComment>),
}
