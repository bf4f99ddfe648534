//! Follows a command to its end, or until it is left to go on.

use std::time::{Duration, Instant};

use rendezvous_harness::{HarnessError, LinkState, Process, ProcessControl, ProcessEvent};
use rendezvous_wire::quantity::show_bytes;
use rustix::process::{Signal as System, getpid, kill_process};
use tokio::sync::watch;

use super::input::Detach;
use crate::cli::output::{self, Writer};
use crate::cli::signals::{Signal, Signals};
use crate::cli::status::Outcome;
use crate::cli::{Failure, say};

/// A second Ctrl-C within this time kills the command.
const INSIST: Duration = Duration::from_secs(2);
/// How long a command may take to end when it is asked to by a signal; then it is killed.
const GRACE: Duration = Duration::from_secs(3);
/// Longest time that a killed command may take to be gone.
pub(super) const KILL_PATIENCE: Duration = Duration::from_secs(3);
/// Longest time that our own stop waits for the command's.
const STOP_PATIENCE: Duration = Duration::from_secs(1);
/// We leave before the executor has answered.
pub(super) const UNCONFIRMED: &str =
    "the executor has not confirmed that the command is gone; it will kill it when the session expires";
/// SIGPIPE: whoever reads our output is gone.
const BROKEN_PIPE: u8 = 13;

/// How following a command ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With the command, by itself or by us.
    Over(Outcome),
    /// The command is kept: it goes on, or what it wrote is still there.
    Left(Outcome),
}

impl End {
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Over(outcome) | Self::Left(outcome) => outcome,
        }
    }
}

/// Follows a command.
pub(crate) struct Follower<'a> {
    process: &'a mut Process,
    control: ProcessControl,
    signals: &'a mut Signals,
    link: Option<watch::Receiver<LinkState>>,
    tty: bool,
    exit_code: Option<i32>,
    is_closed: bool,
    interrupted: Option<Instant>,
    was_killed: bool,
    /// Tells that the command is to be left. Such a command is kept.
    detach: Option<Detach>,
    /// It was asked to end, for the sake of this signal to us, and must have done so by then.
    ending: Option<(Signal, Instant)>,
}

impl<'a> Follower<'a> {
    /// Will follow a command that has just been started, with a terminal or not.
    pub(crate) fn new(
        process: &'a mut Process,
        signals: &'a mut Signals,
        link: Option<watch::Receiver<LinkState>>,
        tty: bool,
    ) -> Self {
        Self {
            control: process.control(),
            process,
            signals,
            link,
            tty,
            exit_code: None,
            is_closed: false,
            interrupted: None,
            was_killed: false,
            detach: None,
            ending: None,
        }
    }

    /// The command is kept: what would end it leaves it instead, and so does `detach`.
    pub(crate) fn kept(self, detach: Detach) -> Self {
        Self {
            detach: Some(detach),
            ..self
        }
    }

    /// Passes output on until the command has ended, and signals to it meanwhile.
    ///
    /// # Errors
    ///
    /// When the command cannot be followed any more, or our output cannot be written.
    pub(crate) async fn run(&mut self) -> Result<End, Failure> {
        let writer = Writer::start().map_err(Failure::runtime)?;
        let mut batch = Vec::new();
        while !self.is_closed || !batch.is_empty() {
            tokio::select! {
                permit = writer.room(), if !batch.is_empty() => match permit {
                    Some(permit) => permit.send(std::mem::take(&mut batch)),
                    None => break,
                },
                next = self.process.next_batch(&mut batch, output::BATCH),
                    if !self.is_closed && batch.len() < output::BATCH =>
                {
                    let news = next?;
                    self.look(&batch[batch.len() - news..]);
                }
                signal = self.signals.next() => {
                    if let Some(end) = self.signalled(signal).await {
                        return Ok(end);
                    }
                }
                () = pressed(self.detach.as_ref()) => return Ok(End::Left(Outcome::ours(0))),
                Some(signal) = overdue(self.ending) => {
                    if !self.is_closed {
                        kill(self.process, &self.control).await;
                    }
                    return Ok(over(signal));
                }
            }
        }
        let written = tokio::select! {
            written = writer.finish() => written,
            signal = self.signals.ending() => return Ok(self.ended_by(signal)),
            () = pressed(self.detach.as_ref()) => return Ok(End::Left(Outcome::ours(0))),
            Some(signal) = overdue(self.ending) => return Ok(over(signal)),
        };
        if let Some((signal, _)) = self.ending {
            return Ok(over(signal));
        }
        match written {
            Ok(()) => {}
            Err(error) => {
                if self.detach.is_none() {
                    kill(self.process, &self.control).await;
                }
                if error.kind() == std::io::ErrorKind::BrokenPipe {
                    return Ok(self.left(Outcome::signalled(BROKEN_PIPE)));
                }
                let error = anyhow::Error::new(error).context("cannot write output");
                return Err(Failure::runtime(error));
            }
        }
        match self.exit_code {
            Some(code) => Ok(End::Over(Outcome::command(code))),
            None => Err(Failure::runtime(anyhow::anyhow!(
                "the executor did not tell how the command ended"
            ))),
        }
    }

    /// Looks at new events; none mean that nothing more comes.
    fn look(&mut self, news: &[ProcessEvent]) {
        self.is_closed = news.is_empty();
        for event in news {
            match event {
                ProcessEvent::Exited { code, .. } => self.exit_code = Some(*code),
                ProcessEvent::Closed => self.is_closed = true,
                ProcessEvent::Dropped { bytes } => say(format_args!(
                    "output is missing here: of all that the command wrote, the executor has dropped the oldest {}",
                    show_bytes(*bytes)
                )),
                ProcessEvent::Output { .. } => {}
            }
        }
    }

    fn is_connected(&self) -> bool {
        let link = self.link.as_ref();
        link.is_none_or(|link| matches!(*link.borrow(), LinkState::Connected))
    }

    /// Whether the command is over, with all that it wrote.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_closed
    }

    /// Our own end: it ends the command, but one that is kept is left.
    fn left(&self, outcome: Outcome) -> End {
        match self.detach {
            Some(_) => End::Left(outcome),
            None => End::Over(outcome),
        }
    }

    /// Our own end by a signal.
    fn ended_by(&self, signal: Signal) -> End {
        self.left(match signal {
            // The key that leaves a command on a terminal that is not raw.
            Signal::Quit if self.detach.is_some() => Outcome::ours(0),
            signal => Outcome::signalled(signal.number()),
        })
    }

    /// Does what a signal to us means; an end is ours.
    async fn signalled(&mut self, signal: Signal) -> Option<End> {
        if self.is_closed {
            // Only our own output is left, which nobody takes.
            return signal.ends_programs().then(|| self.ended_by(signal));
        }
        match signal {
            Signal::Interrupt => self.interrupt(),
            Signal::Quit | Signal::HangUp | Signal::Terminate if self.detach.is_some() => Some(self.ended_by(signal)),
            Signal::HangUp | Signal::Terminate => self.end(signal).await,
            Signal::Quit if !self.pass_on(signal) => self.kill(signal).await,
            Signal::User1 | Signal::User2 if !self.pass_on(signal) => {
                say(format_args!("this executor cannot pass {} on", signal.name()));
                None
            }
            Signal::Quit | Signal::User1 | Signal::User2 => None,
            Signal::Suspend => {
                self.suspend().await;
                None
            }
        }
    }

    fn interrupt(&mut self) -> Option<End> {
        let leave = Some(over(Signal::Interrupt));
        let insists = self.interrupted.is_some_and(|at| at.elapsed() < INSIST);
        if self.detach.is_some() {
            return self.interrupt_kept(insists);
        }
        if insists && !self.is_connected() {
            say("not connected; the executor will kill the command when the session expires");
            return leave;
        }
        if insists && self.was_killed {
            return leave;
        }
        self.was_killed |= insists;
        self.interrupted = Some(Instant::now());
        let control = self.control.clone();
        tokio::spawn(async move {
            if insists {
                control.terminate().await.map(drop)
            } else {
                control.interrupt().await
            }
        });
        None
    }

    /// A command that is kept is never killed so, but left when the interrupt cannot reach it.
    fn interrupt_kept(&mut self, insists: bool) -> Option<End> {
        self.interrupted = Some(Instant::now());
        if insists && !self.is_connected() {
            return Some(End::Left(Outcome::signalled(Signal::Interrupt.number())));
        }
        self.pass_on(Signal::Interrupt);
        None
    }

    /// Asks the command to end; the second time, or when it cannot be asked, kills it.
    async fn end(&mut self, signal: Signal) -> Option<End> {
        // A shell on a terminal ignores SIGTERM, and goes when the terminal does.
        let request = if self.tty { Signal::HangUp } else { signal };
        if self.ending.is_some() || !self.is_connected() || !self.pass_on(request) {
            return self.kill(signal).await;
        }
        self.ending = Some((signal, Instant::now() + GRACE));
        None
    }

    async fn kill(&mut self, signal: Signal) -> Option<End> {
        if self.ending.is_none() && self.is_connected() {
            say(format_args!(
                "this executor cannot pass {} on; killing the command",
                signal.name()
            ));
        }
        kill(self.process, &self.control).await;
        Some(over(signal))
    }

    /// Sends the command a signal, if the executor can.
    fn pass_on(&self, signal: Signal) -> bool {
        let Some(signal) = signal.remote().filter(|signal| self.control.can_signal(*signal)) else {
            return false;
        };
        let control = self.control.clone();
        // The answer comes behind output, which must be taken meanwhile.
        tokio::spawn(async move {
            if let Err(error) = control.signal(signal).await {
                tracing::debug!(%error, signal = signal.name(), "signal not passed on");
            }
        });
        true
    }

    /// Stops the command, then this program; goes on with both. The command has no job control of its own: what would stop a
    /// job by request does not stop the leader of a session, so it gets SIGSTOP.
    async fn suspend(&mut self) {
        let (stop, go_on) = (rendezvous_harness::Signal::STOP, rendezvous_harness::Signal::CONTINUE);
        let can_stop = self.control.can_signal(stop);
        if can_stop {
            let control = self.control.clone();
            let stopping = tokio::spawn(async move { control.signal(stop).await });
            let _late = tokio::time::timeout(STOP_PATIENCE, stopping).await;
        } else {
            say("this executor cannot stop the command, which goes on");
        }
        // It returns once somebody lets us go on.
        let _refused = kill_process(getpid(), System::STOP);
        if can_stop {
            let control = self.control.clone();
            tokio::spawn(async move { control.signal(go_on).await });
        }
    }
}

/// The end of a command that ends with us, because of a signal.
fn over(signal: Signal) -> End {
    End::Over(Outcome::signalled(signal.number()))
}

/// Waits for the key that leaves the command; for ever without one.
async fn pressed(detach: Option<&Detach>) {
    match detach {
        Some(detach) => detach.pressed().await,
        None => std::future::pending().await,
    }
}

/// The signal for whose sake a command should have ended by now; waits until it should.
async fn overdue(ending: Option<(Signal, Instant)>) -> Option<Signal> {
    let (signal, deadline) = ending?;
    tokio::time::sleep_until(deadline.into()).await;
    Some(signal)
}

/// Kills the command, and waits a little until the executor says that it is gone; says so when it does not.
pub(super) async fn kill(process: &mut Process, control: &ProcessControl) {
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
