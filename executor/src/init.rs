//! The duties of a first process, which an executor has when it is a container's entry point.
//!
//! What commands leave behind when they end becomes the first process's: it has to reap it, or the table of processes
//! fills up. To reap whatever ends would take the executor's own children from it, so it runs as a child: the first process
//! passes signals on, reaps, and ends as the executor does. The kernel kills everything else in the container then.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// How the first process calls itself once it only reaps. Its argument is the executor's process id.
const NAME: &str = "executor-init";

/// Returns how the program must end if it was the first process; everybody else goes on.
pub(crate) fn dispatch(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if std::process::id() != 1 {
        // What a first process held back while it started us.
        let _ = SigSet::empty().thread_set_mask();
        return None;
    }
    let name = arguments.next();
    let result = if name.as_ref().is_some_and(|name| name == NAME) {
        serve(arguments.next())
    } else {
        become_init(name, arguments)
    };
    match result {
        Ok(code) => Some(code.into()),
        Err(error) => Some(rendezvous_service::exit::report("executor", &error).into()),
    }
}

/// Starts the executor and becomes a program whose environment holds no secret. Commands could read it otherwise.
fn become_init(name: Option<OsString>, arguments: impl Iterator<Item = OsString>) -> io::Result<u8> {
    // Nothing that happens meanwhile is lost.
    SigSet::all().thread_block()?;
    let executor = Command::new("/proc/self/exe")
        .arg0(name.unwrap_or_else(|| OsString::from("executor")))
        .args(arguments)
        .spawn()?;
    let init = Command::new("/proc/self/exe")
        .arg0(NAME)
        .arg(executor.id().to_string())
        .env_clear()
        .exec();
    Err(init)
}

fn serve(executor: Option<OsString>) -> io::Result<u8> {
    let executor = executor
        .and_then(|id| id.to_str()?.parse().ok())
        .map(Pid::from_raw)
        .ok_or(io::ErrorKind::InvalidInput)?;
    let signals = SigSet::all();
    loop {
        if let Some(code) = reap(executor)? {
            return Ok(code);
        }
        match signals.wait() {
            Ok(Signal::SIGCHLD) | Err(_) => {}
            // It is gone only once it was reaped.
            Ok(signal) => drop(kill(executor, signal)),
        }
    }
}

/// Reaps everybody who has ended; the exit code, once the executor is among them.
fn reap(executor: Pid) -> io::Result<Option<u8>> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == executor => {
                return Ok(Some(u8::try_from(code).unwrap_or(u8::MAX)));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == executor => {
                // As shells say it.
                return Ok(Some(u8::try_from(128 + signal as i32).unwrap_or(u8::MAX)));
            }
            Ok(WaitStatus::StillAlive) => return Ok(None),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
