//! Command line of the executor.

mod cli;
mod init;

use std::process::ExitCode;

use rendezvous_host::sandbox::helper;
use rendezvous_service::exit::{self, Exit};
use rendezvous_transport::heap;

fn main() -> ExitCode {
    // Inside a sandbox this executable is another program.
    if let Some(code) = helper::dispatch(std::env::args_os()) {
        return code.into();
    }
    if let Some(code) = init::dispatch(std::env::args_os()) {
        return code;
    }
    heap::keep_freed();
    let exit = match cli::run() {
        Ok(()) => Exit::Ok,
        Err(cli::Stop::Printed(exit)) => exit,
        Err(cli::Stop::Failed(error)) => exit::report("executor", &*error),
    };
    exit.into()
}
