//! A path, and what links in it mean.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::retry_on_intr;

/// Whether symbolic links in a path are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// As usual.
    #[default]
    Follow,
    /// A link in any part of the path, the last included, ends the call with an error. Needs Linux 5.6 or newer; older
    /// kernels refuse the call.
    Refuse,
}

/// A path, and whether links in it are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The path.
    pub path: PathBuf,
    /// What links in it mean.
    pub links: Links,
}

impl Target {
    /// A path with a rule for links.
    pub fn new(path: impl Into<PathBuf>, links: Links) -> Self {
        Self {
            path: path.into(),
            links,
        }
    }

    /// Looks at what the path names, without opening it.
    pub(super) fn metadata(&self) -> io::Result<Metadata> {
        match self.links {
            Links::Follow => self.path.metadata(),
            Links::Refuse => look(&self.path)?.metadata(),
        }
    }
}

impl From<PathBuf> for Target {
    fn from(path: PathBuf) -> Self {
        Self::new(path, Links::Follow)
    }
}

impl From<&Path> for Target {
    fn from(path: &Path) -> Self {
        Self::new(path, Links::Follow)
    }
}

impl From<&str> for Target {
    fn from(path: &str) -> Self {
        Self::new(path, Links::Follow)
    }
}

/// Opens a path no part of which is a link.
pub(super) fn open(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    Ok(retry_on_intr(|| {
        openat2(CWD, path, flags, mode, ResolveFlags::NO_SYMLINKS)
    })?)
}

/// Names a path no part of which is a link, without opening what it names.
pub(super) fn look(path: &Path) -> io::Result<File> {
    Ok(open(path, OFlags::PATH, Mode::empty())?.into())
}

/// Names the last part of a path even if it is a link; the parts before it are none.
pub(super) fn look_at_itself(path: &Path) -> io::Result<File> {
    Ok(open(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?.into())
}

/// The directory in which a path's last part stands, reached without a link, and that part.
pub(super) fn parent(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    // The root is busy for ever; that is also what the system says when somebody removes it.
    let busy = || io::Error::from(rustix::io::Errno::BUSY);
    let (directory, name) = path.parent().zip(path.file_name()).ok_or_else(busy)?;
    Ok((open(directory, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?, name))
}

/// A path to an open file or directory that stays the same whatever happens to names; good as long as `fd` is open.
pub(super) fn pinned(fd: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_raw_fd()).into()
}
