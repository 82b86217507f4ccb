//! What a command ends with when it did not do what was asked: a stable code, a sentence, the next action and the
//! exit status. Payloads, paths, tokens and text of a remote are in none of them.

use std::borrow::Cow;

use crate::jobs::JobError;
use crate::protocol::json::Writer;
use crate::protocol::ledger_text::LedgerFault;
use crate::protocol::{Code, Fault};
use crate::report::plain;

/// A failed command.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: Cow<'static, str>,
    pub(crate) next: Cow<'static, str>,
    pub(crate) exit: u8,
}

impl Failure {
    /// A failure whose exit status is its code's.
    pub(crate) fn new(code: Code, message: impl Into<Cow<'static, str>>, next: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), next: next.into(), exit: code.exit() }
    }

    /// A wrong command line.
    pub(crate) fn usage(message: impl Into<Cow<'static, str>>, next: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::UsageInvalid, message, next)
    }

    /// A defect of an input file or of a flag's value: exit 2, whatever the code means in a ledger.
    pub(crate) fn input(fault: &Fault, what: &'static str) -> Self {
        let place = fault.offset().map(|offset| format!(" (at byte {offset})")).unwrap_or_default();
        let message = format!("{what}: {}{place}", fault.message());
        let next = "Correct the input and run the command again; nothing was changed.";
        Self { code: fault.code(), message: message.into(), next: next.into(), exit: 2 }
    }

    /// A flag whose value is out of its range.
    pub(crate) fn flag(fault: &Fault, name: &'static str) -> Self {
        Self::usage(format!("{name}: {}", fault.message()), "Run the command with --help to see its bounds.")
    }

    /// A defect of the request itself on a valid ledger: exit 2, because the ledger is not at fault.
    pub(crate) fn at_request(self) -> Self {
        if self.exit == 3 && self.code != Code::LedgerNonextending { Self { exit: 2, ..self } } else { self }
    }

    /// A ledger that cannot be read, with the place at fault.
    pub(crate) fn ledger(fault: &LedgerFault) -> Self {
        let mut message = String::new();
        if let Some(line) = fault.line {
            message.push_str(&format!("line {line}: "));
        }
        message.push_str(&sentence(fault.fault.code(), fault.fault.message()));
        if let Some(offset) = fault.offset {
            message.push_str(&format!(" (at byte {offset})"));
        }
        let next = match fault.fault.code() {
            Code::UnsupportedProtocol => "Use a version of wq that supports it; nothing was changed.",
            _ => "Compare the line with the branch's history and find out who wrote it; nothing was changed.",
        };
        Self { code: fault.fault.code(), message: message.into(), next: next.into(), exit: 3 }
    }

    /// The one object that `--json` prints for a failure.
    pub(crate) fn json(&self) -> String {
        let mut writer = Writer::new();
        writer.object(|outer| {
            outer.name("error", |w| {
                w.object(|error| {
                    error.name("code", |w| w.string(self.code.as_str()));
                    error.name("message", |w| w.string(&self.message));
                    error.name("next", |w| w.string(&self.next));
                });
            });
        });
        writer.finish()
    }

    /// The sentences for people.
    pub(crate) fn text(&self) -> String {
        // A message may name node keys, which are whatever somebody submitted.
        format!("{}: {}\nnext: {}", self.code, plain(&self.message), self.next)
    }
}

/// A failed job keeps its code, sentence, next action and exit status.
impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        let made = Self::new(error.code(), error.message().to_owned(), error.action().to_owned());
        Self { exit: error.exit(), ..made }
    }
}

/// A refusal of the pure core on a valid ledger.
impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        let next = match fault.code().exit() {
            2 => "Correct what the code names and run the command again; nothing was changed.",
            3 => "The ledger or the request does not hold together; nothing was changed.",
            4 => "Ask someone whose role or entitlement permits this; nothing was changed.",
            70 => "Please report this; nothing was written.",
            _ => "Run the command again.",
        };
        Self::new(fault.code(), sentence(fault.code(), fault.message()), next)
    }
}

/// The core's message as a sentence: that of a cycle is the cycle alone.
pub(crate) fn sentence(code: Code, message: &str) -> String {
    if code == Code::DependencyCycle { format!("the edges form a cycle: {message}") } else { message.to_owned() }
}

/// Makes a panic end with exit status 70 and one plain sentence, and no text of its own: a panic's message may quote
/// what was being processed.
pub(crate) fn on_panic(json: bool) {
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
        let failure = Failure::new(
            Code::Internal,
            format!("the program found itself in a state that it should exclude{place}"),
            "Please report this with the command that you ran; repeat a publication only with the same --request-id.",
        );
        super::output::failure(&failure, json);
        std::process::exit(i32::from(Code::Internal.exit()));
    }));
}
