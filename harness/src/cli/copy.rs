//! `harness cp`.
//!
//! A copy appears under its name only when it is complete, except for small uploads, which one call writes.

mod blocks;
mod download;
mod progress;
mod receiver;
mod upload;

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use rendezvous_harness::{Environment, PathUri};
use tokio_util::task::TaskTracker;

use self::progress::Progress;
use self::receiver::Receiver;
use super::args::{Connection, CopyArgs};
use super::run::remote_path;
use super::signals::Signals;
use super::status::Outcome;
use super::{Failure, connect};

/// One side of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Side {
    Local(PathBuf),
    Remote { environment: Option<String>, path: String },
}

impl Side {
    /// `:PATH` and `ENVIRONMENT:PATH` are remote; a `/` in front of the colon makes it part of a local name.
    fn parse(text: &str) -> Self {
        match text.split_once(':') {
            Some((environment, path)) if !environment.contains('/') => Self::Remote {
                environment: Some(environment.to_owned()).filter(|id| !id.is_empty()),
                path: if path.is_empty() { "." } else { path }.to_owned(),
            },
            _ => Self::Local(text.into()),
        }
    }
}

/// Which way a copy goes.
#[derive(Clone, Copy, Debug)]
enum Direction<'a> {
    Down { from: &'a str, to: &'a Path },
    Up { from: &'a Path, to: &'a str },
}

pub(super) async fn copy(connection: &Connection, args: &CopyArgs, sessions: &TaskTracker) -> Result<Outcome, Failure> {
    let (from, to) = (Side::parse(&args.from), Side::parse(&args.to));
    let (environment, direction) = match (&from, &to) {
        (Side::Remote { environment, path }, Side::Local(to)) => (environment, Direction::Down { from: path, to }),
        (Side::Local(from), Side::Remote { environment, path }) => (environment, Direction::Up { from, to: path }),
        (Side::Local(_), Side::Local(_)) => {
            return Err(Failure::usage(anyhow!(
                "one side must be remote: write `:PATH` or `ENVIRONMENT:PATH`"
            )));
        }
        (Side::Remote { .. }, Side::Remote { .. }) => return Err(Failure::usage(anyhow!("one side must be local"))),
    };
    let mut job = Job::new(
        connect(connection, environment.as_deref(), sessions).await?,
        args.recursive,
    );
    let mut signals = Signals::new().map_err(Failure::runtime)?;
    let result = tokio::select! {
        result = job.transfer(direction) => result.map(|()| Outcome::command(0)),
        signal = signals.next() => Ok(Outcome::signalled(signal.number())),
    };
    if let Some(receiver) = job.receiver.take() {
        tokio::select! {
            () = receiver.abandon(&job.environment) => {}
            _ = signals.next() => {}
        }
    }
    result
}

/// What both directions need.
struct Job {
    environment: Environment,
    recursive: bool,
    progress: Progress,
    /// The process that takes a file on the executor, until it has all of it.
    receiver: Option<Receiver>,
}

impl Job {
    fn new(environment: Environment, recursive: bool) -> Self {
        Self {
            environment,
            recursive,
            progress: Progress::new(),
            receiver: None,
        }
    }

    async fn transfer(&mut self, direction: Direction<'_>) -> Result<(), Failure> {
        match direction {
            Direction::Down { from: path, to } => {
                let from = remote_path(&self.environment, path).await?;
                let copied = download::download(self, &from, is_directory_name(path), to).await;
                copied.map_err(|failure| failure.about(down(&from, to)))
            }
            Direction::Up { from, to: path } => {
                let to = remote_path(&self.environment, path).await?;
                let copied = upload::upload(self, from, &to, is_directory_name(path)).await;
                copied.map_err(|failure| failure.about(up(from, &to)))
            }
        }
    }
}

/// What a download could not do.
fn down(from: &PathUri, to: &Path) -> String {
    format!("cannot copy {from} on the executor to {} here", to.display())
}

/// What an upload could not do.
fn up(from: &Path, to: &PathUri) -> String {
    format!("cannot copy {} here to {to} on the executor", from.display())
}

/// Whether a path can only name a directory.
fn is_directory_name(path: &str) -> bool {
    matches!(path.rsplit('/').next(), Some("" | "." | ".."))
}

/// Where a copy of `name` goes, when `to` may be an existing directory.
fn inside(to: &Path, name: Option<&str>, is_directory: bool) -> PathBuf {
    match name {
        Some(name) if is_directory => to.join(name),
        _ => to.to_owned(),
    }
}

/// A path below a remote one.
fn below(path: &PathUri, name: &str) -> Result<PathUri, Failure> {
    if name.is_empty() || name == "." || name == ".." || name.contains('/') {
        return Err(Failure::runtime(anyhow!("unusable file name {name:?}")));
    }
    path.join(name.as_bytes()).map_err(Failure::runtime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_before_any_slash_makes_a_path_remote() {
        let remote = |environment: Option<&str>, path: &str| Side::Remote {
            environment: environment.map(ToOwned::to_owned),
            path: path.to_owned(),
        };
        assert_eq!(Side::parse(":/a:b"), remote(None, "/a:b"));
        assert_eq!(Side::parse("box:rel"), remote(Some("box"), "rel"));
        assert_eq!(Side::parse("box:"), remote(Some("box"), "."));
        assert_eq!(Side::parse("./a:b"), Side::Local("./a:b".into()));
        assert_eq!(Side::parse("a"), Side::Local("a".into()));
    }

    #[test]
    fn some_names_are_only_of_directories() {
        for path in ["a/", "/", ".", "..", "a/.", "../.."] {
            assert!(is_directory_name(path), "{path}");
        }
        for path in ["a", "/a", "a/.b", "a..", "..."] {
            assert!(!is_directory_name(path), "{path}");
        }
    }

    #[test]
    fn names_of_the_other_side_cannot_climb() {
        let root = PathUri::parse("file:///srv").unwrap();
        for name in ["", ".", "..", "a/b", "/etc"] {
            assert!(below(&root, name).is_err(), "{name}");
        }
        assert!(below(&root, "a b").is_ok_and(|path| path.as_str() == "file:///srv/a%20b"));
    }
}
