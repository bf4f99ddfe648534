//! The channel against an independent implementation, hostile peers and a bad network.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop at any error, and prints its seed"
)]

mod acceptor;
mod interop;
mod reliable;
mod simulation;
mod stream;
mod support;
mod tampering;
