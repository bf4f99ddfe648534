//! Command line of the executor.

fn main() {}
