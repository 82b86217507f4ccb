//! The rules by name, and which of them are judged.

use std::cell::Cell;

/// A broken rule.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) rule: &'static str,
    pub(crate) detail: String,
}

pub(crate) type Verdict = Result<(), Violation>;

thread_local! {
    static FOCUS: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Runs a closure with only one rule judged, so that a fault is caught by the rule that it breaks and by no other.
pub(crate) fn focused<T>(rule: Option<&'static str>, run: impl FnOnce() -> T) -> T {
    let before = FOCUS.replace(rule);
    let outcome = run();
    FOCUS.set(before);
    outcome
}

pub(crate) fn is_judged(rule: &str) -> bool {
    FOCUS.get().is_none_or(|focus| focus == rule)
}

/// Ends the function with a violation unless the condition holds, or another rule is in focus.
macro_rules! rule {
    ($holds:expr, $rule:expr, $($detail:tt)*) => {
        if !$holds && $crate::audit::rules::is_judged($rule) {
            return Err($crate::audit::rules::Violation { rule: $rule, detail: format!($($detail)*) });
        }
    };
}
pub(crate) use rule;

pub(crate) const WINNER: &str = "single winner";
pub(crate) const CHARGE: &str = "one charge";
pub(crate) const CAPACITY: &str = "capacity";
pub(crate) const AUTHORITY: &str = "authority";
pub(crate) const PREDECESSOR: &str = "predecessor's Result";
pub(crate) const SETTLEMENT: &str = "one settlement";
pub(crate) const EVIDENCE: &str = "evidence frees";
pub(crate) const DEBT: &str = "debt";
pub(crate) const REQUEST: &str = "request once";
pub(crate) const REPLAY: &str = "replay";
pub(crate) const READABLE: &str = "readable";
pub(crate) const PROJECTION: &str = "projection";
pub(crate) const LIFECYCLE: &str = "lifecycle";
pub(crate) const PLAN: &str = "fair plan";
pub(crate) const RETRY: &str = "retry";
pub(crate) const CANCELLATION: &str = "cancellation";
pub(crate) const PAUSE: &str = "pause";
pub(crate) const ADMISSION: &str = "admission";
pub(crate) const BUDGET: &str = "budget";
pub(crate) const PRIORITY: &str = "priority";
pub(crate) const LAUNCH: &str = "one launch";
pub(crate) const DEPLOYMENT: &str = "deployment";
pub(crate) const POLICY: &str = "policy";
pub(crate) const COMPACTION: &str = "compaction";

/// Every rule and its sentence, for the report.
pub(crate) const RULES: &[(&str, &str)] = &[
    (WINNER, "a Claim is granted only for Work that nobody owns; at most one Claim of a Work is open"),
    (CHARGE, "every durable Claim advances the clocks exactly as the second planner says, once"),
    (CAPACITY, "open Claims and unreleased dispatches, recounted, never exceed the logical, native and account limits"),
    (
        AUTHORITY,
        "only the bound run of an unreleased dispatch finishes a Claim that owns its Work, and effects need its own Completion with a pending delivery",
    ),
    (PREDECESSOR, "no Work is granted before every predecessor has a Result"),
    (SETTLEMENT, "a Completion is settled once, by a Result or a DeliveryFailure, naming its own Claim and commit"),
    (
        EVIDENCE,
        "a reservation is freed once, by prelaunch, nonlaunch or terminal evidence that fits the dispatch, with no Claim open",
    ),
    (DEBT, "no commit without a Claim changes a clock"),
    (REQUEST, "a request id is committed at most once, and every later answer names that commit"),
    (REPLAY, "cold replay of the ledger's bytes gives the projection that was extended commit by commit"),
    (READABLE, "the ledger's bytes replay at all (not counted against faults)"),
    (PROJECTION, "the serialised projection says of every Work, Claim and dispatch what the recount says"),
    (
        LIFECYCLE,
        "a dispatch starts once, binds one run for ever, shares it with no other, and spends a bounded number of steps",
    ),
    (PLAN, "a grant, and a refusal to grant, is the second planner's"),
    (RETRY, "no grant before the retry boundary or after the last attempt; a cancelled last attempt ends its Work"),
    (
        CANCELLATION,
        "completed Work is never cancelled; a fenced cancellation needs its owner; the owner's Claim ends with it",
    ),
    (PAUSE, "nothing is granted or started while grants are paused, nothing admitted while admission is"),
    (
        ADMISSION,
        "a worker's child keeps its parent's pool, priority and key; a replacement keeps those of Work whose delivery failed without effects",
    ),
    (BUDGET, "every accepted commit leaves room to settle everything that is open"),
    (PRIORITY, "a priority changes only on available Work, from the value that was expected"),
    (LAUNCH, "no dispatch is posted twice"),
    (
        DEPLOYMENT,
        "a deployment moves revision and contract alone, from the ones that were expected, and never rewrites a revision; \
         a Claim runs the pinned or current revision, available and under the contract of its admission",
    ),
    (POLICY, "a Policy changes only when nothing is active"),
    (
        COMPACTION,
        "a compacted ledger has the projection of the one that was not, gives the same answers, and stays equal to it \
         under every later commit",
    ),
];
