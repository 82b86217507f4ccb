//! Deliberate faults for the explorer (`tests/explore`): one switch for each rule that the engine or the publisher keeps.
//!
//! A place that keeps a rule asks `mutated!(Name)`. Without the feature `mutate`, which only test builds have, and in
//! every optimised build without debug assertions, benches included, the question is the constant `false` and nothing of
//! this file but the macro is compiled. With it the answer is a
//! thread-local that a test sets for the time of a closure, so that one process can hold many faulty engines side by
//! side. Each switch breaks one rule for writers and readers alike, since both ask the same code: replay agrees with
//! the fault, and only a rule of somebody else's can find it.

/// True if this fault is switched on in this thread; always false outside test builds.
#[cfg(all(feature = "mutate", debug_assertions))]
macro_rules! mutated {
    ($name:ident) => {
        $crate::engine::mutation::is_active($crate::engine::mutation::Mutation::$name)
    };
}
#[cfg(not(all(feature = "mutate", debug_assertions)))]
macro_rules! mutated {
    ($name:ident) => {
        false
    };
}
pub(crate) use mutated;

#[cfg(all(feature = "mutate", debug_assertions))]
pub use switches::{Mutation, with};

#[cfg(all(feature = "mutate", debug_assertions))]
pub(crate) use switches::is_active;

#[cfg(all(feature = "mutate", debug_assertions))]
mod switches {
    use std::cell::Cell;

    use crate::engine::Projection;
    use crate::protocol::Fault;
    use crate::protocol::actor::Actor;

    macro_rules! mutations {
        ($($name:ident,)*) => {
            /// The deliberate faults. What each breaks stands in the explorer's table.
            #[allow(missing_docs, reason = "the explorer's table says where each is and what it breaks")]
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            pub enum Mutation { $($name,)* }

            impl Mutation {
                /// All of them.
                pub const ALL: &'static [Self] = &[$(Self::$name,)*];
            }
        };
    }

    mutations! {
        IgnoreLogicalLimit,
        IgnoreAccountLimit,
        IgnoreNativeLimit,
        IgnoreDispatchBudget,
        GrantWhilePaused,
        IgnoreRetryDelay,
        SuccessorBeforeResult,
        ChargeTwice,
        ForgetCharge,
        IdleCredit,
        ReverseTies,
        LastInFirstOut,
        MixAccounts,
        PauseResetsDebt,
        PriorityResetsDebt,
        CancelResetsDebt,
        ClaimLeavesWorkAvailable,
        ForgetAttempt,
        LeakLogicalSlot,
        FinishWithoutOwnership,
        AnyRunMayFinish,
        FinishAfterRelease,
        EffectsAfterFailure,
        ControlsBeforeCompletion,
        SettleTwice,
        SettleOtherCompletion,
        FailEarly,
        ReleaseWithOpenClaims,
        ReleaseOnReconciliation,
        ReleaseTwice,
        PrelaunchAfterStart,
        NonlaunchDespiteRun,
        TerminalOfAnyRun,
        EvidenceFromTheFuture,
        StartTwice,
        StartWhilePaused,
        BindWithoutStart,
        RebindAnyRun,
        ShareRun,
        DoubtAfterBinding,
        UncountedLifecycle,
        CancelCompletedWork,
        IgnoreFence,
        CancelKeepsClaimOpen,
        IgnoreBackoff,
        KeepExhaustedWork,
        PriorityOfClaimedWork,
        PriorityUnseen,
        AdmitWhilePaused,
        ChildBetterPriority,
        RequestTwice,
        RecoverAnyMeaning,
        IgnoreReserve,
        FreeReservation,
        MixProfiles,
        OverfillBatch,
        UseStaleObservation,
        UseOldGeneration,
        PolicyWhileActive,
        DeployUnseen,
        DeployOtherAuthority,
        DeployOverRevision,
        RunPausedRevision,
        RunOtherContract,
        IgnorePin,
        KeepOpenEnds,
        KeepOpenKeepsAttempts,
        ReplaceUnfailed,
        ReplaceUnremedied,
        CompactionForgetsRequests,
        CompactionResumesGrants,
        CompactionResetsDebt,
        CompactionForgetsRuns,
        CompactionRefundsAttempts,
        CompactionFreesReservations,
    }

    thread_local! {
        static ACTIVE: Cell<Option<Mutation>> = const { Cell::new(None) };
    }

    /// Runs a closure with one fault switched on in this thread, or with none.
    pub fn with<T>(mutation: Option<Mutation>, run: impl FnOnce() -> T) -> T {
        let before = ACTIVE.replace(mutation);
        let outcome = run();
        ACTIVE.set(before);
        outcome
    }

    pub(crate) fn is_active(mutation: Mutation) -> bool {
        ACTIVE.get() == Some(mutation)
    }

    impl Projection {
        /// Whether the worker behind a member may act on its Claim, completed or not.
        ///
        /// # Errors
        /// As for every operation that needs the Claim's authority.
        #[doc(hidden)]
        pub fn probe_authority(&self, dispatch: &str, handle: &str, actor: &Actor) -> Result<(), Fault> {
            let member = self.member_claim(dispatch, handle);
            let member = member.ok_or_else(|| Fault::from(crate::protocol::Code::ClaimScopeInvalid))?;
            self.claim_authority(member, actor, true)
        }

        /// Whether the worker may have effects: its Claim is completed and the delivery pending.
        ///
        /// # Errors
        /// As for every control of a worker.
        #[doc(hidden)]
        pub fn probe_effects(&self, actor: &Actor) -> Result<(), Fault> {
            self.continuation(actor).map(|_| ())
        }
    }
}
