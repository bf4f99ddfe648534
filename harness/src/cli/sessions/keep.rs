//! `harness run` and `harness shell` with a session that is kept.

use std::time::Duration;

use anyhow::bail;
use clap::Args;
use rendezvous_harness::detached::Keep;
use rendezvous_harness::{Environment, Harness, HarnessError, LocalError};
use rendezvous_wire::quantity::{self, show_duration};
use rendezvous_wire::secret::Secret;

use super::DetachKeyArgs;
use crate::cli::run::follow::End;
use crate::cli::status::Outcome;
use crate::cli::store::{self, Record, Store};
use crate::cli::{Failure, say};

/// Random names that are tried.
const NAMES: usize = 16;
/// Longest time that the end of a session may take when its command has ended.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// Whether a command goes on without us.
#[derive(Debug, Args)]
#[command(next_help_heading = "Detached sessions")]
pub(crate) struct KeepArgs {
    /// Leave the command running, and print the name of its session, for `harness attach`
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// Keep the command and its output so long without a connection, such as 12h or 7d [default with --detach: 2d]
    ///
    /// Without --detach, the command is followed as usual, but a signal that would end it, or a lost connection, leaves it
    /// running. The executor sets the longest time.
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = quantity::duration,
        env = "HARNESS_SESSION_RETENTION",
        hide_env_values = true
    )]
    session_retention: Option<Duration>,
    /// Name of the session [default: that of the program, and a number]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    pub(crate) key: DetachKeyArgs,
}

impl KeepArgs {
    /// The session that is wanted, if one is to be kept. Its name is taken from now on.
    pub(crate) fn keeping(
        &self,
        environment: &Environment,
        store: impl FnOnce() -> Result<Store, Failure>,
        command: &[String],
    ) -> Result<Option<Keeping>, Failure> {
        if !self.detach && self.session_retention.is_none() {
            if self.name.is_some() {
                let needs = "--name needs --detach or --session-retention";
                return Err(Failure::usage(anyhow::anyhow!(needs)));
            }
            return Ok(None);
        }
        let address = super::address(environment)?;
        let store = store()?;
        let record = match &self.name {
            Some(name) => claim(&store, std::iter::once(name.clone()), &address, command),
            None => claim(&store, (0..NAMES).map(|_| store::name_for(command)), &address, command),
        };
        let record = record.map_err(Failure::usage)?;
        Ok(Some(Keeping {
            store,
            record,
            retention: self.session_retention,
            is_kept: false,
        }))
    }
}

/// Takes the first of these names that is free.
fn claim(
    store: &Store,
    names: impl Iterator<Item = String>,
    address: &str,
    command: &[String],
) -> anyhow::Result<Record> {
    let mut taken = String::new();
    for name in names {
        let record = Record::new(name, address.to_owned(), command.to_vec());
        if store.add(&record)? {
            return Ok(record);
        }
        taken = record.name;
    }
    bail!("there is a session `{taken}` already; see `harness ps`, or end it with `harness kill {taken}`")
}

/// A session that is to be kept. Dropped before the executor keeps it, it is forgotten.
#[derive(Debug)]
pub(crate) struct Keeping {
    store: Store,
    record: Record,
    retention: Option<Duration>,
    is_kept: bool,
}

impl Keeping {
    pub(crate) fn name(&self) -> &str {
        &self.record.name
    }

    /// Has the executor keep the session of this connection. Says for how long.
    pub(crate) async fn begin(&mut self, harness: Option<&Harness>) -> Result<Duration, Failure> {
        let local = || HarnessError::from(LocalError::Unsupported("detached sessions"));
        let harness = harness.ok_or_else(local)?;
        let keep = Keep {
            retention: self.retention,
            name: Some(self.record.name.clone()),
            bound_to_key: false,
        };
        let kept = harness.retain(keep).await?;
        let mut record = self.record.clone();
        record.keep(kept.session.clone(), kept.retention);
        // Before anything runs: whatever happens next, it can be found.
        if let Err(error) = self.store.update(&self.record, &record) {
            end(harness, &kept.session).await;
            return Err(Failure::runtime(error));
        }
        self.record = record;
        self.is_kept = true;
        Ok(kept.retention)
    }

    /// Nothing runs in it: it is given up.
    pub(crate) fn give_up(&mut self) {
        self.is_kept = false;
    }

    /// The command has ended and its user knows how: the session is ended, too.
    pub(crate) async fn end(mut self, harness: Option<&Harness>) {
        let session: Option<Secret> = self.record.session.clone();
        if let (Some(harness), Some(session)) = (harness, session) {
            end(harness, &session).await;
        }
        self.give_up();
    }

    /// The command is left, as `result` tells.
    pub(crate) fn leave(&self, result: Result<End, Failure>, has_ended: bool) -> Result<Outcome, Failure> {
        if let Some(session) = &self.record.session {
            self.store.touch(self.name(), session);
        }
        super::leave(self.name(), result, has_ended)
    }
}

async fn end(harness: &Harness, session: &Secret) {
    // Without an answer it ends with its retention.
    let _ = tokio::time::timeout(END_PATIENCE, harness.end_session(session)).await;
}

impl Drop for Keeping {
    fn drop(&mut self) {
        if !self.is_kept {
            self.store.forget(&self.record);
        }
    }
}

/// Says that a command is kept, and how to leave it, on a raw terminal or not.
pub(crate) fn announce(keeping: &Keeping, retention: Duration, key: &DetachKeyArgs, is_raw: bool) {
    let how = key.leaves(is_raw).map(|key| format!("; {key} leaves it running"));
    let (how, retention) = (how.unwrap_or_default(), show_duration(retention));
    say(format_args!(
        "session `{}` is kept for {retention} without a connection{how}",
        keeping.name()
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_makes_room_for_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().to_owned());
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
                .into_iter()
        };
        let claim = |wanted| claim(&store, names(wanted), "r lab", &[]);
        assert_eq!(claim(&["a"]).unwrap().name, "a");
        assert_eq!(claim(&["a", "a", "b"]).unwrap().name, "b");
        let taken = claim(&["b", "a"]).unwrap_err().to_string();
        assert!(taken.contains("harness kill a"), "{taken}");
        claim(&["a/b", "c"]).unwrap_err();
    }
}
