//! What the ledger room returns when a read or a publication did not succeed.

use std::borrow::Cow;
use std::fmt;

use crate::protocol::ledger_text::LedgerFault;
use crate::protocol::{Code, Fault};

/// What kind of failure it is, whatever its code: the question that decides between giving up, repeating and asking a
/// person (design.md 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// A credential, a repository rule or a file permission refused it. Repeating changes nothing.
    Denied,
    /// The ledger, the request or a name is wrong. Nothing was changed.
    Invalid,
    /// Somebody else was faster; another attempt may succeed.
    Conflict,
    /// It cannot be told whether the remote changed. The same request may be repeated safely.
    Unknown,
    /// The host, the network or the git executable did not do its work. Nothing was changed.
    Unavailable,
    /// There is no queue here.
    Absent,
}

/// A failure: a stable code, its class, a sentence, and the next action.
///
/// The sentence never holds a path, a URL, a token, a payload or text that a remote sent. Boxed, because it is rare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerError(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    code: Code,
    class: Class,
    message: Cow<'static, str>,
    action: &'static str,
    status: Option<u16>,
    line: Option<usize>,
    offset: Option<usize>,
}

impl LedgerError {
    /// A failure with a sentence and the action that a person should take.
    #[must_use]
    pub fn new(code: Code, class: Class, message: impl Into<Cow<'static, str>>, action: &'static str) -> Self {
        Self(Box::new(Inner { code, class, message: message.into(), action, status: None, line: None, offset: None }))
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What kind of failure it is.
    #[must_use]
    pub fn class(&self) -> Class {
        self.0.class
    }

    /// The sentence.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What to do next, as one imperative sentence.
    #[must_use]
    pub fn action(&self) -> &'static str {
        self.0.action
    }

    /// The HTTP status that the remote answered with, where one is known.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The ledger line at fault, from 1, where a single line is.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.0.line
    }

    /// The byte offset in the text that was refused, where one is known.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        self.0.offset
    }

    /// The exit status of a command that ends with this failure (design.md 6): the class decides where it says more
    /// than the code.
    #[must_use]
    pub fn exit(&self) -> u8 {
        match self.0.class {
            Class::Denied => 4,
            Class::Unknown => 5,
            _ => self.0.code.exit(),
        }
    }

    /// The same failure with an HTTP status.
    #[must_use]
    pub(crate) fn with_status(mut self, status: Option<u16>) -> Self {
        self.0.status = status;
        self
    }

    /// A failure of our own reasoning: an assertion before a push did not hold.
    #[must_use]
    pub(crate) fn internal(message: &'static str) -> Self {
        Self::new(Code::Internal, Class::Invalid, message, "Report this; nothing was written.")
    }

    /// A local file or directory could not be used. The cause's kind is kept, its text and path are not.
    #[must_use]
    pub(crate) fn io(what: &'static str, cause: &std::io::Error) -> Self {
        let message = format!("{what} ({})", cause.kind());
        Self::new(Code::IoFailed, Class::Unavailable, message, "Check the temporary directory's space and permissions.")
    }
}

/// A refusal of the pure core. Its class follows from its exit status.
impl From<Fault> for LedgerError {
    fn from(fault: Fault) -> Self {
        let class = if fault.code().exit() == 4 { Class::Denied } else { Class::Invalid };
        let action = match class {
            Class::Denied => "Ask someone whose role or entitlement permits this.",
            _ => "Correct what the code names; nothing was changed.",
        };
        let mut error = Self::new(fault.code(), class, fault.message().to_owned(), action);
        error.0.offset = fault.offset();
        error
    }
}

/// A refusal of a ledger that was read, with its line.
impl From<LedgerFault> for LedgerError {
    fn from(refused: LedgerFault) -> Self {
        let message = refused.fault.message().to_owned();
        let action = "Find out who wrote the ledger; it is never repaired or reset here.";
        let mut error = Self::new(refused.fault.code(), Class::Invalid, message, action);
        (error.0.line, error.0.offset) = (refused.line, refused.offset);
        error
    }
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.0.code)?;
        if let Some(line) = self.0.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.0.message)?;
        match self.0.status {
            Some(status) => write!(f, " (HTTP {status})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for LedgerError {}
