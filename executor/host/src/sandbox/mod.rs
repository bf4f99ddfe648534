//! Confines programs and calls on files to what a client's permission profile allows.
//!
//! A client says what it wants in portable words ([`Intent`]). [`Policy::resolve`] works out what that means, without a
//! look at the machine. [`Sandbox`] turns a policy into something that a program can be started in: mounts, namespaces and
//! system call filters through bubblewrap; Landlock and filters where bubblewrap does not work and these suffice; or a
//! refusal. What cannot be enforced in full is never run.
//!
//! Between the sandbox and the program stands a small stage of our own ([`helper`]): the same executable, started again
//! inside. It learns the program's arguments, environment and folder over a descriptor, so that nothing of a client's
//! reaches bubblewrap or the stage itself, and tells failures of the sandbox and of the program apart.

mod bubblewrap;
mod denied;
pub(crate) mod files;
pub mod helper;
mod landlock;
mod launch;
mod message;
mod pattern;
mod placeholder;
mod plan;
mod profile;
mod resolve;
mod seccomp;
mod tools;
mod trace;

pub(crate) use self::denied::is_denial;
pub(crate) use self::helper::Program;
pub use self::launch::Jail;
pub(crate) use self::launch::{Confined, Held, Inner};
pub use self::profile::{Access, Entry, FileAccess, Intent, Network, Place, Profile};
pub use self::resolve::{PROTECTED, Policy};
pub use self::tools::{Sandbox, Tools};

/// Entries of one profile, and workspace roots of one intent.
pub const MAX_ENTRIES: usize = 1024;
/// Mounts of one sandbox.
pub const MAX_MOUNTS: usize = 4096;
/// What [`Place::Minimal`] stands for, as far as it exists.
pub const MINIMAL: [&str; 9] = [
    "/bin",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/run/current-system/sw",
    "/sbin",
    "/usr",
];

/// Why something is not run in a sandbox.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The intent makes no sense, or asks for what cannot be enforced anywhere.
    #[error("{0}")]
    Invalid(String),
    /// The intent depends on a working directory and names none.
    #[error("file system sandbox context with dynamic permissions requires cwd")]
    NoCwd,
    /// Nothing on this machine can enforce the intent.
    #[error("sandbox intent cannot be enforced on this executor: {0}")]
    Unenforceable(String),
    /// The sandbox could not be set up.
    #[error("{0}")]
    Prepare(String),
}

impl SandboxError {
    /// Whether the same start may succeed later without a change.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Prepare(_))
    }
}
