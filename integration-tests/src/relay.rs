//! The stand-alone relay as a process.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;

use crate::netns::Namespace;
use crate::tls::ServerFiles;
use crate::{Command, Context, Program, binaries, registry, wait};

/// How a relay is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name in logs.
    pub name: String,
    /// Base URL of its registry.
    pub registry: String,
    /// Its credential.
    pub token: String,
    /// What clients are told.
    pub public_url: String,
    /// The address to listen on.
    pub listen: String,
    /// TLS, if it serves TLS.
    pub tls: Option<ServerFiles>,
    /// The authority of the registry's certificate.
    pub ca_file: Option<PathBuf>,
    /// The network that it runs in.
    pub namespace: Option<Namespace>,
}

impl Options {
    /// A plain relay on a free port of loopback.
    pub fn new(registry: &str, token: &str, public_url: &str) -> Self {
        Self {
            name: "relay".into(),
            registry: registry.into(),
            token: token.into(),
            public_url: public_url.into(),
            listen: "127.0.0.1:0".into(),
            tls: None,
            ca_file: None,
            namespace: None,
        }
    }
}

/// A relay that accepts connections.
#[derive(Debug)]
pub struct Relay {
    /// Its process.
    pub program: Program,
    url: String,
}

impl Relay {
    /// Starts a relay and waits until it listens.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub async fn start(cx: &Context, options: Options) -> Result<Self> {
        Self::start_as(cx, &options.name, command(cx, &options)?).await
    }

    /// Starts a relay by its command and waits until it listens.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub async fn start_as(cx: &Context, name: &str, command: Command) -> Result<Self> {
        let mut program = Program::start(cx, name, command)?;
        let url = program.line("relay listening on ", wait::SOON).await?;
        Ok(Self {
            program,
            url: url.trim().to_owned(),
        })
    }

    /// Its URL as it printed it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address that it listens on.
    ///
    /// # Errors
    ///
    /// The printed URL holds no address.
    pub fn address(&self) -> Result<SocketAddr> {
        registry::address(&self.url)
    }
}

/// A relay's command line.
///
/// # Errors
///
/// The binary is missing.
pub fn command(cx: &Context, options: &Options) -> Result<Command> {
    let credential = cx.secret_file(&format!("{}.token", options.name), &options.token)?;
    let mut command = Command::new(binaries::ours("relay")?)
        .env("HOME", cx.folder())
        .args(["serve", "--registry", &options.registry])
        .args(["--public-url", &options.public_url])
        .args(["--listen", &options.listen])
        .arg("--credential-file")
        .arg(credential);
    if let Some(tls) = &options.tls {
        command = command
            .arg("--tls-cert")
            .arg(&tls.certificate)
            .arg("--tls-key")
            .arg(&tls.key);
    }
    if let Some(file) = &options.ca_file {
        command = command.arg("--ca-file").arg(file);
    }
    Ok(match &options.namespace {
        Some(namespace) => namespace.enter(command),
        None => command,
    })
}
