//! The `wq` binary.

fn main() {}
