//! Command line of the relay.

mod cli;

use std::io::Write as _;
use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use rendezvous_relay::Relay;
use rendezvous_relay::control::client::{self, Registry};
use rendezvous_service::admin::Admin;
use rendezvous_service::exit::{self, Exit, Failure};
use rendezvous_service::listener::Server;
use rendezvous_service::net::Peer;
use rendezvous_service::{files, logging, shutdown};
use tokio_util::sync::CancellationToken;

use cli::{Cli, Command, Serve};

fn main() -> Exit {
    let cli = match exit::parse::<Cli>() {
        Ok(cli) => cli,
        Err(exit) => return exit,
    };
    match run(cli) {
        Ok(()) => Exit::Ok,
        Err(error) => exit::report("relay", error.as_ref()),
    }
}

#[tokio::main]
async fn run(cli: Cli) -> anyhow::Result<()> {
    logging::init(&cli.logs)?;
    files::raise_limit();
    match cli.command {
        Command::Serve(arguments) => serve(*arguments).await,
    }
}

async fn serve(arguments: Serve) -> anyhow::Result<()> {
    let config = arguments.config()?;
    let registry = Registry::new(&arguments.options()?).map_err(Failure::usage)?;
    let tls = arguments.tls.load()?;
    let stop = shutdown::signal().context("cannot listen to signals")?;
    // Metrics are recorded from here on, so this comes before the relay.
    let admin = arguments.admin.admin_listen.map(Admin::bind).transpose()?;
    let server = Server::bind(arguments.listen, tls)?;
    let relay = Relay::detached(config);
    let gone = CancellationToken::new();
    let mut control = tokio::spawn(client::run(relay.clone(), registry, gone.clone()));
    if let Some(admin) = admin {
        let relay = relay.clone();
        let readiness = move || not_ready(&relay);
        tokio::spawn(admin.serve(Arc::new(readiness), gone.clone()));
    }
    tokio::spawn(announce(relay.clone(), server.local_addr(), server.is_tls()));
    let listening = CancellationToken::new();
    let accept = tokio::spawn(server.serve(handler(relay.clone()), listening.clone()));
    tokio::select! {
        () = stop.cancelled() => {}
        // It ends by itself only when it cannot succeed.
        ended = &mut control => {
            return ended?.map_err(|error| {
                let exit = if error.is_not_authorized() { Exit::NotAuthorized } else { Exit::Usage };
                Failure::new(exit, error).into()
            });
        }
    }
    // New connections are refused with 503 while the old ones are told to leave.
    relay.drain().await;
    listening.cancel();
    accept.await?;
    gone.cancel();
    control.await??;
    Ok(())
}

/// Says on stdout that harnesses and executors can come, once that is true.
async fn announce(relay: Relay, address: std::net::SocketAddr, tls: bool) {
    relay.ready().await;
    let scheme = if tls { "wss" } else { "ws" };
    // Whoever closed stdout does not want to know.
    let _ = writeln!(std::io::stdout(), "relay listening on {scheme}://{address}");
}

fn not_ready(relay: &Relay) -> Vec<String> {
    let mut reasons = Vec::new();
    if relay.is_draining() {
        reasons.push("draining".to_owned());
    } else if !relay.is_ready() {
        reasons.push("the registry's keys are not known yet".to_owned());
    }
    reasons
}

type Answer = std::pin::Pin<Box<dyn Future<Output = Response<Full<Bytes>>> + Send>>;

fn handler(relay: Relay) -> impl Fn(Request<Incoming>, Peer) -> Answer + Clone + Send + Sync + 'static {
    move |request, peer| {
        let relay = relay.clone();
        Box::pin(async move {
            if request.uri().path().starts_with("/relay/") {
                return relay.handle(request, peer).await;
            }
            let mut response = Response::new(Full::default());
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        })
    }
}
