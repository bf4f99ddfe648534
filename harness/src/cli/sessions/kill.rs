//! `harness kill`.

use clap::Args;
use rendezvous_harness::{Environment, Signal};

use super::{find, gone};
use crate::cli::status::Outcome;
use crate::cli::store::Store;
use crate::cli::{Failure, say};

/// End kept sessions: kill what runs in them, and forget its output
#[derive(Debug, Args)]
pub(crate) struct KillArgs {
    /// Only send this signal, a name of signal(7) such as SIGTERM; the session goes on
    #[arg(short, long, value_name = "SIGNAL", value_parser = signal)]
    signal: Option<Signal>,
    /// The sessions, as `harness ps` names them
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

/// A name of signal(7), also without `SIG` and in lower case, as kill(1) takes it.
fn signal(text: &str) -> Result<Signal, String> {
    let name = text.to_ascii_uppercase();
    let name = if name.starts_with("SIG") {
        name
    } else {
        format!("SIG{name}")
    };
    name.parse::<Signal>().map_err(|error| error.to_string())
}

pub(crate) async fn kill(environment: &Environment, store: &Store, args: &KillArgs) -> Result<Outcome, Failure> {
    super::address(environment)?;
    let Some(harness) = environment.harness().await? else {
        return Err(gone(&args.names[0]));
    };
    for name in &args.names {
        let found = find(environment, &harness, store, name).await?;
        match (found.session, args.signal) {
            (Some(session), Some(signal)) => harness.signal_session(&session.session, signal).await?,
            (Some(session), None) => {
                harness.end_session(&session.session).await?;
                found.record.iter().for_each(|record| store.forget(record));
            }
            (None, Some(_)) => return Err(gone(name)),
            (None, None) => {
                found.record.iter().for_each(|record| store.forget(record));
                say(format_args!("session `{name}` was gone already"));
            }
        }
    }
    Ok(Outcome::command(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_named_as_kill_takes_them() {
        for text in ["SIGTERM", "TERM", "term", "sigterm"] {
            assert_eq!(signal(text).unwrap().name(), "SIGTERM");
        }
        for bad in ["", "15", "NONE", "SIG"] {
            signal(bad).unwrap_err();
        }
    }
}
