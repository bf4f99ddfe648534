//! Command line of the executor.

mod cli;

use rendezvous_service::exit::{self, Exit};

fn main() -> Exit {
    match cli::run() {
        Ok(()) => Exit::Ok,
        Err(cli::Stop::Printed(exit)) => exit,
        Err(cli::Stop::Failed(error)) => exit::report("executor", &*error),
    }
}
