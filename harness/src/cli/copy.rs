//! `harness cp`.
//!
//! A copy appears under its name only when it is complete, except for small uploads, which one call writes.

mod download;
mod progress;
mod upload;

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use rendezvous_harness::{Harness, PathUri};
use tokio_util::task::TaskTracker;

use self::progress::Progress;
use super::args::{Connection, CopyArgs};
use super::run::remote_path;
use super::status::Outcome;
use super::{Failure, connect, signals};

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

pub(super) async fn copy(connection: &Connection, args: &CopyArgs, sessions: &TaskTracker) -> Result<Outcome, Failure> {
    let copying = async {
        match (Side::parse(&args.from), Side::parse(&args.to)) {
            (Side::Remote { environment, path }, Side::Local(to)) => {
                let harness = connect(connection, environment.as_deref(), sessions).await?;
                let from = remote_path(&harness, &path).await?;
                let mut job = Job::new(harness, args.recursive);
                download::download(&mut job, &from, &to).await
            }
            (Side::Local(from), Side::Remote { environment, path }) => {
                let harness = connect(connection, environment.as_deref(), sessions).await?;
                let to = remote_path(&harness, &path).await?;
                let mut job = Job::new(harness, args.recursive);
                upload::upload(&mut job, &from, &to).await
            }
            (Side::Local(_), Side::Local(_)) => Err(Failure::usage(anyhow!(
                "one side must be remote: write `:PATH` or `ENVIRONMENT:PATH`"
            ))),
            (Side::Remote { .. }, Side::Remote { .. }) => Err(Failure::usage(anyhow!("one side must be local"))),
        }
    };
    tokio::select! {
        result = copying => result.map(|()| Outcome::command(0)),
        signal = signals::ending() => Ok(Outcome::signalled(signal.number())),
    }
}

/// What both directions need.
struct Job {
    harness: Harness,
    recursive: bool,
    progress: Progress,
}

impl Job {
    fn new(harness: Harness, recursive: bool) -> Self {
        Self {
            harness,
            recursive,
            progress: Progress::new(),
        }
    }
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
    fn names_of_the_other_side_cannot_climb() {
        let root = PathUri::parse("file:///srv").unwrap();
        for name in ["", ".", "..", "a/b", "/etc"] {
            assert!(below(&root, name).is_err(), "{name}");
        }
        assert!(below(&root, "a b").is_ok_and(|path| path.as_str() == "file:///srv/a%20b"));
    }
}
