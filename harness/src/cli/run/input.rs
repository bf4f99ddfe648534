//! What goes to a command: stdin, and the size of the terminal.

use std::sync::Arc;
use std::time::Duration;

use rendezvous_harness::{HarnessError, ProcessControl};
use tokio::sync::Notify;

use crate::cli::{output, say, terminal};

/// First and longest time before a terminal is told again that its input has ended.
const END_AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Rows and columns of a command's terminal at first.
const NEW_SIZE: (u16, u16) = (24, 80);

/// The key that leaves a command which is kept.
#[derive(Clone, Debug)]
pub(crate) struct Detach {
    key: Option<u8>,
    pressed: Arc<Notify>,
}

impl Detach {
    /// What the key sends on a raw terminal, if there is one.
    pub(crate) fn new(key: Option<u8>) -> Self {
        Self {
            key,
            pressed: Arc::default(),
        }
    }

    /// Waits until it is pressed.
    pub(crate) async fn pressed(&self) {
        self.pressed.notified().await;
    }

    /// What stands before the key in a piece of input, if it is pressed in it.
    fn before<'a>(&self, piece: &'a [u8]) -> Option<&'a [u8]> {
        let at = piece.iter().position(|byte| Some(*byte) == self.key)?;
        self.pressed.notify_one();
        Some(&piece[..at])
    }
}

/// Gives the command's terminal the size of ours, now and whenever that changes.
pub(crate) async fn follow_size(control: ProcessControl) {
    let Ok(mut changes) = terminal::size_changes() else {
        return;
    };
    let mut known = Some(NEW_SIZE);
    loop {
        let size = terminal::size();
        if let Some((rows, columns)) = size.filter(|_| size != known) {
            match control.resize(rows, columns).await {
                Ok(true) => known = size,
                Ok(false) => {
                    let (rows, columns) = NEW_SIZE;
                    return say(format_args!(
                        "this executor cannot change the size of the command's terminal, which stays {columns}x{rows}"
                    ));
                }
                Err(error) => return tracing::debug!(%error, "size not taken"),
            }
        }
        if changes.recv().await.is_none() {
            return;
        }
    }
}

/// Passes stdin on to its end. A terminal is told of the end again and again: a program that changes the terminal's mode just
/// then, as shells do before each prompt, loses what it was told. With `detach`, its key on a raw terminal ends this instead.
pub(crate) async fn pump(control: ProcessControl, tty: bool, detach: Option<Detach>) {
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
        let detach = detach.as_ref().filter(|_| terminal::is_raw());
        let left = detach.and_then(|detach| detach.before(&piece));
        match control.write(left.unwrap_or(&piece)).await {
            Ok(()) if left.is_some() => return,
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
