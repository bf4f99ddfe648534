//! How many files this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Limits of open files; none is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLimits {
    /// What held at the start. Programs that are started should get it back: some close every possible descriptor, and
    /// some use `select`, which takes none above 1023.
    pub before: Option<u64>,
    /// What holds now.
    pub now: Option<u64>,
}

/// Raises the soft limit to the hard one: every connection is a file, and the usual soft limit of 1024 is soon used up.
pub fn raise_limit() -> FileLimits {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    let now = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, ?current, "the limit of open files cannot be raised");
            current
        }
    };
    FileLimits { before: current, now }
}
