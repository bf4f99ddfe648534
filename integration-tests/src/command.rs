//! A command line with an environment that holds nothing but what a test put there.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// What to start, where, and with which environment.
#[derive(Clone, Debug)]
pub struct Command {
    argv: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    folder: Option<PathBuf>,
}

impl Command {
    /// A command without arguments. Its environment has a plain `PATH` and nothing else.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            argv: vec![program.into()],
            environment: vec![(
                "PATH".into(),
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into(),
            )],
            folder: None,
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.argv.push(argument.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item: Into<OsString>>>(mut self, arguments: I) -> Self {
        self.argv.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    /// Sets the working folder.
    #[must_use]
    pub fn folder(mut self, folder: impl AsRef<Path>) -> Self {
        self.folder = Some(folder.as_ref().to_owned());
        self
    }

    /// Puts another command in front, which runs the rest of its arguments: `unshare`, `ip netns exec`.
    #[must_use]
    pub fn under<I: IntoIterator<Item: Into<OsString>>>(mut self, wrapper: I) -> Self {
        let wrapper: Vec<OsString> = wrapper.into_iter().map(Into::into).collect();
        self.argv.splice(0..0, wrapper);
        self
    }

    /// The command for the runtime: own process group, pipes on all three streams, killed if the test program dies.
    pub(crate) fn build(self) -> tokio::process::Command {
        let mut command = self.mortal();
        command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The command for the runtime: leader of a session whose terminal has all three streams, killed if the test program
    /// dies.
    pub(crate) fn build_on(self, terminal: &OwnedFd) -> io::Result<tokio::process::Command> {
        let mut command = self.under(["setsid", "--ctty", "--"]).mortal();
        command
            .stdin(terminal.try_clone()?)
            .stdout(terminal.try_clone()?)
            .stderr(terminal.try_clone()?);
        Ok(command)
    }

    fn mortal(self) -> tokio::process::Command {
        let mut command = tokio::process::Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .args(self.argv)
            .env_clear()
            .envs(self.environment);
        if let Some(folder) = self.folder {
            command.current_dir(folder);
        }
        command
    }
}
