//! Where programs of ours keep what has to last.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

/// The folder for state, which need not exist yet: what systemd gave, else the user's. None without a home.
///
/// It is the first of `$STATE_DIRECTORY`, which are separated by `:`, else `$XDG_STATE_HOME/rendezvous` or
/// `~/.local/state/rendezvous`; what is no absolute path counts as not set.
pub fn directory() -> Option<PathBuf> {
    directory_of(|name| std::env::var_os(name))
}

fn directory_of(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let given = variable("STATE_DIRECTORY").and_then(|list| first(&list));
    given
        .or_else(|| path("XDG_STATE_HOME").map(|state| state.join("rendezvous")))
        .or_else(|| path("HOME").map(|home| home.join(".local/state/rendezvous")))
}

/// The first path of a list, if it is absolute.
fn first(list: &OsStr) -> Option<PathBuf> {
    let first = list.as_bytes().split(|byte| *byte == b':').next()?;
    let path = PathBuf::from(OsString::from_vec(first.to_owned()));
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_managers_first_folder_comes_before_the_users() {
        let with = |state: Option<&str>, xdg: Option<&str>| {
            let found = directory_of(|name| match name {
                "STATE_DIRECTORY" => state.map(OsString::from),
                "XDG_STATE_HOME" => xdg.map(OsString::from),
                _ => Some("/home/u".into()),
            });
            found.and_then(|path| path.into_os_string().into_string().ok())
        };
        let home = "/home/u/.local/state/rendezvous";
        for (state, xdg, expected) in [
            (Some("/var/lib/a"), Some("/x"), "/var/lib/a"),
            (Some("/var/lib/a:/var/lib/b"), None, "/var/lib/a"),
            (Some("relative:/var/lib/b"), None, home),
            (Some(""), Some("/x"), "/x/rendezvous"),
            (None, Some("x"), home),
        ] {
            assert_eq!(with(state, xdg).as_deref(), Some(expected), "{state:?} {xdg:?}");
        }
    }
}
