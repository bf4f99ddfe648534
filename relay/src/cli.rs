//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use rendezvous_relay::Config;
use rendezvous_relay::control::client::Options;
use rendezvous_service::args::{AdminArgs, LogArgs, TlsArgs};
use rendezvous_service::exit::{self, Failure};
use rendezvous_service::secret_file;
use url::Url;

/// Routes frames between executors and harnesses without being able to read them.
#[derive(Debug, Parser)]
#[command(name = "relay", version, after_help = exit::HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) logs: LogArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve relay connections until SIGTERM
    Serve(Box<Serve>),
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Base URL of the registry
    #[arg(long, value_name = "URL", env = "RELAY_REGISTRY")]
    registry: Url,
    /// ws:// or wss:// base at which executors and harnesses reach this relay
    #[arg(long, value_name = "WS_URL", env = "RELAY_PUBLIC_URL")]
    public_url: Url,
    /// Address to listen on; port 0 takes any free port
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8081", env = "RELAY_LISTEN")]
    pub(crate) listen: SocketAddr,
    /// File with the relay's credential, readable by its owner only; - for stdin
    #[arg(long, value_name = "FILE", env = "RELAY_CREDENTIAL_FILE")]
    credential_file: PathBuf,
    /// PEM file of a further certification authority for the registry's certificate
    #[arg(long, value_name = "FILE", env = "RELAY_CA_FILE")]
    ca_file: Option<PathBuf>,
    /// Send the credential over clear text to another machine
    #[arg(long, env = "RELAY_ALLOW_INSECURE")]
    allow_insecure: bool,
    /// WebSockets at once
    #[arg(long, value_name = "N", default_value_t = rendezvous_relay::config::Limits::default().connections, env = "RELAY_MAX_CONNECTIONS")]
    max_connections: usize,
    /// WebSockets at once per credential
    #[arg(long, value_name = "N", default_value_t = rendezvous_relay::config::Limits::default().connections_per_credential, env = "RELAY_MAX_CONNECTIONS_PER_CREDENTIAL")]
    max_connections_per_credential: usize,
    /// Upgrades per second
    #[arg(long, value_name = "N", default_value_t = rendezvous_relay::config::Limits::default().upgrades_per_second, env = "RELAY_UPGRADES_PER_SECOND")]
    upgrades_per_second: u32,
    /// Bytes that may wait in all queues
    #[arg(long, value_name = "BYTES", default_value_t = rendezvous_relay::config::Limits::default().total_queue, env = "RELAY_MAX_QUEUED")]
    max_queued: usize,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
}

impl Serve {
    /// The relay's configuration.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        if !matches!(self.public_url.scheme(), "ws" | "wss") || self.public_url.host().is_none() {
            return Err(Failure::usage(
                "--public-url must be ws://HOST[:PORT] or wss://HOST[:PORT]",
            ));
        }
        if self.public_url.query().is_some() || self.public_url.fragment().is_some() {
            return Err(Failure::usage("--public-url must not have a query"));
        }
        let mut config = Config::new(self.public_url.as_str().trim_end_matches('/'));
        config.limits.connections = self.max_connections;
        config.limits.connections_per_credential = self.max_connections_per_credential;
        config.limits.upgrades_per_second = self.upgrades_per_second;
        config.limits.total_queue = self.max_queued;
        Ok(config)
    }

    /// How the registry is reached.
    pub(crate) fn options(&self) -> Result<Options, secret_file::SecretError> {
        Ok(Options {
            registry: self.registry.clone(),
            credential: secret_file::read(&self.credential_file)?,
            ca_file: self.ca_file.clone(),
            allow_insecure: self.allow_insecure,
        })
    }
}
