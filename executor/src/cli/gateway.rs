//! `executor gateway`: a hop on loopback for a stock executor.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use clap::builder::FalseyValueParser;
use rendezvous_executor::gateway::{Gateway, GatewayError, Upstream};
use rendezvous_service::args::AdminArgs;
use rendezvous_service::exit::Failure;
use rendezvous_transport::connector::Connector;
use rendezvous_transport::dial::Dialer;
use rendezvous_transport::policy::{ClearText, RegistryUrl};
use tokio_util::sync::CancellationToken;

use super::{ALLOW_INSECURE, ShellArgs};

/// Lets a stock executor with an API key use a registry on another machine.
///
/// A stock executor sends its API key to loopback only. It is started with the URL that this program prints as its --remote,
/// and sends its credential here; the calls are made again at the registry, and the relay's frames are passed on unread.
#[derive(Debug, Args)]
pub(super) struct GatewayArgs {
    /// Loopback address to listen at
    #[arg(
        long,
        value_name = "IP:PORT",
        default_value = "127.0.0.1:0",
        env = "EXECUTOR_GATEWAY_LISTEN"
    )]
    listen: SocketAddr,
    /// Base URL of the registry
    #[arg(long, value_name = "URL", env = "EXECUTOR_REMOTE")]
    remote: String,
    /// PEM file with certificate authorities to trust beside the machine's own
    #[arg(long, value_name = "FILE", env = "EXECUTOR_CA_FILE")]
    ca_file: Option<PathBuf>,
    /// Send the executor's credential and ticket unencrypted to a registry and relay on other machines
    #[arg(long, env = ALLOW_INSECURE, value_parser = FalseyValueParser::new())]
    allow_insecure: bool,
    #[command(flatten)]
    pub(super) shell: ShellArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(super) async fn run(args: GatewayArgs, stop: CancellationToken) -> anyhow::Result<()> {
    let clear_text = ClearText::allow_insecure(args.allow_insecure);
    let registry = RegistryUrl::parse(&args.remote, clear_text);
    let registry = registry.map_err(|error| Failure::usage(format!("--remote: {error}")))?;
    let connector = Connector::from_env(args.ca_file.as_deref()).map_err(Failure::usage)?;
    let gateway = Gateway::bind(args.listen).map_err(|error| match error {
        GatewayError::NotLoopback(_) => Failure::usage(error).into(),
        error => anyhow::Error::from(error),
    })?;
    super::serve_operators(args.admin, None, stop.clone())?;
    // Scripts wait for this line. Nobody may read it; the gateway serves all the same.
    let _ = std::io::stdout().write_all(format!("gateway listening on {}\n", gateway.url()).as_bytes());
    let _ = std::io::stdout().flush();
    let upstream = Upstream {
        registry,
        dialer: Dialer::new(connector.clone(), clear_text),
        connector,
    };
    gateway.serve(upstream, stop).await;
    Ok(())
}
