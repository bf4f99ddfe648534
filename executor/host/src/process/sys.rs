//! The only unsafe code of the project: what a child does between fork and exec, and watching a descriptor.

#![expect(
    unsafe_code,
    reason = "code between fork and exec is unsafe to install, two calls in it have no safe wrapper, and tokio cannot \
              prove that a descriptor stays what it is"
)]

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::libc;
use nix::sys::signal::{SigHandler, Signal, signal};
use rustix::process::{Pid, getpid, getppid, ioctl_tiocsctty, set_parent_process_death_signal, setsid};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Makes the child of `command` a session leader with default signal actions and no inherited files but its standard
/// streams, which gets SIGTERM when the thread that spawns it ends. With `terminal`, its standard input becomes its
/// controlling terminal.
pub(super) fn install(command: &mut Command, terminal: bool) {
    let parent = getpid();
    // SAFETY: the closure runs in the forked child, where only async-signal-safe calls are allowed. It makes system
    // calls only, allocates nothing (its errors are plain OS codes) and takes no lock.
    unsafe {
        command.pre_exec(move || child(parent, terminal));
    }
}

fn child(parent: Pid, terminal: bool) -> io::Result<()> {
    setsid()?;
    set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    // The signal above is not sent for a parent that was gone before it was asked for.
    if getppid() != Some(parent) {
        return Err(rustix::io::Errno::SRCH.into());
    }
    if terminal {
        ioctl_tiocsctty(rustix::stdio::stdin())?;
    }
    default_signals();
    close_on_exec();
    Ok(())
}

/// Undoes ignored signals that the executor inherited, such as SIGINT in a background job of a shell.
fn default_signals() {
    for each in Signal::iterator() {
        // SAFETY: sets a default action, which runs no code of ours. SIGKILL and SIGSTOP refuse, as they should.
        let _refused = unsafe { signal(each, SigHandler::SigDfl) };
    }
}

/// Keeps files that the executor itself inherited from reaching its children; its own have the flag already. Kernels
/// before 5.11 refuse the call, and then those files pass on.
fn close_on_exec() {
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

/// Makes a descriptor non-blocking and watches it. Must be called inside a tokio runtime.
pub(crate) fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    // SAFETY: an `OwnedFd` returns the same descriptor for as long as it lives and closes it once, when it is dropped.
    // Nobody gets it out of the `AsyncFd` but by reference.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
}
