//! How a run ended.

use std::path::Path;

use serde::Serialize;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Outcome {
    origin: Origin,
    /// The exit code.
    pub(crate) code: u8,
    signal: Option<u8>,
}

/// Whose exit code it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Origin {
    Command,
    Harness,
}

impl Outcome {
    /// Our own code.
    pub(crate) fn ours(code: u8) -> Self {
        Self {
            origin: Origin::Harness,
            code,
            signal: None,
        }
    }

    /// Our own end by a signal.
    pub(crate) fn signalled(signal: u8) -> Self {
        Self {
            origin: Origin::Harness,
            code: 128 + signal,
            signal: Some(signal),
        }
    }

    /// The command's code. Executors report 128 + N for signal N, and -1 for a process that they killed themselves.
    pub(crate) fn command(code: i32) -> Self {
        let code = match u8::try_from(code) {
            Ok(code) => code,
            Err(_) if code < 0 => 137,
            Err(_) => u8::try_from(code & 0xff).unwrap_or(u8::MAX),
        };
        Self {
            origin: Origin::Command,
            code,
            signal: code.checked_sub(128).filter(|signal| (1..=64).contains(signal)),
        }
    }

    /// Writes the status file, whole or not at all.
    pub(crate) fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}", std::process::id()));
        std::fs::write(&temporary, text)?;
        std::fs::rename(&temporary, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_signals() {
        let of = |code| {
            let outcome = Outcome::command(code);
            (outcome.code, outcome.signal)
        };
        assert_eq!(of(0), (0, None));
        assert_eq!(of(255), (255, None));
        assert_eq!(of(128), (128, None));
        assert_eq!(of(130), (130, Some(2)));
        assert_eq!(of(-1), (137, Some(9)));
        assert_eq!(of(256 + 7), (7, None));
    }

    #[test]
    fn the_file_tells_both_cases_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("status");
        Outcome::command(3).write(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "{\"origin\":\"command\",\"code\":3,\"signal\":null}\n");
        Outcome::signalled(15).write(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "{\"origin\":\"harness\",\"code\":143,\"signal\":15}\n");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
