//! A terminal of the test's own, with a program in its foreground.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::pty::openpty;
use nix::sys::termios::{ControlFlags, InputFlags, LocalFlags, OutputFlags, tcgetattr};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;

use crate::program::{Finished, Output};
use crate::{Command, Context, Program, wait};

/// A pseudo-terminal and the program that it belongs to. Dropping it kills the program.
#[derive(Debug)]
pub struct Terminal {
    /// The program.
    pub program: Program,
    keyboard: pipe::Sender,
    before: Settings,
    /// The program's end, held open so that its settings outlive the program.
    line: OwnedFd,
}

impl Terminal {
    /// Starts a command as the leader of a session on a new terminal of 24 rows and 80 columns.
    ///
    /// # Errors
    ///
    /// There is no terminal to be had, or the command could not be started.
    pub fn start(cx: &Context, name: &str, command: Command) -> Result<Self> {
        let pair = openpty(None, None).context("a new terminal")?;
        let (ours, line) = (pair.master, pair.slave);
        tcsetwinsize(&line, size(24, 80))?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        let keyboard = File::from(ours.try_clone()?);
        // To the runtime the end of a terminal is what the end of a pipe is.
        let screen = pipe::Receiver::from_file_unchecked(File::from(ours))?;
        Ok(Self {
            before: Settings::of(&line)?,
            program: Program::start_on(cx, name, command, &line, screen)?,
            keyboard: pipe::Sender::from_file_unchecked(keyboard)?,
            line,
        })
    }

    /// Everything that the terminal has shown so far.
    pub fn screen(&self) -> &Output {
        self.program.stdout()
    }

    /// Presses keys.
    ///
    /// # Errors
    ///
    /// The terminal is gone.
    pub async fn press(&mut self, keys: &str) -> Result<()> {
        Ok(self.keyboard.write_all(keys.as_bytes()).await?)
    }

    /// Gives it another size, which the kernel tells the program in its foreground.
    ///
    /// # Errors
    ///
    /// The terminal is gone.
    pub fn resize(&self, rows: u16, columns: u16) -> Result<()> {
        Ok(tcsetwinsize(&self.line, size(rows, columns))?)
    }

    /// Waits until the terminal neither echoes, nor waits for whole lines, nor makes signals of keys.
    ///
    /// # Errors
    ///
    /// It does not come to that.
    pub async fn raw(&self) -> Result<()> {
        let cooked = LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG;
        wait::until_true("a raw terminal", wait::SOON, || {
            Settings::of(&self.line).is_ok_and(|now| !now.local.intersects(cooked))
        })
        .await
    }

    /// Waits for the program's end.
    ///
    /// # Errors
    ///
    /// It did not end within the time, or left the terminal with other settings than it had found.
    pub async fn finish(mut self, within: Duration) -> Result<Finished> {
        wait::until_true("the program's end", within, || !self.program.is_running()).await?;
        let after = Settings::of(&self.line)?;
        drop(self.line);
        let finished = self.program.finish(wait::SOON).await?;
        anyhow::ensure!(after == self.before, "before: {:?}, after: {after:?}", self.before);
        Ok(finished)
    }
}

/// How a terminal treats what goes through it.
#[derive(Debug, PartialEq, Eq)]
struct Settings {
    input: InputFlags,
    output: OutputFlags,
    control: ControlFlags,
    local: LocalFlags,
    keys: Vec<u8>,
}

impl Settings {
    fn of(terminal: &OwnedFd) -> Result<Self> {
        let settings = tcgetattr(terminal)?;
        Ok(Self {
            input: settings.input_flags,
            output: settings.output_flags,
            control: settings.control_flags,
            local: settings.local_flags,
            keys: settings.control_chars.to_vec(),
        })
    }
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}
