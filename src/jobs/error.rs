//! What a job ends with when it did not do what it is for: a stable code, a sentence, what to do next, and the category
//! under which an operator finds it.

use std::borrow::Cow;

use crate::forge::ForgeError;
use crate::launch::error::LaunchError;
use crate::ledger::{Class, LedgerError};
use crate::protocol::{Code, Fault};
use crate::report::category::Category;
use crate::runner::output::Outputs;

/// A failed job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobError {
    code: Code,
    category: Category,
    message: Cow<'static, str>,
    action: Cow<'static, str>,
    exit: u8,
    status: Option<u16>,
}

impl JobError {
    /// A failure with the action of its category.
    #[must_use]
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        let category = Category::of(code);
        let action = category.action.into();
        Self { code, category, message: message.into(), action, exit: code.exit(), status: None }
    }

    /// The same failure with another next action.
    #[must_use]
    pub fn with_action(self, action: impl Into<Cow<'static, str>>) -> Self {
        Self { action: action.into(), ..self }
    }

    /// The same failure under another code.
    #[must_use]
    pub fn recoded(self, code: Code) -> Self {
        let category = Category::of(code);
        Self { code, category, action: category.action.into(), exit: code.exit(), ..self }
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// The category.
    #[must_use]
    pub fn category(&self) -> Category {
        self.category
    }

    /// The sentence. It never holds a payload, an identifier, a token, a path or text of a host.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do next.
    #[must_use]
    pub fn action(&self) -> &str {
        &self.action
    }

    /// The exit status of the mode.
    #[must_use]
    pub fn exit(&self) -> u8 {
        self.exit
    }

    /// The HTTP status that a host answered with, where one is known.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// The one annotation of a failed step: category, code, explanation and action, all of them static text.
    pub fn annotate(&self, outputs: &mut dyn Outputs) {
        let Category { name, explanation, action } = self.category;
        let message = format!("{} ({}): {explanation} {action}", name, self.code);
        outputs.error(&format!("Work queue: {name}"), &message);
    }
}

impl From<Fault> for JobError {
    fn from(fault: Fault) -> Self {
        Self::new(fault.code(), fault.message().to_owned())
    }
}

impl From<LedgerError> for JobError {
    fn from(error: LedgerError) -> Self {
        let made = Self::new(error.code(), error.message().to_owned());
        let category = match (error.class(), error.code()) {
            (Class::Conflict, _) => Category::PUBLICATION_CONFLICT,
            (Class::Unknown, _) => Category::PUBLICATION_UNCERTAIN,
            (Class::Denied, Code::RepositoryUnavailable) => Category::GITHUB_PERMISSION_DENIED,
            // A line at fault is a line of the ledger, whatever its code.
            _ if error.line().is_some() && made.category != Category::LEDGER_LIMIT => Category::LEDGER_INVALID,
            _ => made.category,
        };
        Self { category, action: error.action().into(), exit: error.exit(), status: error.status(), ..made }
    }
}

impl From<ForgeError> for JobError {
    fn from(error: ForgeError) -> Self {
        let made = Self::new(error.code(), error.message());
        Self { action: error.action().into(), status: error.status(), ..made }
    }
}

impl From<LaunchError> for JobError {
    fn from(error: LaunchError) -> Self {
        match error {
            LaunchError::Refused(fault) => fault.into(),
            LaunchError::Ledger(error) => error.into(),
            LaunchError::Forge(error) => error.into(),
        }
    }
}
