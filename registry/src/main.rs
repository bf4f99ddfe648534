//! The registry's binary.

use std::process::ExitCode;

use rendezvous_registry::cli::{self, Cli};
use rendezvous_service::exit::{self, Exit};

#[tokio::main]
async fn main() -> ExitCode {
    let cli = match exit::parse::<Cli>() {
        Ok(cli) => cli,
        Err(exit) => return exit.into(),
    };
    match cli::run(cli).await {
        Ok(()) => Exit::Ok.into(),
        Err(failure) => exit::report("registry", &failure).into(),
    }
}
