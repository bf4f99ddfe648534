//! Our own stage inside a sandbox, between bubblewrap and the program.
//!
//! It is the executor's executable, started with a word that no user types. It starts with an empty environment and learns
//! all about the program from a file in memory; it reports over a pipe, which the program's start closes.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use super::files;
use super::landlock;
use super::message::{Reader, Writer, broken};
use super::profile::Network;
use super::seccomp::{self, Extent};
use crate::process::sys;
use crate::proxy::INSIDE;

/// The word for running a program.
pub const SANDBOX_EXEC: &str = "sandbox-exec";
/// The word for one call on files.
pub const FS_HELPER: &str = "fs-helper";
/// First byte of a report: the sandbox is up, and the program comes next.
pub(super) const READY: u8 = 1;
/// The program cannot be run; an error number of the system follows.
pub(super) const FAILED_PROGRAM: u8 = 2;
/// The sandbox cannot be completed; a text follows.
pub(super) const FAILED_SANDBOX: u8 = 3;
/// Most processes and threads of a user in one sandbox; root has no such limit.
const MAX_TASKS: u64 = 4096;
/// Exit code when nothing was run. Nobody sees it but who starts the stage by hand.
const FAILED: u8 = 101;

/// Runs the stage, if the arguments of this process (with its own name first) ask for it, and returns its exit code.
///
/// Must be called before anything else, with a single thread.
pub fn dispatch(mut arguments: impl Iterator<Item = OsString>) -> Option<u8> {
    let word = arguments.nth(1)?;
    let stage = if word == SANDBOX_EXEC {
        run_program
    } else if word == FS_HELPER {
        run_files
    } else {
        return None;
    };
    let mut number = || arguments.next()?.to_str()?.parse::<RawFd>().ok().filter(|fd| *fd > 2);
    let (message, report) = (number(), number());
    let (Some(message), Some(report)) = (message, report) else {
        return Some(FAILED);
    };
    Some(stage(message, report).map_or(FAILED, |()| 0))
}

/// What confines a program beside what was done around the stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// Nothing more.
    Nothing,
    /// Filters that keep it from the network.
    Offline,
    /// Landlock, and filters.
    Landlock {
        /// Where it may write.
        writable: Vec<PathBuf>,
        /// Its network.
        network: Network,
    },
}

impl Guard {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        self.write(&mut writer);
        writer.finish()
    }

    fn write(&self, writer: &mut Writer) {
        match self {
            Self::Nothing => writer.put_text("nothing"),
            Self::Offline => writer.put_text("offline"),
            Self::Landlock { writable, network } => writer
                .put_text("landlock")
                .put_number(u64::from(*network == Network::Enabled))
                .put_list(writable.iter()),
        };
    }

    fn read(reader: &mut Reader<'_>) -> io::Result<Self> {
        match reader.take()? {
            b"nothing" => Ok(Self::Nothing),
            b"offline" => Ok(Self::Offline),
            b"landlock" => {
                let network = if reader.take_number()? == 0 {
                    Network::Restricted
                } else {
                    Network::Enabled
                };
                let writable = reader.take_list()?.into_iter().map(PathBuf::from).collect();
                Ok(Self::Landlock { writable, network })
            }
            _ => Err(broken()),
        }
    }

    /// Confines this process for good.
    fn enforce(&self) -> io::Result<()> {
        let (network, extent) = match self {
            Self::Nothing => return Ok(()),
            Self::Offline => (Network::Restricted, Extent::Network),
            Self::Landlock { writable, network } => {
                landlock::enforce(writable)?;
                (*network, Extent::SharedNamespaces)
            }
        };
        nix::sys::prctl::set_no_new_privs()?;
        seccomp::load(&seccomp::filters(network, extent)?)
    }
}

/// A program to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) argv: Vec<OsString>,
    pub(crate) arg0: Option<OsString>,
    pub(crate) cwd: PathBuf,
    pub(crate) env: Vec<(OsString, OsString)>,
}

impl Program {
    /// Whether something in it cannot be passed to the system, where a NUL ends a string.
    pub(crate) fn has_nul(&self) -> bool {
        let texts = self.argv.iter().chain(&self.arg0);
        texts
            .chain(self.env.iter().flat_map(|(name, value)| [name, value]))
            .map(|text| text.as_encoded_bytes())
            .chain([self.cwd.as_os_str().as_encoded_bytes()])
            .any(|text| text.contains(&0))
    }

    /// The message to the stage. `listen`: the socket over which it hands out listeners of the sandbox's network.
    pub(super) fn encode(&self, guard: &Guard, listen: Option<RawFd>) -> Vec<u8> {
        let mut writer = Writer::default();
        guard.write(&mut writer);
        writer.put_list(listen.iter().map(RawFd::to_string));
        writer.put_text(&self.cwd);
        writer.put_list(self.argv.iter());
        writer.put_list(self.arg0.iter());
        writer.put_list(self.env.iter().map(|(name, _)| name));
        writer.put_list(self.env.iter().map(|(_, value)| value));
        writer.finish()
    }

    fn decode(message: &[u8]) -> io::Result<(Guard, Option<RawFd>, Self)> {
        let mut reader = Reader::new(message);
        let guard = Guard::read(&mut reader)?;
        let listen = match reader.take_list()?.pop() {
            None => None,
            Some(number) => Some(
                number
                    .to_str()
                    .and_then(|number| number.parse().ok())
                    .ok_or_else(broken)?,
            ),
        };
        let program = Self {
            cwd: reader.take_path()?,
            argv: reader.take_list()?,
            arg0: reader.take_list()?.pop(),
            env: reader.take_list()?.into_iter().zip(reader.take_list()?).collect(),
        };
        Ok((guard, listen, program))
    }
}

fn run_program(message: RawFd, report: RawFd) -> io::Result<()> {
    let mut report = adopt(report, true)?;
    let program = match prepare(message) {
        Ok(program) => program,
        Err(error) => return fail(&mut report, &error),
    };
    report.write_all(&[READY])?;
    let error = exec(&program);
    let code = error.raw_os_error().unwrap_or(nix::libc::EINVAL);
    report.write_all(&[&[FAILED_PROGRAM], code.to_le_bytes().as_slice()].concat())
}

fn prepare(message: RawFd) -> io::Result<Program> {
    // The monitor outside has them ignored.
    sys::default_signals();
    let (guard, listen, program) = Program::decode(&read(message)?)?;
    limit()?;
    sys::close_on_exec();
    guard.enforce()?;
    if let Some(socket) = listen {
        hand_out_listeners(socket)?;
    }
    Ok(program)
}

/// Opens the sockets on which the program finds its proxy, in the sandbox's own network, and gives them to the executor:
/// whoever accepts from them is on the other side of its wall.
fn hand_out_listeners(socket: RawFd) -> io::Result<()> {
    let http = TcpListener::bind(INSIDE.http)?;
    let socks = INSIDE.socks.map(TcpListener::bind).transpose()?;
    let listeners: Vec<RawFd> = [&http].into_iter().chain(&socks).map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&listeners)];
    sendmsg::<()>(socket, &[IoSlice::new(&[READY])], &rights, MsgFlags::empty(), None)?;
    Ok(nix::unistd::close(socket)?)
}

fn exec(program: &Program) -> io::Error {
    let Some((name, arguments)) = program.argv.split_first() else {
        return io::ErrorKind::InvalidInput.into();
    };
    // Not left to the command, which would report a missing folder as a missing program.
    if let Err(error) = std::env::set_current_dir(&program.cwd) {
        return error;
    }
    let mut command = Command::new(name);
    command
        .args(arguments)
        .env_clear()
        .envs(program.env.iter().map(|(name, value)| (name, value)));
    if let Some(arg0) = &program.arg0 {
        command.arg0(arg0);
    }
    command.exec()
}

fn run_files(message: RawFd, report: RawFd) -> io::Result<()> {
    let mut report = adopt(report, true)?;
    let guarded = read(message).and_then(|message| Guard::read(&mut Reader::new(&message))?.enforce());
    if let Err(error) = guarded {
        return fail(&mut report, &error);
    }
    report.write_all(&[READY])?;
    drop(report);
    files::serve()
}

fn fail(report: &mut File, error: &io::Error) -> io::Result<()> {
    report.write_all(&[&[FAILED_SANDBOX], error.to_string().as_bytes()].concat())
}

/// Takes over a descriptor that was inherited under this number. The number proves no ownership, so it is opened anew.
fn adopt(fd: RawFd, write: bool) -> io::Result<File> {
    let file = File::options()
        .read(!write)
        .write(write)
        .open(format!("/proc/self/fd/{fd}"))?;
    nix::unistd::close(fd)?;
    Ok(file)
}

fn read(fd: RawFd) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    adopt(fd, false)?.read_to_end(&mut content)?;
    Ok(content)
}

/// Bounds what a runaway program can take from others.
fn limit() -> io::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NPROC)?;
    setrlimit(Resource::RLIMIT_NPROC, soft.min(MAX_TASKS), hard.min(MAX_TASKS))?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    Ok(())
}
