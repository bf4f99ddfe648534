//! Command line of the harness.

mod cli;

use std::process::ExitCode;

use rendezvous_transport::heap;

fn main() -> ExitCode {
    heap::keep_freed();
    cli::main()
}
