//! `registry serve`

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use clap::Args;
use ipnet::IpNet;
use rendezvous_service::admin::Admin;
use rendezvous_service::args::{AdminArgs, TlsArgs};
use rendezvous_service::exit::{Exit, Failure};
use rendezvous_service::listener::Server;
use rendezvous_service::{admin, files, shutdown};

use super::{DatabaseArgs, failed, say};
use crate::address::TrustedProxies;
use crate::app::{App, Options};
use crate::clock::Clock;
use crate::rate::Rate;
use crate::server::{Registry, local_url, public_url};
use crate::store::Access;
use crate::ticket::{self, Signer};

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", env = "REGISTRY_LISTEN")]
    listen: SocketAddr,
    /// URL that executors, harnesses and relays reach this registry by, with the base path if there is one; the address
    /// listened on without
    #[arg(long, value_name = "URL", env = "REGISTRY_PUBLIC_URL")]
    public_url: Option<String>,
    /// Run a relay in this process, on the same listener
    #[arg(long, env = "REGISTRY_EMBEDDED_RELAY")]
    embedded_relay: bool,
    /// Calls that each credential may make per minute over a long time
    #[arg(
        long,
        value_name = "N",
        default_value = "600",
        env = "REGISTRY_RATE_PER_MINUTE",
        help_heading = "Rates"
    )]
    rate_per_minute: NonZeroU32,
    /// Calls that each credential may make at once after a pause
    #[arg(
        long,
        value_name = "N",
        default_value = "300",
        env = "REGISTRY_RATE_BURST",
        help_heading = "Rates"
    )]
    rate_burst: NonZeroU32,
    /// Failed authentications per minute from each address, or IPv6 /64 network
    #[arg(
        long,
        value_name = "N",
        default_value = "30",
        env = "REGISTRY_RATE_FAILED_PER_MINUTE",
        help_heading = "Rates"
    )]
    rate_failed_per_minute: NonZeroU32,
    /// Failed authentications at once after a pause
    #[arg(
        long,
        value_name = "N",
        default_value = "20",
        env = "REGISTRY_RATE_FAILED_BURST",
        help_heading = "Rates"
    )]
    rate_failed_burst: NonZeroU32,
    /// Network of proxies whose Forwarded or X-Forwarded-For headers tell the client's address; repeatable
    #[arg(
        long,
        value_name = "CIDR",
        env = "REGISTRY_TRUSTED_PROXY",
        value_delimiter = ',',
        help_heading = "Rates"
    )]
    trusted_proxy: Vec<IpNet>,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

impl ServeArgs {
    fn options(&self) -> Options {
        Options {
            rate: Rate {
                per_minute: self.rate_per_minute,
                burst: self.rate_burst,
            },
            failed_rate: Rate {
                per_minute: self.rate_failed_per_minute,
                burst: self.rate_failed_burst,
            },
            trusted_proxies: TrustedProxies::new(self.trusted_proxy.clone()),
        }
    }
}

pub(super) async fn run(args: ServeArgs, database: &DatabaseArgs) -> Result<(), Failure> {
    files::raise_limit();
    let stop = shutdown::signal().map_err(|error| Failure::new(Exit::Runtime, error))?;
    let public = args
        .public_url
        .as_deref()
        .map(public_url)
        .transpose()
        .map_err(Failure::usage)?;
    let tls = args.tls.load().map_err(Failure::usage)?;
    let store = database.open(Access::Create).await?;
    let clock = Clock::system();
    let candidate = ticket::generate(clock.now()).map_err(|error| Failure::new(Exit::Runtime, error))?;
    let keys = store.signing_keys(&candidate).await.map_err(failed)?;
    let signer = Signer::new(&keys).map_err(|error| Failure::new(Exit::Runtime, error))?;
    let app = App::new(store, clock, signer, args.options(), stop.clone());
    let operators = args.admin.admin_listen.map(Admin::bind).transpose();
    let operators = operators.map_err(|error| Failure::new(Exit::Runtime, error))?;
    let server = Server::bind(args.listen, tls).map_err(|error| Failure::new(Exit::Runtime, error))?;
    let url = local_url(server.local_addr(), server.is_tls());
    let public = match public {
        Some(public) => public,
        None => public_url(&url).map_err(Failure::usage)?,
    };
    let registry = Registry::new(app, &public, args.embedded_relay);
    let operators = operators.map(|operators| {
        let readiness: admin::Readiness = Arc::new(registry.readiness());
        tokio::spawn(operators.serve(readiness, stop.clone()))
    });
    let ready = registry.ready();
    let announced = async {
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = ready => {}
        }
        // Scripts wait for this line; without it nobody knows the address.
        let said = say(&format!("registry listening on {url}"));
        if said.is_err() {
            stop.cancel();
        }
        said
    };
    let (announced, ()) = tokio::join!(announced, registry.serve(server));
    if let Some(operators) = operators {
        operators.abort();
    }
    announced
}
