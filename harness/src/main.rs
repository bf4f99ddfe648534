//! Command line of the harness.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
