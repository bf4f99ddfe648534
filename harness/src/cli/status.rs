//! How a run ended.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;
use tokio::io::AsyncWriteExt as _;

use super::target::Target;

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
}

/// Where to write how a run ended.
#[derive(Debug)]
pub(crate) struct StatusFile {
    path: PathBuf,
    target: Target,
}

impl StatusFile {
    /// Makes sure that the file can be written, before anything is run.
    ///
    /// # Errors
    ///
    /// It cannot.
    pub(crate) fn prepare(path: &Path) -> anyhow::Result<Self> {
        let path = path.to_owned();
        match Target::prepare(&path) {
            Ok(target) => Ok(Self { path, target }),
            Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
        }
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    ///
    /// It cannot be written any more.
    pub(crate) async fn write(self, outcome: &Outcome) -> anyhow::Result<()> {
        let Self { path, target } = self;
        let mut text = serde_json::to_vec(outcome)?;
        text.push(b'\n');
        let written = async {
            let mut file = target.open().await?;
            file.write_all(&text).await?;
            file.flush().await?;
            target.commit()
        };
        written
            .await
            .with_context(|| format!("cannot write {}", path.display()))
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

    #[tokio::test]
    async fn the_file_tells_both_cases_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("status");
        for (outcome, text) in [
            (
                Outcome::command(3),
                "{\"origin\":\"command\",\"code\":3,\"signal\":null}\n",
            ),
            (
                Outcome::signalled(15),
                "{\"origin\":\"harness\",\"code\":143,\"signal\":15}\n",
            ),
        ] {
            let file = StatusFile::prepare(&path).unwrap();
            file.write(&outcome).await.unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_known_before_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let error = StatusFile::prepare(&folder.path().join("missing/status")).unwrap_err();
        assert!(format!("{error:#}").starts_with("cannot write /"), "{error:#}");
    }
}
