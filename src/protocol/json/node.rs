//! Views of a checked document: values and members by position, never a copy.

use super::scan::{Document, Tag, Token, unescape_bytes};
use crate::protocol::{Code, Fault, Text};

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// An integer within ±(2^53 - 1)
    Integer,
    /// A string
    String,
    /// An array
    Array,
    /// An object
    Object,
}

/// One value of a [`Document`].
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    document: &'a Document<'a>,
    at: u32,
}

/// The members of one object, in key order.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    document: &'a Document<'a>,
    first: u32,
    end: u32,
}

impl<'a> Node<'a> {
    pub(super) fn new(document: &'a Document<'a>, at: u32) -> Self {
        Self { document, at }
    }

    fn token(self) -> Token {
        self.document.tokens[self.at as usize]
    }

    /// What this value is.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self.token().tag {
            Tag::Null => Kind::Null,
            Tag::True | Tag::False => Kind::Bool,
            Tag::Integer => Kind::Integer,
            Tag::Plain | Tag::Escaped => Kind::String,
            Tag::Array | Tag::OpaqueArray | Tag::Repeat => Kind::Array,
            Tag::Object | Tag::OpaqueObject => Kind::Object,
        }
    }

    /// The approved host of external resources, for validators of resources.
    #[must_use]
    pub fn host(self) -> &'a str {
        self.document.host
    }

    /// The string, or `None` if this is not one.
    #[must_use]
    pub fn string(self) -> Option<Text> {
        let token = self.token();
        match token.tag {
            Tag::Plain => Some(Text::span(&self.document.buffer, token.start, token.end)),
            Tag::Escaped => {
                let bytes = unescape_bytes(self.body(token));
                Some(Text::from(String::from_utf8(bytes).expect("escapes of checked UTF-8 text are ASCII")))
            }
            _ => None,
        }
    }

    /// The string without escapes, borrowed; `None` for other values and for strings with escapes.
    #[must_use]
    pub fn plain(self) -> Option<&'a str> {
        let token = self.token();
        (token.tag == Tag::Plain).then(|| &self.document.buffer[token.start as usize..token.end as usize])
    }

    /// The integer, or `None` if this is not one.
    #[must_use]
    pub fn integer(self) -> Option<i64> {
        let token = self.token();
        if token.tag != Tag::Integer {
            return None;
        }
        let mut body = self.body(token);
        let negative = body[0] == b'-';
        if negative {
            body = &body[1..];
        }
        let value = body.iter().fold(0, |value: i64, digit| value * 10 + i64::from(digit - b'0'));
        Some(if negative { -value } else { value })
    }

    /// The boolean, or `None` if this is not one.
    #[must_use]
    pub fn boolean(self) -> Option<bool> {
        match self.token().tag {
            Tag::True => Some(true),
            Tag::False => Some(false),
            _ => None,
        }
    }

    /// True for `null`.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.token().tag == Tag::Null
    }

    /// The members, or `None` if this is not an object whose inside is indexed.
    #[must_use]
    pub fn object(self) -> Option<Object<'a>> {
        let token = self.token();
        (token.tag == Tag::Object).then_some(Object { document: self.document, first: self.at + 1, end: token.next })
    }

    /// The elements in order, or `None` if this is not an array whose inside is indexed.
    pub fn array(self) -> Option<impl Iterator<Item = Node<'a>> + Clone> {
        let document = self.document;
        let origin = if self.token().tag == Tag::Repeat { document.carried } else { self.at };
        let token = document.tokens[origin as usize];
        let mut at = origin + 1;
        (token.tag == Tag::Array).then(|| {
            std::iter::from_fn(move || {
                (at < token.next).then(|| {
                    let node = Node { document, at };
                    at = document.tokens[at as usize].next;
                    node
                })
            })
        })
    }

    /// Number of elements of an array, 0 for other values.
    #[must_use]
    pub fn array_len(self) -> usize {
        self.array().map_or(0, Iterator::count)
    }

    /// The canonical text of this value.
    #[must_use]
    pub fn text(self) -> Text {
        let (start, end) = self.bounds();
        Text::span(&self.document.buffer, start, end)
    }

    /// The canonical text of this value, borrowed.
    #[must_use]
    pub fn raw(self) -> &'a str {
        let (start, end) = self.bounds();
        &self.document.buffer[start as usize..end as usize]
    }

    /// True if two values of one document have the same canonical text. Costs nothing for a list that was read as the
    /// repetition of the other.
    #[must_use]
    pub fn repeats(self, other: Self) -> bool {
        (self.token().tag == Tag::Repeat && other.at == self.document.carried) || self.raw() == other.raw()
    }

    /// A refusal at this value's place.
    #[must_use]
    pub fn fault(self, code: Code, message: &'static str) -> Fault {
        let fault = Fault::new(code, message);
        if self.document.verbatim { fault.at(self.bounds().0 as usize) } else { fault }
    }

    fn bounds(self) -> (u32, u32) {
        let token = self.token();
        match token.tag {
            Tag::Plain | Tag::Escaped => (token.start - 1, token.end + 1),
            _ => (token.start, token.end),
        }
    }

    fn body(self, token: Token) -> &'a [u8] {
        &self.document.buffer.as_bytes()[token.start as usize..token.end as usize]
    }
}

impl<'a> Object<'a> {
    /// Every member in key order.
    pub fn members(self) -> impl Iterator<Item = (Node<'a>, Node<'a>)> + Clone {
        let Self { document, first, end } = self;
        let mut at = first;
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let (key, value) = (Node { document, at }, Node { document, at: at + 1 });
                at = document.tokens[at as usize + 1].next;
                (key, value)
            })
        })
    }

    /// The value under a key that needs no escapes.
    #[must_use]
    pub fn get(self, name: &str) -> Option<Node<'a>> {
        self.members().find(|(key, _)| key.plain() == Some(name)).map(|(_, value)| value)
    }

    /// Number of members.
    #[must_use]
    pub fn len(self) -> usize {
        self.members().count()
    }

    /// True if there is no member.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.first == self.end
    }
}
