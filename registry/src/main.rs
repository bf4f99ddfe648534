//! Command line of the registry.

fn main() {}
