//! Records to projection and back to decisions (engine.md 3 to 8). Pure: no clock, file, environment, network or
//! randomness.

pub mod schedule;
