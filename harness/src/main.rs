//! Command line of the harness.

fn main() {}
