//! The unmodified Codex binary, as harness and as executor, without internet.

mod install;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::model::Model;
use crate::{Command, Context, Program};

/// Longest time for one run of the stock harness: with an unreachable model it would retry without end.
pub const RUN_LIMIT: Duration = Duration::from_secs(150);

/// A release of the stock binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// 0.145.0
    V0_145,
    /// 0.171.0
    V0_171,
}

impl Version {
    /// Both releases that are tested.
    pub const ALL: [Self; 2] = [Self::V0_145, Self::V0_171];

    /// The version as npm and the binary write it.
    pub const fn number(self) -> &'static str {
        match self {
            Self::V0_145 => "0.145.0",
            Self::V0_171 => "0.171.0",
        }
    }

    /// The binary, in the cache that `./integration-tests/run` fills.
    ///
    /// # Errors
    ///
    /// It is not there; the message says how to get it.
    pub fn binary(self) -> Result<PathBuf> {
        install::binary(self)
    }
}

/// A folder that Codex may call home. It must not lie under the temp folder that Codex sees.
fn home(cx: &Context, name: &str, config: &str) -> Result<PathBuf> {
    let home = cx.subfolder(&format!("{name}-home"))?;
    std::fs::write(home.join("config.toml"), config)?;
    Ok(home)
}

/// The stock binary with a home and a temp folder of its own.
fn codex(cx: &Context, version: Version, name: &str, config: &str) -> Result<Command> {
    let home = home(cx, name, config)?;
    let temporary = cx.subfolder(&format!("{name}-tmp"))?;
    Ok(Command::new(version.binary()?)
        .env("CODEX_HOME", &home)
        .env("HOME", &home)
        .env("TMPDIR", &temporary))
}

/// The stock executor's command line: it registers with an API key, so the registry must be on loopback.
///
/// # Errors
///
/// The stock binary is missing.
pub fn executor(
    cx: &Context,
    version: Version,
    name: &str,
    registry: &str,
    environment: &str,
    token: &str,
) -> Result<Command> {
    let command = codex(cx, version, name, "check_for_update_on_startup = false\n")?;
    Ok(command
        .args(["exec-server", "--remote", registry, "--environment-id", environment])
        .env("CODEX_API_KEY", token)
        .env("RUST_LOG", "warn,codex_exec_server=debug"))
}

/// The stock binary as an exec-server; flags say how it serves.
///
/// # Errors
///
/// The stock binary is missing.
pub fn exec_server(cx: &Context, version: Version, name: &str) -> Result<Command> {
    let command = codex(cx, version, name, "check_for_update_on_startup = false\n")?;
    Ok(command
        .arg("exec-server")
        .env("RUST_LOG", "warn,codex_exec_server=debug"))
}

/// The stock binary for an executor that listens.
///
/// # Errors
///
/// The stock binary is missing.
pub(crate) fn listener(cx: &Context, version: Version, name: &str) -> Result<Command> {
    codex(cx, version, name, "check_for_update_on_startup = false\n")
}

/// How the stock harness finds its executor.
#[derive(Clone, Debug)]
pub enum Way<'a> {
    /// Through a registry and its relay.
    Registry {
        /// Base URL of the registry.
        url: &'a str,
        /// The environment.
        environment: &'a str,
        /// The harness's credential.
        token: &'a str,
    },
    /// Straight to a listening exec-server.
    Direct(&'a str),
    /// As a file `environments.toml` with this text says.
    File(&'a str),
}

/// Starts `codex exec` in `workspace`, played by `model`.
///
/// # Errors
///
/// The stock binary is missing or could not be started.
pub fn harness(
    cx: &Context,
    version: Version,
    name: &str,
    way: &Way<'_>,
    workspace: &Path,
    model: &Model,
) -> Result<Program> {
    harness_in(Mode::FullAccess, cx, version, name, way, workspace, model)
}

/// What a stock harness lets its commands do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All that the executor's user may.
    FullAccess,
    /// Read everything, and write the workspace and temporary folders.
    WorkspaceWrite,
    /// Read everything.
    ReadOnly,
    /// As [`Self::WorkspaceWrite`], and reach 127.0.0.1 through a proxy. Rules deny `denied.test`, and say nothing of other
    /// hosts. Only the newer release can.
    ManagedNetwork,
}

const NETWORK: &str = r#"
[permissions.test]
extends = ":workspace"

[permissions.test.network]
enabled = true
allow_local_binding = true

[permissions.test.network.domains]
"127.0.0.1" = "allow"
"denied.test" = "deny"
"#;

impl Mode {
    /// The setting that chooses it.
    fn setting(self) -> &'static str {
        match self {
            Self::FullAccess => r#"sandbox_mode = "danger-full-access""#,
            Self::WorkspaceWrite => r#"sandbox_mode = "workspace-write""#,
            Self::ReadOnly => r#"sandbox_mode = "read-only""#,
            Self::ManagedNetwork => r#"default_permissions = "test""#,
        }
    }

    /// The line of the table `features` that it needs. The older release does not know it.
    fn feature(self) -> &'static str {
        match self {
            Self::FullAccess | Self::WorkspaceWrite | Self::ReadOnly => "",
            Self::ManagedNetwork => "network_proxy = true\n",
        }
    }

    /// The tables that it needs.
    fn tables(self) -> &'static str {
        match self {
            Self::FullAccess | Self::WorkspaceWrite | Self::ReadOnly => "",
            Self::ManagedNetwork => NETWORK,
        }
    }
}

/// Starts `codex exec` as [`harness`] does, in a sandbox mode.
///
/// # Errors
///
/// As [`harness`].
pub fn harness_in(
    mode: Mode,
    cx: &Context,
    version: Version,
    name: &str,
    way: &Way<'_>,
    workspace: &Path,
    model: &Model,
) -> Result<Program> {
    let config = config(mode, model, workspace);
    let command = codex(cx, version, name, &config)?
        .args(["exec", "--skip-git-repo-check", "--color", "never", "-C"])
        .arg(workspace)
        .arg("Follow the script.")
        .env("MOCK_KEY", "made-up")
        .env("RUST_LOG", "warn,codex_exec_server=debug");
    let command = match way {
        Way::Registry {
            url,
            environment,
            token,
        } => command
            .env("CODEX_EXEC_SERVER_NOISE_REGISTRY_URL", url)
            .env("CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID", environment)
            .env("CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN", token),
        Way::Direct(url) => command.env("CODEX_EXEC_SERVER_URL", url),
        Way::File(text) => {
            std::fs::write(cx.subfolder(&format!("{name}-home"))?.join("environments.toml"), text)?;
            command
        }
    };
    let mut program = Program::start(cx, name, command)?;
    program.close_stdin();
    Ok(program)
}

/// Waits for the end of a stock harness run and says how it ended.
///
/// # Errors
///
/// The run took too long or failed.
pub async fn finish(harness: &mut Program) -> Result<()> {
    let finished = harness.finish(RUN_LIMIT).await?;
    finished.success().context("stock harness")?;
    Ok(())
}

fn config(mode: Mode, model: &Model, workspace: &Path) -> String {
    format!(
        r#"model = "{name}"
model_provider = "mock"
approval_policy = "never"
{setting}
check_for_update_on_startup = false
web_search = "disabled"

[analytics]
enabled = false

[features]
plugins = false
apps = false
remote_plugin = false
{feature}
[projects."{workspace}"]
trust_level = "trusted"

[model_providers.mock]
name = "mock"
base_url = "{url}"
wire_api = "responses"
env_key = "MOCK_KEY"
request_max_retries = 0
stream_max_retries = 0
{tables}"#,
        name = model.name(),
        url = model.url(),
        setting = mode.setting(),
        feature = mode.feature(),
        tables = mode.tables(),
        workspace = workspace.display()
    )
}
