//! Who is next (engine.md 4).

pub mod clock;
