//! Files that decide about trust: read with care, replaced whole or not at all.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use tempfile::NamedTempFile;
use zeroize::Zeroizing;

/// Why a file cannot be used. The user must mend it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// There is none.
    #[error("there is no file {}", .0.display())]
    Missing(PathBuf),
    /// It could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others can do with it what only its owner may.
    #[error("{} has the mode {mode:03o}, so that others can {what} it; run: chmod {wanted:03o} {}", path.display(), path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// What others can do.
        what: &'static str,
        /// Permission bits that are fine.
        wanted: u32,
    },
    /// It belongs to somebody else.
    #[error("{} belongs to user {owner}, who is neither root nor the user of this program; run it as that user", path.display())]
    Owner {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// It is a pipe, a device or a folder, where only a file will do.
    #[error("{} is no regular file", .0.display())]
    NotRegular(PathBuf),
    /// It is longer than it may be.
    #[error("{} is longer than {limit} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// It could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Who else may do what with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privacy {
    /// Nobody may even read it.
    Secret,
    /// As [`Self::Secret`]; it may be a pipe, which is read to its end.
    Handed,
    /// Others may read it, not write.
    Public,
}

/// What tells one content of a file from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp([i64; 6]);

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self([
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
            metadata.ino().cast_signed(),
            metadata.size().cast_signed(),
        ])
    }

    /// Whether the file had its last change long enough ago that a later one would show: clocks of file systems tick slowly.
    pub(crate) fn is_settled(self, now: u64) -> bool {
        let [modified, _, changed, ..] = self.0;
        i64::try_from(now).is_ok_and(|now| modified.max(changed).saturating_add(1) < now)
    }

    /// The stamp of the file that is there now.
    pub(crate) fn at(path: &Path) -> Result<Self, FileError> {
        path.metadata()
            .map(|metadata| Self::of(&metadata))
            .map_err(|error| unreadable(path, error))
    }
}

fn unreadable(path: &Path, source: io::Error) -> FileError {
    let path = path.to_owned();
    match source.kind() {
        ErrorKind::NotFound => FileError::Missing(path),
        _ => FileError::Read { path, source },
    }
}

/// Reads a whole file of at most `limit` bytes that belongs to root or to us.
pub(crate) fn read(path: &Path, privacy: Privacy, limit: usize) -> Result<(Zeroizing<Vec<u8>>, Stamp), FileError> {
    let mut how = OpenOptions::new();
    how.read(true);
    if privacy != Privacy::Handed {
        // A pipe without a writer is not waited for: it is refused below.
        how.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = how.open(path).map_err(|error| unreadable(path, error))?;
    // The open file is asked, not the path: the path may name another file by now.
    let metadata = file.metadata().map_err(|error| unreadable(path, error))?;
    check(path, &metadata, privacy)?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(limit.min(64 * 1024) + 1));
    file.take(limit as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(path, error))?;
    if bytes.len() > limit {
        let path = path.to_owned();
        return Err(FileError::TooLong { path, limit });
    }
    Ok((bytes, Stamp::of(&metadata)))
}

fn check(path: &Path, metadata: &Metadata, privacy: Privacy) -> Result<(), FileError> {
    if !metadata.is_file() && privacy != Privacy::Handed {
        return Err(FileError::NotRegular(path.to_owned()));
    }
    let owner = metadata.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        let path = path.to_owned();
        return Err(FileError::Owner { path, owner });
    }
    let mode = metadata.mode() & 0o777;
    let (forbidden, what, wanted) = match privacy {
        Privacy::Secret | Privacy::Handed => (0o077, "use", 0o600),
        Privacy::Public => (0o022, "change", 0o644),
    };
    if metadata.is_file() && mode & forbidden != 0 {
        return Err(FileError::Exposed {
            path: path.to_owned(),
            mode,
            what,
            wanted,
        });
    }
    Ok(())
}

/// Writes a new file of mode 0600 and gives it its name when it is complete and on disk; an old one is replaced.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let target = target(path);
    let written = prepare(&target, bytes).and_then(|file| {
        file.persist(&target).map_err(|error| error.error)?;
        settle(&target)
    });
    written.map_err(|source| unwritable(path, source))
}

/// What a link leads to is replaced, not the link.
fn target(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// As [`replace`], but an old file stays; false when there is one.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> Result<bool, FileError> {
    let written = prepare(path, bytes).and_then(|file| match file.persist_noclobber(path) {
        Ok(_) => settle(path).map(|()| true),
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.error),
    });
    written.map_err(|source| unwritable(path, source))
}

fn unwritable(path: &Path, source: io::Error) -> FileError {
    let path = path.to_owned();
    FileError::Write { path, source }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Makes a folder and those above it, for their owner alone, unless it is there.
fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn prepare(path: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    make_folder(folder_of(path))?;
    let mut file = NamedTempFile::with_prefix_in(".rendezvous-", folder_of(path))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Makes the new name outlive a power cut.
fn settle(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

/// Keeps others from changing a file until it is dropped. They wait; readers do not.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "its end ends the lock")] File);

impl Lock {
    /// Waits for everybody who has the lock of this file: that of a file beside it, since the file itself is replaced.
    pub(crate) fn of(path: &Path) -> Result<Self, FileError> {
        let locked = || {
            make_folder(folder_of(path))?;
            // The same for all who come, through a link or not.
            let mut name = target(path).into_os_string();
            name.push(".lock");
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .mode(0o600)
                .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
                .open(&name)?;
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(Self(file))
        };
        locked().map_err(|source| unwritable(path, source))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o777
    }

    #[test]
    fn a_file_is_new_or_old_and_its_owners() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/file");
        assert!(create(&path, b"one").unwrap());
        assert!(!create(&path, b"two").unwrap());
        assert_eq!(*read(&path, Privacy::Secret, 3).unwrap().0, b"one");
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let (_, before) = read(&path, Privacy::Secret, 3).unwrap();
        replace(&path, b"new").unwrap();
        let (bytes, after) = read(&path, Privacy::Secret, 3).unwrap();
        assert_eq!(*bytes, b"new");
        assert_ne!(before, after);
        assert_eq!(after, Stamp::at(&path).unwrap());
        // Nothing temporary stays behind.
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        assert!(matches!(
            read(&path, Privacy::Secret, 2),
            Err(FileError::TooLong { limit: 2, .. })
        ));
    }

    #[test]
    fn a_new_stamp_may_stand_for_two_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        let stamp = Stamp::at(&path).unwrap();
        let now = crate::time::now();
        assert!(!stamp.is_settled(now));
        assert!(stamp.is_settled(now + 3));
    }

    #[test]
    fn a_link_stays_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        replace(&link, b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
        // Whoever changes it through the link keeps others away from the file.
        let _lock = Lock::of(&link).unwrap();
        assert!(folder.path().join("file.lock").exists());
        assert!(!folder.path().join("link.lock").exists());
    }

    #[test]
    fn a_lock_waits_for_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let first = Lock::of(&path).unwrap();
        let (got, order) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let second = got.clone();
            scope.spawn(move || {
                let _lock = Lock::of(&path).unwrap();
                second.send("second").unwrap();
            });
            got.send("first").unwrap();
            drop(first);
            assert_eq!((order.recv(), order.recv()), (Ok("first"), Ok("second")));
        });
    }

    #[test]
    fn only_a_passphrase_may_come_through_a_pipe() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        for path in [pipe.as_path(), folder.path(), Path::new("/dev/null")] {
            for privacy in [Privacy::Secret, Privacy::Public] {
                assert!(
                    matches!(read(path, privacy, 10), Err(FileError::NotRegular(_))),
                    "{}",
                    path.display()
                );
            }
        }
        std::thread::scope(|scope| {
            scope.spawn(|| fs::write(&pipe, "text").unwrap());
            assert_eq!(*read(&pipe, Privacy::Handed, 10).unwrap().0, b"text");
        });
    }

    #[test]
    fn it_must_belong_to_root_or_to_us() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        // Only root can give a file away.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        std::os::unix::fs::chown(&path, Some(54_321), None).unwrap();
        for privacy in [Privacy::Secret, Privacy::Handed, Privacy::Public] {
            let error = read(&path, privacy, 10).unwrap_err();
            assert!(matches!(error, FileError::Owner { owner: 54_321, .. }), "{error}");
        }
    }

    #[test]
    fn others_may_not_have_a_hand_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for (bits, secret, public) in [
            (0o600, true, true),
            (0o400, true, true),
            (0o644, false, true),
            (0o640, false, true),
            (0o604, false, true),
            (0o660, false, false),
            (0o602, false, false),
        ] {
            fs::write(&path, "text").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(bits)).unwrap();
            for (privacy, fine) in [
                (Privacy::Secret, secret),
                (Privacy::Handed, secret),
                (Privacy::Public, public),
            ] {
                match read(&path, privacy, 10) {
                    Ok(_) => assert!(fine, "{bits:o} {privacy:?}"),
                    Err(error) => {
                        assert!(!fine, "{bits:o} {privacy:?}");
                        let text = error.to_string();
                        assert!(
                            text.contains("chmod 6") && text.contains(&format!("{bits:03o}")),
                            "{text}"
                        );
                    }
                }
            }
            fs::remove_file(&path).unwrap();
        }
        assert!(matches!(read(&path, Privacy::Secret, 10), Err(FileError::Missing(_))));
    }
}
