//! The command line. Management commands open the database themselves, also while `serve` runs.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::Arc;

use clap::{Args, Parser, Subcommand};
use rendezvous_service::args::LogArgs;
use rendezvous_service::exit::{self, Exit, Failure};
use rendezvous_service::logging;
use serde::Serialize;

use crate::store::{self, Access, Location, Store, StoreError};

mod credential;
mod environment;
mod lifetime;
mod serve;

/// Says where executors and harnesses meet, and who may use which executor.
#[derive(Debug, Parser)]
#[command(name = "registry", version, about, after_help = exit::HELP)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve executors, harnesses and relays
    Serve(Box<serve::ServeArgs>),
    /// Make, list, show and delete environments
    #[command(subcommand)]
    Environment(environment::Command),
    /// Make, list and revoke credentials
    #[command(subcommand)]
    Credential(credential::Command),
}

#[derive(Debug, Args)]
struct DatabaseArgs {
    /// Database: `sqlite://FILE` or `postgres://HOST/NAME`. A URL with a password is taken from the environment only
    #[arg(
        long,
        value_name = "URL",
        default_value = "sqlite://rendezvous.db",
        env = "DATABASE_URL",
        hide_env_values = true,
        global = true
    )]
    database: String,
}

impl DatabaseArgs {
    fn location(&self) -> Result<Location, Failure> {
        let on_command_line = std::env::args_os().any(|argument| {
            let argument = argument.to_string_lossy();
            Location::has_password(argument.strip_prefix("--database=").unwrap_or(&argument))
        });
        if on_command_line {
            return Err(Failure::usage(
                "a database URL with a password is visible to every user of this machine: set it in DATABASE_URL",
            ));
        }
        self.database.parse().map_err(Failure::usage)
    }

    async fn open(&self, access: Access) -> Result<Arc<dyn Store>, Failure> {
        let location = self.location()?;
        store::open(&location, access).await.map_err(|error| {
            let hint = hint(&location, &error).unwrap_or_default();
            Failure::new(exit_of(&error), format!("cannot open {location}: {error}{hint}"))
        })
    }
}

/// Runs the command.
///
/// # Errors
///
/// Says what failed and how the program should end.
pub async fn run(cli: Cli) -> Result<(), Failure> {
    logging::init(&cli.log)?;
    match cli.command {
        Command::Serve(args) => serve::run(*args, &cli.database).await,
        Command::Environment(command) => environment::run(command, &cli.database).await,
        Command::Credential(command) => credential::run(command, &cli.database).await,
    }
}

/// How to come by a database that can be opened.
fn hint(location: &Location, error: &StoreError) -> Option<String> {
    let Location::Sqlite(path) = location else { return None };
    let path = std::path::absolute(path).ok()?;
    match error {
        StoreError::NoFile => Some(format!(
            " as {}: name the registry's database with --database or DATABASE_URL, or make one with `registry serve`, \
            `registry environment create` or `registry credential create`",
            path.display()
        )),
        StoreError::File(_) if !path.parent()?.is_dir() => Some(format!(
            ": make the folder {} first, or name another place with --database or DATABASE_URL",
            path.parent()?.display()
        )),
        _ => None,
    }
}

const fn exit_of(error: &StoreError) -> Exit {
    match error {
        // As for every other file that is named and cannot be used.
        StoreError::File(_) | StoreError::NoFile => Exit::Usage,
        StoreError::Unavailable(_) => Exit::Unavailable,
        StoreError::Denied(_) => Exit::NotAuthorized,
        _ => Exit::Runtime,
    }
}

fn failed(error: StoreError) -> Failure {
    Failure::new(exit_of(&error), error)
}

/// Writes one line to stdout.
fn say(line: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::new(Exit::Runtime, error))
}

fn say_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::new(Exit::Runtime, error))?;
    say(&text)
}

/// Writes rows in columns as wide as they need.
fn say_table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> Result<(), Failure> {
    let head = head.map(str::to_owned);
    let mut widths = [0; N];
    for row in std::iter::once(&head).chain(rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            let _ = write!(line, "{cell:width$}  ");
        }
        say(line.trim_end())?;
    }
    Ok(())
}

fn or_dash(text: Option<String>) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
