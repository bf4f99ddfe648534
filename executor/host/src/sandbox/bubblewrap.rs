//! A plan as arguments of bubblewrap.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::plan::{Base, Mount, Plan};
use super::profile::Network;

/// What of /proc is about the machine and can be written to.
const MACHINE: [&str; 9] = [
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/acpi",
    "/proc/scsi",
    "/proc/driver",
    "/proc/mtrr",
];

/// Arguments up to the command.
///
/// The program keeps its session, so that a terminal stays in control of it: the input of a terminal cannot be forged
/// through a system call filter that denies TIOCSTI.
pub(super) fn arguments(plan: &Plan) -> Vec<OsString> {
    let mut arguments = Arguments::default();
    for flag in [
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--die-with-parent",
    ] {
        arguments.push([flag]);
    }
    // As root the program would hold every capability in its namespace, and could undo the mounts.
    arguments.push(["--cap-drop", "ALL"]);
    if plan.network != Network::Enabled {
        arguments.push(["--unshare-net"]);
    }
    match plan.base {
        Base::Empty => {}
        Base::ReadOnly => arguments.push(["--ro-bind", "/", "/"]),
        Base::Writable => arguments.push(["--bind", "/", "/"]),
    }
    arguments.push(["--dev", "/dev"]);
    arguments.push(["--proc", "/proc"]);
    // These belong to root, whatever root's capabilities, and what is written there acts on the whole machine.
    for path in MACHINE {
        arguments.over("--ro-bind-try", Path::new(path), Path::new(path));
    }
    for mount in &plan.mounts {
        arguments.mount(mount);
    }
    // Only now is everything made that is to be in them.
    for mount in &plan.mounts {
        if let Mount::HiddenFolder { path, .. } = mount {
            arguments.push([OsStr::new("--remount-ro"), path.as_os_str()]);
        }
    }
    if plan.base == Base::Empty {
        arguments.push(["--remount-ro", "/"]);
    }
    arguments.0
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn push<T: AsRef<OsStr>>(&mut self, words: impl IntoIterator<Item = T>) {
        self.0.extend(words.into_iter().map(|word| word.as_ref().to_owned()));
    }

    fn mount(&mut self, mount: &Mount) {
        match mount {
            Mount::Own { path, writable: true } => self.over("--bind", path, path),
            Mount::Own { path, writable: false } => self.over("--ro-bind", path, path),
            Mount::HiddenFolder { path, searchable } => {
                let mode = if *searchable { "0111" } else { "0000" };
                self.push(["--perms", mode, "--tmpfs"]);
                self.push([path]);
            }
            // Devices cannot be opened on such a mount, whatever their mode says.
            Mount::HiddenFile { path } => self.over("--ro-bind", Path::new("/dev/null"), path),
            Mount::Link(link) => self.over("--symlink", &link.target, &link.at),
        }
    }

    fn over(&mut self, flag: &str, source: &Path, destination: &Path) {
        self.push([OsStr::new(flag), source.as_os_str(), destination.as_os_str()]);
    }
}
