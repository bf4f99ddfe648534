//! The process on the executor that takes a file.
//!
//! It writes beside the file's place, and gives the new file its name only when everything has come. The protocol has no
//! call for that, nor one that sets permissions.

use std::time::Duration;

use anyhow::anyhow;
use rendezvous_harness::{Environment, HarnessError, PathUri, ProcessControl, ProcessEvent, ProcessSpec, Stdin};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cli::target::TEMPORARY;
use crate::cli::{Failure, say};

/// `$1` is the temporary file, `$2` the file, `$3` the mode, `$4` the size. A device takes the bytes itself. An old file keeps
/// its mode and owner, of which only `ls` tells everywhere; where the owner cannot be kept, the new group gets what its
/// members had as others. `set -C` opens only a temporary file that nobody has made before.
const RECEIVE: &str = r#"part=$1 file=$2 mode=$3 size=$4
fail() {
  echo "$1" >&2
  exit 1
}
look() {
  [ ! -d "$file" ] || fail "it is a directory"
  [ ! -L "$file" ] || fail "it is a link to nothing"
  [ ! -e "$file" ] || [ -f "$file" ] || fail "it is no regular file"
}
bits() {
  case $1 in
    *[st]) set -- "${1%?}x" ;;
    *[ST]) set -- "${1%?}" ;;
  esac
  IFS=-
  set -- $1
  IFS=
  echo "$*"
}
umask 077
set -Cf
if [ -c "$file" ]; then
  cat >"$file"
  exit
fi
look
exec 3>"$part" || exit 1
trap 'rm -f "$part"' EXIT
trap 'exit 1' HUP INT TERM
cat >&3 || exit 1
exec 3>&-
[ "$(wc -c <"$part")" -eq "$size" ] || fail "not all of it has come"
look
if [ -f "$file" ]; then
  set -- $(ls -ldn "$file")
  rest=${1#?}
  u=${rest%"${rest#???}"} rest=${rest#???}
  g=${rest%"${rest#???}"} rest=${rest#???}
  o=$(bits "${rest%"${rest#???}"}")
  if chown "$3:$4" "$part" 2>/dev/null; then g=$(bits "$g"); else g=$o; fi
  mode=u=$(bits "$u"),g=$g,o=$o
fi
chmod "$mode" "$part" && mv -f "$part" "$file""#;
/// Most of the complaints that are kept.
const MAX_COMPLAINT: usize = 1024;
/// Longest time that cleaning up on the executor may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// A process that takes a file. Unless it is finished it must be abandoned, or it may leave a part of the file behind.
#[derive(Debug)]
pub(super) struct Receiver {
    starting: Option<oneshot::Receiver<ProcessControl>>,
    control: Option<ProcessControl>,
    ended: JoinHandle<Result<End, HarnessError>>,
    temporary: PathUri,
}

/// How the process ended.
#[derive(Debug, Default)]
struct End {
    complaint: Vec<u8>,
    code: Option<i32>,
}

impl Receiver {
    /// Starts the process in the background, so that it is known from the first moment on.
    ///
    /// # Errors
    ///
    /// When `to` cannot be named in a command there.
    pub(super) fn start(environment: &Environment, to: &PathUri, mode: u32, size: u64) -> Result<Self, Failure> {
        let native = String::from_utf8(to.to_posix().map_err(Failure::runtime)?)
            .map_err(|_| Failure::runtime(anyhow!("{to} is no UTF-8")))?;
        let temporary = beside(&native);
        let mut spec = ProcessSpec::new([
            "/bin/sh",
            "-c",
            RECEIVE,
            "sh",
            &temporary,
            &native,
            &format!("{mode:o}"),
            &size.to_string(),
        ]);
        spec.stdin = Stdin::Pipe;
        let (started, starting) = oneshot::channel();
        let environment = environment.clone();
        Ok(Self {
            starting: Some(starting),
            control: None,
            ended: tokio::spawn(follow(environment, spec, started)),
            temporary: PathUri::from_posix(temporary.as_bytes()).map_err(Failure::runtime)?,
        })
    }

    /// Passes bytes on. False when the process takes no more; [`Receiver::finish`] says why.
    ///
    /// # Errors
    ///
    /// As any call.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<bool, HarnessError> {
        let Some(control) = self.control().await else {
            return Ok(false);
        };
        match control.write(bytes).await {
            Ok(()) => Ok(true),
            Err(HarnessError::StdinClosed) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ends the file, and waits until the executor has it. May be given up half-way, and abandoned then.
    ///
    /// # Errors
    ///
    /// With what the process says when it did not take the file; and as any call.
    pub(super) async fn finish(&mut self, to: &PathUri) -> Result<(), Failure> {
        if let Some(control) = self.control().await {
            control.close_stdin().await?;
        }
        let end = (&mut self.ended).await.map_err(Failure::runtime)??;
        if end.code == Some(0) {
            return Ok(());
        }
        Err(Failure::runtime(anyhow!(
            "cannot write {to}: {}",
            String::from_utf8_lossy(&end.complaint).trim()
        )))
    }

    /// Ends the process and removes what it has written; says so when that cannot be done.
    pub(super) async fn abandon(mut self, environment: &Environment) {
        let cleaned = async {
            if !self.ended.is_finished() {
                if let Some(control) = self.control().await {
                    control.terminate().await?;
                }
                let _ = (&mut self.ended).await;
            }
            match environment.files().remove(&self.temporary, false).await {
                Err(error) if !error.is_not_found() => Err(error),
                _ => Ok(()),
            }
        };
        if !matches!(tokio::time::timeout(PATIENCE, cleaned).await, Ok(Ok(()))) {
            say(format_args!("{} may be left on the executor", self.temporary));
        }
    }

    /// The started process; none when it could not be started.
    async fn control(&mut self) -> Option<ProcessControl> {
        if let Some(starting) = &mut self.starting {
            self.control = starting.await.ok();
            self.starting = None;
        }
        self.control.clone()
    }
}

/// Takes the events, so that the session goes on.
async fn follow(
    environment: Environment,
    spec: ProcessSpec,
    started: oneshot::Sender<ProcessControl>,
) -> Result<End, HarnessError> {
    let mut process = environment.exec().start(spec).await?;
    // When nobody waits any more, the process is killed with its last handle.
    let _ = started.send(process.control());
    let mut end = End::default();
    while let Some(event) = process.next().await? {
        match event {
            ProcessEvent::Output { bytes, .. } => {
                let room = MAX_COMPLAINT - end.complaint.len();
                end.complaint.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
            ProcessEvent::Exited { code, .. } => end.code = Some(code),
            ProcessEvent::Dropped { .. } | ProcessEvent::Closed => {}
        }
    }
    Ok(end)
}

/// A name in the same directory that nobody can guess.
fn beside(path: &str) -> String {
    let directory = path.rfind('/').map_or("", |end| &path[..end]);
    format!("{directory}/{TEMPORARY}{}.part", uuid::Uuid::new_v4().simple())
}

#[cfg(test)]
mod tests;
