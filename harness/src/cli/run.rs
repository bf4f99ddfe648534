//! `harness run` and `harness shell`.

use std::time::{Duration, Instant};

use rendezvous_harness::{
    Environment, Harness, HarnessError, LinkState, ManagedNetwork, PathUri, Process, ProcessControl, ProcessEvent,
    ProcessSpec, Stdin,
};
use tokio::sync::watch;

use super::args::{Place, RunArgs, ShellArgs};
use super::output::{self, Writer};
use super::signals::{Signal, Signals};
use super::status::Outcome;
use super::terminal::{self, RawMode};
use super::{Failure, say, unless_signalled};

/// A second Ctrl-C within this time kills the command.
const INSIST: Duration = Duration::from_secs(2);
/// Longest time that a killed command may take to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(3);
/// First and longest time before a terminal is told again that its input has ended.
const END_AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// We leave before the executor has answered.
const UNCONFIRMED: &str =
    "the executor has not confirmed that the command is gone; it will kill it when the session expires";
/// What a signal before the command interrupts.
const PREPARING: &str = "asking the executor";
/// SIGPIPE: whoever reads our output is gone.
const BROKEN_PIPE: u8 = 13;

pub(super) async fn run(environment: Environment, args: RunArgs) -> Result<Outcome, Failure> {
    let mut spec = ProcessSpec::new(args.command);
    spec.tty = args.tty;
    spec.network = network(args.allow_host, args.deny_host);
    unless_signalled(PREPARING, place(&environment, &mut spec, args.place)).await?;
    execute(&environment, spec).await
}

/// What the command may reach; nothing is kept from it when nothing is said.
fn network(allowed: Vec<String>, denied: Vec<String>) -> Option<ManagedNetwork> {
    if allowed.is_empty() && denied.is_empty() {
        return None;
    }
    let network = denied.into_iter().fold(ManagedNetwork::new(), ManagedNetwork::deny);
    Some(allowed.into_iter().fold(network, ManagedNetwork::allow))
}

pub(super) async fn shell(environment: Environment, args: ShellArgs) -> Result<Outcome, Failure> {
    let info = unless_signalled(PREPARING, environment.info()).await?;
    let mut argv = vec![info.shell.path];
    if matches!(info.shell.name.as_str(), "bash" | "zsh" | "sh") {
        argv.push("-l".to_owned());
    }
    let mut spec = ProcessSpec::new(argv);
    spec.tty = true;
    unless_signalled(PREPARING, place(&environment, &mut spec, args.place)).await?;
    execute(&environment, spec).await
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

async fn execute(environment: &Environment, mut spec: ProcessSpec) -> Result<Outcome, Failure> {
    let has_input = !output::stdin_is_empty();
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
    let mut signals = Signals::new().map_err(Failure::runtime)?;
    let harness = unless_signalled(PREPARING, environment.harness()).await?;
    let link = harness.as_ref().map(Harness::link_state);
    let mut starting = std::pin::pin!(environment.exec().start(spec));
    let started = tokio::select! {
        started = &mut starting => started,
        signal = signals.next() => {
            say("ending the command that the executor is starting");
            tokio::select! {
                () = kill_started(starting) => {}
                _ = signals.next() => say(UNCONFIRMED),
            }
            return Ok(Outcome::signalled(signal.number()));
        }
    };
    let mut process = started.map_err(|error| Failure {
        code: error.exit_code(),
        error: anyhow::Error::new(error).context(format!("cannot start `{program}`{place}")),
    })?;
    let _raw = if tty {
        RawMode::enter().map_err(Failure::runtime)?
    } else {
        None
    };
    let size = tty.then(|| tokio::spawn(follow_size(process.control())));
    // A terminal has an input in any case, which ends with ours.
    let input = (has_input || tty).then(|| tokio::spawn(pump_input(process.control(), tty)));
    let result = follow(link.as_ref(), &mut process, &mut signals).await;
    for task in [size, input].into_iter().flatten() {
        task.abort();
    }
    result
}

/// Passes output on until the command has ended.
async fn follow(
    link: Option<&watch::Receiver<LinkState>>,
    process: &mut Process,
    signals: &mut Signals,
) -> Result<Outcome, Failure> {
    let writer = Writer::start().map_err(Failure::runtime)?;
    let control = process.control();
    let mut exit_code = None;
    let mut interrupted: Option<Instant> = None;
    let mut killed = false;
    let mut batch = Vec::new();
    let mut closed = false;
    while !closed || !batch.is_empty() {
        tokio::select! {
            permit = writer.room(), if !batch.is_empty() => match permit {
                Some(permit) => permit.send(std::mem::take(&mut batch)),
                None => break,
            },
            next = process.next_batch(&mut batch, output::BATCH), if !closed && batch.len() < output::BATCH => {
                let known = batch.len();
                let news = next?;
                closed = news == 0;
                for event in &batch[known - news..] {
                    match event {
                        ProcessEvent::Exited { code, .. } => exit_code = Some(*code),
                        ProcessEvent::Closed => closed = true,
                        ProcessEvent::Output { .. } => {}
                    }
                }
            }
            signal = signals.next() => {
                let insists = interrupted.is_some_and(|at| at.elapsed() < INSIST);
                let connected = link.is_none_or(|link| matches!(*link.borrow(), LinkState::Connected));
                if closed {
                    // Only our own output is left, which nobody takes.
                    return Ok(Outcome::signalled(signal.number()));
                }
                if signal != Signal::Interrupt {
                    kill(process, &control).await;
                    return Ok(Outcome::signalled(signal.number()));
                }
                if insists && !connected {
                    say("not connected; the executor will kill the command when the session expires");
                    return Ok(Outcome::signalled(signal.number()));
                }
                if insists && killed {
                    return Ok(Outcome::signalled(signal.number()));
                }
                killed |= insists;
                interrupted = Some(Instant::now());
                let control = control.clone();
                tokio::spawn(async move {
                    if insists {
                        control.terminate().await.map(drop)
                    } else {
                        control.interrupt().await
                    }
                });
            }
        }
    }
    let written = tokio::select! {
        written = writer.finish() => written,
        signal = signals.next() => return Ok(Outcome::signalled(signal.number())),
    };
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            kill(process, &control).await;
            return Ok(Outcome::signalled(BROKEN_PIPE));
        }
        Err(error) => {
            kill(process, &control).await;
            return Err(Failure::runtime(
                anyhow::Error::new(error).context("cannot write output"),
            ));
        }
    }
    match exit_code {
        Some(code) => Ok(Outcome::command(code)),
        None => Err(Failure::runtime(anyhow::anyhow!(
            "the executor did not tell how the command ended"
        ))),
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

/// Kills the command, and waits a little until the executor says that it is gone; says so when it does not.
async fn kill(process: &mut Process, control: &ProcessControl) {
    let killed = async {
        if control.terminate().await? {
            while let Some(event) = process.next().await? {
                if matches!(event, ProcessEvent::Exited { .. }) {
                    break;
                }
            }
        }
        Ok::<_, HarnessError>(())
    };
    if !matches!(tokio::time::timeout(KILL_PATIENCE, killed).await, Ok(Ok(()))) {
        say(UNCONFIRMED);
    }
}

/// Gives the command's terminal the size of ours, now and whenever that changes.
async fn follow_size(control: ProcessControl) {
    let Ok(mut changes) = terminal::size_changes() else {
        return;
    };
    let mut known = None;
    loop {
        let size = terminal::size();
        if let Some((rows, columns)) = size.filter(|_| size != known) {
            match control.resize(rows, columns).await {
                Ok(true) => known = size,
                Ok(false) => return,
                Err(error) => return tracing::debug!(%error, "size not taken"),
            }
        }
        if changes.recv().await.is_none() {
            return;
        }
    }
}

/// Passes stdin on to its end. A terminal is told of the end again and again: a program that changes the terminal's mode just
/// then, as shells do before each prompt, loses what it was told.
async fn pump_input(control: ProcessControl, tty: bool) {
    let mut pieces = match output::read_stdin() {
        Ok(pieces) => pieces,
        Err(error) => return say(format_args!("cannot read stdin: {error}")),
    };
    while let Some(piece) = pieces.recv().await {
        let piece = match piece {
            Ok(piece) => piece,
            Err(error) => {
                say(format_args!("cannot read stdin: {error}"));
                break;
            }
        };
        match control.write(&piece).await {
            Ok(()) => {}
            Err(HarnessError::StdinClosed) => return,
            // The events end with the same error, or the command has ended.
            Err(error) => return tracing::debug!(%error, "input not taken"),
        }
    }
    let mut pause = END_AGAIN.0;
    loop {
        if let Err(error) = control.close_stdin().await {
            return tracing::debug!(%error, "input not ended");
        }
        if !tty {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(END_AGAIN.1);
    }
}
