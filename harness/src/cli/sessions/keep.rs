//! `harness run` and `harness shell` with a session that is kept.

use std::time::Duration;

use clap::Args;
use rendezvous_harness::detached::Keep;
use rendezvous_harness::{Environment, Harness, HarnessError, LocalError};
use rendezvous_wire::quantity::{self, show_duration};
use rendezvous_wire::secret::Secret;

use super::DetachKeyArgs;
use crate::cli::store::{self, Record, Store};
use crate::cli::{Failure, say};

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
        let name = self.name.clone().unwrap_or_else(|| store::name_for(command));
        let record = Record::new(name, address, command.to_vec());
        store.add(&record).map_err(Failure::usage)?;
        Ok(Some(Keeping {
            store,
            record,
            retention: self.session_retention,
            is_kept: false,
        }))
    }
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
        self.record.keep(kept.session, kept.retention);
        // Before anything runs: whatever happens next, it can be found.
        self.store.update(&self.record).map_err(Failure::runtime)?;
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
            // Without an answer it ends with its retention.
            let _ = tokio::time::timeout(END_PATIENCE, harness.end_session(&session)).await;
        }
        self.give_up();
    }

    /// Says how to come back.
    pub(crate) fn leave(&self) {
        self.store.touch(&self.record);
        say(format_args!(
            "the command goes on; `harness attach {}` follows it",
            self.name()
        ));
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        if !self.is_kept {
            self.store.remove(&self.record.name);
        }
    }
}

/// Says that a command is kept, and how to leave it.
pub(crate) fn announce(keeping: &Keeping, retention: Duration, key: &DetachKeyArgs) {
    let how = key
        .name()
        .map(|key| format!("; {key} leaves it running"))
        .unwrap_or_default();
    let retention = show_duration(retention);
    say(format_args!(
        "session `{}` is kept for {retention} without a connection{how}",
        keeping.name()
    ));
}
