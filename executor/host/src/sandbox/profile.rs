//! What a client asks for: permissions in portable words, before any path of this machine is looked at.

use std::path::PathBuf;

/// What a client wants its calls confined to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The permissions.
    pub profile: Profile,
    /// Where relative patterns start. Absent: patterns and [`Place::ProjectRoots`] are refused for calls on files.
    pub cwd: Option<PathBuf>,
    /// The folders that [`Place::ProjectRoots`] stands for.
    pub roots: Vec<PathBuf>,
    /// The folders that [`Place::TemporaryDirectories`] stands for.
    pub temporary: Vec<PathBuf>,
}

/// A set of permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Profile {
    /// To be enforced.
    Managed {
        /// Which files.
        files: FileAccess,
        /// Which network.
        network: Network,
    },
    /// No restriction.
    Disabled,
    /// Somebody else restricts the files.
    External {
        /// Which network.
        network: Network,
    },
}

/// Whether a program may talk to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    /// To nobody but its own children.
    Restricted,
    /// To its own children, and to the proxy that it was started with, in a network of its own.
    Managed,
    /// To everybody.
    Enabled,
}

/// Which files a program may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// All that its user may.
    Unrestricted,
    /// Those that entries allow; the most specific entry wins.
    Restricted {
        /// At most [`super::MAX_ENTRIES`].
        entries: Vec<Entry>,
        /// How deep patterns are looked for below their fixed part.
        glob_depth: Option<usize>,
    },
}

/// A permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// On what.
    pub place: Place,
    /// For what.
    pub access: Access,
    /// The entry means nothing where its path does not exist, instead of keeping the path from being made.
    pub skip_missing: bool,
}

/// What a program may do with a file, and with everything below a folder. The greater one wins where entries name the
/// same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Read it.
    Read,
    /// Change it, too.
    Write,
    /// Not even see what is in it.
    Deny,
}

/// What an entry is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An absolute path.
    Path(PathBuf),
    /// All existing paths that match: `*`, `?` and `[…]` within a name, `**` across folders. Only to be denied.
    Pattern(String),
    /// Everything.
    Root,
    /// What programs of the system need: [`super::MINIMAL`].
    Minimal,
    /// The folders in [`Intent::temporary`].
    TemporaryDirectories,
    /// `/tmp`.
    SlashTmp,
    /// Each folder in [`Intent::roots`], or what is at this relative path in it.
    ProjectRoots(Option<PathBuf>),
    /// Something that this executor does not know, and therefore refuses.
    Unknown(String),
}
