//! Where programs of ours keep what has to last.

use std::path::PathBuf;

/// The folder for state, which need not exist yet: what systemd gave, else the user's. None without a home.
///
/// It is `$STATE_DIRECTORY`, `$XDG_STATE_HOME/rendezvous` or `~/.local/state/rendezvous`; what is no absolute path counts
/// as not set.
pub fn directory() -> Option<PathBuf> {
    let path = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    path("STATE_DIRECTORY")
        .or_else(|| path("XDG_STATE_HOME").map(|state| state.join("rendezvous")))
        .or_else(|| path("HOME").map(|home| home.join(".local/state/rendezvous")))
}
