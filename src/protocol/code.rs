//! Every stable error code (engine.md 9, publication.md 10) with its meaning and exit status.

use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $exit:literal, $meaning:literal;)*) => {
        /// A stable, snake_case error code. Programs match on it; people read the sentence beside it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $meaning] $variant,)*
        }

        impl Code {
            /// Every code, in alphabetical order.
            pub const ALL: &[Code] = &[$(Code::$variant,)*];

            /// The code as it is written in output and in fixtures.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $name,)* }
            }

            /// One sentence that says what the code means.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Code::$variant => $meaning,)* }
            }

            /// The exit status of a command that ends with this code (design section 6).
            #[must_use]
            pub const fn exit(self) -> u8 {
                match self { $(Code::$variant => $exit,)* }
            }
        }
    };
}

codes! {
    ActorUnauthorized = "actor_unauthorized", 4, "The actor's role, principal, repository or context does not permit this.";
    AdmissionPaused = "admission_paused", 4, "New Work is not admitted while admission is paused.";
    AdmissionUnauthorized = "admission_unauthorized", 4, "The principal is not entitled to this pool, priority or accounting key.";
    AssignmentInvalid = "assignment_invalid", 3, "A supplied assignment differs from the one that the ledger gives.";
    AssignmentLimit = "assignment_limit", 2, "The Work cannot fit an assignment of its own.";
    BranchInvalid = "branch_invalid", 2, "The queue branch has an illegal name.";
    CancellationConflict = "cancellation_conflict", 2, "A repeated cancellation differs from the recorded one.";
    CheckpointInvalid = "checkpoint_invalid", 3, "A checkpoint, its request, its state or its Git ancestry is defective.";
    ChildEntitlement = "child_entitlement", 4, "A worker's child Work must keep its parent's pool, priority and accounting key.";
    ClaimConflict = "claim_conflict", 3, "The Claim id exists already.";
    ClaimEffectsUnauthorized = "claim_effects_unauthorized", 4, "The Claim's delivery barrier does not permit effects or controls.";
    ClaimIneffective = "claim_ineffective", 4, "The Claim is not bound, not in the required state, or of a retired epoch.";
    ClaimInvalid = "claim_invalid", 3, "A Claim's list of observations is malformed.";
    ClaimMissing = "claim_missing", 2, "No Claim has this id.";
    ClaimScopeInvalid = "claim_scope_invalid", 4, "The member, handle, pool or owner named is not the caller's.";
    ClaimScopeRequired = "claim_scope_required", 2, "A Claim handle is required here.";
    CodecInvalid = "codec_invalid", 3, "The text is not JSON of the wire profile.";
    ControlInvalid = "control_invalid", 2, "Unknown control, or a value of the wrong type.";
    CredentialGenerationReused = "credential_generation_reused", 2, "A credential generation cannot return once it was replaced.";
    DeliveryConflict = "delivery_conflict", 3, "The settlement does not match the pending Completion, or contradicts a recorded one.";
    DependencyCycle = "dependency_cycle", 2, "The submitted edges form a cycle.";
    DependencyInvalid = "dependency_invalid", 2, "A dependency edge is malformed, repeated, missing, foreign or a self edge.";
    DependencyResultUnavailable = "dependency_result_unavailable", 3, "A predecessor has no verified Result.";
    DependencyUnauthorized = "dependency_unauthorized", 4, "The observed repository is outside the allow-lists in force.";
    DeploymentConflict = "deployment_conflict", 2, "The expected revision or contract is not the current one.";
    DeploymentInvalid = "deployment_invalid", 2, "The deployment is malformed, unknown, or changes its authority.";
    DispatchInvalid = "dispatch_invalid", 3, "The dispatch lifecycle does not allow this transition.";
    DispatchMissing = "dispatch_missing", 2, "No dispatch has this id.";
    DuplicateKey = "duplicate_key", 3, "An object repeats a key.";
    EffectContractInvalid = "effect_contract_invalid", 6, "The Work's effect contract is malformed, or what was produced is not what it declares.";
    EvidenceInvalid = "evidence_invalid", 3, "The evidence is malformed, out of scope, or of the wrong kind.";
    GitUnavailable = "git_unavailable", 7, "The git executable is absent, too old, or did not run.";
    GrantsPaused = "grants_paused", 4, "A launch cannot start while grants are paused.";
    GraphInvalid = "graph_invalid", 2, "A submission repeats a node, or a graph spans pools.";
    InspectionInvalid = "inspection_invalid", 2, "The selector or page of a read is out of bounds.";
    Internal = "internal", 70, "The program is wrong; nothing was written.";
    InvalidUnicode = "invalid_unicode", 3, "A string is not a sequence of Unicode scalar values, or an identity is not a string.";
    InvalidUtf8 = "invalid_utf8", 3, "The bytes are not UTF-8.";
    IoFailed = "io_failed", 7, "A local file or directory could not be read or written.";
    IssueBindingConflict = "issue_binding_conflict", 2, "The Issue or comment is bound elsewhere already.";
    IssueBindingInvalid = "issue_binding_invalid", 2, "The Issue binding names a missing Work, Issue or Claim.";
    LedgerInvalid = "ledger_invalid", 3, "The ledger, a record of it, or its causal chain is malformed.";
    LedgerLimit = "ledger_limit", 4, "The ledger's byte budget or its recovery reserve is exhausted.";
    LedgerNonextending = "ledger_nonextending", 3, "The ledger's history was deleted or rewritten between two reads.";
    NoncanonicalNumber = "noncanonical_number", 3, "A number is outside the integer profile.";
    ObservationConflict = "observation_conflict", 3, "The observation id was used with other content.";
    ObservationInvalid = "observation_invalid", 3, "The observation's fields, time or generation do not hold together.";
    OwnershipTerminal = "ownership_terminal", 2, "Only available Work can be reprioritized.";
    PackingInvalid = "packing_invalid", 3, "The Claims are not the planned fair prefix in its planned groups.";
    PolicyInvalid = "policy_invalid", 3, "The Policy is defective, or the pool, key or epoch is not installed.";
    PolicyMissing = "policy_missing", 2, "No Policy is installed and none was proposed.";
    PolicyNotQuiescent = "policy_not_quiescent", 2, "The Policy cannot change here and now.";
    PolicyProposalMismatch = "policy_proposal_mismatch", 2, "The proposed Policy differs from the installed one.";
    PoolInvalid = "pool_invalid", 2, "No such pool is installed.";
    PriorityConflict = "priority_conflict", 2, "The expected priority is stale.";
    ProjectionInvalid = "projection_invalid", 2, "A projection journal is malformed or too large.";
    ProjectionJournalConflict = "projection_journal_conflict", 3, "A projection journal and its tree entry disagree.";
    ProjectionUnauthorized = "projection_unauthorized", 4, "The projector lacks authority for this Issue.";
    PublicationDenied = "publication_denied", 4, "The remote refused the push for good.";
    PublicationInvalid = "publication_invalid", 70, "The set of files to write is not publishable.";
    PublicationUnresolved = "publication_unresolved", 5, "The attempts are used up and the request was not found; its outcome is unknown.";
    QueueMissing = "queue_missing", 4, "There is no queue on this branch, and this request may not create one.";
    ReasonInvalid = "reason_invalid", 2, "The reason is not a reason code.";
    ReconciliationPending = "reconciliation_pending", 2, "The attempts and the deadline of reconciliation are not exhausted.";
    ReleaseInvalid = "release_invalid", 3, "The reservation cannot be released by this evidence now.";
    RemediationInvalid = "remediation_invalid", 4, "The proof of remediation was refused.";
    RemediationVerifierRequired = "remediation_verifier_required", 4, "A replacement of a partial or unknown failure needs a remediation verifier.";
    ReplacementInvalid = "replacement_invalid", 2, "The replacement's target or scope is wrong.";
    RepositoryInvalid = "repository_invalid", 2, "The repository's name is malformed.";
    RepositoryUnavailable = "repository_unavailable", 7, "The queue repository cannot be identified or read.";
    RequestInvalid = "request_invalid", 3, "The request is malformed, or its operations are not the ones it asks for.";
    RequestMissing = "request_missing", 2, "No request has this id.";
    RequestReused = "request_reused", 2, "The request id was used with another meaning.";
    ResourceInvalid = "resource_invalid", 2, "The resource's kind or ids are malformed.";
    ResourceLimit = "resource_limit", 3, "A size or count exceeds its bound.";
    ResourceUnauthorized = "resource_unauthorized", 4, "The resource's host or repository is not approved.";
    ResultInvalid = "result_invalid", 3, "The Result's descriptor is not an object.";
    RetryExhausted = "retry_exhausted", 3, "An exhausted Claim was cancelled without cancelling its Work.";
    RetryInvalid = "retry_invalid", 3, "The retry boundary is below the required backoff.";
    RunBindingConflict = "run_binding_conflict", 4, "The run, actor, principal or revision does not match the assignment.";
    SelectionInvalid = "selection_invalid", 3, "The Claim is not the one that the scheduler computes.";
    SettingsInvalid = "settings_invalid", 2, "The configuration is malformed.";
    UnauthorizedOperation = "unauthorized_operation", 4, "The operation is not permitted for this request kind or role.";
    UnsupportedProtocol = "unsupported_protocol", 3, "The version, operation, branch or entry point is not supported.";
    UsageInvalid = "usage_invalid", 2, "The command line is wrong.";
    WorkConflict = "work_conflict", 2, "The resubmitted node differs from its stored definition.";
    WorkIdentityInvalid = "work_identity_invalid", 2, "The Work id is not derived from its graph and node key.";
    WorkInvalid = "work_invalid", 2, "The node's profile, pin, contract, trust domain, key or payload is not admissible.";
    WorkMissing = "work_missing", 2, "No Work has this id.";
    WorkQueuePolicyProposalLimit = "work_queue_policy_proposal_limit", 2, "The compiled Policy proposal is longer, or has more parts, than can be carried.";
    WorkTerminal = "work_terminal", 2, "The Work is missing or completed and cannot be cancelled.";
    WorkUnauthorized = "work_unauthorized", 4, "A worker may cancel only its own exhausted Work.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
