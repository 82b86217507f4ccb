//! What the pure core returns when it refuses something.

use std::borrow::Cow;
use std::fmt;

use super::code::Code;

/// A refusal: a stable code, a sentence, and where in the text it was seen.
///
/// Boxed, because it is rare and every fallible function of the core returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    code: Code,
    message: Cow<'static, str>,
    offset: Option<usize>,
}

impl Fault {
    /// A refusal with a sentence of its own.
    #[must_use]
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner { code, message: message.into(), offset: None }))
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The sentence. It names fields and bounds, never values.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Byte offset in the text that was read, where one is known.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        self.0.offset
    }

    /// The same refusal, seen at a byte offset. An offset that is already known stays.
    #[must_use]
    pub fn at(mut self, offset: usize) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// The same refusal without its offset, for text that nobody wrote in this form.
    #[must_use]
    pub(crate) fn without_offset(mut self) -> Self {
        self.0.offset = None;
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code, self.0.message)
    }
}

impl std::error::Error for Fault {}

impl From<Code> for Fault {
    fn from(code: Code) -> Self {
        Self::new(code, code.meaning())
    }
}

/// Ends the surrounding function with a refusal unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $code:ident, $message:expr) => {
        if !($condition) {
            return Err(From::from($crate::protocol::Fault::new($crate::protocol::Code::$code, $message)));
        }
    };
}
pub(crate) use ensure;
