//! The only unsafe code of the project: what a child does between fork and exec, and watching a descriptor.

#![expect(
    unsafe_code,
    reason = "code between fork and exec is unsafe to install, two calls in it have no safe wrapper, and tokio cannot \
              prove that a descriptor stays what it is"
)]

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use nix::libc;
use nix::sys::signal::{SigHandler, Signal, signal};
use rustix::process::{
    Pid, Resource, Rlimit, getpid, getppid, getrlimit, ioctl_tiocsctty, set_parent_process_death_signal, setrlimit,
    setsid,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

static CHILD_FILES: OnceLock<Option<u64>> = OnceLock::new();

/// From now on every program that is started may open so many files, or any number: for an executor that raised its own limit.
/// Only the first call counts.
pub fn limit_child_files(soft: Option<u64>) {
    let _first = CHILD_FILES.set(soft);
}

fn child_files() -> Option<Rlimit> {
    let current = *CHILD_FILES.get()?;
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Some(Rlimit { current, maximum })
}

/// What a child is to be beside its program.
#[derive(Debug)]
pub(crate) struct Setup {
    terminal: bool,
    inherited: Vec<RawFd>,
    is_monitor: bool,
    files: Option<Rlimit>,
}

impl Setup {
    /// A program of its own.
    pub(crate) fn program(terminal: bool) -> Self {
        Self::stage(terminal, Vec::new())
    }

    /// A stage that runs a program; it gets these descriptors, too.
    pub(crate) fn stage(terminal: bool, inherited: Vec<RawFd>) -> Self {
        Self {
            terminal,
            inherited,
            is_monitor: false,
            files: child_files(),
        }
    }

    /// A program that watches over others in its group: signals that are meant for them pass it by. They must restore the
    /// default actions.
    pub(crate) fn monitor(terminal: bool, inherited: Vec<RawFd>) -> Self {
        Self {
            is_monitor: true,
            ..Self::stage(terminal, inherited)
        }
    }
}

/// Makes the child of `command` a session leader with default signal actions and no inherited files but its standard
/// streams, which gets SIGTERM when the thread that spawns it ends, or SIGKILL if it is a monitor. With `terminal`, its standard input becomes its
/// controlling terminal.
pub(crate) fn install(command: &mut Command, setup: Setup) {
    let parent = getpid();
    // SAFETY: the closure runs in the forked child, where only async-signal-safe calls are allowed. It makes system
    // calls only, allocates nothing (its errors are plain OS codes) and takes no lock.
    unsafe {
        command.pre_exec(move || child(parent, &setup));
    }
}

fn child(parent: Pid, setup: &Setup) -> io::Result<()> {
    setsid()?;
    // A monitor is deaf to requests.
    let end = if setup.is_monitor {
        rustix::process::Signal::KILL
    } else {
        rustix::process::Signal::TERM
    };
    set_parent_process_death_signal(Some(end))?;
    // The signal above is not sent for a parent that was gone before it was asked for.
    if getppid() != Some(parent) {
        return Err(rustix::io::Errno::SRCH.into());
    }
    if setup.terminal {
        ioctl_tiocsctty(rustix::stdio::stdin())?;
    }
    default_signals();
    if setup.is_monitor {
        for each in Signal::iterator().filter(|each| is_for_programs(*each)) {
            // SAFETY: an ignored signal runs no code of ours.
            unsafe { signal(each, SigHandler::SigIgn) }?;
        }
    }
    if let Some(files) = &setup.files {
        setrlimit(Resource::Nofile, *files)?;
    }
    close_on_exec();
    for &fd in &setup.inherited {
        // SAFETY: a system call on a number. The descriptor is open: its owner in the parent outlives the fork.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Whether somebody sends a signal to ask a program for something; not those that a fault raises, that tell a parent of its
/// child, or that nobody can ignore.
fn is_for_programs(signal: Signal) -> bool {
    use Signal::{SIGABRT, SIGBUS, SIGCHLD, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGSTOP, SIGSYS, SIGTRAP};
    let others = [
        SIGABRT, SIGBUS, SIGCHLD, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGSTOP, SIGSYS, SIGTRAP,
    ];
    !others.contains(&signal)
}

/// Undoes ignored signals that the executor inherited, such as SIGINT in a background job of a shell.
pub(crate) fn default_signals() {
    for each in Signal::iterator() {
        // SAFETY: sets a default action, which runs no code of ours. SIGKILL and SIGSTOP refuse, as they should.
        let _refused = unsafe { signal(each, SigHandler::SigDfl) };
    }
}

/// Keeps files that the executor itself inherited from reaching its children; its own have the flag already. Kernels
/// before 5.11 refuse the call, and then those files pass on.
pub(crate) fn close_on_exec() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: a system call on numbers. It sets a flag on each open descriptor and closes none, so the standard
    // library's pipe that reports a failed exec goes on working.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            FIRST,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
    }
}

/// As [`watch`], for a descriptor that others use, too.
pub(crate) fn watch_shared(fd: Arc<OwnedFd>, interest: Interest) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    // SAFETY: as below. The `AsyncFd` is one of the owners, so that the descriptor is open for as long as it lives.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
}

/// Makes a descriptor non-blocking and watches it. Must be called inside a tokio runtime.
pub(crate) fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    // SAFETY: an `OwnedFd` returns the same descriptor for as long as it lives and closes it once, when it is dropped.
    // Nobody gets it out of the `AsyncFd` but by reference.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
}
