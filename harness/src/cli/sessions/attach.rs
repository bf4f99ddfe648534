//! `harness attach`.

use clap::Args;
use rendezvous_harness::detached::{Begin, KeptSession};
use rendezvous_harness::{Environment, ProcessInfo, ProcessState};
use rendezvous_wire::quantity;
use tokio_util::task::TaskTracker;

use super::{DetachKeyArgs, find, gone, leave};
use crate::cli::run::follow::{End, Follower};
use crate::cli::run::{PASSED_ON, input};
use crate::cli::signals::Signals;
use crate::cli::status::Outcome;
use crate::cli::store::Store;
use crate::cli::terminal::RawMode;
use crate::cli::{Failure, output, report, unless_signalled};

/// What a signal interrupts.
const PREPARING: &str = "taking up the session";

/// Follow a command that goes on by itself: first its output from the start, as far as it is kept, then what comes
///
/// stdin, Ctrl-C and the size of the terminal reach the command; SIGTERM, SIGHUP and the detach key leave it running. Exits
/// as the command does.
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// Begin about so many bytes before the end of the output, such as 64K; 0: with what comes from now on
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes)]
    tail: Option<u64>,
    /// Leave the command's stdin alone
    #[arg(long)]
    no_stdin: bool,
    /// Take the session from whoever follows it now, and loses the connection by that
    #[arg(long)]
    take_over: bool,
    #[command(flatten)]
    key: DetachKeyArgs,
    /// The session, as `harness ps` names it
    #[arg(value_name = "NAME")]
    name: String,
}

pub(crate) async fn attach(
    environment: Environment,
    store: &Store,
    args: &AttachArgs,
    sessions: &TaskTracker,
) -> Result<Outcome, Failure> {
    let (session, info) = unless_signalled(PREPARING, look_up(&environment, store, args)).await?;
    let resumed = environment.resume(&session.session, args.take_over);
    let harness = unless_signalled(PREPARING, resumed).await?;
    sessions.spawn(report(harness.link_state()));
    let begin = args.tail.map_or(Begin::Start, Begin::Tail);
    let mut signals = Signals::of(&PASSED_ON).map_err(Failure::runtime)?;
    let mut process = harness.attach(&info, begin).await?;
    let has_input = !args.no_stdin && !output::stdin_is_empty();
    let _raw = if info.tty && has_input {
        RawMode::enter().map_err(Failure::runtime)?
    } else {
        None
    };
    let detach = input::Detach::new(args.key.byte());
    let size = info.tty.then(|| tokio::spawn(input::follow_size(process.control())));
    let pump = || input::pump(process.control(), info.tty, Some(detach.clone()));
    let input = has_input.then(|| tokio::spawn(pump()));
    let link = Some(harness.link_state());
    let mut follower = Follower::new(&mut process, &mut signals, link, info.tty).kept(detach);
    let result = follower.run().await;
    let has_ended = follower.has_ended();
    for task in [size, input].into_iter().flatten() {
        task.abort();
    }
    store.touch(&args.name, &session.session);
    match result {
        Ok(End::Over(outcome)) => Ok(outcome),
        left => leave(&args.name, left, has_ended),
    }
}

/// Finds the session and the process in it, over a connection of its own.
async fn look_up(
    environment: &Environment,
    store: &Store,
    args: &AttachArgs,
) -> Result<(KeptSession, ProcessInfo), Failure> {
    let name = &args.name;
    let harness = environment.harness().await?;
    // Its address is asked for first, which this machine has none of.
    super::address(environment)?;
    let Some(harness) = harness else {
        return Err(gone(name));
    };
    let found = find(environment, &harness, store, name).await?;
    let Some(session) = found.session else {
        found.record.iter().for_each(|record| store.forget(record));
        return Err(gone(name));
    };
    if session.is_attached && !args.take_over {
        let taken = format!("session `{name}` is followed already; --take-over takes it from whoever does");
        return Err(Failure::runtime(anyhow::anyhow!(taken)));
    }
    let is_open = |info: &&ProcessInfo| info.state != ProcessState::Closed;
    let processes = &session.processes;
    let Some(info) = processes.iter().find(is_open).or_else(|| processes.last()).cloned() else {
        return Err(Failure::runtime(anyhow::anyhow!("nothing runs in session `{name}`")));
    };
    Ok((session, info))
}
