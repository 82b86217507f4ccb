//! How typed values meet JSON: one trait, and one declaration for each closed object.

use super::json::{Node, Writer};
use super::{Code, Fault};

/// A value with one wire form.
pub trait Wire: Sized {
    /// Reads and validates. `code` is the use site's word for a value outside the type's range; checks that have
    /// a code of their own (engine.md 1.4) keep it.
    ///
    /// # Errors
    /// The first defect in the protocol's order.
    fn read(node: Node<'_>, code: Code) -> Result<Self, Fault>;

    /// Writes the canonical form.
    fn write(&self, writer: &mut Writer);

    /// The canonical form as text.
    fn canonical(&self) -> String {
        let mut writer = Writer::new();
        self.write(&mut writer);
        writer.finish()
    }
}

/// Checks that an object has every required member and no undeclared one (engine.md 1.5). Yields the values in the
/// order of the declaration.
pub(crate) fn closed<'a, const N: usize>(
    node: Node<'a>,
    names: &[(&str, bool); N],
    code: Code,
) -> Result<[Option<Node<'a>>; N], Fault> {
    let object = node.object().ok_or_else(|| node.fault(code, "an object was expected"))?;
    let mut slots = [None; N];
    for (key, value) in object.members() {
        let slot = key.plain().and_then(|key| names.iter().position(|(name, _)| *name == key));
        match slot {
            Some(slot) => slots[slot] = Some(value),
            None => return Err(key.fault(code, "an object has an unknown member")),
        }
    }
    for ((_, required), slot) in names.iter().zip(&slots) {
        if *required && slot.is_none() {
            return Err(node.fault(code, "an object lacks a required member"));
        }
    }
    Ok(slots)
}

/// Reads an array of `least..=most` values.
pub(crate) fn list<T: Wire>(node: Node<'_>, least: usize, most: usize, code: Code) -> Result<Vec<T>, Fault> {
    let items = node.array().ok_or_else(|| node.fault(code, "an array was expected"))?;
    let length = node.array_len();
    if length < least || length > most {
        return Err(node.fault(code, "an array has too few or too many members"));
    }
    items.map(|item| T::read(item, code)).collect()
}

impl Wire for bool {
    fn read(node: Node<'_>, code: Code) -> Result<Self, Fault> {
        node.boolean().ok_or_else(|| node.fault(code, "a boolean was expected"))
    }

    fn write(&self, writer: &mut Writer) {
        writer.bool(*self);
    }
}

/// A value that remembers the size of its canonical text, so that limits need not write it out again.
#[derive(Clone, Debug)]
pub struct Measured<T> {
    value: T,
    bytes: usize,
}

impl<T: Wire> Measured<T> {
    /// Measures a value that was not read.
    #[must_use]
    pub fn new(value: T) -> Self {
        let bytes = value.canonical().len();
        Self { value, bytes }
    }

    /// Canonical size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }
}

impl<T> std::ops::Deref for Measured<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// The size follows from the value.
impl<T: PartialEq> PartialEq for Measured<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Measured<T> {}

impl<T: Wire> Wire for Measured<T> {
    fn read(node: Node<'_>, code: Code) -> Result<Self, Fault> {
        Ok(Self { value: T::read(node, code)?, bytes: node.raw().len() })
    }

    fn write(&self, writer: &mut Writer) {
        self.value.write(writer);
    }
}

impl<T: Wire> Wire for Box<T> {
    fn read(node: Node<'_>, code: Code) -> Result<Self, Fault> {
        T::read(node, code).map(Box::new)
    }

    fn write(&self, writer: &mut Writer) {
        T::write(self, writer);
    }
}

/// Declares a closed object once: its code, its members in order of validation, and from that its struct, its
/// reader and its writer. A member is `name [modifiers]: Type = "key" => Code;`, the code defaulting to
/// `ledger_invalid`. Modifiers: `optional`, and `identity` for a value that must first be an identity.
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $name:ident, closed $closed:ident $(, kind $kind:literal)? $(, check $check:ident)? {
            $( $field:ident $([$($modifier:ident)*])? : $type:ty = $key:literal $(=> $code:ident)?; )*
        }
    ) => {
        $(#[$meta])*
        #[allow(missing_docs, reason = "members carry the protocol's own names")]
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $( pub $field: record!(@type [$($($modifier)*)?] $type), )*
        }

        impl $crate::protocol::Wire for $name {
            #[allow(unused_variables, unused_mut, reason = "not every record uses its use-site code")]
            fn read(node: $crate::protocol::json::Node<'_>, code: $crate::protocol::Code)
                -> Result<Self, $crate::protocol::Fault>
            {
                let names = &[
                    $( ($key, record!(@required [$($($modifier)*)?])), )*
                    $( ("kind", record!(@true $kind)), )?
                ];
                let slots = $crate::protocol::wire::closed(node, names, $crate::protocol::Code::$closed)?;
                let mut next = slots.iter();
                $(
                    let slot = next.next().copied().flatten();
                    let $field = record!(@read [$($($modifier)*)?] slot, $type, record!(@code $($code)?), node);
                )*
                let record = Self { $( $field, )* };
                $( record.$check().map_err(|fault| {
                    $crate::protocol::Fault::at_node(fault, node)
                })?; )?
                Ok(record)
            }

            fn write(&self, writer: &mut $crate::protocol::json::Writer) {
                writer.object(|members| self.members(members));
            }
        }

        impl $name {
            /// Adds every member, for objects that extend this one.
            pub(crate) fn members(&self, members: &mut $crate::protocol::json::Members<'_>) {
                $( members.name("kind", |writer| writer.string($kind)); )?
                $( record!(@write [$($($modifier)*)?] self.$field, $key, members); )*
            }
        }
    };
    (@type [optional $($rest:ident)*] $type:ty) => { Option<$type> };
    (@type [$($rest:ident)*] $type:ty) => { $type };
    (@true $kind:literal) => { true };
    (@required [optional $($rest:ident)*]) => { false };
    (@required [$($rest:ident)*]) => { true };
    (@code) => { $crate::protocol::Code::LedgerInvalid };
    (@code $code:ident) => { $crate::protocol::Code::$code };
    (@one [identity] $value:ident, $type:ty, $code:expr) => {{
        $crate::protocol::identity::check_identity($value)?;
        <$type as $crate::protocol::Wire>::read($value, $code)?
    }};
    (@one [] $value:ident, $type:ty, $code:expr) => { <$type as $crate::protocol::Wire>::read($value, $code)? };
    (@read [optional $($rest:ident)*] $slot:ident, $type:ty, $code:expr, $node:ident) => {
        match $slot {
            Some(value) => Some(record!(@one [$($rest)*] value, $type, $code)),
            None => None,
        }
    };
    (@read [$($rest:ident)*] $slot:ident, $type:ty, $code:expr, $node:ident) => {{
        let value = $slot.ok_or_else(|| $node.fault($code, "an object lacks a required member"))?;
        record!(@one [$($rest)*] value, $type, $code)
    }};
    (@write [optional $($rest:ident)*] $self:ident.$field:ident, $key:literal, $members:ident) => {
        if let Some(value) = &$self.$field {
            $members.name($key, |writer| $crate::protocol::Wire::write(value, writer));
        }
    };
    (@write [$($rest:ident)*] $self:ident.$field:ident, $key:literal, $members:ident) => {
        $members.name($key, |writer| $crate::protocol::Wire::write(&$self.$field, writer));
    };
}
pub(crate) use record;

/// Declares an enum whose variants are words of the protocol.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[allow(missing_docs, reason = "variants are the protocol's own words")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// Every word, in declaration order.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// The variant of a word.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }

        impl $crate::protocol::Wire for $name {
            fn read(node: $crate::protocol::json::Node<'_>, code: $crate::protocol::Code)
                -> Result<Self, $crate::protocol::Fault>
            {
                node.plain().and_then(Self::parse).ok_or_else(|| node.fault(code, "a value is not one of the allowed words"))
            }

            fn write(&self, writer: &mut $crate::protocol::json::Writer) {
                writer.string(self.as_str());
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use words;
