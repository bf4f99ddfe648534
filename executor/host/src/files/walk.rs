//! Walks over a tree.

use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{FileError, Stop};

/// Deepest walk.
const MAX_DEPTH: usize = 64;
/// Most directories of one walk.
const MAX_DIRECTORIES: usize = 10_000;
/// Most entries of one walk.
const MAX_ENTRIES: usize = 50_000;
/// Most bytes of paths and messages in one result, with [`ITEM_COST`] for each.
const MAX_RESULT_BYTES: usize = 4 * 1024 * 1024;
/// What an item counts beside its text: the scheme of its path, and what is around it.
const ITEM_COST: usize = "file://".len() + 64;

/// How far to walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkOptions {
    /// Directories below this depth are listed but not entered; the root has depth 0. At most 64.
    pub max_depth: usize,
    /// Directories to enter, 1 to 10 000.
    pub max_directories: usize,
    /// Entries to look at, 1 to 50 000.
    pub max_entries: usize,
    /// Enter directories behind symbolic links too, each directory once. Links to nothing are passed over.
    pub follow_directory_symlinks: bool,
    /// Do not enter directories whose name begins with a dot.
    pub prune_hidden_directories: bool,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Directories and regular files.
    pub entries: Vec<WalkEntry>,
    /// What could not be looked at.
    pub problems: Vec<WalkProblem>,
    /// A limit ended the walk, or kept it out of a directory.
    pub is_truncated: bool,
}

/// One directory or file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkEntry {
    /// Its path, below the root as that was given.
    pub path: PathBuf,
    /// A directory, else a regular file.
    pub is_directory: bool,
}

/// One failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkProblem {
    /// Where.
    pub path: PathBuf,
    /// What the operating system said.
    pub message: String,
}

pub(super) fn walk(root: &Path, options: WalkOptions, stop: &Stop) -> Result<Walk, FileError> {
    check(options)?;
    // One that leads nowhere is an error, also when it would not be followed.
    let metadata = root.metadata()?;
    let is_passed_over = !options.follow_directory_symlinks && root.symlink_metadata()?.is_symlink();
    if is_passed_over || !metadata.is_dir() {
        return Ok(Walk::default());
    }
    let mut walker = Walker {
        options,
        result: Walk::default(),
        bytes: 0,
        examined: 0,
        seen: HashSet::from([(metadata.dev(), metadata.ino())]),
        queue: VecDeque::from([(root.to_owned(), 0)]),
    };
    while let Some((directory, depth)) = walker.queue.pop_front() {
        if walker.list(&directory, depth, stop)?.is_none() {
            walker.result.is_truncated = true;
            break;
        }
    }
    Ok(walker.result)
}

fn check(options: WalkOptions) -> Result<(), FileError> {
    if options.max_directories == 0 || options.max_entries == 0 {
        return Err(FileError::refused("filesystem walk limits must be greater than zero"));
    }
    if options.max_depth > MAX_DEPTH || options.max_directories > MAX_DIRECTORIES || options.max_entries > MAX_ENTRIES {
        return Err(FileError::refused(format!(
            "filesystem walk limits exceed maximums: depth={MAX_DEPTH}, directories={MAX_DIRECTORIES}, \
             entries={MAX_ENTRIES}"
        )));
    }
    Ok(())
}

struct Walker {
    options: WalkOptions,
    result: Walk,
    bytes: usize,
    examined: usize,
    /// Directories that were entered or wait for it, by identity.
    seen: HashSet<(u64, u64)>,
    queue: VecDeque<(PathBuf, usize)>,
}

impl Walker {
    /// Lists one directory; nothing when a limit ends the walk.
    fn list(&mut self, directory: &Path, depth: usize, stop: &Stop) -> Result<Option<()>, FileError> {
        let names = match self.names(directory, stop)? {
            Ok(names) => names,
            Err(error) => return Ok(self.problem(directory.to_owned(), &error)),
        };
        for name in names {
            stop.check()?;
            if self.examined == self.options.max_entries {
                return Ok(None);
            }
            self.examined += 1;
            let is_hidden = name.as_bytes().starts_with(b".");
            if self.visit(directory.join(name), depth + 1, is_hidden).is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// The sorted names in a directory; of a huge one, only so many as can matter.
    fn names(&self, directory: &Path, stop: &Stop) -> Result<io::Result<Vec<OsString>>, FileError> {
        let enough = self.options.max_entries - self.examined + 1;
        let mut names = BinaryHeap::new();
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => return Ok(Err(error)),
        };
        for entry in entries {
            stop.check()?;
            match entry {
                Ok(entry) => names.push(entry.file_name()),
                Err(error) => return Ok(Err(error)),
            }
            if names.len() > enough {
                // The last in the order cannot be reached.
                names.pop();
            }
        }
        Ok(Ok(names.into_sorted_vec()))
    }

    fn visit(&mut self, path: PathBuf, depth: usize, is_hidden: bool) -> Option<()> {
        let metadata = match path.symlink_metadata() {
            Ok(metadata) if !metadata.is_symlink() => metadata,
            Ok(_link) if !self.options.follow_directory_symlinks => return Some(()),
            Ok(_link) => match path.metadata() {
                Ok(target) if target.is_dir() => target,
                // Nor is it a problem that it leads nowhere, or where nobody may look.
                Ok(_) | Err(_) => return Some(()),
            },
            Err(error) => return self.problem(path, &error),
        };
        if metadata.is_dir() {
            self.entry(path.clone(), true)?;
            self.enter(path, depth, is_hidden, (metadata.dev(), metadata.ino()));
            Some(())
        } else if metadata.is_file() {
            self.entry(path, false)
        } else {
            Some(())
        }
    }

    fn enter(&mut self, path: PathBuf, depth: usize, is_hidden: bool, identity: (u64, u64)) {
        if depth > self.options.max_depth || (is_hidden && self.options.prune_hidden_directories) {
            return;
        }
        if self.seen.contains(&identity) {
            return;
        }
        if self.seen.len() == self.options.max_directories {
            self.result.is_truncated = true;
            return;
        }
        self.seen.insert(identity);
        self.queue.push_back((path, depth));
    }

    fn entry(&mut self, path: PathBuf, is_directory: bool) -> Option<()> {
        self.pay(path.as_os_str().len())?;
        self.result.entries.push(WalkEntry { path, is_directory });
        Some(())
    }

    fn problem(&mut self, path: PathBuf, error: &io::Error) -> Option<()> {
        let message = error.to_string();
        self.pay(path.as_os_str().len() + message.len())?;
        self.result.problems.push(WalkProblem { path, message });
        Some(())
    }

    fn pay(&mut self, len: usize) -> Option<()> {
        self.bytes += len + ITEM_COST;
        (self.bytes <= MAX_RESULT_BYTES).then_some(())
    }
}
