//! `harness run` and `harness shell`.

pub(super) mod follow;
pub(super) mod input;

use std::io::Write as _;

use rendezvous_harness::{Environment, Harness, HarnessError, ManagedNetwork, PathUri, Process, ProcessSpec, Stdin};

use self::follow::{End, Follower, KILL_PATIENCE, UNCONFIRMED, kill};
use self::input::Detach;
use super::args::{Place, RunArgs, ShellArgs};
use super::output;
use super::sessions::SessionArgs;
use super::sessions::keep::{self, KeepArgs, Keeping};
use super::signals::{Signal, Signals};
use super::status::Outcome;
use super::terminal::{self, RawMode};
use super::{Failure, say, unless_signalled};

/// What a signal before the command interrupts.
const PREPARING: &str = "asking the executor";
/// Signals that mean something to a command.
pub(super) const PASSED_ON: [Signal; 6] = [
    Signal::HangUp,
    Signal::Interrupt,
    Signal::Quit,
    Signal::User1,
    Signal::User2,
    Signal::Terminate,
];

pub(super) async fn run(environment: Environment, args: RunArgs, sessions: &SessionArgs) -> Result<Outcome, Failure> {
    let keeping = args.keep.keeping(&environment, || sessions.store(), &args.command)?;
    let mut spec = ProcessSpec::new(args.command);
    spec.tty = args.tty;
    spec.network = network(args.allow_host, args.deny_host);
    unless_signalled(PREPARING, place(&environment, &mut spec, args.place)).await?;
    // A command that is left alone has nobody who could end its input.
    let has_input = match args.keep.detach {
        true => args.interactive,
        false => !output::stdin_is_empty(),
    };
    execute(&environment, spec, has_input, keeping, &args.keep).await
}

/// What the command may reach; nothing is kept from it when nothing is said.
fn network(allowed: Vec<String>, denied: Vec<String>) -> Option<ManagedNetwork> {
    if allowed.is_empty() && denied.is_empty() {
        return None;
    }
    let network = denied.into_iter().fold(ManagedNetwork::new(), ManagedNetwork::deny);
    Some(allowed.into_iter().fold(network, ManagedNetwork::allow))
}

pub(super) async fn shell(
    environment: Environment,
    args: ShellArgs,
    sessions: &SessionArgs,
) -> Result<Outcome, Failure> {
    let info = unless_signalled(PREPARING, environment.info()).await?;
    let mut argv = vec![info.shell.path];
    if matches!(info.shell.name.as_str(), "bash" | "zsh" | "sh") {
        argv.push("-l".to_owned());
    }
    let keeping = args.keep.keeping(&environment, || sessions.store(), &argv)?;
    let mut spec = ProcessSpec::new(argv);
    spec.tty = true;
    unless_signalled(PREPARING, place(&environment, &mut spec, args.place)).await?;
    execute(&environment, spec, !output::stdin_is_empty(), keeping, &args.keep).await
}

async fn place(environment: &Environment, spec: &mut ProcessSpec, place: Place) -> Result<(), HarnessError> {
    if let Some(cwd) = place.cwd {
        spec.cwd = Some(remote_path(environment, &cwd).await?);
    }
    if spec.tty
        && let Ok(term) = std::env::var("TERM")
    {
        spec.env.insert("TERM".to_owned(), term);
    }
    spec.env.extend(place.variables);
    Ok(())
}

/// A path on the executor, from its working directory when it is relative.
pub(super) async fn remote_path(environment: &Environment, path: &str) -> Result<PathUri, HarnessError> {
    let base = if path.starts_with('/') {
        PathUri::parse("file:///")?
    } else {
        environment.working_directory().await?
    };
    Ok(base.join(path.as_bytes())?)
}

async fn execute(
    environment: &Environment,
    mut spec: ProcessSpec,
    has_input: bool,
    mut keeping: Option<Keeping>,
    args: &KeepArgs,
) -> Result<Outcome, Failure> {
    if has_input && !spec.tty {
        spec.stdin = Stdin::Pipe;
    }
    let tty = spec.tty;
    let program: String = spec
        .argv
        .first()
        .map(|name| name.escape_debug().collect())
        .unwrap_or_default();
    let place = spec.cwd.as_ref().map(|cwd| format!(" in {cwd}")).unwrap_or_default();
    let mut wanted = PASSED_ON.to_vec();
    // Of a raw terminal the command has the keys, and our own stop is whoever's who asks for it.
    wanted.extend((!tty && keeping.is_none()).then_some(Signal::Suspend));
    let mut signals = Signals::of(&wanted).map_err(Failure::runtime)?;
    let harness = unless_signalled(PREPARING, environment.harness()).await?;
    let link = harness.as_ref().map(Harness::link_state);
    if let Some(keeping) = &mut keeping {
        let retention = unless_signalled(PREPARING, keeping.begin(harness.as_ref())).await?;
        if !args.detach {
            keep::announce(keeping, retention, &args.key, tty && terminal::is_there());
        }
    }
    let mut starting = std::pin::pin!(environment.exec().start(spec));
    let started = tokio::select! {
        started = &mut starting => started,
        signal = signals.ending() => {
            say("ending the command that the executor is starting");
            tokio::select! {
                () = kill_started(starting) => {}
                _ = signals.ending() => say(UNCONFIRMED),
            }
            give_up(keeping, harness.as_ref()).await;
            return Ok(Outcome::signalled(signal.number()));
        }
    };
    let mut process = match started {
        Ok(process) => process,
        Err(error) => {
            give_up(keeping, harness.as_ref()).await;
            return Err(Failure {
                code: error.exit_code(),
                error: anyhow::Error::new(error).context(format!("cannot start `{program}`{place}")),
            });
        }
    };
    if args.detach
        && let Some(keeping) = &keeping
    {
        let line = format!("{}\n", keeping.name());
        std::io::stdout().write_all(line.as_bytes()).map_err(Failure::runtime)?;
        return Ok(Outcome::ours(0));
    }
    let _raw = if tty {
        RawMode::enter().map_err(Failure::runtime)?
    } else {
        None
    };
    let size = tty.then(|| tokio::spawn(input::follow_size(process.control())));
    // A terminal has an input in any case, which ends with ours.
    let detach = keeping.is_some().then(|| Detach::new(args.key.byte()));
    let pump = || input::pump(process.control(), tty, detach.clone());
    let input = (has_input || tty).then(|| tokio::spawn(pump()));
    let follower = Follower::new(&mut process, &mut signals, link, tty);
    let mut follower = match detach {
        Some(detach) => follower.kept(detach),
        None => follower,
    };
    let result = follower.run().await;
    let has_ended = follower.has_ended();
    for task in [size, input].into_iter().flatten() {
        task.abort();
    }
    match (result, keeping) {
        (Ok(End::Over(outcome)), keeping) => {
            give_up(keeping, harness.as_ref()).await;
            Ok(outcome)
        }
        (left, Some(keeping)) => keeping.leave(left, has_ended),
        (result, None) => result.map(End::outcome),
    }
}

/// Ends a session in which nothing runs, or nothing any more.
async fn give_up(keeping: Option<Keeping>, harness: Option<&Harness>) {
    if let Some(keeping) = keeping {
        keeping.end(harness).await;
    }
}

/// Kills a command whose start the executor has not confirmed yet: it may run already.
async fn kill_started(starting: impl Future<Output = Result<Process, HarnessError>>) {
    match tokio::time::timeout(KILL_PATIENCE, starting).await {
        Ok(Ok(mut process)) => {
            let control = process.control();
            kill(&mut process, &control).await;
        }
        // Refused: nothing runs.
        Ok(Err(_)) => {}
        Err(_) => say(UNCONFIRMED),
    }
}
