//! The JSON profile of the wire (engine.md 1.1-1.3).
//!
//! Text that is already canonical, as every line of our writers is, goes through [`Scanner`]: one pass that
//! checks it and leaves an index of spans, never a tree. Everything else goes through the strict [`parse`],
//! which names the first defect or yields a [`Value`] to encode canonically. Both accept the same values; a
//! property test holds them to it.

mod node;
mod parse;
mod scan;
mod value;
mod write;

pub use node::{Kind, Node, Object};
pub use parse::{parse, parse_bounded};
pub use scan::{Document, Scanner};
pub use value::Value;
pub use write::{Members, Writer, encoded_len, escaped_len, hex};
