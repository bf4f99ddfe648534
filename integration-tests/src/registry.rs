//! The registry as a process, and its management commands.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use url::Url;

use crate::netns::Namespace;
use crate::program::Finished;
use crate::tls::ServerFiles;
use crate::{Command, Context, Program, binaries, wait};

/// How a registry is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name in logs.
    pub name: String,
    /// Database URL; else an SQLite file in the test's folder.
    pub database: Option<String>,
    /// Whether it embeds a relay.
    pub embedded_relay: bool,
    /// The address to listen on.
    pub listen: String,
    /// What clients are told; else its own address.
    pub public_url: Option<String>,
    /// TLS, if it serves TLS.
    pub tls: Option<ServerFiles>,
    /// The network that it runs in.
    pub namespace: Option<Namespace>,
    /// More arguments of `serve`.
    pub more: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: "registry".into(),
            database: None,
            embedded_relay: false,
            listen: "127.0.0.1:0".into(),
            public_url: None,
            tls: None,
            namespace: None,
            more: Vec::new(),
        }
    }
}

/// A registry that accepts connections.
#[derive(Debug)]
pub struct Registry {
    cx: Context,
    /// Its process.
    pub program: Program,
    database: String,
    url: String,
}

/// Whom a credential is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Executors.
    Executor,
    /// Harnesses.
    Harness,
    /// Relays.
    Relay,
    /// Administrators.
    Admin,
}

impl Role {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Executor => "executor",
            Self::Harness => "harness",
            Self::Relay => "relay",
            Self::Admin => "admin",
        }
    }
}

impl Registry {
    /// Starts a registry and waits until it listens.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub async fn start(cx: &Context, options: Options) -> Result<Self> {
        let database = options.database.unwrap_or_else(|| default_database(cx));
        let mut command = registry(cx, &database)?.args(["serve", "--listen", &options.listen]);
        if options.embedded_relay {
            command = command.arg("--embedded-relay");
        }
        if let Some(url) = &options.public_url {
            command = command.args(["--public-url", url]);
        }
        if let Some(tls) = &options.tls {
            command = command
                .arg("--tls-cert")
                .arg(&tls.certificate)
                .arg("--tls-key")
                .arg(&tls.key);
        }
        command = command.args(&options.more);
        if let Some(namespace) = &options.namespace {
            command = namespace.enter(command);
        }
        let mut program = Program::start(cx, &options.name, command)?;
        let url = program.line("registry listening on ", wait::SOON).await?;
        Ok(Self {
            cx: cx.clone(),
            program,
            database,
            url: url.trim().to_owned(),
        })
    }

    /// Its base URL as it printed it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address that it listens on.
    ///
    /// # Errors
    ///
    /// The printed URL holds no address.
    pub fn address(&self) -> Result<SocketAddr> {
        address(&self.url)
    }

    /// Its database URL.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Runs a management command beside the running registry.
    ///
    /// # Errors
    ///
    /// The command could not be run.
    pub async fn manage(&self, arguments: &[&str]) -> Result<Finished> {
        manage(&self.cx, &self.database, arguments).await
    }

    /// Makes an environment.
    ///
    /// # Errors
    ///
    /// The management command failed.
    pub async fn environment(&self, id: &str) -> Result<()> {
        self.manage(&["environment", "create", id]).await?.success()?;
        Ok(())
    }

    /// Makes a credential; gives its token and its id.
    ///
    /// # Errors
    ///
    /// The management command failed.
    pub async fn named_credential(&self, role: Role, environment: Option<&str>) -> Result<(String, String)> {
        let mut arguments = vec!["credential", "create", "--json", "--role", role.as_str()];
        arguments.extend(environment.iter().flat_map(|id| ["--environment", id]));
        let finished = self.manage(&arguments).await?.success()?;
        let issued: serde_json::Value = serde_json::from_slice(&finished.stdout)?;
        let member = |name: &str| {
            issued[name]
                .as_str()
                .map(str::to_owned)
                .with_context(|| format!("no {name}"))
        };
        Ok((member("token")?, member("id")?))
    }

    /// Makes a credential and gives its token.
    ///
    /// # Errors
    ///
    /// The management command failed.
    pub async fn credential(&self, role: Role, environment: Option<&str>) -> Result<String> {
        let mut arguments = vec!["credential", "create", "--role", role.as_str()];
        arguments.extend(environment.iter().flat_map(|id| ["--environment", id]));
        let finished = self.manage(&arguments).await?.success()?;
        Ok(finished.text().trim().to_owned())
    }
}

/// The SQLite file that registries of this test share unless told otherwise.
pub fn default_database(cx: &Context) -> String {
    format!("sqlite://{}", cx.folder().join("registry.sqlite").display())
}

/// Runs a management command on a database, whether a registry serves it or not.
///
/// # Errors
///
/// The command could not be run.
pub async fn manage(cx: &Context, database: &str, arguments: &[&str]) -> Result<Finished> {
    let command = registry(cx, database)?.args(arguments);
    Program::run(
        cx,
        &format!("registry {}", arguments.join(" ")),
        command,
        b"",
        wait::SOON,
    )
    .await
}

fn registry(cx: &Context, database: &str) -> Result<Command> {
    Ok(Command::new(binaries::ours("registry")?)
        .env("HOME", cx.folder())
        .env("DATABASE_URL", database))
}

/// The socket address inside a URL.
pub(crate) fn address(url: &str) -> Result<SocketAddr> {
    let url = Url::parse(url)?;
    let addresses = url.socket_addrs(|| None)?;
    addresses
        .first()
        .copied()
        .with_context(|| format!("no address in {url}"))
}
