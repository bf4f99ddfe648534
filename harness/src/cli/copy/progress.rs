//! A line on stderr that shows how far a copy is, when stderr is a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use crate::cli::text::is_control;

/// Time between two lines.
const INTERVAL: Duration = Duration::from_millis(200);

/// How far a copy is.
#[derive(Debug)]
pub(super) struct Progress {
    shown: bool,
    started: Instant,
    printed: Option<Instant>,
    bytes: u64,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            shown: std::io::stderr().is_terminal(),
            started: Instant::now(),
            printed: None,
            bytes: 0,
        }
    }

    /// Counts bytes of the file `name`.
    pub(super) fn add(&mut self, name: &str, bytes: usize) {
        self.bytes += bytes as u64;
        if !self.shown || self.printed.is_some_and(|at| at.elapsed() < INTERVAL) {
            return;
        }
        self.printed = Some(Instant::now());
        let line = line(name, self.bytes, self.started.elapsed());
        // Progress that cannot be shown is not missed.
        let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.printed.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn line(name: &str, bytes: u64, elapsed: Duration) -> String {
    let mega = bytes as f64 / 1e6;
    let rate = mega / elapsed.as_secs_f64().max(0.001);
    let name: String = name.chars().filter(|c| !is_control(*c)).take(40).collect();
    format!("{name}  {mega:.1} MB  {rate:.1} MB/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_short_and_clean() {
        let shown = line(
            &format!("\u{1b}[2J{}", "x".repeat(100)),
            2_500_000,
            Duration::from_secs(2),
        );
        assert_eq!(shown, format!("[2J{}  2.5 MB  1.2 MB/s", "x".repeat(37)));
    }
}
