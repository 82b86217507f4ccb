//! What a service of a trusted job returns when it did not succeed: a failure of the core, of the queue branch or of a
//! call to GitHub, each with its code, sentence and next action.

use std::borrow::Cow;
use std::fmt;

use crate::forge::ForgeError;
use crate::ledger::{Class, LedgerError};
use crate::protocol::{Code, Fault};

/// A failed service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchError {
    /// Refused by a rule.
    Refused(Fault),
    /// The queue branch.
    Ledger(LedgerError),
    /// GitHub.
    Forge(ForgeError),
}

impl LaunchError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Refused(fault) => fault.code(),
            Self::Ledger(error) => error.code(),
            Self::Forge(error) => error.code(),
        }
    }

    /// The sentence.
    #[must_use]
    pub fn message(&self) -> Cow<'_, str> {
        match self {
            Self::Refused(fault) => fault.message().into(),
            Self::Ledger(error) => error.message().into(),
            Self::Forge(error) => error.message().into(),
        }
    }

    /// What to do next.
    #[must_use]
    pub fn action(&self) -> &'static str {
        match self {
            Self::Refused(fault) => match fault.code().exit() {
                4 => "Check which run, credential and route this is for; nothing was changed.",
                6 => "Read the dispatch's evidence with `wq evidence`; its reservation is kept.",
                7 => "Repeat the command when the host answers again.",
                _ => "Correct what the code names; nothing was changed.",
            },
            Self::Ledger(error) => error.action(),
            Self::Forge(error) => error.action(),
        }
    }

    /// The exit status of a command that ends with it.
    #[must_use]
    pub fn exit(&self) -> u8 {
        match self {
            Self::Ledger(error) => error.exit(),
            _ => self.code().exit(),
        }
    }

    /// True if repeating a read can help, or waiting for what it shows.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Refused(fault) => fault.code() == Code::RunCorrelationMismatch,
            Self::Ledger(error) => matches!(error.class(), Class::Unavailable | Class::Unknown | Class::Conflict),
            Self::Forge(error) => error.is_transient(),
        }
    }
}

impl From<Fault> for LaunchError {
    fn from(fault: Fault) -> Self {
        Self::Refused(fault)
    }
}

impl From<LedgerError> for LaunchError {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error)
    }
}

impl From<ForgeError> for LaunchError {
    fn from(error: ForgeError) -> Self {
        Self::Forge(error)
    }
}

/// For what is decided inside a publication. Nothing was written by it; what the host refused is *denied*.
impl From<LaunchError> for LedgerError {
    fn from(error: LaunchError) -> Self {
        match error {
            LaunchError::Ledger(error) => error,
            LaunchError::Refused(fault) => fault.into(),
            LaunchError::Forge(error) => {
                let class = if error.code().exit() == 4 { Class::Denied } else { Class::Unavailable };
                Self::new(error.code(), class, error.message(), error.action()).with_status(error.status())
            }
        }
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.message())
    }
}

impl std::error::Error for LaunchError {}
