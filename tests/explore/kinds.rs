//! What the actors of a search may ask, and where they stand.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::register::digest;

/// Backoff of the usual Policy, and the length of a tick.
pub(crate) const TICK: i64 = 30_000;

/// A Claim by the slot that grants it and its number in that grant, from 1.
pub(crate) type Of = (usize, usize);

/// Which run speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// The one that the dispatch was posted for.
    Own,
    /// Some other run of the same workflow.
    Stray,
}

/// What is offered to free a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The dispatch was read as reserved.
    Prelaunch,
    /// No run was found.
    Nonlaunch,
    /// Its run has ended.
    Terminal,
    /// Another run has ended.
    TerminalOfStray,
    /// Its run has ended, by a clock that is ahead.
    TerminalAhead,
    /// Its run was looked at.
    Reconciliation,
}

/// What a deployment does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Activate,
    /// Only makes the revision unavailable.
    Pause,
    /// Activates with a wider authority.
    Widen,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Grant {
        claims: u32,
        dispatches: u32,
    },
    /// The start marker; with a permit it is the granting dispatcher's next step, without one an operator's.
    Start {
        of: Of,
        permit: bool,
    },
    Uncertain {
        of: Of,
        start: usize,
    },
    Reject {
        of: Of,
    },
    Bind {
        of: Of,
        run: Run,
    },
    /// Ends a Claim; `kept completed` completes it for this round alone.
    Finish {
        of: Of,
        run: Run,
        outcome: &'static str,
    },
    /// A revision of the route, by its digit, under a contract by its digit; `expected` is the current one.
    Deploy {
        expected: (char, char),
        revision: (char, char),
        change: Change,
    },
    /// Another Policy: the installed one with this logical limit.
    Policy {
        logical: u32,
    },
    /// What the Issue of number 7 looks like.
    Observe {
        id: &'static str,
        closed: bool,
    },
    Generation(&'static str),
    Compact,
    /// A child that the worker of a Claim submits.
    Child {
        of: Of,
        priority: i64,
    },
    /// A Result for the Work of one Claim in the name of another (usually the same).
    Result {
        of: Of,
        by: Of,
    },
    /// `clean` if a receipt shows that nothing was delivered.
    Failure {
        of: Of,
        attempts: i64,
        clean: bool,
    },
    /// A node in the place of a failed Work.
    Replace {
        of: Of,
        priority: i64,
    },
    Release {
        of: Of,
        proof: Proof,
        cancel: bool,
    },
    CancelClaim {
        of: Of,
        backoff: i64,
    },
    CancelWork {
        node: &'static str,
        fence: Option<Of>,
    },
    Priority {
        node: &'static str,
        expected: i64,
        priority: i64,
    },
    PauseGrants(bool),
    PauseAdmission(bool),
    Submit {
        node: &'static str,
    },
    /// The request id of another slot with another meaning.
    Reuse {
        slot: usize,
    },
}

/// One thing that one actor may ask once, under one request id.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Reading and writing are separate steps, and the actor may crash between them.
    pub(crate) split: bool,
    /// The acknowledgement may be lost, whether the write landed or not.
    pub(crate) lossy: bool,
}

pub(crate) fn slot(name: &'static str, kind: Kind) -> Slot {
    Slot { name, kind, split: false, lossy: false }
}

impl Slot {
    pub(crate) fn split(mut self) -> Self {
        self.split = true;
        self
    }

    pub(crate) fn lossy(mut self) -> Self {
        self.lossy = true;
        self
    }
}

/// What GitHub knows of one dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Native {
    pub(crate) posts: u8,
    pub(crate) running: bool,
    pub(crate) ended: bool,
}

pub(crate) type Natives = BTreeMap<String, Native>;

/// The text of a fixed request. Its digest stands for it wherever states are told apart.
#[derive(Clone)]
pub(crate) struct Fixed {
    pub(crate) text: Rc<str>,
    digest: u128,
}

impl Fixed {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: Rc::from(text), digest: digest(&[text.to_owned()]) }
    }
}

impl std::fmt::Debug for Fixed {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:x}", self.digest)
    }
}

impl PartialEq for Fixed {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Fixed {}

/// Where an actor stands with its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Local {
    Idle,
    /// Holds a fixed request; `fresh` if the version that it read is still the register's.
    Held {
        request: Fixed,
        fresh: bool,
    },
    /// Does not know whether its write landed.
    Doubt {
        request: Fixed,
    },
    /// Acknowledged by this very call: may launch what it grants or marks.
    Permit,
    /// Posted, with what the actor learned: `true` a run, `false` a refusal, none nothing.
    Posted(Option<bool>),
    /// Ended, with nothing more to do.
    Over,
}
