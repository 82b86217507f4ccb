//! Identities and the other validated primitives (engine.md 1.4). None of them can be built invalid.

use std::borrow::Borrow;
use std::fmt;

use super::fault::ensure;
use super::json::{Node, Writer, hex};
use super::limits::{MAX_FAIRNESS_KEY_BYTES, MAX_IDENTITY_BYTES, MAX_INTEGER, MAX_REASON_CHARS};
use super::wire::Wire;
use super::{Code, Fault, Text};

/// A string value; anything else is `invalid_unicode`, as the reference has it.
fn string(node: Node<'_>) -> Result<Text, Fault> {
    node.string().ok_or_else(|| node.fault(Code::InvalidUnicode, "a string was expected"))
}

fn has_control(text: &str) -> bool {
    // No early exit: identities are short and clean, and this form runs on whole vectors.
    text.bytes().fold(false, |found, byte| found | (byte < 0x20) | (byte == 0x7f))
}

fn identity_shape(text: &str) -> Result<(), Fault> {
    ensure!(!text.is_empty(), LedgerInvalid, "an identity is empty");
    ensure!(text.len() <= MAX_IDENTITY_BYTES, LedgerInvalid, "an identity is longer than 256 bytes");
    ensure!(!has_control(text), LedgerInvalid, "an identity holds a control character");
    Ok(())
}

/// Checks that a node is an identity, without keeping it.
pub(crate) fn check_identity(node: Node<'_>) -> Result<(), Fault> {
    match node.plain() {
        Some(text) => identity_shape(text),
        None => identity_shape(string(node)?.as_str()),
    }
    .map_err(|fault| Fault::at_node(fault, node))
}

impl Fault {
    /// Places a refusal at a node, where the node's text was given in this form.
    pub(crate) fn at_node(fault: Fault, node: Node<'_>) -> Fault {
        match node.fault(fault.code(), "").offset() {
            Some(offset) => fault.at(offset),
            None => fault,
        }
    }
}

/// What every newtype over [`Text`] has, however it is validated.
macro_rules! held_text {
    ($name:ident) => {
        impl $name {
            /// The string.
            #[must_use]
            pub fn as_str(&self) -> &str {
                self.0.as_str()
            }

            /// The shared text.
            #[must_use]
            pub fn text(&self) -> &Text {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                self.as_str()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), self.as_str())
            }
        }
    };
}

/// Declares newtypes over [`Text`] that share one validator.
macro_rules! texts {
    ($validate:path: $($(#[$doc:meta])* $name:ident,)*) => { $(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Text);

        impl $name {
            /// Validates a string.
            ///
            /// # Errors
            /// The type's own code for text outside its range.
            pub fn new(text: impl Into<Text>) -> Result<Self, Fault> {
                let text = text.into();
                $validate(text.as_str())?;
                Ok(Self(text))
            }
        }

        impl Wire for $name {
            fn read(node: Node<'_>, _code: Code) -> Result<Self, Fault> {
                Self::new(string(node)?).map_err(|fault| Fault::at_node(fault, node))
            }

            fn write(&self, writer: &mut Writer) {
                writer.string(self.as_str());
            }
        }

        held_text!($name);
    )* };
}

texts! { identity_shape:
    /// Any identity without a type of its own: 1 to 256 UTF-8 bytes, no ASCII control.
    Identity,
    /// Id of a QueueCommit.
    CommitId,
    /// Id of a request; stable across retries.
    RequestId,
    /// A Policy epoch.
    Epoch,
    /// Id of one Work, derived from its graph and node key.
    WorkId,
    /// Id of one Claim.
    ClaimId,
    /// Id of one dispatch.
    DispatchId,
    /// A Claim's handle inside its dispatch, `h1` to `h16`.
    Handle,
    /// Id of a graph.
    GraphId,
    /// A Work's key inside its graph.
    NodeKey,
    /// Name of a pool.
    PoolName,
    /// Name of a worker profile inside its pool.
    ProfileName,
    /// A batch trust domain.
    TrustDomain,
    /// Id of an Observation.
    ObservationId,
    /// A credential generation.
    Generation,
    /// Id of an Issue comment.
    CommentId,
    /// Path of a compiled workflow.
    Workflow,
}

fn fairness_shape(text: &str) -> Result<(), Fault> {
    ensure!(text.len() <= MAX_FAIRNESS_KEY_BYTES, LedgerInvalid, "a fairness key is longer than 128 bytes");
    ensure!(!has_control(text), LedgerInvalid, "a fairness key holds a control character");
    Ok(())
}

texts! { fairness_shape:
    /// An accounting key: 0 to 128 UTF-8 bytes, no ASCII control.
    FairnessKey,
}

/// Declares newtypes whose range is a pattern, with the use site's code.
macro_rules! patterns {
    ($($(#[$doc:meta])* $name:ident($accepts:path, $code:ident, $message:literal),)*) => { $(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Text);

        impl $name {
            /// Validates a string.
            ///
            /// # Errors
            /// The type's default code for text outside its pattern.
            pub fn new(text: impl Into<Text>) -> Result<Self, Fault> {
                Self::with_code(text.into(), Code::$code)
            }

            fn with_code(text: Text, code: Code) -> Result<Self, Fault> {
                if $accepts(text.as_str()) { Ok(Self(text)) } else { Err(Fault::new(code, $message)) }
            }
        }

        impl Wire for $name {
            fn read(node: Node<'_>, code: Code) -> Result<Self, Fault> {
                let text = node.string().ok_or_else(|| node.fault(code, $message))?;
                Self::with_code(text, code).map_err(|fault| Fault::at_node(fault, node))
            }

            fn write(&self, writer: &mut Writer) {
                writer.string(self.as_str());
            }
        }

        held_text!($name);
    )* };
}

fn is_decimal(text: &str) -> bool {
    let bytes = text.as_bytes();
    matches!(bytes.first(), Some(b'1'..=b'9'))
        && bytes.len() <= MAX_IDENTITY_BYTES
        && bytes.iter().all(u8::is_ascii_digit)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_revision(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && is_hex(text)
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && is_hex(text)
}

fn is_reason(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.len() <= MAX_REASON_CHARS
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-'))
}

/// JavaScript's white space, which the reference's pattern excludes: not Unicode's (U+0085 out, U+FEFF in).
pub(crate) fn is_js_space(character: char) -> bool {
    matches!(character,
        '\u{9}'..='\u{d}' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{2028}' | '\u{2029}'
        | '\u{202f}' | '\u{205f}' | '\u{3000}' | '\u{feff}')
}

fn is_repository(text: &str) -> bool {
    identity_shape(text).is_ok() && names_repository(text)
}

/// True for `owner/name` of any length: the form alone, where an identity check comes later.
pub(crate) fn names_repository(text: &str) -> bool {
    let part = |part: &str| !part.is_empty() && !part.contains(is_js_space);
    text.split_once('/').is_some_and(|(owner, name)| part(owner) && part(name) && !name.contains('/'))
}

patterns! {
    /// A positive decimal identity of 1 to 256 digits, kept as text.
    Decimal(is_decimal, LedgerInvalid, "a decimal identity was expected"),
    /// A Git revision: 40 or 64 lower-case hexadecimal digits.
    Revision(is_revision, LedgerInvalid, "a full Git revision was expected"),
    /// A SHA-256 digest: 64 lower-case hexadecimal digits.
    Digest(is_digest, LedgerInvalid, "a SHA-256 digest was expected"),
    /// A reason code: 1 to 128 ASCII characters, first alphanumeric, rest also `_.:-`.
    Reason(is_reason, ReasonInvalid, "a reason code was expected"),
    /// A repository as `owner/name`, compared exactly.
    Repository(is_repository, ActorUnauthorized, "a repository is named owner/name"),
}

impl Repository {
    /// True for the narrower form that projector rules and effect targets need: `[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+`.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        strict_repository(self.as_str())
    }
}

/// The narrower repository form of engine.md 1.4.
#[must_use]
pub fn strict_repository(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
    };
    text.split_once('/').is_some_and(|(owner, name)| part(owner) && part(name))
}

/// An integer within `MIN..=MAX`; `ledger_invalid` outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Within<const MIN: i64, const MAX: i64>(i64);

impl<const MIN: i64, const MAX: i64> Within<MIN, MAX> {
    /// Validates an integer.
    ///
    /// # Errors
    /// `ledger_invalid` outside the bounds.
    pub fn new(value: i64) -> Result<Self, Fault> {
        ensure!((MIN..=MAX).contains(&value), LedgerInvalid, "an integer is out of its bounds");
        Ok(Self(value))
    }

    /// The integer.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl<const MIN: i64, const MAX: i64> Wire for Within<MIN, MAX> {
    fn read(node: Node<'_>, _code: Code) -> Result<Self, Fault> {
        let value = node.integer().ok_or_else(|| node.fault(Code::LedgerInvalid, "an integer was expected"))?;
        Self::new(value).map_err(|fault| Fault::at_node(fault, node))
    }

    fn write(&self, writer: &mut Writer) {
        writer.integer(self.0);
    }
}

/// A time in Unix milliseconds, 0 to 2^53 - 1.
pub type At = Within<0, MAX_INTEGER>;

impl Default for At {
    /// The epoch, which also stands for "no boundary".
    fn default() -> Self {
        Self(0)
    }
}

/// A priority class, 1 (first) to 5.
pub type Priority = Within<1, 5>;

/// The attempt number 1, the only one that a worker run may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstAttempt;

impl Wire for FirstAttempt {
    fn read(node: Node<'_>, code: Code) -> Result<Self, Fault> {
        if node.integer() == Some(1) { Ok(Self) } else { Err(node.fault(code, "only run attempt 1 is allowed")) }
    }

    fn write(&self, writer: &mut Writer) {
        writer.integer(1);
    }
}

/// Canonical JSON that the protocol does not look inside: a payload, a descriptor, a whole record.
#[derive(Clone, PartialEq, Eq)]
pub struct Opaque(Text);

impl Opaque {
    /// Checks text and keeps its canonical form.
    ///
    /// # Errors
    /// A codec code with the byte offset.
    pub fn parse(scanner: &mut super::json::Scanner, text: &Text) -> Result<Self, Fault> {
        Ok(Self(scanner.read(text)?.root().text()))
    }

    /// Wraps text that a [`super::json::Scanner`] has read as canonical.
    pub(crate) fn checked(text: Text) -> Self {
        Self(text)
    }

    /// The canonical text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Canonical size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Never true: canonical JSON has at least one byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The shared text.
    #[must_use]
    pub fn text(&self) -> &Text {
        &self.0
    }
}

impl Wire for Opaque {
    fn read(node: Node<'_>, _code: Code) -> Result<Self, Fault> {
        Ok(Self(node.text()))
    }

    fn write(&self, writer: &mut Writer) {
        writer.raw(self.as_str());
    }
}

impl fmt::Debug for Opaque {
    /// Shows the size alone: payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opaque({} bytes)", self.len())
    }
}

/// Lower-case hexadecimal SHA-256 of the concatenation of some strings: `H(x)` of the notes.
#[must_use]
pub fn sha256_hex(parts: &[&str]) -> String {
    hex(&sha256(parts))
}

fn sha256(parts: &[&str]) -> [u8; 32] {
    use sha2::Digest as _;
    let mut hasher = sha2::Sha256::new();
    for part in parts {
        hasher.update(part.as_bytes());
    }
    hasher.finalize().into()
}

impl Digest {
    /// True if this is the SHA-256 of the concatenation of some strings.
    #[must_use]
    pub fn is_of(&self, parts: &[&str]) -> bool {
        let digit = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
        let given = self.as_str().as_bytes().chunks_exact(2);
        sha256(parts).iter().zip(given).all(|(byte, pair)| pair == [digit(byte >> 4), digit(byte & 15)])
    }

    /// SHA-256 of the concatenation of some strings.
    #[must_use]
    pub fn of(parts: &[&str]) -> Self {
        Self(Text::from(sha256_hex(parts)))
    }
}
