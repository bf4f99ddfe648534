//! Local files that are replaced whole or not at all.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

/// What names of temporary files begin with. Short, so that they fit wherever the file's own name fits.
pub(crate) const TEMPORARY: &str = ".harness-";

/// Most links on the way to a file, as in the kernel.
const MAX_LINKS: u32 = 40;

/// Where bytes go.
#[derive(Debug)]
pub(crate) enum Target {
    /// A regular file, or nothing yet.
    File(Replacement),
    /// A device or a FIFO: it takes the bytes, and stays.
    Special(PathBuf),
    /// What a descriptor of ours leads to, named as `/dev/stdout`: others write to it as well.
    Open(File),
}

/// A new file beside the place that it takes when it is complete. Dropped before, it vanishes.
#[derive(Debug)]
pub(crate) struct Replacement {
    file: File,
    temporary: TempPath,
    path: PathBuf,
    old: Option<Access>,
}

/// Who may do what with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    owner: (u32, u32),
    mode: u32,
}

impl Access {
    fn of(metadata: &Metadata) -> Self {
        Self {
            owner: (metadata.uid(), metadata.gid()),
            mode: metadata.mode() & 0o777,
        }
    }
}

impl Target {
    /// Looks at what is at `path`, and creates a file beside it unless it is a device, a FIFO or a descriptor of ours. A link
    /// to a file means that file.
    ///
    /// # Errors
    ///
    /// When `path` is a directory, a socket or a link to nothing, or no file can be created beside it.
    pub(crate) fn prepare(path: &Path) -> io::Result<Self> {
        if let Some(number) = descriptor(path) {
            return open_descriptor(number).map(Self::Open);
        }
        let old = match path.metadata() {
            Ok(old) => old,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if path.is_symlink() {
                    return Err(io::Error::new(ErrorKind::NotFound, "it is a link to nothing"));
                }
                if path.as_os_str().as_bytes().ends_with(b"/") {
                    return Err(ErrorKind::NotADirectory.into());
                }
                return Ok(Self::File(Replacement::new(path.to_owned(), None)?));
            }
            Err(error) => return Err(error),
        };
        let kind = old.file_type();
        if kind.is_dir() {
            Err(ErrorKind::IsADirectory.into())
        } else if kind.is_socket() {
            Err(io::Error::new(ErrorKind::InvalidInput, "it is a socket"))
        } else if !kind.is_file() {
            Ok(Self::Special(path.to_owned()))
        } else if path.is_symlink() {
            Ok(Self::File(Replacement::new(
                path.canonicalize()?,
                Some(Access::of(&old)),
            )?))
        } else {
            Ok(Self::File(Replacement::new(path.to_owned(), Some(Access::of(&old)))?))
        }
    }

    /// Opens what takes the bytes; a FIFO waits for its reader. Flush it before [`Target::commit`].
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub(crate) async fn open(&self) -> io::Result<tokio::fs::File> {
        match self {
            Self::File(replacement) => Ok(replacement.file.try_clone()?.into()),
            Self::Special(path) => tokio::fs::OpenOptions::new().write(true).open(path).await,
            Self::Open(file) => Ok(file.try_clone()?.into()),
        }
    }

    /// Gives the new file its name, with the owner and the permissions of the file that had it before.
    ///
    /// # Errors
    ///
    /// What the operating system says; the old file is still there then.
    pub(crate) fn commit(self) -> io::Result<()> {
        match self {
            Self::File(replacement) => replacement.commit(),
            Self::Special(_) | Self::Open(_) => Ok(()),
        }
    }
}

/// The number of the descriptor of ours that a path names, by whatever links.
fn descriptor(path: &Path) -> Option<u32> {
    let own = Path::new("/proc/self/fd").canonicalize().ok()?;
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let parent = match path.parent()? {
            parent if parent.as_os_str().is_empty() => Path::new("."),
            parent => parent,
        };
        let parent = parent.canonicalize().ok()?;
        if parent == own {
            return path.file_name()?.to_str()?.parse().ok();
        }
        path = parent.join(path.read_link().ok()?);
    }
    None
}

/// The standard ones go on where they are. Any other one is opened again, and what it leads to is continued at its end.
fn open_descriptor(number: u32) -> io::Result<File> {
    match number {
        1 => Ok(io::stdout().as_fd().try_clone_to_owned()?.into()),
        2 => Ok(io::stderr().as_fd().try_clone_to_owned()?.into()),
        _ => File::options().append(true).open(format!("/proc/self/fd/{number}")),
    }
}

impl Replacement {
    fn new(path: PathBuf, old: Option<Access>) -> io::Result<Self> {
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        // Where no file was, the umask decides; who may not read the old one may not read the new one meanwhile.
        let mode = if old.is_some() { 0o600 } else { 0o666 };
        let temporary = tempfile::Builder::new()
            .prefix(TEMPORARY)
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(directory)?;
        let (file, temporary) = temporary.into_parts();
        Ok(Self {
            file,
            temporary,
            path,
            old,
        })
    }

    fn commit(self) -> io::Result<()> {
        if let Some(Access { owner, mode }) = self.old {
            let is_kept = owner == Access::of(&self.file.metadata()?).owner
                || fchown(&self.file, Some(owner.0), Some(owner.1)).is_ok();
            let mode = if is_kept { mode } else { in_other_group(mode) };
            self.file.set_permissions(Permissions::from_mode(mode))?;
        }
        self.temporary.persist(&self.path).map_err(|error| error.error)
    }
}

/// The mode of a file that has come to another group, whose members were others before.
fn in_other_group(mode: u32) -> u32 {
    mode & 0o707 | (mode & 0o007) << 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
        let target = Target::prepare(path)?;
        match &target {
            Target::File(replacement) => (&replacement.file).write_all(bytes)?,
            Target::Special(path) => std::fs::OpenOptions::new().write(true).open(path)?.write_all(bytes)?,
            Target::Open(file) => (&*file).write_all(bytes)?,
        }
        target.commit()
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o7777
    }

    fn names(folder: &Path) -> Vec<std::ffi::OsString> {
        let mut names: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_mode_of_the_old_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for old in [0o600, 0o640, 0o444, 0o755, 0o4711] {
            std::fs::write(&path, "old").unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(old)).unwrap();
            let target = Target::prepare(&path).unwrap();
            let Target::File(replacement) = &target else {
                panic!("{target:?}");
            };
            assert_eq!(mode(&replacement.temporary), 0o600, "{old:o}");
            target.commit().unwrap();
            assert_eq!(mode(&path), old & 0o777, "{old:o}");
            assert_eq!(std::fs::read(&path).unwrap(), b"");
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_new_file_is_like_any_other() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("file"), folder.path().join("other"));
        write(&path, b"new").unwrap();
        std::fs::write(&other, "").unwrap();
        assert_eq!(mode(&path), mode(&other));
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn the_owner_stays_where_it_can() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "old").unwrap();
        // Only root may give files away; for others the old owner is the new one anyway.
        let owner = if std::os::unix::fs::chown(&path, Some(4242), Some(4243)).is_ok() {
            (4242, 4243)
        } else {
            let metadata = path.metadata().unwrap();
            (metadata.uid(), metadata.gid())
        };
        write(&path, b"new").unwrap();
        let metadata = path.metadata().unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), owner);
    }

    #[test]
    fn another_group_gets_what_its_members_had() {
        assert_eq!(in_other_group(0o640), 0o600);
        assert_eq!(in_other_group(0o664), 0o644);
        assert_eq!(in_other_group(0o705), 0o755);
    }

    #[test]
    fn a_special_file_takes_the_bytes_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let reader = {
            let path = path.clone();
            std::thread::spawn(move || {
                let mut got = String::new();
                File::open(path).unwrap().read_to_string(&mut got).unwrap();
                got
            })
        };
        assert!(matches!(Target::prepare(&path), Ok(Target::Special(_))));
        write(&path, b"through").unwrap();
        assert_eq!(reader.join().unwrap(), "through");
        assert!(path.metadata().unwrap().file_type().is_fifo());
        assert_eq!(names(folder.path()), ["fifo"]);
    }

    #[test]
    fn what_a_descriptor_leads_to_is_continued() {
        use std::os::fd::AsRawFd as _;

        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        let mut open = File::create(&path).unwrap();
        open.write_all(b"before").unwrap();
        let number = open.as_raw_fd();
        std::os::unix::fs::symlink(format!("/proc/self/fd/{number}"), &link).unwrap();
        write(Path::new(&format!("/dev/fd/{number}")), b" and").unwrap();
        write(&link, b" after").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"before and after");
        assert_eq!(open.metadata().unwrap().ino(), path.metadata().unwrap().ino());
        for (name, number) in [("/dev/stdout", 1), ("/dev/stderr", 2)] {
            assert_eq!(descriptor(Path::new(name)), Some(number), "{name}");
        }
        assert_eq!(descriptor(&path), None);
    }

    #[test]
    fn a_link_stays_and_its_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("file"), "old").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("inner/file", &link).unwrap();
        write(&link, b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(inner.join("file")).unwrap(), b"new");
    }

    #[test]
    fn refuses_what_cannot_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("nothing", at("dangling")).unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        std::fs::write(at("file"), "").unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for (name, kind) in [
            ("dangling", ErrorKind::NotFound),
            ("directory", ErrorKind::IsADirectory),
            ("directory/", ErrorKind::IsADirectory),
            ("socket", ErrorKind::InvalidInput),
            ("new/", ErrorKind::NotADirectory),
            ("file/", ErrorKind::NotADirectory),
            ("missing/file", ErrorKind::NotFound),
        ] {
            assert_eq!(Target::prepare(&at(name)).unwrap_err().kind(), kind, "{name}");
        }
        assert_eq!(names(folder.path()), ["dangling", "directory", "file", "socket"]);
    }

    #[test]
    fn the_longest_name_has_room_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let name = "n".repeat(255);
        write(&folder.path().join(&name), b"x").unwrap();
        drop(Target::prepare(&folder.path().join("given up")).unwrap());
        assert_eq!(names(folder.path()), [std::ffi::OsString::from(name)]);
    }
}
