//! What an operator is told when a job fails (jobs.md 6.2): a stable category, a fixed explanation and what to do. Texts
//! are static, so no payload, identifier, path, token or answer of a host can be in them.

use crate::protocol::Code;

/// One kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Category {
    /// Its stable name.
    pub name: &'static str,
    /// What it means.
    pub explanation: &'static str,
    /// What to do next.
    pub action: &'static str,
}

macro_rules! categories {
    ($($(#[$doc:meta])* $constant:ident = $name:literal, $explanation:literal, $action:literal;)*) => {
        impl Category {
            $($(#[$doc])* pub const $constant: Self = Self { name: $name, explanation: $explanation, action: $action };)*

            /// Every category.
            pub const ALL: &[Self] = &[$(Self::$constant,)*];
        }
    };
}

categories! {
    /// A file of staged intents as a whole.
    STAGED_INTENTS_INVALID = "staged_intents_invalid",
        "The file of staged intents could not be read within its limits.",
        "Run the agent again; look for oversized plans.";
    /// One staged line.
    INTENT_INVALID = "intent_invalid", "A staged line is malformed.",
        "Look at the agent's calls; its other lines were processed.";
    /// One id with two meanings.
    INTENT_CONFLICT = "intent_conflict", "A staged line reuses an id or a Claim with other content.",
        "Look at the agent's calls; its other lines were processed.";
    /// A selector that is missing.
    CLAIM_SCOPE_REQUIRED = "claim_scope_required", "A message names no Claim, and the assignment has several.",
        "Have the agent pass the original handle on every message.";
    /// A selector or assignment that is wrong.
    CLAIM_SCOPE_INVALID = "claim_scope_invalid",
        "An assignment or a selector is not one that this run was granted.",
        "Pass the original handle; start workers by the queue alone, never by hand.";
    /// The compiled role.
    ROLE_INVALID = "role_invalid", "The compiled role and what the run was given contradict each other.",
        "Compile the workflow again; a worker is started by the queue, an observer and a dispatcher hold no assignment.";
    /// A requester or run that is not the claimed one.
    ORIGIN_UNVERIFIED = "origin_unverified", "The requester could not be matched to this run and attempt.",
        "Run all jobs of a new run; an origin is never edited.";
    /// A second attempt of a worker.
    RERUN_NOT_AUTHORIZED = "rerun_not_authorized", "Only attempt 1 of a worker's run holds authority.",
        "Let the queue grant the Work again; a rerun does not help.";
    /// No queue.
    POLICY_MISSING = "policy_missing", "There is no queue with an installed Policy here.",
        "Submit Work first; look at the queue branch if there should be one.";
    /// A proposal that is not the installed Policy.
    POLICY_MISMATCH = "policy_mismatch", "The compiled Policy differs from the installed one, or cannot be changed now.",
        "Update the Policy while the queue is quiescent, or compile the workflow again.";
    /// A target that the caller may not launch.
    WORKER_NOT_APPROVED = "worker_not_approved", "The target is not an approved worker of this dispatcher.",
        "Correct the dispatcher's list of workflows and compile it again.";
    /// Too many launches.
    DISPATCH_BUDGET_EXCEEDED = "dispatch_budget_exceeded", "The request is above what this run may still launch.",
        "Ask for fewer dispatches, or raise the workflow's max.";
    /// The credential of launches.
    CREDENTIAL_INVALID = "credential_invalid", "The launch credential could not be proven.",
        "Check the configured token or App.";
    /// A read credential of what Work waits for.
    READ_CREDENTIAL_INVALID = "read_credential_invalid",
        "What some Work waits for cannot be read with the configured credentials.",
        "Check the read credentials and the repositories that they are for.";
    /// 401 and 403.
    GITHUB_PERMISSION_DENIED = "github_permission_denied", "GitHub refused the trusted job's request.",
        "Check that job's permissions (contents: write, actions: write; activation needs actions: read); the agent's job \
         stays read-only.";
    /// 404 and 410.
    GITHUB_NOT_FOUND = "github_not_found", "GitHub shows no such resource to this credential.",
        "Check the repository's name and what the credential may read.";
    /// 422.
    GITHUB_VALIDATION_FAILED = "github_validation_failed", "GitHub refused the content of a request.",
        "Check the workflow that is launched, its inputs and its state.";
    /// 429.
    GITHUB_RATE_LIMITED = "github_rate_limited", "GitHub limits the rate of calls.", "Run the job again later.";
    /// 5xx and no answer.
    GITHUB_UNAVAILABLE = "github_unavailable", "GitHub or the network did not answer.",
        "Run the job again when the service answers; nothing was assumed.";
    /// Other writers won.
    PUBLICATION_CONFLICT = "publication_conflict", "Other writers of the queue kept winning.",
        "Repeat; the request keeps its identity, so nothing happens twice.";
    /// Nobody knows.
    PUBLICATION_UNCERTAIN = "publication_uncertain", "A write may or may not have landed.",
        "Look for the request with `wq explain --request-id`, or repeat; nothing happens twice.";
    /// A refused launch.
    LAUNCH_REJECTED = "launch_rejected", "GitHub refused a launch for good; its reservation is free again.",
        "Correct the cause; the Work is granted again after its backoff.";
    /// A launch without a known run.
    LAUNCH_UNRESOLVED = "launch_unresolved", "A worker may be running; its capacity is kept.",
        "Read `wq evidence`, then `wq reconcile`.";
    /// A run that is not the launched one.
    RUN_BINDING_CONFLICT = "run_binding_conflict", "The run is not the one that was launched for this assignment.",
        "Cancel runs that nobody launched; read `wq evidence` for the bound one.";
    /// What was compiled is not what was approved.
    WORKER_CONTRACT_MISMATCH = "worker_contract_mismatch",
        "The compiled worker is not the one that was approved for this assignment.",
        "Deploy the worker's present revision; the Work is granted again.";
    /// History.
    LEDGER_INVALID = "ledger_invalid", "The queue's history failed its validation.",
        "Preserve the branch as it is and let an operator look at it.";
    /// No room.
    LEDGER_LIMIT = "ledger_limit", "The queue's ledger is full.", "Compact the ledger, or finish Work.";
    /// The snapshot file.
    SNAPSHOT_INVALID = "snapshot_invalid", "The activation snapshot is missing or is not one of this run.",
        "Run all jobs of a new run; check that the activation artifact is downloaded.";
    /// Delivery.
    DELIVERY_UNVERIFIED = "delivery_unverified", "A Claim's outputs could not be verified.",
        "Read the Claim with `wq inspect`; its delivery stays pending until it is settled.";
    /// Configuration.
    SETTINGS_INVALID = "settings_invalid", "The job's environment or configuration is malformed.",
        "Correct the workflow and compile it again.";
    /// The runner.
    RUNNER_UNAVAILABLE = "runner_unavailable", "A file of the runner could not be read or written, or git is missing.",
        "Check the runner's disk, its image and its version of git.";
    /// A fault of ours.
    INTERNAL = "internal", "The program found itself in a state that it should exclude; nothing was written.",
        "Please report this.";
    /// Everything else.
    AUTHORITY_DENIED = "authority_denied", "The request lacked authority.",
        "Look at the role and at the Claim's state with `wq explain`.";
}

impl Category {
    /// The category of a code. A publication that lost every race and one whose outcome is unknown have one code; callers
    /// that know the former use [`Category::PUBLICATION_CONFLICT`].
    #[must_use]
    pub const fn of(code: Code) -> Self {
        use Code as C;
        match code {
            C::WorkQueueIntentLimit | C::WorkQueueIntentTransportInvalid => Self::STAGED_INTENTS_INVALID,
            C::WorkQueueCollectionRunnerTempMissing => Self::STAGED_INTENTS_INVALID,
            C::WorkQueueIntentInvalid
            | C::WorkQueueControlIntentInvalid
            | C::WorkQueueDispatchIntentInvalid
            | C::WorkQueueOutputInvalid
            | C::WorkQueueFinishInvalid
            | C::WorkQueueFinishScopeInvalid => Self::INTENT_INVALID,
            C::WorkQueueIntentConflict | C::WorkQueueFinishConflict | C::RequestReused => Self::INTENT_CONFLICT,
            C::ClaimScopeRequired => Self::CLAIM_SCOPE_REQUIRED,
            C::ClaimControlDeliveryInvalid
            | C::ClaimOutputCount
            | C::ClaimScopeInvalid
            | C::WorkQueueAssignmentMismatch
            | C::WorkQueueAssignmentPolicyMismatch => Self::CLAIM_SCOPE_INVALID,
            C::WorkQueueDispatchNotActive | C::AssignmentInvalid => Self::CLAIM_SCOPE_INVALID,
            C::WorkQueueRuntimeRoleInvalid
            | C::WorkQueueRuntimeRoleConflict
            | C::WorkQueueObserverAssignmentForbidden
            | C::WorkQueueObserverReadOnly
            | C::WorkQueueAssignmentRequired => Self::ROLE_INVALID,
            C::WorkQueueIntentOriginLimit
            | C::WorkQueueIntentOriginMismatch
            | C::WorkQueueIntentOriginReadFailed
            | C::WorkQueueIntentOriginRequired
            | C::PublisherNativeContextMismatch
            | C::PublisherOriginTimeMissing
            | C::PublisherPrincipalMismatch
            | C::PublisherRepositoryContextMissing
            | C::PublisherRepositoryIdentityMismatch
            | C::PublisherWorkflowContextMissing
            | C::NativeRepositoryIdentityMismatch => Self::ORIGIN_UNVERIFIED,
            C::RerunNotAuthorized => Self::RERUN_NOT_AUTHORIZED,
            C::PolicyMissing | C::WorkQueuePolicyMissing | C::QueueMissing => Self::POLICY_MISSING,
            C::PolicyProposalMismatch
            | C::WorkQueuePolicyProposalMismatch
            | C::WorkQueuePolicyProposalLimit
            | C::PolicyNotQuiescent => Self::POLICY_MISMATCH,
            C::WorkQueueWorkerNotCompilerApproved => Self::WORKER_NOT_APPROVED,
            C::WorkQueueDispatchBudgetExceeded => Self::DISPATCH_BUDGET_EXCEEDED,
            _ => Self::of_service(code),
        }
    }

    /// Codes of credentials, the host, launches and publications.
    const fn of_service(code: Code) -> Self {
        use Code as C;
        match code {
            C::WorkQueueDispatchAppMetadataMissing
            | C::WorkQueueDispatchCredentialAuthUnavailable
            | C::WorkQueueDispatchCredentialBindingRequired
            | C::WorkQueueDispatchCredentialClientMismatch
            | C::WorkQueueDispatchCredentialIdentityUnavailable
            | C::WorkQueueDispatchCredentialIdentityUnverified
            | C::WorkQueueDispatchCredentialKindInvalid
            | C::WorkQueueDispatchCredentialMetadataConflict
            | C::WorkQueueDispatchCredentialPrincipalMismatch
            | C::WorkQueueDispatchCredentialProofInvalid
            | C::WorkQueueDispatchCredentialTokenInvalid
            | C::WorkQueueDispatchCredentialValidatorRequired => Self::CREDENTIAL_INVALID,
            C::ExternalReadCredentialsMissing
            | C::ExternalAccessGenerationMismatch
            | C::WorkQueueDependencyClientScopeInvalid
            | C::WorkQueueDependencyCredentialsConflict
            | C::WorkQueueDependencyCredentialsInvalid
            | C::WorkQueueDependencyHostInvalid
            | C::WorkQueueDependencyRepositoryInvalid => Self::READ_CREDENTIAL_INVALID,
            C::ApiForbidden | C::ApiUnauthenticated | C::PublicationDenied => Self::GITHUB_PERMISSION_DENIED,
            C::ApiNotFound | C::ApiGone => Self::GITHUB_NOT_FOUND,
            C::ApiUnprocessable => Self::GITHUB_VALIDATION_FAILED,
            C::ApiRateLimited => Self::GITHUB_RATE_LIMITED,
            C::ApiUnavailable
            | C::ApiUnreachable
            | C::ApiReplyInvalid
            | C::ApiConflict
            | C::HostUnsupported
            | C::RepositoryUnavailable => Self::GITHUB_UNAVAILABLE,
            C::PublicationUnresolved
            | C::WorkQueueFinishNotDurable
            | C::WorkQueueResultNotDurable
            | C::WorkQueueBindingNotDurable
            | C::WorkQueueReleaseNotDurable => Self::PUBLICATION_UNCERTAIN,
            C::LaunchRejected => Self::LAUNCH_REJECTED,
            C::LaunchUnresolved | C::DispatchUnverified | C::WorkQueueLaunchMayHaveStarted => Self::LAUNCH_UNRESOLVED,
            C::RunBindingConflict
            | C::RunCorrelationMismatch
            | C::RunEventMismatch
            | C::RunPrincipalMismatch
            | C::RunRefMismatch
            | C::RunRepositoryIdentityMismatch
            | C::RunRepositoryMismatch
            | C::RunWorkflowMismatch
            | C::WorkQueueLaunchMarkerRequired => Self::RUN_BINDING_CONFLICT,
            C::WorkQueueWorkerContractMismatch => Self::WORKER_CONTRACT_MISMATCH,
            _ => Self::of_queue(code),
        }
    }

    /// Codes of the ledger, of the job's surroundings, and the rest.
    const fn of_queue(code: Code) -> Self {
        use Code as C;
        match code {
            C::LedgerInvalid
            | C::LedgerNonextending
            | C::CheckpointInvalid
            | C::CodecInvalid
            | C::DuplicateKey
            | C::InvalidUnicode
            | C::InvalidUtf8
            | C::NoncanonicalNumber
            | C::UnsupportedProtocol
            | C::WorkQueueLedgerRepositoryMismatch => Self::LEDGER_INVALID,
            C::LedgerLimit | C::ResourceLimit => Self::LEDGER_LIMIT,
            C::WorkQueueSnapshotInvalid => Self::SNAPSHOT_INVALID,
            C::DeliveryConflict
            | C::DeliveryContractRequired
            | C::DeliveryVerifierRequired
            | C::EffectContractInvalid
            | C::QueueControlNotCommitted
            | C::QueueControlRequestMismatch
            | C::WorkQueueClaimOwnershipChanged
            | C::WorkQueueControlInventoryChanged
            | C::WorkQueueDeliveryProofChanged => Self::DELIVERY_UNVERIFIED,
            C::SettingsInvalid
            | C::UsageInvalid
            | C::BranchInvalid
            | C::RepositoryInvalid
            | C::PolicyInvalid
            | C::WorkQueueDispatchBudgetInvalid
            | C::WorkQueueStandaloneSeedingUnsupported => Self::SETTINGS_INVALID,
            C::IoFailed | C::GitUnavailable => Self::RUNNER_UNAVAILABLE,
            C::Internal | C::PublicationInvalid => Self::INTERNAL,
            _ => Self::AUTHORITY_DENIED,
        }
    }
}
