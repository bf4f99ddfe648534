//! Calls as values, so that another process can do them.

use std::fs::File;
use std::path::PathBuf;

use super::{Entry, FileError, Metadata, Stop, Target, Walk, WalkOptions, copy, directory, regular, walk};

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Opens a regular file for reading.
    Open(Target),
    /// Opens a file for replacing, or creates it; it is empty then.
    Create(Target),
    CreateDirectory {
        target: Target,
        recursive: bool,
    },
    Metadata(Target),
    Canonicalize(PathBuf),
    ReadDirectory(Target),
    Remove {
        target: Target,
        recursive: bool,
        force: bool,
    },
    Copy {
        source: PathBuf,
        destination: PathBuf,
        recursive: bool,
    },
    Walk {
        root: PathBuf,
        options: WalkOptions,
    },
}

/// What it brings.
#[derive(Debug)]
pub(crate) enum Answer {
    Done,
    File(File),
    Metadata(Metadata),
    Path(PathBuf),
    Entries(Vec<Entry>),
    Walk(Walk),
}

impl Call {
    /// Does the call in this process.
    pub(crate) fn perform(&self, stop: &Stop) -> Result<Answer, FileError> {
        let done = |()| Answer::Done;
        match self {
            Self::Open(target) => regular::open(target).map(Answer::File),
            Self::Create(target) => regular::create(target).map(Answer::File),
            Self::CreateDirectory { target, recursive } => directory::create(target, *recursive).map(done),
            Self::Metadata(target) => directory::metadata(target).map(Answer::Metadata),
            Self::Canonicalize(path) => Ok(Answer::Path(path.canonicalize()?)),
            Self::ReadDirectory(target) => directory::list(target, stop).map(Answer::Entries),
            Self::Remove {
                target,
                recursive,
                force,
            } => directory::remove(target, *recursive, *force).map(done),
            Self::Copy {
                source,
                destination,
                recursive,
            } => copy::copy(source, destination, *recursive, stop).map(done),
            Self::Walk { root, options } => walk::walk(root, *options, stop).map(Answer::Walk),
        }
    }
}

/// An answer of another kind than the call asks for, which no honest helper gives.
pub(super) fn mismatch() -> FileError {
    FileError::refused("the sandbox gave an answer to another question")
}
