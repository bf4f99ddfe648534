//! The executor as a process on a "machine" of its own: another host name, another folder under the workspace's path,
//! and a variable that only it has.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::netns::Namespace;
use crate::stock::{self, Version};
use crate::{Command, Context, Program, binaries, wait};

/// The host name of the executor's machine.
pub const HOST_NAME: &str = "far-machine";
/// The variable that only the executor's machine has.
pub const MARK: (&str, &str) = ("FAR_MARK", "only-the-executor-knows");

/// Whose program an end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Ours.
    Ours,
    /// The unmodified Codex binary.
    Stock(Version),
}

impl End {
    /// The name in test names and logs.
    pub fn name(self) -> String {
        match self {
            Self::Ours => "ours".into(),
            Self::Stock(version) => format!("stock-{}", version.number()),
        }
    }
}

/// Where an executor lives and whom it registers with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name in logs.
    pub name: String,
    /// Base URL of the registry.
    pub registry: String,
    /// Its environment.
    pub environment: String,
    /// Its credential.
    pub token: String,
    /// The path that both machines know.
    pub workspace: PathBuf,
    /// What the executor's machine has at that path.
    pub content: PathBuf,
    /// The authority of the registry's and the relay's certificates; for our executor.
    pub ca_file: Option<PathBuf>,
    /// The network that the machine is in.
    pub namespace: Option<Namespace>,
}

impl Options {
    /// An executor on this machine with folders of its own, over clear text or certificates that need no further authority.
    ///
    /// # Errors
    ///
    /// The folders cannot be made.
    pub fn new(cx: &Context, registry: &str, environment: &str, token: impl Into<String>) -> Result<Self> {
        Ok(Self {
            name: "executor".into(),
            registry: registry.into(),
            environment: environment.into(),
            token: token.into(),
            workspace: cx.subfolder("workspace")?,
            content: cx.subfolder("far-content")?,
            ca_file: None,
            namespace: None,
        })
    }
}

/// Starts an executor; it may not have registered yet.
///
/// # Errors
///
/// Its binary is missing.
pub fn start(cx: &Context, end: End, options: &Options) -> Result<Program> {
    let command = match end {
        End::Ours => ours(cx, options)?,
        End::Stock(version) => stock::executor(
            cx,
            version,
            &options.name,
            &options.registry,
            &options.environment,
            &options.token,
        )?,
    };
    let mut command = machine(command, &options.workspace, &options.content);
    if let Some(namespace) = &options.namespace {
        command = namespace.enter(command);
    }
    let mut program = Program::start(cx, &options.name, command.env(MARK.0, MARK.1))?;
    program.close_stdin();
    Ok(program)
}

/// Starts our executor and waits until it is reachable.
///
/// # Errors
///
/// It does not register.
pub async fn start_ours(cx: &Context, options: &Options) -> Result<Program> {
    let mut program = start(cx, End::Ours, options)?;
    program.line("executor registered ", wait::SOON).await?;
    Ok(program)
}

/// Our executor's command line.
///
/// # Errors
///
/// The binary is missing.
pub fn ours(cx: &Context, options: &Options) -> Result<Command> {
    let token = cx.secret_file(&format!("{}.token", options.name), &options.token)?;
    let temporary = cx.subfolder(&format!("{}-tmp", options.name))?;
    let mut command = Command::new(binaries::ours("executor")?)
        .args(["--remote", &options.registry, "--environment-id", &options.environment])
        .arg("--token-file")
        .arg(token);
    if let Some(file) = &options.ca_file {
        command = command.arg("--ca-file").arg(file);
    }
    Ok(command.env("HOME", cx.folder()).env("TMPDIR", temporary))
}

/// Starts an executor that listens on loopback and serves without registry and relay; gives its URL.
///
/// # Errors
///
/// It does not listen.
pub async fn listen(cx: &Context, end: End, workspace: &Path, content: &Path) -> Result<(Program, String)> {
    let command = match end {
        End::Stock(version) => stock::listener(cx, version, "listener")?.arg("exec-server"),
        End::Ours => {
            let temporary = cx.subfolder("listener-tmp")?;
            let command = Command::new(binaries::ours("executor")?);
            command.env("HOME", cx.folder()).env("TMPDIR", temporary)
        }
    };
    let command = command.args(["--listen", "ws://127.0.0.1:0"]).env(MARK.0, MARK.1);
    let mut program = Program::start(cx, "listener", machine(command, workspace, content))?;
    let rest = program.line("ws://", wait::SOON).await?;
    Ok((program, format!("ws://{}", rest.trim())))
}

/// Starts our forwarder to the exec-server at `url`, and waits until it is reachable. Where it runs does not matter: what
/// harnesses ask for happens at that exec-server.
///
/// # Errors
///
/// It does not register.
pub async fn forward(cx: &Context, options: &Options, url: &str) -> Result<Program> {
    let token = cx.secret_file(&format!("{}.token", options.name), &options.token)?;
    let command = Command::new(binaries::ours("executor")?)
        .args(["forward", "--connect", url, "--remote", &options.registry])
        .args(["--environment-id", &options.environment, "--token-file"])
        .arg(token)
        .env("HOME", cx.folder());
    let mut program = Program::start(cx, &options.name, command)?;
    program.line("executor registered ", wait::SOON).await?;
    Ok(program)
}

/// Runs a command on a machine with another name, whose `workspace` holds `content`.
pub fn machine(command: Command, workspace: &Path, content: &Path) -> Command {
    const SCRIPT: &str = r#"hostname "$1" && mount --bind "$2" "$3" && cd "$3" && shift 3 && exec "$@""#;
    command.under(
        [
            "unshare".as_ref(),
            "--uts".as_ref(),
            "--mount".as_ref(),
            "sh".as_ref(),
            "-ec".as_ref(),
            SCRIPT.as_ref(),
            "sh".as_ref(),
            HOST_NAME.as_ref(),
            content.as_os_str(),
            workspace.as_os_str(),
        ]
        .map(std::ffi::OsStr::to_owned),
    )
}
