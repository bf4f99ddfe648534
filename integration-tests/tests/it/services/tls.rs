//! TLS at the real programs: renewed certificates are taken up while streams go on, and nobody talks to a server whose
//! authority it does not know.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::harness::Access;
use rendezvous_integration_tests::registry::{self, Registry, Role};
use rendezvous_integration_tests::relay::{self, Relay};
use rendezvous_integration_tests::site::ENVIRONMENT;
use rendezvous_integration_tests::tls::{Authority, ServerFiles};
use rendezvous_integration_tests::{Context, Program, executor, wait};
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::outage::talk;
use crate::ours::shell;

const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A registry with TLS, and perhaps a relay of its own with TLS.
struct Hall {
    cx: Context,
    registry: Registry,
    registry_files: ServerFiles,
    relay: Option<(Relay, ServerFiles)>,
    executor_token: String,
    harness_token: String,
}

impl Hall {
    /// The registry's certificate is `authority`'s; there is an own relay if `relays` is somebody.
    async fn open(cx: &Context, authority: &Authority, relays: Option<&Authority>) -> Result<Self> {
        let registry_files = authority.server(cx, "registry", &[HOST])?;
        let options = registry::Options {
            embedded_relay: relays.is_none(),
            tls: Some(registry_files.clone()),
            ..registry::Options::default()
        };
        let registry = Registry::start(cx, options).await?;
        registry.environment(ENVIRONMENT).await?;
        let relay = match relays {
            None => None,
            Some(relays) => {
                let files = relays.server(cx, "relay", &[HOST])?;
                let token = registry.credential(Role::Relay, None).await?;
                // The registry must know the relay's port before the relay listens.
                let free = std::net::TcpListener::bind((HOST, 0))?.local_addr()?;
                let options = relay::Options {
                    listen: free.to_string(),
                    tls: Some(files.clone()),
                    ca_file: Some(authority.file()),
                    ..relay::Options::new(registry.url(), &token, &format!("wss://{free}"))
                };
                Some((Relay::start(cx, options).await?, files))
            }
        };
        Ok(Self {
            cx: cx.clone(),
            executor_token: registry.credential(Role::Executor, Some(ENVIRONMENT)).await?,
            harness_token: registry.credential(Role::Harness, Some(ENVIRONMENT)).await?,
            registry,
            registry_files,
            relay,
        })
    }

    fn executor(&self, ca_file: Option<PathBuf>) -> Result<executor::Options> {
        let (registry, token) = (self.registry.url(), self.executor_token.clone());
        Ok(executor::Options {
            ca_file,
            ..executor::Options::new(&self.cx, registry, ENVIRONMENT, token)?
        })
    }

    fn access(&self, ca_file: Option<PathBuf>) -> Access {
        Access {
            registry: self.registry.url().into(),
            environment: ENVIRONMENT.into(),
            token: self.harness_token.clone(),
            ca_file,
            namespace: None,
        }
    }
}

pub(crate) async fn renewed_at_the_registry(cx: Context) -> Result<()> {
    let authority = Authority::new(&cx)?;
    let hall = Hall::open(&cx, &authority, None).await?;
    renewed(&hall, &authority).await
}

pub(crate) async fn renewed_at_both(cx: Context) -> Result<()> {
    let authority = Authority::new(&cx)?;
    let hall = Hall::open(&cx, &authority, Some(&authority)).await?;
    renewed(&hall, &authority).await
}

async fn renewed(hall: &Hall, authority: &Authority) -> Result<()> {
    let cx = &hall.cx;
    let _executor = executor::start_ours(cx, &hall.executor(Some(authority.file()))?).await?;
    let access = hall.access(Some(authority.file()));
    let script = "echo ready; while read line; do echo got-$line; [ $line = end ] && exit 4; done";
    let mut live = Program::start(cx, "harness", access.shell(cx, script)?)?;
    live.stdout().contains("ready\n", wait::SOON).await?;

    let mut servers = vec![(hall.registry.address()?, &hall.registry_files)];
    if let Some((relay, files)) = &hall.relay {
        servers.push((relay.address()?, files));
    }
    for (address, files) in servers {
        let shown = leaf(address, authority).await?;
        ensure!(
            shown == files.leaf()?,
            "{address} shows another certificate than its own"
        );
        let newer = authority.server(cx, "newer", &[HOST])?;
        let expected = newer.leaf()?;
        files.replace_with(&newer)?;
        wait::until(&format!("the new certificate of {address}"), wait::SOON, async || {
            let shown = leaf(address, authority).await;
            shown.is_ok_and(|shown| shown == expected).then_some(())
        })
        .await?;
        talk(&mut live, "on").await.context("on the stream from before")?;
    }
    let fresh = shell(cx, &access, "echo fresh").await?.success()?;
    ensure!(fresh.text() == "fresh\n", "{}", fresh.text());
    live.write(b"end\n").await?;
    let finished = live.finish(wait::SOON).await?;
    ensure!(
        finished.code == 4 && !finished.stderr.contains("lost"),
        "exit code {}: {}",
        finished.code,
        finished.stderr
    );
    Ok(())
}

/// The certificate that a server shows to a client that trusts `authority`.
async fn leaf(address: SocketAddr, authority: &Authority) -> Result<CertificateDer<'static>> {
    let socket = TcpStream::connect(address).await?;
    let connected = TlsConnector::from(authority.client()?).connect(ServerName::from(address.ip()), socket);
    let connected = tokio::time::timeout(wait::SOON, connected).await??;
    let shown = connected
        .get_ref()
        .1
        .peer_certificates()
        .and_then(|chain| chain.first());
    Ok(shown.context("a certificate")?.clone().into_owned())
}

/// Another authority, or the system's alone, is not enough, for either client.
pub(crate) async fn unknown_to_clients(cx: Context) -> Result<()> {
    let authority = Authority::new(&cx)?;
    let hall = Hall::open(&cx, &authority, None).await?;
    let other = Authority::named(&cx, "other")?;
    for ca_file in [Some(other.file()), None] {
        let mut program = executor::start(&cx, End::Ours, &hall.executor(ca_file.clone())?)?;
        let ended = program.finish(wait::SOON).await?;
        ensure!(
            ended.code == 69 && ended.stderr.contains("certificate"),
            "executor with {ca_file:?}: exit code {}: {}",
            ended.code,
            ended.stderr
        );
        let ended = shell(&cx, &hall.access(ca_file.clone()), "echo never").await?;
        ensure!(
            ended.code == 69 && ended.stderr.contains("certificate") && ended.stdout.is_empty(),
            "harness with {ca_file:?}: exit code {}: {}",
            ended.code,
            ended.stderr
        );
    }
    // The control: with the right one both get through.
    let _executor = executor::start_ours(&cx, &hall.executor(Some(authority.file()))?).await?;
    shell(&cx, &hall.access(Some(authority.file())), "true")
        .await?
        .success()?;
    Ok(())
}

/// The registry may be trusted, and the relay that it names not.
pub(crate) async fn relay_unknown_to_a_harness(cx: Context) -> Result<()> {
    let (authority, other) = (Authority::new(&cx)?, Authority::named(&cx, "other")?);
    let hall = Hall::open(&cx, &authority, Some(&other)).await?;
    let both = cx.folder().join("both.pem");
    let certificates = [std::fs::read(authority.file())?, std::fs::read(other.file())?];
    std::fs::write(&both, certificates.concat())?;
    let _executor = executor::start_ours(&cx, &hall.executor(Some(both.clone()))?).await?;
    shell(&cx, &hall.access(Some(both)), "true").await?.success()?;
    let ended = shell(&cx, &hall.access(Some(authority.file())), "echo never").await?;
    ensure!(
        ended.code == 69 && ended.stderr.contains("relay") && ended.stderr.contains("certificate"),
        "exit code {}: {}",
        ended.code,
        ended.stderr
    );
    ensure!(ended.stdout.is_empty(), "{}", ended.text());
    Ok(())
}

/// A relay shows its credential to a registry with a certificate that it trusts, and to nobody else.
pub(crate) async fn unknown_to_a_relay(cx: Context) -> Result<()> {
    const TOKEN: &str = "rdv_the-credential-of-the-relay-that-must-not-leak";
    let (authority, other) = (Authority::new(&cx)?, Authority::named(&cx, "other")?);
    let files = authority.server(&cx, "registry", &[HOST])?;
    let listener = TcpListener::bind((HOST, 0)).await?;
    let url = format!("https://{}", listener.local_addr()?);
    let trap = Arc::new(Trap::default());
    tokio::spawn(Arc::clone(&trap).listen(listener, TlsAcceptor::from(files.server()?)));

    let mut options = relay::Options {
        ca_file: Some(other.file()),
        ..relay::Options::new(&url, TOKEN, "ws://relay.test")
    };
    let mut relay = Program::start(&cx, "distrustful", relay::command(&cx, &options)?)?;
    // It tries again, and shows nothing then either.
    wait::until_true("attempts of the relay", wait::SOON, || trap.refused() >= 2).await?;
    ensure!(relay.is_running(), "the relay gave up");
    ensure!(relay.stdout().text().is_empty(), "{}", relay.stdout().text());
    relay.kill().await?;
    ensure!(trap.heard().is_empty(), "the relay sent: {}", trap.heard());

    options.ca_file = Some(authority.file());
    let _relay = Program::start(&cx, "trusting", relay::command(&cx, &options)?)?;
    wait::until_true("the credential", wait::SOON, || {
        trap.heard().contains(&format!("Bearer {TOKEN}"))
    })
    .await
}

/// A TLS server that remembers what clients say inside TLS, and answers nothing.
#[derive(Default)]
struct Trap {
    state: Mutex<(usize, Vec<u8>)>,
}

impl Trap {
    async fn listen(self: Arc<Self>, listener: TcpListener, acceptor: TlsAcceptor) {
        while let Ok((socket, _)) = listener.accept().await {
            let (trap, acceptor) = (Arc::clone(&self), acceptor.clone());
            tokio::spawn(async move {
                let Ok(mut socket) = acceptor.accept(socket).await else {
                    trap.state.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
                    return;
                };
                let mut buffer = vec![0; 4096];
                while let Ok(n @ 1..) = socket.read(&mut buffer).await {
                    let mut state = trap.state.lock().unwrap_or_else(PoisonError::into_inner);
                    state.1.extend_from_slice(&buffer[..n]);
                }
            });
        }
    }

    /// Handshakes that clients broke off.
    fn refused(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    fn heard(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&state.1).into_owned()
    }
}
