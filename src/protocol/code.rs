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
    ApiConflict = "api_conflict", 7, "GitHub reports a conflict with the resource's present state.";
    ApiForbidden = "api_forbidden", 4, "The credential lacks a permission that the GitHub call needs.";
    ApiGone = "api_gone", 4, "The GitHub resource was deleted.";
    ApiNotFound = "api_not_found", 4, "GitHub has no such resource, or does not show it to this credential.";
    ApiRateLimited = "api_rate_limited", 7, "GitHub limits the rate of calls.";
    ApiReplyInvalid = "api_reply_invalid", 7, "GitHub's answer is not what the call promises.";
    ApiUnauthenticated = "api_unauthenticated", 4, "GitHub does not accept the credential.";
    ApiUnavailable = "api_unavailable", 7, "GitHub failed to answer the call.";
    ApiUnprocessable = "api_unprocessable", 7, "GitHub refused the content of the call.";
    ApiUnreachable = "api_unreachable", 7, "GitHub could not be reached, or did not answer in time.";
    AssignmentInvalid = "assignment_invalid", 3, "A supplied assignment differs from the one that the ledger gives.";
    AssignmentLimit = "assignment_limit", 2, "The Work cannot fit an assignment of its own.";
    BranchInvalid = "branch_invalid", 2, "The queue branch has an illegal name.";
    CancellationConflict = "cancellation_conflict", 2, "A repeated cancellation differs from the recorded one.";
    CheckpointInvalid = "checkpoint_invalid", 3, "A checkpoint, its request, its state or its Git ancestry is defective.";
    ChildEntitlement = "child_entitlement", 4, "A worker's child Work must keep its parent's pool, priority and accounting key.";
    ClaimAlreadySettled = "claim_already_settled", 4, "The Claim has its Result; its outputs are not executed again.";
    ClaimCancelled = "claim_cancelled", 4, "The Claim is cancelled; its outputs are suppressed.";
    ClaimConflict = "claim_conflict", 3, "The Claim id exists already.";
    ClaimControlDeliveryInvalid = "claim_control_delivery_invalid", 4, "A queue control stands among the outputs instead of the staged intents, or its intent is malformed.";
    ClaimEffectsUnauthorized = "claim_effects_unauthorized", 4, "The Claim's delivery barrier does not permit effects or controls.";
    ClaimIneffective = "claim_ineffective", 4, "The Claim is not bound, not in the required state, or of a retired epoch.";
    ClaimInvalid = "claim_invalid", 3, "A Claim's list of observations is malformed.";
    ClaimMissing = "claim_missing", 2, "No Claim has this id.";
    ClaimNotAuthorized = "claim_not_authorized", 4, "The Claim's outputs are not authorized: it has no Completion, or its delivery has failed.";
    ClaimOutputCount = "claim_output_count", 2, "A Claim has more or fewer outputs of a type than the workflow allows.";
    ClaimScopeInvalid = "claim_scope_invalid", 4, "The member, handle, pool or owner named is not the caller's.";
    ClaimScopeRequired = "claim_scope_required", 2, "A Claim handle is required here.";
    CodecInvalid = "codec_invalid", 3, "The text is not JSON of the wire profile.";
    ControlInvalid = "control_invalid", 2, "Unknown control, or a value of the wrong type.";
    CredentialGenerationReused = "credential_generation_reused", 2, "A credential generation cannot return once it was replaced.";
    DeliveryConflict = "delivery_conflict", 3, "The settlement does not match the pending Completion, or contradicts a recorded one.";
    DeliveryContractRequired = "delivery_contract_required", 6, "The Work declares no effect contract, so its delivery can never be verified.";
    DeliveryVerifierRequired = "delivery_verifier_required", 6, "Delivery can only be judged by a verifier of the declared outputs, and there is none here.";
    DependencyCycle = "dependency_cycle", 2, "The submitted edges form a cycle.";
    DependencyInvalid = "dependency_invalid", 2, "A dependency edge is malformed, repeated, missing, foreign or a self edge.";
    DependencyResultUnavailable = "dependency_result_unavailable", 3, "A predecessor has no verified Result.";
    DependencyUnauthorized = "dependency_unauthorized", 4, "The observed repository is outside the allow-lists in force.";
    DeploymentConflict = "deployment_conflict", 2, "The expected revision or contract is not the current one.";
    DeploymentInvalid = "deployment_invalid", 2, "The deployment is malformed, unknown, or changes its authority.";
    DispatchInvalid = "dispatch_invalid", 3, "The dispatch lifecycle does not allow this transition.";
    DispatchMissing = "dispatch_missing", 2, "No dispatch has this id.";
    DispatchUnverified = "dispatch_unverified", 5, "A dispatch was accepted, and the run it started could not be verified.";
    DispatcherInvalid = "dispatcher_invalid", 2, "The dispatcher's source, compiled workflow or control configuration is missing, drifted or not a dispatcher's.";
    DuplicateKey = "duplicate_key", 3, "An object repeats a key.";
    EffectContractInvalid = "effect_contract_invalid", 6, "The Work's effect contract is malformed, or what was produced is not what it declares.";
    EvidenceInvalid = "evidence_invalid", 3, "The evidence is malformed, out of scope, or of the wrong kind.";
    ExternalAccessGenerationMismatch = "external_access_generation_mismatch", 4, "The read credential belongs to another credential generation than the queue's.";
    ExternalAdmissionIdentityMismatch = "external_admission_identity_mismatch", 2, "The submitted resource is not the one that the host shows.";
    ExternalAdmissionUnverified = "external_admission_unverified", 4, "The submitted resource could not be identified.";
    ExternalConditionInvalid = "external_condition_invalid", 2, "The condition does not fit the kind of resource.";
    ExternalIdentityMismatch = "external_identity_mismatch", 4, "The resource is no longer the one that was admitted.";
    ExternalNotAllowlisted = "external_not_allowlisted", 4, "No read scope allows the resource's host and repository.";
    ExternalReadBudgetExhausted = "external_read_budget_exhausted", 7, "The budget of reads of one refresh is used up.";
    ExternalReadCredentialsMissing = "external_read_credentials_missing", 4, "There is no read credential for the resource's repository.";
    ExternalRedirectNotAllowlisted = "external_redirect_not_allowlisted", 4, "The resource moved to a repository that no read scope allows.";
    ExternalResolverBudgetExceeded = "external_resolver_budget_exceeded", 2, "More resources or reads are asked for than one refresh may have.";
    ExternalResourceInvalid = "external_resource_invalid", 2, "The resource's coordinates are malformed.";
    ExternalResourceTypeMismatch = "external_resource_type_mismatch", 2, "The resource is of another kind than the edge says.";
    GitUnavailable = "git_unavailable", 7, "The git executable is absent, too old, or did not run.";
    GrantsPaused = "grants_paused", 4, "A launch cannot start while grants are paused.";
    GraphInvalid = "graph_invalid", 2, "A submission repeats a node, or a graph spans pools.";
    HostUnsupported = "host_unsupported", 7, "The host does not offer the pinned REST API version or its run details.";
    InspectionInvalid = "inspection_invalid", 2, "The selector or page of a read is out of bounds.";
    Internal = "internal", 70, "The program is wrong; nothing was written.";
    InvalidUnicode = "invalid_unicode", 3, "A string is not a sequence of Unicode scalar values, or an identity is not a string.";
    InvalidUtf8 = "invalid_utf8", 3, "The bytes are not UTF-8.";
    IoFailed = "io_failed", 7, "A local file or directory could not be read or written.";
    IssueBindingConflict = "issue_binding_conflict", 2, "The Issue or comment is bound elsewhere already.";
    IssueBindingInvalid = "issue_binding_invalid", 2, "The Issue binding names a missing Work, Issue or Claim.";
    LaunchRejected = "launch_rejected", 4, "The host refused a launch for good; its reservation is free, and nothing was executed.";
    LaunchUnresolved = "launch_unresolved", 6, "Whether a launch started a run is not known; the reservation is kept.";
    LedgerInvalid = "ledger_invalid", 3, "The ledger, a record of it, or its causal chain is malformed.";
    LedgerLimit = "ledger_limit", 4, "The ledger's byte budget or its recovery reserve is exhausted.";
    LedgerNonextending = "ledger_nonextending", 3, "The ledger's history was deleted or rewritten between two reads.";
    NativeRepositoryIdentityMismatch = "native_repository_identity_mismatch", 4, "The host answers with another repository than the one that was asked for.";
    NoncanonicalNumber = "noncanonical_number", 3, "A number is outside the integer profile.";
    NonlaunchEvidenceRequired = "nonlaunch_evidence_required", 6, "Only evidence that nothing was launched can free this reservation.";
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
    PublisherNativeContextMismatch = "publisher_native_context_mismatch", 4, "The run that the host shows is not the one that the job claims to be.";
    PublisherOriginTimeMissing = "publisher_origin_time_missing", 4, "The run's time of creation is missing.";
    PublisherPrincipalMismatch = "publisher_principal_mismatch", 4, "The run acts for another account than the job claims.";
    PublisherRepositoryContextMissing = "publisher_repository_context_missing", 2, "The job's repository or run is not in its environment.";
    PublisherRepositoryIdentityMismatch = "publisher_repository_identity_mismatch", 4, "The event's repository is not the run's.";
    PublisherWorkflowContextMissing = "publisher_workflow_context_missing", 4, "The job's workflow reference is malformed or of another repository.";
    QueueControlNotCommitted = "queue_control_not_committed", 6, "A staged queue control is not in the ledger.";
    QueueControlRequestMismatch = "queue_control_request_mismatch", 6, "A committed queue control is not the one that was staged.";
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
    RerunNotAuthorized = "rerun_not_authorized", 4, "A worker's authority ends with attempt 1 of its run.";
    ResourceInvalid = "resource_invalid", 2, "The resource's kind or ids are malformed.";
    ResourceLimit = "resource_limit", 3, "A size or count exceeds its bound.";
    ResourceUnauthorized = "resource_unauthorized", 4, "The resource's host or repository is not approved.";
    ResultInvalid = "result_invalid", 3, "The Result's descriptor is not an object.";
    RetryExhausted = "retry_exhausted", 3, "An exhausted Claim was cancelled without cancelling its Work.";
    RetryInvalid = "retry_invalid", 3, "The retry boundary is below the required backoff.";
    RunBindingConflict = "run_binding_conflict", 4, "The run, actor, principal or revision does not match the assignment.";
    RunCorrelationMismatch = "run_correlation_mismatch", 4, "The run's title does not carry the dispatch.";
    RunEventMismatch = "run_event_mismatch", 4, "The run was not started by workflow_dispatch.";
    RunPrincipalMismatch = "run_principal_mismatch", 4, "The run acts for another account than the one that launched.";
    RunRefMismatch = "run_ref_mismatch", 4, "The run is at another revision than the approved one.";
    RunRepositoryIdentityMismatch = "run_repository_identity_mismatch", 4, "The run's repository has another numeric id.";
    RunRepositoryMismatch = "run_repository_mismatch", 4, "The run belongs to another repository.";
    RunWorkflowMismatch = "run_workflow_mismatch", 4, "The run is of another workflow.";
    SelectionInvalid = "selection_invalid", 3, "The Claim is not the one that the scheduler computes.";
    SettingsInvalid = "settings_invalid", 2, "The configuration is malformed.";
    SnapshotAmbiguous = "snapshot_ambiguous", 3, "The run has left more than one snapshot of its current attempt.";
    SnapshotMissing = "snapshot_missing", 2, "The run has left no snapshot of its current attempt that can still be downloaded.";
    SnapshotTagMismatch = "snapshot_tag_mismatch", 4, "A snapshot tag exists and is not a lightweight tag of its revision.";
    SnapshotTagUnverified = "snapshot_tag_unverified", 7, "A snapshot tag could not be created or read back.";
    UnauthorizedOperation = "unauthorized_operation", 4, "The operation is not permitted for this request kind or role.";
    UnsupportedProtocol = "unsupported_protocol", 3, "The version, operation, branch or entry point is not supported.";
    UsageInvalid = "usage_invalid", 2, "The command line is wrong.";
    WorkConflict = "work_conflict", 2, "The resubmitted node differs from its stored definition.";
    WorkIdentityInvalid = "work_identity_invalid", 2, "The Work id is not derived from its graph and node key.";
    WorkInvalid = "work_invalid", 2, "The node's profile, pin, contract, trust domain, key or payload is not admissible.";
    WorkMissing = "work_missing", 2, "No Work has this id.";
    WorkQueueAssignmentMismatch = "work_queue_assignment_mismatch", 4, "The assignment is not the one that the ledger stores for this dispatch.";
    WorkQueueAssignmentPolicyMismatch = "work_queue_assignment_policy_mismatch", 4, "The assignment belongs to a retired epoch.";
    WorkQueueAssignmentRequired = "work_queue_assignment_required", 4, "A worker run needs a valid assignment.";
    WorkQueueBindingNotDurable = "work_queue_binding_not_durable", 5, "The run's binding is not in the ledger.";
    WorkQueueClaimOwnershipChanged = "work_queue_claim_ownership_changed", 4, "The Claim, its Completion or its delivery changed while it was verified.";
    WorkQueueClaimOwnershipInvalid = "work_queue_claim_ownership_invalid", 4, "The completed Claim does not own its Work.";
    WorkQueueClaimScopeInvalid = "work_queue_claim_scope_invalid", 4, "Only a worker acts for a Claim.";
    WorkQueueCollectionRunnerTempMissing = "work_queue_collection_runner_temp_missing", 2, "RUNNER_TEMP is not set, so there is nowhere to collect intents from.";
    WorkQueueControlIntentInvalid = "work_queue_control_intent_invalid", 2, "A staged intent is no control that this job publishes.";
    WorkQueueControlInventoryChanged = "work_queue_control_inventory_changed", 4, "A queue control was committed after the delivery was verified.";
    WorkQueueControlPoolNotAuthorized = "work_queue_control_pool_not_authorized", 4, "A worker grants in its own Work's pool alone.";
    WorkQueueControlReceiptScopeInvalid = "work_queue_control_receipt_scope_invalid", 4, "A control's receipt is asked for another Claim than its request's.";
    WorkQueueDeliveryProofChanged = "work_queue_delivery_proof_changed", 4, "The proof of delivery is of another Claim or assignment.";
    WorkQueueDependencyClientScopeInvalid = "work_queue_dependency_client_scope_invalid", 2, "A dependency read credential is not for the repository that it is named for.";
    WorkQueueDependencyCredentialsConflict = "work_queue_dependency_credentials_conflict", 2, "Two dependency read credentials are given for one repository.";
    WorkQueueDependencyCredentialsInvalid = "work_queue_dependency_credentials_invalid", 2, "The map of dependency read credentials is malformed.";
    WorkQueueDependencyHostInvalid = "work_queue_dependency_host_invalid", 2, "A dependency read credential names another host than the server's.";
    WorkQueueDependencyRepositoryInvalid = "work_queue_dependency_repository_invalid", 2, "A dependency read credential names no repository.";
    WorkQueueDispatchAppMetadataMissing = "work_queue_dispatch_app_metadata_missing", 2, "An App's launch credential names no App.";
    WorkQueueDispatchBudgetExceeded = "work_queue_dispatch_budget_exceeded", 4, "The run's dispatch budget is used up.";
    WorkQueueDispatchBudgetInvalid = "work_queue_dispatch_budget_invalid", 2, "The dispatch budget is no integer of 0 to 4096.";
    WorkQueueDispatchCredentialAuthUnavailable = "work_queue_dispatch_credential_auth_unavailable", 7, "The launch credential could not be read back from its client.";
    WorkQueueDispatchCredentialBindingRequired = "work_queue_dispatch_credential_binding_required", 4, "The client is not shown to hold the selected launch credential.";
    WorkQueueDispatchCredentialClientMismatch = "work_queue_dispatch_credential_client_mismatch", 4, "The client holds another token than the selected launch credential.";
    WorkQueueDispatchCredentialIdentityUnavailable = "work_queue_dispatch_credential_identity_unavailable", 7, "The launch credential's account could not be read.";
    WorkQueueDispatchCredentialIdentityUnverified = "work_queue_dispatch_credential_identity_unverified", 4, "The launch credential's account is not of the expected kind and name.";
    WorkQueueDispatchCredentialKindInvalid = "work_queue_dispatch_credential_kind_invalid", 2, "The launch credential's kind is unknown.";
    WorkQueueDispatchCredentialMetadataConflict = "work_queue_dispatch_credential_metadata_conflict", 2, "The launch credential's metadata contradicts its kind.";
    WorkQueueDispatchCredentialPrincipalMismatch = "work_queue_dispatch_credential_principal_mismatch", 4, "The launch credential's account is not the profile's principal.";
    WorkQueueDispatchCredentialProofInvalid = "work_queue_dispatch_credential_proof_invalid", 4, "The proof of the launch credential is for another client or profile.";
    WorkQueueDispatchCredentialTokenInvalid = "work_queue_dispatch_credential_token_invalid", 2, "The launch credential is not a token.";
    WorkQueueDispatchCredentialValidatorRequired = "work_queue_dispatch_credential_validator_required", 4, "Nothing shows which account the launch credential acts for.";
    WorkQueueDispatchIntentInvalid = "work_queue_dispatch_intent_invalid", 2, "A staged dispatch_next has unknown members, or limits out of bounds.";
    WorkQueueDispatchNotActive = "work_queue_dispatch_not_active", 4, "The dispatch is released.";
    WorkQueueEffectScopeDenied = "work_queue_effect_scope_denied", 4, "The repository of a message or target is not the worker profile's.";
    WorkQueueFinishConflict = "work_queue_finish_conflict", 2, "A Claim's finish contradicts one that was staged or committed before.";
    WorkQueueFinishInvalid = "work_queue_finish_invalid", 2, "A finish is malformed.";
    WorkQueueFinishNotDurable = "work_queue_finish_not_durable", 5, "The Claim's finish is not in the ledger.";
    WorkQueueFinishScopeInvalid = "work_queue_finish_scope_invalid", 4, "A staged finish names no Claim of the assignment.";
    WorkQueueIntentConflict = "work_queue_intent_conflict", 2, "One intent id stands for two different intents.";
    WorkQueueIntentInvalid = "work_queue_intent_invalid", 2, "A staged intent is malformed.";
    WorkQueueIntentLimit = "work_queue_intent_limit", 2, "A file of staged intents is no plain file, or has more than 4 MiB or 256 lines.";
    WorkQueueIntentOriginLimit = "work_queue_intent_origin_limit", 4, "The intent origin is longer than 4096 bytes.";
    WorkQueueIntentOriginMismatch = "work_queue_intent_origin_mismatch", 4, "The intent origin is not of this run.";
    WorkQueueIntentOriginReadFailed = "work_queue_intent_origin_read_failed", 4, "The attempt that the intent origin names could not be authenticated.";
    WorkQueueIntentOriginRequired = "work_queue_intent_origin_required", 4, "A later attempt needs the origin of the intents that it publishes.";
    WorkQueueIntentTransportInvalid = "work_queue_intent_transport_invalid", 2, "A file of staged intents is not UTF-8 text.";
    WorkQueueLaunchMarkerRequired = "work_queue_launch_marker_required", 4, "The dispatch has no start marker, so no run of it can be bound.";
    WorkQueueLaunchMayHaveStarted = "work_queue_launch_may_have_started", 6, "A start marker exists; the reservation can no longer be cancelled before its launch.";
    WorkQueueLedgerRepositoryMismatch = "work_queue_ledger_repository_mismatch", 3, "The ledger belongs to another repository than the job's.";
    WorkQueueObservationRoleRequired = "work_queue_observation_role_required", 4, "Only a dispatcher, a reconciler or an administrator observes gates.";
    WorkQueueObserverAssignmentForbidden = "work_queue_observer_assignment_forbidden", 4, "An observer cannot hold an assignment.";
    WorkQueueObserverReadOnly = "work_queue_observer_read_only", 4, "An observer reads and changes nothing.";
    WorkQueueOutputInvalid = "work_queue_output_invalid", 2, "The agent's output is no plain bounded JSON file with items.";
    WorkQueuePolicyMissing = "work_queue_policy_missing", 4, "There is no queue with an installed Policy.";
    WorkQueuePolicyProposalLimit = "work_queue_policy_proposal_limit", 2, "The Policy proposal is longer than 4 MiB.";
    WorkQueuePolicyProposalMismatch = "work_queue_policy_proposal_mismatch", 2, "The compiled Policy proposal differs from the installed Policy.";
    WorkQueueReadScopeDenied = "work_queue_read_scope_denied", 4, "The Work is outside what this read may show.";
    WorkQueueReleaseNotDurable = "work_queue_release_not_durable", 5, "The release is not in the ledger.";
    WorkQueueResolutionAlreadyRecorded = "work_queue_resolution_already_recorded", 2, "The launch's state moved on meanwhile.";
    WorkQueueResultNotDurable = "work_queue_result_not_durable", 5, "The Result is not in the ledger.";
    WorkQueueRuntimeRoleConflict = "work_queue_runtime_role_conflict", 4, "The compiled role, the assignment and the snapshot contradict one another.";
    WorkQueueRuntimeRoleInvalid = "work_queue_runtime_role_invalid", 2, "The compiled role is not observer, dispatcher or worker.";
    WorkQueueSnapshotInvalid = "work_queue_snapshot_invalid", 3, "The activation snapshot is missing, malformed, or no plain bounded file.";
    WorkQueueStandaloneSeedingUnsupported = "work_queue_standalone_seeding_unsupported", 2, "A workflow cannot seed a queue; the first submission installs its Policy.";
    WorkQueueWorkerContractMismatch = "work_queue_worker_contract_mismatch", 4, "The compiled worker has another contract than the dispatch's frozen profile.";
    WorkQueueWorkerNotCompilerApproved = "work_queue_worker_not_compiler_approved", 4, "A worker route is not in both of the caller's compiled allowlists.";
    WorkTerminal = "work_terminal", 2, "The Work is missing or completed and cannot be cancelled.";
    WorkUnauthorized = "work_unauthorized", 4, "A worker may cancel only its own exhausted Work.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
