//! The deliberate faults: where each is, what it breaks, and the search and rule that must see it.

use wq_action::engine::mutation::Mutation::{self, *};

use crate::audit::{
    ADMISSION, AUTHORITY, BUDGET, CANCELLATION, CAPACITY, CHARGE, COMPACTION, DEBT, DEPLOYMENT, EVIDENCE, LAUNCH,
    LIFECYCLE, PAUSE, PLAN, POLICY, PREDECESSOR, PRIORITY, PROJECTION, REQUEST, RETRY, SETTLEMENT, WINNER,
};

/// One deliberate fault.
pub(crate) struct Row {
    pub(crate) fault: Mutation,
    /// File of `src/` that holds the switch.
    pub(crate) place: &'static str,
    /// What goes wrong with it.
    pub(crate) breaks: &'static str,
    /// Search that must find it, with this rule alone judged.
    pub(crate) search: &'static str,
    pub(crate) rule: &'static str,
}

const fn row(
    fault: Mutation,
    place: &'static str,
    breaks: &'static str,
    search: &'static str,
    rule: &'static str,
) -> Row {
    Row { fault, place, breaks, search, rule }
}

const SELECT: &str = "engine/schedule/select";
const PACK: &str = "engine/schedule/pack";
const CLOCK: &str = "engine/schedule/clock";
const CLAIM: &str = "engine/apply/claim";
const CANCEL: &str = "engine/apply/cancel";
const CONTROL: &str = "engine/apply/control";
const SETTLE: &str = "engine/apply/settle";
const RELEASE: &str = "engine/apply/release";
const DISPATCH: &str = "engine/apply/dispatch";
const MATCHING: &str = "engine/matching";
const ACTORS: &str = "engine/authority";
const ADMIT: &str = "engine/admission";

/// Every fault, by what it breaks.
pub(crate) const ROWS: &[Row] = &[
    row(IgnoreLogicalLimit, SELECT, "grants beyond the logical limit", "debt", CAPACITY),
    row(IgnoreAccountLimit, SELECT, "grants beyond an account's limit", "packing", CAPACITY),
    row(IgnoreNativeLimit, PACK, "opens dispatches beyond the native limit", "packing", CAPACITY),
    row(IgnoreDispatchBudget, PACK, "opens more dispatches than asked for", "packing", PLAN),
    row(MixAccounts, PACK, "batches accounts that may not share a run", "packing", PLAN),
    row(GrantWhilePaused, SELECT, "grants while grants are paused", "grant race", PAUSE),
    row(IgnoreRetryDelay, SELECT, "grants before the retry boundary", "retry", RETRY),
    row(
        SuccessorBeforeResult,
        "engine/index, engine/schedule/pack",
        "grants Work before its predecessor's Result",
        "grant race",
        PREDECESSOR,
    ),
    row(LastInFirstOut, SELECT, "serves an account's newest Work first", "packing", PLAN),
    row(ReverseTies, CLOCK, "gives ties to the last key", "packing", PLAN),
    row(ChargeTwice, CLOCK, "charges a grant twice", "grant race", CHARGE),
    row(ForgetCharge, "engine/apply", "grants without a charge", "grant race", CHARGE),
    row(IdleCredit, CLOCK, "lets a key that was idle keep its old place", "debt", PLAN),
    row(PauseResetsDebt, CONTROL, "forgets all debt at a pause", "debt", DEBT),
    row(PriorityResetsDebt, CONTROL, "forgets all debt at a changed priority", "packing", DEBT),
    row(CancelResetsDebt, CANCEL, "forgets all debt at a cancelled Claim", "debt", DEBT),
    row(ClaimLeavesWorkAvailable, CLAIM, "grants Work and leaves it available", "debt", WINNER),
    row(ForgetAttempt, CLAIM, "grants without counting the attempt", "retry", RETRY),
    row(LeakLogicalSlot, CANCEL, "never frees the slot of an ended Claim", "grant race", PLAN),
    row(FinishWithoutOwnership, ACTORS, "lets a worker act whose Claim has ended", "finish", AUTHORITY),
    row(AnyRunMayFinish, ACTORS, "lets any run act for the bound one", "finish", AUTHORITY),
    row(FinishAfterRelease, ACTORS, "lets a worker act after its release", "release", AUTHORITY),
    row(EffectsAfterFailure, ACTORS, "leaves authority after a failed delivery", "delivery", AUTHORITY),
    row(ControlsBeforeCompletion, ACTORS, "allows effects and children without a Completion", "children", AUTHORITY),
    row(SettleTwice, SETTLE, "settles a delivery that is settled", "delivery", SETTLEMENT),
    row(SettleOtherCompletion, SETTLE, "settles a Work in another Claim's name", "delivery", SETTLEMENT),
    row(FailEarly, SETTLE, "gives a delivery up with attempts left", "delivery", SETTLEMENT),
    row(ReleaseWithOpenClaims, RELEASE, "frees a reservation under an open Claim", "release", EVIDENCE),
    row(ReleaseOnReconciliation, RELEASE, "frees a reservation because somebody looked", "release", EVIDENCE),
    row(ReleaseTwice, RELEASE, "frees a reservation again", "release", EVIDENCE),
    row(PrelaunchAfterStart, MATCHING, "takes a started launch for none", "release", EVIDENCE),
    row(NonlaunchDespiteRun, MATCHING, "takes a bound launch for none", "release", EVIDENCE),
    row(TerminalOfAnyRun, MATCHING, "takes another run's end for this one's", "release", EVIDENCE),
    row(EvidenceFromTheFuture, MATCHING, "takes evidence from after its commit", "release", EVIDENCE),
    row(StartTwice, DISPATCH, "starts a dispatch that was started", "launch", LAUNCH),
    row(StartWhilePaused, DISPATCH, "starts a launch while grants are paused", "launch", PAUSE),
    row(BindWithoutStart, DISPATCH, "binds a run that nobody started", "launch", LIFECYCLE),
    row(RebindAnyRun, DISPATCH, "binds a second run", "launch", LIFECYCLE),
    row(ShareRun, DISPATCH, "binds one run to two dispatches", "bindings", LIFECYCLE),
    row(DoubtAfterBinding, DISPATCH, "puts a bound dispatch in doubt", "launch", LIFECYCLE),
    row(UncountedLifecycle, DISPATCH, "does not count a dispatch's steps", "launch", PROJECTION),
    row(CancelCompletedWork, CANCEL, "cancels completed Work", "finish", CANCELLATION),
    row(IgnoreFence, CANCEL, "cancels although another Claim owns", "finish", CANCELLATION),
    row(CancelKeepsClaimOpen, CANCEL, "cancels Work and leaves its Claim open", "grant race", PROJECTION),
    row(IgnoreBackoff, CANCEL, "takes a retry boundary below the backoff", "retry", RETRY),
    row(KeepExhaustedWork, "engine/apply", "keeps Work whose last attempt was cancelled", "retry", RETRY),
    row(PriorityOfClaimedWork, CONTROL, "changes the priority of granted Work", "packing", PRIORITY),
    row(PriorityUnseen, CONTROL, "changes a priority that was not the expected one", "debt", PRIORITY),
    row(AdmitWhilePaused, ADMIT, "admits while admission is paused", "children", PAUSE),
    row(ChildBetterPriority, ADMIT, "lets a child outrank its parent", "children", ADMISSION),
    row(RequestTwice, "engine/replay, ledger/judge", "forgets that a request is committed", "grant race", REQUEST),
    row(RecoverAnyMeaning, "ledger/judge", "answers a reused id with another's commit", "grant race", REQUEST),
    row(IgnoreReserve, "engine/budget", "admits and grants into the recovery reserve", "budget", BUDGET),
    row(FreeReservation, "engine/index", "reserves nothing for a dispatch", "budget", BUDGET),
    row(MixProfiles, PACK, "batches Work of two routes", "profiles", PLAN),
    row(OverfillBatch, PACK, "puts more Claims into a dispatch than its profile allows", "profiles", CAPACITY),
    row(UseStaleObservation, "engine/schedule/eligibility", "grants on an observation that is too old", "gates", PLAN),
    row(
        UseOldGeneration,
        "engine/schedule/eligibility",
        "grants on another credential generation's observation",
        "gates",
        PLAN,
    ),
    row(PolicyWhileActive, "engine/replay", "changes the Policy under open Work", "policy", POLICY),
    row(DeployUnseen, "engine/apply/deploy", "deploys over a revision that nobody expected", "deployment", DEPLOYMENT),
    row(DeployOtherAuthority, "engine/apply/deploy", "deploys a wider authority", "deployment", DEPLOYMENT),
    row(DeployOverRevision, "engine/apply/deploy", "rewrites a revision", "deployment", DEPLOYMENT),
    row(RunPausedRevision, "engine/registry", "grants on a paused revision", "deployment", DEPLOYMENT),
    row(
        RunOtherContract,
        "engine/registry",
        "grants under another contract than at admission",
        "deployment",
        DEPLOYMENT,
    ),
    row(IgnorePin, "engine/registry", "runs pinned Work on the current revision", "deployment", PROJECTION),
    row(KeepOpenEnds, SETTLE, "ends kept-open Work at its first delivery", "rounds", PROJECTION),
    row(KeepOpenKeepsAttempts, SETTLE, "carries attempts into the next round", "rounds", PROJECTION),
    row(ReplaceUnfailed, ADMIT, "replaces Work that did not fail", "replacement", ADMISSION),
    row(ReplaceUnremedied, "ledger/guard", "replaces Work that may have had effects", "replacement", ADMISSION),
    row(
        CompactionForgetsRequests,
        "engine/checkpoint/restore",
        "forgets the requests that it replaces",
        "compaction",
        REQUEST,
    ),
    row(CompactionResumesGrants, "engine/checkpoint/restore", "ends a pause", "rounds", COMPACTION),
    row(CompactionResetsDebt, "engine/checkpoint/restore", "forgets all debt", "compaction", COMPACTION),
    row(
        CompactionForgetsRuns,
        "engine/checkpoint/restore/dispatches",
        "forgets which runs are bound",
        "compacted bindings",
        COMPACTION,
    ),
    row(CompactionRefundsAttempts, "engine/checkpoint/restore/works", "gives attempts back", "compaction", COMPACTION),
    row(
        CompactionFreesReservations,
        "engine/checkpoint/restore/dispatches",
        "frees every reservation",
        "compaction",
        COMPACTION,
    ),
];
