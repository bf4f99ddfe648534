//! Logs to stderr.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::args::{LogArgs, LogFormat};
use crate::exit::Failure;

/// Starts logging for the whole process.
///
/// # Errors
///
/// A usage failure when the filter cannot be read, or when logging was started before.
pub fn init(args: &LogArgs) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&args.log_filter)
        .map_err(|error| Failure::usage(format!("--log-filter {:?}: {error}", args.log_filter)))?;
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match args.log_format {
        LogFormat::Text => registry
            .with(lines.with_ansi(std::io::stderr().is_terminal()))
            .try_init(),
        LogFormat::Json => registry.with(lines.json()).try_init(),
    }
    .map_err(Failure::usage)
}
