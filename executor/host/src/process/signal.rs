//! Signals by their names.

use std::str::FromStr;

use nix::sys::signal::Signal as Known;

/// A signal that a process can be sent: any of signal(7) but the real-time ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal(rustix::process::Signal);

impl Signal {
    /// SIGINT, which Ctrl-C sends.
    pub const INTERRUPT: Self = Self(rustix::process::Signal::INT);

    /// SIGSTOP, which stops a process until SIGCONT.
    pub const STOP: Self = Self(rustix::process::Signal::STOP);
    /// SIGCONT, which lets a stopped process go on.
    pub const CONTINUE: Self = Self(rustix::process::Signal::CONT);

    /// Its name in signal(7).
    pub fn name(self) -> &'static str {
        Known::try_from(self.0.as_raw()).map_or("", Known::as_str)
    }

    pub(super) fn as_system(self) -> rustix::process::Signal {
        self.0
    }
}

/// There is no signal of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown signal `{0}`; expected a name of signal(7), such as SIGTERM")]
pub struct UnknownSignal(String);

/// Longest part of an unknown name that an error repeats, in characters.
const MAX_SHOWN: usize = 32;

impl FromStr for Signal {
    type Err = UnknownSignal;

    /// Reads a name of signal(7), such as `SIGTERM`; upper case, with `SIG`.
    fn from_str(name: &str) -> Result<Self, UnknownSignal> {
        let known = Known::from_str(name).ok();
        let signal = known.and_then(|known| rustix::process::Signal::from_named_raw(known as i32));
        signal
            .map(Self)
            .ok_or_else(|| UnknownSignal(name.chars().take(MAX_SHOWN).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_standard_signal_has_its_name() {
        for known in Known::iterator() {
            let signal: Signal = known.as_str().parse().unwrap();
            assert_eq!(signal.as_system().as_raw(), known as i32, "{known}");
            assert_eq!(signal.name(), known.as_str());
        }
        assert_eq!("SIGINT".parse(), Ok(Signal::INTERRUPT));
    }

    #[test]
    fn other_names_are_refused() {
        for name in [
            "",
            "TERM",
            "sigterm",
            "SIGRTMIN",
            "SIGRTMIN+1",
            "15",
            "SIGNONE",
            " SIGTERM",
        ] {
            name.parse::<Signal>().unwrap_err();
        }
        let error = "x".repeat(5000).parse::<Signal>().unwrap_err();
        assert!(error.to_string().len() < 200, "{error}");
    }
}
