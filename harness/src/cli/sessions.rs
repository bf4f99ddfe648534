//! Commands that go on while nobody is connected: how they are begun, found, followed and ended.

pub(super) mod attach;
pub(super) mod keep;
pub(super) mod kill;
pub(super) mod ps;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use rendezvous_harness::detached::KeptSession;
use rendezvous_harness::{Environment, Harness, HarnessError, LocalError, exit};
use rendezvous_host::state;

use super::run::follow::End;
use super::status::Outcome;
use super::store::{Record, Store};
use super::{Failure, say};

/// Control characters by their letter: `^A` is 1.
const CONTROL: u8 = 0x40;
/// What makes SIGQUIT on a terminal.
const QUIT: u8 = 0x1c;

/// Where sessions are remembered.
#[derive(Debug, Args)]
#[command(next_help_heading = "Detached sessions")]
pub(crate) struct SessionArgs {
    /// Folder with the ids of kept sessions [default: sessions in the state directory]
    ///
    /// The state directory is the service's own (STATE_DIRECTORY, from systemd), else `rendezvous` in XDG_STATE_HOME or in
    /// ~/.local/state.
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "HARNESS_SESSION_DIR",
        hide_env_values = true
    )]
    session_dir: Option<PathBuf>,
}

impl SessionArgs {
    pub(super) fn store(&self) -> Result<Store, Failure> {
        let missing = "no folder for sessions: HOME is not set; use --session-dir";
        let found = || Some(state::directory()?.join("sessions"));
        let folder = self.session_dir.clone().or_else(found);
        Ok(Store::new(folder.context(missing).map_err(Failure::usage)?))
    }
}

/// The key that leaves a command.
#[derive(Debug, Args)]
pub(crate) struct DetachKeyArgs {
    /// Key that leaves the command running: `^` and a letter or one of `@[\]^_`, or `none`
    #[arg(
        long,
        value_name = "KEY",
        default_value = "^\\",
        value_parser = key,
        env = "HARNESS_DETACH_KEY",
        hide_env_values = true
    )]
    detach_key: Key,
}

/// A key, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(Option<u8>);

impl DetachKeyArgs {
    /// What the key sends on a raw terminal.
    pub(super) fn byte(&self) -> Option<u8> {
        self.detach_key.0
    }

    /// What people press to leave a command. Where the terminal is not raw, only the key that makes SIGQUIT is heard.
    pub(super) fn leaves(&self, is_raw: bool) -> Option<String> {
        let byte = if is_raw { self.byte()? } else { QUIT };
        Some(format!("Ctrl-{}", char::from(byte | CONTROL)))
    }
}

fn key(text: &str) -> Result<Key, String> {
    let letter = match text.as_bytes() {
        b"none" => return Ok(Key(None)),
        [b'^', letter] => letter.to_ascii_uppercase(),
        _ => 0,
    };
    match letter {
        // Ctrl-M and Ctrl-J are the return key.
        b'J' | b'M' => Err("the return key cannot be it".to_owned()),
        b'@'..=b'_' => Ok(Key(Some(letter - CONTROL))),
        _ => Err("expected `^` and a letter or one of `@[\\]^_`, or `none`".to_owned()),
    }
}

/// Where kept sessions of an environment are.
fn address(environment: &Environment) -> Result<String, HarnessError> {
    let local = || HarnessError::from(LocalError::Unsupported("detached sessions"));
    match environment.address() {
        Some(address) => Ok(address),
        None if environment.is_local() => Err(local()),
        None => Err(HarnessError::NoDetachedSessions),
    }
}

/// A session that was asked for by name.
struct Found {
    /// What is remembered here; the executor may know more than this machine.
    record: Option<Record>,
    /// What the executor says; nothing when it is gone.
    session: Option<KeptSession>,
}

/// Finds a session by its name: one that is remembered here, or that this harness's key has opened.
async fn find(environment: &Environment, harness: &Harness, store: &Store, name: &str) -> Result<Found, Failure> {
    let here = address(environment)?;
    let record = store.get(name).map_err(Failure::usage)?;
    if let Some(record) = &record
        && record.address != here
    {
        let elsewhere = format!(
            "session `{name}` is at {}, not at {here}; choose that environment",
            record.address
        );
        return Err(Failure::usage(anyhow::anyhow!(elsewhere)));
    }
    let id = record.as_ref().and_then(|record| record.session.clone());
    let sessions = harness.kept_sessions(id.as_slice()).await?;
    let session = sessions.into_iter().find(|session| match &id {
        Some(id) => session.session == *id,
        None => session.name.as_deref() == Some(name),
    });
    if record.is_none() && session.is_none() {
        return Err(Failure::runtime(anyhow::anyhow!(
            "no session `{name}`; see `harness ps`"
        )));
    }
    Ok(Found { record, session })
}

/// Says how to come back to a command that is kept and was left, as `result` tells; `has_ended`: the command itself is over.
fn leave(name: &str, result: Result<End, Failure>, has_ended: bool) -> Result<Outcome, Failure> {
    match &result {
        Err(failure) if failure.is_session_gone() => return Err(gone(name)),
        _ if has_ended => say(format_args!(
            "the command has ended; `harness attach {name}` shows what it wrote"
        )),
        _ => say(format_args!("the command goes on; `harness attach {name}` follows it")),
    }
    result.map(End::outcome)
}

/// What is said of a session that the executor does not have any more.
fn gone(name: &str) -> Failure {
    Failure {
        error: anyhow::anyhow!(
            "session `{name}` is gone: its retention has passed, somebody has ended it, or its executor was restarted"
        ),
        code: exit::UNAVAILABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        for (text, byte) in [
            ("^\\", Some(0x1c)),
            ("^]", Some(0x1d)),
            ("^a", Some(1)),
            ("^A", Some(1)),
            ("none", None),
        ] {
            assert_eq!(key(text), Ok(Key(byte)), "{text}");
        }
        for bad in ["", "^", "a", "^M", "^j", "^1", "ctrl-a", "^ab"] {
            key(bad).unwrap_err();
        }
    }

    #[test]
    fn only_a_raw_terminal_has_a_key_of_ones_own() {
        for (key, raw) in [("^\\", Some("Ctrl-\\")), ("^]", Some("Ctrl-]")), ("none", None)] {
            let detach_key = super::key(key).unwrap();
            let args = DetachKeyArgs { detach_key };
            assert_eq!(args.leaves(true).as_deref(), raw, "{key}");
            assert_eq!(args.leaves(false).as_deref(), Some("Ctrl-\\"), "{key}");
        }
    }
}
