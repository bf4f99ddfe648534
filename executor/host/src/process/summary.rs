//! What there is to say about a process without reading it.

use std::ffi::OsString;
use std::time::Duration;

/// Bytes of a command line that are kept to be shown.
pub const MAX_SHOWN_ARGV: usize = 4096;

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The program runs.
    Running,
    /// The program has ended, but somebody still holds its output open.
    Exited,
    /// Nothing more comes, and what is kept is on disk.
    Closed,
}

/// What there is to say about a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Where it stands.
    pub state: State,
    /// How the program ended, if it did.
    pub exit_code: Option<i32>,
    /// Program and arguments, cut after [`MAX_SHOWN_ARGV`] bytes.
    pub argv: Vec<String>,
    /// Whether it has a terminal.
    pub terminal: bool,
    /// The operating system's number of the program.
    pub pid: i32,
    /// Time since its start.
    pub age: Duration,
    /// The next number that it will give.
    pub next_seq: u64,
    /// Bytes of output that can be read.
    pub retained_bytes: u64,
    /// Bytes of output that were dropped.
    pub dropped_bytes: u64,
}

/// A command line as it is shown.
pub(super) fn shown(argv: &[OsString]) -> Vec<String> {
    let mut room = MAX_SHOWN_ARGV;
    let mut shown = Vec::new();
    for argument in argv {
        let text = argument.to_string_lossy();
        let end = text.floor_char_boundary(room.min(text.len()));
        shown.push(text[..end].to_owned());
        // Every argument takes room, also an empty one.
        room = room.saturating_sub(text.len().max(1));
        if room == 0 {
            break;
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_line_is_cut() {
        let argv = ["make".into(), "\u{e9}".repeat(MAX_SHOWN_ARGV).into(), "all".into()];
        let shown = shown(&argv);
        assert_eq!((shown.len(), shown[0].as_str()), (2, "make"));
        assert_eq!(shown[1].len(), MAX_SHOWN_ARGV - 4);
        let odd = ["x".into(), "\u{e9}".repeat(MAX_SHOWN_ARGV).into()];
        assert_eq!(super::shown(&odd)[1].len(), MAX_SHOWN_ARGV - 2);
        let many = vec![OsString::new(); 2 * MAX_SHOWN_ARGV];
        assert_eq!(super::shown(&many).len(), MAX_SHOWN_ARGV);
    }
}
