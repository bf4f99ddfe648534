//! Where files lie when nobody says otherwise.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Name of the folder among those of other programs.
const NAME: &str = "rendezvous";

/// The folder for what a program keeps: the one that systemd made for the service (`STATE_DIRECTORY`, the first of them),
/// else `rendezvous` in `XDG_STATE_HOME` or in `~/.local/state`. Relative paths count as unset. None without any of the
/// variables, `HOME` included.
pub fn folder(lookup: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name| lookup(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let services = || {
        let list = lookup("STATE_DIRECTORY")?;
        let first = list.as_bytes().split(|byte| *byte == b':').next()?.to_vec();
        Some(PathBuf::from(OsString::from_vec(first))).filter(|path| path.is_absolute())
    };
    services()
        .or_else(|| path("XDG_STATE_HOME").map(|folder| folder.join(NAME)))
        .or_else(|| path("HOME").map(|home| home.join(".local/state").join(NAME)))
}

/// Makes a folder and those above it, for their owner alone (0700), unless it is there.
///
/// # Errors
///
/// What the operating system says.
pub fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_variable_counts() {
        let found = |set: &[(&str, &str)]| {
            folder(|name| Some(set.iter().find(|(known, _)| *known == name)?.1.into()))
                .map(|path| path.display().to_string())
        };
        let home = ("HOME", "/home/me");
        assert_eq!(found(&[home]).as_deref(), Some("/home/me/.local/state/rendezvous"));
        let xdg = ("XDG_STATE_HOME", "/state");
        assert_eq!(found(&[home, xdg]).as_deref(), Some("/state/rendezvous"));
        let systemd = ("STATE_DIRECTORY", "/var/lib/x:/var/lib/y");
        assert_eq!(found(&[home, xdg, systemd]).as_deref(), Some("/var/lib/x"));
        assert_eq!(found(&[("HOME", "somewhere"), ("XDG_STATE_HOME", "")]), None);
        assert_eq!(found(&[]), None);
    }
}
