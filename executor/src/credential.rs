//! The executor's own credential, and how it is kept from commands.
//!
//! Commands run as the executor's user. A secret in the executor's environment would reach them twice: they inherit the
//! environment, and they can read `/proc/$PPID/environ`, which shows the environment that the process was *started* with,
//! whatever it removes later. So a process that finds a secret there starts itself again without it, and gives the token to
//! its successor over a pipe ([`leave_environment`]). And it is made non-dumpable ([`protect`]), so that its memory,
//! environment and open files belong to root in `/proc`.
//!
//! An executor that signs as an AWS identity treats that identity's keys in its environment the same way.
//!
//! A token *file* that the executor's user can read can be read by commands too; nothing here changes that.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use rendezvous_identity::Passphrase;
use rendezvous_identity::passphrase::PassphraseError;
use rendezvous_service::secret_file::{self, SecretError};
use rendezvous_wire::secret::Secret;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::aws::{KEY_VARIABLES, Keys};

/// Variables that the token is taken from; the first that is set counts.
pub const TOKEN_VARIABLES: [&str; 2] = ["EXECUTOR_TOKEN", "CODEX_API_KEY"];
/// Variable that the passphrase of the identity file is taken from.
pub const PASSPHRASE_VARIABLE: &str = "EXECUTOR_IDENTITY_PASSPHRASE";
/// Variables that are removed from the environment before anything else starts.
pub const SECRET_VARIABLES: [&str; 4] = [
    TOKEN_VARIABLES[0],
    TOKEN_VARIABLES[1],
    PASSPHRASE_VARIABLE,
    "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN",
];
/// What the program wants from its environment; the rest of [`Wanted::secrets`] is only removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing.
    Nothing,
    /// The token for the registry.
    Token,
    /// The keys of an AWS identity.
    AwsKeys,
}

impl Wanted {
    /// The variables to remove. The keys of an AWS identity stay, for commands, unless the executor uses them itself.
    pub fn secrets(self) -> impl Iterator<Item = &'static str> {
        let keys: &[&str] = match self {
            Self::AwsKeys => &KEY_VARIABLES,
            Self::Nothing | Self::Token => &[],
        };
        SECRET_VARIABLES.iter().chain(keys).copied()
    }

    /// What is handed over to a successor.
    fn take(self) -> Result<Option<Secret>, SecretError> {
        match self {
            Self::Nothing => Ok(None),
            Self::Token => from_environment(),
            Self::AwsKeys => Ok(Keys::from_environment()?.map(|keys| keys.pack())),
        }
    }
}

/// What an inherited descriptor is called in errors.
const INHERITED: &str = "the inherited pipe";
/// The flag, without value, that tells a successor where its token is. Not for users.
pub const FD_FLAG: &str = "--credential-fd";

/// The flag, without value, that tells a successor where its passphrase is. Not for users.
pub const PASSPHRASE_FD_FLAG: &str = "--identity-passphrase-fd";

/// Why there is no credential.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// Its source cannot be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The passphrase cannot be used.
    #[error(transparent)]
    Passphrase(#[from] PassphraseError),
    /// The process could not be started again without its secrets.
    #[error("cannot restart without the secrets in the environment")]
    Restart(#[source] io::Error),
    /// The inherited descriptor is not what a predecessor leaves.
    #[error("{FD_FLAG} and {PASSPHRASE_FD_FLAG} are set by the executor itself and must not be given")]
    Descriptor(#[source] io::Error),
}

/// Gives the process's memory, environment and descriptors in `/proc` to root, forbids other processes of its user to trace
/// it, and disables core dumps. Starting another program undoes it, for that program.
///
/// # Errors
///
/// When the system refuses.
pub fn protect() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // After a restart the kernel calls the process "exe".
    Ok(rustix::thread::set_name(c"executor")?)
}

/// Starts this program again without the secrets in its environment if there are any. The successor has the same process id
/// and arguments, and finds what is `wanted` with [`load`] or [`load_keys`], and the passphrase, if that is wanted, with
/// [`load_passphrase`]. Returns if there was nothing to remove.
///
/// Must be called before there is a second thread.
///
/// # Errors
///
/// When the token in the environment is unusable or the program cannot be started.
pub fn leave_environment(wanted: Wanted, wants_passphrase: bool) -> Result<(), CredentialError> {
    if !wanted.secrets().any(|variable| env::var_os(variable).is_some()) {
        return Ok(());
    }
    let secret = wanted.take()?;
    let passphrase = match wants_passphrase {
        true => Passphrase::from_variable(PASSPHRASE_VARIABLE)?,
        false => None,
    };
    let mut arguments = env::args_os();
    let mut successor = Command::new("/proc/self/exe");
    successor.arg0(arguments.next().unwrap_or_else(|| OsString::from("executor")));
    for variable in wanted.secrets() {
        successor.env_remove(variable);
    }
    successor.args(arguments);
    let secret = secret.as_ref().map(|secret| (FD_FLAG, secret.expose().as_bytes()));
    let passphrase = passphrase.as_ref().map(|text| (PASSPHRASE_FD_FLAG, text.expose()));
    // Must stay open until the program is replaced.
    let mut pipes = Vec::new();
    for (flag, secret) in secret.into_iter().chain(passphrase) {
        let pipe = fill_pipe(secret).map_err(CredentialError::Restart)?;
        // Last, so that it belongs to a subcommand if there is one.
        successor.arg(format!("{flag}={}", pipe.as_raw_fd()));
        pipes.push(pipe);
    }
    Err(CredentialError::Restart(successor.exec()))
}

fn from_environment() -> Result<Option<Secret>, SecretError> {
    for variable in TOKEN_VARIABLES {
        if let Some(token) = secret_file::from_env(variable)? {
            return Ok(Some(token));
        }
    }
    Ok(None)
}

/// A pipe with the secret in it, and nobody left to write.
fn fill_pipe(secret: &[u8]) -> io::Result<File> {
    // Inheritable. Not blocking, because a pipe may be too small when the user has many: better an error than to hang.
    let (reader, writer) = pipe_with(PipeFlags::NONBLOCK)?;
    File::from(writer).write_all(secret)?;
    Ok(File::from(reader))
}

/// Reads and closes the descriptor that a predecessor left.
///
/// # Errors
///
/// When there is no such descriptor, or no token in it.
pub fn inherited(fd: RawFd) -> Result<Secret, CredentialError> {
    Ok(secret_file::from_reader(take(fd)?, INHERITED)?)
}

/// The passphrase of the identity file that a predecessor left; nothing if there was none.
///
/// # Errors
///
/// When it cannot be used.
pub fn load_passphrase(fd: Option<RawFd>) -> Result<Option<Passphrase>, CredentialError> {
    let Some(fd) = fd else { return Ok(None) };
    Ok(Some(Passphrase::from_reader(take(fd)?, INHERITED)?))
}

fn take(fd: RawFd) -> Result<File, CredentialError> {
    if fd <= 2 {
        return Err(CredentialError::Descriptor(io::ErrorKind::InvalidInput.into()));
    }
    // The number alone proves no ownership, so the descriptor is opened anew through /proc.
    let pipe = File::open(format!("/proc/self/fd/{fd}")).map_err(CredentialError::Descriptor)?;
    nix::unistd::close(fd).map_err(|error| CredentialError::Descriptor(error.into()))?;
    Ok(pipe)
}

/// The token: what a predecessor left, or the content of a file.
///
/// # Errors
///
/// When the source cannot be used.
pub fn load(fd: Option<RawFd>, file: Option<&Path>) -> Result<Option<Secret>, CredentialError> {
    match (file, fd) {
        (Some(file), _) => Ok(Some(secret_file::read(file)?)),
        (None, Some(fd)) => Ok(Some(inherited(fd)?)),
        (None, None) => Ok(None),
    }
}

/// The keys that a predecessor left; nothing if there was none.
///
/// # Errors
///
/// When they cannot be used.
pub fn load_keys(fd: Option<RawFd>) -> Result<Option<Keys>, CredentialError> {
    let Some(fd) = fd else { return Ok(None) };
    let keys = Keys::unpack(&inherited(fd)?);
    let unreadable = || CredentialError::Descriptor(io::ErrorKind::InvalidData.into());
    keys.map(Some).ok_or_else(unreadable)
}
