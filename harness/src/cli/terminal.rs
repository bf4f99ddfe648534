//! The terminal that stdin may be.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Whether messages need a carriage return.
static RAW: AtomicBool = AtomicBool::new(false);

/// Whether the terminal is raw now.
pub(crate) fn is_raw() -> bool {
    RAW.load(Ordering::Relaxed)
}

/// Whether stdin is a terminal, which can be made raw.
pub(crate) fn is_there() -> bool {
    isatty(rustix::stdio::stdin())
}

/// Rows and columns of stdin's terminal; nothing when it is none, or does not know.
pub(crate) fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(rustix::stdio::stdin()).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}

/// Comes whenever the size may have changed.
pub(crate) fn size_changes() -> std::io::Result<Signal> {
    signal(SignalKind::window_change())
}

/// Keeps stdin's terminal raw; its end restores what was before, also when a panic unwinds.
#[derive(Debug)]
pub(crate) struct RawMode {
    before: Termios,
}

impl RawMode {
    /// Makes stdin's terminal raw; none when stdin is no terminal.
    pub(crate) fn enter() -> std::io::Result<Option<Self>> {
        let stdin = rustix::stdio::stdin();
        if !is_there() {
            return Ok(None);
        }
        let before = tcgetattr(stdin)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin, OptionalActions::Drain, &raw)?;
        RAW.store(true, Ordering::Relaxed);
        Ok(Some(Self { before }))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before);
        RAW.store(false, Ordering::Relaxed);
    }
}
