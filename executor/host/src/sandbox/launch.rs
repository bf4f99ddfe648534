//! How a program comes to run inside a sandbox.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg, socketpair,
};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::helper::{FAILED_PROGRAM, FAILED_SANDBOX, Guard, Program, READY};
use super::placeholder::Placeholder;
use super::profile::Network;
use super::seccomp::{self, Extent};
use super::{SandboxError, helper};
use crate::process::sys;
use crate::proxy::Listeners;

/// How long a sandbox may take to be set up.
const SETUP_LIMIT: Duration = Duration::from_secs(20);
/// How long the processes of a sandbox may take to die before what they could have changed is given up.
const DEATH_LIMIT: Duration = Duration::from_secs(5);
/// Most bytes that the stage reports.
const MAX_STATUS: usize = 4096;

/// A sandbox that was worked out, to start one program or any number of them in.
#[derive(Clone, Debug)]
pub struct Jail {
    pub(super) helper: Arc<File>,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Bubblewrap makes the sandbox, with these arguments.
    Bubblewrap {
        program: PathBuf,
        arguments: Vec<OsString>,
        placeholders: Vec<PathBuf>,
        network: Network,
    },
    /// The stage confines itself.
    Guarded(Guard),
}

/// What runs in the sandbox.
#[derive(Debug)]
pub(crate) enum Inner<'a> {
    /// A program of a client.
    Program(&'a Program),
    /// The same, and listeners of the sandbox's network for its proxy.
    ProxiedProgram(&'a Program),
    /// Our own, for one call on files.
    Files,
}

/// A command that makes a sandbox and runs something in it.
#[derive(Debug)]
pub(crate) struct Confined {
    /// Standard streams are still to be set.
    pub(crate) command: Command,
    pub(crate) stage: Stage,
}

/// What the executor and the inside of a sandbox share while it comes up.
#[derive(Debug)]
pub(crate) struct Stage {
    /// Descriptors for the command alone.
    inherited: Vec<OwnedFd>,
    status: OwnedFd,
    info: Option<OwnedFd>,
    /// Where listeners come from.
    listeners: Option<OwnedFd>,
    placeholders: Vec<Placeholder>,
    /// The command watches over the program instead of becoming it.
    is_monitor: bool,
}

/// What must last as long as a sandbox.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// For the program's proxy.
    pub(crate) listeners: Option<Listeners>,
    placeholders: Vec<Placeholder>,
    /// The first process of the sandbox, with which all others die.
    init: Option<OwnedFd>,
}

impl Jail {
    /// Makes the command for one start. Blocks for a moment.
    pub(crate) fn confine(&self, inner: &Inner<'_>) -> io::Result<Confined> {
        let mut inherited = Vec::new();
        let (status, status_out) = pipe_with(PipeFlags::CLOEXEC)?;
        let guard = match &self.kind {
            Kind::Bubblewrap { .. } => &Guard::Nothing,
            Kind::Guarded(guard) => guard,
        };
        let mut listeners = None;
        let (word, message) = match inner {
            Inner::Program(program) => (helper::SANDBOX_EXEC, program.encode(guard, None)),
            Inner::Files => (helper::FS_HELPER, guard.encode()),
            Inner::ProxiedProgram(program) => {
                let (ours, theirs) = self.channel()?;
                let message = program.encode(guard, Some(theirs.as_raw_fd()));
                inherited.push(theirs);
                listeners = Some(ours);
                (helper::SANDBOX_EXEC, message)
            }
        };
        let helper: OwnedFd = self.helper.try_clone()?.into();
        let message = memory("stage", &message)?;
        let stage = [
            format!("/proc/self/fd/{}", helper.as_raw_fd()).into(),
            OsString::from(word),
            message.as_raw_fd().to_string().into(),
            status_out.as_raw_fd().to_string().into(),
        ];
        inherited.extend([helper, message, status_out]);
        let mut placeholders = Vec::new();
        let mut info = None;
        let mut command = match &self.kind {
            Kind::Guarded(_) => {
                let mut command = Command::new(&stage[0]);
                command.args(&stage[1..]);
                command
            }
            Kind::Bubblewrap {
                program,
                arguments,
                placeholders: paths,
                network,
            } => {
                for path in paths {
                    placeholders.extend(Placeholder::hold(path)?);
                }
                let mut list: Vec<u8> = Vec::new();
                for argument in arguments {
                    push(&mut list, argument.as_encoded_bytes());
                }
                for filter in seccomp::filters(*network, Extent::Namespaces)? {
                    let filter = memory("filter", &seccomp::bytes(&filter))?;
                    push(&mut list, b"--add-seccomp-fd");
                    push(&mut list, filter.as_raw_fd().to_string().as_bytes());
                    inherited.push(filter);
                }
                if !placeholders.is_empty() {
                    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
                    push(&mut list, b"--info-fd");
                    push(&mut list, writer.as_raw_fd().to_string().as_bytes());
                    inherited.push(writer);
                    info = Some(reader);
                }
                let list = memory("arguments", &list)?;
                let mut command = Command::new(program);
                command.arg("--args").arg(list.as_raw_fd().to_string());
                command.arg("--").args(&stage);
                inherited.push(list);
                command
            }
        };
        // Whatever a client puts into an environment, such as a library to preload, is for its own program only.
        command.env_clear().current_dir("/");
        Ok(Confined {
            command,
            stage: Stage {
                inherited,
                status,
                info,
                listeners,
                placeholders,
                is_monitor: matches!(self.kind, Kind::Bubblewrap { .. }),
            },
        })
    }
}

impl Jail {
    /// A pair of sockets over which listeners come out of the sandbox; only one with a network of its own has any.
    fn channel(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        let is_managed = matches!(&self.kind, Kind::Bubblewrap { network, .. } if *network == Network::Managed);
        if !is_managed {
            return Err(io::Error::other("the sandbox has no network of its own"));
        }
        Ok(socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?)
    }
}

fn push(list: &mut Vec<u8>, argument: &[u8]) {
    list.extend_from_slice(argument);
    list.push(0);
}

/// A file in memory, to be read from its start.
fn memory(name: &str, content: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    io::Seek::rewind(&mut file)?;
    Ok(file.into())
}

impl Stage {
    /// How the command is to be started.
    pub(crate) fn setup(&self, terminal: bool) -> sys::Setup {
        let inherited = self.inherited.iter().map(AsRawFd::as_raw_fd).collect();
        if self.is_monitor {
            sys::Setup::monitor(terminal, inherited)
        } else {
            sys::Setup::stage(terminal, inherited)
        }
    }

    /// Waits, after the command was started, until the program runs.
    pub(crate) fn wait(mut self) -> Result<Held, Failure> {
        self.inherited.clear();
        let report = read_all(&self.status, SETUP_LIMIT).map_err(|error| Failure::Sandbox(error.to_string()))?;
        let (is_ready, report) = match report.split_first() {
            Some((&READY, rest)) => (true, rest),
            _ => (false, &report[..]),
        };
        match report.split_first() {
            None if is_ready => {
                let listeners = self.listeners.as_ref().map(receive_listeners).transpose();
                Ok(Held {
                    listeners: listeners.map_err(|error| Failure::Sandbox(error.to_string()))?,
                    init: self.init(),
                    placeholders: self.placeholders,
                })
            }
            Some((&FAILED_PROGRAM, code)) => {
                let code = code.try_into().map_or(Errno::IO.raw_os_error(), i32::from_le_bytes);
                Err(Failure::Program(io::Error::from_raw_os_error(code)))
            }
            Some((&FAILED_SANDBOX, text)) => Err(Failure::Sandbox(String::from_utf8_lossy(text).into_owned())),
            _ => Err(Failure::Silent),
        }
    }

    /// The first process inside, which bubblewrap named before it let it run.
    fn init(&self) -> Option<OwnedFd> {
        let report = read_all(self.info.as_ref()?, SETUP_LIMIT).ok()?;
        let report = String::from_utf8(report).ok()?;
        let (_, after) = report.split_once("\"child-pid\":")?;
        let digits: String = after.trim_start().chars().take_while(char::is_ascii_digit).collect();
        pidfd_open(Pid::from_raw(digits.parse().ok()?)?, PidfdFlags::empty()).ok()
    }
}

/// Why nothing runs.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What the program itself would have met without a sandbox, too: it, or its folder, is not there.
    Program(io::Error),
    /// The sandbox did not come up.
    Sandbox(String),
    /// As before; the reason stands in what was written to the standard streams.
    Silent,
}

impl Failure {
    /// The error, with what was written to the standard streams.
    pub(crate) fn with_output(self, output: &[u8]) -> Result<io::Error, SandboxError> {
        match self {
            Self::Program(error) => Ok(error),
            Self::Sandbox(text) => Err(SandboxError::Prepare(text)),
            Self::Silent => {
                let text = String::from_utf8_lossy(output);
                let text = text.trim();
                let text = if text.is_empty() {
                    "it ended without a word"
                } else {
                    text
                };
                Err(SandboxError::Prepare(text.to_owned()))
            }
        }
    }
}

impl Held {
    /// Whether there is anything that must outlast the processes.
    pub(crate) fn is_empty(&self) -> bool {
        self.placeholders.is_empty()
    }

    /// Gives it up once every process in the sandbox is dead. Blocks until then.
    pub(crate) fn release(self) {
        let Some(init) = &self.init else { return };
        // Readable when the process is dead, which it is only after all others of its namespace.
        let _late = wait_for(init, DEATH_LIMIT);
    }
}

/// Takes what the stage sent before it was ready.
fn receive_listeners(socket: &OwnedFd) -> io::Result<Listeners> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    recvmsg(socket, &mut [IoSliceMut::new(&mut [0])], &mut rights, flags)?;
    let mut files = rights
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        })
        .flatten();
    let http = files.next().ok_or(io::ErrorKind::UnexpectedEof)?.into();
    Ok(Listeners {
        http,
        socks: files.next().map(Into::into),
        own: Vec::new(),
    })
}

/// Reads to the end, within a time and [`MAX_STATUS`].
fn read_all(fd: &OwnedFd, limit: Duration) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + limit;
    let mut content = Vec::new();
    let mut buffer = [0; 512];
    while content.len() < MAX_STATUS {
        wait_for(fd, deadline.saturating_duration_since(Instant::now()))?;
        match rustix::io::read(fd, &mut buffer) {
            Ok(0) => break,
            Ok(len) => content.extend_from_slice(&buffer[..len]),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(content)
}

fn wait_for(fd: &impl AsFd, limit: Duration) -> io::Result<()> {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
