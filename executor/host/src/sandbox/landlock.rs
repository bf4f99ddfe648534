//! Confinement by Landlock, where bubblewrap does not work.
//!
//! Landlock adds up permissions from the root downwards and cannot take one back further down; it hides no names, and
//! guards neither modes nor owners nor times of files. So it serves profiles that read everything and write some folders,
//! with filters that deny changes of attributes altogether, on kernels that also keep a program from signalling and tracing
//! others.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope,
};

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
};

use super::SandboxError;
use super::plan::{Base, Mount, Plan};

/// The first version that keeps signals and abstract sockets within the sandbox.
const VERSION: ABI = ABI::V6;
/// Files that programs write to without changing anything.
const SINKS: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx"];

/// Whether the kernel can do all that is needed.
pub(super) fn is_available() -> bool {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(VERSION))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(VERSION)))
        .and_then(|ruleset| ruleset.create())
        .is_ok()
}

/// The folders that a plan lets be written, if Landlock can enforce it in full; `why` it is asked to.
pub(super) fn writable(plan: &Plan, why: &str) -> Result<Vec<PathBuf>, SandboxError> {
    let cannot = |what: &str| {
        Err(SandboxError::Unenforceable(format!(
            "{why}, and Landlock cannot {what}"
        )))
    };
    if plan.base != Base::ReadOnly {
        return cannot("hide what is not allowed");
    }
    let mut writable = Vec::new();
    for mount in &plan.mounts {
        match mount {
            Mount::Own { path, writable: true } => writable.push(path.clone()),
            Mount::Own { .. } => return cannot("protect a folder in a writable one"),
            Mount::HiddenFolder { .. } | Mount::HiddenFile { .. } => return cannot("hide a part of what is allowed"),
            Mount::Link(_) => {}
        }
    }
    Ok(writable)
}

/// Confines this thread: it may read and run everything, and write below `writable`.
pub(super) fn enforce(writable: &[PathBuf]) -> io::Result<()> {
    let all = AccessFs::from_all(VERSION);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)
        .and_then(|ruleset| ruleset.scope(Scope::from_all(VERSION)))
        .and_then(|ruleset| ruleset.create())
        .map_err(io::Error::other)?;
    ruleset = ruleset
        .add_rule(PathBeneath::new(open("/")?, AccessFs::from_read(VERSION)))
        .map_err(io::Error::other)?;
    for path in writable {
        let access = if path.is_dir() {
            all
        } else {
            AccessFs::from_file(VERSION)
        };
        ruleset = ruleset
            .add_rule(PathBeneath::new(open(path)?, access))
            .map_err(io::Error::other)?;
    }
    for path in SINKS.iter().map(Path::new).filter(|path| path.exists()) {
        let access = AccessFs::WriteFile | AccessFs::IoctlDev;
        ruleset = ruleset
            .add_rule(PathBeneath::new(open(path)?, access))
            .map_err(io::Error::other)?;
    }
    drop_capabilities()?;
    let status = ruleset.restrict_self().map_err(io::Error::other)?;
    if status.ruleset != RulesetStatus::FullyEnforced || !status.no_new_privs {
        return Err(io::Error::other("the kernel does not enforce Landlock in full"));
    }
    Ok(())
}

/// Takes every capability from this thread for good: as root it would see through Landlock.
fn drop_capabilities() -> io::Result<()> {
    for number in 0..u64::BITS {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            // Who may not do so has none to lose.
            Ok(()) | Err(Errno::PERM) => {}
            // Beyond the last that the kernel knows.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    Ok(set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    )?)
}

fn open(path: impl AsRef<Path>) -> io::Result<PathFd> {
    PathFd::new(path).map_err(io::Error::other)
}
