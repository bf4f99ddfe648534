//! Command line of the relay.

fn main() {}
