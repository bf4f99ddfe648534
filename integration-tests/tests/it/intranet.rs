//! A server that only the executor's network leads to: the harness asks it through the executor.
//!
//! ```text
//! harness 10.77.0.2 -- NAT --+-- 198.51.100.1:8443 registry with relay
//!                            +-- NAT -- 10.77.0.2 executor 10.88.0.1 -- 10.88.0.2:80 the server
//! ```

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rendezvous_harness::http::{HttpRequest, RedirectPolicy};
use rendezvous_harness::options::ClearText;
use rendezvous_harness::{Harness, HarnessError, Options};
use rendezvous_integration_tests::netns::{Namespace, PrivateNetwork};
use rendezvous_integration_tests::registry::{self, Registry, Role};
use rendezvous_integration_tests::tls::Authority;
use rendezvous_integration_tests::{Context, Program, executor};
use rendezvous_wire::secret::Secret;

use crate::memory::{self, Web};
use crate::runner::{Case, When};

const ENVIRONMENT: &str = "intranet";
const REGISTRY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), 8443);
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 88, 0, 2)), 80);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("intranet::64_mib", When::Always, |cx| play(cx, 64 << 20)),
        Case::new("intranet::1_gib", When::Full, |cx| play(cx, 1 << 30)),
    ]
}

async fn play(cx: Context, length: usize) -> Result<()> {
    let public = Namespace::new("public")?;
    public.ip(&format!("addr add {}/32 dev lo", REGISTRY.ip()))?;
    let far = PrivateNetwork::behind(&public, 0, "far")?;
    let near = PrivateNetwork::behind(&public, 1, "near")?;
    let server = Namespace::new("server")?;
    far.machine.wire("intranet", &server, "eth0")?;
    far.machine.ip("addr add 10.88.0.1/24 dev intranet")?;
    far.machine.ip("link set intranet up")?;
    server.ip(&format!("addr add {}/24 dev eth0", SERVER.ip()))?;
    server.ip("link set eth0 up")?;
    let listener = server.within(|| Ok(TcpListener::bind(SERVER)?))?;
    listener.set_nonblocking(true)?;
    let web = Web::start(tokio::net::TcpListener::from_std(listener)?, length)?;

    let authority = Authority::new(&cx)?;
    let options = registry::Options {
        embedded_relay: true,
        listen: REGISTRY.to_string(),
        public_url: Some(format!("https://{REGISTRY}")),
        tls: Some(authority.server(&cx, "service", &[REGISTRY.ip()])?),
        namespace: Some(public.clone()),
        ..registry::Options::default()
    };
    let registry = Registry::start(&cx, options).await?;
    registry.environment(ENVIRONMENT).await?;
    let token = registry.credential(Role::Executor, Some(ENVIRONMENT)).await?;
    let url = format!("https://{REGISTRY}");
    let options = executor::Options {
        ca_file: Some(authority.file()),
        namespace: Some(far.machine.clone()),
        ..executor::Options::new(&cx, &url, ENVIRONMENT, token)?
    };
    let executor = Arc::new(executor::start_ours(&cx, &options).await?);
    let token = registry.credential(Role::Harness, Some(ENVIRONMENT)).await?;
    let mut options = Options::new(
        Some(&url),
        Some(ENVIRONMENT),
        Some(Secret::new(token)),
        ClearText::Loopback,
    )?;
    options.ca_file = Some(authority.file());

    let (program, machine) = (Arc::clone(&executor), near.machine.clone());
    let asked = tokio::task::spawn_blocking(move || {
        machine.within(move || {
            let direct = TcpStream::connect_timeout(&SERVER, Duration::from_secs(5));
            ensure!(direct.is_err(), "the harness's machine reaches the server itself");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(ask(options, &web, &program, length))
        })
    });
    asked.await?
}

/// Runs inside the harness's network.
async fn ask(options: Options, web: &Web, executor: &Program, length: usize) -> Result<()> {
    let harness = Harness::connect(options).await?;
    harness.status().await?;
    policies(&harness, web, length).await?;

    let idle = executor.resident()?;
    let received = memory::peak(executor, idle, memory::receive(&harness, &web.url("moved"), length)).await?;
    let sent = memory::peak(executor, idle, memory::send(&harness, &web.url(""), length)).await?;
    let costs = [("streaming a response", received), ("sending bodies", sent)];
    memory::report(length, idle, &costs);
    for (what, cost) in costs {
        ensure!(cost <= memory::ALLOWED, "{what} cost {} MiB", cost >> 20);
    }
    Ok(())
}

/// Redirects, time and size, as the executor keeps them.
async fn policies(harness: &Harness, web: &Web, length: usize) -> Result<()> {
    let mut request = HttpRequest::new("GET", web.url("moved"));
    request.redirects = RedirectPolicy::Stop;
    let response = harness.http(request.clone()).await?;
    let leads = response
        .headers
        .iter()
        .any(|header| header.name == "location" && header.value == "/");
    ensure!(response.status == 302 && leads, "{response:?}");

    request.redirects = RedirectPolicy::Follow;
    let mut followed = harness.http_stream(request.clone()).await?;
    ensure!(followed.status == 200, "{followed:?}");
    followed.next().await?.context("a body")?;
    drop(followed);

    let mut silent = HttpRequest::new("GET", web.url("silent"));
    silent.timeout = Some(Duration::from_millis(300));
    let late = harness.http(silent).await.err().context("nobody answers")?;
    ensure!(matches!(&late, HarnessError::Refused(_)), "{late:?}");

    ensure!(length > 48 << 20, "the body is too small to be too large");
    let large = harness.http(request).await.err().context("the body does not fit")?;
    ensure!(large.to_string().contains("response body exceeds"), "{large:?}");
    Ok(())
}
